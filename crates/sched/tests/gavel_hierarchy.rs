//! The example of fairness on two levels in the public code of Gavel: three entities of six jobs each on nine GPUs.

use trainyard_sched::policies::gavel::allocation::{Inside, Sight};
use trainyard_sched::policies::gavel::checks::{LEVELS, hierarchy, levels};

fn near(found: &[f64], expected: &[f64], tolerance: f64) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * expected + 1e-4, "{found} is not {expected}");
    }
    assert_eq!(found.len(), expected.len());
}

const BLIND: Sight = Sight::Blind { reference: 0 };

#[test]
fn few_jobs_have_all_that_they_can_use() {
    near(&levels(1, Inside::Fairness, Sight::Aware), &[1.7196], 1e-3);
    near(&levels(2, Inside::Fairness, Sight::Aware), &[1.7196, 1.3210], 1e-3);
    // The public code leaves room here; ours are no lower, and the three heavier jobs have all that they can use.
    let theirs = [1.3223, 1.3210, 1.3195, 1.4733, 1.3202, 1.3868];
    let found = levels(6, Inside::Fairness, Sight::Aware);
    for (found, theirs) in found.iter().zip(theirs) {
        assert!(*found >= theirs - 1e-3 && *found <= 1.04 * theirs, "{found}, theirs {theirs}");
    }
    near(&[found[1], found[3], found[5]], &[1.3210, 1.4733, 1.3868], 1e-3);
}

#[test]
fn jobs_that_cannot_use_more_leave_it_to_others() {
    near(&levels(12, Inside::Fairness, Sight::Aware), LEVELS[0], 0.01);
    let checked = hierarchy();
    assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
    assert!(checked.figure("largest difference") < 0.01);
}

#[test]
fn many_jobs_have_levels_in_proportion_to_weights() {
    let of = |unit: f64| [1.0, 2.0, 1.0, 2.0, 1.0, 2.0].map(|weight| weight * unit);
    let aware = levels(18, Inside::Fairness, Sight::Aware);
    near(&aware, LEVELS[1], 1e-3);
    let blind = levels(18, Inside::Fairness, BLIND);
    near(&blind, &[of(1.0 / 6.0), of(1.0 / 3.0), of(0.5)].concat(), 1e-4);
    near(&[aware.iter().sum(), blind.iter().sum()], &[10.459, 9.0], 1e-3);
}

#[test]
fn one_after_the_other_within_entities() {
    let expected =
        [[1.0, 0.5, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.5, 0.0]];
    near(&levels(18, Inside::Fifo, BLIND), &expected.concat(), 1e-3);
}
