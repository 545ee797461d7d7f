//! What a reader must keep, whatever it is given.

use std::io::Write as _;
use std::sync::Arc;

use trainyard_sched::control::Nothing;
use trainyard_sched::model::{Cluster, Job, Parallelism, Seed, Tenants, Time};
use trainyard_sched::policies;
use trainyard_sim::backend::Options as BackendOptions;
use trainyard_sim::capacity::{self, Capacity};
use trainyard_sim::cluster::{self, ClusterFile};
use trainyard_sim::faults::Fault;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, natural_horizon, simulate};
use trainyard_sim::trace::{self, Declaring, OnDuplicate, Options, Repairs, write_csv};
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::{Done, ImportReport, Workload};

/// What the readers call every input.
const FILE: &str = "fuzzed.dat";
/// Larger workloads, clusters and series are not simulated.
const SMALL: usize = 40;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Jobs.
    Jobs,
    /// Machines.
    Cluster,
    /// Capacity.
    Capacity,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Jobs, Self::Cluster, Self::Capacity];

    /// The folder of its samples.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Cluster => "cluster",
            Self::Capacity => "capacity",
        }
    }
}

/// Something to read.
pub(crate) struct Input {
    pub(crate) kind: Kind,
    /// The format of the sample it was made from; may be empty.
    pub(crate) format: String,
    pub(crate) bytes: Vec<u8>,
    /// Its length before it was packed.
    pub(crate) plain_bytes: usize,
    /// How it is read, among the ways there are.
    pub(crate) choice: u64,
}

/// Every reader there is.
pub(crate) fn formats() -> Vec<(Kind, String)> {
    let jobs = trace::FORMATS.iter().map(|format| (Kind::Jobs, format.name.to_owned()));
    let clusters = cluster::FORMATS.iter().map(|format| (Kind::Cluster, format.name.to_owned()));
    let series = capacity::FORMATS.iter().map(|format| (Kind::Capacity, format.name.to_owned()));
    let toml = [(Kind::Cluster, "toml".to_owned())];
    jobs.chain(clusters).chain(series).chain(toml).collect()
}

/// What a user adds so that files which say too little can be read.
const ADDED: [&str; 6] = ["", "gpus=8,type=h800", "name=philly", "gpus=4", "type=t4", "vc=vcA,gpus=8"];

/// The format as which a valid file is read.
pub(crate) fn recognised(kind: Kind, text: &[u8]) -> Result<String, String> {
    let mut told = String::new();
    for words in ADDED {
        let report = match kind {
            Kind::Jobs => trace::read_from(FILE, text, &Options::default())
                .map(|workload| workload.report)
                .map_err(|error| error.to_string()),
            Kind::Cluster => cluster::read_from(FILE, text.to_vec(), words)
                .map(|file| file.report)
                .map_err(|error| error.to_string()),
            Kind::Capacity => capacity::read_from(FILE, text.to_vec(), words)
                .map(|series| series.report)
                .map_err(|error| error.to_string()),
        };
        match report {
            Ok(report) => {
                let format = report.source.rsplit_once('(').map_or("", |(_, end)| end.trim_end_matches(')'));
                return Ok(format.to_owned());
            }
            Err(error) => told = error,
        }
    }
    Err(told)
}

/// Reads an input in one way and says which promise is broken.
pub(crate) fn judge(input: &Input) -> Result<(), String> {
    match input.kind {
        Kind::Jobs => jobs(input),
        Kind::Cluster => machines(input),
        Kind::Capacity => series(input),
    }
}

/// An error must name its file, and a line that it knows.
pub(crate) fn names_its_file(_: &Input, told: &str, debug: &str) -> Result<(), String> {
    if !told.contains(FILE) {
        return Err(format!("an error does not name the file: {told}"));
    }
    let line = debug.split("line: ").nth(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    if let Some(Some(line)) = line
        && !line.is_empty()
        && !told.contains(&format!(":{line}"))
    {
        return Err(format!("an error does not name line {line}: {told}"));
    }
    Ok(())
}

fn is_refused(input: &Input, error: &impl std::error::Error) -> Result<(), String> {
    let told = error.to_string();
    if told.len() > 4000 {
        let begin: String = told.chars().take(300).collect();
        return Err(format!("an error is {} bytes long: {begin}", told.len()));
    }
    names_its_file(input, &told, &format!("{error:?}"))
}

/// Rows add up, and what was left out has a place.
fn is_sane(report: &ImportReport) -> Result<(), String> {
    let dropped: u64 = report.findings.iter().filter(|f| f.done == Done::Dropped).map(|f| f.count).sum();
    if report.kept == 0 || report.rows < report.kept {
        return Err(format!("{} rows, {} kept, {dropped} dropped", report.rows, report.kept));
    }
    for finding in &report.findings {
        if finding.done == Done::Dropped && !finding.examples.iter().any(|place| place.starts_with(FILE)) {
            return Err(format!("a row was dropped at no place: {finding:?}"));
        }
    }
    Ok(())
}

fn options(input: &Input) -> Options {
    let choice = input.choice;
    let bit = |place: u32| choice >> place & 1 == 1;
    let forced = bit(0) && bit(1) && bit(2);
    let other = trace::FORMATS[(choice >> 8) as usize % trace::FORMATS.len()].name;
    Options {
        declared: if bit(3) { Declaring::Absent } else { Declaring::Exact },
        on_duplicate: [OnDuplicate::Error, OnDuplicate::Suffix, OnDuplicate::First]
            [(choice >> 16) as usize % 3],
        repairs: Repairs { clamp: bit(4) },
        count_censored: bit(5),
        zone: (bit(6) && bit(7)).then(|| "America/Los_Angeles".to_owned()),
        format: forced
            .then(|| if bit(20) { other.to_owned() } else { input.format.clone() })
            .filter(|f| !f.is_empty()),
        ..Options::default()
    }
}

fn jobs(input: &Input) -> Result<(), String> {
    let options = options(input);
    // A zip archive has its list of members at its end, so that only files can be read.
    let read = if input.bytes.starts_with(b"PK") {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join(FILE);
        let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(&input.bytes));
        written.map_err(|error| error.to_string())?;
        trace::read(&path, &options)
    } else {
        trace::read_from(FILE, &input.bytes[..], &options)
    };
    let workload = match read {
        Ok(workload) => workload,
        Err(error) => return is_refused(input, &error),
    };
    is_sane(&workload.report)?;
    if workload.jobs.len() as u64 != workload.report.kept {
        return Err("the report counts other jobs".to_owned());
    }
    for (index, (job, truth)) in workload.jobs.iter().enumerate() {
        if job.id.index() != index || !(truth.iterations.is_finite() && truth.iterations > 0.0) {
            return Err(format!(
                "job {} has the id {} and {} iterations",
                job.name, job.id.0, truth.iterations
            ));
        }
    }
    let mut written = Vec::new();
    // What the native format cannot say is refused, and not written wrongly.
    if write_csv(&workload, &mut written).is_ok() {
        let again = trace::read_from(FILE, &written[..], &Options::default());
        let again = again.map_err(|error| format!("what was written cannot be read: {error}"))?;
        if again.jobs.len() != workload.jobs.len() {
            return Err(format!("{} jobs were written and {} read", workload.jobs.len(), again.jobs.len()));
        }
        for ((job, truth), (own, own_truth)) in again.jobs.iter().zip(&workload.jobs) {
            let is_same = (&job.shape, &job.goals) == (&own.shape, &own.goals);
            let goes = |truth: &Truth| (truth.iterations, truth.speed.clone(), truth.loss.clone());
            if is_graph(own) && (!is_same || goes(truth) != goes(own_truth)) {
                let both = ((&own.shape, &own.goals, goes(own_truth)), (&job.shape, &job.goals, goes(truth)));
                return Err(format!("job {} is another one when it is read again: {both:?}", own.name));
            }
        }
    }
    if workload.jobs.len() <= SMALL {
        let mut cluster = Cluster::default();
        let types = workload.gpu_types.iter().map(|name| &**name).chain(["v100"]).take(64);
        for gpu_type in types {
            cluster.add(2, 8, gpu_type);
        }
        run(workload, cluster, Tenants::default(), Vec::new())?;
    }
    Ok(())
}

fn machines(input: &Input) -> Result<(), String> {
    let words = ADDED[input.choice as usize % ADDED.len()];
    let file = match cluster::read_from(FILE, input.bytes.clone(), words) {
        Ok(file) => file,
        Err(error) => return is_refused(input, &error),
    };
    is_sane(&file.report)?;
    file.cluster.validate().map_err(|error| error.to_string())?;
    if file.cluster.nodes.len() > SMALL {
        return Ok(());
    }
    let ClusterFile { cluster, tenants, .. } = file;
    run(three_jobs()?, cluster, tenants, Vec::new())
}

fn series(input: &Input) -> Result<(), String> {
    let words = ADDED[input.choice as usize % ADDED.len()];
    let series: Capacity = match capacity::read_from(FILE, input.bytes.clone(), words) {
        Ok(series) => series,
        Err(error) => return is_refused(input, &error),
    };
    is_sane(&series.report)?;
    let is_sorted = series.points.is_sorted_by_key(|(at, _)| *at);
    if !is_sorted || series.points.first().is_none_or(|(at, _)| *at != Time::ZERO) {
        return Err("the points are not in order, or do not begin at zero".to_owned());
    }
    if series.most() > 200 || series.points.len() > SMALL {
        return Ok(());
    }
    let cluster = match series.cluster() {
        Ok(cluster) => cluster,
        Err(error) => return is_refused(input, &error),
    };
    let changes = series.changes(&cluster, Seed(1)).map_err(|error| error.to_string())?;
    run(three_jobs()?, cluster, Tenants::default(), changes)
}

fn three_jobs() -> Result<Workload, String> {
    let text = "job_id,submit_s,duration_s,gpus\na,0,60,1\nb,10,90,2\nc,20,5,1\n";
    trace::read_from(FILE, text.as_bytes(), &Options::default()).map_err(|error| error.to_string())
}

fn is_graph(job: &Job) -> bool {
    job.shape.data_parallel().is_none()
}

/// How long jobs of tasks are simulated: what they use is told every minute, and there may be many of them.
fn for_a_while(workload: &Workload) -> Option<Time> {
    let tasks = workload.jobs.iter().map(|(job, _)| match &job.shape {
        Parallelism::TaskGraph(graph) => graph.tasks().len() as u64,
        Parallelism::DataParallel(_) => 0,
    });
    let tasks: u64 = tasks.sum();
    (tasks > 0).then(|| Time::from_secs(60 * (5 + 3000 / (1 + tasks / 20))))
}

/// A run under FIFO, and one under fair shares where there are graphs of tasks; that it ends without a panic is the point, and
/// that no job is lost.
fn run(
    workload: Workload,
    cluster: Cluster,
    tenants: Tenants,
    node_changes: Vec<Fault>,
) -> Result<(), String> {
    let Some(until) = for_a_while(&workload) else {
        return run_under("fifo", workload, cluster, tenants, node_changes, None);
    };
    run_under("fifo", workload.clone(), cluster.clone(), tenants.clone(), node_changes.clone(), Some(until))?;
    run_under("fair", workload, cluster, tenants, node_changes, Some(until))
}

fn run_under(
    policy: &str,
    workload: Workload,
    cluster: Cluster,
    tenants: Tenants,
    node_changes: Vec<Fault>,
    until: Option<Time>,
) -> Result<(), String> {
    let jobs = workload.jobs.len();
    let natural = natural_horizon(&workload, &cluster);
    let horizon = until.map_or(natural, |until| natural.min(until));
    let tenants = if tenants.is_empty() { workload.tenants.clone() } else { with(tenants, &workload) };
    let options = BackendOptions { node_changes, horizon, ..BackendOptions::default() };
    let workload = Workload { jobs: of_tenants(&workload, &tenants), ..workload };
    let setup = Setup { cluster, tenants, workload, physics: Physics::default(), options, seed: Seed(1) };
    let policy = policies::build(policy, &toml::Table::new()).map_err(|error| error.to_string())?;
    let finished = simulate(setup, policy, &mut Nothing, |_, _| {}).map_err(|error| error.to_string())?;
    let rows = finished.metrics.rows().count();
    if rows == jobs || (horizon < natural && rows <= jobs) {
        Ok(())
    } else {
        Err(format!("{jobs} jobs came and {rows} are in the books"))
    }
}

fn with(mut tenants: Tenants, workload: &Workload) -> Tenants {
    for (_, tenant) in workload.tenants.iter() {
        tenants.intern(&tenant.name);
    }
    tenants
}

/// The jobs with the numbers that their tenants have among all.
fn of_tenants(
    workload: &Workload,
    tenants: &Tenants,
) -> Vec<(Arc<trainyard_sched::model::Job>, trainyard_sim::truth::Truth)> {
    let mut jobs = workload.jobs.clone();
    for (job, _) in &mut jobs {
        let name = workload.tenants.get(job.tenant).map(|tenant| Arc::clone(&tenant.name));
        if let Some(id) = name.and_then(|name| tenants.find(&name)) {
            Arc::make_mut(job).tenant = id;
        }
    }
    jobs
}
