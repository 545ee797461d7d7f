//! From runs to an answer: means, paired differences, costs, and what was assumed.

use std::collections::{BTreeMap, BTreeSet};

use trainyard_sched::model::{GpuTypeSet, Seed, Tenant, Tenants};
use trainyard_sim::truth::Speed;

use super::answer::{Answer, CannotRun, Cost, Figure, Scenario, Search, Share, Team};
use super::{Context, Kind, World};
use crate::config::{Inputs, METRICS, PROGRAM};
use crate::experiment::measure::{Measured, TeamWaits};
use crate::failure::Failure;
use crate::statistics::{Estimate, paired};

/// How many jobs that cannot run are named.
const EXAMPLES: usize = 10;

/// The numbers whose gains are compared.
const GAINS: [&str; 2] = ["avg_jct_s", "p95_wait_s"];

/// The answer, but for its sentences.
pub(super) fn answer(
    context: &Context<'_>,
    worlds: &[World],
    runs: &[Vec<Measured>],
    today: &Inputs,
    varies: Vec<String>,
    searches: Vec<Search>,
) -> Result<Answer, Failure> {
    let question = context.question;
    let mut scenarios = Vec::with_capacity(worlds.len());
    let mut assumptions = assumptions(context, today);
    let known: BTreeSet<&str> = today.workload.jobs.iter().map(|(job, _)| &*job.name).collect();
    for (world, runs_of_it) in worlds.iter().zip(runs) {
        let inputs = context.inputs(world, 0)?;
        let gpus = inputs.cluster_part.gpus;
        let comparison = Comparison {
            runs: runs_of_it,
            today: (world.kind != Kind::Today).then_some(&runs[0]),
            seed: Seed(question.inputs.seed).branch("whatif"),
        };
        scenarios.push(Scenario {
            cost: comparison.cost(question.price, gpus as f64 - today.cluster_part.gpus as f64),
            cannot_run: comparison.cannot_run(&known),
            ..comparison.scenario(world, gpus)
        });
        assumptions.extend(broken_promises(world, &inputs));
    }
    Ok(Answer {
        program: PROGRAM,
        source: today.jobs_part.source.clone(),
        jobs: today.jobs_part.jobs,
        cluster: today.cluster_part.words.clone(),
        seed: question.inputs.seed,
        replicates: context.replicates,
        varies,
        assumptions,
        shares: shares(worlds, runs, Seed(question.inputs.seed).branch("whatif")),
        scenarios,
        searches,
        sentences: Vec::new(),
    })
}

/// The runs of a world beside those of today.
struct Comparison<'a> {
    runs: &'a [Measured],
    today: Option<&'a Vec<Measured>>,
    seed: Seed,
}

impl Comparison<'_> {
    fn scenario(&self, world: &World, gpus: u64) -> Scenario {
        let reproducible = METRICS.iter().filter(|metric| !metric.measured);
        let metrics = reproducible.map(|m| (m.key, self.figure(m.key, |run| (m.of)(&run.summary))));
        Scenario {
            name: world.name.clone(),
            kind: world.kind,
            policy: world.policy.label(),
            gpus,
            metrics: metrics.collect(),
            waited_hours: self.waited("waited_hours", |run| run.waited_s / 3600.0),
            waited_gpu_hours: self.waited("waited_gpu_hours", |run| run.waited_gpu_s / 3600.0),
            teams: self.teams(),
            cannot_run: CannotRun::default(),
            cost: None,
        }
    }

    fn figure(&self, name: &str, of: impl Fn(&Measured) -> Option<f64>) -> Figure {
        let seed = self.seed.branch(name);
        let values: Vec<Option<f64>> = self.runs.iter().map(&of).collect();
        let difference = self.today.map(|today| {
            let partners: Vec<Option<f64>> = today.iter().map(&of).collect();
            Estimate::of(&paired(&values, &partners), seed)
        });
        Figure { value: Estimate::of(&values, seed), difference }
    }

    /// A sum over the completed jobs. Sums over different jobs cannot be compared.
    fn waited(&self, name: &str, of: fn(&Measured) -> f64) -> Figure {
        let known = |run: &Measured| Some(of(run)).filter(|_| !run.summary.unstable);
        let value = self.figure(name, known).value;
        let difference =
            self.today.is_some().then(|| Estimate::of(&self.waited_more(of), self.seed.branch(name)));
        Figure { value, difference }
    }

    fn waited_more(&self, of: fn(&Measured) -> f64) -> Vec<Option<f64>> {
        let pairs = self.runs.iter().zip(self.today.into_iter().flatten());
        let alike = |run: &Measured, partner: &Measured| {
            let unstable = run.summary.unstable || partner.summary.unstable;
            run.summary.completed == partner.summary.completed && !unstable
        };
        pairs.map(|(run, partner)| alike(run, partner).then(|| of(run) - of(partner))).collect()
    }

    fn teams(&self) -> Vec<Team> {
        let first = self.runs.first().map_or(&[][..], |run| &run.teams);
        let team = |team: &TeamWaits| {
            let of = |run: &Measured, value: fn(&TeamWaits) -> Option<f64>| {
                run.teams.iter().find(|other| other.name == team.name).and_then(value)
            };
            Team {
                name: team.name.clone(),
                p50_wait_s: self.figure("team p50", |run| of(run, |team| team.p50_s)),
                p95_wait_s: self.figure("team p95", |run| of(run, |team| team.p95_s)),
            }
        };
        first.iter().map(team).collect()
    }

    fn cannot_run(&self, known: &BTreeSet<&str>) -> CannotRun {
        let (Some(run), Some(today)) = (self.runs.first(), self.today.and_then(|runs| runs.first())) else {
            return CannotRun::default();
        };
        // A copy of a job can run where the job can.
        let before: BTreeSet<&str> = today.impossible.iter().map(|name| original(name, known)).collect();
        let mut now: Vec<&String> =
            run.impossible.iter().filter(|name| !before.contains(original(name, known))).collect();
        let count = now.len();
        now.truncate(EXAMPLES);
        CannotRun { count, examples: now.into_iter().cloned().collect() }
    }

    fn cost(&self, price: Option<f64>, more_gpus: f64) -> Option<Cost> {
        let per_gpu_hour = price.filter(|_| more_gpus != 0.0)?;
        let of = |run: &Measured| per_gpu_hour * more_gpus * run.arrivals_s / 3600.0;
        let costs: Vec<Option<f64>> = self.today?.iter().map(|run| Some(of(run))).collect();
        let less: Vec<Option<f64>> =
            self.waited_more(|run| run.waited_s / 3600.0).iter().map(|more| more.map(|more| -more)).collect();
        let seed = self.seed.branch("cost");
        let removed = Estimate::of(&less, seed);
        let is_removed = more_gpus > 0.0 && removed.is_gain();
        let in_all = Estimate::of(&costs, seed).mean?;
        let per_hour_of_waiting = is_removed.then(|| Estimate::of_ratio(&costs, &less, seed));
        Some(Cost { per_gpu_hour, in_all, per_hour_of_waiting })
    }
}

/// The job of today that a job is a copy of, or the job itself. Real jobs may have names like those of copies, so a
/// suffix is taken off only where that leads to a job that is known.
fn original<'a>(name: &'a str, known: &BTreeSet<&str>) -> &'a str {
    let mut stem = name;
    while !known.contains(stem) {
        match stem.rsplit_once('~') {
            Some((shorter, number)) if number.parse::<u32>().is_ok() => stem = shorter,
            _ => return name,
        }
    }
    stem
}

/// What each other policy gives of the gain of each addition. A gain that is not certain has no parts.
fn shares(worlds: &[World], runs: &[Vec<Measured>], seed: Seed) -> Vec<Share> {
    let of_kind = |kind| worlds.iter().zip(runs).filter(move |(world, _)| world.kind == kind);
    let mut all = Vec::new();
    for key in GAINS {
        let Some(metric) = METRICS.iter().find(|metric| metric.key == key) else { continue };
        let values = |runs: &[Measured]| -> Vec<Option<f64>> {
            runs.iter().map(|run| (metric.of)(&run.summary)).collect()
        };
        let gain = |of: &[Measured]| paired(&values(&runs[0]), &values(of));
        for (machines, with_machines) in of_kind(Kind::Add) {
            let whole = gain(with_machines);
            let gained = Estimate::of(&whole, seed);
            if !gained.is_gain() {
                continue;
            }
            all.extend(of_kind(Kind::Policy).map(|(policy, with_policy)| Share {
                metric: key,
                policy: policy.name.clone(),
                machines: machines.name.clone(),
                share: Estimate::of_ratio(&gain(with_policy), &whole, seed.branch("share")),
            }));
        }
    }
    all
}

/// What nobody said and the answer depends on.
fn assumptions(context: &Context<'_>, today: &Inputs) -> Vec<String> {
    let question = context.question;
    let mut all = vec![
        "The same jobs arrive whatever is changed; nobody submits more because waits are shorter.".to_owned(),
    ];
    if question.load.is_some() {
        all.push(match &question.inputs.trace {
            None => "Another load is so many times the jobs of the preset in the same time.".to_owned(),
            Some(_) => "Another load is the trace laid over itself: further copies of a job arrive at the same time of \
                        other days (of neighbouring hours in a trace of less than four days)."
                .to_owned(),
        });
    }
    if !question.policies.is_empty() {
        let (save_s, load_s) = (question.inputs.save_s, question.inputs.load_s);
        all.push(format!(
            "Stopping a job takes {save_s} s and starting it again {load_s} s where the trace does not say; policies that \
             stop jobs look better the less it is (--save-s, --load-s)."
        ));
    }
    let grown = question.goal.iter().map(|goal| goal.node.gpu_type.clone());
    let types: BTreeSet<String> =
        question.add.iter().flat_map(crate::config::Addition::gpu_types).chain(grown).collect();
    if !types.is_empty() {
        all.push(
            "Added nodes stand in the first rack and have CPUs, memory and network enough for every job."
                .to_owned(),
        );
    }
    all.extend(types.iter().map(|name| speed_of(name, today)));
    all.extend(choosy_jobs(today));
    all
}

/// How fast jobs are on GPUs that are added.
fn speed_of(name: &str, today: &Inputs) -> String {
    let speeds = &today.world_part.physics.gpu_speed;
    let measured =
        today.workload.jobs.iter().filter(|(_, truth)| matches!(truth.speed, Speed::Table { .. })).count();
    let is_there = today
        .cluster
        .nodes
        .iter()
        .any(|node| node.gpu_type.is_some_and(|id| &*today.cluster.gpu_types[id.index()].name == name));
    match speeds.get(name) {
        _ if measured == today.workload.jobs.len() => {
            format!(
                "Jobs go on {name} as fast as was measured; those that were not measured there do not run there."
            )
        }
        Some(factor) => format!("Jobs go on {name} at {factor} times the speed that the trace gives."),
        None if is_there => format!("Jobs go on added {name} GPUs as fast as on those that are there."),
        None => format!(
            "Nothing says how fast jobs go on {name}, so they go as fast there as on today's GPUs; \
             --gpu-speed {name}=FACTOR says otherwise."
        ),
    }
}

fn choosy_jobs(today: &Inputs) -> Option<String> {
    let choosy =
        today.workload.jobs.iter().filter(|(job, _)| job.wanted.gpu_types != GpuTypeSet::ALL).count();
    let all = today.workload.jobs.len();
    (choosy > 0)
        .then(|| format!("{choosy} of {all} jobs name the GPU types that they accept, and run on no others."))
}

/// What tenants are guaranteed that is not there any more.
fn broken_promises(world: &World, inputs: &Inputs) -> Option<String> {
    if world.remove.is_empty() {
        return None;
    }
    let tenants: Vec<Tenant> = inputs.tenants.iter().map(|(_, tenant)| tenant.clone()).collect();
    let error = Tenants::new(tenants, inputs.cluster.total()).err()?;
    Some(format!("With \"{}\" the guarantees of tenants cannot all be kept: {error}.", world.name))
}

/// The metrics of a scenario by key are all there; a missing one is a bug.
impl Scenario {
    /// A number and its difference from today's.
    pub(crate) fn figure(&self, key: &str) -> Figure {
        let metrics: &BTreeMap<&'static str, Figure> = &self.metrics;
        metrics.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_names_are_not_taken_for_copies() {
        let known = BTreeSet::from(["a", "a~2", "train~lr"]);
        for (name, expected) in [
            ("a", "a"),
            ("a~2", "a~2"),
            ("a~3", "a"),
            ("a~2~2", "a~2"),
            ("train~lr", "train~lr"),
            ("train~lr~2", "train~lr"),
            ("train~x", "train~x"),
            ("b~2", "b~2"),
        ] {
            assert_eq!(original(name, &known), expected, "{name}");
        }
    }
}
