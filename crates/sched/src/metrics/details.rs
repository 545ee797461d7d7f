//! What a report shows beyond the summary: an optional part of a run, which nobody pays for who does not ask for it.
//!
//! One follower of what is held feeds them all, so that they agree with each other.

use crate::control::{Batch, Log, Step};
use crate::decide::Reason;
use crate::model::{Cluster, Job, Tenants, Time};

use super::holdings::{Change, Holdings};
use super::{Fragmentation, Shares, Timeline, Usage, Waiting};

/// What a report shows beyond the summary.
#[derive(Clone, Debug)]
pub struct Details {
    holdings: Holdings,
    /// What ran where.
    pub timeline: Timeline,
    /// Why jobs waited.
    pub waiting: Waiting,
    /// What tenants got.
    pub shares: Shares,
    /// What was free and of no use.
    pub fragmentation: Fragmentation,
    /// How much of the time nodes trained.
    pub usage: Usage,
}

impl Details {
    /// Nothing has happened yet.
    pub fn new(cluster: &Cluster, tenants: &Tenants) -> Self {
        Self {
            holdings: Holdings::default(),
            timeline: Timeline::new(cluster),
            waiting: Waiting::default(),
            shares: Shares::new(tenants, cluster.gpu_count()),
            fragmentation: Fragmentation::new(cluster),
            usage: Usage::new(cluster),
        }
    }

    /// Accounts for what is not over when the run is.
    pub fn finish(&mut self, at: Time) {
        let Self { holdings, timeline, waiting, shares, fragmentation, .. } = self;
        // Whoever holds something then does not wait, so only the devices are accounted for.
        holdings.finish(&mut |change| {
            if let Change::LetGo(job, held, since, left) = change {
                timeline.let_go(at, job, held, since, left);
            }
        });
        timeline.finish(at);
        waiting.finish(at);
        shares.finish(at);
        fragmentation.note(at);
    }
}

/// GPUs that the smallest gang of a job wants.
fn wanted_gpus(job: &Job) -> f64 {
    job.shape.minimum().gpu_milli as f64 / 1000.0
}

impl Log for Details {
    fn step(&mut self, batch: &Batch, step: &Step) {
        let at = batch.at;
        let Self { holdings, timeline, waiting, shares, fragmentation, usage } = self;
        usage.step(batch, step);
        let mut is_noted = true;
        let mut follow = |waiting: &mut Waiting, shares: &mut Shares, change: Change<'_>| match change {
            Change::Arrived(job) => {
                waiting.arrived(at, job.id, wanted_gpus(job));
                shares.arrived(at, job.tenant, wanted_gpus(job));
            }
            Change::Took(job, held) => {
                waiting.took(at, job.id);
                shares.took(at, job.tenant, wanted_gpus(job), held.gpu_milli() as f64 / 1000.0);
                fragmentation.took(held);
                is_noted = false;
            }
            Change::LetGo(job, held, since, left) => {
                waiting.let_go(at, job.id);
                shares.let_go(at, job.tenant, wanted_gpus(job), held.gpu_milli() as f64 / 1000.0);
                fragmentation.let_go(held);
                timeline.let_go(at, job, held, since, left);
                is_noted = false;
            }
            Change::Gone(job) => {
                waiting.gone(at, job.id);
                shares.judged(at, job.id, job.tenant, wanted_gpus(job), true);
                shares.gone(at, job.tenant, wanted_gpus(job));
            }
            Change::Node(node, state) => {
                fragmentation.node_changed(node, state);
                timeline.node_changed(at, node, state);
                is_noted = false;
            }
        };
        holdings.events(batch, step, &mut |change| follow(waiting, shares, change));
        for (id, verdict) in step.decision.iter().flat_map(|decision| &decision.verdicts) {
            waiting.decided(at, *id, verdict);
            if let Some(job) = holdings.job(*id) {
                let possible = !matches!(verdict.reason(), Reason::Unplaceable { .. });
                shares.judged(at, job.id, job.tenant, wanted_gpus(job), possible);
            }
        }
        holdings.actions(at, step, &mut |change| follow(waiting, shares, change));
        if !is_noted {
            fragmentation.note(at);
        }
    }
}
