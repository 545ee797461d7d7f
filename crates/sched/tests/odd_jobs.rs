//! Jobs that nobody would submit, shown to the policies that hand out unit by unit: sizes without end, resources that nodes keep no count
//! of, servers of which none may be had, and nothing declared. Each decision ends, soon, and is sound.

use std::sync::Arc;

use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::{Abilities, Entry, MOST_UNITS};
use trainyard_sched::model::{
    Allocation, Cluster, DataParallel, Declared, Goals, Job, JobId, MoveCost, Parallelism, RackId, Resources,
    SERVER_TASK, Seed, SpeedFunction, TenantId, Tenants, Time, UNLIMITED, Wanted, WorkerRange,
};
use trainyard_sched::policies;

/// The policies that hand out unit by unit.
const GIVE_UNITS: [&str; 7] = ["slot-drf", "slot-fifo", "slot-srtf", "slot-tetris", "optimus", "fair", "drf"];

const ENDLESS: WorkerRange = WorkerRange { min: 1, max: u32::MAX };

fn job(id: u32, shape: DataParallel) -> Job {
    Job {
        id: JobId(id),
        name: format!("odd-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::DataParallel(shape),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    }
}

/// Two nodes with 8 GPUs that keep no count of CPUs.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type("v100");
    for _ in 0..2 {
        let holds = Resources { cpu_milli: UNLIMITED, ..Resources::gpus(8) };
        cluster.push(RackId(0), Some(gpu_type), holds, None);
    }
    cluster
}

/// Three that can run together, and one that never can.
fn odd_jobs() -> Vec<Job> {
    let cpu = Resources::cpus(1);
    let with = |worker, workers, server, servers| DataParallel { worker, workers, server, servers };
    let none = WorkerRange { min: 0, max: 0 };
    let few = WorkerRange { min: 1, max: 4 };
    let huge = WorkerRange { min: u32::MAX - 10, max: u32::MAX };
    vec![
        job(0, with(cpu, ENDLESS, Some(cpu), ENDLESS)),
        job(1, with(cpu, ENDLESS, None, none)),
        job(2, with(Resources::gpus(1), few, Some(cpu), none)),
        job(3, with(Resources::gpus(1), huge, Some(cpu), huge)),
    ]
}

/// What each job is given by a policy with its defaults.
fn given(entry: &Entry, jobs: &[Job]) -> Vec<Allocation> {
    let policy = (entry.build)(&toml::Table::new()).expect("defaults are fine");
    let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let mut core = Core::new(cluster(), tenants, policy, settings);
    let events = jobs.iter().map(|job| Event::Arrived { job: Arc::new(job.clone()) }).collect();
    let targets = core.step(&Batch { at: Time::ZERO, events }).decision.expect("a decision").targets;
    let of = |job: &Job| targets.iter().find(|(id, _)| *id == job.id).map(|(_, target)| target.clone());
    jobs.iter().map(|job| of(job).unwrap_or_default()).collect()
}

fn check_all(jobs: &[Job]) {
    for entry in policies::ALL.iter().filter(|entry| GIVE_UNITS.contains(&entry.name)) {
        let given = given(entry, jobs);
        for target in &given {
            assert!(target.workers() <= MOST_UNITS, "{}: {}", entry.name, target.workers());
            assert!(target.count_of(SERVER_TASK) <= MOST_UNITS, "{}", entry.name);
        }
        let runs: Vec<bool> = given.iter().map(Allocation::is_some).collect();
        assert_eq!(runs, [true, true, true, false], "{}: there is room for three", entry.name);
    }
}

#[test]
fn giving_comes_to_an_end_with_odd_jobs_of_which_nothing_is_known() {
    check_all(&odd_jobs());
}

#[test]
fn giving_comes_to_an_end_with_odd_jobs_that_declare_their_speed() {
    let mut jobs = odd_jobs();
    for job in &mut jobs {
        job.declared.iterations = Some(1000.0);
        job.declared.speed = Some(SpeedFunction::Linear { iteration_s: 1.0, reference: 1 });
    }
    check_all(&jobs);
}
