//! How the use of a task wanders around its demand.

use trainyard_sched::estimate::graph_iteration_s;
use trainyard_sched::model::{Parallelism, Seed, TaskId};

use crate::loss::normal;

/// What only the simulator knows of a job that is a graph of tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueGraph {
    /// True computing times, as a multiple of those that the graph declares.
    pub pace: f64,
    /// How the use of its tasks wanders; `None` means that each uses what it demands.
    pub wander: Option<Wander>,
}

impl TrueGraph {
    /// Seconds of one iteration of a graph on one idle node; 0 of what is no graph.
    pub fn idle_iteration_s(&self, shape: &Parallelism) -> f64 {
        match shape {
            Parallelism::TaskGraph(graph) => graph_iteration_s(graph, |_| true, |_| self.pace, |_| 0.0),
            Parallelism::DataParallel(_) => 0.0,
        }
    }
}

/// A use that wanders: demand times `1 + x`, where `x` goes on from minute to minute as an autoregressive process of order
/// one, and the factor stays inside [`Wander::BOUNDS`].
///
/// The innovations are drawn by job, task and minute of the run, so they are the same under every policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wander {
    /// The part of `x` that is left after a minute.
    pub rho: f64,
    /// The standard deviation of `x` in the long run.
    pub deviation: f64,
    /// The seed of the job.
    pub seed: Seed,
}

impl Wander {
    /// A task never uses less or more of its demand.
    pub const BOUNDS: (f64, f64) = (0.5, 1.5);

    /// The factor of a task that begins in this minute.
    pub fn begin(&self, task: TaskId, minute: u64) -> f64 {
        let x = self.deviation * normal(self.of(task).branch("begin").numbered(minute));
        bounded(1.0 + x)
    }

    /// The factor one minute later.
    pub fn next(&self, factor: f64, task: TaskId, minute: u64) -> f64 {
        let innovation = self.deviation * (1.0 - self.rho * self.rho).sqrt();
        let x = self.rho * (factor - 1.0) + innovation * normal(self.of(task).numbered(minute));
        bounded(1.0 + x)
    }

    fn of(&self, task: TaskId) -> Seed {
        self.seed.numbered(u64::from(task.0))
    }
}

fn bounded(factor: f64) -> f64 {
    factor.clamp(Wander::BOUNDS.0, Wander::BOUNDS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wanders_as_far_and_as_slowly_as_was_said() {
        let wander = Wander { rho: 0.9, deviation: 0.2, seed: Seed(7) };
        let mut x = vec![wander.begin(TaskId(3), 0) - 1.0];
        for minute in 1..20_000 {
            x.push(wander.next(x[x.len() - 1] + 1.0, TaskId(3), minute) - 1.0);
        }
        let mean = |f: &dyn Fn(usize) -> f64, count: usize| (0..count).map(f).sum::<f64>() / count as f64;
        let level = mean(&|i| x[i], x.len());
        let variance = mean(&|i| (x[i] - level).powi(2), x.len());
        let lagged = mean(&|i| (x[i] - level) * (x[i + 1] - level), x.len() - 1);
        assert!(level.abs() < 0.03 && (0.17..0.21).contains(&variance.sqrt()), "{level} {variance}");
        assert!((0.87..0.92).contains(&(lagged / variance)), "{}", lagged / variance);
        assert!(x.iter().all(|x| (-0.5..=0.5).contains(x)));
        assert_ne!(wander.begin(TaskId(3), 5), wander.begin(TaskId(4), 5));
    }
}
