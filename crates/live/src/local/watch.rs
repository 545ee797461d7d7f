//! Follows attempts from a thread of its own: whether they have begun, what they report, how they ended.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::model::{Allocation, Attempt, Cluster, JobId, NodeId};

use super::attempt::{Control, Ended, Folder};
use super::confine::{empty, remove};
use super::launch::{self, Gang};
use super::process::Identity;
use super::{Attempts, Options};
use crate::executor::{Held, Reporter};
use crate::mailbox;
use crate::report::{Form, Listener};

/// How often attempts are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long a keeper may take to take its order.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often an attempt that somebody killed is started again.
const MOST_KILLED: usize = 3;
/// After how long a start that failed is tried again, and how often that is doubled at the most.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY_DOUBLINGS: u32 = 7;

/// An attempt that is followed.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) gang: Gang,
    pub(super) folder: Folder,
    /// The keeper, if this very daemon started it.
    child: Option<Child>,
    keeper: Option<Identity>,
    since: Instant,
    groups: Vec<Vec<PathBuf>>,
    begun: bool,
    /// Whether it was told to stop.
    told: bool,
    /// A node that went down under it.
    lost: Option<NodeId>,
    control: Control,
    listener: Listener,
    /// Iterations, as reported last, and those of them that are saved.
    iterations: f64,
    saved: f64,
    speed: f64,
    /// A change of size that is to be reported.
    resized: Option<Allocation>,
    /// It could not be started, which is reported then: a start that fails is not tried again at once.
    refused: Option<Instant>,
    /// What went wrong with it and is to be said.
    trouble: Option<String>,
}

impl Watched {
    /// An attempt whose keeper was just started.
    pub(super) fn started(gang: Gang, keeper: Child, options: &Options, cluster: &Cluster) -> Self {
        Self { child: Some(keeper), ..Self::adopted(gang, options, cluster) }
    }

    /// An attempt that an earlier daemon started.
    pub(super) fn adopted(gang: Gang, options: &Options, cluster: &Cluster) -> Self {
        let (held, folder) = (&gang.held, gang.folder(options));
        let control =
            folder.control().unwrap_or_else(|| launch::control(held, &held.allocation, options, cluster));
        let groups = (0..gang.programs())
            .map(|number| options.confinement.groups(&gang.group_name(number)).unwrap_or_default())
            .collect();
        // What cannot be read as a form was refused when the job was submitted.
        let form = held.work.progress.parse().unwrap_or(Form::JsonLines);
        let path = if matches!(form, Form::Pattern(_)) { gang.output(options, 0) } else { folder.progress() };
        let begun_from = folder.order().map_or(held.iterations, |order| order.begun_from);
        let listener = Listener::new(path, form, mailbox::sent(&folder.0), begun_from);
        let iterations = held.iterations;
        Self {
            gang,
            folder,
            child: None,
            keeper: None,
            since: Instant::now(),
            groups,
            begun: false,
            told: control.stop,
            lost: None,
            control,
            listener,
            iterations,
            saved: iterations,
            speed: 0.0,
            resized: None,
            refused: None,
            trouble: None,
        }
    }

    /// An attempt that cannot be started.
    pub(super) fn refused(gang: Gang, after: Duration, options: &Options, cluster: &Cluster) -> Self {
        let refused = Some(Instant::now() + after);
        Self { refused, ..Self::adopted(gang, options, cluster) }
    }

    /// What it is told.
    pub(super) const fn control(&self) -> &Control {
        &self.control
    }

    /// Tells a copy how far it may train, which merge it shall save for, and which one is done.
    pub(super) fn tell_copy(
        &mut self,
        until: Option<u64>,
        (merge, merged): (u64, u64),
        part: Option<[f64; 2]>,
    ) {
        let (merge, merged) = (Some(merge), Some(merged));
        let known = (self.control.until, self.control.merge, self.control.merged, self.control.part);
        if known == (until, merge, merged, part) {
            return;
        }
        if known.2 != merged {
            // It goes on from elsewhere, so what is known of its speed is void until it reports again.
            self.listener.resized();
        }
        (self.control.until, self.control.merge, self.control.merged) = (until, merge, merged);
        self.control.part = part;
        self.control.version += 1;
        self.write_control();
    }

    /// The kernel's groups of its programs.
    pub(super) fn groups(&self) -> &[Vec<PathBuf>] {
        &self.groups
    }

    /// Whether it was told to stop.
    pub(super) const fn is_told(&self) -> bool {
        self.told
    }

    /// Tells it to save and leave.
    pub(super) fn stop(&mut self) {
        if self.folder.ended().is_some() {
            // It has ended by itself, and how it did counts.
            return;
        }
        self.told = true;
        self.control.version += 1;
        self.control.stop = true;
        self.write_control();
        if let Some(keeper) = self.keeper() {
            keeper.signal(Signal::TERM);
        }
    }

    fn write_control(&mut self) {
        if let Err(why) = self.folder.write_control(&self.control) {
            self.trouble = Some(format!("its control file could not be written: {why}"));
        }
    }

    /// Its node is gone: so is everything on it.
    pub(super) fn lose(&mut self, node: NodeId) {
        self.lost = Some(node);
        self.kill();
    }

    /// Whether its node is gone.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Gives it another share without a restart.
    pub(super) fn resize(&mut self, allocation: &Allocation, options: &Options, cluster: &Cluster) {
        let leaders = self.folder.running().map(|running| running.programs).unwrap_or_default();
        let held = &self.gang.held;
        let shares = launch::shares(held, allocation, options, cluster);
        for (i, share) in shares.into_iter().enumerate() {
            if let Some(groups) = self.groups.get(i) {
                let changed = options.confinement.change(groups, leaders.get(i).copied(), share);
                self.trouble = changed
                    .err()
                    .map(|why| format!("its share could not be changed: {why}"))
                    .or(self.trouble.take());
            }
        }
        let new = launch::control(held, allocation, options, cluster);
        let version = self.control.version + 1;
        let (workers, servers, cpus) = (new.workers, new.servers, new.cpus);
        self.control = Control { version, workers, servers, cpus, ..self.control.clone() };
        self.write_control();
        // Nobody knows yet how fast it is now; in proportion is a guess until it reports.
        let workers = |held: &Allocation| f64::from(held.workers().max(1));
        self.speed *= workers(allocation) / workers(&self.gang.held.allocation);
        self.listener.resized();
        self.gang.held.allocation = allocation.clone();
        self.resized = Some(allocation.clone());
    }

    fn keeper(&mut self) -> Option<Identity> {
        if self.keeper.is_none() {
            self.keeper = self.folder.claimed().flatten();
        }
        self.keeper
    }

    /// Kills everything of the attempt. Says whether nothing is left, so that it may start anew.
    fn kill(&mut self) -> bool {
        if let Some(keeper) = self.keeper() {
            keeper.signal(Signal::KILL);
        }
        let marked = self.folder.kill_programs();
        self.groups.iter().all(|groups| empty(groups)) && marked
    }

    /// Looks once. Says whether it is over.
    pub(super) fn look(&mut self, jobs: &Path, reporter: &Reporter) -> bool {
        let (job, attempt) = (self.gang.held.job.id, self.gang.held.attempt);
        if let Some(until) = self.refused {
            return self.look_refused(until, reporter);
        }
        if self.lost.is_some() {
            // It may have begun after its node went down.
            self.kill();
        }
        let keeper_lives = self.keeper_lives();
        // Looked at after the keeper: what it wrote before it ended is there.
        let ended = self.folder.ended();
        if !self.begun && (self.folder.running().is_some() || ended.is_some()) {
            self.begun = true;
            if self.told {
                // It was told before it had begun.
                self.stop();
            }
            let iterations = self.gang.held.iterations;
            reporter.tell(Event::Started { job, attempt, iterations, speed: 0.0 });
        }
        if let Some(trouble) = self.trouble.take() {
            reporter.say(job, attempt, trouble);
        }
        if let Some(allocation) = self.resized.take() {
            let (iterations, speed) = (self.iterations, self.speed);
            reporter.tell(Event::Resized { job, attempt, allocation, iterations, speed });
        }
        let over = ended.is_some() || !keeper_lives;
        if over {
            mailbox::close(&self.folder.0);
        }
        if self.begun {
            self.report(over, reporter);
        }
        if !over {
            return false;
        }
        if ended.is_none() && !self.kill() {
            return false;
        }
        if !self.begun && self.lost.is_none() && !self.told {
            reporter.say(job, attempt, words(None));
            self.refused = Some(Instant::now() + delay(jobs, job, attempt));
            return false;
        }
        // Once it is reported nobody may ever come back to it.
        self.groups.iter().for_each(|groups| remove(groups));
        let event = self.last_word(ended.as_ref(), jobs, reporter);
        reporter.tell(event);
        true
    }

    fn look_refused(&self, until: Instant, reporter: &Reporter) -> bool {
        let waits = Instant::now() < until && self.lost.is_none() && !self.told;
        if !waits {
            let (job, attempt) = (self.gang.held.job.id, self.gang.held.attempt);
            self.groups.iter().for_each(|groups| remove(groups));
            reporter.tell(Event::StartFailed { job, attempt, node: None });
        }
        !waits
    }

    /// Whether the keeper is there, or may still come.
    fn keeper_lives(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && matches!(child.try_wait(), Ok(Some(_)))
        {
            self.child = None;
        }
        if self.folder.claimed() == Some(None) {
            return false;
        }
        match self.keeper() {
            Some(keeper) => keeper.lives(),
            // It has not taken its order yet.
            None if self.child.is_some() && self.lost.is_none() && self.since.elapsed() < PATIENCE => true,
            // If it never does, nobody shall. As long as that cannot be made sure, it may still come.
            None => !self.folder.claim(None).unwrap_or(false),
        }
    }

    fn last_word(&self, ended: Option<&Ended>, jobs: &Path, reporter: &Reporter) -> Event {
        let (job, attempt, iterations) = (self.gang.held.job.id, self.gang.held.attempt, self.saved);
        let said = if self.lost.is_some() { "its node went down".to_owned() } else { words(ended) };
        reporter.say(job, attempt, said);
        if let Some(node) = self.lost {
            if ended.is_none() {
                // Nobody shall count it among those that were killed for what they did.
                let signal = Some(Signal::KILL.as_raw());
                let _ = self.folder.write_ended(&Ended { code: None, signal, told: true, refused: None });
            }
            return Event::Lost { job, attempt, iterations, node: Some(node) };
        }
        if !self.begun {
            return Event::StartFailed { job, attempt, node: None };
        }
        let lost = Event::Lost { job, attempt, iterations, node: None };
        match ended {
            // Its program may have read so in the control file and left before the keeper heard of it.
            _ if self.told => Event::Stopped { job, attempt, iterations },
            Some(Ended { code: Some(0), .. }) => {
                Event::Finished { job, attempt, outcome: Outcome::Completed }
            }
            ended => {
                let killed = Ended { code: None, signal: None, told: false, refused: None };
                match given_up(&self.gang.held, ended.unwrap_or(&killed), jobs) {
                    Some(outcome) => Event::Finished { job, attempt, outcome },
                    None => lost,
                }
            }
        }
    }

    /// Passes on what was reported since the last look; all that is left if it is over.
    fn report(&mut self, over: bool, reporter: &Reporter) {
        let now = self.since.elapsed();
        // A file that cannot be read now may be readable at the next look.
        let heard = if over { self.listener.finish(now) } else { self.listener.listen(now) };
        let Ok(Some(news)) = heard else { return };
        (self.iterations, self.saved) = (news.iterations, news.saved);
        self.speed = news.iterations_per_s.unwrap_or(self.speed);
        reporter.tell(Event::Progress {
            job: self.gang.held.job.id,
            attempt: self.gang.held.attempt,
            iterations: self.iterations,
            speed: self.speed,
            saved: self.saved,
            losses: news.losses,
            copies: Vec::new(),
        });
    }
}

/// The end of a job whose attempt ended in this way, if it is not to be started again: it has failed, or was killed, too often.
pub(super) fn given_up(held: &Held, ended: &Ended, jobs: &Path) -> Option<Outcome> {
    let (job, attempt) = (held.job.id, held.attempt);
    let folders = (1..attempt.0).map(|number| Folder::of(jobs, job, Attempt(number)));
    let earlier = folders.filter(|folder| folder.running().is_some()).map(|folder| folder.ended());
    if ended.code.is_some_and(|code| code != 0) {
        let failed = |ended: &Ended| ended.code.is_some_and(|code| code != 0) && !ended.told;
        let before = earlier.filter(|ended| ended.as_ref().is_some_and(failed)).count();
        return (before >= held.work.retries as usize).then_some(Outcome::Failed);
    }
    if ended.code.is_none() {
        let killed = |ended: &Ended| ended.signal.is_some() && !ended.told;
        let before = earlier.filter(|ended| ended.as_ref().is_none_or(killed)).count();
        return (before >= MOST_KILLED).then_some(Outcome::Killed);
    }
    None
}

/// After how long a start that failed is tried again: the longer the more have failed since the last that began.
pub(super) fn delay(jobs: &Path, job: JobId, attempt: Attempt) -> Duration {
    let failed = (1..attempt.0).rev().take(LONGEST_DELAY_DOUBLINGS as usize);
    let failed =
        failed.take_while(|number| Folder::of(jobs, job, Attempt(*number)).running().is_none()).count();
    FIRST_DELAY * 2_u32.pow(failed as u32)
}

/// How an attempt ended, for people.
fn words(ended: Option<&Ended>) -> String {
    match ended {
        None => "its processes vanished".to_owned(),
        Some(Ended { refused: Some(why), .. }) => format!("could not be started: {why}"),
        Some(Ended { code: Some(0), told: false, .. }) => "finished".to_owned(),
        Some(Ended { code: Some(code), told, .. }) => {
            format!("exit code {code}{}", if *told { " after it was told to stop" } else { "" })
        }
        Some(Ended { signal: Some(signal), told, .. }) => {
            format!("ended by signal {signal}{}", if *told { " after it was told to stop" } else { "" })
        }
        Some(Ended { code: None, signal: None, .. }) => "ended".to_owned(),
    }
}

/// The thread that looks.
pub(super) struct Watcher {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watcher {
    pub(super) fn begin(
        attempts: Attempts,
        options: Arc<Options>,
        cluster: Cluster,
        reporter: Reporter,
    ) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::SeqCst) {
                let mut all = attempts.lock().unwrap_or_else(PoisonError::into_inner);
                all.retain(|_, followed| !followed.look(&options, &cluster, &reporter));
                drop(all);
                std::thread::sleep(TICK);
            }
        });
        Self { ends, thread }
    }

    pub(super) fn end(self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = self.thread.join();
    }
}
