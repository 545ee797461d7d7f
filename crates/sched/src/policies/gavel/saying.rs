//! What is said of each job: what it is owed and had, and when the next round begins.

use crate::decide::{Reason, Verdict};

use super::Gavel;
use super::members::Part;
use super::notes::Account;
use super::rounds::{Now, Picks};

impl Gavel {
    /// Says of everybody what changed.
    pub(super) fn speak(&mut self, now: &Now<'_>, picks: &Picks) {
        for i in 0..picks.len() {
            let (id, view) = (self.members.all[i].id, now.views[i]);
            let runs = self.plan.target(id).is_some();
            let had = view.target.is_some();
            if !runs && !had && !self.unsaid.contains(&id) {
                continue;
            }
            let verdict = match (runs, had) {
                (true, true) if *self.plan.target(id).expect("it runs") == view.target => {
                    if !self.unsaid.contains(&id) {
                        continue;
                    }
                    Verdict::Run(Reason::Kept)
                }
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
        let account = |account: &Account| account.shares.iter().sum::<f64>();
        let share = member.memory.accounts.iter().map(account).sum::<f64>();
        let columns = self.members.columns.len();
        let accounts = member.memory.accounts.len();
        let had = (0..accounts).flat_map(|account| (0..columns).map(move |column| (account, column)));
        let had_s: f64 = had.map(|(a, c)| member.memory.had_s(a, c, now.executed[i])).sum();
        let had = if passed > 0.0 { had_s / passed } else { 0.0 };
        let unsolved = self.round.unsolved;
        if runs {
            Reason::OwedTime { share, had, unsolved }
        } else {
            Reason::TimeHad { share, had, unsolved }
        }
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
                Part::Gang | Part::Bound => Verdict::Wait(Reason::NextRound { starts: self.round.ends }),
                Part::Apart | Part::Never(_) => Verdict::Wait(self.why(i, now, false)),
            },
        }
    }
}
