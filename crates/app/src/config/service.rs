//! The settings of `trainyard serve`: from a file, over which the environment goes, over which flags go. Each key has one
//! name everywhere: `policy-budget-s` in the file, `--policy-budget-s` as a flag, `TRAINYARD_POLICY_BUDGET_S` in the
//! environment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use serde::{Deserialize, Serialize};

use super::this_machine::GpuChoice;
use super::words::seed;
use crate::failure::Failure;
use crate::web::meant;

/// What may be set; what is not set here may be set by a layer below.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct ServiceLayer {
    /// Where the daemon keeps everything [default: trainyard-live].
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    /// Where it listens; port 0 is any that is free [default: 127.0.0.1:7707].
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listen: Option<SocketAddr>,
    /// The machines: words, or a file [default: the cores of this machine].
    #[arg(long, value_name = "WORDS|FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    /// What the GPUs of the cluster are: this machine's, or virtual ones [default: auto].
    #[arg(long, value_name = "auto|real|virtual")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gpus: Option<GpuChoice>,
    /// The NVIDIA driver's library, where it is not found by itself.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nvml: Option<PathBuf>,
    /// Who decides in a new folder; one that was used before keeps its policy [default: fifo]. mlf-c(NAME) puts load control
    /// around any policy.
    #[arg(long, value_name = "POLICY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    /// The seed of a new folder [default: 0].
    #[arg(long, value_parser = seed)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    /// The certificate, in PEM, for TLS.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// For so many milliseconds requests are gathered for one decision [default: 5].
    #[arg(long, value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settle_ms: Option<u32>,
    /// For so many seconds a policy may think before its cycle is lost [default: 5].
    #[arg(long, value_name = "S")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy_budget_s: Option<f64>,
    /// Listen beyond this machine without TLS: tokens can then be read by others on the way.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) insecure: Option<bool>,
    /// Take no new jobs.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "true|false", require_equals = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drain: Option<bool>,
}

/// A layer as clap reads it.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Alone {
    #[command(flatten)]
    layer: ServiceLayer,
}

/// The settings, all of them.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Where the daemon keeps everything.
    pub(crate) folder: PathBuf,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// The machines, if anybody said.
    pub(crate) cluster: Option<String>,
    /// What its GPUs are.
    pub(crate) gpus: GpuChoice,
    /// The NVIDIA driver's library, if anybody said.
    pub(crate) nvml: Option<PathBuf>,
    /// Who decides.
    pub(crate) policy: String,
    /// The seed.
    pub(crate) seed: u64,
    /// Certificate and key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// How long requests are gathered.
    pub(crate) settle: std::time::Duration,
    /// How long a policy may think.
    pub(crate) budget: std::time::Duration,
    /// Whether it takes no new jobs.
    pub(crate) drain: bool,
    /// Every setting with where it comes from.
    pub(crate) explained: Vec<Explained>,
}

/// One setting and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Explained {
    /// The key.
    pub(crate) key: String,
    /// Its value; none where nothing is set.
    pub(crate) value: Option<String>,
    /// `file`, `environment`, `flag` or `default`.
    pub(crate) from: String,
}

/// Why settings make no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    /// The file is not as it should be.
    #[error("{}:{line}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// A variable of the environment is not understood.
    #[error("{variable}={value}: {message}")]
    Variable {
        /// The variable.
        variable: String,
        /// Its value.
        value: String,
        /// What is wrong.
        message: String,
    },
    /// Half of what TLS needs.
    #[error("`{given}` needs `{missing}` too: TLS takes a certificate and its key")]
    HalfTls {
        /// What was given.
        given: &'static str,
        /// What was not.
        missing: &'static str,
    },
    /// Others could read the tokens.
    #[error(
        "{address} can be reached from other machines, and without TLS tokens could be read on the way; give --tls-cert and \
         --tls-key, listen on 127.0.0.1, or say --insecure"
    )]
    Open {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// A length of time that cannot be.
    #[error("`{key}`: {value} is no length of time from 0 up to 3600 s")]
    Length {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Service {
    /// All settings, from a file if there is one, the environment, and flags.
    pub(crate) fn resolve(file: Option<&Path>, flags: &ServiceLayer) -> Result<Self, Failure> {
        let from_file = file.map(read_file).transpose()?.unwrap_or_default();
        let variables = |key: &str| std::env::var(variable(key)).ok();
        let environment = read_environment(variables)?;
        Self::of([("file", &from_file), ("environment", &environment), ("flag", flags)])
    }

    fn of(layers: [(&'static str, &ServiceLayer); 3]) -> Result<Self, Failure> {
        let mut set = toml::Table::new();
        let mut from = std::collections::BTreeMap::new();
        for (name, layer) in layers {
            let table = toml::Table::try_from(layer).expect("settings are a table");
            from.extend(table.keys().map(|key| (key.clone(), name)));
            set.extend(table);
        }
        let explained = keys().into_iter().map(|key| {
            let value =
                set.get(&key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            let usual =
                DEFAULTS.iter().find(|(known, _)| *known == key).map(|(_, value)| (*value).to_owned());
            let from = from.get(&key).map_or("default", |from| *from).to_owned();
            Explained { value: value.or(usual), from, key }
        });
        let explained = explained.collect();
        let layer: ServiceLayer = set.try_into().expect("they were settings before");
        let listen = layer.listen.unwrap_or_else(|| DEFAULTS[1].1.parse().expect("an address"));
        let tls = match (layer.tls_cert, layer.tls_key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(ServiceError::HalfTls { given: "tls-cert", missing: "tls-key" }.into());
            }
            (None, Some(_)) => {
                return Err(ServiceError::HalfTls { given: "tls-key", missing: "tls-cert" }.into());
            }
        };
        if tls.is_none() && !listen.ip().is_loopback() && !layer.insecure.unwrap_or(false) {
            return Err(ServiceError::Open { address: listen }.into());
        }
        Ok(Self {
            folder: layer.folder.unwrap_or_else(|| DEFAULTS[0].1.into()),
            listen,
            cluster: layer.cluster,
            gpus: layer.gpus.unwrap_or_default(),
            nvml: layer.nvml,
            policy: layer.policy.unwrap_or_else(|| "fifo".to_owned()),
            seed: layer.seed.unwrap_or(0),
            tls,
            settle: length("settle-ms", f64::from(layer.settle_ms.unwrap_or(5)) / 1e3)?,
            budget: length("policy-budget-s", layer.policy_budget_s.unwrap_or(5.0))?,
            drain: layer.drain.unwrap_or(false),
            explained,
        })
    }
}

/// What holds when nobody says anything.
const DEFAULTS: [(&str, &str); 9] = [
    ("folder", "trainyard-live"),
    ("listen", "127.0.0.1:7707"),
    ("gpus", "auto"),
    ("policy", "fifo"),
    ("seed", "0"),
    ("settle-ms", "5"),
    ("policy-budget-s", "5"),
    ("insecure", "false"),
    ("drain", "false"),
];

fn length(key: &'static str, value_s: f64) -> Result<std::time::Duration, Failure> {
    let good = (0.0..=3600.0).contains(&value_s);
    let wrong = || ServiceError::Length { key, value: value_s };
    Ok(good.then(|| std::time::Duration::from_secs_f64(value_s)).ok_or_else(wrong)?)
}

/// All keys, in the order of the flags.
fn keys() -> Vec<String> {
    let command = Alone::command();
    command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

fn variable(key: &str) -> String {
    format!("TRAINYARD_{}", key.to_uppercase().replace('-', "_"))
}

/// Reads the file.
pub(crate) fn read_file(path: &Path) -> Result<ServiceLayer, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::file("read", path))?;
    parse(path, &text).map_err(Failure::from)
}

fn parse(path: &Path, text: &str) -> Result<ServiceLayer, ServiceError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        let line = before.matches('\n').count() + 1;
        let message = error.message();
        let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let message = match unknown {
            Some(unknown) => {
                let all = keys();
                let nearest = meant(unknown, all.iter().map(String::as_str));
                format!("unknown key `{unknown}`{nearest}; known are {}", all.join(", "))
            }
            None => message.to_owned(),
        };
        ServiceError::File { path: path.to_owned(), line, message }
    })
}

fn read_environment(variables: impl Fn(&str) -> Option<String>) -> Result<ServiceLayer, ServiceError> {
    let mut words = Vec::new();
    for key in keys() {
        let Some(value) = variables(&key) else { continue };
        let word = format!("--{key}={value}");
        if let Err(error) = Alone::try_parse_from([&word]) {
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Err(ServiceError::Variable { variable: variable(&key), value, message });
        }
        words.push(word);
    }
    let matches = Alone::command().try_get_matches_from(words).expect("each was read by itself");
    Ok(Alone::from_arg_matches(&matches).expect("they match").layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(words: &[&str]) -> ServiceLayer {
        Alone::try_parse_from(words).unwrap().layer
    }

    #[test]
    fn flags_go_over_the_environment_and_that_over_the_file() {
        let file = parse(Path::new("s.toml"), "policy = 'easy'\nseed = 3\nsettle-ms = 1\n").unwrap();
        let set = |key: &str| [("policy", "sjf"), ("seed", "4")].into_iter().find(|(k, _)| *k == key);
        let environment = read_environment(|key| set(key).map(|(_, value)| value.to_owned())).unwrap();
        let flags = layer(&["--policy", "srtf", "--insecure"]);
        let service =
            Service::of([("file", &file), ("environment", &environment), ("flag", &flags)]).unwrap();
        assert_eq!((service.policy.as_str(), service.seed, service.settle.as_millis()), ("srtf", 4, 1));
        let from = |key: &str| service.explained.iter().find(|one| one.key == key).unwrap().from.clone();
        assert_eq!(
            [from("policy"), from("seed"), from("settle-ms"), from("listen")],
            ["flag", "environment", "file", "default"]
        );
        assert_eq!(service.folder, PathBuf::from("trainyard-live"));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let wrong = |text: &str| parse(Path::new("s.toml"), text).unwrap_err().to_string();
        assert!(
            wrong("seed = 1\npolcy = 'fifo'\n")
                .starts_with("s.toml:2: unknown key `polcy`; did you mean `policy`?")
        );
        assert!(wrong("\nlisten = 'here'\n").starts_with("s.toml:2: "));
        let bad = read_environment(|key| (key == "seed").then(|| "x".to_owned())).unwrap_err().to_string();
        assert!(bad.starts_with("TRAINYARD_SEED=x: "), "{bad}");
    }

    #[test]
    fn nobody_listens_openly_by_accident() {
        let none = ServiceLayer::default();
        let of =
            |words: &[&str]| Service::of([("file", &none), ("environment", &none), ("flag", &layer(words))]);
        assert!(of(&["--listen", "0.0.0.0:1"]).unwrap_err().to_string().contains("--insecure"));
        assert!(of(&["--listen", "0.0.0.0:1", "--insecure"]).is_ok());
        assert!(of(&["--listen", "0.0.0.0:1", "--tls-cert", "c", "--tls-key", "k"]).is_ok());
        assert!(of(&["--tls-cert", "c"]).unwrap_err().to_string().contains("tls-key"));
        assert!(of(&["--policy-budget-s=-1"]).is_err());
    }
}
