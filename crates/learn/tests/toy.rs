//! A small cluster on which learning must do better than chance, and better than whom it learned from.

use std::sync::Arc;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_learn::LearnError;
use trainyard_learn::actor::{Actor, Exploring, Shared};
use trainyard_learn::dl2::{Course, Falling, Learned, Practice, Schooling, train, untrained};
use trainyard_learn::evaluate::{dl2, mean_jcts_s};
use trainyard_learn::network::Network;
use trainyard_sched::decide::Policy;
use trainyard_sched::model::{Seed, Tenants};
use trainyard_sched::policies;
use trainyard_sched::policies::dl2::{Rules, Schema};
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{ServerMix, ServerSpeeds, draw_server_jobs, server_cluster, server_workload};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::Setup;

const JOBS: usize = 5;
const RULES: Rules = Rules {
    schema: Schema { jobs: JOBS, kinds: 8 },
    slot_s: 1200.0,
    starts_all: true,
    stops_at_misfit: false,
    most_choices: 100_000,
};
/// Nobody practises on these.
const HELD_OUT: std::ops::Range<usize> = 1000..1012;

/// Ten jobs on 24 nodes: room enough, so that what counts is how many workers and servers each job is best off with.
fn trace(i: usize) -> Setup {
    let mix = ServerMix { most_arrivals: 3, model_by_length: true };
    let jobs = draw_server_jobs(&mix, 10, Seed(i as u64));
    let speeds = ServerSpeeds::Strong.functions().unwrap();
    Setup {
        cluster: server_cluster(24),
        tenants: Tenants::default(),
        workload: server_workload(&jobs, &speeds, "job"),
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    }
}

fn teacher() -> Result<Box<dyn Policy>, LearnError> {
    Ok(policies::build("slot-drf", &toml::Table::new())?)
}

fn course(updates: usize) -> Course {
    let practice = Practice {
        updates,
        batch: 256,
        memory: 16_384,
        begin_at: 512,
        aims: Falling { from: 0.5, to: 0.3 },
        ..Practice::default()
    };
    Course {
        rules: RULES,
        hidden: vec![64, 64],
        schooling: Some(Schooling { updates: 100, labels: 2048, ..Schooling::default() }),
        practice: (updates > 0).then_some(practice),
        traces: 50,
        seed: Seed(3),
    }
}

fn learned(course: &Course) -> Learned {
    train(course, &teacher, &trace, &mut |_, _| {}).unwrap()
}

fn of(learned: &Learned) -> Vec<f64> {
    let weights = learned.weights(&RULES, Default::default());
    let others: toml::Table = format!("jobs = {JOBS}").parse().unwrap();
    mean_jcts_s(&|| dl2(&weights, &others), &trace, HELD_OUT).unwrap()
}

/// A network that has learned nothing, asked for actions by chance.
fn by_chance(course: &Course) -> Vec<f64> {
    let net: Network = untrained(course).unwrap().policy;
    let making = || -> Result<Box<dyn Policy>, LearnError> {
        let exploring = Exploring { chance: 0.0, aims: 0.0, ratio: 10.0 };
        let shared = Shared::new(Arc::new(net.mlp()), exploring, Pcg64::seed_from_u64(11));
        Ok(Box::new(Actor::new(RULES, shared)))
    };
    mean_jcts_s(&making, &trace, HELD_OUT).unwrap()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn who_learns_beats_chance_and_the_teacher() {
    let course = course(10_000);
    let after_school = learned(&Course { practice: None, ..course.clone() });
    let (chance, teacher) = (by_chance(&course), mean_jcts_s(&teacher, &trace, HELD_OUT).unwrap());
    let (school, practice) = (of(&after_school), of(&learned(&course)));
    let said = format!(
        "mean JCT: chance {:.0} s, teacher {:.0} s, after school {:.0} s, after practice {:.0} s",
        mean(&chance),
        mean(&teacher),
        mean(&school),
        mean(&practice)
    );
    println!("{said}");
    assert!(mean(&school) < 1.1 * mean(&teacher), "{said}");
    assert!(mean(&practice) < 0.9 * mean(&chance), "{said}");
    assert!(mean(&practice) < 0.9 * mean(&teacher), "{said}");
    let better = practice.iter().zip(&chance).filter(|(own, chance)| own < chance).count();
    assert!(better >= 10, "better than chance on {better} of 12; {said}");
}

#[test]
fn the_same_seed_gives_the_same_weights_on_any_number_of_threads() {
    let bytes = |threads: usize, seed: u64| {
        let mut course = course(60);
        course.seed = Seed(seed);
        course.schooling = course.schooling.map(|school| Schooling { updates: 5, traces: 2, ..school });
        course.practice = course.practice.map(|practice| Practice { clusters: 3, begin_at: 64, ..practice });
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| learned(&course).weights(&RULES, Default::default()).to_bytes())
    };
    let first = bytes(1, 3);
    assert_eq!(first, bytes(1, 3));
    assert_eq!(first, bytes(4, 3));
    assert_ne!(first, bytes(1, 4));
}
