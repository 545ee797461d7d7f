//! What a run depends on, policy aside: jobs, machines, costs, failures, seed. Many policies share one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use trainyard_sched::model::{Cluster, MoveCost, NodeState, Seed, Span, Tenants, Time};
use trainyard_sim::backend::Options;
use trainyard_sim::capacity::{self, Capacity, overlaid};
use trainyard_sim::cluster::{self, ClusterFile};
use trainyard_sim::faults::{Fault, draw_faults, read_faults};
use trainyard_sim::generate::{GenerateError, Load, PRESETS, Parameters, ServerSpeeds, generate};
use trainyard_sim::resample;
use trainyard_sim::simulate::{Setup, natural_horizon};
use trainyard_sim::trace::{self, Declaring};
use trainyard_sim::workload::{ImportReport, Workload};

use super::run_file::{CapacityPart, ClusterPart, JobsPart, MovingPart, WorldPart};
use super::trace_arguments::{PIPE, ReadingPart, TraceArguments};
use super::words::{LoadWord, declaring, interval, seconds, seed, server_speeds, span, span_word};
use super::{ArgumentError, FaultsWord, MachineChange, PresetChoice, Stock};
use crate::failure::Failure;

/// The preset that is generated when nobody says what to run.
const USUAL_PRESET: &str = "day";

/// The arguments that say what is simulated.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArguments {
    /// Read jobs from this file (the native format or a known public one, also packed); - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "generate", help_heading = "Jobs")]
    pub(crate) trace: Option<PathBuf>,
    /// Generate jobs like this preset, such as gavel or gavel{multi_gpu = true} [default: day, if there is no --trace].
    #[arg(long, value_name = "PRESET", help_heading = "Jobs")]
    pub(crate) generate: Option<PresetChoice>,
    /// At most so many jobs of the trace, or exactly so many generated ones.
    #[arg(long, value_name = "N", help_heading = "Jobs")]
    pub(crate) jobs: Option<u32>,
    /// Generate jobs that ask for this part of the cluster's GPU time (1 is as much as there is); or, as in 1.5x, so
    /// many times the jobs that there are, also of a trace.
    #[arg(long, value_name = "FRACTION|FACTORx", help_heading = "Jobs")]
    pub(crate) load: Option<LoadWord>,
    /// Leave out the part of the trace before this time.
    #[arg(long, value_name = "TIME", value_parser = span, requires = "trace", help_heading = "Jobs")]
    pub(crate) from: Option<Span>,
    /// Leave out the part of the trace from this time on.
    #[arg(long, value_name = "TIME", value_parser = span, requires = "trace", help_heading = "Jobs")]
    pub(crate) until: Option<Span>,
    #[command(flatten)]
    pub(crate) reading: TraceArguments,
    /// What jobs declare about their length: exact, noisy:SPREAD or absent.
    #[arg(long, value_name = "HOW", value_parser = declaring, default_value = "exact", help_heading = "Jobs")]
    pub(crate) declared: Declaring,
    /// How fast generated jobs with parameter servers go: strong (one total batch), strong-fitted, weak (a batch for each
    /// worker), or a file of measured speeds as of DL2, with ?failed=drop if its failed runs shall not count as speed 0.
    #[arg(long, value_name = "WHICH|FILE", value_parser = server_speeds, default_value = "strong", help_heading = "Jobs")]
    pub(crate) server_speeds: ServerSpeeds,
    /// The machines: words such as 16x8:v100,4x4:a100, or a file.
    #[arg(long, value_name = "WORDS|FILE", help_heading = "Cluster")]
    pub(crate) cluster: Option<String>,
    /// Node failures: mtbf:30d, mtbf:30d,mttr:1h, or a CSV file.
    #[arg(long, value_name = "FILE|MODEL", help_heading = "Cluster")]
    pub(crate) faults: Option<FaultsWord>,
    /// How much there is over time, from a file (spot availability, Helios's daily GPUs, or time_s,nodes).
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) capacity: Option<String>,
    /// Seconds from the order to stop a job until its GPUs are free, where the trace does not say.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Cluster")]
    pub(crate) save_s: f64,
    /// Seconds from a second or later start to the first new iteration, where the trace does not say.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Cluster")]
    pub(crate) load_s: f64,
    /// How often running jobs report how far they are, how fast and how good [default: as the preset says, else never].
    #[arg(long, value_name = "TIME", value_parser = interval, help_heading = "Run")]
    pub(crate) report_every: Option<Span>,
    /// The seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed, help_heading = "Run")]
    pub(crate) seed: u64,
    /// Cut the run off after this time [default: late enough for every policy that wastes nothing].
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Run")]
    pub(crate) horizon: Option<Span>,
}

impl InputArguments {
    /// The generated busy day, with a price on moving jobs, so that preemption is not flattered.
    pub(crate) fn busy_day() -> Self {
        Self {
            trace: None,
            generate: None,
            jobs: None,
            load: None,
            from: None,
            until: None,
            reading: TraceArguments::default(),
            declared: Declaring::Exact,
            server_speeds: ServerSpeeds::default(),
            cluster: None,
            faults: None,
            capacity: None,
            save_s: 10.0,
            load_s: 30.0,
            report_every: None,
            seed: 0,
            horizon: None,
        }
    }
}

/// How the inputs of one of several runs differ from what the arguments say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variation {
    /// Instead of the seed of the arguments.
    pub(crate) seed: Option<u64>,
    /// Whether the trace is replaced by another one that is drawn from it. A generated workload is drawn anew with
    /// each seed in any case.
    pub(crate) resampled: bool,
    /// So many times the load; it comes on top of that of the arguments.
    pub(crate) load_factor: Option<f64>,
    /// Other machines.
    pub(crate) machines: MachineChange,
    /// Speeds of GPU types, besides those of the cluster file.
    pub(crate) gpu_speed: Vec<(String, f64)>,
}

/// Everything that a run depends on, policy aside.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    /// The machines.
    pub(crate) cluster: Cluster,
    /// Who owns jobs.
    pub(crate) tenants: Tenants,
    /// The jobs.
    pub(crate) workload: Workload,
    /// When nodes fail, leave and return.
    node_changes: Vec<Fault>,
    /// What was read of the cluster and of its capacity.
    other_reports: Vec<ImportReport>,
    /// When runs are cut off.
    pub(crate) horizon: Time,
    /// How often running jobs report.
    report_every: Option<Span>,
    /// The seed.
    pub(crate) seed: Seed,
    /// Where the jobs come from, as written down.
    pub(crate) jobs_part: JobsPart,
    /// The machines, as written down.
    pub(crate) cluster_part: ClusterPart,
    /// Costs and failures, as written down.
    pub(crate) world_part: WorldPart,
}

impl Inputs {
    /// Reads, generates and checks everything.
    pub(crate) fn new(given: &InputArguments) -> Result<Self, Failure> {
        Self::varied(given, &Variation::default(), None)
    }

    /// The same for one of several runs, which may share the traces that were read.
    pub(crate) fn varied(
        given: &InputArguments,
        variation: &Variation,
        stock: Option<&Stock>,
    ) -> Result<Self, Failure> {
        let capacity = given.capacity.as_deref().map(capacity::load).transpose()?;
        let mut words = cluster_words(given, capacity.as_ref())?;
        let ClusterFile { cluster: today, tenants, mut physics, report: cluster_report } =
            cluster::load(&words)?;
        let machines = variation.machines.apply(&today)?;
        if !variation.machines.is_none() {
            words = format!("{words}{}", variation.machines);
        }
        physics.gpu_speed.extend(variation.gpu_speed.iter().cloned());
        let seed = Seed(variation.seed.unwrap_or(given.seed));
        let move_cost = move_cost(given)?;
        let jobs = Jobs { given, variation, stock, seed, move_cost, gpus: today.gpu_count() };
        let workload = jobs.read(&machines.all, tenants)?;
        let cluster = machines.cluster.clone();
        // The series tells of the nodes of today; what is added is there all the time.
        let share = capacity.as_ref().map_or(Ok(1.0), |series| series.mean_share(&today))?;
        let natural = || {
            // A change of machines must not move the end of the run so far forward that it counts against them.
            let late = natural_horizon(&workload, &cluster).max(natural_horizon(&workload, &today));
            longer(&workload, late, share)
        };
        let horizon = given.horizon.map_or_else(natural, |span| Time::ZERO + span);
        let first = workload.jobs.first().map_or(Time::ZERO, |(job, _)| job.submitted);
        if horizon <= first {
            return Err(ArgumentError::Horizon { horizon: Span(horizon.0), first: Span(first.0) }.into());
        }
        let faults = machines.faults(match &given.faults {
            None => Vec::new(),
            Some(FaultsWord::File(path)) => read_faults(path, &machines.all)?,
            Some(FaultsWord::Drawn(model)) => draw_faults(*model, &machines.all, horizon, seed)?,
        });
        let failures = faults.iter().filter(|(_, _, state)| *state == NodeState::Down).count();
        let changes = capacity.as_ref().map(|series| series.changes(&today, seed)).transpose()?;
        let changes = changes.map(|changes| machines.faults(changes));
        let node_changes = match &changes {
            None => faults,
            Some(changes) => overlaid(&faults, changes),
        };
        Ok(Self {
            jobs_part: jobs_part(given, &workload),
            cluster_part: ClusterPart { words, nodes: cluster.nodes.len(), gpus: cluster.gpu_count() },
            world_part: WorldPart {
                faults: given.faults.as_ref().map_or_else(|| "none".to_owned(), describe_faults),
                failures,
                horizon_s: horizon.as_secs_f64(),
                report_every_s: report_every(given).map(Span::as_secs_f64),
                capacity: capacity.as_ref().map(|series| CapacityPart {
                    file: given.capacity.clone().unwrap_or_default(),
                    sha256_16: series.report.sha256_16.clone(),
                    changes: changes.map_or(0, |changes| changes.len()),
                    mean_gpu_share: share,
                }),
                moving: MovingPart { save_s: given.save_s, load_s: given.load_s },
                physics,
            },
            other_reports: [Some(cluster_report), capacity.map(|series| series.report)]
                .into_iter()
                .flatten()
                .collect(),
            tenants: workload.tenants.clone(),
            cluster,
            workload,
            node_changes,
            horizon,
            report_every: report_every(given),
            seed,
        })
    }

    /// A fresh copy for one run.
    pub(crate) fn setup(&self) -> Setup {
        self.clone().into_setup()
    }

    /// The same for the only run of these inputs.
    pub(crate) fn into_setup(self) -> Setup {
        Setup {
            cluster: self.cluster,
            tenants: self.tenants,
            workload: self.workload,
            physics: self.world_part.physics,
            options: Options {
                node_changes: self.node_changes,
                horizon: self.horizon,
                report_every: self.report_every,
                ..Options::default()
            },
            seed: self.seed,
        }
    }

    /// What was done to the rows of the trace.
    pub(crate) fn report(&self) -> &ImportReport {
        &self.workload.report
    }

    /// Whether jobs have losses, and nothing makes them report.
    pub(crate) fn has_unreported_losses(&self) -> bool {
        self.report_every.is_none() && self.workload.jobs.iter().any(|(_, truth)| truth.loss.is_some())
    }

    /// What was done to the rows of everything that was read.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &ImportReport> {
        std::iter::once(self.report()).chain(&self.other_reports)
    }

    /// Whether rows were left out or repaired.
    pub(crate) fn has_blemishes(&self) -> bool {
        self.reports().any(ImportReport::has_blemishes)
    }
}

/// What moving costs where a job does not say.
fn move_cost(given: &InputArguments) -> Result<MoveCost, ArgumentError> {
    let (save, load) = (seconds("--save-s", given.save_s)?, seconds("--load-s", given.load_s)?);
    Ok(MoveCost { save, load, ..MoveCost::default() })
}

/// A horizon that is later by as much as the cluster is smaller, because only a share of it is there on average.
fn longer(workload: &Workload, natural: Time, share: f64) -> Time {
    let last = workload.jobs.last().map_or(Time::ZERO, |(job, _)| job.submitted);
    last + natural.since(last).scaled(1.0 / share.clamp(0.01, 1.0))
}

/// The cluster as given, or one just large enough for the capacity, or the one that the preset was made for.
fn cluster_words(given: &InputArguments, capacity: Option<&Capacity>) -> Result<String, Failure> {
    if let Some(words) = &given.cluster {
        return Ok(words.clone());
    }
    if let Some(capacity) = capacity {
        return Ok(capacity.words()?);
    }
    if given.trace.is_some() {
        return Err(ArgumentError::NoCluster.into());
    }
    let name = given.generate.as_ref().map_or(USUAL_PRESET, |choice| &choice.name);
    let preset = PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        GenerateError::NoSuchPreset { name: name.to_owned(), hint: format!("known are {}", known.join(", ")) }
    })?;
    Ok(preset.cluster.ok_or(ArgumentError::NoCluster)?.to_owned())
}

/// How often jobs report: as given, else as often as the preset's jobs do.
fn report_every(given: &InputArguments) -> Option<Span> {
    let name = given.generate.as_ref().filter(|_| given.trace.is_none()).map(|choice| choice.name.as_str());
    let preset = PRESETS.iter().find(|preset| Some(preset.name) == name);
    given.report_every.or_else(|| preset.and_then(|preset| preset.report_every_s).map(Span::from_secs_f64))
}

/// Where jobs come from.
struct Jobs<'a> {
    given: &'a InputArguments,
    variation: &'a Variation,
    stock: Option<&'a Stock>,
    seed: Seed,
    move_cost: MoveCost,
    /// The GPUs that a load is a fraction of: those of today.
    gpus: u64,
}

impl Jobs<'_> {
    fn read(&self, cluster: &Cluster, tenants: Tenants) -> Result<Workload, Failure> {
        let given_factor = match self.given.load {
            Some(LoadWord::Times(factor)) => factor,
            _ => 1.0,
        };
        let factor = given_factor * self.variation.load_factor.unwrap_or(1.0);
        match &self.given.trace {
            Some(path) => self.trace(path, cluster, tenants, factor),
            None => self.generated(cluster, tenants, factor),
        }
    }

    fn generated(&self, cluster: &Cluster, tenants: Tenants, factor: f64) -> Result<Workload, Failure> {
        // What needs --trace goes unnoticed beside --generate, which excludes it.
        let unread = self.given.reading.part_of_traces();
        if unread != ReadingPart::default() {
            let given = toml::to_string(&unread).unwrap_or_default().trim().replace('\n', ", ");
            return Err(ArgumentError::NothingToRead { given }.into());
        }
        let window = [("--from", self.given.from), ("--until", self.given.until)];
        if let Some((given, _)) = window.into_iter().find(|(_, given)| given.is_some()) {
            return Err(ArgumentError::NothingToRead { given: given.to_owned() }.into());
        }
        let load = match self.given.load {
            Some(LoadWord::Fraction(fraction)) => Some(Load { fraction, gpus: self.gpus }),
            _ => None,
        };
        let PresetChoice { name: preset, options } =
            self.given.generate.clone().unwrap_or_else(|| PresetChoice::plain(USUAL_PRESET));
        let parameters = Parameters {
            preset,
            seed: self.seed,
            jobs: self.given.jobs,
            days: None,
            load,
            tenants,
            declared: self.given.declared,
            move_cost: self.move_cost,
            server_speeds: self.given.server_speeds.clone(),
            options,
            gpu_types: gpu_types(cluster),
            throughputs: self.given.reading.throughputs()?,
        };
        let parameters = if factor == 1.0 { parameters } else { parameters.times(factor)? };
        Ok(generate(&parameters)?)
    }

    fn trace(
        &self,
        path: &Path,
        cluster: &Cluster,
        tenants: Tenants,
        factor: f64,
    ) -> Result<Workload, Failure> {
        let given = self.given;
        if let Some(LoadWord::Fraction(fraction)) = given.load {
            return Err(ArgumentError::FractionOfTrace { fraction: fraction.to_string() }.into());
        }
        let options = trace::Options {
            seed: self.seed,
            declared: given.declared,
            move_cost: self.move_cost,
            from: Time::ZERO + given.from.unwrap_or_default(),
            until: given.until.map(|until| Time::ZERO + until),
            jobs: given.jobs.map(|jobs| jobs as usize),
            gpu_types: gpu_types(cluster),
            tenants,
            ..trace::Options::default()
        };
        let shared = match self.stock {
            Some(_) if path == Path::new(PIPE) => return Err(ArgumentError::PipedTrace.into()),
            Some(stock) => stock.read(path, &given.reading.options(options)?)?,
            None => Arc::new(given.reading.read(path, options)?),
        };
        let drawn = self.variation.resampled.then(|| resample::replicate(&shared, self.seed));
        if factor == 1.0 {
            return Ok(drawn.unwrap_or_else(|| Arc::unwrap_or_clone(shared)));
        }
        Ok(resample::superpose(drawn.as_ref().unwrap_or(&shared), factor, self.seed))
    }
}

/// The names of a cluster's GPU types in the order of their ids.
fn gpu_types(cluster: &Cluster) -> Vec<Arc<str>> {
    cluster.gpu_types.iter().map(|gpu_type| Arc::clone(&gpu_type.name)).collect()
}

fn jobs_part(given: &InputArguments, workload: &Workload) -> JobsPart {
    let report = &workload.report;
    JobsPart {
        source: report.source.clone(),
        trace: given.trace.as_ref().map(|path| path.display().to_string()),
        sha256_16: given.trace.is_some().then(|| report.sha256_16.clone()),
        rows: report.rows,
        jobs: workload.jobs.len(),
        declared: match given.declared {
            Declaring::Exact => "exact".to_owned(),
            Declaring::Noisy { spread } => format!("noisy:{spread}"),
            Declaring::Absent => "absent".to_owned(),
        },
        reading: Some(given.reading.part()).filter(|part| *part != ReadingPart::default()),
    }
}

fn describe_faults(word: &FaultsWord) -> String {
    match word {
        FaultsWord::File(path) => path.display().to_string(),
        FaultsWord::Drawn(model) => format!(
            "mtbf:{},mttr:{}",
            span_word(model.mean_time_between_failures_per_node),
            span_word(model.mean_time_to_repair)
        ),
    }
}
