//! The jobs as the rounds see them: gangs of GPUs of one type, and the rest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::decide::{Plan, Reason};
use crate::model::{
    Allocation, Cluster, GPU, GpuTypeId, GpuTypeSet, Job, JobId, NodeId, NodeState, PriorityClass, Wanted,
};
use crate::place::{Ask, Rule, largest_gang_by};
use crate::rank::Shape;
use crate::view::{JobView, Snapshot};

use super::allocation::Column;
use super::notes::{Remembered, Row};

/// How a job takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    /// Its gang fits on GPUs of one type, and it is owed shares of time.
    Gang,
    /// It runs and may not be moved, so it keeps what it has.
    Bound,
    /// No share of time on one type describes it: a task graph, a gang that mixes types or has no GPU.
    Apart,
    /// It can never run.
    Never(Reason),
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: JobId,
    pub(super) class: Reverse<PriorityClass>,
    pub(super) part: Part,
    /// GPUs of its smallest gang in thousandths.
    pub(super) gpu_milli: u64,
    /// Iterations a second, by column; 0 where it cannot run.
    pub(super) per_s: Row,
    /// What is remembered of it.
    pub(super) memory: Remembered,
    /// On which column it has a target.
    pub(super) on: Option<usize>,
    /// Whether its target is half of each device, beside another job.
    pub(super) is_halved: bool,
}

/// All jobs, in ascending order of their numbers, and how their gangs may run.
#[derive(Default)]
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    pub(super) columns: Vec<Column>,
    rule: Rule,
    fits: BTreeMap<Shape, Fits>,
}

/// Where the smallest gangs of one shape fit an idle cluster.
#[derive(Clone, Debug)]
struct Fits {
    never: Option<Reason>,
    columns: Vec<bool>,
    /// Whether each column can only be had on several nodes.
    spread: Vec<bool>,
}

impl Member {
    /// GPUs of its gang, at least one.
    pub(super) const fn gang(&self) -> u32 {
        let gpus = self.gpu_milli.div_ceil(GPU);
        if gpus == 0 { 1 } else { gpus as u32 }
    }

    /// Whether shares of time were worked out for it.
    pub(super) fn is_owed(&self) -> bool {
        !self.memory.accounts.is_empty()
    }

    /// Whether its gang may share the GPUs of another one: both can be moved, and ask for the same.
    pub(super) fn may_share(&self, job: &Job, other: &Self, others: &Job) -> bool {
        let plain = job.shape.data_parallel().is_some_and(|shape| shape.server.is_none());
        let alike = job.shape == others.shape && job.wanted.topology == others.wanted.topology;
        let whole = self.gpu_milli >= GPU && self.gpu_milli.is_multiple_of(GPU);
        let movable = !job.stays_once_it_runs() && !others.stays_once_it_runs();
        self.is_gang() && other.is_gang() && self.class == other.class && plain && alike && whole && movable
    }

    /// Whether it takes part in rounds and may be moved.
    pub(super) fn is_gang(&self) -> bool {
        self.part == Part::Gang
    }
}

/// Of a type of which nothing is known a job is taken to be as fast as on those that are, in their geometric mean. Where nothing
/// at all is known all types are alike.
fn fill_unknown(rates: &mut [f64]) {
    let known = || rates.iter().filter(|per_s| per_s.is_finite() && **per_s > 0.0);
    let count = known().count();
    let mean = known().map(|per_s| per_s.ln()).sum::<f64>() / count.max(1) as f64;
    let usual = if count == 0 { 1.0 } else { mean.exp() };
    rates.iter_mut().filter(|per_s| !per_s.is_finite()).for_each(|per_s| *per_s = usual);
}

/// What a job wants, on GPUs of one type only.
pub(super) fn on_type(wanted: &Wanted, pool: usize) -> Wanted {
    let only = GpuTypeSet::of(&[GpuTypeId(pool as u8)]);
    Wanted { gpu_types: if wanted.gpu_types.overlaps(only) { only } else { GpuTypeSet::NONE }, ..*wanted }
}

/// GPUs of a type on nodes that are not down.
pub(super) fn gpus_of(cluster: &Cluster, pool: usize) -> u64 {
    let of_type = |node: &&crate::model::Node| {
        node.gpu_type == Some(GpuTypeId(pool as u8)) && node.state == NodeState::Up
    };
    cluster.nodes.iter().filter(of_type).map(|node| u64::from(node.gpu_count())).sum()
}

impl Members {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Follows a snapshot: looks at these jobs, or at all.
    pub(super) fn follow(&mut self, seen: &Snapshot, changed: &[JobId], rebuilt: bool, by_place: bool) {
        if rebuilt {
            let pools = 0..seen.cluster.gpu_types.len();
            let places: &[bool] = if by_place { &[false, true] } else { &[false] };
            let columns = |pool| places.iter().map(move |is_spread| Column { pool, is_spread: *is_spread });
            self.columns = pools.flat_map(columns).collect();
            self.fits.clear();
            self.all.clear();
            for view in seen.jobs() {
                let member = self.member(seen, view);
                self.all.push(member);
            }
            return;
        }
        for id in changed {
            let place = self.all.binary_search_by_key(id, |member| member.id);
            match (place, seen.job(*id)) {
                (Ok(i), Some(view)) => self.all[i] = self.member(seen, view),
                (Ok(i), None) => drop(self.all.remove(i)),
                (Err(i), Some(view)) => {
                    let member = self.member(seen, view);
                    self.all.insert(i, member);
                }
                (Err(_), None) => {}
            }
        }
    }

    /// The place of a job.
    pub(super) fn find(&self, id: JobId) -> Option<usize> {
        self.all.binary_search_by_key(&id, |member| member.id).ok()
    }

    fn member(&mut self, seen: &Snapshot, view: &JobView) -> Member {
        let job = &*view.job;
        let columns = self.columns.len();
        let fits = self.fits(seen, job);
        let noted = Remembered::of_note(&view.note, columns);
        let mut member = Member {
            id: job.id,
            class: Reverse(job.goals.class),
            part: fits.never.map_or(Part::Apart, Part::Never),
            gpu_milli: job.shape.minimum().gpu_milli,
            per_s: Row::from_elem(0.0, columns),
            memory: noted.unwrap_or_default(),
            on: None,
            is_halved: view.target.is_beside(&job.shape),
        };
        let Some(shape) = job.shape.data_parallel().filter(|shape| shape.worker.gpu_milli > 0) else {
            return member;
        };
        let workers = shape.workers.min.max(1);
        if fits.columns.contains(&true) {
            for (c, per_s) in member.per_s.iter_mut().enumerate().filter(|(c, _)| fits.columns[*c]) {
                let Column { pool, is_spread } = self.columns[c];
                let known =
                    view.iterations_per_s(GpuTypeId(pool as u8), workers, is_spread || fits.spread[c]);
                *per_s = known.map_or(f64::NAN, |per_s| per_s.max(0.0));
            }
            fill_unknown(&mut member.per_s);
            let fits_none = member.per_s.iter().all(|per_s| *per_s == 0.0);
            let types = (0..seen.cluster.gpu_types.len()).map(|i| GpuTypeId(i as u8));
            let goes = |kind| view.iterations_per_s(kind, workers, false) != Some(0.0);
            member.part = match (fits_none, job.wanted.mixed_gpu_types && types.into_iter().any(goes)) {
                (false, _) => Part::Gang,
                // On several types together it may.
                (true, true) => Part::Apart,
                (true, false) => Part::Never(Reason::Unplaceable { workers, largest: 0 }),
            };
        }
        if view.target.is_some() {
            member.on = self.column_of(&seen.cluster, &view.target, &member);
            if member.part == Part::Gang && (member.on.is_none() || job.stays_once_it_runs()) {
                member.part = Part::Bound;
            }
        }
        member
    }

    /// The column on which an allocation is.
    fn column_of(&self, cluster: &Cluster, held: &Allocation, member: &Member) -> Option<usize> {
        let type_of = |node: NodeId| cluster.node(node).gpu_type;
        let mut types = held.placements().iter().filter(|p| p.gpus.devices != 0).map(|p| type_of(p.node));
        let first = types.next()??;
        if types.any(|other| other != Some(first)) {
            return None;
        }
        let of_type = |c: &usize| self.columns[*c].pool == first.index();
        // Where it was put on purpose, and else on the first column of its type.
        let noted = member.memory.on.map(|(_, column)| column).filter(of_type);
        noted.or_else(|| (0..self.columns.len()).find(of_type))
    }

    fn fits(&mut self, seen: &Snapshot, job: &Job) -> Fits {
        let key = Shape::of(job);
        if let Some(known) = self.fits.get(&key) {
            return known.clone();
        }
        let never = Plan::unplaceable(seen, job, self.rule);
        let workers = Ask::minimum(&job.shape, &job.wanted).workers;
        let is_gang = never.is_none() && job.shape.data_parallel().is_some_and(|s| s.worker.gpu_milli > 0);
        let fits = |wanted: &Wanted, rule| {
            is_gang && largest_gang_by(rule, &seen.cluster, &job.shape, wanted) >= workers.max(1)
        };
        // One worker is never spread.
        let of_column = |column: &Column| {
            (!column.is_spread || workers > 1) && fits(&on_type(&job.wanted, column.pool), self.rule)
        };
        let columns: Vec<bool> = self.columns.iter().map(of_column).collect();
        let close = |column: &Column| {
            let wanted = on_type(&job.wanted, column.pool);
            !fits(&Wanted { topology: crate::model::Topology::SameNode, ..wanted }, Rule::Pack)
        };
        let spread = self.columns.iter().map(close).collect();
        let found = Fits { never, columns, spread };
        self.fits.insert(key, found.clone());
        found
    }
}
