//! Holds a policy to its time. One that thinks longer than it may costs a cycle: its previous decision stands, and a
//! fresh instance decides next time. The old one is left to its thoughts, as a thread cannot be ended from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use trainyard_sched::decide::{Abilities, Ahead, Cadence, Decision, Policy, Verdict};
use trainyard_sched::estimate::Fitting;
use trainyard_sched::model::JobId;
use trainyard_sched::view::Snapshot;

/// Makes a fresh instance of a policy.
pub type Fresh = Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync>;

/// A policy that is held to its time.
pub struct Guarded {
    fresh: Fresh,
    budget: Duration,
    /// Never asked to decide; it answers what takes no time.
    sample: Box<dyn Policy>,
    worker: Option<Worker>,
}

/// A thread in which a policy thinks.
struct Worker {
    questions: Sender<Snapshot>,
    answers: Receiver<Result<Decision, String>>,
}

impl Guarded {
    /// A policy that may think for so long each time.
    pub fn new(fresh: Fresh, budget: Duration) -> Self {
        let sample = fresh();
        Self { fresh, budget, sample, worker: None }
    }
}

impl Worker {
    fn begin(mut policy: Box<dyn Policy>) -> Self {
        let (questions, asked) = channel::<Snapshot>();
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            while let Ok(seen) = asked.recv() {
                let decided = catch_unwind(AssertUnwindSafe(|| policy.decide(&seen))).map_err(|panic| {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                    text.unwrap_or("the policy panicked without a message").to_owned()
                });
                let broken = decided.is_err();
                if answer.send(decided).is_err() || broken {
                    break;
                }
            }
        });
        Self { questions, answers }
    }
}

impl Policy for Guarded {
    fn cadence(&self) -> Cadence {
        self.sample.cadence()
    }

    fn needs(&self) -> Abilities {
        self.sample.needs()
    }

    fn fitting(&self) -> Option<Fitting> {
        self.sample.fitting()
    }

    fn keeps_limits(&self) -> bool {
        self.sample.keeps_limits()
    }

    fn is_work_conserving(&self) -> bool {
        self.sample.is_work_conserving()
    }

    fn is_starvation_free(&self) -> bool {
        self.sample.is_starvation_free()
    }

    /// # Panics
    /// If the policy panics or takes too long; the loop catches that.
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let fresh = &self.fresh;
        let worker = self.worker.get_or_insert_with(|| Worker::begin(fresh()));
        let asked = worker.questions.send(seen.clone());
        let answer = match worker.answers.recv_timeout(self.budget) {
            Ok(answer) if asked.is_ok() => answer,
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                Err("the policy ended without an answer".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("the policy did not decide within {:?}", self.budget))
            }
        };
        answer.unwrap_or_else(|why| {
            self.worker = None;
            panic!("{why}")
        })
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.sample.explain(seen, job)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.sample.ahead(seen, job)
    }
}
