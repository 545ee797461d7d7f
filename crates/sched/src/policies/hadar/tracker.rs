//! The job tracker's books for one slot: what each job has left, how fast a copy of it goes on each node, and what it costs to
//! bring it there (specification of Hadar and Gavel, 2.6.2). All of it is read from the snapshot; nothing is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::estimate::{Library, Profile};
use crate::model::{
    Allocation, CopyId, GpuTypeId, Job, Node, NodeId, Parallelism, Resources, SERVER_TASK, Span, TaskId,
    Topology, WORKER_TASK,
};
use crate::view::{JobView, Phase, Snapshot};

use super::quotas::Seat;

/// A job that may be placed copy by copy.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    pub job: Arc<Job>,
    /// Iterations that are left; `None` if it does not say how many it has.
    pub left: Option<f64>,
    /// The same as a part of all.
    pub left_part: f64,
    /// Seconds since it arrived.
    pub age_s: f64,
    /// Whether it has waited for so long since it last ran that it goes first.
    pub is_aged: bool,
    /// How many copies it may have.
    pub most: usize,
    /// What a copy takes on its node, and how that is made up.
    pub demand: Resources,
    pub parts: Vec<(TaskId, Resources, u32)>,
    /// How fast a copy is on nodes of each sort; 0 where it may not be.
    speeds: Vec<Speed>,
    sorts: Arc<Sorts>,
    /// A node on which it failed and that it keeps away from.
    pub shuns: Option<usize>,
    /// The largest speed on any node as it counts.
    best: f64,
    /// Whether these are speeds; if nothing is known of the job all nodes are alike.
    pub is_known: bool,
    /// Where it has copies now, and which.
    pub here: Vec<(NodeId, CopyId)>,
    /// What its pauses cost, in seconds.
    pub save_s: f64,
    pub load_s: f64,
    pub merge_s: f64,
}

/// Iterations a second of a copy, and the same as it counts in the choice of nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    per_s: f64,
    counted: f64,
}

/// Nodes by what they have: those of one sort have GPUs of the same type and as much of everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Sorts {
    /// The sort of each node.
    of: Vec<usize>,
    /// What a node of each sort has, and how many there are.
    each: Vec<(Option<GpuTypeId>, Resources, usize)>,
}

impl Sorts {
    fn new(nodes: &[Node]) -> Self {
        let mut sorts = Self::default();
        let mut known = BTreeMap::new();
        for node in nodes {
            let next = sorts.each.len();
            let sort = *known.entry((node.gpu_type, node.holds)).or_insert(next);
            if sort == next {
                sorts.each.push((node.gpu_type, node.holds, 0));
            }
            sorts.each[sort].2 += 1;
            sorts.of.push(sort);
        }
        sorts
    }
}

/// All jobs of a slot that may be placed copy by copy, by position in the snapshot.
#[derive(Clone, Debug)]
pub(super) struct Books {
    pub parents: Vec<(usize, Parent)>,
    /// What was taken as long as a job goes nowhere: for how long a node is busy with letting its job go, in seconds.
    pub leaving_s: Vec<f64>,
    sorts: Arc<Sorts>,
}

/// Models are numbered beside families.
const MODELS: u32 = 1 << 31;

/// What is chosen of how books are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    /// The most copies of a job.
    pub copies: usize,
    /// What a speed that nobody measured counts for in the choice of nodes.
    pub explore: f64,
    /// After how long a job that waits goes first, if ever.
    pub age: Option<Span>,
}

impl Books {
    pub(super) fn new(seen: &Snapshot, keeping: Keeping) -> Self {
        let types = seen.cluster.gpu_types.len();
        let speeds: Vec<Vec<Option<f64>>> = seen.jobs().map(|view| known_speeds(view, types)).collect();
        let profiles: Vec<Profile<'_>> =
            seen.jobs().zip(&speeds).map(|(view, per_s)| profile(view, per_s)).collect();
        let views: Vec<&JobView> = seen.jobs().collect();
        let (library, sorts) = (Library::new(&profiles), Arc::new(Sorts::new(&seen.cluster.nodes)));
        let parent = |(at, view): (usize, &&JobView)| {
            Some((at, Parent::new(seen, view, (&profiles[at], &library), &sorts, keeping)?))
        };
        let parents: Vec<(usize, Parent)> = views.iter().enumerate().filter_map(parent).collect();
        let mut leaving_s = vec![0.0_f64; seen.cluster.nodes.len()];
        for view in &views {
            let cost = &view.job.move_cost;
            let span = if view.held.copies() > 1 { cost.merge } else { cost.save };
            for node in view.held.nodes() {
                leaving_s[node.index()] = leaving_s[node.index()].max(span.as_secs_f64());
            }
        }
        Self { parents, leaving_s, sorts }
    }

    /// Nodes with the same number have the same.
    pub(super) fn sort(&self, node: usize) -> usize {
        self.sorts.of[node]
    }

    /// What a copy of a job has of a slot on a node; `several` says whether it has others.
    pub(super) fn seat(&self, parent: &Parent, node: usize, has_several: bool) -> Seat {
        let stays = parent.here.iter().any(|(at, _)| at.index() == node);
        let is_merged = parent.here.len() > 1;
        let merge_s = if is_merged { parent.merge_s } else { 0.0 };
        let overhead_s = match stays {
            true if is_merged => merge_s,
            true => 0.0,
            // One that comes waits for the others to be brought together, and for its node.
            false if has_several => self.leaving_s[node].max(merge_s) + parent.load_s,
            false => self.leaving_s[node].max(parent.leaves_after_s()) + parent.load_s,
        };
        Seat { per_s: parent.per_s(node), overhead_s }
    }
}

/// What is known of a job. Those of a family count with each other by their batches where profiles say what they are of, and those
/// that train the same model where they do not.
fn profile<'a>(view: &JobView, per_s: &'a [Option<f64>]) -> Profile<'a> {
    match view.job.declared.rates.as_ref().and_then(|rates| rates.profiled()) {
        Some(of) => Profile { family: Some(of.family), batch: of.batch, per_s },
        None => Profile { family: view.job.model.map(|model| MODELS | model.0), batch: None, per_s },
    }
}

/// Speeds of the smallest gang by type, as measured or else as profiled or declared by type.
fn known_speeds(view: &JobView, types: usize) -> Vec<Option<f64>> {
    let workers = view.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
    let of = |gpu_type: u8| {
        let gpu_type = GpuTypeId(gpu_type);
        let profiled = || view.job.declared.rates.as_ref()?.per_s(gpu_type, workers, false);
        view.measured.per_s(gpu_type, workers, false).or_else(profiled)
    };
    (0..types as u8).map(of).collect()
}

impl Parent {
    fn new(
        seen: &Snapshot,
        view: &JobView,
        (known, library): (&Profile<'_>, &Library),
        sorts: &Arc<Sorts>,
        keeping: Keeping,
    ) -> Option<Self> {
        let job = &view.job;
        let parts = parts(job)?;
        let demand = sum(&parts);
        let left = job.goal().map(|all| (all - view.iterations(seen.at)).max(0.0));
        let workers = parts.first().map_or(1, |(_, _, count)| *count);
        let all = job.goal().unwrap_or(0.0);
        let speed = |gpu_type: GpuTypeId| -> (Option<f64>, bool) {
            let seen_there = known.per_s[gpu_type.index()].filter(|per_s| *per_s >= 0.0);
            let estimated = || library.per_s(known, gpu_type.index()).map(|found| found.per_s);
            let declared = || view.iterations_per_s(gpu_type, workers, false);
            let unseen = || estimated().or_else(declared);
            (seen_there.or_else(unseen), seen_there.is_none())
        };
        let by_type: Vec<(Option<f64>, bool)> =
            (0..seen.cluster.gpu_types.len() as u8).map(|gpu_type| speed(GpuTypeId(gpu_type))).collect();
        let alike = job.declared.iteration.map(|each| 1.0 / each.as_secs_f64().max(1e-9));
        let is_known = by_type.iter().any(|(per_s, _)| per_s.is_some()) || alike.is_some();
        let shuns = view.shuns.filter(|(_, until)| *until > seen.at).map(|(node, _)| node.index());
        let needs_gpu = demand.gpu_milli > 0;
        let on_sort = |(gpu_type, holds, _): &(Option<GpuTypeId>, Resources, usize)| {
            let of_type = gpu_type.filter(|_| needs_gpu);
            let may = !needs_gpu || of_type.is_some_and(|gpu_type| job.wanted.gpu_types.has(gpu_type));
            let (per_s, is_guess) = of_type.map_or((alike, false), |gpu_type| by_type[gpu_type.index()]);
            if !may || !demand.fits_in(holds) {
                return Speed::default();
            }
            let per_s = per_s.or(alike).unwrap_or(1.0);
            Speed { per_s, counted: if is_guess && is_known { per_s * keeping.explore } else { per_s } }
        };
        let speeds: Vec<Speed> = sorts.each.iter().map(on_sort).collect();
        let is_there = |(sort, speed): (usize, &Speed)| {
            (available(sorts, shuns, sort) > 0 && speed.per_s > 0.0).then_some(speed.counted)
        };
        let best = speeds.iter().enumerate().filter_map(is_there).reduce(f64::max)?;
        let may_fork = left.is_some() && is_known && job.goals.movable;
        let most = if may_fork { usize::from(job.goals.copies.max(1)).min(keeping.copies) } else { 1 };
        let cost = &job.move_cost;
        let waits = view.held.is_none() && view.target.is_none();
        let is_aged =
            waits && keeping.age.is_some_and(|longest| seen.at.since(view.served.changed) > longest);
        let runs = matches!(view.phase, Phase::Starting | Phase::Running);
        Some(Self {
            job: Arc::clone(job),
            left,
            left_part: left.map_or(1.0, |left| if all > 0.0 { left / all } else { 0.0 }),
            age_s: seen.at.since(view.served.arrived).as_secs_f64(),
            is_aged,
            most,
            demand,
            parts,
            speeds,
            sorts: Arc::clone(sorts),
            shuns,
            best,
            is_known,
            here: if runs { copies(&view.target) } else { Vec::new() },
            save_s: cost.save.as_secs_f64(),
            load_s: cost.load.as_secs_f64(),
            merge_s: cost.merge.as_secs_f64(),
        })
    }

    /// Whether a job can be placed copy by copy, were all nodes free. Nodes of a type on which its gang was found not to fit do
    /// not count.
    pub(super) fn fits_a_node(seen: &Snapshot, view: &JobView) -> bool {
        let Some(parts) = parts(&view.job) else { return false };
        let demand = sum(&parts);
        let needs_gpu = demand.gpu_milli > 0;
        let workers = view.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
        let fits = |kind| {
            view.job.wanted.gpu_types.has(kind) && view.iterations_per_s(kind, workers, false) != Some(0.0)
        };
        let may = |node: &Node| !needs_gpu || node.gpu_type.is_some_and(fits);
        seen.cluster.nodes.iter().any(|node| may(node) && demand.fits_in(&node.holds))
    }

    /// How long it takes until all that it has can be left.
    const fn leaves_after_s(&self) -> f64 {
        match self.here.len() {
            0 => 0.0,
            1 => self.save_s,
            _ => self.merge_s,
        }
    }

    /// Iterations a second of a copy on a node; 0 where it may not be.
    pub(super) fn per_s(&self, node: usize) -> f64 {
        self.on(node).per_s
    }

    /// The same as it counts in the choice of nodes.
    pub(super) fn counted(&self, node: usize) -> f64 {
        self.on(node).counted
    }

    fn on(&self, node: usize) -> Speed {
        if self.shuns == Some(node) { Speed::default() } else { self.speeds[self.sorts.of[node]] }
    }

    /// The largest speed on any node, as it counts.
    pub(super) const fn best(&self) -> f64 {
        self.best
    }

    /// How fast all that it could have at once would be: the fastest nodes, one for each copy.
    pub(super) fn together_per_s(&self) -> f64 {
        let each = self.speeds.iter().enumerate();
        let mut each: Vec<(f64, usize)> =
            each.map(|(sort, speed)| (speed.per_s, available(&self.sorts, self.shuns, sort))).collect();
        each.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut all, mut open) = (0.0, self.most);
        for (per_s, nodes) in each {
            let taken = nodes.min(open);
            all += per_s * taken as f64;
            open -= taken;
        }
        all
    }

    /// Whether its copies must be in one rack.
    pub(super) fn stays_in_rack(&self) -> bool {
        self.job.wanted.topology == Topology::SameRack
    }
}

/// How many nodes of a sort there are for a job that keeps away from one.
fn available(sorts: &Sorts, shuns: Option<usize>, sort: usize) -> usize {
    sorts.each[sort].2 - usize::from(shuns.is_some_and(|node| sorts.of[node] == sort))
}

/// What these take together.
fn sum(parts: &[(TaskId, Resources, u32)]) -> Resources {
    parts.iter().fold(Resources::NONE, |sum, (_, each, count)| sum + each.times(u64::from(*count)))
}

/// What a copy is made of: the smallest gang. Nothing where it cannot be given node by node.
fn parts(job: &Job) -> Option<Vec<(TaskId, Resources, u32)>> {
    let Parallelism::DataParallel(shape) = &job.shape else { return None };
    let workers = (WORKER_TASK, shape.worker, shape.workers.min.max(1));
    let servers = shape.server.filter(|_| shape.servers.min > 0);
    let servers = servers.map(|server| (SERVER_TASK, server, shape.servers.min));
    // Shares of a device are given one by one.
    let shares = (1..crate::model::GPU).contains(&shape.worker.gpu_milli) && shape.workers.min > 1;
    let on_devices = shape.server.is_some_and(|server| server.gpu_milli > 0);
    (!shares && !on_devices).then(|| std::iter::once(workers).chain(servers).collect())
}

/// Where the copies of an allocation are, if each is on one node.
pub(super) fn copies(held: &Allocation) -> Vec<(NodeId, CopyId)> {
    let each = held.placements().chunk_by(|one, other| one.copy == other.copy);
    let on_one = |placements: &[crate::model::Placement]| {
        let first = placements[0];
        placements.iter().all(|placement| placement.node == first.node).then_some((first.node, first.copy))
    };
    each.filter_map(on_one).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{
        Cluster, Declared, Goals, JobId, MoveCost, Parallelism, Profiled, Rate, Rates, Seed, TenantId,
        Tenants, Time, Wanted,
    };
    use crate::view::{Causes, Changed, Note};

    pub(in super::super) fn seen(cluster: Cluster, views: impl IntoIterator<Item = JobView>) -> Snapshot {
        Snapshot {
            at: Time::from_secs(1000),
            cause: Causes::ALARM,
            seed: Seed(0),
            number: 3,
            cluster: Arc::new(cluster),
            tenants: Arc::new(Tenants::default()),
            note: Note::default(),
            jobs: views.into_iter().map(|view| (view.id(), Arc::new(view))).collect(),
            changed: Arc::new(Changed::default()),
        }
    }

    fn view(id: u32, rates: &[(u8, f64)], iteration: Option<Span>) -> JobView {
        let rate = |(gpu_type, per_s): &(u8, f64)| Rate {
            gpu_type: GpuTypeId(*gpu_type),
            workers: 1,
            spread: false,
            iterations_per_s: *per_s,
        };
        let rates = Rates::new(rates.iter().map(rate).collect(), Vec::new()).shared();
        let job = Job {
            id: JobId(id),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(1),
            wanted: Wanted::default(),
            goals: Goals { copies: 4, ..Goals::default() },
            declared: Declared { iterations: Some(1000.0), rates, iteration, ..Declared::default() },
            move_cost: MoveCost::default(),
        };
        JobView::new(Arc::new(job), Time::ZERO)
    }

    #[test]
    fn jobs_of_a_family_count_by_how_much_their_batches_are_alike() {
        let mut cluster = Cluster::uniform(1, 1, "v100");
        cluster.add(1, 1, "k80");
        let of = |id: u32, rates: &[(u8, f64)], family, batch| {
            let mut view = view(id, rates, None);
            let job = Arc::make_mut(&mut view.job);
            let rates = job.declared.rates.as_deref().expect("it was profiled").clone();
            job.declared.rates = rates.of(Profiled { family, batch: Some(batch) }).shared();
            view
        };
        let all = [
            of(0, &[(0, 2.0), (1, 1.0)], 5, 16.0),
            of(1, &[(0, 8.0), (1, 1.0)], 5, 256.0),
            of(2, &[(0, 64.0), (1, 1.0)], 6, 16.0),
            of(3, &[(0, 4.0)], 5, 16.0),
        ];
        let books = Books::new(&seen(cluster, all), Keeping { copies: 4, explore: 1.2, age: None });
        let (near, far) = (1.0 / 0.1, 1.0 / (0.1 + 16_f64.ln()));
        let slower = ((2_f64.ln() * near + 8_f64.ln() * far) / (near + far)).exp();
        let per_s = books.parents[3].1.per_s(1);
        assert!((per_s - 4.0 / slower).abs() < 1e-9, "{per_s}");
    }

    #[test]
    fn only_a_speed_that_was_neither_profiled_nor_measured_counts_for_more() {
        let mut cluster = Cluster::uniform(1, 1, "v100");
        cluster.add(1, 1, "k80");
        let mut measured = view(2, &[(0, 8.0)], None);
        measured.measured.measure(GpuTypeId(1), 1, false, 3.0);
        let all = [
            view(0, &[(0, 4.0), (1, 1.0)], None),
            view(1, &[(0, 8.0)], None),
            measured,
            view(3, &[], None),
            view(4, &[], Some(Span::from_secs(2))),
        ];
        let books = Books::new(&seen(cluster, all), Keeping { copies: 4, explore: 1.2, age: None });
        let speeds = |at: usize| {
            let parent = &books.parents[at].1;
            [0, 1].map(|node| (parent.per_s(node), parent.counted(node)))
        };
        assert_eq!(speeds(0), [(4.0, 4.0), (1.0, 1.0)], "both are profiled");
        // Of two that are known on both, one is four times and one 8/3 times as slow there.
        let there = 8.0 / (4.0_f64 * 8.0 / 3.0).sqrt();
        let [v100, (per_s, counted)] = speeds(1);
        assert_eq!(v100, (8.0, 8.0));
        assert!((per_s - there).abs() < 1e-12 && (counted - 1.2 * there).abs() < 1e-12, "{per_s} {counted}");
        assert_eq!(speeds(2), [(8.0, 8.0), (3.0, 3.0)], "one is measured");
        assert_eq!(speeds(3), [(1.0, 1.0); 2], "all that is known is that it is a job");
        assert_eq!(speeds(4), [(0.5, 0.6); 2], "what it says of itself was not seen on any type");
    }
}
