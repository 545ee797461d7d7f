//! Workers and parameter servers handed out anew: what happens to units that do not fit, and where they go. By hand.

use std::sync::Arc;

use trainyard_sched::control::{Batch, Core, Event, Settings, Step};
use trainyard_sched::decide::{Abilities, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, Cluster, DataParallel, Declared, GPU, Goals, Job, JobId, MoveCost, NodeId, Parallelism,
    PriorityClass, RackId, Resources, SERVER_TASK, Seed, SpeedFunction, SpeedTable, TenantId, Tenants, Time,
    Wanted, WorkerRange,
};
use trainyard_sched::policies;

/// Nodes by GPUs and CPUs.
fn cluster(nodes: &[(u64, u64)]) -> Cluster {
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type("slot");
    for (gpus, cpus) in nodes {
        let holds = Resources { gpu_milli: gpus * GPU, cpu_milli: cpus * GPU, ..Resources::NONE };
        cluster.push(RackId(0), Some(gpu_type), holds, None);
    }
    cluster
}

/// A job of workers with so many GPUs and CPUs, and servers with one CPU, up to `most` of each.
fn job(id: u32, (gpus, cpus): (u64, u64), most: u32) -> Job {
    let range = WorkerRange { min: 1, max: most };
    let worker = Resources { gpu_milli: gpus * GPU, cpu_milli: cpus * GPU, ..Resources::NONE };
    let server = Some(Resources::cpus(1));
    let speed = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.0, 0.0] };
    Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::DataParallel(DataParallel { worker, workers: range, server, servers: range }),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared { iterations: Some(1000.0), speed: Some(speed), ..Declared::default() },
        move_cost: MoveCost::default(),
    }
}

fn first_step(policy: &str, parameters: &str, cluster: Cluster, jobs: &[Job]) -> Step {
    let table: toml::Table = parameters.parse().expect("it is TOML");
    let policy = policies::build(policy, &table).expect("it is in the table");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, Tenants::default(), policy, settings);
    let events = jobs.iter().map(|job| Event::Arrived { job: Arc::new(job.clone()) }).collect();
    core.step(&Batch { at: Time::ZERO, events })
}

fn target(step: &Step, id: u32) -> Allocation {
    let targets = &step.decision.as_ref().expect("a decision").targets;
    targets.iter().find(|(job, _)| *job == JobId(id)).map(|(_, target)| target.clone()).unwrap_or_default()
}

fn verdict(step: &Step, id: u32) -> Verdict {
    let verdicts = &step.decision.as_ref().expect("a decision").verdicts;
    verdicts.iter().find(|(job, _)| *job == JobId(id)).expect("it was judged").1
}

const SLOTTED: [&str; 4] = ["slot-drf", "slot-fifo", "slot-srtf", "slot-tetris"];

#[test]
fn a_unit_that_does_not_fit_ends_the_slot_or_is_skipped() {
    // The first job takes all GPUs of both nodes with two bundles; the second needs none.
    let jobs = [job(0, (8, 1), 16), job(1, (0, 1), 16)];
    let run = |parameters| first_step("slot-fifo", parameters, cluster(&[(8, 8), (8, 8)]), &jobs);
    let stopped = run("misfit = 'stop'");
    assert_eq!((target(&stopped, 0).workers(), target(&stopped, 1).workers()), (2, 0));
    assert_eq!(verdict(&stopped, 1), Verdict::Wait(Reason::Behind { ahead: JobId(0) }));
    let skipped = run("misfit = 'skip'");
    assert_eq!((target(&skipped, 0).workers(), target(&skipped, 1).workers()), (2, 6));
}

#[test]
fn as_coded_only_the_least_loaded_node_is_tried() {
    // Both nodes are idle, so the lower index comes first, and it is too small.
    for policy in SLOTTED.into_iter().filter(|policy| *policy != "slot-tetris") {
        let run =
            |parameters| first_step(policy, parameters, cluster(&[(2, 2), (8, 8)]), &[job(0, (4, 1), 16)]);
        assert!(target(&run("misfit = 'stop'"), 0).is_none(), "{policy}");
        let skipped = target(&run(""), 0);
        assert_eq!((skipped.workers(), skipped.nodes()), (2, vec![NodeId(1)]), "{policy}");
    }
    let coded = "mode = 'as_coded'\nspeeds = 'declared'";
    let run =
        |parameters| first_step("optimus", parameters, cluster(&[(2, 2), (8, 8)]), &[job(0, (4, 1), 16)]);
    assert!(target(&run(coded), 0).is_none(), "Optimus, as coded");
    assert_eq!(target(&run(""), 0).workers(), 2, "Optimus");
}

#[test]
fn shares_are_levelled_one_bundle_at_a_time() {
    // Bundles are 2/8 of the CPUs of both jobs; the second has twice the GPUs, which are 4/16 of all.
    let jobs = [job(0, (1, 1), 16), job(1, (2, 1), 16)];
    let step = first_step("slot-drf", "", cluster(&[(16, 8)]), &jobs);
    assert_eq!((target(&step, 0).workers(), target(&step, 1).workers()), (2, 2));
    let wide = [job(0, (1, 1), 16), job(1, (4, 1), 16)];
    let step = first_step("slot-drf", "", cluster(&[(16, 12)]), &wide);
    // After one bundle each the shares are 1/6 and 1/4; then the first goes on until it is ahead.
    assert_eq!((target(&step, 0).workers(), target(&step, 1).workers()), (4, 2));
}

#[test]
fn tetris_packs_node_by_node_and_prefers_little_work() {
    let mut long = job(0, (4, 1), 16);
    long.declared.iterations = Some(9000.0);
    let jobs = [long, job(1, (4, 1), 2)];
    let of = |parameters| {
        let step = first_step("slot-tetris", parameters, cluster(&[(8, 8), (8, 8)]), &jobs);
        (target(&step, 0), target(&step, 1))
    };
    let (long, short) = of("");
    assert_eq!((short.nodes(), long.nodes()), (vec![NodeId(0)], vec![NodeId(1)]));
    let (long, short) = of("work = 'most_first'");
    assert_eq!((long.workers(), short.workers()), (4, 0), "the long one takes all");
}

#[test]
fn optimus_grows_as_long_as_that_helps_and_puts_equal_numbers_on_the_fewest_nodes() {
    // With t1 = 0.5 and nothing lost by more of either, all sixteen are worth having; a node holds four of each.
    let step = first_step("optimus", "", cluster(&[(8, 8); 6]), &[job(0, (2, 1), 8)]);
    let found = target(&step, 0);
    assert_eq!((found.workers(), found.count_of(SERVER_TASK)), (8, 8));
    assert_eq!(found.nodes(), [NodeId(0), NodeId(1)]);
    assert!(found.placements().iter().all(|placement| placement.count == 4), "{found:?}");
    // Where a further server costs more than it brings, there is none.
    let mut alone = job(0, (2, 1), 8);
    alone.declared.speed = Some(SpeedFunction::AsynchronousServers { theta: [1.0, 0.0, 0.0, 0.5] });
    let step = first_step("optimus", "", cluster(&[(8, 8); 6]), &[alone]);
    assert_eq!((target(&step, 0).workers(), target(&step, 0).count_of(SERVER_TASK)), (8, 1));
}

#[test]
fn optimus_gives_to_whoever_gains_most_for_its_share() {
    // Both gain the same time by a worker; that of the second takes four times the GPUs.
    let step = first_step("optimus", "", cluster(&[(16, 64)]), &[job(0, (4, 1), 3), job(1, (1, 1), 8)]);
    let found = [0, 1].map(|id| target(&step, id).workers());
    assert_eq!(found, [2, 8], "as much as it can use to the one, the rest to the other");
}

#[test]
fn tetris_packs_by_alignment_where_no_work_is_known() {
    let mut unknown = job(0, (4, 1), 16);
    unknown.declared = Declared::default();
    for parameters in ["misfit = 'stop'", "misfit = 'stop'\nby = 'fraction'\nwork = 'most_first'", ""] {
        let step = first_step("slot-tetris", parameters, cluster(&[(8, 8)]), std::slice::from_ref(&unknown));
        assert_eq!(target(&step, 0).workers(), 2, "{parameters}");
    }
}

#[test]
fn optimus_gives_a_server_where_only_that_makes_a_job_move() {
    // Neither (1, 1) nor (2, 1) has any speed, so a worker's gain is no number.
    let table = SpeedTable::new(2, 2, |workers, servers| f64::from(if servers == 2 { workers } else { 0 }));
    let mut stuck = job(0, (1, 1), 2);
    stuck.declared.speed = Some(SpeedFunction::Measured(Arc::new(table)));
    let step = first_step("optimus", "speeds = 'declared'", cluster(&[(8, 8)]), &[stuck]);
    let found = target(&step, 0);
    assert_eq!((found.workers(), found.count_of(SERVER_TASK)), (2, 2));
}

#[test]
fn optimus_gives_to_higher_classes_first() {
    let (mut long, mut urgent) = (job(0, (1, 1), 8), job(1, (1, 1), 8));
    long.declared.iterations = Some(1e6);
    let of = |jobs: &[Job]| {
        let step = first_step("optimus", "", cluster(&[(8, 64)]), jobs);
        [0, 1].map(|id| target(&step, id).workers())
    };
    assert_eq!(of(&[long.clone(), urgent.clone()]), [7, 1], "of one class, who gains most");
    urgent.goals.class = PriorityClass(long.goals.class.0 + 1);
    assert_eq!(of(&[long, urgent]), [1, 7]);
}
