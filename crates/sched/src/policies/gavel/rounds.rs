//! Rounds: who runs until the next one, so that over time jobs get the shares that they are owed.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use crate::decide::{Reason, Verdict};
use crate::model::{GPU, GpuTypeId, GpuTypeSet, Job, JobId, Placement, PriorityClass, Span, Time};
use crate::view::{JobView, Snapshot};

use super::Gavel;
use super::members::{Member, Part};
use super::notes::{Round, Row};
use super::parameters::{Order, RoundEnd};

/// What makes up for the rounding of times to microseconds.
const ROUNDING: Span = Span(2);
/// A part of an iteration that is left by the same rounding.
const ENOUGH: f64 = 0.05;
/// A share of time below this is the rounding of a program.
const NEXT_TO_NOTHING: f64 = 1e-6;

/// One way in which a job may be placed in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    class: Reverse<PriorityClass>,
    priority: f64,
    deficit: f64,
    share: f64,
    member: usize,
    account: usize,
    column: usize,
    /// Who is placed with it on the same GPUs.
    beside: Option<usize>,
}

impl Entry {
    /// Whose way it is.
    pub(super) const fn member(&self) -> usize {
        self.member
    }

    /// Where it leads.
    pub(super) const fn column(&self) -> usize {
        self.column
    }

    /// Whether another job goes with it.
    pub(super) const fn is_of_pair(&self) -> bool {
        self.beside.is_some()
    }

    /// As coded: by priority, deficit and share, the largest first; ties go to the earlier job.
    fn order(&self, other: &Self) -> Ordering {
        self.class
            .cmp(&other.class)
            .then(other.priority.total_cmp(&self.priority))
            .then(other.deficit.total_cmp(&self.deficit))
            .then(other.share.total_cmp(&self.share))
            .then((self.member, self.account).cmp(&(other.member, other.account)))
    }
}

/// The jobs of a snapshot, with how long each has held devices.
pub(super) struct Now<'a> {
    pub(super) at: Time,
    pub(super) views: Vec<&'a JobView>,
    pub(super) executed: Vec<Span>,
}

impl<'a> Now<'a> {
    pub(super) fn of(seen: &'a Snapshot) -> Self {
        let views: Vec<&JobView> = seen.jobs().collect();
        let executed = views.iter().map(|view| view.executed(seen.at)).collect();
        Self { at: seen.at, views, executed }
    }
}

/// How a member was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pick {
    pub(super) column: usize,
    /// The account on which its time is booked. That of a pair is booked by the first of the two.
    pub(super) account: Option<usize>,
    /// Who is on the same GPUs.
    pub(super) beside: Option<usize>,
}

/// Who was chosen, by member.
pub(super) type Picks = Vec<Option<Pick>>;

impl Gavel {
    /// Everything for a new round. Returns how gangs were looked at, and who was chosen.
    pub(super) fn begin_round(&mut self, seen: &Snapshot) -> (Vec<Entry>, Picks) {
        self.start_apart(seen, true);
        let now = Now::of(seen);
        let are_shares_old = !self.recompute_if_due(seen, &now);
        let queue = self.queue(seen, &now);
        let mut picks = self.choose(&queue, self.pools(seen));
        self.place(&now, &queue, &mut picks);
        self.book(&now, &picks);
        self.speak(&now, &picks);
        self.close_round(&now, &picks, are_shares_old);
        (queue, picks)
    }

    /// The waiting jobs in the order in which a decision on this snapshot looks at them: those that it starts, and then
    /// by the first place at which they are looked at.
    pub(super) fn order_of_waiting(&mut self, seen: &Snapshot) -> Vec<JobId> {
        self.follow(seen);
        let (queue, picks) = if self.is_round_over(seen) {
            self.begin_round(seen)
        } else {
            (self.queue(seen, &Now::of(seen)), vec![None; self.members.all.len()])
        };
        let mut place = vec![usize::MAX; picks.len()];
        for (i, entry) in queue.iter().enumerate() {
            place[entry.member] = place[entry.member].min(i);
        }
        let waiting = seen.jobs().enumerate().filter(|(_, view)| view.target.is_none());
        let key = |(i, view): (usize, &JobView)| {
            let member = &self.members.all[i];
            let is_apart = member.part == Part::Apart;
            let arrival = (Reverse(view.job.goals.class), view.job.submitted);
            (!is_apart, is_apart.then_some(arrival), picks[i].is_none(), place[i], member.id)
        };
        let mut keys: Vec<_> = waiting.map(key).collect();
        keys.sort_unstable();
        keys.into_iter().map(|(.., id)| id).collect()
    }

    /// GPUs that members may share out, in thousandths by type: what is free and what they hold.
    pub(super) fn pools(&self, seen: &Snapshot) -> Vec<u64> {
        let types = 0..seen.cluster.gpu_types.len();
        let of = |pool: usize| {
            let only = GpuTypeSet::of(&[GpuTypeId(pool as u8)]);
            self.plan.free().whole_gpus(only) * GPU
        };
        let mut pools: Vec<u64> = types.map(of).collect();
        // What two share is there once, and whole when they leave it.
        let mut shared = BTreeSet::new();
        for member in self.members.all.iter().filter(|member| member.is_gang()) {
            let Some(column) = member.on else { continue };
            let mut is_first = |p: &Placement| shared.insert((p.node, p.gpus.devices));
            let target = self.plan.target(member.id).filter(|_| member.is_halved);
            if target.is_none_or(|target| target.placements().iter().all(&mut is_first)) {
                pools[self.members.columns[column].pool] += member.gpu_milli;
            }
        }
        pools
    }

    /// All ways to place a gang, in the order in which they are tried.
    pub(super) fn queue(&self, seen: &Snapshot, now: &Now<'_>) -> Vec<Entry> {
        let half = self.rounds.round_s / 2.0;
        let columns = self.members.columns.len();
        let gangs = || self.members.all.iter().enumerate().filter(|(_, member)| member.is_gang());
        let mut sums = Row::from_elem(0.0, columns);
        for (i, member) in gangs() {
            for (c, sum) in sums.iter_mut().enumerate() {
                let accounts = member.memory.accounts.len();
                let had = (0..accounts).map(|account| member.memory.had_s(account, c, now.executed[i]));
                *sum += half * accounts.max(1) as f64 + had.sum::<f64>();
            }
        }
        let mut queue: Vec<Entry> = Vec::with_capacity(columns * self.members.all.len());
        for column in self.column_order(seen) {
            let begin = queue.len();
            for (i, member) in gangs().filter(|(_, member)| member.per_s[column] > 0.0) {
                let accounts = member.memory.accounts.len().max(1);
                let entry = |account| self.entry(i, (account, column), now, (half, sums[column]));
                queue.extend((0..accounts).filter_map(entry));
            }
            if self.rounds.order == Order::ByType {
                queue[begin..].sort_unstable_by(Entry::order);
            }
        }
        if self.rounds.order == Order::Global {
            let order = |a: &Entry, b: &Entry| a.order(b).then_with(|| self.faster(a, b));
            queue.sort_unstable_by(|a, b| order(a, b).then(a.column.cmp(&b.column)));
        }
        queue
    }

    /// What an account is owed on a column beside what it had: its share over the fraction of the time of all. Nothing if it is
    /// that of a pair which cannot be there.
    fn entry(
        &self,
        i: usize,
        (account, column): (usize, usize),
        now: &Now<'_>,
        (half, sum): (f64, f64),
    ) -> Option<Entry> {
        let member = &self.members.all[i];
        let class = member.class;
        let nothing = (0.0, 0.0, 0.0);
        let Some(own) = member.memory.accounts.get(account) else {
            let (priority, deficit, share) = nothing;
            return Some(Entry { class, priority, deficit, share, member: i, account, column, beside: None });
        };
        let beside = match own.partner {
            None => None,
            Some(partner) => {
                let other = self.members.find(partner)?;
                let (job, others) = (&now.views[i].job, &now.views[other].job);
                let fits = self.fits_beside(now, (i, other), column);
                let shares = own.shares[column] > 0.0;
                let may = fits && shares && member.may_share(job, &self.members.all[other], others);
                Some(may.then_some(other)?)
            }
        };
        let had = half + member.memory.had_s(account, column, now.executed[i]);
        let (share, deficit) = (own.shares[column], own.deficits[column]);
        let priority = share / (had / sum);
        // Of one that is owed nothing it counts how long it ran on any type, so that it can go where it is fastest.
        let is_extra = share < NEXT_TO_NOTHING && self.rounds.order == Order::Global;
        let all = || own.deficits.iter().sum::<f64>();
        let (priority, deficit, share) =
            if is_extra { (0.0, all(), 0.0) } else { (priority, deficit, share) };
        Some(Entry { class, priority, deficit, share, member: i, account, column, beside })
    }

    /// Whether it is known of two members that both get on where they share GPUs of a column.
    pub(super) fn fits_beside(&self, now: &Now<'_>, (i, other): (usize, usize), column: usize) -> bool {
        let gpu_type = GpuTypeId(self.members.columns[column].pool as u8);
        let gets_on = |a: usize, b: usize| {
            let beside = beside_per_s(now.views[a], now.views[b], gpu_type);
            self.members.all[a].per_s[column] > 0.0 && beside.is_some_and(|per_s| per_s > 0.0)
        };
        gets_on(i, other) && gets_on(other, i)
    }

    /// Of two ways for one job that is owed nothing on either, the faster one.
    fn faster(&self, a: &Entry, b: &Entry) -> Ordering {
        let per_s = |e: &Entry| self.members.all[e.member].per_s[e.column];
        if a.member == b.member { per_s(b).total_cmp(&per_s(a)) } else { Ordering::Equal }
    }

    /// Columns in the order of the types; as coded that is shuffled where types are taken to be alike.
    fn column_order(&self, seen: &Snapshot) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.columns.len()).collect();
        if self.rounds.order == Order::ByType && self.is_blind() {
            let seed = seen.seed.branch("gavel types");
            for i in (1..order.len()).rev() {
                let j = (seed.numbered(i as u64).0 % (i as u64 + 1)) as usize;
                order.swap(i, j);
            }
        }
        order
    }

    /// Walks along the queue and chooses what fits by count.
    pub(super) fn choose(&self, queue: &[Entry], mut left: Vec<u64>) -> Picks {
        let mut picks: Picks = vec![None; self.members.all.len()];
        for entry in queue {
            let member = &self.members.all[entry.member];
            let room = &mut left[self.members.columns[entry.column].pool];
            let is_free =
                picks[entry.member].is_none() && entry.beside.is_none_or(|other| picks[other].is_none());
            if is_free && member.gpu_milli <= *room && self.may_run(entry) {
                *room -= member.gpu_milli;
                self.pick(entry, &mut picks);
            }
        }
        picks
    }

    /// Takes a way for its member, and for the other one if it is that of a pair.
    pub(super) fn pick(&self, entry: &Entry, picks: &mut Picks) {
        let &Entry { column, member, beside, account, .. } = entry;
        let account =
            Some(account).filter(|account| *account < self.members.all[member].memory.accounts.len());
        picks[member] = Some(Pick { column, account, beside });
        if let Some(other) = beside {
            picks[other] = Some(Pick { column, account: None, beside: Some(member) });
        }
    }

    /// Whether a way may be taken at all.
    pub(super) fn may_run(&self, entry: &Entry) -> bool {
        entry.priority > 0.0 || !self.keeps_order()
    }

    /// Books the time that members had up to now, if they change what they run on.
    pub(super) fn book(&mut self, now: &Now<'_>, picks: &Picks) {
        let columns = self.members.columns.len();
        for (i, pick) in picks.iter().enumerate() {
            let member = &mut self.members.all[i];
            if let Some(pick) = pick.filter(|_| member.is_gang()) {
                let on = pick.account.map(|account| (account, pick.column));
                if member.memory.on != on {
                    member.memory.book(now.executed[i], on);
                    self.plan.note(member.id, member.memory.to_note(columns));
                }
            }
            if member.is_gang() && member.on.is_some() && now.views[i].job.stays_once_it_runs() {
                member.part = Part::Bound;
            }
        }
    }

    /// When shares may be worked out next.
    pub(super) fn next_shares(&self, now: &Now<'_>) -> Time {
        let gap = Span::from_secs_f64(self.rounds.recompute_s);
        (self.round.reset + gap).max(now.at)
    }

    /// When this round ends, and what is remembered of it.
    fn close_round(&mut self, now: &Now<'_>, picks: &Picks, are_shares_old: bool) {
        let length = Span::from_secs_f64(self.rounds.round_s);
        let waits = self.members.all.iter().any(|m| !matches!(m.part, Part::Never(_)));
        let placed = picks.iter().enumerate().filter_map(|(i, pick)| Some((i, (*pick)?)));
        let ends = match self.rounds.round_end {
            RoundEnd::Fixed => waits.then(|| now.at + length),
            RoundEnd::LastSlice => placed.map(|(i, pick)| self.slice_end(now, i, pick)).max(),
        };
        // As coded, a round in which nobody runs ends with the next arrival. One must begin when shares may be worked out, and now
        // and then one must look whether jobs that keep away from nodes may go there again.
        let next = if are_shares_old { self.next_shares(now) } else { now.at + length };
        let idle = || waits.then(|| next.max(now.at + Span(1)));
        let wake = ends.or_else(idle);
        self.round = Round { began: Some(now.at), ends: ends.unwrap_or(Time::NEVER), ..self.round };
        if let Some(wake) = wake {
            self.plan.wake_at(wake);
        }
        self.wake_for_slices(now);
    }

    /// When a member that is placed now has done its iterations of this round.
    fn slice_end(&self, now: &Now<'_>, i: usize, pick: Pick) -> Time {
        let per_s = self.per_s(now, i, pick);
        let whole = self.slice_iterations(per_s);
        // Whoever has more to do than it said goes on for a whole round.
        let is_rest = |left: &f64| *left <= whole + ENOUGH && left / per_s > ROUNDING.as_secs_f64();
        let left = iterations_left(now.views[i], now.at).filter(is_rest);
        now.at + Span::from_secs_f64(left.unwrap_or(whole) / per_s)
    }

    /// How fast a member goes as it was chosen.
    fn per_s(&self, now: &Now<'_>, i: usize, pick: Pick) -> f64 {
        let alone = self.members.all[i].per_s[pick.column];
        let beside = pick.beside.and_then(|other| {
            let gpu_type = GpuTypeId(self.members.columns[pick.column].pool as u8);
            beside_per_s(now.views[i], now.views[other], gpu_type)
        });
        beside.filter(|per_s| *per_s > 0.0).unwrap_or(alone)
    }

    /// Iterations that a job does in a round.
    fn slice_iterations(&self, per_s: f64) -> f64 {
        let all = per_s * self.rounds.round_s;
        if self.rounds.whole_iterations { all.floor().max(1.0) } else { all }
    }

    /// Whether a running job is all but done: the round that ends with it does not end before, but once it is later than by
    /// the rounding of times the job had more to do than it said.
    pub(super) fn waits_for_last(&self, seen: &Snapshot) -> bool {
        if self.rounds.round_end != RoundEnd::LastSlice || seen.at >= self.round.ends + ROUNDING {
            return false;
        }
        let is_done = |member: &&Member| {
            let left = member.on.zip(seen.job(member.id).and_then(|view| iterations_left(view, seen.at)));
            left.is_some_and(|(on, left)| left / member.per_s[on] <= ROUNDING.as_secs_f64())
        };
        self.members.all.iter().filter(|member| member.is_gang()).any(|member| is_done(&member))
    }

    /// Inside a round: jobs that have done their iterations stop, and others may start.
    pub(super) fn go_on(&mut self, seen: &Snapshot, news: &[JobId]) {
        self.start_apart(seen, false);
        let now = Now::of(seen);
        if self.rounds.whole_iterations {
            self.end_slices(&now);
        }
        if self.rounds.start_at_events {
            let queue = self.queue(seen, &now);
            let on = |member: &Member| Some(Pick { column: member.on?, account: None, beside: None });
            let before: Picks = self.members.all.iter().map(on).collect();
            let mut picks = before.clone();
            self.fill(&now, &queue, &mut picks);
            for (pick, before) in picks.iter_mut().zip(before) {
                *pick = pick.filter(|_| before.is_none());
            }
            self.book(&now, &picks);
        }
        // Everybody who starts is spoken of, whether anything else is new of it or not.
        let starts = |member: &&Member| {
            self.plan.target(member.id).is_some() && seen.job(member.id).is_some_and(|v| v.target.is_none())
        };
        let starting: Vec<JobId> = self.members.all.iter().filter(starts).map(|member| member.id).collect();
        for id in news.iter().chain(&starting) {
            let Some(i) = self.members.find(*id) else { continue };
            let verdict = self.verdict(i, &now);
            self.plan.say(*id, verdict);
            self.unsaid.insert(*id);
        }
        if self.round.ends != Time::NEVER {
            self.plan.wake_at(self.round.ends.max(seen.at + ROUNDING));
        }
        self.wake_for_slices(&now);
    }

    /// Stops members that have done their iterations of this round and have some left.
    fn end_slices(&mut self, now: &Now<'_>) {
        let partners = self.partners();
        for (i, partner) in partners.into_iter().enumerate() {
            let Some(end) = self.own_slice_end(i, partner, now) else { continue };
            let left = iterations_left(now.views[i], now.at);
            if end <= now.at && left.is_none_or(|left| left > ENOUGH) {
                let id = self.members.all[i].id;
                self.plan.evict(id);
                self.members.all[i].on = None;
                self.plan.say(id, Verdict::Yield(Reason::NextRound { starts: self.round.ends }));
                self.unsaid.insert(id);
            }
        }
    }

    /// When a running member has done its iterations of this round, if it has many left.
    fn own_slice_end(&self, i: usize, beside: Option<usize>, now: &Now<'_>) -> Option<Time> {
        let member = &self.members.all[i];
        let column = member.on.filter(|_| member.is_gang())?;
        let per_s = self.per_s(now, i, Pick { column, account: None, beside });
        let began = self.round.began?;
        Some(began + Span::from_secs_f64(self.slice_iterations(per_s) / per_s))
    }

    fn wake_for_slices(&mut self, now: &Now<'_>) {
        if !self.rounds.whole_iterations {
            return;
        }
        let partners = self.partners().into_iter().enumerate();
        let ends = partners.filter_map(|(i, partner)| self.own_slice_end(i, partner, now));
        if let Some(next) = ends.filter(|end| *end > now.at).min() {
            self.plan.wake_at(next);
        }
    }

    /// Jobs that no share describes go first, by class and arrival, and run to their end. If asked, what gangs hold is
    /// taken for them.
    fn start_apart(&mut self, seen: &Snapshot, takes: bool) {
        let apart = self.members.all.iter().filter(|member| member.part == Part::Apart);
        let waiting = apart.filter_map(|member| seen.job(member.id)).filter(|view| view.target.is_none());
        let mut waiting: Vec<&JobView> = waiting.collect();
        if waiting.is_empty() {
            return;
        }
        waiting.sort_by_key(|view| (Reverse(view.job.goals.class), view.job.submitted, view.id()));
        let with_gpus = |view: &&JobView| view.job.shape.minimum().gpu_milli > 0;
        let mut taken = Vec::new();
        if takes && waiting.iter().any(with_gpus) {
            for member in self.members.all.iter().filter(|m| m.is_gang() && m.on.is_some()) {
                self.plan.evict(member.id);
                taken.push(member.id);
            }
        }
        for view in waiting {
            self.plan.place(&view.job, self.rounds.placement);
        }
        for id in taken {
            let job: &std::sync::Arc<Job> = &seen.job(id).expect("it has a target").job;
            if !self.plan.restore(job)
                && let Some(i) = self.members.find(id)
            {
                self.members.all[i].on = None;
            }
        }
    }
}

/// Iterations that a job still has, if it says how many there are.
pub(super) fn iterations_left(view: &JobView, at: Time) -> Option<f64> {
    let all = view.job.declared.iterations?;
    Some((all - view.iterations(at)).max(0.0))
}

/// Iterations a second of a job beside another one, as far as known.
pub(super) fn beside_per_s(view: &JobView, other: &JobView, gpu_type: GpuTypeId) -> Option<f64> {
    let workers = view.job.shape.data_parallel()?.workers.min.max(1);
    view.job.declared.rates.as_ref()?.beside_per_s(other.job.model?, gpu_type, workers)
}
