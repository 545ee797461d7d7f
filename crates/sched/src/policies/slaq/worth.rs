//! What workers are worth to one job in the next epoch: the loss that they would take off, in parts of what there is to
//! gain (SLAQ, SoCC 2017, section 4; specification A2.1, A2.3, A2.4 and A2.6).
//!
//! Every value is a number from 0 upwards, whatever a job reported, so that one job cannot spoil the sums of others.

use serde::{Deserialize, Serialize};

use crate::estimate::{Expected, fit_fixed_part};
use crate::model::{Better, Convergence, SERVER_TASK, SpeedFunction, Time};
use crate::view::JobView;

/// After so many changes without any progress a job without a model of convergence is not predicted.
const CHANGES_WITHOUT_PROGRESS: usize = 10;

/// By what the loss that a job loses is divided, so that jobs of different scale compare. The paper names the first; the
/// second reads the same purpose otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Normaliser {
    /// The largest change of one iteration so far.
    LargestChange,
    /// From the first loss to the one that it tends to: the target that was declared, else the asymptote of the curve.
    Range,
}

/// How to see what is known of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    pub(super) at: Time,
    pub(super) epoch_s: f64,
    pub(super) normaliser: Normaliser,
    /// Whether declared curves count more than reported losses.
    pub(super) trust_curves: bool,
    /// Whether declared targets are looked at.
    pub(super) use_targets: bool,
    /// Iterations after which a job that reports nothing is not new any more.
    pub(super) new_iterations: f64,
    /// From one change to the next, of a job of which nothing is known.
    pub(super) new_ratio: f64,
    /// What the whole of a job's training is worth beside the whole fall of its loss.
    pub(super) tail: f64,
    /// The part of what there is to gain that is left when a job counts as trained.
    pub(super) trained_at: f64,
    /// Seconds of one iteration with one worker, of a job whose speed is not known.
    pub(super) usual_work_s: f64,
}

/// What workers are worth to one job.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    speed: SpeedFunction,
    servers: u32,
    epoch_s: f64,
    weight: f64,
    /// What being trained is worth, and the iterations that are left until then.
    tail: (f64, f64),
    pub(super) course: Course,
}

/// What is expected of a job's loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Course {
    /// It goes on as a curve says.
    Known {
        loss: Expected,
        /// Iterations done, and how far the loss is above its end then.
        from: f64,
        now: f64,
        /// Nothing counts that is better than this far above the end.
        best: f64,
        /// Parts of what there is to gain for one unit of loss.
        scale: f64,
        /// From the first loss to the end.
        range: f64,
        by: Normaliser,
    },
    /// Nothing is known yet: each change is the one before times a ratio.
    New { ratio: f64, by: Normaliser },
    /// Nothing can be said: it gets a fair share.
    Unpredictable,
    /// It gains nothing.
    Flat,
}

impl Worth {
    pub(super) fn of(view: &JobView, outlook: &Outlook) -> Self {
        let course = course(view, outlook);
        let left = match course {
            Course::Known { loss, from, range, .. } if outlook.tail > 0.0 => {
                loss.iterations_to_excess(outlook.trained_at * range) - from
            }
            _ => f64::INFINITY,
        };
        Self {
            speed: speed(view)
                .unwrap_or(SpeedFunction::Linear { iteration_s: outlook.usual_work_s, reference: 1 }),
            servers: view.target.count_of(SERVER_TASK).max(least_servers(view)),
            epoch_s: outlook.epoch_s,
            weight: view.job.goals.weight,
            // Past that point nothing is left that counts.
            tail: if left > 0.0 { (outlook.tail, left) } else { (0.0, 1.0) },
            course,
        }
    }

    /// The value of so many workers for one epoch.
    pub(super) fn value(&self, workers: u32) -> f64 {
        let iterations = self.epoch_s * self.speed.iterations_per_s(workers, self.servers);
        let value = match self.course {
            Course::Known { loss, from, now, best, scale, by, .. } => {
                let then = loss.excess(from + iterations).max(best);
                let most = match by {
                    Normaliser::Range => 1.0,
                    Normaliser::LargestChange => iterations,
                };
                ((now - then) * scale).min(most)
            }
            Course::New { ratio, by } => {
                let part = 1.0 - ratio.powf(iterations);
                match by {
                    Normaliser::Range => part,
                    Normaliser::LargestChange => part * ratio / (1.0 - ratio),
                }
            }
            Course::Unpredictable | Course::Flat => 0.0,
        };
        let (tail, left) = self.tail;
        let value = (value + tail * (iterations / left).min(1.0)) * self.weight;
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }
}

fn least_servers(view: &JobView) -> u32 {
    view.job.shape.data_parallel().map_or(0, |shape| shape.server.map_or(0, |_| shape.servers.min))
}

/// How fast a job goes by its size: as declared, else as measured, else as it claims of its smallest gang.
pub(super) fn speed(view: &JobView) -> Option<SpeedFunction> {
    let declared = &view.job.declared;
    declared.speed.clone().or_else(|| fit_fixed_part(view.speeds.points())).or_else(|| {
        let reference = view.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
        let iteration_s = declared.iteration?.as_secs_f64();
        (iteration_s > 0.0).then_some(SpeedFunction::Linear { iteration_s, reference })
    })
}

fn course(view: &JobView, outlook: &Outlook) -> Course {
    let declared = &view.job.declared.loss;
    // Scores are losses with the other sign; so are those that were reported.
    let sign = match declared.better {
        Better::Lower => 1.0,
        Better::Higher => -1.0,
    };
    let curve = declared.curve.filter(|_| outlook.trust_curves).map(|curve| curve.rescaled(sign, 0.0));
    let (from, by) = (view.iterations(outlook.at), outlook.normaliser);
    let Some(loss) = curve.map(Expected::Curve).or_else(|| view.losses.expected()) else {
        return match view.losses.latest() {
            // It reports, but no numbers.
            None if view.losses.ignored() > 0 => Course::Flat,
            // With so much done, one report or none is all that it will ever tell.
            _ if from >= outlook.new_iterations => Course::Unpredictable,
            _ => Course::New { ratio: outlook.new_ratio, by },
        };
    };
    let target = declared.target.filter(|_| outlook.use_targets).map(|target| sign * target);
    let is_modelled = declared.convergence != Some(Convergence::NonConvex) || target.is_some();
    if curve.is_none() && !is_modelled && !makes_progress(view) {
        return Course::Unpredictable;
    }
    let first = match curve {
        Some(curve) => curve.loss(0.0),
        None => view.losses.first().map_or(f64::NAN, |point| point.loss),
    };
    // A target that is worse than the first loss says nothing.
    let end = target.filter(|target| first > *target);
    let best = end.map_or(f64::NEG_INFINITY, |end| end - loss.asymptote());
    let range = match (curve, end) {
        (Some(curve), None) => curve.excess(0.0),
        _ => first - end.unwrap_or_else(|| loss.asymptote()),
    };
    let unit = match (by, curve) {
        (Normaliser::Range, _) => range,
        (Normaliser::LargestChange, Some(curve)) => (curve.excess(0.0) - curve.excess(1.0)).abs(),
        (Normaliser::LargestChange, None) => view.losses.largest_change(),
    };
    let now = loss.excess(from).max(best);
    let scale = 1.0 / unit;
    if unit > 0.0 && scale.is_finite() && now.is_finite() {
        Course::Known { loss, from, now, best, scale, range, by }
    } else {
        Course::Flat
    }
}

/// Whether the loss was lower on average over the latest changes than before them.
fn makes_progress(view: &JobView) -> bool {
    let is_enough = view.losses.points().len() > CHANGES_WITHOUT_PROGRESS;
    !is_enough || view.losses.recent_decrease(CHANGES_WITHOUT_PROGRESS).is_none_or(|mean| mean > 0.0)
}
