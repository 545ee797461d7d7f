//! One course of the jobs, real or simulated, folded in the same way.

use std::collections::BTreeSet;

use trainyard_sched::control::{Action, Batch, How, Log, Maker, Step, run};
use trainyard_sched::metrics::Metrics;
use trainyard_sched::model::{Cluster, JobId, Time};
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::observed::Observed;
use trainyard_sim::physics::{Extent, Physics};
use trainyard_sim::simulate::{Setup, natural_horizon, prepare};
use trainyard_sim::truth::Speed;

use super::LiveJournal;
use crate::config::PolicyChoice;
use crate::failure::Failure;

/// A simulation is cut off when it is so many times as long as the real run.
const MOST_TIMES_AS_LONG: u64 = 50;

/// What came of the jobs.
pub(super) struct Course {
    pub(super) metrics: Metrics,
    pub(super) ended: Time,
    pub(super) orders: Orders,
}

/// What was ordered.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    pub(super) decisions: u64,
    pub(super) starts: u64,
    pub(super) resizes: u64,
    /// Stops with saving, which are preemptions and moves.
    pub(super) stops: u64,
    /// Decisions, and starts and resizes, to sizes or places at which the job was never measured.
    pub(super) decisions_on_interpolated: u64,
    pub(super) interpolated: u64,
    /// Stops of jobs that were never stopped in the real run, whose cost is therefore that of others.
    pub(super) stops_assumed: u64,
    /// The jobs that these were.
    pub(super) on_interpolated: BTreeSet<JobId>,
}

/// Follows a course.
struct Follower<'a> {
    metrics: Metrics,
    orders: Orders,
    cluster: &'a Cluster,
    observed: Option<&'a Observed>,
}

impl Follower<'_> {
    fn is_interpolated(&self, action: &Action) -> bool {
        let (Action::Start { job, allocation, .. } | Action::Resize { job, allocation, .. }) = action else {
            return false;
        };
        let Some((_, truth)) = self.observed.and_then(|seen| seen.workload.jobs.get(job.index())) else {
            return false;
        };
        match &truth.speed {
            Speed::Measured(speeds) => !speeds.is_measured(&Extent::of(self.cluster, allocation)),
            _ => false,
        }
    }
}

impl Log for Follower<'_> {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.metrics.step(batch, step);
        self.orders.decisions += u64::from(step.decision.is_some());
        let mut interpolated = 0;
        for action in &step.actions {
            match action {
                Action::Start { .. } => self.orders.starts += 1,
                Action::Resize { .. } => self.orders.resizes += 1,
                Action::Stop { job, how: How::Save, .. } => {
                    self.orders.stops += 1;
                    let seen = self.observed.and_then(|seen| seen.ends.get(job.index()));
                    self.orders.stops_assumed += u64::from(seen.is_some_and(|end| !end.stopped));
                }
                Action::Stop { .. } | Action::Merge { .. } => {}
            }
            if self.is_interpolated(action) {
                interpolated += 1;
                self.orders.on_interpolated.insert(action.job());
            }
        }
        self.orders.interpolated += interpolated;
        self.orders.decisions_on_interpolated += u64::from(interpolated > 0);
    }
}

/// What really came of the jobs.
pub(super) fn real(journal: &LiveJournal) -> Course {
    let mut follower = Follower {
        metrics: Metrics::new(&journal.head.cluster),
        orders: Orders::default(),
        cluster: &journal.head.cluster,
        observed: None,
    };
    for record in &journal.records {
        let batch = Batch { at: record.at, events: record.events.clone() };
        follower.step(&batch, &record.step);
    }
    let ended = journal.records.last().map_or(Time::ZERO, |record| record.at);
    Course { metrics: follower.metrics, ended, orders: follower.orders }
}

/// Makes policies for a loop whose policy may be changed.
pub(crate) fn maker() -> Maker {
    Box::new(|name, parameters| {
        let choice = PolicyChoice::new(name, parameters.clone()).map_err(|error| error.to_string())?;
        choice.build().map_err(|error| error.to_string())
    })
}

/// When a simulation is cut off: later than any policy should need, but of jobs without an end nobody knows when that is.
fn horizon(observed: &Observed, cluster: &Cluster) -> Time {
    let most = Time(observed.last.0.saturating_mul(MOST_TIMES_AS_LONG));
    natural_horizon(&observed.workload, cluster).clamp(observed.last, most)
}

/// What comes of them in the simulation, under this policy; it is changed when it was in the real run, if that is wanted.
pub(super) fn simulated(
    journal: &LiveJournal,
    observed: &Observed,
    policy: &PolicyChoice,
    with_changes: bool,
) -> Result<Course, Failure> {
    let cluster = &journal.head.cluster;
    let mut outside = observed.withdrawals.clone();
    if with_changes {
        outside.extend(observed.policy_changes.iter().cloned());
    }
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: journal.head.tenants.clone(),
        workload: observed.workload.clone(),
        physics: Physics::default(),
        options: Options {
            abilities: journal.head.abilities,
            node_changes: observed.node_changes.clone(),
            outside,
            horizon: horizon(observed, cluster),
            report_every: None,
        },
        seed: journal.head.seed,
    };
    let label = policy.label();
    let (mut backend, core) =
        prepare(setup, policy.build()?).map_err(|source| Failure::Setup { policy: label, source })?;
    let mut follower = Follower {
        metrics: Metrics::new(cluster),
        orders: Orders::default(),
        cluster,
        observed: Some(observed),
    };
    run(&mut backend, &mut core.with_maker(maker()), &mut follower);
    let ended = SimBackend::now(&backend);
    Ok(Course { metrics: follower.metrics, ended, orders: follower.orders })
}
