//! Hostile and odd streams of losses: what the history keeps, what is expected of it, and what it says is odd.

use std::sync::Arc;

use trainyard_sched::control::{Batch, Core, Event, Settings};
use trainyard_sched::decide::{Abilities, Cadence, Decision, Policy, Verdict};
use trainyard_sched::estimate::{
    Expected, Family, Fitting, LossHealth, LossHistory, LossTrend, MAX_LOSS_POINTS,
};
use trainyard_sched::model::{
    Attempt, Better, Cluster, Convergence, Curve, Declared, DeclaredLoss, Goals, Job, JobId, LossPoint,
    MoveCost, Parallelism, Seed, TenantId, Tenants, Time, Wanted,
};
use trainyard_sched::policies::build;
use trainyard_sched::view::Snapshot;

const CURVE: Curve = Curve::Geometric { amplitude: 2.0, mu: 0.95, c: 0.5 };

fn at(iteration: u32, loss: f64) -> LossPoint {
    LossPoint { iteration: f64::from(iteration), loss, accuracy: None }
}

fn course(curve: Curve, iterations: std::ops::Range<u32>) -> Vec<LossPoint> {
    iterations.map(|k| at(k, curve.loss(f64::from(k)))).collect()
}

fn told(losses: &[f64], declared: &DeclaredLoss) -> LossHistory {
    let mut history = LossHistory::default();
    for (k, loss) in losses.iter().enumerate() {
        history.report(&[at(k as u32, *loss)], declared, Some(&Fitting::default()));
    }
    history
}

fn plain(losses: &[f64]) -> LossHistory {
    told(losses, &DeclaredLoss::default())
}

fn losses(curve: Curve, count: u32) -> Vec<f64> {
    (0..count).map(|k| curve.loss(f64::from(k))).collect()
}

/// What the job is expected to gain in the next iterations.
fn gain(history: &LossHistory, iterations: f64) -> f64 {
    let now = history.latest().expect("there are reports").iteration;
    let expected = history.expected().expect("there are two reports");
    expected.loss(now) - expected.loss(now + iterations)
}

#[test]
fn what_is_no_number_is_counted_and_changes_nothing_else() {
    let mut history = plain(&losses(CURVE, 30));
    let (fit, points) = (history.fit().copied(), history.points().to_vec());
    for loss in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        history.report(&[at(30, loss)], &DeclaredLoss::default(), Some(&Fitting::default()));
    }
    let nowhere = LossPoint { iteration: f64::NAN, loss: 1.0, accuracy: None };
    let before = LossPoint { iteration: -1.0, loss: 1.0, accuracy: None };
    history.report(&[nowhere, before], &DeclaredLoss::default(), Some(&Fitting::default()));
    assert_eq!((history.ignored(), history.restarts()), (5, 0));
    assert_eq!((history.fit().copied(), history.points()), (fit, &points[..]));
    assert!(!history.health().is_healthy());
    // What comes after them counts as ever.
    history.report(&[at(31, CURVE.loss(31.0))], &DeclaredLoss::default(), Some(&Fitting::default()));
    assert_eq!(history.points().len(), 31);
    assert!((history.expected().unwrap().loss(41.0) - CURVE.loss(41.0)).abs() < 1e-6);
    let nothing = plain(&[f64::NAN; 10]);
    assert_eq!((nothing.expected(), nothing.first(), nothing.ignored()), (None, None, 10));
}

#[test]
fn steady_rise_is_divergence_and_promises_nothing() {
    let mut up = losses(CURVE, 30);
    up.extend((0..30).map(|k| 1.0 + 0.1 * f64::from(k)));
    let history = plain(&up);
    let since = LossTrend::Diverging { since: 30.0 };
    assert_eq!(history.health().trend, since);
    assert!(gain(&history, 10.0).abs() < 1e-3 * 3.0, "{}", gain(&history, 10.0));
    assert!(history.recent_decrease(10).unwrap() < 0.0);
    let exploding: Vec<f64> = (0..600).map(|k| f64::from(k).exp()).collect();
    let history = plain(&exploding);
    assert_eq!(history.health().trend, LossTrend::Backwards);
    assert!(history.expected().is_none_or(|expected| expected.loss(700.0).is_finite()));
    let falling = plain(&losses(CURVE, 30));
    assert!(falling.health().trend == LossTrend::Falling && falling.health().is_healthy());
    assert!(falling.recent_decrease(10).unwrap() > 0.0);
}

#[test]
fn constant_losses_are_flat_and_divide_by_nothing() {
    for loss in [0.0, 1.0, -3.5, 1e-300] {
        let history = plain(&[loss; 40]);
        assert_eq!(history.fit(), None);
        assert_eq!(gain(&history, 10.0), 0.0);
        assert_eq!(history.expected().unwrap().asymptote(), loss);
        assert!(history.health().trend == LossTrend::Constant && history.health().is_healthy());
        assert_eq!(history.largest_change(), 0.0);
    }
    assert_eq!(plain(&losses(CURVE, 20)).health().trend, LossTrend::Falling);
}

#[test]
fn one_report_says_nothing_and_few_are_continued() {
    assert_eq!(plain(&[]).expected(), None);
    assert_eq!(plain(&[3.0]).expected(), None);
    // Two reports have no ratio of changes: 0.9 is assumed.
    let two = plain(&[3.0, 2.0]);
    assert_eq!(two.fit(), None);
    assert_eq!(two.expected(), Some(Expected::Continued { from: at(1, 2.0), change: 1.0, ratio: 0.9 }));
    assert!((two.expected().unwrap().loss(2.0) - 1.1).abs() < 1e-12);
    // The median of 0.5 and 0.8.
    let four = plain(&[4.0, 2.0, 1.0, 0.2]);
    let Some(Expected::Continued { ratio, .. }) = four.expected() else { panic!("{four:?}") };
    assert!((ratio - 0.65).abs() < 1e-12, "{ratio}");
    // Ratios are held within 0.5 and 0.99, and a rise promises nothing.
    let Some(Expected::Continued { ratio, .. }) = plain(&[4.0, 3.0, 2.9]).expected() else { panic!() };
    assert_eq!(ratio, 0.5);
    let Some(Expected::Continued { ratio, .. }) = plain(&[4.0, 3.9, 3.0]).expected() else { panic!() };
    assert_eq!(ratio, 0.99);
    assert_eq!(gain(&plain(&[3.0, 2.0, 2.5]), 10.0), 0.0);
    assert!(plain(&losses(CURVE, 5)).fit().is_some());
    // Sparse reports: the same course with a quarter of the reports has the fourth root of the ratio.
    let sparse = {
        let mut history = LossHistory::default();
        let points: Vec<_> = course(CURVE, 0..13).into_iter().step_by(4).collect();
        history.report(&points, &DeclaredLoss::default(), Some(&Fitting::default()));
        history.expected().unwrap()
    };
    assert!((sparse.loss(13.0) - CURVE.loss(13.0)).abs() < 0.02, "{sparse:?}");
}

#[test]
fn a_score_is_a_loss_turned_around() {
    let scores: Vec<f64> = losses(CURVE, 40).iter().map(|loss| 0.9 - 0.3 * loss).collect();
    let declared = DeclaredLoss { better: Better::Higher, target: Some(0.75), ..DeclaredLoss::default() };
    let history = told(&scores, &declared);
    assert!(history.health().is_healthy(), "{:?}", history.health());
    assert!(gain(&history, 10.0) > 0.0);
    assert_eq!(history.latest().unwrap().loss, -scores[39]);
    // A target is turned around as well: the asymptote is held there.
    assert_eq!(history.expected().unwrap().asymptote(), -0.75);
    // Taken for a loss, it looks wrong, and so does a loss that is taken for a score.
    let mistaken = plain(&scores).health();
    assert!(mistaken.trend == LossTrend::Backwards && mistaken.is_diverging(), "{mistaken:?}");
    let other = told(&losses(CURVE, 40), &DeclaredLoss { better: Better::Higher, ..DeclaredLoss::default() });
    assert_eq!(other.health().trend, LossTrend::Backwards);
}

#[test]
fn a_target_is_the_asymptote_until_it_is_passed() {
    let declared = DeclaredLoss {
        target: Some(0.5),
        convergence: Some(Convergence::NonConvex),
        ..DeclaredLoss::default()
    };
    let history = told(&losses(CURVE, 12), &declared);
    assert!((history.expected().unwrap().asymptote() - 0.5).abs() < 1e-12);
    assert!((history.expected().unwrap().loss(60.0) - CURVE.loss(60.0)).abs() < 1e-6);
    let low = DeclaredLoss { target: Some(1.0), ..declared };
    let passed = told(&losses(CURVE, 60), &low);
    assert!(passed.expected().unwrap().asymptote() < 0.6, "{:?}", passed.expected());
    // Losses that rise through the target do not make it a promise of more rise.
    let rising: Vec<f64> = (0..30).map(|k| 1.1 - 0.6 * 0.9f64.powi(k)).collect();
    let through = told(&rising, &low);
    assert_eq!(through.expected().unwrap().asymptote(), 1.0);
    assert!(gain(&through, 10.0) >= 0.0, "{}", gain(&through, 10.0));
}

#[test]
fn the_declared_class_is_fitted_and_an_unknown_one_is_found() {
    let sublinear = Curve::Sublinear { a: 1e-3, b: 0.1, c: 1.0, d: 0.2 };
    for (curve, right) in [(CURVE, Family::Geometric), (sublinear, Family::Sublinear)] {
        assert_eq!(plain(&losses(curve, 60)).fit().unwrap().family(), right);
        for (convergence, family) in
            [(Convergence::Sublinear, Family::Sublinear), (Convergence::Linear, Family::Geometric)]
        {
            let declared = DeclaredLoss { convergence: Some(convergence), ..DeclaredLoss::default() };
            assert_eq!(told(&losses(curve, 60), &declared).fit().unwrap().family(), family);
        }
    }
}

#[test]
fn a_family_is_left_only_after_three_defeats_in_a_row() {
    // First geometric, then another process that is sublinear.
    let next = Curve::Sublinear { a: 0.0, b: 0.3, c: 0.4, d: 0.3 };
    let mut history = plain(&losses(CURVE, 40));
    assert_eq!(history.fit().unwrap().family(), Family::Geometric);
    let alone = |convergence, points: &[LossPoint]| {
        let losses: Vec<f64> = points.iter().map(|point| point.loss).collect();
        let declared = DeclaredLoss { convergence: Some(convergence), ..DeclaredLoss::default() };
        told(&losses, &declared).fit().map_or(f64::INFINITY, |fit| fit.residual)
    };
    let (mut defeats, mut switches) = (0, 0);
    let mut before = Family::Geometric;
    for k in 40..120 {
        let loss = next.loss(f64::from(k - 40)) + CURVE.loss(40.0) - next.loss(0.0);
        history.report(&[at(k, loss)], &DeclaredLoss::default(), Some(&Fitting::default()));
        let points = history.points();
        let sublinear = alone(Convergence::Sublinear, points);
        let geometric = alone(Convergence::Linear, points);
        let better = if geometric < sublinear { Family::Geometric } else { Family::Sublinear };
        defeats = if better == before { 0 } else { defeats + 1 };
        let now = history.fit().unwrap().family();
        assert_eq!(now != before, defeats == 3, "report {k}: {defeats} defeats of {before:?}");
        if now != before {
            (switches, defeats, before) = (switches + 1, 0, now);
        }
    }
    assert!(switches >= 1, "the sublinear process is found out");
}

#[test]
fn the_median_of_five_takes_away_single_outliers() {
    let curve = Curve::Sublinear { a: 0.0, b: 0.1, c: 1.0, d: 0.2 };
    let mut noisy = losses(curve, 60);
    for k in (5..55).step_by(7) {
        noisy[k] *= 3.0;
    }
    let error = |convergence| {
        let declared = DeclaredLoss { convergence: Some(convergence), ..DeclaredLoss::default() };
        (told(&noisy, &declared).expected().unwrap().loss(70.0) / curve.loss(70.0) - 1.0).abs()
    };
    assert!(error(Convergence::NonConvex) < 0.02, "{}", error(Convergence::NonConvex));
    assert!(error(Convergence::Sublinear) > 2.0 * error(Convergence::NonConvex));
}

#[test]
fn oscillation_never_promises_less_than_nothing() {
    for convergence in
        [None, Some(Convergence::Sublinear), Some(Convergence::Linear), Some(Convergence::NonConvex)]
    {
        let declared = DeclaredLoss { convergence, ..DeclaredLoss::default() };
        let mut history = LossHistory::default();
        for k in 0..200u32 {
            let loss = 1.0 + (f64::from(k) * 0.7).sin() + if k % 3 == 0 { 0.5 } else { 0.0 };
            history.report(&[at(k, loss)], &declared, Some(&Fitting::default()));
            if k > 0 {
                for ahead in [1.0, 10.0, 1e3, 1e6] {
                    assert!(gain(&history, ahead) >= 0.0, "{convergence:?} after {k}");
                }
                let expected = history.expected().unwrap();
                assert!(expected.asymptote().is_finite() && expected.loss(1e9).is_finite());
            }
        }
        assert!(!history.health().is_diverging());
    }
}

#[test]
fn a_late_window_of_fast_decay_is_written_down_without_overflow() {
    // From the job's start, the amplitude would be 1e400.
    let late: Vec<_> = (0..40).map(|k| at(20_000 + k, 1.0 + 0.9f64.powi(k as i32))).collect();
    let mut history = LossHistory::default();
    let declared = DeclaredLoss { convergence: Some(Convergence::Linear), ..DeclaredLoss::default() };
    history.report(&late, &declared, Some(&Fitting::default()));
    let expected = history.expected().unwrap();
    assert!((expected.loss(20_050.0) - 1.0 - 0.9f64.powi(50)).abs() < 1e-6, "{expected:?}");
    let copy: LossHistory = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();
    assert_eq!(copy, history);
}

#[test]
fn a_thousand_reports_a_second_are_kept_within_bounds() {
    let mut history = LossHistory::default();
    for second in 0..60u32 {
        for i in 0..1000 {
            let k = second * 1000 + i;
            let loss = Curve::Sublinear { a: 0.0, b: 1e-3, c: 1.0, d: 0.1 }.loss(f64::from(k));
            history.report(&[at(k, loss)], &DeclaredLoss::default(), Some(&Fitting::default()));
        }
        assert!(history.points().len() <= MAX_LOSS_POINTS);
    }
    assert_eq!(history.first(), Some(at(0, 1.1)), "the first report stays");
    assert!(history.points().windows(2).all(|pair| pair[0].iteration < pair[1].iteration));
    // All in one report is the same history, if not the same course of fits.
    let all: Vec<_> = course(CURVE, 0..1000);
    let mut once = LossHistory::default();
    once.report(&all, &DeclaredLoss::default(), Some(&Fitting::default()));
    let mut each = LossHistory::default();
    all.iter().for_each(|point| each.report(&[*point], &DeclaredLoss::default(), None));
    assert_eq!(once.points(), each.points());
}

#[test]
fn sparse_reports_keep_their_weight() {
    let curve = Curve::Geometric { amplitude: 1.0, mu: 0.999, c: 0.2 };
    let sparse: Vec<_> = course(curve, 0..3000).into_iter().step_by(100).collect();
    let mut history = LossHistory::default();
    history.report(&sparse, &DeclaredLoss::default(), Some(&Fitting::default()));
    assert!((history.expected().unwrap().loss(4000.0) - curve.loss(4000.0)).abs() < 1e-3);
}

#[test]
fn counters_that_begin_anew_are_told_from_checkpoints_and_from_repetitions() {
    let fitting = Fitting::default();
    let mut history = plain(&losses(CURVE, 40));
    let whole = history.clone();
    history.report(&course(CURVE, 10..20), &DeclaredLoss::default(), Some(&fitting));
    assert_eq!(history, whole, "what is known changes nothing");
    assert!(history.knows(&course(CURVE, 10..20), &DeclaredLoss::default()));
    // From a checkpoint: what lies beyond is dropped and comes again.
    history.resume(30.0, &DeclaredLoss::default(), Some(&fitting));
    assert_eq!((history.latest().map(|point| point.iteration), history.restarts()), (Some(30.0), 0));
    assert!(history.fit().is_some());
    history.report(&[at(31, 0.7), at(32, 0.69)], &DeclaredLoss::default(), Some(&fitting));
    assert_eq!((history.points().len(), history.restarts()), (33, 0));
    // The counter begins anew, with other losses.
    let anew = [at(1, 5.0), at(2, 4.0)];
    assert!(!history.knows(&anew, &DeclaredLoss::default()));
    let before = history.clone();
    history.report(&anew, &DeclaredLoss::default(), Some(&fitting));
    assert_eq!(history, before, "by itself it may as well have come late");
    history.restart();
    history.report(&anew, &DeclaredLoss::default(), Some(&fitting));
    assert_eq!((history.points(), history.restarts()), (&anew[..], 1));
    assert_eq!((history.fit(), history.largest_change(), history.lowest()), (None, 1.0, 4.0));
    assert_eq!(history.health(), LossHealth { restarts: 1, ..LossHealth::default() });
    // From nothing: all is forgotten, though that is no restart of the counter by itself.
    history.resume(0.0, &DeclaredLoss::default(), Some(&fitting));
    assert_eq!((history.points().len(), history.restarts()), (0, 1));
}

/// First come, first served, with fits.
struct Looks(Box<dyn Policy>);

impl Policy for Looks {
    fn cadence(&self) -> Cadence {
        self.0.cadence()
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.0.decide(seen)
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.0.explain(seen, job)
    }
    fn fitting(&self) -> Option<Fitting> {
        Some(Fitting::default())
    }
}

fn running() -> Core {
    let settings = Settings { seed: Seed(1), abilities: Abilities::ALL, strict: true };
    let policy = Box::new(Looks(build("fifo", &toml::Table::new()).expect("a policy")));
    let mut core = Core::new(Cluster::uniform(1, 4, "v100"), Tenants::default(), policy, settings);
    let job = Job {
        id: JobId(0),
        name: "job".into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(1),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    };
    tell(&mut core, 0, Event::Arrived { job: Arc::new(job) });
    tell(&mut core, 0, Event::Started { job: JobId(0), attempt: Attempt(1), iterations: 0.0, speed: 1.0 });
    core
}

fn tell(core: &mut Core, seconds: u64, event: Event) {
    core.step(&Batch { at: Time::from_secs(seconds), events: vec![event] });
    core.state().assert_consistent();
}

fn progress(attempt: u32, iterations: f64, losses: Vec<LossPoint>) -> Event {
    Event::Progress {
        job: JobId(0),
        attempt: Attempt(attempt),
        iterations,
        speed: 1.0,
        saved: 0.0,
        losses,
        copies: Vec::new(),
    }
}

fn seen(core: &Core) -> (f64, LossHistory) {
    let view = core.state().job(JobId(0)).expect("it runs");
    (view.done.iterations, LossHistory::clone(&view.losses))
}

#[test]
fn the_loop_lets_a_reset_through_and_drops_what_comes_late() {
    let mut core = running();
    tell(&mut core, 10, progress(1, 10.0, course(CURVE, 1..11)));
    tell(&mut core, 20, progress(1, 20.0, course(CURVE, 11..21)));
    let before = seen(&core);
    assert!(before.1.fit().is_some());
    tell(&mut core, 21, progress(1, 10.0, course(CURVE, 1..11)));
    tell(&mut core, 22, progress(1, 20.0, course(CURVE, 11..21)));
    tell(&mut core, 23, progress(1, 15.0, Vec::new()));
    tell(&mut core, 24, progress(1, 15.0, vec![at(15, f64::NAN)]));
    tell(&mut core, 25, progress(1, f64::NAN, vec![at(21, 0.1)]));
    assert_eq!(seen(&core), before, "late and repeated reports change nothing");
    tell(&mut core, 30, progress(1, 3.0, vec![at(1, 9.0), at(2, 8.0), at(3, 7.5)]));
    assert_eq!(seen(&core), before, "one such report may have come late");
    tell(&mut core, 33, progress(1, 6.0, vec![at(4, 7.0), at(5, 6.7), at(6, 6.5)]));
    let (done, history) = seen(&core);
    assert_eq!((done, history.points().len(), history.restarts()), (6.0, 3, 1));
    assert_eq!(history.latest(), Some(at(6, 6.5)));
}

#[test]
fn late_reports_change_nothing_though_their_points_were_thinned_out() {
    let mut core = running();
    for k in (10..=900).step_by(10) {
        tell(&mut core, k, progress(1, k as f64, course(CURVE, k as u32 - 9..k as u32 + 1)));
    }
    let before = seen(&core);
    assert!(before.1.points().len() < 300, "most were thinned out");
    // One that nobody knows any more, one that came never, and two that changed places.
    tell(&mut core, 901, progress(1, 100.0, vec![at(94, CURVE.loss(94.0))]));
    tell(&mut core, 902, progress(1, 880.0, vec![at(871, 0.123)]));
    tell(&mut core, 903, progress(1, 890.0, vec![at(881, 0.124)]));
    assert_eq!(seen(&core), before);
}

#[test]
fn the_last_loss_for_an_iteration_counts_and_is_no_restart() {
    let mut core = running();
    tell(&mut core, 2, progress(1, 2.0, vec![at(1, 2.0), at(2, 1.9)]));
    tell(&mut core, 3, progress(1, 2.5, vec![at(2, 1.7)]));
    // The same count and speed again, but news of the loss.
    tell(&mut core, 4, progress(1, 2.5, vec![at(2, 1.6)]));
    let (_, history) = seen(&core);
    assert_eq!((history.points(), history.restarts()), (&[at(1, 2.0), at(2, 1.6)][..], 0));
}

#[test]
fn what_blew_up_and_was_rolled_back_is_forgotten() {
    let fitting = Fitting::default();
    let mut history = plain(&losses(CURVE, 40));
    let change = history.largest_change();
    history.report(&[at(40, 1e6)], &DeclaredLoss::default(), Some(&fitting));
    assert!(history.largest_change() > 1e5);
    history.resume(30.0, &DeclaredLoss::default(), Some(&fitting));
    assert!((history.largest_change() / change - 1.0).abs() < 1e-12);
    assert!(history.expected().is_some_and(|expected| expected.loss(35.0) < 2.0 * CURVE.loss(0.0)));
}

#[test]
fn reports_are_read_from_journals_bit_by_bit() {
    for i in 0..20_000_u64 {
        let drawn = |branch: &str| (Seed(7).branch(branch).numbered(i).0 >> 11) as f64 / (1u64 << 53) as f64;
        let report = progress(1, drawn("iterations") * 1e3, vec![at(i as u32, drawn("loss"))]);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), report, "{text}");
    }
}

#[test]
fn journals_with_one_loss_or_none_are_still_read() {
    let head = r#"{"event":"progress","job":0,"attempt":1,"iterations":4.0,"speed":1.0,"saved":0.0"#;
    let read = |rest: &str| -> Vec<LossPoint> {
        let event: Event = serde_json::from_str(&format!("{head}{rest}}}")).unwrap();
        let Event::Progress { losses, .. } = event else { panic!("{event:?}") };
        losses
    };
    assert_eq!(read(r#","loss":{"iteration":4.0,"loss":0.5,"accuracy":null}"#), [at(4, 0.5)]);
    assert_eq!(read(r#","loss":null"#), []);
    assert_eq!(read(""), []);
    assert_eq!(read(r#","losses":[{"iteration":4.0,"loss":0.5,"accuracy":null}]"#), [at(4, 0.5)]);
    let odd = progress(1, f64::INFINITY, Vec::new());
    let text = serde_json::to_string(&odd).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), odd, "{text}");
}

#[test]
fn the_loop_goes_on_from_a_checkpoint_without_a_restart() {
    let mut core = running();
    tell(&mut core, 20, progress(1, 20.0, course(CURVE, 1..21)));
    let lost = Event::Lost { job: JobId(0), attempt: Attempt(1), iterations: 15.0, node: None };
    tell(&mut core, 21, lost);
    tell(&mut core, 22, Event::Started { job: JobId(0), attempt: Attempt(2), iterations: 15.0, speed: 1.0 });
    let (_, history) = seen(&core);
    assert_eq!((history.points(), history.restarts()), (&course(CURVE, 1..16)[..], 0));
    // The other attempt reports other losses from there on; what the first attempt still tells is of no concern.
    tell(&mut core, 23, progress(1, 22.0, course(CURVE, 21..23)));
    tell(&mut core, 24, progress(2, 17.0, vec![at(16, 1.4), at(17, 1.3)]));
    let (_, history) = seen(&core);
    assert_eq!((history.points().len(), history.latest(), history.restarts()), (17, Some(at(17, 1.3)), 0));
}

#[test]
fn events_with_losses_that_are_no_numbers_survive_the_journal() {
    let odd = vec![at(1, f64::NAN), at(2, f64::INFINITY), at(3, f64::NEG_INFINITY), at(4, 0.5)];
    let text = serde_json::to_string(&progress(1, 4.0, odd)).unwrap();
    let read: Event = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let Event::Progress { losses, .. } = &read else { panic!("{read:?}") };
    let kinds: Vec<_> = losses.iter().map(|point| (point.loss.is_nan(), point.loss.is_finite())).collect();
    assert_eq!(kinds, [(true, false), (false, false), (false, false), (false, true)]);
    let (mut live, mut replayed) = (running(), running());
    let Event::Progress { losses, .. } = read else { unreachable!() };
    tell(
        &mut live,
        4,
        progress(1, 4.0, vec![at(1, f64::NAN), at(2, f64::INFINITY), at(3, f64::NEG_INFINITY), at(4, 0.5)]),
    );
    tell(&mut replayed, 4, progress(1, 4.0, losses));
    assert_eq!(seen(&live), seen(&replayed));
    assert_eq!(seen(&live).1.ignored(), 3);
}
