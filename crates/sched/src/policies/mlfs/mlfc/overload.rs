//! Whether the cluster is overloaded (MLFS, section 3.5): somebody waits, or servers are busy beyond a threshold.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{JobId, NodeState, Parallelism, Resources, Span, UNLIMITED};
use crate::place::largest_gang;
use crate::rank::Shape;
use crate::view::{JobView, Snapshot};

/// Shapes that are remembered; each graph of tasks is one of its own.
const MOST_SHAPES: usize = 4096;

/// Who could be in the queue, so that not all jobs are asked.
#[derive(Debug, Default)]
pub(super) struct Queued {
    /// Jobs that hold nothing, or less than all of their tasks.
    idle: BTreeSet<JobId>,
    /// Whether a shape fits the idle cluster.
    fits: BTreeMap<Shape, bool>,
}

impl Queued {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.idle.clear();
        self.fits.clear();
    }

    /// A job came, went or changed.
    pub(super) fn note(&mut self, id: JobId, view: Option<&JobView>) {
        if view.is_some_and(|view| view.held.is_none() || is_incomplete(view)) {
            self.idle.insert(id);
        } else {
            self.idle.remove(&id);
        }
    }

    /// Whether a job or a task of one is in the queue. One that came no longer ago than `round` is not waiting yet, as a policy
    /// with rounds could not have placed it before; neither is one that fits nowhere, or that keeps away from a node on which it failed: it would wait on an idle cluster, too.
    pub(super) fn somebody_waits(&mut self, seen: &Snapshot, round: Span) -> bool {
        let Self { idle, fits } = self;
        if fits.len() > MOST_SHAPES {
            fits.clear();
        }
        idle.iter().filter_map(|id| seen.job(*id)).any(|view| {
            let waits = view.held.is_none() && view.target.is_none();
            let backs_off = view.shuns.is_some_and(|(_, until)| until > seen.at);
            let is_queued =
                is_incomplete(view) || (waits && seen.at > view.served.changed + round && !backs_off);
            is_queued && *fits.entry(Shape::of(&view.job)).or_insert_with(|| fits_idle(seen, view))
        })
    }
}

fn fits_idle(seen: &Snapshot, view: &JobView) -> bool {
    let least = view.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
    largest_gang(&seen.cluster, &view.job.shape, &view.job.wanted) >= least
}

/// Whether some tasks of a job have a place and others have none.
fn is_incomplete(view: &JobView) -> bool {
    let Parallelism::TaskGraph(graph) = &view.job.shape else { return false };
    view.target.is_some() && view.target.placements().len() < graph.tasks().len()
}

/// The overload degree of the cluster: the mean over its servers of the norm of what is used of each resource, in parts of
/// what there is. Resources that are not tracked, or of which there is none, do not count, and neither do servers that are
/// down. `normalised` divides each norm by the greatest that it has when everything is used once.
pub(super) fn degree(seen: &Snapshot, normalised: bool) -> f64 {
    let mut used = vec![[0.0_f64; 4]; seen.cluster.nodes.len()];
    for view in seen.jobs().filter(|view| view.held.is_some()) {
        for placement in view.held.placements() {
            let one = used_by_one(view, placement.task);
            for (sum, each) in used[placement.node.index()].iter_mut().zip(one) {
                *sum += each * f64::from(placement.count);
            }
        }
    }
    let up = seen.cluster.nodes.iter().zip(&used).filter(|(node, _)| node.state != NodeState::Down);
    let (mut sum, mut count) = (0.0, 0.0_f64);
    for (node, used) in up {
        let tracked = |(_, holds): &(&f64, u64)| *holds > 0 && *holds != UNLIMITED;
        let parts = used.iter().zip(node.holds.amounts()).filter(tracked);
        let parts: smallvec::SmallVec<[f64; 4]> = parts.map(|(used, holds)| used / holds as f64).collect();
        sum += norm(&parts, normalised);
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// What one instance of a task uses. Reports are of all its instances together.
fn used_by_one(view: &JobView, task: crate::model::TaskId) -> [f64; 4] {
    let amounts = |of: Resources| of.amounts().map(|amount| amount as f64);
    match view.used.of(task) {
        Some(all) => amounts(all).map(|amount| amount / f64::from(view.held.count_of(task).max(1))),
        None => amounts(view.job.shape.demand_of(task).unwrap_or_default()),
    }
}

/// The length of a vector; in parts of that of a vector of ones, if `normalised`.
fn norm(parts: &[f64], normalised: bool) -> f64 {
    let length = parts.iter().map(|part| part * part).sum::<f64>().sqrt();
    if normalised && !parts.is_empty() { length / (parts.len() as f64).sqrt() } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degree_is_that_of_the_worked_example() {
        let used = [0.9, 0.5, 0.5, 0.3];
        assert!((norm(&used, false) - 1.183_216).abs() < 1e-6);
        assert!((norm(&used, true) - 0.591_608).abs() < 1e-6);
        assert_eq!(norm(&[], true), 0.0);
    }
}
