//! Jobs that learn: elastic on CPU cores, with a loss that falls by a known curve. The figures of SLAQ-W, the workload on
//! which this project holds SLAQ (SoCC 2017) against fair shares (specification, A3.3). Its own trace is not public.

use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Distribution, Exp, StandardNormal};
use trainyard_sched::model::{
    Convergence, Curve, Declared, DeclaredLoss, Goals, Job, JobId, MoveCost, Parallelism, Resources, Seed,
    SpeedFunction, TenantId, Tenants, Time, Wanted, WorkerRange,
};

use super::branch;
use crate::loss::{Course, TrueLoss};
use crate::truth::{Speed, Truth};
use crate::workload::Workload;

/// A job leaves with this part of what there was to gain left.
pub const LEAVES_AT: f64 = 0.01;

/// The part to which [`Learning::iterations_to_95`] refers.
const NEARLY: f64 = 0.05;

/// What jobs are like. Every random draw is independent of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// How many jobs.
    pub jobs: u32,
    /// Mean time between arrivals, which is exponential, in seconds.
    pub gap_s: f64,
    /// Iterations until 95 % of the loss is gone: the median and the spread of its logarithm.
    pub iterations_to_95: (f64, f64),
    /// Core-seconds of dividing work until then, likewise.
    pub work_s: (f64, f64),
    /// Seconds of an iteration that no further core shortens.
    pub fixed_s: f64,
    /// The part of the jobs whose loss falls geometrically; that of the others falls as a square.
    pub geometric: f64,
    /// Cores that a job can use.
    pub most_cores: u32,
    /// The spread of a factor on every reported loss, `exp(noise N)`.
    pub noise: f64,
    /// What jobs declare.
    pub declares: Declares,
    /// Scales and offsets of the losses, by job in turn; empty means that all go from 1 to 0.
    pub scales: Vec<(f64, f64)>,
}

/// What jobs declare besides the class of their convergence, which follows from the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declares {
    /// The true curve.
    pub curve: bool,
    /// The true speed by cores.
    pub speed: bool,
}

impl Declares {
    /// Everything.
    pub const ALL: Self = Self { curve: true, speed: true };
    /// Nothing.
    pub const NOTHING: Self = Self { curve: false, speed: false };
}

impl Default for Learning {
    /// SLAQ-W.
    fn default() -> Self {
        Self {
            jobs: 160,
            gap_s: 15.0,
            iterations_to_95: (40.0, 0.7),
            work_s: (3600.0, 0.8),
            fixed_s: 0.05,
            geometric: 0.75,
            most_cores: 640,
            noise: 0.0,
            declares: Declares::ALL,
            scales: Vec::new(),
        }
    }
}

impl Learning {
    /// SLAQ-W with iterations that divide perfectly (specification, S-12).
    pub fn without_fixed_part() -> Self {
        Self { fixed_s: 0.0, work_s: (3700.0, 0.8), ..Self::default() }
    }

    /// The jobs, with the owner that all of them have.
    pub fn draw(&self, seed: Seed, tenants: &Tenants, move_cost: MoveCost) -> Workload {
        let mut tenants = tenants.clone();
        let owner = tenants.intern("learning");
        let (mut gaps, mut lengths) = (branch(seed, "arrivals"), branch(seed, "iterations"));
        let (mut work, mut families) = (branch(seed, "work"), branch(seed, "families"));
        let gap = Exp::new(1.0 / self.gap_s).expect("gaps are above zero");
        let mut at_s = 0.0;
        let mut jobs = Vec::with_capacity(self.jobs as usize);
        for i in 0..self.jobs {
            at_s += gap.sample(&mut gaps);
            let log_normal = |(median, spread): (f64, f64), random: &mut rand_pcg::Pcg64| {
                let normal: f64 = StandardNormal.sample(random);
                median * (spread * normal).exp()
            };
            let k95 = log_normal(self.iterations_to_95, &mut lengths);
            let work_s = log_normal(self.work_s, &mut work) / k95;
            let curve = curve(families.random::<f64>() < self.geometric, k95);
            let scale = self.scales.get(i as usize % self.scales.len().max(1)).copied().unwrap_or((1.0, 0.0));
            let truth = Truth {
                iterations: curve.iterations_to(LEAVES_AT),
                speed: Speed::Function(SpeedFunction::WithFixedPart { work_s, fixed_s: self.fixed_s }),
                move_cost,
                loss: Some(TrueLoss {
                    accuracy: None,
                    course: Course::Formula(curve.rescaled(scale.0, scale.1)),
                    noise: self.noise,
                    seed: seed.branch("noise").numbered(u64::from(i)),
                }),
                ..Truth::lasting(trainyard_sched::model::Span(1), 1)
            };
            jobs.push((Arc::new(self.job(i, owner, Time::from_secs_f64(at_s), &truth)), truth));
        }
        Workload { jobs, tenants, ..Workload::default() }
    }

    fn job(&self, i: u32, tenant: TenantId, submitted: Time, truth: &Truth) -> Job {
        let curve = truth.loss.as_ref().and_then(|loss| loss.course.formula());
        let convergence = curve.map(|curve| match curve {
            Curve::Geometric { .. } => Convergence::Linear,
            Curve::Sublinear { .. } => Convergence::Sublinear,
        });
        let speed = match &truth.speed {
            Speed::Function(function) if self.declares.speed => Some(function.clone()),
            _ => None,
        };
        let curve = curve.filter(|_| self.declares.curve);
        Job {
            id: JobId(i),
            name: format!("learning-{}", i + 1).into(),
            tenant,
            model: None,
            submitted,
            shape: Parallelism::elastic(WorkerRange { min: 1, max: self.most_cores }, Resources::cpus(1)),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared {
                speed,
                loss: DeclaredLoss { convergence, curve, ..DeclaredLoss::default() },
                ..Declared::default()
            },
            move_cost: truth.move_cost,
        }
    }
}

/// A loss from 1 to 0 with 5 % left after `k95` iterations.
fn curve(is_geometric: bool, k95: f64) -> Curve {
    if is_geometric {
        return Curve::Geometric { amplitude: 1.0, mu: NEARLY.powf(1.0 / k95), c: 0.0 };
    }
    // a + b is 19 at k95, so that 1 / (19 + 1) is left.
    let half = (1.0 / NEARLY - 1.0) / 2.0;
    Curve::Sublinear { a: half / (k95 * k95), b: half / k95, c: 1.0, d: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(learning: &Learning) -> Workload {
        learning.draw(Seed(3), &Tenants::default(), MoveCost::default())
    }

    #[test]
    fn draws_have_the_figures_that_were_asked_for() {
        let workload = draw(&Learning { jobs: 40_000, ..Learning::default() });
        let last_s = workload.jobs.last().unwrap().0.submitted.as_secs_f64();
        assert!((last_s / 40_000.0 / 15.0 - 1.0).abs() < 0.02, "{last_s}");
        let (mut k95, mut work, mut geometric) = (Vec::new(), Vec::new(), 0);
        for (job, truth) in &workload.jobs {
            let loss = job.declared.loss;
            let curve = loss.curve.unwrap();
            let length = curve.iterations_to(0.05);
            let Speed::Function(SpeedFunction::WithFixedPart { work_s, fixed_s: 0.05 }) = truth.speed else {
                panic!("{truth:?}");
            };
            let is_geometric = loss.convergence == Some(Convergence::Linear);
            geometric += u32::from(is_geometric);
            let to_99 = curve.iterations_to(0.01) / length;
            let expected = if is_geometric { 100_f64.ln() / 20_f64.ln() } else { 2.7667 };
            assert!((to_99 - expected).abs() < 1e-3 && (truth.iterations / length - to_99).abs() < 1e-9);
            k95.push(length.ln());
            work.push((length * work_s).ln());
        }
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let spread = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64;
            (mean.exp(), spread.sqrt())
        };
        let ((k, k_spread), (w, w_spread)) = (moments(&k95), moments(&work));
        assert!((k / 40.0 - 1.0).abs() < 0.02 && (k_spread - 0.7).abs() < 0.01, "{k} {k_spread}");
        assert!((w / 3600.0 - 1.0).abs() < 0.02 && (w_spread - 0.8).abs() < 0.01, "{w} {w_spread}");
        assert!((f64::from(geometric) / 40_000.0 - 0.75).abs() < 0.01, "{geometric}");
    }

    #[test]
    fn what_is_declared_is_the_truth_or_nothing_and_scales_change_the_losses_only() {
        let silent = draw(&Learning { declares: Declares::NOTHING, ..Learning::default() });
        let open = draw(&Learning::default());
        let scales = vec![(1e-3, 5.0), (1e5, 0.0)];
        let scaled = draw(&Learning { scales, ..Learning::default() });
        for (((a, x), (b, y)), (_, z)) in silent.jobs.iter().zip(&open.jobs).zip(&scaled.jobs) {
            assert_eq!(x, y, "what is declared changes no truth");
            assert!(a.declared.speed.is_none() && a.declared.loss.curve.is_none());
            assert_eq!(b.declared.loss.curve, y.loss.as_ref().unwrap().course.formula());
            assert_eq!((x.iterations, &x.speed), (z.iterations, &z.speed));
        }
        let loss = |i: usize| scaled.jobs[i].1.loss.as_ref().unwrap().course.loss(0.0);
        assert!((loss(0) - 5.001).abs() < 1e-12 && (loss(1) - 1e5).abs() < 1e-6 && loss(2) == loss(0));
    }
}
