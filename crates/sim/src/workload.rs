//! Jobs with their truths, in the order of their arrival, and how far they can be trusted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{Declared, Job, JobId, Tenants};

use crate::truth::{Speed, Truth};

/// Everything that will arrive.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Jobs by arrival; a job's id is its position.
    pub jobs: Vec<(Arc<Job>, Truth)>,
    /// Who owns them.
    pub tenants: Tenants,
    /// The names of the models that jobs refer to by [`trainyard_sched::model::ModelId`].
    pub models: Vec<String>,
    /// The names of the GPU types that jobs refer to by number: the cluster's, or as the trace named them.
    pub gpu_types: Vec<Arc<str>>,
    /// What was read, left out, mended and assumed.
    pub report: ImportReport,
}

/// What was done to the rows of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Where the jobs come from, in words.
    pub source: String,
    /// The first 16 hex digits of the SHA-256 of the bytes that were read, decompressed.
    pub sha256_16: String,
    /// Rows read.
    pub rows: u64,
    /// Jobs kept.
    pub kept: u64,
    /// The time zone by which the times of the trace were read, where they are wall times.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// The wall time of the first arrival in that zone, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_arrival: Option<String>,
    /// Everything worth knowing, by kind.
    pub findings: Vec<Finding>,
}

/// One kind of thing that was found in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was done about it.
    pub done: Done,
    /// What was found, in words.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The first few places, as `file:line: field value`.
    pub examples: Vec<String>,
}

/// What was done about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// The row was left out.
    Dropped,
    /// The row was mended.
    Repaired,
    /// Something that the trace does not say was assumed.
    Assumed,
    /// Nothing; it is only said.
    Noted,
}

impl Workload {
    /// Sorts jobs by arrival (stable, so equal times keep their order) and numbers them.
    pub fn number(&mut self) {
        self.jobs.sort_by_key(|(job, _)| job.submitted);
        for (i, (job, _)) in self.jobs.iter_mut().enumerate() {
            if job.id.index() != i {
                Arc::make_mut(job).id = JobId(i as u32);
            }
        }
    }

    /// What a job would declare if it told the truth.
    pub fn honest(truth: &Truth) -> Declared {
        let iteration = match &truth.speed {
            Speed::Fixed { iteration, .. } => Some(*iteration),
            Speed::Function(_) | Speed::Table { .. } | Speed::Measured(_) | Speed::Graph(_) => None,
        };
        Declared { iterations: Some(truth.iterations), iteration, ..Declared::default() }
    }
}

impl ImportReport {
    /// How many findings there are of this kind, each as often as it occurred.
    pub fn count(&self, done: Done) -> u64 {
        self.findings.iter().filter(|finding| finding.done == done).map(|finding| finding.count).sum()
    }

    /// Whether rows were left out or repaired.
    pub fn has_blemishes(&self) -> bool {
        self.count(Done::Dropped) + self.count(Done::Repaired) > 0
    }

    /// Takes in what was left out and mended of another file that this one refers to.
    pub fn include(&mut self, other: &Self) {
        let blemish = |finding: &&Finding| matches!(finding.done, Done::Dropped | Done::Repaired);
        self.findings.extend(other.findings.iter().filter(blemish).map(|finding| Finding {
            what: format!("{}: {}", other.source, finding.what),
            ..finding.clone()
        }));
    }

    /// Counts a finding that occurred so many times, without places.
    pub fn find_many(&mut self, done: Done, what: impl Into<String>, count: u64) {
        if count > 0 {
            let what = what.into();
            self.find(done, what.clone(), None);
            let known = self.findings.iter_mut().find(|f| f.done == done && f.what == what);
            known.expect("it was just found").count += count - 1;
        }
    }

    /// Counts a finding; the first five places are kept as examples.
    pub fn find(&mut self, done: Done, what: impl Into<String>, example: Option<String>) {
        let what = what.into();
        let known = self.findings.iter_mut().find(|f| f.done == done && f.what == what);
        let finding = match known {
            Some(finding) => finding,
            None => {
                self.findings.push(Finding { done, what, count: 0, examples: Vec::new() });
                self.findings.last_mut().expect("one was just pushed")
            }
        };
        finding.count += 1;
        if finding.examples.len() < 5 {
            finding.examples.extend(example);
        }
    }
}
