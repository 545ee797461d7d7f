//! Jobs and nodes as the API shows them. Times are RFC 3339 on the wall; lengths of time are seconds.

use serde::{Deserialize, Serialize};
use trainyard_live::board::{Board, Card, Hold, NodeCard, Standing};
use trainyard_live::clock::Wall;
use trainyard_sched::decide::Names;
use trainyard_sched::model::{GpuSet, JobId, NodeState, Parallelism, TenantId, Time, UNLIMITED};
use utoipa::ToSchema;

use super::access::Caller;
use super::office::Office;
use super::task_shown::{self, TaskShown};
use crate::render::{Called, OTHERS, loss_words};

/// One job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobShown {
    /// Its number.
    pub(crate) id: u32,
    /// What it is called.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) tenant: String,
    /// `waiting`, `starting`, `running`, `stopping` or `ended`.
    pub(crate) state: String,
    /// How it ended: `completed`, `failed`, `withdrawn` and so on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) outcome: Option<String>,
    /// The policy's reason for letting it run or wait, as a word; `had_enough` of one that was cut short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reason: Option<String>,
    /// The same as a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) because: Option<String>,
    /// By which kind of rule it was cut short: `reached`, `at_peak`, `stalled` or `hopeless`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cut_short: Option<String>,
    /// GPU-seconds that this spared, as far as could be foretold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) saved_gpu_s: Option<f64>,
    /// When it was submitted.
    pub(crate) submitted: String,
    /// When it first held anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) started: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ended: Option<String>,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// CPU cores of one worker; of all tasks together, if it is a graph of tasks, and so GPUs and memory.
    pub(crate) cpus: f64,
    /// GPUs of one worker.
    pub(crate) gpus: f64,
    /// Main memory of one worker in bytes.
    pub(crate) memory_bytes: u64,
    /// With fewer workers it cannot run.
    pub(crate) workers_min: u32,
    /// More are of no use.
    pub(crate) workers_max: u32,
    /// Workers that it has.
    pub(crate) workers: u32,
    /// How many tasks it is, if it is a graph of tasks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) tasks: Option<usize>,
    /// How many of them have a place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) tasks_placed: Option<usize>,
    /// Where each of them is and what it asks for, where one job was asked for that has not ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) each_task: Option<Vec<TaskShown>>,
    /// GPUs that it holds.
    pub(crate) gpus_held: f64,
    /// Nodes where it holds something.
    pub(crate) nodes: Vec<String>,
    /// The number of its latest start.
    pub(crate) attempt: u32,
    /// Iterations, as reported last.
    pub(crate) iterations: f64,
    /// Iterations that are saved.
    pub(crate) saved: f64,
    /// Iterations that were declared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) of_iterations: Option<f64>,
    /// Iterations a second.
    pub(crate) iterations_per_s: f64,
    /// The latest loss.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) loss: Option<f64>,
    /// Seconds without devices.
    pub(crate) waited_s: f64,
    /// Seconds with devices.
    pub(crate) executed_s: f64,
    /// How often it was stopped against its will.
    pub(crate) preemptions: u32,
    /// How often it went on elsewhere or with another size.
    pub(crate) moves: u32,
    /// How often it was lost to a failure.
    pub(crate) failures: u32,
    /// What its cluster said of it last, such as an exit code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) said: Option<String>,
    /// What stands out in its losses, where one job was asked for: where they go, outliers, reports that were no numbers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) loss_health: Option<String>,
    /// Points of its loss curve, each an iteration and a loss, where a list was asked for with `points`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) losses: Option<Vec<[f64; 2]>>,
}

/// One node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeShown {
    /// Its number, from 0.
    #[serde(default)]
    pub(crate) id: u32,
    /// Its name.
    pub(crate) name: String,
    /// `up`, `draining` or `down`.
    pub(crate) state: String,
    /// The type of its GPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) gpu_type: Option<String>,
    /// Its GPUs.
    pub(crate) gpus: f64,
    /// Those in use.
    pub(crate) gpus_used: f64,
    /// Its CPU cores, where they are tracked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) cpus: Option<f64>,
    /// Those in use.
    pub(crate) cpus_used: f64,
    /// How much of each of its GPUs is in use, whoever uses it.
    #[serde(default)]
    pub(crate) gpu_use: Vec<f64>,
    /// The jobs there that the one who asks may see.
    pub(crate) jobs: Vec<u32>,
    /// What they hold there.
    #[serde(default)]
    pub(crate) holds: Vec<HoldShown>,
}

/// What one job holds on one node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct HoldShown {
    /// The job.
    pub(crate) job: u32,
    /// What that is called.
    pub(crate) name: String,
    /// The GPUs, from 0.
    pub(crate) gpus: Vec<u32>,
    /// How much of each of them.
    pub(crate) share: f64,
    /// CPU cores.
    pub(crate) cpus: f64,
}

/// What time it is in the run: later than the latest step by as much as has passed on the wall.
pub(crate) fn now(board: &Board) -> Time {
    Time(board.at.0 + Wall::now().0.saturating_sub(board.wall.0))
}

/// A time on the wall by RFC 3339, to the millisecond.
pub(crate) fn wall_text(wall: Wall) -> String {
    let stamp = i64::try_from(wall.0).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    stamp.map_or_else(|| "unknown".to_owned(), |stamp| format!("{stamp:.3}"))
}

/// The word that a value without data has in JSON.
pub(crate) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// What jobs and tenants are called for somebody who asks: one at a time, as a reason needs them.
pub(crate) struct Seen<'a> {
    pub(crate) office: &'a Office,
    pub(crate) board: &'a Board,
    pub(crate) caller: &'a Caller,
}

impl Names for Seen<'_> {
    fn job(&self, id: JobId) -> String {
        match self.board.jobs.get(&id).filter(|card| self.caller.sees(card.tenant)) {
            Some(card) => format!("job {}", card.name),
            None if self.caller.sees_only().is_some() => format!("a job of {OTHERS}"),
            None => id.to_string(),
        }
    }

    fn tenant(&self, id: TenantId) -> String {
        match self.office.handle.tenants().get(id) {
            Some(tenant) if self.caller.sees(id) => format!("tenant {}", tenant.name),
            _ if self.caller.sees_only().is_some() => OTHERS.to_owned(),
            _ => id.to_string(),
        }
    }
}

/// What jobs and tenants are called, as far as the one who asks may know.
pub(crate) fn called(office: &Office, board: &Board, caller: &Caller) -> Called {
    let most = board.jobs.keys().next_back().map_or(0, |last| last.index() + 1);
    let mut jobs = vec!["".into(); most];
    for card in board.jobs.values().filter(|card| caller.sees(card.tenant)) {
        jobs[card.job.index()] = std::sync::Arc::clone(&card.name);
    }
    let tenants = office.handle.tenants().iter();
    let name = |seen, name: &std::sync::Arc<str>| if seen { std::sync::Arc::clone(name) } else { "".into() };
    let tenants = tenants.map(|(id, tenant)| name(caller.sees(id), &tenant.name)).collect();
    match caller.sees_only() {
        Some(_) => Called::part(jobs, tenants),
        None => Called::new(jobs, tenants),
    }
}

impl JobShown {
    /// The job of a card.
    pub(crate) fn of(card: &Card, board: &Board, names: &dyn Names, now: Time) -> Self {
        let (worker, tasks) = match &card.asked.shape {
            Parallelism::DataParallel(shape) => (shape.worker, None),
            Parallelism::TaskGraph(graph) => (card.asked.shape.minimum(), Some(graph.tasks().len())),
        };
        let count = |milli: u64| if milli == UNLIMITED { 0.0 } else { milli as f64 / 1e3 };
        let tenant = board.tenants.get(card.tenant.index()).map_or_else(String::new, ToString::to_string);
        let reason = card.verdict.as_ref().map(|verdict| verdict.reason());
        let early = card.early.as_ref();
        // Counted from its own submission, so that the three times agree whatever was done to the clock meanwhile.
        let on_wall = |at: Time| wall_text(Wall(card.submitted_wall.0 + at.since(card.submitted).0));
        let age_s = now.since(card.submitted).as_secs_f64();
        let open_s = (age_s - card.waited_s - card.executed_s).max(0.0);
        let (waits, runs) = match card.state {
            Standing::Ended => (0.0, 0.0),
            Standing::Waiting => (open_s, 0.0),
            Standing::Starting | Standing::Running | Standing::Stopping => (0.0, open_s),
        };
        Self {
            id: card.job.0,
            name: card.name.to_string(),
            tenant,
            state: word(&card.state),
            outcome: card.outcome.as_ref().map(word),
            reason: reason
                .map(|reason| reason.kind())
                .or_else(|| early.map(|_| "had_enough"))
                .map(str::to_owned),
            because: reason.map(|reason| reason.told(names)).or_else(|| early.map(ToString::to_string)),
            cut_short: early.map(|early| early.why.kind().to_owned()),
            saved_gpu_s: early.map(|early| finite(early.saved_gpu_s)),
            submitted: wall_text(card.submitted_wall),
            started: card.started.map(on_wall),
            ended: card.ended.map(on_wall),
            command: card.work.command.clone(),
            cpus: count(worker.cpu_milli),
            gpus: count(worker.gpu_milli),
            memory_bytes: worker.memory_bytes,
            workers_min: card.may_have.0,
            workers_max: card.may_have.1,
            workers: card.workers,
            tasks,
            tasks_placed: tasks.map(|_| task_shown::placed(card)),
            each_task: None,
            gpus_held: card.gpus,
            nodes: card.nodes.iter().map(ToString::to_string).collect(),
            attempt: card.attempt,
            iterations: finite(card.iterations),
            saved: finite(card.saved),
            of_iterations: card.of_iterations,
            iterations_per_s: finite(card.speed),
            loss: card.loss.filter(|loss| loss.is_finite()),
            waited_s: card.waited_s + waits,
            executed_s: card.executed_s + runs,
            preemptions: card.preemptions,
            moves: card.moves,
            failures: card.failures,
            said: card.said.as_ref().map(ToString::to_string),
            loss_health: None,
            losses: None,
        }
    }

    /// The same with what is shown of one job only: what stands out in its losses, and where each of its tasks is.
    pub(crate) fn in_full(self, card: &Card, board: &Board) -> Self {
        let loss_health = card.loss_health().map(|health| loss_words(&health, ""));
        Self { loss_health, each_task: task_shown::each(card, board), ..self }
    }

    /// The same with at most so many points of its loss curve.
    pub(crate) fn with_losses(self, card: &Card, most: usize) -> Self {
        let points = card.curve.thinned(most).into_iter().map(|(iteration, loss)| [iteration, loss]);
        Self { losses: Some(points.collect()), ..self }
    }
}

/// JSON has no other numbers.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

impl NodeShown {
    /// The node of a card.
    pub(crate) fn of(id: usize, card: &NodeCard, board: &Board, caller: &Caller) -> Self {
        let holds: Vec<HoldShown> =
            card.holds.iter().filter_map(|hold| HoldShown::of(hold, board, caller)).collect();
        let mut jobs: Vec<u32> = holds.iter().map(|hold| hold.job).collect();
        jobs.dedup();
        let mut use_milli = vec![0_u32; card.gpus as usize];
        for hold in &card.holds {
            for device in devices(hold.gpus) {
                if let Some(used) = use_milli.get_mut(device as usize) {
                    *used += u32::from(hold.gpus.share_milli);
                }
            }
        }
        Self {
            id: id as u32,
            name: card.name.to_string(),
            state: state_word(card.state).to_owned(),
            gpu_type: card.gpu_type.as_ref().map(ToString::to_string),
            gpus: card.gpus,
            gpus_used: card.gpus_used,
            cpus: card.cpus,
            cpus_used: card.cpus_used,
            gpu_use: use_milli.into_iter().map(|milli| f64::from(milli) / 1e3).collect(),
            jobs,
            holds,
        }
    }
}

impl HoldShown {
    /// What is held, if the one who asks may see the job.
    fn of(hold: &Hold, board: &Board, caller: &Caller) -> Option<Self> {
        let card = board.jobs.get(&hold.job).filter(|card| caller.sees(card.tenant))?;
        Some(Self {
            job: hold.job.0,
            name: card.name.to_string(),
            gpus: devices(hold.gpus).collect(),
            share: f64::from(hold.gpus.share_milli) / 1e3,
            cpus: hold.cpus,
        })
    }
}

/// The numbers of the devices of a set.
pub(crate) fn devices(set: GpuSet) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |device| set.devices >> device & 1 == 1)
}

/// The word for the state of a node.
pub(crate) fn state_word(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Draining => "draining",
        NodeState::Down => "down",
    }
}
