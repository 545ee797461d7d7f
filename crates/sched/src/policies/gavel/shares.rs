//! When shares of time are worked out anew, of what, and what that makes of the accounts.

use crate::model::{GPU, GpuTypeId, JobId, Span, TenantId, Time};
use crate::solve::Unsolved;
use crate::view::{JobView, Snapshot};

use super::allocation::{
    Column, CostForm, Demand, Entity, Inside, PACKING_THRESHOLD, Pool, Problem, Rates, Shares, Sight, allox,
    bisected_makespan, fifo_aware, fifo_blind, fifo_packed, finish_time_fairness,
    finish_time_fairness_packed, hierarchical, hierarchical_packed, isolated, max_min, max_min_packed,
    max_sum, min_cost, min_cost_packed, min_makespan, min_makespan_packed, proportional, shortest_first,
    strategy_proof,
};
use super::answer::{Answer, trimmed};
use super::members::{Part, gpus_of};
use super::notes::{Account, Row};
use super::pairs::drawing;
use super::parameters::{Money, Objective, Parameters, Search, Within};
use super::rounds::{Now, iterations_left};
use super::{Gavel, Goal};

/// What a job whose length nobody knows is taken to have left, in seconds, if nothing is known of others either.
const UNKNOWN_S: f64 = 3600.0;

/// A fingerprint of numbers (FNV-1a over 64 bits).
pub(super) fn fingerprint(numbers: &[u64]) -> u64 {
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

    /// Works out shares anew if anything changed and enough time has passed. Returns whether they are those of what there is now.
    pub(super) fn recompute_if_due(&mut self, seen: &Snapshot, now: &Now<'_>) -> bool {
        let gpus = self.shared_gpus(seen, now);
        let print = fingerprint(&gpus);
        let gangs = || self.members.all.iter().filter(|member| member.is_gang());
        let owed = gangs().filter(|member| member.is_owed()).count() as u32;
        let is_new = gangs().any(|member| !member.is_owed());
        let changed = is_new || owed != self.round.owed || print != self.round.pools;
        let gap = Span::from_secs_f64(self.rounds.recompute_s);
        let passed = now.at.since(self.round.reset);
        if !changed || (self.round.reset != Time::ZERO && passed < gap) {
            return !changed;
        }
        let mut order: Vec<usize> =
            (0..self.members.all.len()).filter(|i| self.members.all[*i].is_gang()).collect();
        order.sort_by_key(|i| {
            let view = now.views[*i];
            (self.members.all[*i].class, view.job.submitted, view.id())
        });
        let problem = self.problem(now, &order, &gpus);
        let is_empty = problem.jobs.is_empty();
        let answer = (!is_empty).then(|| (self.work_out)(self, seen, now, &order, &problem));
        self.round.unsolved = matches!(answer, Some(Err(_)));
        // As coded, whoever cannot solve it shares equally; what is said of jobs says so.
        let answer = answer.map(|answer| answer.unwrap_or_else(|_| Answer::Alone(isolated(&problem))));
        let mut rows = answer.map_or_else(Vec::new, |answer| answer.rows(&problem));
        self.credit(now, passed);
        let sight = self.sight(seen);
        for (m, i) in order.iter().enumerate() {
            let mut rows = std::mem::take(&mut rows[m]);
            for (partner, row) in &mut rows {
                // Where two do not fit together nothing is owed to both.
                let Some(other) = partner.and_then(|partner| self.members.find(partner)) else { continue };
                let unfit = |c: &usize| !self.fits_beside(now, (*i, other), *c);
                (0..row.len()).filter(unfit).for_each(|c| row[c] = 0.0);
            }
            self.owe(*i, rows, now);
            self.members.all[*i].memory.isolated_per_s = problem.isolated_rate(m, sight);
        }
        let columns = self.members.columns.len();
        for i in &order {
            let member = &mut self.members.all[*i];
            let note = member.memory.to_note(columns);
            if note != now.views[*i].note {
                self.plan.note(member.id, note);
            }
        }
        self.round.reset = now.at;
        self.round.owed = order.len() as u32;
        self.round.pools = print;
        true
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

    /// Writes down what a member is owed from now on, alone and beside others.
    fn owe(&mut self, i: usize, rows: Vec<(Option<JobId>, Row)>, now: &Now<'_>) {
        let member = &mut self.members.all[i];
        let memory = &mut member.memory;
        let iterations = now.views[i].iterations(now.at);
        if memory.isolated_per_s > 0.0 {
            memory.isolated_s += (iterations - memory.iterations).max(0.0) / memory.isolated_per_s;
        }
        memory.iterations = iterations;
        let ran_for =
            memory.on.and_then(|(account, column)| Some((memory.accounts.get(account)?.partner, column)));
        let before = std::mem::take(&mut memory.accounts);
        let account = |(partner, mut shares): (Option<JobId>, Row)| {
            // Where it does not fit nothing is owed.
            shares
                .iter_mut()
                .zip(&member.per_s)
                .filter(|(_, per_s)| **per_s == 0.0)
                .for_each(|(x, _)| *x = 0.0);
            let known = before.iter().find(|account| account.partner == partner).cloned();
            let new = || Account::new(partner, Row::from_elem(0.0, shares.len()));
            Account { shares: shares.clone(), ..known.unwrap_or_else(new) }
        };
        memory.accounts = rows.into_iter().map(account).collect();
        // It runs on for the same account as before, or else for its own; who shares the GPUs of a pair does not book.
        let place = |partner| memory.accounts.iter().position(|account| account.partner == partner);
        let on = match ran_for {
            Some((partner, column)) => place(partner).map(|account| (account, column)),
            None if before.is_empty() && !member.is_halved => member.on.map(|column| (0, column)),
            None => None,
        };
        memory.executed = now.executed[i];
        memory.on = on;
    }

    /// The jobs of the problem in their order, and the GPUs.
    fn problem(&self, now: &Now<'_>, order: &[usize], gpus: &[u64]) -> Problem {
        let pools = gpus
            .iter()
            .enumerate()
            .map(|(pool, milli)| Pool { gpus: (milli / GPU) as u32, price_per_h: self.prices[pool] });
        let pools: Vec<Pool> = pools.collect();
        let usual = self.usual_length_s(now, order);
        let (by_tenant, deadlines) = match self.goal {
            Goal::Objective(given) => (given.objective == Objective::Hierarchical, given.deadlines),
            Goal::Allox { .. } | Goal::Gandiva(_) => (false, false),
        };
        let demand = |i: &usize| {
            let (member, view) = (&self.members.all[*i], now.views[*i]);
            let fits = |c: usize| u64::from(member.gang()) * GPU <= gpus[self.members.columns[c].pool];
            let rates = member.per_s.iter().enumerate().map(|(c, per_s)| if fits(c) { *per_s } else { 0.0 });
            let rates: Rates = rates.collect();
            let fastest = member.per_s.iter().copied().fold(0.0, f64::max);
            let reach = rates.iter().copied().fold(0.0, f64::max);
            let memory = &member.memory;
            let since = (view.iterations(now.at) - memory.iterations).max(0.0);
            let since_s = if memory.isolated_per_s > 0.0 { since / memory.isolated_per_s } else { 0.0 };
            Demand {
                id: member.id,
                gang: member.gang(),
                weight: view.job.goals.weight.max(LEAST_WEIGHT),
                rates,
                steps_left: self.steps_left(view, now.at, fastest).unwrap_or(usual * fastest),
                since_arrival_s: now.at.since(view.served.arrived).as_secs_f64(),
                isolated_s: memory.isolated_s + since_s,
                entity: if by_tenant { view.job.tenant.index() } else { 0 },
                deadline_s: deadlines.then(|| self.deadline_s(view, now.at, reach, true)).flatten(),
            }
        };
        Problem { pools, columns: self.members.columns.clone(), jobs: order.iter().map(demand).collect() }
    }

    /// Iterations that a job has left, or what its time limit leaves at its best speed. At least one.
    pub(super) fn steps_left(&self, view: &JobView, at: Time, fastest: f64) -> Option<f64> {
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

    /// The shares of the jobs of the problem.
    pub(super) fn work_out(
        &self,
        seen: &Snapshot,
        now: &Now<'_>,
        order: &[usize],
        problem: &Problem,
    ) -> Result<Answer, Unsolved> {
        match self.goal {
            Goal::Objective(given) if given.packed => self.packed(seen, now, order, problem, given),
            Goal::Objective(given) => self.objective(seen, now, order, problem, given).map(Answer::Alone),
            Goal::Allox { alpha } => Ok(Answer::Alone(allox(problem, &self.placed(order), alpha))),
            Goal::Gandiva(parting) => Ok(self.gandiva(seen, now, order, problem, parting)),
        }
    }

    fn objective(
        &self,
        seen: &Snapshot,
        now: &Now<'_>,
        order: &[usize],
        problem: &Problem,
        given: Parameters,
    ) -> Result<Shares, Unsolved> {
        let sight = self.sight(seen);
        let solved = match given.objective {
            Objective::Isolated => return Ok(isolated(problem)),
            Objective::Fifo if given.aware => {
                return Ok(fifo_aware(&self.without_passed(problem)));
            }
            Objective::Fifo => {
                let mut draw = drawing(seen.seed.branch("gavel fifo"));
                return Ok(fifo_blind(problem, &self.placed(order), &mut draw));
            }
            Objective::ShortestJobFirst => return Ok(shortest_first(problem)),
            Objective::MaxMinFairness => max_min(problem, sight),
            Objective::FinishTimeFairness => finish_time_fairness(problem, sight),
            Objective::Makespan => match given.makespan {
                Search::Exact => min_makespan(problem, sight).map(|best| trimmed(problem, best, sight)),
                Search::AsCoded => bisected_makespan(problem, sight),
            },
            Objective::Throughput => max_sum(problem),
            Objective::Cost => self.keeping_deadlines(now, order, problem, |problem| {
                min_cost(problem, form(given)).map(|best| (best.allocation, best.meets_deadlines))
            }),
            Objective::WaterFilling | Objective::Hierarchical => {
                hierarchical(problem, &entities(seen, given), sight)
            }
            Objective::Proportional => proportional(problem, sight),
            Objective::StrategyProof => strategy_proof(problem, sight),
        };
        solved.map(|allocation| allocation.shares)
    }

    fn packed(
        &self,
        seen: &Snapshot,
        now: &Now<'_>,
        order: &[usize],
        problem: &Problem,
        given: Parameters,
    ) -> Result<Answer, Unsolved> {
        let sharing = self.sharing(now, order);
        let packed = match given.objective {
            Objective::Fifo => Ok(fifo_packed(&self.without_passed(problem), &sharing, PACKING_THRESHOLD)),
            Objective::MaxMinFairness => max_min_packed(problem, &sharing),
            Objective::FinishTimeFairness => finish_time_fairness_packed(problem, &sharing),
            Objective::Makespan => min_makespan_packed(problem, &sharing),
            Objective::Cost => self.keeping_deadlines(now, order, problem, |problem| {
                min_cost_packed(problem, &sharing, form(given))
            }),
            Objective::WaterFilling | Objective::Hierarchical => {
                hierarchical_packed(problem, &entities(seen, given), &sharing)
            }
            // Nobody has said how these would pack.
            Objective::Throughput
            | Objective::Proportional
            | Objective::StrategyProof
            | Objective::ShortestJobFirst
            | Objective::Isolated => {
                return self.objective(seen, now, order, problem, given).map(Answer::Alone);
            }
        };
        packed.map(Answer::Packed)
    }

    /// The problem, as coded: where all that is left to a job in its turn are GPUs on which it does not fit, it is passed
    /// by. Here it is taken to be done, and so asks for nothing.
    fn without_passed(&self, problem: &Problem) -> Problem {
        let mut problem = problem.clone();
        if !self.rounds.pass_unfit {
            return problem;
        }
        let mut free: Vec<u32> = problem.pools.iter().map(|pool| pool.gpus).collect();
        for job in &mut problem.jobs {
            let has_room = |c: &usize| free[problem.columns[*c].pool] >= job.gang;
            let columns: Vec<usize> = (0..problem.columns.len()).filter(has_room).collect();
            let best = columns.iter().copied().reduce(|a, b| if job.rates[b] > job.rates[a] { b } else { a });
            match best {
                None => break,
                Some(best) if job.rates[best] > 0.0 => free[problem.columns[best].pool] -= job.gang,
                Some(best) => {
                    job.gang = 0;
                    job.rates.fill(0.0);
                    job.rates[best] = f64::MIN_POSITIVE;
                }
            }
        }
        problem
    }

    /// The columns that jobs were given whole when shares were worked out last.
    fn placed(&self, order: &[usize]) -> Vec<Option<usize>> {
        let whole = |i: &usize| {
            let account = self.members.all[*i].memory.accounts.first()?;
            account.shares.iter().position(|share| *share == 1.0)
        };
        order.iter().map(whole).collect()
    }

    /// Whether types are told apart, and by the rates of which type all are judged if not.
    fn sight(&self, seen: &Snapshot) -> Sight {
        if !matches!(self.goal, Goal::Objective(Parameters { aware: false, .. })) {
            return Sight::Aware;
        }
        let reference = seen.cluster.gpu_type(REFERENCE_TYPE).map_or(0, GpuTypeId::index);
        let of_type = |column: &Column| column.pool == reference;
        Sight::Blind { reference: self.members.columns.iter().position(of_type).unwrap_or(0) }
    }
}

fn form(given: Parameters) -> CostForm {
    match given.cost {
        Money::Ratio => CostForm::Ratio,
        Money::AsCoded => CostForm::Sum,
    }
}

/// The tenants, or all jobs as one.
fn entities(seen: &Snapshot, given: Parameters) -> Vec<Entity> {
    if given.objective != Objective::Hierarchical {
        return vec![Entity { weight: 1.0, inside: Inside::Fairness }];
    }
    let inside = match given.within {
        Within::Fairness => Inside::Fairness,
        Within::Fifo => Inside::Fifo,
    };
    // A tenant of which nothing is known has the usual weight.
    let known = seen.jobs().map(|view| view.job.tenant.index() + 1).max().unwrap_or(0);
    let weight = |i: usize| seen.tenants.get(TenantId(i as u32)).map_or(1.0, |tenant| tenant.weight.0);
    (0..known.max(seen.tenants.len()))
        .map(|i| Entity { weight: weight(i).max(LEAST_WEIGHT), inside })
        .collect()
}

/// The type by whose rates all are judged that are not told apart, if there is one of this name, as coded; else the first.
const REFERENCE_TYPE: &str = "v100";
/// A weight of 0 would be divided by.
const LEAST_WEIGHT: f64 = 1e-3;
