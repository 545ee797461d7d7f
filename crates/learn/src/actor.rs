//! A learner at work: DL2's slots, with actions drawn by chance and by rules of thumb, and all of it written down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand_pcg::Pcg64;
use trainyard_sched::decide::{Cadence, Decision, Memory, Policy, Reason, Unit, Verdict};
use trainyard_sched::model::{JobId, Span};
use trainyard_sched::nets::{Mlp, Scratch, softmax};
use trainyard_sched::policies::dl2::{
    Act, Chooser, Question, Rules, UNITS_OF_A_JOB, decided, fill, remaining,
};
use trainyard_sched::view::Snapshot;

use crate::network::drawn;

/// One action of a slot.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What was seen.
    pub state: Arc<[f32]>,
    /// What might have been done.
    pub open: Box<[bool]>,
    /// What was done.
    pub action: usize,
    /// How likely that was by the network.
    pub likely: f32,
    /// The job that it served.
    pub job: Option<JobId>,
}

/// One slot.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// What was done, in order.
    pub taken: Vec<Taken>,
    /// What was seen first.
    pub first: Option<Arc<[f32]>>,
    /// The part of its work that each job did since the slot before this one.
    pub progress: BTreeMap<JobId, f64>,
}

/// How likely it is that something else acts instead of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exploring {
    /// That a rule of thumb does where one applies (ε).
    pub chance: f64,
    /// That a whole slot goes to numbers of workers and servers that are drawn for each job.
    pub aims: f64,
    /// The ratio of workers and servers, or of servers and workers, beyond which a rule applies (θ).
    pub ratio: f64,
}

/// What a learner and its trainer share.
pub struct Shared {
    /// The weights that it acts by.
    pub policy: Arc<Mlp>,
    /// How it explores.
    pub exploring: Exploring,
    /// The slot that was decided last.
    pub slot: Slot,
    /// What remains of each job, from the last slot.
    left: BTreeMap<JobId, f64>,
    random: Pcg64,
}

impl Shared {
    /// A learner that has not begun.
    pub fn new(policy: Arc<Mlp>, exploring: Exploring, random: Pcg64) -> Arc<Mutex<Self>> {
        let (slot, left) = Default::default();
        Arc::new(Mutex::new(Self { policy, exploring, slot, left, random }))
    }

    /// After the end of a run: what each job did since the last slot, which is all that was left of it.
    pub fn close(&mut self) -> BTreeMap<JobId, f64> {
        std::mem::take(&mut self.left)
    }
}

/// What each job did since what was left then; those that are gone have done all.
pub(crate) fn progress(left: &mut BTreeMap<JobId, f64>, seen: &Snapshot) -> BTreeMap<JobId, f64> {
    let now: BTreeMap<JobId, f64> = seen.jobs().map(|view| (view.id(), remaining(view, seen.at))).collect();
    let before = std::mem::replace(left, now);
    let done = |(id, before): (JobId, f64)| (id, (before - left.get(&id).copied().unwrap_or(0.0)).max(0.0));
    before.into_iter().map(done).collect()
}

/// A policy that learns.
pub struct Actor {
    rules: Rules,
    shared: Arc<Mutex<Shared>>,
    memory: Memory,
    scratch: Scratch,
}

impl Actor {
    /// A learner with the weights that it shares.
    pub fn new(rules: Rules, shared: Arc<Mutex<Shared>>) -> Self {
        Self { rules, shared, memory: Memory::default(), scratch: Scratch::default() }
    }
}

/// Draws actions and writes them down.
struct Drawing<'a> {
    rules: &'a Rules,
    net: &'a Mlp,
    exploring: Exploring,
    random: &'a mut Pcg64,
    scratch: &'a mut Scratch,
    likely: Vec<f32>,
    slot: Slot,
    pending: Option<Taken>,
    /// Numbers of workers and servers that are gone to, where the network is not asked.
    aims: Option<BTreeMap<JobId, (u32, u32)>>,
}

/// No job is drawn more workers, or more servers.
const MOST_DRAWN: u32 = 16;

impl Drawing<'_> {
    /// The next unit on the way to the numbers that were drawn, or the end.
    fn towards_aims(&mut self, asked: &Question<'_>) -> Option<usize> {
        let (aims, random) = (self.aims.as_mut()?, &mut *self.random);
        let schema = self.rules.schema;
        let mut open: Vec<f32> = vec![0.0; asked.open.len()];
        for (place, job) in asked.jobs.iter().enumerate() {
            let mut draw = || random.random_range(1..=MOST_DRAWN);
            let aim = *aims.entry(*job).or_insert_with(|| (draw(), draw()));
            let (workers, servers) = asked.given[place];
            let (worker, server) = (workers < aim.0, servers < aim.1);
            // What starts a job comes with it.
            let starts = workers == 0 && servers == 0;
            for (unit, wanted) in UNITS_OF_A_JOB.into_iter().zip([worker, server, worker && server || starts])
            {
                let action = schema.action(Act::Give(place, unit));
                open[action] = if wanted && asked.open[action] { 1.0 } else { 0.0 };
            }
        }
        let any = open.contains(&1.0);
        Some(if any { drawn(&open, random) } else { schema.action(Act::Void) })
    }
}

impl Chooser for Drawing<'_> {
    fn choose(&mut self, asked: &Question<'_>) -> Option<usize> {
        let scores = self.net.forward(asked.input, self.scratch);
        softmax(scores, asked.open, &mut self.likely);
        let ruled = poor(asked, self.exploring.ratio).map(|act| self.rules.schema.action(act));
        let ruled = ruled.filter(|action| asked.open[*action]);
        let aimed = self.towards_aims(asked);
        let action = match ruled {
            _ if aimed.is_some() => aimed.unwrap_or_default(),
            Some(action) if self.random.random::<f64>() < self.exploring.chance => action,
            _ => drawn(&self.likely, self.random),
        };
        if self.slot.first.is_none() {
            self.slot.first = Some(asked.input.into());
        }
        let job = match self.rules.schema.act(action) {
            Act::Give(place, _) => asked.jobs.get(place).copied(),
            Act::Void => None,
        };
        let (state, open) = (Arc::from(asked.input), asked.open.into());
        self.pending = Some(Taken { state, open, action, likely: self.likely[action], job });
        Some(action)
    }

    fn done(&mut self, could: bool) {
        // What could not be done teaches nothing.
        self.slot.taken.extend(self.pending.take().filter(|_| could));
    }
}

/// What the first job in a poor state needs (DL2, section 4.3): a server or a worker where one is missing or far too rare.
fn poor(asked: &Question<'_>, ratio: f64) -> Option<Act> {
    let needs = |place: &usize| {
        let (workers, servers) = asked.given[*place];
        let (w, u) = (f64::from(workers), f64::from(servers));
        if !asked.serves[*place] {
            None
        } else if w > ratio * u {
            Some(Act::Give(*place, Unit::Server))
        } else if u > ratio * w {
            Some(Act::Give(*place, Unit::Worker))
        } else {
            None
        }
    };
    (0..asked.jobs.len()).find_map(|place| needs(&place))
}

impl Policy for Actor {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(Span::from_secs_f64(self.rules.slot_s))
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let shared = &mut *shared;
        let progress = progress(&mut shared.left, seen);
        let aims = (shared.random.random::<f64>() < shared.exploring.aims).then(BTreeMap::new);
        let mut drawing = Drawing {
            rules: &self.rules,
            net: &shared.policy,
            exploring: shared.exploring,
            random: &mut shared.random,
            scratch: &mut self.scratch,
            likely: Vec::new(),
            slot: Slot { progress, ..Slot::default() },
            pending: None,
            aims,
        };
        let filled = fill(seen, &self.rules, &mut drawing);
        shared.slot = drawing.slot;
        // A slot that went on for too long leaves everything as it is.
        filled.map_or_else(|_| Decision::default(), |slate| decided(seen, slate, &mut self.memory))
    }

    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        // Nobody asks a learner in a simulation of its own.
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_balances_the_first_job_that_needs_it() {
        let question = |given: &'static [(u32, u32)], serves: &'static [bool]| Question {
            input: &[],
            open: &[],
            jobs: &[JobId(4), JobId(5), JobId(6)],
            given,
            serves,
        };
        let all = &[true; 3];
        assert_eq!(poor(&question(&[(1, 1), (10, 1), (0, 0)], all), 10.0), None);
        let far = question(&[(1, 1), (11, 1), (1, 12)], all);
        assert_eq!(poor(&far, 10.0), Some(Act::Give(1, Unit::Server)));
        let servers = question(&[(1, 1), (1, 1), (1, 12)], all);
        assert_eq!(poor(&servers, 10.0), Some(Act::Give(2, Unit::Worker)));
        assert_eq!(poor(&question(&[(2, 0), (0, 0), (0, 0)], all), 10.0), Some(Act::Give(0, Unit::Server)));
        assert_eq!(poor(&question(&[(2, 0), (0, 0), (0, 0)], &[false; 3]), 10.0), None, "it has none");
    }
}
