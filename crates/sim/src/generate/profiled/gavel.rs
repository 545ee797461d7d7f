//! Gavel's generator of traces (OSDI 2020, section 7.1, and its public code): who draws what, from which stream, in
//! which order.

use super::job_types::JOB_TYPES;
use super::python::PythonRandom;
use super::{Drawn, GavelOptions, GenerateError, References};

/// What is added to the seed for each stream.
const JOBS: u64 = 2;
const ARRIVALS: u64 = 3;
const OBJECTIVES: u64 = 6;

/// So many jobs.
pub(super) fn draw(
    seed: u64,
    jobs: u32,
    options: &GavelOptions,
    rates: &References,
) -> Result<Vec<Drawn>, GenerateError> {
    let stream = |offset: u64| PythonRandom::new(seed.wrapping_add(offset));
    let (mut random, mut arrivals, mut objectives) = (stream(JOBS), stream(ARRIVALS), stream(OBJECTIVES));
    let mut submitted_s = 0.0;
    let job = |i: u32| {
        if i > 0 && options.jobs_per_h > 0.0 {
            submitted_s += -(1.0 - arrivals.unit()).ln() * (3600.0 / options.jobs_per_h);
        }
        let (job_type, gpus, duration_s) = one(&mut random, options.multi_gpu);
        let weight = if options.priorities && random.uniform(0.0, 1.0) <= 0.2 { 5.0 } else { 1.0 };
        let patience = options.objectives.then(|| match objectives.uniform(0.0, 1.0) {
            u if u < 0.33 => 1.2,
            u if u < 0.67 => 2.0,
            _ => 10.0,
        });
        Ok(Drawn {
            job_type,
            gpus,
            steps: duration_s * rates.per_s(job_type, gpus)?,
            submitted_s,
            weight,
            patience_s: patience.map(|factor| factor * duration_s),
        })
    };
    (0..jobs).map(job).collect()
}

/// Type, GPUs and length on V100. The size is drawn in any case.
fn one(random: &mut PythonRandom, multi_gpu: bool) -> (usize, u32, f64) {
    let size = match random.unit() {
        u if u < 0.7 => 1,
        u if u <= 0.8 => 2,
        u if u <= 0.95 => 4,
        _ => 8,
    };
    let (least, most) = if random.unit() >= 0.8 { (3.0, 4.0) } else { (1.5, 3.0) };
    let duration_s = 60.0 * 10_f64.powf(random.uniform(least, most));
    let gpus = if multi_gpu { size } else { 1 };
    loop {
        let job_type = random.position(JOB_TYPES.len());
        if gpus == 1 || JOB_TYPES[job_type].distributed {
            return (job_type, gpus, duration_s);
        }
    }
}
