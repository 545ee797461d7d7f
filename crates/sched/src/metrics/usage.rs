//! How much of the time nodes trained: the cluster resource utilisation of HadarE, by node (specification of Hadar and Gavel,
//! 2.6.7). A node trains while a job trains there; loading, saving and bringing copies together is no training, and neither is a
//! copy that has done what it may and rests.

use std::collections::BTreeMap;

use crate::control::{Action, Batch, Event, Log, Step};
use crate::model::{Allocation, Attempt, Cluster, CopyId, JobId, NodeId, Span, Time};

use super::Series;

/// What a job does on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Training,
    /// It loads, saves, or its copies are brought together.
    Pausing,
    /// It has done what it may.
    Resting,
}

/// How one node spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// Some job trained.
    pub trained: Span,
    /// None did, and some job was loading, saving or being brought together.
    pub paused: Span,
    training: u32,
    pausing: u32,
    since: Time,
}

#[derive(Clone, Debug)]
struct Copy {
    id: CopyId,
    nodes: Vec<NodeId>,
    /// As it was told last.
    doing: Doing,
}

#[derive(Clone, Debug)]
struct Open {
    attempt: Attempt,
    held: Allocation,
    copies: Vec<Copy>,
    /// Whether all of it pauses, whatever its copies do otherwise.
    is_paused: bool,
}

/// All nodes.
#[derive(Clone, Debug)]
struct Nodes {
    each: Vec<NodeUse>,
    /// How many of them train.
    training: usize,
}

/// How nodes spend their time.
#[derive(Clone, Debug)]
pub struct Usage {
    nodes: Nodes,
    jobs: BTreeMap<JobId, Open>,
    first_arrival: Option<Time>,
    last_end: Option<Time>,
    /// How many nodes train, over time.
    training: Series,
    has_copies: bool,
}

impl Usage {
    /// Nothing has happened yet.
    pub fn new(cluster: &Cluster) -> Self {
        let nodes = Nodes { each: vec![NodeUse::default(); cluster.nodes.len()], training: 0 };
        Self {
            nodes,
            jobs: BTreeMap::new(),
            first_arrival: None,
            last_end: None,
            training: Series::default(),
            has_copies: false,
        }
    }

    /// Each node, as of the latest change there.
    pub fn nodes(&self) -> &[NodeUse] {
        &self.nodes.each
    }

    /// The part of the time from the first arrival to the last end for which nodes trained, over all nodes; and the same with
    /// pauses. Nothing if no job has ended.
    pub fn utilisation(&self) -> Option<(f64, f64)> {
        let all_s = self.last_end?.since(self.first_arrival?).as_secs_f64() * self.nodes.each.len() as f64;
        let sum_s =
            |of: fn(&NodeUse) -> Span| self.nodes.each.iter().map(|node| of(node).as_secs_f64()).sum::<f64>();
        let (trained_s, paused_s) = (sum_s(|node| node.trained), sum_s(|node| node.paused));
        (all_s > 0.0).then(|| (trained_s / all_s, (trained_s + paused_s) / all_s))
    }

    /// Which part of the nodes trained, over time.
    pub fn over_time(&self) -> Vec<(f64, f64)> {
        let all = self.nodes.each.len().max(1) as f64;
        self.training.means().into_iter().map(|(at_s, nodes)| (at_s, nodes / all)).collect()
    }

    /// Whether some job ever had several copies.
    pub fn has_copies(&self) -> bool {
        self.has_copies
    }

    /// Changes what a job does, and counts anew on its nodes.
    fn edit(&mut self, at: Time, id: JobId, change: impl FnOnce(&mut Open)) {
        let Some(open) = self.jobs.get_mut(&id) else { return };
        open.count(&mut self.nodes, at, false);
        change(open);
        self.has_copies |= open.copies.len() > 1;
        open.count(&mut self.nodes, at, true);
    }

    fn current(&self, id: JobId, attempt: Attempt) -> bool {
        self.jobs.get(&id).is_some_and(|open| open.attempt == attempt)
    }

    fn let_go(&mut self, at: Time, id: JobId, attempt: Attempt) {
        if self.current(id, attempt)
            && let Some(open) = self.jobs.remove(&id)
        {
            open.count(&mut self.nodes, at, false);
        }
    }

    fn event(&mut self, at: Time, event: &Event) {
        match event {
            Event::Arrived { .. } => drop(self.first_arrival.get_or_insert(at)),
            Event::Started { job, attempt, .. } if self.current(*job, *attempt) => {
                self.edit(at, *job, |open| {
                    open.copies.iter_mut().for_each(|copy| copy.doing = Doing::Training)
                });
            }
            Event::Progress { job, attempt, copies, .. } if self.current(*job, *attempt) => {
                self.edit(at, *job, |open| {
                    for told in copies {
                        let Some(copy) = open.copies.iter_mut().find(|copy| copy.id == told.copy) else {
                            continue;
                        };
                        copy.doing = match (told.waits, copy.doing) {
                            (false, _) => Doing::Training,
                            (true, Doing::Training) => Doing::Resting,
                            (true, before) => before,
                        };
                    }
                });
            }
            Event::Merged { job, attempt, .. } if self.current(*job, *attempt) => {
                self.edit(at, *job, |open| open.is_paused = false);
            }
            Event::Resized { job, attempt, allocation, .. } if self.current(*job, *attempt) => {
                self.edit(at, *job, |open| open.resize(allocation));
            }
            Event::Stopped { job, attempt, .. }
            | Event::Lost { job, attempt, .. }
            | Event::StartFailed { job, attempt, .. }
            | Event::Finished { job, attempt, .. } => self.let_go(at, *job, *attempt),
            _ => {}
        }
    }

    fn action(&mut self, at: Time, action: &Action) {
        match action {
            Action::Start { job, attempt, allocation, .. } => {
                let open = Open {
                    attempt: *attempt,
                    held: allocation.clone(),
                    copies: copies(allocation),
                    is_paused: false,
                };
                self.has_copies |= open.copies.len() > 1;
                open.count(&mut self.nodes, at, true);
                self.jobs.insert(*job, open);
            }
            Action::Stop { job, attempt, .. } | Action::Merge { job, attempt, .. }
                if self.current(*job, *attempt) =>
            {
                self.edit(at, *job, |open| open.is_paused = true);
            }
            // One without copies pauses as a whole; of several those that stay go on.
            Action::Resize { job, attempt, allocation, .. } if self.current(*job, *attempt) => {
                self.edit(at, *job, |open| {
                    open.is_paused |= open.copies.len() < 2 && allocation.copies() < 2;
                });
            }
            _ => {}
        }
    }
}

impl Open {
    /// Counts what it does on its nodes in, or out.
    fn count(&self, nodes: &mut Nodes, at: Time, is_in: bool) {
        for copy in &self.copies {
            let doing = if self.is_paused { Doing::Pausing } else { copy.doing };
            for node in &copy.nodes {
                let one = &mut nodes.each[node.index()];
                let before = usize::from(one.training > 0);
                one.count(doing, at, is_in);
                nodes.training = nodes.training + usize::from(one.training > 0) - before;
            }
        }
    }

    fn resize(&mut self, allocation: &Allocation) {
        let before = std::mem::replace(&mut self.copies, copies(allocation));
        let was_one = before.len() == 1;
        let same = |one: &Copy, other: &Copy| (one.id, &one.nodes) == (other.id, &other.nodes);
        for copy in &mut self.copies {
            // One that is where it was goes on as it did.
            let here = before.iter().find(|other| same(copy, other));
            let doing = here.map(|other| other.doing);
            copy.doing = doing.unwrap_or(if was_one && allocation.copies() == 1 {
                Doing::Training
            } else {
                Doing::Pausing
            });
        }
        (self.held, self.is_paused) = (allocation.clone(), false);
    }
}

impl NodeUse {
    fn count(&mut self, doing: Doing, at: Time, is_in: bool) {
        let span = at.since(self.since);
        if self.training > 0 {
            self.trained += span;
        } else if self.pausing > 0 {
            self.paused += span;
        }
        self.since = self.since.max(at);
        let count = match doing {
            Doing::Training => &mut self.training,
            Doing::Pausing => &mut self.pausing,
            Doing::Resting => return,
        };
        *count = if is_in { *count + 1 } else { count.saturating_sub(1) };
    }
}

fn copies(held: &Allocation) -> Vec<Copy> {
    let each = held.placements().chunk_by(|one, other| one.copy == other.copy);
    each.map(|placements| {
        let nodes = Allocation::new(placements.to_vec()).nodes();
        Copy { id: placements[0].copy, nodes, doing: Doing::Pausing }
    })
    .collect()
}

impl Log for Usage {
    fn step(&mut self, batch: &Batch, step: &Step) {
        for event in &batch.events {
            self.event(batch.at, event);
            if let Event::Finished { .. } = event {
                self.last_end = Some(batch.at);
            }
        }
        if !step.ended.is_empty() {
            self.last_end = Some(batch.at);
        }
        for action in &step.actions {
            self.action(batch.at, action);
        }
        if !batch.events.is_empty() || !step.actions.is_empty() {
            self.training.set(batch.at, self.nodes.training as f64);
        }
    }
}
