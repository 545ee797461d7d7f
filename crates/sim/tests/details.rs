//! What reports show beyond the summary, against slow and obvious counts of the same runs: nothing is counted twice and
//! nothing is lost, under every policy.

#[path = "../../sched/tests/common/mod.rs"]
mod common;
mod world;

use std::collections::BTreeMap;

use trainyard_sched::control::{Action, Batch, Event, Log, Record};
use trainyard_sched::metrics::{Details, Metrics, PIECE_GPUS};
use trainyard_sched::model::{Allocation, Cluster, JobId, NodeState, Span, Time};
use trainyard_sched::place::Rule;
use trainyard_sched::policies::ALL;

use world::World;

/// Everything folded, and the end of the run.
fn folded(world: &World, records: &[Record]) -> (Metrics, Details, Time) {
    let mut metrics = Metrics::new(&world.cluster);
    let mut details = Details::new(&world.cluster, &world.tenants);
    let end = records.last().expect("something happens").at;
    for record in records {
        let batch = Batch { at: record.at, events: record.events.clone() };
        metrics.step(&batch, &record.step);
        details.step(&batch, &record.step);
    }
    metrics.used_gpus.advance(end);
    metrics.waiting.advance(end);
    details.finish(end);
    (metrics, details, end)
}

/// What is held after each step, by looking at actions and events and nothing else.
fn held(records: &[Record]) -> Vec<(Time, BTreeMap<JobId, Allocation>)> {
    let mut now: BTreeMap<JobId, Allocation> = BTreeMap::new();
    let mut all = Vec::new();
    for Record { at, events, step } in records {
        for event in events {
            match event {
                Event::Stopped { job, .. }
                | Event::Finished { job, .. }
                | Event::Lost { job, .. }
                | Event::StartFailed { job, .. } => drop(now.remove(job)),
                Event::Resized { job, allocation, .. } => drop(now.insert(*job, allocation.clone())),
                _ => {}
            }
        }
        for action in &step.actions {
            if let Action::Start { job, allocation, .. } = action {
                now.insert(*job, allocation.clone());
            }
        }
        all.push((*at, now.clone()));
    }
    all
}

/// Free and stranded GPUs, counted device by device.
fn free(cluster: &Cluster, held: &BTreeMap<JobId, Allocation>) -> (f64, f64) {
    let (mut free, mut stranded) = (0.0, 0.0);
    for node in cluster.nodes.iter().filter(|node| node.state == NodeState::Up && node.gpu_count() > 0) {
        let mut devices = vec![1000_i64; node.gpu_count() as usize];
        for placement in held.values().flat_map(Allocation::placements).filter(|p| p.node == node.id) {
            for (i, left) in devices.iter_mut().enumerate() {
                *left -=
                    i64::from(placement.gpus.share_milli) * i64::from(placement.gpus.devices >> i & 1 == 1);
            }
        }
        let here = devices.iter().sum::<i64>() as f64 / 1000.0;
        let mut whole = devices.iter().filter(|left| **left == 1000).count();
        let piece = (PIECE_GPUS as usize).min(devices.len());
        let mut usable = 0;
        while whole >= piece {
            whole -= piece;
            usable += piece;
        }
        free += here;
        stranded += here - usable as f64;
    }
    (free, stranded)
}

#[track_caller]
fn same(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{what}: {found} is not {expected}");
}

#[test]
fn details_agree_with_obvious_counts() {
    let (mut waited, mut stranded) = (0.0, 0.0);
    for seed in 0..12 {
        let world = World::random(seed, Rule::Pack, seed % 2 == 0);
        for entry in ALL {
            let what = |part: &str| format!("{part} of {} with seed {seed}", entry.name);
            let records = world.journal(entry.name).records;
            let (metrics, details, end) = folded(&world, &records);
            let waits: f64 = details.waiting.by_kind().map(|(_, waited)| waited.job_s).sum();
            same(waits, metrics.waiting.integral(), &what("waiting"));
            let held_gpu_s: f64 = details.shares.rows().map(|share| share.held_gpu_s).sum();
            same(held_gpu_s, metrics.used_gpus.integral(), &what("shares"));
            for wait in details.waiting.longest() {
                let row = metrics.rows().find(|row| row.id == wait.job).expect("it has a row");
                let waits = if row.ended.is_some() { row.wait_s() } else { wait.waited.as_secs_f64() };
                same(wait.waited.as_secs_f64(), waits, &what("a long wait"));
                assert!(wait.stretch <= wait.waited, "{}", what("a stretch"));
            }
            // The obvious counts.
            let steps = held(&records);
            let (mut free_s, mut stranded_s) = free(&world.cluster, &BTreeMap::new());
            (free_s, stranded_s) = (free_s * steps[0].0.as_secs_f64(), stranded_s * steps[0].0.as_secs_f64());
            for pair in steps.windows(2) {
                let [(from, now), (to, _)] = pair else { unreachable!("windows of two") };
                let (length, (f, s)) = (to.since(*from).as_secs_f64(), free(&world.cluster, now));
                (free_s, stranded_s) = (free_s + length * f, stranded_s + length * s);
            }
            same(details.fragmentation.free.integral(), free_s, &what("free"));
            same(details.fragmentation.stranded.integral(), stranded_s, &what("stranded"));
            let bars: f64 = details
                .timeline
                .blocks(Span::ZERO)
                .iter()
                .map(|block| block.bar.gpu_milli_us as f64 / 1e9)
                .sum();
            same(bars, metrics.used_gpus.integral(), &what("bars"));
            assert!(details.timeline.blocks(Span::ZERO).iter().all(|block| block.bar.to <= end));
            (waited, stranded) = (waited + waits, stranded + stranded_s);
        }
    }
    assert!(waited > 1e5 && stranded > 1e5, "the worlds are not idle: {waited} {stranded}");
}

#[test]
fn entitlements_share_out_the_cluster_while_anybody_asks() {
    for seed in 0..12 {
        let world = World::random(seed, Rule::Pack, false);
        let records = world.journal("fifo").records;
        let (metrics, details, _) = folded(&world, &records);
        // While a tenant with a weight asks, all of the cluster is somebody's.
        let weight = |job: JobId| {
            let tenant = world.workload.jobs[job.index()].0.tenant;
            world.tenants.line(tenant).all(|id| world.tenants.get(id).is_some_and(|t| t.weight.0 > 0.0))
        };
        let rows: Vec<_> = metrics.rows().filter(|row| weight(row.id)).collect();
        let mut edges: Vec<Time> = rows.iter().flat_map(|row| [row.submitted, row.ended.unwrap()]).collect();
        edges.sort();
        let asked = edges
            .windows(2)
            .filter(|pair| rows.iter().any(|row| row.submitted <= pair[0] && pair[1] <= row.ended.unwrap()));
        let asked_s: f64 = asked.map(|pair| pair[1].since(pair[0]).as_secs_f64()).sum();
        let entitled: f64 = details.shares.rows().map(|share| share.entitled_gpu_s).sum();
        same(entitled, asked_s * world.cluster.gpu_count() as f64, &format!("entitlements with seed {seed}"));
        assert!(asked_s > 100.0, "somebody asks");
    }
}
