//! What can be said of one loss curve: the fit that policies would make of it, what it says of losses to come, and how
//! well such words held on the curve itself.

mod caution;
mod formula;
mod target;

use serde::Serialize;
use trainyard_sched::estimate::{
    Expected, Family, Fit, Fitting, LossHealth, LossHistory, LossTrend, Milestone,
};
use trainyard_sched::model::{Better, Curve, DeclaredLoss, LossPoint};
use trainyard_sim::curves::Recording;

use caution::cautions;
use formula::formula;

pub(crate) use caution::Caution;
pub(crate) use target::{Reach, TargetAnswer};

/// The form of the answer; see docs/curves.md.
pub(crate) const CURVE_SCHEMA: &str = "trainyard.curve/2";
/// How far ahead losses are told, in iterations.
const AHEAD: [f64; 2] = [10.0, 100.0];
/// How far ahead words are held against what came, in points of the log (SLAQ, SoCC 2017: ten iterations).
const LOOK_BACK: usize = 10;
/// Before so many points nothing is held against anything.
const FIRST_LOOK: usize = 20;
/// Looking back at more points than these, the latest, would take long and say nothing else. All curves of a log share
/// them.
const MOST_LOOKED_AT: usize = 20_000;
/// What is left of the loss when a curve counts as flat.
const FLAT_PART: f64 = 0.01;
/// No curve is followed further than so many times what there is of it.
const FURTHEST: f64 = 1000.0;
/// Points of a curve that are drawn.
const DRAWN: usize = 400;

/// The answer about one curve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CurveAnswer {
    /// See [`CURVE_SCHEMA`].
    pub(crate) schema: &'static str,
    /// The name in the log; empty if it has none.
    pub(crate) curve: String,
    /// How many points there are.
    pub(crate) points: usize,
    /// The first one.
    pub(crate) first: LossPoint,
    /// The latest one.
    pub(crate) latest: LossPoint,
    /// Which way is better.
    pub(crate) better: Better,
    /// What was fitted; absent where no curve could be.
    pub(crate) fit: Option<Fitted>,
    /// What is expected ahead of the latest point.
    pub(crate) ahead: Vec<Ahead>,
    /// Where the loss tends to.
    pub(crate) asymptote: Option<f64>,
    /// Where all but a hundredth of the loss above the asymptote is gone.
    pub(crate) flattens: Option<Flattens>,
    /// The target that was asked for, if one was.
    pub(crate) target: Option<TargetAnswer>,
    /// How well it was foretold on the way.
    pub(crate) looking_back: Option<LookingBack>,
    /// What stands out.
    pub(crate) health: LossHealth,
    /// Why little may be made of all this.
    pub(crate) cautions: Vec<Caution>,
    /// What is drawn: points of the log, and what is expected.
    #[serde(skip)]
    pub(crate) drawn: Drawn,
}

/// A fitted curve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fitted {
    /// Its family.
    pub(crate) family: Family,
    /// Its formula, in which `k` counts iterations; absent where the curve is a constant.
    pub(crate) formula: Option<String>,
    /// Its parameters; those of a score are of its negative.
    #[serde(flatten)]
    pub(crate) parameters: Curve,
    /// The iteration that the curve counts from.
    pub(crate) origin: f64,
    /// The weighted root mean square of what it leaves unexplained.
    pub(crate) residual: f64,
}

/// An expected loss.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ahead {
    /// Iterations after the latest point.
    pub(crate) iterations_ahead: f64,
    /// The iteration.
    pub(crate) iteration: f64,
    /// The expected loss.
    pub(crate) loss: f64,
    /// The standard deviation of what would be reported then; absent without a fit.
    pub(crate) deviation: Option<f64>,
}

/// Where a curve flattens; not ahead if it is flat already.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Flattens {
    /// The iteration.
    pub(crate) iteration: f64,
    /// Its standard deviation; absent without a fit, and where it was seen.
    pub(crate) deviation: Option<f64>,
}

/// What came, against what was expected ten points before.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LookingBack {
    /// The mean of the error as a part of the loss.
    pub(crate) mean_error: f64,
    /// The worst of it.
    pub(crate) worst_error: f64,
    /// How often it was looked at.
    pub(crate) looks: usize,
}

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    /// Points of the log.
    pub(crate) log: Vec<(f64, f64)>,
    /// What is expected from the end on.
    pub(crate) expected: Vec<(f64, f64)>,
    /// What was expected ten points before each.
    pub(crate) foretold: Vec<(f64, f64)>,
}

/// How many points are looked back at of each of so many curves.
pub(crate) fn looked_at(curves: usize) -> usize {
    (MOST_LOOKED_AT / curves.max(1)).max(LOOK_BACK + 1)
}

/// Says what can be said of a curve; it is looked back at so many points of it.
pub(crate) fn fit_curve(
    name: &str,
    recording: &Recording,
    declared: &DeclaredLoss,
    fitting: &Fitting,
    looked_at: usize,
) -> CurveAnswer {
    let points = recording.points();
    let (first, latest) = (points[0], points[points.len() - 1]);
    let (history, foretold) = follow(points, declared, fitting, looked_at);
    let expected = history.expected();
    let fit = history.fit().copied();
    // Histories keep scores as losses; people want their own numbers back.
    let shown = |loss: f64| if declared.better == Better::Higher { -loss } else { loss };
    let health = history.health();
    let fitted = fit.as_ref().map(|fit| fitted(fit, latest.iteration, declared.better));
    // A constant stays where it is, whatever the formula of its family would come to in the end.
    let is_level = fitted.as_ref().is_some_and(|fitted| fitted.formula.is_none());
    let asymptote = expected
        .as_ref()
        .map(|expected| if is_level { expected.loss(latest.iteration) } else { expected.asymptote() });
    let ahead = |by: f64| {
        let iteration = latest.iteration + by;
        let loss = shown(expected.as_ref()?.loss(iteration));
        let deviation = fit.map(|fit| fit.deviation(iteration));
        Some(Ahead { iterations_ahead: by, iteration, loss, deviation })
    };
    CurveAnswer {
        schema: CURVE_SCHEMA,
        curve: name.to_owned(),
        points: points.len(),
        first,
        latest,
        better: declared.better,
        asymptote: asymptote.filter(|_| !health.is_diverging()).map(shown),
        fit: fitted,
        ahead: AHEAD.into_iter().filter_map(ahead).collect(),
        flattens: flattens(&history, &health, latest.iteration),
        target: declared.target.map(|target| {
            // Fits end at a declared target, so another one has to say whether it can be reached.
            let mut free = LossHistory::default();
            free.report(points, &DeclaredLoss { target: None, ..*declared }, Some(fitting));
            target::reach(points, target, &free, &health, shown)
        }),
        looking_back: look_back(&foretold, recording, shown),
        health,
        cautions: cautions(points, &history, &health, fitting),
        drawn: draw(points, expected.as_ref(), &foretold, shown),
    }
}

/// The history of all points, and what was expected of points when they were ten points away.
fn follow(
    points: &[LossPoint],
    declared: &DeclaredLoss,
    fitting: &Fitting,
    looked_at: usize,
) -> (LossHistory, Vec<(f64, f64)>) {
    let mut history = LossHistory::default();
    let from = points.len().saturating_sub(looked_at);
    let mut foretold = Vec::new();
    if from > 0 {
        history.report(&points[..from], declared, Some(fitting));
    }
    for (i, point) in points.iter().enumerate().skip(from) {
        history.report(std::slice::from_ref(point), declared, Some(fitting));
        let (Some(later), Some(expected)) = (points.get(i + LOOK_BACK), history.expected()) else { continue };
        if i + 1 >= FIRST_LOOK {
            foretold.push((later.iteration, expected.loss(later.iteration)));
        }
    }
    (history, foretold)
}

fn fitted(fit: &Fit, last: f64, better: Better) -> Fitted {
    Fitted {
        family: fit.family(),
        formula: formula(fit, last, better),
        parameters: fit.curve,
        origin: fit.origin,
        residual: fit.residual,
    }
}

fn flattens(history: &LossHistory, health: &LossHealth, latest: f64) -> Option<Flattens> {
    match health.trend {
        LossTrend::Constant | LossTrend::Diverging { .. } | LossTrend::Backwards => return None,
        LossTrend::Flat { since } => return Some(Flattens { iteration: since, deviation: None }),
        LossTrend::Unknown | LossTrend::Falling | LossTrend::Unclear => {}
    }
    let milestone = Milestone::Excess { start: history.first()?.loss, fraction: FLAT_PART };
    let cap = latest.max(1.0) * FURTHEST;
    if let Some(fit) = history.fit() {
        let reached = fit.reaches(milestone, 0.0, cap)?;
        return Some(Flattens { iteration: reached.iteration, deviation: Some(reached.deviation) });
    }
    let expected = history.expected().filter(|expected| expected.excess(latest) > 0.0)?;
    let iteration = expected.reaches(milestone, latest, cap)?;
    Some(Flattens { iteration, deviation: None })
}

fn look_back(
    foretold: &[(f64, f64)],
    recording: &Recording,
    shown: impl Fn(f64) -> f64,
) -> Option<LookingBack> {
    let error = |(k, expected): &(f64, f64)| {
        let came = recording.loss(*k);
        ((shown(*expected) - came) / came).abs()
    };
    let errors: Vec<f64> = foretold.iter().map(error).filter(|error| error.is_finite()).collect();
    let worst_error = errors.iter().copied().fold(0.0, f64::max);
    let looks = errors.len();
    (looks > 0).then(|| LookingBack {
        mean_error: errors.iter().sum::<f64>() / looks as f64,
        worst_error,
        looks,
    })
}

fn draw(
    points: &[LossPoint],
    expected: Option<&Expected>,
    foretold: &[(f64, f64)],
    shown: impl Fn(f64) -> f64,
) -> Drawn {
    let begin = points[points.len() - 1].iteration;
    let end = begin + (0.25 * begin).max(AHEAD[1]);
    let at = |i: usize| begin + (end - begin) * i as f64 / DRAWN as f64;
    let curve = expected.map(|expected| (0..=DRAWN).map(|i| (at(i), shown(expected.loss(at(i))))).collect());
    Drawn {
        log: thinned(points.iter().map(|point| (point.iteration, point.loss)).collect()),
        expected: curve.unwrap_or_default(),
        foretold: thinned(foretold.iter().map(|(k, loss)| (*k, shown(*loss))).collect()),
    }
}

/// At most so many points as are drawn, evenly chosen, the last one among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= DRAWN {
        return points;
    }
    let at = |i: usize| points[i * (points.len() - 1) / (DRAWN - 1)];
    (0..DRAWN).map(at).collect()
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Better, Convergence};

    use super::*;

    fn recorded(curve: Curve, count: u32) -> Recording {
        let point =
            |k: u32| LossPoint { iteration: f64::from(k), loss: curve.loss(f64::from(k)), accuracy: None };
        Recording::new((0..=count).map(point).collect()).expect("there are points")
    }

    #[test]
    fn a_planted_curve_is_found_and_foretold() {
        let planted = Curve::Geometric { amplitude: 4.0, mu: 0.95, c: 1.5 };
        let declared = DeclaredLoss { convergence: Some(Convergence::Linear), ..DeclaredLoss::default() };
        let answer = fit_curve("", &recorded(planted, 60), &declared, &Fitting::default(), 100);
        assert!((answer.asymptote.unwrap() - 1.5).abs() < 1e-6, "{answer:?}");
        for ahead in &answer.ahead {
            assert!((ahead.loss - planted.loss(ahead.iteration)).abs() < 1e-6, "{ahead:?}");
        }
        // 0.95^k is 0.01 at k = 89.8.
        let flattens = answer.flattens.unwrap().iteration;
        assert!((flattens - 89.78).abs() < 0.1, "{flattens}");
        assert!(answer.looking_back.unwrap().mean_error < 1e-6);
        assert_eq!(answer.fit.unwrap().family, Family::Geometric);
    }

    #[test]
    fn a_score_is_told_as_a_score() {
        let falling = Curve::Sublinear { a: 0.0, b: 0.2, c: 1.25, d: 0.1 };
        let points = (0..60).map(f64::from).map(|k| LossPoint {
            iteration: k,
            loss: 1.0 - falling.loss(k),
            accuracy: None,
        });
        let recording = Recording::new(points.collect()).unwrap();
        let declared = DeclaredLoss { better: Better::Higher, ..DeclaredLoss::default() };
        let answer = fit_curve("acc", &recording, &declared, &Fitting::default(), 100);
        assert!((answer.asymptote.unwrap() - 0.9).abs() < 0.01, "{answer:?}");
        assert!(answer.ahead.iter().all(|ahead| ahead.loss > answer.latest.loss && ahead.loss < 0.91));
        assert!(answer.looking_back.unwrap().mean_error < 0.01);
    }

    #[test]
    fn too_few_points_are_said_to_be_too_few() {
        let curve = Curve::Geometric { amplitude: 4.0, mu: 0.5, c: 0.0 };
        let one = fit_curve("", &recorded(curve, 0), &DeclaredLoss::default(), &Fitting::default(), 100);
        assert!(one.fit.is_none() && one.ahead.is_empty() && one.asymptote.is_none());
        let three = fit_curve("", &recorded(curve, 2), &DeclaredLoss::default(), &Fitting::default(), 100);
        assert!(three.fit.is_none() && three.ahead.iter().all(|ahead| ahead.deviation.is_none()));
        assert_eq!(three.ahead.len(), 2);
    }
}
