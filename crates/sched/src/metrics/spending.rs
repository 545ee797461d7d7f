//! What the GPUs cost that jobs held, by prices of GPU types.

use crate::control::{Batch, Core, Log, Step};
use crate::model::Time;

/// Money that is spent while jobs hold GPUs.
#[derive(Clone, Debug)]
pub struct Spending {
    price_per_h: Vec<f64>,
    spent: f64,
    since: Time,
    per_s: f64,
}

impl Spending {
    /// At these prices for a GPU and hour, by GPU type.
    pub fn new(price_per_h: Vec<f64>) -> Self {
        Self { price_per_h, spent: 0.0, since: Time::ZERO, per_s: 0.0 }
    }

    /// What was spent until the latest step.
    pub fn spent(&self) -> f64 {
        self.spent
    }
}

impl Log for Spending {
    fn step(&mut self, batch: &Batch, _: &Step) {
        self.spent += self.per_s * batch.at.since(self.since).as_secs_f64();
        self.since = batch.at;
    }

    fn rest(&mut self, core: &Core) {
        let cluster = core.state().cluster();
        let placements = core.state().jobs().flat_map(|view| view.held.placements());
        let price_per_h = placements.filter_map(|placement| {
            let gpu_type = cluster.node(placement.node).gpu_type?;
            Some(self.price_per_h[gpu_type.index()] * f64::from(placement.gpus.count()))
        });
        self.per_s = price_per_h.sum::<f64>() / 3600.0;
    }
}
