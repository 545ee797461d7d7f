//! Traces as they come from the field: what is odd about them changes nothing, is mended when asked, or is told.
//!
//! What one format alone has to say stands beside its reader; here are the rules that hold for all of them.

use std::io::Write as _;

use trainyard_sched::control::Nothing;
use trainyard_sched::metrics::Summary;
use trainyard_sched::policies;
use trainyard_sim::backend;
use trainyard_sim::cluster::parse_words;
use trainyard_sim::physics::Physics;
use trainyard_sim::simulate::{Setup, natural_horizon, simulate};
use trainyard_sim::trace::{OnDuplicate, Options, Preset, Repairs, TraceError, read, read_from, write_csv};
use trainyard_sim::workload::{Done, Workload};

fn read_text(text: &str) -> Result<Workload, TraceError> {
    read_from("trace.csv", text.as_bytes(), &Options::default())
}

fn with(text: &str, options: &Options) -> Workload {
    read_from("trace.csv", text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn told(workload: &Workload, done: Done, what: &str) -> u64 {
    let fits = |f: &&trainyard_sim::workload::Finding| f.done == done && f.what.contains(what);
    workload.report.findings.iter().filter(fits).map(|f| f.count).sum()
}

/// The same three jobs of one gang each: submitted at 0, 60 and 90 s, of 600, 30 and 3600 s, on 4, 1 and 8 GPUs, of
/// tenants x, y and x, completed, failed and killed. Rows of lines can be put in another order.
struct Twin {
    format: &'static str,
    head: &'static str,
    rows: [&'static str; 3],
    tail: &'static str,
}

const TWINS: &[Twin] = &[
    Twin {
        format: "native",
        head: "job_id,submit_s,duration_s,gpus,tenant,status\n",
        rows: ["a,0,600,4,x,completed\n", "b,60,30,1,y,failed\n", "c,90,3600,8,x,killed\n"],
        tail: "",
    },
    Twin {
        format: "native-json",
        head: "",
        rows: [
            "{\"job_id\": \"a\", \"submit_s\": 0, \"duration_s\": 600, \"gpus\": 4, \"tenant\": \"x\"}\n",
            "{\"job_id\": \"b\", \"submit_s\": 60, \"duration_s\": 30, \"gpus\": 1, \"tenant\": \"y\", \"status\": \"failed\"}\n",
            "{\"job_id\": \"c\", \"submit_s\": 90, \"duration_s\": 3600, \"gpus\": 8, \"tenant\": \"x\", \"status\": \"killed\"}\n",
        ],
        tail: "",
    },
    Twin {
        format: "helios",
        head: "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
        rows: [
            "a,u,x,4,0,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:00,2020-06-09 18:10:00,600,0\n",
            "b,u,y,1,0,1,FAILED,2020-06-09 18:01:00,2020-06-09 18:02:00,2020-06-09 18:02:30,30,60\n",
            "c,u,x,8,0,1,CANCELLED,2020-06-09 18:01:30,2020-06-09 18:01:30,2020-06-09 19:01:30,3600,0\n",
        ],
        tail: "",
    },
    Twin {
        format: "acme",
        head: "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n",
        rows: [
            "a,x,1,4,0,,COMPLETED,2023-03-01 00:00:00+08:00,2023-03-01 00:00:00+08:00,2023-03-01 00:10:00+08:00,600,0,1\n",
            "b,y,1,1,0,,FAILED,2023-03-01 00:01:00+08:00,2023-02-28 16:02:00+00:00,2023-02-28 16:02:30+00:00,30,60,1\n",
            "c,x,1,8,0,,CANCELLED,2023-03-01 00:01:30+08:00,2023-03-01 00:01:30+08:00,2023-03-01 01:01:30+08:00,3600,0,1\n",
        ],
        tail: "",
    },
    Twin {
        format: "sacct",
        head: "JobID|Account|Submit|Start|End|State|AllocTRES\n",
        rows: [
            "a|x|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-01T10:10:00|COMPLETED|gres/gpu=4\n",
            "b|y|2024-03-01T10:01:00|2024-03-01T10:02:00|2024-03-01T10:02:30|TIMEOUT|gres/gpu=1\n",
            "c|x|2024-03-01T10:01:30|2024-03-01T10:01:30|2024-03-01T11:01:30|CANCELLED by 5|gres/gpu=8\n",
        ],
        tail: "",
    },
    Twin {
        format: "philly",
        head: "[",
        rows: [
            "{\"status\": \"Pass\", \"vc\": \"x\", \"jobid\": \"a\", \"submitted_time\": \"2017-10-07 01:00:00\", \"attempts\": [{\"start_time\": \"2017-10-07 01:00:00\", \"end_time\": \"2017-10-07 01:10:00\", \"detail\": [{\"ip\": \"m\", \"gpus\": [\"0\", \"1\", \"2\", \"3\"]}]}]},\n",
            "{\"status\": \"Failed\", \"vc\": \"y\", \"jobid\": \"b\", \"submitted_time\": \"2017-10-07 01:01:00\", \"attempts\": [{\"start_time\": \"2017-10-07 01:02:00\", \"end_time\": \"2017-10-07 01:02:30\", \"detail\": [{\"ip\": \"m\", \"gpus\": [\"0\"]}]}]},\n",
            "{\"status\": \"Killed\", \"vc\": \"x\", \"jobid\": \"c\", \"submitted_time\": \"2017-10-07 01:01:30\", \"attempts\": [{\"start_time\": \"2017-10-07 01:01:30\", \"end_time\": \"2017-10-07 02:01:30\", \"detail\": [{\"ip\": \"m\", \"gpus\": [\"0\", \"1\", \"2\", \"3\"]}, {\"ip\": \"n\", \"gpus\": [\"0\", \"1\", \"2\", \"3\"]}]}]},\n",
        ],
        tail: "]\n",
    },
    Twin {
        format: "tiresias",
        head: "job_id,num_gpu,submit_time,duration\n",
        rows: ["a,4,0,600\n", "b,1,60,30\n", "c,8,90,3600\n"],
        tail: "",
    },
];

impl Twin {
    fn text(&self, order: [usize; 3]) -> String {
        let rows: String = order.into_iter().map(|i| self.rows[i]).collect();
        format!("{}{rows}{}", self.head, self.tail)
    }

    /// Jobs with the names of their tenants; Tiresias has neither tenants nor endings.
    fn jobs(&self, workload: &Workload) -> Vec<String> {
        let has_all = self.format != "tiresias";
        let line = |(job, truth): &(std::sync::Arc<trainyard_sched::model::Job>, _)| {
            let (mut job, mut truth): (_, trainyard_sim::truth::Truth) =
                ((**job).clone(), Clone::clone(truth));
            let tenant = workload.tenants.get(job.tenant).unwrap().name.to_string();
            job.tenant = trainyard_sched::model::TenantId(0);
            if !has_all {
                let endings = [
                    trainyard_sim::truth::Ending::Completed,
                    trainyard_sim::truth::Ending::Failed,
                    trainyard_sim::truth::Ending::Killed,
                ];
                truth.ending = endings[job.id.index()];
            }
            let tenant = if has_all { tenant } else { ["x", "y", "x"][job.id.index()].to_owned() };
            format!("{tenant} {job:?} {truth:?}")
        };
        workload.jobs.iter().map(line).collect()
    }
}

#[test]
fn the_same_jobs_are_the_same_in_every_format() {
    let native = &TWINS[0];
    let expected = native.jobs(&with(&native.text([0, 1, 2]), &Options::default()));
    for twin in TWINS {
        let read = with(&twin.text([0, 1, 2]), &Options::default());
        assert!(read.report.source.ends_with(&format!("({})", twin.format)), "{}", read.report.source);
        assert_eq!(twin.jobs(&read), expected, "{}", twin.format);
    }
}

#[test]
fn unsorted_rows_give_the_same_jobs_and_are_told_once() {
    for twin in TWINS {
        let sorted = with(&twin.text([0, 1, 2]), &Options::default());
        let shuffled = with(&twin.text([2, 0, 1]), &Options::default());
        assert_eq!(shuffled.jobs.len(), 3);
        assert_eq!(twin.jobs(&shuffled), twin.jobs(&sorted), "{}", twin.format);
        assert_eq!(told(&sorted, Done::Noted, "they were sorted"), 0);
        assert_eq!(told(&shuffled, Done::Noted, "they were sorted"), 1);
    }
}

#[test]
fn windows_line_ends_a_byte_order_mark_and_blank_lines_change_nothing() {
    for twin in TWINS {
        let plain = twin.text([0, 1, 2]);
        let odd = format!("\u{feff}{}\r\n\r\n \r\n", plain.trim_end().replace('\n', "\r\n"));
        let (plain, odd) = (with(&plain, &Options::default()), with(&odd, &Options::default()));
        assert_eq!(odd.jobs, plain.jobs, "{}", twin.format);
        assert_eq!((odd.report.rows, odd.report.kept), (3, 3));
    }
    let quoted = "job_id,submit_s,duration_s,gpus,tenant\n\"a, b\",0,60,1,\"x, \"\"y\"\"\"\n";
    let read = with(quoted, &Options::default());
    assert_eq!(&*read.jobs[0].0.name, "a, b");
    assert_eq!(&*read.tenants.get(read.jobs[0].0.tenant).unwrap().name, "x, \"y\"");
}

#[test]
fn every_import_can_be_written_in_the_native_format_and_read_back() {
    for twin in TWINS {
        let read = with(&twin.text([0, 1, 2]), &Options::default());
        let mut text = Vec::new();
        write_csv(&read, &mut text).unwrap();
        let back = read_from("written.csv", &text[..], &Options::default()).unwrap();
        assert_eq!(back.jobs, read.jobs, "{}", twin.format);
    }
}

const ROWS: &str = "job_id,submit_s,duration_s,gpus\na,0,9,1\nb,1,9,1\nc,2,9,1\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Reads bytes as a file and as a stream.
fn read_packed(bytes: &[u8], options: &Options) -> [Result<Workload, TraceError>; 2] {
    let folder = tempfile::tempdir().unwrap();
    // The name says nothing true about the content.
    let path = folder.path().join("packed.csv");
    std::fs::write(&path, bytes).unwrap();
    [read(&path, options), read_from("packed.csv", bytes, options)]
}

#[test]
fn packed_files_are_recognised_by_their_content() {
    let plain = read_text(ROWS).unwrap();
    let readme: (&str, &[u8]) = ("data/README.md", b"# Jobs\n\nSome jobs.\n");
    let jobs: (&str, &[u8]) = ("data/jobs.csv", ROWS.as_bytes());
    let packed_jobs = gzip(ROWS.as_bytes());
    let packs = [
        gzip(ROWS.as_bytes()),
        zstd::encode_all(ROWS.as_bytes(), 1).unwrap(),
        tar(&[readme, jobs]),
        gzip(&tar(&[jobs, readme])),
        zstd::encode_all(&tar(&[readme, ("jobs.csv.gz", &packed_jobs)])[..], 1).unwrap(),
    ];
    for packed in &packs {
        for read in read_packed(packed, &Options::default()) {
            let read = read.unwrap();
            assert_eq!((&read.jobs, &read.report.sha256_16), (&plain.jobs, &plain.report.sha256_16));
        }
    }
    let [from_file, from_pipe] = read_packed(&zip(&[readme, jobs]), &Options::default());
    let from_file = from_file.unwrap();
    assert_eq!(from_file.jobs, plain.jobs);
    assert_eq!(from_file.report.source, "packed.csv!data/jobs.csv (native)");
    assert!(matches!(from_pipe, Err(TraceError::ZipFromPipe { .. })));
}

#[test]
fn of_several_job_lists_one_has_to_be_chosen() {
    let other = ROWS.replace("a,", "z,");
    let members: [(&str, &[u8]); 3] =
        [("one.csv", ROWS.as_bytes()), ("notes", b"hello"), ("two.csv", other.as_bytes())];
    let choose = |member: &str| Options { member: Some(member.to_owned()), ..Options::default() };
    for packed in [tar(&members), zip(&members)] {
        let is_zip = packed.starts_with(b"PK");
        for (i, read) in read_packed(&packed, &Options::default()).into_iter().enumerate() {
            if !(is_zip && i == 1) {
                let error = read.unwrap_err().to_string();
                assert!(error.contains("one.csv, two.csv; choose one with --member"), "{error}");
            }
        }
        let [chosen, _] = read_packed(&packed, &choose("two.csv"));
        assert_eq!(&*chosen.unwrap().jobs[0].0.name, "z");
        let [missing, _] = read_packed(&packed, &choose("tow.csv"));
        assert!(missing.unwrap_err().to_string().contains("did you mean `two.csv`?"));
    }
    let [none, _] = read_packed(&tar(&members[1..2]), &Options::default());
    assert!(matches!(none, Err(TraceError::NoJobList { .. })));
    let [plain, _] = read_packed(ROWS.as_bytes(), &choose("one.csv"));
    assert!(matches!(plain, Err(TraceError::NoArchive { .. })));
}

#[test]
fn a_broken_packed_file_is_told_with_the_last_line() {
    let packed = gzip(ROWS.as_bytes());
    for read in read_packed(&packed[..packed.len() - 5], &Options::default()) {
        assert!(matches!(read, Err(TraceError::Read { line: 4, .. })), "{read:?}");
    }
    let whole = tar(&[("jobs.csv", ROWS.as_bytes())]);
    for read in read_packed(&whole[..600], &Options::default()) {
        assert!(matches!(read, Err(TraceError::Read { .. } | TraceError::Archive { .. })), "{read:?}");
    }
    let zip = zip(&[("jobs.csv", ROWS.as_bytes())]);
    let [read, _] = read_packed(&zip[..zip.len() - 10], &Options::default());
    assert!(matches!(read, Err(TraceError::Archive { .. })), "{read:?}");
}

#[test]
fn rows_of_another_length_are_told_with_line_and_numbers() {
    let text =
        "job_id,submit_s,duration_s,gpus,tenant,model,class\na,0,9,1,x,m\nb,0,9,1,x,m,0,7\nc,0,9,1,x,m,0\n";
    let read = read_text(text).unwrap();
    assert_eq!((read.report.rows, read.report.kept), (3, 1));
    let found: Vec<(&str, &str)> =
        read.report.findings.iter().map(|f| (f.what.as_str(), f.examples[0].as_str())).collect();
    let expected =
        [("expected 7 fields, found 6", "trace.csv:2"), ("expected 7 fields, found 8", "trace.csv:3")];
    assert_eq!(found, expected);
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_line() {
    let mut bytes = ROWS.as_bytes().to_vec();
    bytes.extend(b"M\xfcller,3,9,1\nn\0ul,4,9,1\nd,5,9,1\n");
    let read = read_from("trace.csv", &bytes[..], &Options::default()).unwrap();
    assert_eq!((read.report.rows, read.report.kept), (6, 4));
    assert!(told(&read, Done::Dropped, "not UTF-8") == 1 && told(&read, Done::Dropped, "NUL") == 1);
    let long = format!("{ROWS}{}\n", "x".repeat(2 << 20));
    assert!(matches!(read_text(&long), Err(TraceError::LongLine { line: 5, .. })));
}

#[test]
fn a_file_without_jobs_is_an_error_and_one_job_has_a_whole_summary() {
    assert!(matches!(read_text(""), Err(TraceError::Empty { .. })));
    assert!(matches!(read_text("job_id,submit_s,duration_s,gpus\n"), Err(TraceError::HeaderOnly { .. })));
    assert!(matches!(
        read_from(
            "log.json",
            &b"[ ]"[..],
            &Options { format: Some("philly".to_owned()), ..Options::default() }
        ),
        Err(TraceError::HeaderOnly { .. })
    ));
    let one = run("job_id,submit_s,duration_s,gpus\na,0,60,1\n", &Options::default());
    assert_eq!((one.avg_jct_s, one.p50_jct_s, one.p99_jct_s), (Some(60.0), Some(60.0), Some(60.0)));
}

/// FIFO on two nodes of four GPUs.
fn run(text: &str, options: &Options) -> Summary {
    let workload = with(text, options);
    let cluster = parse_words("2x4:v100").unwrap();
    let setup = Setup {
        tenants: workload.tenants.clone(),
        physics: Physics::default(),
        options: backend::Options {
            horizon: natural_horizon(&workload, &cluster),
            ..backend::Options::default()
        },
        seed: options.seed,
        workload,
        cluster,
    };
    let policy = policies::build("fifo", &toml::Table::new()).unwrap();
    let finished = simulate(setup, policy, &mut Nothing, |_, _| {}).unwrap();
    finished.metrics.summary(finished.ended)
}

#[test]
fn a_job_that_fits_nowhere_is_counted_apart() {
    let summary = run("job_id,submit_s,duration_s,gpus\na,0,60,16\nb,1,60,1\n", &Options::default());
    assert_eq!((summary.impossible, summary.completed, summary.avg_jct_s), (1, 1, Some(60.0)));
}

#[test]
fn failed_jobs_count_apart_and_jobs_without_an_end_in_no_mean() {
    let text = "job_id,submit_s,duration_s,gpus,status\na,0,60,1,completed\nb,0,100,1,failed\nc,0,140,1,killed\n\
        d,0,1000,1,censored\ne,0,80,1,melted\n";
    let summary = run(text, &Options::default());
    assert_eq!((summary.jobs, summary.completed, summary.censored), (5, 4, 1));
    assert_eq!((summary.failed, summary.killed), (1, 1));
    assert_eq!((summary.avg_jct_s, summary.avg_jct_completed_s), (Some(95.0), Some(70.0)));
    // 1380 GPU-seconds of 8 GPUs in 1000 seconds: all five use what they hold.
    assert!((summary.gpu_utilization - 1380.0 / 8000.0).abs() < 1e-9, "{}", summary.gpu_utilization);
    let counted = run(text, &Options { count_censored: true, ..Options::default() });
    assert_eq!((counted.completed, counted.censored), (5, 0));
    assert_eq!((counted.avg_jct_s, counted.avg_jct_completed_s), (Some(276.0), Some(380.0)));
}

#[test]
fn negative_run_times_are_left_out_or_clamped_and_no_mean_is_negative() {
    let text = "job_id,submit_s,duration_s,gpus\na,0,-60,1\nb,0,10,1\n";
    let read = read_text(text).unwrap();
    assert_eq!((told(&read, Done::Dropped, "negative"), read.jobs.len()), (1, 1));
    let clamp = Options { repairs: Repairs { clamp: true }, ..Options::default() };
    assert_eq!(told(&with(text, &clamp), Done::Repaired, "negative"), 1);
    let summary = run(text, &clamp);
    assert_eq!(summary.completed, 2);
    assert!(summary.avg_jct_s.is_some_and(|mean| (5.0..5.001).contains(&mean)), "{:?}", summary.avg_jct_s);
}

#[test]
fn gpu_types_are_sets_and_unknown_ones_can_be_renamed() {
    let text = "job_id,submit_s,duration_s,gpus,gpu_types\na,0,9,1,V100M16|V100M32|V100M32\nb,0,9,1,H900\nc,0,9,1,G2\n";
    let free = read_text(text).unwrap();
    let names: Vec<&str> = free.gpu_types.iter().map(|name| &**name).collect();
    assert_eq!(names, ["v100m16", "v100m32", "h900", "g2"], "a type that nobody knows is its own");
    let gpu_types = ["v100m16", "v100m32", "h100", "g2"].map(Into::into).into();
    let known = Options { gpu_types, ..Options::default() };
    let error = read_from("trace.csv", text.as_bytes(), &known).unwrap_err().to_string();
    assert!(error.starts_with("trace.csv:3: gpu_types `H900`") && error.contains("`h100`"), "{error}");
    let gpu_type_names = [("h900".to_owned(), "h100".to_owned())].into();
    let read = with(text, &Options { gpu_type_names, ..known });
    assert_eq!(
        read.jobs[1].0.wanted.gpu_types,
        trainyard_sched::model::GpuTypeSet::of(&[trainyard_sched::model::GpuTypeId(2)])
    );
}

#[test]
fn a_zone_is_checked_and_changes_only_bare_times() {
    let odd = Options { zone: Some("Asia/Shangai".to_owned()), ..Options::default() };
    let error = read_from("trace.csv", ROWS.as_bytes(), &odd).unwrap_err().to_string();
    assert!(error.contains("did you mean `Asia/Shanghai`?"), "{error}");
    let utc = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    for twin in TWINS {
        let (own, other) =
            (with(&twin.text([0, 1, 2]), &Options::default()), with(&twin.text([0, 1, 2]), &utc));
        assert_eq!(
            own.jobs, other.jobs,
            "no clock changes in these hours, so only the first arrival differs"
        );
        let differs = matches!(twin.format, "helios" | "philly");
        assert_eq!(own.report.first_arrival != other.report.first_arrival, differs, "{}", twin.format);
    }
}

#[test]
fn jobs_of_one_moment_keep_the_order_of_the_file() {
    let rows: Vec<String> = (0..50).map(|i| format!("j{},0,{},2\n", (i * 7) % 50, 5 + i % 3)).collect();
    let text = format!("job_id,submit_s,duration_s,gpus\n{}", rows.concat());
    let read = read_text(&text).unwrap();
    let names: Vec<&str> = read.jobs.iter().map(|(job, _)| &*job.name).collect();
    let expected: Vec<String> = (0..50).map(|i| format!("j{}", (i * 7) % 50)).collect();
    assert_eq!(names, expected);
    assert_eq!(run(&text, &Options::default()), run(&text, &Options::default()));
}

#[test]
fn equal_rows_count_once_and_different_ones_are_asked_about() {
    for twin in TWINS {
        let twice = format!("{}{}{}{}", twin.head, twin.rows[0], twin.rows[0], twin.tail);
        let read = with(&twice, &Options::default());
        assert_eq!((read.jobs.len(), told(&read, Done::Dropped, "word for word")), (1, 1), "{}", twin.format);
        let other = twin.rows[1].replace("\"b\"", "\"a\"").replacen("b,", "a,", 1).replacen("b|", "a|", 1);
        let different = format!("{}{}{other}{}", twin.head, twin.rows[0], twin.tail);
        let error = read_from("trace.csv", different.as_bytes(), &Options::default()).unwrap_err();
        assert!(matches!(error, TraceError::DuplicateJob { .. }), "{}: {error}", twin.format);
        let suffix = Options { on_duplicate: OnDuplicate::Suffix, ..Options::default() };
        assert_eq!(&*with(&different, &suffix).jobs[1].0.name, "a-2");
    }
}

#[test]
fn demands_change_only_when_a_study_is_repeated_and_then_it_is_told() {
    let text =
        "job_id,submit_s,duration_s,gpus\nshort,0,1800,1\nodd,0,3600,3\neven,0,3600,4\nlong,0,700000,8\n";
    assert_eq!(read_text(text).unwrap().jobs.len(), 4);
    let blox = with(text, &Options { preset: Some(Preset::Blox), ..Options::default() });
    let jobs: Vec<(&str, u64)> =
        blox.jobs.iter().map(|(job, _)| (&*job.name, job.shape.minimum().gpu_milli / 1000)).collect();
    assert_eq!(jobs, [("odd", 1), ("even", 4)]);
    assert_eq!(
        (told(&blox, Done::Dropped, "preset blox"), told(&blox, Done::Repaired, "preset blox")),
        (2, 1)
    );
}
