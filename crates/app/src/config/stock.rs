//! Traces that were read, kept for the next run that wants the same. Holds a bounded number of them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use trainyard_sim::trace::{self, Declaring, TraceError};
use trainyard_sim::workload::Workload;

/// Traces by what they were read from and how, the latest used last.
#[derive(Default)]
pub(crate) struct Stock {
    shelf: Mutex<Vec<(String, Slot)>>,
}

/// A place for one trace; whoever comes first reads it while the others wait.
type Slot = Arc<Mutex<Option<Arc<Workload>>>>;

impl Stock {
    /// The trace, read now if it is not there. What has not been used for longest goes when there are more than
    /// threads; runs that still use it keep it.
    pub(crate) fn read(&self, path: &Path, options: &trace::Options) -> Result<Arc<Workload>, TraceError> {
        let slot = self.slot(key(path, options));
        let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workload) = &*held {
            return Ok(Arc::clone(workload));
        }
        let workload = Arc::new(trace::read(path, options)?);
        *held = Some(Arc::clone(&workload));
        Ok(workload)
    }

    fn slot(&self, key: String) -> Slot {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shelf.iter().position(|(known, _)| *known == key);
        let entry = known.map_or_else(|| (key, Slot::default()), |position| shelf.remove(position));
        let slot = Arc::clone(&entry.1);
        shelf.push(entry);
        if shelf.len() > rayon::current_num_threads().max(2) {
            shelf.remove(0);
        }
        slot
    }
}

/// What the workload depends on. The seed matters only where something is drawn.
fn key(path: &Path, options: &trace::Options) -> String {
    let is_drawn = matches!(options.declared, Declaring::Noisy { .. });
    let seed = if is_drawn { options.seed } else { Default::default() };
    format!("{} {:?}", path.display(), trace::Options { seed, ..options.clone() })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Seed;

    use super::*;

    #[test]
    fn a_trace_is_read_once_and_again_only_if_something_else_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "job_id,submit_s,duration_s,gpus\na,0,60,1\nb,5,60,1\n").unwrap();
        let stock = Stock::default();
        let read = |options: &trace::Options| stock.read(&path, options).unwrap();
        let plain = trace::Options::default();
        let first = read(&plain);
        assert!(Arc::ptr_eq(&first, &read(&trace::Options { seed: Seed(5), ..plain.clone() })));
        assert!(!Arc::ptr_eq(&first, &read(&trace::Options { jobs: Some(1), ..plain.clone() })));
        let noisy = |seed| trace::Options {
            seed: Seed(seed),
            declared: Declaring::Noisy { spread: 0.5 },
            ..plain.clone()
        };
        assert_ne!(read(&noisy(1)).jobs, read(&noisy(2)).jobs);
        assert!(stock.read(Path::new("nowhere.csv"), &plain).is_err());
    }
}
