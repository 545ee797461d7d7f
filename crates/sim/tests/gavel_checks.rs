//! What Gavel's policies must do on Gavel's own workloads, beyond what the public simulator prints: rounds against time that
//! is shared out finely, deadlines and money, pairs, fairness. Checks on thousands of jobs are left out unless asked for.

use std::collections::BTreeMap;

use trainyard_sched::control::{self, Batch, Core, Log, Nothing, Step};
use trainyard_sched::metrics::{Metrics, Spending, Summary};
use trainyard_sched::model::{Cluster, JobId, Seed, Span, Tenants, Time};
use trainyard_sched::policies::{self, gavel};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::workload::Workload;

/// So many GPUs of each of three types, each a server of its own.
fn cluster(each: u32) -> Cluster {
    let mut cluster = Cluster::default();
    ["v100", "p100", "k80"].into_iter().for_each(|gpu_type| cluster.add(each, 1, gpu_type));
    cluster
}

fn jobs(preset: &str, jobs: Option<u32>, seed: u64, options: &str) -> Workload {
    let options = options.parse().expect("options are TOML");
    let asked =
        Parameters { preset: preset.to_owned(), jobs, seed: Seed(seed), options, ..Parameters::default() };
    generate(&asked).expect("the preset makes jobs")
}

fn follow(
    policy: &str,
    parameters: &str,
    workload: &Workload,
    each: u32,
    log: &mut dyn Log,
) -> (Metrics, Summary) {
    on(cluster(each), policy, parameters, workload, log)
}

fn on(
    cluster: Cluster,
    policy: &str,
    parameters: &str,
    workload: &Workload,
    log: &mut dyn Log,
) -> (Metrics, Summary) {
    let table: toml::Table = parameters.parse().expect("parameters are TOML");
    let setup = Setup {
        cluster,
        tenants: Tenants::default(),
        workload: workload.clone(),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    /// Follows a run and measures it.
    struct Both<'a>(&'a mut dyn Log, Metrics);
    impl Log for Both<'_> {
        fn step(&mut self, batch: &Batch, step: &Step) {
            self.0.step(batch, step);
            self.1.step(batch, step);
        }
        fn rest(&mut self, core: &Core) {
            self.0.rest(core);
        }
    }
    let policy = policies::build(policy, &table).expect("the policy exists");
    let (mut backend, mut core) = prepare(setup, policy).expect("the run begins");
    let metrics = Metrics::new(core.state().cluster());
    let mut both = Both(log, metrics);
    control::run(&mut backend, &mut core, &mut both);
    let summary = both.1.summary(backend.now());
    (both.1, summary)
}

fn run(parameters: &str, workload: &Workload, each: u32) -> (Metrics, Summary) {
    follow("gavel", parameters, workload, each, &mut Nothing)
}

/// Completion times in seconds, by number.
fn jcts(metrics: &Metrics) -> BTreeMap<JobId, f64> {
    let each =
        metrics.rows().map(|row| (row.id, row.ended.expect("it ended").since(row.submitted).as_secs_f64()));
    each.collect()
}

fn mean_h(jcts: &BTreeMap<JobId, f64>, among: std::ops::Range<u32>) -> f64 {
    let of: Vec<f64> = among.filter_map(|id| jcts.get(&JobId(id)).copied()).collect();
    of.iter().sum::<f64>() / of.len() as f64 / 3600.0
}

#[test]
fn rounds_come_near_to_time_that_is_shared_out_finely() {
    let workload = jobs("gavel", Some(200), 0, "jobs_per_h = 4.4");
    let mean = |round_s: u32| {
        let (_, summary) = run(&format!("round_s = {round_s}.0"), &workload, 36);
        summary.avg_jct_s.expect("all jobs end")
    };
    let [fine, usual, coarse] = [20, 360, 1440].map(mean);
    println!("mean completion time in rounds of 20 s {fine:.0}, of 360 s {usual:.0}, of 1440 s {coarse:.0}");
    assert!((usual / fine - 1.0).abs() <= 0.05, "{usual} beside {fine}");
    assert!(coarse / usual <= 1.10, "{coarse} beside {usual}");
}

#[test]
fn least_cost_keeps_deadlines_and_costs_less_than_the_greatest_throughput() {
    // Few enough jobs that all deadlines can be kept.
    let workload = jobs("gavel", Some(60), 0, "jobs_per_h = 1.0\nobjectives = true");
    let mut dollars = Vec::new();
    for (objective, deadlines) in [("cost", true), ("cost", false), ("throughput", false)] {
        let parameters = format!("objective = '{objective}'\ndeadlines = {deadlines}\nround_s = 20.0");
        let mut money = Spending::new(gavel::prices(&cluster(36)));
        let (metrics, _) = follow("gavel", &parameters, &workload, 36, &mut money);
        let late = workload.jobs.iter().filter(|(job, _)| {
            let row = metrics.rows().find(|row| row.id == job.id).expect("it ran");
            // What is owed is given in whole rounds.
            row.ended.expect("it ended") > job.goals.deadline.expect("it has one") + Span::from_secs(20)
        });
        let late = late.count();
        println!("{objective}, deadlines {deadlines}: {:.2} dollars, {late} late", money.spent());
        assert!(!deadlines || late == 0, "{late} jobs are late");
        dollars.push(money.spent());
    }
    assert!(dollars[1] <= dollars[2], "least cost costs more than the greatest throughput: {dollars:?}");
}

#[test]
fn pairs_save_time() {
    let workload = jobs("gavel-a", None, 0, "");
    let mean = |parameters| run(parameters, &workload, 4).1.avg_jct_s.expect("all jobs end");
    let (alone, packed) = (mean(""), mean("packed = true"));
    println!("mean completion time alone {alone:.0}, packed {packed:.0}");
    assert!(packed <= 0.97 * alone, "{packed} beside {alone}");
}

#[test]
fn gangs_that_suffer_from_distance_do_better_where_it_is_seen() {
    let workload = jobs("gavel-b", None, 0, "distance = true");
    let mean = |parameters: &str| {
        let mut cluster = Cluster::default();
        ["v100", "p100", "k80"].into_iter().for_each(|gpu_type| cluster.add(2, 4, gpu_type));
        on(cluster, "gavel", parameters, &workload, &mut Nothing).1.avg_jct_s.expect("all jobs end")
    };
    let (blind, seen) = (mean(""), mean("by_place = true"));
    println!("mean completion time {blind:.0}, by place {seen:.0}");
    assert!(seen < blind, "{seen} beside {blind}");
}

#[test]
fn in_a_round_no_gpu_idles_beside_a_job_that_fits() {
    /// Looks at what is free whenever a round has begun.
    #[derive(Default)]
    struct Idle {
        rounds: u32,
        wrong: Vec<String>,
        began: bool,
    }
    impl Log for Idle {
        fn step(&mut self, _: &Batch, step: &Step) {
            let note = step.decision.as_ref().and_then(|decision| decision.note.as_ref());
            self.began = note.is_some();
        }
        fn rest(&mut self, core: &Core) {
            if !std::mem::take(&mut self.began) {
                return;
            }
            self.rounds += 1;
            let cluster = core.state().cluster();
            let taken = |view: &trainyard_sched::view::JobView| view.target.placements().to_vec();
            let used: Vec<_> = core.state().jobs().flat_map(taken).map(|p| p.node).collect();
            let free = cluster.nodes.iter().filter(|node| !used.contains(&node.id)).map(|node| node.gpu_type);
            let free: Vec<_> = free.flatten().collect();
            for view in core.state().jobs().filter(|view| view.target.is_none()) {
                let workers = view.job.shape.data_parallel().expect("a gang").workers.min;
                let fits = |gpu_type: &trainyard_sched::model::GpuTypeId| {
                    let of_type = free.iter().filter(|free| *free == gpu_type).count();
                    view.job.wanted.gpu_types.has(*gpu_type) && of_type >= workers as usize
                };
                if free.iter().any(fits) {
                    self.wrong.push(format!("{} waits beside {} free GPUs", view.job.name, free.len()));
                }
            }
        }
    }
    let workload = jobs("gavel-b", None, 0, "");
    for objective in
        ["max_min_fairness", "finish_time_fairness", "makespan", "throughput", "cost", "hierarchical"]
    {
        let mut idle = Idle::default();
        follow("gavel", &format!("objective = '{objective}'"), &workload, 8, &mut idle);
        assert!(idle.rounds > 1000, "{objective}: {} rounds", idle.rounds);
        assert!(idle.wrong.is_empty(), "{objective}: {} times, first {}", idle.wrong.len(), idle.wrong[0]);
    }
}

/// Jobs 4000 to 4999 are measured, while others are there.
const MEASURED: std::ops::Range<u32> = 4000..5000;

fn continuous(per_h: f64, seed: u64) -> Workload {
    jobs("gavel", Some(5600), seed, &format!("jobs_per_h = {per_h:?}"))
}

#[test]
#[ignore = "minutes: thousands of jobs; run with --ignored"]
fn jobs_are_done_sooner_than_with_an_equal_part_of_the_cluster() {
    let workload = continuous(3.2, 0);
    let alone = jcts(&run("compatibility = true\nobjective = 'isolated'", &workload, 36).0);
    for (parameters, expected, within) in [
        ("compatibility = true", 0.72, 0.05),
        ("compatibility = true\nobjective = 'finish_time_fairness'", 0.73, 0.05),
        ("compatibility = true\naware = false", 1.00, 0.03),
    ] {
        let ours = jcts(&run(parameters, &workload, 36).0);
        let ratios: Vec<f64> = MEASURED.map(|id| ours[&JobId(id)] / alone[&JobId(id)]).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        println!("{parameters:?}: {mean:.3}, published {expected}");
        assert!((mean - expected).abs() <= within, "{parameters}: {mean}");
    }
}

#[test]
#[ignore = "minutes: thousands of jobs and three seeds; run with --ignored"]
fn under_load_knowing_speeds_saves_what_the_authors_print() {
    // Jobs an hour; hours with speeds known and not, and how far ours may be from these.
    for (per_h, aware, blind) in [(4.8, (19.0, 0.08), (36.0, 0.25)), (5.6, (29.0, 0.15), (96.0, 0.15))] {
        for seed in 0..3 {
            let workload = continuous(per_h, seed);
            let mean = |parameters| mean_h(&jcts(&run(parameters, &workload, 36).0), MEASURED);
            let got = [mean("compatibility = true"), mean("compatibility = true\naware = false")];
            println!("{per_h} jobs an hour, seed {seed}: aware {:.2} h, blind {:.2} h", got[0], got[1]);
            for ((expected, within), got) in [aware, blind].into_iter().zip(got) {
                assert!(
                    (got / expected - 1.0).abs() <= within,
                    "{per_h} seed {seed}: {got}, expected {expected}"
                );
            }
        }
    }
}

/// At what load a mean completion time reaches 40 hours, between two loads of which it is below and above.
fn load_at_40_h(points: [(f64, f64); 2]) -> f64 {
    let [(low, below), (high, above)] = points;
    low + (high - low) * (40.0 - below) / (above - below)
}

#[test]
#[ignore = "minutes: thousands of jobs at many loads; run with --ignored"]
fn the_headline_ratios_are_reached() {
    let coded = |objective: &str, aware: bool| {
        format!("compatibility = true\nobjective = '{objective}'\naware = {aware}")
    };
    let at = |per_h: f64, objective: &str, aware: bool| {
        let (metrics, _) = run(&coded(objective, aware), &continuous(per_h, 0), 36);
        mean_h(&jcts(&metrics), MEASURED)
    };
    for (objective, least) in [("max_min_fairness", 3.0), ("finish_time_fairness", 2.5)] {
        let (aware, blind) = (at(5.6, objective, true), at(5.6, objective, false));
        println!("{objective} at 5.6 jobs an hour: aware {aware:.2} h, blind {blind:.2} h");
        assert!(blind / aware >= least, "{objective}: {blind} over {aware}");
    }
    let curve = |aware, loads: [f64; 2]| {
        load_at_40_h(loads.map(|per_h| (per_h, at(per_h, "max_min_fairness", aware))))
    };
    let (aware, blind) = (curve(true, [5.6, 6.0]), curve(false, [4.8, 5.2]));
    println!("40 hours are reached at {aware:.2} jobs an hour, and at {blind:.2} without knowing speeds");
    assert!(aware / blind >= 1.2, "{aware} over {blind}");
}

#[test]
#[ignore = "minutes: hundreds of gangs for weeks; run with --ignored"]
fn many_gangs_at_once_are_done_nearly_as_soon_as_the_longest_of_them() {
    let mut ratios = Vec::new();
    for seed in 0..3 {
        let of = |count| jobs("gavel", Some(count), seed, "multi_gpu = true\njobs_per_h = 0.0");
        let makespan = |policy: &str, parameters: &str, workload: &Workload| {
            follow(policy, parameters, workload, 36, &mut Nothing).1.makespan_s / 3600.0
        };
        for count in [100, 300, 500] {
            let workload = of(count);
            let alone = workload.jobs.iter().map(|(job, truth)| {
                let rates = job.declared.rates.as_ref().expect("it was profiled");
                let workers = job.shape.data_parallel().expect("a gang").workers.min;
                let known = rates.alone().iter().filter(|rate| rate.workers == workers);
                truth.iterations / known.map(|rate| rate.iterations_per_s).fold(0.0, f64::max) / 3600.0
            });
            let longest = alone.fold(0.0, f64::max);
            let ours = makespan("gavel", "objective = 'makespan'", &workload);
            println!("{count} jobs, seed {seed}: {ours:.1} h, the longest takes {longest:.1} h");
            assert!(ours <= 1.06 * longest, "{count} jobs, seed {seed}: {ours} h beside {longest} h");
            if count == 500 {
                let fifo =
                    makespan("gavel", "objective = 'fifo'\naware = false\ncompatibility = true", &workload);
                let gandiva = makespan("gandiva", "compatibility = true", &workload);
                println!("500 jobs, seed {seed}: first in, first out {fifo:.1} h, gandiva {gandiva:.1} h");
                ratios.push((fifo / ours, gandiva / ours));
            }
        }
    }
    let count = ratios.len() as f64;
    let mean = ratios.iter().fold((0.0, 0.0), |sum, each| (sum.0 + each.0 / count, sum.1 + each.1 / count));
    assert!(mean.0 >= 2.0 && mean.1 >= 1.3, "{ratios:?}");
}
