//! `trace partition`: cuts a model into parts and makes a job of it that is a graph of tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::Serialize;
use trainyard_sched::model::{
    Along, Declared, GPU, Goals, Job, JobId, MoveCost, Parallelism, Resources, Span, TaskGraph, Tenants,
    Time, Wanted,
};
use trainyard_sched::partition::{By, Cut, Manner, Part, Partition, Together, partition};
use trainyard_sim::tasks::TrueGraph;
use trainyard_sim::truth::{Speed, Truth};
use trainyard_sim::workload::{ImportReport, Workload};

use super::trace::write;
use super::{Ending, Output, print};
use crate::config::{Model, ModelSettings, PIPE};
use crate::failure::Failure;
use crate::render::partition_text;

/// What `trace partition` is told.
#[derive(Args, Debug)]
pub(super) struct PartitionArguments {
    /// The model: its layers as TOML or JSON, see docs/partition.md.
    model: PathBuf,
    /// Into how many parts each replica is cut.
    #[arg(long, value_name = "N")]
    parts: u32,
    /// Consecutive parts, or several pieces of each layer.
    #[arg(long, value_enum, default_value_t = CutWord::Chain)]
    cut: CutWord,
    /// With --cut layers: how many pieces there are of a layer on average; where parts do not suffice, of some layers together.
    #[arg(long, value_name = "N", default_value_t = 2)]
    width: u32,
    /// What is to be as equal as possible among the parts.
    #[arg(long, value_enum, default_value_t = ByWord::Parameters)]
    by: ByWord,
    /// Replicas of the whole model, each on a mini-batch of its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: u32,
    /// How replicas come together [default: none for one replica, else ring].
    #[arg(long, value_enum)]
    together: Option<TogetherWord>,
    /// GPUs of each task; below 1 a part of one.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = amount)]
    gpus: f64,
    /// CPU cores of each task.
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = amount)]
    cpus: f64,
    /// Main memory of each task in GB (1e9 bytes).
    #[arg(long, value_name = "GB", default_value_t = 0.0, value_parser = amount)]
    memory_gb: f64,
    /// CPU cores of the parameter server.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = amount)]
    server_cpus: f64,
    /// Seconds of computing in one iteration, all layers together [default: as the file says].
    #[arg(long, value_name = "SECONDS")]
    compute_s: Option<f64>,
    /// Samples in one iteration of a replica [default: as the file says].
    #[arg(long, value_name = "N")]
    mini_batch: Option<u64>,
    /// Bytes that a layer exchanges with another in one iteration, where the file does not say.
    #[arg(long, value_name = "BYTES")]
    edge_bytes: Option<u64>,
    /// Bytes of a parameter, as they go to a parameter server or into an all-reduce.
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    parameter_bytes: u64,
    /// Bytes of state for each parameter, which a move carries; 12 with the two moments of Adam.
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    state_bytes: u64,
    /// Whether the job makes progress while only some of its replicas are placed.
    #[arg(long)]
    partial: bool,
    /// Iterations of the job.
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: u32,
    /// What the job is called [default: as the model].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the job as a native trace; - is standard output.
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How a model is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CutWord {
    /// Into consecutive parts.
    Chain,
    /// Each layer into several pieces.
    Layers,
}

/// What is equal among parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ByWord {
    /// Their parameters.
    Parameters,
    /// Their computing time.
    Compute,
}

/// How replicas come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TogetherWord {
    /// Not at all.
    None,
    /// In a parameter server.
    Server,
    /// By all-reduce along a ring.
    Ring,
    /// By all-reduce along a torus.
    Torus,
}

/// An amount from 0 up.
fn amount(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(amount) if (0.0..=1e6).contains(&amount) => Ok(amount),
        _ => Err("give a number from 0 to 1e6".to_owned()),
    }
}

/// A model that was cut, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Partitioned {
    /// The model.
    pub(crate) model: String,
    /// The parts of one replica.
    pub(crate) parts: Vec<ShownPart>,
    /// What flows between them in one iteration.
    pub(crate) cuts: Vec<ShownCut>,
    /// The largest part over the mean of them, by what was to be equal.
    pub(crate) balance: f64,
    /// What was to be equal.
    pub(crate) by: &'static str,
    /// Seconds of one iteration on an idle node.
    pub(crate) iteration_s: f64,
    /// Tasks of all replicas, parameter servers included.
    pub(crate) tasks: usize,
    /// The graph, as a trace has it.
    pub(crate) graph: TaskGraph,
}

/// A part.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownPart {
    /// Its number.
    pub(crate) part: usize,
    /// Its layers in words.
    pub(crate) layers: String,
    /// Which piece of them it is, from 1, and how many there are.
    pub(crate) piece: (u32, u32),
    /// Its parameters.
    pub(crate) parameters: u64,
    /// Its seconds of computing in one iteration.
    pub(crate) compute_s: f64,
}

/// What flows from one part to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ShownCut {
    /// From here.
    pub(crate) from: u32,
    /// To here; `None` is the parameter server.
    pub(crate) to: Option<u32>,
    /// Bytes in one iteration, back included.
    pub(crate) bytes: u64,
}

/// Cuts a model.
pub(super) fn perform(given: &PartitionArguments, output: Output) -> Result<Ending, Failure> {
    let settings = ModelSettings {
        compute_s: given.compute_s,
        mini_batch: given.mini_batch,
        edge_bytes: given.edge_bytes,
    };
    let model = Model::read(&given.model, settings)?;
    let cut = partition(&model.layers, &manner(given, &model))?;
    let shown = shown(given, &model, &cut);
    if let Some(out) = &given.out {
        let name = given.name.clone().unwrap_or_else(|| model.name.clone());
        write(&job(name, &model.name, given.iterations, cut.graph), out)?;
    }
    if given.out.as_deref() != Some(Path::new(PIPE)) {
        print(output, &shown, partition_text)?;
    }
    Ok(Ending::Done)
}

fn manner(given: &PartitionArguments, model: &Model) -> Manner {
    let milli = |amount: f64| (amount * GPU as f64).round() as u64;
    let parameters = model.layers.iter().map(|layer| layer.parameters).fold(0, u64::saturating_add);
    let bytes = parameters.saturating_mul(given.parameter_bytes);
    let usual = if given.replicas > 1 { TogetherWord::Ring } else { TogetherWord::None };
    let demand = Resources {
        gpu_milli: milli(given.gpus),
        cpu_milli: milli(given.cpus),
        memory_bytes: (given.memory_gb * 1e9).round() as u64,
        network_bytes_per_s: 0,
    };
    let server = Resources { cpu_milli: milli(given.server_cpus), ..Resources::NONE };
    Manner {
        parts: given.parts,
        cut: match given.cut {
            CutWord::Chain => Cut::Chain,
            CutWord::Layers => Cut::Layers { width: given.width },
        },
        by: match given.by {
            ByWord::Parameters => By::Parameters,
            ByWord::Compute => By::Compute,
        },
        replicas: given.replicas,
        demand,
        state_bytes_per_parameter: given.state_bytes,
        together: match given.together.unwrap_or(usual) {
            TogetherWord::None => Together::Alone,
            TogetherWord::Server => Together::Server { demand: server, compute_s: 0.0, bytes },
            TogetherWord::Ring => Together::Reduce { along: Along::Ring, bytes },
            TogetherWord::Torus => Together::Reduce { along: Along::Torus, bytes },
        },
        partial: given.partial,
    }
}

fn shown(given: &PartitionArguments, model: &Model, cut: &Partition) -> Partitioned {
    let layers = |part: &Part| match &model.names[part.first..part.end] {
        [one] => one.clone(),
        several => format!("{} to {}", several[0], several[several.len() - 1]),
    };
    let parts = (0..).zip(&cut.parts).map(|(i, part)| ShownPart {
        part: i,
        layers: layers(part),
        piece: (part.piece + 1, part.pieces),
        parameters: part.parameters,
        compute_s: part.compute_s,
    });
    let graph = &cut.graph;
    let of_first = graph.edges().iter().filter(|edge| edge.from.index() < cut.parts.len());
    let cuts = of_first.map(|edge| ShownCut {
        from: edge.from.0,
        to: (!graph.is_server(edge.to)).then_some(edge.to.0),
        bytes: graph.flow(edge),
    });
    let weight = |part: &Part| match given.by {
        ByWord::Parameters => part.parameters as f64,
        ByWord::Compute => part.compute_s,
    };
    let largest = cut.parts.iter().map(weight).fold(0.0, f64::max);
    let mean = cut.parts.iter().map(weight).sum::<f64>() / cut.parts.len() as f64;
    Partitioned {
        model: model.name.clone(),
        parts: parts.collect(),
        cuts: cuts.collect(),
        balance: if mean > 0.0 { largest / mean } else { 1.0 },
        by: match given.by {
            ByWord::Parameters => "parameters",
            ByWord::Compute => "computing time",
        },
        iteration_s: trainyard_sched::estimate::graph_iteration_s(graph, |_| true, |_| 1.0, |_| 0.0),
        tasks: graph.tasks().len(),
        graph: graph.clone(),
    }
}

/// A workload of this one job, which trains as its graph says.
fn job(name: String, model: &str, iterations: u32, graph: TaskGraph) -> Workload {
    let speed = Speed::Graph(TrueGraph { pace: 1.0, wander: None });
    let truth = Truth { iterations: f64::from(iterations), speed, ..Truth::lasting(Span::from_secs(1), 1) };
    let shape = Parallelism::TaskGraph(graph);
    let Speed::Graph(own) = truth.speed else { unreachable!("it was just made") };
    let iteration = Some(Span::from_secs_f64(own.idle_iteration_s(&shape)));
    let mut tenants = Tenants::default();
    let tenant = tenants.intern("default");
    let job = Job {
        id: JobId(0),
        name: name.into(),
        tenant,
        model: Some(trainyard_sched::model::ModelId(0)),
        submitted: Time::ZERO,
        shape,
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared { iterations: Some(truth.iterations), iteration, ..Declared::default() },
        move_cost: MoveCost::default(),
    };
    Workload {
        jobs: vec![(Arc::new(job), truth)],
        tenants,
        models: vec![model.to_owned()],
        gpu_types: Vec::new(),
        report: ImportReport::default(),
    }
}
