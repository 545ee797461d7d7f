//! First in, first out, and shortest first: jobs take GPUs of one type whole, in an order, until one fits nowhere (`fifo`,
//! `fifo_perf` and `fifo_packed` in Gavel's code; shortest first is in the paper only, section 4.2).
//!
//! Where we differ: the public `fifo` draws a type and then uses another one, without looking whether it is free; this
//! `fifo_blind` uses the type that it draws. The public `fifo_packed` forgets the job that fits nowhere before it looks for
//! pairs; this one begins with it. Of equally fast types the first one is taken, there the first by name.

use super::packing::{Combination, PackedAllocation, Sharing};
use super::problem::{Problem, Shares, Sight};

/// A pair must be worth this much more than one job alone, by default, before FIFO packs it (the public code's threshold).
pub const PACKING_THRESHOLD: f64 = 1.5;

/// GPUs that are free, by pool.
struct Free<'a> {
    problem: &'a Problem,
    gpus: Vec<u32>,
}

impl<'a> Free<'a> {
    fn new(problem: &'a Problem) -> Self {
        Self { problem, gpus: problem.pools.iter().map(|pool| pool.gpus).collect() }
    }

    fn take(&mut self, job: usize, column: usize) {
        let pool = self.problem.columns[column].pool;
        self.gpus[pool] = self.gpus[pool].saturating_sub(self.problem.jobs[job].gang);
    }

    fn fits(&self, job: usize, column: usize) -> bool {
        self.problem.may_run(job, column)
            && self.gpus[self.problem.columns[column].pool] >= self.problem.jobs[job].gang
    }

    /// The free column on which a job is fastest.
    fn fastest(&self, job: usize) -> Option<usize> {
        let rates = &self.problem.jobs[job].rates;
        let fitting = (0..rates.len()).filter(|column| self.fits(job, *column));
        // Of equal ones the first, which `max_by` would not give.
        fitting.reduce(|best, column| if rates[column] > rates[best] { column } else { best })
    }
}

/// Jobs in this order, each on the fastest column that is free, until one fits nowhere. Returns what they got, and how many did.
fn greedy(problem: &Problem, order: &[usize]) -> (Vec<Option<usize>>, usize) {
    let mut free = Free::new(problem);
    let mut placed = vec![None; problem.jobs.len()];
    for (count, job) in order.iter().enumerate() {
        let Some(column) = free.fastest(*job) else { return (placed, count) };
        free.take(*job, column);
        placed[*job] = Some(column);
    }
    (placed, order.len())
}

fn whole(problem: &Problem, placed: &[Option<usize>]) -> Shares {
    let mut shares = Shares::nothing(problem.jobs.len(), problem.columns.len());
    for (job, column) in placed.iter().enumerate() {
        column.iter().for_each(|column| shares.row_mut(job)[*column] = 1.0);
    }
    shares
}

/// Jobs as they came, each on its fastest type that is free.
pub fn fifo_aware(problem: &Problem) -> Shares {
    let order: Vec<usize> = (0..problem.jobs.len()).collect();
    whole(problem, &greedy(problem, &order).0)
}

/// Jobs as they came, each on a type that is drawn among those with enough free GPUs. Jobs that run, with the columns they are on,
/// stay there. `draw(n)` is a number below `n`, each as likely as the others.
pub fn fifo_blind(
    problem: &Problem,
    running: &[Option<usize>],
    draw: &mut dyn FnMut(usize) -> usize,
) -> Shares {
    let mut free = Free::new(problem);
    let mut placed = vec![None; running.len()];
    for (job, column) in running.iter().enumerate() {
        // Where its GPUs are gone it waits like all others.
        let Some(column) = column.filter(|column| free.fits(job, *column)) else { continue };
        free.take(job, column);
        placed[job] = Some(column);
    }
    for (job, place) in placed.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
        let fitting: Vec<usize> =
            (0..problem.columns.len()).filter(|column| free.fits(job, *column)).collect();
        if fitting.is_empty() {
            break;
        }
        let column = fitting[draw(fitting.len())];
        free.take(job, column);
        *place = Some(column);
    }
    whole(problem, &placed)
}

/// Jobs in the order of the time they would still take on their fastest type, each on its fastest type that is free.
pub fn shortest_first(problem: &Problem) -> Shares {
    let left_s = |job: &usize| problem.jobs[*job].steps_left / problem.fastest(*job, Sight::Aware);
    let runs = |job: &usize| problem.fastest(*job, Sight::Aware) > 0.0;
    let mut order: Vec<usize> = (0..problem.jobs.len()).filter(runs).collect();
    order.sort_by(|a, b| left_s(a).total_cmp(&left_s(b)));
    whole(problem, &greedy(problem, &order).0)
}

/// As `fifo_aware`; then each next job joins the placed one with which it is worth most, if that is more than a threshold,
/// and the first that finds none ends it.
pub fn fifo_packed(problem: &Problem, sharing: &Sharing, threshold: f64) -> PackedAllocation {
    let order: Vec<usize> = (0..problem.jobs.len()).collect();
    let (placed, count) = greedy(problem, &order);
    let mut partner: Vec<Option<usize>> = vec![None; problem.jobs.len()];
    for job in count..problem.jobs.len() {
        let mut best: Option<(usize, f64)> = None;
        for other in (0..count).filter(|other| partner[*other].is_none()) {
            let Some(column) = placed[other] else { continue };
            let worth = sharing.worth(problem, (other, job), column);
            if worth > best.map_or(threshold, |(_, most)| most) {
                best = Some((other, worth));
            }
        }
        let Some((other, _)) = best else { break };
        partner[other] = Some(job);
    }
    let mut packed = PackedAllocation::default();
    let mut rows = Vec::new();
    for job in 0..count {
        let Some(column) = placed[job] else { continue };
        packed
            .combinations
            .push(partner[job].map_or(Combination::Alone(job), |other| Combination::Pair(job, other)));
        rows.extend((0..problem.columns.len()).map(|c| f64::from(u8::from(c == column))));
    }
    packed.shares = Shares::from_rows(problem.columns.len(), rows);
    packed
}
