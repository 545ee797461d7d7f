//! Loss curves as programs wrote them down: read from logs, looked at, and replayed as the truth of simulated jobs.
//!
//! A log is a table (CSV, TSV) or any text that names what it tells, such as `step 10, loss = 0.31` or JSON lines; see
//! `docs/curves.md`. What is fitted to a curve is not known here.

mod error;
mod read;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::model::{Better, LossPoint};

use crate::workload::ImportReport;

pub use error::CurvesError;
pub use read::{LogNames, read, read_from};

/// One curve: points by ascending iteration, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    points: Vec<LossPoint>,
}

impl Recording {
    /// A curve through these points, in any order. Of several for one iteration the last counts. `None` without points.
    pub fn new(mut points: Vec<LossPoint>) -> Option<Self> {
        points.retain(|point| point.iteration.is_finite() && point.loss.is_finite());
        points.sort_by(|a, b| a.iteration.total_cmp(&b.iteration));
        // The sort is stable, so the last of equals stands last.
        points.reverse();
        points.dedup_by_key(|point| point.iteration);
        points.reverse();
        (!points.is_empty()).then_some(Self { points })
    }

    /// The points.
    pub fn points(&self) -> &[LossPoint] {
        &self.points
    }

    /// The loss after `k` iterations: straight between two points, and that of the nearest point beyond the ends.
    pub fn loss(&self, k: f64) -> f64 {
        let next = self.points.partition_point(|point| point.iteration <= k);
        match (next.checked_sub(1).map(|i| self.points[i]), self.points.get(next)) {
            (Some(before), Some(after)) => {
                let part = (k - before.iteration) / (after.iteration - before.iteration);
                before.loss + part * (after.loss - before.loss)
            }
            (Some(only), None) => only.loss,
            (None, after) => after.map_or(f64::NAN, |after| after.loss),
        }
    }

    /// The accuracy that was last measured by iteration `k`, if any was.
    pub fn accuracy(&self, k: f64) -> Option<f64> {
        let next = self.points.partition_point(|point| point.iteration <= k);
        self.points[..next].iter().rev().find_map(|point| point.accuracy)
    }

    /// How far it goes.
    pub fn last_iteration(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.iteration)
    }
}

/// The curves of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossLog {
    /// By name; a log of one nameless curve has it under the empty name.
    pub curves: BTreeMap<String, Arc<Recording>>,
    /// What the log calls them.
    pub called: String,
    /// Which way is better, as far as that name says.
    pub better: Option<Better>,
    /// What was read, and what was done to it.
    pub report: ImportReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(points: &[(f64, f64)]) -> Recording {
        let point = |&(iteration, loss): &(f64, f64)| LossPoint { iteration, loss, accuracy: None };
        Recording::new(points.iter().map(point).collect()).expect("there are points")
    }

    #[test]
    fn between_points_a_curve_is_straight_and_beyond_them_level() {
        let curve = recording(&[(10.0, 4.0), (20.0, 2.0), (40.0, 1.0)]);
        for (k, loss) in [(0.0, 4.0), (10.0, 4.0), (15.0, 3.0), (20.0, 2.0), (30.0, 1.5), (99.0, 1.0)] {
            assert_eq!(curve.loss(k), loss, "{k}");
        }
        assert_eq!(curve.last_iteration(), 40.0);
    }

    #[test]
    fn points_may_come_in_any_order_and_the_last_for_an_iteration_counts() {
        let curve = recording(&[(2.0, 5.0), (1.0, 9.0), (2.0, 4.0), (f64::NAN, 1.0), (3.0, f64::INFINITY)]);
        let expected: Vec<(f64, f64)> = curve.points().iter().map(|p| (p.iteration, p.loss)).collect();
        assert_eq!(expected, [(1.0, 9.0), (2.0, 4.0)]);
        assert!(Recording::new(vec![]).is_none());
    }
}
