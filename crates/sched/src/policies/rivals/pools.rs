//! Gandiva as MLFS describes it: pools by GPU count, time-sharing, and moves off crowded GPUs (`gandiva-pools`).
//!
//! # Idea
//! Jobs of the same GPU count are affine and share servers. A job that arrives goes to servers that serve its count, else to
//! idle ones, else where there is room. Where there is none it shares the time of its pool: those that have had their slice
//! give way, the least utilised first, and wait for their next one. Once a minute the job that uses least of a crowded GPU
//! moves to the GPU that is used least of all.
//!
//! # Source
//! Xiao et al., Gandiva, OSDI 2018, by way of MLFS (Wang, Liu and Shen, CoNEXT 2020, section 2) for the order and the moves, and
//! of the public code of Tiresias (NSDI 2019) for the pools. The rest is recalled: packing by trial, growing and shrinking are
//! left out, as MLFS does not speak of them. The policy `gandiva` is the one that Gavel was compared with.
//!
//! # What it sees
//! What jobs demand, hold, and are said to use of GPUs. No priorities beyond classes, no deadlines, no accuracies.
//!
//! # Parameters
//! `slice_s`: after so long a job gives way to one that waits; 60 s is MLFS's tick. `crowded`: a GPU of which more is used is
//! relieved; 0 to 1. `placement`: the rule. `round_s`: how often it is looked at when nothing happens; only then do jobs move.
//!
//! # Where we differ
//! Gandiva suspends a job in the memory of its node, in less than a second; here it gives its devices back and is stopped and
//! started like any other. A task moves only where the GPU is not crowded with it, since it would come back otherwise, and
//! where its demand fits. A job that cannot save when it is told to stop keeps its devices. Whole gangs on whole GPUs are alone there and do not move. Whoever was asked to give way waits behind
//! all others. Where nobody of the pool can give way, others must.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Entry, PLACEMENT, Parameter, Plan, ROUND_S, Reason, Suits, Verdict, defaults, numbered, parameters,
};
use crate::model::{Allocation, GPU, Job, JobId, NodeId, Parallelism, Span, TaskId, Time, Topology};
use crate::place::Rule;
use crate::view::{Causes, JobView, Note, Snapshot};

use super::desk::{Desk, Least, can_change, gpus_of};
use super::seat::{Rival, Seated};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    round_s: f64,
    slice_s: f64,
    crowded: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { placement: Rule::Fill, round_s: 60.0, slice_s: 60.0, crowded: 0.9 }
    }
}

/// What its parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    numbered("crowded", "", (0.01, 10.0), "a GPU of which more than this part is used is relieved of a job"),
    PLACEMENT,
    ROUND_S,
    numbered("slice_s", "s", (0.001, 1e6), "a job that has run for so long gives way to one that waits"),
];

/// So many jobs in a decision may fail to find room though others would give way.
const MOST_FAILURES: u32 = 64;
/// So many GPUs are looked at for a task that has to leave a crowded one.
const MOST_DOORS: usize = 64;

/// A GPU.
type Device = (NodeId, u32);

/// Which GPU counts the nodes serve: how many jobs of each.
#[derive(Debug, Default)]
struct Serving(BTreeMap<NodeId, BTreeMap<u64, u32>>);

impl Serving {
    fn add(&mut self, job: &Job, target: &Allocation) {
        for node in target.nodes() {
            *self.0.entry(node).or_default().entry(gpus_of(job)).or_default() += 1;
        }
    }

    fn remove(&mut self, job: &Job, target: &Allocation) {
        for node in target.nodes() {
            let jobs = self.0.get_mut(&node).expect("the job was added");
            let count = jobs.get_mut(&gpus_of(job)).expect("the job was added");
            *count -= 1;
            if *count == 0 {
                jobs.remove(&gpus_of(job));
            }
        }
    }

    fn serves(&self, node: NodeId, gpus: u64) -> bool {
        self.0.get(&node).is_some_and(|jobs| jobs.contains_key(&gpus))
    }

    fn is_idle(&self, node: NodeId) -> bool {
        self.0.get(&node).is_none_or(BTreeMap::is_empty)
    }
}

/// Jobs whose slice is over: GPU count, use of a GPU in thousandths, number.
type Over = BTreeSet<(u64, u64, JobId)>;

struct Pools {
    parameters: Parameters,
    desk: Desk,
}

/// Those who have been asked to give way and still hold their devices come last, then those who waited least.
fn by_turn(view: &JobView) -> Time {
    match view.served.first_held {
        _ if view.held.is_some() => Time::NEVER,
        None => view.job.submitted,
        Some(_) => view.served.changed,
    }
}

/// What a job is said to use of each of its GPUs on average, in thousandths.
fn utilisation(view: &JobView) -> u64 {
    let used = match &view.job.shape {
        Parallelism::TaskGraph(graph) => {
            (0..graph.tasks().len() as u32).map(|task| view.used_by(TaskId(task)).gpu_milli).sum()
        }
        Parallelism::DataParallel(_) => view.target.gpu_milli(),
    };
    used / gpus_of(&view.job).max(1)
}

impl Pools {
    fn new(parameters: Parameters) -> Self {
        Self { parameters, desk: Desk::new(parameters.placement, Least::Whole, by_turn) }
    }

    /// Running jobs that have had their slice.
    fn over(&self, seen: &Snapshot) -> Over {
        let slice = Span::from_secs_f64(self.parameters.slice_s);
        let begun = |view: &JobView| match view.note.0[..] {
            [begun] => Time(begun as u64),
            _ => view.served.changed,
        };
        // Who would lose what it did in its slice would never come to an end.
        let keeps = |view: &JobView| !view.job.move_cost.loses_when_stopped;
        let is_over =
            |view: &&JobView| can_change(view) && keeps(view) && seen.at.since(begun(view)) >= slice;
        let jobs = self.desk.plan.running().filter_map(|(id, ..)| seen.job(id)).filter(is_over);
        jobs.map(|view| (gpus_of(&view.job), utilisation(view), view.id())).collect()
    }

    /// Gives a waiting job room: on servers that serve its GPU count, on idle ones as well, or anywhere.
    fn start(&mut self, job: &Arc<Job>, serving: &mut Serving, at: Time) -> bool {
        let (rule, gpus) = (self.parameters.placement, gpus_of(job));
        let started = self.desk.start_by(job, Reason::Chosen, |plan| {
            if !plan.may_fit(job) {
                return false;
            }
            let is_served = serving.0.values().any(|jobs| jobs.contains_key(&gpus));
            let affine = |node| serving.serves(node, gpus);
            let place = |plan: &mut Plan| Least::Whole.place(plan, job, rule);
            is_served && plan.within(affine, place)
                || plan.within(|node| affine(node) || serving.is_idle(node), place)
                || place(plan)
        });
        if started {
            self.begin(job, serving, at);
        }
        started
    }

    fn begin(&mut self, job: &Arc<Job>, serving: &mut Serving, at: Time) {
        serving.add(job, self.desk.plan.target(job.id).expect("it was started a moment ago"));
        self.desk.plan.note(job.id, Note(std::iter::once(at.0 as i64).collect()));
    }

    /// Lets jobs give way whose slice is over, the affine first and of these the least utilised, until one that waits fits; or
    /// changes nothing.
    fn share_time(
        &mut self,
        seen: &Snapshot,
        job: &Arc<Job>,
        over: &mut Over,
        serving: &mut Serving,
    ) -> bool {
        let gpus = gpus_of(job);
        let may = |(.., id): &(u64, u64, JobId)| {
            seen.job(*id).is_some_and(|view| view.job.goals.class <= job.goals.class)
        };
        let mut order: Vec<(u64, u64, JobId)> = over.iter().copied().filter(may).collect();
        order.sort_by_key(|(count, used, id)| (*count != gpus, *used, *id));
        let victims: Vec<JobId> = order.iter().map(|(.., id)| *id).collect();
        let before: Vec<(JobId, Allocation)> =
            victims.iter().filter_map(|id| Some((*id, self.desk.plan.target(*id)?.clone()))).collect();
        let Some(gave_way) = self.desk.displace(seen, job, &victims) else { return false };
        over.retain(|(.., id)| !gave_way.contains(id));
        for (id, had) in before.iter().filter(|(id, _)| gave_way.contains(id)) {
            serving.remove(&seen.job(*id).expect("a running job is in the snapshot").job, had);
        }
        self.begin(job, serving, seen.at);
        true
    }

    /// Relieves each crowded GPU of the job that uses least of it.
    fn relieve(&mut self, seen: &Snapshot) {
        let mut loads = Loads::of(seen, &self.desk.plan);
        let most = (self.parameters.crowded * GPU as f64) as u64;
        let crowded = loads.by_device.iter().filter(|(_, load)| load.used > most);
        let crowded: Vec<Device> = crowded.map(|(device, _)| *device).collect();
        for device in crowded {
            for (used, id, task) in loads.leaving(device) {
                let view = seen.job(id).expect("a running job is in the snapshot");
                let plan = &mut self.desk.plan;
                if !can_change(view) || plan.target(id) != Some(&view.target) || used >= GPU {
                    continue;
                }
                let doors = loads.order.iter().take_while(|(load, ..)| load + used <= most).take(MOST_DOORS);
                let doors: Vec<Device> = doors.map(|(_, node, device)| (*node, *device)).collect();
                let open = |door: &&Device| **door != device && may_be_on(seen, view, device.0, door.0);
                let found = doors.iter().filter(open).find(|door| plan.move_task(id, task, **door));
                if let Some(door) = found {
                    plan.say(id, Verdict::Run(Reason::Chosen));
                    loads.shift((used, id, task), device, *door);
                }
            }
        }
    }
}

/// Whether a task of a running job may be on a node, as far as its own constraints say, where it is on another now.
fn may_be_on(seen: &Snapshot, view: &JobView, from: NodeId, to: NodeId) -> bool {
    let (wanted, here, there) = (&view.job.wanted, seen.cluster.node(from), seen.cluster.node(to));
    let is_type = if wanted.mixed_gpu_types {
        there.gpu_type.is_some_and(|gpu_type| wanted.gpu_types.has(gpu_type))
    } else {
        here.gpu_type == there.gpu_type
    };
    let is_near = match wanted.topology {
        Topology::Anywhere => true,
        Topology::SameRack => here.rack == there.rack,
        Topology::SameNode => from == to,
    };
    let shuns = view.shuns.is_some_and(|(node, until)| node == to && until > seen.at);
    is_type && is_near && !shuns
}

/// What is used of a GPU.
#[derive(Debug, Default)]
struct Load {
    used: u64,
    /// By whom: thousandths, job and task.
    by: Vec<(u64, JobId, TaskId)>,
}

/// What is used of every GPU that takes work.
#[derive(Debug, Default)]
struct Loads {
    by_device: BTreeMap<Device, Load>,
    /// The least used first.
    order: BTreeSet<(u64, NodeId, u32)>,
}

impl Loads {
    fn of(seen: &Snapshot, plan: &Plan) -> Self {
        let mut by_device: BTreeMap<Device, Load> = BTreeMap::new();
        for node in seen.cluster.nodes.iter().filter(|node| plan.free().takes_work(node.id)) {
            by_device.extend((0..node.gpu_count()).map(|device| ((node.id, device), Load::default())));
        }
        for (id, job, target) in plan.running() {
            let Some(view) = seen.job(id) else { continue };
            for p in target.placements() {
                let used = match &job.shape {
                    Parallelism::TaskGraph(_) => {
                        view.used_by(p.task).gpu_milli / u64::from(p.gpus.count().max(1))
                    }
                    Parallelism::DataParallel(_) => u64::from(p.gpus.share_milli),
                };
                for device in (0..64).filter(|device| p.gpus.devices >> device & 1 == 1) {
                    if let Some(load) = by_device.get_mut(&(p.node, device)) {
                        load.used += used;
                        load.by.push((used, id, p.task));
                    }
                }
            }
        }
        let order = by_device.iter().map(|((node, device), load)| (load.used, *node, *device)).collect();
        Self { by_device, order }
    }

    /// What has to leave a GPU: all that the job has there that uses least of it, or the least used task where there is only
    /// one job. Nothing where there is only one task.
    fn leaving(&self, device: Device) -> Vec<(u64, JobId, TaskId)> {
        let by = &self.by_device[&device].by;
        let mut jobs: BTreeMap<JobId, u64> = BTreeMap::new();
        by.iter().for_each(|(used, id, _)| *jobs.entry(*id).or_default() += used);
        if by.len() < 2 {
            return Vec::new();
        }
        if jobs.len() == 1 {
            return by.iter().min().copied().into_iter().collect();
        }
        let least = jobs.into_iter().min_by_key(|(id, used)| (*used, *id)).map(|(id, _)| id);
        by.iter().filter(|(_, id, _)| Some(*id) == least).copied().collect()
    }

    fn shift(&mut self, what: (u64, JobId, TaskId), from: Device, to: Device) {
        for (device, comes) in [(from, false), (to, true)] {
            let load = self.by_device.get_mut(&device).expect("both are GPUs that take work");
            self.order.remove(&(load.used, device.0, device.1));
            if comes {
                load.used += what.0;
                load.by.push(what);
            } else {
                load.used -= what.0;
                load.by.retain(|other| *other != what);
            }
            self.order.insert((load.used, device.0, device.1));
        }
    }
}

impl Rival for Pools {
    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn round_s(&self) -> f64 {
        self.parameters.round_s
    }

    fn arrange(&mut self, seen: &Snapshot) {
        self.desk.follow(seen);
        let mut serving = Serving::default();
        for (_, job, target) in self.desk.plan.running() {
            serving.add(job, target);
        }
        let mut over = self.over(seen);
        let waiting = if over.is_empty() { self.desk.hopeful() } else { self.desk.all_waiting() };
        let mut failures = 0;
        for (_, job) in waiting {
            if self.start(&job, &mut serving, seen.at) || over.is_empty() || failures == MOST_FAILURES {
                continue;
            }
            if !self.share_time(seen, &job, &mut over, &mut serving) {
                failures += 1;
            }
        }
        // Whoever gave way, or found no room before, may fit what is left.
        for (_, job) in self.desk.hopeful() {
            self.start(&job, &mut serving, seen.at);
        }
        if seen.cause.any_of(Causes::ALARM) {
            self.relieve(seen);
        }
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room()
    }
}

/// Gandiva as MLFS was compared with it.
pub(in super::super) const ENTRY: Entry = Entry {
    name: "gandiva-pools",
    title: "jobs of one GPU count share servers and time; off crowded GPUs the least user moves to the least used",
    source: "Xiao et al., Gandiva, OSDI 2018, as in Wang et al., MLFS, CoNEXT 2020",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Seated(Pools::new(parameters("gandiva-pools", PARAMETERS, given)?)))),
};
