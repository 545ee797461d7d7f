//! What happens to the tasks of jobs: they start and move one by one, use more or less from minute to minute, and are in each
//! other's way.

use trainyard_sched::control::Event;
use trainyard_sched::model::{
    Allocation, Attempt, JobId, NodeId, Parallelism, Placement, Span, TaskGraph, TaskId, TaskUse, Usage,
};

use super::{Coming, SimBackend};
use crate::running::Running;
use crate::tasks::{Around, Flows, RunningTasks, TrueGraph, crossings, iterations_per_s};
use crate::truth::Speed;

/// How often what tasks use changes, and is told.
const TICK: Span = Span::from_secs(60);

impl SimBackend {
    fn minute(&self) -> u64 {
        self.now.0 / TICK.0
    }

    fn graph(&self, id: JobId) -> Option<&TaskGraph> {
        match &self.workload.jobs[id.index()].0.shape {
            Parallelism::TaskGraph(graph) => Some(graph),
            Parallelism::DataParallel(_) => None,
        }
    }

    fn true_graph(&self, id: JobId) -> TrueGraph {
        match &self.workload.jobs[id.index()].1.speed {
            Speed::Graph(graph) => *graph,
            _ => TrueGraph { pace: 1.0, wander: None },
        }
    }

    /// What each placement of a job uses.
    fn uses(&self, id: JobId) -> Vec<(Placement, trainyard_sched::model::Resources)> {
        let Some(run) = &self.jobs[id.index()].run else { return Vec::new() };
        let shape = &self.workload.jobs[id.index()].0.shape;
        let used = |p: &Placement| match (&run.tasks, shape) {
            (Some(tasks), Parallelism::TaskGraph(graph)) => tasks.used(graph, p.task),
            _ => p.takes(shape.demand_of(p.task).unwrap_or_default()),
        };
        run.held.placements().iter().map(|p| (*p, used(p))).collect()
    }

    /// Books what a job uses, or no longer uses.
    fn book(&mut self, id: JobId, sign: i32) {
        for (placement, used) in self.uses(id) {
            self.loads.add(&placement, &used, f64::from(sign));
        }
        let Some(run) = &self.jobs[id.index()].run else { return };
        if let (Some(tasks), Parallelism::TaskGraph(graph)) =
            (&run.tasks, &self.workload.jobs[id.index()].0.shape)
        {
            let at = |task: TaskId| tasks.placed[task.index()].map(|(node, _)| node);
            let mut ends: Vec<NodeId> = crossings(graph, at).flat_map(<[NodeId; 2]>::from).collect();
            if self.physics.flows == Flows::Jobs {
                ends.sort_unstable();
                ends.dedup();
            }
            for node in ends {
                self.loads.add_flow(node, sign);
            }
        }
    }

    /// A job holds what it did not hold before.
    pub(super) fn tasks_enter(&mut self, id: JobId) {
        if !self.has_graphs {
            return;
        }
        let minute = self.minute();
        if let Some(graph) = self.graph(id) {
            let held = self.jobs[id.index()].run.as_ref().map_or(Allocation::NONE, |run| run.held.clone());
            let mut tasks = RunningTasks::new(graph, &held);
            if let Some(wander) = self.true_graph(id).wander {
                for (i, factor) in tasks.factors.iter_mut().enumerate() {
                    *factor = wander.begin(TaskId(i as u32), minute);
                }
            }
            self.run(id).tasks = Some(Box::new(tasks));
            self.tick_later();
        }
        self.uses_anew(id);
    }

    /// A job uses what it holds from now on, which was not booked yet.
    pub(super) fn uses_anew(&mut self, id: JobId) {
        if self.has_graphs {
            self.book(id, 1);
            self.crowd_changed(id);
        }
    }

    /// A job is about to give up all that it holds.
    pub(super) fn tasks_leave(&mut self, id: JobId) {
        if self.has_graphs {
            self.book(id, -1);
            self.crowd_changed(id);
        }
    }

    /// The speeds of jobs of tasks near this one are worked out anew before anything else happens.
    fn crowd_changed(&mut self, id: JobId) {
        let Some(run) = &self.jobs[id.index()].run else { return };
        self.crowded.extend(run.held.placements().iter().map(|p| p.node));
    }

    fn tick_later(&mut self) {
        if !self.is_ticking {
            self.is_ticking = true;
            let next = trainyard_sched::model::Time((self.minute() + 1) * TICK.0);
            self.expect(next, Coming::Tick);
        }
    }

    /// A minute has passed: tasks use something else, and are told so.
    pub(super) fn tick(&mut self) {
        self.is_ticking = false;
        let minute = self.minute();
        self.loads.clear();
        let running: Vec<JobId> = self.running.iter().copied().collect();
        let mut graphs = Vec::new();
        for id in running {
            if self.graph(id).is_some() {
                self.advance(id);
                if let Some(wander) = self.true_graph(id).wander
                    && let Some(tasks) = &mut self.run(id).tasks
                {
                    for (i, factor) in tasks.factors.iter_mut().enumerate() {
                        *factor = wander.next(*factor, TaskId(i as u32), minute);
                    }
                }
                graphs.push(id);
            }
            self.book(id, 1);
        }
        self.crowded.clear();
        for id in graphs.iter().copied() {
            self.tell_usage(id);
            if self.run(id).is_training() {
                let attempt = self.run(id).attempt;
                self.retime(id);
                self.tell_progress(id, attempt);
            }
        }
        if !graphs.is_empty() {
            self.tick_later();
        }
    }

    fn tell_usage(&mut self, job: JobId) {
        let told = |(placement, used): &(Placement, _)| TaskUse { task: placement.task, used: *used };
        let usage = Usage::new(self.uses(job).iter().map(told).collect());
        let attempt = self.run(job).attempt;
        self.ready.push(Event::Used { job, attempt, usage });
    }

    /// Times the jobs of tasks anew that are where somebody came or went.
    pub(super) fn settle_crowd(&mut self) {
        if self.crowded.is_empty() {
            return;
        }
        let nodes = std::mem::take(&mut self.crowded);
        let near: Vec<JobId> = self.occupancy.on(nodes.iter().copied()).into_iter().collect();
        for id in near {
            let is_graph = self.graph(id).is_some();
            if !is_graph || !self.jobs[id.index()].run.as_ref().is_some_and(Running::is_training) {
                continue;
            }
            let before = self.run(id).per_s;
            if self.retime(id) != before {
                let (attempt, iterations) = (self.run(id).attempt, self.run(id).iterations);
                self.tell(id, attempt, iterations, Vec::new());
            }
        }
    }

    /// Iterations a second of a job of tasks where it is now.
    pub(super) fn tasks_per_s(&self, id: JobId) -> Option<f64> {
        let graph = self.graph(id)?;
        let tasks = self.jobs[id.index()].run.as_ref()?.tasks.as_ref()?;
        let at = |task: TaskId| tasks.at_work(task).and(tasks.placed[task.index()]);
        let around = Around { cluster: &self.cluster, loads: Some(&self.loads) };
        Some(iterations_per_s(graph, self.true_graph(id).pace, at, &around))
    }

    /// Tasks move, come and go; those that stay go on, as far as they do not need the others. What a task has to carry goes
    /// over the network that both its nodes have free.
    pub(super) fn resize_tasks(&mut self, id: JobId, attempt: Attempt, allocation: &Allocation) {
        self.advance(id);
        let load = self.workload.jobs[id.index()].1.move_cost.load;
        let shape = self.workload.jobs[id.index()].0.shape.clone();
        let Parallelism::TaskGraph(graph) = &shape else { return };
        self.tasks_leave(id);
        let before = std::mem::take(&mut self.run(id).held);
        self.occupancy.leave(id, &before, &shape);
        self.occupancy.enter(id, allocation, &shape);
        let now = self.now;
        let was = |task: TaskId| before.place_of(task).map(|p| p.node);
        let mut loads = Vec::new();
        for p in allocation.placements().iter().filter(|p| was(p.task) != Some(p.node)) {
            let bytes = graph.tasks()[p.task.index()].state_bytes as f64;
            let carried = was(p.task).map_or(Span::ZERO, |from| self.carry(from, p.node, bytes));
            loads.push((p.task, now + carried + load));
        }
        let minute = self.minute();
        let wander = self.true_graph(id).wander;
        let run = self.run(id);
        run.held = allocation.clone();
        if let Some(tasks) = &mut run.tasks {
            tasks.hold(allocation);
            tasks.away.retain(|(task, _)| !loads.iter().any(|(other, _)| other == task));
            tasks.away.extend(loads.iter().copied());
            for task in allocation.placements().iter().map(|p| p.task).filter(|task| was(*task).is_none()) {
                tasks.factors[task.index()] = wander.map_or(1.0, |wander| wander.begin(task, minute));
            }
        }
        self.uses_anew(id);
        let speed = self.retime(id);
        let iterations = self.run(id).iterations;
        self.ready.push(Event::Resized {
            job: id,
            attempt,
            allocation: allocation.clone(),
            iterations,
            speed,
        });
        let mut ends: Vec<_> = loads.into_iter().map(|(_, at)| at).collect();
        ends.sort_unstable();
        ends.dedup();
        for at in ends {
            self.expect(at, Coming::TasksLoaded(id, attempt));
        }
    }

    fn carry(&self, from: NodeId, to: NodeId, bytes: f64) -> Span {
        let link = self.cluster.links.between(self.cluster.node(from), self.cluster.node(to));
        let free = [from, to].into_iter().filter_map(|node| self.loads.free_bytes_per_s(node));
        let shared_s = free.map(|bytes_per_s| bytes / bytes_per_s).fold(0.0, f64::max);
        Span::from_secs_f64(link.transfer_s(bytes).max(shared_s))
    }

    /// Tasks that were on their way have arrived.
    pub(super) fn tasks_loaded(&mut self, id: JobId, attempt: Attempt) {
        self.advance(id);
        let now = self.now;
        if let Some(tasks) = &mut self.run(id).tasks {
            tasks.away.retain(|(_, until)| *until > now);
        }
        if self.run(id).is_training() {
            self.retime(id);
            let iterations = self.run(id).iterations;
            self.tell(id, attempt, iterations, Vec::new());
        }
    }
}
