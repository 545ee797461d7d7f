//! The loop's backend over a real cluster. Requests of people and reports of the executor come over one channel and are
//! gathered for a moment into a batch; actions go to the executor. Whoever asked is answered when what came of it is on
//! disk, and not before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use trainyard_sched::control::{Action, Backend, Batch, Core, Event, Step};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Attempt, Cluster, Job, JobId, NodeId, NodeState, Time};

use crate::clock::Clock;
use crate::daemon::Submission;
use crate::executor::{Executor, Held, Reporter};
use crate::store::KeptWork;
use crate::work::Work;

/// So many messages make a batch at the most.
const MOST_MESSAGES: usize = 1000;

/// A look at the loop between two steps.
pub(crate) type Look = Box<dyn FnOnce(&Core, Time) + Send>;

/// What comes over the channel.
pub(crate) enum Message {
    /// A job is submitted; the answer is its number, and whether it is new.
    Submit(Box<Submission>, SyncSender<(JobId, bool)>),
    /// A job is taken back.
    Withdraw(JobId, SyncSender<()>),
    /// Another policy; the answer is why not.
    Choose(String, toml::Table, SyncSender<Result<(), String>>),
    /// An operator changes a node.
    Node(NodeId, NodeState, SyncSender<()>),
    /// The executor reports.
    Happened(Event),
    /// The executor says something about a job that no event can say.
    Said(JobId, Attempt, String),
    /// Somebody wants to look.
    Look(Look),
    /// The daemon shall end.
    Leave,
}

/// An answer that waits until its step is on disk.
type Answer = Box<dyn FnOnce(&Step)>;

/// What the backend and the log of one loop share.
#[derive(Default)]
pub(crate) struct Desk {
    /// The jobs that have not ended.
    pub(crate) jobs: BTreeMap<JobId, Known>,
    /// Numbers by tenant and key of the request.
    pub(crate) keys: BTreeMap<(Arc<str>, Arc<str>), JobId>,
    /// The number of the next job.
    pub(crate) next: u32,
    /// Programs that are not yet on disk.
    pub(crate) works: Vec<KeptWork>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) looks: Vec<Look>,
    pub(crate) said: Vec<(JobId, Attempt, String)>,
    pub(crate) cluster: Cluster,
    /// Whether the daemon ends with a step that could not be written down: nothing of it is done.
    pub(crate) abandoned: bool,
    /// When the messages of this step had been gathered.
    pub(crate) gathered: Option<Instant>,
}

/// A job that has not ended.
pub(crate) struct Known {
    pub(crate) job: Arc<Job>,
    pub(crate) work: Arc<Work>,
    /// From where its next start goes on.
    pub(crate) saved: f64,
}

/// The backend.
pub(crate) struct Bridge {
    pub(crate) desk: Rc<RefCell<Desk>>,
    pub(crate) messages: Receiver<Message>,
    pub(crate) reporter: Reporter,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) clock: Clock,
    /// How long messages are gathered once one has come.
    pub(crate) settle: Duration,
    pub(crate) leaving: bool,
    pub(crate) last: Time,
}

impl Bridge {
    fn first(&self, until: Option<Time>) -> Option<Message> {
        match until {
            None => self.messages.recv().ok(),
            Some(until) => self.messages.recv_timeout(self.clock.until(until)).ok(),
        }
    }

    /// The messages of a moment.
    fn gather(&self, until: Option<Time>) -> Vec<Message> {
        let mut all: Vec<Message> = self.first(until).into_iter().collect();
        let end = Instant::now() + self.settle;
        // A step says of one change of the policy whether it was made, so there is no second one in it.
        while all.last().is_some_and(|last| !matches!(last, Message::Choose(..))) && all.len() < MOST_MESSAGES
        {
            match self.messages.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) => all.push(message),
                Err(_) => break,
            }
        }
        all
    }

    fn take(&mut self, message: Message, at: Time, events: &mut Vec<Event>) {
        let mut desk = self.desk.borrow_mut();
        match message {
            Message::Submit(submission, reply) => {
                let (job, event) = desk.submit(*submission, at);
                let new = event.is_some();
                events.extend(event);
                desk.answers.push(Box::new(move |_| {
                    let _ = reply.send((job, new));
                }));
            }
            Message::Withdraw(job, reply) => {
                events.push(Event::Withdrawn { job });
                desk.answers.push(Box::new(move |_| {
                    let _ = reply.send(());
                }));
            }
            Message::Choose(policy, parameters, reply) => {
                events.push(Event::PolicyChanged { policy, parameters });
                desk.answers.push(Box::new(move |step| {
                    drop(reply.send(step.unchanged.clone().map_or(Ok(()), Err)));
                }));
            }
            Message::Node(node, state, reply) => {
                events.push(Event::NodeChanged { node, state });
                if let Some(known) = desk.cluster.nodes.get_mut(node.index()) {
                    known.state = state;
                    // A node that fails does not wait until that is written down.
                    self.executor.node_changed(&desk.cluster, node, state);
                }
                desk.answers.push(Box::new(move |_| {
                    let _ = reply.send(());
                }));
            }
            Message::Happened(event) => {
                desk.follow(&event);
                events.push(event);
            }
            Message::Said(job, attempt, text) => desk.said.push((job, attempt, text)),
            Message::Look(look) => desk.looks.push(look),
            Message::Leave => self.leaving = true,
        }
    }

    fn held(
        &self,
        job: JobId,
        attempt: Attempt,
        allocation: &trainyard_sched::model::Allocation,
    ) -> Option<Held> {
        let desk = self.desk.borrow();
        let known = desk.jobs.get(&job)?;
        Some(Held {
            job: Arc::clone(&known.job),
            work: Arc::clone(&known.work),
            attempt,
            allocation: allocation.clone(),
            iterations: known.saved,
            pending: None,
        })
    }
}

impl Desk {
    /// Gives a submission its number, unless the same request came before.
    fn submit(&mut self, submission: Submission, at: Time) -> (JobId, Option<Event>) {
        let key = submission.key.clone().map(|key| (Arc::clone(&submission.tenant_name), key));
        if let Some(job) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return (*job, None);
        }
        let id = JobId(self.next);
        self.next += 1;
        let work = Arc::new(submission.work);
        if let Some(key) = key {
            self.keys.insert(key, id);
        }
        self.works.push(KeptWork {
            job: id,
            tenant: submission.tenant_name,
            key: submission.key,
            work: Arc::clone(&work),
        });
        let mut job = submission.job;
        (job.id, job.submitted) = (id, at);
        if job.name.is_empty() {
            job.name = format!("job-{}", id.0).into();
        }
        let job = Arc::new(job);
        self.jobs.insert(id, Known { job: Arc::clone(&job), work, saved: 0.0 });
        (id, Some(Event::Arrived { job }))
    }

    /// Remembers what the next start of a job goes on from.
    pub(crate) fn follow(&mut self, event: &Event) {
        let (job, saved) = match event {
            Event::Progress { job, saved, .. } => (job, *saved),
            Event::Stopped { job, iterations, .. } | Event::Lost { job, iterations, .. } => {
                (job, *iterations)
            }
            _ => return,
        };
        if let Some(known) = self.jobs.get_mut(job).filter(|_| saved.is_finite()) {
            known.saved = saved;
        }
    }
}

impl Backend for Bridge {
    fn abilities(&self) -> Abilities {
        self.executor.abilities()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Batch> {
        if self.leaving || self.desk.borrow().abandoned {
            return None;
        }
        let messages = self.gather(until);
        self.desk.borrow_mut().gathered = Some(Instant::now());
        self.last = self.clock.now().max(self.last);
        let (at, mut events) = (self.last, Vec::new());
        for message in messages {
            self.take(message, at, &mut events);
        }
        Some(Batch { at, events })
    }

    fn perform(&mut self, action: &Action) {
        if self.desk.borrow().abandoned {
            return;
        }
        crate::fault::point();
        match action {
            Action::Start { job, attempt, allocation } => match self.held(*job, *attempt, allocation) {
                Some(held) => self.executor.start(held, &self.reporter),
                None => self.reporter.tell(Event::StartFailed { job: *job, attempt: *attempt, node: None }),
            },
            Action::Stop { job, attempt, how } => self.executor.stop(*job, *attempt, *how),
            Action::Resize { job, attempt, allocation } => self.executor.resize(*job, *attempt, allocation),
            Action::Merge { job, attempt } => self.executor.merge(*job, *attempt),
        }
    }
}
