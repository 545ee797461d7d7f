//! An independent judge of decisions.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::decide::{Abilities, Change, Decision};
use crate::model::{
    Allocation, CopyId, GPU, Job, JobId, NodeId, NodeState, Parallelism, Quotas, SERVER_TASK, StopRule,
    TaskId, Topology, WORKER_TASK, WorkerRange,
};
use crate::view::{JobView, Phase, Snapshot};

use super::ledger::Ledger;

/// Something wrong with a decision. It names the job whose target must be dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// It speaks of a job that is not there.
    UnknownJob {
        /// The job.
        job: JobId,
    },
    /// It names a job twice, or jobs out of order.
    OutOfOrder {
        /// The job.
        job: JobId,
    },
    /// More of a node is given away than there is.
    OverCommitted {
        /// The job that tips the balance.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// New work is put on a node that takes none.
    NodeNotUp {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// The number of workers, servers or tasks is not one that the job can use.
    GangBroken {
        /// The job.
        job: JobId,
        /// The task with the wrong number.
        task: TaskId,
        /// The number.
        count: u32,
    },
    /// The devices do not add up to what the task demands.
    WrongDevices {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A GPU type, a mix of types, or a topology that the job does not accept.
    ConstraintBroken {
        /// The job.
        job: JobId,
    },
    /// A job that may not be moved is stopped or moved.
    Unmovable {
        /// The job.
        job: JobId,
    },
    /// The backend cannot do this.
    BeyondAbilities {
        /// The job.
        job: JobId,
        /// What is missing.
        lacks: Abilities,
    },
    /// The verdict says the opposite of the target.
    VerdictContradicts {
        /// The job.
        job: JobId,
    },
    /// Copies of a job are to be brought together that has no several copies, or a quota is not one: for a copy that is not
    /// there, missing for one that is, for no iteration at all, or for more than there are.
    WrongQuota {
        /// The job.
        job: JobId,
    },
    /// A stop rule is changed, or a job is cut short, without the owner's leave.
    MayNotRelax {
        /// The job.
        job: JobId,
    },
}

impl Fault {
    /// The job at fault.
    pub const fn job(&self) -> JobId {
        match self {
            Self::UnknownJob { job }
            | Self::OutOfOrder { job }
            | Self::OverCommitted { job, .. }
            | Self::NodeNotUp { job, .. }
            | Self::GangBroken { job, .. }
            | Self::WrongDevices { job, .. }
            | Self::ConstraintBroken { job }
            | Self::Unmovable { job }
            | Self::BeyondAbilities { job, .. }
            | Self::VerdictContradicts { job }
            | Self::WrongQuota { job }
            | Self::MayNotRelax { job } => *job,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Everything that is wrong with a decision, judged from the snapshot alone.
///
/// It counts all targets anew, so it costs as much as there are jobs with a target; the loop uses its
/// own running account instead.
pub fn check(seen: &Snapshot, decision: &Decision, abilities: Abilities) -> Vec<Fault> {
    let mut planned = Ledger::new(&seen.cluster);
    for view in seen.jobs() {
        planned.add(&view.target, &view.job.shape);
    }
    check_against(seen, decision, abilities, &mut planned)
}

/// The same, given the account of the snapshot's targets; it is left as it was.
pub(super) fn check_against(
    seen: &Snapshot,
    decision: &Decision,
    abilities: Abilities,
    planned: &mut Ledger,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let sorted = decision.targets.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    faults.extend(sorted.map(|pair| Fault::OutOfOrder { job: pair[1].0 }));
    let mut sound = Vec::new();
    for (id, target) in &decision.targets {
        let Some(view) = seen.job(*id) else {
            faults.push(Fault::UnknownJob { job: *id });
            continue;
        };
        match check_target(seen, view, target, abilities) {
            // What ends is not moved.
            Some(Fault::Unmovable { .. }) if target.is_none() && is_stopped(*id, decision) => {
                sound.push((view, target));
            }
            Some(fault) => faults.push(fault),
            None => sound.push((view, target)),
        }
    }
    if faults.is_empty() {
        check_room(&sound, planned, &mut faults);
    }
    check_verdicts(seen, decision, &mut faults);
    check_merges(seen, decision, abilities, &mut faults);
    check_changes(seen, decision, &mut faults);
    faults
}

fn is_stopped(id: JobId, decision: &Decision) -> bool {
    decision.changes.iter().any(|change| matches!(change, Change::Stop { job, .. } if *job == id))
}

/// Changes of jobs that are there, as far as their owners allow them.
fn check_changes(seen: &Snapshot, decision: &Decision, faults: &mut Vec<Fault>) {
    for change in &decision.changes {
        let Some(view) = seen.job(change.job()) else {
            faults.push(Fault::UnknownJob { job: change.job() });
            continue;
        };
        let allowed = match change {
            Change::Relax { to, .. } => view.job.goals.may_relax.allows(view.job.goals.stop, *to),
            // Whoever runs to its own end is not cut short, unless its rule was replaced.
            Change::Stop { .. } => may_be_cut(view, decision),
            Change::Restore { .. } | Change::Reject { .. } => true,
        };
        if !allowed {
            faults.push(Fault::MayNotRelax { job: change.job() });
        }
    }
}

/// Whether a stop rule holds for a job that ends it before its own end, now or by this very decision.
fn may_be_cut(view: &JobView, decision: &Decision) -> bool {
    let own = |rule: StopRule| matches!(rule, StopRule::OwnIterations | StopRule::Iterations(_));
    let relaxed = |change: &Change| matches!(change, Change::Relax { job, .. } if *job == view.id());
    !own(view.stop_rule()) || decision.changes.iter().any(relaxed)
}

fn check_room(sound: &[(&JobView, &Allocation)], planned: &mut Ledger, faults: &mut Vec<Fault>) {
    for (view, _) in sound {
        planned.remove(&view.target, &view.job.shape);
    }
    for (view, target) in sound {
        planned.add(target, &view.job.shape);
        let over = target.placements().iter().map(|p| p.node).find(|node| planned.is_over(*node));
        faults.extend(over.map(|node| Fault::OverCommitted { job: view.id(), node }));
    }
    for (view, target) in sound {
        planned.remove(target, &view.job.shape);
    }
    for (view, _) in sound {
        planned.add(&view.target, &view.job.shape);
    }
}

fn check_verdicts(seen: &Snapshot, decision: &Decision, faults: &mut Vec<Fault>) {
    let mut judged = BTreeSet::new();
    for (id, verdict) in &decision.verdicts {
        let Some(view) = seen.job(*id) else {
            faults.push(Fault::UnknownJob { job: *id });
            continue;
        };
        let found = decision.targets.binary_search_by_key(id, |(job, _)| *job);
        let target = found.map_or(&view.target, |i| &decision.targets[i].1);
        let again = !judged.insert(*id);
        if again || verdict.runs() != target.is_some() {
            faults.push(Fault::VerdictContradicts { job: *id });
        }
    }
    for (id, target) in &decision.targets {
        let known = seen.job(*id).is_some_and(|view| view.target != *target);
        if known && !judged.contains(id) {
            faults.push(Fault::VerdictContradicts { job: *id });
        }
    }
}

/// Jobs whose copies are to be brought together, and what each copy may do.
fn check_merges(seen: &Snapshot, decision: &Decision, abilities: Abilities, faults: &mut Vec<Fault>) {
    let sorted = decision.merges.windows(2).find(|pair| pair[0].0 >= pair[1].0);
    faults.extend(sorted.map(|pair| Fault::OutOfOrder { job: pair[1].0 }));
    for (job, quotas) in &decision.merges {
        let Some(view) = seen.job(*job) else {
            faults.push(Fault::UnknownJob { job: *job });
            continue;
        };
        let found = decision.targets.binary_search_by_key(job, |(id, _)| *id);
        let target = found.map_or(&view.target, |i| &decision.targets[i].1);
        let lacks = abilities.lacks(Abilities::COPIES);
        if !lacks.is_none() {
            faults.push(Fault::BeyondAbilities { job: *job, lacks });
        } else if target.copies() < 2 || !(quotas.is_none() || are_quotas_sound(seen, view, target, quotas)) {
            faults.push(Fault::WrongQuota { job: *job });
        }
    }
}

/// Whether each copy has one quota, and all of them together something to do and no more than there is.
fn are_quotas_sound(seen: &Snapshot, view: &JobView, target: &Allocation, quotas: &Quotas) -> bool {
    let mut copies: Vec<CopyId> = target.placements().iter().map(|p| p.copy).collect();
    copies.dedup();
    let each = quotas.by_copy().iter().map(|(copy, _)| *copy).eq(copies);
    let left = view.job.goal().map(|all| (all - view.iterations(seen.at)).max(0.0).ceil());
    // What is left is believed and not known, so one iteration more is no fault.
    each && quotas.sum() > 0 && left.is_none_or(|left| quotas.sum() as f64 <= left + 1.0)
}

fn check_target(seen: &Snapshot, view: &JobView, target: &Allocation, abilities: Abilities) -> Option<Fault> {
    let job = &*view.job;
    let id = job.id;
    let bound = matches!(view.phase, Phase::Starting | Phase::Running) && view.target.is_some();
    if bound && !job.goals.movable && *target != view.target {
        return Some(Fault::Unmovable { job: id });
    }
    if target.is_none() {
        return None;
    }
    for p in target.placements() {
        if p.node.index() >= seen.cluster.nodes.len() {
            return Some(Fault::NodeNotUp { job: id, node: p.node });
        }
        let stays = view.target.touches(p.node);
        let state = seen.cluster.node(p.node).state;
        if state == NodeState::Down || (state == NodeState::Draining && !stays) {
            return Some(Fault::NodeNotUp { job: id, node: p.node });
        }
        let demand = job.shape.demand_of(p.task).unwrap_or_default();
        // Whole GPUs are given whole, or half of each beside another gang.
        let whole = demand.gpu_milli < GPU || [GPU, GPU / 2].contains(&u64::from(p.gpus.share_milli));
        let node_has = seen.cluster.node(p.node).gpu_count();
        let exist = node_has == 64 || p.gpus.devices >> node_has == 0;
        if p.gpus.milli() != p.takes(demand).gpu_milli || !whole || !exist {
            return Some(Fault::WrongDevices { job: id, node: p.node });
        }
    }
    check_gang(job, target).or_else(|| check_constraints(seen, job, target, abilities))
}

fn check_gang(job: &Job, target: &Allocation) -> Option<Fault> {
    let wrong = |task: TaskId, count: u32| Some(Fault::GangBroken { job: job.id, task, count });
    match &job.shape {
        Parallelism::DataParallel(shape) => {
            let (workers, servers) = (target.count_of(WORKER_TASK), target.count_of(SERVER_TASK));
            let all = target.placements().iter().all(|p| p.task <= SERVER_TASK);
            let copies = target.copies() as u32;
            // A forked job has a whole gang in each copy.
            if !workers.is_multiple_of(copies) || !shape.workers.has(workers / copies) || !all {
                return wrong(WORKER_TASK, workers);
            }
            // A job that can use no servers is one of workers alone, whatever a server would demand.
            let range = shape.server.map_or(WorkerRange::exactly(0), |_| shape.servers);
            if !servers.is_multiple_of(copies) || !range.has(servers / copies) {
                return wrong(SERVER_TASK, servers);
            }
            None
        }
        Parallelism::TaskGraph(graph) => (0..graph.tasks().len() as u32).map(TaskId).find_map(|task| {
            let count = target.count_of(task);
            let fine = count == 1 || (count == 0 && graph.is_partial());
            if fine { None } else { wrong(task, count) }
        }),
    }
}

fn check_constraints(seen: &Snapshot, job: &Job, target: &Allocation, abilities: Abilities) -> Option<Fault> {
    let broken = Some(Fault::ConstraintBroken { job: job.id });
    let with_gpus = || target.placements().iter().filter(|p| p.gpus.devices != 0);
    let mut types: Vec<_> = with_gpus().filter_map(|p| seen.cluster.node(p.node).gpu_type).collect();
    if types.iter().any(|gpu_type| !job.wanted.gpu_types.has(*gpu_type)) {
        return broken;
    }
    types.sort_unstable();
    types.dedup();
    let copies = target.copies();
    if types.len() > 1 && !job.wanted.mixed_gpu_types && copies == 1 {
        return broken;
    }
    let mut racks: Vec<_> = target.placements().iter().map(|p| seen.cluster.node(p.node).rack).collect();
    racks.dedup();
    let apart = match job.wanted.topology {
        Topology::Anywhere => false,
        Topology::SameRack => racks.iter().any(|rack| *rack != racks[0]),
        Topology::SameNode => target.nodes().len() > copies,
    };
    if apart || copies > usize::from(job.goals.copies) {
        return broken;
    }
    let mut needs = Abilities::NONE;
    if copies > 1 {
        needs = needs | Abilities::COPIES;
    }
    if types.len() > 1 {
        needs = needs | Abilities::MIXED_GPU_TYPES;
    }
    if with_gpus().any(|p| u64::from(p.gpus.share_milli) < GPU) {
        needs = needs | Abilities::SHARED_GPUS;
    }
    let lacks = abilities.lacks(needs);
    (!lacks.is_none()).then_some(Fault::BeyondAbilities { job: job.id, lacks })
}
