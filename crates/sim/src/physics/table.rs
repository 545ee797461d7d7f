//! Measured throughputs: model x GPUs x GPU type x locality.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{GpuTypeId, GpuTypeSet, ModelId, Profiled, Rate, RateBeside, Rates};

use super::fill::family_and_batch;

/// How far apart the workers of a job are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locality {
    /// All on one node.
    Node,
    /// On several nodes of one rack.
    Rack,
    /// On several racks.
    Cluster,
}

/// Iterations a second by model, number of GPUs, GPU type and locality.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThroughputTable {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    /// Alone, sorted by key: (GPU type name, GPUs, whether on several nodes).
    entries: Vec<((String, u32, bool), f64)>,
    /// Beside another row on the same GPUs, sorted by key: (the other row, GPU type name, GPUs).
    pairs: Vec<((u32, String, u32), f64)>,
}

impl ThroughputTable {
    /// The row of a model, made if it is new.
    pub fn intern(&mut self, model: &str) -> u32 {
        if let Some(row) = self.row(model) {
            return row;
        }
        self.rows.push(Row { name: model.to_owned(), entries: Vec::new(), pairs: Vec::new() });
        (self.rows.len() - 1) as u32
    }

    /// The row of a model.
    pub fn row(&self, model: &str) -> Option<u32> {
        self.rows.iter().position(|row| row.name == model).map(|i| i as u32)
    }

    /// The name of a row.
    pub fn name(&self, row: u32) -> &str {
        &self.rows[row as usize].name
    }

    /// Records a measurement in iterations a second of the whole job; 0 where it does not fit.
    pub fn insert(&mut self, row: u32, gpu_type: &str, gpus: u32, several_nodes: bool, per_s: f64) {
        let entries = &mut self.rows[row as usize].entries;
        let key = (gpu_type.to_owned(), gpus, several_nodes);
        match entries.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(i) => entries[i].1 = per_s,
            Err(i) => entries.insert(i, (key, per_s)),
        }
    }

    /// Records how fast a row goes beside another one on the same GPUs, in iterations a second; 0 where the two do not fit.
    pub fn insert_pair(&mut self, row: u32, other: u32, gpu_type: &str, gpus: u32, per_s: f64) {
        let pairs = &mut self.rows[row as usize].pairs;
        let key = (other, gpu_type.to_owned(), gpus);
        match pairs.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(i) => pairs[i].1 = per_s,
            Err(i) => pairs.insert(i, (key, per_s)),
        }
    }

    /// Iterations a second of a row beside another one on the same GPUs, if the pair was measured.
    pub fn pair_per_s(&self, row: u32, other: u32, gpu_type: &str, gpus: u32) -> Option<f64> {
        let pairs = &self.rows[row as usize].pairs;
        let order = |key: &(u32, String, u32)| (key.0, key.1.as_str(), key.2).cmp(&(other, gpu_type, gpus));
        pairs.binary_search_by(|(key, _)| order(key)).ok().map(|i| pairs[i].1)
    }

    /// How many rows there are.
    pub fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    /// What a row says of these GPU types, by their position. Of pairs, what it says of gangs of `workers` beside the models
    /// that `model` gives for rows; nothing without `workers`.
    pub fn rates(
        &self,
        row: u32,
        gpu_types: &[Arc<str>],
        workers: Option<u32>,
        model: impl Fn(u32) -> Option<ModelId>,
    ) -> Rates {
        let numbers: BTreeMap<&str, GpuTypeId> = gpu_types
            .iter()
            .take(GpuTypeSet::MAX_TYPES)
            .enumerate()
            .map(|(i, name)| (&**name, GpuTypeId(i as u8)))
            .collect();
        let (family, batch) = family_and_batch(self.name(row));
        let first = (0..=row).find(|other| family_and_batch(self.name(*other)).0 == family);
        let profiled = Profiled { family: first.unwrap_or(row), batch };
        let row = &self.rows[row as usize];
        let known = |((name, workers, spread), per_s): &((String, u32, bool), f64)| {
            let gpu_type = *numbers.get(name.as_str())?;
            Some(Rate { gpu_type, workers: *workers, spread: *spread, iterations_per_s: *per_s })
        };
        let pair = |((other, name, of), per_s): &((u32, String, u32), f64)| {
            let gpu_type = *numbers.get(name.as_str())?;
            let other = model(*other).filter(|_| workers == Some(*of))?;
            Some(RateBeside { other, gpu_type, workers: *of, iterations_per_s: *per_s })
        };
        Rates::new(
            row.entries.iter().filter_map(known).collect(),
            row.pairs.iter().filter_map(pair).collect(),
        )
        .of(profiled)
    }

    /// Whether anything is known of pairs.
    pub fn has_pairs(&self) -> bool {
        self.rows.iter().any(|row| !row.pairs.is_empty())
    }

    /// All that was measured of single jobs: row, GPU type, GPUs, whether on several nodes, iterations a second.
    pub fn figures(&self) -> impl Iterator<Item = (u32, &str, u32, bool, f64)> {
        self.rows.iter().enumerate().flat_map(move |(i, row)| {
            row.entries
                .iter()
                .map(move |((name, gpus, several), per_s)| (i as u32, name.as_str(), *gpus, *several, *per_s))
        })
    }

    /// The types, of these, for which a row has a figure for so many GPUs on one node.
    pub fn gpu_types(&self, row: u32, gpus: u32, gpu_types: &[Arc<str>]) -> GpuTypeSet {
        let known = |(i, name): (usize, &Arc<str>)| {
            self.per_s(row, name, gpus, Locality::Node).map(|_| GpuTypeId(i as u8))
        };
        let fits: Vec<GpuTypeId> =
            gpu_types.iter().take(GpuTypeSet::MAX_TYPES).enumerate().filter_map(known).collect();
        if fits.len() == gpu_types.len() { GpuTypeSet::ALL } else { GpuTypeSet::of(&fits) }
    }

    /// The same figures, as if workers on several nodes were as fast as on one.
    pub fn without_distance(&self) -> Self {
        let mut table = self.clone();
        table.rows.iter_mut().for_each(|row| row.entries.retain(|((_, _, several), _)| !several));
        table
    }

    /// The least of a row's measurements that is not zero.
    pub fn slowest_per_s(&self, row: u32) -> Option<f64> {
        let speeds = self.rows[row as usize].entries.iter().map(|(_, per_s)| *per_s);
        speeds.filter(|per_s| *per_s > 0.0).min_by(f64::total_cmp)
    }

    /// Iterations a second, if it was measured and the model fits. Jobs on several nodes fall back to the consolidated
    /// figure where nothing else was measured (one GPU is never on several nodes).
    pub fn per_s(&self, row: u32, gpu_type: &str, gpus: u32, locality: Locality) -> Option<f64> {
        let entries = &self.rows[row as usize].entries;
        let find = |several: bool| {
            let order =
                |key: &(String, u32, bool)| (key.0.as_str(), key.1, key.2).cmp(&(gpu_type, gpus, several));
            entries.binary_search_by(|(key, _)| order(key)).ok().map(|i| entries[i].1)
        };
        let found = if locality == Locality::Node { find(false) } else { find(true).or_else(|| find(false)) };
        found.filter(|per_s| *per_s > 0.0)
    }
}
