//! Hadar on whole traces: 240 jobs of its own kind on 60 GPUs, and the largest set of Gavel's generator. What must hold of it
//! beside Gavel, Tiresias and YARN-CS, and beside the bound of a linear program that no policy can beat.
//!
//! The paper's own trace is not public. On this one its factor of 1.2 in the makespan over Gavel cannot be reached by anybody,
//! as Gavel is nearer to the bound than that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use trainyard_sched::control::Nothing;
use trainyard_sched::decide::{Abilities, Cadence, Decision, Policy, Verdict};
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::{Allocation, Cluster, GpuTypeId, JobId, MoveCost, Seed, Span};
use trainyard_sched::place::{Ask, FreeCapacity, Rule};
use trainyard_sched::policies;
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver};
use trainyard_sched::view::{JobView, Snapshot};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::workload::Workload;

/// What the public code of Gavel comes to on the same 240 jobs with its policy of least attained service: mean completion time,
/// makespan in hours, and utilisation, as the specification tells (section 5.4); and on the set of its own generator.
const PUBLIC_GAVEL: [(&str, f64, f64, f64); 2] =
    [("s-240", 70.85, 188.67, 0.881), ("gavel-c", 21.40, 185.11, 0.327)];

fn cluster(preset: &str) -> Cluster {
    let (nodes, gpus) = if preset == "s-240" { (5, 4) } else { (20, 1) };
    let mut cluster = Cluster::default();
    for gpu_type in ["v100", "p100", "k80"] {
        cluster.add(nodes, gpus, gpu_type);
    }
    cluster
}

/// The jobs of a preset, which may mix types, with a cost of starting.
fn workload(preset: &str, restart_s: u64) -> Workload {
    let parameters = Parameters { preset: preset.to_owned(), ..Parameters::default() };
    let mut workload = generate(&parameters).expect("a preset");
    for (job, truth) in &mut workload.jobs {
        truth.move_cost = MoveCost { load: Span::from_secs(restart_s), ..MoveCost::default() };
        let job = Arc::make_mut(job);
        job.move_cost = truth.move_cost;
        job.wanted.mixed_gpu_types = true;
    }
    workload
}

/// What was seen at the decisions of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    decisions: u32,
    /// Decisions after which a waiting job would have fitted.
    idle: u32,
    /// Jobs that ran before a decision and after it, and those of them that stayed where they were.
    ran_on: u64,
    stayed: u64,
}

/// A policy under observation.
struct Watched {
    inner: Box<dyn Policy>,
    seen: Arc<Mutex<Seen>>,
}

fn after<'a>(view: &'a JobView, decision: &'a Decision) -> &'a Allocation {
    let found = decision.targets.binary_search_by_key(&view.id(), |(id, _)| *id);
    found.map_or(&view.target, |i| &decision.targets[i].1)
}

impl Policy for Watched {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }
    fn needs(&self) -> Abilities {
        self.inner.needs()
    }
    fn decide(&mut self, snapshot: &Snapshot) -> Decision {
        let decision = self.inner.decide(snapshot);
        let mut seen = self.seen.lock().expect("no panic");
        let mut free = FreeCapacity::new(&snapshot.cluster);
        for view in snapshot.jobs() {
            let target = after(view, &decision);
            free.take(target, &view.job.shape);
            if view.target.is_some() && target.is_some() {
                seen.ran_on += 1;
                seen.stayed += u64::from(*target == view.target);
            }
        }
        seen.decisions += 1;
        let mut waiting = snapshot.jobs().filter(|view| after(view, &decision).is_none());
        let fits = |view: &JobView| {
            free.place(Rule::Pack, &Ask::minimum(&view.job.shape, &view.job.wanted)).is_some()
        };
        seen.idle += u32::from(waiting.any(fits));
        decision
    }
    fn explain(&mut self, snapshot: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(snapshot, job)
    }
}

struct Run {
    metrics: Metrics,
    summary: Summary,
    seen: Seen,
}

impl Run {
    fn jct_h(&self) -> f64 {
        self.summary.avg_jct_s.expect("all ended") / 3600.0
    }
    fn makespan_h(&self) -> f64 {
        self.summary.makespan_s / 3600.0
    }
    fn wait_h(&self) -> f64 {
        self.summary.avg_wait_s.expect("all ended") / 3600.0
    }
}

fn run_at(preset: &str, (policy, parameters): (&str, &str), restart_s: u64) -> Run {
    let (workload, cluster) = (workload(preset, restart_s), cluster(preset));
    let jobs = workload.jobs.len() as u64;
    let inner = policies::build(policy, &parameters.parse().expect("TOML")).expect("it exists");
    let seen = Arc::default();
    let setup = Setup {
        cluster,
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let watched = Box::new(Watched { inner, seen: Arc::clone(&seen) });
    let finished = simulate(setup, watched, &mut Nothing, |_, _| ()).expect("the run begins");
    let summary = finished.metrics.summary(finished.ended);
    assert_eq!(summary.completed, jobs, "{preset} {policy}: all jobs end");
    let seen = *seen.lock().expect("no panic");
    let run = Run { metrics: finished.metrics, summary, seen };
    let parameters = parameters.replace('\n', ", ");
    eprintln!(
        "{preset}, {policy} {{{parameters}}}, restart {restart_s} s: mean JCT {:.2} h, makespan {:.2} h, utilisation {:.3}, \
         mean wait {:.2} h",
        run.jct_h(),
        run.makespan_h(),
        run.summary.gpu_utilization,
        run.wait_h(),
    );
    run
}

fn run(preset: &str, policy: (&str, &str)) -> Run {
    run_at(preset, policy, 0)
}

/// The least makespan in hours that any policy could reach which has each job on one type at a time: Gavel's linear program.
fn bound_h(preset: &str) -> f64 {
    let (workload, cluster) = (workload(preset, 0), cluster(preset));
    let mut program = LinearProgram::default();
    let rise = program.variable(1.0);
    let mut held = vec![Vec::new(); cluster.gpu_types.len()];
    for (job, truth) in &workload.jobs {
        let view = JobView::new(Arc::clone(job), job.submitted);
        let gang = job.shape.data_parallel().expect("a gang").workers.min;
        let (mut time, mut work) = (Vec::new(), vec![(rise, -1.0)]);
        for (i, held) in held.iter_mut().enumerate() {
            let per_s = view.iterations_per_s(GpuTypeId(i as u8), gang, false).unwrap_or(0.0);
            if per_s > 0.0 {
                let share = program.variable(0.0);
                // The rise is in parts of all work a million seconds.
                work.push((share, per_s / truth.iterations * 1e6));
                time.push((share, 1.0));
                held.push((share, f64::from(gang)));
            }
        }
        program.row(time, Sense::AtMost, 1.0);
        program.row(work, Sense::AtLeast, 0.0);
    }
    for (i, held) in held.into_iter().enumerate() {
        let of_type = |node: &&trainyard_sched::model::Node| node.gpu_type == Some(GpuTypeId(i as u8));
        let gpus: u32 = cluster.nodes.iter().filter(of_type).map(|node| node.gpu_count()).sum();
        program.row(held, Sense::AtMost, f64::from(gpus));
    }
    1e6 / Interior.solve(&program).expect("it has an answer").objective / 3600.0
}

const GAVEL: (&str, &str) = ("gavel", "");
const GAVEL_AS_CODED: (&str, &str) = ("gavel", "compatibility = true");
const HADAR: (&str, &str) = ("hadar", "");
const MAKESPAN: (&str, &str) = ("hadar", "objective = 'makespan'");

/// H-5 and H-9: mean completion and waiting times.
#[test]
fn jobs_are_done_sooner_and_wait_less_than_under_gavel_tiresias_and_yarn() {
    let hadar = run("s-240", HADAR);
    let greedy = run("s-240", ("hadar", "beam = 1"));
    let (gavel, coded) = (run("s-240", GAVEL), run("s-240", GAVEL_AS_CODED));
    let (tiresias, yarn) = (run("s-240", ("tiresias", "")), run("s-240", ("yarn-cs", "")));
    let best = gavel.jct_h().min(coded.jct_h()).min(PUBLIC_GAVEL[0].1);
    for hadar in [&hadar, &greedy] {
        assert!(hadar.jct_h() <= 0.85 * best, "{} against Gavel's {best}", hadar.jct_h());
        assert!(hadar.jct_h() <= 0.70 * tiresias.jct_h());
        assert!(hadar.jct_h() <= 0.60 * yarn.jct_h());
        assert!(hadar.wait_h() <= 0.9 * gavel.wait_h().min(coded.wait_h()));
        assert_eq!(hadar.seen.idle, 0, "no GPU idles while a job waits that fits");
    }
    // The greedy walk is what was prototyped: 57.88 h and 209.5 h.
    assert!((greedy.jct_h() / 57.88 - 1.0).abs() < 0.02, "{}", greedy.jct_h());
    assert!((greedy.makespan_h() / 209.5 - 1.0).abs() < 0.02, "{}", greedy.makespan_h());
    assert!(gavel.seen.decisions > 100 && yarn.seen.idle > 0, "the watch sees what others leave idle");
}

/// H-6 and H-7: makespan and utilisation.
#[test]
fn the_makespan_is_next_to_the_bound() {
    for (preset, _, public_h, public_use) in PUBLIC_GAVEL {
        let (bound_h, gavel) = (bound_h(preset), run(preset, GAVEL));
        let hadar = run(preset, MAKESPAN);
        let longest = run(preset, ("hadar", "objective = 'makespan'\nmakespan_by = 'longest'"));
        let best_h = gavel.makespan_h().min(public_h);
        eprintln!(
            "{preset}: bound {bound_h:.2} h; Gavel is {:.3} times that, Hadar {:.3} times, the longest first {:.3} times",
            best_h / bound_h,
            hadar.makespan_h() / bound_h,
            longest.makespan_h() / bound_h,
        );
        assert!(hadar.makespan_h() >= bound_h * 0.999, "nobody beats the bound");
        assert!(hadar.makespan_h() <= 1.02 * bound_h, "{}", hadar.makespan_h() / bound_h);
        assert!(longest.makespan_h() <= 1.11 * bound_h, "{}", longest.makespan_h() / bound_h);
        assert!(hadar.makespan_h() <= 0.98 * best_h);
        assert!(best_h / hadar.makespan_h() >= f64::min(1.20, 0.97 * best_h / bound_h));
        assert!(hadar.summary.gpu_utilization >= gavel.summary.gpu_utilization.max(public_use));
        assert_eq!((hadar.seen.idle, longest.seen.idle), (0, 0));
    }
    let known_h = [("s-240", 168.91), ("gavel-c", 165.80)];
    for (preset, known_h) in known_h {
        assert!((bound_h(preset) / known_h - 1.0).abs() < 1e-3, "{preset}");
    }
}

/// Mean of the completion time over that of the same job with an equal part of the cluster of its own.
fn unfairness(run: &Run, isolated: &Run) -> f64 {
    let alone: BTreeMap<JobId, f64> = isolated.metrics.rows().map(|row| (row.id, row.jct_s())).collect();
    let ratios: Vec<f64> = run.metrics.rows().map(|row| row.jct_s() / alone[&row.id]).collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

/// H-8: finish-time fairness.
#[test]
fn nobody_is_much_worse_off_than_alone() {
    let isolated = run("s-240", ("gavel", "objective = 'isolated'"));
    let hadar = run("s-240", ("hadar", "objective = 'ftf'"));
    let gavel = run("s-240", ("gavel", "objective = 'finish_time_fairness'"));
    let (sooner, rho) = (run("s-240", HADAR), run("s-240", ("hadar", "utility = 'rho'\nbeam = 1")));
    let [fair, theirs, soon, late] = [&hadar, &gavel, &sooner, &rho].map(|run| unfairness(run, &isolated));
    eprintln!(
        "mean of JCT over that in isolation: Hadar ftf {fair:.3}, Gavel ftf {theirs:.3}, Hadar jct {soon:.3}, rho {late:.3}"
    );
    assert!(fair <= 1.02 * theirs, "{fair} against {theirs}");
    assert!(late > 10.0 * fair, "one over the ratio itself is no utility for that: {late}");
    assert_eq!(hadar.seen.idle, 0);
}

/// H-10: what restarts cost.
#[test]
fn restarts_cost_little_and_most_jobs_stay() {
    let [free, ten, sixty] = [0, 10, 60].map(|restart_s| run_at("s-240", HADAR, restart_s));
    assert!(ten.jct_h() <= 1.01 * free.jct_h(), "{} after {}", ten.jct_h(), free.jct_h());
    assert!(sixty.jct_h() <= 1.06 * free.jct_h(), "{} after {}", sixty.jct_h(), free.jct_h());
    for run in [&free, &ten, &sixty] {
        assert!(run.seen.stayed * 10 >= run.seen.ran_on * 6, "{:?}", run.seen);
    }
    let stay = |run: &Run| run.seen.stayed as f64 / run.seen.ran_on as f64;
    eprintln!("jobs that stay where they are: {:.3}, {:.3}, {:.3}", stay(&free), stay(&ten), stay(&sixty));
}

/// Objectives, utilities and searches that work through all jobs and leave nothing idle.
#[test]
fn every_utility_and_objective_comes_to_an_end() {
    for parameters in [
        "utility = 'norm'\nbeam = 1",
        "utility = 'raw'\nbeam = 1",
        "utility = 'rho'\nbeam = 1",
        "kappa = false\nbeta = 0.05\nbeam = 1",
        "eta = 1000\nbeam = 1",
        "age_h = 0\nbeam = 1",
    ] {
        assert_eq!(run("s-240", ("hadar", parameters)).seen.idle, 0, "{parameters}");
    }
    let reserved = run("s-240", ("hadar", "admission = true"));
    assert_eq!(reserved.summary.preemptions + reserved.summary.migrations, 0, "what is reserved is kept");
    let raw = run("s-240", ("hadar", "utility = 'raw'"));
    let sooner = run("s-240", HADAR);
    assert!(raw.jct_h() > 1.4 * sooner.jct_h(), "iterations are no measure of worth: {}", raw.jct_h());
}
