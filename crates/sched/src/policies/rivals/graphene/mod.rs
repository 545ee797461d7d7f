//! Graphene: hard tasks first, then what packs well, little remaining work and who was passed over (`graphene`).
//!
//! # Idea
//! Offline, each graph is packed by itself, its hard tasks first (`offline`); the order in which its tasks start there is their
//! score. Online, the task with the best of the following goes next: its score, times how well its demand lines up with what is
//! free on a server, less a part where its data are elsewhere, minus the remaining work of its job. Whoever has been passed over
//! for more than a bound goes first in any case.
//!
//! # Source
//! Grandl et al., Graphene, OSDI 2016, sections 4 and 5, as far as it is recalled: the text could not be had. MLFS (CoNEXT 2020)
//! runs it on graphs of tasks.
//!
//! # What it sees
//! Graphs, demands, and declared run times; a job that declares none counts as the mean of the others.
//!
//! # Parameters
//! `remote`: the factor where nothing that a task exchanges data with is on the server. `eta`: the weight of remaining work,
//! times the mean of what is packed over the mean of remaining work. `kappa`: how far behind its fair share a job may fall, in
//! parts of the cluster. `offline_tasks`: larger graphs are scored by their longest path to the end. `placement`: the rule for
//! gangs of equal workers. `round_s`: how often the queue is looked at when nothing happens.
//!
//! # Where we differ
//! Tasks are persistent workers here and train only together, so a job is given a complete replica at once, or its whole
//! graph, in the order of its tasks' scores; it is chosen by the best of its tasks. A running job's further replicas come after
//! all who wait, those with least remaining work first. Durations are those of one iteration. The space of the offline part is
//! one server, the one with most GPUs that the job may use, and its devices are not told apart; `FragScore` is that of as many
//! tasks as fill it, as a stage is one task here. Each unit given out adds its dominant share to the shares of those who wait,
//! by weight; what a job got is taken off. Priority classes come before everything.

mod offline;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Ahead, Entry, PLACEMENT, Parameter, ROUND_S, Reason, Suits, Verdict, counted, defaults, numbered,
    parameters,
};
use crate::model::{
    Job, JobId, NodeId, Parallelism, Placement, PriorityClass, Resources, TaskGraph, TaskId, Time, UNLIMITED,
};
use crate::place::{Rule, units};
use crate::rank::{Shape, ordered};
use crate::view::{JobView, Note, Snapshot};

use super::desk::{Desk, Least, More, by_submission, can_change, grow, is_elastic, more_of, weight_milli};
use super::seat::{Rival, Seated};
use offline::{MOST_TASKS, Parts, scores};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    round_s: f64,
    remote: f64,
    eta: f64,
    kappa: f64,
    offline_tasks: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { placement: Rule::Fill, round_s: 60.0, remote: 0.8, eta: 0.2, kappa: 0.1, offline_tasks: 64 }
    }
}

/// What their parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    numbered("eta", "", (0.0, 1e6), "weight of a job's remaining work beside how well it packs"),
    numbered("kappa", "clusters", (0.0, 1e6), "a job that is so far behind its fair share goes first"),
    counted("offline_tasks", "tasks", (0, MOST_TASKS as i64), "larger graphs are not packed beforehand"),
    PLACEMENT,
    numbered(
        "remote",
        "",
        (0.0, 1.0),
        "factor on a server that has nothing with which a task exchanges data",
    ),
    ROUND_S,
];

/// Parts of the cluster are kept in notes as so many millionths of millionths.
const FINE: f64 = 1e12;

/// The place of a candidate: class, how far behind if too far, score, remaining work, submission, number. The greatest goes
/// first.
type Place = (PriorityClass, Option<u64>, u64, Reverse<u64>, Reverse<Time>, Reverse<JobId>);

/// A job that wants its least.
struct Candidate {
    job: Arc<Job>,
    /// The remaining work, in parts of the cluster times seconds.
    work: f64,
    behind: Option<u64>,
}

struct Graphene {
    parameters: Parameters,
    desk: Desk,
    /// Scores of the tasks of graphs, once they were worked out.
    scores: BTreeMap<JobId, Arc<[f64]>>,
    elastic: BTreeSet<JobId>,
    total: Resources,
    /// What has been given out per weight of those who waited, in the unit of notes.
    given: i64,
}

fn parts_of(amount: &Resources, holds: &Resources) -> Parts {
    let (amount, holds) = (amount.amounts(), holds.amounts());
    std::array::from_fn(|i| {
        let is_counted = holds[i] > 0 && holds[i] != UNLIMITED;
        if is_counted { amount[i] as f64 / holds[i] as f64 } else { 0.0 }
    })
}

fn dot(a: &Parts, b: &Parts) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Graphene {
    fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            desk: Desk::new(parameters.placement, Least::Replica, by_submission),
            scores: BTreeMap::new(),
            elastic: BTreeSet::new(),
            total: Resources::NONE,
            given: 0,
        }
    }

    fn follow(&mut self, seen: &Snapshot) {
        let (rebuilt, changed) = self.desk.follow(seen);
        if rebuilt {
            self.scores.clear();
            self.elastic.clear();
        }
        if rebuilt || !seen.changed.nodes.is_empty() {
            self.total = seen.cluster.total();
        }
        self.given = seen.note.0.first().copied().unwrap_or(0);
        for id in changed {
            self.elastic.remove(&id);
            let Some(view) = seen.job(id) else {
                self.scores.remove(&id);
                continue;
            };
            if self.desk.plan.target(id).is_some() && is_elastic(&view.job) {
                self.elastic.insert(id);
            }
            if view.note.0.is_empty() {
                self.desk.plan.note(id, note(self.given, 0));
            }
        }
    }

    /// Gives room to those who wait, the best score first. Scores only fall while room is given out, so that of the first
    /// alone has to be worked out anew.
    fn start_all(&mut self, seen: &Snapshot) {
        let mut candidates = self.candidates(seen);
        let packed: Vec<Option<f64>> = candidates.iter().map(|each| self.packing(seen, &each.job)).collect();
        let works: Vec<f64> = candidates.iter().map(|each| each.work).filter(|work| !work.is_nan()).collect();
        let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
        let mean_work = mean(works.iter().sum(), works.len());
        let mean_packed = mean(packed.iter().flatten().sum(), packed.iter().flatten().count());
        let eta = if mean_work > 0.0 { self.parameters.eta * mean_packed / mean_work } else { 0.0 };
        for candidate in candidates.iter_mut().filter(|candidate| candidate.work.is_nan()) {
            candidate.work = mean_work;
        }
        let place = |candidate: &Candidate, packed: f64| -> Place {
            let (job, score) = (&candidate.job, ordered(packed - eta * candidate.work));
            let work = Reverse(ordered(candidate.work));
            (job.goals.class, candidate.behind, score, work, Reverse(job.submitted), Reverse(job.id))
        };
        let first = candidates.iter().zip(packed).enumerate();
        let mut heap: BinaryHeap<(Place, usize)> =
            first.filter_map(|(i, (each, packed))| Some((place(each, packed?), i))).collect();
        while let Some((_, i)) = heap.pop() {
            let candidate = &candidates[i];
            let Some(packed) = self.packing(seen, &candidate.job) else { continue };
            let now = place(candidate, packed);
            if heap.peek().is_some_and(|(next, _)| *next > now) {
                heap.push((now, i));
                continue;
            }
            let job = Arc::clone(&candidate.job);
            self.start(seen, &job);
        }
    }

    fn candidates(&mut self, seen: &Snapshot) -> Vec<Candidate> {
        let hopeful = self.desk.hopeful();
        let of = |(_, job): (_, Arc<Job>)| {
            let view = seen.job(job.id).expect("who waits is in the snapshot");
            let work = work(view, &self.total, seen.at).unwrap_or(f64::NAN);
            let behind = self.behind(view);
            Candidate { job, work, behind: (behind > self.parameters.kappa).then(|| ordered(behind)) }
        };
        hopeful.into_iter().map(of).collect()
    }

    /// How far a job is behind its fair share, in parts of the cluster.
    fn behind(&self, view: &JobView) -> f64 {
        let [since, got] = view.note.0[..] else { return 0.0 };
        let weight = weight_milli(&view.job) as f64 / 1000.0;
        (weight * (self.given - since) as f64 - got as f64) / FINE
    }

    /// How well the best task of a job's least lines up with what is free on a server where it fits, times its score. `None` if
    /// one of them fits nowhere.
    fn packing(&mut self, seen: &Snapshot, job: &Arc<Job>) -> Option<f64> {
        let scores = self.scores_of(seen, job);
        let free = self.desk.plan.free();
        let best = |demand: &Resources| {
            let nodes = seen.cluster.nodes.iter().filter(|node| free.takes_work(node.id));
            let fitting = nodes.filter(|node| demand.fits_in(&free.room(node.id)));
            let lined_up = fitting
                .map(|node| dot(&parts_of(demand, &node.holds), &parts_of(&free.room(node.id), &node.holds)));
            lined_up.max_by(f64::total_cmp)
        };
        match &job.shape {
            Parallelism::DataParallel(shape) => best(&shape.worker),
            Parallelism::TaskGraph(graph) => {
                let score =
                    |task: &TaskId| Some(scores[task.index()] * best(&graph.tasks()[task.index()].demand)?);
                let each: Option<Vec<f64>> = units(graph)[0].iter().map(score).collect();
                each?.into_iter().max_by(f64::total_cmp)
            }
        }
    }

    /// The scores of a job's tasks; none for a gang of equal workers.
    fn scores_of(&mut self, seen: &Snapshot, job: &Job) -> Arc<[f64]> {
        let Parallelism::TaskGraph(graph) = &job.shape else { return Arc::default() };
        let most = self.parameters.offline_tasks as usize;
        let scores = self.scores.entry(job.id).or_insert_with(|| {
            let may_use = |node: &&crate::model::Node| {
                node.gpu_type.is_none_or(|gpu_type| job.wanted.gpu_types.has(gpu_type))
            };
            let server = seen.cluster.nodes.iter().filter(may_use);
            let server = server.max_by_key(|node| (node.gpu_count(), Reverse(node.id)));
            let holds = server.map_or(Resources::NONE, |node| node.holds);
            let parts: Vec<Parts> = graph.tasks().iter().map(|task| parts_of(&task.demand, &holds)).collect();
            scores(graph, &parts, most).into()
        });
        Arc::clone(scores)
    }

    /// Gives a job its least.
    fn start(&mut self, seen: &Snapshot, job: &Arc<Job>) -> bool {
        let (rule, remote) = (self.parameters.placement, self.parameters.remote);
        let scores = self.scores_of(seen, job);
        let weights = self.desk.weights_milli;
        let started = self.desk.start_by(job, Reason::Chosen, |plan| match &job.shape {
            Parallelism::DataParallel(_) => plan.place(job, rule),
            Parallelism::TaskGraph(graph) => {
                let mut tasks = units(graph).swap_remove(0);
                tasks.sort_by(|a, b| scores[b.index()].total_cmp(&scores[a.index()]).then(a.cmp(b)));
                let mut choose =
                    |free: &crate::place::FreeCapacity, nodes: &[NodeId], task, placed: &[Placement]| {
                        best_server(seen, graph, free, nodes, (task, placed, remote))
                    };
                plan.add_tasks_by(job, &tasks, &mut choose) || plan.place_least(job, rule)
            }
        });
        if started {
            self.book(seen, job, weights);
        }
        started
    }

    /// Books what a job was given, and what those who wait should have been given meanwhile.
    fn book(&mut self, seen: &Snapshot, job: &Arc<Job>, weights_milli: u64) {
        let target = self.desk.plan.target(job.id).expect("it was started a moment ago");
        let share = target.resources(&job.shape).dominant_share(&self.total).min(1.0);
        let [since, got] = match seen.job(job.id).map(|view| &view.note.0[..]) {
            Some([since, got]) => [*since, *got],
            _ => [self.given, 0],
        };
        self.given += (share * FINE * 1000.0 / weights_milli.max(1) as f64) as i64;
        self.desk.plan.note(job.id, note(since, got + (share * FINE) as i64));
        if is_elastic(job) {
            self.elastic.insert(job.id);
        }
    }

    /// What is left goes to running jobs that can have more, those with least remaining work first.
    fn grow_all(&mut self, seen: &Snapshot) {
        let may_grow = |id: &JobId| {
            let view = seen.job(*id).expect("a job with a target is in the snapshot");
            let work = work(view, &self.total, seen.at).map_or(u64::MAX, ordered);
            let may = view.target.is_none() || can_change(view);
            may.then_some((Reverse(view.job.goals.class), work, view.job.submitted, *id))
        };
        let mut able: Vec<_> = self.elastic.iter().filter_map(may_grow).collect();
        able.sort_unstable();
        for (.., id) in able {
            let job = &seen.job(id).expect("a job with a target is in the snapshot").job;
            let mut has_grown = false;
            while let Some(more) = more_of(&self.desk.plan, job) {
                if !self.grow_one(seen, job, &more) {
                    break;
                }
                has_grown = true;
            }
            if has_grown {
                self.desk.plan.say(id, Verdict::Run(Reason::Chosen));
            }
        }
    }

    fn grow_one(&mut self, seen: &Snapshot, job: &Arc<Job>, more: &More) -> bool {
        let (rule, remote) = (self.parameters.placement, self.parameters.remote);
        let (More::Replica(tasks), Parallelism::TaskGraph(graph)) = (more, &job.shape) else {
            return grow(&mut self.desk.plan, job, more, rule);
        };
        let mut choose = |free: &crate::place::FreeCapacity, nodes: &[NodeId], task, placed: &[Placement]| {
            best_server(seen, graph, free, nodes, (task, placed, remote))
        };
        self.desk.plan.add_tasks_by(job, tasks, &mut choose) || grow(&mut self.desk.plan, job, more, rule)
    }
}

fn note(since: i64, got: i64) -> Note {
    Note([since, got].into_iter().collect())
}

/// The server with which a task's demand lines up best, less a part where it is remote from what it exchanges data with; the
/// first of equals.
fn best_server(
    seen: &Snapshot,
    graph: &TaskGraph,
    free: &crate::place::FreeCapacity,
    nodes: &[NodeId],
    (task, placed, remote): (TaskId, &[Placement], f64),
) -> Option<NodeId> {
    let neighbours = graph.inputs(task).map(|(_, edge)| edge.from);
    let neighbours: Vec<TaskId> = neighbours.chain(graph.outputs(task).iter().map(|edge| edge.to)).collect();
    let near: Vec<NodeId> = placed.iter().filter(|p| neighbours.contains(&p.task)).map(|p| p.node).collect();
    let demand = graph.tasks()[task.index()].demand;
    let score = |node: NodeId| {
        let holds = &seen.cluster.node(node).holds;
        let lined_up = dot(&parts_of(&demand, holds), &parts_of(&free.room(node), holds));
        if near.is_empty() || near.contains(&node) { lined_up } else { remote * lined_up }
    };
    let scored = nodes.iter().map(|node| (score(*node), *node));
    scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, node)| node)
}

/// The remaining work of a job, if it says how long it runs: the part of the cluster that it takes, over all resources, times
/// seconds.
fn work(view: &JobView, total: &Resources, now: Time) -> Option<f64> {
    let left = view.declared_remaining(now)?.as_secs_f64();
    Some(parts_of(&view.job.shape.minimum(), total).iter().sum::<f64>() * left)
}

impl Rival for Graphene {
    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn round_s(&self) -> f64 {
        self.parameters.round_s
    }

    fn arrange(&mut self, seen: &Snapshot) {
        self.follow(seen);
        let before = self.given;
        self.start_all(seen);
        self.grow_all(seen);
        if self.given != before {
            self.desk.plan.note_run(Note(std::iter::once(self.given).collect()));
        }
    }

    /// How well a job packs depends on what is free, so only jobs of one shape stand in an order.
    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        let Some(own) = seen.job(job) else { return Ahead::default() };
        let waiting = self.desk.all_waiting();
        let mut alike: Vec<_> = waiting
            .iter()
            .filter(|(_, other)| Shape::of(other) == Shape::of(&own.job))
            .filter_map(|(_, other)| seen.job(other.id))
            .map(|view| {
                let behind = Some(self.behind(view)).filter(|behind| *behind > self.parameters.kappa);
                let work = work(view, &self.total, seen.at);
                (
                    view.job.goals.class,
                    behind.map(ordered),
                    work,
                    Reverse(view.job.submitted),
                    Reverse(view.id()),
                )
            })
            .collect();
        let works: Vec<f64> =
            self.candidates(seen).iter().map(|each| each.work).filter(|w| !w.is_nan()).collect();
        let mean = works.iter().sum::<f64>() / works.len().max(1) as f64;
        let key = |(class, behind, work, submitted, id): &(_, _, Option<f64>, _, _)| {
            (*class, *behind, Reverse(ordered(work.unwrap_or(mean))), *submitted, *id)
        };
        alike.sort_by_key(|each| Reverse(key(each)));
        let before = alike.into_iter().map(|(.., Reverse(id))| id).take_while(|id| *id != job);
        let waits = waiting.iter().any(|(_, other)| other.id == job);
        Ahead { jobs: if waits { before.collect() } else { Vec::new() }, is_total: false }
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room()
    }
}

/// Packing of graphs.
pub(in super::super) const ENTRY: Entry = Entry {
    name: "graphene",
    title: "hard tasks of graphs first, by packing, remaining work and a bound on unfairness",
    source: "Grandl et al., Graphene, OSDI 2016",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Seated(Graphene::new(parameters("graphene", PARAMETERS, given)?)))),
};
