//! Gavel's programs alone: known best values, and how long one of many jobs takes.

use std::time::Instant;

use trainyard_sched::model::JobId;
use trainyard_sched::policies::gavel::allocation::{
    CostForm, Demand, Pool, Problem, Sight, finish_time_fairness, max_min, max_sum, min_cost, min_makespan,
};

use crate::reproduce::{Figures, Gate, Row};

const BLIND: Sight = Sight::Blind { reference: 0 };
/// Rates of four jobs on three types, and their steps.
const JOBS: [([f64; 3], f64); 4] =
    [([2.0, 1.0, 0.5], 300.0), ([3.0, 2.0, 1.0], 500.0), ([4.0, 3.0, 2.0], 1000.0), ([1.0, 1.0, 1.0], 500.0)];
/// Prices of the types.
const PRICES: [f64; 3] = [3.1, 2.0, 0.8];

/// An instance and the best values of its programs: max-min fairness, aware, agnostic and with weights 1 and 2; makespan;
/// finish-time fairness; sum of rates; sum of rates over prices.
struct Known {
    gpus: [u32; 3],
    gangs: &'static [u32],
    values: [Option<f64>; 7],
}

const KNOWN: [Known; 5] = [
    Known {
        gpus: [1, 2, 3],
        gangs: &[1, 1],
        values: [
            Some(1.548_387),
            Some(1.0),
            Some(0.9),
            Some(200.0),
            Some(0.645_833),
            Some(4.0),
            Some(1.895_161),
        ],
    },
    Known {
        gpus: [1, 1, 1],
        gangs: &[1, 1],
        values: [
            Some(1.263_158),
            Some(1.0),
            Some(0.75),
            Some(200.0),
            Some(0.791_667),
            Some(4.0),
            Some(1.895_161),
        ],
    },
    Known {
        gpus: [4, 4, 4],
        gangs: &[2, 1],
        values: [
            Some(1.5),
            Some(1.0),
            Some(0.75),
            Some(166.666_7),
            Some(0.666_667),
            Some(5.0),
            Some(1.895_161),
        ],
    },
    Known {
        gpus: [1, 1, 1],
        gangs: &[1, 1, 1, 1],
        values: [Some(0.894_118), Some(0.75), None, Some(500.0), Some(0.838_816), Some(7.0), None],
    },
    Known {
        gpus: [2, 1, 3],
        gangs: &[1, 1, 1, 1],
        values: [Some(1.0), Some(1.0), None, Some(500.0), Some(1.0), Some(9.0), None],
    },
];

fn problem(gpus: &[u32], jobs: impl Iterator<Item = ([f64; 3], u32, f64)>) -> Problem {
    let pools = gpus.iter().zip(PRICES).map(|(gpus, price_per_h)| Pool { gpus: *gpus, price_per_h });
    let demand = |(i, (rates, gang, steps_left)): (usize, ([f64; 3], u32, f64))| Demand {
        id: JobId(i as u32),
        gang,
        weight: 1.0,
        rates: rates.into_iter().collect(),
        steps_left,
        since_arrival_s: 0.0,
        isolated_s: 0.0,
        entity: 0,
        deadline_s: None,
    };
    Problem::new(pools.collect(), jobs.enumerate().map(demand).collect())
}

impl Known {
    fn problem(&self) -> Problem {
        let jobs = JOBS.iter().zip(self.gangs).map(|((rates, steps), gang)| (*rates, *gang, *steps));
        problem(&self.gpus, jobs)
    }

    /// The values as we find them.
    fn found(&self) -> [Option<f64>; 7] {
        let plain = self.problem();
        let mut weighted = self.problem();
        for (demand, weight) in weighted.jobs.iter_mut().zip([1.0, 2.0]) {
            demand.weight = weight;
        }
        let value = |found: Result<trainyard_sched::policies::gavel::allocation::Allocation, _>| {
            found.ok().map(|found| found.objective)
        };
        [
            value(max_min(&plain, Sight::Aware)),
            value(max_min(&plain, BLIND)),
            value(max_min(&weighted, Sight::Aware)),
            value(min_makespan(&plain, Sight::Aware)),
            value(finish_time_fairness(&plain, Sight::Aware)),
            value(max_sum(&plain)),
            value(min_cost(&plain, CostForm::Sum).map(|found| found.allocation)),
        ]
    }
}

/// G-2: the largest difference from the known best values, as a part of them.
pub(super) fn objectives() -> Row {
    let each = KNOWN.iter().flat_map(|known| known.values.into_iter().zip(known.found()));
    let worst = each
        .filter_map(|(known, found)| Some((known?, found)))
        .try_fold(0.0_f64, |worst, (known, found)| found.map(|found| worst.max((found / known - 1.0).abs())));
    let what = "31 best values of seven programs on five instances: largest difference, as a part";
    Row::single("G-2", what, Figures { published: None, reference: Some(0.0) }, Gate::AtMost(1e-4), worst)
}

/// G-15: how long the program of max-min fairness takes with 2,048 jobs and 512 GPUs of each type, on this machine.
pub(super) fn time_of_a_program() -> Row {
    let jobs = (0..2048_u32).map(|i| {
        let (rates, _) = JOBS[i as usize % JOBS.len()];
        // Jobs that differ a little, as real ones do.
        let factor = 1.0 + f64::from(i * 7919 % 1009) / 1009.0;
        let other = 1.0 + f64::from(i * 104_729 % 997) / 997.0;
        ([rates[0] * factor, rates[1] * other, rates[2]], [1, 1, 1, 2][i as usize % 4], 1e5)
    });
    let large = problem(&[512; 3], jobs);
    let begun = Instant::now();
    let solved = max_min(&large, Sight::Aware).is_ok();
    let took_s = solved.then(|| begun.elapsed().as_secs_f64());
    let what =
        "max-min fairness of 2,048 jobs on 512 GPUs of each type: time of one program on this machine (s)";
    Row::single("G-15", what, Figures::default(), Gate::AtMost(10.0), took_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_found() {
        let row = objectives();
        assert!(row.pass, "{row:?}");
    }
}
