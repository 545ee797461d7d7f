//! Every policy on random graphs of tasks that share GPUs, with several replicas and parameter servers: decisions are sound,
//! a fresh instance decides the same, and replicas are given whole.

mod common;

use std::sync::{Arc, Mutex};

use common::{Course, Dice, History, Trying};
use trainyard_sched::control::check;
use trainyard_sched::decide::{Abilities, Cadence, Decision, Entry, Policy, Verdict};
use trainyard_sched::estimate::Fitting;
use trainyard_sched::model::{
    Allocation, Declared, Edge, Goals, Job, JobId, ModelId, Parallelism, PriorityClass, Resources, Span,
    Task, TaskGraph, TaskId, Time, Topology, Wanted,
};
use trainyard_sched::place::{complete_units, units};
use trainyard_sched::policies;
use trainyard_sched::view::{JobView, Snapshot};

/// A graph of up to three replicas of up to four tasks, some with a parameter server.
fn graph(dice: &mut Dice) -> TaskGraph {
    let (replicas, count) = (1 + dice.roll(3) as u32, 1 + dice.roll(4) as u32);
    let mut tasks = Vec::new();
    let mut edges = Vec::new();
    for replica in 0..replicas {
        let first = tasks.len() as u32;
        for i in 0..count {
            tasks.push(Task {
                demand: Resources {
                    gpu_milli: dice.pick(&[0, 100, 250, 300, 500, 700, 1000, 2000]),
                    cpu_milli: dice.pick(&[0, 0, 500]),
                    ..Resources::NONE
                },
                parameters: 1 + dice.roll(9),
                replica: Some(replica),
                compute_s: dice.roll(5) as f64,
                state_bytes: 0,
            });
            if i > 0 && dice.chance(70) {
                let from = first + dice.roll(u64::from(i)) as u32;
                edges.push(Edge { from: TaskId(from), to: TaskId(first + i), bytes: dice.roll(1000) });
            }
        }
    }
    if dice.chance(40) {
        let server = tasks.len() as u32;
        let last = (1..=replicas).map(|replica| replica * count - 1);
        edges.extend(last.map(|from| Edge { from: TaskId(from), to: TaskId(server), bytes: 10 }));
        tasks.push(Task {
            demand: Resources { cpu_milli: 1000, ..Resources::NONE },
            parameters: 0,
            replica: None,
            compute_s: 0.0,
            state_bytes: 0,
        });
    }
    TaskGraph::new(tasks, edges, None, dice.chance(60)).expect("edges lead upwards")
}

fn job(dice: &mut Dice, id: u32, at: Time) -> Arc<Job> {
    let topology =
        dice.pick(&[Topology::Anywhere, Topology::Anywhere, Topology::SameRack, Topology::SameNode]);
    let declared = Declared {
        iterations: dice.chance(70).then(|| 10.0 + dice.roll(500) as f64),
        iteration: dice.chance(70).then(|| Span::from_secs(1 + dice.roll(20))),
        ..Declared::default()
    };
    let goals = Goals {
        class: PriorityClass(dice.pick(&[0, 0, 0, 1])),
        movable: dice.chance(85),
        weight: dice.pick(&[1.0, 1.0, 2.0]),
        deadline: dice.chance(50).then(|| at + Span::from_secs(dice.roll(3000))),
        ..Goals::default()
    };
    Arc::new(Job {
        model: dice.chance(70).then(|| ModelId(dice.roll(2) as u32)),
        shape: Parallelism::TaskGraph(graph(dice)),
        wanted: Wanted { topology, mixed_gpu_types: dice.chance(20), ..Wanted::default() },
        goals,
        declared,
        ..common::plain_job(id, at, 1)
    })
}

struct Judge {
    entry: &'static Entry,
    inner: Box<dyn Policy>,
    found: Arc<Mutex<Vec<String>>>,
}

fn fresh(entry: &Entry) -> Box<dyn Policy> {
    (entry.build)(&toml::Table::new()).expect("defaults are fine")
}

/// Whether a job has no part of a replica without the rest of it.
fn is_whole(view: &JobView, target: &Allocation) -> bool {
    let Parallelism::TaskGraph(graph) = &view.job.shape else { return true };
    let has = |task: &TaskId| target.count_of(*task) > 0;
    let whole =
        units(graph).into_iter().filter(|unit| unit.iter().filter(|task| !graph.is_server(**task)).all(has));
    let whole: usize = whole.map(|unit| unit.iter().filter(|task| !graph.is_server(**task)).count()).sum();
    let servers = (0..graph.tasks().len() as u32).map(TaskId).filter(|task| graph.is_server(*task)).count();
    target.is_none() || complete_units(graph, target) > 0 && target.placements().len() == whole + servers
}

impl Policy for Judge {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.inner.decide(seen);
        let mut wrong: Vec<String> =
            check(seen, &decision, Abilities::ALL).iter().map(|fault| format!("{fault:?}")).collect();
        let parts = |d: &Decision| (d.targets.clone(), d.notes.clone(), d.note.clone(), d.wake);
        let again = fresh(self.entry).decide(seen);
        if parts(&again) != parts(&decision) {
            wrong.push(format!("fresh: {:?} {:?}", parts(&decision), parts(&again)));
        }
        for (id, target) in &decision.targets {
            let view = seen.job(*id).expect("the checker has seen to that");
            if !is_whole(view, target) {
                wrong.push(format!("parts: {id} {target:?}"));
            }
        }
        for view in seen.jobs().take(2) {
            let told = fresh(self.entry).explain(seen, view.id());
            let found = decision.targets.iter().find(|(id, _)| *id == view.id());
            if told.runs() != found.map_or(&view.target, |(_, target)| target).is_some() {
                wrong.push(format!("explain: {} {told:?}", view.id()));
            }
        }
        let mut found = self.found.lock().expect("no panic");
        found.extend(wrong.into_iter().map(|text| format!("decision {}: {text}", seen.number)));
        drop(found);
        decision
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(seen, job)
    }
    fn fitting(&self) -> Option<Fitting> {
        self.inner.fitting()
    }
}

#[test]
fn every_policy_is_sound_on_graphs_that_share_gpus() {
    let mut broken = Vec::new();
    for entry in policies::ALL {
        for seed in 0..12 {
            let _trying = Trying(format!("{} with seed {seed}", entry.name));
            let found = Arc::default();
            let judge = Judge { entry, inner: fresh(entry), found: Arc::clone(&found) };
            let mut dice = Dice::new(seed);
            let (cluster, tenants) = (common::cluster(&mut dice), common::tenants(&mut dice));
            let course = Course { seed, steps: 40, mishaps: true, abilities: Abilities::ALL };
            let mut history = History::new(course, cluster.clone(), tenants.clone(), Box::new(judge));
            let mut starts = 0;
            for _ in 0..course.steps {
                let step = history.advance(&mut |dice, id, at| {
                    if dice.chance(20) {
                        common::job(dice, id, at, &cluster, &tenants)
                    } else {
                        job(dice, id, at)
                    }
                });
                assert!(step.panic.is_none(), "{:?}", step.panic);
                starts += step.actions.len();
                history.core.state().assert_consistent();
            }
            assert!(starts > 0, "{} starts nothing", entry.name);
            let complaints = found.lock().expect("no panic");
            if let Some(first) = complaints.first() {
                broken.push(format!("{} with seed {seed}, {}: {first}", entry.name, complaints.len()));
                break;
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
