//! Readers against public lists of jobs from papers, where they are at hand. The numbers were counted with other
//! tools on the same files.

mod shared_data;

use std::path::Path;

use shared_data::{files, public};
use trainyard_sched::model::{Span, Time};
use trainyard_sim::trace::{Options, read};
use trainyard_sim::workload::{Done, Workload};

/// Reads a file that must be recognised as this format.
fn whole(path: &Path, format: &str) -> Workload {
    let workload =
        read(path, &Options::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(workload.report.source.ends_with(&format!("({format})")), "{}", workload.report.source);
    workload
}

/// How many rows were dropped, repaired, assumed about or noted for reasons with these words.
fn count(workload: &Workload, done: Done, words: &str) -> u64 {
    let found = workload.report.findings.iter().filter(|f| f.done == done && f.what.contains(words));
    found.map(|finding| finding.count).sum()
}

/// GPU-milliseconds of all jobs.
fn gpu_ms(workload: &Workload) -> u64 {
    let of = |job: &trainyard_sched::model::Job| {
        let gpus = job.shape.minimum().gpu_milli / 1000;
        gpus * job.declared.duration().unwrap().0 / 1000
    };
    workload.jobs.iter().map(|(job, _)| of(job)).sum()
}

#[test]
fn muris_lists_are_read_in_milliseconds() {
    for (file, jobs, gpus_ms, measured, opportunistic, last_s) in [
        ("muri/simulator/trace1.csv", 1494, 1_379_976_364_000, 0, 749, 10_817_570),
        ("muri/simulator/trace2.csv", 5755, 2_966_695_253_000, 0, 2909, 8_572_283),
        ("muri/simulator/job_type_1.csv", 992, 420_084_355_000, 0, 501, 8_166_025),
        ("muri/cluster_exp/cluster_trace.csv", 400, 220_836_929_000, 355, 186, 2_344_695),
    ] {
        let Some(path) = public(file) else { continue };
        let workload = whole(&path, "muri");
        assert_eq!((workload.report.rows, workload.jobs.len()), (jobs, jobs as usize), "{file}");
        assert_eq!(gpu_ms(&workload), gpus_ms, "{file}");
        assert_eq!(count(&workload, Done::Assumed, "the duration counts"), measured, "{file}");
        let classes = workload.jobs.iter().filter(|(job, _)| job.goals.class.0 == -1);
        assert_eq!(classes.count(), opportunistic, "{file}");
        assert_eq!(workload.jobs.last().unwrap().0.submitted, Time::from_secs(last_s), "{file}");
    }
}

#[test]
fn chronus_lists_are_read_in_minutes_with_their_deadlines() {
    let Some(path) = public("chronus/trace_job_Philly_MIX1.csv.gz") else { return };
    let workload = whole(&path, "chronus");
    assert_eq!((workload.report.rows, workload.report.kept), (30_940, 30_756));
    assert_eq!(count(&workload, Done::Dropped, "asks for no GPU"), 184);
    assert_eq!(workload.tenants.len(), 11);
    assert_eq!(gpu_ms(&workload), 22_279_688 * 60_000);
    let slack = workload.jobs.iter().filter_map(|(job, _)| Some(job.goals.deadline?.since(job.submitted).0));
    assert_eq!(slack.clone().count(), 21_600);
    assert_eq!(Span(slack.sum()), Span::from_secs(8_978_340 * 60));
    let ends = (workload.jobs[0].0.submitted, workload.jobs.last().unwrap().0.submitted);
    assert_eq!(ends, (Time::from_secs(60), Time::from_secs(20_151 * 60)));
}
