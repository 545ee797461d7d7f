//! Hadar on whole traces: its own 240 jobs, and the largest of the sets of Gavel's generator.

use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::{Metrics, Summary};
use trainyard_sched::model::{Cluster, MoveCost, Seed, Span};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};

fn run(
    preset: &str,
    cluster: &Cluster,
    (policy, parameters): (&str, &str),
    restart_s: u64,
) -> (Metrics, Summary) {
    let mut workload =
        generate(&Parameters { preset: preset.to_owned(), ..Parameters::default() }).expect("drawn");
    for (job, truth) in &mut workload.jobs {
        truth.move_cost = MoveCost { load: Span::from_secs(restart_s), ..MoveCost::default() };
        let job = std::sync::Arc::make_mut(job);
        job.move_cost = truth.move_cost;
        job.wanted.mixed_gpu_types = true;
    }
    let policy = policies::build(policy, &parameters.parse().expect("TOML")).expect("it exists");
    let setup = Setup {
        cluster: cluster.clone(),
        tenants: workload.tenants.clone(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    let summary = finished.metrics.summary(finished.ended);
    (finished.metrics, summary)
}

fn cluster(nodes: u32, gpus: u64) -> Cluster {
    let mut cluster = Cluster::default();
    for gpu_type in ["v100", "p100", "k80"] {
        cluster.add(nodes, gpus, gpu_type);
    }
    cluster
}

#[test]
fn probe() {
    for (preset, cluster) in [("s-240", cluster(5, 4)), ("gavel-c", cluster(20, 1))] {
        for line in [
            ("hadar", "objective = 'makespan'"),
            ("hadar", "objective = 'makespan'\nbeam = 1\nmakespan_by = 'longest'"),
            ("hadar", "admission = true\nbeam = 1"),
            ("hadar", "utility = 'norm'\nbeam = 1"),
            ("hadar", "mixing = false\nbeam = 1"),
            ("yarn-cs", ""),
        ] {
            let begin = std::time::Instant::now();
            let (metrics, s) = run(preset, &cluster, line, 0);
            let jct = s.avg_jct_s.unwrap_or(0.0) / 3600.0;
            eprintln!(
                "{preset} {line:?}: jct {jct:.2} h ttd {:.2} h util {:.3} wait {:.2} h preempt {} moves {} in {:?}",
                s.makespan_s / 3600.0,
                s.gpu_utilization,
                s.avg_wait_s.unwrap_or(0.0) / 3600.0,
                s.preemptions,
                s.migrations,
                begin.elapsed()
            );
            drop(metrics);
        }
    }
}
