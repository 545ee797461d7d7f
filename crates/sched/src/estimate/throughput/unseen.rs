//! How fast a job goes on a type of GPU on which it was never seen.
//!
//! Specification of Hadar and Gavel, 2.6.4: from where the job was seen, by how much faster or slower other jobs are on the one
//! type than on the other. HadarE's own formula could not be had.

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

    /// How much another job has to say about this one.
    fn weight(&self, other: &Self) -> f64 {
        match (self.batch, other.batch) {
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
    let mut logs: Vec<(f64, f64)> = Vec::new();
    for known in (0..job.per_s.len()).filter(|known| *known != gpu_type) {
        let Some(own) = job.on(known) else { continue };
        let both = |other: &&Profile<'_>| other.on(known).is_some() && other.on(gpu_type).is_some();
        let of_family = |other: &&Profile<'_>| job.family.is_some() && other.family == job.family;
        let ratio = |other: &Profile<'_>| Some(other.on(gpu_type)?.ln() - other.on(known)?.ln());
        let near: Vec<&Profile<'_>> = others.iter().filter(both).filter(of_family).collect();
        let used: Vec<(f64, f64)> = if near.is_empty() {
            others.iter().filter_map(|other| Some((ratio(other)?, 1.0))).collect()
        } else {
            near.iter().filter_map(|other| Some((ratio(other)?, job.weight(other)))).collect()
        };
        // Each known type counts once, however many others are known there.
        let sum: f64 = used.iter().map(|(_, weight)| weight).sum();
        logs.extend(used.iter().map(|(ratio, weight)| (own.ln() + ratio, weight / sum)));
    }
    spread(&logs)
}

/// The mean of weighed logarithms, and how far they are apart.
fn spread(logs: &[(f64, f64)]) -> Option<Unseen> {
    let sum: f64 = logs.iter().map(|(_, weight)| weight).sum();
    if logs.is_empty() || sum <= 0.0 {
        return None;
    }
    let mean = logs.iter().map(|(log, weight)| log * weight).sum::<f64>() / sum;
    let square = logs.iter().map(|(log, weight)| weight * (log - mean).powi(2)).sum::<f64>() / sum;
    let deviation = square.sqrt();
    let between = ((mean - deviation).exp(), (mean + deviation).exp());
    Some(Unseen { per_s: mean.exp(), between, sources: logs.len() })
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
}
