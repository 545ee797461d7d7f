//! How long Gavel's allocations take, in one thread. `cargo bench -p trainyard-sched --bench gavel`.
//!
//! Goals: max-min fairness of 2,048 jobs on 512 GPUs of each of three types in 10 ms, of 60 jobs in well under 0.2 ms,
//! finish-time fairness of 1,024 jobs in 300 ms, and max-min fairness with pairs of 512 jobs in 2 s. `entities` with 1,024
//! jobs takes minutes; see `hierarchical`. `general` is the first program by the general solver, to compare with.

use divan::Bencher;
use divan::black_box;
use trainyard_sched::model::{JobId, Seed};
use trainyard_sched::policies::gavel::allocation::{
    Demand, Entity, Inside, Pairs, Pool, Problem, Rates, Sharing, Sight, allox, finish_time_fairness,
    hierarchical, max_min, max_min_packed, max_sum, min_makespan, proportional, strategy_proof,
};
use trainyard_sched::solve::blocks::{BlockProgram, Level, Link, solve};
use trainyard_sched::solve::{Interior, Solver};

fn main() {
    divan::main();
}

const KINDS: usize = 26;

/// Uniform numbers between 0 and 1.
struct Draw(Seed, u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.1 += 1;
        (self.0.numbered(self.1).0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Kinds with rates of two orders of magnitude, faster on the first type by one to four times than on the others.
fn rates() -> Vec<[f64; 3]> {
    let mut draw = Draw(Seed(3), 0);
    let mut kind = || {
        let size = 0.5 + 100.0 * draw.next() * draw.next();
        [size * (1.0 + 3.0 * draw.next()), size * (0.8 + draw.next()), size * (0.2 + 0.3 * draw.next())]
    };
    (0..KINDS).map(|_| kind()).collect()
}

/// As many GPUs as a quarter of the jobs, of each type. A fifth of the jobs weigh five times as much.
fn problem(jobs: u32, is_single: bool) -> (Problem, Vec<usize>) {
    let rates = rates();
    let mut draw = Draw(Seed(7), 0);
    let mut kinds = Vec::new();
    let demand = |id: u32| {
        let kind = (draw.next() * KINDS as f64) as usize;
        kinds.push(kind);
        let size = if is_single { 0.0 } else { draw.next() };
        let gang = if size < 0.7 {
            1
        } else if size < 0.8 {
            2
        } else if size < 0.95 {
            4
        } else {
            8
        };
        Demand {
            id: JobId(id),
            gang,
            weight: if draw.next() < 0.2 { 5.0 } else { 1.0 },
            rates: rates[kind].iter().map(|rate| rate * f64::from(gang)).collect(),
            steps_left: 1e4 * (1.0 + 1e3 * draw.next()),
            since_arrival_s: 1e4 * draw.next(),
            isolated_s: 3e3 * draw.next(),
            entity: 0,
            deadline_s: None,
        }
    };
    let jobs: Vec<Demand> = (0..jobs).map(demand).collect();
    let pool = Pool { gpus: (jobs.len() as u32).div_ceil(4), price_per_h: 1.0 };
    (Problem::new(vec![pool; 3], jobs), kinds)
}

#[divan::bench(args = [60, 512, 2048])]
fn max_min_aware(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| max_min(black_box(&problem), Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 512, 2048])]
fn general(bencher: Bencher<'_, '_>, jobs: u32) {
    let program = as_blocks(jobs).as_linear().expect("it is linear");
    bencher.bench(|| Interior.solve(black_box(&program)).expect("it has an answer"));
}

#[divan::bench(args = [60, 512, 2048])]
fn blocks(bencher: Bencher<'_, '_>, jobs: u32) {
    let program = as_blocks(jobs);
    bencher.bench(|| solve(black_box(&program)).expect("it has an answer"));
}

fn as_blocks(jobs: u32) -> BlockProgram {
    let (problem, _) = problem(jobs, false);
    let links = problem.pools.iter().map(|pool| Link::AtMost(f64::from(pool.gpus))).collect();
    let mut program = BlockProgram::new(links, 1.0);
    for (job, demand) in problem.jobs.iter().enumerate() {
        for (pool, rate) in demand.rates.iter().enumerate() {
            program.variable(0.0, *rate, [(pool, f64::from(demand.gang))]);
        }
        let by = demand.weight * problem.equal_rate(job, Sight::Aware) / f64::from(demand.gang);
        program.end_block(1.0, Level::Rising { least: 0.0, by });
    }
    program
}

#[divan::bench(args = [60, 1024])]
fn finish_time(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| finish_time_fairness(black_box(&problem), Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 1024])]
fn makespan(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| min_makespan(black_box(&problem), Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 1024])]
fn sum(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| max_sum(black_box(&problem)).expect("it has an answer"));
}

#[divan::bench(args = [60, 256, 1024, 2048], sample_count = 3)]
fn water(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    let entity = [Entity { weight: 1.0, inside: Inside::Fairness }];
    bencher.bench(|| hierarchical(black_box(&problem), &entity, Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 1024])]
fn products(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| proportional(black_box(&problem), Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 256, 1024, 2048], sample_count = 5)]
fn assignment(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, true);
    let running = vec![None; problem.jobs.len()];
    bencher.bench(|| allox(black_box(&problem), &running, 1.0));
}

/// With few GPUs for many jobs the assignment has many places on each.
#[divan::bench(args = [256, 1024], sample_count = 3)]
fn assignment_to_few(bencher: Bencher<'_, '_>, jobs: u32) {
    let (mut problem, _) = problem(jobs, true);
    problem.pools.iter_mut().for_each(|pool| pool.gpus = 8);
    let running = vec![None; problem.jobs.len()];
    bencher.bench(|| allox(black_box(&problem), &running, 1.0));
}

/// Eight entities of which each second one takes its jobs in turn.
#[divan::bench(args = [60, 256, 1024, 2048], sample_count = 3)]
fn entities(bencher: Bencher<'_, '_>, jobs: u32) {
    let (mut problem, _) = problem(jobs, false);
    problem.jobs.iter_mut().enumerate().for_each(|(i, job)| job.entity = i % 8);
    let inside = [Inside::Fairness, Inside::Fifo];
    let entities: Vec<Entity> =
        (0..8_u32).map(|i| Entity { weight: f64::from(i + 1), inside: inside[i as usize % 2] }).collect();
    bencher.bench(|| hierarchical(black_box(&problem), &entities, Sight::Aware).expect("it has an answer"));
}

#[divan::bench(args = [60, 256, 1024, 2048], sample_count = 3)]
fn honest(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, _) = problem(jobs, false);
    bencher.bench(|| strategy_proof(black_box(&problem), Sight::Aware).expect("it has an answer"));
}

fn sharing(kinds: Vec<usize>, pairs: Pairs) -> Sharing {
    let rates = rates();
    let mut draw = Draw(Seed(9), 0);
    let mut beside =
        |kind: usize| -> Rates { rates[kind].iter().map(|rate| rate * (0.35 + 0.6 * draw.next())).collect() };
    let beside = (0..KINDS * KINDS).map(|i| beside(i / KINDS)).collect();
    Sharing { kinds, count: KINDS, beside, pairs }
}

#[divan::bench(args = [30, 512], sample_count = 5)]
fn all_pairs(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, kinds) = problem(jobs, true);
    let sharing = sharing(kinds, Pairs::All);
    bencher.bench(|| max_min_packed(black_box(&problem), &sharing).expect("it has an answer"));
}

#[divan::bench(args = [30, 512], sample_count = 5)]
fn needed_pairs(bencher: Bencher<'_, '_>, jobs: u32) {
    let (problem, kinds) = problem(jobs, true);
    let sharing = sharing(kinds, Pairs::Needed);
    bencher.bench(|| max_min_packed(black_box(&problem), &sharing).expect("it has an answer"));
}
