//! What may be believed about how long jobs run: what they declare times how wrong such declarations were, or, for
//! jobs that declare nothing, how long jobs of their size ran. The truth about a job that goes on is never asked.
//!
//! What is learnt is learnt from jobs that have ended in this run and, as far as it goes, from those that go on
//! (see `survival`). So few may have ended that chance rules what they say. Therefore each future believes in its
//! own reweighting of the past (Rubin, The Bayesian bootstrap, 1981), beside a prior that counts like two jobs.
//!
//! How wrong a declaration is depends on how long it is: of the longest ones more are too long than too short, and
//! they are what others wait for. So a declaration is compared with others of like length.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Batch, Event, State};
use trainyard_sched::model::{GPU, Job, JobId, Seed, Span, Time};
use trainyard_sched::view::JobView;

use super::arrivals::Known;
use super::survival::{Observed, Survival};

/// So many of the latest ends are looked at; older ones say less about now, and a forecast must be quick.
const MOST_ENDS: usize = 2000;
/// Jobs of one size of which fewer than this have ended learn from all sizes.
const ENOUGH_ENDS: usize = 10;
/// Declarations are compared with others of like length, in groups of at least so many, at most `GROUPS` of them.
const LIKE_DECLARED: usize = 40;
/// See `LIKE_DECLARED`.
const GROUPS: usize = 20;
/// With this chance a job of a burst is off by as much as the whole burst: jobs that come together are alike.
const ALIKE: f64 = 0.5;
/// The latest ends are cut into so many parts, each of those that ended one after another, to see by how much the
/// work of many jobs is off in common.
const PARTS: usize = 8;
/// What the prior counts, in jobs.
const PRIOR_JOBS: f64 = 2.0;
/// Deciles 1, 3, 5, 7 and 9 of the standard normal distribution.
const DECILES: [f64; 5] = [-1.282, -0.524, 0.0, 0.524, 1.282];
/// Before anything is known, declarations are right in the median and off by a factor of 2 (one standard
/// deviation), which is what a guess to the nearest usual limit comes to. The variance of its logarithm.
const PRIOR_VARIANCE: f64 = 0.49;
/// Before anything is known, half of the jobs run longer than half an hour, with a factor of 7 for one standard
/// deviation; the published traces of Philly and Helios are like that.
const PRIOR_LENGTH: (f64, f64) = (7.5, 2.0);

/// What happened before: who arrived, and how long those took that have ended. It follows a run.
#[derive(Clone, Debug, Default)]
pub struct Past {
    arrivals: Vec<Arc<Job>>,
    ended: Vec<Ended>,
}

/// A job that has come to its end by itself.
#[derive(Clone, Debug)]
struct Ended {
    job: Arc<Job>,
    worked_s: f64,
}

impl Past {
    /// Takes note of a batch that is about to be applied to `state`.
    pub fn observe(&mut self, state: &State, batch: &Batch) {
        for event in &batch.events {
            match event {
                Event::Arrived { job } if state.job(job.id).is_none() && !state.has_ended(job.id) => {
                    self.arrivals.push(Arc::clone(job));
                }
                Event::Finished { job, attempt, .. } => {
                    if let Some(view) = state.job(*job).filter(|view| view.attempt == *attempt) {
                        let worked_s = worked_s(view, batch.at);
                        self.ended.push(Ended { job: Arc::clone(&view.job), worked_s });
                    }
                }
                _ => {}
            }
        }
    }

    /// A past that somebody else has kept: who arrived, the earliest first, and of those who have come to their end by
    /// themselves for how many seconds they would have run on their smallest gang.
    pub fn kept(arrivals: Vec<Arc<Job>>, ended: impl IntoIterator<Item = (Arc<Job>, f64)>) -> Self {
        let ended = ended.into_iter().map(|(job, worked_s)| Ended { job, worked_s }).collect();
        Self { arrivals, ended }
    }

    /// All jobs that have arrived, the earliest first.
    pub fn arrivals(&self) -> &[Arc<Job>] {
        &self.arrivals
    }

    /// How many jobs have ended that say something about run times.
    pub fn ends(&self) -> usize {
        self.ended.len()
    }
}

/// Seconds that one iteration takes on the smallest gang: as it goes, as it was declared, or as it went.
pub(super) fn iteration_s(view: &JobView, now: Time) -> f64 {
    let least = view.job.shape.data_parallel().map_or(1, |shape| shape.workers.min.max(1));
    if view.done.speed > 0.0 && view.held.is_some() {
        let workers = if view.job.shape.data_parallel().is_some() { view.held.workers().max(1) } else { 1 };
        return f64::from(workers) / (f64::from(least) * view.done.speed);
    }
    if let Some(declared) = view.job.declared.iteration.filter(|each| each.0 > 0) {
        return declared.as_secs_f64();
    }
    let (iterations, executed_s) = (view.iterations(now), view.executed(now).as_secs_f64());
    if iterations > 0.0 && executed_s > 0.0 { executed_s / iterations } else { 1.0 }
}

/// How long a job claims to run that declared iterations alone, at the pace at which it goes or went; `None` before it was
/// ever seen to go.
pub(super) fn claim_at_its_pace_s(view: &JobView, now: Time) -> Option<f64> {
    let declared = &view.job.declared;
    let count = declared.iterations.filter(|count| *count > 0.0 && declared.iteration.is_none())?;
    let goes = view.done.speed > 0.0 && view.held.is_some();
    let went = view.iterations(now) > 0.0 && view.executed(now) > Span::ZERO;
    (goes || went).then(|| count * iteration_s(view, now))
}

/// How long a job would have had to run on its smallest gang for what it has done so far.
pub(super) fn worked_s(view: &JobView, now: Time) -> f64 {
    view.iterations(now) * iteration_s(view, now)
}

/// The group of sizes that a job is compared with: GPUs, in powers of two.
fn size(job: &Job) -> u32 {
    (job.shape.minimum().gpu_milli / GPU).max(1).ilog2()
}

/// Everything that was seen, sorted, so that each future weighs it quickly.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// Groups of declarations with the shortest of each in seconds, the longest group first.
    ratios: Vec<(f64, Vec<Observed>)>,
    lengths: BTreeMap<u32, Vec<Observed>>,
    all_lengths: Vec<Observed>,
    /// By what factor the work of many jobs together was more than expected, at several times.
    common: Vec<f64>,
}

impl Evidence {
    pub(super) fn gather(past: &Past, known: &Known<'_>, state: &State, now: Time) -> Self {
        let latest = past.ended.len().saturating_sub(MOST_ENDS);
        let ended = past.ended[latest..].iter().map(|ended| (&ended.job, ended.worked_s, true));
        // Of what goes on only what came as late as that: who dropped old ends and kept what is as old and goes on
        // would take long lengths for usual.
        let oldest = past.ended[latest..].iter().map(|ended| ended.job.submitted).min();
        let since = oldest.filter(|_| latest > 0).unwrap_or(Time::ZERO);
        let late = state.jobs().filter(|view| view.job.submitted >= since);
        let going = late.map(|view| (&view.job, worked_s(view, now), false));
        let mut declared: Vec<(f64, Observed)> = Vec::new();
        let mut lengths: BTreeMap<u32, Vec<Observed>> = BTreeMap::new();
        let mut all_lengths = prior(PRIOR_LENGTH);
        for (job, worked_s, ended) in ended.chain(going.filter(|(_, worked_s, _)| *worked_s > 0.0)) {
            let burst = known.burst_of(job.id).unwrap_or(job.id);
            let seen = |value| Observed { value, ended, weight: 1.0, burst: Some(burst) };
            match declared_s(job) {
                Some(declared_s) => declared.push((declared_s, seen(worked_s / declared_s))),
                None => {
                    lengths.entry(size(job)).or_default().push(seen(worked_s));
                    all_lengths.push(seen(worked_s));
                }
            }
        }
        lengths.retain(|_, seen| seen.iter().filter(|seen| seen.ended).count() >= ENOUGH_ENDS);
        lengths.values_mut().for_each(|seen| seen.extend(prior(PRIOR_LENGTH)));
        lengths.values_mut().for_each(|seen| sort(seen));
        sort(&mut all_lengths);
        let claims: Vec<f64> = state.jobs().filter_map(|view| declared_s(&view.job)).collect();
        let common = common_errors(&past.ended[latest..]);
        Self { ratios: by_length(declared, &claims), lengths, all_lengths, common }
    }

    /// What one future believes.
    pub(super) fn believe(&self, seed: Seed) -> Belief {
        let weigh = |name: &str| {
            let seed = seed.branch(name);
            // Jobs of one burst say much the same, so they are believed or doubted together; the prior is a burst of its own.
            move |seen: &Observed| {
                let number = seen.burst.map_or(u64::MAX, |first| u64::from(first.0));
                -uniform(seed.numbered(number)).ln() * seen.weight
            }
        };
        let of_size = |(size, seen): (&u32, &Vec<Observed>)| {
            (*size, Survival::new(seen, weigh(&format!("lengths {size}"))))
        };
        let like = |(i, (from_s, seen)): (usize, &(f64, Vec<Observed>))| {
            (*from_s, Survival::new(seen, weigh(&format!("ratios {i}"))))
        };
        let part = (uniform(seed.branch("common")) * self.common.len() as f64) as usize;
        Belief {
            seed: seed.branch("jobs"),
            common: self.common.get(part).copied().unwrap_or(1.0),
            ratios: self.ratios.iter().enumerate().map(like).collect(),
            lengths: self.lengths.iter().map(of_size).collect(),
            all_lengths: Survival::new(&self.all_lengths, weigh("all lengths")),
        }
    }
}

/// By what factor the work of jobs that ended one after another was more than that of all: what is run changes with
/// time, and then many declarations are off in common, which no number of jobs averages out.
fn common_errors(ended: &[Ended]) -> Vec<f64> {
    let of = |ended: &[Ended]| {
        let works = ended.iter().filter_map(|ended| {
            let gpus = ended.job.shape.minimum().gpu_milli as f64;
            Some((ended.worked_s * gpus, declared_s(&ended.job)? * gpus))
        });
        works.fold((0.0, 0.0), |sum, work| (sum.0 + work.0, sum.1 + work.1))
    };
    let parts = ended.chunks((ended.len() / PARTS).max(LIKE_DECLARED)).map(of);
    let logs: Vec<f64> = parts
        .filter(|(worked, declared)| *worked > 0.0 && *declared > 0.0)
        .map(|(worked, declared)| (worked / declared).ln())
        .collect();
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    logs.into_iter().map(|log| (log - mean).exp()).collect()
}

/// How long a job claims to run in seconds, if it does.
fn declared_s(job: &Job) -> Option<f64> {
    job.declared.duration().filter(|declared| declared.0 > 0).map(Span::as_secs_f64)
}

fn sort(seen: &mut [Observed]) {
    seen.sort_by(|a, b| a.value.total_cmp(&b.value));
}

/// Groups of declarations of like length, the longest first.
fn by_length(mut declared: Vec<(f64, Observed)>, claims: &[f64]) -> Vec<(f64, Vec<Observed>)> {
    let error = Error::of(&declared, claims);
    declared.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut groups = Vec::new();
    let count = LIKE_DECLARED.max(declared.len() / GROUPS);
    let mut rest = &declared[..];
    loop {
        // What would be too few for a group of its own goes with those before.
        let mut here = if rest.len() < 2 * count { rest.len() } else { count };
        // Equal declarations, which are the usual case where people give limits, stay together.
        while here < rest.len() && rest[here].0 == rest[here - 1].0 {
            here += 1;
        }
        let (group, others) = rest.split_at(here);
        let from_s = if others.is_empty() { 0.0 } else { group[here - 1].0 };
        let mut seen: Vec<Observed> = group.iter().map(|(_, seen)| *seen).collect();
        seen.extend(prior(error.expected_at(group)));
        sort(&mut seen);
        groups.push((from_s, seen));
        if others.is_empty() {
            return groups;
        }
        rest = others;
    }
}

/// How far declarations are off in general, as variances of logarithms, and what follows for those of one length.
///
/// A long declaration is more often too long than too short, and the other way round: it was drawn to the mean of
/// all, by the part of the variance of declarations that is error (regression to the mean, Galton 1886).
struct Error {
    variance: f64,
    /// Of declarations: mean and variance of the logarithm.
    mean: f64,
    spread: f64,
}

impl Error {
    fn of(declared: &[(f64, Observed)], claims: &[f64]) -> Self {
        let ends = declared.iter().filter(|(_, seen)| seen.ended && seen.value > 0.0);
        let (count, squares) = ends.fold((PRIOR_JOBS, PRIOR_JOBS * PRIOR_VARIANCE), |(n, sum), (_, seen)| {
            (n + 1.0, sum + seen.value.ln().powi(2))
        });
        let ended = declared.iter().filter(|(_, seen)| seen.ended).map(|(declared_s, _)| *declared_s);
        let logs: Vec<f64> = ended.chain(claims.iter().copied()).map(f64::ln).collect();
        let n = logs.len().max(1) as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / n;
        Self { variance: squares / count, mean, spread }
    }

    /// Mean and standard deviation of the logarithm of the ratio, for declarations of a group.
    fn expected_at(&self, group: &[(f64, Observed)]) -> (f64, f64) {
        let part = if self.spread > 0.0 { (self.variance / self.spread).min(1.0) } else { 0.0 };
        let logs = group.iter().map(|(declared_s, _)| declared_s.ln());
        let here = if group.is_empty() { self.mean } else { logs.sum::<f64>() / group.len() as f64 };
        (-part * (here - self.mean), (self.variance * (1.0 - part)).max(0.0).sqrt())
    }
}

fn prior((mean, deviation): (f64, f64)) -> Vec<Observed> {
    let weight = PRIOR_JOBS / DECILES.len() as f64;
    DECILES
        .map(|z| Observed { value: (mean + deviation * z).exp(), ended: true, weight, burst: None })
        .to_vec()
}

/// What one future believes about run times.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    seed: Seed,
    /// By what factor all jobs run longer than usual for what they declare.
    common: f64,
    ratios: Vec<(f64, Survival)>,
    lengths: BTreeMap<u32, Survival>,
    all_lengths: Survival,
}

impl Belief {
    /// How long a job would run in all on its smallest gang, given what it has done so far and which job its burst
    /// began with, and what it claims at its pace if it declares no length. The same question has the same answer.
    pub(super) fn length_s(
        &self,
        job: &Job,
        burst: Option<JobId>,
        worked_s: f64,
        at_its_pace_s: Option<f64>,
    ) -> f64 {
        let seed = self.seed.numbered(u64::from(job.id.0));
        let common = burst.filter(|_| uniform(seed.branch("alike")) < ALIKE);
        let chance =
            uniform(common.map_or(seed, |first| self.seed.branch("bursts").numbered(u64::from(first.0))));
        if let Some(declared_s) = declared_s(job).or(at_its_pace_s) {
            let like = self.ratios.iter().find(|(from_s, _)| declared_s >= *from_s);
            let (_, ratios) = like.expect("the last group begins at zero");
            let usual_s = declared_s * self.common;
            return ratios.draw(worked_s / usual_s, chance) * usual_s;
        }
        self.lengths.get(&size(job)).unwrap_or(&self.all_lengths).draw(worked_s, chance)
    }
}

/// A number between 0 and 1, both excluded, from a seed that is used for nothing else.
pub(super) fn uniform(seed: Seed) -> f64 {
    ((seed.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_declarations_are_compared_with_all_of_them() {
        // Everybody declares the same limit: 45 that ran shortly, then 300 that ran long.
        let seen = |value| (1000.0, Observed { value, ended: true, weight: 1.0, burst: None });
        let declared: Vec<(f64, Observed)> =
            (0..45).map(|_| seen(0.05)).chain((0..300).map(|_| seen(0.9))).collect();
        let groups = by_length(declared, &[]);
        assert_eq!(groups.len(), 1);
        let short = groups[0].1.iter().filter(|seen| seen.value == 0.05).count();
        assert_eq!((short, groups[0].1.len()), (45, 345 + DECILES.len()));
    }

    #[test]
    fn what_many_are_off_in_common_is_seen_part_by_part() {
        let workload = crate::generate::generate(&crate::generate::Parameters::default()).expect("a preset");
        let mut job = (*workload.jobs[0].0).clone();
        let iteration = Some(Span::from_secs(1));
        job.declared =
            trainyard_sched::model::Declared { iterations: Some(100.0), iteration, ..Default::default() };
        let ended = |worked_s| Ended { job: Arc::new(job.clone()), worked_s };
        let exact: Vec<Ended> = (0..320).map(|_| ended(100.0)).collect();
        assert_eq!(common_errors(&exact), [1.0; PARTS]);
        // Four parts in which all run for half as long as they say, then four in which they run for twice as long.
        let shifted: Vec<Ended> = (0..320).map(|i| ended(if i < 160 { 50.0 } else { 200.0 })).collect();
        let found = common_errors(&shifted);
        assert_eq!(found.len(), PARTS);
        assert!(found[..4].iter().all(|factor| (factor - 0.5).abs() < 1e-9), "{found:?}");
        assert!(found[4..].iter().all(|factor| (factor - 2.0).abs() < 1e-9), "{found:?}");
        assert!(common_errors(&[]).is_empty());
    }

    #[test]
    fn different_declarations_make_groups() {
        let seen = |i: u32| (f64::from(i), Observed { value: 1.0, ended: true, weight: 1.0, burst: None });
        let groups = by_length((1..=400).map(seen).collect(), &[]);
        assert_eq!(groups.len(), 10);
        assert!(groups.is_sorted_by(|a, b| a.0 > b.0) && groups[9].0 == 0.0);
    }

    #[test]
    fn what_has_run_for_long_is_not_taken_to_be_short() {
        // Half of the declarations were twice too long, and half too short by half.
        let seen = |value| Observed { value, ended: true, weight: 1.0, burst: None };
        let mut ratios: Vec<Observed> = (0..40).map(|i| seen(if i % 2 == 0 { 0.5 } else { 1.5 })).collect();
        sort(&mut ratios);
        let workload = crate::generate::generate(&crate::generate::Parameters::default()).expect("a preset");
        let mut job = (*workload.jobs[0].0).clone();
        job.declared = trainyard_sched::model::Declared {
            iterations: Some(1000.0),
            iteration: Some(Span::from_secs(1)),
            ..Default::default()
        };
        let lengths = |worked_s: f64| -> Vec<f64> {
            let believed = |seed: u64| Belief {
                seed: Seed(seed),
                common: 1.0,
                ratios: vec![(0.0, Survival::new(&ratios, |seen| seen.weight))],
                lengths: BTreeMap::new(),
                all_lengths: Survival::default(),
            };
            (0..200).map(|seed| believed(seed).length_s(&job, None, worked_s, None)).collect()
        };
        let fresh = lengths(0.0).into_iter().filter(|length| *length == 500.0).count();
        assert!((60..=140).contains(&fresh), "half of the fresh ones: {fresh}");
        assert!(lengths(600.0).into_iter().all(|length| length == 1500.0));
    }
}
