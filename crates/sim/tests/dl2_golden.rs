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
use trainyard_sim::slotted::{self, Baseline};
use trainyard_sim::workload::Workload;

/// Completion times that differ by less than this, in slots, are equal: the public ones have four digits.
const EQUAL: f64 = 6e-5;

struct Table(BTreeMap<String, Vec<String>>);

impl Table {
    fn read(path: &std::path::Path) -> Self {
        let mut reader = csv::Reader::from_path(path).expect("the public file is there");
        let names = reader.headers().expect("it has a header").clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
        let column =
            |(i, name): (usize, &str)| (name.to_owned(), rows.iter().map(|row| row[i].to_owned()).collect());
        Self(names.iter().enumerate().map(column).collect())
    }

    fn numbers(&self, column: &str) -> Vec<f64> {
        self.0[column].iter().map(|text| text.parse().expect("a number")).collect()
    }
}

fn jobs(table: &Table) -> Vec<ServerJob> {
    let model = |name: &String| server_models().position(|(known, _)| known == name).expect("a known model");
    let columns =
        table.0["model"].iter().zip(table.numbers("arrival_ts")).zip(table.numbers("num_epochs_real"));
    columns.map(|((name, slot), units)| ServerJob { model: model(name), slot: slot as u64, units }).collect()
}

/// Completion times in slots, by job.
fn run(policy: &str, parameters: &str, nodes: u32, workload: Workload) -> Vec<f64> {
    let table: toml::Table = parameters.parse().expect("parameters are TOML");
    let policy = policies::build(policy, &table).unwrap_or_else(|error| panic!("{error}"));
    let setup = Setup {
        cluster: server_cluster(nodes),
        tenants: Tenants::default(),
        workload,
        physics: Physics::default(),
        options: Options::default(),
        seed: Seed(0),
    };
    let finished = simulate(setup, policy, &mut Nothing, |_, _| ()).expect("the run begins");
    let slots =
        |row: &JobRow| row.ended.expect("it ended").since(row.submitted).as_secs_f64() / SLOT_S as f64;
    finished.metrics.rows().map(slots).collect()
}

/// The public policy, ours, its parameters, and how many of the 60 jobs end at the same time where ties go by arrival.
const CASES: [(&str, Baseline, &str, &str, usize); 5] = [
    ("DRF", Baseline::Drf, "slot-drf", "misfit = 'stop'", 60),
    ("FIFO", Baseline::Fifo, "slot-fifo", "misfit = 'stop'", 58),
    ("SRTF", Baseline::Srtf, "slot-srtf", "misfit = 'stop'\nby = 'fraction'", 58),
    ("Tetris", Baseline::Tetris, "slot-tetris", "misfit = 'stop'\nby = 'fraction'\nwork = 'most_first'", 10),
    ("Optimus", Baseline::Optimus, "optimus", AS_CODED, 59),
];

const AS_CODED: &str = "round_s = 1200\nmode = 'as_coded'\nspeeds = 'declared'";

fn equal(ours: &[f64], theirs: &[f64]) -> usize {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).filter(|(a, b)| (*a - *b).abs() < EQUAL).count()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

#[test]
fn jobs_end_as_in_the_public_code() {
    let Some(data) = public("") else { return };
    let runs = data.join("dl2_runs");
    let speeds = ServerSpeeds::File { path: data.join("dl2/config_speed.txt"), keep_failed: true };
    let speeds = speeds.functions().unwrap_or_else(|error| panic!("{error}"));
    let jobs = jobs(&Table::read(&runs.join("contended_trace0.csv")));
    let by_number: Vec<usize> = (0..jobs.len()).collect();
    // By their addresses in the public run the second half of the jobs came first.
    let by_address: Vec<usize> = (0..jobs.len()).map(|i| (i + 30) % 60).collect();
    let mut wrong = Vec::new();
    for (public, baseline, policy, parameters, same) in CASES {
        let path = runs.join(format!("contended_trace0.{public}.jct.csv"));
        let expected = Table::read(&path).numbers("jct_ts");
        let ours = run(policy, parameters, 32, server_workload(&jobs, &speeds, "job"));
        let naive = |ties: &[usize]| slotted::run(baseline, 32, &jobs, &speeds, ties);
        let (twin, addressed) = (naive(&by_number), naive(&by_address));
        let found = [equal(&ours, &expected), equal(&ours, &twin), equal(&addressed, &expected)];
        let told = format!(
            "{public}: {} of 60 jobs equal the public run, {} the naive one, which with ties by address equals {} of the \
             public run; means {:.4} and {:.4}",
            found[0],
            found[1],
            found[2],
            mean(&ours),
            mean(&expected)
        );
        println!("{told}");
        for (i, (a, b)) in addressed.iter().zip(&expected).enumerate() {
            if (a - b).abs() >= EQUAL {
                println!("  job {} with ties by address: {a:.4}, public {b:.4}", i + 1);
            }
        }
        if found != [same, 60, 60] {
            wrong.push(told);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
