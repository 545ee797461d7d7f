//! What SLAQ promises: shares by gain whatever the scale of a loss, no job that spoils the shares of others, floors, turns
//! where there are more jobs than cores, and no change that costs more than it brings.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use trainyard_sched::control::{Action, Batch, Core, Event, How, Settings, Step};
use trainyard_sched::decide::{Abilities, Reason, Verdict};
use trainyard_sched::model::{
    Attempt, Cluster, Convergence, Curve, Declared, DeclaredLoss, Goals, Job, JobId, LossPoint, MoveCost,
    Parallelism, RackId, Resources, Seed, Span, SpeedFunction, TenantId, Tenants, Time, UNLIMITED, Wanted,
    WorkerRange,
};
use trainyard_sched::policies;

/// A loop whose orders are obeyed at once.
struct World {
    core: Core,
    at: Time,
    attempts: BTreeMap<JobId, Attempt>,
    reports: Vec<(JobId, f64, Vec<LossPoint>)>,
}

impl World {
    fn new(nodes: u32, cores: u64, policy: &str, parameters: &str) -> Self {
        let mut cluster = Cluster::default();
        let holds =
            Resources { memory_bytes: UNLIMITED, network_bytes_per_s: UNLIMITED, ..Resources::cpus(cores) };
        (0..nodes).for_each(|_| _ = cluster.push(RackId(0), None, holds, None));
        let mut tenants = Tenants::default();
        tenants.intern("team");
        let policy = policies::build(policy, &parameters.parse().expect("a table")).expect("it is fine");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        let core = Core::new(cluster, tenants, policy, settings);
        Self { core, at: Time::ZERO, attempts: BTreeMap::new(), reports: Vec::new() }
    }

    /// Jobs arrive, and an epoch begins.
    fn arrive(&mut self, jobs: &[Job]) -> Step {
        let events = jobs.iter().map(|job| Event::Arrived { job: Arc::new(job.clone()) }).collect();
        self.step(events)
    }

    fn report(&mut self, job: u32, losses: &[(f64, f64)]) {
        let point =
            |(iteration, loss): &(f64, f64)| LossPoint { iteration: *iteration, loss: *loss, accuracy: None };
        let iterations = losses.last().map_or(0.0, |point| point.0);
        self.reports.push((JobId(job), iterations, losses.iter().map(point).collect()));
    }

    /// The next epoch, with what was reported until then.
    fn epoch(&mut self) -> Step {
        self.at = self.at + Span::from_secs(3);
        let reports = std::mem::take(&mut self.reports).into_iter().map(|(job, iterations, losses)| {
            let (attempt, speed, saved) = (self.attempts[&job], 1.0, 0.0);
            Event::Progress { job, attempt, iterations, speed, saved, losses, copies: Vec::new() }
        });
        let events = reports.collect();
        self.step(events)
    }

    fn step(&mut self, events: Vec<Event>) -> Step {
        let step = self.core.step(&Batch { at: self.at, events });
        let mut actions = step.actions.clone();
        while !actions.is_empty() {
            let events: Vec<Event> = actions.iter().filter_map(|action| self.obey(action)).collect();
            actions = self.core.step(&Batch { at: self.at, events }).actions;
        }
        step
    }

    fn obey(&mut self, action: &Action) -> Option<Event> {
        let iterations = |job: &JobId| self.core.state().job(*job).map_or(0.0, |view| view.done.iterations);
        match action {
            Action::Start { job, attempt, .. } => {
                self.attempts.insert(*job, *attempt);
                Some(Event::Started { job: *job, attempt: *attempt, iterations: iterations(job), speed: 0.0 })
            }
            Action::Resize { job, attempt, allocation, .. } => Some(Event::Resized {
                job: *job,
                attempt: *attempt,
                allocation: allocation.clone(),
                iterations: iterations(job),
                speed: 0.0,
            }),
            Action::Stop { job, attempt, how: How::Save | How::Finish } => {
                Some(Event::Stopped { job: *job, attempt: *attempt, iterations: iterations(job) })
            }
            Action::Merge { .. } => None,
        }
    }

    fn shares(&self) -> Vec<u32> {
        self.core.state().jobs().map(|view| view.held.workers()).collect()
    }
}

fn geometric(k95: f64) -> Curve {
    Curve::Geometric { amplitude: 1.0, mu: 0.05_f64.powf(1.0 / k95), c: 0.0 }
}

/// An elastic job with a known speed and maybe a known curve.
fn job(id: u32, work_s: f64, curve: Option<Curve>) -> Job {
    Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::elastic(WorkerRange { min: 1, max: 640 }, Resources::cpus(1)),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared {
            speed: Some(SpeedFunction::WithFixedPart { work_s, fixed_s: 0.05 }),
            loss: DeclaredLoss { curve, convergence: Some(Convergence::Linear), ..DeclaredLoss::default() },
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    }
}

fn drawn(count: u32, scale: impl Fn(u32) -> (f64, f64)) -> Vec<Job> {
    (0..count)
        .map(|i| {
            let (factor, offset) = scale(i);
            let curve = geometric(20.0 + f64::from(i * 37 % 60)).rescaled(factor, offset);
            job(i, 4.0 + f64::from(i * 53 % 40), Some(curve))
        })
        .collect()
}

fn shares_of(jobs: &[Job], parameters: &str) -> Vec<u32> {
    let mut world = World::new(2, 32, "slaq", parameters);
    world.arrive(jobs);
    world.shares()
}

proptest! {
    /// S-10 of the specification.
    #[test]
    fn no_share_depends_on_the_scale_of_a_loss(
        scales in prop::collection::vec((-3.0..5.0, -9.0..9.0), 12),
        by_change in any::<bool>(),
    ) {
        let parameters = if by_change { "normaliser = \"largest_change\"" } else { "" };
        let scale = |i: u32| {
            let (power, offset): (f64, f64) = scales[i as usize];
            (10_f64.powf(power), offset * 10_f64.powf(power))
        };
        let plain = shares_of(&drawn(12, |_| (1.0, 0.0)), parameters);
        prop_assert!(plain.iter().max() > plain.iter().min(), "shares are no fair shares: {plain:?}");
        prop_assert_eq!(shares_of(&drawn(12, scale), parameters), plain);
    }
}

#[test]
fn reported_losses_count_the_same_on_every_scale() {
    let shares = |factor: f64, offset: f64| {
        let mut world = World::new(2, 32, "slaq", "");
        world.arrive(&[job(0, 9.0, None), job(1, 9.0, None), job(2, 9.0, None)]);
        for id in 0..3 {
            let curve = geometric(30.0 + 20.0 * f64::from(id));
            let loss = |k: u32| (f64::from(k), curve.loss(f64::from(k)) * factor + offset);
            world.report(id, &(0..12 + 3 * id).map(loss).collect::<Vec<_>>());
        }
        world.epoch();
        world.shares()
    };
    let plain = shares(1.0, 0.0);
    assert!(plain[0] != plain[2] && plain.iter().sum::<u32>() == 64, "{plain:?}");
    for (factor, offset) in [(1e-8, 0.0), (1e6, 0.0), (1e3, 5e3)] {
        assert_eq!(shares(factor, offset), plain, "times {factor}, plus {offset}");
    }
}

#[test]
fn a_bad_job_gets_its_least_and_leaves_the_shares_of_others_alone() {
    let with = |losses: &dyn Fn(f64) -> f64| {
        let mut jobs = drawn(8, |_| (1.0, 0.0));
        jobs[3] = job(3, 5.0, None);
        let mut world = World::new(2, 32, "slaq", "");
        world.arrive(&jobs);
        world.report(3, &(0..20).map(|k| (f64::from(k), losses(f64::from(k)))).collect::<Vec<_>>());
        world.epoch();
        world.shares()
    };
    let constant = with(&|_| 7.0);
    assert_eq!((constant[3], constant.iter().sum()), (1, 64), "{constant:?}");
    for (what, course) in [
        ("no numbers", (&|_| f64::NAN) as &dyn Fn(f64) -> f64),
        ("infinite", &|k| if k < 9.0 { f64::INFINITY } else { f64::NEG_INFINITY }),
        ("rising", &|k| 1.0 + k * k),
        ("exploding", &|k| 10_f64.powf(15.0 * k)),
    ] {
        assert_eq!(with(&course), constant, "{what}");
    }
    let swinging = with(&|k| if k % 2.0 == 0.0 { 1.0 } else { 2.0 });
    assert!(
        swinging.iter().all(|workers| *workers >= 1) && swinging.iter().sum::<u32>() == 64,
        "{swinging:?}"
    );
}

#[test]
fn a_floor_is_kept_and_without_one_the_least_is_a_worker() {
    let jobs: Vec<Job> = (0..8)
        .map(|i| job(i, if i == 0 { 500.0 } else { 0.001 }, Some(geometric(if i == 0 { 40.0 } else { 1.0 }))))
        .collect();
    // The small jobs reach their end with one worker, and gain nothing by another.
    let plain = shares_of(&jobs, "");
    assert!(plain[0] > 50 && plain[1..].iter().all(|workers| *workers >= 1), "{plain:?}");
    for (floor, least) in [(0.5, 4), (0.75, 6), (1.0, 8)] {
        let shares = shares_of(&jobs, &format!("floor = {floor:?}"));
        assert!(shares.iter().all(|workers| *workers >= least), "{floor}: {shares:?}");
        assert_eq!(shares.iter().sum::<u32>(), 64);
    }
}

#[test]
fn with_more_jobs_than_cores_everybody_has_a_turn() {
    let mut world = World::new(1, 2, "slaq", "");
    let jobs: Vec<Job> = (0..3).map(|i| job(i, 9.0, Some(geometric(40.0)))).collect();
    world.arrive(&jobs);
    assert_eq!(world.shares(), [1, 1, 0], "in the order of arrival");
    let step = world.epoch();
    assert_eq!(world.shares(), [1, 0, 1], "who never ran goes first, who came last gives way");
    let verdicts = &step.decision.as_ref().expect("an epoch decides").verdicts;
    let over = Verdict::Yield(Reason::TurnOver { by: JobId(2) });
    assert!(verdicts.contains(&(JobId(1), over)), "{verdicts:?}");
    let mut turns = vec![0; 3];
    for _ in 0..9 {
        world.epoch();
        assert_eq!(world.shares().iter().sum::<u32>(), 2);
        turns.iter_mut().zip(world.shares()).for_each(|(turns, workers)| *turns += workers);
    }
    assert!(turns.iter().all(|turns| *turns >= 3), "{turns:?}");
}

#[test]
fn a_job_that_would_lose_all_it_did_is_not_made_to_wait() {
    let after_ten_epochs = |checkpoint_every| {
        let mut jobs: Vec<Job> = (0..3).map(|i| job(i, 9.0, Some(geometric(40.0)))).collect();
        let cost = MoveCost { loses_when_stopped: true, checkpoint_every, ..MoveCost::default() };
        jobs.iter_mut().for_each(|job| job.move_cost = cost);
        let mut world = World::new(1, 2, "slaq", "");
        world.arrive(&jobs);
        let shares = (0..10).map(|_| {
            world.epoch();
            world.shares()
        });
        shares.collect::<Vec<_>>()
    };
    assert!(
        after_ten_epochs(None).iter().all(|shares| *shares == [1, 1, 0]),
        "turns would keep all at the start"
    );
    // Epochs are 3 s: after two of them a checkpoint is there.
    let shares = after_ten_epochs(Some(Span::from_secs(6)));
    assert_eq!(shares[0], [1, 1, 0]);
    assert!((0..3).all(|id| shares.iter().any(|shares| shares[id] == 0)), "{shares:?}");
}

#[test]
fn a_change_that_costs_is_made_if_it_pays_and_not_twice_in_a_row() {
    let with_cost = |load_s: u64| {
        let mut jobs = drawn(4, |_| (1.0, 0.0));
        jobs.iter_mut().for_each(|job| job.move_cost.load = Span::from_secs(load_s));
        let mut world = World::new(2, 32, "slaq", "");
        world.arrive(&jobs);
        let first = world.shares();
        let mut changes = 0;
        let mut before = first;
        // Iterations go on, so gains shift a little with each epoch.
        for epoch in 1..20_u32 {
            (0..4).for_each(|id| world.report(id, &[(f64::from(epoch * (1 + id)), 0.5)]));
            world.epoch();
            changes += world.shares().iter().zip(&before).filter(|(now, before)| now != before).count();
            before = world.shares();
        }
        changes
    };
    let (free, cheap, dear) = (with_cost(0), with_cost(1), with_cost(30));
    assert!(free > 20, "what costs nothing is done at once: {free}");
    assert!(cheap < free / 2, "after a change a job is left alone for ten seconds: {cheap} of {free}");
    assert_eq!(dear, 0, "within a minute no change has paid for thirty seconds");
}

#[test]
fn room_that_nobody_else_wants_is_taken_though_a_change_costs() {
    let mut large = job(0, 9.0, None);
    large.shape = Parallelism::rigid(63, Resources::cpus(1));
    let mut alone = job(1, 9.0, Some(geometric(4000.0)));
    alone.move_cost.load = Span::from_secs(20);
    let mut world = World::new(2, 32, "slaq", "");
    world.arrive(&[large, alone]);
    assert_eq!(world.shares(), [63, 1]);
    let outcome = trainyard_sched::control::Outcome::Completed;
    let attempt = world.attempts[&JobId(0)];
    world.step(vec![Event::Finished { job: JobId(0), attempt, outcome }]);
    // Within 200 s of its start a change has not paid for itself.
    (0..70).for_each(|_| drop(world.epoch()));
    assert_eq!(world.shares(), [64]);
}

#[test]
fn newcomers_find_room_where_changes_cost() {
    let mut world = World::new(1, 8, "slaq", "");
    let costly = |id| Job {
        move_cost: MoveCost { load: Span::from_secs(30), ..MoveCost::default() },
        ..job(id, 9.0, Some(geometric(40.0)))
    };
    world.arrive(&[costly(0), costly(1)]);
    assert_eq!(world.shares().iter().sum::<u32>(), 8);
    world.at = Time::from_secs(3);
    world.arrive(&[costly(2)]);
    assert!(world.shares()[2] >= 1 && world.shares().iter().sum::<u32>() == 8, "{:?}", world.shares());
}

#[test]
fn a_job_that_reports_nothing_is_new_then_gets_a_fair_share_and_size_limits_hold() {
    let mut silent = job(0, 1.0, None);
    silent.declared.loss = DeclaredLoss::default();
    let mut small = job(1, 50.0, Some(geometric(40.0)));
    small.shape = Parallelism::elastic(WorkerRange { min: 2, max: 5 }, Resources::cpus(1));
    let mut rigid = job(2, 50.0, None);
    rigid.shape = Parallelism::rigid(7, Resources::cpus(1));
    let mut fixed = job(3, 50.0, Some(geometric(40.0)));
    fixed.goals.movable = false;
    let mut world = World::new(2, 32, "slaq", "");
    world.arrive(&[silent, small, rigid, fixed]);
    let first = world.shares();
    assert!((2..=5).contains(&first[1]) && first[2] == 7, "{first:?}");
    // Three claims share 57 cores, so twice the fair share is 38.
    assert!(first[0] <= 38, "a new job is capped: {first:?}");
    world.report(3, &[(200.0, 0.1)]);
    world.report(0, &[]);
    let progress = (JobId(0), 50.0, Vec::new());
    world.reports.push(progress);
    world.epoch();
    let second = world.shares();
    assert_eq!(second[3], first[3], "a job that must not be moved keeps its size");
    assert!(second[0] >= 10, "nobody can say, so it gets its part: {second:?}");
}

#[test]
fn a_single_report_does_not_keep_a_job_new_for_ever() {
    let share_after = |losses: &[(f64, f64)]| {
        let mut jobs = drawn(4, |_| (1.0, 0.0));
        jobs[0].declared.loss = DeclaredLoss::default();
        let mut world = World::new(2, 32, "slaq", "");
        world.arrive(&jobs);
        world.report(0, losses);
        world.reports.push((JobId(0), 500.0, Vec::new()));
        (1..4).for_each(|id| world.report(id, &[(300.0, 0.01)]));
        world.epoch();
        world.shares()[0]
    };
    assert_eq!(share_after(&[(0.0, 5.0)]), share_after(&[]), "nobody can say, so it gets a fair share");
}

#[test]
fn a_target_ends_the_range_and_nothing_counts_beyond_it() {
    let with_target = |target: Option<f64>| {
        let mut hinted = job(0, 9.0, None);
        hinted.declared.loss =
            DeclaredLoss { convergence: Some(Convergence::NonConvex), target, ..DeclaredLoss::default() };
        let mut world = World::new(1, 32, "slaq", "");
        world.arrive(&[hinted, job(1, 9.0, Some(geometric(40.0)))]);
        let curve = geometric(40.0);
        world.report(0, &(0..15).map(|k| (f64::from(k), curve.loss(f64::from(k)))).collect::<Vec<_>>());
        world.report(1, &[(14.0, curve.loss(14.0))]);
        world.epoch();
        world.shares()[0]
    };
    assert_eq!(with_target(Some(0.9)), 1, "it is where it was to go");
    assert!(with_target(None) > 1 && with_target(Some(0.0)) > 1);
}

/// The baseline of the paper (specification, A2.7): equal shares, the remainder in the order of arrival, and what a job
/// cannot use goes to the others.
#[test]
fn fair_shares_are_equal_to_a_core() {
    let shares = |jobs: &[Job]| {
        let mut world = World::new(2, 32, "fair", "");
        world.arrive(jobs);
        world.shares()
    };
    assert_eq!(shares(&drawn(7, |_| (1.0, 0.0))), [10, 9, 9, 9, 9, 9, 9]);
    let mut jobs = drawn(6, |_| (1.0, 0.0));
    jobs[2].shape = Parallelism::elastic(WorkerRange { min: 1, max: 4 }, Resources::cpus(1));
    assert_eq!(shares(&jobs), [12, 12, 4, 12, 12, 12]);
    jobs.truncate(2);
    assert_eq!(shares(&jobs), [32, 32]);
}
