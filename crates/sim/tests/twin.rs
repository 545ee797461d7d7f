//! The event-driven simulator against a naive one that looks at every second: same starts, same ends.

#[path = "../../sched/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{Dice, Trying};
use trainyard_sched::control::Nothing;
use trainyard_sched::model::{Cluster, MoveCost, Seed, Span, Tenants, Time};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::truth::Truth;
use trainyard_sim::workload::Workload;

#[derive(Clone, Copy, Debug)]
struct Line {
    submit: u64,
    gpus: u64,
    duration: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Unborn,
    Waiting,
    /// Until when it loads.
    Running(u64),
    /// Until when it saves.
    Saving(u64),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    start: Option<u64>,
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Fifo,
    Srtf,
}

/// What everybody costs: seconds to save and to load.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    save: u64,
    load: u64,
}

/// One second after the other; only counts matter.
fn by_the_second(lines: &[Line], gpus: u64, order: Order, costs: Costs) -> Vec<Times> {
    let mut doing = vec![Doing::Unborn; lines.len()];
    let mut left: Vec<u64> = lines.iter().map(|line| line.duration).collect();
    let mut times = vec![Times { start: None, end: None }; lines.len()];
    for now in 0..200_000 {
        for i in 0..lines.len() {
            doing[i] = match doing[i] {
                Doing::Unborn if lines[i].submit == now => Doing::Waiting,
                Doing::Saving(until) if until <= now => Doing::Waiting,
                Doing::Running(loaded) if left[i] == 0 && loaded < now => {
                    times[i].end = Some(now);
                    Doing::Over
                }
                same => same,
            };
        }
        for i in chosen(lines, gpus, order, &doing, &left) {
            if doing[i] == Doing::Waiting {
                let again = times[i].start.is_some();
                times[i].start.get_or_insert(now);
                doing[i] = Doing::Running(now + if again { costs.load } else { 0 });
            }
        }
        let runs = |i: &usize| matches!(doing[*i], Doing::Running(_));
        let running: Vec<usize> = (0..lines.len()).filter(runs).collect();
        let wanted = wanted(lines, gpus, order, &doing, &left);
        for i in running {
            if !wanted.contains(&i) {
                doing[i] = if costs.save > 0 { Doing::Saving(now + costs.save) } else { Doing::Waiting };
            }
        }
        // What was given up at once can be taken at once.
        for i in chosen(lines, gpus, order, &doing, &left) {
            if doing[i] == Doing::Waiting {
                let again = times[i].start.is_some();
                times[i].start.get_or_insert(now);
                doing[i] = Doing::Running(now + if again { costs.load } else { 0 });
            }
        }
        for i in 0..lines.len() {
            if matches!(doing[i], Doing::Running(loaded) if loaded <= now) {
                left[i] -= 1;
            }
        }
        if doing.iter().all(|doing| *doing == Doing::Over) {
            break;
        }
    }
    times
}

/// The jobs that should hold devices.
fn wanted(lines: &[Line], gpus: u64, order: Order, doing: &[Doing], left: &[u64]) -> Vec<usize> {
    let there = |i: &usize| !matches!(doing[*i], Doing::Unborn | Doing::Over);
    let mut jobs: Vec<usize> = (0..lines.len()).filter(there).collect();
    let runs = |i: usize| matches!(doing[i], Doing::Running(_));
    match order {
        Order::Fifo => jobs.sort_by_key(|i| (!runs(*i), lines[*i].submit, *i)),
        Order::Srtf => jobs.sort_by_key(|i| (left[*i], lines[*i].submit, *i)),
    }
    let mut free = gpus;
    let mut wanted = Vec::new();
    for i in jobs {
        if lines[i].gpus <= free {
            free -= lines[i].gpus;
            wanted.push(i);
        } else if order == Order::Fifo {
            break;
        }
    }
    wanted
}

/// Of these, the ones for which enough devices are really free.
fn chosen(lines: &[Line], gpus: u64, order: Order, doing: &[Doing], left: &[u64]) -> Vec<usize> {
    let holds = |i: &usize| matches!(doing[*i], Doing::Running(_) | Doing::Saving(_));
    let mut free = gpus - (0..lines.len()).filter(holds).map(|i| lines[i].gpus).sum::<u64>();
    let mut wanted = wanted(lines, gpus, order, doing, left);
    wanted.sort_unstable();
    wanted.retain(|i| {
        let fits = doing[*i] != Doing::Waiting || lines[*i].gpus <= free;
        if fits && doing[*i] == Doing::Waiting {
            free -= lines[*i].gpus;
        }
        fits
    });
    wanted
}

fn by_events(lines: &[Line], cluster: &Cluster, order: Order, costs: Costs) -> Vec<Times> {
    let mut workload = Workload::default();
    let mut tenants = Tenants::default();
    tenants.intern("team");
    for (i, line) in lines.iter().enumerate() {
        let mut job = common::plain_job(i as u32, Time::from_secs(line.submit), line.gpus as u32);
        let mut truth = Truth::lasting(Span::from_secs(line.duration), line.gpus as u32);
        let (save, load) = (Span::from_secs(costs.save), Span::from_secs(costs.load));
        truth.move_cost = MoveCost { save, load, ..MoveCost::default() };
        (job.declared, job.move_cost) = (Workload::honest(&truth), truth.move_cost);
        workload.jobs.push((Arc::new(job), truth));
    }
    workload.number();
    let name = if order == Order::Fifo { "fifo" } else { "srtf" };
    let parameters = "placement = \"first_fit\"".parse().expect("it is a table");
    let policy = policies::build(name, &parameters).expect("the policy exists");
    let (physics, options, seed) = (Physics::default(), Options::default(), Seed(1));
    let setup = Setup { cluster: cluster.clone(), tenants, workload, physics, options, seed };
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run can begin");
    let seconds = |time: Time| {
        assert_eq!(time.0 % 1_000_000, 0, "all times are whole seconds");
        time.0 / 1_000_000
    };
    let rows = finished.metrics.rows();
    rows.map(|row| Times { start: row.started.map(seconds), end: row.ended.map(seconds) }).collect()
}

fn lines(dice: &mut Dice, most_gpus: u64) -> Vec<Line> {
    let mut made: Vec<Line> = (0..2 + dice.roll(14))
        .map(|_| Line { submit: dice.roll(60), gpus: 1 + dice.roll(most_gpus), duration: 1 + dice.roll(50) })
        .collect();
    made.sort_by_key(|line| line.submit);
    made
}

#[test]
fn events_and_seconds_give_the_same_times() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let cluster = Cluster::uniform(1 + dice.roll(4) as u32, 1 + dice.roll(4), "v100");
        let lines = lines(&mut dice, cluster.gpu_count());
        for order in [Order::Fifo, Order::Srtf] {
            let _trying = Trying(format!("seed {seed}, {order:?}, {cluster}, {lines:#?}"));
            let costs = Costs::default();
            let slow = by_the_second(&lines, cluster.gpu_count(), order, costs);
            assert_eq!(by_events(&lines, &cluster, order, costs), slow);
        }
    }
}

#[test]
fn saving_and_loading_take_the_same_time_in_both() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let lines = lines(&mut dice, 1);
        let costs = Costs { save: dice.roll(5), load: dice.roll(5) };
        let _trying = Trying(format!("seed {seed}, {costs:?}, {lines:#?}"));
        let slow = by_the_second(&lines, 1, Order::Srtf, costs);
        assert_eq!(by_events(&lines, &Cluster::uniform(1, 1, "v100"), Order::Srtf, costs), slow);
    }
}

#[test]
fn the_twins_tell_different_worlds_apart() {
    let differ = (0..50).any(|seed| {
        let lines = lines(&mut Dice::new(seed), 1);
        let one = Cluster::uniform(1, 1, "v100");
        let (slow, fast) = (Costs { save: 3, load: 2 }, Costs { save: 3, load: 1 });
        by_events(&lines, &one, Order::Srtf, fast) != by_the_second(&lines, 1, Order::Srtf, slow)
    });
    assert!(differ, "a wrong loading time is noticed");
    let lines = lines(&mut Dice::new(4), 4);
    let cluster = Cluster::uniform(1, 4, "v100");
    let none = Costs::default();
    assert_ne!(by_events(&lines, &cluster, Order::Fifo, none), by_the_second(&lines, 4, Order::Srtf, none));
}
