//! HadarE on mixes of one to twelve jobs, and what is claimed of it: `hadar_gavel.md`, checks E-1 to E-7.

use std::sync::Arc;

use trainyard_sched::control::{Batch, Event, Log, Step, run as run_loop};
use trainyard_sched::metrics::{CopyBooks, Metrics, Usage};
use trainyard_sched::model::{Cluster, GpuTypeId, JobId, NodeId, NodeState, Rate, Rates, Seed, Span, Time};
use trainyard_sched::policies;
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare, simulate};
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

const MIXES: [&str; 7] = ["m-1", "m-3", "m-4", "m-5", "m-8", "m-10", "m-12"];

/// Two V100, a P100 and two K80.
fn cluster() -> Cluster {
    let mut cluster = Cluster::uniform(2, 1, "v100");
    cluster.add(1, 1, "p100");
    cluster.add(2, 1, "k80");
    cluster
}

fn mix(name: &str, copies: i64) -> Workload {
    let mut options = toml::Table::new();
    options.insert("copies".to_owned(), toml::Value::Integer(copies));
    let parameters = Parameters { preset: name.to_owned(), options, ..Parameters::default() };
    generate(&parameters).expect("the preset makes jobs")
}

/// What came of a run.
#[derive(Clone, Debug)]
struct Run {
    /// Until all are done, in hours.
    ttd_h: f64,
    /// The mean time from arrival to end, in hours.
    jct_h: f64,
    /// The part of the time for which nodes trained, and with pauses.
    cru: (f64, f64),
    /// What copies did.
    books: CopyBooks,
}

struct Watch {
    usage: Usage,
    books: CopyBooks,
}

impl Log for Watch {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.usage.step(batch, step);
        self.books.step(batch, step);
    }
}

fn run_on(cluster: &Cluster, workload: &Workload, policy: &str, parameters: &str) -> Run {
    run_with(cluster, workload, (policy, parameters), 5, Vec::new())
}

fn run_with(
    cluster: &Cluster,
    workload: &Workload,
    (policy, parameters): (&str, &str),
    report_every_s: u64,
    node_changes: Vec<(Time, NodeId, NodeState)>,
) -> Run {
    let table: toml::Table = parameters.parse().expect("TOML");
    let policy = policies::build(policy, &table).expect("the policy exists");
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options {
            report_every: Some(Span::from_secs(report_every_s)),
            node_changes,
            ..Options::default()
        },
        seed: Seed(0),
    };
    let mut watch = Watch { usage: Usage::new(cluster), books: CopyBooks::default() };
    let finished = simulate(setup, policy, &mut watch, |_, _| ()).expect("the run begins");
    let summary = finished.metrics.summary(finished.ended);
    assert_eq!(summary.completed, workload.jobs.len() as u64, "all jobs end");
    let cru = watch.usage.utilisation().expect("jobs end");
    let hours = |seconds: f64| seconds / 3600.0;
    Run {
        ttd_h: hours(summary.makespan_s),
        jct_h: hours(summary.avg_jct_s.expect("jobs end")),
        cru,
        books: watch.books,
    }
}

fn run(mix: &Workload, parameters: &str) -> Run {
    run_on(&cluster(), mix, "hadare", parameters)
}

/// Steps a second of each job on each node.
fn speeds(workload: &Workload, cluster: &Cluster) -> Vec<Vec<f64>> {
    let types: Vec<_> = cluster.nodes.iter().filter_map(|node| node.gpu_type).collect();
    let of = |job: &trainyard_sched::model::Job| {
        let rates = job.declared.rates.as_ref().expect("it was profiled");
        types.iter().map(|gpu_type| rates.per_s(*gpu_type, 1, false).unwrap_or(0.0)).collect()
    };
    workload.jobs.iter().map(|(job, _)| of(job)).collect()
}

/// The least time in hours in which all jobs can be done: each may be on all nodes at the same time, or on one at a time only.
fn bound_h(workload: &Workload, cluster: &Cluster, forked: bool) -> f64 {
    let speeds = speeds(workload, cluster);
    let mut program = LinearProgram::default();
    let last = program.variable(-1.0);
    let on: Vec<Vec<usize>> =
        speeds.iter().map(|row| row.iter().map(|_| program.variable(0.0)).collect()).collect();
    for (p, (job, _)) in workload.jobs.iter().enumerate() {
        let steps = job.declared.iterations.expect("it says how many") / 3600.0;
        let entries = on[p].iter().zip(&speeds[p]).map(|(variable, speed)| (*variable, *speed));
        program.row(entries.collect(), Sense::AtLeast, steps);
        if !forked {
            let all = on[p].iter().map(|variable| (*variable, 1.0)).chain([(last, -1.0)]);
            program.row(all.collect(), Sense::AtMost, 0.0);
        }
    }
    for node in 0..cluster.nodes.len() {
        let all = on.iter().map(|row| (row[node], 1.0)).chain([(last, -1.0)]);
        program.row(all.collect(), Sense::AtMost, 0.0);
    }
    -Interior.solve(&program).expect("there is an optimum").objective
}

#[test]
fn e1_e2_e3_all_nodes_train_and_jobs_are_done_almost_as_soon_as_can_be() {
    let mut ratios = Vec::new();
    let mut best_cut = f64::INFINITY;
    for name in MIXES {
        let workload = mix(name, 5);
        let (bound, bound_single) =
            (bound_h(&workload, &cluster(), true), bound_h(&workload, &cluster(), false));
        let forked = run(&workload, "");
        let single = run(&workload, "copies = 1\nweights = \"payoff\"");
        println!(
            "{name}: forked {:.3} h ({:.3} of the bound {bound:.3}), CRU {:.3} / {:.3}, JCT {:.2}; single {:.3} h (bound {bound_single:.3}), CRU {:.3} / {:.3}, JCT {:.2}",
            forked.ttd_h,
            forked.ttd_h / bound,
            forked.cru.0,
            forked.cru.1,
            forked.jct_h,
            single.ttd_h,
            single.cru.0,
            single.cru.1,
            single.jct_h,
        );
        assert!(forked.ttd_h >= bound * (1.0 - 1e-6), "E-1, {name}: no schedule is better than the bound");
        assert!(forked.ttd_h <= 1.06 * bound, "E-1, {name}: {} against {bound}", forked.ttd_h);
        assert!(forked.cru.0 >= 0.95, "E-2, {name}: {:?}", forked.cru);
        let cut = forked.ttd_h / single.ttd_h;
        assert!(cut <= 1.0, "E-3, {name}: {cut}");
        best_cut = best_cut.min(cut);
        ratios.push(forked.cru.0 / single.cru.0);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("mean ratio of CRU {mean:.2}, least ratio of TTD {best_cut:.3}");
    assert!(mean >= 1.45, "E-3: {ratios:?}");
    assert!(best_cut <= 0.5, "E-3: {best_cut}");
}

#[test]
fn e2_a_single_copy_is_the_same_as_a_job_that_cannot_be_forked() {
    // What a naive scheduler that gives each job one node made of the mixes.
    let naive = [0.200, 0.519, 0.545, 0.763, 0.869, 0.827, 0.955];
    for (name, naive) in MIXES.into_iter().zip(naive) {
        let cru = run(&mix(name, 5), "copies = 1\nweights = \"payoff\"").cru.0;
        println!("{name}: one copy each, CRU {cru:.3}, naive {naive:.3}");
        assert!((cru / naive - 1.0).abs() <= 0.05, "{name}: {cru} against {naive}");
    }
    for name in ["m-3", "m-5", "m-8"] {
        let never = run(&mix(name, 5), "copies = 1");
        let cannot = run(&mix(name, 1), "");
        assert_eq!((never.ttd_h, never.jct_h, never.cru), (cannot.ttd_h, cannot.jct_h, cannot.cru), "{name}");
        assert_eq!(
            (never.books.merges, never.books.steps.len()),
            (0, 0),
            "{name}: nothing is brought together"
        );
    }
}

#[test]
fn e4_one_job_is_done_by_all_nodes_together() {
    let workload = mix("m-1", 5);
    let speeds = &speeds(&workload, &cluster())[0];
    let (sum, best) = (speeds.iter().sum::<f64>(), speeds.iter().copied().fold(0.0, f64::max));
    let steps = workload.jobs[0].1.iterations;
    let forked = run(&workload, "");
    // Whenever all are brought together, that takes five seconds.
    let wanted_h = (steps / sum + 5.0 * f64::from(forked.books.merges)) / 3600.0;
    println!("{} h, and {wanted_h} h by all speeds together", forked.ttd_h);
    assert!((forked.ttd_h / wanted_h - 1.0).abs() <= 0.002, "{} against {wanted_h}", forked.ttd_h);
    let single = run(&workload, "copies = 1");
    let cut = 1.0 - forked.ttd_h / single.ttd_h;
    assert!((cut - (1.0 - best / sum)).abs() <= 0.02, "{cut} against {}", 1.0 - best / sum);
}

#[test]
fn e5_more_copies_are_never_worse() {
    for name in ["m-1", "m-3", "m-5"] {
        let runs: Vec<Run> =
            [1, 2, 3, 4, 5].map(|copies| run(&mix(name, 5), &format!("copies = {copies}"))).into();
        let told: Vec<(f64, f64)> = runs.iter().map(|run| (run.ttd_h, run.cru.0)).collect();
        println!("{name}, one to five copies, hours and utilisation: {told:.3?}");
        for pair in told.windows(2) {
            assert!(pair[1].0 <= pair[0].0 * 1.002 && pair[1].1 >= pair[0].1 - 0.002, "{name}: {told:?}");
        }
        assert!(told.iter().all(|(_, cru)| *cru <= told[4].1), "{name}: {told:?}");
    }
}

#[test]
fn e6_slots_may_be_too_short_and_too_long() {
    for name in ["m-1", "m-5", "m-12"] {
        let slots = [60, 90, 180, 360, 720, 1440];
        let hours = slots.map(|slot_s| run(&mix(name, 5), &format!("round_s = {slot_s}")).ttd_h);
        println!("{name}, slots of {slots:?} s, hours: {hours:.3?}");
        let least = hours.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(hours[0] > hours[3], "{name}: pauses count most in short slots: {hours:?}");
        assert!(hours[5] <= 1.05 * least, "{name}: {hours:?}");
    }
}

#[test]
fn e7_each_step_is_done_once_and_copies_end_together() {
    for name in MIXES {
        let workload = mix(name, 5);
        let speeds = speeds(&workload, &cluster());
        let run = run(&workload, "");
        let mut together = 0;
        for (id, speeds) in (0..).map(JobId).zip(&speeds) {
            let sooner_s = run.books.sooner_s(id);
            let slowest = sooner_s.iter().map(|(node, _)| speeds[node.index()]).fold(f64::MAX, f64::min);
            together += sooner_s.len();
            for (node, sooner_s) in sooner_s {
                assert!(
                    sooner_s <= 1.0 / slowest + 1e-3,
                    "{name}, {id}: the copy on {node} ends {sooner_s} s before the last: {:?}",
                    run.books.last[&id]
                );
            }
        }
        println!("{name}: {together} copies ended with others");
        assert!(together >= 2, "{name}: at least the last job is forked");
        assert_eq!(run.books.mismatches, 0, "{name}: all steps are those of copies");
        for (job, truth) in &workload.jobs {
            let (sum, all) = (run.books.sums[&job.id], truth.iterations);
            assert!((sum - all).abs() < 1e-3, "{name}, {}: copies did {sum} steps of {all}", job.id);
        }
    }
}

/// E-8 within the policy: what nobody profiled is estimated, tried, and then gone by as measured.
#[test]
fn e8_a_type_that_nobody_profiled_costs_little() {
    for name in ["m-3", "m-5", "m-8"] {
        let full = mix(name, 5);
        let mut part = full.clone();
        for (job, _) in &mut part.jobs {
            let job = Arc::make_mut(job);
            let known = job.declared.rates.as_ref().expect("it was profiled");
            let of_others = |rate: &&Rate| job.id.0.is_multiple_of(2) || rate.gpu_type != GpuTypeId(2);
            let rates = known.alone().iter().filter(of_others).copied().collect();
            job.declared.rates = Rates::new(rates, Vec::new()).shared();
        }
        assert_ne!(part.jobs, full.jobs);
        let (known, estimated) = (run(&full, ""), run(&part, ""));
        println!(
            "{name}: {:.3} h, and {:.3} h if half of the jobs were not profiled on K80",
            known.ttd_h, estimated.ttd_h
        );
        assert!(estimated.ttd_h <= 1.03 * known.ttd_h, "{name}: {} after {}", estimated.ttd_h, known.ttd_h);
    }
}

#[test]
fn auto_is_never_worse_than_forking_or_not_by_what_it_is_to_bring_down() {
    let fixed = ["", "weights = \"payoff\"", "copies = 1", "copies = 1\nweights = \"payoff\""];
    for name in MIXES {
        let workload = mix(name, 5);
        let others: Vec<Run> = fixed.iter().map(|parameters| run(&workload, parameters)).collect();
        let least = |of: fn(&Run) -> f64| others.iter().map(of).fold(f64::INFINITY, f64::min);
        let sooner = run(&workload, "mode = \"auto\"");
        let shorter = run(&workload, "mode = \"auto\"\nobjective = \"jct\"");
        println!(
            "{name}: auto {:.3} h (best of the others {:.3}), by JCT {:.2} h (best of the others {:.2})",
            sooner.ttd_h,
            least(|run| run.ttd_h),
            shorter.jct_h,
            least(|run| run.jct_h),
        );
        assert!(sooner.ttd_h <= 1.03 * least(|run| run.ttd_h), "{name}");
        assert!(shorter.jct_h <= 1.03 * least(|run| run.jct_h), "{name}");
    }
}

#[test]
fn auto_does_not_fork_where_that_does_not_pay() {
    let options: toml::Table = "aggregate_s = 300\nrestart_s = 300".parse().expect("TOML");
    for name in ["m-1", "m-3", "m-5"] {
        let parameters =
            Parameters { preset: name.to_owned(), options: options.clone(), ..Parameters::default() };
        let workload = generate(&parameters).expect("the preset makes jobs");
        let (forked, single) = (run(&workload, ""), run(&workload, "copies = 1"));
        let auto = run(&workload, "mode = \"auto\"");
        println!(
            "{name}: forked {:.2} h, single {:.2} h, auto {:.2} h",
            forked.ttd_h, single.ttd_h, auto.ttd_h
        );
        assert!(forked.ttd_h > single.ttd_h, "{name}: forking does not pay here");
        assert!(auto.ttd_h <= 1.03 * single.ttd_h, "{name}");
    }
}

#[test]
fn on_one_node_nothing_is_forked_and_it_does_as_hadar() {
    let cluster = Cluster::uniform(1, 1, "v100");
    for name in ["m-1", "m-3", "m-5"] {
        let workload = mix(name, 5);
        let forked = run_on(&cluster, &workload, "hadare", "weights = \"payoff\"");
        let single = run_on(&cluster, &workload, "hadare", "weights = \"payoff\"\ncopies = 1");
        assert_eq!(
            (forked.ttd_h, forked.jct_h, forked.books.merges),
            (single.ttd_h, single.jct_h, 0),
            "{name}"
        );
        let hadar = run_on(&cluster, &workload, "hadar", "");
        println!(
            "{name}: {:.3} h, JCT {:.3} h; hadar {:.3} h, JCT {:.3} h",
            forked.ttd_h, forked.jct_h, hadar.ttd_h, hadar.jct_h
        );
        assert!((forked.ttd_h / hadar.ttd_h - 1.0).abs() < 0.01, "{name}");
        assert!((forked.jct_h / hadar.jct_h - 1.0).abs() < 0.01, "{name}");
    }
}

#[test]
fn a_lost_copy_takes_only_what_it_did_since_all_were_brought_together() {
    let workload = mix("m-1", 5);
    let speeds = &speeds(&workload, &cluster())[0];
    let down = (Time::from_secs(1000), NodeId(4), NodeState::Down);
    let up = (Time::from_secs(2000), NodeId(4), NodeState::Up);
    let run = run_with(&cluster(), &workload, ("hadare", ""), 3600, vec![down, up]);
    let [(before, kept)] = run.books.lost[..] else { panic!("{:?}", run.books.lost) };
    // It was told last at 725 s, when all had been brought together; until 1000 s the others go on.
    let gained = speeds[..4].iter().sum::<f64>() * 275.0;
    println!("{kept} steps are kept, {gained} of them since the merge; {} are lost", speeds[4] * 275.0);
    assert!((kept - before - gained).abs() < 1.0, "{kept} after {before}");
    assert!(run.ttd_h < 1.15 * self::run(&workload, "").ttd_h);
}

/// The job of `scenarios/hadare-alone.md`: a thousand iterations of a second, two nodes, slots of 100 s.
#[test]
fn what_nodes_do_is_counted_as_by_hand() {
    let mut workload = mix("m-1", 2);
    let (job, truth) = &mut workload.jobs[0];
    *truth = Truth::lasting(Span::from_secs(1000), 1);
    truth.move_cost.load = Span::from_secs(20);
    truth.move_cost.merge = Span::from_secs(10);
    let job = Arc::make_mut(job);
    (job.declared, job.move_cost) = (Workload::honest(truth), truth.move_cost);
    let run = run_on(&Cluster::uniform(2, 1, "v100"), &workload, "hadare", "round_s = 100");
    // Each node trains for 80 s, four times 90 s and 60 s, rests for 20 s, and is brought together five times for 10 s.
    let (trained, with_pauses) = (500.0 / 570.0, 550.0 / 570.0);
    assert!((run.ttd_h - 570.0 / 3600.0).abs() < 1e-9, "{}", run.ttd_h);
    assert!((run.cru.0 - trained).abs() < 1e-5 && (run.cru.1 - with_pauses).abs() < 1e-5, "{:?}", run.cru);
    assert_eq!((run.books.merges, run.books.mismatches), (5, 0));
}

/// Copies have done what they may by the time the next slot begins; by then somebody else decides.
#[test]
fn jobs_that_are_forked_go_on_whoever_decides_next() {
    let workload = mix("m-3", 5);
    for entry in policies::ALL {
        let change = Event::PolicyChanged { policy: entry.name.to_owned(), parameters: toml::Table::new() };
        let setup = Setup {
            cluster: cluster(),
            tenants: workload.tenants.clone(),
            workload: workload.clone(),
            physics: Physics::default(),
            options: Options {
                outside: vec![(Time::from_secs(500), change)],
                horizon: Time::from_secs(1_000_000),
                ..Options::default()
            },
            seed: Seed(0),
        };
        let make =
            |name: &str, given: &toml::Table| policies::build(name, given).map_err(|error| error.to_string());
        let first = make("hadare", &toml::Table::new()).expect("it exists");
        let (mut backend, core) = prepare(setup, first).expect("it begins");
        let mut metrics = Metrics::new(&cluster());
        let mut core = core.with_maker(Box::new(make));
        run_loop(&mut backend, &mut core, &mut metrics);
        let summary = metrics.summary(backend.now());
        println!("{}: {:.2} h", entry.name, summary.makespan_s / 3600.0);
        assert_eq!(summary.completed, 3, "{}: who waits for ever: {summary:?}", entry.name);
    }
}

#[test]
fn runs_are_the_same_again() {
    let workload = mix("m-5", 5);
    for parameters in ["", "mode = \"auto\"\nbackfill = true"] {
        let (one, other) = (run(&workload, parameters), run(&workload, parameters));
        assert_eq!(
            (one.ttd_h, one.jct_h, one.cru, one.books.steps),
            (other.ttd_h, other.jct_h, other.cru, other.books.steps)
        );
    }
}
