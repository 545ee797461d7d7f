//! From an order of the loop to a keeper that carries it out: which programs, in what environment, with what share.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::Signal;
use trainyard_sched::model::{
    Allocation, Attempt, Cluster, CopyId, GPU, JobId, NodeId, Placement, SERVER_TASK, TaskId, UNLIMITED,
};

use super::Options;
use super::attempt::{Control, Folder, MARK, Order, Program};
use super::confine::Share;
use crate::executor::Held;
use crate::mailbox::{self, Sender};
use crate::work::Launch;

/// What runs under one keeper: an attempt, one of its copies or one of its tasks.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    /// The attempt; of a copy or a task with its own part of the allocation.
    pub(super) held: Held,
    /// Which copy it is, if there are several.
    pub(super) copy: Option<OneOf>,
    /// Which task it is, if its job is a graph of tasks.
    pub(super) task: Option<TaskOf>,
}

/// One task of a graph.
#[derive(Clone, Debug)]
pub(super) struct TaskOf {
    pub(super) id: TaskId,
    /// How many there are in the graph.
    pub(super) of: usize,
    /// Which start of it in its attempt, from 1.
    pub(super) start: u32,
    /// What the tasks of the attempt know, and nobody else.
    pub(super) secret: Arc<str>,
}

/// One of several copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneOf {
    pub(super) id: CopyId,
    /// How many there are.
    pub(super) of: usize,
    /// How many programs the copies before it have.
    pub(super) programs_before: usize,
}

impl Gang {
    /// An attempt without copies.
    pub(super) const fn alone(held: Held) -> Self {
        Self { held, copy: None, task: None }
    }

    /// The folder of the attempt that it is, or is part of.
    pub(super) fn attempt(&self, options: &Options) -> Folder {
        Folder::of(&options.jobs, self.held.job.id, self.held.attempt)
    }

    /// Who it is when it sends reports.
    pub(super) fn sender(&self) -> Sender {
        let copy = self.copy.map(|copy| copy.id);
        let task = self.task.as_ref().map(|task| (task.id, task.start));
        Sender { job: self.held.job.id, attempt: self.held.attempt, copy, task }
    }

    pub(super) fn folder(&self, options: &Options) -> Folder {
        let attempt = self.attempt(options);
        match (&self.copy, &self.task) {
            (Some(copy), _) => attempt.of_copy(copy.id),
            (_, Some(task)) => attempt.of_task(task.id, task.start),
            _ => attempt,
        }
    }

    /// Where its checkpoints are; copies and tasks have their own, so that nobody overwrites those of another. Those of a task
    /// are kept from attempt to attempt.
    pub(super) fn checkpoints(&self, options: &Options) -> PathBuf {
        match (&self.copy, &self.task) {
            (Some(_), _) => self.folder(options).0.join("checkpoints"),
            (_, Some(task)) => checkpoints(&self.held, options).join(format!("task-{}", task.id.0)),
            _ => checkpoints(&self.held, options),
        }
    }

    /// Where a program prints to. Programs are numbered over all copies, and tasks as in their graph.
    pub(super) fn output(&self, options: &Options, number: usize) -> PathBuf {
        self.attempt(options).output(self.first() + number)
    }

    /// The name of the kernel's groups of a program.
    pub(super) fn group_name(&self, number: usize) -> String {
        let start = self.task.as_ref().map_or_else(String::new, |task| format!("-{}", task.start));
        format!("{}-{}-{}{start}", self.held.job.id.0, self.held.attempt.0, self.first() + number)
    }

    fn first(&self) -> usize {
        let task = self.task.as_ref().map_or(0, |task| task.id.index());
        self.copy.map_or(task, |copy| copy.programs_before)
    }

    /// How many programs it has.
    pub(super) fn programs(&self) -> usize {
        parts(self.held.work.launch, &self.held.allocation).len()
    }
}

/// Makes the folder of an attempt, which nobody has begun before.
pub(super) fn make_attempt(attempt: &Folder) -> io::Result<()> {
    if attempt.has_order() {
        clear(attempt)?;
    }
    // What is in it is told to nobody else, its secret among it.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&attempt.0)
}

/// A port that is free now; that is all that can be known.
pub(super) fn listen() -> io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0))
}

/// Writes the order down and starts a keeper for it.
pub(super) fn launch(
    gang: &Gang,
    control: &Control,
    meeting: &TcpListener,
    options: &Options,
    cluster: &Cluster,
) -> io::Result<(Folder, Child)> {
    let (held, folder) = (&gang.held, gang.folder(options));
    fs::create_dir_all(&folder.0)?;
    fs::create_dir_all(gang.checkpoints(options))?;
    folder.write_control(control)?;
    folder.write_order(&Order {
        grace_s: held.work.grace_s,
        begun_from: held.iterations,
        programs: programs(gang, meeting.local_addr()?.port(), options, cluster)?,
    })?;
    crate::fault::point();
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.0.join("keeper.log"))?;
    let keeper = Command::new(&options.exe)
        .arg("keep")
        .arg(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // Its own group, so that what is typed at the daemon does not reach it.
        .process_group(0)
        .spawn()?;
    crate::fault::point();
    Ok((folder, keeper))
}

/// Removes an attempt that the journal knows nothing of, as when the journal was restored from a copy: whoever runs it is
/// killed, and nobody may begin it any more.
fn clear(attempt: &Folder) -> io::Result<()> {
    for folder in attempt.members().iter().chain([attempt]) {
        if !folder.claim(None)?
            && let Some(keeper) = folder.claimed().flatten()
        {
            keeper.signal(Signal::KILL);
        }
        if !folder.kill_programs() {
            let why = "what runs from an earlier start of the same number cannot be killed";
            return Err(io::Error::other(why));
        }
    }
    fs::remove_dir_all(&attempt.0)
}

/// What an attempt's programs are told at the beginning of the file that they may look at.
pub(super) fn control(held: &Held, allocation: &Allocation, options: &Options, cluster: &Cluster) -> Control {
    Control {
        version: 1,
        workers: allocation.workers(),
        servers: allocation.count_of(SERVER_TASK),
        cpus: shares(held, allocation, options, cluster)
            .iter()
            .filter_map(|share| share.cpus)
            .fold(f64::INFINITY, f64::min)
            .min(available()),
        grace_s: held.work.grace_s,
        ..Control::default()
    }
}

/// The processors of this machine.
fn available() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64)
}

/// What a part of a placement may use: `part` of it.
pub(super) fn share(
    held: &Held,
    placement: &Placement,
    part: f64,
    options: &Options,
    cluster: &Cluster,
) -> Share {
    let demand = held.job.shape.demand_of(placement.task).unwrap_or_default();
    let demand = demand.times(u64::from(placement.count));
    let speed = options.speeds.get(placement.node.index()).copied().unwrap_or(1.0);
    let virtual_cpus =
        options.cpus_per_gpu.map_or(0.0, |cpus| cpus * placement.gpus.milli() as f64 / GPU as f64);
    let cpus = demand.cpu_milli as f64 / 1e3 + virtual_cpus;
    let tracked = cluster.node(placement.node).holds.cpu_milli != UNLIMITED || virtual_cpus > 0.0;
    Share {
        cpus: (tracked && cpus > 0.0).then_some(cpus * speed * part),
        memory_bytes: (demand.memory_bytes > 0).then_some((demand.memory_bytes as f64 * part) as u64),
    }
}

/// The shares of all programs of an attempt, in their order.
pub(super) fn shares(
    held: &Held,
    allocation: &Allocation,
    options: &Options,
    cluster: &Cluster,
) -> Vec<Share> {
    parts(held.work.launch, allocation)
        .into_iter()
        .map(|(placement, of)| share(held, &placement, 1.0 / f64::from(of), options, cluster))
        .collect()
}

/// The attempt that a group of this name is of.
pub(super) fn attempt_of_group(name: &str) -> Option<(JobId, Attempt)> {
    let mut numbers = name.splitn(3, '-').map(|number| number.parse().ok());
    Some((JobId(numbers.next()??), Attempt(numbers.next()??)))
}

/// Where the checkpoints of a job are.
pub(super) fn checkpoints(held: &Held, options: &Options) -> PathBuf {
    options.jobs.join(held.job.id.0.to_string()).join("checkpoints")
}

/// The programs of an attempt: the placement of each, and among how many it is shared.
fn parts(launch: Launch, allocation: &Allocation) -> Vec<(Placement, u32)> {
    let placements = allocation.placements().iter();
    placements
        .flat_map(|placement| {
            let count = match launch {
                Launch::PerNode => 1,
                Launch::PerWorker => placement.count,
            };
            (0..count).map(move |_| (*placement, count))
        })
        .collect()
}

fn programs(gang: &Gang, port: u16, options: &Options, cluster: &Cluster) -> io::Result<Vec<Program>> {
    let (held, folder) = (&gang.held, gang.folder(options));
    let parts = parts(held.work.launch, &held.allocation);
    let shares = shares(held, &held.allocation, options, cluster);
    let common = common_environment(gang, port, options, parts.len())?;
    let directory = match &held.work.directory {
        Some(directory) => directory.clone(),
        None => {
            let own = options.jobs.join(held.job.id.0.to_string()).join("work");
            fs::create_dir_all(&own)?;
            own
        }
    };
    let nodes: Vec<NodeId> = held.allocation.nodes();
    let mut locals: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut programs = Vec::new();
    for (rank, ((placement, _), share)) in parts.iter().zip(shares).enumerate() {
        let local = locals.entry(placement.node).or_default();
        let mut environment = common.clone();
        environment.extend(own_environment(&parts, placement, (rank, *local), &nodes, share));
        environment.insert("CUDA_VISIBLE_DEVICES".to_owned(), devices(placement, options));
        if let Some(task) = &gang.task {
            environment.extend(task_environment(task, &gang.attempt(options)));
        }
        environment.extend(held.work.environment.clone());
        // By this the processes of an attempt are known, so it is not for the owner to change.
        environment.insert(MARK.to_owned(), folder.0.display().to_string());
        *local += 1;
        let groups = options.confinement.groups(&gang.group_name(rank))?;
        options.confinement.set(&groups, share)?;
        let (nice, processors, address_space) = options.confinement.manners(share);
        programs.push(Program {
            command: held.work.command.clone(),
            directory: directory.clone(),
            environment,
            output: gang.output(options, rank),
            groups,
            nice,
            processors,
            address_space,
        });
    }
    Ok(programs)
}

fn common_environment(
    gang: &Gang,
    port: u16,
    options: &Options,
    world: usize,
) -> io::Result<BTreeMap<String, String>> {
    let text = |path: PathBuf| path.display().to_string();
    let (held, folder) = (&gang.held, gang.folder(options));
    let mut all = BTreeMap::from([
        ("TRAINYARD_JOB".to_owned(), held.job.id.0.to_string()),
        ("TRAINYARD_JOB_NAME".to_owned(), held.job.name.to_string()),
        ("TRAINYARD_ATTEMPT".to_owned(), held.attempt.0.to_string()),
        ("TRAINYARD_PROGRESS_FILE".to_owned(), text(folder.progress())),
        ("TRAINYARD_CONTROL_FILE".to_owned(), text(folder.control_file())),
        ("TRAINYARD_CHECKPOINT_DIR".to_owned(), text(gang.checkpoints(options))),
        ("TRAINYARD_RESUME_ITERATION".to_owned(), format!("{:.0}", held.iterations)),
        ("MASTER_ADDR".to_owned(), "127.0.0.1".to_owned()),
        ("MASTER_PORT".to_owned(), port.to_string()),
        ("WORLD_SIZE".to_owned(), world.to_string()),
        // GPUs are counted as the driver does.
        ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()),
    ]);
    if let Some(copy) = gang.copy {
        all.insert("TRAINYARD_COPY".to_owned(), copy.id.0.to_string());
        all.insert("TRAINYARD_COPIES".to_owned(), copy.of.to_string());
        all.insert("TRAINYARD_MERGE_FILE".to_owned(), text(folder.answer_file()));
    }
    if let Some(url) = &options.url {
        all.insert("TRAINYARD_URL".to_owned(), url.clone());
        all.insert("TRAINYARD_TOKEN".to_owned(), mailbox::open(&options.jobs, gang.sender())?);
    }
    Ok(all)
}

/// The GPUs of a placement, as CUDA is told.
fn devices(placement: &Placement, options: &Options) -> String {
    let known = options.gpu_indices.get(placement.node.index());
    let held = (0..64_usize).filter(|i| placement.gpus.devices >> i & 1 == 1);
    let indices =
        held.map(|i| known.and_then(|known| known.get(i)).map_or_else(|| i.to_string(), u32::to_string));
    indices.collect::<Vec<_>>().join(",")
}

/// What a task is told of itself, and how it finds the others.
fn task_environment(task: &TaskOf, attempt: &Folder) -> [(String, String); 6] {
    let (number, of) = (task.id.0.to_string(), task.of.to_string());
    [
        ("TRAINYARD_TASK", number.clone()),
        ("TRAINYARD_TASKS", of.clone()),
        ("TRAINYARD_MEETING_DIR", attempt.meeting().display().to_string()),
        ("TRAINYARD_JOB_TOKEN", task.secret.to_string()),
        ("RANK", number),
        ("WORLD_SIZE", of),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// What differs from program to program; the names are torchrun's.
fn own_environment(
    parts: &[(Placement, u32)],
    placement: &Placement,
    (rank, local): (usize, usize),
    nodes: &[NodeId],
    share: Share,
) -> Vec<(String, String)> {
    let on_node = parts.iter().filter(|(other, _)| other.node == placement.node).count();
    let node_rank = nodes.iter().position(|node| *node == placement.node).unwrap_or(0);
    let threads = share.cpus.map_or(1, |cpus| cpus.ceil().max(1.0) as u32);
    [
        ("RANK", rank.to_string()),
        ("LOCAL_RANK", local.to_string()),
        ("LOCAL_WORLD_SIZE", on_node.to_string()),
        ("NODE_RANK", node_rank.to_string()),
        ("GROUP_RANK", node_rank.to_string()),
        ("TRAINYARD_WORKERS", placement.count.to_string()),
        ("OMP_NUM_THREADS", threads.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
