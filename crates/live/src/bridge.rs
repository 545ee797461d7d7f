//! The loop's backend over a real cluster. Requests of people and reports of the executor come over one channel and are
//! gathered for a moment into a batch; actions go to the executor. Whoever asked is answered when what came of it is on
//! disk, and not before.
//!
//! What is true of every kind of cluster is settled here, so that no executor has to: orders of an attempt that is not the
//! latest, of one that was told to stop, and onto nodes that are down are not passed on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use trainyard_sched::control::{Action, Backend, Batch, Core, Event, Step};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Cluster, Job, JobId, NodeId, NodeState, Quotas, Time};

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
    /// A job that was cut short is taken up again.
    Resume(Box<Known>, SyncSender<()>),
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
    /// The latest start that was ordered.
    pub(crate) attempt: Attempt,
    /// Whether that was told to stop.
    pub(crate) is_stopping: bool,
    /// Whether the job has finished.
    pub(crate) is_over: bool,
}

/// The loop's backend over an executor.
///
/// A [`Daemon`](crate::Daemon) has one and lets a policy give its orders. Whoever wants to give them himself, such as a
/// test that holds an executor to what the loop expects of it, makes one by [`Bridge::alone`].
pub struct Bridge {
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

/// Asks a [`Bridge`] that is alone for what people ask a daemon for. What comes of it are events.
#[derive(Clone, Debug)]
pub struct Requests(Sender<Message>);

impl Requests {
    /// Submits a job. The first is number 0, and so on.
    pub fn submit(&self, submission: Submission) {
        self.send(|reply| Message::Submit(Box::new(submission), reply));
    }

    /// Takes a job back.
    pub fn withdraw(&self, job: JobId) {
        self.send(|reply| Message::Withdraw(job, reply));
    }

    /// Changes a node by command.
    pub fn set_node(&self, node: NodeId, state: NodeState) {
        self.send(|reply| Message::Node(node, state, reply));
    }

    fn send<R>(&self, message: impl FnOnce(SyncSender<R>) -> Message) {
        // Nothing is written down, so there is no answer to wait for; a bridge that is gone wants no requests.
        let (reply, _) = sync_channel(1);
        let _ = self.0.send(message(reply));
    }
}

impl Bridge {
    /// A bridge without a daemon, over a cluster on which nothing runs yet. Nothing is written down, and nobody decides.
    pub fn alone(mut executor: Box<dyn Executor>, cluster: Cluster, settle: Duration) -> (Self, Requests) {
        let (sender, messages) = channel();
        let reporter = Reporter(sender.clone());
        executor.adopt(Vec::new(), &reporter);
        let desk = Rc::new(RefCell::new(Desk { cluster, ..Desk::default() }));
        let (clock, last) = (Clock::begin(), Time::ZERO);
        let bridge = Self { desk, messages, reporter, executor, clock, settle, leaving: false, last };
        (bridge, Requests(sender))
    }

    /// What the executor said of attempts, for people, since this was asked last.
    pub fn take_said(&mut self) -> Vec<(JobId, Attempt, String)> {
        std::mem::take(&mut self.desk.borrow_mut().said)
    }

    /// Leaves the cluster. What runs goes on running.
    pub fn leave(&mut self) {
        self.executor.leave();
    }

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
            Message::Resume(known, reply) => {
                let job = known.job.id;
                // The same request may come twice before the first is answered.
                desk.jobs.entry(job).or_insert(*known);
                events.push(Event::Resumed { job });
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

    /// Starts an attempt, unless it or a later one was started before.
    fn start(&mut self, job: JobId, attempt: Attempt, allocation: &Allocation, quotas: &Quotas) {
        let mut desk = self.desk.borrow_mut();
        let fail = |node| self.reporter.tell(Event::StartFailed { job, attempt, node });
        let down = desk.down(allocation);
        let Some(known) = desk.jobs.get_mut(&job) else { return fail(None) };
        if attempt <= known.attempt || known.is_over {
            return;
        }
        (known.attempt, known.is_stopping) = (attempt, false);
        if down.is_some() {
            return fail(down);
        }
        let held = Held {
            job: Arc::clone(&known.job),
            work: Arc::clone(&known.work),
            attempt,
            allocation: allocation.clone(),
            iterations: known.saved,
            quotas: quotas.clone(),
            pending: None,
        };
        drop(desk);
        self.executor.start(held, &self.reporter);
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
        let known = Known {
            job: Arc::clone(&job),
            work,
            saved: 0.0,
            attempt: Attempt(0),
            is_stopping: false,
            is_over: false,
        };
        self.jobs.insert(id, known);
        (id, Some(Event::Arrived { job }))
    }

    /// Remembers what the next start of a job goes on from, and that there is none.
    pub(crate) fn follow(&mut self, event: &Event) {
        let (job, attempt, saved) = match event {
            Event::Progress { job, attempt, saved, .. } => (job, attempt, Some(*saved)),
            Event::Stopped { job, attempt, iterations } | Event::Lost { job, attempt, iterations, .. } => {
                (job, attempt, Some(*iterations))
            }
            Event::Finished { job, attempt, .. } => (job, attempt, None),
            _ => return,
        };
        // What an earlier attempt says late is of no concern any more.
        let Some(known) = self.jobs.get_mut(job).filter(|known| known.attempt == *attempt) else { return };
        match saved {
            Some(saved) if saved.is_finite() => known.saved = saved,
            Some(_) => {}
            None => known.is_over = true,
        }
    }

    /// A node that is down, if an allocation has one.
    fn down(&self, allocation: &Allocation) -> Option<NodeId> {
        let is_down = |node: &NodeId| {
            self.cluster.nodes.get(node.index()).is_none_or(|node| node.state == NodeState::Down)
        };
        allocation.nodes().into_iter().find(is_down)
    }

    /// The job, if this is its latest attempt and was not told to stop.
    fn at_work(&mut self, job: JobId, attempt: Attempt) -> Option<&mut Known> {
        self.jobs
            .get_mut(&job)
            .filter(|known| known.attempt == attempt && !known.is_stopping && !known.is_over)
    }

    /// Whether an order is to be passed on; a stop is remembered.
    fn passes(&mut self, action: &Action) -> bool {
        match action {
            Action::Start { .. } => true,
            Action::Stop { job, attempt, .. } => {
                self.at_work(*job, *attempt).map(|known| known.is_stopping = true).is_some()
            }
            // Of a node that is down the loop will hear, and then order something else.
            Action::Resize { job, attempt, allocation, .. } => {
                self.down(allocation).is_none() && self.at_work(*job, *attempt).is_some()
            }
            Action::Merge { job, attempt, .. } => self.at_work(*job, *attempt).is_some(),
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
        if !self.desk.borrow_mut().passes(action) {
            return;
        }
        match action {
            Action::Start { job, attempt, allocation, quotas } => {
                self.start(*job, *attempt, allocation, quotas);
            }
            Action::Stop { job, attempt, how } => self.executor.stop(*job, *attempt, *how),
            Action::Resize { job, attempt, allocation, quotas } => {
                self.executor.resize(*job, *attempt, allocation, quotas);
            }
            Action::Merge { job, attempt, number, quotas } => {
                self.executor.merge(*job, *attempt, *number, quotas);
            }
        }
    }
}
