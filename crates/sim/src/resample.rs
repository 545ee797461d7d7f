//! Other workloads from one trace: replicates by a block bootstrap, and more or less load by superposition.
//!
//! A trace is one sample of what could have happened, so what varies between seeds has to be made from it. It is cut
//! into blocks of time, and a replicate puts, in the place of each block, a block that is drawn, with replacement, from
//! those that are like it (a stratified block bootstrap, after Künsch, Annals of Statistics 1989). A block stays whole
//! and keeps its place in the day, so bursts, the rhythm of the day and what belongs together in time stay as they are.
//! Each block is expected once, so every job is. What blocks are and which are alike is said by [`Blocks`].
//!
//! A higher load lays copies over the trace. Arrivals are deliberately not squeezed in time: that would make each day
//! shorter than a day while jobs keep their lengths, so the rhythm, and how far a queue drains at night, would be
//! those of no real cluster. For the same reason run times are not stretched.
//!
//! Deliberately not here: noise on what jobs declare and node failures have seeds of their own; a generated workload is
//! generated again.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::{Job, Seed, Span, Time};

use crate::truth::Truth;
use crate::workload::{Done, Workload};

const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(24 * 3600);
/// Fewer whole days would repeat each other too often; hours are drawn then.
const FEWEST_DAYS: u64 = 4;
/// From so many whole days on there are four of each day of the week, which is enough to draw among.
const DAYS_FOR_WEEKS: u64 = 28;
/// An hour may stand for one of so many neighbours, in which the rhythm of the day hardly changes.
const HOURS_ALIKE: u64 = 4;

/// How a trace is cut into blocks, and which of them may stand for each other. What is left after the last whole block
/// always stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    origin: Time,
    count: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Days; each may be any day that is whole weeks away.
    DaysOfTheWeek,
    /// Days; each may be any other.
    Days,
    /// Hours in groups of neighbours.
    Hours,
}

/// The blocks that may stand for each other: `first`, `first + step` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    first: u64,
    step: u64,
    count: u64,
}

impl Blocks {
    /// The blocks of a trace: days from its first arrival on, drawn among equal days of the week in four weeks or more
    /// and among all days in four days or more; else hours, drawn among four neighbours (up to seven at the end).
    /// `None` for a trace of less than four hours, in which nothing can be drawn without breaking its order.
    pub fn of(workload: &Workload) -> Option<Self> {
        let origin = workload.jobs.first()?.0.submitted;
        let length = workload.jobs.last()?.0.submitted.since(origin);
        let (days, hours) = (length.0 / DAY.0, length.0 / HOUR.0);
        let (kind, count) = match days {
            DAYS_FOR_WEEKS.. => (Kind::DaysOfTheWeek, days),
            FEWEST_DAYS.. => (Kind::Days, days),
            _ if hours >= HOURS_ALIKE => (Kind::Hours, hours),
            _ => return None,
        };
        Some(Self { origin, count, kind })
    }

    const fn length(self) -> Span {
        match self.kind {
            Kind::DaysOfTheWeek | Kind::Days => DAY,
            Kind::Hours => HOUR,
        }
    }

    /// The number of the block in which `at` is; beyond the last whole block it is the count of blocks.
    fn number(self, at: Time) -> u64 {
        (at.since(self.origin).0 / self.length().0).min(self.count)
    }

    fn group(self, block: u64) -> Group {
        match self.kind {
            Kind::DaysOfTheWeek => {
                let first = block % 7;
                Group { first, step: 7, count: (self.count - first).div_ceil(7) }
            }
            Kind::Days => Group { first: 0, step: 1, count: self.count },
            Kind::Hours => {
                let groups = self.count / HOURS_ALIKE;
                let group = (block / HOURS_ALIKE).min(groups - 1);
                let first = group * HOURS_ALIKE;
                let last = group + 1 == groups;
                Group { first, step: 1, count: if last { self.count - first } else { HOURS_ALIKE } }
            }
        }
    }

    /// A time of block `from`, moved to the same place in block `to`.
    fn moved(self, at: Time, from: u64, to: u64) -> Time {
        Time(at.0 + to * self.length().0 - from * self.length().0)
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        match self.kind {
            Kind::DaysOfTheWeek => write!(f, "{count} days, drawn among the same days of the week"),
            Kind::Days => write!(f, "{count} days, drawn among all days"),
            Kind::Hours => write!(f, "{count} hours, drawn among {HOURS_ALIKE} neighbouring hours"),
        }
    }
}

impl Group {
    const fn nth(self, n: u64) -> u64 {
        self.first + n * self.step
    }

    fn any(self, random: &mut Pcg64) -> u64 {
        self.nth(random.random_range(0..self.count))
    }

    /// Any but `block`, if there is another.
    fn other_than(self, block: u64, random: &mut Pcg64) -> u64 {
        let others = self.count.saturating_sub(u64::from(block < self.nth(self.count)));
        if others == 0 {
            return block;
        }
        let drawn = self.nth(random.random_range(0..others));
        if drawn == block { self.nth(self.count - 1) } else { drawn }
    }
}

/// Another workload that could as well have happened. Jobs keep everything but the block in which they arrive; a job
/// that is drawn again gets a suffix, `name~2` (or the next number, where a job has that name). A trace that is too short for [`Blocks`] is returned as it is.
pub fn replicate(workload: &Workload, seed: Seed) -> Workload {
    let mut drawn = workload.clone();
    let Some(blocks) = Blocks::of(workload) else { return drawn };
    let mut random = Pcg64::seed_from_u64(seed.branch("resample").0);
    let mut bounds: Vec<usize> = (0..blocks.count)
        .map(|block| workload.jobs.partition_point(|(job, _)| blocks.number(job.submitted) < block))
        .collect();
    bounds.push(workload.jobs.partition_point(|(job, _)| blocks.number(job.submitted) < blocks.count));
    let mut times = vec![0_u32; workload.jobs.len()];
    let mut names = Names::of(workload);
    drawn.jobs.clear();
    for target in 0..blocks.count {
        let source = blocks.group(target).any(&mut random);
        let block = bounds[source as usize]..bounds[source as usize + 1];
        for (original, times) in workload.jobs[block.clone()].iter().zip(&mut times[block]) {
            *times += 1;
            let at = blocks.moved(original.0.submitted, source, target);
            drawn.jobs.push(copy(original, at, *times, &mut names));
        }
    }
    drawn.jobs.extend_from_slice(&workload.jobs[bounds[blocks.count as usize]..]);
    drawn.report.kept = drawn.jobs.len() as u64;
    drawn.report.find(Done::Assumed, format!("arrivals were drawn from blocks of the trace: {blocks}"), None);
    drawn.number();
    drawn
}

/// The workload with `factor` times its jobs: each is there as often as the whole part of the factor says, and once
/// more with a probability of the rest; with a factor below 1 it is there with that probability. Its first copy
/// stays where it is. Each further one arrives at the same time of another day (of another hour of those alike, or at
/// the same moment, where [`Blocks`] has no days), so that a burst is not doubled but there are more bursts.
///
/// # Panics
/// If the factor is no number from 0 to 100.
pub fn superpose(workload: &Workload, factor: f64, seed: Seed) -> Workload {
    assert!((0.0..=100.0).contains(&factor), "a load factor of {factor} is a bug of the caller");
    let blocks = Blocks::of(workload);
    let seed = seed.branch("load");
    let mut more = workload.clone();
    let mut names = Names::of(workload);
    more.jobs.clear();
    for one in &workload.jobs {
        // A branch for each job: whether it is there twice does not depend on which other jobs there are.
        let mut random = Pcg64::seed_from_u64(seed.branch(&one.0.name).0);
        let copies = factor.floor() as u32 + u32::from(random.random::<f64>() < factor.fract());
        for number in 1..=copies {
            let at = one.0.submitted;
            let at = match blocks {
                Some(blocks) if number > 1 => elsewhere(blocks, at, &mut random),
                _ => at,
            };
            more.jobs.push(copy(one, at, number, &mut names));
        }
    }
    more.report.kept = more.jobs.len() as u64;
    let way = blocks
        .map_or_else(|| "at the same moment".to_owned(), |blocks| format!("in other blocks of {blocks}"));
    let what = match factor {
        ..1.0 => format!("each job was kept with a probability of {factor}"),
        _ => format!("each job is there {factor} times on average; further copies arrive {way}"),
    };
    more.report.find(Done::Assumed, what, None);
    more.number();
    more
}

/// The same place in another block. What is after the last whole block counts as the beginning of one more.
fn elsewhere(blocks: Blocks, at: Time, random: &mut Pcg64) -> Time {
    let from = blocks.number(at);
    let to = blocks.group(from).other_than(from, random);
    blocks.moved(at, from, to)
}

/// The names that a copy must not get: those that are like the name of a copy.
struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn of(workload: &Workload) -> Self {
        let names = workload.jobs.iter().map(|(job, _)| &job.name);
        Self(names.filter(|name| name.contains('~')).cloned().collect())
    }

    /// The name of the `number`-th copy, or of the next that is free. Nobody gets it again.
    fn copy_of(&mut self, name: &str, number: u32) -> Arc<str> {
        let mut number = number;
        loop {
            let copy: Arc<str> = format!("{name}~{number}").into();
            if self.0.insert(Arc::clone(&copy)) {
                return copy;
            }
            number += 1;
        }
    }
}

/// The `number`-th copy of a job, arriving at `at`.
fn copy((job, truth): &(Arc<Job>, Truth), at: Time, number: u32, names: &mut Names) -> (Arc<Job>, Truth) {
    let mut job = Arc::clone(job);
    if number > 1 {
        Arc::make_mut(&mut job).name = names.copy_of(&job.name, number);
    }
    if job.submitted != at {
        let changed = Arc::make_mut(&mut job);
        let before = changed.submitted;
        changed.goals.deadline = changed.goals.deadline.map(|deadline| at + deadline.since(before));
        changed.submitted = at;
    }
    (job, truth.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use trainyard_sched::model::{Declared, Goals, JobId, MoveCost, Parallelism, TenantId, Wanted};

    use super::*;

    /// One job a minute of the first `per_day` minutes of each day's tenth hour, and one at the end of `days`.
    fn mornings(days: u64, per_day: u64) -> Workload {
        let minute = |day: u64, minute: u64| day * 86_400 + 9 * 3600 + minute * 60;
        let mut at: Vec<u64> = (0..days).flat_map(|day| (0..per_day).map(move |m| minute(day, m))).collect();
        at.insert(0, 0);
        at.push(days * 86_400);
        from(&at)
    }

    fn from(submitted_s: &[u64]) -> Workload {
        let job = |(i, at): (usize, &u64)| {
            let truth = Truth::lasting(Span::from_secs(60 + i as u64), 1);
            let job = Job {
                id: JobId(i as u32),
                name: format!("j{i}").into(),
                tenant: TenantId(0),
                model: None,
                submitted: Time::from_secs(*at),
                shape: Parallelism::gang(1),
                wanted: Wanted::default(),
                goals: Goals { deadline: Some(Time::from_secs(at + 500)), ..Goals::default() },
                declared: Declared::default(),
                move_cost: MoveCost::default(),
            };
            (Arc::new(job), truth)
        };
        Workload { jobs: submitted_s.iter().enumerate().map(job).collect(), ..Workload::default() }
    }

    fn name_of(copy: &str) -> &str {
        copy.split('~').next().unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_replicate_and_another_does_not() {
        let trace = mornings(10, 20);
        assert_eq!(replicate(&trace, Seed(1)).jobs, replicate(&trace, Seed(1)).jobs);
        assert_ne!(replicate(&trace, Seed(1)).jobs, replicate(&trace, Seed(2)).jobs);
        assert_eq!(superpose(&trace, 1.5, Seed(1)).jobs, superpose(&trace, 1.5, Seed(1)).jobs);
        assert_ne!(superpose(&trace, 1.5, Seed(1)).jobs, superpose(&trace, 1.5, Seed(2)).jobs);
    }

    #[test]
    fn jobs_keep_all_but_their_block() {
        let trace = mornings(9, 30);
        let known: BTreeMap<&str, &(Arc<Job>, Truth)> =
            trace.jobs.iter().map(|job| (&*job.0.name, job)).collect();
        for made in [replicate(&trace, Seed(3)), superpose(&trace, 2.5, Seed(3))] {
            let names: BTreeSet<&str> = made.jobs.iter().map(|(job, _)| &*job.name).collect();
            assert_eq!(names.len(), made.jobs.len(), "names stay unique");
            assert!(made.jobs.iter().enumerate().all(|(i, (job, _))| job.id.index() == i));
            assert!(made.jobs.is_sorted_by_key(|(job, _)| job.submitted));
            let mut moved = 0;
            for (job, truth) in &made.jobs {
                let (original, true_of_it) = known[name_of(&job.name)];
                assert_eq!(truth, true_of_it);
                assert_eq!(job.submitted.0 % DAY.0, original.submitted.0 % DAY.0, "the time of day stays");
                let deadline = job.goals.deadline.unwrap();
                assert_eq!(deadline.since(job.submitted), Span::from_secs(500));
                moved += u32::from(job.submitted != original.submitted);
            }
            assert!(moved > 0);
        }
    }

    #[test]
    fn names_stay_unique_where_copies_are_copied_and_where_jobs_are_called_like_copies() {
        let mut trace = mornings(9, 30);
        Arc::make_mut(&mut trace.jobs[3].0).name = "j2~2".into();
        for seed in 0..5 {
            let made = superpose(&replicate(&trace, Seed(seed)), 3.0, Seed(seed));
            let names: BTreeSet<&str> = made.jobs.iter().map(|(job, _)| &*job.name).collect();
            assert_eq!(names.len(), made.jobs.len());
            let doubled = superpose(&trace, 2.0, Seed(seed));
            let names: BTreeSet<&str> = doubled.jobs.iter().map(|(job, _)| &*job.name).collect();
            assert!(names.len() == doubled.jobs.len() && names.contains("j2~3") && names.contains("j2~2~2"));
        }
    }

    #[test]
    fn a_block_is_drawn_as_a_whole() {
        // Days differ in how many jobs they have, so a day can be recognised by its count.
        let mut at: Vec<u64> =
            (0..6).flat_map(|day| (0..=day).map(move |i| day * 86_400 + 3600 + i)).collect();
        at.insert(0, 0);
        at.push(6 * 86_400);
        let trace = from(&at);
        let made = replicate(&trace, Seed(5));
        let mut drawn = BTreeSet::new();
        for day in 0..6 {
            let in_burst = |job: &Job| {
                job.submitted.0 / DAY.0 == day && job.submitted.0 % DAY.0 >= Span::from_secs(3600).0
            };
            let jobs: Vec<&str> = made
                .jobs
                .iter()
                .filter(|(job, _)| in_burst(job))
                .map(|(job, _)| name_of(&job.name))
                .collect();
            let source = jobs.len() as u64 - 1;
            let of_source = trace.jobs.iter().filter(|(job, _)| job.submitted.0 / DAY.0 == source);
            let whole: Vec<&str> =
                of_source.map(|(job, _)| &*job.name).filter(|name| *name != "j0").collect();
            assert_eq!(jobs, whole);
            drawn.insert(source);
        }
        assert!(drawn.len() < 6, "with replacement some day comes twice here: {drawn:?}");
    }

    #[test]
    fn every_job_is_expected_once() {
        for trace in [mornings(5, 8), mornings(30, 3), from(&(0..100).map(|i| i * 300).collect::<Vec<_>>())] {
            let rounds = 400;
            let mut times: BTreeMap<String, f64> = BTreeMap::new();
            for seed in 0..rounds {
                for (job, _) in &replicate(&trace, Seed(seed)).jobs {
                    *times.entry(name_of(&job.name).to_owned()).or_default() += 1.0 / rounds as f64;
                }
            }
            assert_eq!(times.len(), trace.jobs.len());
            // Five standard deviations of the mean of 400 counts with a variance below 1.
            let odd: Vec<_> = times.iter().filter(|(_, mean)| (*mean - 1.0).abs() > 0.25).collect();
            assert!(odd.is_empty(), "{odd:?}");
        }
    }

    #[test]
    fn long_traces_keep_the_day_of_the_week_and_short_ones_their_hour() {
        let weeks = mornings(35, 2);
        assert!(Blocks::of(&weeks).unwrap().to_string().contains("days of the week"));
        let original: BTreeMap<&str, u64> =
            weeks.jobs.iter().map(|(job, _)| (&*job.name, job.submitted.0 / DAY.0)).collect();
        for (job, _) in &replicate(&weeks, Seed(1)).jobs {
            assert_eq!(job.submitted.0 / DAY.0 % 7, original[name_of(&job.name)] % 7, "{}", job.name);
        }
        // What is after the last whole day is of the next day of the week.
        let rest = mornings(30, 2);
        let original: BTreeMap<&str, u64> =
            rest.jobs.iter().map(|(job, _)| (&*job.name, job.submitted.0 / DAY.0)).collect();
        for (job, _) in &superpose(&rest, 3.0, Seed(1)).jobs {
            assert_eq!(job.submitted.0 / DAY.0 % 7, original[name_of(&job.name)] % 7, "{}", job.name);
        }
        let hours = from(&(0..96).map(|i| i * 600).collect::<Vec<_>>());
        for made in [replicate(&hours, Seed(1)), superpose(&hours, 3.0, Seed(1))] {
            for (job, _) in &made.jobs {
                let number: u64 = name_of(&job.name)[1..].parse().unwrap();
                let away = (job.submitted.0 / HOUR.0).abs_diff(number * 600 / 3600);
                assert!(
                    away <= 7 && job.submitted.0 % HOUR.0 == number * 600 % 3600 * 1_000_000,
                    "{}",
                    job.name
                );
            }
        }
    }

    #[test]
    fn a_trace_of_a_few_hours_stays_as_it_is() {
        let short = from(&[0, 10, 3 * 3600]);
        assert_eq!(Blocks::of(&short), None);
        assert_eq!(replicate(&short, Seed(9)).jobs, short.jobs);
        let doubled = superpose(&short, 2.0, Seed(9));
        let at: Vec<u64> = doubled.jobs.iter().map(|(job, _)| job.submitted.0 / 1_000_000).collect();
        assert_eq!(at, [0, 0, 10, 10, 10_800, 10_800]);
    }

    #[test]
    fn a_load_factor_multiplies_the_number_of_jobs() {
        let trace = mornings(20, 50);
        let count = |factor| superpose(&trace, factor, Seed(2)).jobs.len() as f64 / trace.jobs.len() as f64;
        assert_eq!(count(1.0), 1.0);
        assert_eq!(count(2.0), 2.0);
        assert_eq!(count(0.0), 0.0);
        for factor in [0.3, 0.9, 1.5, 2.25] {
            assert!((count(factor) - factor).abs() < 0.05, "{factor}: {}", count(factor));
        }
        let one = superpose(&trace, 1.0, Seed(2));
        assert_eq!(one.jobs, trace.jobs, "a load of 1 changes nothing");
    }

    #[test]
    fn more_load_keeps_the_jobs_of_less_and_copies_are_on_other_days() {
        let trace = mornings(8, 40);
        let names = |factor| -> BTreeSet<String> {
            superpose(&trace, factor, Seed(4)).jobs.iter().map(|(job, _)| job.name.to_string()).collect()
        };
        assert!(names(0.3).is_subset(&names(0.7)) && names(1.2).is_subset(&names(1.6)));
        let made = superpose(&trace, 2.0, Seed(4));
        let day: BTreeMap<&str, u64> =
            made.jobs.iter().map(|(job, _)| (&*job.name, job.submitted.0 / DAY.0)).collect();
        for (name, at) in &day {
            if let Some(original) = name.strip_suffix("~2") {
                assert_ne!(day[original], *at, "{name}");
            }
        }
    }
}
