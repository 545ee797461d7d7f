//! An attempt of a job that is a graph of tasks: a program for each task that is placed, with a keeper, a folder and checkpoints of its
//! own. A task that is to hold something elsewhere saves and leaves, and is started again there; the others stay, and wait for it.
//! So do tasks that are added or taken away.
//!
//! The task with the highest number speaks for all: its losses count, and when it ends well, the job is done. Done and saved is what
//! all tasks have done and saved, as far as they say so. When a task is lost, or fails, without having been told to leave, the others save and
//! leave too, and the loop may start the job anew.
//!
//! As with copies everything is derived afresh at each look from files: a daemon that comes back in the middle goes on from there.

mod end;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trainyard_sched::control::Event;
use trainyard_sched::model::{Allocation, Cluster, LossPoint, NodeId, Parallelism, Placement, TaskId};

use self::ledger::{Entry, Ledger};
use super::attempt::{Folder, Order, Running};
use super::confine::remove;
use super::launch::{self, Gang, TaskOf};
use super::member::{End, Member};
use super::watch::{self, Watched};
use super::{Options, usage};
use crate::executor::{Held, Reporter};

/// How often a task is started again whose start failed.
const MOST_STARTS: u32 = 3;

/// An attempt of a job of tasks.
#[derive(Debug)]
pub(super) struct Grouped {
    /// The attempt, with what it is to hold.
    pub(super) held: Held,
    folder: Folder,
    ledger: Ledger,
    /// Those that have a program, or had one that ended by itself.
    tasks: BTreeMap<TaskId, Member>,
    begun: bool,
    /// Whether the loop told it to stop.
    told: bool,
    /// A node that went down under it.
    lost: Option<NodeId>,
    closing: Option<(Closing, Instant)>,
    /// What people are told in the end.
    reason: Option<String>,
    /// Whether it is to say when it holds what it is to hold.
    resized: bool,
    failed_starts: u32,
    /// The tasks that have said how far they are.
    reporting: BTreeSet<TaskId>,
    /// Losses of iterations that not all tasks have done.
    owed: Vec<LossPoint>,
    /// Iterations that are done, and how many a second, as told last.
    total: f64,
    speed: f64,
    meter: usage::Meter,
}

/// Why all tasks are to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// The loop says so.
    Told,
    /// The one that speaks for all is done.
    Done,
    /// One of them ended otherwise.
    Broken,
}

/// Whether a task was told to save and leave.
fn is_told(task: &Member) -> bool {
    task.watched.as_ref().is_some_and(Watched::is_told)
}

/// Whether a job is a graph of tasks.
pub(super) fn is_graph(held: &Held) -> bool {
    matches!(held.job.shape, Parallelism::TaskGraph(_))
}

impl Grouped {
    fn new(held: Held, folder: Folder, ledger: Ledger) -> Self {
        Self {
            total: held.iterations,
            held,
            folder,
            ledger,
            tasks: BTreeMap::new(),
            begun: false,
            told: false,
            lost: None,
            closing: None,
            reason: None,
            resized: false,
            failed_starts: 0,
            reporting: BTreeSet::new(),
            owed: Vec::new(),
            speed: 0.0,
            meter: usage::Meter::default(),
        }
    }

    /// Begins an attempt.
    pub(super) fn start(
        held: Held,
        options: &Options,
        cluster: &Cluster,
        reporter: &Reporter,
    ) -> io::Result<Self> {
        let folder = Folder::of(&options.jobs, held.job.id, held.attempt);
        launch::make_attempt(&folder)?;
        std::fs::create_dir_all(folder.meeting())?;
        let ledger = Ledger::new()?;
        ledger.write(&folder)?;
        // From here on there may be something to come back to.
        folder.write_order(&Order { grace_s: 0, begun_from: held.iterations, programs: Vec::new() })?;
        let mut new = Self::new(held, folder, ledger);
        new.launch_missing(options, cluster, reporter);
        Ok(new)
    }

    /// An attempt that an earlier daemon started, as far as it came. Tasks that were not launched then are launched now.
    pub(super) fn adopted(held: Held, options: &Options, cluster: &Cluster) -> Option<Self> {
        let folder = Folder::of(&options.jobs, held.job.id, held.attempt);
        let ledger = Ledger::read(&folder).filter(|_| folder.has_order())?;
        let mut new = Self::new(held, folder, ledger);
        for (task, entry) in new.ledger.tasks.clone() {
            let mut member = new.member(task, entry);
            let is_left = !new.held.allocation.placements().iter().any(|placement| placement.task == task);
            if !member.folder.has_order() {
                // Nobody runs there, nor ever will.
                let groups = options.confinement.groups(&member.gang.group_name(0));
                groups.iter().for_each(|groups| remove(groups));
            } else if !(is_left && member.folder.ended().is_some()) {
                member.watched = Some(Watched::adopted(member.gang.clone(), options, cluster));
                new.tasks.insert(task, member);
            }
        }
        Some(new)
    }

    /// The task that speaks for all, if it is there.
    fn speaker(&self) -> Option<TaskId> {
        let Parallelism::TaskGraph(graph) = &self.held.job.shape else { return None };
        let number = graph.tasks().iter().rposition(|task| task.replica.is_some())?;
        Some(TaskId(number as u32)).filter(|task| self.tasks.contains_key(task))
    }

    fn member(&self, id: TaskId, entry: Entry) -> Member {
        let of = match &self.held.job.shape {
            Parallelism::TaskGraph(graph) => graph.tasks().len(),
            Parallelism::DataParallel(_) => 0,
        };
        let allocation = Allocation::new(vec![entry.placement]);
        let held = Held { allocation, pending: None, iterations: entry.saved, ..self.held.clone() };
        let secret: Arc<str> = self.ledger.secret.as_str().into();
        let task = Some(TaskOf { id, of, start: entry.starts, secret });
        let folder = self.folder.of_task(id, entry.starts);
        Member::new(format!("task {}", id.0), Gang { held, copy: None, task }, folder)
    }

    /// Launches the tasks that are to hold something and have no program, unless another one is still to leave a device that it
    /// shall have.
    fn launch_missing(&mut self, options: &Options, cluster: &Cluster, reporter: &Reporter) {
        for placement in self.held.allocation.clone().placements() {
            let meets = |old: &Placement| {
                old.node == placement.node && old.gpus.devices & placement.gpus.devices != 0
            };
            let in_the_way =
                |task: &Member| is_told(task) && task.gang.held.allocation.placements().iter().any(meets);
            if !self.tasks.contains_key(&placement.task) && !self.tasks.values().any(in_the_way) {
                self.launch(*placement, options, cluster, reporter);
            }
        }
    }

    fn launch(&mut self, placement: Placement, options: &Options, cluster: &Cluster, reporter: &Reporter) {
        let usual = Entry { starts: 0, placement, saved: self.held.iterations };
        let entry = self.ledger.tasks.entry(placement.task).or_insert(usual);
        (entry.starts, entry.placement) = (entry.starts + 1, placement);
        let entry = *entry;
        let mut member = self.member(placement.task, entry);
        let gang = member.gang.clone();
        let launched = self.ledger.write(&self.folder).and_then(|()| {
            let control = launch::control(&gang.held, &gang.held.allocation, options, cluster);
            launch::launch(&gang, &control, &launch::listen()?, options, cluster)
        });
        member.watched = Some(match launched {
            Ok((_, keeper)) => Watched::started(gang, keeper, options, cluster),
            Err(error) => {
                member.say(&format!("cannot be started: {error}"), reporter);
                let after = watch::delay(&options.jobs, self.held.job.id, self.held.attempt);
                Watched::refused(gang, after, options, cluster)
            }
        });
        self.tasks.insert(placement.task, member);
    }

    /// Looks once. Says whether it is over.
    pub(super) fn look(&mut self, options: &Options, cluster: &Cluster, reporter: &Reporter) -> bool {
        for task in self.tasks.values_mut() {
            task.look(&options.jobs, reporter);
        }
        self.begin(reporter);
        self.report(reporter);
        self.note_ends();
        if self.closing.is_some() {
            return self.close(&options.jobs, reporter);
        }
        self.note_left();
        self.launch_missing(options, cluster, reporter);
        self.note_resized(reporter);
        self.tell_usage(options, reporter);
        false
    }

    /// Once all tasks that were placed have begun, the job has. An earlier daemon may have seen that, and not told.
    fn begin(&mut self, reporter: &Reporter) {
        let has_begun =
            |placement: &Placement| self.tasks.get(&placement.task).is_some_and(|task| task.begun);
        let has_begun =
            self.folder.running().is_some() || self.held.allocation.placements().iter().all(has_begun);
        if self.begun || !has_begun {
            return;
        }
        self.begun = true;
        let running = self.tasks.values().filter_map(|task| task.folder.running());
        let programs = running.flat_map(|running| running.programs).collect();
        // By this later attempts know that this one began.
        let _ = self.folder.write_running(&Running { programs });
        let (job, attempt, iterations) = (self.held.job.id, self.held.attempt, self.held.iterations);
        reporter.tell(Event::Started { job, attempt, iterations, speed: 0.0 });
    }

    /// Tasks that have left, as they were told, make room, perhaps for themselves elsewhere.
    fn note_left(&mut self) {
        let left = |(id, task): (&TaskId, &Member)| (task.end.is_some() && is_told(task)).then_some(*id);
        let left: Vec<TaskId> = self.tasks.iter().filter_map(left).collect();
        for id in left {
            if let (Some(task), Some(entry)) = (self.tasks.remove(&id), self.ledger.tasks.get_mut(&id)) {
                entry.saved = task.saved;
            }
        }
    }

    /// Says that it holds what it is to hold, when each task is where it shall be and nobody else is there.
    fn note_resized(&mut self, reporter: &Reporter) {
        let wanted = self.held.allocation.placements();
        let settled = |placement: &Placement| {
            let task = self.tasks.get(&placement.task);
            task.is_some_and(|task| task.begun && task.gang.held.allocation.placements() == [*placement])
        };
        if !self.resized
            || !self.begun
            || self.tasks.len() != wanted.len()
            || !wanted.iter().all(settled)
            || self.tasks.values().any(is_told)
        {
            return;
        }
        self.resized = false;
        let (job, attempt, allocation) = (self.held.job.id, self.held.attempt, self.held.allocation.clone());
        reporter.tell(Event::Resized { job, attempt, allocation, iterations: self.total, speed: self.speed });
    }

    /// Iterations that all tasks have saved which were placed in this attempt.
    fn saved(&self) -> f64 {
        let saved =
            |(id, entry): (&TaskId, &Entry)| self.tasks.get(id).map_or(entry.saved, |task| task.saved);
        self.ledger.tasks.iter().map(saved).reduce(f64::min).unwrap_or(self.held.iterations)
    }

    /// Says how far all tasks are that say anything; when the one that speaks for all is done, that is as far as it says. Losses are
    /// told when all are so far.
    fn report(&mut self, reporter: &Reporter) {
        let is_done = self.is_done();
        let last_word = self.speaker().filter(|_| is_done).map_or(0.0, |id| self.tasks[&id].iterations);
        let has_news = self.tasks.values().any(|task| task.has_news) || last_word > self.total;
        if !self.begun || !has_news {
            return;
        }
        for (id, task) in &mut self.tasks {
            if std::mem::take(&mut task.has_news) {
                self.reporting.insert(*id);
            }
        }
        let speaker = self.speaker().or_else(|| self.tasks.keys().next_back().copied());
        let far = |(id, task): (&TaskId, &Member)| self.reporting.contains(id).then_some(task.iterations);
        let least = self.tasks.iter().filter_map(far).reduce(f64::min);
        let saved = self.saved();
        self.total = self.total.max(least.unwrap_or(0.0)).max(last_word).max(saved);
        for (id, task) in &mut self.tasks {
            let losses = std::mem::take(&mut task.losses);
            if Some(*id) == speaker {
                self.speed = task.speed;
                self.owed.extend(losses);
            }
        }
        let later = self.owed.iter().position(|point| point.iteration > self.total);
        let losses = self.owed.drain(..later.unwrap_or(self.owed.len())).collect();
        reporter.tell(Event::Progress {
            job: self.held.job.id,
            attempt: self.held.attempt,
            iterations: self.total,
            speed: self.speed,
            saved,
            losses,
            copies: Vec::new(),
        });
    }

    /// What the end of a task means for the others, if it was not told to leave.
    fn note_ends(&mut self) {
        if self.closing.is_some() {
            return;
        }
        let speaker = self.speaker();
        let ended = self.tasks.iter().filter(|(_, task)| !is_told(task));
        let ended: Vec<(TaskId, End)> = ended.filter_map(|(id, task)| Some((*id, task.end?))).collect();
        let all = ended.len() == self.tasks.len() && !ended.is_empty();
        for (id, end) in ended {
            match end {
                End::Completed if Some(id) == speaker || all => self.leave(Closing::Done),
                // It has done its part, or ends a little earlier than the one that speaks.
                End::Completed => {}
                End::NotStarted if self.failed_starts < MOST_STARTS => {
                    self.failed_starts += 1;
                    self.tasks.remove(&id);
                }
                End::NotStarted | End::Failed(_) | End::Lost(_) | End::Well | End::Badly => {
                    self.reason = self.tasks.get(&id).and_then(|task| task.said.clone());
                    self.leave(Closing::Broken);
                }
            }
        }
    }

    /// All tasks are to leave; when the job is done, after they had time to do so by themselves.
    fn leave(&mut self, why: Closing) {
        if self.closing.is_none() {
            self.closing = Some((why, Instant::now()));
            if why != Closing::Done {
                self.tasks.values_mut().for_each(Member::stop);
            }
        }
    }

    /// The loop tells it to save and leave.
    pub(super) fn stop(&mut self) {
        self.told = true;
        self.closing = Some(self.closing.unwrap_or((Closing::Told, Instant::now())));
        self.tasks.values_mut().for_each(Member::stop);
    }

    /// Whether a node is gone that it was to hold something on.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether any of its programs is on this node, or shall be.
    pub(super) fn touches(&self, node: NodeId) -> bool {
        let there = |task: &Member| task.gang.held.allocation.touches(node);
        self.held.allocation.touches(node) || self.tasks.values().any(there)
    }

    /// A node is gone, and with it the tasks there. One that was about to leave it is started elsewhere with what it has saved.
    pub(super) fn lose(&mut self, node: NodeId) {
        for task in self.tasks.values_mut().filter(|task| task.gang.held.allocation.touches(node)) {
            if let Some(watched) = &mut task.watched {
                watched.lose(node);
            }
        }
        if self.held.allocation.touches(node) {
            self.lost = Some(node);
            self.leave(Closing::Broken);
        }
    }

    /// Gives tasks something else to hold, and says so when they do.
    pub(super) fn resize(&mut self, allocation: &Allocation, options: &Options, cluster: &Cluster) {
        if self.closing.is_none() {
            self.held.allocation = allocation.clone();
            self.resized = true;
            self.settle(options, cluster);
        }
    }

    /// Brings tasks to what they are to hold. Those that are to go elsewhere, or no longer to be, save and leave.
    pub(super) fn settle(&mut self, options: &Options, cluster: &Cluster) {
        let allocation = self.held.allocation.clone();
        for (id, task) in &mut self.tasks {
            let new = allocation.placements().iter().find(|placement| placement.task == *id).copied();
            let stays = |old: &Placement, new: &Placement| {
                let keeps = options.cpus_per_gpu.is_some() || old.gpus == new.gpus;
                old.node == new.node && keeps
            };
            let old = task.gang.held.allocation.placements()[0];
            match (new.filter(|new| stays(&old, new)), &mut task.watched) {
                (Some(new), _) if new == old => {}
                (Some(new), Some(watched)) => {
                    let own = Allocation::new(vec![new]);
                    watched.resize(&own, options, cluster);
                    task.gang.held.allocation = own;
                    if let Some(entry) = self.ledger.tasks.get_mut(id) {
                        entry.placement = new;
                    }
                }
                _ => task.stop(),
            }
        }
        // Where it cannot be written, the loop says it once more after a restart.
        let _ = self.ledger.write(&self.folder);
    }

    /// Tells what tasks used lately, now and then.
    fn tell_usage(&mut self, options: &Options, reporter: &Reporter) {
        if !self.begun {
            return;
        }
        let tasks = self.tasks.iter().filter(|(_, task)| task.end.is_none());
        let tasks = tasks.filter_map(|(id, task)| Some((*id, task.watched.as_ref()?)));
        if let Some(usage) = self.meter.read(tasks, options) {
            reporter.tell(Event::Used { job: self.held.job.id, attempt: self.held.attempt, usage });
        }
    }

    /// How long tasks have to leave by themselves when the job is done.
    fn grace(&self) -> Duration {
        Duration::from_secs(self.held.work.grace_s.into())
    }
}
