//! When shares of time are worked out anew, of what, and what that makes of the accounts.

use crate::model::{GPU, Span, Time};
use crate::view::{JobView, Snapshot};

use super::Gavel;
use super::allocation::{Demand, Pool, Problem, Shares};
use super::greedy;
use super::members::{Member, Part, gpus_of};
use super::notes::{Account, Row};
use super::parameters::Objective;
use super::rounds::{Now, iterations_left};

/// What a job whose length nobody knows is taken to have left, in seconds, if nothing is known of others either.
const UNKNOWN_S: f64 = 3600.0;

/// An equal part of the cluster for each job (Gavel's `isolated`): `N_j / (M s_m)` of each type, at most all of the time.
pub(super) fn equal_parts(problem: &Problem) -> Shares {
    let columns = problem.columns.len();
    let jobs = problem.jobs.len();
    let mut shares = Shares::nothing(jobs, columns);
    for (m, job) in problem.jobs.iter().enumerate() {
        let row = shares.row_mut(m);
        for (c, share) in row.iter_mut().enumerate().filter(|(c, _)| !problem.columns[*c].is_spread) {
            *share = problem.gpus_of(c) / (jobs as f64 * f64::from(job.gang));
        }
        let sum = row.iter().sum::<f64>().max(1.0);
        row.iter_mut().for_each(|share| *share /= sum);
    }
    shares
}

/// A fingerprint of numbers (FNV-1a over 64 bits).
fn fingerprint(numbers: &[u64]) -> u64 {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Gavel {
    /// GPUs of each type that shares are shares of: all but those of jobs that keep what they have.
    fn shared_gpus(&self, seen: &Snapshot, now: &Now<'_>) -> Vec<u64> {
        let types = 0..seen.cluster.gpu_types.len();
        let mut gpus: Vec<u64> = types.map(|pool| gpus_of(&seen.cluster, pool) * GPU).collect();
        for (member, view) in self.members.all.iter().zip(&now.views) {
            if matches!(member.part, Part::Gang | Part::Never(_)) {
                continue;
            }
            for p in self.plan.target(member.id).unwrap_or(&view.target).placements() {
                if let Some(gpu_type) = seen.cluster.node(p.node).gpu_type {
                    let pool = &mut gpus[gpu_type.index()];
                    *pool = pool.saturating_sub(p.gpus.milli());
                }
            }
        }
        gpus
    }

    /// Works out shares anew if anything changed and enough time has passed.
    pub(super) fn recompute_if_due(&mut self, seen: &Snapshot, now: &Now<'_>) {
        let gpus = self.shared_gpus(seen, now);
        let print = fingerprint(&gpus);
        let gangs = || self.members.all.iter().filter(|member| member.is_gang());
        let owed = gangs().filter(|member| member.is_owed()).count() as u32;
        let is_new = gangs().any(|member| !member.is_owed());
        let changed = is_new || owed != self.round.owed || print != self.round.pools;
        let gap = Span::from_secs_f64(self.rounds.recompute_s);
        let passed = now.at.since(self.round.reset);
        if !changed || (self.round.reset != Time::ZERO && passed < gap) {
            return;
        }
        let mut order: Vec<usize> =
            (0..self.members.all.len()).filter(|i| self.members.all[*i].is_gang()).collect();
        order.sort_by_key(|i| {
            let view = now.views[*i];
            (self.members.all[*i].class, view.job.submitted, view.id())
        });
        let problem = self.problem(now, &order, &gpus);
        let rows = if problem.jobs.is_empty() { Vec::new() } else { self.work_out(seen, &order, &problem) };
        self.credit(now, passed);
        let equal = equal_parts(&problem);
        for (m, i) in order.iter().enumerate() {
            self.owe(*i, rows[m].clone(), now);
            let memory = &mut self.members.all[*i].memory;
            memory.isolated_per_s = equal.rate(m, &problem.jobs[m].rates);
        }
        let columns = self.members.columns.len();
        for i in &order {
            let member = &mut self.members.all[*i];
            self.plan.note(member.id, member.memory.to_note(columns));
        }
        self.round.reset = now.at;
        self.round.owed = order.len() as u32;
        self.round.pools = print;
    }

    /// What members were owed and did not get becomes a deficit, and what they had is forgotten.
    fn credit(&mut self, now: &Now<'_>, passed: Span) {
        let passed_s = passed.as_secs_f64();
        for (i, member) in self.members.all.iter_mut().enumerate() {
            if !member.is_owed() {
                continue;
            }
            let memory = &mut member.memory;
            memory.book(now.executed[i], memory.on);
            for account in &mut memory.accounts {
                for c in 0..account.shares.len() {
                    account.deficits[c] += account.shares[c] * passed_s - account.had_s[c];
                    account.had_s[c] = 0.0;
                }
            }
        }
    }

    /// Writes down what a member is owed from now on.
    fn owe(&mut self, i: usize, shares: Row, now: &Now<'_>) {
        let member = &mut self.members.all[i];
        let memory = &mut member.memory;
        let iterations = now.views[i].iterations(now.at);
        if memory.isolated_per_s > 0.0 {
            memory.isolated_s += (iterations - memory.iterations).max(0.0) / memory.isolated_per_s;
        }
        memory.iterations = iterations;
        match memory.accounts.first_mut() {
            Some(alone) => alone.shares = shares,
            None => {
                memory.accounts.push(Account::new(None, shares));
                memory.executed = now.executed[i];
                memory.on = member.on.map(|column| (0, column));
            }
        }
    }

    /// The jobs of the problem in their order, and the GPUs.
    fn problem(&self, now: &Now<'_>, order: &[usize], gpus: &[u64]) -> Problem {
        let pools = gpus
            .iter()
            .enumerate()
            .map(|(pool, milli)| Pool { gpus: (milli / GPU) as u32, price_per_h: self.prices[pool] });
        let pools: Vec<Pool> = pools.collect();
        let usual = self.usual_length_s(now, order);
        let demand = |i: &usize| {
            let (member, view) = (&self.members.all[*i], now.views[*i]);
            let fits = |c: usize| u64::from(member.gang()) * GPU <= gpus[self.members.columns[c].pool];
            let rates = member.per_s.iter().enumerate().map(|(c, per_s)| if fits(c) { *per_s } else { 0.0 });
            let fastest = member.per_s.iter().copied().fold(0.0, f64::max);
            let memory = &member.memory;
            let since = (view.iterations(now.at) - memory.iterations).max(0.0);
            let since_s = if memory.isolated_per_s > 0.0 { since / memory.isolated_per_s } else { 0.0 };
            Demand {
                id: member.id,
                gang: member.gang(),
                weight: view.job.goals.weight.max(LEAST_WEIGHT),
                rates: rates.collect(),
                steps_left: self.steps_left(view, now.at, fastest).unwrap_or(usual * fastest),
                since_arrival_s: now.at.since(view.served.arrived).as_secs_f64(),
                isolated_s: memory.isolated_s + since_s,
                entity: view.job.tenant.index(),
                deadline_s: view.job.goals.deadline.map(|deadline| deadline.since(now.at).as_secs_f64()),
            }
        };
        Problem { pools, columns: self.members.columns.clone(), jobs: order.iter().map(demand).collect() }
    }

    /// Iterations that a job has left, or what its time limit leaves at its best speed. At least one.
    fn steps_left(&self, view: &JobView, at: Time, fastest: f64) -> Option<f64> {
        let limit = || Some(view.declared_remaining(at)?.as_secs_f64() * fastest);
        iterations_left(view, at).or_else(limit).map(|left| left.max(1.0))
    }

    /// The mean time that jobs which say so have left at their best speed.
    fn usual_length_s(&self, now: &Now<'_>, order: &[usize]) -> f64 {
        let length = |i: &usize| {
            let fastest = self.members.all[*i].per_s.iter().copied().fold(0.0, f64::max);
            self.steps_left(now.views[*i], now.at, fastest).map(|left| left / fastest)
        };
        let (sum, count) = order.iter().filter_map(length).fold((0.0, 0), |(s, n), each| (s + each, n + 1));
        if count == 0 { UNKNOWN_S } else { sum / f64::from(count) }
    }

    /// The shares by the objective, a row for each job of the problem.
    fn work_out(&self, seen: &Snapshot, order: &[usize], problem: &Problem) -> Vec<Row> {
        let on = |i: &usize| -> Option<usize> {
            let member: &Member = &self.members.all[*i];
            member.on
        };
        let rows =
            |shares: &Shares| (0..problem.jobs.len()).map(|m| Row::from_slice(shares.row(m))).collect();
        match self.objective {
            Objective::Isolated => rows(&equal_parts(problem)),
            Objective::Fifo if self.is_blind() => {
                let on: Vec<Option<usize>> = order.iter().map(on).collect();
                rows(&greedy::anywhere(problem, &on, seen.seed.branch("gavel fifo")))
            }
            Objective::Fifo => rows(&greedy::in_order(problem, 0..problem.jobs.len())),
            Objective::ShortestJobFirst => rows(&greedy::in_order(problem, greedy::by_length(problem))),
            Objective::MaxMinFairness => rows(&equal_parts(problem)),
        }
    }
}

/// A weight of 0 would be divided by.
const LEAST_WEIGHT: f64 = 1e-3;
