//! k-means: clouds and their centres. Targets are not looked at.
//!
//! Sources: Lloyd, "Least squares quantization in PCM" (IEEE Trans. Inf. Theory 28, 1982), begun as in Arthur and Vassilvitskii,
//! "k-means++: the advantages of careful seeding" (SODA 2007), section 2.2. A centre that nobody is nearest to stays where it is.
//! The loss of an iteration is the mean squared distance to the centres that it began with; it then moves them.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::algorithm::{Algorithm, Entry, Measured};
use crate::data::{Data, Needs, Table, bounded};
use crate::descent::add;
use crate::error::TrainError;
use crate::parameters::Parameter;
use crate::pool::{Pool, Shards};
use crate::tensors::{StateError, Tensors};

/// See the file.
pub(super) static ENTRY: Entry = Entry {
    name: "kmeans",
    title: "k-means clustering",
    source: "Lloyd 1982; Arthur and Vassilvitskii 2007 (k-means++)",
    needs: Needs::Rows,
    generator: "blobs",
    parameters: &[Parameter::whole(
        "clusters",
        10,
        1,
        10_000,
        "How many centres; at most as many as rows are used.",
    )],
    begin: |given, data, seed, pool| {
        let table = data.table().expect("it was checked");
        let count = given.whole("clusters").min(table.rows());
        bounded("kmeans", (count * table.columns) as u64, "say fewer clusters")?;
        let centres = plus_plus(table, count, seed, pool);
        Ok(Box::new(KMeans { count, columns: table.columns, centres }))
    },
};

struct KMeans {
    count: usize,
    columns: usize,
    /// One after the other.
    centres: Vec<f64>,
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Draws centres among the rows, each with a chance in proportion to its squared distance to those already drawn.
fn plus_plus(table: &Table, count: usize, seed: u64, pool: &Pool) -> Vec<f64> {
    let mut draws = Pcg64::seed_from_u64(seed);
    let mut centres = table.row(draws.random_range(0..table.rows())).to_vec();
    let mut nearest = vec![f64::INFINITY; table.rows()];
    const CHUNK: usize = 1024;
    for drawn in 1..count {
        let newest = &centres[(drawn - 1) * table.columns..];
        pool.chunks(&mut nearest, CHUNK, |chunk, nearest| {
            for (i, nearest) in nearest.iter_mut().enumerate() {
                *nearest = nearest.min(squared_distance(table.row(chunk * CHUNK + i), newest));
            }
        });
        let mut left = draws.random::<f64>() * nearest.iter().sum::<f64>();
        let passed = |distance: &f64| {
            left -= distance;
            left < 0.0
        };
        let chosen = nearest.iter().position(passed).unwrap_or(table.rows() - 1);
        centres.extend_from_slice(table.row(chosen));
    }
    centres
}

impl KMeans {
    /// What some rows contribute: for each centre the sum of its rows and their number, and last the squared distances.
    fn part(&self, table: &Table, rows: Range<usize>, sums: &mut [f64]) {
        let stride = self.columns + 1;
        for row in rows {
            let values = table.row(row);
            let (mut best, mut least) = (0, f64::INFINITY);
            for (i, centre) in self.centres.chunks_exact(self.columns).enumerate() {
                let distance = squared_distance(values, centre);
                if distance < least {
                    (best, least) = (i, distance);
                }
            }
            let sum = &mut sums[best * stride..][..stride];
            add(&mut sum[..self.columns], 1.0, values);
            sum[self.columns] += 1.0;
            sums[self.count * stride] += least;
        }
    }
}

impl Algorithm for KMeans {
    fn iterate(&mut self, data: &Data, pool: &Pool) -> Result<Measured, TrainError> {
        let table = data.table().expect("it was checked");
        let stride = self.columns + 1;
        let part = |rows: Range<usize>, sums: &mut [f64]| self.part(table, rows, sums);
        let sums = pool.sum(Shards::of(table.rows()), self.count * stride + 1, part)?;
        for (centre, sum) in self.centres.chunks_exact_mut(self.columns).zip(sums.chunks_exact(stride)) {
            let members = sum[self.columns];
            if members > 0.0 {
                centre.iter_mut().zip(sum).for_each(|(centre, sum)| *centre = sum / members);
            }
        }
        Ok(Measured { loss: sums[self.count * stride] / table.rows() as f64, accuracy: None })
    }

    fn tensors(&self) -> Tensors {
        let mut tensors = Tensors::default();
        tensors.put("centres", &[self.count, self.columns], &self.centres);
        tensors
    }

    fn restore(&mut self, state: &Tensors, _: &Data, _: &Pool) -> Result<(), StateError> {
        self.centres = state.values("centres", &[self.count, self.columns])?.to_vec();
        Ok(())
    }
}
