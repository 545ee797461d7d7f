//! The least time in which all jobs can be done, by linear programs that no schedule can beat.

use trainyard_sched::model::{Cluster, GPU};
use trainyard_sched::policies::gavel::allocation::{Demand, Pool, Problem, Sight, min_makespan};
use trainyard_sched::solve::{Interior, LinearProgram, Sense, Solver};
use trainyard_sim::workload::Workload;

use super::HOUR_S;

/// Where each job runs as a whole gang on one type at a time, all there from the beginning; in hours. `None` where there is
/// no such schedule.
pub(in crate::reproduce) fn makespan_bound_h(workload: &Workload, cluster: &Cluster) -> Option<f64> {
    let types = 0..cluster.gpu_types.len();
    let gpus = |gpu_type: usize| {
        let of = cluster.nodes.iter().filter(|node| node.gpu_type.is_some_and(|id| id.index() == gpu_type));
        (of.map(|node| node.holds.gpu_milli).sum::<u64>() / GPU) as u32
    };
    let pools = types.clone().map(|gpu_type| Pool { gpus: gpus(gpu_type), price_per_h: 0.0 }).collect();
    let jobs = workload.jobs.iter().map(|(job, truth)| {
        let gang = (job.shape.minimum().gpu_milli / GPU) as u32;
        let rates = job.declared.rates.as_ref();
        let per_s = |gpu_type: usize| {
            let id = trainyard_sched::model::GpuTypeId(gpu_type as u8);
            rates.and_then(|rates| rates.per_s(id, gang, false)).unwrap_or(0.0)
        };
        Demand {
            id: job.id,
            gang,
            weight: 1.0,
            rates: types.clone().map(per_s).collect(),
            steps_left: truth.iterations,
            since_arrival_s: 0.0,
            isolated_s: 0.0,
            entity: 0,
            deadline_s: None,
        }
    });
    let problem = Problem::new(pools, jobs.collect());
    min_makespan(&problem, Sight::Aware).ok().map(|found| found.objective / HOUR_S)
}

/// Where each job may be on all nodes of one GPU at the same time, or, if it is not forked, on one at a time; in hours.
pub(in crate::reproduce) fn forked_bound_h(
    workload: &Workload,
    cluster: &Cluster,
    forked: bool,
) -> Option<f64> {
    let nodes: Vec<_> = cluster.nodes.iter().filter_map(|node| node.gpu_type).collect();
    let mut program = LinearProgram::default();
    let last = program.variable(-1.0);
    let mut on: Vec<Vec<usize>> = Vec::new();
    for (job, truth) in &workload.jobs {
        let rates = job.declared.rates.as_ref()?;
        let variables: Vec<usize> = nodes.iter().map(|_| program.variable(0.0)).collect();
        let speeds = nodes.iter().map(|gpu_type| rates.per_s(*gpu_type, 1, false).unwrap_or(0.0));
        let done = variables.iter().copied().zip(speeds).collect();
        program.row(done, Sense::AtLeast, truth.iterations / HOUR_S);
        if !forked {
            let all = variables.iter().map(|variable| (*variable, 1.0)).chain([(last, -1.0)]);
            program.row(all.collect(), Sense::AtMost, 0.0);
        }
        on.push(variables);
    }
    for node in 0..nodes.len() {
        let all = on.iter().map(|row| (row[node], 1.0)).chain([(last, -1.0)]);
        program.row(all.collect(), Sense::AtMost, 0.0);
    }
    Interior.solve(&program).ok().map(|found| -found.objective)
}
