//! The jobs of the demonstration: real training programs of six kinds, with data, sizes and arrivals from a seed. How much
//! work an iteration is, is measured on the machine at hand, so that a run takes about as long everywhere.

use std::path::Path;
use std::process::{Command, Stdio};

use rand::RngExt;
use rand_distr::{Distribution, Exp};
use rand_pcg::Pcg64;
use trainyard_sched::model::Seed;

use crate::failure::Failure;

/// Iterations of the trial by which a kind is measured.
const TRIAL_ITERATIONS: u32 = 5;

/// A kind of program: its algorithm, its settings, and the size of its data in the trial.
struct Kind {
    name: &'static str,
    settings: &'static str,
    /// What is generated, with `ROWS` for the amount.
    data: &'static str,
    rows: f64,
    /// After so many iterations its loss hardly falls any more.
    iterations: u32,
}

const KINDS: [Kind; 6] = [
    Kind { name: "logistic", settings: "", data: "rows=ROWS", rows: 4000.0, iterations: 80 },
    Kind { name: "svm", settings: "", data: "rows=ROWS", rows: 4000.0, iterations: 80 },
    Kind {
        name: "kmeans",
        settings: "clusters=20",
        data: "rows=ROWS,centres=20",
        rows: 2000.0,
        iterations: 60,
    },
    Kind { name: "mlp", settings: "hidden=16", data: "rows=ROWS", rows: 500.0, iterations: 80 },
    Kind { name: "trees", settings: "", data: "rows=ROWS", rows: 3000.0, iterations: 80 },
    Kind { name: "factorisation", settings: "", data: "users=ROWS,items=300", rows: 300.0, iterations: 60 },
];

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DemoJob {
    /// What it is called.
    pub(crate) name: String,
    /// The arguments of `trainyard`.
    pub(crate) arguments: Vec<String>,
    /// Seconds after the beginning at which it comes.
    pub(crate) arrives_s: f64,
    /// Iterations until it ends.
    pub(crate) iterations: u32,
}

/// How much work there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// How many jobs.
    pub(crate) jobs: usize,
    /// Within how many seconds they come.
    pub(crate) within_s: f64,
    /// Core-seconds of a job, on average.
    pub(crate) work_s: f64,
}

/// Draws the jobs.
pub(crate) fn draw(load: Load, seed: Seed, exe: &Path) -> Result<Vec<DemoJob>, Failure> {
    let costs = KINDS.iter().map(|kind| seconds_per_row(kind, exe)).collect::<Result<Vec<f64>, Failure>>()?;
    let mut random = Pcg64::new(u128::from(seed.branch("demo").0), 0);
    let gaps = Exp::new(load.jobs as f64 / load.within_s).expect("a rate above zero");
    let mut at = 0.0;
    Ok((0..load.jobs)
        .map(|i| {
            let (kind, cost) = (&KINDS[i % KINDS.len()], costs[i % KINDS.len()]);
            let work: f64 = load.work_s * random.random_range(0.5..1.5);
            let rows = (work / f64::from(kind.iterations) / cost).clamp(100.0, 1e6);
            let job = DemoJob {
                name: format!("{}-{i}", kind.name),
                arguments: arguments(kind, rows, kind.iterations, random.random_range(0..1_000_000)),
                arrives_s: at,
                iterations: kind.iterations,
            };
            at += gaps.sample(&mut random);
            job
        })
        .collect())
}

fn arguments(kind: &Kind, rows: f64, iterations: u32, seed: u64) -> Vec<String> {
    let data = kind.data.replace("ROWS", &format!("{rows:.0}"));
    let mut all = vec!["train-job".to_owned(), kind.name.to_owned(), "--generate".to_owned(), data];
    if !kind.settings.is_empty() {
        all.extend(["--set".to_owned(), kind.settings.to_owned()]);
    }
    all.extend(["--iterations".to_owned(), iterations.to_string(), "--seed".to_owned(), seed.to_string()]);
    all.extend(["--threads".to_owned(), "1".to_owned()]);
    all
}

/// What one row costs in one iteration, on an idle core.
fn seconds_per_row(kind: &Kind, exe: &Path) -> Result<f64, Failure> {
    let run = Command::new(exe)
        .args(arguments(kind, kind.rows, TRIAL_ITERATIONS, 1))
        .args(["--report", "/dev/null", "--output", "json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(Failure::file("run", exe))?;
    let summary: Option<serde_json::Value> = serde_json::from_slice(&run.stdout).ok();
    let seconds = summary.and_then(|summary| summary.get("seconds")?.as_f64());
    let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) else {
        let said = format!("its trial of {} gave no time ({})", kind.name, run.status);
        return Err(Failure::file("measure", exe)(std::io::Error::other(said)));
    };
    Ok((seconds / f64::from(TRIAL_ITERATIONS) / kind.rows).max(1e-9))
}
