//! Who will arrive: the past again, in whole blocks, so that bursts and the rhythm of the day are kept (a block
//! bootstrap after Künsch, Annals of Statistics 1989).
//!
//! With two days of past or more a block is a day long, and each day to come is one of the latest fourteen days at
//! the same time of day. With less, blocks are a quarter of the past long and begin anywhere in it.

use std::sync::Arc;

use trainyard_sched::model::{Job, JobId, Seed, Span, Time};

use super::belief::uniform;

const DAY: Span = Span::from_secs(86_400);
/// Days that a day to come may be like.
const MOST_DAYS: u64 = 14;
/// Shorter blocks than this are not made; what came at one instant says nothing about a rate.
const SHORTEST_BLOCK: Span = Span::from_secs(60);

/// Jobs to come, drawn as they are asked for.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<'a> {
    past: &'a [Arc<Job>],
    now: Time,
    seed: Seed,
    /// The length of a block; `None` where there is no past to draw from.
    block: Option<Span>,
    /// Blocks begun so far.
    blocks: u64,
    /// What is left of the present block, and how much later it comes than it came.
    coming: std::ops::Range<usize>,
    later: Span,
    next_id: u32,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(past: &'a [Arc<Job>], now: Time, seed: Seed) -> Self {
        let first = past.first().map_or(now, |job| job.submitted);
        let known = now.since(first);
        let block = if known.0 >= 2 * DAY.0 { DAY } else { Span(known.0 / 4) };
        Self {
            past,
            now,
            seed,
            block: (block >= SHORTEST_BLOCK).then_some(block),
            blocks: 0,
            coming: 0..0,
            later: Span::ZERO,
            next_id: past.iter().map(|job| job.id.0 + 1).max().unwrap_or(0),
        }
    }

    /// When the next one comes.
    pub(super) fn next_at(&mut self) -> Option<Time> {
        let block = self.block?;
        // A block may be empty, but not all of them are.
        while self.coming.is_empty() {
            self.begin_block(block);
        }
        Some(self.past[self.coming.start].submitted + self.later)
    }

    /// The next one, with a number of its own.
    pub(super) fn next(&mut self) -> Option<Arc<Job>> {
        let submitted = self.next_at()?;
        let like = &self.past[self.coming.start];
        self.coming.start += 1;
        let id = JobId(self.next_id);
        self.next_id += 1;
        Some(Arc::new(Job { id, submitted, ..(**like).clone() }))
    }

    fn begin_block(&mut self, block: Span) {
        let begins = Time(self.now.0 + block.0 * self.blocks);
        let chance = uniform(self.seed.numbered(self.blocks));
        self.blocks += 1;
        let first = self.past[0].submitted;
        let source = if block == DAY {
            // Whole days back, so that the time of day stays.
            let least = self.blocks;
            let most = begins.since(first).0 / DAY.0;
            let choices = most.saturating_sub(least).saturating_add(1).min(MOST_DAYS);
            begins - Span(DAY.0 * (least + (chance * choices as f64) as u64))
        } else {
            first + Span((self.now.since(first).0 - block.0) as u64).scaled(chance)
        };
        let from = self.past.partition_point(|job| job.submitted < source);
        let to = self.past.partition_point(|job| job.submitted < source + block);
        (self.coming, self.later) = (from..to, begins.since(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Parameters, generate};

    fn past(days: u64) -> (Vec<Arc<Job>>, Time) {
        let workload =
            generate(&Parameters { jobs: Some(3000), ..Parameters::default() }).expect("it can be made");
        let now = Time::from_secs(86_400 * days);
        let jobs = workload.jobs.into_iter().map(|(job, _)| job).take_while(|job| job.submitted <= now);
        (jobs.collect(), now)
    }

    #[test]
    fn newcomers_come_later_in_order_with_new_numbers() {
        let (past, now) = past(1);
        let mut arrivals = Arrivals::new(&past, now, Seed(1));
        let (mut before, mut id) = (now, past.len() as u32);
        for _ in 0..2000 {
            let job = arrivals.next().expect("there is a past");
            assert!(job.submitted >= before && job.id == JobId(id));
            (before, id) = (job.submitted, id + 1);
        }
    }

    #[test]
    fn days_keep_their_rhythm_and_the_rate_stays() {
        let long: Vec<Arc<Job>> = {
            let (day, _) = past(1);
            let at = |d: u64, job: &Arc<Job>| job.submitted + Span(DAY.0 * d);
            let days = (0..5).flat_map(|d| day.iter().map(move |job| (at(d, job), job.clone())));
            let numbered = days.enumerate().map(|(i, (submitted, job))| {
                Arc::new(Job { id: JobId(i as u32), submitted, ..(*job).clone() })
            });
            numbered.collect()
        };
        let now = Time::from_secs(86_400 * 5 - 3600);
        let past: Vec<_> = long.iter().filter(|job| job.submitted <= now).cloned().collect();
        let mut arrivals = Arrivals::new(&past, now, Seed(3));
        let hour = |at: Time| at.0 % DAY.0 / 3_600_000_000;
        let (mut real, mut drawn) = ([0_u32; 24], [0_u32; 24]);
        long.iter()
            .filter(|job| job.submitted.0 < DAY.0)
            .for_each(|job| real[hour(job.submitted) as usize] += 1);
        while arrivals.next_at().is_some_and(|at| at < now + DAY) {
            drawn[hour(arrivals.next().expect("it is there").submitted) as usize] += 1;
        }
        assert_eq!(real, drawn, "every day of this past is the same, and so is the next");
    }

    #[test]
    fn without_a_past_nobody_comes() {
        assert_eq!(Arrivals::new(&[], Time::from_secs(5), Seed(1)).next_at(), None);
        let (past, _) = past(1);
        assert_eq!(Arrivals::new(&past[..1], past[0].submitted, Seed(1)).next(), None);
    }
}
