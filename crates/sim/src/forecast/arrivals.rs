//! Who will arrive: the past again, in whole blocks, so that bursts and the rhythm of the day are kept (a block
//! bootstrap after Künsch, Annals of Statistics 1989).
//!
//! With two days of past or more a block is a day long, and each day to come is one of the latest fourteen days at
//! the same time of day. With less, blocks are a quarter of the past long and begin anywhere in it.
//!
//! People submit jobs in *bursts*: many alike, seconds apart. A question about a job is often asked in the middle of
//! one, so bursts that may still go on are continued as past bursts were from the same point on, with jobs like
//! those that came so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::model::{Job, JobId, Seed, Span, TenantId, Time};

use super::belief::uniform;

const DAY: Span = Span::from_secs(86_400);
/// Days that a day to come may be like.
const MOST_DAYS: u64 = 14;
/// With this chance a day is like the one day that its future keeps to: days that follow each other are alike, and who
/// drew each of them anew would have busy days and quiet ones cancel each other.
const DAYS_ALIKE: f64 = 0.5;
/// Shorter blocks than this are not made; what came at one instant says nothing about a rate.
const SHORTEST_BLOCK: Span = Span::from_secs(60);
/// After so many blocks in a row in which nobody arrives, nobody is expected to arrive any more.
const MOST_EMPTY_BLOCKS: u32 = 200;
/// Jobs of one tenant that come no further apart than this belong together.
const BURST_GAP: Span = Span::from_secs(600);
/// Jobs of a burst to come are like these latest ones of it.
const ALIKE: usize = 20;

/// What is known about arrivals so far, prepared once for all futures.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    past: &'a [Arc<Job>],
    now: Time,
    /// For each arrival: which burst it belongs to, by the burst's first arrival.
    first_of_burst: Vec<usize>,
    /// The next arrival of the same burst.
    next_of_burst: Vec<Option<usize>>,
    open: Vec<OpenBurst>,
}

/// A burst that may still go on.
#[derive(Clone, Debug)]
struct OpenBurst {
    /// How long ago its latest job came.
    elapsed: Span,
    /// Its latest jobs.
    latest: Vec<usize>,
    /// Past arrivals at the same point of their bursts that were followed by nothing for as long.
    like: Vec<usize>,
}

impl<'a> Known<'a> {
    pub(super) fn new(past: &'a [Arc<Job>], now: Time) -> Self {
        let mut known = Self {
            past,
            now,
            first_of_burst: Vec::with_capacity(past.len()),
            next_of_burst: vec![None; past.len()],
            open: Vec::new(),
        };
        let mut ranks: Vec<usize> = Vec::with_capacity(past.len());
        let mut latest: BTreeMap<TenantId, usize> = BTreeMap::new();
        for (i, job) in past.iter().enumerate() {
            let before = latest.insert(job.tenant, i);
            let before = before.filter(|before| job.submitted.since(past[*before].submitted) <= BURST_GAP);
            known.first_of_burst.push(before.map_or(i, |before| known.first_of_burst[before]));
            ranks.push(before.map_or(1, |before| ranks[before] + 1));
            if let Some(before) = before {
                known.next_of_burst[before] = Some(i);
            }
        }
        let recent = latest.into_values().filter(|i| now.since(past[*i].submitted) < BURST_GAP);
        known.open = recent.map(|i| known.open_burst(i, &ranks)).collect();
        known
    }

    fn open_burst(&self, last: usize, ranks: &[usize]) -> OpenBurst {
        let first = self.first_of_burst[last];
        let elapsed = self.now.since(self.past[last].submitted);
        let is_like = |i: &usize| {
            let near = ranks[*i] * 2 >= ranks[last] && ranks[*i] <= ranks[last] * 2;
            let gap = |next: usize| self.past[next].submitted.since(self.past[*i].submitted);
            // Of what is too near to now, it is not yet known how it goes on.
            let is_over =
                self.now.since(self.past[*i].submitted) > BURST_GAP && self.first_of_burst[*i] != first;
            near && is_over && self.next_of_burst[*i].is_none_or(|next| gap(next) > elapsed)
        };
        let of_tenant = |i: &usize| self.past[*i].tenant == self.past[last].tenant;
        let mut like: Vec<usize> = (0..self.past.len()).filter(|i| of_tenant(i) && is_like(i)).collect();
        if like.len() < ALIKE {
            like = (0..self.past.len()).filter(is_like).collect();
        }
        let of_burst = (first..=last).rev().filter(|i| self.first_of_burst[*i] == first);
        OpenBurst { elapsed, latest: of_burst.take(ALIKE).collect(), like }
    }

    /// Which burst a job that has arrived belongs to.
    pub(super) fn burst_of(&self, job: JobId) -> Option<JobId> {
        let first = *self.first_of_burst.get(job.index())?;
        Some(self.past[first].id)
    }
}

/// Jobs to come, drawn as they are asked for.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<'a> {
    known: &'a Known<'a>,
    seed: Seed,
    /// The length of a block; `None` where there is no past to draw from.
    block: Option<Span>,
    /// Blocks begun so far.
    blocks: u64,
    /// What is left of the present block, and how much later it comes than it came.
    coming: std::ops::Range<usize>,
    later: Span,
    /// What is left of the bursts that go on, the last first.
    bursts: Vec<(Time, usize)>,
    next_id: u32,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(known: &'a Known<'a>, seed: Seed) -> Self {
        let first = known.past.first().map_or(known.now, |job| job.submitted);
        let span = known.now.since(first);
        let block = if span.0 >= 2 * DAY.0 { DAY } else { Span(span.0 / 4) };
        let mut arrivals = Self {
            known,
            seed: seed.branch("blocks"),
            block: (block >= SHORTEST_BLOCK).then_some(block),
            blocks: 0,
            coming: 0..0,
            later: Span::ZERO,
            bursts: Vec::new(),
            next_id: known.past.iter().map(|job| job.id.0 + 1).max().unwrap_or(0),
        };
        for (n, open) in known.open.iter().enumerate() {
            arrivals.go_on(open, seed.branch("bursts").numbered(n as u64));
        }
        arrivals.bursts.sort_by_key(|burst| std::cmp::Reverse(*burst));
        arrivals
    }

    /// Continues a burst as one of those like it went on.
    fn go_on(&mut self, open: &OpenBurst, seed: Seed) {
        let known = self.known;
        let pick = |of: &[usize], seed: Seed| of.get((uniform(seed) * of.len() as f64) as usize).copied();
        let Some(like) = pick(&open.like, seed) else { return };
        let since = known.past[like].submitted + open.elapsed;
        let mut next = known.next_of_burst[like];
        while let Some(i) = next {
            let at = known.now + known.past[i].submitted.since(since);
            self.bursts.extend(pick(&open.latest, seed.numbered(i as u64)).map(|job| (at, job)));
            next = known.next_of_burst[i];
        }
    }

    /// When the next one of a block comes.
    fn next_of_block(&mut self) -> Option<Time> {
        let block = self.block?;
        // Many blocks may be empty, and all are if nobody came in the days that they are drawn from.
        let mut tries = 0;
        while self.coming.is_empty() {
            if tries == MOST_EMPTY_BLOCKS {
                self.block = None;
                return None;
            }
            self.begin_block(block);
            tries += 1;
        }
        Some(self.known.past[self.coming.start].submitted + self.later)
    }

    /// When the next one comes.
    pub(super) fn next_at(&mut self) -> Option<Time> {
        let burst = self.bursts.last().map(|(at, _)| *at);
        [burst, self.next_of_block()].into_iter().flatten().min()
    }

    /// The next one, with a number of its own.
    pub(super) fn next(&mut self) -> Option<Arc<Job>> {
        let submitted = self.next_at()?;
        let like = match self.bursts.pop_if(|(at, _)| *at <= submitted) {
            Some((_, like)) => like,
            None => {
                self.coming.start += 1;
                self.coming.start - 1
            }
        };
        let id = JobId(self.next_id);
        self.next_id += 1;
        let mut job = (*self.known.past[like]).clone();
        // A deadline is as far off as it was then.
        job.goals.deadline = job.goals.deadline.map(|deadline| submitted + deadline.since(job.submitted));
        Some(Arc::new(Job { id, submitted, ..job }))
    }

    fn begin_block(&mut self, block: Span) {
        let (past, now) = (self.known.past, self.known.now);
        let begins = Time(now.0 + block.0 * self.blocks);
        let seed = self.seed.numbered(self.blocks);
        let is_alike = uniform(seed.branch("alike")) < DAYS_ALIKE;
        let chance = uniform(if is_alike { self.seed.branch("common") } else { seed });
        self.blocks += 1;
        let first = past[0].submitted;
        let source = if block == DAY {
            // Whole days back, so that the time of day stays.
            let least = self.blocks;
            let most = begins.since(first).0 / DAY.0;
            let choices = most.saturating_sub(least).saturating_add(1).min(MOST_DAYS);
            begins - Span(DAY.0 * (least + (chance * choices as f64) as u64))
        } else {
            first + Span(now.since(first).0 - block.0).scaled(chance)
        };
        let from = past.partition_point(|job| job.submitted < source);
        let to = past.partition_point(|job| job.submitted < source + block);
        (self.coming, self.later) = (from..to, begins.since(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Parameters, generate};

    fn past(days: u64) -> (Vec<Arc<Job>>, Time) {
        let parameters = Parameters { jobs: Some(3000), ..Parameters::default() };
        let workload = generate(&parameters).expect("it can be made");
        let now = Time::from_secs(86_400 * days);
        let jobs = workload.jobs.into_iter().map(|(job, _)| job).take_while(|job| job.submitted <= now);
        (jobs.collect(), now)
    }

    #[test]
    fn newcomers_come_later_in_order_with_new_numbers() {
        let (past, now) = past(1);
        let known = Known::new(&past, now);
        let mut arrivals = Arrivals::new(&known, Seed(1));
        let (mut before, mut id) = (now, past.len() as u32);
        for _ in 0..2000 {
            let job = arrivals.next().expect("there is a past");
            assert!(job.submitted >= before && job.id == JobId(id));
            (before, id) = (job.submitted, id + 1);
        }
    }

    /// So many days that are all like one another.
    fn equal_days(days: u64) -> Vec<Arc<Job>> {
        let (day, _) = past(1);
        let at = |d: u64, job: &Arc<Job>| job.submitted + Span(DAY.0 * d);
        let all = (0..days).flat_map(|d| day.iter().map(move |job| (at(d, job), job.clone())));
        let number = |(i, (submitted, job)): (usize, (Time, Arc<Job>))| {
            Arc::new(Job { id: JobId(i as u32), submitted, ..(*job).clone() })
        };
        all.enumerate().map(number).collect()
    }

    #[test]
    fn days_keep_their_rhythm_and_their_number_of_jobs() {
        let long = equal_days(5);
        let now = Time::from_secs(86_400 * 5 - 3600);
        let past: Vec<_> = long.iter().filter(|job| job.submitted <= now).cloned().collect();
        let mut known = Known::new(&past, now);
        known.open.clear();
        let mut arrivals = Arrivals::new(&known, Seed(3));
        let hour = |at: Time| (at.0 % DAY.0 / 3_600_000_000) as usize;
        let (mut real, mut drawn) = ([0_u32; 24], [0_u32; 24]);
        long.iter().filter(|job| job.submitted.0 < DAY.0).for_each(|job| real[hour(job.submitted)] += 1);
        while arrivals.next_at().is_some_and(|at| at < now + DAY) {
            drawn[hour(arrivals.next().expect("it is there").submitted)] += 1;
        }
        assert_eq!(real, drawn, "every day of this past is the same, and so is the next");
    }

    #[test]
    fn a_burst_goes_on_as_earlier_ones_did() {
        let (some, _) = past(1);
        // Every hour ten jobs of one minute each; now is after the third of the tenth burst.
        let burst = |b: u64| (0..10).map(move |i| Time::from_secs(3600 * b + 60 * i));
        let times = (0..10).flat_map(burst).take(93);
        let past: Vec<Arc<Job>> = times
            .enumerate()
            .map(|(i, submitted)| Arc::new(Job { id: JobId(i as u32), submitted, ..(*some[0]).clone() }))
            .collect();
        let now = past[92].submitted + Span::from_secs(10);
        let known = Known::new(&past, now);
        for seed in 0..20 {
            let mut arrivals = Arrivals::new(&known, Seed(seed));
            let bursts = arrivals.bursts.len();
            assert!(
                (4..=8).contains(&bursts),
                "between ranks 2 and 6 of ten, four to eight follow: {bursts}"
            );
            assert!(arrivals.next_at().is_some_and(|at| at <= now + Span::from_secs(50)));
        }
        let later = Known::new(&past, now + BURST_GAP);
        assert!(later.open.is_empty(), "a burst that paused for long is over");
    }

    #[test]
    fn when_nobody_came_for_long_nobody_is_expected() {
        let (some, _) = past(1);
        let at = |seconds| Arc::new(Job { submitted: Time::from_secs(seconds), ..(*some[0]).clone() });
        // Whole days are drawn from the last fourteen, and a short past is almost empty.
        for (old, new, now) in [(0, 86_400, 86_400 * 40), (0, 1000, 1000)] {
            let jobs = [at(old), Arc::new(Job { id: JobId(1), ..(*at(new)).clone() })];
            let known = Known::new(&jobs, Time::from_secs(now));
            let mut arrivals = Arrivals::new(&known, Seed(1));
            assert!(arrivals.block.is_some(), "there is a block to draw");
            assert_eq!(arrivals.next_of_block(), None);
        }
    }

    #[test]
    fn a_deadline_is_as_far_off_as_it_was() {
        let (some, now) = past(1);
        let goals = |job: &Job| trainyard_sched::model::Goals {
            deadline: Some(job.submitted + Span::from_secs(77)),
            ..job.goals.clone()
        };
        let past: Vec<Arc<Job>> =
            some.iter().map(|job| Arc::new(Job { goals: goals(job), ..(**job).clone() })).collect();
        let known = Known::new(&past, now);
        let next = Arrivals::new(&known, Seed(1)).next().expect("there is a past");
        assert_eq!(next.goals.deadline, Some(next.submitted + Span::from_secs(77)));
    }

    #[test]
    fn without_a_past_nobody_comes() {
        let now = Time::from_secs(5);
        assert_eq!(Arrivals::new(&Known::new(&[], now), Seed(1)).next_at(), None);
        let (past, _) = past(1);
        let known = Known::new(&past[..1], past[0].submitted);
        assert_eq!(Arrivals::new(&known, Seed(1)).next(), None);
    }
}
