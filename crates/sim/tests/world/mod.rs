//! Small random worlds for the simulator's tests, and a run through one that writes everything down.

use std::sync::Arc;

use trainyard_sched::control::{Backend, Core, Head, JOURNAL_VERSION, Log, Record};
use trainyard_sched::decide::Abilities;
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::{Cluster, MoveCost, Seed, Span, Tenants, Time};
use trainyard_sched::place::{Ask, Rule, largest_gang_by};
use trainyard_sched::policies;
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

use crate::common::{self, Dice};

/// Everything that a run depends on, apart from the policy.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) cluster: Cluster,
    pub(crate) tenants: Tenants,
    pub(crate) workload: Workload,
}

impl World {
    /// A random cluster and jobs of every kind that can run there when placed by `rule`.
    pub(crate) fn random(seed: u64, rule: Rule, costs: bool) -> Self {
        let mut dice = Dice::new(seed);
        let (cluster, tenants) = (common::cluster(&mut dice), common::tenants(&mut dice));
        let mut workload = Workload { tenants: tenants.clone(), ..Workload::default() };
        let jobs = 5 + dice.roll(30);
        while (workload.jobs.len() as u64) < jobs {
            let at = Time::from_secs(dice.roll(3000));
            let mut job = Arc::unwrap_or_clone(common::job(&mut dice, 0, at, &cluster, &tenants));
            let workers = Ask::minimum(&job.shape, &job.wanted).workers.max(1);
            let known = common::fitting(&cluster, &job);
            if largest_gang_by(rule, &cluster, &job.shape, &known) < workers {
                continue;
            }
            let mut truth = Truth::lasting(Span::from_secs(1 + dice.roll(900)), workers);
            if costs {
                let (save, load) = (Span::from_secs(dice.roll(60)), Span::from_secs(dice.roll(60)));
                truth.move_cost = MoveCost { save, load, ..MoveCost::default() };
            }
            job.move_cost = truth.move_cost;
            if dice.chance(70) {
                job.declared = Workload::honest(&truth);
            }
            workload.jobs.push((Arc::new(job), truth));
        }
        workload.number();
        Self { seed, cluster, tenants, workload }
    }

    /// Equal nodes and gangs of whole GPUs that tell the truth: (submitted, GPUs, duration) in seconds.
    pub(crate) fn of_gangs(cluster: Cluster, lines: &[(u64, u32, u64)]) -> Self {
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let mut workload = Workload { tenants: tenants.clone(), ..Workload::default() };
        for (i, (submitted, gpus, duration)) in (0..).zip(lines) {
            let truth = Truth::lasting(Span::from_secs(*duration), *gpus);
            let mut job = common::plain_job(i, Time::from_secs(*submitted), *gpus);
            job.declared = Workload::honest(&truth);
            workload.jobs.push((Arc::new(job), truth));
        }
        workload.number();
        Self { seed: 1, cluster, tenants, workload }
    }

    pub(crate) fn begin(&self, policy: &str) -> (SimBackend, Core) {
        let World { seed, cluster, tenants, workload } = self.clone();
        let (physics, options, seed) = (Physics::default(), Options::default(), Seed(seed));
        let setup = Setup { cluster, tenants, workload, physics, options, seed };
        let built = policies::build(policy, &toml::Table::new()).expect("the policy exists");
        prepare(setup, built).expect("the run can begin")
    }

    /// Runs to the end and writes everything down.
    pub(crate) fn journal(&self, policy: &str) -> Journal {
        let (mut backend, mut core) = self.begin(policy);
        let head = Head {
            version: JOURNAL_VERSION,
            seed: Seed(self.seed),
            policy: policy.to_owned(),
            parameters: toml::Table::new(),
            abilities: Abilities::ALL,
            cluster: self.cluster.clone(),
            tenants: self.tenants.clone(),
        };
        let mut metrics = Metrics::new(&self.cluster);
        let (mut records, mut wake) = (Vec::new(), None);
        // When the last job has ended, only rounds and alarms go on.
        let mut left = self.workload.jobs.len();
        while let Some(batch) = backend.wait(wake).filter(|_| left > 0) {
            let step = core.step(&batch);
            metrics.step(&batch, &step);
            step.actions.iter().for_each(|action| backend.perform(action));
            wake = step.wake;
            left -= step.ended.len();
            assert!(records.len() < 100_000, "the run comes to an end");
            records.push(Record { at: batch.at, events: batch.events, step });
        }
        Journal { head, records, summary: metrics.summary(backend.now()) }
    }
}

/// What is written down of a run, and its numbers.
pub(crate) struct Journal {
    pub(crate) head: Head,
    pub(crate) records: Vec<Record>,
    pub(crate) summary: Summary,
}

impl Journal {
    /// One JSON value a line.
    pub(crate) fn lines(&self) -> String {
        let line = |value: Result<String, serde_json::Error>| value.expect("it can be written") + "\n";
        let records = self.records.iter().map(|record| line(serde_json::to_string(record)));
        line(serde_json::to_string(&self.head)) + &records.collect::<String>()
    }
}

#[test]
fn worlds_are_repeated_by_their_seed() {
    let lines = |seed| World::random(seed, Rule::Pack, true).journal("fifo").lines();
    assert_eq!(lines(5), lines(5));
    assert_ne!(lines(5), lines(6));
    let world = World::of_gangs(Cluster::uniform(1, 4, "v100"), &[(0, 4, 10), (1, 2, 5)]);
    let journal = world.journal("fifo");
    assert_eq!(journal.summary.makespan_s, 15.0);
    assert_eq!(journal.records.last().map(|record| record.at), Some(Time::from_secs(15)));
}
