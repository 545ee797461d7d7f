//! Where workers and servers go: the smallest job first, on as few nodes as can be, with equal numbers on each (Optimus,
//! section 4.2). Jobs whose size stays, stay.

use crate::decide::{Given, Misfit, Slate, Unit};
use crate::model::{Resources, SERVER_TASK, TaskId, Topology, WORKER_TASK};
use crate::place::Ask;
use crate::view::Snapshot;

use super::gains::Handed;

/// The sizes of `handed`, placed well if that can be; else as they were handed out.
pub(super) fn placed<'a>(seen: &'a Snapshot, handed: Handed<'a>) -> Slate<'a> {
    let stays = place_all(seen, &handed, true);
    if is_whole(&stays, &handed) {
        return stays;
    }
    let anew = place_all(seen, &handed, false);
    let all_run = |slate: &Slate<'_>| {
        slate.lines().iter().zip(handed.slate.lines()).all(|(line, given)| line.runs() || !given.runs())
    };
    if is_whole(&anew, &handed) || (all_run(&anew) && !all_run(&stays)) {
        return anew;
    }
    if all_run(&stays) { stays } else { handed.slate }
}

fn is_whole(slate: &Slate<'_>, handed: &Handed<'_>) -> bool {
    slate.lines().iter().zip(&handed.sizes).all(|(line, size)| (line.workers, line.servers) == *size)
}

fn place_all<'a>(seen: &'a Snapshot, handed: &Handed<'a>, may_stay: bool) -> Slate<'a> {
    let mut slate = Slate::new(seen, Misfit::Skip);
    let runs = |i: &usize| handed.slate.lines()[*i].runs();
    let mut rest: Vec<usize> = handed.order.iter().copied().filter(runs).collect();
    if may_stay {
        rest.retain(|i| {
            let view = seen.job(slate.lines()[*i].job.id).expect("it is on the slate");
            let size = (view.target.workers(), view.target.count_of(SERVER_TASK));
            let same =
                view.target.is_some() && (size == handed.sizes[*i] || slate.lines()[*i].elastic().is_none());
            !(same && slate.keep(*i, &view.target))
        });
    }
    // The sort is stable, so ties stay in the order of arrival.
    rest.sort_by_key(|i| handed.sizes[*i].0 + handed.sizes[*i].1);
    for i in rest {
        place_one(&mut slate, i, handed.sizes[i]);
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
