//! The file that describes a model by its layers, as TOML or JSON, to be cut into parts. Described in `docs/partition.md`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use trainyard_sched::partition::Layer;
use trainyard_sim::trace::nearest;

/// Files that are longer describe no model.
const MOST_BYTES: u64 = 64 << 20;
/// What flows forward comes back as gradients.
const THERE_AND_BACK: u64 = 2;

/// Why a model cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    /// The file may not be read.
    #[error("cannot read the model {}: check the path and its permissions", .path.display())]
    Open {
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not understood.
    #[error("{file}: the model is not understood: {what}; see docs/partition.md")]
    Text {
        /// The file's name.
        file: String,
        /// What and where, with the nearest key.
        what: String,
    },
    /// A layer makes no sense.
    #[error("{file}: layer {layer}: {what}")]
    Layer {
        /// The file's name.
        file: String,
        /// Its name, or its number from 1.
        layer: String,
        /// What is wrong, and what to try.
        what: String,
    },
    /// Something that is needed is said nowhere.
    #[error("{file}: {what}")]
    Missing {
        /// The file's name.
        file: String,
        /// What, and how it can be said.
        what: &'static str,
    },
}

/// A model as it is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    name: Option<String>,
    compute_s: Option<f64>,
    mini_batch: Option<u64>,
    layers: Vec<LayerEntry>,
}

/// A layer as it is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerEntry {
    name: Option<String>,
    #[serde(default)]
    parameters: u64,
    compute: Option<f64>,
    activation_bytes: Option<u64>,
    after: Option<Vec<String>>,
}

const KEYS: [&str; 8] =
    ["name", "compute_s", "mini_batch", "layers", "parameters", "compute", "activation_bytes", "after"];

/// What the command line says in place of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelSettings {
    /// Seconds of computing in one iteration, all layers together.
    pub(crate) compute_s: Option<f64>,
    /// Samples in one iteration.
    pub(crate) mini_batch: Option<u64>,
    /// Bytes that a layer exchanges with another, of which the file says nothing.
    pub(crate) edge_bytes: Option<u64>,
}

/// A model, read and checked.
#[derive(Debug)]
pub(crate) struct Model {
    /// What it is called.
    pub(crate) name: String,
    /// Its layers, as they are cut.
    pub(crate) layers: Vec<Layer>,
    /// What they are called.
    pub(crate) names: Vec<String>,
}

impl Model {
    /// Reads a file.
    pub(crate) fn read(path: &Path, settings: ModelSettings) -> Result<Self, ModelError> {
        let open = |source| ModelError::Open { path: path.to_owned(), source };
        let length = std::fs::metadata(path).map_err(open)?.len();
        let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if length > MOST_BYTES {
            return Err(ModelError::Text { file, what: "it is longer than 64 MiB".to_owned() });
        }
        let text = std::fs::read_to_string(path).map_err(open)?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Self::parse(&file, &stem, &text, settings)
    }

    fn parse(file: &str, stem: &str, text: &str, settings: ModelSettings) -> Result<Self, ModelError> {
        let read = if text.trim_start().starts_with('{') {
            serde_json::from_str::<ModelFile>(text).map_err(|error| error.to_string())
        } else {
            toml::from_str::<ModelFile>(text).map_err(|error| error.to_string().trim_end().to_owned())
        };
        let read = read.map_err(|what| ModelError::Text { file: file.to_owned(), what: with_hint(what) })?;
        let names: Vec<String> = (1..)
            .zip(&read.layers)
            .map(|(i, layer)| layer.name.clone().unwrap_or_else(|| i.to_string()))
            .collect();
        let wrong = |i: usize, what: String| ModelError::Layer {
            file: file.to_owned(),
            layer: names[i].clone(),
            what,
        };
        let mut numbers = std::collections::BTreeMap::new();
        for (i, name) in names.iter().enumerate() {
            if numbers.insert(name.as_str(), i).is_some() {
                return Err(wrong(i, "another layer has the same name; names must differ".to_owned()));
            }
        }
        let compute = compute_s(file, &read, settings, &wrong)?;
        let mini_batch = settings.mini_batch.or(read.mini_batch);
        let mut layers = Vec::with_capacity(names.len());
        for (i, entry) in read.layers.iter().enumerate() {
            let after = match &entry.after {
                None => i.checked_sub(1).into_iter().collect(),
                Some(after) => after
                    .iter()
                    .map(|name| match numbers.get(name.as_str()) {
                        Some(before) if *before < i => Ok(*before),
                        Some(_) => Err(wrong(i, format!(
                            "it comes after `{name}`, which does not stand before it; sort the layers, a model has no cycle"
                        ))),
                        None => Err(wrong(i, format!(
                            "it comes after `{name}`, which is no layer; {}",
                            nearest(name, names.iter().map(String::as_str))
                        ))),
                    })
                    .collect::<Result<_, _>>()?,
            };
            let output_bytes = match (entry.activation_bytes, mini_batch, settings.edge_bytes) {
                (Some(each), Some(samples), _) => each.saturating_mul(samples).saturating_mul(THERE_AND_BACK),
                (Some(_), None, _) => {
                    let what =
                        "it has activation_bytes, which are those of one sample; say mini_batch as well";
                    return Err(wrong(i, what.to_owned()));
                }
                (None, _, Some(bytes)) => bytes,
                (None, _, None) if i + 1 == names.len() => 0,
                (None, _, None) => {
                    return Err(wrong(
                        i,
                        "what it puts out is not known; give activation_bytes, or --edge-bytes".to_owned(),
                    ));
                }
            };
            layers.push(Layer { parameters: entry.parameters, compute_s: compute[i], output_bytes, after });
        }
        Ok(Self { name: read.name.unwrap_or_else(|| stem.to_owned()), layers, names })
    }
}

/// The computing time of each layer: its share of that of the whole. Shares are those that are said, or the parameters.
fn compute_s(
    file: &str,
    read: &ModelFile,
    settings: ModelSettings,
    wrong: &impl Fn(usize, String) -> ModelError,
) -> Result<Vec<f64>, ModelError> {
    let missing = |what| ModelError::Missing { file: file.to_owned(), what };
    let whole_s = settings.compute_s.or(read.compute_s);
    let whole_s = whole_s.ok_or_else(|| {
        missing("how long an iteration computes is not known; say compute_s, or --compute-s")
    })?;
    if !(whole_s.is_finite() && whole_s > 0.0) {
        return Err(missing("compute_s is no time; give seconds above 0"));
    }
    let says = read.layers.iter().filter(|layer| layer.compute.is_some()).count();
    if let Some(i) = read.layers.iter().position(|layer| layer.compute.is_none()).filter(|_| says > 0) {
        return Err(wrong(
            i,
            "it has no compute, but other layers do; say it of all of them, or of none".to_owned(),
        ));
    }
    let share = |layer: &LayerEntry| layer.compute.unwrap_or(layer.parameters as f64);
    let odd = |layer: &LayerEntry| !(share(layer).is_finite() && share(layer) >= 0.0);
    if let Some(i) = read.layers.iter().position(odd) {
        return Err(wrong(i, "compute is no share; give a number from 0 up".to_owned()));
    }
    let sum: f64 = read.layers.iter().map(share).sum();
    let equal = 1.0 / read.layers.len() as f64;
    let part = |layer: &LayerEntry| if sum > 0.0 { share(layer) / sum } else { equal };
    Ok(read.layers.iter().map(|layer| whole_s * part(layer)).collect())
}

/// Names the nearest key behind what a reader says of an unknown one.
fn with_hint(what: String) -> String {
    let unknown = what.split("unknown field `").nth(1).and_then(|rest| rest.split('`').next());
    let hint = unknown.map(|unknown| nearest(unknown, KEYS.into_iter()));
    hint.map_or_else(|| what.clone(), |hint| format!("{what}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: &str = "name = 'm'\ncompute_s = 3.0\nmini_batch = 8\n[[layers]]\nname = 'a'\nparameters = 1\nactivation_bytes = 5\n[[layers]]\nname = 'b'\nparameters = 2\n";

    fn parse(text: &str, settings: ModelSettings) -> Result<Model, String> {
        Model::parse("m.toml", "m", text, settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_is_read_as_toml_and_as_json() {
        let model = parse(CHAIN, ModelSettings::default()).unwrap();
        let of =
            |i: usize| (model.layers[i].parameters, model.layers[i].compute_s, model.layers[i].output_bytes);
        assert_eq!((of(0), of(1)), ((1, 1.0, 80), (2, 2.0, 0)), "computing goes by parameters");
        assert_eq!((&*model.name, &model.layers[1].after), ("m", &vec![0]));
        let json = r#"{"name": "m", "compute_s": 3.0, "mini_batch": 8, "layers":
            [{"name": "a", "parameters": 1, "activation_bytes": 5}, {"name": "b", "parameters": 2}]}"#;
        assert_eq!(parse(json, ModelSettings::default()).unwrap().layers, model.layers);
        let settings = ModelSettings { compute_s: Some(6.0), mini_batch: Some(1), edge_bytes: Some(9) };
        let other = parse(CHAIN, settings).unwrap();
        assert_eq!(
            (other.layers[0].compute_s, other.layers[0].output_bytes, other.layers[1].output_bytes),
            (2.0, 10, 9)
        );
    }

    #[test]
    fn what_makes_no_sense_is_named_with_what_to_try() {
        let with = |from: &str, to: &str| {
            assert!(CHAIN.contains(from), "{from}");
            parse(&CHAIN.replace(from, to), ModelSettings::default()).unwrap_err()
        };
        for (from, to, what) in [
            ("parameters = 1", "paramters = 1", "did you mean `parameters`?"),
            ("parameters = 1", "parameters = -1", "the model is not understood"),
            ("compute_s = 3.0\n", "", "--compute-s"),
            ("compute_s = 3.0", "compute_s = nan", "seconds above 0"),
            ("mini_batch = 8\n", "", "layer a: it has activation_bytes"),
            ("activation_bytes = 5\n", "", "layer a: what it puts out is not known"),
            ("name = 'b'", "name = 'a'", "another layer has the same name"),
            (
                "parameters = 2",
                "parameters = 2\nafter = ['c']",
                "layer b: it comes after `c`, which is no layer",
            ),
            ("parameters = 2", "parameters = 2\nafter = ['b']", "does not stand before it"),
            ("parameters = 2", "parameters = 2\ncompute = 1", "layer a: it has no compute"),
        ] {
            let error = with(from, to);
            assert!(error.contains(what) && error.starts_with("m.toml"), "{to}: {error}");
        }
        let nothing = CHAIN.replace("parameters = 1", "").replace("parameters = 2", "");
        let nothing = parse(&nothing, ModelSettings::default()).unwrap();
        assert_eq!(nothing.layers[0].compute_s, 1.5, "models without parameters compute equally everywhere");
    }
}
