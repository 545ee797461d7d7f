//! Targets of graphs of tasks, part by part: tasks that come, go and move.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::decide::Reason;
use crate::model::{
    Allocation, GpuSet, Job, JobId, NodeId, NodeState, Parallelism, Placement, TaskId, Wanted,
};
use crate::place::{Choose, FreeCapacity, Rule, Sizes, TasksAsk, complete_units, units};
use crate::view::Snapshot;

use super::Plan;

impl Plan {
    /// Whether GPUs have enough left for tasks of these sizes. `false` is certain, `true` is not.
    pub fn may_hold(&mut self, wanted: &Wanted, sizes: &Sizes) -> bool {
        self.free.may_hold(wanted, sizes)
    }

    /// Whether GPUs have enough left for the least of a job. `false` is certain, `true` is not.
    pub fn may_fit(&mut self, job: &Job) -> bool {
        let sizes = match &job.shape {
            Parallelism::TaskGraph(graph) => {
                Sizes::of(units(graph)[0].iter().map(|task| &graph.tasks()[task.index()].demand))
            }
            Parallelism::DataParallel(_) => return true,
        };
        self.may_hold(&job.wanted, &sizes)
    }

    /// Gives a job that is a graph these tasks, all or none, to those that it has.
    pub fn add_tasks(&mut self, job: &Arc<Job>, tasks: &[TaskId], rule: Rule) -> bool {
        self.add_by(job, tasks, |free, ask| free.place_tasks(rule, ask))
    }

    /// The same, each on a node of one's own choice.
    pub fn add_tasks_by(&mut self, job: &Arc<Job>, tasks: &[TaskId], choose: &mut Choose<'_>) -> bool {
        self.add_by(job, tasks, |free, ask| free.place_tasks_by(ask, choose))
    }

    fn add_by(
        &mut self,
        job: &Arc<Job>,
        tasks: &[TaskId],
        place: impl FnOnce(&mut FreeCapacity, &TasksAsk<'_>) -> Option<Vec<Placement>>,
    ) -> bool {
        let Parallelism::TaskGraph(graph) = &job.shape else { return false };
        let held = self.target(job.id).cloned().unwrap_or_default();
        let until = self.shun(job.id, NodeState::Draining);
        let placed = place(&mut self.free, &TasksAsk { graph, wanted: &job.wanted, tasks, held: &held });
        if let Some(until) = until {
            self.shun(job.id, NodeState::Up);
            if placed.is_none() {
                self.wake_at(until);
            }
        }
        let Some(placed) = placed else { return false };
        if held.is_none() {
            self.set(job, Allocation::new(placed));
        } else {
            let all = held.placements().iter().copied().chain(placed).collect();
            self.change_target(job.id, &held, Allocation::new(all));
        }
        true
    }

    /// Whether these tasks of a job without a target would fit, where it may go though it failed there.
    pub fn would_fit(&mut self, job: &Job, tasks: &[TaskId], rule: Rule) -> bool {
        let Parallelism::TaskGraph(graph) = &job.shape else { return false };
        let ask = TasksAsk { graph, wanted: &job.wanted, tasks, held: &Allocation::NONE };
        let placed = self.free.place_tasks(rule, &ask).map(Allocation::new);
        placed.inspect(|placed| self.free.release(placed, &job.shape)).is_some()
    }

    /// Gives a job without a target the least with which it can train: its smallest gang, its whole graph, or one replica of
    /// a graph that makes progress in parts.
    pub fn place_least(&mut self, job: &Arc<Job>, rule: Rule) -> bool {
        match &job.shape {
            Parallelism::TaskGraph(graph) => self.add_tasks(job, &units(graph)[0], rule),
            Parallelism::DataParallel(_) => self.place(job, rule),
        }
    }

    /// `Unplaceable` if the least of a job would not even fit the idle cluster, placed by a rule.
    pub fn least_unplaceable(seen: &Snapshot, job: &Job, rule: Rule) -> Option<Reason> {
        let Parallelism::TaskGraph(graph) = &job.shape else { return Self::unplaceable(seen, job, rule) };
        let mut idle = (*seen.cluster).clone();
        idle.nodes.iter_mut().for_each(|node| node.state = NodeState::Up);
        let none = Allocation::NONE;
        let ask = TasksAsk { graph, wanted: &job.wanted, tasks: &units(graph)[0], held: &none };
        let placed = FreeCapacity::new(&idle).place_tasks(rule, &ask);
        placed.is_none().then_some(Reason::Unplaceable { workers: 0, largest: 0 })
    }

    /// Gives a job with a target so many units, or as many as there is room for, and says how many it has then: workers of an
    /// elastic gang, complete replicas of a graph that makes progress in parts. Of replicas the first ones stay.
    pub fn resize_units(&mut self, id: JobId, wanted: u32, rule: Rule) -> u32 {
        let Some(target) = self.targets.get(&id) else { return 0 };
        let job = Arc::clone(&target.job);
        let Parallelism::TaskGraph(graph) = &job.shape else { return self.resize(id, wanted, rule) };
        let mut has = complete_units(graph, &target.allocation);
        if !graph.is_partial() {
            return has;
        }
        let held: BTreeSet<TaskId> = target.allocation.placements().iter().map(|p| p.task).collect();
        let units = units(graph);
        let misses = |unit: &[TaskId]| -> Vec<TaskId> {
            unit.iter().copied().filter(|task| !held.contains(task)).collect()
        };
        if wanted < has {
            let whole = units.iter().filter(|unit| misses(unit).is_empty());
            let mut kept: BTreeSet<TaskId> = whole.take(wanted.max(1) as usize).flatten().copied().collect();
            kept.extend((0..graph.tasks().len() as u32).map(TaskId).filter(|task| graph.is_server(*task)));
            self.keep_tasks(id, |task| kept.contains(&task));
            return wanted.max(1);
        }
        for missing in units.iter().map(|unit| misses(unit)).filter(|missing| !missing.is_empty()) {
            if has >= wanted || !self.add_tasks(&job, &missing, rule) {
                break;
            }
            has += 1;
        }
        has
    }

    /// Takes replicas from a graph that makes progress in parts until it has one; anything else is left alone.
    pub fn shrink_replicas(&mut self, id: JobId) {
        let is_partial =
            |shape: &Parallelism| matches!(shape, Parallelism::TaskGraph(graph) if graph.is_partial());
        if self.targets.get(&id).is_some_and(|target| is_partial(&target.job.shape)) {
            // It only gives up, so no rule is asked.
            self.resize_units(id, 1, Rule::default());
        }
    }

    /// Leaves a job only some of its tasks, which must be at least one.
    pub fn keep_tasks(&mut self, id: JobId, keep: impl Fn(TaskId) -> bool) {
        let Some(target) = self.targets.get(&id) else { return };
        let (job, held) = (Arc::clone(&target.job), target.allocation.clone());
        let kept = held.placements().iter().copied().filter(|p| keep(p.task)).collect();
        let kept = Allocation::new(kept);
        assert!(kept.is_some(), "{id} keeps some of its tasks, or it is evicted");
        self.free.release(&held, &job.shape);
        self.free.take(&kept, &job.shape);
        self.change_target(id, &held, kept);
    }

    /// Moves the one instance of a task that has a part of a device to another device, if there is room for it. Whether the
    /// job accepts the place is the caller's concern.
    pub fn move_task(&mut self, id: JobId, task: TaskId, (node, device): (NodeId, u32)) -> bool {
        let Some(target) = self.targets.get(&id) else { return false };
        let (job, held) = (Arc::clone(&target.job), target.allocation.clone());
        let mut placements = held.placements().to_vec();
        let Some(moved) = placements.iter_mut().find(|p| p.task == task && p.count == 1) else {
            return false;
        };
        moved.node = node;
        moved.gpus = GpuSet { devices: 1 << device, ..moved.gpus };
        let is_once = held.placements().iter().all(|p| p.task != task || p.node != node || p.count == 1);
        if !is_once || held.count_of(task) != 1 {
            return false;
        }
        let there = Allocation::new(placements);
        self.free.release(&held, &job.shape);
        let fits = self.free.takes_work(node) && self.free.keep(&there, &job.shape);
        if fits {
            self.change_target(id, &held, there);
        } else {
            self.free.take(&held, &job.shape);
        }
        fits
    }

    /// Like [`Self::place_least`], on some of the nodes only. It looks at every node, which is for few jobs at a time.
    pub fn place_within(&mut self, job: &Arc<Job>, rule: Rule, within: impl Fn(NodeId) -> bool) -> bool {
        let nodes = (0..self.free.node_count() as u32).map(NodeId);
        let hidden: Vec<NodeId> =
            nodes.filter(|node| self.free.takes_work(*node) && !within(*node)).collect();
        for node in &hidden {
            self.free.set_state(*node, NodeState::Draining);
        }
        let placed = self.place_least(job, rule);
        for node in &hidden {
            self.free.set_state(*node, NodeState::Up);
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::{Reason, Verdict};
    use crate::model::{
        Cluster, Declared, Goals, MoveCost, Resources, Seed, Task, TaskGraph, TenantId, Tenants, Time,
    };
    use crate::view::{Causes, Changed, JobView, Note, Snapshot};

    /// A plan on two nodes of two devices, and a job of two replicas that demand .4 and .3 of a device.
    fn begin() -> (Plan, Arc<Job>) {
        let task = |replica: u32| Task {
            demand: Resources { gpu_milli: 400 - 100 * u64::from(replica), ..Resources::NONE },
            parameters: 0,
            replica: Some(replica),
            compute_s: 1.0,
            state_bytes: 0,
        };
        let graph = TaskGraph::new(vec![task(0), task(1)], Vec::new(), None, true).expect("two replicas");
        let job = Arc::new(Job {
            id: JobId(3),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::TaskGraph(graph),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared::default(),
            move_cost: MoveCost::default(),
        });
        let seen = Snapshot {
            at: Time::ZERO,
            cause: Causes::ARRIVED,
            seed: Seed(0),
            number: 0,
            cluster: Arc::new(Cluster::uniform(2, 2, "v100")),
            tenants: Arc::new(Tenants::default()),
            note: Note::default(),
            jobs: std::iter::once((job.id, Arc::new(JobView::new(Arc::clone(&job), Time::ZERO)))).collect(),
            changed: Arc::new(Changed::default()),
        };
        let mut plan = Plan::default();
        plan.follow(&seen);
        (plan, job)
    }

    fn places(plan: &Plan) -> Vec<(u32, u32, u64)> {
        let target = plan.target(JobId(3)).expect("it has a target");
        target.placements().iter().map(|p| (p.task.0, p.node.0, p.gpus.devices)).collect()
    }

    #[test]
    fn tasks_come_move_and_go() {
        let (mut plan, job) = begin();
        let idle = plan.free().clone();
        assert!(plan.would_fit(&job, &[TaskId(0)], Rule::Spread) && *plan.free() == idle);
        assert!(plan.add_tasks(&job, &[TaskId(0)], Rule::Spread));
        assert!(plan.add_tasks(&job, &[TaskId(1)], Rule::Spread));
        assert_eq!(places(&plan), [(0, 0, 1), (1, 1, 1)]);
        assert!(plan.move_task(JobId(3), TaskId(1), (NodeId(0), 0)), ".7 fit one device");
        assert_eq!(places(&plan), [(0, 0, 1), (1, 0, 1)]);
        assert_eq!(plan.free().free_share(NodeId(0), 0), 300);
        assert!(!plan.move_task(JobId(3), TaskId(2), (NodeId(0), 1)), "it has no such task");
        plan.keep_tasks(JobId(3), |task| task == TaskId(1));
        assert_eq!(places(&plan), [(1, 0, 1)]);
        plan.say(JobId(3), Verdict::Run(Reason::Chosen));
        assert_eq!(plan.finish().targets.len(), 1);
        plan.evict(JobId(3));
        assert_eq!(*plan.free(), idle, "nothing is lost on the way");
    }

    #[test]
    fn replicas_come_and_go_whole() {
        let (mut plan, job) = begin();
        let idle = plan.free().clone();
        assert!(plan.place_least(&job, Rule::Fill));
        assert_eq!(places(&plan), [(0, 0, 1)], "the least is one replica");
        assert_eq!(plan.resize_units(JobId(3), 9, Rule::Fill), 2, "it has no more than two");
        assert_eq!(places(&plan), [(0, 0, 1), (1, 1, 1)], "the other node is emptier");
        assert_eq!(plan.resize_units(JobId(3), 0, Rule::Fill), 1, "one stays in any case");
        assert_eq!(places(&plan), [(0, 0, 1)]);
        plan.evict(JobId(3));
        assert_eq!(*plan.free(), idle);
    }

    #[test]
    fn nothing_moves_where_there_is_no_room_or_no_work_is_taken() {
        let (mut plan, job) = begin();
        assert!(plan.add_tasks(&job, &[TaskId(0)], Rule::Fill));
        let other = Arc::new(Job { id: JobId(4), shape: Parallelism::gang(1), ..(*job).clone() });
        assert!(plan.place_within(&other, Rule::Pack, |node| node == NodeId(1)));
        assert_eq!(plan.target(JobId(4)).map(Allocation::nodes), Some(vec![NodeId(1)]));
        let before = plan.free().clone();
        assert!(!plan.move_task(JobId(3), TaskId(0), (NodeId(1), 0)), "the device is taken whole");
        assert_eq!(*plan.free(), before);
        assert!(plan.move_task(JobId(3), TaskId(0), (NodeId(1), 1)));
        let third = Arc::new(Job { id: JobId(5), shape: Parallelism::gang(3), ..(*job).clone() });
        assert!(!plan.place_within(&third, Rule::Pack, |_| true));
        assert!(plan.free().takes_work(NodeId(0)) && plan.free().takes_work(NodeId(1)));
    }
}
