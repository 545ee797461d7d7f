//! What Optimus does with single pictures of a cluster: what it plans on, how it explores, and what changes are worth. By
//! hand.

use std::sync::Arc;

use trainyard_sched::decide::Decision;
use trainyard_sched::estimate::SpeedPoint;
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, DataParallel, Declared, Goals, GpuSet, Job, JobId, ModelId,
    MoveCost, NodeId, Parallelism, Placement, PriorityClass, RackId, Resources, SERVER_TASK, Seed, Span,
    SpeedFunction, SpeedTable, TenantId, Tenants, Time, Topology, WORKER_TASK, Wanted, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sched::view::{Causes, Changed, JobView, Note, Phase, Snapshot};

const NOW: Time = Time::from_secs(6000);

/// Nodes by GPUs and CPUs.
fn cluster(nodes: &[(u64, u64)]) -> Cluster {
    let mut cluster = Cluster::default();
    let gpu_type = cluster.intern_gpu_type("gpu");
    for (gpus, cpus) in nodes {
        let holds = Resources { gpu_milli: gpus * 1000, cpu_milli: cpus * 1000, ..Resources::NONE };
        cluster.push(RackId(0), Some(gpu_type), holds, None);
    }
    cluster
}

/// Workers of one GPU and servers of one CPU, if there are any.
fn shape(workers: (u32, u32), servers: Option<(u32, u32)>) -> Parallelism {
    let range = |(min, max)| WorkerRange { min, max };
    Parallelism::DataParallel(DataParallel {
        worker: Resources::gpus(1),
        workers: range(workers),
        server: servers.map(|_| Resources::cpus(1)),
        servers: servers.map_or(WorkerRange::exactly(0), range),
    })
}

fn waiting(id: u32, shape: Parallelism, declared: Declared) -> JobView {
    let job = Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape,
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared,
        move_cost: MoveCost::default(),
    };
    JobView::new(Arc::new(job), NOW)
}

fn of_length(iterations: f64, speed: SpeedFunction) -> Declared {
    Declared { iterations: Some(iterations), speed: Some(speed), ..Declared::default() }
}

/// The job as it runs on these nodes: workers by the first device, and servers.
fn running(view: JobView, held: &[(u32, u32, u32, u32)], move_cost_s: u64) -> JobView {
    let part = |task, node, count, gpus| Placement { copy: CopyId(0), task, node: NodeId(node), count, gpus };
    let parts = held.iter().flat_map(|(node, first, workers, servers)| {
        let devices = ((1 << workers) - 1) << first;
        let workers = (*workers > 0).then(|| part(WORKER_TASK, *node, *workers, GpuSet::whole(devices)));
        let servers = (*servers > 0).then(|| part(SERVER_TASK, *node, *servers, GpuSet::NONE));
        workers.into_iter().chain(servers)
    });
    let target = Allocation::new(parts.collect());
    let load = Span::from_secs(move_cost_s);
    let job = Job { move_cost: MoveCost { load, ..MoveCost::default() }, ..(*view.job).clone() };
    let (held, attempt) = (target.clone(), Attempt(1));
    JobView { job: Arc::new(job), phase: Phase::Running, held, target, attempt, ..view }
}

fn changed(view: JobView, change: impl FnOnce(&mut Job)) -> JobView {
    let mut job = (*view.job).clone();
    change(&mut job);
    JobView { job: Arc::new(job), ..view }
}

fn measured(mut view: JobView, truth: &SpeedFunction, sizes: &[(u32, u32)]) -> JobView {
    for (workers, servers) in sizes.iter().copied() {
        let iterations_per_s = truth.iterations_per_s(workers, servers);
        view.speeds.measure(SpeedPoint { workers, servers, iterations_per_s });
    }
    view
}

fn picture(cluster: Cluster, views: Vec<JobView>) -> Snapshot {
    let ids = views.iter().map(JobView::id).collect();
    Snapshot {
        at: NOW,
        cause: Causes::ALARM,
        seed: Seed(0),
        number: 7,
        cluster: Arc::new(cluster),
        tenants: Arc::new(Tenants::default()),
        note: Note::default(),
        jobs: views.into_iter().map(|view| (view.id(), Arc::new(view))).collect(),
        changed: Arc::new(Changed { jobs: ids, nodes: Vec::new() }),
    }
}

fn decide(parameters: &str, seen: &Snapshot) -> Decision {
    let table: toml::Table = parameters.parse().expect("it is TOML");
    policies::build("optimus", &table).expect("it is in the table").decide(seen)
}

/// What a job has after a decision with the defaults.
fn target(seen: &Snapshot, id: u32) -> Allocation {
    let targets = decide("", seen).targets;
    let new = targets.iter().find(|(job, _)| *job == JobId(id)).map(|(_, target)| target.clone());
    new.unwrap_or_else(|| seen.job(JobId(id)).expect("it is there").target.clone())
}

/// Workers and servers.
fn size(seen: &Snapshot, id: u32) -> (u32, u32) {
    let target = target(seen, id);
    (target.workers(), target.count_of(SERVER_TASK))
}

const SERVERS: SpeedFunction = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.01, 0.02] };

#[test]
fn modes_are_the_published_one_the_coded_one_and_the_coded_one_on_fitted_speeds() {
    // A table with a dent, in which one who believes it is caught.
    let dent = |w, p| if (w, p) == (3, 2) || (w, p) == (2, 3) { 0.1 } else { SERVERS.iterations_per_s(w, p) };
    let table = SpeedFunction::Measured(Arc::new(SpeedTable::new(16, 16, dent)));
    let job = waiting(0, shape((1, 16), Some((1, 16))), of_length(1000.0, table));
    let seen = picture(cluster(&[(8, 8); 2]), vec![job]);
    let by = |parameters| decide(parameters, &seen);
    let coded = by("mode = 'as_coded'");
    assert_eq!(coded, by("mode = 'as_coded'\nspeeds = 'declared'"));
    let fitted = by("mode = 'fitted'");
    assert_eq!(fitted, by("mode = 'as_coded'\nspeeds = 'fitted'\nprofile = 0"));
    assert_ne!(coded, fitted);
    let published = by("");
    assert_eq!(published, by("mode = 'published'\nspeeds = 'fitted'\nprofile = 10\ncurve = 'inverse'"));
    assert_ne!(published, by("speeds = 'declared'"));
    let given = |decision: &Decision| decision.targets[0].1.workers();
    assert!(given(&coded) <= 2 && given(&fitted) > 3 && given(&published) > 3, "{coded:?} {fitted:?}");
}

#[test]
fn what_was_measured_of_a_job_serves_others_of_its_type() {
    let of_model = |view, model| changed(view, |job| job.model = Some(ModelId(model)));
    let unknown = || Declared { iterations: Some(1000.0), ..Declared::default() };
    let job = |id, model| of_model(waiting(id, shape((1, 16), Some((1, 16))), unknown()), model);
    let known = running(job(0, 1), &[(0, 0, 1, 1)], 0);
    let known = measured(known, &SERVERS, &[(1, 1), (1, 4), (4, 1), (4, 4)]);
    let seen = picture(cluster(&[(64, 64)]), vec![known.clone(), job(1, 1), job(2, 2)]);
    assert_eq!(size(&seen, 2), (1, 1), "of another model nothing is known, and it is measured");
    let (workers, servers) = size(&seen, 1);
    assert!(workers > 4 && servers > 4, "{workers} {servers}");
    // Other workers are another type.
    let wide = changed(job(1, 1), |job| {
        let Parallelism::DataParallel(shape) = &mut job.shape else { panic!("it is") };
        shape.worker = Resources::gpus(2);
    });
    assert_eq!(size(&picture(cluster(&[(64, 64)]), vec![known.clone(), wide]), 1), (1, 1));
    // As coded everyone is on his own.
    let coded = decide("mode = 'fitted'", &picture(cluster(&[(64, 64)]), vec![known, job(1, 1)]));
    let new = &coded.targets.iter().find(|(id, _)| *id == JobId(1)).expect("it runs").1;
    assert_eq!((new.workers(), new.count_of(SERVER_TASK)), (1, 1));
}

#[test]
fn a_size_for_which_there_is_no_room_is_left_out_of_exploring() {
    // One CPU holds one server, so of all sizes to be measured only (1, 1) and (4, 1) fit.
    let ring = SpeedFunction::Linear { iteration_s: 1.0, reference: 1 };
    let job = waiting(0, shape((1, 16), Some((1, 16))), Declared::default());
    let job = running(job, &[(0, 0, 1, 1)], 0);
    let at = |sizes: &[(u32, u32)]| picture(cluster(&[(8, 1)]), vec![measured(job.clone(), &ring, sizes)]);
    assert_eq!(size(&at(&[(1, 1)]), 0), (4, 1));
    assert_eq!(size(&at(&[(1, 1), (4, 1)]), 0), (8, 1), "it goes by what is known and gets what there is");
}

#[test]
fn a_swap_of_workers_for_servers_has_to_be_worth_it_too() {
    // Six CPUs; of all sizes (3, 3) is fastest, by 0.008 s an iteration before (4, 2).
    let speed = SpeedFunction::AsynchronousServers { theta: [1.0, 0.55, 0.0, 0.0] };
    let both_on_cpus = |job: &mut Job| {
        let Parallelism::DataParallel(shape) = &mut job.shape else { panic!("it is") };
        shape.worker = Resources::cpus(1);
    };
    let of = |iterations| {
        let view = waiting(0, shape((1, 6), Some((1, 6))), of_length(iterations, speed.clone()));
        let mut view = changed(running(view, &[(0, 0, 4, 2)], 60), both_on_cpus);
        let on_cpus = |p: &Placement| Placement { gpus: GpuSet::NONE, ..*p };
        view.target = Allocation::new(view.target.placements().iter().map(on_cpus).collect());
        view.held = view.target.clone();
        picture(cluster(&[(0, 6)]), vec![view])
    };
    assert_eq!(size(&of(1000.0), 0), (4, 2), "8 s are not worth a minute");
    assert_eq!(size(&of(100_000.0), 0), (3, 3));
}

#[test]
fn units_that_were_not_worth_the_move_go_to_others() {
    let linear = SpeedFunction::Linear { iteration_s: 1.0, reference: 1 };
    let nearly_done = waiting(0, shape((1, 8), None), of_length(40.0, linear.clone()));
    let nearly_done = changed(nearly_done, |job| job.goals.class = PriorityClass(9));
    let first = running(nearly_done, &[(0, 0, 2, 0)], 60);
    let other = waiting(1, shape((1, 8), None), of_length(1000.0, linear));
    let seen = picture(cluster(&[(8, 8)]), vec![first, other]);
    assert_eq!([0, 1].map(|id| size(&seen, id).0), [2, 6]);
}

#[test]
fn jobs_are_moved_for_a_better_layout_only_if_that_is_worth_it() {
    let linear = SpeedFunction::Linear { iteration_s: 1.0, reference: 4 };
    let fixed = |id, workers| waiting(id, shape((workers, workers), None), of_length(1e6, linear.clone()));
    // Two jobs stand in the way of a third that needs a whole node.
    let of = |cost_s, waited_s: u64| {
        let mut whole = changed(fixed(2, 8), |job| job.wanted.topology = Topology::SameNode);
        whole.served.changed = Time::from_secs(6000 - waited_s);
        let halves = [0, 1].map(|id| running(fixed(id, 4), &[(id, 0, 4, 0)], cost_s));
        picture(cluster(&[(8, 8); 2]), halves.into_iter().chain([whole]).collect())
    };
    let nodes = |seen: &Snapshot| [0, 1, 2].map(|id| target(seen, id).nodes());
    let [one, two] = [0, 1].map(|node| vec![NodeId(node)]);
    assert_eq!(nodes(&of(60, 0)), [one.clone(), one.clone(), two.clone()], "a round is worth a minute");
    assert_eq!(nodes(&of(3600, 0)), [one.clone(), two.clone(), Vec::new()]);
    assert_eq!(nodes(&of(3600, 4000)), [one.clone(), one, two], "but it does not wait for ever");
}
