//! When a job has had enough, and what a cheaper rule would spare (MLFS, section 3.5; values of the specification, A19).

use serde::{Deserialize, Serialize};

use crate::decide::Enough;
use crate::model::{StopRule, Time};
use crate::view::JobView;

use super::outlook::{Outlook, Point};

/// When a job ends that is unlikely ever to be as good as its owner needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hopeless {
    Never,
    #[default]
    Overloaded,
    Always,
}

/// Where enough begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bars {
    /// Accuracies nearer to each other than this are as good as equal.
    pub(super) margin: f64,
    /// A forecast with a smaller deviation is trusted.
    pub(super) sure: f64,
    /// Measurements without a gain after which a job may have stalled.
    pub(super) stalled: usize,
    /// Chances below this are none.
    pub(super) chance: f64,
    /// Whether jobs end that have no hope.
    pub(super) hopeless: bool,
}

/// The best that a job may still come to before its end, and before its deadline if that is still ahead and known to come first.
pub(super) fn peak(view: &JobView, outlook: &Outlook, now: Time) -> Point {
    let per_s = view.done.speed;
    let until = view.job.goals.deadline.filter(|deadline| *deadline > now && per_s > 0.0);
    let limit =
        until.map_or(f64::INFINITY, |until| view.iterations(now) + per_s * until.since(now).as_secs_f64());
    outlook.best(limit)
}

/// Whether half of what a job is to do is done.
fn is_half_done(view: &JobView, now: Time) -> bool {
    view.job.goal().is_some_and(|goal| view.iterations(now) >= 0.5 * goal)
}

/// Why a job has had enough by one of these rules, if it has. `best` is the best accuracy that it reported.
pub(super) fn enough(
    view: &JobView,
    rules: &[StopRule],
    (best, outlook): (f64, Option<&Outlook>),
    bars: &Bars,
    now: Time,
) -> Option<Enough> {
    let reached = rules.iter().find_map(|rule| match rule {
        StopRule::AtAccuracy(needed) if best >= needed.0 => {
            Some(Enough::Reached { accuracy: best, needed: needed.0 })
        }
        _ => None,
    });
    if reached.is_some() || !rules.contains(&StopRule::AtPeak) {
        return reached;
    }
    let outlook = outlook?;
    let peak = peak(view, outlook, now);
    let sure = peak.deviation <= bars.sure || is_half_done(view, now);
    if sure && best >= peak.mean - bars.margin {
        return Some(Enough::AtPeak { accuracy: best, expected: peak.mean, deviation: peak.deviation });
    }
    let chance = outlook.exceeds(best, peak.iteration);
    if chance < bars.chance && has_stalled(view, bars) {
        return Some(Enough::Stalled { accuracy: best, chance });
    }
    let needed = view.job.goals.accuracy.filter(|needed| bars.hopeless && best < needed.0)?.0;
    let chance = outlook.exceeds(needed, outlook.end());
    (chance < bars.chance).then_some(Enough::Hopeless { accuracy: best, needed, chance })
}

/// Whether the latest tenth of the measurements is better than those before by more than a margin. An accuracy that comes nearer to
/// its top by the same part in each iteration has then at least as much still before it.
pub(super) fn still_rises(view: &JobView, margin: f64) -> bool {
    let count = view.losses.accuracies().len().div_ceil(10);
    let mut latest = view.losses.accuracies().iter().rev().map(|(_, accuracy)| *accuracy);
    let recent = latest.by_ref().take(count).fold(f64::NEG_INFINITY, f64::max);
    latest.reduce(f64::max).is_none_or(|before| recent > before + margin)
}

/// Whether the latest measurements are no better than those before them.
fn has_stalled(view: &JobView, bars: &Bars) -> bool {
    let mut latest = view.losses.accuracies().iter().rev().map(|(_, accuracy)| *accuracy);
    let recent = latest.by_ref().take(bars.stalled).fold(f64::NEG_INFINITY, f64::max);
    latest.reduce(f64::max).is_some_and(|before| recent < before + bars.margin)
}

/// After how many iterations a job is expected to end by a rule; infinite if nobody knows.
pub(super) fn iterations_by(
    rule: StopRule,
    view: &JobView,
    (best, outlook): (f64, Option<&Outlook>),
    bars: &Bars,
    now: Time,
) -> f64 {
    let (done, goal) = (view.iterations(now), view.job.goal().unwrap_or(f64::INFINITY));
    let by = match (rule, outlook) {
        (StopRule::AtAccuracy(needed), _) if best >= needed.0 => done,
        (StopRule::AtAccuracy(needed), Some(outlook)) => outlook.reaches(needed.0).unwrap_or(goal),
        (StopRule::AtPeak, Some(outlook)) => {
            let peak = peak(view, outlook, now);
            let near = peak.mean - bars.margin;
            let there = if best >= near { done } else { outlook.reaches(near).unwrap_or(peak.iteration) };
            // It is not stopped before its forecast is trusted.
            if peak.deviation <= bars.sure { there } else { there.max(0.5 * goal) }
        }
        (StopRule::OwnIterations | StopRule::Iterations(_), _) | (_, None) => goal,
    };
    by.max(done).min(goal.max(done))
}
