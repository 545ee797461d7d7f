//! Tables of throughputs: that which comes with the program is Gavel's own, and jobs are told of pairs.

mod shared_data;

use std::sync::Arc;

use shared_data::public;
use trainyard_sched::model::GpuTypeId;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::physics::{Locality, ThroughputTable, gavel_throughputs, load_throughputs};
use trainyard_sim::trace::{self, Options};
use trainyard_sim::workload::Workload;

const TYPES: [&str; 3] = ["v100", "p100", "k80"];

#[test]
fn the_table_that_comes_along_is_gavels_file() {
    let Some(path) = public("gavel/simulation_throughputs.json.gz") else { return };
    let file = load_throughputs(path.to_str().expect("a plain path")).expect("a table");
    let own = gavel_throughputs();
    assert_eq!(file.rows(), 26);
    let figures = |table: &ThroughputTable| {
        let mut all: Vec<_> = table
            .figures()
            // What the file leaves out, and what our form has for gangs of one.
            .filter(|(.., per_s)| *per_s > 0.0)
            .map(|(row, gpu_type, gpus, spread, per_s)| {
                (table.name(row).to_owned(), gpu_type.to_owned(), gpus, spread, per_s.to_bits())
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(figures(&file), figures(&own));
    let mut pairs = 0;
    for row in 0..26 {
        for other in 0..26 {
            let number = |of: u32| own.row(file.name(of)).expect("both know all models");
            for gpu_type in TYPES {
                let theirs = file.pair_per_s(row, other, gpu_type, 1);
                assert_eq!(theirs, own.pair_per_s(number(row), number(other), gpu_type, 1));
                pairs += usize::from(theirs.is_some());
            }
        }
    }
    assert_eq!(pairs, 3 * 26 * 26);
    let gang = file.row("ResNet-18 (batch size 16)").expect("known");
    assert!(file.pair_per_s(gang, gang, "p100", 4).is_some(), "the file knows pairs of gangs too");
    let Some(path) = public("gavel/motivation_oracle_throughputs.json.gz") else { return };
    let smaller = load_throughputs(path.to_str().expect("a plain path")).expect("a table");
    assert_eq!(smaller.rows(), 26);
    let row = smaller.row("ResNet-50 (batch size 16)").expect("known");
    assert_eq!(smaller.per_s(row, "p100", 1, Locality::Node), Some(8.108348261420462));
}

/// Every job is told of its model beside every other, as the table has it.
fn know_all_pairs(workload: &Workload, table: &ThroughputTable) {
    for (job, _) in workload.jobs.iter().take(40) {
        let gpus = (job.shape.minimum().gpu_milli / 1000) as u32;
        let model = |id: usize| table.row(&workload.models[id]).expect("models are rows");
        let row = model(job.model.expect("all have one").index());
        let rates = job.declared.rates.as_ref().expect("profiled");
        assert!(rates.beside().iter().all(|pair| pair.workers == gpus), "{}", job.name);
        for (id, other) in workload.models.iter().enumerate() {
            for (i, gpu_type) in TYPES.iter().enumerate() {
                let told =
                    rates.beside_per_s(trainyard_sched::model::ModelId(id as u32), GpuTypeId(i as u8), gpus);
                assert_eq!(
                    told,
                    table.pair_per_s(row, model(id), gpu_type, gpus),
                    "{} beside {other}",
                    job.name
                );
                assert!(gpus > 1 || told.is_some());
            }
        }
    }
}

#[test]
fn jobs_are_told_of_pairs() {
    let table = gavel_throughputs();
    let generated = generate(&Parameters { preset: "gavel-c".to_owned(), ..Parameters::default() });
    know_all_pairs(&generated.expect("a preset"), &table);
    let text = "A3C\tpython3\t--max-steps\t1\t1000\t0.5\t1\nResNet-18 (batch size 64)\tpython3\t--num_steps\t1\t100\t1\t2\n";
    let gpu_types = TYPES.map(Arc::from).to_vec();
    let read = |options| trace::read_from("a.trace", text.as_bytes(), &options).expect("a trace");
    let known = read(Options { gpu_types: gpu_types.clone(), ..Options::default() });
    assert_eq!(known.models.len(), 26);
    know_all_pairs(&known, &table);
    let physical = load_throughputs("gavel-physical").expect("it comes along");
    let without = read(Options { gpu_types, throughputs: Some(physical), ..Options::default() });
    assert_eq!(without.models, ["A3C", "ResNet-18 (batch size 64)"], "without pairs no other model matters");
    assert!(
        without.jobs.iter().all(|(job, _)| job
            .declared
            .rates
            .as_ref()
            .expect("profiled")
            .beside()
            .is_empty())
    );
}
