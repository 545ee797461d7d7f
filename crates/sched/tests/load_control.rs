//! Load control in the small: what counts as overload, what is made of it, and what a job that was cut short may still do.

use std::sync::Arc;

use trainyard_sched::control::{Action, Batch, Core, Event, How, Outcome, Settings, Step};
use trainyard_sched::decide::{Abilities, Change, Decision, Enough, Verdict};
use trainyard_sched::estimate::LossHistory;
use trainyard_sched::model::{
    Accuracy, Attempt, Cluster, Declared, DeclaredLoss, GPU, Goals, Job, JobId, LossPoint, MoveCost,
    Parallelism, RackId, Relaxing, Resources, Seed, Span, StopRule, TenantId, Tenants, Time, Wanted,
};
use trainyard_sched::policies::build;

const NEEDED: Accuracy = Accuracy(0.5);

fn job(id: u32, gpus: u32, goals: Goals) -> Job {
    Job {
        id: JobId(id),
        name: "job".into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(gpus),
        wanted: Wanted::default(),
        goals,
        declared: Declared {
            iterations: Some(100.0),
            iteration: Some(Span::from_secs(1)),
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    }
}

/// Leave to be held to the accuracy that is needed.
fn leave() -> Goals {
    Goals { accuracy: Some(NEEDED), may_relax: Relaxing::ALL, ..Goals::default() }
}

fn core(gpus: u64, more: &str) -> Core {
    core_on(Cluster::uniform(1, gpus, "v100"), more)
}

fn core_on(cluster: Cluster, more: &str) -> Core {
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let policy = build("mlf-c", &more.parse().expect("TOML")).expect("it exists");
    Core::new(cluster, tenants, policy, settings)
}

fn step(core: &mut Core, at: u64, events: Vec<Event>) -> Step {
    let step = core.step(&Batch { at: Time::from_secs(at), events });
    core.state().assert_consistent();
    step
}

fn arrives(job: Job) -> Event {
    Event::Arrived { job: Arc::new(job) }
}

/// A report of an accuracy after so many iterations; no loss comes with it.
fn reports(id: u32, iteration: f64, accuracy: f64) -> Event {
    let losses = vec![LossPoint { iteration, loss: f64::NAN, accuracy: Some(accuracy) }];
    let (job, attempt) = (JobId(id), Attempt(1));
    Event::Progress {
        job,
        attempt,
        iterations: iteration,
        speed: 1.0,
        saved: iteration,
        losses,
        copies: Vec::new(),
    }
}

fn starts(id: u32) -> Event {
    Event::Started { job: JobId(id), attempt: Attempt(1), iterations: 0.0, speed: 1.0 }
}

fn changes(step: &Step) -> &[Change] {
    step.decision.as_ref().map_or(&[], |decision: &Decision| &decision.changes)
}

/// A job that runs and has reported what its owner needs.
fn good_enough(gpus: u64, goals: Goals, more: &str) -> Core {
    good_enough_on(core(gpus, more), job(0, 1, goals))
}

fn good_enough_on(mut core: Core, job: Job) -> Core {
    step(&mut core, 0, vec![arrives(job)]);
    step(&mut core, 1, vec![starts(0)]);
    step(&mut core, 41, vec![reports(0, 40.0, 0.6)]);
    core
}

#[test]
fn somebody_who_waits_is_overload_and_somebody_who_has_only_come_is_not() {
    // The degree alone says nothing here: one of four GPUs is in use.
    let mut core = good_enough(4, leave(), "");
    let came = step(&mut core, 50, vec![arrives(job(1, 4, Goals::default()))]);
    assert_eq!(changes(&came), [], "it has only come");
    let more = step(&mut core, 55, vec![arrives(job(2, 9, Goals::default()))]);
    let [Change::Relax { to, .. }, Change::Stop { why, saved_gpu_s, .. }] = changes(&more) else {
        panic!("{more:?}")
    };
    assert_eq!(*to, StopRule::AtAccuracy(NEEDED));
    assert_eq!(*why, Enough::Reached { accuracy: 0.6, needed: 0.5 });
    assert!((saved_gpu_s - 46.0).abs() < 1e-6, "a hundred iterations, of which 54 are done: {saved_gpu_s}");
    // What it held is given away by the same decision.
    let decision = more.decision.as_ref().expect("there is one");
    let runs = |id: u32| decision.verdicts.iter().any(|(job, verdict)| job.0 == id && verdict.runs());
    assert!(runs(1) && matches!(decision.verdicts[0].1, Verdict::Yield(_)), "{decision:?}");
    let stops = |action: &Action| matches!(action, Action::Stop { job: JobId(0), how: How::Finish, .. });
    assert!(more.actions.iter().any(stops), "{:?}", more.actions);
    let stopped = Event::Stopped { job: JobId(0), attempt: Attempt(1), iterations: 54.0 };
    let gone = step(&mut core, 56, vec![stopped]);
    assert_eq!(gone.ended, [(JobId(0), Outcome::StopRuleMet)]);
    assert_eq!(gone.early[0].1.to_string(), "stopped at 0.600 of 0.500 needed; 0.013 GPU-hours saved");
    assert!(gone.actions.iter().any(|action| matches!(action, Action::Start { job: JobId(1), .. })));
}

#[test]
fn who_fits_nowhere_is_no_load_and_busy_servers_are() {
    let mut alone = good_enough(4, leave(), "");
    step(&mut alone, 50, vec![arrives(job(1, 9, Goals::default()))]);
    let later = step(&mut alone, 60, vec![arrives(job(2, 1, Goals::default()))]);
    assert_eq!(changes(&later), [], "a job that fits nowhere waits on an idle cluster, too");
    let mut busy = good_enough(1, leave(), "");
    assert!(
        changes(&step(&mut busy, 50, vec![arrives(job(1, 9, Goals::default()))])).len() == 2,
        "all is in use"
    );
    let mut calm = good_enough(1, leave(), "overload_above = 1.0");
    assert_eq!(changes(&step(&mut calm, 50, vec![arrives(job(1, 9, Goals::default()))])), []);
    let mut forbidden = good_enough(1, Goals { may_relax: Relaxing::NONE, ..leave() }, "");
    assert_eq!(changes(&step(&mut forbidden, 50, vec![arrives(job(1, 1, Goals::default()))])), []);
}

#[test]
fn the_degree_is_that_of_all_resources_and_divided_by_their_root_where_that_is_wished() {
    // Half of four resources: a degree of 1, and of a half when it is divided by the root of four.
    let half = Resources {
        gpu_milli: GPU,
        cpu_milli: 4000,
        memory_bytes: 32 << 30,
        network_bytes_per_s: 500_000_000,
    };
    let is_too_much = |more: &str| {
        let mut cluster = Cluster::default();
        let kind = cluster.intern_gpu_type("v100");
        cluster.push(RackId(0), Some(kind), half + half, None);
        let shape = Parallelism::rigid(1, half);
        let mut core = good_enough_on(core_on(cluster, more), Job { shape, ..job(0, 1, leave()) });
        changes(&step(&mut core, 50, vec![arrives(job(1, 9, Goals::default()))])).len() == 2
    };
    let bounds = ["", "overload_above = 0.999", "overload_above = 1.0"];
    assert_eq!(bounds.map(is_too_much), [true, true, false]);
    let bounds =
        [0.9, 0.501, 0.5, 0.499].map(|above| format!("normalise_degree = true\noverload_above = {above}"));
    assert_eq!(bounds.map(|more| is_too_much(&more)), [false, false, false, true]);
}

#[test]
fn a_cheaper_rule_stands_beside_the_owners_and_goes_when_the_load_does() {
    let needed = Some(Accuracy(0.99));
    let may_relax = Relaxing { own_to_accuracy: true, ..Relaxing::NONE };
    let own = Goals { stop: StopRule::Iterations(60), accuracy: needed, may_relax, ..leave() };
    // It gains less than the margin in three iterations, so its accuracy is foretold.
    let mut core = core(2, "overload_above = 10.0\nmargin = 0.02");
    step(&mut core, 0, vec![arrives(job(0, 1, own))]);
    step(&mut core, 1, vec![starts(0)]);
    let told = |k: u32| {
        let accuracy = Some(0.999 * (1.0 - (-f64::from(k) / 9.0).exp()));
        LossPoint { iteration: f64::from(k), loss: 1.0, accuracy }
    };
    let mut report = reports(0, 30.0, 0.0);
    if let Event::Progress { losses, .. } = &mut report {
        *losses = (1..=30).map(told).collect();
    }
    step(&mut core, 31, vec![report]);
    step(&mut core, 32, vec![arrives(job(1, 2, Goals::default()))]);
    let overloaded = step(&mut core, 40, vec![arrives(job(2, 9, Goals::default()))]);
    let [Change::Relax { to, .. }] = changes(&overloaded) else { panic!("{overloaded:?}") };
    assert_eq!(*to, StopRule::AtAccuracy(Accuracy(0.99)), "that is expected before its own end");
    assert_eq!(overloaded.wake, Some(Time::from_secs(100)), "it may have enough soon");
    let stop_rule = |core: &Core| core.state().job(JobId(0)).expect("it runs").stop_rule();
    assert_eq!(stop_rule(&core), *to);
    let calm = step(&mut core, 45, vec![Event::Withdrawn { job: JobId(1) }]);
    assert_eq!(changes(&calm), [Change::Restore { job: JobId(0) }]);
    assert_eq!((stop_rule(&core), calm.wake), (StopRule::Iterations(60), None));
    step(&mut core, 46, vec![arrives(job(3, 2, Goals::default()))]);
    step(&mut core, 47, vec![arrives(job(4, 9, Goals::default()))]);
    assert_eq!(stop_rule(&core), *to);
    // Its program would go on beyond the sixty that its owner set.
    step(&mut core, 62, vec![reports(0, 61.0, 0.1)]);
    assert!(core.state().is_ending(JobId(0)), "its owner's number of iterations still holds");
}

#[test]
fn who_may_not_be_moved_may_still_have_enough() {
    let goals = Goals { movable: false, stop: StopRule::AtPeak, ..leave() };
    let mut core = good_enough(1, goals, "");
    let stopped = step(&mut core, 50, vec![arrives(job(1, 1, Goals::default()))]);
    assert!(matches!(changes(&stopped), [Change::Relax { .. }, Change::Stop { .. }]), "{stopped:?}");
    assert!(core.state().is_ending(JobId(0)));
}

#[test]
fn accuracies_are_kept_whether_losses_come_with_them_or_not() {
    let mut history = LossHistory::default();
    let point = |k: u32, loss: f64, accuracy| LossPoint { iteration: f64::from(k), loss, accuracy };
    let (declared, points) =
        (DeclaredLoss::default(), [point(1, f64::NAN, Some(0.3)), point(2, 0.5, Some(0.7))]);
    history.report(&points, &declared, None);
    history.report(
        &[point(3, 0.4, None), point(4, 0.3, Some(f64::NAN)), point(5, f64::NAN, Some(0.6))],
        &declared,
        None,
    );
    assert_eq!(history.accuracies(), [(1.0, 0.3), (2.0, 0.7), (5.0, 0.6)]);
    assert_eq!((history.measured(), history.best_accuracy()), (3, Some(0.7)));
    history.resume(1.5, &declared, None);
    assert_eq!(
        (history.measured(), history.best_accuracy()),
        (1, Some(0.3)),
        "what will be done again is dropped"
    );
    (6..2000).for_each(|k| history.report(&[point(k, 1.0, Some(0.2))], &declared, None));
    assert!(history.accuracies().len() <= 256 && history.measured() == 1995, "{}", history.measured());
    assert_eq!(history.best_accuracy(), Some(0.3), "the best is kept though its point may not be");
    history.restart();
    assert_eq!((history.measured(), history.best_accuracy()), (0, None));
}

#[test]
fn a_job_ends_when_it_is_as_good_as_it_will_be_and_not_before() {
    // 0.9 is come within the margin of 0.005 after 60 ln(180) = 312 of its 400 iterations.
    let mut core = core(1, "look_every_s = 1.0");
    let mut long = job(0, 1, Goals { stop: StopRule::AtPeak, ..Goals::default() });
    long.declared.iterations = Some(400.0);
    step(&mut core, 0, vec![arrives(long)]);
    step(&mut core, 1, vec![starts(0)]);
    let ended = (1..=400_u32).find_map(|k| {
        let accuracy = 0.9 * (1.0 - (-f64::from(k) / 60.0).exp());
        let step = step(&mut core, 1 + u64::from(k), vec![reports(0, f64::from(k), accuracy)]);
        changes(&step).iter().find_map(|change| match change {
            Change::Stop { why: Enough::AtPeak { expected, .. }, .. } => Some((k, *expected)),
            _ => None,
        })
    });
    let (iteration, expected) = ended.expect("it ends before its own end");
    assert!((300..=325).contains(&iteration), "{iteration}");
    assert!((expected - 0.9).abs() < 0.003, "{expected}");
}
