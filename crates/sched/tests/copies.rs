//! Jobs with several copies in the loop: slots that end, quotas, jobs that exchange nodes, and reports that come twice, late, or out
//! of order.

mod common;

use std::collections::VecDeque;

use common::plain_job;
use trainyard_sched::control::{Action, Batch, Core, Event, How, Settings, Step};
use trainyard_sched::decide::{Abilities, Cadence, Decision, Policy, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, CopyProgress, Goals, GpuSet, GpuTypeId, Job, JobId, NodeId,
    Placement, Quotas, Seed, Tenants, Time, WORKER_TASK,
};
use trainyard_sched::view::{Causes, Snapshot};

const FIRST: JobId = JobId(0);
const SECOND: JobId = JobId(1);

/// Says one thing after the other, whenever a job arrives.
struct Says(VecDeque<Decision>);

impl Policy for Says {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::ARRIVED)
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let mut decision = self.0.pop_front().unwrap_or_default();
        decision.targets.retain(|(id, target)| seen.job(*id).is_some_and(|view| view.target != *target));
        let verdict = |(id, target): &(JobId, Allocation)| {
            let reason = Reason::Chosen;
            (*id, if target.is_some() { Verdict::Run(reason) } else { Verdict::Yield(reason) })
        };
        decision.verdicts = decision.targets.iter().map(verdict).collect();
        decision
    }
    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

/// Copies by their numbers and nodes, one GPU each.
fn copies(of: &[(u16, u32)]) -> Allocation {
    let placement = |(copy, node): &(u16, u32)| Placement {
        copy: CopyId(*copy),
        task: WORKER_TASK,
        node: NodeId(*node),
        count: 1,
        gpus: GpuSet::whole(1),
    };
    Allocation::new(of.iter().map(placement).collect())
}

fn quotas(each: &[(u16, u64)]) -> Quotas {
    Quotas::new(each.iter().map(|(copy, quota)| (CopyId(*copy), *quota)).collect())
}

fn decision(targets: &[(JobId, Allocation)], merges: &[(JobId, Quotas)]) -> Decision {
    Decision { targets: targets.to_vec(), merges: merges.to_vec(), ..Decision::default() }
}

struct Loop {
    core: Core,
    at: u64,
    next: u32,
}

impl Loop {
    fn new(decisions: Vec<Decision>, abilities: Abilities) -> Self {
        let settings = Settings { seed: Seed(0), abilities, strict: true };
        let mut cluster = Cluster::uniform(2, 1, "v100");
        cluster.add(2, 1, "k80");
        let policy = Box::new(Says(decisions.into()));
        Self { core: Core::new(cluster, Tenants::default(), policy, settings), at: 0, next: 0 }
    }

    fn tell(&mut self, events: Vec<Event>) -> Vec<Action> {
        self.at += 10;
        let step: Step = self.core.step(&Batch { at: Time::from_secs(self.at), events });
        self.core.state().assert_consistent();
        step.actions
    }

    /// A job arrives, and the policy says the next thing.
    fn arrive(&mut self) -> Vec<Action> {
        let goals = Goals { copies: 4, ..Goals::default() };
        let job = Job { goals, ..plain_job(self.next, Time::from_secs(self.at), 1) };
        self.next += 1;
        self.tell(vec![Event::Arrived { job: job.into() }])
    }

    fn started(&mut self, job: JobId) -> Vec<Action> {
        let attempt = self.core.state().job(job).expect("it is there").attempt;
        self.tell(vec![Event::Started { job, attempt, iterations: 0.0, speed: 2.0 }])
    }
}

fn progress(job: JobId, iterations: f64, each: &[(u16, f64, f64)]) -> Event {
    let told = |(copy, iterations, speed): &(u16, f64, f64)| CopyProgress {
        copy: CopyId(*copy),
        iterations: *iterations,
        speed: *speed,
        waits: false,
    };
    Event::Progress {
        job,
        attempt: Attempt(1),
        iterations,
        speed: each.iter().map(|(_, _, speed)| speed).sum(),
        saved: 0.0,
        losses: Vec::new(),
        copies: each.iter().map(told).collect(),
    }
}

const fn merged(job: JobId, number: u32) -> Event {
    Event::Merged { job, attempt: Attempt(1), number }
}

#[test]
fn a_slot_ends_with_a_merge_though_nothing_else_changes() {
    let two = copies(&[(0, 0), (1, 2)]);
    let (first, second) = (quotas(&[(0, 30), (1, 10)]), quotas(&[(0, 20), (1, 5)]));
    let decisions = vec![
        decision(&[(FIRST, two.clone())], &[(FIRST, first.clone())]),
        decision(&[], &[(FIRST, second.clone())]),
        decision(&[], &[(FIRST, Quotas::NONE)]),
    ];
    let mut ours = Loop::new(decisions.clone(), Abilities::ALL);
    let start = Action::Start { job: FIRST, attempt: Attempt(1), allocation: two.clone(), quotas: first };
    assert_eq!(ours.arrive(), [start]);
    assert_eq!(ours.started(FIRST), []);
    let merge = |number, quotas| Action::Merge { job: FIRST, attempt: Attempt(1), number, quotas };
    assert_eq!(ours.arrive(), [merge(1, second.clone())]);
    // It is wanted until it is told, and the same order is no other one.
    assert_eq!(ours.tell(vec![progress(FIRST, 40.0, &[(0, 30.0, 2.0), (1, 10.0, 1.0)])]), [merge(1, second)]);
    assert_eq!(ours.tell(vec![merged(FIRST, 1)]), []);
    // What was told before, and comes again, is not the next one.
    assert_eq!(ours.arrive(), [merge(2, Quotas::NONE)]);
    assert_eq!(ours.tell(vec![merged(FIRST, 1)]), [merge(2, Quotas::NONE)]);
    assert_eq!(ours.tell(vec![merged(FIRST, 2), merged(FIRST, 2)]), []);
    // A backend that cannot heed quotas is given none.
    let mut without =
        Loop::new(decisions, Abilities::COPIES | Abilities::RESIZE | Abilities::MIXED_GPU_TYPES);
    let [Action::Start { quotas, .. }] = &without.arrive()[..] else { panic!("it starts") };
    assert!(quotas.is_none());
}

#[test]
fn jobs_that_exchange_nodes_make_room_first_and_copies_that_stay_go_on() {
    let (before, other) = (copies(&[(0, 0), (1, 2)]), copies(&[(0, 1), (1, 3)]));
    let (after, other_after) = (copies(&[(0, 0), (2, 3)]), copies(&[(0, 1), (2, 2)]));
    let given = quotas(&[(0, 7), (2, 3)]);
    let decisions = vec![
        decision(&[(FIRST, before)], &[]),
        decision(&[(SECOND, other)], &[]),
        decision(
            &[(FIRST, after.clone()), (SECOND, other_after.clone())],
            &[(FIRST, given.clone()), (SECOND, Quotas::NONE)],
        ),
    ];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    ours.arrive();
    ours.started(SECOND);
    let of = |job| move |action: &&Action| action.job() == job;
    let actions = ours.arrive();
    let both = |actions: &[Action]| actions.iter().filter(|a| matches!(a, Action::Merge { .. })).count();
    assert_eq!((both(&actions), actions.len()), (2, 2), "{actions:?}");
    // A copy that goes may do nothing more.
    let Some(Action::Merge { quotas: until, .. }) = actions.iter().find(of(FIRST)) else {
        panic!("{actions:?}")
    };
    assert_eq!(*until, quotas(&[(0, 7), (1, 0)]));
    let actions = ours.tell(vec![merged(FIRST, 1), merged(SECOND, 1)]);
    let (first, second) = (copies(&[(0, 0)]), copies(&[(0, 1)]));
    let sizes: Vec<&Allocation> = actions.iter().filter_map(held).collect();
    assert_eq!(sizes, [&first, &second], "both make room, and nobody is stopped");
    let resized = |job, allocation: &Allocation| Event::Resized {
        job,
        attempt: Attempt(1),
        allocation: allocation.clone(),
        iterations: 0.0,
        speed: 1.0,
    };
    let actions = ours.tell(vec![resized(FIRST, &first), resized(SECOND, &second)]);
    let sizes: Vec<&Allocation> = actions.iter().filter_map(held).collect();
    assert_eq!(sizes, [&after, &other_after]);
    let Some(Action::Resize { quotas: until, .. }) = actions.iter().find(of(FIRST)) else {
        panic!("{actions:?}")
    };
    assert_eq!(*until, given);
    assert_eq!(ours.tell(vec![resized(FIRST, &after), resized(SECOND, &other_after)]), []);
}

const fn held(action: &Action) -> Option<&Allocation> {
    match action {
        Action::Resize { allocation, .. } => Some(allocation),
        _ => None,
    }
}

#[test]
fn a_job_all_of_whose_copies_go_elsewhere_is_stopped_once_they_are_brought_together() {
    let decisions = vec![
        decision(&[(FIRST, copies(&[(0, 0), (1, 1)]))], &[]),
        decision(&[(FIRST, copies(&[(0, 2), (1, 3)]))], &[(FIRST, quotas(&[(0, 4), (1, 5)]))]),
    ];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    assert!(matches!(ours.arrive()[..], [Action::Merge { .. }]));
    assert!(matches!(ours.tell(vec![merged(FIRST, 1)])[..], [Action::Stop { how: How::Save, .. }]));
    let actions = ours.tell(vec![Event::Stopped { job: FIRST, attempt: Attempt(1), iterations: 9.0 }]);
    let [Action::Start { attempt: Attempt(2), quotas: until, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(*until, quotas(&[(0, 4), (1, 5)]), "what was decided holds for the next start");
}

#[test]
fn what_copies_report_is_kept_by_copy_and_by_type_whatever_comes_twice_or_late() {
    let decisions = vec![decision(&[(FIRST, copies(&[(0, 0), (1, 2)]))], &[])];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    let (v100, k80) = (GpuTypeId(0), GpuTypeId(1));
    let reports = [
        progress(FIRST, 40.0, &[(0, 30.0, 8.0), (1, 10.0, 2.0)]),
        progress(FIRST, 80.0, &[(0, 60.0, 4.0), (1, 20.0, 2.0)]),
    ];
    let view = |ours: &Loop| ours.core.state().job(FIRST).expect("it is there").clone();
    let rates = |ours: &Loop| {
        let view = view(ours);
        (view.measured.per_s(v100, 1, false), view.measured.per_s(k80, 1, false))
    };
    ours.tell(vec![reports[0].clone()]);
    assert_eq!(rates(&ours), (Some(8.0), Some(2.0)), "a first measurement counts fully");
    assert_eq!(view(&ours).done.copies[..], [(CopyId(0), 30.0), (CopyId(1), 10.0)]);
    ours.tell(vec![reports[0].clone(), reports[0].clone()]);
    assert_eq!(rates(&ours), (Some(8.0), Some(2.0)), "what comes again is no measurement");
    ours.tell(vec![reports[1].clone()]);
    assert_eq!(rates(&ours), (Some(6.0), Some(2.0)), "later ones count for half");
    let before = view(&ours);
    ours.tell(vec![reports[0].clone()]);
    assert_eq!(view(&ours), before, "what comes late takes nothing back");
    // Its own measurement is trusted where nothing was profiled.
    assert_eq!(before.iterations_per_s(v100, 1, false), Some(6.0));
    // A copy that is not there, and numbers that are none, are passed over.
    let odd = progress(FIRST, 90.0, &[(7, 30.0, 8.0), (0, f64::NAN, 8.0), (1, -1.0, 2.0)]);
    ours.tell(vec![odd]);
    assert_eq!(view(&ours).done.copies[..], [(CopyId(0), 60.0), (CopyId(1), 20.0)]);
    ours.tell(vec![Event::Lost { job: FIRST, attempt: Attempt(1), iterations: 50.0, node: None }]);
    assert!(view(&ours).done.copies.is_empty() && !view(&ours).measured.is_empty());
}

#[test]
fn other_quotas_make_another_merge_of_one_that_is_open() {
    let two = copies(&[(0, 0), (1, 2)]);
    let (first, second) = (quotas(&[(0, 30), (1, 10)]), quotas(&[(0, 20), (1, 5)]));
    let decisions = vec![
        decision(&[(FIRST, two)], &[(FIRST, first.clone())]),
        decision(&[], &[(FIRST, first.clone())]),
        decision(&[], &[(FIRST, second.clone())]),
        decision(&[], &[(FIRST, second.clone())]),
    ];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    let merge = |number, quotas: &Quotas| {
        [Action::Merge { job: FIRST, attempt: Attempt(1), number, quotas: quotas.clone() }]
    };
    assert_eq!(ours.arrive(), merge(1, &first));
    // Whoever was told of the first may have made it by now, with other quotas.
    assert_eq!(ours.arrive(), merge(2, &second));
    assert_eq!(ours.arrive(), merge(2, &second), "the same once more is no other one");
    assert_eq!(ours.tell(vec![merged(FIRST, 1)]), merge(2, &second));
    assert_eq!(ours.tell(vec![merged(FIRST, 2)]), []);
    assert_eq!(ours.core.state().quotas_of(FIRST), second);
}

#[test]
fn a_true_report_counts_though_more_was_reckoned_when_a_merge_was_ordered() {
    let two = copies(&[(0, 0), (1, 2)]);
    let decisions = vec![decision(&[(FIRST, two)], &[]), decision(&[], &[(FIRST, Quotas::NONE)])];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    ours.tell(vec![progress(FIRST, 40.0, &[(0, 30.0, 8.0), (1, 10.0, 2.0)])]);
    // Ten seconds later it would be at 140 by its speed; it had done its quota by 60.
    let merge = ours.arrive();
    assert!(matches!(merge[..], [Action::Merge { .. }]), "{merge:?}");
    ours.tell(vec![progress(FIRST, 60.0, &[(0, 45.0, 8.0), (1, 15.0, 2.0)]), merged(FIRST, 1)]);
    let done = &ours.core.state().job(FIRST).expect("it is there").done;
    assert_eq!((done.iterations, &done.copies[..]), (60.0, &[(CopyId(0), 45.0), (CopyId(1), 15.0)][..]));
}

/// Two copies have done 40 iterations; then the second shall leave, and then come again elsewhere. What there is after each.
fn one_leaves_and_comes_again() -> (Loop, Allocation, Allocation) {
    let (two, one, other) = (copies(&[(0, 0), (1, 2)]), copies(&[(0, 0)]), copies(&[(0, 0), (1, 1)]));
    let decisions = vec![
        decision(&[(FIRST, two)], &[]),
        decision(&[(FIRST, one.clone())], &[]),
        decision(&[(FIRST, other.clone())], &[]),
    ];
    let mut ours = Loop::new(decisions, Abilities::ALL);
    ours.arrive();
    ours.started(FIRST);
    ours.tell(vec![progress(FIRST, 40.0, &[(0, 30.0, 8.0), (1, 10.0, 2.0)])]);
    (ours, one, other)
}

fn resized(allocation: &Allocation) -> Event {
    Event::Resized {
        job: FIRST,
        attempt: Attempt(1),
        allocation: allocation.clone(),
        iterations: 40.0,
        speed: 1.0,
    }
}

#[test]
fn a_number_that_is_given_again_is_another_copy() {
    let (mut ours, one, other) = one_leaves_and_comes_again();
    ours.arrive();
    ours.tell(vec![merged(FIRST, 1)]);
    ours.tell(vec![resized(&one)]);
    ours.arrive();
    ours.tell(vec![resized(&other)]);
    ours.tell(vec![progress(FIRST, 45.0, &[(0, 3.0, 8.0), (1, 2.0, 6.0)])]);
    let view = ours.core.state().job(FIRST).expect("it is there");
    assert_eq!(view.done.copies[..], [(CopyId(0), 3.0), (CopyId(1), 2.0)]);
    // The second copy is on the faster type now, and its first report is a measurement.
    assert_eq!(view.measured.per_s(GpuTypeId(0), 1, false), Some(7.0), "{:?}", view.measured);
}

#[test]
fn a_report_that_comes_after_a_copy_went_elsewhere_says_nothing_of_where_it_is_now() {
    let (mut ours, one, other) = one_leaves_and_comes_again();
    let late = progress(FIRST, 48.0, &[(0, 36.0, 8.0), (1, 12.0, 2.0)]);
    let resized = |allocation: &Allocation| Event::Resized {
        job: FIRST,
        attempt: Attempt(1),
        allocation: allocation.clone(),
        iterations: 48.0,
        speed: 1.0,
    };
    ours.arrive();
    ours.tell(vec![merged(FIRST, 1)]);
    ours.tell(vec![resized(&one)]);
    ours.arrive();
    ours.tell(vec![resized(&other)]);
    let rates = |ours: &Loop| {
        let view = ours.core.state().job(FIRST).expect("it is there");
        [0, 1].map(|gpu_type| view.measured.per_s(GpuTypeId(gpu_type), 1, false))
    };
    assert_eq!(rates(&ours), [Some(8.0), Some(2.0)]);
    // The second copy went two iterations a second on a K80; it is on a V100 now.
    ours.tell(vec![late]);
    assert_eq!(rates(&ours), [Some(8.0), Some(2.0)]);
    ours.tell(vec![progress(FIRST, 60.0, &[(0, 40.0, 8.0), (1, 20.0, 4.0)])]);
    assert_eq!(rates(&ours), [Some(6.0), Some(2.0)], "what was done there is a measurement");
}

#[test]
fn whoever_decides_next_finds_copies_that_go_on_without_quotas() {
    let two = copies(&[(0, 0), (1, 2)]);
    let first = quotas(&[(0, 30), (1, 10)]);
    let begin = |abilities| {
        let decisions = vec![decision(&[(FIRST, two.clone())], &[(FIRST, first.clone())])];
        let mut ours = Loop::new(decisions, abilities);
        ours.arrive();
        ours
    };
    let merge = Action::Merge { job: FIRST, attempt: Attempt(1), number: 1, quotas: Quotas::NONE };
    let mut ours = begin(Abilities::ALL);
    ours.started(FIRST);
    assert_eq!(ours.tell(vec![progress(FIRST, 40.0, &[(0, 30.0, 2.0), (1, 10.0, 1.0)])]), []);
    ours.core.set_policy(Box::new(Says(VecDeque::new())));
    assert_eq!(ours.tell(Vec::new()), std::slice::from_ref(&merge));
    assert_eq!(ours.tell(vec![merged(FIRST, 1)]), []);
    assert!(ours.core.state().quotas_of(FIRST).is_none());
    // One that has not begun yet is brought together as soon as it has.
    let mut ours = begin(Abilities::ALL);
    ours.core.set_policy(Box::new(Says(VecDeque::new())));
    assert_eq!(ours.tell(Vec::new()), []);
    assert_eq!(ours.started(FIRST), [merge]);
}
