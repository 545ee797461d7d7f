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
            Change::TakenUp(job) => {
                waiting.taken_up(at, job.id, wanted_gpus(job));
                shares.asks(at, job.tenant, wanted_gpus(job));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::{Core, Event, Settings};
    use crate::decide::Abilities;
    use crate::model::{
        Accuracy, Attempt, Declared, Goals, JobId, LossPoint, MoveCost, Parallelism, Seed, Span, StopRule,
        TenantId, Wanted,
    };
    use crate::policies::build;

    /// Jobs of two devices each, which have had enough at an accuracy of .5.
    fn arrives(id: u32) -> Event {
        let goals = Goals { stop: StopRule::AtAccuracy(Accuracy(0.5)), ..Goals::default() };
        let declared = Declared { iterations: Some(100.0), ..Declared::default() };
        Event::Arrived {
            job: Arc::new(Job {
                id: JobId(id),
                name: "job".into(),
                tenant: TenantId(0),
                model: None,
                submitted: Time::ZERO,
                shape: Parallelism::gang(2),
                wanted: Wanted::default(),
                goals,
                declared,
                move_cost: MoveCost::default(),
            }),
        }
    }

    #[test]
    fn a_job_that_is_taken_up_again_is_one_job() {
        let (job, other) = (JobId(0), JobId(1));
        let cluster = Cluster::uniform(1, 2, "v100");
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let mut details = Details::new(&cluster, &tenants);
        let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
        let policy = build("fifo", &toml::Table::new()).expect("it exists");
        let mut core = Core::new(cluster, tenants, policy, settings);
        let starts = |job, attempt| Event::Started { job, attempt, iterations: 0.0, speed: 1.0 };
        let stops = |job, attempt| Event::Stopped { job, attempt, iterations: 20.0 };
        let reports = |job, attempt| Event::Progress {
            job,
            attempt,
            iterations: 20.0,
            speed: 1.0,
            saved: 20.0,
            losses: vec![LossPoint { iteration: 20.0, loss: f64::NAN, accuracy: Some(0.6) }],
            copies: Vec::new(),
        };
        let (first, second) = (Attempt(1), Attempt(2));
        // The first has its devices from 0 s to 20 s; the second waits for 20 s and has them to 60 s, while the first, which is
        // taken up again at 40 s, waits for 20 s; then it has them for another 40 s.
        for (at, events) in [
            (0, vec![arrives(0), arrives(1)]),
            (0, vec![starts(job, first)]),
            (20, vec![reports(job, first)]),
            (20, vec![stops(job, first)]),
            (20, vec![starts(other, first)]),
            (40, vec![Event::Resumed { job }]),
            (60, vec![reports(other, first)]),
            (60, vec![stops(other, first)]),
            (60, vec![starts(job, second)]),
            (
                100,
                vec![Event::Finished { job, attempt: second, outcome: crate::control::Outcome::Completed }],
            ),
        ] {
            let batch = Batch { at: Time::from_secs(at), events };
            let step = core.step(&batch);
            core.state().assert_consistent();
            details.step(&batch, &step);
        }
        details.finish(Time::from_secs(100));
        let row = details.shares.rows().next().expect("the team has jobs");
        assert_eq!((row.jobs, row.held_gpu_s), (2, 2.0 * 100.0), "two jobs, however often they came");
        assert_eq!(row.wanted_gpu_s, 2.0 * (20.0 + 20.0));
        assert_eq!(row.entitled_gpu_s, 2.0 * 100.0);
        let waited: Vec<_> = details.waiting.longest().iter().map(|wait| (wait.job, wait.waited)).collect();
        assert_eq!(waited, [(job, Span::from_secs(20)), (other, Span::from_secs(20))]);
    }
}
