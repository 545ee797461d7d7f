//! The method for programs of blocks against a general solver, on random programs.

use proptest::prelude::*;
use trainyard_sched::solve::blocks::{BlockProgram, Level, Link, solve};
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver};

/// The same program, row by row.
fn as_linear(program: &BlockProgram) -> LinearProgram {
    program.as_linear().expect("it has no logarithms")
}

#[derive(Clone, Debug)]
struct Drawn {
    jobs: Vec<(u32, Vec<f64>, f64)>,
    counts: Vec<u32>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let gang = prop::sample::select(vec![1_u32, 1, 1, 2, 4, 8]);
    let rate = prop_oneof![1 => Just(0.0), 9 => 0.1..200.0_f64];
    (1_usize..4).prop_flat_map(move |types| {
        let job = (gang.clone(), prop::collection::vec(rate.clone(), types), 0.2..5.0_f64);
        (prop::collection::vec(job, 1..40), prop::collection::vec(1_u32..30, types))
            .prop_map(|(jobs, counts)| Drawn { jobs, counts })
    })
}

fn max_min(drawn: &Drawn) -> BlockProgram {
    let links = drawn.counts.iter().map(|count| Link::AtMost(f64::from(*count))).collect();
    let mut program = BlockProgram::new(links, 1.0);
    for (gang, rates, weight) in &drawn.jobs {
        if rates.iter().all(|rate| *rate == 0.0) {
            continue;
        }
        for (column, rate) in rates.iter().enumerate() {
            if *rate > 0.0 {
                program.variable(0.0, *rate, [(column, f64::from(*gang))]);
            }
        }
        program.end_block(1.0, Level::Rising { least: 0.0, by: *weight });
    }
    program
}

proptest! {
    #[test]
    fn max_min_is_as_good(drawn in drawn()) {
        let program = max_min(&drawn);
        if program.blocks() > 0 {
            let ours = solve(&program).expect("solved");
            let theirs = Interior.solve(&as_linear(&program)).expect("solved");
            println!("{} blocks {} iterations; {} {}", program.blocks(), ours.iterations, ours.objective, theirs.objective);
            prop_assert!((ours.objective - theirs.objective).abs() <= 1e-6 * (1e-9 + theirs.objective.abs()));
            prop_assert!(ours.bound >= ours.objective * (1.0 - 1e-9) && ours.bound <= ours.objective * (1.0 + 1e-6));
            prop_assert!(program.violation(&ours.x, ours.rise) < 1e-9);
        }
    }
}
