//! Nodes that are alike to the jobs that are to be given some, as one: what it takes to choose among them then depends on how many
//! kinds of nodes there are, and not on how many nodes.

use std::collections::BTreeMap;

use crate::model::Resources;

use super::levels::{Manner, Room, Weights, fits};
use super::tracker::Books;

/// The nodes of each kind on which any of some jobs fits, in the order of the first of each kind. All jobs have the same use for all
/// nodes of a kind, but for those on which they are now; and no two of them are on the same node of a kind that has others.
pub(super) fn fold(
    books: &Books,
    manner: Manner,
    room: &Room<'_>,
    some: &[usize],
    placed: &[Vec<usize>],
) -> Vec<Vec<usize>> {
    let parents = || some.iter().map(|at| (&books.parents[*at].1, &placed[*at]));
    let mut is_alone = vec![false; room.free.len()];
    let mut is_home = is_alone.clone();
    for (parent, own) in parents() {
        own.iter().chain(&parent.shuns).for_each(|node| is_alone[*node] = true);
        for node in parent.here.iter().map(|(node, _)| node.index()) {
            // Only one of them can stay there at once.
            is_alone[node] |= std::mem::replace(&mut is_home[node], true);
        }
    }
    let stays_in_rack = parents().any(|(parent, _)| parent.stays_in_rack());
    let counts_leaving = manner.must_pay || manner.weights == Weights::Payoff;
    let mut demands: Vec<(Resources, usize)> =
        some.iter().map(|at| (books.parents[*at].1.demand, *at)).collect();
    demands.sort_unstable();
    demands.dedup_by_key(|(demand, _)| *demand);
    let takes_any = |node: usize| demands.iter().any(|(_, at)| fits(&books.parents[*at].1, room.free[node]));
    let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for node in (0..room.free.len()).filter(|node| takes_any(*node)) {
        let leaving = if counts_leaving { books.leaving_s[node].to_bits() } else { 0 };
        let key = (
            books.sort(node),
            room.free[node],
            leaving,
            stays_in_rack.then(|| room.racks[node]),
            is_alone[node].then_some(node),
        );
        kinds.entry(key).or_default().push(node);
    }
    let mut kinds: Vec<Vec<usize>> = kinds.into_values().collect();
    kinds.sort_unstable_by_key(|nodes| nodes[0]);
    kinds
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::levels::{give, weights};
    use super::super::matching::assign;
    use super::super::tracker::Keeping;
    use super::super::tracker::tests::seen;
    use super::*;
    use crate::decide::Dice;
    use crate::model::{
        Allocation, Cluster, CopyId, Declared, Goals, GpuSet, GpuTypeId, Job, JobId, MoveCost, NodeId,
        Parallelism, Placement, RackId, Rate, Rates, Span, TenantId, Time, Topology, UNLIMITED, WORKER_TASK,
        Wanted,
    };
    use crate::view::{JobView, Phase, Snapshot};

    fn job(id: u32, types: u8, dice: &mut Dice) -> Job {
        let workers = 1 + dice.roll(4) as u32 / 3;
        let rate = |gpu_type: u8, per_s: u64| Rate {
            gpu_type: GpuTypeId(gpu_type),
            workers,
            spread: false,
            iterations_per_s: per_s as f64,
        };
        let rates = (0..types).map(|gpu_type| rate(gpu_type, 1 + dice.roll(6))).collect();
        let topology = if dice.roll(6) == 0 { Topology::SameRack } else { Topology::default() };
        let cost = |dice: &mut Dice| Span::from_secs(10 + 10 * dice.roll(2));
        Job {
            id: JobId(id),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(workers),
            wanted: Wanted { topology, ..Wanted::default() },
            goals: Goals { copies: 8, ..Goals::default() },
            declared: Declared {
                iterations: Some(100.0 + dice.roll(5000) as f64),
                rates: Rates::new(rates, Vec::new()).shared(),
                ..Declared::default()
            },
            move_cost: MoveCost {
                save: cost(dice),
                load: cost(dice),
                merge: cost(dice),
                ..MoveCost::default()
            },
        }
    }

    /// Jobs some of which run, on nodes of few kinds.
    fn drawn(dice: &mut Dice) -> Snapshot {
        let mut cluster = Cluster::default();
        let types = 1 + dice.roll(3) as u8;
        for gpu_type in 0..types {
            cluster.intern_gpu_type(&format!("type-{gpu_type}"));
        }
        let several = dice.roll(2) == 0;
        for node in 0..2 + dice.roll(9) {
            let gpus = if several { 1 << dice.roll(3) } else { 1 };
            let holds = Resources { cpu_milli: UNLIMITED, memory_bytes: UNLIMITED, ..Resources::gpus(gpus) };
            let holds = Resources { network_bytes_per_s: UNLIMITED, ..holds };
            let gpu_type = GpuTypeId(dice.roll(types.into()) as u8);
            cluster.push(RackId((node % 2) as u16), Some(gpu_type), holds, None);
        }
        let nodes = cluster.nodes.len() as u64;
        let view = |id: u32, dice: &mut Dice| {
            let mut view = JobView::new(Arc::new(job(id, types, dice)), Time::ZERO);
            let workers = view.job.shape.minimum().gpu_milli as u32 / 1000;
            let mut on: Vec<u64> = (0..dice.roll(3)).map(|_| dice.roll(nodes)).collect();
            on.sort_unstable();
            on.dedup();
            let placement = |(copy, node): (usize, &u64)| Placement {
                copy: CopyId(copy as u16),
                task: WORKER_TASK,
                node: NodeId(*node as u32),
                count: workers,
                gpus: GpuSet::whole((1 << workers) - 1),
            };
            view.target = Allocation::new(on.iter().enumerate().map(placement).collect());
            view.held = view.target.clone();
            view.phase = if on.is_empty() { Phase::Waiting } else { Phase::Running };
            if dice.roll(5) == 0 {
                view.shuns = Some((NodeId(dice.roll(nodes) as u32), Time::from_secs(2000)));
            }
            view
        };
        let views: Vec<JobView> = (0..1 + dice.roll(9) as u32).map(|id| view(id, dice)).collect();
        seen(cluster, views)
    }

    #[test]
    fn alike_nodes_as_one_give_as_much_as_each_by_itself() {
        let (mut folded, mut stays) = (0, 0);
        for seed in 0..3000 {
            let mut dice = Dice::new(seed);
            let picture = drawn(&mut dice);
            let books = Books::new(&picture, Keeping { copies: 8, explore: 1.2, age: None });
            let nodes = picture.cluster.nodes.len();
            let racks: Vec<RackId> = picture.cluster.nodes.iter().map(|node| node.rack).collect();
            let mut free: Vec<Resources> = picture.cluster.nodes.iter().map(|node| node.holds).collect();
            // Some have copies already, as on later levels.
            let is_later = dice.roll(2) == 0;
            let own =
                |dice: &mut Dice| if is_later { vec![dice.roll(nodes as u64) as usize] } else { Vec::new() };
            let placed: Vec<Vec<usize>> = books.parents.iter().map(|_| own(&mut dice)).collect();
            for node in placed.iter().flatten() {
                free[*node].gpu_milli = free[*node].gpu_milli.saturating_sub(1000);
            }
            let weights_by = if dice.roll(2) == 0 { Weights::Relative } else { Weights::Payoff };
            let manner = Manner { weights: weights_by, copies: 8, first: None, must_pay: dice.roll(2) == 0 };
            let room = Room { free, racks: &racks, slot_s: 360.0 };
            let some: Vec<usize> = (0..books.parents.len()).collect();
            let weight = weights(&books, manner, &room, &some, &placed);
            let value = |found: &[Option<usize>]| {
                let each = found.iter().enumerate().filter_map(|(row, node)| Some((row, (*node)?)));
                each.fold((0, 0.0), |(count, sum), (row, node)| {
                    (count + 1, sum + weight(row, node).expect("it may be there"))
                })
            };
            let kinds = fold(&books, manner, &room, &some, &placed);
            let found = give(&kinds, &books, &some, &weight);
            let mut taken: Vec<usize> = found.iter().flatten().copied().collect();
            taken.sort_unstable();
            assert!(
                taken.windows(2).all(|pair| pair[0] < pair[1]),
                "seed {seed}: one copy a node: {found:?}"
            );
            let each = assign(some.len(), &vec![1; nodes], &weight);
            let (ours, best) = (value(&found), value(&each));
            assert!(ours.0 == best.0 && (ours.1 - best.1).abs() < 1e-9, "seed {seed}: {ours:?}, {best:?}");
            folded += kinds.iter().filter(|nodes| nodes.len() > 1).count();
            let is_home = |(row, node): (usize, &Option<usize>)| {
                let here = &books.parents[some[row]].1.here;
                node.is_some_and(|node| here.iter().any(|(at, _)| at.index() == node))
            };
            stays += found.iter().enumerate().filter(|pair| is_home(*pair)).count();
        }
        assert!(folded > 1000 && stays > 1000, "{folded} kinds of several nodes, {stays} jobs that stay");
    }
}
