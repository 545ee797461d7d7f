//! Jobs in pairs: the programs by kinds of jobs against those over all pairs.

use proptest::prelude::*;
use trainyard_sched::model::JobId;
use trainyard_sched::policies::gavel::allocation::{
    Combination, CostForm, Demand, Entity, Inside, PackedAllocation, Pairs, Parting, Partners, Pool, Problem,
    Rates, Shares, Sharing, Sight, fifo_packed, finish_time_fairness, finish_time_fairness_packed, gandiva,
    hierarchical_packed, max_min, max_min_packed, min_cost_packed, min_makespan_packed,
};
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver, Unsolved};

fn demand(id: u32, gang: u32, rates: &[f64], steps_left: f64) -> Demand {
    Demand {
        id: JobId(id),
        gang,
        weight: 1.0,
        rates: rates.iter().copied().collect(),
        steps_left,
        since_arrival_s: 0.0,
        isolated_s: 0.0,
        entity: 0,
        deadline_s: None,
    }
}

fn problem(counts: &[u32], jobs: Vec<Demand>) -> Problem {
    let pools = counts.iter().zip([3.1, 2.0, 0.8]);
    Problem::new(pools.map(|(gpus, price_per_h)| Pool { gpus: *gpus, price_per_h }).collect(), jobs)
}

/// All jobs are of one kind with this rate alone, and this beside each other, on one type.
fn alike(jobs: u32, gpus: u32, beside: f64) -> (Problem, Sharing) {
    let jobs = (0..jobs).map(|id| demand(id, 1, &[1.0], 1.0)).collect::<Vec<_>>();
    let sharing = Sharing {
        kinds: vec![0; jobs.len()],
        count: 1,
        beside: vec![[beside].into_iter().collect()],
        pairs: Pairs::All,
    };
    (problem(&[gpus], jobs), sharing)
}

/// A job's time, and a type's GPUs, that are given away beyond what there is.
fn broken(problem: &Problem, packed: &PackedAllocation) -> f64 {
    let mut time = vec![0.0; problem.jobs.len()];
    let mut used = vec![0.0; problem.pools.len()];
    let mut worst = 0.0_f64;
    for (row, combination) in packed.combinations.iter().enumerate() {
        let members = match *combination {
            Combination::Alone(job) => vec![job],
            Combination::Pair(a, b) => {
                assert!(a < b && problem.jobs[a].gang == problem.jobs[b].gang, "{combination:?}");
                vec![a, b]
            }
        };
        for (column, share) in packed.shares.row(row).iter().enumerate() {
            worst = worst.max(-share);
            used[column] += share * f64::from(problem.jobs[members[0]].gang);
            members.iter().for_each(|job| time[*job] += share);
        }
    }
    worst = time.iter().fold(worst, |worst, time| worst.max(time - 1.0));
    used.iter().zip(&problem.pools).fold(worst, |worst, (used, pool)| worst.max(used - f64::from(pool.gpus)))
}

#[test]
fn pairs_are_formed_where_they_pay() {
    // Three jobs on one GPU: beside each other two make 1.5 steps a second, so each has half.
    let (three, sharing) = alike(3, 1, 0.75);
    let packed = max_min_packed(&three, &sharing).expect("it has an answer");
    assert!((packed.objective - 0.5).abs() < 1e-6, "{packed:?}");
    let pairs = [Combination::Pair(0, 1), Combination::Pair(0, 2), Combination::Pair(1, 2)];
    assert_eq!(packed.combinations, pairs);
    (0..3).for_each(|row| assert!((packed.shares.of(row, 0) - 1.0 / 3.0).abs() < 1e-6, "{packed:?}"));
    // Where they slow each other down to half, all is as without pairs.
    let (three, sharing) = alike(3, 1, 0.5);
    let packed = max_min_packed(&three, &sharing).expect("it has an answer");
    assert_eq!(packed.combinations, [0, 1, 2].map(Combination::Alone));
    // One job alone has nobody of its kind to share with.
    let (one, sharing) = alike(1, 1, 0.9);
    let packed = max_min_packed(&one, &sharing).expect("it has an answer");
    assert_eq!(packed.combinations, [Combination::Alone(0)]);
}

#[test]
fn a_job_never_shares_with_itself() {
    // The first job needs far more than the other two of its kind, so it cannot always be beside them.
    let (mut three, sharing) = alike(3, 1, 0.75);
    three.jobs[0].steps_left = 100.0;
    let packed = min_makespan_packed(&three, &sharing).expect("it has an answer");
    // All of the time of the first job: as much as they need beside the others, and alone otherwise. Beside the others it
    // does 1 of 1, and each of the others needs 1 / 0.75 of time: 100 = T - 2 / 0.75 + 2.
    assert!((packed.objective - (98.0 + 2.0 / 0.75)).abs() < 1e-4, "{packed:?}");
    assert!(broken(&three, &packed) <= 1e-7);
}

#[test]
fn fifo_packs_the_best_pair_that_is_worth_it() {
    let beside = |rate: f64| -> Rates { [rate].into_iter().collect() };
    let jobs = (0..4).map(|id| demand(id, 1, &[1.0], 1.0)).collect();
    // Kinds 0 and 1 are placed; kind 2 is worth 1.6 beside 0 and 1.8 beside 1; nothing else is worth anything.
    let mut table = vec![beside(0.5); 9];
    (table[2], table[6]) = (beside(0.8), beside(0.8));
    (table[5], table[7]) = (beside(0.9), beside(0.9));
    let sharing = Sharing { kinds: vec![0, 1, 2, 2], count: 3, beside: table, pairs: Pairs::All };
    let problem = problem(&[2], jobs);
    let packed = fifo_packed(&problem, &sharing, 1.5);
    assert_eq!(packed.combinations, [Combination::Pair(0, 3), Combination::Pair(1, 2)]);
    let choosy = fifo_packed(&problem, &sharing, 1.7);
    assert_eq!(choosy.combinations, [Combination::Alone(0), Combination::Pair(1, 2)]);
    assert_eq!(fifo_packed(&problem, &sharing, 1.9).combinations, [0, 1].map(Combination::Alone));
}

#[test]
fn gandiva_pairs_at_random_and_parts_what_does_not_pay() {
    let (mut four, sharing) = alike(4, 2, 0.75);
    let mut partners = Partners::new();
    let mut draws = [0, 0, 1, 0].into_iter();
    let mut draw = |n: usize| draws.next().expect("no more is drawn") % n;
    let packed = gandiva(&four, &sharing, Parting::Mean, &mut partners, &mut draw);
    // The first number takes the first of four; the second one, the same, stands for the last. Then 1 and 2 are left.
    assert_eq!(packed.combinations, [Combination::Pair(0, 3), Combination::Pair(1, 2)]);
    assert_eq!(packed.shares, Shares::from_rows(1, vec![1.0, 1.0]));
    // They stay together, until one is done: then nobody needs to share.
    let mut never = |_: usize| -> usize { panic!("nothing is drawn") };
    assert_eq!(gandiva(&four, &sharing, Parting::Mean, &mut partners, &mut never).combinations.len(), 2);
    four.jobs.remove(1);
    four.jobs.remove(1);
    assert_eq!(gandiva(&four, &sharing, Parting::Mean, &mut partners, &mut never).combinations.len(), 2);
    assert_eq!(partners.len(), 2, "0 and 3 are still known for a pair");
    // Pairs that are worth less than a job alone are parted, and pair up anew.
    let (four, bad) = alike(4, 2, 0.4);
    let mut last = |n: usize| n - 1;
    gandiva(&four, &bad, Parting::Mean, &mut partners, &mut last);
    assert_eq!(partners[&JobId(3)], JobId(2));
}

struct Drawn {
    problem: Problem,
    sharing: Sharing,
}

impl std::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}\n{:?}", self.problem, self.sharing)
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let kinds = (2_usize..4, 1_usize..3);
    kinds.prop_flat_map(|(kinds, types)| {
        let share = prop_oneof![1 => Just(0.0), 5 => 0.3..1.0_f64];
        let alone = prop::collection::vec(prop::collection::vec(1.0..50.0_f64, types), kinds);
        let beside = prop::collection::vec(prop::collection::vec(share, types), kinds * kinds);
        let gangs = prop::collection::vec(prop::sample::select(vec![1_u32, 1, 2]), kinds);
        let jobs = prop::collection::vec((0..kinds, 1.0..5.0_f64, 10.0..1000.0_f64, 0.0..50.0_f64), 1..8);
        let counts = prop::collection::vec(1_u32..5, types);
        (alone, beside, gangs, jobs, counts, any::<bool>()).prop_map(
            move |(alone, beside, gangs, jobs, counts, needed)| {
                let fits = |a: usize, b: usize, column: usize| {
                    gangs[a] == gangs[b]
                        && beside[a * kinds + b][column] > 0.0
                        && beside[b * kinds + a][column] > 0.0
                };
                let rates = |a: usize, b: usize| -> Rates {
                    let rate = |column: usize| {
                        if fits(a, b, column) {
                            alone[a][column] * beside[a * kinds + b][column]
                        } else {
                            0.0
                        }
                    };
                    (0..types).map(rate).collect()
                };
                let table = (0..kinds * kinds).map(|i| rates(i / kinds, i % kinds)).collect();
                let demands = jobs.iter().enumerate().map(|(i, (kind, weight, steps, since))| Demand {
                    weight: *weight,
                    since_arrival_s: *since,
                    isolated_s: 0.5 * since,
                    entity: i % 2,
                    ..demand(i as u32, gangs[*kind], &alone[*kind], *steps)
                });
                let sharing = Sharing {
                    kinds: jobs.iter().map(|job| job.0).collect(),
                    count: kinds,
                    beside: table,
                    pairs: if needed { Pairs::Needed } else { Pairs::All },
                };
                Drawn { problem: problem(&counts, demands.collect()), sharing }
            },
        )
    })
}

/// The best rise when each job's rate must be `by` times it, or the best sum of gains without it, over all pairs.
fn over_all_pairs(drawn: &Drawn, by: Option<&dyn Fn(usize) -> f64>) -> f64 {
    let Drawn { problem, sharing } = drawn;
    let mut program = LinearProgram::default();
    let rise = program.free_variable(if by.is_some() { 1.0 } else { 0.0 });
    let jobs = problem.jobs.len();
    let (mut time, mut rate) = (vec![Vec::new(); jobs], vec![Vec::new(); jobs]);
    let mut used = vec![Vec::new(); problem.pools.len()];
    for (column, used) in used.iter_mut().enumerate() {
        let price = problem.pools[column].price_per_h;
        for a in 0..jobs {
            for b in a..jobs {
                let alone = problem.jobs[a].rates[column];
                let rates = if a == b {
                    (alone, 0.0)
                } else {
                    (sharing.rate(problem, a, b, column), sharing.rate(problem, b, a, column))
                };
                if rates.0 <= 0.0 {
                    continue;
                }
                let gain = if by.is_some() { 0.0 } else { (rates.0 + rates.1) / price };
                let variable = program.variable(gain);
                used.push((variable, f64::from(problem.jobs[a].gang)));
                time[a].push((variable, 1.0));
                rate[a].push((variable, rates.0));
                if a != b {
                    time[b].push((variable, 1.0));
                    rate[b].push((variable, rates.1));
                }
            }
        }
    }
    for (job, (time, mut rate)) in time.into_iter().zip(rate).enumerate() {
        program.row(time, Sense::AtMost, 1.0);
        if let Some(by) = by {
            rate.push((rise, -by(job)));
            program.row(rate, Sense::AtLeast, 0.0);
        }
    }
    for (used, pool) in used.into_iter().zip(&problem.pools) {
        program.row(used, Sense::AtMost, f64::from(pool.gpus));
    }
    if by.is_none() {
        program.row(vec![(rise, 1.0)], Sense::Equal, 0.0);
    }
    Interior.solve(&program).expect("it has an answer").objective
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn programs_by_kinds_are_as_good_as_those_over_all_pairs(drawn in drawn()) {
        let Drawn { problem, sharing } = &drawn;
        let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
        let check = |packed: Result<PackedAllocation, Unsolved>| -> Result<PackedAllocation, TestCaseError> {
            let packed = packed.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(broken(problem, &packed) <= 1e-7, "{}", broken(problem, &packed));
            Ok(packed)
        };
        let unit = |job: usize| {
            let of = &problem.jobs[job];
            of.weight * problem.equal_rate(job, Sight::Aware) / f64::from(of.gang)
        };
        let fair = check(max_min_packed(problem, sharing))?;
        let best = over_all_pairs(&drawn, Some(&unit));
        prop_assert!(near(fair.objective, best), "max-min {} {best}", fair.objective);
        let rates = fair.rates(problem, sharing);
        let fares = (0..rates.len()).map(|job| rates[job] / unit(job)).fold(f64::INFINITY, f64::min);
        prop_assert!(near(fares, best), "the shares are worth it: {fares} {best}");
        let short = check(min_makespan_packed(problem, sharing))?;
        let best = 1.0 / over_all_pairs(&drawn, Some(&|job| problem.jobs[job].steps_left));
        prop_assert!(near(short.objective, best), "makespan {} {best}", short.objective);
        let rates = short.rates(problem, sharing);
        let ends = (0..rates.len()).map(|job| problem.jobs[job].steps_left / rates[job]).fold(0.0, f64::max);
        prop_assert!(near(ends, best), "the shares are worth it: {ends} {best}");
        let (cheap, _) = min_cost_packed(problem, sharing, CostForm::Sum).expect("it has an answer");
        let best = over_all_pairs(&drawn, None);
        prop_assert!(near(cheap.objective, best), "cost {} {best}", cheap.objective);
        check(min_cost_packed(problem, sharing, CostForm::Ratio).map(|(packed, _)| packed))?;
        let entities = [Inside::Fairness, Inside::Fifo].map(|inside| Entity { weight: 1.0, inside });
        check(hierarchical_packed(problem, &entities, sharing))?;
        let rho = check(finish_time_fairness_packed(problem, sharing))?.objective;
        let alone = finish_time_fairness(problem, Sight::Aware).expect("it has an answer").objective;
        prop_assert!(rho <= alone * (1.0 + 1e-6), "pairs may only help: {rho} {alone}");
        let without = max_min(problem, Sight::Aware).expect("it has an answer").objective;
        prop_assert!(fair.objective >= without * (1.0 - 1e-6));
    }
}
