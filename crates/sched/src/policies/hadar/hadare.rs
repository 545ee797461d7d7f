//! HadarE: jobs are forked into copies that train at the same time on different nodes, so that no node is idle while anything is
//! left to do.
//!
//! # Idea
//! Time is cut into slots. At the start of each, copies go to nodes level by level: every job gets a first node before any gets a
//! second, and each time by the assignment in which nodes go to jobs that are relatively fast there. Each copy has a quota of
//! iterations; where all copies of a job come to its end in the slot, the quotas are such that they end together. At the end of
//! the slot copies are brought together, and the next begins.
//!
//! # Source
//! HadarE, in Sultana et al., "Hadar: Heterogeneity-Aware Optimization-Based Online Scheduling for Deep Learning Cluster" (arXiv
//! 2503.10918, 2025), by the specification of Hadar and Gavel, 2.6. Its published formulas could not be had; those of the
//! specification are used.
//!
//! # What it sees
//! Declared iterations; speeds by GPU type, those measured of the job first, then those of its profile, then estimated from how
//! other jobs do on both types, then declared ones. A job that says neither how many iterations it has nor how fast it goes is not
//! forked.
//!
//! # Parameters
//! `mode`: `fork` gives out all nodes; `auto` plays the slots to come through in several manners (forking, a single copy, the
//! shortest jobs first; see `lookahead`) and goes on in the one that does best by `objective`, and gives no copy that its job does not
//! gain from. It looks no further where jobs times nodes are more than 4096; then it forks while there are fewer jobs than nodes.
//! `weights`: `relative` speed on a node, or `payoff`, Hadar's utility of going on there. `copies`: the most copies of a job.
//! `srpt_first`: while there are as many jobs as nodes only the shortest half of the nodes' number are given any. `backfill`: nodes
//! that come free inside a slot are given out for the rest of it; else they wait. `explore`: what a speed counts for that nobody
//! measured. `age_h`: after how long without a node a job goes first among those of its class (specification, 4.9), whatever it
//! counts for. `round_s`: the length of a slot.
//!
//! # Where we differ
//! A job that would lose all that it did if it were stopped keeps its nodes once it runs; two that took turns would never end.
//! A node with room for several copies takes those of several jobs. A copy is the smallest gang of its job, all of it on one
//! node; jobs that fit no node, or are graphs of tasks, are placed as they are, before the others; whoever gets no node of its
//! own is placed on several last, if it fits there. Of classes the higher goes first on each level. No copy comes beside others
//! that ends no iteration in a slot. Speeds that nobody knows are estimated from the jobs that are there; `explore` counts
//! until a speed is profiled or measured, and not for one slot; and speeds are measured at each report and not once a slot,
//! since only who measures knows for how long a copy trained, and a speed that is told is without pauses already. Equal nodes
//! are not exchanged. Nodes without GPUs count as equally fast, whatever they are.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::decide::Abilities;
use crate::decide::{
    Ahead, Cadence, Decision, Entry, Memory, Misfit, Parameter, Policy, ROUND_S, Slate, Suits, Verdict,
    ahead_by, by_arrival, chosen, counted, defaults, flagged, numbered, parameters,
};
use crate::model::{Allocation, CopyId, JobId, NodeId, Quotas, RackId, Resources, Span, Time};
use crate::place::Ask;
use crate::rank::Shape;
use crate::view::{Causes, JobView, Note, Phase, Snapshot};

use super::levels::{Manner, Room, Weights, levels};
use super::lookahead::{MOST_PAIRS, Outlook, outlook};
use super::quotas::{Seat, quotas};
use super::tracker::{Books, Keeping, Parent, copies};

/// How nodes are given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fork,
    Auto,
}

/// What `auto` is to bring down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Objective {
    Jct,
    Makespan,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    age_h: f64,
    backfill: bool,
    copies: usize,
    explore: f64,
    mode: Mode,
    objective: Objective,
    round_s: f64,
    srpt_first: bool,
    weights: Weights,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            age_h: 24.0,
            backfill: false,
            copies: 64,
            explore: 1.2,
            mode: Mode::Fork,
            objective: Objective::Makespan,
            round_s: 360.0,
            srpt_first: false,
            weights: Weights::Relative,
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    numbered(
        "age_h",
        "h",
        (0.0, 1e6),
        "a job that waited so long since it last ran gets its first node before others; 0 means never",
    ),
    flagged("backfill", "whether nodes that come free inside a slot are given out for the rest of it"),
    counted("copies", "copies", (1, 1024), "the most copies of a job; 1 never forks"),
    numbered(
        "explore",
        "",
        (1.0, 10.0),
        "what a speed that nobody measured counts for when nodes are chosen",
    ),
    chosen(
        "mode",
        &["fork", "auto"],
        "fork wherever nodes are free, or in the manner that does best by `objective` as far as can be foreseen",
    ),
    chosen(
        "objective",
        &["jct", "makespan"],
        "what `auto` brings down: the mean time to the end, or the time until all are done",
    ),
    ROUND_S,
    flagged(
        "srpt_first",
        "whether, with as many jobs as nodes, only the shortest are given any: half as many as there are nodes",
    ),
    chosen("weights", &["relative", "payoff"], "what a node counts for: the speed there, or Hadar's utility"),
];

struct HadarE {
    given: Parameters,
    slot: Span,
    memory: Memory,
}

/// A slot, or what is left of one.
struct Slot<'a> {
    seen: &'a Snapshot,
    books: Books,
    slate: Slate<'a>,
    racks: Vec<RackId>,
    /// Shapes for which there was no room.
    full: BTreeSet<Shape>,
    /// Whether it begins; else some of it is over, and what has nodes keeps them.
    is_new: bool,
    left_s: f64,
}

impl HadarE {
    /// When the present slot began, if it goes on.
    fn began(&self, seen: &Snapshot) -> Option<Time> {
        let is_edge = seen.cause.any_of(Causes::ALARM | Causes::POLICY);
        let began =
            seen.note.0.first().map(|at| Time(*at as u64)).filter(|_| self.given.backfill && !is_edge)?;
        (began <= seen.at && seen.at < began + self.slot).then_some(began)
    }

    fn begin<'a>(&self, seen: &'a Snapshot) -> Slot<'a> {
        let keeping = Keeping {
            copies: self.given.copies,
            explore: self.given.explore,
            age: (self.given.age_h > 0.0).then(|| Span::from_secs_f64(self.given.age_h * 3600.0)),
        };
        let mut books = Books::new(seen, keeping);
        let mut slate = Slate::new(seen, Misfit::Skip);
        let runs =
            |view: &JobView| matches!(view.phase, Phase::Starting | Phase::Running) && view.target.is_some();
        for (at, view) in seen.jobs().enumerate() {
            if !slate.lines()[at].is_bound && view.job.stays_once_it_runs() && runs(view) {
                slate.keep(at, &view.target);
            }
        }
        books.parents.retain(|(at, _)| !slate.lines()[*at].is_bound && !slate.lines()[*at].runs());
        let began = self.began(seen);
        let over = began.map_or(Span::ZERO, |began| seen.at.since(began));
        let left_s = self.slot.saturating_sub(over).as_secs_f64();
        let racks = seen.cluster.nodes.iter().map(|node| node.rack).collect();
        Slot { seen, books, slate, racks, full: BTreeSet::new(), is_new: began.is_none(), left_s }
    }

    /// How nodes are given away in this slot.
    fn manner(&self, slot: &Slot<'_>, free: &[Resources]) -> Manner {
        let given = &self.given;
        let (jobs, nodes) = (slot.books.parents.len(), free.len());
        let half = nodes.div_ceil(2);
        let first = (given.srpt_first && jobs >= nodes).then_some(half);
        let plain = Manner { weights: given.weights, copies: given.copies, first, must_pay: false };
        if given.mode == Mode::Fork {
            return plain;
        }
        let careful = Manner { must_pay: true, ..plain };
        let single = Manner { copies: 1, ..careful };
        if jobs * nodes > MOST_PAIRS || !slot.is_new {
            return if jobs < nodes { careful } else { single };
        }
        let firsts = [None, Some(half), Some(1)];
        let both = [
            given.weights,
            if given.weights == Weights::Payoff { Weights::Relative } else { Weights::Payoff },
        ];
        let all = both.into_iter().flat_map(|weights| {
            let of = move |first| Manner { weights, first, ..careful };
            firsts.into_iter().map(of).chain([Manner { weights, ..single }])
        });
        let seen = |manner: Manner| outlook(&slot.books, manner, free, &slot.racks, self.slot.as_secs_f64());
        let cost = |outlook: Outlook| match given.objective {
            Objective::Jct => outlook.mean_s,
            Objective::Makespan => outlook.last_s,
        };
        let tried = all.map(|manner| (cost(seen(manner)), manner));
        let best = tried.reduce(|best, next| if next.0 < best.0 { next } else { best });
        best.map_or(careful, |(_, manner)| manner)
    }

    fn fill<'a>(&self, seen: &'a Snapshot) -> (Slot<'a>, Vec<(JobId, Quotas)>) {
        let mut slot = self.begin(seen);
        let mut given = vec![Vec::new(); slot.books.parents.len()];
        if slot.is_new {
            slot.place_whole();
        } else {
            given = slot.keep_all();
        }
        let free = slot.free();
        let manner =
            Manner { must_pay: self.given.mode == Mode::Auto || !slot.is_new, ..self.manner(&slot, &free) };
        let mut room = Room { free, racks: &slot.racks, slot_s: slot.left_s };
        let placed = levels(&slot.books, manner, &mut room, given);
        let merges = slot.put(&placed);
        slot.place_rest();
        (slot, merges)
    }
}

impl Slot<'_> {
    /// What is free on each node that takes work.
    fn free(&self) -> Vec<Resources> {
        let free = self.slate.board().free();
        let room = |node: NodeId| if free.takes_work(node) { free.room(node) } else { Resources::NONE };
        (0..self.seen.cluster.nodes.len() as u32).map(|node| room(NodeId(node))).collect()
    }

    /// Places what cannot be placed copy by copy, where it is if that may be.
    fn place_whole(&mut self) {
        let parents: Vec<usize> = self.books.parents.iter().map(|(at, _)| *at).collect();
        let views: Vec<&JobView> = self.seen.jobs().collect();
        for at in self.slate.in_order(|_, view| by_arrival(view)) {
            let view = views[at];
            let may_wait = parents.binary_search(&at).is_ok()
                || self.slate.lines()[at].is_bound
                || self.slate.lines()[at].runs()
                || Parent::fits_a_node(self.seen, view);
            if may_wait || (view.target.is_some() && self.slate.keep(at, &view.target)) {
                continue;
            }
            self.place(at, view);
        }
    }

    /// Places a job where it fits, on several nodes if need be. Where there was no room for one there is none for its like.
    fn place(&mut self, at: usize, view: &JobView) {
        let shape = Shape::of(&view.job);
        if self.full.contains(&shape) {
            return;
        }
        let is_placed = self.slate.place(at, &Ask::minimum(&view.job.shape, &view.job.wanted));
        if !is_placed && view.shuns.is_none() {
            self.full.insert(shape);
        }
    }

    /// Whoever got no node of its own may still fit on several together.
    fn place_rest(&mut self) {
        let views: Vec<&JobView> = self.seen.jobs().collect();
        let parents: Vec<usize> = self.books.parents.iter().map(|(at, _)| *at).collect();
        for at in self.slate.in_order(|_, view| by_arrival(view)) {
            let view = views[at];
            if parents.binary_search(&at).is_err() || self.slate.lines()[at].runs() {
                continue;
            }
            let is_whole = view.target.copies() == 1;
            if !(is_whole && self.slate.keep(at, &view.target)) {
                self.place(at, view);
            }
        }
    }

    /// Lets everybody keep what they are meant to have, whether or not they have it yet. Says where the copies of each job are
    /// then; those that run and do not have each copy on one node get no more of them.
    fn keep_all(&mut self) -> Vec<Vec<usize>> {
        for (at, view) in self.seen.jobs().enumerate() {
            let line = &self.slate.lines()[at];
            if view.target.is_some() && !line.is_bound && !line.runs() {
                self.slate.keep(at, &view.target);
            }
        }
        let lines = self.slate.lines();
        let nodes_of = |at: usize| {
            let target = lines[at].target();
            let each = copies(&target);
            let nodes = each.iter().map(|(node, _)| node.index()).collect();
            (each.len() == target.copies()).then_some(nodes)
        };
        let found: Vec<Option<Vec<usize>>> = self.books.parents.iter().map(|(at, _)| nodes_of(*at)).collect();
        let mut is_by_copy = found.iter().map(Option::is_some);
        self.books.parents.retain(|_| is_by_copy.next().unwrap_or(false));
        found.into_iter().flatten().collect()
    }

    /// Puts copies where they go: first those that stay, then the others. Says how far each copy may go.
    fn put(&mut self, placed: &[Vec<usize>]) -> Vec<(JobId, Quotas)> {
        let views: Vec<&JobView> = self.seen.jobs().collect();
        if self.is_new {
            for ((at, parent), nodes) in self.books.parents.iter().zip(placed) {
                let stays = parent.here.iter().filter(|(node, _)| nodes.contains(&node.index()));
                let stays: Vec<CopyId> = stays.map(|(_, copy)| *copy).collect();
                let own = views[*at].target.placements().iter();
                let own = Allocation::new(own.filter(|p| stays.contains(&p.copy)).copied().collect());
                if own.is_some() {
                    self.slate.keep(*at, &own);
                }
            }
        }
        let mut merges = Vec::new();
        for (number, (at, parent)) in self.books.parents.iter().enumerate() {
            let had: Vec<NodeId> = self.slate.lines()[*at].target().nodes();
            for node in placed[number].iter().map(|node| NodeId(*node as u32)) {
                if had.contains(&node) {
                    continue;
                }
                let copy = free_copy(&self.slate.lines()[*at].target(), views[*at]);
                self.slate.put_copy(*at, copy, &parent.parts, node);
            }
            let target = self.slate.lines()[*at].target();
            if target.copies() > 1 && (self.is_new || target != views[*at].target) {
                merges.push((parent.job.id, self.quotas(parent, &target)));
            }
        }
        merges
    }

    fn quotas(&self, parent: &Parent, target: &Allocation) -> Quotas {
        let Some(left) = parent.left.filter(|left| *left > 0.0 && parent.is_known) else {
            return Quotas::NONE;
        };
        let mut copies: Vec<(CopyId, NodeId)> =
            target.placements().iter().map(|p| (p.copy, p.node)).collect();
        copies.dedup();
        let seats: Vec<Seat> =
            copies.iter().map(|(_, node)| self.books.seat(parent, node.index(), true)).collect();
        let each = quotas(left, self.left_s, &seats);
        Quotas::new(copies.iter().map(|(copy, _)| *copy).zip(each).collect())
    }
}

/// The least number that no copy of a job has, neither of what it is given nor of what it held or was meant to hold: it is another
/// copy.
fn free_copy(given: &Allocation, view: &JobView) -> CopyId {
    let has = |held: &Allocation, copy: CopyId| held.placements().iter().any(|p| p.copy == copy);
    let is_taken = |copy: &CopyId| [given, &view.held, &view.target].iter().any(|held| has(held, *copy));
    let free = (0..u16::MAX).map(CopyId).find(|copy| !is_taken(copy));
    free.unwrap_or(CopyId(u16::MAX))
}

impl Policy for HadarE {
    fn cadence(&self) -> Cadence {
        if self.given.backfill {
            Cadence::Both(Causes::ARRIVED | Causes::ENDED | Causes::NODES | Causes::LOST, self.slot)
        } else {
            Cadence::Rounds(self.slot)
        }
    }

    fn needs(&self) -> Abilities {
        // Copies of one job are on GPUs of several types.
        let several = Abilities::COPIES | Abilities::MIXED_GPU_TYPES;
        if self.given.copies > 1 { several } else { Abilities::NONE }
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let (slot, merges) = self.fill(seen);
        // When the slot began matters only to who looks inside of it.
        let note = (slot.is_new && self.given.backfill).then(|| Note(smallvec::smallvec![seen.at.0 as i64]));
        let mut decision = slot.slate.finish(&mut self.memory);
        decision.merges = merges;
        decision.note = note.filter(|note| *note != seen.note);
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.decide(seen).verdict_on(job).expect("every job of the snapshot has a verdict")
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        // By which nodes go to whom is not one order; who came first is what ties are settled by.
        Ahead { is_total: false, ..ahead_by(seen, job, by_arrival) }
    }
}

/// HadarE.
pub(in super::super) const HADARE: Entry = Entry {
    name: "hadare",
    title: "forked copies of jobs on all nodes, in slots",
    source: "Sultana et al., HadarE (arXiv 2503.10918, 2025)",
    reads_declared: true,
    suits: Suits::Copies,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let given: Parameters = parameters("hadare", PARAMETERS, given)?;
        let slot = Span::from_secs_f64(given.round_s);
        Ok(Box::new(HadarE { given, slot, memory: Memory::default() }))
    },
};
