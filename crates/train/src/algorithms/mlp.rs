//! A multi-layer perceptron, trained by back-propagation.
//!
//! Sources: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors" (Nature 323, 1986), with momentum
//! as there; weights begin as in Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
//! (AISTATS 2010), eq. 16. An iteration is a pass over as many rows as there are in a new order, drawn from the seed and the number of
//! the pass, with an update for each batch (`order`); its loss is that of all rows after the last update.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::layers::{Net, Task};
use crate::algorithm::{Algorithm, Entry, Measured};
use crate::copy::Part;
use crate::data::{Data, Needs, Table, bounded};
use crate::error::TrainError;
use crate::merge::{Merge, share};
use crate::momentum::Momentum;
use crate::order::Orders;
use crate::parameters::{Parameter, Values};
use crate::partitions::{Held, Partition};
use crate::pool::{Pool, Shards};
use crate::served::{MEASURED, Served, Share, State};
use crate::tensors::{StateError, Tensors};

/// The most classes.
const MOST_CLASSES: usize = 1000;

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "mlp",
    title: "multi-layer perceptron",
    source: "Rumelhart, Hinton and Williams 1986",
    needs: Needs::Rows,
    generator: "blobs",
    parameters: &[
        Parameter::word(
            "task",
            &["classification", "regression"],
            "Cross-entropy of classes, or squared errors.",
        ),
        Parameter::whole("hidden", 32, 1, 10_000, "The width of a hidden layer."),
        Parameter::whole("layers", 1, 1, 20, "How many hidden layers."),
        Parameter::word("activation", &["tanh", "relu"], "What hidden units do."),
        Parameter::real("step", 0.01, 0.0, 1000.0, "How far an update goes."),
        Parameter::real("momentum", 0.9, 0.0, 0.999_999, "What is kept of the update before."),
        Parameter::real("decay", 0.0, 0.0, 1000.0, "In pass k the step is divided by 1 + decay k."),
        Parameter::whole("batch", 256, 0, 10_000_000, "Rows of an update; 0 takes all."),
    ],
    begin,
};

struct Mlp {
    net: Net,
    /// The layers that are its own: all, or those of one partition.
    own: Range<usize>,
    rule: Momentum,
    orders: Orders,
    /// Layer by layer: a row of weights for each unit, then the intercepts.
    weights: Vec<f64>,
    velocity: Vec<f64>,
    passes: u64,
    /// A pass, and the order of its rows.
    order: Option<(u64, Vec<u32>)>,
}

fn begin(given: &Values, data: &Data, seed: u64, _: &Pool) -> Result<Box<dyn Algorithm>, TrainError> {
    let table = data.table().expect("it was checked");
    let task = if given.word("task") == "regression" { Task::Numbers } else { Task::Classes };
    let (outputs, classes) = match task {
        Task::Numbers => (1, Vec::new()),
        Task::Classes => {
            let wanted = "rows whose targets are at most 1000 classes; for others say `task=regression`";
            let wrong = || TrainError::WrongData { algorithm: "mlp", wanted, given: data.words() };
            let known = table.classes(MOST_CLASSES).ok_or_else(wrong)?;
            let number = |target: &f64| known.partition_point(|class| class < target) as u32;
            (known.len(), table.targets.iter().map(number).collect())
        }
    };
    let mut widths = vec![table.columns];
    widths.extend(std::iter::repeat_n(given.whole("hidden"), given.whole("layers")));
    widths.push(outputs);
    let count: u64 = widths.windows(2).map(|pair| (pair[0] as u64 + 1) * pair[1] as u64).sum();
    bounded("mlp", 4 * count, "say a smaller `hidden`")?;
    let mut draws = Pcg64::seed_from_u64(seed);
    let mut weights = Vec::with_capacity(count as usize);
    for pair in widths.windows(2) {
        let most = (6.0 / (pair[0] + pair[1]) as f64).sqrt();
        weights.extend((0..pair[0] * pair[1]).map(|_| most * (2.0 * draws.random::<f64>() - 1.0)));
        weights.extend(std::iter::repeat_n(0.0, pair[1]));
    }
    if task == Task::Numbers {
        // Otherwise the first passes learn nothing but the mean.
        *weights.last_mut().expect("there is an output") =
            table.targets.iter().sum::<f64>() / table.rows() as f64;
    }
    let batch = given.whole("batch");
    Ok(Box::new(Mlp {
        own: 0..widths.len() - 1,
        net: Net { task, widths, relu: given.word("activation") == "relu", classes },
        rule: Momentum {
            step: given.real("step"),
            momentum: given.real("momentum"),
            decay: given.real("decay"),
            batch: if batch == 0 { table.rows() } else { batch.min(table.rows()) },
            rows: table.rows(),
        },
        orders: Orders::new(table.rows(), seed),
        velocity: vec![0.0; weights.len()],
        weights,
        passes: 0,
        order: None,
    }))
}

impl Mlp {
    /// Brings the rows into the order of a pass.
    fn shuffle(&mut self, pass: u64) {
        if self.order.as_ref().is_none_or(|(of, _)| *of != pass) {
            self.order = Some((pass, self.orders.of(pass)));
        }
    }

    /// What a shard of an update contributes to its gradient, given the order of its pass.
    fn part(&self, table: &Table, update: u64, rows: Range<usize>, sums: &mut [f64]) {
        let (_, order) = self.order.as_ref().expect("it was shuffled");
        self.net.gradient(&self.weights, table, &order[self.rule.rows(update)][rows], sums);
    }
}

impl Algorithm for Mlp {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        assert_eq!(self.own, 0..self.net.layers(), "a partition does not iterate alone");
        let table = data.table().expect("it was checked");
        let first = self.passes * self.rule.updates();
        self.shuffle(self.passes);
        for update in first..first + self.rule.updates() {
            let part = |rows: Range<usize>, sums: &mut [f64]| self.part(table, update, rows, sums);
            let gradient = pool.sum(self.rule.shards(update), self.weights.len(), part)?;
            self.rule.apply(update, &mut self.weights, &mut self.velocity, &gradient);
        }
        self.passes += 1;
        let losses = |rows: Range<usize>, sums: &mut [f64]| self.net.losses(&self.weights, table, rows, sums);
        let sums = pool.sum(Shards::of(table.rows()), MEASURED, losses)?;
        Ok(self.net.measured(&sums, table.rows()))
    }

    fn fork(&mut self, copy: u32) -> bool {
        (self.orders.copy, self.order) = (copy, None);
        true
    }

    fn take_part(&mut self, part: Option<Part>) {
        if self.orders.part != part {
            (self.orders.part, self.order) = (part, None);
        }
    }

    fn served(&mut self) -> Option<&mut dyn Served> {
        Some(self)
    }

    fn layers(&self) -> usize {
        self.net.layers()
    }

    fn cut(&mut self, number: usize, count: usize) {
        let own = share(self.net.layers(), number, count);
        let (begin, width) = (self.net.width(0..own.start), self.net.width(own.clone()));
        for values in [&mut self.weights, &mut self.velocity] {
            *values = values[begin..begin + width].to_vec();
        }
        self.own = own;
    }

    fn partition(&mut self) -> Option<&mut dyn Partition> {
        Some(self)
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        let mut at = 0;
        for (layer, pair) in self.net.widths.windows(2).enumerate() {
            if !self.own.contains(&layer) {
                continue;
            }
            for (kind, values) in [("", &self.weights), ("velocity.", &self.velocity)] {
                let (matrix, rest) = values[at..].split_at(pair[0] * pair[1]);
                tensors.put(&format!("{kind}layer{}.weight", layer + 1), &[pair[1], pair[0]], matrix);
                tensors.put(&format!("{kind}layer{}.intercept", layer + 1), &[pair[1]], &rest[..pair[1]]);
            }
            at += (pair[0] + 1) * pair[1];
        }
        tensors.put_count("passes", self.passes);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        let (widths, own) = (&self.net.widths, &self.own);
        for (kind, values) in [("", &mut self.weights), ("velocity.", &mut self.velocity)] {
            values.clear();
            for (layer, pair) in widths.windows(2).enumerate().filter(|(layer, _)| own.contains(layer)) {
                let name = format!("{kind}layer{}", layer + 1);
                values.extend(state.values(&format!("{name}.weight"), &[pair[1], pair[0]])?);
                values.extend(state.values(&format!("{name}.intercept"), &[pair[1]])?);
            }
        }
        self.passes = state.whole("passes", u64::from(u32::MAX))?;
        Ok(())
    }
}

impl Served for Mlp {
    fn rule(&self) -> Momentum {
        self.rule
    }

    fn state(&mut self) -> State<'_> {
        State { passes: &mut self.passes, weights: &mut self.weights, velocity: &mut self.velocity }
    }

    fn gradient(&mut self, update: u64, data: &Data, pool: &Pool, share: Share) -> Merge {
        self.shuffle(self.rule.pass(update));
        let table = data.table().expect("it was checked");
        let shards = self.rule.shards(update);
        let part = |shard, sums: &mut [f64]| self.part(table, update, shards.rows(shard), sums);
        pool.merged(shards.count(), share.of(shards.count()), self.weights.len(), part)
    }

    fn losses(&self, data: &Data, pool: &Pool, share: Share) -> Merge {
        let table = data.table().expect("it was checked");
        let shards = Shards::of(table.rows());
        let part = |shard, sums: &mut [f64]| self.net.losses(&self.weights, table, shards.rows(shard), sums);
        pool.merged(shards.count(), share.of(shards.count()), MEASURED, part)
    }

    fn measured(&self, sums: &[f64]) -> Measured {
        self.net.measured(sums, self.rule.rows)
    }
}

impl Partition for Mlp {
    fn rule(&self) -> Momentum {
        self.rule
    }

    fn width(&self) -> usize {
        self.weights.len()
    }

    fn inputs(&self) -> usize {
        self.net.widths[self.own.start]
    }

    fn outputs(&self) -> usize {
        self.net.widths[self.own.end]
    }

    fn values(&self) -> usize {
        self.net.widths[self.own.start..=self.own.end].iter().sum()
    }

    fn rows(&mut self, update: u64) -> Vec<u32> {
        self.shuffle(self.rule.pass(update));
        let (_, order) = self.order.as_ref().expect("it was shuffled");
        order[self.rule.rows(update)].to_vec()
    }

    fn forward(&self, data: &Data, held: &mut Held) {
        let table = data.table().expect("it was checked");
        self.net.through(self.own.clone(), &self.weights, table, held);
    }

    fn losses(&self, data: &Data, held: &Held, sums: &mut [f64]) -> Vec<f64> {
        self.net.ends(data.table().expect("it was checked"), held, sums)
    }

    fn backward(&self, data: &Data, held: &Held, slopes: Vec<f64>, sums: &mut [f64]) -> Vec<f64> {
        let table = data.table().expect("it was checked");
        self.net.returns(self.own.clone(), &self.weights, table, held, slopes, sums)
    }

    fn apply(&mut self, update: u64, gradient: &[f64]) {
        self.rule.apply(update, &mut self.weights, &mut self.velocity, gradient);
        if (update + 1).is_multiple_of(self.rule.updates()) {
            self.passes += 1;
        }
    }

    fn measured(&self, sums: &[f64]) -> Measured {
        self.net.measured(sums, self.rule.rows)
    }
}
