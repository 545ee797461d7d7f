//! How long it takes to get a workload, and how much memory: a million native rows, all of Helios's log as a file of the
//! same size, and all of Philly generated.

use std::fmt::Write as _;
use std::io::{Read, Write as _};

use peak_alloc::PeakAlloc;
use trainyard_sim::generate::{Parameters, generate};
use trainyard_sim::trace::{Options, read_from};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Jobs of the whole Helios log.
const HELIOS_JOBS: u32 = 3_362_981;

fn main() {
    memory_of_helios();
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

/// A log like Helios's, made while it is read, so that it takes no memory itself.
struct HeliosLog {
    next: u32,
    line: Vec<u8>,
    read: usize,
}

impl HeliosLog {
    fn new() -> Self {
        let line =
            b"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
        Self { next: 0, line: line.to_vec(), read: 0 }
    }

    fn make(&mut self) {
        let i = self.next;
        self.next += 1;
        self.line.clear();
        self.read = 0;
        // Half of the jobs have no GPU; they arrive every four seconds over six months.
        let (gpus, cpus, state) = (if i % 2 == 0 { 0 } else { 1 << (i % 4) }, 1 + i % 48, i % 11);
        let state = if state < 7 { "COMPLETED" } else { "CANCELLED" };
        let at = |seconds: u32| {
            let (day, rest) = (seconds / 86_400, seconds % 86_400);
            let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
            format!("2020-{:02}-{:02} {hour:02}:{minute:02}:{second:02}", 3 + day / 28, 1 + day % 28)
        };
        let (submitted, ran) = (i * 4, 1 + i % 3600);
        let (user, vc) = (i % 1000, i % 30);
        let (submit, start, end) = (at(submitted), at(submitted + 1), at(submitted + 1 + ran));
        let _ = writeln!(
            self.line,
            "{},u{user:04},vc{vc:03},{gpus},{cpus},1,{state},{submit},{start},{end},{ran},1",
            1_000_000 + i
        );
    }
}

impl Read for HeliosLog {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.read == self.line.len() {
                if self.next == HELIOS_JOBS {
                    break;
                }
                self.make();
            }
            let count = (self.line.len() - self.read).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.line[self.read..self.read + count]);
            self.read += count;
            filled += count;
        }
        Ok(filled)
    }
}

/// Prints what is held at the most while the log is read, and after.
fn memory_of_helios() {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let workload =
        read_from("cluster_log.csv", HeliosLog::new(), &Options::default()).expect("it is a good log");
    let (peak, after) = (MEMORY.peak_usage() - before, MEMORY.current_usage() - before);
    let jobs = workload.jobs.len();
    println!(
        "{jobs} jobs of Helios: {} MiB at the most, {} MiB kept, {} bytes a job",
        peak >> 20,
        after >> 20,
        after / jobs
    );
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
