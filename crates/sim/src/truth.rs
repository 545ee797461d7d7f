//! What a job really is. Only the simulator knows; `trainyard-sched` cannot name these types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{Allocation, Attempt, MoveCost, Span, SpeedFunction};

use crate::loss::TrueLoss;
use crate::physics::{MeasuredSpeeds, ThroughputTable};
use crate::tasks::TrueGraph;

/// The truth about one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Iterations until it ends by itself.
    pub iterations: f64,
    /// How fast they go.
    pub speed: Speed,
    /// What stopping and starting really costs.
    pub move_cost: MoveCost,
    /// Bytes that its workers exchange in every iteration when they are on several nodes.
    pub gradient_bytes: f64,
    /// Its loss, if it has one to report.
    pub loss: Option<TrueLoss>,
    /// How it ends.
    pub ending: Ending,
    /// What its program does beside training, where that was measured; else `move_cost` says all.
    pub overheads: Option<Overheads>,
}

/// What the program of a job does beside training, as measured of a real one.
#[derive(Clone, Debug, PartialEq)]
pub struct Overheads {
    /// From an order to start until the program is there. From then on it may be resized and stopped.
    pub launch: Span,
    /// Work before the first new iteration of the first start, in iterations.
    pub warm_up: f64,
    /// The same of later starts, which read a state.
    pub warm_up_again: f64,
    /// From an order to hold something else until that is reported; it goes at its new speed at once.
    pub resize: Span,
    /// Whether it is resized while it runs, if it stays on as many nodes; else it is stopped and started anew.
    pub resizes_in_place: bool,
    /// Iterations that it still does once it was told to stop.
    pub until_stopped: f64,
    /// When it reports; `None` means never.
    pub reports: Option<Reporting>,
}

/// When a program reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reporting {
    /// After so many iterations each time.
    pub every_iterations: f64,
    /// But not sooner than this after the report before.
    pub at_least: Span,
}

/// How fast a job goes on a given allocation.
#[derive(Clone, Debug, PartialEq)]
pub enum Speed {
    /// One iteration takes so long on the smallest gang, and less in proportion to more workers.
    Fixed {
        /// The time of one iteration.
        iteration: Span,
        /// The number of workers to which it belongs.
        workers: u32,
    },
    /// A parametric function of workers and servers.
    Function(SpeedFunction),
    /// A row of a table of measured throughputs (model x GPUs x GPU type x locality).
    Table {
        /// The table.
        table: Arc<ThroughputTable>,
        /// The row: a model with its batch size.
        row: u32,
    },
    /// As measured of this very job, by size and place.
    Measured(Arc<MeasuredSpeeds>),
    /// As its graph of tasks comes to.
    Graph(TrueGraph),
}

impl Overheads {
    /// The work before the first new iteration of a start.
    pub(crate) fn warm_up_of(&self, attempt: Attempt) -> f64 {
        if attempt > Attempt(1) { self.warm_up_again } else { self.warm_up }
    }

    /// Whether the program goes on as it gets something else to hold.
    pub(crate) fn stays(&self, before: &Allocation, after: &Allocation) -> bool {
        self.resizes_in_place && before.placements().len() == after.placements().len()
    }
}

impl Reporting {
    /// What is missing of a whole iteration by rounding alone.
    const ROUNDING: f64 = 1e-5;

    /// Iterations that are done.
    pub(crate) fn whole(iterations: f64) -> f64 {
        (iterations + Self::ROUNDING).floor()
    }

    /// How long it is until the next report, at this speed; `None` without any.
    pub(crate) fn next(&self, iterations: f64, warm_up: f64, per_s: f64) -> Option<Span> {
        let every = self.every_iterations.max(1.0);
        let next = (((iterations + Self::ROUNDING) / every).floor() + 1.0) * every;
        let left = next - iterations + warm_up;
        (per_s > 0.0).then(|| Span::from_secs_f64(left / per_s).max(self.at_least))
    }

    /// Whether it has something to report since it reported last.
    pub(crate) fn is_due(&self, reported: f64, iterations: f64) -> bool {
        let steps = |iterations: f64| (Self::whole(iterations) / self.every_iterations.max(1.0)).floor();
        steps(iterations) > steps(reported)
    }
}

/// How a job ends when its iterations are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It did what it was meant to do.
    #[default]
    Completed,
    /// It crashed.
    Failed,
    /// Its owner killed it.
    Killed,
    /// Nobody knows: it was still running when its trace ended.
    Censored,
}

impl Ending {
    /// How the loop is told.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Completed => Outcome::Completed,
            Self::Failed => Outcome::Failed,
            Self::Killed => Outcome::Killed,
            Self::Censored => Outcome::Censored,
        }
    }
}

impl Truth {
    /// A job that runs for `duration` on the gang of `workers` it asks for. One iteration is one second.
    pub fn lasting(duration: Span, workers: u32) -> Self {
        Self {
            iterations: duration.as_secs_f64(),
            speed: Speed::Fixed { iteration: Span::from_secs(1), workers },
            move_cost: MoveCost::default(),
            gradient_bytes: 0.0,
            loss: None,
            ending: Ending::Completed,
            overheads: None,
        }
    }

    /// A job that runs for `duration` on the gang of `workers` it asks for and has `iterations` by then.
    ///
    /// The time of one iteration is rounded to a microsecond, and the count is fitted so that the whole takes as
    /// long as was said.
    pub fn iterating(duration: Span, iterations: f64, workers: u32) -> Self {
        let iteration = Span::from_secs_f64(duration.as_secs_f64() / iterations).max(Span(1));
        let fitted = duration.0 as f64 / iteration.0 as f64;
        let speed = Speed::Fixed { iteration, workers };
        Self { iterations: fitted, speed, ..Self::lasting(duration, workers) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_fitted_so_that_the_whole_lasts_as_long_as_said() {
        for (duration, iterations) in [(Span::from_secs(1418), 134_583.0), (Span(7), 1e9), (Span(1), 0.3)] {
            let truth = Truth::iterating(duration, iterations, 2);
            let Speed::Fixed { iteration, workers: 2 } = truth.speed else { panic!("{truth:?}") };
            assert_eq!(iteration.scaled(truth.iterations), duration);
            assert!(iteration > Span::ZERO);
        }
        let fitted = Truth::iterating(Span::from_secs(1418), 134_583.0, 2).iterations;
        assert!((fitted / 134_583.0 - 1.0).abs() < 1e-4, "{fitted}");
    }
}
