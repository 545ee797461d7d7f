//! What is said of each job: what it is owed and had, and when the next round begins.

use crate::decide::{Reason, Verdict};

use super::allocation::ALLOX_GPUS;
use super::members::Part;
use super::rounds::{Now, Picks};
use super::{Gavel, Goal};

impl Gavel {
    /// Says of everybody what changed.
    pub(super) fn speak(&mut self, now: &Now<'_>, picks: &Picks) {
        for i in 0..picks.len() {
            let (id, view) = (self.members.all[i].id, now.views[i]);
            let target = self.plan.target(id);
            let (runs, had) = (target.is_some(), view.target.is_some());
            let is_as_before = !had && !runs || target == Some(&view.target);
            if is_as_before && !self.unsaid.contains(&id) {
                continue;
            }
            let verdict = match (runs, had) {
                (true, true) if is_as_before => Verdict::Run(Reason::Kept),
                (true, _) => Verdict::Run(self.why(i, now, true)),
                (false, true) => Verdict::Yield(self.why(i, now, false)),
                (false, false) => Verdict::Wait(self.why(i, now, false)),
            };
            self.plan.say(id, verdict);
        }
        self.unsaid.clear();
    }

    /// Why a member runs or not in a round that has just begun.
    pub(super) fn why(&mut self, i: usize, now: &Now<'_>, runs: bool) -> Reason {
        let member = &self.members.all[i];
        let job = &now.views[i].job;
        if let Some(reason) = self.owed_nothing(i) {
            return if runs { Reason::Chosen } else { reason };
        }
        match member.part {
            Part::Never(reason) => return reason,
            Part::Bound => return Reason::Kept,
            Part::Apart if runs => return Reason::Chosen,
            Part::Apart => {
                let backs_off = self.plan.backs_off(job, self.rounds.placement);
                let room = || Reason::NoCapacity(self.plan.no_room(job));
                return backs_off.map_or_else(room, |until| Reason::Backoff { until });
            }
            Part::Gang => {}
        }
        if !member.is_owed() {
            return if runs { Reason::Chosen } else { Reason::NextRound { starts: self.next_shares(now) } };
        }
        let passed = now.at.since(self.round.reset).as_secs_f64();
        let (share, had_s) = self.owed_and_had(i, now);
        let had = if passed > 0.0 { had_s / passed } else { 0.0 };
        let unsolved = self.round.unsolved;
        if runs {
            Reason::OwedTime { share, had, unsolved }
        } else {
            Reason::TimeHad { share, had, unsolved }
        }
    }

    /// Why nothing is ever owed to a member, if so.
    fn owed_nothing(&self, i: usize) -> Option<Reason> {
        let member = &self.members.all[i];
        let gpus = member.gang();
        let is_left_out = matches!(self.goal, Goal::Allox { .. }) && member.is_gang() && gpus > ALLOX_GPUS;
        is_left_out.then_some(Reason::OwedNothing { gpus, most: ALLOX_GPUS })
    }

    /// The share of time that a member is owed, alone and beside others, and the seconds that it had since that was worked out.
    fn owed_and_had(&self, i: usize, now: &Now<'_>) -> (f64, f64) {
        let columns = self.members.columns.len();
        let of = |holder: usize, account: usize| {
            let memory = &self.members.all[holder].memory;
            let had = (0..columns).map(|column| memory.had_s(account, column, now.executed[holder]));
            (memory.accounts[account].shares.iter().sum::<f64>(), had.sum::<f64>())
        };
        let own = (0..self.members.all[i].memory.accounts.len()).map(|account| (i, account));
        // Pairs are booked by the job that came first.
        let id = self.members.all[i].id;
        let all = self.members.all.iter().enumerate().filter(|_| self.packs());
        let beside = all.flat_map(|(holder, member)| {
            let accounts = member.memory.accounts.iter().enumerate();
            accounts.filter(|(_, own)| own.partner == Some(id)).map(move |(account, _)| (holder, account))
        });
        own.chain(beside)
            .map(|(holder, account)| of(holder, account))
            .fold((0.0, 0.0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// What is to be said of a member inside a round.
    pub(super) fn verdict(&mut self, i: usize, now: &Now<'_>) -> Verdict {
        let id = self.members.all[i].id;
        let had = now.views[i].target.is_some();
        match self.plan.target(id) {
            Some(target) if *target == now.views[i].target => Verdict::Run(Reason::Kept),
            Some(_) => Verdict::Run(self.why(i, now, true)),
            None if had => Verdict::Yield(Reason::NextRound { starts: self.round.ends }),
            None => match self.members.all[i].part {
                Part::Gang | Part::Bound => {
                    let next = || Reason::NextRound { starts: self.round.ends };
                    Verdict::Wait(self.owed_nothing(i).unwrap_or_else(next))
                }
                Part::Apart | Part::Never(_) => Verdict::Wait(self.why(i, now, false)),
            },
        }
    }
}
