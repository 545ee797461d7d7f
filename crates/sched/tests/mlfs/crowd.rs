//! Random crowds whose use wanders: nothing is given beyond the threshold (check S4), and decisions follow from what is seen
//! alone (check S11).

use std::sync::{Arc, Mutex};

use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::decide::{Cadence, Decision, Policy, Verdict};
use trainyard_sched::model::{
    Allocation, Cluster, GPU, Job, JobId, Parallelism, Placement, RackId, Resources, Task, TaskId, TaskUse,
    UNLIMITED, Urgency, Usage,
};
use trainyard_sched::policies;
use trainyard_sched::view::{JobView, Phase, Snapshot};

use super::common::{Dice, Trying, plain_job};
use super::{World, edge, graph_job};

/// What was noticed of many decisions.
#[derive(Debug, Default)]
struct Found {
    wrong: Vec<String>,
    /// All decisions, as text.
    told: Vec<String>,
    /// How often a node or a device that received something came near the threshold, by resource.
    near: [u32; 4],
    moved: u32,
    requeued: u32,
}

fn built(parameters: &str) -> Box<dyn Policy> {
    policies::build("mlf-h", &parameters.parse().expect("it is TOML")).expect("it takes that")
}

/// MLF-H, whose decisions are held to what must be.
struct Judge {
    inner: Box<dyn Policy>,
    parameters: &'static str,
    /// The threshold in thousandths.
    threshold: u64,
    /// An instance that came in the middle of the run, and follows along since then.
    later: Option<Box<dyn Policy>>,
    found: Arc<Mutex<Found>>,
}

/// What is planned on a node, by a slow account.
#[derive(Clone, Debug, Default)]
struct Planned {
    used: [u64; 4],
    users: [u32; 4],
    /// Of each device: what is used, by how many, whether one has all of it, and whether it received something.
    devices: Vec<(u64, u32, bool, bool)>,
    received: bool,
}

fn target<'a>(decision: &'a Decision, view: &'a JobView) -> &'a Allocation {
    let found = decision.targets.iter().find(|(id, _)| *id == view.id());
    found.map_or(&view.target, |(_, target)| target)
}

/// What a placement is planned to use: what was told where the task ran until now, else what it demands.
fn uses(view: &JobView, p: &Placement, is_new: bool) -> [u64; 4] {
    let demand = p.takes(view.job.shape.demand_of(p.task).expect("it demands something"));
    let ran = !is_new || (view.job.shape.data_parallel().is_none() && view.target.place_of(p.task).is_some());
    let told = view.used.of(p.task).filter(|_| ran && view.phase == Phase::Running);
    let all = u64::from(view.target.count_of(p.task)).max(1);
    told.map_or(demand.amounts(), |told| told.amounts().map(|amount| amount * u64::from(p.count) / all))
}

fn planned(seen: &Snapshot, decision: &Decision) -> Vec<Planned> {
    let devices = |gpus: u32| vec![(0, 0, false, false); gpus as usize];
    let empty = seen.cluster.nodes.iter();
    let mut nodes: Vec<Planned> =
        empty.map(|node| Planned { devices: devices(node.gpu_count()), ..Planned::default() }).collect();
    for view in seen.jobs() {
        for p in target(decision, view).placements() {
            let is_new = !view.target.placements().contains(p);
            let used = uses(view, p, is_new);
            let node = &mut nodes[p.node.index()];
            node.received |= is_new;
            for i in (0..4).filter(|i| used[*i] > 0) {
                node.used[i] += used[i];
                node.users[i] += p.count;
            }
            for i in (0..node.devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1) {
                let device = &mut node.devices[i];
                device.0 += used[0] / u64::from(p.gpus.count());
                device.1 += 1;
                device.2 |= u64::from(p.gpus.share_milli) == GPU;
                device.3 |= is_new;
            }
        }
    }
    nodes
}

impl Judge {
    /// S4: right after a decision nothing that received a task is beyond the threshold, unless one task alone is.
    fn admits(&self, seen: &Snapshot, decision: &Decision, found: &mut Found) {
        for (node, planned) in seen.cluster.nodes.iter().zip(planned(seen, decision)) {
            let holds = node.holds.amounts();
            for (i, holds) in holds.into_iter().enumerate().skip(1).filter(|(_, holds)| *holds != UNLIMITED) {
                let (used, bound) = (planned.used[i] * 1000, holds * self.threshold);
                if !planned.received {
                    continue;
                }
                if used > bound && planned.users[i] > 1 {
                    found.wrong.push(format!("{} resource {i}: {planned:?}", node.id));
                }
                found.near[i] += u32::from(used * 10 > bound * 9);
            }
            for (used, users, whole, received) in planned.devices.iter().filter(|device| device.3) {
                if *used > self.threshold && *users > 1 && !*whole && *received {
                    found.wrong.push(format!("{} devices: {planned:?}", node.id));
                }
                found.near[0] += u32::from(*used * 10 > self.threshold * 9);
            }
        }
    }

    /// S11: whoever sees the same decides the same, whether it followed along or not.
    fn follows(&mut self, seen: &Snapshot, decision: &Decision, found: &mut Found) {
        let parts = |d: &Decision| (d.targets.clone(), d.notes.clone(), d.note.clone(), d.wake);
        let again = built(self.parameters).decide(seen);
        if parts(&again) != parts(decision) {
            found.wrong.push(format!("fresh: {:?} {:?}", parts(decision), parts(&again)));
        }
        if let Some(later) = &mut self.later {
            let later = later.decide(seen);
            if parts(&later) != parts(decision) || later.verdicts != decision.verdicts {
                found.wrong.push(format!("later: {decision:?} {later:?}"));
            }
        } else if seen.number >= 60 {
            let mut later = built(self.parameters);
            let _ = later.decide(seen);
            self.later = Some(later);
        }
    }
}

impl Policy for Judge {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.inner.decide(seen);
        let mut found = std::mem::take(&mut *self.found.lock().expect("no panic"));
        self.admits(seen, &decision, &mut found);
        self.follows(seen, &decision, &mut found);
        for (id, target) in &decision.targets {
            let had = &seen.job(*id).expect("it is there").target;
            let is_elsewhere = |p: &&Placement| had.place_of(p.task).is_some_and(|q| q.node != p.node);
            found.moved += target.placements().iter().filter(is_elsewhere).count() as u32;
            found.requeued += u32::from(target.placements().len() < had.placements().len());
        }
        found.told.push(format!("{} {decision:?}", seen.number));
        *self.found.lock().expect("no panic") = found;
        decision
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(seen, job)
    }
}

/// A few nodes, each short of something else.
fn cluster(dice: &mut Dice) -> Cluster {
    let mut cluster = Cluster::default();
    let kinds = [cluster.intern_gpu_type("v100"), cluster.intern_gpu_type("a100")];
    for _ in 0..3 + dice.roll(3) {
        let holds = Resources {
            gpu_milli: (2 + dice.roll(3)) * GPU,
            cpu_milli: dice.pick(&[4_000, 9_000, UNLIMITED]),
            memory_bytes: dice.pick(&[16, 32, 64]) << 30,
            network_bytes_per_s: dice.pick(&[500_000_000, 1_250_000_000, UNLIMITED]),
        };
        cluster.push(RackId(0), Some(kinds[usize::from(dice.chance(20))]), holds, None);
    }
    cluster
}

fn demand(dice: &mut Dice) -> Resources {
    Resources {
        gpu_milli: dice.pick(&[50, 100, 200, 300]),
        cpu_milli: dice.pick(&[0, 100, 400, 900]),
        memory_bytes: dice.pick(&[0, 1, 2, 4]) << 30,
        network_bytes_per_s: dice.pick(&[0, 20_000_000, 90_000_000]),
    }
}

/// Graphs of a few tasks, and gangs without a graph; each fits the idle cluster below the threshold.
fn job(dice: &mut Dice, id: u32) -> Job {
    let demand = demand(dice);
    let mut job = if dice.chance(25) {
        let gpu_milli = dice.pick(&[0, 150, GPU]);
        let worker = Resources { gpu_milli, ..demand };
        let worker = if gpu_milli == 0 { Resources { cpu_milli: 500, ..worker } } else { worker };
        Job {
            shape: Parallelism::rigid(1 + dice.roll(2) as u32, worker),
            ..plain_job(id, trainyard_sched::model::Time::ZERO, 1)
        }
    } else {
        let (parts, replicas) = (1 + dice.roll(3) as u32, 1 + dice.roll(2) as u32);
        let one = |i: u32| Task { demand, ..super::task(Some(i / parts), 0) };
        let mut tasks: Vec<Task> = (0..parts * replicas).map(one).collect();
        let chained = (0..parts * replicas).filter(|i| (i + 1) % parts != 0);
        let mut edges: Vec<_> = chained.map(|i| edge(i, i + 1)).collect();
        if dice.chance(30) {
            tasks.push(super::task(None, 0));
            edges.extend((0..replicas).map(|replica| edge(replica * parts + parts - 1, parts * replicas)));
        }
        graph_job(id, tasks, edges, dice.chance(50))
    };
    job.goals.urgency = Urgency(1 + dice.roll(10) as u8);
    job.goals.movable = dice.chance(85);
    job
}

/// What the tasks of a job use now: a half to one and a half of what they demand.
fn wanders(dice: &mut Dice, view: &JobView) -> Event {
    let tasks = match &view.job.shape {
        Parallelism::TaskGraph(graph) => graph.tasks().len() as u32,
        Parallelism::DataParallel(_) => 1,
    };
    let used = |task: TaskId| {
        let count = u64::from(view.held.count_of(task));
        let percent = 50 + dice.roll(101);
        let all = view.job.shape.demand_of(task)?.times(count * percent).amounts().map(|amount| amount / 100);
        let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] = all;
        let used = Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s };
        (count > 0).then_some(TaskUse { task, used })
    };
    let usage = Usage::new((0..tasks).map(TaskId).filter_map(used).collect());
    Event::Used { job: view.id(), attempt: view.attempt, usage }
}

/// A random course of a hundred rounds.
fn course(seed: u64, parameters: &'static str, threshold: u64) -> Found {
    let _trying = Trying(format!("seed {seed} with {parameters:?}"));
    let found: Arc<Mutex<Found>> = Arc::default();
    let inner = built(parameters);
    let judge = Judge { inner, parameters, threshold, later: None, found: Arc::clone(&found) };
    let mut dice = Dice::new(seed);
    let mut world = World::with(cluster(&mut dice), Box::new(judge));
    let mut came = 0;
    for _ in 0..100 {
        let mut events: Vec<Event> = Vec::new();
        for _ in 0..dice.roll(3) {
            events.push(Event::Arrived { job: Arc::new(job(&mut dice, came)) });
            came += 1;
        }
        for view in world.core.state().jobs().filter(|view| view.held.is_some()) {
            if dice.chance(5) {
                let (job, attempt) = (view.id(), view.attempt);
                events.push(Event::Finished { job, attempt, outcome: Outcome::Completed });
            } else if dice.chance(60) {
                events.push(wanders(&mut dice, view));
            }
        }
        world.step(60, events);
        world.core.state().assert_consistent();
    }
    std::mem::take(&mut *found.lock().expect("no panic"))
}

#[test]
fn what_receives_a_task_is_not_planned_beyond_the_threshold_and_decisions_follow_from_what_is_seen() {
    let mut all = Found::default();
    for (parameters, threshold) in [("", 900), ("overload = 0.7", 700), ("migration_share = 1.0", 900)] {
        for seed in 0..10 {
            let found = course(seed, parameters, threshold);
            assert!(found.told.len() >= 90, "{} decisions", found.told.len());
            let first = found.wrong.first();
            assert!(first.is_none(), "seed {seed} with {parameters:?}, {}: {first:?}", found.wrong.len());
            (0..4).for_each(|i| all.near[i] += found.near[i]);
            all.moved += found.moved;
            all.requeued += found.requeued;
        }
    }
    assert!(all.near.iter().all(|near| *near > 100), "{:?}", all.near);
    assert!(all.moved > 200 && all.requeued > 50, "{} moved, {} waited again", all.moved, all.requeued);
}

#[test]
fn the_same_course_is_decided_the_same_twice() {
    let told = |seed| course(seed, "", 900).told;
    assert_eq!(told(5), told(5));
    assert_ne!(told(5), told(6));
}

#[test]
fn what_comes_to_the_threshold_itself_is_let_in_and_one_more_is_not() {
    let holds = super::cluster(1, 1).nodes[0].holds.amounts();
    for resource in 0..4 {
        let bound = holds[resource] * 9 / 10;
        let lets_in = |more: u64| {
            let mut world = World::new(super::cluster(1, 1), "");
            for (id, amount) in [(0, bound / 2), (1, bound - bound / 2 + more)] {
                let mut demand = [10, 100, 0, 0];
                demand[resource] = amount;
                let [gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s] = demand;
                let demand = Resources { gpu_milli, cpu_milli, memory_bytes, network_bytes_per_s };
                world.arrive(vec![graph_job(
                    id,
                    vec![Task { demand, ..super::task(Some(0), 0) }],
                    Vec::new(),
                    false,
                )]);
            }
            assert_eq!(world.places(0).len(), 1);
            world.places(1).len() == 1
        };
        assert_eq!([lets_in(0), lets_in(1)], [true, false], "resource {resource}");
    }
}
