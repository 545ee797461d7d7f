//! Hadar's parts against brute force: H-1 to H-4.

use trainyard_sched::policies::hadar::checks::{admission, charges, places, plans};

use crate::reproduce::typed::row_of;
use crate::reproduce::{Effort, Figures, Gate, Row};

/// All of them.
pub(super) fn rows(effort: &Effort) -> Vec<Row> {
    let at_best = |best| Figures { published: None, reference: Some(best) };
    let plans = plans(if effort.quick { 100 } else { 400 });
    let admission = admission(200);
    vec![
        row_of(
            "H-1",
            "the place that is found for a gang: least part of the payoff of the best of all places",
            ("least part of the best payoff", Gate::AtLeast(1.0 - 1e-12)),
            at_best(1.0),
            &places(1000),
        ),
        row_of(
            "H-2",
            "prices at their ends and between; the dual that they begin with over what it may be: most",
            ("largest dual over its bound", Gate::AtMost(1.0 + 1e-9)),
            Figures::default(),
            &charges(1000),
        ),
        row_of(
            "H-3",
            "the plan of a round: what a beam of 16 wins over the best of all subsets",
            ("part of the best that a beam of 16 has", Gate::AtLeast(0.99)),
            at_best(1.0),
            &plans,
        )
        .beside(&format!(
            "the exact plan is always the best; each job in turn wins {:.3} of it",
            plans.figure("part of the best that each in turn has")
        )),
        row_of(
            "H-4",
            "admission: the optimum over what is earned, as a part of twice alpha: most",
            ("largest ratio over twice alpha", Gate::AtMost(1.0)),
            Figures::default(),
            &admission,
        )
        .beside(&format!("the mean ratio is {:.2}", admission.figure("mean ratio"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_reached() {
        let effort =
            Effort { seed: trainyard_sched::model::Seed(0), seeds: None, quick: true, nightly: false };
        let rows = rows(&effort);
        assert_eq!(rows.iter().map(|row| row.check).collect::<Vec<_>>(), ["H-1", "H-2", "H-3", "H-4"]);
        assert!(rows.iter().all(|row| row.pass), "{rows:#?}");
    }
}
