//! How long it takes to get a workload: a million native rows, a log as long as Helios's, and all of Philly generated.
//! What it takes of memory is measured apart (`import_memory`), because counting slows everything down.

mod helios_log;

use std::fmt::Write as _;

use helios_log::HeliosLog;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::trace::{Options, read_from};

fn main() {
    divan::main();
}

fn rows(count: u32) -> String {
    let mut text = String::from("job_id,submit_s,duration_s,gpus,tenant\n");
    for i in 0..count {
        let (submitted, duration, gpus) = (i / 3, 60 + i % 100_000, 1 << (i % 4));
        let _ = writeln!(text, "job-{i},{submitted}.25,{duration}.5,{gpus},team-{}", i % 97);
    }
    text
}

#[divan::bench(sample_count = 5)]
fn native_csv_of_a_million_rows(bencher: divan::Bencher<'_, '_>) {
    let text = rows(1_000_000);
    bencher.bench_local(|| read_from("rows.csv", text.as_bytes(), &Options::default()));
}

#[divan::bench(sample_count = 1)]
fn all_of_helios_made_and_read(bencher: divan::Bencher<'_, '_>) {
    bencher.bench_local(|| read_from("cluster_log.csv", HeliosLog::new(), &Options::default()));
}

/// What making the log takes of the figure above.
#[divan::bench(sample_count = 1)]
fn all_of_helios_made(bencher: divan::Bencher<'_, '_>) {
    bencher.bench_local(|| std::io::copy(&mut HeliosLog::new(), &mut std::io::sink()));
}

#[divan::bench(sample_count = 5)]
fn all_of_philly_generated(bencher: divan::Bencher<'_, '_>) {
    let parameters = Parameters { preset: "philly".to_owned(), ..Parameters::default() };
    bencher.bench_local(|| generate(&parameters));
}
