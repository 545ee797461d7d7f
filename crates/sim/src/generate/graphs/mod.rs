//! Jobs that are graphs of tasks, for MLFS and its rivals (MLFS specification, section 6.1). The paper tells less of its workload
//! than is needed to draw one, so most figures are chosen.

mod options;
mod shape;

use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Distribution, LogNormal, Normal};
use rand_pcg::Pcg64;
use trainyard_sched::model::{
    Accuracy, Curve, Declared, Goals, Job, JobId, ModelId, MoveCost, Parallelism, Relaxing, Span, StopRule,
    TenantId, Time, Urgency, Wanted,
};

pub use options::GraphMix;

use super::{DAY_S, GenerateError, Parameters, Preset, branch, jobs_in, options_of};
use crate::accuracy::TrueAccuracy;
use crate::loss::{Course, TrueLoss};
use crate::tasks::{TrueGraph, Wander};
use crate::trace::Declaring;
use crate::truth::{Ending, Speed, Truth};
use crate::workload::{Done, ImportReport, Workload};
use options::{Deadlines, GraphOptions};
use shape::Shape;

/// Who owns all jobs.
const TENANT: &str = "all";
const SIZES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Run times in minutes on an idle cluster: the median, the deviation of the logarithm, the shortest and the longest.
const RUN_MIN: (f64, f64, f64, f64) = (12.0, 1.4, 0.5, 600.0);
const ITERATIONS: (u32, u32) = (50, 200);
const SERVERS: f64 = 0.7;
const LEVELS: u8 = 10;
/// What starting and going on cost.
const LOAD: Span = Span::from_secs(5);
/// How a use that wanders comes back to the demand.
const RHO: f64 = 0.9;
/// Predictions of the time of an iteration are never further off than this.
const PREDICTION: (f64, f64) = (-0.8, 2.0);

/// A kind of model.
struct Algorithm {
    name: &'static str,
    is_cut: bool,
    is_layered: bool,
    /// The loss after `i` iterations is `1 / (a i + b) + c`.
    loss: [f64; 3],
    /// How the accuracy rises; see [`TrueAccuracy`].
    start: f64,
    bend: f64,
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm {
        name: "alexnet",
        is_cut: true,
        is_layered: false,
        loss: [0.05, 0.15, 0.6],
        start: 0.05,
        bend: 0.9,
    },
    Algorithm {
        name: "resnet",
        is_cut: true,
        is_layered: true,
        loss: [0.08, 0.16, 0.3],
        start: 0.05,
        bend: 0.8,
    },
    Algorithm { name: "mlp", is_cut: true, is_layered: false, loss: [0.2, 0.45, 0.1], start: 0.1, bend: 1.0 },
    Algorithm { name: "lstm", is_cut: true, is_layered: true, loss: [0.06, 0.3, 0.4], start: 0.1, bend: 1.1 },
    Algorithm { name: "svm", is_cut: false, is_layered: false, loss: [0.5, 1.0, 0.1], start: 0.5, bend: 1.0 },
];

/// The branches of the seed, one for each kind of draw.
struct Draws {
    kinds: Pcg64,
    shapes: Pcg64,
    lengths: Pcg64,
    learning: Pcg64,
    goals: Pcg64,
    predictions: Pcg64,
}

/// A workload like the preset's.
pub(super) fn generate(
    mix: GraphMix,
    preset: &Preset,
    parameters: &Parameters,
    mut report: ImportReport,
) -> Result<Workload, GenerateError> {
    if parameters.load.is_some() {
        return Err(GenerateError::NoLoad { preset: preset.name });
    }
    let options: GraphOptions = options_of(preset, mix.parameters(), mix.defaults(), &parameters.options)?;
    if !parameters.options.is_empty() {
        let given = parameters.options.iter().map(|(key, value)| format!("{key} = {value}"));
        report.source = format!("{}, {}", report.source, given.collect::<Vec<_>>().join(", "));
    }
    let jobs = parameters.jobs.or(parameters.days.map(|days| jobs_in(preset, days))).unwrap_or(preset.jobs);
    let days = parameters.days.unwrap_or(preset.days);
    report.find(
        Done::Assumed,
        "how tasks compute, share nodes and networks, and learn; see docs/modelled.md",
        None,
    );
    (report.rows, report.kept) = (u64::from(jobs), u64::from(jobs));
    let rhythm_s = f64::from(mix.rhythm_days) * DAY_S;
    let squeezed = days * DAY_S / rhythm_s;
    let arrivals = preset.rhythm.arrivals(jobs as usize, rhythm_s, &mut branch(parameters.seed, "arrivals"));
    let of = |name| branch(parameters.seed, name);
    let mut draws = Draws {
        kinds: of("kinds"),
        shapes: of("shapes"),
        lengths: of("lengths"),
        learning: of("learning"),
        goals: of("goals"),
        predictions: of("predictions"),
    };
    let mut tenants = parameters.tenants.clone();
    let tenant = tenants.intern(TENANT);
    let job = |(i, at): (usize, Time)| {
        let submitted = Time::from_secs_f64(at.as_secs_f64() * squeezed);
        draws.job(&options, parameters, (i as u32, tenant, submitted))
    };
    let jobs = arrivals.into_iter().enumerate().map(job).collect();
    let models = ALGORITHMS.iter().map(|algorithm| algorithm.name.into()).collect();
    Ok(Workload { jobs, tenants, models, gpu_types: Vec::new(), report })
}

impl Draws {
    fn job(
        &mut self,
        options: &GraphOptions,
        parameters: &Parameters,
        (number, tenant, submitted): (u32, TenantId, Time),
    ) -> (Arc<Job>, Truth) {
        let kind = self.kinds.random_range(0..ALGORITHMS.len());
        let algorithm = &ALGORITHMS[kind];
        let (run_s, iterations) = self.length();
        let shape = self.shape(algorithm, options, run_s / iterations);
        let graph = shape.draw(&mut self.shapes);
        let seed = parameters.seed.branch("job").numbered(u64::from(number));
        let name = format!("{}-{}", algorithm.name, number + 1);
        let accuracy = self.accuracy(algorithm, iterations);
        let wander = (options.wander > 0.0).then(|| Wander {
            rho: RHO,
            deviation: options.wander,
            seed: seed.branch("wander"),
        });
        let move_cost = if parameters.move_cost == MoveCost::default() {
            MoveCost { load: LOAD, ..MoveCost::default() }
        } else {
            parameters.move_cost
        };
        let truth = Truth {
            iterations,
            speed: Speed::Graph(TrueGraph { pace: 1.0, wander }),
            move_cost,
            gradient_bytes: 0.0,
            loss: Some(TrueLoss {
                course: Course::Formula(self.loss(algorithm)),
                noise: 0.0,
                seed: TrueLoss::seed_of(&name),
                accuracy: Some(accuracy),
            }),
            ending: Ending::Completed,
            overheads: None,
        };
        let goals = self.goals(options, submitted, run_s, accuracy.top);
        let job = Job {
            id: JobId(number),
            name: name.into(),
            tenant,
            model: Some(ModelId(kind as u32)),
            submitted,
            shape: Parallelism::TaskGraph(graph),
            wanted: Wanted::default(),
            goals,
            declared: self.declared(options, parameters.declared, run_s / iterations, iterations),
            move_cost,
        };
        (Arc::new(job), truth)
    }

    /// Seconds on an idle cluster, and iterations.
    fn length(&mut self) -> (f64, f64) {
        let (median, deviation, least, most) = RUN_MIN;
        let minutes = LogNormal::new(f64::ln(median), deviation).expect("both are finite");
        let run_s = 60.0 * minutes.sample(&mut self.lengths).clamp(least, most);
        (run_s, f64::from(self.lengths.random_range(ITERATIONS.0..=ITERATIONS.1)))
    }

    fn shape(&mut self, algorithm: &Algorithm, options: &GraphOptions, iteration_s: f64) -> Shape {
        let gpus = SIZES[self.kinds.random_range(0..SIZES.len())];
        let has_server = self.kinds.random::<f64>() < SERVERS;
        let replicas = [1, 2, 4][self.kinds.random_range(0..3)];
        Shape {
            gpus,
            is_cut: algorithm.is_cut,
            is_layered: algorithm.is_layered,
            replicas: if options.replicas { replicas.min(gpus) } else { 1 },
            has_server,
            iteration_s,
            traffic: options.traffic,
        }
    }

    fn jittered(&mut self, value: f64) -> f64 {
        value * (0.8 + 0.4 * self.learning.random::<f64>())
    }

    fn loss(&mut self, algorithm: &Algorithm) -> Curve {
        let [a, b, c] = algorithm.loss.map(|value| self.jittered(value));
        Curve::Sublinear { a: 0.0, b: a, c: b, d: c }
    }

    /// The best accuracy, which is there but for a thousandth of the way after a part of the iterations.
    fn accuracy(&mut self, algorithm: &Algorithm, iterations: f64) -> TrueAccuracy {
        let top = 0.7 + 0.28 * self.learning.random::<f64>();
        let there = iterations * (0.4 + 0.6 * self.learning.random::<f64>());
        let (start, shape) = (self.jittered(algorithm.start), self.jittered(algorithm.bend));
        TrueAccuracy { start, top, scale: TrueAccuracy::scale_for(there, 0.001, shape), shape, fall: None }
    }

    fn goals(&mut self, options: &GraphOptions, submitted: Time, run_s: f64, best: f64) -> Goals {
        let part = self.goals.random::<f64>();
        let patience_s = match options.deadlines {
            Deadlines::Literal => (1.1 * run_s).max(1800.0 + part * (DAY_S - 1800.0)),
            Deadlines::Tight => ((1.1 + part * (options.kappa - 1.1)) * run_s).max(run_s + 300.0),
        };
        let needed = best * (0.9 + 0.1 * self.goals.random::<f64>());
        let urgency = Urgency(self.goals.random_range(1..=LEVELS));
        let is_own = self.goals.random::<f64>() < options.own_iterations;
        Goals {
            stop: if is_own { StopRule::OwnIterations } else { StopRule::AtPeak },
            may_relax: Relaxing { peak_to_accuracy: !is_own, ..Relaxing::NONE },
            deadline: Some(submitted + Span::from_secs_f64(patience_s)),
            accuracy: Some(Accuracy(needed)),
            urgency,
            ..Goals::default()
        }
    }

    /// What was foretold of the time of an iteration, from runs of others.
    fn declared(
        &mut self,
        options: &GraphOptions,
        declaring: Declaring,
        iteration_s: f64,
        iterations: f64,
    ) -> Declared {
        let deviation = match declaring {
            Declaring::Noisy { spread } => spread,
            Declaring::Exact | Declaring::Absent => options.prediction_error,
        };
        let error = Normal::new(0.0, deviation).expect("it is bounded").sample(&mut self.predictions);
        let told = Span::from_secs_f64(iteration_s * (1.0 + error.clamp(PREDICTION.0, PREDICTION.1)));
        Declared {
            iterations: Some(iterations),
            iteration: (declaring != Declaring::Absent).then_some(told.max(Span(1))),
            ..Declared::default()
        }
    }
}
