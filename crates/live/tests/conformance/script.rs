//! The words of the script: scenes are data, and know nothing of the kind of cluster on which they are played.

use trainyard_sched::control::{Action, How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Allocation, CopyId, GPU, GpuSet, JobId, NodeId, NodeState, Placement, TaskId, WORKER_TASK,
};

use super::stage::{Setting, Training};

/// A scene.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// What it shows.
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    /// A backend without these is not asked.
    pub(crate) needs: Abilities,
    pub(crate) lines: Vec<Line>,
}

/// A line of a scene. Attempts are numbered as the loop does it: a start has the next number, and other orders are about the
/// latest.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// Starts a job.
    Start(u32, Allocation),
    /// Stops it.
    Stop(u32, How),
    /// Gives it something else to hold.
    Resize(u32, Allocation),
    /// Brings its copies together.
    Merge(u32),
    /// Starts copies of a job, each of which may do so many iterations.
    StartWith(u32, Allocation, Vec<u64>),
    /// Brings copies together, each of which may do so many iterations from then on.
    MergeWith(u32, Vec<u64>),
    /// Each copy of a job comes to have done exactly what it may since they were brought together last, and then all rest.
    Rest(u32),
    /// The same order as the one before, once more.
    Again,
    /// An order as it stands, to be without any effect.
    Order(Action),
    /// An operator changes a node.
    Node(u32, NodeState),
    /// The owner takes a job back.
    Withdraw(u32),
    /// All of these come, in any order. Of each one of several will do. Beside them only progress is told.
    Expect(Vec<Vec<What>>),
    /// A job comes to hold nothing, in whatever way.
    Idle(u32),
    /// A job that holds nothing and is not over starts here, as the loop would have it do, and comes to run.
    Restart(u32, Allocation),
    /// A job runs until it is over, if it is not.
    Over(u32),
    /// A job comes so far.
    Reach(u32, u32),
    /// For a while nothing is told of a job.
    Quiet(u32),
    /// A job that holds nothing would go on from so many iterations.
    Left(u32, u32),
    /// A job is really there, all of it and once.
    Whole(u32),
    /// Nothing of a job is really there.
    Gone(u32),
}

/// What is expected of the latest attempt of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Started(u32),
    StartFailed(u32),
    Stopped(u32),
    Resized(u32),
    Merged(u32),
    Finished(u32, Outcome),
    /// Lost with this node.
    Lost(u32, u32),
    /// It is farther than at the beginning of the line, and its speed is known.
    Progress(u32),
    /// More of it is saved than at the beginning of the line.
    Saved(u32),
    /// It reports losses.
    Losses(u32),
    /// It reports how far each of its copies is, and all of them train.
    Copies(u32),
    Withdrawn(u32),
    NodeChanged(u32, NodeState),
}

/// A scene on so many nodes.
pub(crate) fn scene(
    name: &'static str,
    nodes: u32,
    trainings: Vec<Training>,
    lines: impl IntoIterator<Item = Line>,
) -> Scene {
    let setting = Setting { nodes, trainings };
    Scene { name, setting, needs: Abilities::NONE, lines: lines.into_iter().collect() }
}

impl Scene {
    pub(crate) const fn needing(mut self, needs: Abilities) -> Self {
        self.needs = needs;
        self
    }
}

/// Exactly this comes next.
pub(crate) fn expect(what: What) -> Line {
    Line::Expect(vec![vec![what]])
}

/// One of these comes next.
pub(crate) fn either(what: impl Into<Vec<What>>) -> Line {
    Line::Expect(vec![what.into()])
}

/// All of these come, in any order.
pub(crate) fn all(what: impl IntoIterator<Item = What>) -> Line {
    Line::Expect(what.into_iter().map(|what| vec![what]).collect())
}

/// A worker on each of these devices of nodes, which are given as bits.
pub(crate) fn on(nodes: impl IntoIterator<Item = (u32, u64)>) -> Allocation {
    shares(0, nodes, GPU as u16)
}

/// A copy on each of these.
pub(crate) fn copies(nodes: impl IntoIterator<Item = (u32, u64)>) -> Allocation {
    let each = nodes.into_iter().enumerate().map(|(copy, at)| shares(copy as u16, [at], GPU as u16));
    each.reduce(|all, more| all.with(&more)).unwrap_or_default()
}

/// A task on each of these, from task 0 on.
pub(crate) fn tasks(nodes: impl IntoIterator<Item = (u32, u64)>) -> Allocation {
    let placement = |(task, (node, devices)): (usize, (u32, u64))| Placement {
        copy: CopyId(0),
        task: TaskId(task as u32),
        node: NodeId(node),
        count: 1,
        gpus: GpuSet::whole(devices),
    };
    Allocation::new(nodes.into_iter().enumerate().map(placement).collect())
}

/// A worker with a part of a device.
pub(crate) fn part(node: u32, devices: u64, share_milli: u16) -> Allocation {
    shares(0, [(node, devices)], share_milli)
}

fn shares(copy: u16, nodes: impl IntoIterator<Item = (u32, u64)>, share_milli: u16) -> Allocation {
    let placement = |(node, devices): (u32, u64)| Placement {
        copy: CopyId(copy),
        task: WORKER_TASK,
        node: NodeId(node),
        count: devices.count_ones(),
        gpus: GpuSet { devices, share_milli },
    };
    Allocation::new(nodes.into_iter().map(placement).collect())
}

/// The job of this number.
pub(crate) const fn job(number: u32) -> JobId {
    JobId(number)
}
