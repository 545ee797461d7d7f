//! Names in the order of their appearance, found quickly.

use std::collections::BTreeMap;

/// Names with numbers.
#[derive(Default)]
pub(crate) struct Names {
    list: Vec<String>,
    numbers: BTreeMap<String, u32>,
    last: u32,
}

impl Names {
    /// The number of a name, which is added if it is new.
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        // Neighbouring rows often share a name.
        if self.list.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = self.numbers.get(name).copied().unwrap_or_else(|| self.push(name));
        self.last
    }

    /// Adds a name at the end; of equal names the first is found.
    pub(crate) fn push(&mut self, name: &str) -> u32 {
        let number = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.numbers.entry(name.to_owned()).or_insert(number);
        number
    }

    /// The names by number.
    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }

    /// The names by number, for good.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
