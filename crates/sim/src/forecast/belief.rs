//! What may be believed about how long jobs run: what they declare times how wrong such declarations were, or, for
//! jobs that declare nothing, how long jobs of their size ran. The truth about a job that goes on is never asked.
//!
//! What is learnt is learnt from jobs that have ended in this run and, as far as it goes, from those that go on
//! (see `survival`). So few may have ended that chance rules what they say. Therefore each future believes in its
//! own reweighting of the past (Rubin, The Bayesian bootstrap, 1981), beside a prior that counts like two jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Batch, Event, State};
use trainyard_sched::model::{GPU, Job, Seed, Time};
use trainyard_sched::view::JobView;

use super::survival::{Observed, Survival};

/// So many of the latest ends are looked at; older ones say less about now, and a forecast must be quick.
const MOST_ENDS: usize = 2000;
/// Jobs of one size of which fewer than this have ended learn from all sizes.
const ENOUGH_ENDS: usize = 10;
/// What the prior counts, in jobs.
const PRIOR_JOBS: f64 = 2.0;
/// Deciles 1, 3, 5, 7 and 9 of the standard normal distribution.
const DECILES: [f64; 5] = [-1.282, -0.524, 0.0, 0.524, 1.282];
/// Before anything is known, declarations are right in the median and off by a factor of 2 (one standard
/// deviation), which is what a guess to the nearest usual limit comes to.
const PRIOR_RATIO: (f64, f64) = (0.0, 0.7);
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
    ratios: Vec<Observed>,
    lengths: BTreeMap<u32, Vec<Observed>>,
    all_lengths: Vec<Observed>,
}

impl Evidence {
    pub(super) fn gather(past: &Past, state: &State, now: Time) -> Self {
        let mut evidence =
            Self { ratios: prior(PRIOR_RATIO), lengths: BTreeMap::new(), all_lengths: prior(PRIOR_LENGTH) };
        let latest = past.ended.len().saturating_sub(MOST_ENDS);
        past.ended[latest..].iter().for_each(|ended| evidence.add(&ended.job, ended.worked_s, true));
        let mut enough: BTreeMap<u32, usize> = BTreeMap::new();
        evidence.lengths.iter().for_each(|(size, seen)| _ = enough.insert(*size, seen.len()));
        for view in state.jobs() {
            let worked_s = worked_s(view, now);
            if worked_s > 0.0 {
                evidence.add(&view.job, worked_s, false);
            }
        }
        evidence.lengths.retain(|size, _| enough.get(size).is_some_and(|ends| *ends >= ENOUGH_ENDS));
        let sort = |seen: &mut Vec<Observed>| seen.sort_by(|a, b| a.value.total_cmp(&b.value));
        sort(&mut evidence.ratios);
        sort(&mut evidence.all_lengths);
        for seen in evidence.lengths.values_mut() {
            seen.extend(prior(PRIOR_LENGTH));
            sort(seen);
        }
        evidence
    }

    fn add(&mut self, job: &Job, worked_s: f64, ended: bool) {
        if let Some(declared) = job.declared.duration().filter(|declared| declared.0 > 0) {
            let value = worked_s / declared.as_secs_f64();
            self.ratios.push(Observed { value, ended, weight: 1.0 });
        }
        let seen = Observed { value: worked_s, ended, weight: 1.0 };
        self.lengths.entry(size(job)).or_default().push(seen);
        self.all_lengths.push(seen);
    }

    /// What one future believes.
    pub(super) fn believe(&self, seed: Seed) -> Belief {
        let weigh = |name: &str| {
            let seed = seed.branch(name);
            move |i: usize, weight: f64| -uniform(seed.numbered(i as u64)).ln() * weight
        };
        let of_size = |(size, seen): (&u32, &Vec<Observed>)| {
            (*size, Survival::new(seen, weigh(&format!("lengths {size}"))))
        };
        Belief {
            seed: seed.branch("jobs"),
            ratios: Survival::new(&self.ratios, weigh("ratios")),
            lengths: self.lengths.iter().map(of_size).collect(),
            all_lengths: Survival::new(&self.all_lengths, weigh("all lengths")),
        }
    }
}

fn prior((mean, deviation): (f64, f64)) -> Vec<Observed> {
    let weight = PRIOR_JOBS / DECILES.len() as f64;
    DECILES.map(|z| Observed { value: (mean + deviation * z).exp(), ended: true, weight }).to_vec()
}

/// What one future believes about run times.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    seed: Seed,
    ratios: Survival,
    lengths: BTreeMap<u32, Survival>,
    all_lengths: Survival,
}

impl Belief {
    /// How long a job would run in all on its smallest gang, given what it has done so far. The same question has
    /// the same answer.
    pub(super) fn length_s(&self, job: &Job, worked_s: f64) -> f64 {
        let chance = uniform(self.seed.numbered(u64::from(job.id.0)));
        if let Some(declared) = job.declared.duration().filter(|declared| declared.0 > 0) {
            let declared_s = declared.as_secs_f64();
            return self.ratios.draw(worked_s / declared_s, chance) * declared_s;
        }
        self.lengths.get(&size(job)).unwrap_or(&self.all_lengths).draw(worked_s, chance)
    }
}

/// A number between 0 and 1, both excluded, from a seed that is used for nothing else.
pub(super) fn uniform(seed: Seed) -> f64 {
    ((seed.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}
