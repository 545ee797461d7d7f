//! Rounds: who runs until the next one, so that over time jobs get the shares that they are owed.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use crate::decide::{Reason, Verdict};
use crate::model::{GPU, GpuTypeSet, Job, JobId, PriorityClass, Span, Time};
use crate::place::Ask;
use crate::rank::Shape;
use crate::view::{JobView, Snapshot};

use super::Gavel;
use super::members::{Member, Part, on_type};
use super::notes::{Account, Round, Row};
use super::parameters::{Order, RoundEnd};

/// What makes up for the rounding of times to microseconds.
const ROUNDING: Span = Span(2);

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
}

impl Entry {
    /// As coded: by priority, deficit and share, the largest first; ties go to the earlier job.
    fn order(&self, other: &Self) -> Ordering {
        let key = |e: &Self| (e.class, e.member, e.account);
        self.class
            .cmp(&other.class)
            .then(other.priority.total_cmp(&self.priority))
            .then(other.deficit.total_cmp(&self.deficit))
            .then(other.share.total_cmp(&self.share))
            .then(key(self).cmp(&key(other)))
            .then(self.column.cmp(&other.column))
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

/// Who was chosen: an account and a column for each member.
pub(super) type Picks = Vec<Option<(usize, usize)>>;

impl Gavel {
    /// Everything for a new round. Returns how gangs were looked at, and who was chosen.
    pub(super) fn begin_round(&mut self, seen: &Snapshot) -> (Vec<Entry>, Picks) {
        self.start_apart(seen, true);
        let now = Now::of(seen);
        self.recompute_if_due(seen, &now);
        let queue = self.queue(seen, &now);
        let mut picks = self.choose(&queue, self.pools(seen));
        self.place(&now, &queue, &mut picks);
        self.book(&now, &picks);
        self.speak(&now, &picks);
        self.close_round(&now, &picks);
        (queue, picks)
    }

    /// The waiting jobs in the order in which a decision on this snapshot looks at them: those that it starts, and then
    /// by the first place at which they are looked at.
    pub(super) fn order_of_waiting(&mut self, seen: &Snapshot) -> Vec<JobId> {
        self.follow(seen);
        let (queue, picks) = if self.is_round_over(seen.at) {
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
            let only = GpuTypeSet::of(&[crate::model::GpuTypeId(pool as u8)]);
            self.plan.free().whole_gpus(only) * GPU
        };
        let mut pools: Vec<u64> = types.map(of).collect();
        for member in self.members.all.iter().filter(|member| member.is_gang()) {
            if let Some(column) = member.on {
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
                let had = (0..member.memory.accounts.len())
                    .map(|account| member.memory.had_s(account, c, now.executed[i]));
                *sum += half + had.sum::<f64>();
            }
        }
        let mut queue: Vec<Entry> = Vec::with_capacity(columns * self.members.all.len());
        for column in self.column_order(seen) {
            let begin = queue.len();
            for (i, member) in gangs().filter(|(_, member)| member.per_s[column] > 0.0) {
                let accounts = member.memory.accounts.len().max(1);
                let entry = |account| self.entry(member, i, (account, column), now, (half, sums[column]));
                queue.extend((0..accounts).map(entry));
            }
            if self.rounds.order == Order::ByType {
                queue[begin..].sort_unstable_by(Entry::order);
            }
        }
        if self.rounds.order == Order::Global {
            queue.sort_unstable_by(|a, b| a.order(b).then_with(|| self.faster(a, b)));
        }
        queue
    }

    /// What an account is owed on a column beside what it had: its share over the fraction of the time of all.
    fn entry(
        &self,
        member: &Member,
        i: usize,
        (account, column): (usize, usize),
        now: &Now<'_>,
        (half, sum): (f64, f64),
    ) -> Entry {
        let mut entry = Entry {
            class: member.class,
            priority: 0.0,
            deficit: 0.0,
            share: 0.0,
            member: i,
            account,
            column,
        };
        if let Some(own) = member.memory.accounts.get(account) {
            let had = half + member.memory.had_s(account, column, now.executed[i]);
            (entry.share, entry.deficit) = (own.shares[column], own.deficits[column]);
            entry.priority = entry.share / (had / sum);
        }
        entry
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
            let passes = picks[entry.member].is_none() && member.gpu_milli <= *room && self.may_run(entry);
            if passes {
                *room -= member.gpu_milli;
                picks[entry.member] = Some((entry.account, entry.column));
            }
        }
        picks
    }

    /// Whether a way may be taken at all.
    fn may_run(&self, entry: &Entry) -> bool {
        entry.priority > 0.0 || !self.keeps_order()
    }

    /// Makes the choices targets.
    fn place(&mut self, now: &Now<'_>, queue: &[Entry], picks: &mut Picks) {
        for i in 0..picks.len() {
            let member = &self.members.all[i];
            let wanted = picks[i].map(|(_, column)| column);
            let keeps = member.on.zip(wanted).is_some_and(|(on, wanted)| self.serves(on, wanted));
            if member.is_gang() && member.on.is_some() {
                if !keeps {
                    self.plan.evict(member.id);
                }
                self.members.all[i].on = wanted.filter(|_| keeps);
            }
        }
        // Large gangs first, else they find no room on few nodes.
        let mut rank = vec![usize::MAX; picks.len()];
        for (place, entry) in queue.iter().enumerate() {
            rank[entry.member] = rank[entry.member].min(place);
        }
        let is_new = |i: &usize| picks[*i].is_some() && self.members.all[*i].on.is_none();
        let mut new: Vec<usize> = (0..picks.len()).filter(is_new).collect();
        new.sort_by_key(|i| (Reverse(self.members.all[*i].gpu_milli), rank[*i]));
        for i in new {
            let (_, column) = picks[i].expect("it was chosen");
            let held = self.rounds.hold_for_new && !self.members.all[i].is_owed();
            if held || !self.put(now.views[i], i, column) {
                picks[i] = None;
            }
        }
        if !self.rounds.hold_for_new {
            self.fill(now, queue, picks);
        }
    }

    /// Whether what was placed on a column is as good as another asks: gangs that may be spread may also be close together.
    fn serves(&self, on: usize, wanted: usize) -> bool {
        let (on_column, wanted_column) = (self.members.columns[on], self.members.columns[wanted]);
        on == wanted || (on_column.pool == wanted_column.pool && wanted_column.is_spread)
    }

    /// Places whoever still fits: what was chosen by count may not fit its nodes, and then others do.
    pub(super) fn fill(&mut self, now: &Now<'_>, queue: &[Entry], picks: &mut Picks) {
        let mut stuck: BTreeSet<(Shape, usize)> = BTreeSet::new();
        for entry in queue {
            let member = &self.members.all[entry.member];
            if picks[entry.member].is_some() || !self.may_run(entry) {
                continue;
            }
            let job = &now.views[entry.member].job;
            let only = on_type(&job.wanted, self.members.columns[entry.column].pool).gpu_types;
            if member.gpu_milli >= GPU && self.plan.free().whole_gpus(only) * GPU < member.gpu_milli {
                continue;
            }
            let key = (Shape::of(job), entry.column);
            if stuck.contains(&key) {
                continue;
            }
            if self.put(now.views[entry.member], entry.member, entry.column) {
                picks[entry.member] = Some((entry.account, entry.column));
            } else if !self.plan.keeps_away(job.id) {
                stuck.insert(key);
            }
        }
    }

    /// Gives a member a target on a column.
    fn put(&mut self, view: &JobView, i: usize, column: usize) -> bool {
        let job = &view.job;
        let wanted = on_type(&job.wanted, self.members.columns[column].pool);
        let rule = self.rule_of(column);
        let placed = self.plan.place_as(job, rule, &Ask::minimum(&job.shape, &wanted));
        if placed {
            self.members.all[i].on = Some(column);
        }
        placed
    }

    /// Books the time that members had up to now, if they change what they run on.
    pub(super) fn book(&mut self, now: &Now<'_>, picks: &Picks) {
        let columns = self.members.columns.len();
        for (i, pick) in picks.iter().enumerate() {
            let member = &mut self.members.all[i];
            let on = pick.filter(|(account, _)| *account < member.memory.accounts.len());
            let stays = member.memory.on == on || on.is_none();
            if member.is_gang() && !stays {
                member.memory.book(now.executed[i], on);
                self.plan.note(member.id, member.memory.to_note(columns));
                member.is_noted = true;
            }
            if member.is_gang() && member.on.is_some() && !now.views[i].job.goals.movable {
                member.part = Part::Bound;
            }
        }
    }

    /// Says of everybody what changed.
    fn speak(&mut self, now: &Now<'_>, picks: &Picks) {
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
        if runs { Reason::OwedTime { share, had } } else { Reason::TimeHad { share, had } }
    }

    /// When shares may be worked out next.
    fn next_shares(&self, now: &Now<'_>) -> Time {
        let gap = Span::from_secs_f64(self.rounds.recompute_s);
        (self.round.reset + gap).max(now.at)
    }

    /// When this round ends, and what is remembered of it.
    fn close_round(&mut self, now: &Now<'_>, picks: &Picks) {
        let length = Span::from_secs_f64(self.rounds.round_s);
        let waits = self.members.all.iter().any(|m| !matches!(m.part, Part::Never(_)));
        let placed = picks.iter().enumerate().filter_map(|(i, pick)| Some((i, pick.as_ref()?.1)));
        let ends = match self.rounds.round_end {
            RoundEnd::Fixed => waits.then(|| now.at + length),
            RoundEnd::LastSlice => placed.map(|(i, column)| self.slice_end(now, i, column)).max(),
        };
        // As coded, a round in which nobody runs ends with the next arrival. One must begin when shares may be worked out.
        let idle = || waits.then(|| self.next_shares(now).max(now.at + Span(1)));
        let wake = ends.or_else(idle);
        self.round = Round { began: Some(now.at), ends: ends.unwrap_or(Time::NEVER), ..self.round };
        if let Some(wake) = wake {
            self.plan.wake_at(wake);
        }
        self.wake_for_slices(now);
    }

    /// When a member that is placed now has done its iterations of this round.
    fn slice_end(&self, now: &Now<'_>, i: usize, column: usize) -> Time {
        let per_s = self.members.all[i].per_s[column];
        let whole = self.slice_iterations(per_s);
        let left = iterations_left(now.views[i], now.at);
        if left.is_some_and(|left| left.round() <= whole) {
            return now.at + Span::from_secs_f64(left.unwrap_or(whole) / per_s) + ROUNDING;
        }
        now.at + Span::from_secs_f64(whole / per_s)
    }

    /// Iterations that a job does in a round.
    fn slice_iterations(&self, per_s: f64) -> f64 {
        let all = per_s * self.rounds.round_s;
        if self.rounds.whole_iterations { all.floor().max(1.0) } else { all }
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
            let on = |member: &Member| member.on.map(|column| (0, column));
            let before: Picks = self.members.all.iter().map(on).collect();
            let mut picks = before.clone();
            self.fill(&now, &queue, &mut picks);
            for (pick, before) in picks.iter_mut().zip(before) {
                *pick = pick.filter(|_| before.is_none());
            }
            self.book(&now, &picks);
        }
        for id in news {
            let Some(i) = self.members.find(*id) else { continue };
            let verdict = self.verdict(i, &now);
            self.plan.say(*id, verdict);
            self.unsaid.insert(*id);
        }
        if self.round.ends != Time::NEVER {
            self.plan.wake_at(self.round.ends);
        }
        self.wake_for_slices(&now);
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

    /// Stops members that have done their iterations of this round and have some left.
    fn end_slices(&mut self, now: &Now<'_>) {
        for i in 0..self.members.all.len() {
            let Some(end) = self.own_slice_end(i) else { continue };
            let left = iterations_left(now.views[i], now.at);
            if end <= now.at && left.is_none_or(|left| left >= 0.5) {
                let id = self.members.all[i].id;
                self.plan.evict(id);
                self.members.all[i].on = None;
                self.plan.say(id, Verdict::Yield(Reason::NextRound { starts: self.round.ends }));
                self.unsaid.insert(id);
            }
        }
    }

    /// When a running member has done its iterations of this round, if it has many left.
    fn own_slice_end(&self, i: usize) -> Option<Time> {
        let member = &self.members.all[i];
        let column = member.on.filter(|_| member.is_gang())?;
        let per_s = member.per_s[column];
        let began = self.round.began?;
        Some(began + Span::from_secs_f64(self.slice_iterations(per_s) / per_s))
    }

    fn wake_for_slices(&mut self, now: &Now<'_>) {
        if !self.rounds.whole_iterations {
            return;
        }
        let ends = (0..self.members.all.len()).filter_map(|i| self.own_slice_end(i));
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
