//! Who may share GPUs with whom, and the pairs of Gandiva.

use std::collections::BTreeMap;

use crate::model::{GpuTypeId, JobId, Seed};
use crate::rank::Shape;
use crate::view::Snapshot;

use super::Gavel;
use super::allocation::{Column, Combination, Pairs, Parting, Partners, Problem, Shares, Sharing, gandiva};
use super::answer::Answer;
use super::rounds::{Now, beside_per_s};

impl Gavel {
    pub(super) fn gandiva(
        &self,
        seen: &Snapshot,
        now: &Now<'_>,
        order: &[usize],
        problem: &Problem,
        parting: Parting,
    ) -> Answer {
        let mut partners = Partners::new();
        for i in order {
            let member = &self.members.all[*i];
            for partner in member.memory.accounts.iter().filter_map(|account| account.partner) {
                partners.extend([(member.id, partner), (partner, member.id)]);
            }
        }
        let mut draw = drawing(seen.seed.branch("gandiva pairs"));
        let sharing = self.sharing(now, order);
        let mut packed = gandiva(problem, &sharing, parting, &mut partners, &mut draw);
        // Pairs that there is no need for now are remembered, as coded, and owed nothing.
        let place = |id: &JobId| problem.jobs.iter().position(|job| job.id == *id);
        let columns = problem.columns.len();
        let mut rows: Vec<f64> =
            (0..packed.combinations.len()).flat_map(|k| packed.shares.row(k).to_vec()).collect();
        for (a, b) in &partners {
            let Some(pair) = place(a).zip(place(b)).filter(|(a, b)| a < b) else { continue };
            let pair = Combination::Pair(pair.0, pair.1);
            if !packed.combinations.contains(&pair) {
                packed.combinations.push(pair);
                rows.extend(std::iter::repeat_n(0.0, columns));
            }
        }
        packed.shares = Shares::from_rows(columns, rows);
        Answer::Packed(packed)
    }

    /// Which jobs may share GPUs, and how fast they are then. Jobs of one kind may share with the same jobs; those of which no
    /// model is known share with nobody.
    pub(super) fn sharing(&self, now: &Now<'_>, order: &[usize]) -> Sharing {
        let may_share = |a: usize, b: usize| {
            let (member, other) = (&self.members.all[a], &self.members.all[b]);
            member.may_share(&now.views[a].job, other, &now.views[b].job)
        };
        let kind = |i: &usize| {
            let job = &now.views[*i].job;
            let model = job.model.filter(|_| may_share(*i, *i))?;
            Some((model, self.members.all[*i].class, Shape::of(job)))
        };
        // Jobs that share with nobody are told apart by their gangs, since those of a kind are alike.
        let key = |i: &usize| (kind(i), self.members.all[*i].gang());
        let mut known = BTreeMap::new();
        for i in order {
            let next = known.len();
            known.entry(key(i)).or_insert((next, *i));
        }
        let kinds = order.iter().map(|i| known[&key(i)].0).collect();
        let mut examples: Vec<(usize, usize)> = known.values().copied().collect();
        examples.sort_unstable();
        let count = examples.len();
        let mut beside = Vec::with_capacity(count * count);
        for (_, a) in &examples {
            for (_, b) in &examples {
                let per_s = |column: &Column| {
                    let gpu_type = GpuTypeId(column.pool as u8);
                    let known = beside_per_s(now.views[*a], now.views[*b], gpu_type);
                    known.filter(|_| !column.is_spread).unwrap_or(0.0)
                };
                let may = kind(a).is_some() && kind(b).is_some() && may_share(*a, *b);
                let columns = self.members.columns.iter().filter(|_| may);
                beside.push(columns.map(per_s).collect());
            }
        }
        // The optimum is the same; as coded, the answer is in the middle of more of them.
        let pairs = if self.rounds.compatibility { Pairs::All } else { Pairs::Needed };
        Sharing { kinds, count, beside, pairs }
    }
}

/// Numbers below what is asked for, from a seed.
pub(super) fn drawing(seed: Seed) -> impl FnMut(usize) -> usize {
    let mut drawn = 0;
    move |below| {
        drawn += 1;
        (seed.numbered(drawn).0 % below.max(1) as u64) as usize
    }
}
