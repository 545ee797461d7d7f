//! Where workers and servers go: the smallest job first, on as few nodes as can be, with equal numbers on each (Optimus,
//! section 4.2). The paper lays out everything anew. Here jobs whose size stays, stay, as far as that leaves the others the
//! units they were handed; and they are moved only if what others gain by it is more than what the moves cost.

use crate::decide::{Given, Misfit, Slate, Unit};
use crate::model::{Resources, SERVER_TASK, TaskId, Topology, WORKER_TASK};
use crate::place::Ask;
use crate::view::{JobView, Phase, Snapshot};

use super::Parameters;
use super::gains::{Handed, move_cost_s, size};

/// Which jobs keep their place if their size stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    All,
    /// Those that lose something by a move.
    Costly,
    Nobody,
}

/// The units of `handed`, placed well: of some layouts the one by which jobs lose least, and of equal ones the one that
/// moves least. The last of them is how units were handed out.
pub(super) fn placed<'a>(seen: &'a Snapshot, handed: Handed<'a>, given: &Parameters) -> Slate<'a> {
    let mut best: Option<(f64, Slate<'a>)> = None;
    for stays in [Stays::All, Stays::Costly, Stays::Nobody] {
        let slate = place_all(seen, &handed, stays);
        let lost_s = lost_s(seen, &handed, &slate, given);
        if lost_s <= 0.0 {
            return slate;
        }
        if best.as_ref().is_none_or(|(least_s, _)| lost_s < *least_s) {
            best = Some((lost_s, slate));
        }
    }
    let as_handed_s = lost_s(seen, &handed, &handed.slate, given);
    match best {
        Some((least_s, slate)) if least_s <= as_handed_s => slate,
        _ => handed.slate,
    }
}

/// Seconds that all jobs together lose by a layout: by fewer units than they were handed, and by moves without a new size.
/// A job that is not placed waits for as long again as it has waited, and a round at the least, so that nobody waits for
/// ever. One that is not at the size at which it shall be measured loses the part of a round that is missing.
fn lost_s(seen: &Snapshot, handed: &Handed<'_>, slate: &Slate<'_>, given: &Parameters) -> f64 {
    let lines = slate.lines().iter().zip(handed.slate.lines()).zip(seen.jobs()).enumerate();
    let of_each = lines.map(|(i, ((line, wanted), view))| {
        let (has, shall) = (size(line), size(wanted));
        let short_s = match handed.candidates.get(&i) {
            _ if !wanted.runs() || (line.runs() && has == shall) => 0.0,
            _ if !line.runs() => given.round_s.max(view.waited(seen.at).as_secs_f64()),
            Some(candidate) => (candidate.time_s(has) - candidate.time_s(shall)).max(0.0),
            None => given.round_s * (1.0 - f64::from(has.0 + has.1) / f64::from(shall.0 + shall.1)),
        };
        let holds = matches!(view.phase, Phase::Starting | Phase::Running) && view.target.is_some();
        let moves = holds && (!line.runs() || has == held(view)) && !line.holds(&view.target);
        short_s + if moves { move_cost_s(view) * given.restart_gain } else { 0.0 }
    });
    of_each.sum()
}

/// Workers and servers that a job has by the decision before.
fn held(view: &JobView) -> (u32, u32) {
    (view.target.workers(), view.target.count_of(SERVER_TASK))
}

fn place_all<'a>(seen: &'a Snapshot, handed: &Handed<'a>, stays: Stays) -> Slate<'a> {
    let mut slate = Slate::new(seen, Misfit::Skip);
    let wanted = |i: usize| size(&handed.slate.lines()[i]);
    let runs = |i: &usize| handed.slate.lines()[*i].runs();
    let mut rest: Vec<usize> = handed.order.iter().copied().filter(runs).collect();
    rest.retain(|i| {
        let view = seen.job(slate.lines()[*i].job.id).expect("it is on the slate");
        let may_stay = match stays {
            Stays::All => true,
            Stays::Costly => move_cost_s(view) > 0.0,
            Stays::Nobody => false,
        };
        let same =
            view.target.is_some() && (held(view) == wanted(*i) || slate.lines()[*i].elastic().is_none());
        !(may_stay && same && slate.keep(*i, &view.target))
    });
    // The sort is stable, so ties stay in the order of arrival.
    rest.sort_by_key(|i| wanted(*i).0 + wanted(*i).1);
    for i in rest {
        place_one(&mut slate, i, wanted(i));
    }
    for i in handed.order.iter().copied() {
        if !slate.lines()[i].runs() {
            slate.give(i, Unit::Bundle);
        }
    }
    slate
}

fn place_one(slate: &mut Slate<'_>, i: usize, (workers, servers): (u32, u32)) {
    if place_evenly(slate, i, workers, servers) {
        return;
    }
    let job = std::sync::Arc::clone(&slate.lines()[i].job);
    if slate.place(i, &Ask { shape: &job.shape, wanted: &job.wanted, workers, servers }) {
        return;
    }
    if slate.give(i, Unit::Bundle) == Given::Yes {
        while slate.lines()[i].servers < servers && slate.give(i, Unit::Server) == Given::Yes {}
        while slate.lines()[i].workers < workers && slate.give(i, Unit::Worker) == Given::Yes {}
    }
}

/// On the fewest nodes, least loaded first, that hold the job with equal numbers on each, give or take one.
fn place_evenly(slate: &mut Slate<'_>, i: usize, workers: u32, servers: u32) -> bool {
    let line = &slate.lines()[i];
    let Some(shape) = line.elastic().copied() else { return false };
    let server = shape.server.unwrap_or_default();
    if workers == 0 || server.gpu_milli > 0 || line.job.wanted.topology == Topology::SameRack {
        return false;
    }
    let most = if line.job.wanted.topology == Topology::SameNode { 1 } else { workers.max(servers) };
    let nodes = slate.alike_nodes(i, most as usize);
    let parts = |k: u32, n: u32| -> [(TaskId, Resources, u32); 2] {
        // Node `k` of `n`: those first in line have one more.
        let part = |count: u32| count / n + u32::from(k < count % n);
        [(WORKER_TASK, shape.worker, part(workers)), (SERVER_TASK, server, part(servers))]
    };
    for nodes in nodes {
        for n in 1..=nodes.len() as u32 {
            let fits = |k: u32| slate.board().holds_all(&parts(k, n), nodes[k as usize]);
            if (0..n).all(fits) {
                for k in 0..n {
                    slate.put_all(i, &parts(k, n), nodes[k as usize]);
                }
                return true;
            }
        }
    }
    false
}
