//! What is known of a job that matters to the priority of its tasks: loss, iterations, deadline and time.
//!
//! A task is a persistent worker, so all tasks of a job run as long as the job does, and what remains is remaining iterations
//! times the time of one: as measured where the job runs, else as measured last, else as declared, else as its graph takes on
//! idle devices. The deadline of a task is that of the job less what comes after the task: the iterations after this one, and
//! the longest path behind it. A time below one round counts as a round, and a deadline that is over counts no more.

use crate::estimate::LossHistory;
use crate::model::{GPU, TaskId, Time};
use crate::view::{JobView, Phase};

use super::member::Member;
use super::memory::Memory;
use super::parameters::{Parameters, RankBy, Remaining};
use super::priority::{OfJob, OfTask};

/// What the latest iteration had of all the loss that was taken off so far; 1 while nothing is known.
pub(super) fn loss_ratio(losses: &LossHistory, iteration: f64) -> f64 {
    let points = losses.points();
    let [.., before, last] = points else { return 1.0 };
    if iteration <= 2.0 {
        return 1.0;
    }
    let fell = |from: f64, to: f64| (from - to).max(0.0);
    let all: f64 = points.windows(2).map(|pair| fell(pair[0].loss, pair[1].loss)).sum();
    let latest = fell(before.loss, last.loss) / (last.iteration - before.iteration).max(1.0);
    let ratio = latest / all.max(1e-12);
    if ratio.is_finite() { ratio.clamp(0.0, 1.0) } else { 1.0 }
}

/// What the tasks of a job have in common.
pub(super) fn of_job(view: &JobView, now: Time, parameters: &Parameters) -> OfJob {
    let iteration = view.iterations(now).max(0.0).floor() + 1.0;
    let urgency = if parameters.urgency { f64::from(view.job.goals.urgency.0).max(1.0) } else { 1.0 };
    OfJob { urgency, iteration, loss_ratio: loss_ratio(&view.losses, iteration) }
}

/// Seconds of one iteration.
fn iteration_s(view: &JobView, member: &Member) -> Option<f64> {
    let per_s = if view.phase == Phase::Running && view.done.speed > 0.0 {
        Some(view.done.speed)
    } else {
        view.speeds.points().last().map(|point| point.iterations_per_s)
    };
    let declared = || view.job.declared.iteration.map(|each| each.as_secs_f64());
    let idle = || Some(member.idle_s).filter(|idle| *idle > 0.0);
    per_s.filter(|per_s| *per_s > 0.0).map(|per_s| 1.0 / per_s).or_else(declared).or_else(idle)
}

/// Seconds that a job still runs, and of those the ones after the current iteration.
fn remaining_s(view: &JobView, member: &Member, now: Time) -> (Option<f64>, f64) {
    let done = view.iterations(now);
    if let (Some(all), Some(each_s)) = (view.job.goal(), iteration_s(view, member)) {
        let after = (all - done.floor() - 1.0).max(0.0);
        return (Some((all - done).max(0.0) * each_s), after * each_s);
    }
    let limit = view.job.declared.limit.map(|limit| limit.saturating_sub(view.executed(now)).as_secs_f64());
    (limit, limit.unwrap_or(0.0))
}

/// What is known of each task of a job, in their order; a gang without a graph is one.
pub(super) fn of_tasks(
    view: &JobView,
    member: &Member,
    now: Time,
    parameters: &Parameters,
    add: &mut dyn FnMut(OfTask),
) {
    let (unit_s, tick_s) = (parameters.time_unit.seconds(), parameters.round_s);
    let (left_s, after_s) = remaining_s(view, member, now);
    let to_end_s = view.job.goals.deadline.filter(|end| *end > now).map(|end| end.since(now).as_secs_f64());
    let slack = |tail_s: f64| to_end_s.map(|to_end_s| (to_end_s - after_s - tail_s).max(tick_s) / unit_s);
    let gpus = match (parameters.remaining_in, parameters.rank_by) {
        (Remaining::Time, RankBy::Priority) => 1.0,
        (Remaining::GpuTime, _) | (_, RankBy::Finishing) => {
            let gpu_milli = view.job.shape.minimum().gpu_milli;
            if gpu_milli == 0 { 1.0 } else { gpu_milli as f64 / GPU as f64 }
        }
    };
    let remaining = left_s.map(|left_s| left_s.max(tick_s) * gpus / unit_s);
    let memory = Memory::of(view);
    let waited =
        |replica: usize, is_placed: bool| memory.waited(view, replica, is_placed, now).as_secs_f64() / unit_s;
    let Some(graph) = member.graph() else {
        let waited = waited(0, view.target.is_some());
        return add(OfTask { part: 1.0, slack: slack(0.0), remaining, waited });
    };
    let replicas = graph.replicas();
    let placed = member.placed_replicas();
    let waits: Vec<f64> = placed.iter().enumerate().map(|(i, placed)| waited(i, *placed)).collect();
    for (i, task) in graph.tasks().iter().enumerate() {
        let place = task.replica.and_then(|replica| replicas.binary_search(&replica).ok());
        add(OfTask {
            part: graph.part(TaskId(i as u32)),
            slack: slack(member.tails_s[i]),
            remaining,
            waited: place.map_or(0.0, |place| waits[place]),
        });
    }
}
