//! Policies on workloads with parameter servers: mean completion times in slots, and the floor that no policy can get under.

use rayon::prelude::*;
use trainyard_sched::control::{Batch, Log, Nothing, Step};
use trainyard_sched::model::{JobId, SERVER_TASK, Seed, SpeedFunction, Tenants};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{
    PRESETS, SLOT_S, ServerJob, draw_server_jobs, server_cluster, server_models, server_workload,
};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::slotted::{self, Baseline};

use crate::reproduce::Progress;

/// The most workers of a job, and the most servers.
const MOST: u32 = 16;

/// A policy with its parameters, as a run is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// What it is called in rows.
    pub(super) label: &'static str,
    /// Its name in the table of policies.
    pub(super) policy: &'static str,
    /// Its parameters in TOML.
    pub(super) parameters: &'static str,
}

const fn contender(label: &'static str, policy: &'static str, parameters: &'static str) -> Contender {
    Contender { label, policy, parameters }
}

/// DRF as the public code has it.
pub(super) const DRF: Contender = contender("DRF, as coded", "slot-drf", "misfit = 'stop'");
/// FIFO as the public code has it.
pub(super) const FIFO: Contender = contender("FIFO, as coded", "slot-fifo", "misfit = 'stop'");
/// Optimus as the public code has it: on the true speeds.
pub(super) const OPTIMUS: Contender =
    contender("Optimus, as coded", "optimus", "round_s = 1200\nmode = 'as_coded'");
/// The same with speeds fitted to the whole table.
pub(super) const OPTIMUS_FITTED: Contender =
    contender("Optimus, as coded, speeds fitted to all sizes", "optimus", "round_s = 1200\nmode = 'fitted'");

/// What else is compared.
pub(super) const OTHERS: [Contender; 9] = [
    OPTIMUS_FITTED,
    contender(
        "Optimus, as coded, speeds fitted to 10 profile points",
        "optimus",
        "round_s = 1200\nmode = 'as_coded'\nspeeds = 'fitted'",
    ),
    contender("Optimus, as published, 10 profile points", "optimus", "round_s = 1200"),
    contender("Optimus, as published, all sizes", "optimus", "round_s = 1200\nprofile = 0"),
    contender("DRF, misfits skipped", "slot-drf", ""),
    contender("SRTF, as coded (by fraction)", "slot-srtf", "misfit = 'stop'\nby = 'fraction'"),
    contender("SRTF by time, as coded else", "slot-srtf", "misfit = 'stop'"),
    contender("Tetris, as coded", "slot-tetris", "misfit = 'stop'\nby = 'fraction'\nwork = 'most_first'"),
    contender("Tetris, least work first, as coded else", "slot-tetris", "misfit = 'stop'\nby = 'fraction'"),
];

/// A workload of which many traces are drawn.
#[derive(Clone, Debug)]
pub(super) struct Setting<'a> {
    /// The preset.
    pub(super) preset: &'static str,
    /// The machines.
    pub(super) nodes: u32,
    /// A function for each model.
    pub(super) speeds: &'a [SpeedFunction],
}

impl Setting<'_> {
    /// The jobs of one trace.
    pub(super) fn jobs(&self, seed: Seed) -> Vec<ServerJob> {
        let preset =
            PRESETS.iter().find(|preset| preset.name == self.preset).expect("a preset of this project");
        draw_server_jobs(&preset.servers.expect("it has parameter servers"), preset.jobs, seed)
    }

    /// The mean completion time of one trace, in slots; `None` if not all jobs ended.
    pub(super) fn mean(&self, contender: &Contender, jobs: &[ServerJob]) -> Option<f64> {
        let times = self.times(contender, jobs, &mut Nothing)?;
        Some(times.iter().sum::<f64>() / times.len() as f64)
    }

    /// Completion times by job, in slots.
    pub(super) fn times(
        &self,
        contender: &Contender,
        jobs: &[ServerJob],
        log: &mut dyn Log,
    ) -> Option<Vec<f64>> {
        let table: toml::Table = contender.parameters.parse().expect("parameters of this file are TOML");
        let policy = policies::build(contender.policy, &table).expect("parameters of this file are fine");
        let setup = Setup {
            cluster: server_cluster(self.nodes),
            tenants: Tenants::default(),
            workload: server_workload(jobs, self.speeds, "job"),
            physics: Physics::default(),
            options: Options::default(),
            seed: Seed(0),
        };
        let finished = simulate(setup, policy, log, |_, _| ()).expect("a run with jobs begins");
        let slots = |span: trainyard_sched::model::Span| span.as_secs_f64() / SLOT_S as f64;
        finished.metrics.rows().map(|row| Some(slots(row.ended?.since(row.submitted)))).collect()
    }

    /// The mean completion time of one trace by the naive slot simulator, ties going to the earlier job.
    pub(super) fn naive_mean(&self, baseline: Baseline, seed: Seed) -> f64 {
        let jobs = self.jobs(seed);
        let ties: Vec<usize> = (0..jobs.len()).collect();
        let times = slotted::run(baseline, self.nodes as usize, &jobs, self.speeds, &ties);
        times.iter().sum::<f64>() / times.len() as f64
    }

    /// The mean completion time of one trace if each job had the best of all sizes from its arrival on.
    pub(super) fn floor(&self, jobs: &[ServerJob]) -> Option<f64> {
        let best = |model: usize| {
            let sizes = (1..=MOST).flat_map(|workers| (1..=MOST).map(move |servers| (workers, servers)));
            sizes.map(|(w, p)| self.speeds[model].iterations_per_s(w, p)).fold(0.0, f64::max)
        };
        let times = jobs.iter().map(|job| job.units / best(job.model) / SLOT_S as f64);
        Some(times.sum::<f64>() / jobs.len() as f64)
    }

    /// Means of all contenders by trace: `[contender][trace]`, the floor last.
    pub(super) fn means(
        &self,
        contenders: &[Contender],
        seeds: &[Seed],
        progress: &Progress<'_>,
    ) -> Vec<Vec<Option<f64>>> {
        (progress.expect)((contenders.len() * seeds.len()) as u64);
        let traces: Vec<Vec<ServerJob>> = seeds.iter().map(|seed| self.jobs(*seed)).collect();
        let pairs: Vec<(usize, usize)> =
            (0..contenders.len()).flat_map(|c| (0..traces.len()).map(move |t| (c, t))).collect();
        let run = |(c, t): &(usize, usize)| {
            let mean = self.mean(&contenders[*c], &traces[*t]);
            (progress.done)();
            mean
        };
        // Collected in the order of the pairs, whichever thread was first.
        let flat: Vec<Option<f64>> = pairs.par_iter().map(run).collect();
        let mut means: Vec<Vec<Option<f64>>> = flat.chunks(traces.len().max(1)).map(<[_]>::to_vec).collect();
        means.push(traces.iter().map(|jobs| self.floor(jobs)).collect());
        means
    }

    /// The workers and servers that a job alone on the cluster is given, and its speed then in samples a second.
    pub(super) fn alone(&self, contender: &Contender, model: usize) -> (u32, u32, f64) {
        struct First(Option<(u32, u32)>);
        impl Log for First {
            fn step(&mut self, _: &Batch, step: &Step) {
                let targets = step.decision.iter().flat_map(|decision| &decision.targets);
                let of_it = targets.filter(|(id, target)| *id == JobId(0) && target.is_some());
                for (_, target) in of_it {
                    self.0.get_or_insert((target.workers(), target.count_of(SERVER_TASK)));
                }
            }
        }
        let mut first = First(None);
        self.times(contender, &[ServerJob { model, slot: 0, units: 1000.0 }], &mut first);
        let (workers, servers) = first.0.unwrap_or((0, 0));
        (workers, servers, self.samples_per_s(model, workers, servers))
    }

    /// The best size of a model and its speed in samples a second.
    pub(super) fn best(&self, model: usize) -> (u32, u32, f64) {
        let sizes = (1..=MOST).flat_map(|servers| (1..=MOST).map(move |workers| (workers, servers)));
        let speeds = sizes.map(|(w, p)| (w, p, self.samples_per_s(model, w, p)));
        // The first of equals.
        speeds.reduce(|best, next| if next.2 > best.2 { next } else { best }).expect("there are sizes")
    }

    fn samples_per_s(&self, model: usize, workers: u32, servers: u32) -> f64 {
        let (_, samples) = server_models().nth(model).expect("a model of this project");
        self.speeds[model].iterations_per_s(workers, servers) * samples
    }
}
