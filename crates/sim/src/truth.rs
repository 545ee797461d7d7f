//! What a job really is. Only the simulator knows; `trainyard-sched` cannot name these types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{MoveCost, Span, SpeedFunction};

use crate::loss::TrueLoss;
use crate::physics::ThroughputTable;

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
