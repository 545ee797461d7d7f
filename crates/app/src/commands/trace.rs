//! `trace`: make a trace, bring one into the native format, or look at one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use trainyard_sched::model::{MoveCost, Seed, Tenants};
use trainyard_sim::cluster;
use trainyard_sim::generate::{Load, Parameters, generate};
use trainyard_sim::physics::load_throughputs;
use trainyard_sim::trace::{Declaring, Options, Unwritten, write_csv};
use trainyard_sim::workload::Workload;

use super::inspection::Inspection;
use super::partition::{self, PartitionArguments};
use super::{Ending, Output, in_form, print, say};
use crate::config::{PIPE, PresetChoice, TraceArguments, seed};
use crate::failure::Failure;
use crate::render::inspection_text;

/// What can be done with traces.
#[derive(Subcommand, Debug)]
pub(super) enum TraceCommand {
    /// Write a generated workload as a trace.
    Generate(GenerateArguments),
    /// Read a trace in any known format, write it in the native one, and tell what was done to its rows.
    Import(ImportArguments),
    /// Cut a model that is described by its layers into parts, and make a job of tasks of it.
    Partition(Box<PartitionArguments>),
    /// Tell what a trace holds, and what was left out, repaired and assumed.
    Inspect(InspectArguments),
}

/// What `trace generate` is told.
#[derive(Args, Debug)]
pub(super) struct GenerateArguments {
    /// The preset, such as gavel or gavel{multi_gpu = true}.
    #[arg(long, value_name = "PRESET", default_value = "day")]
    preset: PresetChoice,
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
    /// How fast profiled jobs go: gavel, gavel-physical, or a file [default: gavel].
    #[arg(long, value_name = "NAME|FILE")]
    throughputs: Option<String>,
    /// The seed.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// The file to write; - is standard output.
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: PathBuf,
}

/// What `trace import` is told.
#[derive(Args, Debug)]
pub(super) struct ImportArguments {
    /// The trace; - is standard input.
    #[arg(id = "trace", value_name = "FILE")]
    file: PathBuf,
    /// The file to write; - is standard output, and the report then goes to standard error.
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    reading: TraceArguments,
}

/// What `trace inspect` is told.
#[derive(Args, Debug)]
pub(super) struct InspectArguments {
    /// The trace; - is standard input.
    #[arg(id = "trace", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reading: TraceArguments,
}

/// Makes or looks at traces.
pub(super) fn perform(command: &TraceCommand, output: Output) -> Result<Ending, Failure> {
    match command {
        TraceCommand::Generate(given) => make(given, output),
        TraceCommand::Partition(given) => partition::perform(given, output),
        TraceCommand::Import(given) => import(given, output),
        TraceCommand::Inspect(given) => inspect(given, output),
    }
}

fn make(given: &GenerateArguments, output: Output) -> Result<Ending, Failure> {
    let cluster = given.cluster.as_deref().map(cluster::load).transpose()?;
    let gpus = cluster.map_or(0, |file| file.cluster.gpu_count());
    let PresetChoice { name: preset, options } = given.preset.clone();
    let parameters = Parameters {
        preset,
        options,
        seed: Seed(given.seed),
        jobs: given.jobs,
        days: given.days,
        load: given.load.map(|fraction| Load { fraction, gpus }),
        tenants: Tenants::default(),
        declared: Declaring::Exact,
        move_cost: MoveCost::default(),
        throughputs: given.throughputs.as_deref().map(load_throughputs).transpose()?,
        ..Parameters::default()
    };
    let workload = generate(&parameters)?;
    write(&workload, &given.out)?;
    if output == Output::Json && given.out != Path::new(PIPE) {
        print(output, &Inspection::of(workload), inspection_text)?;
    }
    Ok(Ending::Done)
}

/// Writes a workload in the native format.
pub(super) fn write(workload: &Workload, out: &Path) -> Result<(), Failure> {
    if out == Path::new(PIPE) {
        let mut stdout = std::io::stdout().lock();
        tell_unwritten(write_csv(workload, BufWriter::new(&mut stdout))?);
        return stdout.flush().map_err(Failure::Output);
    }
    // Beside it first, so that what cannot be written to the end leaves nothing that looks like a trace.
    let mut name = out.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let file = File::create(&part).map_err(Failure::file("write", &part))?;
    let unwritten = match write_csv(workload, BufWriter::new(file)) {
        Ok(unwritten) => unwritten,
        Err(error) => {
            let _ = std::fs::remove_file(&part);
            return Err(error.into());
        }
    };
    std::fs::rename(&part, out).map_err(Failure::file("write", out))?;
    say(&format!("{} jobs are in {}.", workload.jobs.len(), out.display()));
    tell_unwritten(unwritten);
    Ok(())
}

/// What a trace does not have, though it was known.
fn tell_unwritten(unwritten: Unwritten) {
    if unwritten.beside > 0 {
        say(&format!(
            "How fast {} jobs go beside others on the same GPUs is in no column, so it is not in the trace; Gavel's own traces and \
             generated jobs have it from a table (--throughputs).",
            unwritten.beside
        ));
    }
}

fn import(given: &ImportArguments, output: Output) -> Result<Ending, Failure> {
    let workload = given.reading.read(&given.file, Options::default())?;
    if let Some(out) = &given.out {
        write(&workload, out)?;
    }
    let inspection = Inspection::of(workload);
    if given.out.as_deref() == Some(Path::new(PIPE)) {
        say(&in_form(output, &inspection, inspection_text)?);
    } else {
        print(output, &inspection, inspection_text)?;
    }
    Ok(how_it_ended(&given.reading, &inspection))
}

fn inspect(given: &InspectArguments, output: Output) -> Result<Ending, Failure> {
    let inspection = Inspection::of(given.reading.read(&given.file, Options::default())?);
    print(output, &inspection, inspection_text)?;
    Ok(how_it_ended(&given.reading, &inspection))
}

fn how_it_ended(reading: &TraceArguments, inspection: &Inspection) -> Ending {
    let is_blemished = reading.strict && inspection.report.has_blemishes();
    if is_blemished { Ending::Blemished } else { Ending::Done }
}
