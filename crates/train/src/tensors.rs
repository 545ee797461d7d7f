//! The state of a program: tensors by name, to be written down and taken up again.

use std::collections::BTreeMap;

/// Numbers in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The sizes; their product is the number of values.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f64>,
    /// Whether it is one whole number that counts something; it is written as such.
    pub counts: bool,
}

/// Why stored tensors do not fit a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// One is missing.
    #[error("it has no tensor `{name}`; was it made by another version?")]
    Missing {
        /// Its name.
        name: String,
    },
    /// One has another shape.
    #[error("its tensor `{name}` has the shape {found:?}, and {wanted:?} is needed")]
    Shape {
        /// Its name.
        name: String,
        /// The shape it has.
        found: Vec<usize>,
        /// The shape it should have.
        wanted: Vec<usize>,
    },
    /// One holds a value that cannot be.
    #[error("its tensor `{name}` holds {value} at {index}; {wanted}")]
    Value {
        /// Its name.
        name: String,
        /// Where.
        index: usize,
        /// What stands there.
        value: String,
        /// What may stand there.
        wanted: &'static str,
    },
}

/// Tensors by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors {
    by_name: BTreeMap<String, Tensor>,
}

impl Tensors {
    /// Puts a tensor in. The shape must fit the values.
    pub fn put(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "the shape of `{name}` fits its values");
        let tensor = Tensor { shape: shape.to_vec(), values: values.to_vec(), counts: false };
        self.by_name.insert(name.to_owned(), tensor);
    }

    /// Puts a number in that counts something. Numbers beyond 2^53 nobody reaches.
    pub fn put_count(&mut self, name: &str, count: u64) {
        let tensor = Tensor { shape: Vec::new(), values: vec![count as f64], counts: true };
        self.by_name.insert(name.to_owned(), tensor);
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Result<&Tensor, StateError> {
        self.by_name.get(name).ok_or_else(|| StateError::Missing { name: name.to_owned() })
    }

    /// The finite values of a tensor that must have this shape.
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<&[f64], StateError> {
        let tensor = self.get(name)?;
        if tensor.shape != shape {
            let (found, wanted) = (tensor.shape.clone(), shape.to_vec());
            return Err(StateError::Shape { name: name.to_owned(), found, wanted });
        }
        if let Some(index) = tensor.values.iter().position(|value| !value.is_finite()) {
            return Err(fault(name, index, tensor.values[index], "all must be finite"));
        }
        Ok(&tensor.values)
    }

    /// The one number of a tensor without dimensions.
    pub fn number(&self, name: &str) -> Result<f64, StateError> {
        Ok(self.values(name, &[])?[0])
    }

    /// The one whole number of a tensor without dimensions, at most `most`.
    pub fn whole(&self, name: &str, most: u64) -> Result<u64, StateError> {
        let value = self.number(name)?;
        if value < 0.0 || value.fract() != 0.0 || value > most as f64 {
            return Err(fault(name, 0, value, "a whole number in range is needed"));
        }
        Ok(value as u64)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.by_name.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

/// A value that cannot be.
pub(crate) fn fault(name: &str, index: usize, value: f64, wanted: &'static str) -> StateError {
    StateError::Value { name: name.to_owned(), index, value: value.to_string(), wanted }
}
