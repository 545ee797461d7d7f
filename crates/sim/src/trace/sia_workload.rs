//! Sia's workloads (SOSP 2023 artifact): `name,time,application,num_replicas,batch_size`, rows without a length.
//!
//! The length comes from the artifact's own profiles: `sia_durations.csv` beside this file has one row for each
//! triple of application, replicas and batch in the published workloads.
//! - `iterations` is the iteration of the last row of `validation-<batch>.csv`: a whole training run.
//! - `iteration_s` is the step time of `placements.csv` (T4, four to a node) on the fullest nodes, so on one
//!   node where the replicas fit, linear between the profiled batches of one GPU. A batch beyond the largest
//!   profiled one is cut into equal parts whose gradients are added up; all parts but the last are not
//!   synchronised, so each costs the step time less the synchronisation time.
//!
//! A triple that is not in the table is dropped, not guessed. Batch sizes do not adapt here, as they do in Sia.

use std::collections::BTreeMap;

use trainyard_sched::model::{MoveCost, Parallelism, Span};

use super::Format;
use super::error::TraceError;
use super::fields::{Problem, gpu_count, time_s, whole};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};
use crate::truth::{Ending, Speed, Truth};

const DURATIONS: &str = include_str!("sia_durations.csv");

columns! {
    need {
        Name "name" "the job's id";
        Submit "time" "submission in seconds";
        Application "application" "what it trains";
        Replicas "num_replicas" "GPUs of the gang";
        Batch "batch_size" "samples of one iteration over all GPUs";
    }
    may {}
    unread {}
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "sia-workload",
    title: "workload of Sia's artifact, with lengths from its profiles on T4",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

/// Iterations and the time of one, by application, replicas and batch.
type Durations<'a> = BTreeMap<(&'a str, u32, u32), (f64, Span)>;

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume(
        "rows have no length; it is taken from the artifact's profiles on T4 with the batch size fixed",
    );
    let durations = durations();
    TABLE.read(lines, import, |row| draft(row, &durations))
}

/// The built-in table; a row that is not understood is left out, and a test counts them.
fn durations() -> Durations<'static> {
    let row = |line: &'static str| {
        let mut fields = line.split(',');
        let application = fields.next()?;
        let (replicas, batch) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (iterations, seconds) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(((application, replicas, batch), (iterations, Span::from_secs_f64(seconds))))
    };
    DURATIONS.lines().skip(1).filter_map(row).collect()
}

fn draft<'a>(row: &Row<'a, '_>, durations: &Durations<'_>) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::Name)?;
    let submitted = row.read(Key::Submit, time_s)?;
    let application = row.text(Key::Application);
    let replicas = row.read(Key::Replicas, gpu_count)?;
    let batch = row.read(Key::Batch, |field, value| whole(field, value, 1.0, f64::from(u32::MAX)))? as u32;
    let Some((iterations, iteration)) = durations.get(&(application, replicas, batch)) else {
        let value = format!("{application} with {replicas} replicas and batch {batch}");
        return Err(Problem::new("the profiles give no length for the job", "application", &value));
    };
    let truth = Truth {
        iterations: *iterations,
        speed: Speed::Fixed { iteration: *iteration, workers: replicas },
        move_cost: MoveCost::default(),
        gradient_bytes: 0.0,
        loss: None,
        ending: Ending::Completed,
        overheads: None,
    };
    let plain = Draft::plain(submitted, Parallelism::gang(replicas), truth);
    Ok(Draft { name: Some(name), model: application, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, read_from};

    #[test]
    fn every_row_of_the_built_in_table_is_understood() {
        assert_eq!(durations().len(), DURATIONS.lines().count() - 1);
        assert!(durations().values().all(|(iterations, each)| *iterations > 0.0 && *each > Span::ZERO));
    }

    #[test]
    fn lengths_come_from_the_profiles_and_unknown_jobs_are_dropped() {
        let text = "name,time,application,num_replicas,batch_size\n\
            cifar10-0,107,cifar10,4,2048\nncf-1,110,ncf,1,32768\n";
        let read = read_from("workload-1.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (2, 1));
        // 3178 iterations of 0.3945 s: read off the profile by hand (batch 512 of one T4, placement 4).
        let hours = read.jobs[0].0.declared.duration().unwrap().as_secs_f64() / 3600.0;
        assert!((hours - 0.3482).abs() < 1e-3, "{hours}");
    }
}
