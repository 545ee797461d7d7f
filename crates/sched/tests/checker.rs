//! The independent judge of decisions finds each kind of fault, planted one at a time, and nothing else.

mod common;

use std::sync::Arc;

use common::plain_job;
use trainyard_sched::control::{Fault, check};
use trainyard_sched::decide::{Abilities, Change, Decision, Enough, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, DataParallel, GpuSet, GpuTypeId, GpuTypeSet, Job, JobId, NodeId,
    NodeState, Parallelism, Placement, Quotas, RackId, Relaxing, Resources, SERVER_TASK, Seed, StopRule,
    TaskId, Tenants, Time, Topology, WORKER_TASK, WorkerRange,
};
use trainyard_sched::view::{Causes, Changed, JobView, Note, Phase, Snapshot};

/// Node 0 and 1: v100 in two racks; 2: k80; 3: draining; 4: down. Four GPUs each. Job 0 runs on node 0.
fn snapshot(jobs: Vec<Job>) -> Snapshot {
    let mut cluster = Cluster::uniform(2, 4, "v100");
    cluster.add(1, 4, "k80");
    cluster.add(2, 4, "v100");
    cluster.nodes[1].rack = RackId(1);
    cluster.nodes[3].state = NodeState::Draining;
    cluster.nodes[4].state = NodeState::Down;
    let view = |job: Job| {
        let mut view = JobView::new(Arc::new(job), Time::ZERO);
        if view.id() == JobId(0) {
            let held = on(&[(0, 2)]);
            (view.held, view.target) = (held.clone(), held);
            (view.phase, view.attempt) = (Phase::Running, Attempt(1));
        }
        (view.id(), Arc::new(view))
    };
    Snapshot {
        at: Time::ZERO,
        cause: Causes::ARRIVED,
        seed: Seed(0),
        number: 0,
        cluster: Arc::new(cluster),
        tenants: Arc::new(Tenants::default()),
        note: Note::default(),
        jobs: jobs.into_iter().map(view).collect(),
        changed: Arc::new(Changed::default()),
    }
}

fn part(task: TaskId, node: u32, count: u32, gpus: GpuSet) -> Placement {
    Placement { copy: CopyId(0), task, node: NodeId(node), count, gpus }
}

/// Workers with one GPU each: (node, how many). Node 0 begins with device 0, the others with 2.
fn on(nodes: &[(u32, u32)]) -> Allocation {
    let placed = |(node, count): &(u32, u32)| {
        let first = if *node == 0 { 0 } else { 2 };
        part(WORKER_TASK, *node, *count, GpuSet::whole(((1 << count) - 1) << first))
    };
    Allocation::new(nodes.iter().map(placed).collect())
}

fn decision(targets: Vec<(u32, Allocation)>) -> Decision {
    let verdict = |target: &Allocation| {
        if target.is_some() { Verdict::Run(Reason::Chosen) } else { Verdict::Wait(Reason::Kept) }
    };
    Decision {
        verdicts: targets.iter().map(|(id, target)| (JobId(*id), verdict(target))).collect(),
        targets: targets.into_iter().map(|(id, target)| (JobId(id), target)).collect(),
        ..Decision::default()
    }
}

fn two() -> Vec<Job> {
    vec![plain_job(0, Time::ZERO, 2), plain_job(1, Time::ZERO, 2)]
}

fn changed(change: impl FnOnce(&mut Job)) -> Vec<Job> {
    let mut jobs = two();
    change(&mut jobs[1]);
    jobs
}

#[track_caller]
fn finds(jobs: Vec<Job>, given: &Decision, expected: &[Fault]) {
    assert_eq!(check(&snapshot(jobs), given, Abilities::ALL), expected);
}

const ONE: JobId = JobId(1);

#[test]
fn a_sound_decision_has_no_faults() {
    finds(two(), &decision(vec![(1, on(&[(1, 2)]))]), &[]);
    finds(two(), &decision(vec![(0, Allocation::NONE), (1, on(&[(0, 2)]))]), &[]);
    finds(two(), &Decision::default(), &[]);
}

#[test]
fn unknown_jobs_and_a_wrong_order_are_found() {
    let unknown = Fault::UnknownJob { job: JobId(9) };
    finds(two(), &decision(vec![(9, Allocation::NONE)]), &[unknown.clone(), unknown.clone()]);
    let changes = vec![Change::Reject { job: JobId(9) }];
    finds(two(), &Decision { changes, ..Decision::default() }, &[unknown]);
    let mut twice = decision(vec![(1, on(&[(1, 2)])), (1, on(&[(1, 2)]))]);
    twice.verdicts.truncate(1);
    finds(two(), &twice, &[Fault::OutOfOrder { job: ONE }]);
    let mut swapped = decision(vec![(0, on(&[(0, 2)])), (1, on(&[(1, 2)]))]);
    swapped.targets.reverse();
    let found = check(&snapshot(two()), &swapped, Abilities::ALL);
    assert!(found.contains(&Fault::OutOfOrder { job: JobId(0) }), "{found:?}");
}

#[test]
fn giving_away_twice_is_found() {
    let over = |node| Fault::OverCommitted { job: ONE, node: NodeId(node) };
    finds(two(), &decision(vec![(1, on(&[(0, 2)]))]), &[over(0)]);
    // Devices are free, but the node has not that much of something else.
    let mut seen = snapshot(changed(|job| {
        let worker = Resources { cpu_milli: 3000, ..Resources::gpus(1) };
        job.shape = Parallelism::rigid(2, worker);
    }));
    Arc::make_mut(&mut seen.cluster).nodes[1].holds.cpu_milli = 5000;
    assert_eq!(check(&seen, &decision(vec![(1, on(&[(1, 2)]))]), Abilities::ALL), [over(1)]);
}

#[test]
fn nodes_that_take_no_new_work_are_found() {
    for node in [3, 4, 77] {
        let expected = Fault::NodeNotUp { job: ONE, node: NodeId(node) };
        finds(two(), &decision(vec![(1, on(&[(node, 2)]))]), &[expected]);
    }
}

#[test]
fn broken_gangs_are_found() {
    let broken = |task, count| [Fault::GangBroken { job: ONE, task, count }];
    finds(two(), &decision(vec![(1, on(&[(1, 1)]))]), &broken(WORKER_TASK, 1));
    finds(two(), &decision(vec![(1, on(&[(1, 1), (2, 2)]))]), &broken(WORKER_TASK, 3));
    let served = |servers: WorkerRange| {
        changed(|job| {
            job.shape = Parallelism::DataParallel(DataParallel {
                worker: Resources::gpus(1),
                workers: WorkerRange::exactly(2),
                server: Some(Resources::cpus(1)),
                servers,
            });
        })
    };
    let without = || decision(vec![(1, on(&[(1, 2)]))]);
    let server = part(SERVER_TASK, 1, 1, GpuSet::NONE);
    let with_server = Allocation::new(vec![on(&[(1, 2)]).placements()[0], server]);
    let with = || decision(vec![(1, with_server.clone())]);
    let one = WorkerRange::exactly(1);
    finds(served(one), &without(), &broken(SERVER_TASK, 0));
    finds(served(one), &with(), &[]);
    // That no servers can be used is what counts, and not that it is known what one would demand.
    finds(served(WorkerRange::exactly(0)), &without(), &[]);
    finds(served(WorkerRange::exactly(0)), &with(), &broken(SERVER_TASK, 1));
    // Where a job can do without, it may be without.
    finds(served(WorkerRange { min: 0, max: 4 }), &without(), &[]);
    finds(served(WorkerRange { min: 0, max: 4 }), &with(), &[]);
}

#[test]
fn wrong_devices_are_found() {
    let wrong = |node| [Fault::WrongDevices { job: ONE, node: NodeId(node) }];
    let given = |gpus| decision(vec![(1, Allocation::new(vec![part(WORKER_TASK, 1, 2, gpus)]))]);
    finds(two(), &given(GpuSet::whole(0b1)), &wrong(1));
    finds(two(), &given(GpuSet { devices: 0b1111, share_milli: 500 }), &wrong(1));
    finds(two(), &given(GpuSet::whole(0b1_1000)), &wrong(1));
    finds(two(), &given(GpuSet { devices: 0b11, share_milli: 400 }), &wrong(1));
    finds(two(), &given(GpuSet::whole(0b11)), &[]);
    finds(two(), &given(GpuSet::half(0b11)), &[]);
}

#[test]
fn two_gangs_may_share_all_their_devices_and_no_third() {
    let jobs = || (0..3).map(|id| plain_job(id, Time::ZERO, 2)).collect::<Vec<_>>();
    let half = || Allocation::new(vec![part(WORKER_TASK, 1, 2, GpuSet::half(0b11))]);
    let whole = Allocation::new(vec![part(WORKER_TASK, 1, 2, GpuSet::whole(0b11))]);
    finds(jobs(), &decision(vec![(1, half()), (2, half())]), &[]);
    let over = [Fault::OverCommitted { job: JobId(2), node: NodeId(1) }];
    finds(jobs(), &decision(vec![(1, half()), (2, whole)]), &over);
}

#[test]
fn broken_constraints_are_found() {
    let broken = [Fault::ConstraintBroken { job: ONE }];
    let only_k80 = || changed(|job| job.wanted.gpu_types = GpuTypeSet::of(&[GpuTypeId(1)]));
    finds(only_k80(), &decision(vec![(1, on(&[(1, 2)]))]), &broken);
    finds(only_k80(), &decision(vec![(1, on(&[(2, 2)]))]), &[]);
    finds(two(), &decision(vec![(1, on(&[(1, 1), (2, 1)]))]), &broken);
    let with = |topology| changed(|job| (job.wanted.topology, job.wanted.mixed_gpu_types) = (topology, true));
    let two_racks = || decision(vec![(1, on(&[(1, 1), (2, 1)]))]);
    finds(with(Topology::SameRack), &two_racks(), &broken);
    finds(with(Topology::SameNode), &two_racks(), &broken);
    finds(with(Topology::Anywhere), &two_racks(), &[]);
}

#[test]
fn moving_the_unmovable_is_found() {
    let bound = || {
        let mut jobs = two();
        jobs[0].goals.movable = false;
        jobs
    };
    let fault = [Fault::Unmovable { job: JobId(0) }];
    finds(bound(), &decision(vec![(0, Allocation::NONE)]), &fault);
    finds(bound(), &decision(vec![(0, on(&[(1, 2)]))]), &fault);
    finds(bound(), &decision(vec![(0, on(&[(0, 2)]))]), &[]);
}

#[test]
fn what_the_backend_cannot_do_is_found() {
    let lacks = |lacks| vec![Fault::BeyondAbilities { job: ONE, lacks }];
    let share =
        changed(|job| job.shape = Parallelism::rigid(1, Resources { gpu_milli: 500, ..Resources::NONE }));
    let part_of_one = part(WORKER_TASK, 1, 1, GpuSet { devices: 1, share_milli: 500 });
    let given = decision(vec![(1, Allocation::new(vec![part_of_one]))]);
    let seen = snapshot(share);
    assert_eq!(check(&seen, &given, Abilities::NONE), lacks(Abilities::SHARED_GPUS));
    assert_eq!(check(&seen, &given, Abilities::SHARED_GPUS), []);
    let seen = snapshot(changed(|job| job.wanted.mixed_gpu_types = true));
    let given = decision(vec![(1, on(&[(1, 1), (2, 1)]))]);
    assert_eq!(check(&seen, &given, Abilities::NONE), lacks(Abilities::MIXED_GPU_TYPES));
    let seen = snapshot(changed(|job| job.goals.copies = 2));
    let mut copies = [on(&[(1, 2)]).placements(), on(&[(2, 2)]).placements()].concat();
    copies[1].copy = CopyId(1);
    let given = decision(vec![(1, Allocation::new(copies))]);
    let needed = Abilities::COPIES | Abilities::MIXED_GPU_TYPES;
    assert_eq!(check(&seen, &given, Abilities::NONE), lacks(needed));
    assert_eq!(check(&seen, &given, needed), []);
}

#[test]
fn quotas_that_are_none_are_found() {
    let forked = || {
        changed(|job| {
            job.goals.copies = 2;
            job.declared.iterations = Some(100.0);
        })
    };
    let mut copies = [on(&[(1, 2)]).placements(), on(&[(2, 2)]).placements()].concat();
    copies[1].copy = CopyId(1);
    let quotas =
        |each: &[(u16, u64)]| Quotas::new(each.iter().map(|(copy, quota)| (CopyId(*copy), *quota)).collect());
    let given = |target: Allocation, quotas: Quotas| {
        let verdicts = vec![(ONE, Verdict::Run(Reason::Chosen))];
        let (targets, merges) = (vec![(ONE, target)], vec![(ONE, quotas)]);
        Decision { targets, merges, verdicts, ..Decision::default() }
    };
    let (two_copies, one_copy) = (|| Allocation::new(copies.clone()), || on(&[(1, 2)]));
    let wrong = [Fault::WrongQuota { job: ONE }];
    for sound in [quotas(&[(0, 60), (1, 40)]), quotas(&[(0, 0), (1, 7)]), Quotas::NONE] {
        finds(forked(), &given(two_copies(), sound), &[]);
    }
    for odd in [
        quotas(&[(0, 60)]),
        quotas(&[(0, 60), (2, 40)]),
        quotas(&[(0, 30), (0, 30), (1, 40)]),
        quotas(&[(0, 0), (1, 0)]),
        quotas(&[(0, 60), (1, 42)]),
    ] {
        finds(forked(), &given(two_copies(), odd), &wrong);
    }
    finds(forked(), &given(one_copy(), Quotas::NONE), &wrong);
    let nobody = Decision { merges: vec![(JobId(77), Quotas::NONE)], ..Decision::default() };
    finds(forked(), &nobody, &[Fault::UnknownJob { job: JobId(77) }]);
}

#[test]
fn verdicts_that_contradict_the_target_are_found() {
    let contradicts = [Fault::VerdictContradicts { job: ONE }];
    let mut given = decision(vec![(1, on(&[(1, 2)]))]);
    given.verdicts[0].1 = Verdict::Wait(Reason::Kept);
    finds(two(), &given, &contradicts);
    given.verdicts.clear();
    finds(two(), &given, &contradicts);
    given.verdicts = vec![(ONE, Verdict::Run(Reason::Chosen)); 2];
    finds(two(), &given, &contradicts);
}

#[test]
fn relaxing_without_leave_is_found() {
    let given = |changes| Decision { changes, ..Decision::default() };
    let relax = Change::Relax { job: ONE, to: StopRule::AtPeak };
    let why = Enough::Reached { accuracy: 0.91, needed: 0.9 };
    let stop = Change::Stop { job: ONE, why, saved_gpu_s: 1.0 };
    let unallowed = [Fault::MayNotRelax { job: ONE }];
    finds(two(), &given(vec![relax]), &unallowed);
    let other = Relaxing { peak_to_accuracy: true, own_to_accuracy: true, own_to_peak: false };
    finds(changed(|job| job.goals.may_relax = other), &given(vec![relax]), &unallowed);
    let own = Relaxing { own_to_peak: true, ..Relaxing::NONE };
    finds(changed(|job| job.goals.may_relax = own), &given(vec![relax, stop]), &[]);
    // A job that runs to its own end is not cut short, whatever may be done under overload.
    finds(changed(|job| job.goals.may_relax = own), &given(vec![stop]), &unallowed);
    finds(changed(|job| job.goals.stop = StopRule::AtPeak), &given(vec![stop]), &[]);
    finds(two(), &given(vec![Change::Restore { job: JobId(9) }]), &[Fault::UnknownJob { job: JobId(9) }]);
}
