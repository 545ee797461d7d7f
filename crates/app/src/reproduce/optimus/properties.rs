//! What holds of every run: DRF's shares (B-4), capacity and determinism (B-5), on workloads drawn at random.

use std::collections::BTreeMap;

use rayon::prelude::*;
use trainyard_sched::control::{Batch, Core, Event, Log, Settings, Step};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Allocation, Cluster, DataParallel, Declared, Goals, Job, JobId, MoveCost, NodeId, Parallelism, RackId,
    Resources, Seed, SpeedFunction, TenantId, Tenants, Time, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sim::generate::{ServerJob, server_cluster, server_workload};

use super::super::{Figures, Gate, Progress, Row};
use super::runs::{Contender, DRF, FIFO, OPTIMUS, OTHERS, Setting};

/// How often demands are drawn for B-4.
const DRAWS: u64 = 200;

/// B-4 and B-5.
pub(super) fn rows(seed: Seed, strong: &[SpeedFunction], progress: &Progress<'_>) -> [Row; 2] {
    (progress.expect)(2);
    let draws = (0..DRAWS).into_par_iter().map(|i| seed.branch("shares").numbered(i));
    let uneven = draws.filter(|seed| !is_level(*seed)).count();
    let what = format!(
        "DRF, as coded, on one big server: draws of demands in which a job is more than one bundle ahead of one that could \
         use more (count of {DRAWS})"
    );
    let level = Row::single("B-4", what, Figures::default(), Gate::AtMost(0.0), Some(uneven as f64));
    (progress.done)();
    let contenders: Vec<Contender> = [DRF, FIFO, OPTIMUS].into_iter().chain(OTHERS).collect();
    let setting = Setting { preset: "c12u", nodes: 12, speeds: strong };
    let jobs = setting.jobs(seed);
    let wrong = contenders.par_iter().filter(|contender| !is_sound(&setting, contender, &jobs)).count();
    let what = format!(
        "c12u: policies of which a node was over its capacity, or whose log was another the second time (count of {})",
        contenders.len()
    );
    let sound = Row::single("B-5", what, Figures::default(), Gate::AtMost(0.0), Some(wrong as f64));
    (progress.done)();
    [level, sound]
}

/// A number below `sides` from a seed.
fn roll(seed: Seed, name: &str, i: u64, sides: u64) -> u64 {
    seed.branch(name).numbered(i).0 % sides
}

/// Whether DRF on one big server leaves nobody who could use more by more than a bundle behind another.
fn is_level(seed: Seed) -> bool {
    let cpu_milli = 1000 * (40 + roll(seed, "cpus", 0, 160));
    let holds = Resources { gpu_milli: 64_000, cpu_milli, ..Resources::NONE };
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type("slot");
    cluster.push(RackId(0), Some(gpu_type), holds, None);
    let jobs: Vec<Job> = (0..2 + roll(seed, "jobs", 0, 6)).map(|i| drawn_job(seed, i)).collect();
    let parameters: toml::Table = DRF.parameters.parse().expect("parameters of this program are TOML");
    let policy = policies::build(DRF.policy, &parameters).expect("parameters of this program are fine");
    let settings = Settings { seed, abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, Tenants::default(), policy, settings);
    let events = jobs.iter().map(|job| Event::Arrived { job: job.clone().into() }).collect();
    let step = core.step(&Batch { at: Time::ZERO, events });
    let targets = step.decision.map(|decision| decision.targets).unwrap_or_default();
    let given = |job: &Job| {
        let target = targets.iter().find(|(id, _)| *id == job.id);
        target.map(|(_, target)| target.clone()).unwrap_or_default()
    };
    let share = |job: &Job| given(job).resources(&job.shape).dominant_share(&holds);
    let shape = |job: &Job| *job.shape.data_parallel().expect("drawn so");
    let bundle = |job: &Job| shape(job).worker + shape(job).server.unwrap_or_default();
    let is_open = |job: &Job| given(job).workers() < shape(job).workers.max;
    let ahead = |a: &Job, b: &Job| share(a) - bundle(a).dominant_share(&holds) > share(b) + 1e-9;
    targets.iter().any(|(_, target)| target.is_some())
        && !jobs.iter().filter(|job| is_open(job)).any(|behind| jobs.iter().any(|job| ahead(job, behind)))
}

fn drawn_job(seed: Seed, i: u64) -> Job {
    let gpu_milli = 1000 * roll(seed, "gpus", i, 5);
    let cpu_milli = 1000 * (1 + roll(seed, "worker", i, 4));
    let worker = Resources { gpu_milli, cpu_milli, ..Resources::NONE };
    let range = WorkerRange { min: 1, max: 16 };
    let server = Some(Resources::cpus(1 + roll(seed, "server", i, 3)));
    Job {
        id: JobId(i as u32),
        name: format!("job-{i}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::DataParallel(DataParallel { worker, workers: range, server, servers: range }),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    }
}

/// Adds up what targets take of nodes after each decision, and writes down all decisions.
struct Watch<'a> {
    shapes: &'a [Parallelism],
    targets: BTreeMap<JobId, Allocation>,
    is_over: bool,
    told: String,
}

impl Log for Watch<'_> {
    fn step(&mut self, batch: &Batch, step: &Step) {
        let gone = batch.events.iter().filter_map(|event| match event {
            Event::Finished { job, .. } => Some(*job),
            _ => None,
        });
        gone.for_each(|job| drop(self.targets.remove(&job)));
        let Some(decision) = &step.decision else { return };
        self.told += &serde_json::to_string(&(batch.at, decision)).expect("a decision can be written");
        self.targets.extend(decision.targets.iter().cloned());
        let mut taken: BTreeMap<NodeId, Resources> = BTreeMap::new();
        for (job, target) in &self.targets {
            for placement in target.placements() {
                let demand = self.shapes[job.index()].demand_of(placement.task).unwrap_or_default();
                *taken.entry(placement.node).or_default() += demand.times(u64::from(placement.count));
            }
        }
        let holds = server_cluster(1).nodes[0].holds;
        self.is_over |= taken.values().any(|taken| !taken.fits_in(&holds));
    }
}

fn is_sound(setting: &Setting<'_>, contender: &Contender, jobs: &[ServerJob]) -> bool {
    let workload = server_workload(jobs, setting.speeds, "job");
    let shapes: Vec<Parallelism> = workload.jobs.iter().map(|(job, _)| job.shape.clone()).collect();
    let run = || {
        let mut watch =
            Watch { shapes: &shapes, targets: BTreeMap::new(), is_over: false, told: String::new() };
        let ended = setting.times(contender, jobs, &mut watch).is_some();
        (ended && !watch.is_over && !watch.told.is_empty(), watch.told)
    };
    let (first, second) = (run(), run());
    first.0 && first == second
}
