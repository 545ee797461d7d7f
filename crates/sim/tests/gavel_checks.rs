//! What Gavel's policies must do on Gavel's own workloads, beyond what the public simulator prints: rounds against time that
//! is shared out finely, deadlines and money, pairs, distance. Checks on thousands of jobs are those of
//! `trainyard reproduce gavel --nightly`.

use trainyard_sched::control::{self, Batch, Core, Log, Nothing, Step};
use trainyard_sched::metrics::{Metrics, Spending, Summary};
use trainyard_sched::model::{Cluster, Seed, Span, Tenants};
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
