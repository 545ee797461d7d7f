//! The seam between the loop and a kind of cluster: local processes, Slurm, Kubernetes.
//!
//! An executor has no choice left to make: orders name nodes and devices. It answers at once and reports what came of an
//! order later, by events. Reports may come twice or late; orders about an attempt that is over are ignored. What else is
//! expected of it is said scene by scene in `tests/conformance`, to which every executor is held.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use trainyard_sched::control::{Event, How};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Cluster, Job, JobId, NodeId, NodeState, Quotas};

use crate::bridge::Message;
use crate::work::Work;

/// Runs jobs on a real cluster.
pub trait Executor: Send {
    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// What it calls itself, and how, as a sentence for people.
    fn describe(&self) -> String;

    /// After a restart: these attempts hold something, as far as was written down. For each, the executor finds out what
    /// became of it, follows it from now on, and reports. One that was ordered and never began is reported so.
    fn adopt(&mut self, held: Vec<Held>, reporter: &Reporter);

    /// Starts an attempt.
    fn start(&mut self, held: Held, reporter: &Reporter);

    /// Stops an attempt.
    fn stop(&mut self, job: JobId, attempt: Attempt, how: How);

    /// Gives a running attempt something else to hold, and says how far each of its copies may go.
    fn resize(&mut self, job: JobId, attempt: Attempt, allocation: &Allocation, quotas: &Quotas);

    /// Brings the parameters of an attempt's copies together, and says how far each may go from then on. A merge of a number
    /// that was made before is not made again.
    fn merge(&mut self, job: JobId, attempt: Attempt, number: u32, quotas: &Quotas);

    /// A node changed by command of an operator. One that is down has lost what ran there.
    fn node_changed(&mut self, cluster: &Cluster, node: NodeId, state: NodeState);

    /// Called when the daemon leaves: nothing is stopped, but nobody listens to reports any more.
    fn leave(&mut self) {}
}

/// An attempt and everything that is needed to run it.
#[derive(Clone, Debug)]
pub struct Held {
    /// The job.
    pub job: Arc<Job>,
    /// What it runs.
    pub work: Arc<Work>,
    /// Which start.
    pub attempt: Attempt,
    /// Where.
    pub allocation: Allocation,
    /// From how many iterations it goes on.
    pub iterations: f64,
    /// How far each of its copies may go, since they were brought together last.
    pub quotas: Quotas,
    /// What was ordered of it meanwhile and perhaps never carried out; only after a restart.
    pub pending: Option<Pending>,
}

/// What was ordered of an attempt that holds something.
#[derive(Clone, Debug, PartialEq)]
pub enum Pending {
    /// To stop.
    Stop,
    /// To hold something else, and how far each of its copies may go then.
    Resize(Allocation, Quotas),
}

/// Where an executor reports to. Reports after the daemon has left are dropped.
#[derive(Clone, Debug)]
pub struct Reporter(pub(crate) Sender<Message>);

impl Reporter {
    /// Reports that something happened.
    pub fn tell(&self, event: Event) {
        let _ = self.0.send(Message::Happened(event));
    }

    /// Says something about an attempt that people should read, such as how its program ended. To be said before the event.
    pub fn say(&self, job: JobId, attempt: Attempt, text: String) {
        let _ = self.0.send(Message::Said(job, attempt, text));
    }
}
