//! G-9: the example of fairness on two levels in the public code of Gavel, three entities of six jobs each on nine GPUs.

use super::super::allocation::{Demand, Entity, Inside, Pool, Problem, Sight, hierarchical};
use crate::decide::Checked;
use crate::model::JobId;

/// Measured steps a second on V100, P100 and K80 (the public code's simulation table, one GPU), in the order of the example.
const RATES: [[f64; 3]; 18] = [
    [5.44610521981264, 3.0735350560514787, 0.9815827061299781],
    [7.175767179667988, 5.681346110543853, 3.4387678290723933],
    [1.5951407072133263, 1.6776964927127545, 0.4583310125271042],
    [29.947157347732464, 35.82535355155143, 7.175820532538584],
    [2.4967655780898292, 1.5843515911819712, 0.3472236920519382],
    [64.74245099960703, 58.17267240669826, 17.142289692304086],
    [81.65163491883021, 77.0846780814848, 23.794428965833195],
    [5.44610521981264, 3.0735350560514787, 0.9815827061299781],
    [4.426088263367452, 2.4026681703106223, 0.5047705689725351],
    [11.06408721300405, 9.537249191611776, 5.467379291465242],
    [81.65163491883021, 77.0846780814848, 23.794428965833195],
    [8.61775899193302, 5.091830907900463, 1.7522265657120206],
    [28.239955054085122, 21.157527655800312, 6.054204218128158],
    [7.787264918596293, 4.888323684976709, 1.236568777004088],
    [64.74245099960703, 58.17267240669826, 17.142289692304086],
    [10.300256501360458, 7.72278472419796, 0.8855799947494726],
    [11.06408721300405, 9.537249191611776, 5.467379291465242],
    [10.300256501360458, 7.72278472419796, 0.8855799947494726],
];

fn problem(jobs: usize) -> Problem {
    let job = |id: usize| Demand {
        id: JobId(id as u32),
        gang: 1,
        weight: (id % 2 + 1) as f64,
        rates: RATES[id].into_iter().collect(),
        steps_left: 1.0,
        since_arrival_s: 0.0,
        isolated_s: 0.0,
        entity: id / 6,
        deadline_s: None,
    };
    Problem::new(vec![Pool { gpus: 3, price_per_h: 1.0 }; 3], (0..jobs).map(job).collect())
}

/// Each job's rate over that of an equal share, with the first jobs only.
///
/// # Panics
/// If the program has no answer.
pub fn levels(jobs: usize, inside: Inside, sight: Sight) -> Vec<f64> {
    let problem = problem(jobs);
    let entities = [1.0, 2.0, 3.0].map(|weight| Entity { weight, inside });
    let shares = hierarchical(&problem, &entities, sight).expect("it has an answer").shares;
    let level = |job| problem.believed_rate(&shares, job, sight) / problem.equal_rate(job, sight);
    (0..jobs).map(level).collect()
}

/// What the public code has for the first 12 jobs, and for all 18.
pub const LEVELS: [&[f64]; 2] = [
    &[0.3596, 0.7192, 0.3596, 0.7192, 0.3596, 0.7192, 0.7428, 1.4855, 0.7428, 1.2733, 0.7428, 1.4855],
    &[
        0.1937, 0.3874, 0.1937, 0.3874, 0.1937, 0.3874, 0.3874, 0.7748, 0.3874, 0.7748, 0.3874, 0.7748,
        0.5811, 1.1621, 0.5811, 1.1621, 0.5811, 1.1621,
    ],
];

/// The largest difference from it, as a part.
pub fn hierarchy() -> Checked {
    let mut checked = Checked { instances: LEVELS.len() as u64, ..Checked::default() };
    let mut worst = 0.0_f64;
    for expected in LEVELS {
        let found = levels(expected.len(), Inside::Fairness, Sight::Aware);
        for (job, (found, expected)) in found.iter().zip(expected).enumerate() {
            let off = (found / expected - 1.0).abs();
            checked.hold(off <= 0.01, || format!("job {job}: {found} instead of {expected}"));
            worst = worst.max(off);
        }
    }
    checked.figures = vec![("largest difference", worst)];
    checked
}
