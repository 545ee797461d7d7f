//! What whoever reads a trace may say about it: what is mended, renamed, taken for granted, and kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::model::{GPU, MoveCost, Parallelism, Seed, Span, Tenants, Time};

use super::fields::{Problem, Remark, duration_s, number};
use crate::cluster::ClusterFile;
use crate::curves::LossLog;
use crate::physics::ThroughputTable;
use crate::truth::{Speed, Truth};
use crate::workload::Done;

/// The shortest run time that is mended to, one tick of the clock: a job of no length at all cannot run.
const SHORTEST: Span = Span(1);

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seeds the noise of [`Declaring::Noisy`].
    pub seed: Seed,
    /// What jobs declare about their length.
    pub declared: Declaring,
    /// What moving costs a job whose row does not say.
    pub move_cost: MoveCost,
    /// Jobs that arrive earlier are left out, and this moment becomes time zero.
    pub from: Time,
    /// Jobs that arrive at this moment of the trace or later are left out.
    pub until: Option<Time>,
    /// At most so many jobs are kept, the earliest first.
    pub jobs: Option<usize>,
    /// The GPU types of the cluster in the order of their ids. While empty, types are numbered as they appear.
    pub gpu_types: Vec<Arc<str>>,
    /// Other names for GPU types of the trace, by the name in the trace in small letters.
    pub gpu_type_names: BTreeMap<String, String>,
    /// Tenants that are known before, usually the cluster's; those that only the trace names are added.
    pub tenants: Tenants,
    /// The throughputs that Gavel's job types refer to; `None` means Gavel's own.
    pub throughputs: Option<Arc<ThroughputTable>>,
    /// Recorded losses that jobs may name.
    pub curves: Option<Arc<LossLog>>,
    /// The name of the format, where it should not be recognised by content.
    pub format: Option<String>,
    /// The member of an archive, where several hold jobs or none is recognised.
    pub member: Option<String>,
    /// The IANA time zone of wall times without a zone; `None` means the format's own.
    pub zone: Option<String>,
    /// What is mended instead of being left out.
    pub repairs: Repairs,
    /// What happens to different rows for one job.
    pub on_duplicate: OnDuplicate,
    /// Whether jobs that were still running at the end of the trace count as completed then.
    pub count_censored: bool,
    /// A known study whose choice of jobs is repeated.
    pub preset: Option<Preset>,
}

impl Options {
    /// Options for jobs that will run on this cluster: its GPU types and tenants are known.
    pub fn for_cluster(file: &ClusterFile) -> Self {
        let gpu_types = file.cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect();
        Self { gpu_types, tenants: file.tenants.clone(), ..Self::default() }
    }
}

/// What jobs declare about their length, where the trace itself has no declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Declaring {
    /// The truth.
    #[default]
    Exact,
    /// The truth times `exp(spread * N(0, 1))`, drawn for each job by its name.
    Noisy {
        /// The standard deviation of the logarithm, up to 10.
        spread: f64,
    },
    /// Nothing.
    Absent,
}

/// What happens to different rows for one job. Equal rows always count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The trace is refused.
    #[default]
    Error,
    /// Later jobs are called `id-2`, `id-3` and so on.
    Suffix,
    /// The first row in the file is kept.
    First,
}

/// Which faults of rows are mended; what is not is left out and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Negative waits become 0, and negative run times the shortest there is, one microsecond.
    pub clamp: bool,
}

impl Repairs {
    /// The run time from `start` to `end`, which stands in `field` as `value`.
    pub(crate) fn length(
        self,
        start: Time,
        end: Time,
        (field, value): (&str, &str),
        remarks: &mut Vec<Remark>,
    ) -> Result<Span, Problem> {
        if start < end {
            return Ok(end.since(start));
        }
        let what = if start == end { "the run time is zero" } else { "the end is before the start" };
        self.mend(Problem::new(what, field, value), "the run time is now a microsecond", remarks)?;
        Ok(SHORTEST)
    }

    /// A run time in seconds above zero.
    pub(crate) fn duration_s(
        self,
        field: &str,
        value: &str,
        remarks: &mut Vec<Remark>,
    ) -> Result<Span, Problem> {
        self.duration(field, value, duration_s, remarks)
    }

    /// A run time above zero in the unit that `read` reads.
    pub(crate) fn duration(
        self,
        field: &str,
        value: &str,
        read: impl Fn(&str, &str) -> Result<Span, Problem>,
        remarks: &mut Vec<Remark>,
    ) -> Result<Span, Problem> {
        match read(field, value) {
            Err(problem) if number(field, value).is_ok_and(|number| number <= 0.0) => {
                self.mend(problem, "the run time is now a microsecond", remarks)?;
                Ok(SHORTEST)
            }
            read => read,
        }
    }

    /// Refuses or mends a job that started before it was submitted. Its length is not touched.
    pub(crate) fn wait(
        self,
        submitted: Time,
        started: Time,
        (field, value): (&str, &str),
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Problem> {
        if submitted <= started {
            return Ok(());
        }
        let problem = Problem::new("the start is before the submission", field, value);
        self.mend(problem, "the wait is taken for zero", remarks)
    }

    /// Refuses a row, or tells how it was mended.
    pub(crate) fn mend(self, problem: Problem, how: &str, remarks: &mut Vec<Remark>) -> Result<(), Problem> {
        if !self.clamp {
            return Err(problem);
        }
        let what = format!("{}; {how}", problem.what);
        remarks.push(Remark { done: Done::Repaired, problem: Problem { what, ..problem } });
        Ok(())
    }
}

/// A known study that chose among the jobs of a trace and changed some. Repeating it needs the same choice; everything
/// that it does is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Blox (EuroSys 2024), the Philly reader of its artifact: jobs of 10^1.5 to 10^4 minutes, and numbers of GPUs other
    /// than 1, 2, 4, 8 and 16 become 1.
    Blox,
}

impl Preset {
    const BLOX_MINUTES: (f64, f64) = (31.622_776_601_683_793, 10_000.0);
    const BLOX_GPUS: [u32; 5] = [1, 2, 4, 8, 16];

    /// Does to a job what the study did, and tells of what it changed.
    pub(crate) fn apply(self, shape: &mut Parallelism, truth: &mut Truth) -> Result<Option<Remark>, Problem> {
        let Self::Blox = self;
        let Speed::Fixed { iteration, .. } = truth.speed else {
            return Err(Problem::new("the length of the job depends on where it runs", "", "preset blox"));
        };
        let minutes = truth.iterations * iteration.as_secs_f64() / 60.0;
        let (least, most) = Self::BLOX_MINUTES;
        if !(least..=most).contains(&minutes) {
            let what = "preset blox: the job runs less than 31.6 or more than 10,000 minutes";
            return Err(Problem::new(what, "minutes", &minutes.to_string()));
        }
        let gpus = shape.minimum().gpu_milli / GPU;
        if Self::BLOX_GPUS.iter().any(|usual| u64::from(*usual) == gpus) {
            return Ok(None);
        }
        let what = "preset blox: the number of GPUs is not 1, 2, 4, 8 or 16; it is now 1";
        let problem = Problem::new(what, "GPUs", &gpus.to_string());
        *shape = Parallelism::gang(1);
        truth.speed = Speed::Fixed { iteration, workers: 1 };
        Ok(Some(Remark { done: Done::Repaired, problem }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_repair_an_odd_row_is_refused_and_with_one_it_is_told() {
        let (early, late) = (Time::from_secs(5), Time::from_secs(9));
        let mut remarks = Vec::new();
        let keep = Repairs::default();
        let clamp = Repairs { clamp: true };
        let field = ("end", "x");
        assert_eq!(keep.length(early, late, field, &mut remarks), Ok(Span::from_secs(4)));
        assert_eq!(keep.wait(early, early, field, &mut remarks), Ok(()));
        assert_eq!(
            keep.length(late, early, field, &mut remarks).unwrap_err().what,
            "the end is before the start"
        );
        assert!(keep.length(late, late, field, &mut remarks).is_err());
        assert!(keep.wait(late, early, field, &mut remarks).is_err());
        assert!(keep.duration_s("d", "-3", &mut remarks).is_err());
        assert!(remarks.is_empty());
        assert_eq!(clamp.length(late, early, field, &mut remarks), Ok(SHORTEST));
        assert_eq!(clamp.wait(late, early, field, &mut remarks), Ok(()));
        assert_eq!(clamp.duration_s("d", "-3", &mut remarks), Ok(SHORTEST));
        assert_eq!(clamp.duration_s("d", "0", &mut remarks), Ok(SHORTEST));
        assert!(clamp.duration_s("d", "four", &mut remarks).is_err(), "no number is mended into one");
        assert_eq!(remarks.len(), 4);
        assert!(remarks.iter().all(|remark| remark.done == Done::Repaired));
    }
}
