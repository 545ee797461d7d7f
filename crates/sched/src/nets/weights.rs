//! The weights of a network as bytes: a safetensors file, and what was trained to be read from what.
//!
//! Tensors are `policy.0.weight`, `[inputs, outputs]`, and `policy.0.bias`, `[outputs]`, and so on layer by layer, then
//! `value.0.weight` and so on where there is a network of values; all of 32-bit floats. The header has one entry,
//! `trainyard`: an object with the `schema` that inputs and outputs were made by and with `made`, how the weights came to be.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::{Dense, Mlp};

/// The entry of the header.
const ENTRY: &str = "trainyard";
/// No network of this project comes near.
const MOST_LAYERS: usize = 16;

/// What was learned, and how to ask it.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// What inputs and outputs mean, as whoever asks says it; weights for anything else are refused.
    pub schema: String,
    /// How they came to be, by name.
    pub made: BTreeMap<String, String>,
    /// From a state to the scores of actions.
    pub policy: Mlp,
    /// From a state to what it is worth; only learning goes on with it.
    pub value: Option<Mlp>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    schema: String,
    made: BTreeMap<String, String>,
}

/// Why weights cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// These are no weights, or not whole ones.
    #[error("these are no weights of this project: {why}; give a file that `trainyard train` wrote")]
    Broken {
        /// What is wrong.
        why: String,
    },
    /// They were trained to be read from something else.
    #[error(
        "these weights are for `{found}`, and what is asked for is `{expected}`; train anew, or set what differs"
    )]
    Mismatch {
        /// What they are for.
        found: String,
        /// What is asked for.
        expected: String,
    },
}

fn broken(why: impl std::fmt::Display) -> WeightsError {
    WeightsError::Broken { why: why.to_string() }
}

impl Weights {
    /// The bytes of a file; the same weights give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header { schema: self.schema.clone(), made: self.made.clone() };
        let header = serde_json::to_string(&header).expect("texts can be written as JSON");
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        let nets =
            std::iter::once(("policy", &self.policy)).chain(self.value.iter().map(|net| ("value", net)));
        for (name, net) in nets {
            for (i, layer) in net.layers().iter().enumerate() {
                let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
                let shape = vec![layer.inputs(), layer.outputs()];
                tensors.push((format!("{name}.{i}.bias"), vec![layer.outputs()], bytes(layer.bias())));
                tensors.push((format!("{name}.{i}.weight"), shape, bytes(layer.weight())));
            }
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a number for each place");
            (name.as_str(), view)
        });
        // With one entry there is one order.
        let header = std::iter::once((ENTRY.to_owned(), header)).collect();
        safetensors::serialize(views, Some(header)).expect("tensors of this project can be written")
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If it is no such file, if a tensor is missing, does not fit the others, or holds what is no number.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        let (_, head) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
        let entry = head.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| broken(format!("its header has no entry `{ENTRY}`")))?;
        let header: Header = serde_json::from_str(entry).map_err(broken)?;
        let policy = net(&tensors, "policy")?.ok_or_else(|| broken("it has no tensor `policy.0.weight`"))?;
        let value = net(&tensors, "value")?;
        Ok(Self { schema: header.schema, made: header.made, policy, value })
    }

    /// The bytes as one line of text, as parameters of policies carry them.
    pub fn to_text(&self) -> String {
        BASE64_STANDARD.encode(self.to_bytes())
    }

    /// Reads such a line.
    ///
    /// # Errors
    /// As [`Self::from_bytes`], or if it is no such text.
    pub fn from_text(text: &str) -> Result<Self, WeightsError> {
        Self::from_bytes(&BASE64_STANDARD.decode(text).map_err(broken)?)
    }

    /// These weights, if they are for this schema and take and give so many numbers.
    ///
    /// # Errors
    /// If they are for another one.
    pub fn checked(self, schema: &str, inputs: usize, outputs: usize) -> Result<Self, WeightsError> {
        if self.schema != schema {
            return Err(WeightsError::Mismatch { found: self.schema, expected: schema.to_owned() });
        }
        let fits = |net: &Mlp, outputs: usize| (net.inputs(), net.outputs()) == (inputs, outputs);
        if fits(&self.policy, outputs) && self.value.as_ref().is_none_or(|value| fits(value, 1)) {
            return Ok(self);
        }
        let (found, given) = (self.policy.inputs(), self.policy.outputs());
        Err(broken(format!(
            "it takes {found} numbers and gives {given}, where {inputs} and {outputs} are meant"
        )))
    }
}

/// The layers of a network, as many as there are.
fn net(tensors: &SafeTensors<'_>, name: &str) -> Result<Option<Mlp>, WeightsError> {
    let mut layers: Vec<Dense> = Vec::new();
    while let Ok(weight) = tensors.tensor(&format!("{name}.{}.weight", layers.len())) {
        let i = layers.len();
        let &[inputs, outputs] = weight.shape() else {
            return Err(broken(format!(
                "`{name}.{i}.weight` has {} dimensions, and not 2",
                weight.shape().len()
            )));
        };
        let bias = tensors.tensor(&format!("{name}.{i}.bias")).map_err(broken)?;
        let before = layers.last().map_or(inputs, Dense::outputs);
        if i >= MOST_LAYERS || inputs != before || bias.shape() != [outputs] || inputs == 0 || outputs == 0 {
            return Err(broken(format!("layer {i} of `{name}` does not fit the others")));
        }
        let weight = numbers(&weight).ok_or_else(|| broken(format!("`{name}.{i}.weight` {NO_NUMBERS}")))?;
        let bias = numbers(&bias).ok_or_else(|| broken(format!("`{name}.{i}.bias` {NO_NUMBERS}")))?;
        layers.push(Dense::new(inputs, weight, bias));
    }
    Ok((!layers.is_empty()).then(|| Mlp::new(layers)))
}

const NO_NUMBERS: &str = "does not consist of finite 32-bit floats";

fn numbers(tensor: &TensorView<'_>) -> Option<Vec<f32>> {
    if tensor.dtype() != Dtype::F32 {
        return None;
    }
    let chunks = tensor.data().as_chunks::<4>().0.iter();
    let values: Vec<f32> = chunks.map(|bytes| f32::from_le_bytes(*bytes)).collect();
    values.iter().all(|x| x.is_finite()).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Weights {
        let first = Dense::new(2, vec![1.0, -2.0, 0.5, 3.0, 0.0, 1e-30], vec![0.1, 0.2, 0.3]);
        let policy = Mlp::new(vec![first.clone(), Dense::new(3, vec![1.0, 2.0, 3.0], vec![0.0])]);
        let made =
            BTreeMap::from([("seed".to_owned(), "7".to_owned()), ("trace".to_owned(), "c96".to_owned())]);
        Weights { schema: "test 1".to_owned(), made, value: Some(policy.clone()), policy }
    }

    #[test]
    fn what_is_written_is_read_and_the_same_is_the_same_bytes() {
        let weights = weights();
        let bytes = weights.to_bytes();
        assert_eq!(bytes, weights.to_bytes());
        assert_eq!(Weights::from_bytes(&bytes), Ok(weights.clone()));
        assert_eq!(Weights::from_text(&weights.to_text()), Ok(weights.clone()));
        let without = Weights { value: None, ..weights };
        assert_eq!(Weights::from_bytes(&without.to_bytes()), Ok(without));
    }

    #[test]
    fn weights_for_something_else_are_refused() {
        let good = || weights().checked("test 1", 2, 1);
        assert!(good().is_ok());
        let error = weights().checked("test 2", 2, 1).unwrap_err();
        assert!(matches!(&error, WeightsError::Mismatch { .. }) && error.to_string().contains("`test 1`"));
        let error = weights().checked("test 1", 5, 1).unwrap_err();
        assert!(error.to_string().contains("2 numbers") && error.to_string().contains("where 5"), "{error}");
    }

    #[test]
    fn broken_files_are_refused_wherever_they_are_cut() {
        let bytes = weights().to_bytes();
        for end in 0..bytes.len() {
            let error = Weights::from_bytes(&bytes[..end]).unwrap_err();
            assert!(matches!(error, WeightsError::Broken { .. }), "{end}: {error}");
        }
        let at = bytes.len() - 4;
        let mut spoiled = bytes.clone();
        spoiled[at..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(Weights::from_bytes(&spoiled).unwrap_err().to_string().contains("finite"));
        assert!(Weights::from_text("no weights").is_err() && Weights::from_text("").is_err());
    }
}
