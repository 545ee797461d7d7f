//! Readers against public lists of jobs from papers, where they are at hand. The numbers were counted with other
//! tools on the same files.

mod shared_data;
#[path = "shared_data/walk.rs"]
mod walk;

use std::path::Path;

use shared_data::public;
use trainyard_sched::model::{GpuTypeSet, Span, Time};
use trainyard_sim::trace::{Options, read};
use trainyard_sim::workload::{Done, Workload};
use walk::files;

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

#[test]
fn elasticflows_lists_are_read_with_both_headers() {
    for (file, jobs, gpus_ms, deadlines_s) in [
        ("elasticflow/philly_103959.csv", 876, 154_137_879_000, 3_602_487_475),
        ("elasticflow/resnet_cifar_trace.csv", 5, 21_682_000, 436_358),
    ] {
        let Some(path) = public(file) else { continue };
        let workload = whole(&path, "elasticflow");
        assert_eq!((workload.report.rows, workload.jobs.len()), (jobs, jobs as usize), "{file}");
        assert_eq!(gpu_ms(&workload), gpus_ms, "{file}");
        let deadlines: u64 = workload.jobs.iter().map(|(job, _)| job.goals.deadline.unwrap().0).sum();
        assert_eq!(Span(deadlines), Span::from_secs(deadlines_s), "{file}");
    }
}

#[test]
fn shockwaves_traces_are_read_and_adaptation_is_counted() {
    for (file, jobs, gpus_ms, adaptive) in [
        ("shockwave/120_0.2_5_100_40_25_dynamic.trace", 120, 711_371_000, 116),
        ("shockwave/220_0.2_5_100_25_4_dynamic.trace", 220, 1_453_927_000, 213),
    ] {
        let Some(path) = public(file) else { continue };
        let workload = whole(&path, "shockwave");
        assert_eq!((workload.report.rows, workload.jobs.len()), (jobs, jobs as usize), "{file}");
        assert_eq!(gpu_ms(&workload), gpus_ms, "{file}");
        assert_eq!(count(&workload, Done::Assumed, "batch size changes"), adaptive, "{file}");
    }
}

#[test]
fn rubicks_workloads_are_read_with_cores_and_guarantees() {
    for (file, guaranteed) in
        [("rubick/workloads/workload-base.csv", 0), ("rubick/workloads/workload-mt.csv", 194)]
    {
        let Some(path) = public(file) else { continue };
        let workload = whole(&path, "rubick");
        assert_eq!((workload.report.rows, workload.jobs.len()), (406, 406), "{file}");
        let cpu_milli: u64 = workload.jobs.iter().map(|(job, _)| job.shape.minimum().cpu_milli).sum();
        assert_eq!(cpu_milli, 34_968_000, "{file}");
        let classes = workload.jobs.iter().filter(|(job, _)| job.goals.class.0 == 1);
        assert_eq!(classes.count(), guaranteed, "{file}");
    }
}

/// What a result and the list of its jobs have in common, sorted by name.
fn essence(workload: &Workload) -> Vec<(String, Time, u64, Span)> {
    let of = |job: &trainyard_sched::model::Job| {
        let gpu_milli = job.shape.minimum().gpu_milli;
        (job.name.to_string(), job.submitted, gpu_milli, job.declared.duration().unwrap())
    };
    let mut all: Vec<_> = workload.jobs.iter().map(|(job, _)| of(job)).collect();
    all.sort();
    all
}

#[test]
fn results_of_other_simulators_hold_the_jobs_that_went_in() {
    let lists = [
        ("muri/cluster_exp/cluster_trace.csv", "muri", "muri/cluster_exp", "_job.csv"),
        ("tiresias_runs/traces/60_job.csv", "tiresias", "tiresias_runs/per_job", "60_job"),
        ("tiresias_runs/traces/philly_103959_480.csv", "tiresias", "tiresias_runs/per_job", "philly"),
    ];
    for (list, format, folder, name) in lists {
        let (Some(list), Some(folder)) = (public(list), public(folder)) else { continue };
        let went_in = essence(&whole(&list, format));
        let results = files(&folder, ".csv").into_iter().filter(|path| path.to_string_lossy().contains(name));
        let mut seen = 0;
        for path in results.filter(|path| path.file_name().unwrap() != "cluster_trace.csv") {
            let came_out = whole(&path, "tiresias-result");
            assert_eq!(essence(&came_out), went_in, "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 3, "{seen} results below {}", folder.display());
    }
}

#[test]
fn gavels_results_hold_the_jobs_of_its_traces() {
    for setting in ["tiny_single", "small_single"] {
        let list = public(&format!("gavel_runs/traces/{setting}.trace"));
        let (Some(list), Some(folder)) = (list, public("gavel_runs/per_job")) else { continue };
        let went_in = whole(&list, "gavel");
        let results = files(&folder, ".csv").into_iter();
        let mut seen = 0;
        for path in results.filter(|path| path.to_string_lossy().contains(setting)) {
            let came_out = whole(&path, "gavel-result");
            assert_eq!(came_out.jobs.len(), went_in.jobs.len());
            for ((job, truth), (listed, true_listed)) in came_out.jobs.iter().zip(&went_in.jobs) {
                // Names in a result count from 0, and rows of a trace from 1.
                assert_eq!(job.name.parse::<u64>().unwrap() + 1, listed.name.parse::<u64>().unwrap());
                assert_eq!(
                    (job.submitted, &job.shape, truth),
                    (listed.submitted, &listed.shape, true_listed)
                );
            }
            seen += 1;
        }
        assert!(seen >= 3, "{seen} results of {setting}");
    }
}

/// Thousandths of a GPU times seconds of all jobs, as they really run.
fn gpu_milli_s(workload: &Workload) -> f64 {
    workload.jobs.iter().map(|(job, truth)| job.shape.minimum().gpu_milli as f64 * truth.iterations).sum()
}

#[test]
fn alibabas_pods_are_read_with_shares_types_and_phases() {
    // File, pods that ran, pods that never did, GPU-milli-seconds, still running at the end, best effort, typed.
    for (file, ran, pending, gpus, censored, best_effort, typed) in [
        ("default", 7255, 897, 185_294_426_970.0, 34, 2957, 0),
        ("cpu050", 6561, 878, 185_294_426_970.0, 32, 2672, 0),
        ("gpuspec33", 7255, 897, 185_294_426_970.0, 34, 2957, 2092),
        ("gpushare100", 6943, 1209, 54_539_845_020.0, 25, 5008, 0),
    ] {
        let Some(path) = public(&format!("alibaba/v2023/openb_pod_list_{file}.csv")) else { continue };
        let workload = whole(&path, "alibaba-v2023");
        assert_eq!(workload.jobs.len(), ran, "{file}");
        assert_eq!(count(&workload, Done::Dropped, "the pod never ran"), pending, "{file}");
        assert_eq!(gpu_milli_s(&workload), gpus, "{file}");
        assert_eq!(count(&workload, Done::Noted, "still running when the trace ended"), censored, "{file}");
        let classes = workload.jobs.iter().filter(|(job, _)| job.goals.class.0 == -1);
        assert_eq!(classes.count(), best_effort, "{file}");
        let any = GpuTypeSet::ALL;
        let types = workload.jobs.iter().filter(|(job, _)| job.wanted.gpu_types != any);
        assert_eq!(types.count(), typed, "{file}");
    }
}

#[test]
fn alibabas_pods_without_times_say_what_is_missing() {
    for (file, pods, gpu_milli) in
        [("multigpu20", 8324, 7_086_800), ("multigpu30", 8508, 8_086_800), ("multigpu50", 9061, 11_358_800)]
    {
        let Some(path) = public(&format!("alibaba/v2023/openb_pod_list_{file}.csv")) else { continue };
        let workload = whole(&path, "alibaba-v2023");
        assert_eq!(workload.jobs.len(), pods, "{file}");
        let asked: u64 = workload.jobs.iter().map(|(job, _)| job.shape.minimum().gpu_milli).sum();
        assert_eq!(asked, gpu_milli, "{file}");
        assert!(workload.jobs.iter().all(|(job, _)| job.submitted == Time::ZERO));
        assert_eq!(count(&workload, Done::Assumed, "only a static packing run is possible"), 1, "{file}");
    }
}

#[test]
fn alibabas_instances_and_spot_jobs_are_read() {
    if let Some(path) = public("alibaba/v2025/disaggregated_DLRM_trace.head4000.csv") {
        let workload = whole(&path, "alibaba-v2025");
        assert_eq!(workload.jobs.len(), 3999);
        assert_eq!(count(&workload, Done::Assumed, "older than the trace"), 3999);
        assert_eq!(count(&workload, Done::Noted, "still running when the trace ended"), 2631);
        assert_eq!(gpu_milli_s(&workload), 1_653_308_604_000.0);
    }
    if let Some(path) = public("alibaba/v2026-spot/job_info_df.sample4.csv") {
        let workload = whole(&path, "alibaba-v2026-spot");
        assert_eq!(workload.jobs.len(), 4);
        let hours = (2_764_799.0 + 15_897_599.0 + 16.0 * 41_060.0 + 94.0 * 71_718.0) * 1000.0;
        assert_eq!(gpu_milli_s(&workload), hours);
        assert_eq!(
            workload.gpu_types.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["a10", "a100-sxm4-80gb"]
        );
    }
}
