//! Writes the steps of a loop down, answers whoever waited for that, and keeps what is shown up to date.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use trainyard_sched::control::{Batch, Core, Log, Record, Step};
use trainyard_sched::model::{JobId, Time};

use crate::board::{Board, Touched};
use crate::bridge::Desk;
use crate::clock::Wall;
use crate::daemon::{Follower, Told};
use crate::store::{Entry, Kept, Store};
use crate::work::Work;

/// How long to wait before the journal is tried again, if it cannot be written.
const RETRY: Duration = Duration::from_millis(500);

/// Keeping the state may take one part in so many of the time.
const KEEP_PART: u32 = 20;

/// A state that is being put into bytes.
pub(crate) struct Keeping {
    /// The last record before it.
    after: u64,
    began: Instant,
    bytes: JoinHandle<Vec<u8>>,
}

/// Writes steps down, and answers whoever waited for that.
pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) desk: Rc<RefCell<Desk>>,
    pub(crate) board: Arc<RwLock<Board>>,
    pub(crate) follower: Follower,
    pub(crate) policy: (String, toml::Table),
    pub(crate) touched: Option<Touched>,
    pub(crate) at: Time,
    /// Records since a state was kept.
    pub(crate) since_kept: u64,
    /// So many records are told again at the next start, at the most.
    pub(crate) keep_every: u64,
    /// The state that is being kept.
    pub(crate) keeping: Option<Keeping>,
    pub(crate) keep_not_before: Instant,
    /// Set when the daemon is to end.
    pub(crate) leaves: Arc<AtomicBool>,
}

impl Writer {
    /// Writes an entry down, however long it takes: until it is on disk nothing may be done and nobody answered. There is
    /// nothing if the daemon is to end before that; then it is as if the step had never been.
    fn write(&mut self, entry: &Entry<'_>) -> Option<u64> {
        loop {
            match self.store.append(entry) {
                Ok(number) => {
                    self.stalled(None);
                    return Some(number);
                }
                Err(_) if self.leaves.load(Ordering::SeqCst) => return None,
                Err(error) => {
                    self.stalled(Some(error.to_string()));
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn stalled(&self, why: Option<String>) {
        let same = self.shown(|board| board.stalled == why);
        if !same {
            self.show(|board| board.stalled = why);
        }
    }

    fn show<R>(&self, change: impl FnOnce(&mut Board) -> R) -> R {
        change(&mut self.board.write().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn shown<R>(&self, look: impl FnOnce(&Board) -> R) -> R {
        look(&self.board.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Answers whoever waited for this step.
    fn answer(&self, step: &Step) {
        let answers = std::mem::take(&mut self.desk.borrow_mut().answers);
        for answer in answers {
            answer(step);
        }
    }

    /// The state after the last record.
    fn kept(&self, core: &Core) -> Kept {
        let (policy, parameters) = self.policy.clone();
        Kept { moment: core.moment(self.at), policy, parameters }
    }

    /// Keeps the state, so that the next start need not tell everything again.
    pub(crate) fn keep(&mut self, core: &Core) {
        let bytes = self.kept(core).bytes();
        let _ = self.store.keep(self.store.last(), &bytes);
    }

    /// Keeps the state now and then. A large one takes a while to be put into bytes, so that is done aside.
    fn keep_aside(&mut self, core: &Core) {
        if let Some(keeping) = self.keeping.take_if(|keeping| keeping.bytes.is_finished())
            && let Ok(bytes) = keeping.bytes.join()
        {
            // If it fails, what was kept before and the records since say the same.
            let _ = self.store.keep(keeping.after, &bytes);
            self.keep_not_before = Instant::now() + keeping.began.elapsed() * KEEP_PART;
        }
        let is_time = self.since_kept >= self.keep_every && Instant::now() >= self.keep_not_before;
        if is_time && self.keeping.is_none() {
            let (kept, began) = (self.kept(core), Instant::now());
            let bytes = std::thread::spawn(move || kept.bytes());
            self.keeping = Some(Keeping { after: self.store.last(), began, bytes });
            self.since_kept = 0;
        }
    }
}

impl Log for Writer {
    fn step(&mut self, batch: &Batch, step: &Step) {
        self.at = batch.at;
        let quiet = batch.events.is_empty()
            && step.decision.is_none()
            && step.actions.is_empty()
            && step.ended.is_empty()
            && step.panic.is_none();
        if quiet {
            // The same request a second time brings nothing about and wants an answer all the same.
            self.answer(step);
            return;
        }
        let wall = Wall::now();
        let record = Record { at: batch.at, events: batch.events.clone(), step: step.clone() };
        let (works, said) = {
            let mut desk = self.desk.borrow_mut();
            (std::mem::take(&mut desk.works), std::mem::take(&mut desk.said))
        };
        let new: BTreeMap<JobId, Arc<Work>> =
            works.iter().map(|kept| (kept.job, Arc::clone(&kept.work))).collect();
        let ended = self.show(|board| {
            board.hear(&said);
            board.note(batch, wall, step, &new);
            step.ended.iter().filter_map(|(job, _)| board.jobs.get(job).cloned()).collect::<Vec<_>>()
        });
        let written = self.write(&Entry { record: &record, wall, works: &works, ended: &ended });
        let Some(number) = written else {
            let mut desk = self.desk.borrow_mut();
            desk.abandoned = true;
            desk.answers.clear();
            return;
        };
        self.since_kept += 1;
        if step.unchanged.is_none() {
            self.policy = self.shown(|board| (board.policy.clone(), board.parameters.clone()));
        }
        let mut desk = self.desk.borrow_mut();
        for (job, _) in &step.ended {
            desk.jobs.remove(job);
        }
        let took = desk.gathered.map(|gathered| gathered.elapsed()).unwrap_or_default();
        drop(desk);
        self.answer(step);
        (self.follower)(&Told { number, wall, record: Arc::new(record), took });
        self.touched = Some(Touched::by(batch, step));
    }

    fn rest(&mut self, core: &Core) {
        let (looks, said) = {
            let mut desk = self.desk.borrow_mut();
            (std::mem::take(&mut desk.looks), std::mem::take(&mut desk.said))
        };
        self.show(|board| {
            board.hear(&said);
            if let Some(touched) = self.touched.as_ref() {
                board.renew(core, touched);
            }
        });
        self.touched = None;
        for look in looks {
            look(core, self.at);
        }
        self.keep_aside(core);
    }
}
