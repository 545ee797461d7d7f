//! Corners that random histories seldom reach, each by hand.

use std::sync::Arc;

use trainyard_sched::control::{Action, Batch, Core, Event, Settings, Step};
use trainyard_sched::decide::{Abilities, Cadence, Decision, Plan, Policy, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, Declared, Goals, GpuSet, Job, JobId, MoveCost, NodeId, Parallelism,
    Placement, Quota, Quotas, RackId, Resources, Seed, Span, Tenant, TenantId, Tenants, Time, Topology,
    WORKER_TASK, Wanted, Weight, WorkerRange,
};
use trainyard_sched::place::Rule;
use trainyard_sched::policies::build;
use trainyard_sched::view::{Causes, JobView, Snapshot};

fn job(id: u32, tenant: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        name: "job".into(),
        tenant: TenantId(tenant),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(gpus),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    }
}

fn tenant(name: &str, parent: Option<u32>, guaranteed: u64) -> Tenant {
    let quota = Quota { guaranteed: Resources::gpus(guaranteed), ..Quota::OPEN };
    Tenant { name: name.into(), parent: parent.map(TenantId), weight: Weight(1.0), quota }
}

fn core(gpus: u64, tenants: Tenants, policy: Box<dyn Policy>) -> Core {
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    Core::new(Cluster::uniform(1, gpus, "v100"), tenants, policy, settings)
}

fn named(name: &str) -> Box<dyn Policy> {
    build(name, &toml::Table::new()).expect("a policy")
}

fn arrive(core: &mut Core, at: u64, jobs: Vec<Job>) -> Step {
    let events = jobs.into_iter().map(|job| Event::Arrived { job: Arc::new(job) }).collect();
    core.step(&Batch { at: Time::from_secs(at), events })
}

fn tell(core: &mut Core, at: u64, event: Event) -> Step {
    core.step(&Batch { at: Time::from_secs(at), events: vec![event] })
}

fn has_target(core: &Core, id: u32) -> bool {
    core.state().job(JobId(id)).is_some_and(|view| view.target.is_some())
}

#[test]
fn who_may_not_reclaim_does_not_keep_another_tenant_from_it() {
    for policy in ["fair", "drf"] {
        let all = vec![tenant("poor", None, 0), tenant("promised", None, 4), tenant("borrower", None, 0)];
        let tenants = Tenants::new(all, Resources::gpus(8)).expect("sound tenants");
        let mut core = core(8, tenants, named(policy));
        arrive(&mut core, 0, (0..4).map(|id| job(id, 2, 2)).collect());
        arrive(&mut core, 1, vec![job(4, 0, 2), job(5, 1, 2)]);
        assert!(has_target(&core, 5), "{policy}: the promise is kept");
        assert!(!has_target(&core, 4), "{policy}: nobody is stopped for who has no promise");
    }
}

#[test]
fn what_a_reclaim_leaves_over_is_given_out_at_once() {
    let all = vec![tenant("poor", None, 0), tenant("promised", None, 2), tenant("borrower", None, 0)];
    let tenants = Tenants::new(all, Resources::gpus(8)).expect("sound tenants");
    let mut core = core(8, tenants, named("fair"));
    arrive(&mut core, 0, vec![job(0, 2, 8)]);
    arrive(&mut core, 1, vec![job(1, 0, 4), job(2, 1, 2)]);
    assert!(has_target(&core, 2) && !has_target(&core, 0));
    assert!(has_target(&core, 1), "six GPUs are free");
}

#[test]
fn nobody_takes_back_from_the_child_of_a_parent_that_holds_no_more_than_its_promise() {
    let all = vec![tenant("parent", None, 4), tenant("child", Some(0), 0), tenant("other", None, 4)];
    let tenants = Tenants::new(all, Resources::gpus(8)).expect("sound tenants");
    let mut core = core(8, tenants, named("fair"));
    arrive(&mut core, 0, vec![job(0, 1, 4)]);
    arrive(&mut core, 1, vec![Job { goals: Goals { movable: false, ..Goals::default() }, ..job(1, 0, 1) }]);
    arrive(&mut core, 2, vec![job(2, 2, 4)]);
    assert!(has_target(&core, 0) && !has_target(&core, 2), "the parent would be left with one of four");
}

#[test]
fn a_job_that_comes_nearer_to_its_limit_while_it_loads_can_be_taken_from() {
    let limited = |id, seconds| Job {
        declared: Declared { limit: Some(Span::from_secs(seconds)), ..Declared::default() },
        ..job(id, 0, 4)
    };
    let mut core = core(4, Tenants::default(), named("srtf"));
    arrive(&mut core, 0, vec![limited(0, 100)]);
    arrive(&mut core, 1, vec![limited(1, 500)]);
    arrive(&mut core, 60, vec![limited(2, 60)]);
    assert!(has_target(&core, 2) || has_target(&core, 0));
    core.state().assert_consistent();
}

#[test]
fn the_service_of_a_huge_job_does_not_overflow() {
    let cluster = Cluster::uniform(1024, 64, "v100");
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, Tenants::default(), named("tiresias"), settings);
    arrive(&mut core, 0, vec![job(0, 0, 65_535)]);
    let (job, attempt) = (JobId(0), Attempt(1));
    tell(&mut core, 0, Event::Started { job, attempt, iterations: 0.0, speed: 1.0 });
    let day = 86_400;
    tell(&mut core, 10 * day, Event::Stopped { job, attempt, iterations: 1.0 });
    let attained = core.state().job(job).expect("it waits").attained_gpu_s(Time::from_secs(10 * day));
    assert!(attained > 1.8e10, "{attained}");
}

/// Gives job 0 one copy, then two, then nothing.
struct Forks(u32);

impl Policy for Forks {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }
    fn decide(&mut self, _: &Snapshot) -> Decision {
        self.0 += 1;
        let copy = |i: u16| Placement {
            copy: CopyId(i),
            task: WORKER_TASK,
            node: NodeId(0),
            count: 1,
            gpus: GpuSet::whole(1 << i),
        };
        let (target, verdict) = match self.0 {
            1 => (Allocation::new(vec![copy(0)]), Verdict::Run(Reason::Chosen)),
            2 => (Allocation::new(vec![copy(0), copy(1)]), Verdict::Run(Reason::Kept)),
            _ => (Allocation::NONE, Verdict::Yield(Reason::NotYetEvaluated)),
        };
        let id = JobId(0);
        Decision { targets: vec![(id, target)], verdicts: vec![(id, verdict)], ..Decision::default() }
    }
    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

#[test]
fn a_job_that_was_forked_while_it_ran_is_merged_before_it_stops() {
    let mut core = core(4, Tenants::default(), Box::new(Forks(0)));
    let forked = Job { goals: Goals { copies: 2, ..Goals::default() }, ..job(0, 0, 1) };
    arrive(&mut core, 0, vec![forked]);
    let (job_0, attempt) = (JobId(0), Attempt(1));
    tell(&mut core, 1, Event::Started { job: job_0, attempt, iterations: 0.0, speed: 1.0 });
    let step = arrive(&mut core, 2, vec![job(1, 0, 1)]);
    let [Action::Resize { allocation, .. }] = &step.actions[..] else { panic!("{:?}", step.actions) };
    let (allocation, iterations, speed) = (allocation.clone(), 2.0, 2.0);
    tell(&mut core, 3, Event::Resized { job: job_0, attempt, allocation, iterations, speed });
    let step = arrive(&mut core, 4, vec![job(2, 0, 1)]);
    assert_eq!(step.actions, [Action::Merge { job: job_0, attempt, number: 1, quotas: Quotas::NONE }]);
    let step = tell(&mut core, 5, Event::Merged { job: job_0, attempt, number: 1 });
    assert!(matches!(step.actions[..], [Action::Stop { .. }]));
}

#[test]
fn a_report_that_comes_again_later_takes_nothing_back() {
    let mut core = core(4, Tenants::default(), named("fifo"));
    arrive(&mut core, 0, vec![job(0, 0, 1)]);
    let (job, attempt) = (JobId(0), Attempt(1));
    tell(&mut core, 0, Event::Started { job, attempt, iterations: 0.0, speed: 1.0 });
    let report = |iterations| Event::Progress {
        job,
        attempt,
        iterations,
        speed: 1.0,
        saved: 0.0,
        losses: vec![trainyard_sched::model::LossPoint { iteration: iterations, loss: 1.0, accuracy: None }],
        copies: Vec::new(),
    };
    tell(&mut core, 10, report(10.0));
    tell(&mut core, 20, report(20.0));
    let before = core.state().job(job).cloned();
    tell(&mut core, 30, report(10.0));
    tell(&mut core, 30, report(20.0));
    assert_eq!(core.state().job(job).cloned(), before);
}

#[test]
fn a_new_policy_is_asked_at_once_and_knows_nothing_of_the_old_ones_notes() {
    let mut core = core(4, Tenants::default(), named("tiresias"));
    arrive(&mut core, 0, vec![job(0, 0, 4), job(1, 0, 1)]);
    assert!(core.state().job(JobId(1)).is_some_and(|view| !view.note.0.is_empty()), "tiresias takes notes");
    core.set_policy(named("fair"));
    assert!(core.state().jobs().all(|view| view.note.0.is_empty()));
    let step = core.step(&Batch { at: Time::from_secs(1), events: Vec::new() });
    assert!(step.decision.is_some(), "the new policy is asked though nothing else happened");
    assert!(has_target(&core, 0) && !has_target(&core, 1), "what runs goes on");
    core.state().assert_consistent();
}

#[test]
fn a_job_grows_away_from_the_node_on_which_it_failed_until_its_time_has_come() {
    let mut jobs = vec![job(0, 0, 1)];
    jobs[0].shape = Parallelism::elastic(WorkerRange { min: 1, max: 4 }, Resources::gpus(1));
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    let until = Time::from_secs(100);
    for name in ["fair", "drf", "slaq"] {
        let mut core = Core::new(Cluster::uniform(2, 2, "v100"), Tenants::default(), named(name), settings);
        arrive(&mut core, 0, jobs.clone());
        let seen = core.snapshot(Time::from_secs(50));
        let shunning = |until| {
            let mut view = JobView::new(Arc::new(jobs[0].clone()), Time::ZERO);
            view.shuns = Some((NodeId(0), until));
            let jobs = [(JobId(0), Arc::new(view))].into_iter().collect();
            Snapshot { jobs, ..seen.clone() }
        };
        let given = |until| {
            let decision = named(name).decide(&shunning(until));
            (decision.targets[0].1.nodes(), decision.targets[0].1.workers(), decision.wake)
        };
        assert_eq!(given(until), (vec![NodeId(1)], 2, Some(until)), "{name}");
        let (nodes, workers, wake) = given(Time::from_secs(50));
        assert_eq!((nodes.len(), workers, wake), (2, 4, None), "{name}");
    }
}

/// Decides with a plan, by hand.
struct ByHand<F>(Plan, F);

impl<F: FnMut(&mut Plan, &Snapshot) -> Option<Decision> + Send> Policy for ByHand<F> {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.0.follow(seen);
        if let Some(instead) = (self.1)(&mut self.0, seen) {
            return instead;
        }
        let running: Vec<JobId> = self.0.running().map(|(id, ..)| id).collect();
        running.into_iter().for_each(|id| self.0.say(id, Verdict::Run(Reason::Chosen)));
        self.0.finish()
    }
    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

#[test]
fn a_plan_of_which_a_part_was_refused_follows_what_was_decided_instead() {
    let mut round = 0;
    let policy = ByHand(Plan::default(), move |plan: &mut Plan, seen: &Snapshot| {
        round += 1;
        if round > 1 {
            return None;
        }
        // By the plan job 1 has the only room, and by what comes of it job 0.
        assert!(plan.place(&seen.job(JobId(1)).expect("it came").job, Rule::Pack));
        let target = plan.target(JobId(1)).expect("it was placed").clone();
        let verdicts = vec![(JobId(0), Verdict::Run(Reason::Chosen))];
        Some(Decision { targets: vec![(JobId(0), target)], verdicts, ..Decision::default() })
    });
    let mut core = core(4, Tenants::default(), Box::new(policy));
    arrive(&mut core, 0, vec![job(0, 0, 4), job(1, 0, 4)]);
    assert!(has_target(&core, 0) && !has_target(&core, 1));
    let both = [Event::Withdrawn { job: JobId(1) }, Event::Arrived { job: Arc::new(job(2, 0, 4)) }];
    let step = core.step(&Batch { at: Time::from_secs(1), events: both.into() });
    assert!(step.decision.is_some() && step.panic.is_none(), "{:?}", step.panic);
    assert!(has_target(&core, 0));
}

/// A job of two workers that comes to another node within a decision, and grows there to three.
fn moved_and_grown(topology: Topology, by_one: bool) -> Allocation {
    let cores = |count: u64| Resources { cpu_milli: 1000 * count, ..Resources::default() };
    let mut cluster = Cluster::default();
    for rack in [0, 1] {
        cluster.push(RackId(rack), None, cores(4), None);
    }
    let of = |id: u32, workers: WorkerRange, topology: Topology| Job {
        shape: Parallelism::elastic(workers, cores(1)),
        wanted: Wanted { topology, ..Wanted::default() },
        ..job(id, 0, 1)
    };
    let mut round = 0;
    let policy = ByHand(Plan::default(), move |plan: &mut Plan, seen: &Snapshot| {
        round += 1;
        let one = |id: u32| seen.job(JobId(id)).expect("it came").job.clone();
        if round == 1 {
            assert!(plan.place(&one(0), Rule::Pack));
            return None;
        }
        // It goes elsewhere, since only one core is left where it was.
        let was = plan.evict(JobId(0)).nodes();
        assert!(plan.place(&one(1), Rule::Pack) && plan.target(JobId(1)).expect("placed").nodes() == was);
        assert!(plan.place(&one(0), Rule::Pack) && plan.target(JobId(0)).expect("placed").nodes() != was);
        if by_one {
            assert!(plan.grow(JobId(0), Rule::Pack));
        } else {
            assert_eq!(plan.resize(JobId(0), 3, Rule::Pack), 3);
        }
        None
    });
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    let mut core = Core::new(cluster, Tenants::default(), Box::new(policy), settings);
    arrive(&mut core, 0, vec![of(0, WorkerRange { min: 2, max: 4 }, topology)]);
    arrive(&mut core, 1, vec![of(1, WorkerRange { min: 3, max: 3 }, Topology::SameNode)]);
    core.state().job(JobId(0)).expect("it is there").target.clone()
}

#[test]
fn a_job_that_was_moved_does_not_grow_back_to_where_it_may_no_longer_be() {
    for by_one in [true, false] {
        for topology in [Topology::SameNode, Topology::SameRack] {
            let target = moved_and_grown(topology, by_one);
            assert_eq!((target.workers(), target.nodes().len()), (3, 1), "{topology:?} {by_one}: {target:?}");
        }
        let free = moved_and_grown(Topology::Anywhere, by_one);
        assert_eq!((free.workers(), free.nodes().len()), (3, 2), "it takes first what it had: {free:?}");
    }
}

#[test]
fn a_job_that_says_only_how_many_iterations_is_left_as_long_as_was_measured() {
    let mut core = core(4, Tenants::default(), named("srtf"));
    let counted =
        Job { declared: Declared { iterations: Some(100.0), ..Declared::default() }, ..job(0, 0, 4) };
    let left = |core: &Core, at: u64| {
        core.state().job(JobId(0)).expect("it is there").declared_remaining(Time::from_secs(at))
    };
    arrive(&mut core, 0, vec![counted]);
    let (id, attempt) = (JobId(0), Attempt(1));
    assert_eq!(left(&core, 0), None, "nothing was measured yet");
    tell(&mut core, 0, Event::Started { job: id, attempt, iterations: 0.0, speed: 0.0 });
    let (iterations, speed, saved) = (20.0, 2.0, 20.0);
    tell(
        &mut core,
        10,
        Event::Progress {
            job: id,
            attempt,
            iterations,
            speed,
            saved,
            losses: Vec::new(),
            copies: Vec::new(),
        },
    );
    assert_eq!(left(&core, 10), Some(Span::from_secs(40)));
    assert_eq!(left(&core, 20), Some(Span::from_secs(30)));
    // Who is known to be shorter goes first now.
    let short =
        Job { declared: Declared { limit: Some(Span::from_secs(5)), ..Declared::default() }, ..job(1, 0, 4) };
    arrive(&mut core, 20, vec![short]);
    assert!(has_target(&core, 1) && !has_target(&core, 0));
    tell(&mut core, 21, Event::Stopped { job: id, attempt, iterations: 40.0 });
    assert_eq!(left(&core, 25), Some(Span::from_secs(30)), "sixty iterations, as fast as before");
}

#[test]
fn a_gang_makes_room_on_its_devices_before_another_comes_to_them_and_has_them_back_after_it_left() {
    let policy = ByHand(Plan::default(), move |plan: &mut Plan, seen: &Snapshot| {
        let one = |id: u32| seen.job(JobId(id)).map(|view| Arc::clone(&view.job));
        let first = one(0).expect("it came first");
        match one(1) {
            None if plan.target(JobId(0)).is_none() => assert!(plan.place(&first, Rule::Pack)),
            None => {
                let held = plan.evict(JobId(0)).placements()[0];
                let whole = GpuSet::whole(held.gpus.devices);
                assert!(plan.give(&first, Allocation::new(vec![Placement { gpus: whole, ..held }])));
            }
            Some(second) => {
                let half = plan.evict(JobId(0)).halved();
                assert!(plan.give(&first, half.clone()) && plan.give(&second, half.clone()));
                assert!(!plan.free().has_room_for(&half, &second.shape), "two have it all");
            }
        }
        None
    });
    let mut core = core(4, Tenants::default(), Box::new(policy));
    let check = |core: &Core| core.state().assert_consistent();
    arrive(&mut core, 0, vec![job(0, 0, 4)]);
    let started = |job| Event::Started { job: JobId(job), attempt: Attempt(1), iterations: 0.0, speed: 1.0 };
    tell(&mut core, 0, started(0));
    let step = arrive(&mut core, 1, vec![job(1, 0, 4)]);
    let [Action::Resize { job: JobId(0), allocation, .. }] = &step.actions[..] else { panic!("{step:?}") };
    assert_eq!(allocation.gpu_milli(), 2000, "the other has to wait until there is room");
    let resized = |allocation: &Allocation| Event::Resized {
        job: JobId(0),
        attempt: Attempt(1),
        allocation: allocation.clone(),
        iterations: 1.0,
        speed: 0.5,
    };
    let step = tell(&mut core, 1, resized(allocation));
    assert!(matches!(step.actions[..], [Action::Start { job: JobId(1), .. }]), "{step:?}");
    check(&core);
    tell(&mut core, 1, started(1));
    assert_eq!(core.state().job(JobId(0)).expect("it runs").served.moves, 0, "it did not move");
    let step = tell(&mut core, 5, Event::Withdrawn { job: JobId(1) });
    assert!(matches!(step.actions[..], [Action::Stop { job: JobId(1), .. }]), "{step:?}");
    check(&core);
    let step = tell(&mut core, 6, Event::Stopped { job: JobId(1), attempt: Attempt(1), iterations: 5.0 });
    let [Action::Resize { job: JobId(0), allocation, .. }] = &step.actions[..] else { panic!("{step:?}") };
    assert_eq!(allocation.gpu_milli(), 4000);
    check(&core);
    tell(&mut core, 6, resized(allocation));
    check(&core);
}

#[test]
fn a_gang_waits_for_the_whole_of_its_devices_until_the_other_has_left_them() {
    let mut swap = false;
    let policy = ByHand(Plan::default(), move |plan: &mut Plan, seen: &Snapshot| {
        let jobs: Vec<_> = seen.jobs().map(|view| Arc::clone(&view.job)).collect();
        if !swap {
            assert!(plan.place(&jobs[0], Rule::Pack));
            let half = plan.evict(JobId(0)).halved();
            assert!(jobs.iter().all(|job| plan.give(job, half.clone())));
        } else {
            plan.evict(JobId(1));
            let held = plan.evict(JobId(0)).placements()[0];
            let whole = GpuSet::whole(held.gpus.devices);
            assert!(plan.give(&jobs[0], Allocation::new(vec![Placement { gpus: whole, ..held }])));
            plan.say(JobId(1), Verdict::Wait(Reason::NotYetEvaluated));
        }
        swap = true;
        None
    });
    let mut core = core(4, Tenants::default(), Box::new(policy));
    arrive(&mut core, 0, vec![job(0, 0, 4), job(1, 0, 4)]);
    for id in 0..2 {
        tell(
            &mut core,
            0,
            Event::Started { job: JobId(id), attempt: Attempt(1), iterations: 0.0, speed: 1.0 },
        );
    }
    let step = arrive(&mut core, 1, vec![job(2, 0, 4)]);
    assert!(matches!(step.actions[..], [Action::Stop { job: JobId(1), .. }]), "{step:?}");
    core.state().assert_consistent();
}
