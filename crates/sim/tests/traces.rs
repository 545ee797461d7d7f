//! Readers against the public files, where they are at hand, and against bytes that no trace has.
//!
//! The files are not part of the repository; a test that does not find them says so and passes.

mod shared_data;
#[path = "shared_data/walk.rs"]
mod walk;

use std::path::Path;

use proptest::prelude::*;
use shared_data::public;
use trainyard_sched::model::{Cluster, Span, Time};
use trainyard_sim::cluster::{parse, parse_words, read as read_cluster};
use trainyard_sim::faults::read_faults_from;
use trainyard_sim::physics::parse_throughputs;
use trainyard_sim::trace::{FORMATS, Options, TraceError, read, read_from, write_csv};
use trainyard_sim::workload::{Done, Workload};
use walk::files;

fn whole(path: &Path) -> Workload {
    read(path, &Options::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn dropped(workload: &Workload) -> u64 {
    workload.report.findings.iter().filter(|f| f.done == Done::Dropped).map(|f| f.count).sum()
}

#[test]
fn sias_philly_jobs_are_read_whole() {
    let Some(path) = public("sia/traces/philly.csv.gz") else { return };
    let workload = whole(&path);
    assert_eq!((workload.report.rows, workload.report.kept), (82_247, 82_247));
    assert_eq!(workload.tenants.len(), 15);
    assert!(workload.jobs.is_sorted_by_key(|(job, _)| job.submitted));
    assert_eq!(workload.jobs[0].0.submitted, Time::ZERO);
    // From 2017-09-04 10:30:41 in summer time to 2017-12-22 08:02:11, an hour longer than the clock on the wall says.
    let last = workload.jobs.last().unwrap().0.submitted;
    assert_eq!(last.since(Time::ZERO), Span::from_secs(108 * 86_400 + 22 * 3600 + 31 * 60 + 30));
    assert_eq!(workload.report.zone.as_deref(), Some("America/Los_Angeles"));
    // The file's own column gpu_time sums up to this many GPU-hours.
    let gpu_hours: f64 = workload
        .jobs
        .iter()
        .map(|(job, truth)| job.shape.minimum().gpu_milli as f64 / 1e3 * truth.iterations / 3600.0)
        .sum();
    assert!((gpu_hours - 978_078.472_8).abs() < 0.01, "{gpu_hours}");
}

#[test]
fn sias_workloads_all_have_a_length() {
    let Some(folder) = public("sia/workloads") else { return };
    for path in files(&folder, ".csv") {
        let workload = whole(&path);
        assert_eq!(dropped(&workload), 0, "{}: {:?}", path.display(), workload.report);
        assert!(workload.report.findings.iter().any(|f| f.done == Done::Assumed));
    }
}

#[test]
fn tiresias_files_are_read_with_every_line_end() {
    let Some(path) = public("tiresias/60_job.csv") else { return };
    let workload = whole(&path);
    assert_eq!((workload.jobs.len(), dropped(&workload)), (60, 0));
    assert_eq!(workload.jobs[1].1.iterations, 147.0);
    let Some(old) = public("tiresias/tf_job.csv") else { return };
    let workload = whole(&old);
    assert_eq!((workload.report.rows, workload.jobs.len()), (2, 1));
    let Some(runs) = public("tiresias_runs/traces") else { return };
    for path in files(&runs, "480.csv") {
        assert_eq!(whole(&path).jobs.len(), 480, "{}", path.display());
    }
}

#[test]
fn tiresias_clusters_are_read() {
    let Some(folder) = public("tiresias") else { return };
    for (file, text) in [
        ("n1g4.csv", "1 nodes, 4 GPUs (4 gpu)"),
        ("n32g4.csv", "32 nodes, 128 GPUs (128 gpu)"),
        ("n160g8.csv", "160 nodes, 1280 GPUs (1280 gpu)"),
        ("cluster_spec.csv", "16 nodes, 64 GPUs (64 gpu)"),
    ] {
        assert_eq!(read_cluster(&folder.join(file)).unwrap().cluster.to_string(), text);
    }
}

#[test]
fn gavels_traces_are_read_in_both_forms() {
    let Some(folder) = public("gavel/msr") else { return };
    for path in files(&folder, ".trace") {
        let unknown = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .filter(|line| {
                // The table has these models on one GPU only, and no model on other numbers of GPUs.
                let single = ["A3C", "CycleGAN", "Recommendation"].iter().any(|name| line.starts_with(name));
                let gpus = line.rsplit('\t').next().unwrap();
                let known = if single { &["1"][..] } else { &["1", "2", "4", "8"][..] };
                !known.contains(&gpus)
            })
            .count();
        let workload = whole(&path);
        assert_eq!(dropped(&workload), unknown as u64, "{}", path.display());
        assert!(workload.jobs.iter().all(|(job, _)| job.declared.duration().is_some()));
    }
    let Some(runs) = public("gavel_runs/traces") else { return };
    for path in files(&runs, ".trace") {
        assert_eq!(dropped(&whole(&path)), 0, "{}", path.display());
    }
}

#[test]
fn native_csv_gives_back_what_another_format_said() {
    let Some(path) = public("tiresias/60_job.csv") else { return };
    let workload = whole(&path);
    let mut text = Vec::new();
    write_csv(&workload, &mut text).unwrap();
    let back = read_from("written.csv", &text[..], &Options::default()).unwrap();
    assert_eq!((back.jobs, back.models), (workload.jobs, workload.models));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("no/such/trace.csv"), &Options::default()).unwrap_err();
    assert!(matches!(&error, TraceError::Open { path, .. } if path.ends_with("trace.csv")), "{error}");
    let error = read(Path::new(env!("CARGO_MANIFEST_DIR")), &Options::default()).unwrap_err();
    assert!(matches!(error, TraceError::Open { .. }), "a folder is no trace");
}

/// One small valid file of every format and kind.
const VALID: &[&str] = &[
    "job_id,submit_s,duration_s,gpus,gpu_types,min_gpus,max_gpus,status,declared_s\n\
     a,0,9.5,4,v100|k80,1,8,failed,3\nb,1,2,1,,,,,\n",
    "{\"job_id\": \"a\", \"submit_s\": 0, \"duration_s\": 60, \"gpus\": 4, \"gpu_types\": [\"a\"]}\n\
     {\"job_id\": 1, \"submit_s\": 1, \"duration_s\": 2, \"gpus\": 1}\n",
    "timestamp,duration,num_gpus,gpu_time,cluster\n\
     2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,8,2951.0,6214e9\n",
    "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,4,2048\n",
    "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\r\n\
     0,1,0,606,vgg19,164,30\r\n1,8,30,133,vgg11,147,23",
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,\
     resource_time_0,resource_time_1,resource_time_2,priority\n\
     0,8,1534000,7000,vgg16,16,1498000,28000,214,82,75,66,1\n",
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,\
     expect_value_list,best_effort,job_type\na,u,4,10,600,vgg16,30,5,45-60,10-5,0,soft\n",
    "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n\
     a,100,500,bert,1200,64,4,1000,0\n",
    "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n\
     llama-1,9,120,llama,24,192,1.25,641,60,1\n",
    "time,job_id,num_gpu,submit_time,start_time,end_time,executed_time,JCT,duration,pending_time\n\
     210,b,2,20,30,210,100,190,100,80\n",
    "job_id,arrival_s,scale_factor,total_steps,job_type,jct_s\n7,0.5,1,1000,\"A3C\",99\n",
    "LM (batch size 10)\tpython3\tlm\t--steps\t1\t2000\t4\tgns\t2\t1.2\t1000\t55\n",
    "j1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0,MISC\n\
     j3,tensorflow,1.0,Running,1200.0,,600.0,29.296875,,\n",
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
     a,6000,1024,1,460,V100M16|T4,BE,Running,100,400,150\nb,6000,1024,8,1000,,LS,Pending,100,400,\n",
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,6000,1024,1,460\n",
    "instance_sn,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n\
     i0,app_0,12,1,120.0,,,\ni1,app_1,64,0,320.0,60,70,85.0\n",
    "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n\
     b,57,GPU-series-1,15,2,16,9,60,Spot\n",
    "A3C\tpython3\t--max-steps\t1\t1000\t0.5\t1\nA3C\tpython3\t--max-steps\t1\t1000\t0.7\t1\n",
    "A3C\tpython3\trl\t--max-steps\t1\t1000\t1\t3\t-1.000000\t0.000000\n",
    "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,4,4,40,256",
    "[[nodes]]\ncount = 2\ngpus = 8\ngpu_type = \"a\"\n[links]\nrack = { gbps = 1 }\n\
     [[tenants]]\nname = \"x\"\nlimit = { gpus = 3 }\n",
    "2x8:v100,1x4:k80",
    "time_s,node,state\n1,n1,down\n2,n1,up\n",
    "model,gpus,v100,v100_unconsolidated\nx,1,3.5,2\ny,2,,0\n",
];

/// Hands bytes to every reader; the point is that each returns.
fn read_with_everything(bytes: &[u8]) {
    for format in FORMATS {
        let format = Some(format.name.to_owned());
        let _ = read_from("fuzz", bytes, &Options { format, ..Options::default() });
    }
    let known =
        Options { gpu_types: vec!["v100".into()], jobs: Some(3), from: Time(1), ..Options::default() };
    for options in [Options::default(), known] {
        if let Ok(workload) = read_from("fuzz", bytes, &options) {
            assert!(!workload.jobs.is_empty());
            assert!(workload.jobs.iter().enumerate().all(|(i, (job, _))| job.id.index() == i));
            let _ = write_csv(&workload, std::io::sink());
        }
    }
    let _ = read_faults_from("fuzz", bytes, &Cluster::uniform(3, 8, "v100"));
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_throughputs("fuzz", &text);
    if let Ok(found) = parse("fuzz", &text) {
        assert_eq!(found.cluster.validate(), Ok(()));
    }
    if let Ok(cluster) = parse_words(&text) {
        assert_eq!(cluster.validate(), Ok(()));
    }
}

/// A change to a valid file: a place, how many bytes go, and what is put there.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, &'static [u8])> {
    let odd: Vec<&'static [u8]> = vec![
        b"",
        b",",
        b"\n",
        b"\"",
        b"-1",
        b"1e309",
        b"NaN",
        b"\0",
        b"\xff",
        b"{",
        b"|",
        b"\t",
        b"99999999999999999999",
        b"0",
        b"\r",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        b"=",
        b"x",
        b"1e15",
        b"65535",
        b"-0",
    ];
    (any::<prop::sample::Index>(), 0..4_usize, prop::sample::select(odd))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_with_everything(&bytes);
    }

    #[test]
    fn changed_files_never_make_a_reader_panic(
        file in prop::sample::select(VALID),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let mut bytes = file.as_bytes().to_vec();
        for (place, length, put) in changes {
            let start = place.index(bytes.len() + 1);
            let end = (start + length).min(bytes.len());
            bytes.splice(start..end, put.iter().copied());
        }
        read_with_everything(&bytes);
    }
}

#[test]
fn every_file_that_is_changed_above_is_valid_unchanged() {
    let cluster = Cluster::uniform(3, 8, "v100");
    for text in VALID {
        let valid = read_from("valid", text.as_bytes(), &Options::default()).is_ok()
            || parse("valid", text).is_ok()
            || parse_words(text).is_ok()
            || read_faults_from("valid", text.as_bytes(), &cluster).is_ok()
            || parse_throughputs("valid", text).is_ok();
        assert!(valid, "{text}");
    }
}
