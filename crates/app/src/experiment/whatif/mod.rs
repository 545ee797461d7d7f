//! What would be if: the same jobs with other machines, another load or another policy, replicate by replicate.
//!
//! All scenarios of a replicate share its jobs, its failures and its noise, so differences are paired. Decides nothing
//! about how the answer is shown.

mod answer;
mod compose;
mod growth;
mod search;

use trainyard_sim::workload::Workload;

use super::measure::{Measured, measure};
use super::replicates::{side_by_side, usual_count, what_varies};
use crate::config::{
    Addition, ArgumentError, InputArguments, Inputs, MachineChange, NodeKind, PolicyChoice, Removal,
    Requirement, Stock, Variation,
};
use crate::failure::Failure;
pub(crate) use answer::{Answer, Attempt, Figure, Kind, Scenario, Search, Share};

/// What is asked.
pub(crate) struct Question {
    /// The jobs and machines of today.
    pub(crate) inputs: InputArguments,
    /// The policy of today.
    pub(crate) policy: PolicyChoice,
    /// Machines to add, each by itself.
    pub(crate) add: Vec<Addition>,
    /// Machines to take away, each by itself.
    pub(crate) remove: Vec<Removal>,
    /// Another load.
    pub(crate) load: Option<f64>,
    /// Other policies.
    pub(crate) policies: Vec<PolicyChoice>,
    /// Speeds of GPU types.
    pub(crate) gpu_speed: Vec<(String, f64)>,
    /// How many replicates; as many as take seconds, if nobody says.
    pub(crate) replicates: Option<usize>,
    /// What a GPU costs in an hour.
    pub(crate) price: Option<f64>,
    /// What shall be searched for.
    pub(crate) goal: Option<Goal>,
}

/// What shall be searched for.
pub(crate) struct Goal {
    /// The bounds that all must be kept.
    pub(crate) bounds: Vec<Requirement>,
    /// The kind of node that is added.
    pub(crate) node: NodeKind,
    /// The most nodes that are tried.
    pub(crate) most: u32,
}

/// One world that is simulated.
#[derive(Clone)]
struct World {
    name: String,
    kind: Kind,
    policy: PolicyChoice,
    load: Option<f64>,
    add: Vec<Addition>,
    remove: Vec<Removal>,
}

/// Everything that the worlds of a question share.
struct Context<'a> {
    question: &'a Question,
    stock: Stock,
    replicates: usize,
    /// How far all has come.
    tick: &'a (dyn Fn() + Sync),
}

/// Answers a question. `begin` is told how many runs there will be at least, and `tick` whenever one is over.
pub(crate) fn answer(
    question: &Question,
    begin: impl FnOnce(usize),
    tick: &(dyn Fn() + Sync),
) -> Result<(Answer, Inputs), Failure> {
    let mut context = Context { question, stock: Stock::default(), replicates: 1, tick };
    let mut worlds = worlds(question);
    let today = context.inputs(&worlds[0], 0)?;
    // To replace all machines by others is a fair question; what would be in between is none.
    let leaves_some = |world: &World| {
        let changed = context.machines(world).apply(&today.cluster);
        world.kind != Kind::Remove || !changed.is_ok_and(|changed| changed.cluster.nodes.is_empty())
    };
    let count = worlds.len();
    worlds.retain(leaves_some);
    let all_gone = worlds.len() < count && !worlds.iter().any(|world| world.kind == Kind::Together);
    if all_gone {
        return Err(
            ArgumentError::Machines("--remove leaves no machines; add others with --add".to_owned()).into()
        );
    }
    let varies = what_varies(&question.inputs, &today);
    context.replicates = match (varies.is_empty(), question.replicates) {
        (true, _) => 1,
        (false, Some(count)) => count,
        (false, None) => usual_count(today.workload.jobs.len()),
    };
    begin(worlds.len() * context.replicates);
    let runs = context.run_all(&worlds)?;
    let searches = match &question.goal {
        None => Vec::new(),
        Some(goal) => growth::search(&context, goal, &worlds, &today.workload)?,
    };
    let answer = compose::answer(&context, &worlds, &runs, &today, varies, searches)?;
    Ok((answer, today))
}

/// Today, each change by itself, and all of them with each policy.
fn worlds(question: &Question) -> Vec<World> {
    let today = World {
        name: "today".to_owned(),
        kind: Kind::Today,
        policy: question.policy.clone(),
        load: None,
        add: Vec::new(),
        remove: Vec::new(),
    };
    let with = |name: String, kind| World { name, kind, ..today.clone() };
    let mut all = vec![today.clone()];
    all.extend(
        question
            .add
            .iter()
            .map(|words| World { add: vec![words.clone()], ..with(format!("add {words}"), Kind::Add) }),
    );
    all.extend(
        question.remove.iter().map(|words| World {
            remove: vec![words.clone()],
            ..with(format!("remove {words}"), Kind::Remove)
        }),
    );
    all.extend(
        question.load.iter().map(|f| World { load: Some(*f), ..with(format!("load {f}x"), Kind::Load) }),
    );
    let changes = all.len() - 1;
    all.extend(
        question
            .policies
            .iter()
            .map(|policy| World { policy: policy.clone(), ..with(policy.label(), Kind::Policy) }),
    );
    all.extend(together(question, changes));
    all
}

/// All changes together, with each of the other policies, where there is more than one change.
fn together(question: &Question, changes: usize) -> Vec<World> {
    let all = World {
        name: "all together".to_owned(),
        kind: Kind::Together,
        load: question.load,
        add: question.add.clone(),
        remove: question.remove.clone(),
        policy: question.policy.clone(),
    };
    match (changes, question.policies.as_slice()) {
        (0, _) | (1, []) => Vec::new(),
        (_, []) => vec![all],
        (_, [one]) => vec![World { policy: one.clone(), ..all }],
        (_, many) => {
            let name = |policy: &PolicyChoice| format!("all together, {}", policy.label());
            let with =
                |policy: &PolicyChoice| World { name: name(policy), policy: policy.clone(), ..all.clone() };
            many.iter().map(with).collect()
        }
    }
}

impl Context<'_> {
    /// The GPU types of all changes, so that all worlds number them alike.
    fn known_types(&self) -> Vec<String> {
        let question = self.question;
        let grown = question.goal.iter().map(|goal| goal.node.gpu_type.clone());
        question.add.iter().flat_map(Addition::gpu_types).chain(grown).collect()
    }

    fn machines(&self, world: &World) -> MachineChange {
        let known_types = self.known_types();
        MachineChange { known_types, added: world.add.clone(), removed: world.remove.clone() }
    }

    /// The inputs of a replicate of a world.
    fn inputs(&self, world: &World, replicate: usize) -> Result<Inputs, Failure> {
        let known_types = self.known_types();
        let machines = MachineChange { known_types, added: world.add.clone(), removed: world.remove.clone() };
        let variation = Variation {
            seed: Some(self.question.inputs.seed.wrapping_add(replicate as u64)),
            resampled: replicate > 0,
            load_factor: world.load,
            machines,
            gpu_speed: self.question.gpu_speed.clone(),
        };
        let inputs = Inputs::varied(&self.question.inputs, &variation, Some(&self.stock))?;
        for (gpu_type, _) in &self.question.gpu_speed {
            if inputs.cluster.gpu_type(gpu_type).is_none() {
                let what = format!("--gpu-speed {gpu_type}: there are no such GPUs, today or added");
                return Err(ArgumentError::Machines(what).into());
            }
        }
        Ok(inputs)
    }

    /// All replicates of all worlds, by world.
    fn run_all(&self, worlds: &[World]) -> Result<Vec<Vec<Measured>>, Failure> {
        // Worlds of one replicate stand side by side, because they share what was read.
        let count = worlds.len();
        let runs = side_by_side(count * self.replicates, |i| {
            let (world, replicate) = (&worlds[i % count], i / count);
            let run = measure(self.inputs(world, replicate)?, &world.policy);
            (self.tick)();
            run
        })?;
        let mut by_world: Vec<Vec<Measured>> = (0..count).map(|_| Vec::new()).collect();
        runs.into_iter().enumerate().for_each(|(i, run)| by_world[i % count].push(run));
        Ok(by_world)
    }
}

/// Nodes of a kind that are enough for every job of a workload to have its own.
fn enough_for_all(workload: &Workload, node: &NodeKind) -> u32 {
    let gpus_of_a_node = u64::from(node.gpus) * 1000;
    let of = |job: &trainyard_sched::model::Job| job.shape.minimum().gpu_milli.div_ceil(gpus_of_a_node);
    let sum: u64 = workload.jobs.iter().map(|(job, _)| of(job)).sum();
    u32::try_from(sum).unwrap_or(u32::MAX)
}
