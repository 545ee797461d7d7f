//! How much memory it takes to read a log as long as Helios's: at the most, and for each job in the end.

mod helios_log;

use helios_log::{HELIOS_JOBS, HeliosLog};
use peak_alloc::PeakAlloc;
use trainyard_sim::trace::{Options, read_from};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// More than this would be silly: a job has a dozen numbers and a name.
const MOST_BYTES_A_JOB: usize = 1000;

fn main() {
    let before = MEMORY.current_usage();
    let workload =
        read_from("cluster_log.csv", HeliosLog::new(), &Options::default()).expect("it is a good log");
    let (peak, kept) = (MEMORY.peak_usage() - before, MEMORY.current_usage() - before);
    let jobs = workload.jobs.len();
    assert_eq!(jobs, HELIOS_JOBS as usize, "every job is kept");
    println!(
        "{jobs} jobs: {} MiB at the most, {} MiB kept, {} bytes a job",
        peak >> 20,
        kept >> 20,
        kept / jobs
    );
    assert!(peak / jobs <= MOST_BYTES_A_JOB, "{} bytes a job at the most", peak / jobs);
}
