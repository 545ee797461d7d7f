//! The GPUs that are left, node by node, each with its price: the state of the search.
//!
//! It knows how many devices are wholly free, not which. That suffices, because what running jobs keep is never shared by two
//! of them: whoever stays keeps its devices, and all others take from what is left.

use smallvec::SmallVec;

use crate::model::{NodeId, RackId, Resources, UNLIMITED};

use super::prices::Bounds;

/// A node with GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    /// Which node.
    pub node: NodeId,
    /// The type of its GPUs, as an index.
    pub gpu_type: usize,
    /// Its rack.
    pub rack: RackId,
    /// Whether it takes new work; if not, a job that is there may stay.
    pub takes_work: bool,
    /// Its devices: `c_h^r`.
    pub devices: u32,
    /// Of those, wholly free ones.
    pub free: u32,
    /// What is free of all kinds.
    pub room: Resources,
    /// The price of one of its GPUs for a slot.
    pub price: f64,
}

impl Spot {
    /// How many workers fit, each with so many whole devices, at most `limit`.
    pub(super) fn slots(&self, worker: &Worker, limit: u32) -> u32 {
        let by_devices = (self.free / worker.gpus).min(limit);
        if worker.gpus_only {
            by_devices
        } else {
            worker.demand.times_in(&self.room, u64::from(by_devices)) as u32
        }
    }
}

/// One worker of a gang.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worker {
    /// Whole GPUs, at least one.
    pub gpus: u32,
    /// All that it takes.
    pub demand: Resources,
    /// Whether that is nothing but GPUs.
    gpus_only: bool,
}

impl Worker {
    /// A worker with whole GPUs; nothing else can be one.
    pub(super) fn new(demand: Resources) -> Option<Self> {
        let whole = demand.gpu_milli > 0 && demand.gpu_milli.is_multiple_of(crate::model::GPU);
        let gpus = u32::try_from(demand.gpu_milli / crate::model::GPU).ok().filter(|_| whole)?;
        let gpus_only = Resources { gpu_milli: 0, ..demand }.is_none();
        Some(Self { gpus, demand, gpus_only })
    }
}

/// Workers on nodes, by the positions of these in the stock.
pub(super) type Counts = SmallVec<[(u32, u32); 4]>;

/// All nodes with GPUs, in order of type and then of number.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    spots: Vec<Spot>,
    bounds: Vec<Bounds>,
    /// Where each type begins, and where the last one ends.
    starts: Vec<u32>,
    /// Free devices of each type on nodes that take work.
    free: Vec<u32>,
}

/// What two states have in common from which the same can be done: what is free, node by node, whichever node it is.
pub(super) type Likeness = Vec<(usize, u32, u32, u32, [u64; 3])>;

impl Stock {
    /// Of these nodes; prices are set here.
    pub(super) fn new(mut spots: Vec<Spot>, bounds: Vec<Bounds>) -> Self {
        spots.sort_by_key(|spot| (spot.gpu_type, spot.node));
        let start = |i: usize| spots.partition_point(|spot| spot.gpu_type < i) as u32;
        let starts = (0..=bounds.len()).map(start).collect();
        let free = vec![0; bounds.len()];
        let mut stock = Self { spots, bounds, starts, free };
        for at in 0..stock.spots.len() {
            stock.set_price(at);
            let spot = &stock.spots[at];
            stock.free[spot.gpu_type] += if spot.takes_work { spot.free } else { 0 };
        }
        stock
    }

    /// How many GPU types there are.
    pub(super) fn types(&self) -> usize {
        self.bounds.len()
    }

    /// The bounds of prices, by type.
    pub(super) fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// A node.
    pub(super) fn spot(&self, at: u32) -> &Spot {
        &self.spots[at as usize]
    }

    /// The position of a node, if it has GPUs.
    pub(super) fn find(&self, node: NodeId, gpu_type: usize) -> Option<u32> {
        let (begin, end) = (self.starts[gpu_type] as usize, self.starts[gpu_type + 1] as usize);
        let found = self.spots[begin..end].binary_search_by_key(&node, |spot| spot.node);
        found.ok().map(|i| (begin + i) as u32)
    }

    /// The nodes of a type with their positions.
    pub(super) fn of_type(&self, gpu_type: usize) -> impl Iterator<Item = (u32, &Spot)> {
        let range = self.starts[gpu_type] as usize..self.starts[gpu_type + 1] as usize;
        (self.starts[gpu_type]..).zip(&self.spots[range])
    }

    /// Free devices of a type on nodes that take work.
    pub(super) fn free(&self, gpu_type: usize) -> u32 {
        self.free[gpu_type]
    }

    /// Whether nothing is free at all.
    pub(super) fn is_empty(&self) -> bool {
        self.free.iter().all(|free| *free == 0)
    }

    fn set_price(&mut self, at: usize) {
        let spot = &mut self.spots[at];
        let used = 1.0 - f64::from(spot.free) / f64::from(spot.devices.max(1));
        spot.price = self.bounds[spot.gpu_type].price(used);
    }

    /// Sets prices that do not follow from what is free now.
    pub(super) fn charge(&mut self, prices: &[f64]) {
        self.spots.iter_mut().zip(prices).for_each(|(spot, price)| spot.price = *price);
    }

    /// Takes workers away.
    ///
    /// # Panics
    /// If they do not fit.
    pub(super) fn take(&mut self, counts: &Counts, worker: &Worker) {
        for (at, count) in counts {
            let at = *at as usize;
            let spot = &mut self.spots[at];
            let devices = worker.gpus * count;
            assert!(devices <= spot.free, "{} has no {devices} free GPUs", spot.node);
            spot.free -= devices;
            spot.room -= worker.demand.times(u64::from(*count));
            if spot.takes_work {
                self.free[spot.gpu_type] -= devices;
            }
            self.set_price(at);
        }
    }

    /// Follows what really is free on a node.
    pub(super) fn set(&mut self, at: u32, free: u32, room: Resources) {
        let at = at as usize;
        let spot = &mut self.spots[at];
        if spot.takes_work {
            self.free[spot.gpu_type] = self.free[spot.gpu_type] - spot.free + free;
        }
        (spot.free, spot.room) = (free, room);
        self.set_price(at);
    }

    /// What decides what can still be done. Nodes marked as `special` count as themselves, all others by what is free there.
    pub(super) fn likeness(&self, special: &[bool]) -> Likeness {
        let mut all: Likeness = (0_u32..)
            .zip(&self.spots)
            .filter(|(_, spot)| spot.free > 0)
            .map(|(at, spot)| {
                let own = if special[at as usize] { at + 1 } else { 0 };
                let [_, cpu, memory, network] = spot.room.amounts();
                (spot.gpu_type, own, spot.devices, spot.free, [cpu, memory, network])
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// A number that is equal for equal likenesses and hardly ever otherwise.
    pub(super) fn mark(&self, special: &[bool]) -> u64 {
        let each = |(at, spot): (u64, &Spot)| {
            let own = if special[at as usize] { at + 1 } else { 0 };
            let [_, cpu, memory, network] =
                spot.room.amounts().map(|amount| if amount == UNLIMITED { 0 } else { amount });
            let parts = [
                spot.gpu_type as u64,
                own,
                u64::from(spot.devices),
                u64::from(spot.free),
                cpu,
                memory,
                network,
            ];
            parts.into_iter().fold(0x9e37_79b9_7f4a_7c15, |mixed: u64, part| {
                (mixed.rotate_left(23) ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd)
            })
        };
        (0..).zip(&self.spots).filter(|(_, spot)| spot.free > 0).map(each).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::{idle, worker};
    use super::*;

    #[test]
    fn prices_follow_what_is_taken_and_given_back() {
        let mut stock = idle(&[(0, 4), (1, 2), (0, 2)]);
        assert_eq!((stock.free(0), stock.free(1)), (6, 2));
        let at = stock.find(NodeId(2), 0).expect("it is there");
        stock.take(&[(at, 1)].into_iter().collect(), &worker(1));
        assert!((stock.spot(at).price - 10.0).abs() < 1e-9, "half of it is given away");
        assert_eq!(stock.free(0), 5);
        stock.set(at, 2, Resources::gpus(2));
        assert_eq!((stock.spot(at).price, stock.free(0)), (1.0, 6));
        assert_eq!(stock.find(NodeId(1), 0), None);
        stock.take(&[(at, 1)].into_iter().collect(), &worker(2));
        assert_eq!(stock.spot(at).price, 100.0);
    }

    #[test]
    #[should_panic(expected = "no 3 free GPUs")]
    fn nothing_is_taken_twice() {
        idle(&[(0, 2)]).take(&[(0, 3)].into_iter().collect(), &worker(1));
    }

    #[test]
    fn states_are_alike_whichever_of_equal_nodes_was_taken() {
        let nodes = [(0, 4), (0, 4), (1, 4)];
        let taken = |at: u32| {
            let mut stock = idle(&nodes);
            stock.take(&[(at, 1)].into_iter().collect(), &worker(1));
            stock
        };
        let plain = [false; 3];
        assert_eq!(taken(0).likeness(&plain), taken(1).likeness(&plain));
        assert_eq!(taken(0).mark(&plain), taken(1).mark(&plain));
        assert_ne!(taken(0).likeness(&plain), taken(2).likeness(&plain));
        assert_ne!(taken(0).mark(&plain), taken(2).mark(&plain));
        let special = [true, false, false];
        assert_ne!(taken(0).likeness(&special), taken(1).likeness(&special));
        assert_ne!(taken(0).mark(&special), taken(1).mark(&special));
    }

    #[test]
    fn a_worker_has_whole_gpus_and_fits_by_all_that_it_takes() {
        assert_eq!(Worker::new(Resources { gpu_milli: 500, ..Resources::NONE }), None);
        assert_eq!(Worker::new(Resources::cpus(1)), None);
        let stock = idle(&[(0, 4)]);
        assert_eq!(stock.spot(0).slots(&worker(2), 9), 2);
        let mut spot = *stock.spot(0);
        spot.room.cpu_milli = 3000;
        let hungry = Worker::new(Resources { cpu_milli: 2000, ..Resources::gpus(1) }).expect("whole GPUs");
        assert_eq!(spot.slots(&hungry, 9), 1);
    }
}
