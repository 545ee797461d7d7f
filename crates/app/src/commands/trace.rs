//! `trace`: make a trace, or look at one.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde::Serialize;
use trainyard_sched::model::{GPU, MoveCost, Seed, Tenants};
use trainyard_sim::cluster;
use trainyard_sim::generate::{Load, Parameters, generate};
use trainyard_sim::trace::{self, Declaring, write_csv};
use trainyard_sim::truth::Speed;
use trainyard_sim::workload::{ImportReport, Workload};

use super::{Ending, Output, print, say};
use crate::failure::Failure;
use crate::render::inspection_text;

/// What can be done with traces.
#[derive(Subcommand, Debug)]
pub(super) enum TraceCommand {
    /// Write a generated workload as a trace.
    Generate(GenerateArguments),
    /// Tell what a trace holds, and what was left out, repaired and assumed.
    Inspect(InspectArguments),
}

/// What `trace generate` is told.
#[derive(Args, Debug)]
pub(super) struct GenerateArguments {
    /// The preset.
    #[arg(long, value_name = "NAME", default_value = "day")]
    preset: String,
    /// How many jobs [default: as the preset].
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Over how many days they arrive [default: as the preset].
    #[arg(long, value_name = "DAYS")]
    days: Option<f64>,
    /// The part of the cluster's GPU time that they ask for.
    #[arg(long, value_name = "FRACTION", requires = "cluster")]
    load: Option<f64>,
    /// The cluster that --load refers to.
    #[arg(long, value_name = "WORDS|FILE")]
    cluster: Option<String>,
    /// The seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The file to write.
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: PathBuf,
}

/// What `trace inspect` is told.
#[derive(Args, Debug)]
pub(super) struct InspectArguments {
    /// The trace.
    file: PathBuf,
    /// Its format, where it is not recognised.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// End with exit code 3 if rows were left out or repaired.
    #[arg(long)]
    strict: bool,
}

/// What a trace holds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inspection {
    /// What was read, left out, repaired and assumed.
    pub(crate) report: ImportReport,
    /// Jobs.
    pub(crate) jobs: usize,
    /// From the first to the last arrival.
    pub(crate) span_s: f64,
    /// Jobs by GPUs.
    pub(crate) gpus: Vec<SizeShare>,
    /// Run times in seconds at 0, 10, 50, 90, 99 and 100 %, of jobs whose run time is known beforehand.
    pub(crate) duration_s: Vec<(f64, f64)>,
    /// Jobs by tenant.
    pub(crate) tenants: Vec<(Arc<str>, usize)>,
}

/// How many jobs are of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SizeShare {
    /// GPUs.
    pub(crate) gpus: f64,
    /// Jobs.
    pub(crate) jobs: usize,
}

/// Makes or looks at traces.
pub(super) fn perform(command: &TraceCommand, output: Output) -> Result<Ending, Failure> {
    match command {
        TraceCommand::Generate(given) => write(given),
        TraceCommand::Inspect(given) => inspect(given, output),
    }
}

fn write(given: &GenerateArguments) -> Result<Ending, Failure> {
    let cluster = given.cluster.as_deref().map(cluster::load).transpose()?;
    let gpus = cluster.map_or(0, |file| file.cluster.gpu_count());
    let parameters = Parameters {
        preset: given.preset.clone(),
        seed: Seed(given.seed),
        jobs: given.jobs,
        days: given.days,
        load: given.load.map(|fraction| Load { fraction, gpus }),
        tenants: Tenants::default(),
        declared: Declaring::Exact,
        move_cost: MoveCost::default(),
    };
    let workload = generate(&parameters)?;
    let file = File::create(&given.out).map_err(Failure::file("write", &given.out))?;
    write_csv(&workload, BufWriter::new(file))?;
    say(&format!("{} jobs are in {}.", workload.jobs.len(), given.out.display()));
    Ok(Ending::Done)
}

fn inspect(given: &InspectArguments, output: Output) -> Result<Ending, Failure> {
    let options = trace::Options { format: given.format.clone(), ..trace::Options::default() };
    let workload = trace::read(&given.file, &options)?;
    let inspection = look(workload);
    print(output, &inspection, inspection_text)?;
    let is_blemished = inspection.has_blemishes();
    Ok(if given.strict && is_blemished { Ending::Blemished } else { Ending::Done })
}

fn look(workload: Workload) -> Inspection {
    let Workload { jobs, tenants, report, .. } = workload;
    let mut sizes: Vec<u64> = jobs.iter().map(|(job, _)| job.shape.minimum().gpu_milli).collect();
    sizes.sort_unstable();
    let of_size = |same: &[u64]| SizeShare { gpus: same[0] as f64 / GPU as f64, jobs: same.len() };
    let mut durations: Vec<f64> = jobs
        .iter()
        .filter_map(|(_, truth)| match &truth.speed {
            Speed::Fixed { iteration, .. } => Some(truth.iterations * iteration.as_secs_f64()),
            Speed::Function(_) | Speed::Table { .. } => None,
        })
        .collect();
    durations.sort_by(f64::total_cmp);
    let quantile = |percent| trainyard_sched::metrics::percentile(&durations, percent).map(|s| (percent, s));
    let mut by_tenant = vec![0; tenants.len()];
    for (job, _) in &jobs {
        by_tenant[job.tenant.index()] += 1;
    }
    let arrival = |at: Option<&(Arc<_>, _)>| {
        at.map_or(0.0, |(job, _): &(Arc<trainyard_sched::model::Job>, _)| job.submitted.as_secs_f64())
    };
    Inspection {
        jobs: jobs.len(),
        span_s: arrival(jobs.last()) - arrival(jobs.first()),
        gpus: sizes.chunk_by(|a, b| a == b).map(of_size).collect(),
        duration_s: [0.0, 10.0, 50.0, 90.0, 99.0, 100.0].into_iter().filter_map(quantile).collect(),
        tenants: tenants
            .iter()
            .map(|(id, tenant)| (Arc::clone(&tenant.name), by_tenant[id.index()]))
            .collect(),
        report,
    }
}

impl Inspection {
    /// Whether rows were left out or repaired.
    fn has_blemishes(&self) -> bool {
        use trainyard_sim::workload::Done;
        self.report.findings.iter().any(|finding| matches!(finding.done, Done::Dropped | Done::Repaired))
    }
}
