//! The loss curve of a job as it is shown, bounded. What policies go by is kept by the loop.

use serde::{Deserialize, Serialize};
use trainyard_sched::estimate::{LossHealth, LossHistory};
use trainyard_sched::model::{DeclaredLoss, LossPoint};

/// How many points are kept; beyond that every second one is left out.
pub const MOST_POINTS: usize = 240;

/// A loss curve of bounded size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Iterations and losses, by ascending iteration.
    pub points: Vec<(f64, f64)>,
    /// The latest report, which may have been left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<(f64, f64)>,
    /// Reports that were no numbers.
    #[serde(default)]
    ignored: u64,
    /// Every how many reports one is kept.
    stride: u32,
    skipped: u32,
}

impl Curve {
    /// Adds a report.
    pub(crate) fn add(&mut self, iteration: f64, loss: f64) {
        if !iteration.is_finite() || !loss.is_finite() {
            self.ignored += 1;
            return;
        }
        // A job that goes on from a checkpoint repeats what was lost.
        while self.points.last().is_some_and(|(last, _)| *last >= iteration) {
            self.points.pop();
        }
        self.latest = Some((iteration, loss));
        self.skipped += 1;
        if self.skipped < self.stride.max(1) {
            return;
        }
        self.skipped = 0;
        self.points.push((iteration, loss));
        if self.points.len() > MOST_POINTS {
            self.stride = self.stride.max(1) * 2;
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// So many reports were no numbers before.
    pub(crate) fn count(&mut self, ignored: u64) {
        self.ignored = ignored;
    }

    /// What stands out in it; nothing before the first report.
    pub(crate) fn health(&self, declared: &DeclaredLoss) -> Option<LossHealth> {
        if self.latest.is_none() && self.ignored == 0 {
            return None;
        }
        let points = self.thinned(usize::MAX);
        let points: Vec<LossPoint> = points
            .into_iter()
            .map(|(iteration, loss)| LossPoint { iteration, loss, accuracy: None })
            .collect();
        let mut history = LossHistory::default();
        history.report(&points, declared, None);
        Some(LossHealth { ignored: self.ignored, ..history.health() })
    }

    /// At most so many of the points, evenly chosen, the first and the latest among them.
    pub fn thinned(&self, most: usize) -> Vec<(f64, f64)> {
        let left_out = self.latest.filter(|latest| self.points.last().is_some_and(|last| last.0 < latest.0));
        let all: Vec<(f64, f64)> = self.points.iter().copied().chain(left_out).collect();
        if all.len() <= most || most < 2 {
            return all[all.len() - all.len().min(most)..].to_vec();
        }
        (0..most).map(|i| all[i * (all.len() - 1) / (most - 1)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::estimate::LossTrend;
    use trainyard_sched::model::Better;

    use super::*;

    #[test]
    fn a_thinned_curve_begins_and_ends_where_the_reports_do() {
        let mut curve = Curve::default();
        assert_eq!(curve.thinned(5), []);
        for i in 0..1001 {
            curve.add(f64::from(i), 1.0 / f64::from(i + 1));
            for most in [1, 2, 7, 1000] {
                let thinned = curve.thinned(most);
                assert!(thinned.len() <= most && thinned.is_sorted_by(|a, b| a.0 < b.0), "{thinned:?}");
                assert_eq!(thinned.last().unwrap().0, f64::from(i));
                assert!(most == 1 || thinned[0].0 == 0.0, "{thinned:?}");
            }
        }
        // From a checkpoint on, what came after it is told anew.
        curve.add(400.0, 0.5);
        assert_eq!(curve.thinned(3).last(), Some(&(400.0, 0.5)));
    }

    #[test]
    fn the_health_of_a_curve_is_that_of_the_history() {
        let trend = |losses: &mut dyn Iterator<Item = f64>, better: Better| {
            let mut curve = Curve::default();
            losses.enumerate().for_each(|(i, loss)| curve.add(i as f64, loss));
            curve.health(&DeclaredLoss { better, ..DeclaredLoss::default() })
        };
        assert_eq!(trend(&mut std::iter::empty(), Better::Lower), None);
        let falls = || (0..1000).map(|i| 1.0 / f64::from(i + 1));
        let healthy = trend(&mut falls(), Better::Lower).unwrap();
        assert!(healthy.is_healthy() && healthy.trend != LossTrend::Unknown, "{healthy:?}");
        // A falling score has got worse from the beginning.
        assert!(trend(&mut falls(), Better::Higher).unwrap().is_diverging());
        let odd = trend(&mut falls().chain([f64::NAN, f64::INFINITY]), Better::Lower).unwrap();
        assert_eq!((odd.ignored, odd.trend), (2, healthy.trend));
    }
}
