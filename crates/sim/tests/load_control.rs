//! Load control around every policy, over whole runs: it is not there where there is nothing to control, and it cuts short
//! whom it may, when it may, and nobody else.

#[path = "../../sched/tests/common/mod.rs"]
mod common;
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{Dice, Trying};
use toml::Table;
use trainyard_sched::control::{Backend, Core, Event, Log, Outcome, Record};
use trainyard_sched::decide::{Abilities, Cadence, Change, Decision, Enough, Policy, Verdict};
use trainyard_sched::metrics::Metrics;
use trainyard_sched::model::{
    Accuracy, Cluster, Curve, GPU, Goals, Job, JobId, NodeState, Relaxing, Resources, Seed, Span, StopRule,
    Tenants, Time, UNLIMITED,
};
use trainyard_sched::policies;
use trainyard_sched::view::{JobView, Snapshot};
use trainyard_sim::accuracy::TrueAccuracy;
use trainyard_sim::backend::{Options, SimBackend};
use trainyard_sim::loss::TrueLoss;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

/// How often jobs report.
const REPORT: Span = Span::from_secs(10);

/// A job whose accuracy rises to a top, and its truth. An iteration takes a second.
fn learner(dice: &mut Dice, id: u32, at: Time, gpus: u32, goals: Goals) -> (Arc<Job>, Truth) {
    let iterations = 50 + dice.roll(150);
    let mut truth = Truth::lasting(Span::from_secs(1), gpus);
    truth.iterations = iterations as f64;
    let top = 0.7 + 0.28 * dice.roll(1000) as f64 / 1000.0;
    let reached = iterations as f64 * (0.4 + 0.6 * dice.roll(1000) as f64 / 1000.0);
    let scale = TrueAccuracy::scale_for(reached, 0.001, 1.0);
    let accuracy = TrueAccuracy { start: 0.1, top, scale, shape: 1.0, fall: None };
    let curve = Curve::Geometric { amplitude: 2.0, mu: 0.97, c: 0.5 };
    truth.loss = Some(TrueLoss { accuracy: Some(accuracy), ..TrueLoss::exact(curve) });
    let mut job = common::plain_job(id, at, gpus);
    job.declared = Workload::honest(&truth);
    job.goals = goals;
    (Arc::new(job), truth)
}

struct Case {
    cluster: Cluster,
    jobs: Vec<(Arc<Job>, Truth)>,
}

impl Case {
    fn begin(&self, policy: Box<dyn Policy>) -> (SimBackend, Core) {
        self.begin_with(policy, Vec::new())
    }

    fn begin_with(&self, policy: Box<dyn Policy>, outside: Vec<(Time, Event)>) -> (SimBackend, Core) {
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let mut workload =
            Workload { tenants: tenants.clone(), jobs: self.jobs.clone(), ..Workload::default() };
        workload.number();
        let options = Options { report_every: Some(REPORT), outside, ..Options::default() };
        let (cluster, physics, seed) = (self.cluster.clone(), Physics::default(), Seed(7));
        prepare(Setup { cluster, tenants, workload, physics, options, seed }, policy)
            .expect("the run can begin")
    }

    /// All steps of a run to its end, each with what the loop believes after it.
    fn run(&self, policy: Box<dyn Policy>, mut each: impl FnMut(&Record, &Core)) -> Vec<Record> {
        let (mut backend, mut core) = self.begin(policy);
        let (mut records, mut wake, mut left) = (Vec::new(), None, self.jobs.len());
        while let Some(batch) = backend.wait(wake).filter(|_| left > 0) {
            let step = core.step(&batch);
            core.state().assert_consistent();
            step.actions.iter().for_each(|action| backend.perform(action));
            wake = step.wake;
            left -= step.ended.len();
            records.push(Record { at: batch.at, events: batch.events, step });
            each(records.last().expect("it was just put there"), &core);
            assert!(records.len() < 50_000, "the run comes to an end");
        }
        assert_eq!(left, 0, "every job ends");
        records
    }
}

fn around(inner: &str, more: &str) -> Box<dyn Policy> {
    let mut given: Table = more.parse().expect("it is TOML");
    given.insert("inner".to_owned(), inner.into());
    policies::build("mlf-c", &given).expect("it stands around it")
}

fn plain(name: &str) -> Box<dyn Policy> {
    policies::build(name, &Table::new()).expect("it exists")
}

fn others() -> impl Iterator<Item = &'static str> {
    policies::ALL.iter().map(|entry| entry.name).filter(|name| *name != "mlf-c")
}

fn lines(records: &[Record]) -> String {
    records.iter().map(|record| serde_json::to_string(record).expect("it can be written") + "\n").collect()
}

/// Whether every job is started when it arrives, and everything that runs stays.
fn nobody_waits(records: &[Record]) -> bool {
    records.iter().all(|record| {
        let arrived = record.events.iter().filter(|event| matches!(event, Event::Arrived { .. })).count();
        let given = record.step.decision.iter().flat_map(|decision| &decision.targets);
        given.clone().all(|(_, target)| target.is_some()) && given.count() >= arrived
    })
}

#[test]
fn around_any_policy_it_is_not_there_while_nobody_waits_and_all_run_to_their_own_end() {
    let (mut compared, mut noticed) = (0, 0);
    for name in others() {
        for seed in 0..3 {
            let _trying = Trying(format!("{name} with seed {seed}"));
            let mut dice = Dice::new(seed);
            let goals = Goals { may_relax: Relaxing::ALL, accuracy: Some(Accuracy(0.6)), ..Goals::default() };
            let mut job = |id| {
                let gpus = 1 + dice.roll(2) as u32;
                learner(&mut dice, id, Time::ZERO, gpus, goals.clone())
            };
            let case = Case { cluster: Cluster::uniform(8, 4, "v100"), jobs: (0..9).map(&mut job).collect() };
            let inner = case.run(plain(name), |_, _| {});
            if nobody_waits(&inner) {
                let outer = case.run(around(name, ""), |_, _| {});
                assert!(lines(&inner) == lines(&outer), "load control changes what {name} does");
                compared += 1;
            }
            // Where servers count as overloaded from the first job on, allowed downgrades are made.
            let mut relaxed = 0;
            case.run(around(name, "overload_above = 0.0"), |record, _| {
                let changes = record.step.decision.iter().flat_map(|decision| &decision.changes);
                relaxed += changes.filter(|change| matches!(change, Change::Relax { .. })).count();
            });
            noticed += u32::from(relaxed > 0);
        }
    }
    assert!(compared >= 45, "only {compared} runs had nobody waiting");
    assert!(noticed >= 30, "only {noticed} runs were overloaded where any load is too much");
}

#[test]
fn jobs_without_leave_are_never_touched_however_many_wait() {
    for name in others() {
        let _trying = Trying(name.to_owned());
        let mut dice = Dice::new(11);
        let goals = Goals { accuracy: Some(Accuracy(0.6)), ..Goals::default() };
        let mut job = |id: u32| {
            let at = Time::from_secs(u64::from(id) * 9);
            learner(&mut dice, id, at, 1 + id % 2, goals.clone())
        };
        let case = Case { cluster: Cluster::uniform(2, 2, "v100"), jobs: (0..14).map(&mut job).collect() };
        let inner = lines(&case.run(plain(name), |_, _| {}));
        assert!(
            inner == lines(&case.run(around(name, ""), |_, _| {})),
            "load control changes what {name} does"
        );
    }
}

/// A slow account of who waits and how busy servers are.
fn is_overloaded(seen: &Snapshot) -> bool {
    let waits = |view: &JobView| {
        view.held.is_none() && view.target.is_none() && view.served.changed < seen.at && view.shuns.is_none()
    };
    let norm = |node: &trainyard_sched::model::Node| {
        let on_it = |view: &JobView| -> u64 {
            view.held.placements().iter().filter(|p| p.node == node.id).map(|p| p.gpus.milli()).sum()
        };
        let gpu = seen.jobs().map(on_it).sum::<u64>() as f64 / node.holds.gpu_milli as f64;
        let cpus = |view: &JobView| -> u64 {
            view.held
                .placements()
                .iter()
                .filter(|p| p.node == node.id)
                .map(|p| u64::from(p.count) * CPU_MILLI)
                .sum()
        };
        let cpu = seen.jobs().map(cpus).sum::<u64>() as f64 / node.holds.cpu_milli as f64;
        assert_eq!(node.state, NodeState::Up);
        (gpu * gpu + cpu * cpu).sqrt()
    };
    let nodes = &seen.cluster.nodes;
    seen.jobs().any(waits) || nodes.iter().map(norm).sum::<f64>() / nodes.len() as f64 > 0.9
}

/// What each worker has of CPUs in these tests.
const CPU_MILLI: u64 = 500;

/// What is wrong with what load control does, gathered decision by decision.
struct Watched {
    inner: Box<dyn Policy>,
    wrong: Arc<Mutex<Vec<String>>>,
    stops: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

impl Watched {
    fn judge(&self, seen: &Snapshot, decision: &Decision) -> Vec<String> {
        let (overloaded, mut wrong) = (is_overloaded(seen), Vec::new());
        for change in &decision.changes {
            let view = seen.job(change.job()).expect("it is there");
            let goals = &view.job.goals;
            match change {
                Change::Relax { to, .. } => {
                    if !overloaded || !goals.may_relax.allows(goals.stop, *to) {
                        wrong.push(format!("{change:?}, overloaded: {overloaded}"));
                    }
                }
                Change::Restore { job }
                    if overloaded && view.losses.best_accuracy() >= goals.accuracy.map(|a| a.0) =>
                {
                    wrong.push(format!("{job} is restored though it is done"));
                }
                Change::Stop { why, saved_gpu_s, .. } => {
                    let is_own = matches!(goals.stop, StopRule::OwnIterations);
                    let best = view.losses.best_accuracy().expect("it reported");
                    let (kind, sound) = match *why {
                        Enough::Reached { accuracy, needed } => ("reached", accuracy >= needed),
                        Enough::AtPeak { accuracy, expected, .. } => {
                            ("at peak", accuracy >= expected - 0.005)
                        }
                        Enough::Stalled { chance, .. } => ("stalled", chance < 0.05),
                        Enough::Hopeless { accuracy, needed, chance } => {
                            ("hopeless", overloaded && accuracy < needed && chance < 0.05)
                        }
                    };
                    let told = match *why {
                        Enough::Reached { accuracy, .. }
                        | Enough::AtPeak { accuracy, .. }
                        | Enough::Stalled { accuracy, .. }
                        | Enough::Hopeless { accuracy, .. } => accuracy,
                    };
                    let left = view.job.goal().expect("it says") - view.iterations(seen.at);
                    let left_gpu_s =
                        left.max(0.0) * f64::from(view.job.shape.data_parallel().expect("one").workers.min);
                    if !sound || told != best || (is_own && !(overloaded && goals.may_relax.any())) {
                        wrong.push(format!("{change:?}, overloaded: {overloaded}, best {best}"));
                    }
                    if (saved_gpu_s - left_gpu_s).abs() > 1e-3 * left_gpu_s.max(1.0) {
                        wrong.push(format!("{change:?} saves {left_gpu_s}"));
                    }
                    *self.stops.lock().expect("no panic").entry(kind).or_insert(0) += 1;
                }
                Change::Restore { .. } | Change::Reject { .. } => {}
            }
        }
        // Whoever follows a cheaper rule gets its own back as soon as the load has gone.
        let restored = |view: &&JobView| decision.changes.iter().any(|change| change.job() == view.id());
        let kept =
            seen.jobs().filter(|view| !overloaded && view.relaxed.is_some()).find(|view| !restored(view));
        wrong.extend(kept.map(|view| format!("{} is still held to {:?}", view.id(), view.relaxed)));
        wrong
    }
}

impl Policy for Watched {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }
    fn needs(&self) -> Abilities {
        self.inner.needs()
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.inner.decide(seen);
        let wrong = self.judge(seen, &decision);
        self.wrong.lock().expect("no panic").extend(wrong);
        decision
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(seen, job)
    }
}

/// A busy cluster with jobs of every option, with and without leave.
fn busy(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type("v100");
    let holds = Resources {
        gpu_milli: 4 * GPU,
        cpu_milli: 8 * GPU,
        memory_bytes: UNLIMITED,
        network_bytes_per_s: UNLIMITED,
    };
    for _ in 0..2 {
        cluster.push(trainyard_sched::model::RackId(0), Some(gpu_type), holds, None);
    }
    let mut at = 0;
    let jobs = (0..24).map(|id| {
        at += dice.roll(60);
        let needed = Accuracy(0.6 + 0.38 * dice.roll(100) as f64 / 100.0);
        let goals = Goals {
            stop: dice.pick(&[StopRule::OwnIterations, StopRule::AtPeak, StopRule::AtAccuracy(needed)]),
            may_relax: dice.pick(&[Relaxing::ALL, Relaxing::NONE]),
            accuracy: Some(needed),
            deadline: dice.chance(30).then(|| Time::from_secs(at + 50 + dice.roll(400))),
            movable: dice.chance(80),
            ..Goals::default()
        };
        let gpus = 1 + dice.roll(3) as u32;
        let (job, truth) = learner(&mut dice, id, Time::from_secs(at), gpus, goals);
        let mut job = Arc::unwrap_or_clone(job);
        let worker = Resources { cpu_milli: CPU_MILLI, ..Resources::gpus(1) };
        job.shape = trainyard_sched::model::Parallelism::rigid(gpus, worker);
        (Arc::new(job), truth)
    });
    Case { jobs: jobs.collect(), cluster }
}

/// Iterations of each job when it ended, and how it ended.
type Ends = BTreeMap<JobId, (f64, Outcome)>;

/// Runs a case and follows how far each job came. `strict` looks at those that are to stop at an accuracy.
fn ends(case: &Case, policy: Box<dyn Policy>) -> Ends {
    let (mut done, mut ends): (BTreeMap<JobId, f64>, Ends) = (BTreeMap::new(), BTreeMap::new());
    case.run(policy, |record, core| {
        for event in &record.events {
            let Event::Progress { job, iterations, losses, .. } = event else { continue };
            done.insert(*job, *iterations);
            let goals = &case.jobs[job.index()].0.goals;
            if let StopRule::AtAccuracy(needed) = goals.stop
                && losses
                    .iter()
                    .any(|point| point.accuracy.is_some_and(|reached| Accuracy(reached) >= needed))
            {
                let over = core.state().has_ended(*job) || core.state().is_ending(*job);
                assert!(over, "{job} goes on at {} though it reported what is needed", record.at);
            }
        }
        for (job, outcome) in &record.step.ended {
            ends.insert(*job, (done.get(job).copied().unwrap_or(0.0), *outcome));
        }
    });
    ends
}

#[test]
fn only_who_may_be_cut_short_is_when_it_may_be_and_nobody_does_more_than_without() {
    let (mut all, mut spared) = (BTreeMap::new(), 0.0);
    for name in ["fifo", "fifo-skip", "easy", "srtf", "tiresias", "gavel", "fair", "optimus"] {
        for seed in 0..10 {
            let _trying = Trying(format!("{name} with seed {seed}"));
            let case = busy(seed);
            let without = ends(&case, plain(name));
            let (wrong, stops) = (Arc::default(), Arc::default());
            let watched =
                Watched { inner: around(name, ""), wrong: Arc::clone(&wrong), stops: Arc::clone(&stops) };
            let with = ends(&case, Box::new(watched));
            let wrong: Vec<String> = std::mem::take(&mut wrong.lock().expect("no panic"));
            assert!(wrong.is_empty(), "{wrong:#?}");
            for (id, (iterations, outcome)) in &with {
                let (job, truth) = &case.jobs[id.index()];
                let before = without[id].0;
                assert!(*iterations <= before + 11.0, "{id} does {iterations} and not {before}");
                spared += (before - iterations).max(0.0);
                let own_end = job.goals.stop == StopRule::OwnIterations && !job.goals.may_relax.any();
                if own_end {
                    assert_eq!((*iterations, *outcome), (truth.iterations, Outcome::Completed), "{id}");
                }
            }
            for (kind, count) in stops.lock().expect("no panic").iter() {
                *all.entry(*kind).or_insert(0) += count;
            }
        }
    }
    let often = |kind: &str| all.get(kind).copied().unwrap_or(0);
    assert!(["reached", "at peak", "hopeless"].iter().all(|kind| often(kind) > 10), "{all:?}");
    assert!(spared > 5000.0, "{spared} iterations are spared");
}

#[test]
fn who_was_cut_short_goes_on_where_it_was_if_its_owner_wants_so() {
    let mut dice = Dice::new(3);
    let own = Goals::default();
    let soon = Goals { stop: StopRule::AtAccuracy(Accuracy(0.5)), ..own.clone() };
    let jobs = [soon, own].map(|goals| learner(&mut dice, 0, Time::ZERO, 1, goals)).into();
    let case = Case { cluster: Cluster::uniform(1, 2, "v100"), jobs };
    let (cut, whole) = (JobId(0), JobId(1));
    // Too early, for one that was not cut short, and once more than needed; again when it has come to its own end.
    let wishes = [(5, cut), (1000, whole), (1000, cut), (1000, cut), (1010, cut), (3000, cut)];
    let outside = wishes.map(|(at, job)| (Time::from_secs(at), Event::Resumed { job })).into();
    let (mut backend, mut core) = case.begin_with(around("fifo", ""), outside);
    let mut metrics = Metrics::new(core.state().cluster());
    let (mut wake, mut ends, mut starts, mut stopped_at) = (None, Vec::new(), Vec::new(), 0.0);
    while let Some(batch) = backend.wait(wake) {
        let step = core.step(&batch);
        core.state().assert_consistent();
        metrics.step(&batch, &step);
        step.actions.iter().for_each(|action| backend.perform(action));
        wake = step.wake;
        for event in &batch.events {
            match event {
                Event::Started { job, iterations, attempt, .. } => {
                    starts.push((*job, attempt.0, *iterations))
                }
                Event::Stopped { iterations, .. } => stopped_at = *iterations,
                _ => {}
            }
        }
        ends.extend(step.ended.iter().map(|(job, outcome)| (batch.at, *job, *outcome)));
        if let Some((job, early)) = step.early.first() {
            assert_eq!(*job, cut);
            assert!(early.to_string().contains("of 0.500 needed; 0.0"), "{early}");
            assert!(early.saved_gpu_s > 1.0 && early.why.kind() == "reached");
            let parted = core.state().parted(cut).expect("it may come back");
            assert_eq!(parted.done.saved, stopped_at);
            let summary = metrics.summary(batch.at).early.expect("it is counted");
            assert_eq!((summary.jobs, summary.reached), (1, 1));
            assert!((summary.gpu_hours_saved * 3600.0 - early.saved_gpu_s).abs() < 1e-6);
            let kept = serde_json::to_string(core.state()).expect("it can be kept");
            let again: trainyard_sched::control::State = serde_json::from_str(&kept).expect("it can be read");
            assert_eq!(again.parted(cut), Some(parted), "that it may come back is kept");
        }
    }
    let of_cut: Vec<_> =
        ends.iter().filter(|(_, job, _)| *job == cut).map(|(at, _, how)| (*at, *how)).collect();
    assert_eq!(of_cut.len(), 2, "{ends:?}");
    assert!(of_cut[0].1 == Outcome::StopRuleMet && of_cut[0].0 < Time::from_secs(1000), "{ends:?}");
    let left_s = case.jobs[0].1.iterations - stopped_at;
    assert_eq!(of_cut[1].1, Outcome::Completed);
    assert!(
        (of_cut[1].0.as_secs_f64() - 1000.0 - left_s).abs() < 1e-3,
        "it does what is left: {ends:?} {left_s}"
    );
    assert!(stopped_at > 1.0 && starts.contains(&(cut, 2, stopped_at)), "{starts:?} {stopped_at}");
    assert_eq!(ends.iter().filter(|(_, job, _)| *job == whole).count(), 1, "{ends:?}");
    let row = metrics.rows().find(|row| row.id == cut).expect("it has a row");
    assert_eq!((row.outcome, row.early), (Some(Outcome::Completed), None));
}
