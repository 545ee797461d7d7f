//! Who leaves an overloaded node, against a slow account of it: checks S6, A12 and A13 of the specification.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::model::{
    Allocation, Attempt, Cluster, CopyId, Declared, Edge, GPU, Goals, GpuSet, Job, MoveCost, Parallelism,
    Placement, RackId, Resources, Seed, Task, TaskGraph, TaskUse, TenantId, Tenants, Urgency, Usage, Wanted,
};
use crate::policies::mlfs::round::Mlfs;
use crate::view::{Causes, Changed, Note, Phase};

const NOW: Time = Time::from_secs(100_000);
const NODE: NodeId = NodeId(0);

/// Random numbers that repeat.
struct Dice(Seed, u64);

impl Dice {
    const fn roll(&mut self, sides: u64) -> u64 {
        self.1 += 1;
        self.0.numbered(self.1).0 % sides
    }
}

fn cluster(gpus: u64) -> Cluster {
    let mut cluster = Cluster::default();
    let kind = cluster.intern_gpu_type("v100");
    let holds = Resources {
        gpu_milli: gpus * GPU,
        cpu_milli: 4_000,
        memory_bytes: 4_000_000,
        network_bytes_per_s: 400_000,
    };
    (0..2).for_each(|_| _ = cluster.push(RackId(0), Some(kind), holds, None));
    cluster
}

/// Some tasks that talk to each other, sometimes with a parameter server.
fn graph(dice: &mut Dice) -> TaskGraph {
    let workers = 1 + dice.roll(4) as u32;
    let demand = Resources { gpu_milli: 10, cpu_milli: 30, memory_bytes: 10_000, network_bytes_per_s: 1_000 };
    let mut task = |replica, demand| Task {
        demand,
        parameters: 1 + dice.roll(50),
        replica,
        compute_s: 1.0,
        state_bytes: 1,
    };
    let mut tasks: Vec<Task> = (0..workers).map(|_| task(Some(0), demand)).collect();
    if dice.roll(3) == 0 {
        let parameters = 0;
        tasks.push(Task {
            parameters,
            replica: None,
            demand: Resources { gpu_milli: 0, ..demand },
            ..tasks[0]
        });
    }
    let mut edges = Vec::new();
    for to in 1..tasks.len() as u32 {
        for from in 0..to {
            if dice.roll(2) == 0 {
                edges.push(Edge { from: TaskId(from), to: TaskId(to), bytes: 1 + dice.roll(1000) });
            }
        }
    }
    TaskGraph::new(tasks, edges, None, false).expect("edges lead upwards")
}

/// A job whose tasks are on the first node, but for a few, and what they are said to use. Of some nothing may leave.
fn view(dice: &mut Dice, id: u32, gpus: u64, (gpu_heavy, pinned): (u64, u64)) -> JobView {
    let graph = graph(dice);
    let on = |(i, task): (usize, &Task)| {
        let node = NodeId(u32::from(dice.roll(8) == 0));
        let share_milli = task.demand.gpu_milli as u16;
        let devices = if share_milli == 0 { 0 } else { 1 << dice.roll(gpus) };
        let gpus = if share_milli == 0 { GpuSet::NONE } else { GpuSet { devices, share_milli } };
        Placement { copy: CopyId(0), task: TaskId(i as u32), node, count: 1, gpus }
    };
    let held = Allocation::new(graph.tasks().iter().enumerate().map(on).collect());
    let heavy = 1 + dice.roll(3);
    let used = |(i, task): (usize, &Task)| {
        let gpu_milli = if task.demand.gpu_milli == 0 { 0 } else { 5 + dice.roll(gpu_heavy) };
        let used = Resources {
            gpu_milli,
            cpu_milli: heavy * (20 + dice.roll(150)),
            memory_bytes: heavy * (5_000 + dice.roll(150_000)),
            network_bytes_per_s: dice.roll(3) * dice.roll(20_000),
        };
        TaskUse { task: TaskId(i as u32), used }
    };
    let usage = Usage::new(graph.tasks().iter().enumerate().map(used).collect());
    let tasks = graph.tasks().len() as u64;
    let mut job = Job {
        id: JobId(id),
        name: "job".into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::TaskGraph(graph),
        wanted: Wanted::default(),
        goals: Goals { urgency: Urgency(1 + dice.roll(10) as u8), ..Goals::default() },
        declared: Declared::default(),
        move_cost: MoveCost::default(),
    };
    job.goals.movable = dice.roll(100) >= pinned;
    let mut view = JobView::new(Arc::new(job), Time::ZERO);
    view.phase = if dice.roll(8) == 0 { Phase::Starting } else { Phase::Running };
    (view.target, view.held, view.used) = (held.clone(), held, usage);
    view.attempt = Attempt(1);
    view.done.iterations = dice.roll(4) as f64;
    let mut memory = Memory::default();
    if dice.roll(4) == 0 {
        // Within the last five rounds, or exactly that long ago.
        memory.moved(TaskId(dice.roll(tasks) as u32), NOW - Span::from_secs(60 * (1 + dice.roll(5))));
    }
    view.note = memory.to_note();
    view
}

fn snapshot(dice: &mut Dice) -> Snapshot {
    let gpus = 2 + dice.roll(2);
    let mut tenants = Tenants::default();
    tenants.intern("team");
    let kind = ([20, 20, 150][dice.roll(3) as usize], [15, 15, 15, 95][dice.roll(4) as usize]);
    let count = 4 + dice.roll(14) as u32;
    let jobs = (0..count).map(|id| (JobId(id), Arc::new(view(dice, id, gpus, kind)))).collect();
    Snapshot {
        at: NOW,
        cause: Causes::ALARM,
        seed: Seed(0),
        number: 1,
        cluster: Arc::new(cluster(gpus)),
        tenants: Arc::new(tenants),
        note: Note::default(),
        jobs,
        changed: Arc::new(Changed::default()),
    }
}

/// A task on the node, by a slow account.
struct Here<'a> {
    view: &'a JobView,
    task: TaskId,
    device: Option<u32>,
    used: [u64; 4],
    priority: f64,
}

fn graph_of(view: &JobView) -> &TaskGraph {
    match &view.job.shape {
        Parallelism::TaskGraph(graph) => graph,
        Parallelism::DataParallel(_) => unreachable!("there are only graphs"),
    }
}

/// Equations 2, 3 and 6 where only the learning part counts and no loss is known.
fn priority(view: &JobView, task: TaskId) -> f64 {
    let graph = graph_of(view);
    let all: u64 = graph.tasks().iter().map(|task| task.parameters).sum();
    let own = graph.tasks()[task.index()].parameters as f64 / all as f64;
    let urgency = f64::from(view.job.goals.urgency.0);
    let dependents = graph.edges().iter().filter(|edge| edge.from == task && !graph.is_server(edge.to));
    let sum: f64 = dependents.map(|edge| priority(view, edge.to)).sum();
    urgency / (view.done.iterations + 1.0) * own + 0.8 * sum
}

fn on_the_node(seen: &Snapshot) -> Vec<Here<'_>> {
    let mut all = Vec::new();
    for view in seen.jobs() {
        for p in view.held.placements().iter().filter(|p| p.node == NODE) {
            let demand = view.job.shape.demand_of(p.task).expect("it demands something");
            let told = view.used.of(p.task).filter(|_| view.phase == Phase::Running);
            all.push(Here {
                view,
                task: p.task,
                device: (p.gpus.devices != 0).then(|| p.gpus.devices.trailing_zeros()),
                used: told.unwrap_or(demand).amounts(),
                priority: priority(view, p.task),
            });
        }
    }
    all
}

impl Here<'_> {
    fn may_leave(&self) -> bool {
        let moved = Memory::of(self.view).last_move(self.task);
        let rests = moved.is_some_and(|at| NOW.since(at) < Span::from_secs(300));
        let is_server = graph_of(self.view).is_server(self.task);
        self.view.job.goals.movable && self.view.phase == Phase::Running && !is_server && !rests
    }

    /// Bytes in one iteration between it and others of its job that are there.
    fn volume(&self, all: &[Here<'_>]) -> f64 {
        let here = |task: TaskId| all.iter().any(|x| x.view.id() == self.view.id() && x.task == task);
        let edges = graph_of(self.view).edges().iter();
        let own =
            edges.filter(|e| (e.from == self.task && here(e.to)) || (e.to == self.task && here(e.from)));
        own.map(|edge| graph_of(self.view).flow(edge) as f64).sum()
    }
}

/// The overloaded devices, and whether each resource is.
fn overloaded(all: &[Here<'_>], holds: [u64; 4]) -> (BTreeSet<u32>, [bool; 4]) {
    let devices = (0..holds[0] / GPU).map(|i| i as u32).filter(|device| {
        let on: Vec<u64> = all.iter().filter(|x| x.device == Some(*device)).map(|x| x.used[0]).collect();
        on.len() > 1 && on.iter().sum::<u64>() > 900
    });
    let devices: BTreeSet<u32> = devices.collect();
    let over = std::array::from_fn(|i| match i {
        0 => !devices.is_empty(),
        _ => {
            let users = all.iter().filter(|x| x.used[i] > 0).count();
            users > 1 && all.iter().map(|x| x.used[i]).sum::<u64>() * 10 > holds[i] * 9
        }
    });
    (devices, over)
}

/// How far each task is from the ideal one.
fn distances(all: &[Here<'_>], over: [bool; 4], holds: [u64; 4]) -> Vec<f64> {
    let part = |x: &Here<'_>, i: usize| x.used[i] as f64 / holds[i] as f64;
    let volumes: Vec<f64> = all.iter().map(|x| if x.may_leave() { x.volume(all) } else { 0.0 }).collect();
    let most = volumes.iter().copied().fold(0.0, f64::max);
    let aim: Vec<f64> = (0..4)
        .map(|i| {
            let parts = all.iter().map(|x| part(x, i));
            if over[i] { parts.fold(0.0, f64::max) } else { parts.fold(f64::INFINITY, f64::min) }
        })
        .collect();
    let far = |(x, volume): (&Here<'_>, &f64)| {
        let bytes = if most > 0.0 { volume / most } else { 0.0 };
        bytes * bytes + (0..4).map(|i| (part(x, i) - aim[i]).powi(2)).sum::<f64>()
    };
    all.iter().zip(&volumes).map(far).collect()
}

/// What came of many random nodes.
#[derive(Debug, Default)]
struct Seen {
    gpu: u32,
    other: u32,
    beyond_the_share: u32,
    not_the_lowest: u32,
    stuck: u32,
    calm: u32,
}

/// Follows who leaves one random node; `tenths` is the share that may.
fn judge(seed: u64, tenths: usize, ps_all: bool, seen_so_far: &mut Seen) {
    let seen = snapshot(&mut Dice(Seed(seed), 0));
    let parameters =
        Parameters { alpha: 1.0, migration_share: tenths as f64 / 10.0, ps_all, ..Parameters::default() };
    let mut mlfs = Mlfs::new(parameters);
    mlfs.follow(&seen);
    let jobs = jobs_on_overloaded(&mlfs.servers, mlfs.members.iter().map(|(id, member)| (*id, member)));
    let (ranking, _) = mlfs.queue(&seen, &jobs);
    let leaving = relieve(&seen, &mut mlfs.servers, &mut mlfs.members, &jobs, &ranking, &parameters);
    let mut left = leaving.iter().filter(|leaving| leaving.load.node == NODE);
    let holds = seen.cluster.node(NODE).holds.amounts();
    let mut all = on_the_node(&seen);
    loop {
        let (devices, over) = overloaded(&all, holds);
        let able = |x: &&Here<'_>| {
            x.may_leave() && (devices.is_empty() || x.device.is_some_and(|d| devices.contains(&d)))
        };
        let mut candidates: Vec<(JobId, TaskId, f64)> =
            all.iter().filter(able).map(|x| (x.view.id(), x.task, x.priority)).collect();
        candidates.sort_by(|a, b| a.2.total_cmp(&b.2).then((b.0, b.1).cmp(&(a.0, a.1))));
        let next = left.next().map(|leaving| (leaving.job, leaving.task));
        if !over.contains(&true) || candidates.is_empty() {
            assert_eq!(next, None, "seed {seed}: who leaves though nobody has to or may");
            *(if over.contains(&true) { &mut seen_so_far.stuck } else { &mut seen_so_far.calm }) += 1;
            return;
        }
        let (job, task) = next.unwrap_or_else(|| panic!("seed {seed}: nobody leaves"));
        let rank = candidates.iter().position(|x| (x.0, x.1) == (job, task));
        let rank = rank.unwrap_or_else(|| panic!("seed {seed}: {job} {task:?} may not leave"));
        let share = (tenths * candidates.len()).div_ceil(10).max(1);
        let bound = if over[0] || ps_all { share } else { candidates.len() };
        assert!(rank < bound, "seed {seed}: number {rank} of {} leaves, not of {bound}", candidates.len());
        let far = distances(&all, over, holds);
        let of = |x: &(JobId, TaskId, f64)| {
            far[all.iter().position(|y| (y.view.id(), y.task) == (x.0, x.1)).expect("it is there")]
        };
        let nearest = candidates[..bound].iter().map(of).fold(f64::INFINITY, f64::min);
        assert!(of(&candidates[rank]) <= nearest + 1e-12, "seed {seed}: {job} {task:?} is not the nearest");
        *(if over[0] { &mut seen_so_far.gpu } else { &mut seen_so_far.other }) += 1;
        seen_so_far.beyond_the_share += u32::from(rank >= share);
        seen_so_far.not_the_lowest += u32::from(rank > 0);
        all.retain(|x| (x.view.id(), x.task) != (job, task));
    }
}

#[test]
fn whoever_leaves_an_overloaded_gpu_is_among_the_lowest_and_nearest_to_the_ideal() {
    for tenths in [0, 1, 5, 10] {
        let mut seen = Seen::default();
        (0..400).for_each(|seed| judge(seed, tenths, false, &mut seen));
        assert!(seen.gpu > 100 && seen.other > 100, "{tenths}: {seen:?}");
        assert!(seen.stuck > 5 && seen.calm > 100, "{tenths}: {seen:?}");
        // Where no GPU is overloaded the share protects nobody.
        assert_eq!(seen.beyond_the_share > 50, tenths < 10, "{tenths}: {seen:?}");
        assert!(seen.not_the_lowest > 20, "{tenths}: {seen:?}");
    }
}

#[test]
fn the_share_holds_for_all_resources_where_that_is_wished() {
    for tenths in [0, 1, 5, 10] {
        let mut seen = Seen::default();
        (0..400).for_each(|seed| judge(seed, tenths, true, &mut seen));
        assert!(seen.gpu > 100 && seen.other > 100, "{tenths}: {seen:?}");
        assert_eq!(seen.beyond_the_share, 0, "{tenths}: {seen:?}");
        assert_eq!(seen.not_the_lowest > 10, tenths > 0, "{tenths}: {seen:?}");
    }
}
