//! What differs between the replicates of an experiment, and running many of them side by side.

use rayon::prelude::*;
use trainyard_sim::resample::Blocks;
use trainyard_sim::trace::Declaring;

use crate::config::{FaultsWord, InputArguments, Inputs, Threads};
use crate::failure::Failure;

/// Jobs that all replicates together should not exceed, so that an answer takes seconds.
const JOBS_IN_ALL: usize = 200_000;
/// As many replicates as give intervals that can be taken at their word.
const USUAL: usize = 20;
/// As few as give an interval at all that says something.
const FEWEST: usize = 3;

/// What is drawn anew for each replicate, in words; nothing if all replicates would be equal.
pub(crate) fn what_varies(given: &InputArguments, inputs: &Inputs) -> Vec<String> {
    let mut varies = Vec::new();
    match (&given.trace, Blocks::of(&inputs.workload)) {
        (None, _) => varies.push("each replicate is another workload of the preset, from a seed of its own".to_owned()),
        (Some(_), Some(blocks)) => varies.push(format!(
            "each replicate but the first, which is the trace, draws its arrivals from blocks of the trace ({blocks})"
        )),
        (Some(_), None) => {}
    }
    if matches!(given.declared, Declaring::Noisy { .. }) {
        varies.push("the noise on declared lengths".to_owned());
    }
    if matches!(given.faults, Some(FaultsWord::Drawn(_))) {
        varies.push("node failures".to_owned());
    }
    varies
}

/// How many replicates there are, if nobody says.
pub(crate) fn usual_count(jobs: usize) -> usize {
    (JOBS_IN_ALL / jobs.max(1)).clamp(FEWEST, USUAL)
}

/// Performs many runs side by side and returns their results in the order of the runs. The first failure in that order
/// is returned; the order in which they end matters nowhere.
pub(crate) fn side_by_side<T: Send>(
    count: usize,
    perform: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let results: Vec<Result<T, Failure>> = (0..count).into_par_iter().map(&perform).collect();
    results.into_iter().collect()
}

/// The threads of an experiment; as many as there are cores, if nobody says.
pub(crate) fn pool(threads: Option<Threads>) -> Result<rayon::ThreadPool, Failure> {
    let threads = threads.map_or(0, |Threads(count)| count);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|source| Failure::Threads { threads, source })
}
