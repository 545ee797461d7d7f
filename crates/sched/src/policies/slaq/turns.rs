//! Who holds its least where not everybody can: first those that never ran, then those that have waited longest, then those
//! that run (specification A2.6; the paper does not say what happens with more jobs than cores).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decide::{Plan, Reason, Verdict};
use crate::model::{Job, JobId, PriorityClass, Time};
use crate::place::Rule;
use crate::rank::Shape;
use crate::view::{JobView, Phase};

/// The place of a job in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    class: Reverse<PriorityClass>,
    stage: Stage,
    /// Since when it is at this stage.
    since: Time,
    pub(super) id: JobId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    NeverRan,
    Paused,
    Runs,
}

impl Turn {
    pub(super) fn of(view: &JobView, at: Time) -> Self {
        let (stage, since) = match view.served.first_held {
            _ if view.target.is_some() => (Stage::Runs, view.job.submitted),
            None => (Stage::NeverRan, view.job.submitted),
            // Who is still being stopped has been served until now.
            Some(_) if view.phase == Phase::Waiting => (Stage::Paused, view.served.changed),
            Some(_) => (Stage::Paused, at),
        };
        Self { class: Reverse(view.job.goals.class), stage, since, id: view.id() }
    }
}

/// Jobs that want their least, and jobs that could give theirs up.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: Vec<(Turn, Arc<Job>)>,
    /// By turn, the last one first.
    running: Vec<(Turn, Arc<Job>)>,
    /// Jobs of which nothing was said yet, or something else.
    fresh: BTreeSet<JobId>,
}

impl Turns {
    pub(super) fn new(
        mut waiting: Vec<(Turn, Arc<Job>)>,
        mut running: Vec<(Turn, Arc<Job>)>,
        fresh: BTreeSet<JobId>,
    ) -> Self {
        waiting.sort_unstable_by_key(|(turn, _)| *turn);
        running.sort_unstable_by_key(|(turn, _)| Reverse(*turn));
        Self { waiting, running, fresh }
    }

    /// Whether anybody waits who would not fit as things are. Those who fit are placed.
    pub(super) fn place_who_fit(&mut self, plan: &mut Plan, rule: Rule) -> Vec<JobId> {
        let mut stuck: BTreeSet<Shape> = BTreeSet::new();
        let mut placed = Vec::new();
        let mut alone = true;
        self.waiting.retain(|(turn, job)| {
            let shape = Shape::of(job);
            // As soon as one of a shape has to wait, later ones of another shape might take what it needs.
            if alone && !stuck.contains(&shape) && plan.place_least(job, rule) {
                placed.push(turn.id);
                plan.say(turn.id, Verdict::Run(Reason::Chosen));
                return false;
            }
            alone &= plan.keeps_away(job.id);
            stuck.insert(shape);
            true
        });
        placed
    }

    pub(super) fn is_anybody_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Walks those who wait in their order; whoever does not fit takes the place of those whose turn comes later, the
    /// last one first. In the end everybody who fits what is left has it. Returns who was placed, and says why the others
    /// are not.
    pub(super) fn rotate(mut self, plan: &mut Plan, rule: Rule) -> Vec<JobId> {
        let mut placed = Vec::new();
        let mut stuck: BTreeSet<Shape> = BTreeSet::new();
        let mut paused: Vec<(Turn, Arc<Job>, JobId)> = Vec::new();
        let mut still = Vec::new();
        let mut running = std::mem::take(&mut self.running);
        for (turn, job) in self.waiting {
            let shape = Shape::of(&job);
            let fits = !stuck.contains(&shape) && displace(plan, rule, turn, &job, &mut running, &mut paused);
            if fits {
                placed.push(turn.id);
                plan.say(turn.id, Verdict::Run(Reason::Chosen));
                continue;
            }
            if !plan.keeps_away(job.id) {
                stuck.insert(shape);
            }
            still.push((turn, job));
        }
        let turn_over: BTreeMap<JobId, JobId> = paused.iter().map(|(turn, _, by)| (turn.id, *by)).collect();
        still.extend(paused.into_iter().map(|(turn, job, _)| (turn, job)));
        still.sort_unstable_by_key(|(turn, _)| *turn);
        fill(plan, rule, &still, (&turn_over, &self.fresh), &mut placed);
        placed
    }
}

/// Places a job in the room of those whose turn comes after its own, or changes nothing.
fn displace(
    plan: &mut Plan,
    rule: Rule,
    turn: Turn,
    job: &Arc<Job>,
    running: &mut Vec<(Turn, Arc<Job>)>,
    paused: &mut Vec<(Turn, Arc<Job>, JobId)>,
) -> bool {
    let mut taken = 0;
    while !plan.place_least(job, rule) {
        let Some((_, victim)) = running.get(taken).filter(|(later, _)| *later > turn) else {
            for (_, victim) in running[..taken].iter().rev() {
                let back = plan.undo_evict(victim);
                assert!(back, "what was taken a moment ago is still free");
            }
            return false;
        };
        plan.evict(victim.id);
        taken += 1;
    }
    // What was taken too much goes back, the first taken last.
    for (later, victim) in running.drain(..taken) {
        paused.push((later, victim, job.id));
    }
    true
}

/// Gives room that is left to those still without any, in their order, and says why the others have none.
fn fill(
    plan: &mut Plan,
    rule: Rule,
    still: &[(Turn, Arc<Job>)],
    (turn_over, fresh): (&BTreeMap<JobId, JobId>, &BTreeSet<JobId>),
    placed: &mut Vec<JobId>,
) {
    let mut first: BTreeMap<Shape, JobId> = BTreeMap::new();
    for (turn, job) in still {
        let paused_by = turn_over.get(&turn.id);
        if paused_by.is_some() && plan.undo_evict(job) {
            continue;
        }
        let shape = Shape::of(job);
        let ahead = first.get(&shape).copied();
        if ahead.is_none() && plan.place_least(job, rule) {
            placed.push(turn.id);
            plan.say(turn.id, Verdict::Run(Reason::Chosen));
            continue;
        }
        // Graphs are shapes of their own: what was said of one that still waits stands.
        if paused_by.is_none() && !fresh.contains(&turn.id) && job.shape.data_parallel().is_none() {
            continue;
        }
        let verdict = match (paused_by, ahead) {
            (Some(by), _) => Verdict::Yield(Reason::TurnOver { by: *by }),
            (None, Some(ahead)) => Verdict::Wait(Reason::Behind { ahead }),
            (None, None) => Verdict::Wait(match plan.backs_off(job, rule) {
                Some(until) => Reason::Backoff { until },
                None => Reason::NoCapacity(plan.no_room(job)),
            }),
        };
        if !plan.keeps_away(job.id) {
            first.entry(shape).or_insert(turn.id);
        }
        plan.say(turn.id, verdict);
    }
}
