//! The way to a daemon: its address and a token, from flags, the environment, or its folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::failure::Failure;
use crate::web::{ADDRESS, ADMIN_TOKEN, Problem};

/// How long an answer may take; longer than the daemon gives itself.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long it may take to reach it.
const REACH: Duration = Duration::from_secs(5);
/// The folder of a daemon when nobody says.
const FOLDER: &str = "trainyard-live";

/// Where the daemon is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Place {
    /// The daemon's folder, where its address and the administrator's token are [default: trainyard-live].
    #[arg(long, value_name = "DIR", env = "TRAINYARD_FOLDER")]
    folder: Option<PathBuf>,
    /// The daemon's address, in place of the one in its folder.
    #[arg(long, value_name = "URL", env = "TRAINYARD_URL")]
    url: Option<String>,
    /// A token, in place of the administrator's in the folder.
    #[arg(long, value_name = "TOKEN", env = "TRAINYARD_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The certificate that the daemon's one is signed with, in PEM, in place of those that are usual.
    #[arg(long, value_name = "FILE", env = "TRAINYARD_CA_CERT")]
    ca_cert: Option<PathBuf>,
}

/// Why a daemon did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing says where one is.
    #[error(
        "no daemon is known in {}: there is no file `{ADDRESS}` in it; start one with `trainyard serve`, or say where it is \
         with --url or --folder", .folder.display()
    )]
    NoAddress {
        /// The folder that was looked in.
        folder: PathBuf,
    },
    /// Nothing says which token.
    #[error("there is no token: {} cannot be read; give one with --token or TRAINYARD_TOKEN", .path.display())]
    NoToken {
        /// The file that was looked for.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// None answers.
    #[error("no daemon answers at {url}; start it with `trainyard serve`, or say where it is with --url")]
    NoAnswer {
        /// Where it was asked.
        url: String,
        /// What happened.
        source: Box<ureq::Error>,
    },
    /// It says why not.
    #[error("{}; {}", .0.detail, .0.remedy)]
    Refused(Box<Problem>),
    /// Something else answers.
    #[error("what answers at {url} is no daemon of this program (status {status}); check the address")]
    Stranger {
        /// Where it was asked.
        url: String,
        /// What it said.
        status: u16,
    },
    /// A certificate that cannot be used.
    #[error("{}: {why}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A file that describes a job makes no sense.
    #[error("{}: {message}", .path.display())]
    JobFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// An argument that makes no sense.
    #[error("`{given}`: {message}")]
    Given {
        /// The argument.
        given: String,
        /// What is wrong.
        message: String,
    },
}

impl ClientError {
    /// The documented exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoAddress { .. } | Self::NoAnswer { .. } | Self::Stranger { .. } => 4,
            Self::Refused(problem) if problem.status == 503 || problem.status == 504 => 4,
            Self::Refused(problem) if problem.status >= 500 => 1,
            _ => 2,
        }
    }
}

/// A way to a daemon.
pub(crate) struct Connection {
    agent: Agent,
    url: String,
    token: String,
}

impl Place {
    /// The way to it. Nothing is sent yet.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        self.connect_with(Some(PATIENCE))
    }

    /// The same for what may go on for as long as it likes.
    pub(crate) fn connect_for_long(&self) -> Result<Connection, Failure> {
        self.connect_with(None)
    }

    fn connect_with(&self, patience: Option<Duration>) -> Result<Connection, Failure> {
        let folder = self.folder.clone().unwrap_or_else(|| FOLDER.into());
        let url = match &self.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let text = std::fs::read_to_string(folder.join(ADDRESS));
                let text = text.map_err(|_| ClientError::NoAddress { folder: folder.clone() })?;
                text.trim().to_owned()
            }
        };
        let token = match &self.token {
            Some(token) => token.trim().to_owned(),
            None => {
                let path = folder.join(ADMIN_TOKEN);
                let text = std::fs::read_to_string(&path);
                text.map_err(|source| ClientError::NoToken { path, source })?.trim().to_owned()
            }
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(REACH))
            .timeout_global(patience);
        if let Some(path) = &self.ca_cert {
            config = config.tls_config(trusting(path)?);
        }
        Ok(Connection { agent: config.build().into(), url, token })
    }
}

fn trusting(path: &Path) -> Result<ureq::tls::TlsConfig, Failure> {
    use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
    let bytes = std::fs::read(path).map_err(Failure::file("read", path))?;
    let mut roots = Vec::new();
    for item in parse_pem(&bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
            Ok(_) => {}
            Err(error) => {
                return Err(ClientError::Certificate { path: path.to_owned(), why: error.to_string() }.into());
            }
        }
    }
    if roots.is_empty() {
        let why = "there is no certificate in it".to_owned();
        return Err(ClientError::Certificate { path: path.to_owned(), why }.into());
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build())
}

/// A word as a part of a path or of what follows its question mark.
pub(crate) fn escaped(word: &str) -> String {
    use std::fmt::Write as _;
    word.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

impl Connection {
    /// Asks for something.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let sent = self.agent.get(self.at(path)).header("authorization", self.bearer()).call();
        self.read(self.checked(sent)?)
    }

    /// Asks for text.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        let mut response = self.stream(path, "text/plain")?;
        response.body_mut().read_to_string().map_err(|error| self.no_answer(error))
    }

    /// Asks for something that may go on.
    pub(crate) fn stream(&self, path: &str, accept: &str) -> Result<Response<Body>, Failure> {
        let request = self.agent.get(self.at(path)).header("authorization", self.bearer());
        self.checked(request.header("accept", accept).call())
    }

    /// Sends something new.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<T, Failure> {
        let mut request = self.agent.post(self.at(path)).header("authorization", self.bearer());
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.read(self.checked(request.send_json(body))?)
    }

    /// Sends a command that has no more to say.
    pub(crate) fn post_nothing<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let sent = self.agent.post(self.at(path)).header("authorization", self.bearer()).send_empty();
        self.read(self.checked(sent)?)
    }

    /// Puts something in the place of what is there.
    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let request = self.agent.put(self.at(path)).header("authorization", self.bearer());
        self.read(self.checked(request.send_json(body))?)
    }

    /// Takes something away.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let sent = self.agent.delete(self.at(path)).header("authorization", self.bearer()).call();
        self.read(self.checked(sent)?)
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn no_answer(&self, error: ureq::Error) -> Failure {
        ClientError::NoAnswer { url: self.url.clone(), source: Box::new(error) }.into()
    }

    fn stranger(&self, status: StatusCode) -> Failure {
        ClientError::Stranger { url: self.url.clone(), status: status.as_u16() }.into()
    }

    fn checked(&self, sent: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Failure> {
        let mut response = sent.map_err(|error| self.no_answer(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let problem: Problem = serde_json::from_str(&text).map_err(|_| self.stranger(status))?;
        Err(ClientError::Refused(Box::new(problem)).into())
    }

    fn read<T: DeserializeOwned>(&self, mut response: Response<Body>) -> Result<T, Failure> {
        let status = response.status();
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string();
        let text = text.map_err(|error| self.no_answer(error))?;
        let text = if text.is_empty() { "null" } else { &text };
        serde_json::from_str(text).map_err(|_| self.stranger(status))
    }
}
