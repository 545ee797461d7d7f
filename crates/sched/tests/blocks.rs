//! The method for programs of blocks against a general solver, on random programs of all shapes.

use proptest::prelude::*;
use trainyard_sched::solve::blocks::{Answer, BlockProgram, Level, Link, solve};
use trainyard_sched::solve::{Interior, Solver, Unsolved};

/// One block: what its entries in pools are multiplied by, a rate for each pool (nought for none), and two numbers.
type Block = (f64, Vec<f64>, f64, f64);

#[derive(Clone, Debug)]
struct Drawn {
    blocks: Vec<Block>,
    pools: Vec<f64>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let gang = prop::sample::select(vec![1.0, 1.0, 1.0, 2.0, 4.0, 8.0]);
    // Whole numbers, so that many points are equally good; and rates of all sizes.
    let rate = prop_oneof![
        1 => Just(0.0),
        4 => (1_u32..4).prop_map(f64::from),
        4 => 0.1..200.0_f64,
        1 => (-3_i32..4).prop_map(|exponent| 10_f64.powi(exponent)),
    ];
    (1_usize..4).prop_flat_map(move |pools| {
        let block = (gang.clone(), prop::collection::vec(rate.clone(), pools), 0.2..5.0_f64, 0.0..1.0_f64);
        let blocks = prop::collection::vec(block, 1..40);
        let pools = prop::collection::vec((1_u32..30).prop_map(f64::from), pools);
        (blocks, pools).prop_map(|(mut blocks, pools)| {
            blocks.retain(|block| block.1.iter().any(|rate| *rate > 0.0));
            Drawn { blocks, pools }
        })
    })
}

fn program(
    drawn: &Drawn,
    rise_gain: f64,
    gain: impl Fn(f64) -> f64,
    level: impl Fn(&Block) -> Level,
) -> BlockProgram {
    let links = drawn.pools.iter().map(|pool| Link::AtMost(*pool)).collect();
    let mut program = BlockProgram::new(links, rise_gain);
    for block in &drawn.blocks {
        for (pool, rate) in block.1.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
            program.variable(gain(*rate), *rate, [(pool, block.0)]);
        }
        program.end_block(1.0, level(block));
    }
    program
}

/// A level that all blocks can have at once: a part of what an equal share of everything gives.
fn modest(drawn: &Drawn, block: &Block) -> f64 {
    let gangs: f64 = drawn.blocks.iter().map(|block| block.0).sum();
    let share = |pool: usize| (drawn.pools[pool] / gangs).min(1.0) / drawn.pools.len() as f64;
    0.9 * block.3 * block.1.iter().enumerate().map(|(pool, rate)| rate * share(pool)).sum::<f64>()
}

fn agree(program: &BlockProgram) -> Result<Answer, TestCaseError> {
    let ours = solve(program).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let linear = program.as_linear().expect("it has no logarithms");
    let size = ours.objective.abs().max(1e-3);
    prop_assert!(program.violation(&ours.x, ours.rise) < 2e-7, "{}", program.violation(&ours.x, ours.rise));
    prop_assert!((ours.bound - ours.objective).abs() <= 1e-6 * size, "{} {}", ours.objective, ours.bound);
    // The other one gives up on some programs with rates of all sizes; our own bound is proof enough of those.
    if let Ok(theirs) = Interior.solve(&linear) {
        let off = (ours.objective - theirs.objective).abs();
        prop_assert!(
            off <= 1e-5 * theirs.objective.abs().max(1e-3),
            "{} {}",
            ours.objective,
            theirs.objective
        );
    }
    Ok(ours)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn blocks_that_are_alike_may_be_written_as_one(drawn in drawn(), times in prop::collection::vec(1_u32..5, 40)) {
        let level = |block: &Block| match block.2 {
            wide if wide < 2.0 => Level::Rising { least: modest(&drawn, block), by: block.2 },
            _ => Level::Floor(modest(&drawn, block)),
        };
        // Floors and least levels are chosen for the blocks that there are, so these share out as many times the GPUs.
        let pools = drawn.pools.iter().map(|pool| 5.0 * pool).collect();
        let rises = drawn.blocks.iter().any(|block| block.2 < 2.0);
        let gain = |rate: f64| if rises { 0.0 } else { rate };
        let one_by_one = times.iter().zip(&drawn.blocks).flat_map(|(times, block)| {
            std::iter::repeat_n(block.clone(), *times as usize)
        });
        let apart = Drawn { blocks: one_by_one.collect(), pools };
        let written = |blocks: &[Block]| {
            let rise_gain = if rises { 1.0 } else { 0.0 };
            program(&Drawn { blocks: blocks.to_vec(), pools: apart.pools.clone() }, rise_gain, gain, level)
        };
        let mut folded = written(&drawn.blocks);
        let mut of = Vec::new();
        for (block, times) in times.iter().take(drawn.blocks.len()).enumerate() {
            (1..*times).for_each(|_| folded.repeat(block));
            of.extend(std::iter::repeat_n(block, *times as usize));
        }
        let unfolded = written(&apart.blocks);
        let ours = agree(&folded)?.spread(&folded, &of);
        let theirs = agree(&unfolded)?;
        let size = theirs.objective.abs().max(1e-3);
        prop_assert!((ours.objective - theirs.objective).abs() <= 1e-8 * size, "{} {}", ours.objective, theirs.objective);
        prop_assert!((ours.bound - theirs.bound).abs() <= 1e-6 * size, "{} {}", ours.bound, theirs.bound);
        for (ours, theirs) in ours.x.iter().zip(&theirs.x) {
            prop_assert!((ours - theirs).abs() <= 1e-5, "{ours} {theirs}");
        }
        for (ours, theirs) in ours.level_duals.iter().zip(&theirs.level_duals) {
            prop_assert!((ours - theirs).abs() <= 1e-4 * (1.0 + theirs.abs()), "{ours} {theirs}");
        }
    }

    #[test]
    fn rises_are_as_good_as_those_of_a_general_solver(drawn in drawn()) {
        if !drawn.blocks.is_empty() {
            agree(&program(&drawn, 1.0, |_| 0.0, |block| Level::Rising { least: 0.0, by: block.2 }))?;
            agree(&program(&drawn, 1.0, |_| 0.0, |block| {
                let least = modest(&drawn, block);
                if block.2 < 2.0 { Level::Rising { least, by: block.2 } } else { Level::Floor(least) }
            })).or_else(|error| if drawn.blocks.iter().any(|block| block.2 < 2.0) { Err(error) } else { Ok(Answer::default()) })?;
        }
    }

    #[test]
    fn sums_are_as_good_as_those_of_a_general_solver(drawn in drawn()) {
        if !drawn.blocks.is_empty() {
            agree(&program(&drawn, 0.0, |rate| rate, |_| Level::Free))?;
            agree(&program(&drawn, 0.0, |rate| rate - 1.0, |block| Level::Floor(modest(&drawn, block))))?;
        }
    }

    #[test]
    fn no_product_is_greater_than_that_of_logarithms(drawn in drawn()) {
        if !drawn.blocks.is_empty() {
            let curved = program(&drawn, 0.0, |_| 0.0, |block| Level::Logarithm(block.2));
            prop_assert!(curved.as_linear().is_none());
            let ours = solve(&curved).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(curved.violation(&ours.x, 0.0) < 1e-7);
            // Where the slope of the objective is taken from the answer, no other point is better along it.
            let levels: Vec<f64> = (0..curved.blocks()).map(|block| curved.level(&ours.x, block)).collect();
            let links = drawn.pools.iter().map(|pool| Link::AtMost(*pool)).collect();
            let mut straight = BlockProgram::new(links, 0.0);
            for (block, level) in drawn.blocks.iter().zip(&levels) {
                for (pool, rate) in block.1.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                    straight.variable(block.2 * rate / level, 0.0, [(pool, block.0)]);
                }
                straight.end_block(1.0, Level::Free);
            }
            let best = solve(&straight).map_err(|error| TestCaseError::fail(error.to_string()))?.bound;
            let ours: f64 = drawn.blocks.iter().map(|block| block.2).sum();
            prop_assert!(best <= ours * (1.0 + 1e-6), "{best} is more than {ours}");
        }
    }
}

fn two_and_one(pool: f64) -> BlockProgram {
    let mut program = BlockProgram::new(vec![Link::AtMost(pool)], 1.0);
    for by in [1.0, 1.0, 0.1] {
        program.variable(0.0, 1.0, [(0, 1.0)]);
        program.end_block(1.0, Level::Rising { least: 0.0, by });
    }
    program
}

#[test]
fn of_equally_good_points_the_middle_is_taken() {
    // With plenty for all, two blocks have all of their time, and the third one may have from 0.1 to 1. In the middle the
    // product of its distances to 0, 0.1 and 1 and of what is left of the pool is greatest.
    let answer = solve(&two_and_one(9.0)).expect("it has an answer");
    let product = |x: f64| x * (x - 0.1) * (1.0 - x) * (7.0 - x);
    let best = (100..1000).map(|i| f64::from(i) / 1000.0).max_by(|a, b| product(*a).total_cmp(&product(*b)));
    assert!((answer.x[2] - best.expect("there are some")).abs() < 5e-3, "{answer:?}");
    assert!((answer.rise - 1.0).abs() < 1e-8 && answer.x[0] > 1.0 - 1e-8);
    // The same every time, to the last bit.
    assert_eq!(answer, solve(&two_and_one(9.0)).expect("it has an answer"));
}

#[test]
fn duals_say_which_levels_are_stuck() {
    // Half a pool for two blocks and a tenth of that for the third: all are stuck.
    let answer = solve(&two_and_one(0.5)).expect("it has an answer");
    assert!(answer.level_slacks.iter().all(|slack| *slack < 1e-7), "{answer:?}");
    assert!((answer.rise - 0.5 / 2.1).abs() < 1e-7);
    // One more unit of the pool lifts all by 1 / 2.1.
    assert!((answer.link_duals[0] - 1.0 / 2.1).abs() < 1e-6, "{answer:?}");
    let with_room = solve(&two_and_one(9.0)).expect("it has an answer");
    assert!(with_room.level_slacks[2] > 0.1 && with_room.level_duals[2] < 1e-7, "{with_room:?}");
    assert!(with_room.level_duals[0] > 0.1 && with_room.level_slacks[0] < 1e-7, "{with_room:?}");
}

#[test]
fn balances_and_cuts_hold() {
    // Two blocks, each with time alone and time together that must be the same for both; together counts for more.
    let mut program = BlockProgram::new(vec![Link::AtMost(1.0), Link::Balance], 1.0);
    for sign in [1.0, -1.0] {
        program.variable(0.0, 1.0, [(0, 1.0)]);
        program.variable(0.0, 0.8, [(0, 0.5), (1, sign)]);
        program.end_block(1.0, Level::Rising { least: 0.0, by: 1.0 });
    }
    let answer = solve(&program).expect("it has an answer");
    assert!((answer.rise - 0.8).abs() < 1e-7 && (answer.x[1] - answer.x[3]).abs() < 1e-8, "{answer:?}");
    assert_eq!(agree(&program).expect("they agree").x, answer.x);
    // No more than a quarter of the time together.
    program.cut(Link::AtMost(0.25), &[(1, 1.0)]);
    let answer = solve(&program).expect("it has an answer");
    // The rest, 0.75 of the pool, is shared out alone: 0.375 each and 0.8 of a quarter.
    assert!((answer.rise - 0.575).abs() < 1e-7, "{answer:?}");
    agree(&program).expect("they agree");
}

#[test]
fn what_cannot_be_says_so() {
    let mut program = BlockProgram::new(vec![Link::AtMost(1.0)], 1.0);
    program.variable(0.0, 1.0, [(0, 1.0)]);
    program.end_block(1.0, Level::Floor(0.5));
    assert_eq!(solve(&program), Err(Unsolved::Unbounded), "nothing rises");
    let mut program = BlockProgram::new(vec![Link::AtMost(1.0)], 0.0);
    program.variable(0.0, 1.0, [(0, 1.0)]);
    program.end_block(1.0, Level::Floor(2.0));
    assert!(matches!(solve(&program), Err(Unsolved::Failed { .. })), "more than there is");
}
