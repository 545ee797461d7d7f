//! A run whose truth is known is written down, read again as if it had been real, and simulated once more: what comes out
//! must be what went in, under every policy that decides by other things. Faults in what is taken over must show.

use std::sync::Arc;

use trainyard_sched::control::{Batch, Event, Head, JOURNAL_VERSION, Log, Outcome, Record, Step, run};
use trainyard_sched::decide::Abilities;
use trainyard_sched::metrics::{Metrics, percentile};
use trainyard_sched::model::{
    Cluster, Convergence, Curve, Declared, Goals, Job, JobId, MoveCost, NodeId, NodeState, Parallelism,
    Resources, Seed, Span, SpeedFunction, StopRule, TenantId, Tenants, Time, Topology, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::cluster::parse_words;
use trainyard_sim::loss::TrueLoss;
use trainyard_sim::observed::{Observed, ObservedError};
use trainyard_sim::physics::{Extent, MeasuredSpeeds, Physics, Place};
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::truth::{Ending, Overheads, Reporting, Speed, Truth};
use trainyard_sim::workload::Workload;

/// By which part the mean completion time may be off. The journal tells of whole iterations only, so some error is left.
const MEAN: f64 = 0.02;
/// The same for nine in ten jobs.
const SINGLE: f64 = 0.05;

fn cluster() -> Cluster {
    parse_words("2x4:cpu").expect("words for a cluster")
}

fn tenants() -> Tenants {
    let mut tenants = Tenants::default();
    tenants.intern("team");
    tenants
}

/// Jobs that come every few seconds, with one to four workers of a core each, and what they really are.
fn workload(jobs: u32) -> Workload {
    let mut all = Workload { tenants: tenants(), ..Workload::default() };
    for i in 0..jobs {
        // A fixed pattern is as good as chance here.
        let (a, b) = (f64::from(i * 7 % 5), f64::from(i * 11 % 7));
        let (work_s, iterations) = (0.3 + 0.1 * a, 40.0 + 10.0 * b);
        let truth = Truth {
            iterations,
            speed: Speed::Function(SpeedFunction::WithFixedPart { work_s, fixed_s: 0.05 }),
            move_cost: MoveCost { save: Span(900_000), ..MoveCost::default() },
            loss: Some(TrueLoss::exact(Curve::Geometric { amplitude: 3.0, mu: 0.9, c: 0.5 + 0.1 * a })),
            ending: if i % 6 == 5 { Ending::Failed } else { Ending::Completed },
            overheads: Some(Overheads {
                launch: Span(300_000),
                warm_up: 2.0,
                warm_up_again: 1.0,
                resize: Span(20_000),
                resizes_in_place: true,
                until_stopped: 0.0,
                reports: Some(Reporting { every_iterations: 1.0, at_least: Span(20_000) }),
            }),
            ..Truth::lasting(Span(1), 1)
        };
        let job = Job {
            id: JobId(i),
            name: format!("job-{i}").into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time(2_500_000 * u64::from(i)),
            shape: Parallelism::elastic(
                WorkerRange { min: 1 + i % 2, max: 4 },
                Resources { cpu_milli: 1000, ..Resources::NONE },
            ),
            wanted: Wanted { topology: Topology::SameNode, ..Wanted::default() },
            goals: Goals::default(),
            declared: Declared {
                iterations: Some(iterations),
                iteration: Some(Span::from_secs_f64(work_s)),
                ..Declared::default()
            },
            move_cost: MoveCost::default(),
        };
        let mut job = job;
        job.declared.loss.convergence = Some(Convergence::Linear);
        all.jobs.push((Arc::new(job), truth));
    }
    all
}

/// A run that was written down.
struct Told {
    head: Head,
    records: Vec<Record>,
    metrics: Metrics,
}

struct Writer {
    records: Vec<Record>,
    metrics: Metrics,
}

impl Log for Writer {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.metrics.step(batch, step);
        self.records.push(Record { at: batch.at, events: batch.events.clone(), step: step.clone() });
    }
}

fn told(policy: &str, workload: &Workload, options: Options) -> Told {
    let abilities = Abilities::RESIZE | Abilities::LOSS | Abilities::RELAX;
    let head = Head {
        version: JOURNAL_VERSION,
        seed: Seed(1),
        policy: policy.to_owned(),
        parameters: toml::Table::new(),
        abilities,
        cluster: cluster(),
        tenants: tenants(),
    };
    let setup = Setup {
        cluster: cluster(),
        tenants: tenants(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options { abilities, horizon: Time::from_secs(10_000), ..options },
        seed: Seed(1),
    };
    let make =
        |name: &str, given: &toml::Table| policies::build(name, given).map_err(|error| error.to_string());
    let (mut backend, core) =
        prepare(setup, make(policy, &toml::Table::new()).expect("it exists")).expect("it begins");
    let mut writer = Writer { records: Vec::new(), metrics: Metrics::new(&head.cluster) };
    run(&mut backend, &mut core.with_maker(Box::new(make)), &mut writer);
    Told { head, records: writer.records, metrics: writer.metrics }
}

impl Told {
    fn observed(&self) -> Observed {
        Observed::new(&self.head, &self.records, |_| true).expect("it can be read")
    }

    fn jct_s(&self, job: JobId) -> f64 {
        let row = self.metrics.rows().find(|row| row.id == job).expect("it is there");
        row.ended.unwrap_or_else(|| panic!("{job} did not end: {row:?}")).since(row.submitted).as_secs_f64()
    }

    fn mean_jct_s(&self, jobs: usize) -> f64 {
        (0..jobs as u32).map(|job| self.jct_s(JobId(job))).sum::<f64>() / jobs as f64
    }
}

/// The run that comes of what was observed.
fn again(policy: &str, seen: &Observed) -> Told {
    let mut outside = seen.withdrawals.clone();
    outside.extend(seen.policy_changes.iter().cloned());
    let options = Options { outside, node_changes: seen.node_changes.clone(), ..Options::default() };
    told(policy, &seen.workload, options)
}

/// By which part the mean is off, and by which nine in ten jobs are at most.
fn errors(real: &Told, again: &Told) -> (f64, f64) {
    let jobs = real.metrics.rows().count();
    let mean = again.mean_jct_s(jobs) / real.mean_jct_s(jobs) - 1.0;
    let of = |job: JobId| (again.jct_s(job) / real.jct_s(job) - 1.0).abs();
    let mut each: Vec<f64> = (0..jobs as u32).map(|job| of(JobId(job))).collect();
    each.sort_by(f64::total_cmp);
    (mean, percentile(&each, 90.0).expect("there are jobs"))
}

#[test]
fn what_is_observed_of_a_run_makes_the_same_run_again() {
    for policy in ["fifo", "srtf", "fair", "slaq", "easy"] {
        let real = told(policy, &workload(24), Options::default());
        let seen = real.observed();
        let again = again(policy, &seen);
        let (mean, single) = errors(&real, &again);
        println!("{policy}: mean {mean:+.4}, single {single:.4}");
        assert!(mean.abs() <= MEAN && single <= SINGLE, "{policy}: mean {mean}, single {single}");
        let outcomes = |told: &Told| told.metrics.rows().map(|row| row.outcome).collect::<Vec<_>>();
        assert_eq!(outcomes(&real), outcomes(&again), "{policy}");
        assert!(seen.ends.iter().all(|end| end.trained && end.failures == 0));
    }
}

#[test]
fn what_was_decided_is_not_taken_over() {
    let real = told("fifo", &workload(24), Options::default());
    let seen = real.observed();
    let preemptions = |told: &Told| told.metrics.summary(Time::NEVER).preemptions;
    let other = again("srtf", &seen);
    assert!(preemptions(&real) == 0 && preemptions(&other) > 0);
    // What srtf makes of the truth, and what it makes of what fifo showed of it.
    let (mean, _) = errors(&told("srtf", &workload(24), Options::default()), &other);
    assert!(mean.abs() < 0.1, "{mean}");
}

/// A planted fault in what was observed, and whether it shows.
fn shows(policy: &str, fault: impl Fn(&mut Job, &mut Truth)) -> bool {
    let real = told(policy, &workload(24), Options::default());
    let mut seen = real.observed();
    for (job, truth) in &mut seen.workload.jobs {
        fault(Arc::make_mut(job), truth);
    }
    let (mean, single) = errors(&real, &again(policy, &seen));
    mean.abs() > MEAN || single > SINGLE
}

#[test]
fn faults_in_what_is_observed_show() {
    assert!(!shows("srtf", |_, _| {}));
    let restarts_cost_nothing = |_: &mut Job, truth: &mut Truth| {
        truth.move_cost.save = Span::ZERO;
        let overheads = truth.overheads.as_mut().expect("they were measured");
        (overheads.launch, overheads.warm_up_again) = (Span::ZERO, 0.0);
    };
    assert!(shows("srtf", restarts_cost_nothing));
    let speeds_of_another_size = |_: &mut Job, truth: &mut Truth| {
        let Speed::Measured(speeds) = &truth.speed else { panic!("{truth:?}") };
        let shifted = speeds
            .measured()
            .map(|(extent, per_s)| (Extent { workers: extent.workers + 1, ..extent.clone() }, per_s));
        truth.speed = Speed::Measured(Arc::new(MeasuredSpeeds::new(shifted.collect(), Arc::default())));
    };
    assert!(shows("fair", speeds_of_another_size));
    assert!(shows("fifo", speeds_of_another_size));
    let arrivals_shifted = |job: &mut Job, _: &mut Truth| {
        job.submitted = Time(job.submitted.0 * 3 / 4);
    };
    assert!(shows("fifo", arrivals_shifted));
    assert!(shows("fifo", |_, truth| truth.iterations *= 1.1));
}

#[test]
fn speeds_are_found_by_size_from_whole_iterations_alone() {
    let workload = workload(24);
    let seen = told("fair", &workload, Options::default()).observed();
    let mut sizes = 0;
    for ((_, truth), (_, found)) in workload.jobs.iter().zip(&seen.workload.jobs) {
        let (Speed::Function(function), Speed::Measured(speeds)) = (&truth.speed, &found.speed) else {
            panic!("{truth:?} {found:?}")
        };
        assert_eq!(found.iterations, truth.iterations);
        for (extent, per_s) in speeds.measured() {
            let ratio = per_s / function.iterations_per_s(extent.workers, 0);
            assert!((0.8..1.25).contains(&ratio), "{extent:?}: {ratio}");
            sizes += 1;
        }
        let one = Extent { workers: 1, servers: 0, place: Place { gpu_types: Vec::new(), nodes: 1 } };
        let ratio = speeds.iterations_per_s(&one) / function.iterations_per_s(1, 0);
        assert!((0.5..1.5).contains(&ratio), "one worker: {ratio}");
    }
    assert!(sizes > 30, "jobs had several sizes: {sizes}");
}

#[test]
fn owners_operators_and_another_policy_come_at_their_times() {
    let at = Time::from_secs;
    let table = toml::Table::new();
    let options = Options {
        node_changes: vec![(at(20), NodeId(1), NodeState::Down), (at(40), NodeId(1), NodeState::Up)],
        outside: vec![
            (at(15), Event::Withdrawn { job: JobId(3) }),
            (at(30), Event::PolicyChanged { policy: "srtf".to_owned(), parameters: table }),
        ],
        ..Options::default()
    };
    let real = told("fifo", &workload(24), options);
    let seen = real.observed();
    assert_eq!((seen.node_changes.len(), seen.withdrawals.len(), seen.policy_changes.len()), (2, 1, 1));
    assert!(
        matches!(seen.ends[3].ended, Some((ended, Outcome::Withdrawn)) if ended >= at(15)),
        "{:?}",
        seen.ends[3]
    );
    let again = again("fifo", &seen);
    let (mean, _) = errors(&real, &again);
    assert!(mean.abs() < 0.05, "{mean}");
    let preemptions = |told: &Told| told.metrics.summary(Time::NEVER).preemptions;
    assert!(preemptions(&again) > 0, "srtf decides from its time on");
    let without = Observed { policy_changes: Vec::new(), ..seen };
    assert_eq!(preemptions(&self::again("fifo", &without)), 0);
}

#[test]
fn a_run_that_goes_on_is_taken_up_to_its_last_record() {
    let mut real = told("fifo", &workload(24), Options::default());
    real.records.truncate(real.records.len() / 2);
    let seen = real.observed();
    let open = seen.ends.iter().filter(|end| end.ended.is_none()).count();
    assert!(open > 0 && open < seen.ends.len());
    assert_eq!(seen.last, real.records.last().expect("half of them").at);
    // They go on as they declared, so that those that ended have the same company.
    for ((job, truth), end) in seen.workload.jobs.iter().zip(&seen.ends) {
        if end.ended.is_none() {
            assert_eq!((truth.ending, Some(truth.iterations)), (Ending::Censored, job.declared.iterations));
        }
    }
    let again = again("fifo", &seen);
    let close = |job: &JobId| (again.jct_s(*job) / real.jct_s(*job) - 1.0).abs() < SINGLE;
    let ended = (0..seen.ends.len() as u32).map(JobId).filter(|job| seen.ends[job.index()].ended.is_some());
    assert!(ended.into_iter().all(|job| close(&job)));
}

#[test]
fn a_stop_rule_is_met_again_from_the_losses() {
    let mut workload = workload(12);
    for (job, _) in &mut workload.jobs {
        let job = Arc::make_mut(job);
        job.goals.stop = StopRule::Iterations(25);
        job.declared.iterations = None;
    }
    let real = told("fifo", &workload, Options::default());
    let seen = real.observed();
    assert!(seen.ends.iter().all(|end| matches!(end.ended, Some((_, Outcome::StopRuleMet)))));
    let again = again("fifo", &seen);
    let (mean, _) = errors(&real, &again);
    assert!(mean.abs() <= 0.05, "{mean}");
    assert!(again.metrics.rows().all(|row| row.outcome == Some(Outcome::StopRuleMet)));
}

#[test]
fn a_journal_without_jobs_or_with_a_gap_is_refused() {
    let mut real = told("fifo", &workload(4), Options::default());
    let read = |told: &Told| Observed::new(&told.head, &told.records, |_| true).map(|_| ());
    for record in &mut real.records {
        record.events.retain(|event| !matches!(event, Event::Arrived { job } if job.id == JobId(1)));
    }
    assert_eq!(read(&real), Err(ObservedError::Gap(1)));
    real.records.clear();
    assert_eq!(read(&real), Err(ObservedError::NoJobs));
}
