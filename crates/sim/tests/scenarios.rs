//! Scenarios: prose, a small cluster, jobs, and what must come of it, one Markdown file each.
//!
//! The expected text stands in the last fenced block of a file. `UPDATE_SCENARIOS=1` writes it anew; the
//! change is then read as a diff. What must hold by hand computation is said in the prose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use trainyard_sched::control::{Backend, Core, Log, Nothing, Step};
use trainyard_sched::decide::Verdict;
use trainyard_sched::metrics::Metrics;
use trainyard_sched::model::{
    Cluster, Declared, GPU, Goals, GpuTypeSet, Job, JobId, ModelId, MoveCost, NodeId, NodeState, Parallelism,
    PriorityClass, Quota, RackId, Rates, Resources, Seed, Span, Tenant, Tenants, Time, Topology, Wanted,
    Weight, WorkerRange,
};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::physics::{Physics, ThroughputTable};
use trainyard_sim::simulate::{Setup, prepare};
use trainyard_sim::truth::{Speed, Truth};
use trainyard_sim::workload::Workload;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Policy names, each run on its own.
    policies: Vec<String>,
    #[serde(default)]
    parameters: toml::Table,
    nodes: Vec<NodeLine>,
    #[serde(default)]
    tenants: Vec<TenantLine>,
    jobs: Vec<JobLine>,
    #[serde(default)]
    node_changes: Vec<NodeChangeLine>,
    /// Questions: at what time, about which job.
    #[serde(default)]
    ask: Vec<Question>,
    /// Of which decisions what they say of a job is expected, too.
    #[serde(default)]
    said: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeLine {
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    gpus: u64,
    #[serde(default)]
    gpu_type: Option<String>,
    #[serde(default)]
    cpus: Option<u64>,
    #[serde(default)]
    memory: Option<u64>,
    #[serde(default)]
    rack: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantLine {
    name: String,
    #[serde(default = "one_weight")]
    weight: f64,
    #[serde(default)]
    guaranteed_gpus: u64,
    limit_gpus: Option<u64>,
    guaranteed_cpus: Option<u64>,
    limit_cpus: Option<u64>,
    parent: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    name: String,
    #[serde(default)]
    submit: u64,
    /// Seconds; 0 where its iterations are given.
    #[serde(default)]
    duration: u64,
    /// Iterations, if not those of its duration; only with rates.
    iterations: Option<u32>,
    #[serde(default)]
    gpus: u32,
    /// Thousandths of a GPU for each worker.
    gpu_milli: Option<u64>,
    /// The most workers, for an elastic job.
    most: Option<u32>,
    #[serde(default)]
    workers: Option<u32>,
    #[serde(default)]
    cpus: u64,
    #[serde(default)]
    memory: u64,
    #[serde(default)]
    gpu_types: Vec<String>,
    /// Whether its workers may be on several GPU types.
    #[serde(default)]
    mixed: bool,
    #[serde(default)]
    same_node: bool,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    class: i16,
    #[serde(default)]
    save: u64,
    #[serde(default)]
    load: u64,
    /// How long its copies take to be brought together.
    #[serde(default)]
    merge: u64,
    /// Into how many copies it may be forked.
    #[serde(default = "unforked")]
    copies: u16,
    #[serde(default = "yes")]
    movable: bool,
    /// What it declares, if not the truth; 0 means nothing.
    declared: Option<u64>,
    /// Iterations a second by GPU type; its duration is then that on the fastest.
    #[serde(default)]
    rates: BTreeMap<String, f64>,
    /// Iterations a second by GPU type beside another job, by its name, on the same GPUs.
    #[serde(default)]
    beside: BTreeMap<String, BTreeMap<String, f64>>,
    /// When it should be done.
    deadline: Option<u64>,
    #[serde(default = "one_weight")]
    weight: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeChangeLine {
    at: u64,
    node: u32,
    state: NodeState,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    at: u64,
    job: String,
}

const fn one() -> u32 {
    1
}

const fn one_weight() -> f64 {
    1.0
}

const fn unforked() -> u16 {
    1
}

const fn yes() -> bool {
    true
}

impl Scenario {
    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::default();
        for line in &self.nodes {
            let gpu_type = line.gpu_type.as_deref().or((line.gpus > 0).then_some("gpu"));
            let gpu_type = gpu_type.map(|name| cluster.intern_gpu_type(name));
            let holds = Resources {
                gpu_milli: line.gpus * GPU,
                cpu_milli: line.cpus.map_or(trainyard_sched::model::UNLIMITED, |cpus| cpus * GPU),
                memory_bytes: line.memory.unwrap_or(trainyard_sched::model::UNLIMITED),
                network_bytes_per_s: trainyard_sched::model::UNLIMITED,
            };
            for _ in 0..line.count {
                cluster.push(RackId(line.rack), gpu_type, holds, None);
            }
        }
        cluster
    }

    fn tenants(&self, cluster: &Cluster) -> Tenants {
        let mut made = Tenants::default();
        let mut lines = Vec::new();
        for line in &self.tenants {
            let mut quota = Quota::OPEN;
            quota.guaranteed.gpu_milli = line.guaranteed_gpus * GPU;
            quota.guaranteed.cpu_milli = line.guaranteed_cpus.unwrap_or(0) * GPU;
            if let Some(limit) = line.limit_gpus {
                quota.limit.gpu_milli = limit * GPU;
            }
            if let Some(limit) = line.limit_cpus {
                quota.limit.cpu_milli = limit * GPU;
            }
            made.intern(&line.name);
            lines.push(Tenant {
                name: line.name.as_str().into(),
                parent: line.parent.as_ref().map(|name| made.find(name).expect("a parent stands first")),
                weight: Weight(line.weight),
                quota,
            });
        }
        let mut tenants = Tenants::new(lines, cluster.total()).expect("the scenario's tenants make sense");
        for job in &self.jobs {
            tenants.intern(job.tenant.as_deref().unwrap_or("default"));
        }
        tenants
    }

    fn workload(&self, cluster: &Cluster, tenants: &Tenants) -> Workload {
        let mut workload = Workload { tenants: tenants.clone(), ..Workload::default() };
        let table = self.table();
        for line in &self.jobs {
            workload.jobs.push(line.job(cluster, tenants, &table));
        }
        workload.number();
        workload
    }

    /// Adds what a decision says of jobs of which that is asked.
    fn tell_said(&self, core: &Core, at: Time, step: &Step, text: &mut String) {
        let said = step.decision.iter().flat_map(|decision| &decision.verdicts);
        for (id, verdict) in said {
            let name = core.state().job(*id).map(|view| view.job.name.clone());
            let is_asked = |q: &Question| Time::from_secs(q.at) == at && name.as_deref() == Some(&*q.job);
            if let Some(question) = self.said.iter().find(|question| is_asked(question)) {
                let what = match verdict {
                    Verdict::Run(_) => "runs",
                    Verdict::Wait(_) => "waits",
                    Verdict::Yield(_) => "yields",
                };
                let reason = verdict.reason();
                let _ =
                    writeln!(text, "at {} {} {what}, {}: {reason}", question.at, question.job, reason.kind());
            }
        }
    }

    /// How fast jobs go by GPU type, alone and beside each other; a row for each, by name.
    fn table(&self) -> Arc<ThroughputTable> {
        let mut table = ThroughputTable::default();
        self.jobs.iter().for_each(|line| _ = table.intern(&line.name));
        for line in &self.jobs {
            let row = table.intern(&line.name);
            for (gpu_type, per_s) in &line.rates {
                table.insert(row, gpu_type, line.workers(), false, *per_s);
            }
            for (other, rates) in &line.beside {
                let other = table.row(other).expect("the other job is in the scenario");
                for (gpu_type, per_s) in rates {
                    table.insert_pair(row, other, gpu_type, line.workers(), *per_s);
                }
            }
        }
        Arc::new(table)
    }
}

impl JobLine {
    fn workers(&self) -> u32 {
        self.workers.unwrap_or(self.gpus.max(1))
    }

    fn job(&self, cluster: &Cluster, tenants: &Tenants, table: &Arc<ThroughputTable>) -> (Arc<Job>, Truth) {
        let workers = self.workers();
        let gpu_milli = self.gpu_milli.unwrap_or(if self.gpus > 0 { GPU } else { 0 });
        let worker =
            Resources { gpu_milli, cpu_milli: self.cpus * GPU, memory_bytes: self.memory, ..Resources::NONE };
        let mut truth = Truth::lasting(Span::from_secs(self.duration), workers);
        truth.move_cost = MoveCost {
            save: Span::from_secs(self.save),
            load: Span::from_secs(self.load),
            merge: Span::from_secs(self.merge),
            ..MoveCost::default()
        };
        let declared = match self.declared {
            None => Workload::honest(&truth),
            Some(0) => Declared::default(),
            Some(seconds) => Declared {
                iterations: Some(seconds as f64),
                iteration: Some(Span::from_secs(1)),
                ..Declared::default()
            },
        };
        let declared = self.profiled(cluster, &mut truth, table).map_or(declared, |rates| Declared {
            iterations: Some(truth.iterations),
            rates: rates.shared(),
            ..Declared::default()
        });
        let types: Vec<_> = self
            .gpu_types
            .iter()
            .map(|name| cluster.gpu_type(name).unwrap_or(trainyard_sched::model::GpuTypeId(63)))
            .collect();
        let job = Job {
            id: JobId(u32::MAX),
            name: self.name.as_str().into(),
            tenant: tenants.find(self.tenant.as_deref().unwrap_or("default")).expect("it was interned"),
            // Jobs that share GPUs are known by their model.
            model: table.has_pairs().then(|| ModelId(table.row(&self.name).expect("it has a row"))),
            submitted: Time::from_secs(self.submit),
            shape: Parallelism::elastic(
                WorkerRange { min: workers, max: self.most.unwrap_or(workers) },
                worker,
            ),
            wanted: Wanted {
                gpu_types: if types.is_empty() { GpuTypeSet::ALL } else { GpuTypeSet::of(&types) },
                topology: if self.same_node { Topology::SameNode } else { Topology::Anywhere },
                mixed_gpu_types: self.mixed,
            },
            goals: Goals {
                class: PriorityClass(self.class),
                movable: self.movable,
                weight: self.weight,
                copies: self.copies,
                deadline: self.deadline.map(Time::from_secs),
                ..Goals::default()
            },
            declared,
            move_cost: truth.move_cost,
        };
        (Arc::new(job), truth)
    }
}

impl JobLine {
    /// Lets it go as fast as is said by GPU type, if anything is; returns what is known of that.
    fn profiled(&self, cluster: &Cluster, truth: &mut Truth, table: &Arc<ThroughputTable>) -> Option<Rates> {
        let fastest = self.rates.values().copied().reduce(f64::max)?;
        let row = table.row(&self.name)?;
        let gpu_types: Vec<Arc<str>> = cluster.gpu_types.iter().map(|known| known.name.clone()).collect();
        let rates = table.rates(row, &gpu_types, Some(self.workers()), |row| Some(ModelId(row)));
        truth.iterations = self.iterations.map_or(self.duration as f64 * fastest, f64::from);
        truth.speed = Speed::Table { table: Arc::clone(table), row };
        Some(rates)
    }
}

fn run_scenario(scenario: &Scenario, policy: &str) -> String {
    let cluster = scenario.cluster();
    let tenants = scenario.tenants(&cluster);
    let workload = scenario.workload(&cluster, &tenants);
    let changes = scenario.node_changes.iter();
    let options = Options {
        node_changes: changes.map(|line| (Time::from_secs(line.at), NodeId(line.node), line.state)).collect(),
        horizon: Time::from_secs(10_000_000),
        ..Options::default()
    };
    let built = policies::build(policy, &scenario.parameters).expect("the scenario's policy exists");
    let (seed, physics) = (Seed(1), Physics::default());
    let setup = Setup { cluster, tenants, workload, physics, options, seed };
    let (mut backend, mut core) = prepare(setup, built).expect("the scenario can run");
    let mut metrics = Metrics::new(core.state().cluster());
    let mut questions: Vec<&Question> = scenario.ask.iter().collect();
    questions.sort_by_key(|question| question.at);
    let mut answers = String::new();
    let mut wake = None;
    loop {
        let due = questions.first().map(|question| Time::from_secs(question.at));
        let until = [wake, due].into_iter().flatten().min();
        let Some(batch) = backend.wait(until) else { break };
        // Answer only when everything of that instant has been told.
        let quiet = batch.events.is_empty();
        let step = core.step(&batch);
        metrics.step(&batch, &step);
        Nothing.step(&batch, &step);
        for action in &step.actions {
            backend.perform(action);
        }
        core.state().assert_consistent();
        scenario.tell_said(&core, batch.at, &step, &mut answers);
        while let Some(question) = questions.first().filter(|q| Time::from_secs(q.at) <= batch.at) {
            if !quiet && Time::from_secs(question.at) == batch.at {
                break;
            }
            let job = core.state().jobs().find(|view| *view.job.name == *question.job).map(|view| view.id());
            let answer = job.and_then(|id| core.explain(batch.at, id));
            let text = answer.map_or_else(
                || "has ended or not arrived".to_owned(),
                |verdict| format!("{}: {}", verdict.reason().kind(), verdict.reason()),
            );
            let _ = writeln!(answers, "at {} {} {text}", question.at, question.job);
            questions.remove(0);
        }
        wake = step.wake;
    }
    let mut text = format!("{policy}\n");
    for row in metrics.rows() {
        let seconds =
            |time: Option<Time>| time.map_or_else(|| "-".to_owned(), |t| format!("{}", t.as_secs_f64()));
        let _ = write!(text, "  {} start {} end {}", row.name, seconds(row.started), seconds(row.ended));
        if row.preemptions + row.migrations > 0 {
            let _ = write!(text, " preempted {} moved {}", row.preemptions, row.migrations);
        }
        if let Some(reason) = row.waits.filter(|_| row.ended.is_none()) {
            let _ = write!(text, " ({}: {reason})", reason.kind());
        }
        text.push('\n');
    }
    for line in answers.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// The fenced blocks of a Markdown text: (begin, end) of their contents.
fn blocks(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut begin = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("```") {
            match begin.take() {
                None => begin = Some(at + line.len()),
                Some(begin) => found.push((begin, at)),
            }
        }
        at += line.len();
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the test asks for an update by the environment")]
fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let blocks = blocks(&text);
    let [(input_begin, input_end), .., (begin, end)] = blocks[..] else {
        return Err(format!("{}: needs a block of input and one of what is expected", path.display()));
    };
    let scenario: Scenario = toml::from_str(&text[input_begin..input_end])
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let got: String = scenario.policies.iter().map(|policy| run_scenario(&scenario, policy)).collect();
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        let new = format!("{}{got}{}", &text[..begin], &text[end..]);
        return std::fs::write(path, new).map_err(|error| format!("{}: {error}", path.display()));
    }
    if text[begin..end] == got {
        return Ok(());
    }
    Err(format!("{}\nexpected:\n{}\ngot:\n{got}", path.display(), &text[begin..end]))
}

#[test]
fn scenarios_come_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of scenarios exists")
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are scenarios");
    let wrong: Vec<String> = files.iter().filter_map(|path| check(path).err()).collect();
    assert!(wrong.is_empty(), "{} of {} scenarios:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}
