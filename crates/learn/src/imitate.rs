//! Learning from what another policy does: any of the table, in any workload (DL2, section 4.2; specification B4.1).
//!
//! The other policy decides, and the run goes as it says. From each of its decisions the units are worked out that lead
//! there from nothing, one after the other: whoever has been given least comes next, and when all have what they get, the
//! label is to stop. A worker and a server that are due together are shown as one unit or as two, by chance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Tensor, activation};
use rand::RngExt;
use rand_pcg::Pcg64;
use trainyard_sched::control::Nothing;
use trainyard_sched::decide::{Abilities, Cadence, Decision, Policy, Reason, Unit, Verdict};
use trainyard_sched::model::{JobId, SERVER_TASK, Span};
use trainyard_sched::policies::dl2::{Act, Chooser, Question, Rules, Schema, fill};
use trainyard_sched::view::Snapshot;
use trainyard_sim::simulate::simulate;

use crate::LearnError;
use crate::gym::Traces;
use crate::network::{Adam, Network, Rows, column};
use crate::shuffle::Shuffle;

/// What was seen, what might have been done, and what was.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// What was seen.
    pub state: Box<[f32]>,
    /// What might have been done.
    pub open: Box<[bool]>,
    /// What was done.
    pub action: usize,
}

/// What is shown, evenly drawn from all that there was.
struct Shown {
    labels: Vec<Label>,
    most: usize,
    seen: u64,
    random: Pcg64,
}

impl Shown {
    /// Takes in a label; each of all that came is equally likely to be kept (reservoir sampling, Vitter 1985, algorithm R).
    fn add(&mut self, label: Label) {
        self.seen += 1;
        if self.labels.len() < self.most {
            self.labels.push(label);
            return;
        }
        let at = self.random.random_range(0..self.seen);
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.labels.get_mut(at)) {
            *place = label;
        }
    }
}

/// The other policy, watched.
struct Watched {
    teacher: Box<dyn Policy>,
    rules: Rules,
    shown: Arc<Mutex<Shown>>,
}

/// Goes where the other policy went.
struct Following<'a> {
    schema: Schema,
    /// What jobs are still to be given.
    due: BTreeMap<JobId, (u32, u32)>,
    shown: &'a mut Shown,
    pending: Option<(Label, Option<(JobId, Unit)>)>,
}

impl Following<'_> {
    fn due(&self, asked: &Question<'_>, place: usize) -> (u32, u32) {
        let (workers, servers) = asked.given[place];
        let (w, u) = self.due.get(&asked.jobs[place]).copied().unwrap_or_default();
        (w.saturating_sub(workers), u.saturating_sub(servers))
    }
}

impl Chooser for Following<'_> {
    fn choose(&mut self, asked: &Question<'_>) -> Option<usize> {
        let is_open = |place: usize, unit| asked.open[self.schema.action(Act::Give(place, unit))];
        let unit = |place: usize| {
            let (workers, servers) = self.due(asked, place);
            let wanted: &[Unit] = match (workers > 0, servers > 0) {
                (true, true) => &[Unit::Bundle, Unit::Worker, Unit::Server],
                (true, false) => &[Unit::Worker, Unit::Bundle],
                (false, true) => &[Unit::Server],
                (false, false) => &[],
            };
            wanted.iter().copied().find(|unit| is_open(place, *unit))
        };
        let units: Vec<Option<Unit>> = (0..asked.jobs.len()).map(unit).collect();
        let waiting = (0..asked.jobs.len()).filter(|place| units[*place].is_some());
        let next = waiting.min_by_key(|place| asked.given[*place].0 + asked.given[*place].1);
        let act = match next.and_then(|place| Some((place, units[place]?))) {
            None => Act::Void,
            // What is due together may also come one after the other.
            Some((place, Unit::Bundle))
                if is_open(place, Unit::Worker) && self.shown.random.random::<bool>() =>
            {
                Act::Give(place, Unit::Worker)
            }
            Some((place, unit)) => Act::Give(place, unit),
        };
        let action = self.schema.action(act);
        let label = Label { state: asked.input.into(), open: asked.open.into(), action };
        let served = if let Act::Give(place, unit) = act { Some((asked.jobs[place], unit)) } else { None };
        self.pending = Some((label, served));
        Some(action)
    }

    fn done(&mut self, could: bool) {
        let Some((label, served)) = self.pending.take() else { return };
        if could {
            self.shown.add(label);
        } else if let Some((job, _)) = served {
            // The other policy found room where none is by the rules here; that is no example.
            self.due.remove(&job);
        }
    }
}

impl Policy for Watched {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(Span::from_secs_f64(self.rules.slot_s))
    }

    fn needs(&self) -> Abilities {
        self.teacher.needs()
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.teacher.decide(seen);
        let mut due: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
        let targets = seen.jobs().map(|view| (view.id(), &view.target));
        for (id, target) in targets.chain(decision.targets.iter().map(|(id, target)| (*id, target))) {
            due.insert(id, (target.workers(), target.count_of(SERVER_TASK)));
        }
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let schema = self.rules.schema;
        let mut following = Following { schema, due, shown: &mut shown, pending: None };
        // Only the labels matter.
        let _ = fill(seen, &self.rules, &mut following);
        decision
    }

    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

/// What another policy does in so many traces: at most `most` labels, evenly drawn from all.
///
/// # Errors
/// If a run cannot begin, or shows nothing.
pub fn watch(
    teacher: &dyn Fn() -> Result<Box<dyn Policy>, LearnError>,
    rules: &Rules,
    traces: Traces<'_>,
    count: usize,
    most: usize,
    random: Pcg64,
) -> Result<Vec<Label>, LearnError> {
    let shown = Arc::new(Mutex::new(Shown { labels: Vec::new(), most, seen: 0, random }));
    for i in 0..count {
        let watched = Watched { teacher: teacher()?, rules: *rules, shown: Arc::clone(&shown) };
        let run = simulate(traces(i), Box::new(watched), &mut Nothing, |_, _| {});
        run.map_err(|source| LearnError::Setup { what: format!("trace {i}"), source })?;
    }
    let mut shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let labels = std::mem::take(&mut shown.labels);
    if labels.is_empty() {
        return Err(LearnError::Nothing(
            "there was nothing to give in any slot; give other traces".to_owned(),
        ));
    }
    Ok(labels)
}

/// How to learn from labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lessons {
    /// Steps.
    pub updates: usize,
    /// Labels in each.
    pub batch: usize,
    /// The size of a step.
    pub rate: f32,
    /// This part of the probability is to be spread over everything that might have been done.
    pub smoothing: f32,
}

/// Learns from labels; jobs of the window change places by chance. Returns the loss of each step.
pub fn learn(
    net: &mut Network,
    schema: Schema,
    labels: &[Label],
    lessons: &Lessons,
    random: &mut Pcg64,
) -> Vec<f32> {
    let mut adam = Adam::new(lessons.rate, net.values().len());
    let mut losses = Vec::with_capacity(lessons.updates);
    for _ in 0..lessons.updates {
        let mut batch = Batch::new(schema);
        for _ in 0..lessons.batch {
            let label = &labels[random.random_range(0..labels.len())];
            batch.add(label, &Shuffle::any(schema, random), lessons.smoothing);
        }
        let (loss, gradient) = net.gradient(&batch.states, |scores, device| batch.loss(scores, device));
        adam.step(net.values_mut(), &gradient, f32::INFINITY);
        losses.push(loss);
    }
    losses
}

/// Rows of what was seen, what is closed, and how likely each action is to be.
struct Batch {
    states: Rows,
    closed: Rows,
    aims: Rows,
}

/// What a closed action scores less; no other score comes near.
pub(crate) const CLOSED: f32 = -1e9;

impl Batch {
    const fn new(schema: Schema) -> Self {
        let actions = schema.actions();
        Self { states: Rows::new(schema.inputs()), closed: Rows::new(actions), aims: Rows::new(actions) }
    }

    fn add(&mut self, label: &Label, shuffle: &Shuffle, smoothing: f32) {
        let (open, action) = (shuffle.open(&label.open), shuffle.action(label.action));
        self.states.push(&shuffle.state(&label.state));
        let count = open.iter().filter(|open| **open).count() as f32;
        self.closed.values.extend(open.iter().map(|open| if *open { 0.0 } else { CLOSED }));
        let aim = |(i, open): (usize, &bool)| {
            let one = if i == action { 1.0 - smoothing } else { 0.0 };
            if *open { one + smoothing / count } else { 0.0 }
        };
        self.aims.values.extend(open.iter().enumerate().map(aim));
    }

    /// Cross-entropy, its mean over the rows.
    fn loss(&self, scores: Tensor<2>, device: &Device) -> Tensor<1> {
        let likely = activation::log_softmax(scores + self.closed.tensor(device), 1);
        let each = (likely * self.aims.tensor(device)).sum_dim(1);
        (each.sum() * column(&[-1.0 / self.states.count() as f32], device)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    const SCHEMA: Schema = Schema { jobs: 3, kinds: 2 };

    fn label(action: usize) -> Label {
        let state = (0..SCHEMA.inputs()).map(|i| i as f32).collect();
        let open = (0..SCHEMA.actions()).map(|i| i % 2 == 0 || i == action).collect();
        Label { state, open, action }
    }

    #[test]
    fn what_is_shown_is_learned_and_what_is_closed_counts_for_nothing() {
        let mut random = Pcg64::seed_from_u64(2);
        // The first number of the first row says what is right.
        let labels: Vec<Label> = (0..40)
            .map(|i| {
                let mut label = label(0);
                label.state.iter_mut().for_each(|x| *x = 0.0);
                label.state[0] = if i % 2 == 0 { 1.0 } else { -1.0 };
                label.action = if i % 2 == 0 { 2 } else { 8 };
                label
            })
            .collect();
        let mut net = Network::new(&[SCHEMA.inputs(), 16, SCHEMA.actions()], &mut random);
        let mut adam = Adam::new(0.01, net.values().len());
        let mut batch = Batch::new(SCHEMA);
        labels.iter().for_each(|label| batch.add(label, &Shuffle::none(SCHEMA), 0.0));
        let first = net.gradient(&batch.states, |scores, device| batch.loss(scores, device)).0;
        // Five actions are open and about equally likely.
        assert!((first - 5.0_f32.ln()).abs() < 0.05, "{first}");
        for _ in 0..400 {
            let (_, gradient) = net.gradient(&batch.states, |scores, device| batch.loss(scores, device));
            adam.step(net.values_mut(), &gradient, f32::INFINITY);
        }
        let last = net.gradient(&batch.states, |scores, device| batch.loss(scores, device)).0;
        assert!(last < 0.1, "{last}");
    }

    #[test]
    fn a_reservoir_keeps_all_alike() {
        let mut shown = Shown { labels: Vec::new(), most: 50, seen: 0, random: Pcg64::seed_from_u64(5) };
        (0..1000).for_each(|i| shown.add(Label { action: i, ..label(0) }));
        let late = shown.labels.iter().filter(|label| label.action >= 500).count();
        assert_eq!(shown.labels.len(), 50);
        assert!((15..36).contains(&late), "{late}");
    }
}
