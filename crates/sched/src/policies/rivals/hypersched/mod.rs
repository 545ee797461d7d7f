//! HyperSched across jobs: those that gain least accuracy pause, those that gain most go on and grow (`hypersched`).
//!
//! # Idea
//! Whenever a job passes a rung, 1, 4, 16, 64 ... iterations, it is asked how much accuracy it is going to gain until its
//! deadline for an hour of a GPU. If three quarters of the jobs of its kind had more to gain at that rung, and somebody waits,
//! it pauses. New jobs start as they came; paused ones go on when there is room, the best first. Spare room goes to running jobs
//! in turn, the best first, where it pays.
//!
//! # Source
//! Liaw et al., HyperSched, SoCC 2019, and the constants of its public code. That is about many trials of one experiment with
//! one deadline. MLFS (CoNEXT 2020) runs it across jobs and says only that it pauses jobs that do not gain accuracy and gives to
//! those that gain most before their deadlines; the rest is adapted as in the specification of this project (`mlfs`, 3.6).
//!
//! # What it sees
//! Reported accuracies, or losses where there are none; deadlines, declared lengths and speeds. Nobody is asked who reports
//! nothing.
//!
//! # Parameters
//! `grace`, `factor`: the first rung, in iterations, and from one rung to the next. `percentile`: who is below pauses, if at
//! least `factor` jobs were asked at the rung. `reallocate`: a running job is given more only if it comes more than so many times
//! as far until its deadline, the time of a new start taken off. `results`: and not before so many iterations after it was last
//! given more. `placement`: the rule. `round_s`: how often the queue is looked at when nothing happens.
//!
//! # Where we differ
//! A job is compared with jobs of its model that are still there. Its gain is a part of the accuracy that it ends with, so that
//! models compare; it is what a fitted mixture of curves says, or before four reports the logarithm. The public code admits no
//! trial that is too late for the one deadline; here such jobs, new or paused, come after those with time left, and none is
//! ended, as completion is measured. Nobody pauses if nobody waits. Priority classes come before everything.

mod gain;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Abilities, Ahead, Entry, PLACEMENT, Parameter, ROUND_S, Reason, Suits, Verdict, counted, defaults,
    numbered, parameters,
};
use crate::model::{Job, JobId, ModelId, PriorityClass, Time};
use crate::place::Rule;
use crate::rank::ordered;
use crate::view::{JobView, Snapshot};

use super::desk::{Desk, Least, Turn, by_submission, can_change, grow, is_elastic, more_of, units_of};
use super::seat::{Rival, Seated};
use gain::{Memory, Rungs, gain_per_gpu_hour, is_late, pays, percentile};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    round_s: f64,
    grace: f64,
    factor: f64,
    percentile: f64,
    reallocate: f64,
    results: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            placement: Rule::Fill,
            round_s: 60.0,
            grace: 1.0,
            factor: 4.0,
            percentile: 0.75,
            reallocate: 1.1,
            results: 5,
        }
    }
}

/// What their parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    numbered("factor", "", (1.1, 1e6), "from one rung to the next"),
    numbered("grace", "iterations", (0.001, 1e9), "the first rung"),
    numbered("percentile", "", (0.0, 1.0), "who gains less than this part of its like pauses"),
    PLACEMENT,
    numbered("reallocate", "", (1.0, 1e6), "more is given where a job comes so many times as far by it"),
    counted("results", "iterations", (0, 1_000_000), "from one time that a job is given more to the next"),
    ROUND_S,
];

struct HyperSched {
    parameters: Parameters,
    desk: Desk,
    memories: BTreeMap<JobId, (Option<ModelId>, Memory)>,
    elastic: BTreeSet<JobId>,
}

/// The place of a job that wants to run: class, how it stands, what it gains, when it came.
type Place = (Reverse<PriorityClass>, Standing, Reverse<u64>, Turn);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    New,
    Paused,
    Late,
}

impl HyperSched {
    fn new(parameters: Parameters) -> Self {
        let desk = Desk::new(parameters.placement, Least::Replica, by_submission);
        Self { parameters, desk, memories: BTreeMap::new(), elastic: BTreeSet::new() }
    }

    fn follow(&mut self, seen: &Snapshot) {
        let (rebuilt, changed) = self.desk.follow(seen);
        if rebuilt {
            self.memories.clear();
            self.elastic.clear();
        }
        for id in changed {
            self.elastic.remove(&id);
            self.memories.remove(&id);
            let Some(view) = seen.job(id) else { continue };
            if self.desk.plan.target(id).is_some() && is_elastic(&view.job) {
                self.elastic.insert(id);
            }
            if !view.note.0.is_empty() {
                self.memories.insert(id, (view.job.model, Memory::read(&view.note)));
            }
        }
    }

    fn memory(&self, id: JobId) -> Memory {
        self.memories.get(&id).map(|(_, memory)| memory.clone()).unwrap_or_default()
    }

    fn remember(&mut self, job: &Job, memory: Memory) {
        // What is remembered is what is written down, to the last digit.
        let note = memory.note();
        self.memories.insert(job.id, (job.model, Memory::read(&note)));
        self.desk.plan.note(job.id, note);
    }

    /// Who has something from now on is not paused, and may grow.
    fn settle(&mut self, seen: &Snapshot, job: &Arc<Job>, stays: bool) {
        if self.desk.plan.target(job.id).is_none() {
            return;
        }
        let memory = self.memory(job.id);
        if memory.is_paused {
            let done = seen.job(job.id).map_or(0.0, |view| view.iterations(seen.at));
            let given_at = if stays { memory.given_at } else { done as i64 };
            self.remember(job, Memory { is_paused: false, given_at, ..memory });
        }
        if is_elastic(job) {
            self.elastic.insert(job.id);
        }
    }

    fn place(&self, turn: Turn, job: &Job, now: Time) -> Place {
        let memory = self.memory(job.id);
        let standing = match (is_late(job, now), memory.is_paused) {
            (true, _) => Standing::Late,
            (false, true) => Standing::Paused,
            (false, false) => Standing::New,
        };
        let gain = memory.latest().filter(|_| memory.is_paused);
        (turn.0, standing, Reverse(gain.map_or(0, ordered)), turn)
    }

    /// Asks the running jobs that have passed a rung what they are going to gain. Returns those that gain less than most.
    fn ask_at_rungs(&mut self, seen: &Snapshot) -> Vec<JobId> {
        let Parameters { grace, factor, .. } = self.parameters;
        let running: Vec<JobId> = self.desk.plan.running().map(|(id, ..)| id).collect();
        let mut asked = Vec::new();
        for view in running.into_iter().filter_map(|id| seen.job(id)) {
            let passed = Rungs { grace, factor }.passed(view.iterations(seen.at));
            let mut memory = self.memory(view.id());
            if passed > memory.rungs.len() {
                memory.rungs.resize(passed, gain_per_gpu_hour(view, seen.at));
                asked.push((view.id(), passed - 1));
                self.remember(&view.job, memory);
            }
        }
        asked.into_iter().filter(|(id, rung)| self.is_below(*id, *rung)).map(|(id, _)| id).collect()
    }

    /// Whether a job gains less than most of its kind did at a rung.
    fn is_below(&self, id: JobId, rung: usize) -> bool {
        let at = |memory: &Memory| memory.rungs.get(rung).copied().flatten();
        let Some((model, own)) = self.memories.get(&id) else { return false };
        let Some(own) = at(own) else { return false };
        let alike = self.memories.values().filter(|(other, _)| other == model);
        let mut gains: Vec<f64> = alike.filter_map(|(_, memory)| at(memory)).collect();
        gains.len() as f64 >= self.parameters.factor
            && own < percentile(&mut gains, self.parameters.percentile)
    }

    /// Pauses jobs, if anybody waits for what they have.
    fn pause(&mut self, seen: &Snapshot, below: &[JobId]) -> BTreeSet<JobId> {
        if below.is_empty() {
            return BTreeSet::new();
        }
        let waiting = self.desk.all_waiting();
        let first = |class| {
            let rivals = waiting.iter().filter(|(_, other)| other.goals.class >= class);
            rivals.min_by_key(|(turn, other)| self.place(*turn, other, seen.at)).map(|(_, other)| other.id)
        };
        let pausing: Vec<(JobId, JobId)> = below
            .iter()
            .filter_map(|id| seen.job(*id))
            .filter(|view| can_change(view))
            .filter_map(|view| Some((view.id(), first(view.job.goals.class)?)))
            .collect();
        for (id, by) in &pausing {
            let view = seen.job(*id).expect("a running job is in the snapshot");
            self.desk.pause(view, Reason::Outranked { by: *by });
            self.elastic.remove(id);
            // It stands with the paused from now on.
            if let Some((_, memory)) = self.memories.get_mut(id) {
                memory.is_paused = true;
            }
        }
        pausing.into_iter().map(|(id, _)| id).collect()
    }

    /// Spare room goes to running jobs in turn, those that gain most first.
    fn grow(&mut self, seen: &Snapshot) {
        let Parameters { placement: rule, reallocate, results, .. } = self.parameters;
        let may_grow = |id: &JobId| {
            let view = seen.job(*id).expect("a job with a target is in the snapshot");
            let memory = self.memory(*id);
            let is_new = view.target.is_none();
            let rested = view.iterations(seen.at) as i64 - memory.given_at >= i64::from(results);
            let gain = memory.latest().map_or(0, ordered);
            let place = (Reverse(view.job.goals.class), Reverse(gain), view.job.submitted, *id);
            (is_new || can_change(view) && rested).then_some(place)
        };
        let mut able: Vec<_> = self.elastic.iter().filter_map(may_grow).collect();
        able.sort_unstable();
        let jobs: Vec<&JobView> = able.iter().filter_map(|(.., id)| seen.job(*id)).collect();
        let had: Vec<u32> = jobs.iter().map(|view| units_of(&self.desk.plan, &view.job)).collect();
        let mut open: Vec<usize> = (0..jobs.len()).collect();
        while !open.is_empty() {
            open.retain(|i| {
                let job = &jobs[*i].job;
                more_of(&self.desk.plan, job).is_some_and(|more| grow(&mut self.desk.plan, job, &more, rule))
            });
        }
        for (view, had) in jobs.into_iter().zip(had) {
            let has = units_of(&self.desk.plan, &view.job);
            if has == had {
                continue;
            }
            if view.target.is_some() && !pays(view, seen.at, (had, has), reallocate) {
                self.desk.plan.resize_units(view.id(), had, rule);
                self.desk.plan.say(view.id(), Verdict::Run(Reason::Kept));
                continue;
            }
            self.desk.plan.say(view.id(), Verdict::Run(Reason::Chosen));
            let given_at = view.iterations(seen.at) as i64;
            let memory = self.memory(view.id());
            self.remember(&view.job, Memory { given_at, ..memory });
        }
    }
}

impl Rival for HyperSched {
    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn round_s(&self) -> f64 {
        self.parameters.round_s
    }

    fn needs(&self) -> Abilities {
        Abilities::LOSS
    }

    fn arrange(&mut self, seen: &Snapshot) {
        self.follow(seen);
        let below = self.ask_at_rungs(seen);
        let paused = self.pause(seen, &below);
        let mut waiting = self.desk.hopeful();
        waiting.sort_by_cached_key(|(turn, job)| self.place(*turn, job, seen.at));
        for (_, job) in waiting {
            let rule = self.parameters.placement;
            // Who was to pause and is next in turn stays.
            let stays = paused.contains(&job.id);
            let reason = if stays { Reason::Kept } else { Reason::Chosen };
            self.desk.start_by(&job, reason, |plan| {
                stays && plan.undo_evict(&job) || plan.place_least(&job, rule)
            });
            self.settle(seen, &job, stays);
        }
        for id in paused {
            let job = &seen.job(id).expect("a paused job is in the snapshot").job;
            if self.desk.plan.target(id).is_none() {
                self.remember(job, Memory { is_paused: true, ..self.memory(id) });
            }
        }
        self.grow(seen);
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        let mut waiting = self.desk.all_waiting();
        waiting.sort_by_cached_key(|(turn, job)| self.place(*turn, job, seen.at));
        let before = waiting.iter().map(|(_, other)| other.id).take_while(|id| *id != job);
        let waits = waiting.iter().any(|(_, other)| other.id == job);
        Ahead { jobs: if waits { before.collect() } else { Vec::new() }, is_total: true }
    }

    fn is_work_conserving(&self) -> bool {
        false
    }
}

/// Pausing what gains least.
pub(in super::super) const ENTRY: Entry = Entry {
    name: "hypersched",
    title: "jobs that gain least accuracy by their deadlines pause, those that gain most go on and grow",
    source: "Liaw et al., HyperSched, SoCC 2019",
    reads_declared: true,
    suits: Suits::Losses,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Seated(HyperSched::new(parameters("hypersched", PARAMETERS, given)?)))),
};
