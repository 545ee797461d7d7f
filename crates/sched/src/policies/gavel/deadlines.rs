//! Deadlines of jobs for the least cost: by when a job should be done, and which deadlines can be kept.

use crate::model::Time;
use crate::solve::Unsolved;
use crate::view::JobView;

use super::Gavel;
use super::allocation::{Problem, Sight};
use super::rounds::Now;

/// A job with a deadline shall be done in this part of the time that it has, less so many rounds.
const MARGIN: f64 = 0.95;
const MARGIN_ROUNDS: f64 = 3.0;

impl Gavel {
    /// Seconds until a job should be done, if asked for less what rounds may cost it: shares are only had on average, and a job may
    /// be a few rounds behind. Nothing if it cannot be done by then anywhere, so that others need not suffer for it; as coded they do.
    pub(super) fn deadline_s(
        &self,
        view: &JobView,
        at: Time,
        fastest: f64,
        with_margin: bool,
    ) -> Option<f64> {
        let left_s = view.job.goals.deadline?.since(at).as_secs_f64();
        let least_s = self.steps_left(view, at, fastest)? / fastest;
        if self.rounds.compatibility {
            return Some(left_s);
        }
        let margin_s =
            if with_margin { (1.0 - MARGIN) * left_s + MARGIN_ROUNDS * self.rounds.round_s } else { 0.0 };
        (least_s <= left_s).then(|| (left_s - margin_s).max(least_s))
    }

    /// The best shares that keep deadlines with a margin, or else without one, or else as many of those that are kept most easily
    /// as can be. As coded, all or none. `solve` says whether all were kept.
    pub(super) fn keeping_deadlines<T>(
        &self,
        now: &Now<'_>,
        order: &[usize],
        problem: &Problem,
        solve: impl Fn(&Problem) -> Result<(T, bool), Unsolved>,
    ) -> Result<T, Unsolved> {
        if let Ok((solved, meets)) = solve(problem)
            && (meets || self.rounds.compatibility)
        {
            return Ok(solved);
        }
        let mut exact = problem.clone();
        for ((m, job), i) in exact.jobs.iter_mut().enumerate().zip(order) {
            let fastest = problem.fastest(m, Sight::Aware);
            job.deadline_s =
                job.deadline_s.and_then(|_| self.deadline_s(now.views[*i], now.at, fastest, false));
        }
        // The part of its time that a job has to run where it is fastest.
        let part = |m: usize| {
            let job = &exact.jobs[m];
            let least_s = job.steps_left / problem.fastest(m, Sight::Aware);
            job.deadline_s.map(|left_s| least_s / left_s)
        };
        let mut due: Vec<(f64, usize)> = (0..exact.jobs.len()).filter_map(|m| Some((part(m)?, m))).collect();
        due.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let keeping = |count: usize| {
            let mut some = exact.clone();
            due[count..].iter().for_each(|(_, m)| some.jobs[*m].deadline_s = None);
            solve(&some)
        };
        let (mut kept, mut too_many) = (0, due.len() + 1);
        let mut best = keeping(0)?.0;
        let mut next = due.len();
        while too_many - kept > 1 {
            match keeping(next) {
                Ok((solved, true)) => (best, kept) = (solved, next),
                _ => too_many = next,
            }
            next = kept.midpoint(too_many);
        }
        Ok(best)
    }
}
