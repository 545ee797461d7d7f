//! What was simulated, as a list of facts.

use maud::{Markup, html};
use trainyard_sim::physics::Physics;

use crate::config::Inputs;
use crate::render::words::{count, duration};

/// A list of facts: what it is called, and what it is.
pub(crate) fn facts(all: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (term, fact) in all { div { dt { (term) } dd { (fact) } } } } }
}

/// Everything that the runs of a page have in common.
pub(crate) fn simulated(inputs: &Inputs) -> Markup {
    let (jobs, world, cluster) = (&inputs.jobs_part, &inputs.world_part, &inputs.cluster_part);
    let mut all = vec![("Jobs", html! { (count(jobs.jobs as u64)) " from " (jobs.source) })];
    if let Some(trace) = &jobs.trace {
        all.push(("Trace", html! { code { (trace) } }));
    }
    if let Some(hash) = &jobs.sha256_16 {
        all.push(("SHA-256 of the trace", html! { code { (hash) "…" } }));
    }
    let report = inputs.report();
    if let Some(zone) = &report.zone {
        all.push(("Wall times are of", html! { (zone) }));
    }
    if let Some(first) = &report.first_arrival {
        all.push(("The run starts at", html! { (first) }));
    }
    let machines = html! {
        (count(cluster.gpus)) " GPUs on " (count(cluster.nodes as u64)) " nodes (" code { (cluster.words) } ")"
    };
    all.push(("Cluster", machines));
    all.push(("What jobs declare of their length", html! { (jobs.declared) }));
    if world.physics != Physics::default() {
        all.push(("Speed", html! { "changed by " code { "[physics]" } " of the cluster file" }));
    }
    let (save, load) = (duration(world.moving.save_s), duration(world.moving.load_s));
    all.push(("Moving a job costs", html! { (save) " to stop, " (load) " to start again" }));
    let failures = count(world.failures as u64);
    all.push((
        "Node failures",
        html! { (world.faults) @if world.failures > 0 { ", " (failures) " in all" } },
    ));
    all.push(("Cut off after", html! { (duration(world.horizon_s)) }));
    all.push(("Seed", html! { (inputs.seed.0) }));
    facts(&all)
}
