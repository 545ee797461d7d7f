//! The public code of DL2's baselines, job by job: 60 jobs in slots on 32 nodes, with the full table of speeds.
//!
//! The public data are read where they lie; where the folder is absent the tests say so and pass. In the public code ties
//! are broken by addresses in memory, so not every job can be equal: each policy's test says how many are, and why.

mod shared_data;

use std::collections::BTreeMap;

use shared_data::public;
use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::JobRow;
use trainyard_sched::model::{Seed, Tenants};
use trainyard_sched::policies;
use trainyard_sim::backend::Options;
use trainyard_sim::generate::{
    SLOT_S, ServerJob, ServerSpeeds, server_cluster, server_models, server_workload,
};
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, simulate};
use trainyard_sim::workload::Workload;

/// Completion times that differ by less than this, in slots, are equal: the public ones have four digits.
const EQUAL: f64 = 6e-5;

struct Table(BTreeMap<String, Vec<String>>);

impl Table {
    fn read(path: &std::path::Path) -> Self {
        let mut reader = csv::Reader::from_path(path).expect("the public file is there");
        let names = reader.headers().expect("it has a header").clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
        let column = |(i, name): (usize, &str)| {
            (name.to_owned(), rows.iter().map(|row| row[i].to_owned()).collect())
        };
        Self(names.iter().enumerate().map(column).collect())
    }

    fn numbers(&self, column: &str) -> Vec<f64> {
        self.0[column].iter().map(|text| text.parse().expect("a number")).collect()
    }
}

fn jobs(table: &Table) -> Vec<ServerJob> {
    let model = |name: &String| server_models().position(|(known, _)| known == name).expect("a known model");
    let columns = table.0["model"].iter().zip(table.numbers("arrival_ts")).zip(table.numbers("num_epochs_real"));
    columns.map(|((name, slot), units)| ServerJob { model: model(name), slot: slot as u64, units }).collect()
}

/// Completion times in slots, by job.
fn run(policy: &str, parameters: &str, workload: Workload) -> Vec<f64> {
    let table: toml::Table = parameters.parse().expect("parameters are TOML");
    let policy = policies::build(policy, &table).unwrap_or_else(|error| panic!("{error}"));
    let setup = Setup {
        cluster: server_cluster(32),
        tenants: Tenants::default(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    let slots = |row: &JobRow| {
        row.ended.expect("it ended").since(row.submitted).as_secs_f64() / SLOT_S as f64
    };
    finished.metrics.rows().map(slots).collect()
}

/// The public policy, ours, its parameters, and how many of the 60 jobs must end at the same time.
const CASES: [(&str, &str, &str, usize); 5] = [
    ("DRF", "slot-drf", "misfit = 'stop'", 60),
    ("FIFO", "slot-fifo", "misfit = 'stop'", 60),
    ("SRTF", "slot-srtf", "misfit = 'stop'\nby = 'fraction'", 60),
    ("Tetris", "slot-tetris", "misfit = 'stop'\nby = 'fraction'\nwork = 'most_first'", 60),
    ("Optimus", "optimus", "round_s = 1200\nmode = 'as_coded'\nspeeds = 'declared'", 60),
];

#[test]
fn jobs_end_as_in_the_public_code() {
    let Some(data) = public("") else { return };
    let runs = data.join("dl2_runs");
    let speeds = ServerSpeeds::File { path: data.join("dl2/config_speed.txt"), keep_failed: true };
    let speeds = speeds.functions().unwrap_or_else(|error| panic!("{error}"));
    let jobs = jobs(&Table::read(&runs.join("contended_trace0.csv")));
    let mut wrong = Vec::new();
    for (public, policy, parameters, equal) in CASES {
        let expected = Table::read(&runs.join(format!("contended_trace0.{public}.jct.csv"))).numbers("jct_ts");
        let ours = run(policy, parameters, server_workload(&jobs, &speeds, "job"));
        assert_eq!(ours.len(), expected.len());
        let pairs: Vec<(f64, f64)> = ours.iter().copied().zip(expected.iter().copied()).collect();
        let same = pairs.iter().filter(|(a, b)| (a - b).abs() < EQUAL).count();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let told = format!(
            "{public}: {same} of {} jobs are equal; mean {:.4}, public {:.4}",
            pairs.len(),
            mean(&ours),
            mean(&expected)
        );
        println!("{told}");
        for (i, (a, b)) in pairs.iter().enumerate().filter(|(_, (a, b))| (a - b).abs() >= EQUAL) {
            println!("  job {}: {a:.4}, public {b:.4}", i + 1);
        }
        if same < equal {
            wrong.push(told);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
