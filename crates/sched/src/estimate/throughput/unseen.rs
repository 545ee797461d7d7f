//! How fast a job goes on a type of GPU on which it was never seen.
//!
//! Specification of Hadar and Gavel, 2.6.4: from where the job was seen, by how much faster or slower other jobs are on the one
//! type than on the other. HadarE's own formula could not be had.

use std::collections::BTreeMap;

/// What is known of the speed of a kind of job: iterations a second by type of GPU, each type at its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile<'a> {
    /// What it trains, by whatever number; those that train the same are more alike than others.
    pub family: Option<u32>,
    /// Samples in a batch, where known.
    pub batch: Option<f64>,
    /// Its speeds; what is not above zero is not known.
    pub per_s: &'a [Option<f64>],
}

/// An estimated speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unseen {
    /// Iterations a second.
    pub per_s: f64,
    /// Between these it lies in about two of three cases, as far as the sources disagree; the same as `per_s` if there is but one.
    pub between: (f64, f64),
    /// How many pairs of another job and a known type it rests on.
    pub sources: usize,
}

/// How much two batches that differ by a factor of e are alike; the part that keeps equal ones finite (2.6.4).
const NEAREST: f64 = 0.1;

impl Profile<'_> {
    fn on(&self, gpu_type: usize) -> Option<f64> {
        self.per_s.get(gpu_type).copied().flatten().filter(|per_s| per_s.is_finite() && *per_s > 0.0)
    }

    /// How much another job of its family with this batch has to say about it.
    fn weight(&self, batch: Option<f64>) -> f64 {
        match (self.batch, batch) {
            (Some(own), Some(batch)) if own > 0.0 && batch > 0.0 => {
                1.0 / (NEAREST + (batch.ln() - own.ln()).abs())
            }
            _ => 1.0,
        }
    }
}

/// How fast a job goes on a type of GPU: the geometric mean, over the types where it is known, of its speed there times how much
/// faster the others are. Others are those of its own family that are known on both types, by the likeness of their batches; if
/// there are none, all. `None` if nobody is known on both.
pub fn unseen_per_s(job: &Profile<'_>, others: &[Profile<'_>], gpu_type: usize) -> Option<Unseen> {
    Library::new(others).per_s(job, gpu_type)
}

/// What many jobs say about speeds on types of GPU on which others were not seen, added up once for all that ask.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// From one type to another one: all that are known on both.
    ratios: BTreeMap<(usize, usize), Ratios>,
}

/// How much faster jobs are on one type than on another.
#[derive(Clone, Debug, Default)]
struct Ratios {
    all: Tally,
    /// Those of a family, by their batches; what has no sound batch comes under none.
    of_family: BTreeMap<u32, Vec<(Option<f64>, Tally)>>,
}

impl Library {
    /// What these know. One that is known on no two types says nothing.
    pub fn new(jobs: &[Profile<'_>]) -> Self {
        let mut library = Self::default();
        for job in jobs {
            let types =
                || (0..job.per_s.len()).filter_map(|gpu_type| Some((gpu_type, job.on(gpu_type)?.ln())));
            for (known, from) in types() {
                for (gpu_type, to) in types().filter(|(gpu_type, _)| *gpu_type != known) {
                    library.ratios.entry((known, gpu_type)).or_default().add(job, to - from);
                }
            }
        }
        library
    }

    /// How fast a job goes on a type of GPU where it was not seen; see [`unseen_per_s`]. What is known of it on other types only
    /// may be in the library.
    pub fn per_s(&self, job: &Profile<'_>, gpu_type: usize) -> Option<Unseen> {
        // Each known type counts once, however many others are known there.
        let mut logs = Tally::default();
        for known in (0..job.per_s.len()).filter(|known| *known != gpu_type) {
            let Some(own) = job.on(known) else { continue };
            let Some(ratios) = self.ratios.get(&(known, gpu_type)) else { continue };
            let near = job.family.and_then(|family| ratios.of_family.get(&family));
            let mut used = Tally::default();
            match near {
                None => used.take(&ratios.all, 1.0),
                Some(near) => near.iter().for_each(|(batch, tally)| used.take(tally, job.weight(*batch))),
            }
            let part = 1.0 / used.weight;
            logs.take(&Tally { mean: used.mean + own.ln(), ..used }, part);
        }
        logs.found()
    }
}

impl Ratios {
    fn add(&mut self, job: &Profile<'_>, ratio: f64) {
        self.all.take(&Tally::of(ratio), 1.0);
        let Some(family) = job.family else { return };
        let batches = self.of_family.entry(family).or_default();
        let at = batches.iter().position(|(batch, _)| *batch == job.batch);
        let at = at.unwrap_or_else(|| {
            batches.push((job.batch, Tally::default()));
            batches.len() - 1
        });
        batches[at].1.take(&Tally::of(ratio), 1.0);
    }
}

/// Weighed logarithms: their mean, and the weighed sum of squares of how far they are from it.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: usize,
    weight: f64,
    mean: f64,
    squares: f64,
}

impl Tally {
    const fn of(log: f64) -> Self {
        Self { count: 1, weight: 1.0, mean: log, squares: 0.0 }
    }

    /// Takes in others, each of which counts so many times what it did (Chan, Golub and LeVeque, 1979).
    fn take(&mut self, other: &Self, times: f64) {
        let weight = other.weight * times;
        if weight <= 0.0 {
            return;
        }
        let (apart, sum) = (other.mean - self.mean, self.weight + weight);
        self.squares += other.squares * times + apart * apart * self.weight * weight / sum;
        self.mean += apart * weight / sum;
        (self.weight, self.count) = (sum, self.count + other.count);
    }

    /// What they say, and how far they are apart.
    fn found(&self) -> Option<Unseen> {
        if self.weight <= 0.0 {
            return None;
        }
        let deviation = (self.squares / self.weight).sqrt();
        let between = ((self.mean - deviation).exp(), (self.mean + deviation).exp());
        Some(Unseen { per_s: self.mean.exp(), between, sources: self.count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn profile<'a>(family: u32, batch: f64, per_s: &'a [Option<f64>]) -> Profile<'a> {
        Profile { family: Some(family), batch: Some(batch), per_s }
    }

    #[test]
    fn others_that_all_agree_leave_no_doubt() {
        let (a, b) = ([Some(4.0), Some(1.0)], [Some(20.0), Some(5.0)]);
        let others = [profile(1, 8.0, &a), profile(2, 8.0, &b)];
        let job = profile(3, 8.0, &[Some(12.0), None]);
        let found = unseen_per_s(&job, &others, 1).expect("it is known");
        assert!((found.per_s - 3.0).abs() < 1e-12 && found.sources == 2, "{found:?}");
        assert!((found.between.0 - 3.0).abs() < 1e-9 && (found.between.1 - 3.0).abs() < 1e-9);
        assert_eq!(unseen_per_s(&job, &[], 1), None);
        assert_eq!(unseen_per_s(&profile(3, 8.0, &[None, None]), &others, 1), None);
    }

    #[test]
    fn its_own_family_counts_and_those_with_a_like_batch_more() {
        let (near, far, other) = ([Some(1.0), Some(2.0)], [Some(1.0), Some(8.0)], [Some(1.0), Some(99.0)]);
        let others = [profile(1, 16.0, &near), profile(1, 256.0, &far), profile(2, 16.0, &other)];
        let found = unseen_per_s(&profile(1, 16.0, &[Some(1.0), None]), &others, 1).expect("it is known");
        let weights = (1.0 / 0.1, 1.0 / (0.1 + 16_f64.ln()));
        let mean = (2_f64.ln() * weights.0 + 8_f64.ln() * weights.1) / (weights.0 + weights.1);
        assert!((found.per_s - mean.exp()).abs() < 1e-9, "{found:?}");
        assert!(found.between.0 < found.per_s && found.per_s < found.between.1);
        // Of a family of which nobody is known on both types, all count, and alike.
        let found = unseen_per_s(&profile(7, 16.0, &[Some(1.0), None]), &others, 1).expect("it is known");
        assert!((found.per_s - (2.0_f64 * 8.0 * 99.0).cbrt()).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn each_known_type_counts_once() {
        let both = [Some(1.0), Some(2.0), Some(4.0)];
        let one = [Some(1.0), None, Some(4.0)];
        let others = [profile(1, 1.0, &both), profile(1, 1.0, &one), profile(1, 1.0, &one)];
        let job = profile(1, 1.0, &[Some(1.0), Some(8.0), None]);
        let found = unseen_per_s(&job, &others, 2).expect("it is known");
        assert!((found.per_s - (4.0_f64 * 16.0).sqrt()).abs() < 1e-9, "{found:?}");
    }

    /// The same written down plainly: a look at each pair of another job and a known type.
    fn plainly(job: &Profile<'_>, others: &[Profile<'_>], gpu_type: usize) -> Option<f64> {
        let mut logs: Vec<(f64, f64)> = Vec::new();
        for known in (0..job.per_s.len()).filter(|known| *known != gpu_type) {
            let Some(own) = job.on(known) else { continue };
            let ratio = |other: &&Profile<'_>| Some(other.on(gpu_type)?.ln() - other.on(known)?.ln());
            let of_family = |other: &&Profile<'_>| {
                job.family.is_some() && other.family == job.family && ratio(other).is_some()
            };
            let is_near = others.iter().any(|other| of_family(&other));
            let used: Vec<(f64, f64)> = others
                .iter()
                .filter(|other| !is_near || of_family(other))
                .filter_map(|other| {
                    Some((ratio(&other)?, if is_near { job.weight(other.batch) } else { 1.0 }))
                })
                .collect();
            let sum: f64 = used.iter().map(|(_, weight)| weight).sum();
            logs.extend(used.iter().map(|(ratio, weight)| (own.ln() + ratio, weight / sum)));
        }
        let sum: f64 = logs.iter().map(|(_, weight)| weight).sum();
        (sum > 0.0).then(|| (logs.iter().map(|(log, weight)| log * weight).sum::<f64>() / sum).exp())
    }

    #[test]
    fn what_is_added_up_once_says_what_a_look_at_each_pair_says() {
        for seed in 0..200_u64 {
            let draw = |at: u64| crate::model::Seed(seed).numbered(at).0 >> 20;
            let types = 2 + (draw(0) % 3) as usize;
            let speeds: Vec<Vec<Option<f64>>> = (0..12)
                .map(|job| {
                    let each = (0..types as u64).map(|at| draw(100 + job * 10 + at));
                    each.map(|drawn| (drawn % 3 > 0).then_some(1.0 + (drawn % 17) as f64)).collect()
                })
                .collect();
            let jobs: Vec<Profile<'_>> = speeds
                .iter()
                .zip(0_u64..)
                .map(|(per_s, job)| Profile {
                    family: (draw(job + 1) % 4 > 0).then_some((draw(job + 1) % 3) as u32),
                    batch: (draw(job + 20) % 4 > 0).then_some((1 << (draw(job + 20) % 5)) as f64),
                    per_s,
                })
                .collect();
            let library = Library::new(&jobs);
            for job in &jobs {
                for gpu_type in (0..types).filter(|gpu_type| job.on(*gpu_type).is_none()) {
                    match (library.per_s(job, gpu_type), plainly(job, &jobs, gpu_type)) {
                        (Some(found), Some(plain)) => assert!((found.per_s / plain - 1.0).abs() < 1e-9),
                        (found, plain) => assert_eq!((found, plain), (None, None), "seed {seed}"),
                    }
                }
            }
        }
    }
}
