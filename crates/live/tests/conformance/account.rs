//! An account of its own of what was ordered and what was told, and a judge of both: nothing is told that cannot be so, no
//! attempt ends twice, nothing saved is lost, no device is given twice. It believes events only as far as they agree with
//! what is really there.

use std::collections::{BTreeMap, BTreeSet};

use trainyard_sched::control::{Action, Event, How, Outcome};
use trainyard_sched::model::{
    Allocation, Attempt, CopyId, CopyProgress, GPU, JobId, LossPoint, NodeId, NodeState, Quotas,
};

use super::stage::{Presence, Setting, Training};

/// Iterations of a simulation are products of rates and times, and times are whole microseconds.
const ROUNDING: f64 = 1e-3;

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is none.
    Idle,
    /// It was ordered.
    Starting,
    /// It has started.
    Running,
}

/// Whether an event was news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    New,
    /// It was told before.
    Again,
}

/// What is known of a job.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) training: Training,
    pub(crate) has_arrived: bool,
    pub(crate) is_over: bool,
    pub(crate) phase: Phase,
    /// The latest start.
    pub(crate) attempt: Attempt,
    pub(crate) held: Allocation,
    /// Where it was ordered to go meanwhile.
    pub(crate) moving: Option<Allocation>,
    pub(crate) stopping: Option<How>,
    pub(crate) iterations: f64,
    pub(crate) saved: f64,
    /// From where the next start must go on.
    pub(crate) from: f64,
    is_withdrawn: bool,
    /// It was ordered onto a node that was told to be down.
    is_doomed: bool,
    /// The same of where it was ordered to go.
    cannot_move: bool,
    /// Nodes that went down under it.
    down: BTreeSet<NodeId>,
    /// The merge of this attempt that was ordered last, and those of which nothing was told yet.
    pub(crate) merges_ordered: u32,
    merges: BTreeSet<u32>,
    /// How far each copy may go since the latest merge, and from the next one on.
    quotas: Quotas,
    next_quotas: Quotas,
    /// Iterations of each copy in this attempt, and how many those were when they were brought together last.
    pub(crate) copies: BTreeMap<CopyId, f64>,
    merged_at: BTreeMap<CopyId, f64>,
    last_loss: f64,
    last_word: Option<Event>,
}

/// The account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) jobs: Vec<Record>,
    /// The nodes as was told last.
    pub(crate) nodes: BTreeMap<NodeId, NodeState>,
    /// The nodes as they shall be, and changes that were not yet told.
    pub(crate) asked: BTreeMap<NodeId, NodeState>,
    untold: Vec<(NodeId, NodeState)>,
}

impl Account {
    pub(crate) fn new(setting: &Setting) -> Self {
        let record = |training: &Training| Record {
            training: training.clone(),
            has_arrived: false,
            is_over: false,
            phase: Phase::Idle,
            attempt: Attempt(0),
            held: Allocation::NONE,
            moving: None,
            stopping: None,
            iterations: 0.0,
            saved: 0.0,
            from: 0.0,
            is_withdrawn: false,
            is_doomed: false,
            cannot_move: false,
            down: BTreeSet::new(),
            merges_ordered: 0,
            merges: BTreeSet::new(),
            quotas: Quotas::NONE,
            next_quotas: Quotas::NONE,
            copies: BTreeMap::new(),
            merged_at: BTreeMap::new(),
            last_loss: 0.0,
            last_word: None,
        };
        let nodes: BTreeMap<_, _> = (0..setting.nodes).map(|node| (NodeId(node), NodeState::Up)).collect();
        let jobs = setting.trainings.iter().map(record).collect();
        Self { jobs, asked: nodes.clone(), nodes, untold: Vec::new() }
    }

    pub(crate) fn job(&self, job: JobId) -> &Record {
        &self.jobs[job.index()]
    }

    /// A node shall change.
    pub(crate) fn asked_node(&mut self, node: NodeId, state: NodeState) {
        self.untold.push((node, state));
        self.asked.insert(node, state);
        if state == NodeState::Down {
            for record in self.jobs.iter_mut().filter(|record| record.is_on(node)) {
                record.down.insert(node);
            }
        }
    }

    /// A job shall be taken back.
    pub(crate) fn asked_withdraw(&mut self, job: JobId) {
        self.jobs[job.index()].is_withdrawn = true;
    }

    /// An order is given. Orders that mean nothing change nothing.
    pub(crate) fn ordered(&mut self, action: &Action) {
        let asked_down = |node: &NodeId| self.asked[node] == NodeState::Down;
        // A node that comes back may do so before that is told.
        let told_down = |node: &NodeId| self.nodes[node] == NodeState::Down && asked_down(node);
        let Some(record) = self.jobs.get_mut(action.job().index()) else { return };
        let (idle, latest) = (record.phase == Phase::Idle, record.attempt);
        match action {
            Action::Start { attempt, allocation, quotas, .. } if *attempt > latest => {
                assert!(
                    idle && !record.is_over,
                    "the script starts {} while it runs or is over",
                    action.job()
                );
                (record.phase, record.attempt) = (Phase::Starting, *attempt);
                (record.held, record.moving) = (allocation.clone(), None);
                (record.stopping, record.merges_ordered) = (None, 0);
                record.merges.clear();
                record.copies.clear();
                record.merged_at.clear();
                record.quotas = quotas.clone();
                record.is_doomed = allocation.nodes().iter().any(told_down);
                record.down = allocation.nodes().into_iter().filter(asked_down).collect();
                (record.iterations, record.saved) = (record.from, record.from);
                record.last_loss = record.from;
            }
            Action::Stop { attempt, how, .. } if *attempt == latest && !idle => {
                record.stopping = record.stopping.or(Some(*how));
            }
            Action::Resize { attempt, allocation, quotas, .. }
                if *attempt == latest && !idle && record.stopping.is_none() =>
            {
                record.quotas = quotas.clone();
                record.moving = Some(allocation.clone());
                record.cannot_move = allocation.nodes().iter().any(told_down);
                record.down.extend(allocation.nodes().into_iter().filter(asked_down));
            }
            // An order that comes again is none.
            Action::Merge { attempt, number, quotas, .. }
                if *attempt == latest && !idle && *number > record.merges_ordered =>
            {
                record.merges_ordered = *number;
                record.merges.insert(*number);
                record.next_quotas = quotas.clone();
            }
            _ => {}
        }
    }

    /// Something is told.
    pub(crate) fn hear(&mut self, event: &Event) -> Result<Heard, String> {
        let fault = |what: &str| Err(format!("{what}: {event:?}"));
        match event {
            Event::NodeChanged { node, state } => {
                match self.untold.iter().position(|u| u == &(*node, *state)) {
                    Some(i) => {
                        self.untold.remove(i);
                        self.nodes.insert(*node, *state);
                        Ok(Heard::New)
                    }
                    None => fault("nobody changed that node so, or it was told before"),
                }
            }
            Event::PolicyChanged { .. } => fault("there is no policy"),
            Event::Arrived { job } => match self.jobs.get_mut(job.id.index()) {
                Some(record) if !record.has_arrived => {
                    record.has_arrived = true;
                    Ok(Heard::New)
                }
                _ => fault("a job arrives that nobody submitted, or again"),
            },
            Event::Withdrawn { job } => match self.jobs.get(job.index()) {
                Some(record) if record.is_withdrawn => Ok(Heard::New),
                _ => fault("nobody withdrew that job"),
            },
            Event::StartFailed { job, .. } if job.index() >= self.jobs.len() => Ok(Heard::New),
            _ => self.hear_of_attempt(event),
        }
    }

    fn hear_of_attempt(&mut self, event: &Event) -> Result<Heard, String> {
        let (job, attempt) = about(event).expect("all other events are about an attempt");
        let Some(record) = self.jobs.get_mut(job.index()) else {
            return Err(format!("no such job: {event:?}"));
        };
        if record.last_word.as_ref() == Some(event) {
            return Ok(Heard::Again);
        }
        let wrong = record.judge(event, attempt);
        if let Some(wrong) = wrong {
            return Err(format!("{wrong}: {event:?}, with {record:?}"));
        }
        Ok(record.book(event))
    }

    /// Compares with what is really there.
    pub(crate) fn compare(&self, there: &[Presence]) -> Result<(), String> {
        let mut given: BTreeMap<(NodeId, u32), u64> = BTreeMap::new();
        for (i, presence) in there.iter().enumerate() {
            let record = self.job(presence.job);
            if record.phase == Phase::Idle || record.attempt != presence.attempt {
                return Err(format!("{presence:?} is there, and should not be: {record:?}"));
            }
            if there[..i].iter().any(|other| other.job == presence.job) {
                return Err(format!("two attempts of {} are there: {there:?}", presence.job));
            }
            record.compare_devices(presence)?;
            for placement in record.held.placements() {
                for device in (0..64).filter(|i| placement.gpus.devices >> i & 1 == 1) {
                    let sum = given.entry((placement.node, device)).or_default();
                    *sum += u64::from(placement.gpus.share_milli);
                    if *sum > GPU {
                        return Err(format!(
                            "device {device} of {} is used twice: {there:?}",
                            placement.node
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// What of a device is free, as far as events say.
    pub(crate) fn free_milli(&self, node: NodeId, device: u32, except: Option<JobId>) -> u64 {
        let others = self.jobs.iter().enumerate().filter(|(i, _)| Some(JobId(*i as u32)) != except);
        let held = others
            .flat_map(|(_, record)| [Some(&record.held), record.moving.as_ref()])
            .flatten()
            .flat_map(Allocation::placements)
            .filter(|p| p.node == node && p.gpus.devices >> device & 1 == 1);
        GPU.saturating_sub(held.map(|p| u64::from(p.gpus.share_milli)).sum())
    }
}

impl Record {
    /// Whether it is, or may come to be, on a node.
    pub(crate) fn is_on(&self, node: NodeId) -> bool {
        self.held.touches(node) || self.moving.as_ref().is_some_and(|to| to.touches(node))
    }

    /// Whether it uses the devices that it has; while it moves, or is about to stop for that, it may use those of before.
    fn compare_devices(&self, presence: &Presence) -> Result<(), String> {
        let Some(used) = &presence.devices else { return Ok(()) };
        let mut has: Vec<u64> =
            self.held.placements().iter().map(|placement| placement.gpus.devices).collect();
        has.sort_unstable();
        // A process that is about to leave may be gone already.
        let fine = self.moving.is_some() || used.iter().all(|bits| has.contains(bits));
        if fine { Ok(()) } else { Err(format!("{presence:?} uses other devices than it has: {has:?}")) }
    }

    /// What is wrong with an event, if anything is.
    fn judge(&self, event: &Event, attempt: Attempt) -> Option<String> {
        let (starts, runs) = (self.phase == Phase::Starting, self.phase == Phase::Running);
        let when = |wrong: bool, what: &str| wrong.then(|| what.to_owned());
        if attempt != self.attempt {
            return Some("it is about an attempt that is not the latest".to_owned());
        }
        if self.phase == Phase::Idle {
            return Some("it is about an attempt that is over".to_owned());
        }
        match event {
            Event::Started { iterations, speed, .. } => when(!starts, "it had started")
                .or_else(|| when(self.is_doomed, "it starts on a node that is down"))
                .or_else(|| when(*iterations != self.from, "it starts from elsewhere"))
                .or_else(|| bad_speed(*speed)),
            Event::Progress { iterations, speed, saved, losses, copies, .. } => {
                when(!runs, "it has not started")
                    .or_else(|| bad_speed(*speed))
                    .or_else(|| self.bad_iterations(*iterations))
                    .or_else(|| when(saved.is_nan() || *saved < self.saved, "what was saved is gone"))
                    .or_else(|| when(saved > iterations, "more is saved than was done"))
                    .or_else(|| self.bad_losses(losses, *iterations))
                    .or_else(|| self.bad_copies(copies))
            }
            Event::Resized { allocation, iterations, speed, .. } => when(!runs, "it has not started")
                .or_else(|| {
                    let known = self.moving.as_ref() == Some(allocation) || self.held == *allocation;
                    when(!known, "nobody ordered that size")
                })
                .or_else(|| {
                    let cannot = self.cannot_move && self.moving.as_ref() == Some(allocation);
                    when(cannot, "it moves onto a node that is down")
                })
                .or_else(|| bad_speed(*speed))
                .or_else(|| self.bad_iterations(*iterations)),
            Event::Stopped { iterations, .. } => {
                let ordered = self.stopping.is_some() || self.moving.is_some();
                // What it does until it stops is saved.
                when(!ordered, "nobody stopped it")
                    .or_else(|| self.bad_saved(*iterations))
                    .or_else(|| self.bad_iterations(*iterations))
            }
            Event::Lost { iterations, node, .. } => {
                let blames = node.as_ref().is_none_or(|node| self.down.contains(node));
                when(!blames, "that node is not at fault").or_else(|| self.bad_saved(*iterations))
            }
            Event::StartFailed { .. } => when(!starts, "it had started"),
            Event::Finished { outcome, .. } => when(!runs, "it has not started")
                .or_else(|| when(*outcome != self.training.outcome(), "it ends otherwise"))
                .or_else(|| {
                    let done = self.iterations >= f64::from(self.training.total) - ROUNDING;
                    when(*outcome == Outcome::Completed && !done, "it had not done everything")
                }),
            Event::Merged { number, .. } => {
                when(!self.merges.contains(number), "nobody ordered that, or it was told before")
            }
            _ => None,
        }
    }

    fn bad_iterations(&self, iterations: f64) -> Option<String> {
        let most = f64::from(self.training.total) + ROUNDING;
        let fine = iterations >= self.iterations && iterations <= most;
        (!fine).then(|| format!("iterations are not between {} and {most}", self.iterations))
    }

    /// Where the next start would go on.
    fn bad_saved(&self, iterations: f64) -> Option<String> {
        let most = f64::from(self.training.total) + ROUNDING;
        let fine = iterations >= self.saved && iterations <= most;
        (!fine).then(|| format!("what can be gone on from is not between {} and {most}", self.saved))
    }

    fn bad_losses(&self, losses: &[LossPoint], iterations: f64) -> Option<String> {
        let mut last = self.last_loss;
        for point in losses {
            if point.iteration < last || point.iteration > iterations + ROUNDING || !point.loss.is_finite() {
                return Some(format!("a loss of iteration {} after one of {last}", point.iteration));
            }
            last = point.iteration;
        }
        None
    }

    /// Whether each copy has done what it may, neither more nor less.
    pub(crate) fn is_spent(&self) -> bool {
        let of = |all: &BTreeMap<CopyId, f64>, copy: &CopyId| all.get(copy).copied().unwrap_or(0.0);
        let done = |copy: &CopyId| of(&self.copies, copy) - of(&self.merged_at, copy);
        let mut quotas = self.quotas.by_copy().iter();
        self.merges.is_empty() && quotas.all(|(copy, quota)| (done(copy) - *quota as f64).abs() < ROUNDING)
    }

    /// What each copy did grows, and not beyond what it may.
    fn bad_copies(&self, copies: &[CopyProgress]) -> Option<String> {
        let of = |all: &BTreeMap<CopyId, f64>, copy| all.get(&copy).copied().unwrap_or(0.0);
        for told in copies {
            if self.held.placements().iter().all(|placement| placement.copy != told.copy) {
                return Some(format!("{} is not there", told.copy));
            }
            let goes_on = told.iterations >= of(&self.copies, told.copy);
            if !goes_on || bad_speed(told.speed).is_some() {
                return Some(format!("{} did less than it had, or has no speed: {told:?}", told.copy));
            }
            let since = told.iterations - of(&self.merged_at, told.copy);
            // A merge that was ordered is perhaps made and not yet told, and a program goes beyond by one report.
            let may = |quotas: &Quotas| quotas.of(told.copy).map(|quota| quota as f64 + 1.0 + ROUNDING);
            let most = may(&self.quotas);
            if self.merges.is_empty() && self.moving.is_none() && most.is_some_and(|most| since > most) {
                return Some(format!("{} did {since} and may do {most:?}", told.copy));
            }
        }
        None
    }

    /// Takes over what a faultless event says.
    fn book(&mut self, event: &Event) -> Heard {
        match event {
            Event::Started { .. } => self.phase = Phase::Running,
            Event::Progress { iterations, saved, losses, copies, .. } => {
                self.copies.extend(copies.iter().map(|told| (told.copy, told.iterations)));
                (self.iterations, self.saved) = (*iterations, *saved);
                self.last_loss = losses.last().map_or(self.last_loss, |point| point.iteration);
            }
            Event::Resized { allocation, iterations, .. } => {
                self.iterations = *iterations;
                if self.moving.is_none() {
                    return Heard::Again;
                }
                (self.held, self.moving) = (allocation.clone(), None);
            }
            Event::Merged { number, .. } => {
                self.merges.retain(|open| open > number);
                (self.merged_at, self.quotas) = (self.copies.clone(), self.next_quotas.clone());
            }
            Event::Stopped { iterations, .. } => {
                self.is_over = self.stopping == Some(How::Finish);
                self.let_go(event, *iterations);
            }
            Event::Lost { iterations, .. } => {
                self.is_over = self.stopping == Some(How::Finish);
                self.let_go(event, *iterations);
            }
            Event::StartFailed { .. } => self.let_go(event, self.from),
            Event::Finished { .. } => {
                self.is_over = true;
                self.let_go(event, self.iterations);
            }
            _ => {}
        }
        Heard::New
    }

    fn let_go(&mut self, word: &Event, from: f64) {
        (self.phase, self.held, self.moving) = (Phase::Idle, Allocation::NONE, None);
        (self.from, self.last_word) = (from, Some(word.clone()));
    }
}

fn bad_speed(speed: f64) -> Option<String> {
    (!(speed.is_finite() && speed >= 0.0)).then(|| "that is no speed".to_owned())
}

/// The attempt that an event is about.
pub(crate) const fn about(event: &Event) -> Option<(JobId, Attempt)> {
    match event {
        Event::Arrived { .. }
        | Event::Withdrawn { .. }
        | Event::Resumed { .. }
        | Event::NodeChanged { .. }
        | Event::PolicyChanged { .. } => None,
        Event::Started { job, attempt, .. }
        | Event::StartFailed { job, attempt, .. }
        | Event::Resized { job, attempt, .. }
        | Event::Stopped { job, attempt, .. }
        | Event::Progress { job, attempt, .. }
        | Event::Used { job, attempt, .. }
        | Event::Merged { job, attempt, .. }
        | Event::Lost { job, attempt, .. }
        | Event::Finished { job, attempt, .. } => Some((*job, *attempt)),
    }
}
