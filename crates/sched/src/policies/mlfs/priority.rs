//! Who goes first: the priority of tasks, by what training has to gain from them and by how long they take and wait
//! (MLFS, section 3.3.1, equations 2 to 6).
//!
//! Where we differ: parameter servers have no formula in the paper; they are no dependents of anybody here, and stand directly
//! before the first worker of their job. What is not known of a job is left out of its sum. The sum over dependents grows
//! like (γ · width)^depth, as in the paper; it is held below the largest number there is, so that the order stays one.

use serde::{Deserialize, Serialize};

use crate::model::{TaskGraph, TaskId};

/// What a task has of the priorities of those that depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Dependents {
    /// Their sum, as in the paper.
    #[default]
    Sum,
    /// Their mean, which is bounded whatever the graph.
    Mean,
}

/// The weights of equations 3 to 6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// Of the learning part beside the computing part (α).
    pub(super) alpha: f64,
    /// Of dependents (γ).
    pub(super) gamma: f64,
    /// Of the deadline.
    pub(super) deadline: f64,
    /// Of the remaining time.
    pub(super) remaining: f64,
    /// Of the waiting time.
    pub(super) waiting: f64,
    /// How dependents count.
    pub(super) dependents: Dependents,
    /// Whether urgency multiplies the whole priority instead of its learning part.
    pub(super) urgency_on_total: bool,
}

/// What the tasks of a job have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OfJob {
    /// How urgent it is, at least 1.
    pub(super) urgency: f64,
    /// The current iteration, from 1.
    pub(super) iteration: f64,
    /// What the latest iteration had of all the loss that was taken off so far.
    pub(super) loss_ratio: f64,
}

/// What is known of one task; times are in the unit of time that was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OfTask {
    /// The part of the model that it has.
    pub(super) part: f64,
    /// Until its deadline; nothing if it has none, or if it is over.
    pub(super) slack: Option<f64>,
    /// How long it still runs, if that is known.
    pub(super) remaining: Option<f64>,
    /// How long it has waited.
    pub(super) waited: f64,
}

/// Both parts of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// By what training has to gain (P^ML).
    pub(super) learning: f64,
    /// By time (P^C).
    pub(super) computing: f64,
}

impl Weights {
    /// Equations 2 and 4.
    pub(super) fn base(&self, job: &OfJob, task: &OfTask) -> Parts {
        let urgency = if self.urgency_on_total { 1.0 } else { job.urgency };
        let inverse = |time: Option<f64>| time.map_or(0.0, |time| 1.0 / time);
        Parts {
            learning: urgency / job.iteration * job.loss_ratio * task.part,
            computing: self.deadline * inverse(task.slack)
                + self.remaining * inverse(task.remaining)
                + self.waiting * task.waited,
        }
    }

    /// Equations 3 and 5, in place: from the sinks of the graph to its sources. Without a graph nobody depends on anybody.
    pub(super) fn add_dependents(&self, graph: Option<&TaskGraph>, parts: &mut [Parts]) {
        let Some(graph) = graph else { return };
        for i in (0..parts.len()).rev() {
            let (mut learning, mut computing, mut count) = (0.0, 0.0, 0.0);
            for edge in graph.outputs(TaskId(i as u32)).iter().filter(|edge| !graph.is_server(edge.to)) {
                let dependent = parts[edge.to.index()];
                learning += dependent.learning;
                computing += dependent.computing;
                count += 1.0;
            }
            if count == 0.0 {
                continue;
            }
            let weight = match self.dependents {
                Dependents::Sum => self.gamma,
                Dependents::Mean => self.gamma / count,
            };
            let bounded = |base: f64, sum: f64| (base + weight * sum.min(f64::MAX)).min(f64::MAX);
            parts[i] = Parts {
                learning: bounded(parts[i].learning, learning),
                computing: bounded(parts[i].computing, computing),
            };
        }
    }

    /// Equation 6.
    pub(super) fn total(&self, job: &OfJob, parts: Parts) -> f64 {
        let total = self.alpha * parts.learning + (1.0 - self.alpha) * parts.computing;
        let total = if self.urgency_on_total { job.urgency * total } else { total };
        total.min(f64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Edge, Resources, Task};

    pub(super) const PAPER: Weights = Weights {
        alpha: 0.3,
        gamma: 0.8,
        deadline: 0.3,
        remaining: 0.3,
        waiting: 0.35,
        dependents: Dependents::Sum,
        urgency_on_total: false,
    };

    fn graph(parameters: &[u64], edges: &[(u32, u32)]) -> TaskGraph {
        let task = |parameters: &u64| Task {
            demand: Resources::NONE,
            parameters: *parameters,
            replica: Some(0),
            compute_s: 1.0,
            state_bytes: 0,
        };
        let edge = |(from, to): &(u32, u32)| Edge { from: TaskId(*from), to: TaskId(*to), bytes: 1 };
        let tasks = parameters.iter().map(task).collect();
        TaskGraph::new(tasks, edges.iter().map(edge).collect(), None, false).expect("it is sound")
    }

    /// The diamond of the specification, section 2.2, at t = 2 h.
    fn diamond() -> (TaskGraph, OfJob, [OfTask; 4]) {
        let graph = graph(&[40, 20, 10, 30], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let job = OfJob { urgency: 5.0, iteration: 4.0, loss_ratio: 0.1 / 1.2 };
        let task = |i: u32, deadline: f64, remaining: f64| OfTask {
            part: graph.part(TaskId(i)),
            slack: Some(deadline - 2.0),
            remaining: Some(remaining),
            waited: 0.5,
        };
        let tasks = [task(0, 9.0, 4.0), task(1, 9.5, 4.0), task(2, 9.5, 2.0), task(3, 10.0, 4.0)];
        (graph, job, tasks)
    }

    fn totals(weights: &Weights, graph: &TaskGraph, job: &OfJob, tasks: &[OfTask]) -> Vec<f64> {
        let mut parts: Vec<Parts> = tasks.iter().map(|task| weights.base(job, task)).collect();
        weights.add_dependents(Some(graph), &mut parts);
        parts.iter().map(|parts| weights.total(job, *parts)).collect()
    }

    #[test]
    fn the_worked_example_comes_out() {
        let (graph, job, tasks) = diamond();
        let mut parts: Vec<Parts> = tasks.iter().map(|task| PAPER.base(&job, task)).collect();
        let bases = [(0.041667, 0.292857), (0.020833, 0.29), (0.010417, 0.365), (0.03125, 0.2875)];
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        for (parts, (learning, computing)) in parts.iter().zip(bases) {
            assert!(close(parts.learning, learning) && close(parts.computing, computing), "{parts:?}");
        }
        PAPER.add_dependents(Some(&graph), &mut parts);
        let whole = [(0.106667, 1.184857), (0.045833, 0.52), (0.035417, 0.595), (0.03125, 0.2875)];
        for (parts, (learning, computing)) in parts.iter().zip(whole) {
            assert!(close(parts.learning, learning) && close(parts.computing, computing), "{parts:?}");
        }
        let totals = totals(&PAPER, &graph, &job, &tasks);
        let expected = [0.8614, 0.37775, 0.427125, 0.210625];
        assert!(totals.iter().zip(expected).all(|(total, expected)| close(*total, expected)), "{totals:?}");
    }

    #[test]
    fn a_chain_and_wide_layers_grow_as_they_must() {
        let job = OfJob { urgency: 1.0, iteration: 1.0, loss_ratio: 1.0 };
        let root = |weights: &Weights, graph: &TaskGraph, tasks: usize| {
            let mut parts = vec![Parts { learning: 1.0, computing: 1.0 }; tasks];
            weights.add_dependents(Some(graph), &mut parts);
            assert_eq!(parts[0].learning, parts[0].computing);
            parts[0].learning
        };
        let chain: Vec<(u32, u32)> = (0..7).map(|i| (i, i + 1)).collect();
        let chain = graph(&[1; 8], &chain);
        // The sum of 0.8^i for i from 0 to 7, rounded as in the specification.
        assert!((root(&PAPER, &chain, 8) - 4.2).abs() < 0.05);
        let sum: f64 = (0..8).map(|i| 0.8_f64.powi(i)).sum();
        assert!((root(&PAPER, &chain, 8) - sum).abs() < 1e-12);
        let layered = |width: u32, depth: u32| {
            let layer = |i: u32| {
                (0..width * width).map(move |j| (i * width + j / width, (i + 1) * width + j % width))
            };
            graph(&vec![1; (width * depth) as usize], &(0..depth - 1).flat_map(layer).collect::<Vec<_>>())
        };
        let sum = root(&PAPER, &layered(4, 8), 32);
        assert!((sum - 4997.0).abs() < 1.0, "{sum}");
        let mean = root(&Weights { dependents: Dependents::Mean, ..PAPER }, &layered(4, 8), 32);
        assert!(mean < 5.0 && mean > 4.0, "{mean}");
        let _ = job;
        let huge = layered(40, 220);
        let mut parts = vec![Parts { learning: 1.0, computing: 1.0 }; 8800];
        PAPER.add_dependents(Some(&huge), &mut parts);
        let totals = parts.iter().map(|parts| PAPER.total(&job, *parts));
        assert!(totals.into_iter().all(f64::is_finite), "the order stays one");
    }

    proptest::proptest! {
        /// S2: what makes a task more important raises its priority, all else fixed.
        #[test]
        fn priorities_move_the_right_way(
            urgency in 1.0_f64..10.0, iteration in 1.0_f64..200.0, loss_ratio in 0.01_f64..0.9,
            part in 0.01_f64..0.9, slack in 0.1_f64..50.0, remaining in 0.1_f64..50.0, waited in 0.0_f64..50.0,
            more in 1.01_f64..3.0, on_total in proptest::bool::ANY, mean in proptest::bool::ANY,
        ) {
            let dependents = if mean { Dependents::Mean } else { Dependents::Sum };
            let weights = Weights { urgency_on_total: on_total, dependents, ..PAPER };
            let job = OfJob { urgency, iteration, loss_ratio };
            let task = OfTask { part, slack: Some(slack), remaining: Some(remaining), waited };
            let of = |job: &OfJob, task: &OfTask| weights.total(job, weights.base(job, task));
            let own = of(&job, &task);
            let higher = [
                of(&OfJob { urgency: urgency * more, ..job }, &task),
                of(&OfJob { loss_ratio: loss_ratio * more, ..job }, &task),
                of(&job, &OfTask { part: part * more, ..task }),
                of(&job, &OfTask { waited: waited + more, ..task }),
            ];
            let lower = [
                of(&OfJob { iteration: iteration * more, ..job }, &task),
                of(&job, &OfTask { slack: Some(slack * more), ..task }),
                of(&job, &OfTask { slack: None, ..task }),
                of(&job, &OfTask { remaining: Some(remaining * more), ..task }),
                of(&job, &OfTask { remaining: None, ..task }),
            ];
            proptest::prop_assert!(higher.iter().all(|other| *other > own), "{:?} {}", higher, own);
            proptest::prop_assert!(lower.iter().all(|other| *other < own), "{:?} {}", lower, own);
            let star = |leaves: u32| graph(&vec![1; 1 + leaves as usize], &(1..=leaves).map(|i| (0, i)).collect::<Vec<_>>());
            let root = |leaves: u32| totals(&weights, &star(leaves), &job, &vec![task; 1 + leaves as usize])[0];
            proptest::prop_assert!(root(1) > root(0));
            proptest::prop_assert!(mean || root(2) > root(1));
        }

        /// S9: each weight that is nought takes its part away.
        #[test]
        fn what_has_no_weight_does_not_count(a in 0.1_f64..9.0, b in 0.1_f64..9.0) {
            let (graph, job, tasks) = diamond();
            let changed = |change: &dyn Fn(&mut OfTask)| {
                let mut tasks = tasks;
                tasks.iter_mut().for_each(change);
                tasks
            };
            let alone = totals(&Weights { gamma: 0.0, ..PAPER }, &graph, &job, &tasks);
            for (total, task) in alone.iter().zip(&tasks) {
                proptest::prop_assert_eq!(*total, PAPER.total(&job, PAPER.base(&job, task)));
            }
            let other = OfJob { urgency: a, iteration: b, loss_ratio: a / 9.0 };
            let no_learning = Weights { alpha: 0.0, ..PAPER };
            proptest::prop_assert_eq!(totals(&no_learning, &graph, &job, &tasks), totals(&no_learning, &graph, &other, &tasks));
            let late = changed(&|task| *task = OfTask { slack: Some(a), remaining: Some(b), waited: a, ..*task });
            let no_time = Weights { alpha: 1.0, ..PAPER };
            proptest::prop_assert_eq!(totals(&no_time, &graph, &job, &tasks), totals(&no_time, &graph, &job, &late));
            for (weights, change) in [
                (Weights { deadline: 0.0, ..PAPER }, &(|task: &mut OfTask| task.slack = Some(a)) as &dyn Fn(&mut OfTask)),
                (Weights { remaining: 0.0, ..PAPER }, &|task: &mut OfTask| task.remaining = Some(a)),
                (Weights { waiting: 0.0, ..PAPER }, &|task: &mut OfTask| task.waited = a),
            ] {
                let changed = totals(&weights, &graph, &job, &changed(change));
                proptest::prop_assert_eq!(totals(&weights, &graph, &job, &tasks), changed);
            }
        }
    }
}
