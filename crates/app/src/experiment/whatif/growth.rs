//! How many more nodes keep the bounds: the search of `search`, each number simulated in all replicates.

use std::collections::BTreeMap;

use trainyard_sched::model::Seed;
use trainyard_sim::workload::Workload;

use super::answer::{Attempt, Search};
use super::search::{Tried, smallest};
use super::{Context, Goal, Kind, World, enough_for_all};
use crate::experiment::measure::Measured;
use crate::failure::Failure;
use crate::statistics::Estimate;

/// One search for the policy of today and for each other policy, on top of all other changes.
pub(super) fn search(
    context: &Context<'_>,
    goal: &Goal,
    worlds: &[World],
    workload: &Workload,
) -> Result<Vec<Search>, Failure> {
    let question = context.question;
    let policies = worlds.iter().filter(|world| matches!(world.kind, Kind::Today | Kind::Policy));
    let changes = worlds.iter().filter(|world| matches!(world.kind, Kind::Add | Kind::Remove | Kind::Load));
    let on_top_of: Vec<String> = changes.map(|world| world.name.clone()).collect();
    let factor = question.load.unwrap_or(1.0).max(1.0).ceil() as u32;
    let enough = enough_for_all(workload, &goal.node).saturating_mul(factor);
    let one = |world: &World| {
        let world = World {
            load: question.load,
            add: question.add.clone(),
            remove: question.remove.clone(),
            ..world.clone()
        };
        search_one(context, goal, &world, on_top_of.clone(), enough)
    };
    policies.map(one).collect()
}

fn search_one(
    context: &Context<'_>,
    goal: &Goal,
    world: &World,
    on_top_of: Vec<String>,
    enough: u32,
) -> Result<Search, Failure> {
    let mut tried = BTreeMap::new();
    let mut last_runs = Vec::new();
    let found = smallest(goal.most.min(enough), |nodes| {
        let mut larger = world.clone();
        if nodes > 0 {
            larger.add.push(goal.node.times(nodes));
        }
        let runs = context.run_all(&[larger])?.swap_remove(0);
        let attempt = judge(goal, nodes, &runs, context.question.inputs.seed);
        let is_enough = attempt.is_enough;
        tried.insert(nodes, attempt);
        let only_run_time_is_left = only_run_time_is_left(&runs);
        last_runs = runs;
        Ok::<_, Failure>(match is_enough {
            true => Tried::Enough,
            false if only_run_time_is_left => Tried::Hopeless,
            false => Tried::TooLittle,
        })
    })?;
    let hindered_by = found.answer.is_none().then(|| hindrance(goal, &last_runs, found.looked_up_to, enough));
    Ok(Search {
        node: goal.node.to_string(),
        policy: world.policy.label(),
        on_top_of,
        bounds: goal.bounds.clone(),
        nodes: found.answer,
        looked_up_to: found.looked_up_to,
        is_uneven: found.is_uneven,
        hindered_by: hindered_by.flatten(),
        tried: tried.into_values().collect(),
    })
}

/// Whether the means over the replicates keep the bounds.
fn judge(goal: &Goal, nodes: u32, runs: &[Measured], seed: u64) -> Attempt {
    let estimate = |metric: &crate::config::Metric| {
        let values: Vec<Option<f64>> = runs.iter().map(|run| (metric.of)(&run.summary)).collect();
        Estimate::of(&values, Seed(seed).branch("search").branch(metric.key).numbered(u64::from(nodes)))
    };
    let metrics: BTreeMap<&'static str, Estimate> =
        goal.bounds.iter().map(|bound| (bound.metric.key, estimate(bound.metric))).collect();
    let is_enough = goal.bounds.iter().all(|bound| bound.holds(metrics[bound.metric.key].mean));
    Attempt { nodes, gpus: nodes * goal.node.gpus, is_enough, metrics }
}

/// Whether no job waits and none is impossible, so that more nodes of the kind change nothing. An impossible job may
/// well become possible with more of them.
fn only_run_time_is_left(runs: &[Measured]) -> bool {
    let is_served =
        |run: &Measured| run.waited_s == 0.0 && run.summary.censored == 0 && run.summary.impossible == 0;
    runs.iter().all(is_served)
}

/// Why the largest number that was tried does not help.
fn hindrance(goal: &Goal, runs: &[Measured], nodes: u32, enough: u32) -> Option<String> {
    if only_run_time_is_left(runs) {
        return Some("no job waits any more there, so what is left is the jobs' own run time".to_owned());
    }
    let impossible = runs.iter().map(|run| run.summary.impossible).max().unwrap_or_default();
    if impossible > 0 {
        return Some(format!("{impossible} jobs cannot run on such nodes or any others there"));
    }
    if runs.iter().any(|run| run.summary.unstable) {
        return Some("the queue keeps growing even there, so there are no means".to_owned());
    }
    let absent =
        goal.bounds.iter().find(|bound| runs.iter().any(|run| (bound.metric.of)(&run.summary).is_none()));
    if let Some(bound) = absent {
        return Some(format!("there is no {} to bound: no job was completed", bound.metric.key));
    }
    (nodes >= enough).then(|| {
        "every job could have such nodes for itself there, so jobs cannot use them or wait for another reason".to_owned()
    })
}
