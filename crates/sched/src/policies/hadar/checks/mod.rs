//! What the specification asks of Hadar's parts (checks H-1 to H-4), on drawn instances against brute force. Tests use it, and
//! whoever shows how near to the best the parts come.

mod admission;
mod charges;
mod places;
mod plans;

use crate::model::{NodeId, RackId, Resources, Topology, UNLIMITED};

use super::candidates::{Gang, Terms};
use super::prices::Bounds;
use super::stock::{Counts, Spot, Stock, Worker};
use super::utility::{Facts, Utility};
use crate::decide::Dice;

pub use admission::admission;
pub use charges::charges;
pub use places::places;
pub use plans::plans;

#[cfg(test)]
pub(super) use charges::broken_prices;

/// The terms of all checks.
pub(super) const TERMS: Terms = Terms { utility: Utility::Inv, beta: 0.0, guards_mixing: true };

/// Bounds of prices from 1 to 100.
fn dear() -> Bounds {
    Bounds::new(1.0, 100.0)
}

/// Idle nodes, each with a type and its devices, and bounds from 1 to 100 for every type.
pub(super) fn idle(nodes: &[(usize, u32)]) -> Stock {
    idle_at(nodes, dear())
}

/// The same with these bounds.
fn idle_at(nodes: &[(usize, u32)], bounds: Bounds) -> Stock {
    let types = nodes.iter().map(|(gpu_type, _)| gpu_type + 1).max().unwrap_or(0);
    let spot = |(i, (gpu_type, devices)): (u32, &(usize, u32))| Spot {
        node: NodeId(i),
        gpu_type: *gpu_type,
        rack: RackId(0),
        takes_work: true,
        devices: *devices,
        free: *devices,
        room: Resources { gpu_milli: u64::from(*devices) * 1000, cpu_milli: UNLIMITED, ..Resources::NONE },
        price: 0.0,
    };
    Stock::new((0..).zip(nodes).map(spot).collect(), vec![bounds; types])
}

/// A worker with so many GPUs and nothing else.
pub(super) fn worker(gpus: u64) -> Worker {
    Worker::new(Resources::gpus(gpus)).expect("whole GPUs")
}

/// A gang of one-GPU workers with these speeds by type, equal when spread.
pub(super) fn gang(workers: u32, speeds: &[f64], left: f64) -> Gang {
    let fastest = speeds.iter().copied().fold(0.0, f64::max);
    let slowest = speeds.iter().copied().filter(|speed| *speed > 0.0).fold(f64::INFINITY, f64::min);
    let (fastest_s, slowest_s) = (left / fastest, left / slowest);
    Gang {
        workers,
        worker: worker(1),
        together: speeds.to_vec(),
        spread: speeds.to_vec(),
        left,
        age_s: 0.0,
        facts: Facts { iterations: left, fastest_s, slowest_s, isolated_s: fastest_s },
        restart_s: 0.0,
        held: None,
        may_mix: true,
        topology: Topology::Anywhere,
        shuns: None,
    }
}

/// Up to three nodes with these prices, partly taken, and a gang that may run on one of them already.
fn random(dice: &mut Dice, most_workers: u64, bounds: Bounds) -> (Gang, Stock) {
    let types = 1 + dice.roll(3);
    let nodes: Vec<(usize, u32)> =
        (0..=dice.roll(3)).map(|_| (dice.roll(types) as usize, 1 + dice.roll(8) as u32)).collect();
    let mut stock = idle_at(&nodes, bounds);
    for at in 0..nodes.len() as u32 {
        let most = if dice.roll(3) == 0 { stock.spot(at).devices } else { 1 };
        let taken = dice.roll(u64::from(most) + 1) as u32;
        stock.take(&[(at, taken)].into_iter().filter(|(_, n)| *n > 0).collect(), &worker(1));
    }
    let mut speeds = || (0..stock.types()).map(|_| dice.roll(5) as f64 * 0.7).collect::<Vec<f64>>();
    let (together, spread) = (speeds(), speeds());
    let mut gang = gang(1 + dice.roll(most_workers) as u32, &together, 1.0 + dice.roll(100) as f64 / 9.0);
    gang.worker = worker(1 + dice.roll(2));
    gang.spread = spread.iter().zip(&together).map(|(spread, together)| spread.min(*together)).collect();
    gang.restart_s = dice.roll(2) as f64;
    gang.may_mix = dice.roll(2) == 0;
    gang.topology = if dice.roll(6) == 0 { Topology::SameNode } else { Topology::Anywhere };
    let places = distributions(&gang, &stock);
    if !places.is_empty() && dice.roll(2) == 0 {
        gang.held = Some(places[dice.roll(places.len() as u64) as usize].clone());
    }
    (gang, stock)
}

/// Every way to put all workers on nodes with room.
fn distributions(gang: &Gang, stock: &Stock) -> Vec<Counts> {
    let mut partial = vec![(Counts::new(), gang.workers)];
    for gpu_type in 0..stock.types() {
        for (at, spot) in stock.of_type(gpu_type) {
            partial = partial
                .iter()
                .flat_map(|(counts, left)| {
                    (0..=spot.slots(&gang.worker, *left)).map(move |count| {
                        let mut counts = counts.clone();
                        counts.extend((count > 0).then_some((at, count)));
                        (counts, left - count)
                    })
                })
                .collect();
        }
    }
    partial.into_iter().filter(|(_, left)| *left == 0).map(|(counts, _)| counts).collect()
}
