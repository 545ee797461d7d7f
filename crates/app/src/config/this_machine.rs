//! What this machine offers to jobs that run on it: its cores, and its GPUs if it has any. A cluster that is described may be
//! this machine as it is, or stand for another that is tried out here; then a core stands for each GPU.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use trainyard_live::local::{Gpu, GpuError, Gpus};
use trainyard_sched::model::Cluster;
use trainyard_sim::cluster::{self, ClusterFile};

use super::service::Service;
use crate::failure::Failure;

/// The file of a folder that says what its GPUs are.
const GPUS: &str = "gpus";
const REAL: &str = "real";
const VIRTUAL: &str = "virtual";

/// What GPUs of a cluster are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GpuChoice {
    /// This machine's, if the cluster is one node with no more GPUs than the machine has; virtual ones otherwise.
    #[default]
    Auto,
    /// This machine's; an error if it does not have them.
    Real,
    /// A core of this machine stands for each, whatever GPUs it has.
    Virtual,
}

/// The machines, and what their GPUs are.
pub(crate) struct Hardware {
    /// The cluster.
    pub(crate) file: ClusterFile,
    /// Those of each node as the driver counts them; nothing where GPUs are virtual, or there are none.
    pub(crate) gpu_indices: Vec<Vec<u32>>,
    /// What people should know of it.
    pub(crate) remarks: Vec<String>,
}

/// Why the GPUs that were asked for cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    /// The driver cannot be asked.
    #[error("gpus = real: {0}")]
    Unknown(#[from] GpuError),
    /// There are none.
    #[error(
        "gpus = real: this machine has no GPU that jobs can be given{passed_over}; say `gpus = \"virtual\"` to try out a cluster on its cores"
    )]
    None {
        /// Why those that there are cannot be given.
        passed_over: String,
    },
    /// Jobs that run may hold GPUs of the other kind.
    #[error("{}: the GPUs of this folder were {was}, and now they would be {now}; say `gpus = \"{was}\"`, mend the driver, or choose another folder", .path.display())]
    Changed {
        /// Where it is kept.
        path: PathBuf,
        /// What they were.
        was: &'static str,
        /// What they would be.
        now: &'static str,
    },
    /// There are not those that the cluster has.
    #[error(
        "gpus = real: the cluster has {asked}, and this machine has {found} GPUs in one node; describe it as it is, or say `gpus = \"virtual\"`"
    )]
    Others {
        /// What the cluster has.
        asked: String,
        /// How many there are.
        found: usize,
    },
}

impl Hardware {
    /// Holds a folder to the kind of GPUs that it began with: what runs there was given such, and would share them unseen with
    /// what is given others.
    pub(crate) fn keep(&self, folder: &Path) -> Result<(), Failure> {
        if self.file.cluster.gpu_count() == 0 {
            return Ok(());
        }
        let path = folder.join(GPUS);
        let now = if self.gpu_indices.is_empty() { VIRTUAL } else { REAL };
        match std::fs::read_to_string(&path) {
            Ok(was) if was.trim() == now => Ok(()),
            Ok(_) => {
                let was = if now == REAL { VIRTUAL } else { REAL };
                Err(MachineError::Changed { path, was, now }.into())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::write(&path, format!("{now}\n")).map_err(Failure::file("write", &path))
            }
            Err(error) => Err(Failure::file("read", &path)(error)),
        }
    }
}

/// The machines that the settings ask for; without words, this machine as it is.
pub(crate) fn hardware(service: &Service) -> Result<Hardware, Failure> {
    let mut remarks = Vec::new();
    let found = match service.gpus {
        GpuChoice::Virtual => Gpus::default(),
        GpuChoice::Real => Gpus::find(service.nvml.as_deref()).map_err(MachineError::from)?,
        GpuChoice::Auto => Gpus::find(service.nvml.as_deref()).unwrap_or_else(|error| {
            remarks.push(format!("{error}; GPUs of this machine are not used"));
            Gpus::default()
        }),
    };
    if service.gpus == GpuChoice::Real && found.found.is_empty() {
        let passed_over = found.passed_over.iter().map(|why| format!("; {why}")).collect();
        return Err(MachineError::None { passed_over }.into());
    }
    let (file, gpu_indices) = match &service.cluster {
        None => this_machine(&found.found)?,
        Some(words) => {
            let file = cluster::load(words)?;
            let indices = indices(&file.cluster, &found.found);
            if let (GpuChoice::Real, None) = (service.gpus, &indices) {
                let (asked, found) = (file.cluster.to_string(), found.found.len());
                return Err(MachineError::Others { asked, found }.into());
            }
            (file, indices.unwrap_or_default())
        }
    };
    remarks.extend(found.passed_over);
    remarks.extend(match (file.cluster.gpu_count(), gpu_indices.is_empty()) {
        (0, _) => None,
        (_, true) => Some("its GPUs are virtual: a core of this machine stands for each".to_owned()),
        (count, false) => Some(format!("{count} GPUs of this machine are given to jobs")),
    });
    Ok(Hardware { file, gpu_indices, remarks })
}

/// The cores of this machine with its GPUs, a node for each type of them. Cores are shared out like GPUs.
fn this_machine(gpus: &[Gpu]) -> Result<(ClusterFile, Vec<Vec<u32>>), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut types: Vec<(&str, Vec<&Gpu>)> = Vec::new();
    for gpu in gpus {
        match types.iter_mut().find(|(name, _)| *name == gpu.gpu_type) {
            Some((_, those)) => those.push(gpu),
            None => types.push((&gpu.gpu_type, vec![gpu])),
        }
    }
    let node = |(name, those): &(&str, Vec<&Gpu>)| {
        let cpus = (cores * those.len() / gpus.len()).max(1);
        format!("1x{}:{name}+{cpus}cpu", those.len())
    };
    let words: Vec<String> = types.iter().map(node).collect();
    let words = if words.is_empty() { format!("1x{cores}:cpu") } else { words.join(",") };
    let mut file = cluster::load(&words)?;
    for known in &mut file.cluster.gpu_types {
        known.memory_bytes =
            gpus.iter().find(|gpu| *gpu.gpu_type == *known.name).and_then(|gpu| gpu.memory_bytes);
    }
    let indices = types.iter().map(|(_, those)| those.iter().map(|gpu| gpu.index).collect());
    Ok((file, indices.collect()))
}

/// The GPUs of each node, if the cluster is this machine: one node has GPUs, and no more than there are.
fn indices(cluster: &Cluster, gpus: &[Gpu]) -> Option<Vec<Vec<u32>>> {
    let with_gpus = cluster.nodes.iter().filter(|node| node.gpu_count() > 0).count();
    let first = |count: u32| gpus.iter().take(count as usize).map(|gpu| gpu.index).collect();
    let is_this = with_gpus == 1 && cluster.gpu_count() as usize <= gpus.len();
    is_this.then(|| cluster.nodes.iter().map(|node| first(node.gpu_count())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(types: &[&str]) -> Vec<Gpu> {
        let gpu = |(i, name): (usize, &&str)| Gpu {
            index: i as u32,
            gpu_type: (*name).to_owned(),
            memory_bytes: Some(80_000_000_000),
        };
        types.iter().enumerate().map(gpu).collect()
    }

    #[test]
    fn a_machine_with_gpus_of_two_types_is_two_nodes() {
        let (file, indices) = this_machine(&gpus(&["h200", "t4", "h200"])).unwrap();
        assert_eq!(indices, [vec![0, 2], vec![1]]);
        let counts: Vec<u32> =
            file.cluster.nodes.iter().map(trainyard_sched::model::Node::gpu_count).collect();
        assert_eq!(counts, [2, 1]);
        assert!(file.cluster.gpu_types.iter().all(|known| known.memory_bytes == Some(80_000_000_000)));
        let (file, indices) = this_machine(&[]).unwrap();
        assert_eq!((file.cluster.gpu_count(), indices.len()), (0, 0));
    }

    #[test]
    fn a_cluster_is_this_machine_if_one_node_has_gpus_and_no_more_than_there_are() {
        let of = |words: &str| indices(&cluster::load(words).unwrap().cluster, &gpus(&["h200"; 2]));
        assert_eq!(of("1x2:h200"), Some(vec![vec![0, 1]]));
        assert_eq!(of("1x8:cpu,1x1:a100"), Some(vec![vec![], vec![0]]));
        assert_eq!(of("1x4:h200"), None);
        assert_eq!(of("2x1:h200"), None);
        assert_eq!(of("1x8:cpu"), None);
    }
}
