//! Workloads for Hadar and HadarE (arXiv 2503.10918). The paper's own are not public; these are this project's, of the same
//! models, and known numbers of other schedulers belong to them.

use super::job_types::{CYCLE_GAN, JOB_TYPES, LM, RESNET_18, RESNET_50, TRANSFORMER, of_model};
use super::python::PythonRandom;
use super::{Drawn, GenerateError, References};

/// GPU-hours of each category and the models in it.
const CATEGORIES: [((f64, f64), &[&str]); 4] = [
    ((0.0, 1.0), &[RESNET_18]),
    ((1.0, 10.0), &[CYCLE_GAN]),
    ((10.0, 50.0), &[LM, TRANSFORMER]),
    ((60.0, 100.0), &[RESNET_50]),
];
/// The jobs of a mix in turn.
const MIX: [(&str, Option<u32>); 5] = [
    (RESNET_18, Some(128)),
    (LM, Some(80)),
    (TRANSFORMER, Some(128)),
    (CYCLE_GAN, None),
    (RESNET_50, Some(64)),
];
/// Hours of a job of a mix on one V100.
const MIX_HOURS: (f64, f64) = (2.0, 6.0);

/// Jobs of four categories.
pub(super) fn draw(seed: u64, jobs: u32, rates: &References) -> Result<Vec<Drawn>, GenerateError> {
    let mut random = PythonRandom::new(seed);
    let job = |_| {
        let ((least, most), models) = random.choice(&CATEGORIES);
        let gpu_hours = random.uniform(*least, *most);
        let model = *random.choice(models);
        let job_type = *random.choice(&of_model(model));
        let size = match random.unit() {
            u if u < 0.7 => 1,
            u if u < 0.8 => 2,
            u if u < 0.95 => 4,
            _ => 8,
        };
        let gpus = if JOB_TYPES[job_type].distributed { size } else { 1 };
        let each_s = gpu_hours * 3600.0 / f64::from(gpus);
        Ok(at_once(job_type, gpus, each_s * rates.per_s(job_type, gpus)?))
    };
    (0..jobs).map(job).collect()
}

/// Jobs of one GPU.
pub(super) fn draw_mix(seed: u64, jobs: u32, rates: &References) -> Result<Vec<Drawn>, GenerateError> {
    let mut random = PythonRandom::new(seed);
    let job = |i: u32| {
        let (model, batch) = MIX[i as usize % MIX.len()];
        let is = |job_type: &usize| JOB_TYPES[*job_type].batch == batch;
        let job_type = of_model(model).into_iter().find(is).expect("a mix has known types");
        let hours = random.uniform(MIX_HOURS.0, MIX_HOURS.1);
        Ok(at_once(job_type, 1, hours * 3600.0 * rates.per_s(job_type, 1)?))
    };
    (0..jobs).map(job).collect()
}

/// A job of whole steps that is there from the beginning.
fn at_once(job_type: usize, gpus: u32, steps: f64) -> Drawn {
    let steps = steps.floor().max(1.0);
    Drawn { job_type, gpus, steps, submitted_s: 0.0, weight: 1.0, patience_s: None }
}
