//! Where each task of a graph stands in a good schedule of that graph alone: Graphene's offline part (OSDI 2016, section 4).
//!
//! Hard tasks are placed first, in an empty space of one server and all time, and the others around them: their ancestors
//! before, their descendants after. Which tasks are hard is tried at several thresholds, and the shortest schedule counts.

use std::collections::BTreeSet;

use crate::estimate::tails_s;
use crate::model::{TaskGraph, TaskId};

/// The most tasks of which sets are kept as bits of a number.
pub(super) const MOST_TASKS: usize = 128;
/// So many different sets of hard tasks are tried.
const MOST_SETS: usize = 12;
/// So many thresholds on each of the two scores.
const THRESHOLDS: usize = 4;
/// What more than the whole server is still taken for rounding.
const SLACK: f64 = 1e-9;
/// A task without any computing time still has its place in the order.
const LEAST_S: f64 = 1e-9;

/// A set of tasks, a bit each.
type Set = u128;
/// Parts of a server: GPUs, CPUs, memory, network.
pub(super) type Parts = [f64; 4];

/// What is placed: how long it lasts, what it takes, and who depends on whom.
struct Work {
    lasts_s: Vec<f64>,
    parts: Vec<Parts>,
    parents: Vec<Set>,
    children: Vec<Set>,
    before: Vec<Set>,
    after: Vec<Set>,
    /// Seconds on the longest path to a task, and from it, itself included.
    head_s: Vec<f64>,
    tail_s: Vec<f64>,
}

/// The scores of all tasks by the order in which they start, from 1 down: Graphene's `priScore`. `parts` is what each takes of
/// a server. Graphs of more than `most` tasks are scored by their longest path to the end, the longest being 1.
pub(super) fn scores(graph: &TaskGraph, parts: &[Parts], most: usize) -> Vec<f64> {
    if graph.tasks().len() > most.min(MOST_TASKS) {
        return by_critical_path(graph);
    }
    let work = Work::new(graph, parts);
    let starts = work.best_schedule();
    let mut order: Vec<usize> = (0..starts.len()).collect();
    order.sort_by(|a, b| {
        starts[*a].total_cmp(&starts[*b]).then(work.tail_s[*b].total_cmp(&work.tail_s[*a])).then(a.cmp(b))
    });
    let mut scores = vec![0.0; starts.len()];
    for (rank, task) in order.iter().enumerate() {
        scores[*task] = (starts.len() - rank) as f64 / starts.len() as f64;
    }
    scores
}

fn by_critical_path(graph: &TaskGraph) -> Vec<f64> {
    let own = |(task, tail): (&crate::model::Task, f64)| task.compute_s + tail;
    let paths: Vec<f64> = graph.tasks().iter().zip(tails_s(graph)).map(own).collect();
    let longest = paths.iter().copied().fold(0.0, f64::max);
    paths.into_iter().map(|path| if longest > 0.0 { path / longest } else { 1.0 }).collect()
}

fn bits(set: Set) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(bit)
    })
}

impl Work {
    fn new(graph: &TaskGraph, parts: &[Parts]) -> Self {
        let count = graph.tasks().len();
        let lasts_s: Vec<f64> = graph.tasks().iter().map(|task| task.compute_s.max(LEAST_S)).collect();
        let (mut parents, mut children) = (vec![0; count], vec![0; count]);
        for edge in graph.edges() {
            parents[edge.to.index()] |= 1 << edge.from.index();
            children[edge.from.index()] |= 1 << edge.to.index();
        }
        let (mut before, mut head_s): (Vec<Set>, _) = (vec![0; count], lasts_s.clone());
        for task in 0..count {
            for parent in bits(parents[task]) {
                before[task] |= before[parent] | 1 << parent;
                head_s[task] = f64::max(head_s[task], head_s[parent] + lasts_s[task]);
            }
        }
        let (mut after, mut tail_s): (Vec<Set>, _) = (vec![0; count], lasts_s.clone());
        for task in (0..count).rev() {
            for child in graph.outputs(TaskId(task as u32)).iter().map(|edge| edge.to.index()) {
                after[task] |= after[child] | 1 << child;
                tail_s[task] = f64::max(tail_s[task], tail_s[child] + lasts_s[task]);
            }
        }
        // More than a server has cannot be placed on it.
        let parts = parts.iter().map(|parts| parts.map(|part| part.clamp(0.0, 1.0))).collect();
        Self { lasts_s, parts, parents, children, before, after, head_s, tail_s }
    }

    fn all(&self) -> Set {
        (0..self.lasts_s.len()).fold(0, |set, task| set | 1 << task)
    }

    /// How long a task lasts, in parts of the longest: `LongScore`.
    fn long_scores(&self) -> Vec<f64> {
        let longest = self.lasts_s.iter().copied().fold(0.0, f64::max);
        self.lasts_s.iter().map(|lasts_s| lasts_s / longest).collect()
    }

    /// How well tasks like this one fill a server, so many as it holds: `FragScore`. The time that they would take if
    /// resources were one liquid, in parts of the time that they take; little is hard to pack.
    fn frag_score(parts: &Parts) -> f64 {
        let most = parts.iter().copied().fold(0.0, f64::max);
        if most <= 0.0 { 1.0 } else { most * (1.0 / most + SLACK).floor() }
    }

    /// Different sets of hard tasks: long ones and those that pack badly, by several thresholds, and what lies between two
    /// of them.
    fn hard_sets(&self) -> Vec<Set> {
        let long = self.long_scores();
        let frag: Vec<f64> = self.parts.iter().map(Self::frag_score).collect();
        let thresholds = |scores: &[f64]| {
            let mut distinct = scores.to_vec();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            let (last, tried) = (distinct.len() - 1, THRESHOLDS.min(distinct.len()));
            (0..tried).map(|i| distinct[i * last / (tried - 1).max(1)]).collect()
        };
        let (longs, frags): (Vec<f64>, Vec<f64>) = (thresholds(&long), thresholds(&frag));
        let mut sets = BTreeSet::new();
        for long_from in longs.iter().copied().chain([f64::INFINITY]).rev() {
            for frag_to in frags.iter().copied().chain([f64::NEG_INFINITY]).rev() {
                let is_hard = |task: &usize| long[*task] >= long_from || frag[*task] <= frag_to;
                let hard = (0..long.len()).filter(is_hard).fold(0, |set, task| set | 1 << task);
                if hard != 0 {
                    sets.insert(self.closed(hard));
                }
            }
        }
        // Few hard tasks first: with all of them there is one order only.
        let mut sets: Vec<Set> = sets.into_iter().collect();
        sets.sort_by_key(|set| (set.count_ones(), *set));
        sets.truncate(MOST_SETS);
        sets
    }

    /// A set with all that lies on a path between two of it.
    fn closed(&self, set: Set) -> Set {
        let between = |task: &usize| self.before[*task] & set != 0 && self.after[*task] & set != 0;
        (0..self.lasts_s.len()).filter(between).fold(set, |closed, task| closed | 1 << task)
    }

    /// When each task starts in the shortest schedule found.
    fn best_schedule(&self) -> Vec<f64> {
        let mut best: Option<(f64, Vec<f64>)> = None;
        for hard in self.hard_sets() {
            for order in self.orders(hard) {
                let schedule = self.schedule(&order);
                let length = schedule.length();
                if best.as_ref().is_none_or(|(shortest, _)| length < shortest - SLACK) {
                    let starts = schedule.spans.iter().map(|span| span.expect("all are placed").0);
                    best = Some((length, starts.collect()));
                }
            }
        }
        best.expect("every graph has a hard task").1
    }

    /// The orders in which the others are placed around the hard ones (T): TOPC, TOCP, TPOC, TCOP. Of those that have
    /// nothing to do with them (O) and come first, both directions are tried.
    fn orders(&self, hard: Set) -> Vec<Vec<(Set, Side)>> {
        let pick = |of: &[Set]| {
            let related = |task: &usize| of[*task] & hard != 0;
            (0..self.lasts_s.len()).filter(related).fold(0, |set: Set, task| set | 1 << task) & !hard
        };
        let (ancestors, descendants) = (pick(&self.after), pick(&self.before));
        let others = self.all() & !hard & !ancestors & !descendants;
        let (t, p, c) = ((hard, Side::Forward), (ancestors, Side::Backward), (descendants, Side::Forward));
        let (early, late) = ((others, Side::Forward), (others, Side::Backward));
        let mut orders = vec![vec![t, early, p, c]];
        if others != 0 {
            orders.extend([vec![t, late, p, c], vec![t, p, early, c], vec![t, c, late, p]]);
            orders.extend([vec![t, early, c, p], vec![t, late, c, p]]);
        } else if ancestors != 0 && descendants != 0 {
            orders.push(vec![t, c, p]);
        }
        orders
    }

    fn schedule(&self, order: &[(Set, Side)]) -> Schedule {
        let mut schedule = Schedule::new(self.lasts_s.len());
        for (set, side) in order {
            match side {
                Side::Forward => self.place_forward(*set, &mut schedule),
                Side::Backward => self.place_backward(*set, &mut schedule),
            }
        }
        schedule
    }

    /// As early as room and placed parents allow, those with the longest way to the end first.
    fn place_forward(&self, set: Set, schedule: &mut Schedule) {
        let mut left = set;
        let begin = schedule.begin();
        while left != 0 {
            let ready = bits(left).filter(|task| self.parents[*task] & left == 0);
            let first = |a: &usize, b: &usize| self.tail_s[*a].total_cmp(&self.tail_s[*b]).then(b.cmp(a));
            let task = ready.max_by(first).expect("a graph has no cycle");
            let parents = bits(self.parents[task]).filter_map(|parent| schedule.spans[parent]);
            let from = parents.map(|(_, end)| end).fold(begin, f64::max);
            let start = schedule.space.earliest(from, self.lasts_s[task], &self.parts[task]);
            schedule.put(task, (start, start + self.lasts_s[task]), &self.parts[task]);
            left &= !(1 << task);
        }
    }

    /// As late as room and placed children allow, those with the longest way from the beginning first.
    fn place_backward(&self, set: Set, schedule: &mut Schedule) {
        let mut left = set;
        let end = schedule.end();
        while left != 0 {
            let ready = bits(left).filter(|task| self.children[*task] & left == 0);
            let first = |a: &usize, b: &usize| self.head_s[*a].total_cmp(&self.head_s[*b]).then(b.cmp(a));
            let task = ready.max_by(first).expect("a graph has no cycle");
            let children = bits(self.children[task]).filter_map(|child| schedule.spans[child]);
            let to = children.map(|(start, _)| start).fold(end, f64::min);
            let ends = schedule.space.latest(to, self.lasts_s[task], &self.parts[task]);
            schedule.put(task, (ends - self.lasts_s[task], ends), &self.parts[task]);
            left &= !(1 << task);
        }
    }
}

/// From which side tasks are pushed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Forward,
    Backward,
}

/// What has been placed so far.
struct Schedule {
    /// From when to when.
    spans: Vec<Option<(f64, f64)>>,
    space: Space,
}

impl Schedule {
    fn new(count: usize) -> Self {
        Self { spans: vec![None; count], space: Space(Vec::new()) }
    }

    fn begin(&self) -> f64 {
        let first = self.spans.iter().flatten().map(|(start, _)| *start).fold(f64::INFINITY, f64::min);
        if first.is_finite() { first } else { 0.0 }
    }

    fn end(&self) -> f64 {
        let last = self.spans.iter().flatten().map(|(_, end)| *end).fold(f64::NEG_INFINITY, f64::max);
        if last.is_finite() { last } else { 0.0 }
    }

    fn length(&self) -> f64 {
        self.end() - self.begin()
    }

    fn put(&mut self, task: usize, (start, end): (f64, f64), parts: &Parts) {
        self.spans[task] = Some((start, end));
        self.space.add(start, end, parts);
    }
}

/// What is taken of the server over time: from each moment on until the next. Before the first and after the last nothing is.
struct Space(Vec<(f64, Parts)>);

impl Space {
    fn fits(used: &Parts, parts: &Parts) -> bool {
        used.iter().zip(parts).all(|(used, part)| used + part <= 1.0 + SLACK)
    }

    /// The earliest start from a moment on.
    fn earliest(&self, from: f64, lasts_s: f64, parts: &Parts) -> f64 {
        let mut start = from;
        for (i, (begins, used)) in self.0.iter().enumerate() {
            let ends = self.0.get(i + 1).map_or(f64::INFINITY, |next| next.0);
            if ends <= start {
                continue;
            }
            if *begins >= start + lasts_s {
                break;
            }
            if !Self::fits(used, parts) {
                start = ends;
            }
        }
        start
    }

    /// The latest end up to a moment.
    fn latest(&self, to: f64, lasts_s: f64, parts: &Parts) -> f64 {
        let mut end = to;
        for (i, (begins, used)) in self.0.iter().enumerate().rev() {
            let ends = self.0.get(i + 1).map_or(f64::INFINITY, |next| next.0);
            if *begins >= end {
                continue;
            }
            if ends <= end - lasts_s {
                break;
            }
            if !Self::fits(used, parts) {
                end = *begins;
            }
        }
        end
    }

    fn cut(&mut self, at: f64) -> usize {
        let i = self.0.partition_point(|(begins, _)| *begins < at);
        if self.0.get(i).is_none_or(|(begins, _)| *begins != at) {
            let used = if i == 0 { [0.0; 4] } else { self.0[i - 1].1 };
            self.0.insert(i, (at, used));
        }
        i
    }

    fn add(&mut self, start: f64, end: f64, parts: &Parts) {
        let first = self.cut(start);
        let last = self.cut(end);
        for (_, used) in &mut self.0[first..last] {
            used.iter_mut().zip(parts).for_each(|(used, part)| *used += part);
        }
    }
}

#[cfg(test)]
mod tests;
