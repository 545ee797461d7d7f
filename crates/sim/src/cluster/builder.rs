//! Puts a cluster together, machine by machine, as lists of nodes describe it. Knows no format.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::model::{
    Cluster, GPU, GpuTypeSet, MAX_GPUS_PER_NODE, NodeState, RackId, Resources, UNLIMITED,
};

use super::words::NODE_LIMIT;
use crate::document::{Document, DocumentError, printable};
use crate::workload::{Done, ImportReport};

/// The GPU type of machines whose list does not name one.
pub(super) const SOME_GPU: &str = "gpu";

/// One machine as a list describes it.
#[derive(Clone, Debug)]
pub(super) struct Machine<'a> {
    /// Its name; empty where the list has none.
    pub(super) name: &'a str,
    /// Its rack; all machines of one name share one.
    pub(super) rack: &'a str,
    /// The type of its GPUs.
    pub(super) gpu_type: &'a str,
    /// Its GPUs.
    pub(super) gpus: u64,
    /// Memory of one GPU in bytes, where known.
    pub(super) gpu_memory_bytes: Option<u64>,
    /// CPU cores in thousandths.
    pub(super) cpu_milli: u64,
    /// Main memory in bytes.
    pub(super) memory_bytes: u64,
    /// Whether it takes work.
    pub(super) state: NodeState,
}

impl Default for Machine<'_> {
    /// A machine of which only what is set is known.
    fn default() -> Self {
        Self {
            name: "",
            rack: "",
            gpu_type: SOME_GPU,
            gpus: 0,
            gpu_memory_bytes: None,
            cpu_milli: UNLIMITED,
            memory_bytes: UNLIMITED,
            state: NodeState::Up,
        }
    }
}

/// A cluster in the making.
pub(super) struct Builder<'d> {
    document: &'d Document,
    /// The machines so far.
    pub(super) cluster: Cluster,
    /// What was read and assumed.
    pub(super) report: ImportReport,
    lines: BTreeMap<Arc<str>, usize>,
    racks: BTreeMap<String, u16>,
}

impl<'d> Builder<'d> {
    /// No machines yet.
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            document,
            cluster: Cluster::default(),
            report: ImportReport::default(),
            lines: BTreeMap::new(),
            racks: BTreeMap::new(),
        }
    }

    /// Adds a machine that stands at `line`.
    pub(super) fn push(&mut self, line: usize, machine: &Machine<'_>) -> Result<(), DocumentError> {
        let document = self.document;
        let wrong = |what: String| Err(document.wrong(line, what));
        let shown = printable(machine.name);
        if machine.gpus > u64::from(MAX_GPUS_PER_NODE) {
            return wrong(format!(
                "node `{shown}` has {} GPUs; a node may have at most {MAX_GPUS_PER_NODE}: list it as several nodes",
                machine.gpus
            ));
        }
        if self.cluster.nodes.len() as u64 >= NODE_LIMIT {
            return wrong(format!("more than {NODE_LIMIT} nodes"));
        }
        let name: Option<Arc<str>> = (!machine.name.is_empty()).then(|| machine.name.into());
        if let Some(name) = &name
            && let Some(first) = self.lines.insert(Arc::clone(name), line)
        {
            return wrong(format!("node `{shown}` is already at line {first}; give each node its own name"));
        }
        let next = self.racks.len();
        let Ok(next) = u16::try_from(next) else { return wrong("more than 65536 racks".to_owned()) };
        let rack = *self.racks.entry(machine.rack.to_owned()).or_insert(next);
        let gpu_type = if machine.gpus == 0 { None } else { Some(self.gpu_type(line, machine)?) };
        let holds = Resources {
            gpu_milli: machine.gpus * GPU,
            cpu_milli: machine.cpu_milli,
            memory_bytes: machine.memory_bytes,
            network_bytes_per_s: UNLIMITED,
        };
        let id = self.cluster.push(RackId(rack), gpu_type, holds, name);
        self.cluster.nodes[id.index()].state = machine.state;
        Ok(())
    }

    fn gpu_type(
        &mut self,
        line: usize,
        machine: &Machine<'_>,
    ) -> Result<trainyard_sched::model::GpuTypeId, DocumentError> {
        let name = machine.gpu_type.trim().to_lowercase();
        if name.is_empty() || name.contains(['|', ',']) {
            let what = "give a name without commas and bars";
            return Err(self.document.wrong(line, format!("GPU type `{}`: {what}", printable(&name))));
        }
        if self.cluster.gpu_type(&name).is_none() && self.cluster.gpu_types.len() == GpuTypeSet::MAX_TYPES {
            let what = format!("more than {} GPU types", GpuTypeSet::MAX_TYPES);
            return Err(self.document.wrong(line, what));
        }
        let id = self.cluster.intern_gpu_type(&name);
        let known = &mut self.cluster.gpu_types[id.index()].memory_bytes;
        match (*known, machine.gpu_memory_bytes) {
            (None, given) => *known = given,
            (Some(known), Some(given)) if known != given => {
                let what = "GPUs of one type have different memory; the first value is used for all";
                let place = format!("{}:{line}: {}", self.document.file, printable(machine.name));
                self.report.find(Done::Noted, what, Some(place));
            }
            _ => {}
        }
        Ok(id)
    }

    /// Says once that something was assumed.
    pub(super) fn assume(&mut self, what: impl Into<String>) {
        self.report.find(Done::Assumed, what, None);
    }

    /// Counts something that is said about a machine.
    pub(super) fn note(&mut self, done: Done, line: usize, what: &str, value: &str) {
        let place = format!("{}:{line}: {}", self.document.file, printable(value));
        self.report.find(done, what, Some(place));
    }
}
