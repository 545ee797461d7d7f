//! SenseTime's Helios clusters (SC 2021): `cluster_log.csv` of Earth, Saturn, Uranus and Venus.
//!
//! Source: github.com/S-Lab-System-Group/HeliosData. Quirks:
//! - Times are wall times without a zone; the clusters stood in China, so Asia/Shanghai is assumed.
//! - About half of the jobs have no GPUs; they are kept as jobs of CPUs, one worker on each machine.
//! - `TIMEOUT` and `NODE_FAIL` count as failed, `CANCELLED` as killed.
//! - The time between start and end counts, not the column `duration`; that they differ is told.
//! - A negative `queue` is a start before the submission.

use super::error::TraceError;
use super::fields::{GPU_LIMIT, Header, Problem, Record, Splitter, whole};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::logged::{Demand, Stamps, ending};
use super::wall::Clock;
use super::{Column, Format, Repairs, header_has};
use crate::truth::Ending;

/// The most CPU cores that are read.
const CPU_LIMIT: f64 = 1e6;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "helios",
    title: "the job log of the Helios clusters",
    columns: &[
        Column { name: "job_id", meaning: "the job's id" },
        Column { name: "user", meaning: "not read" },
        Column { name: "vc", meaning: "virtual cluster; becomes the tenant" },
        Column { name: "gpu_num", meaning: "GPUs of the gang; 0 for a job of CPUs" },
        Column { name: "cpu_num", meaning: "CPU cores in all" },
        Column { name: "node_num", meaning: "machines; only read for jobs of CPUs" },
        Column { name: "state", meaning: "how it ended" },
        Column { name: "submit_time", meaning: "submission, local wall time" },
        Column { name: "start_time", meaning: "start, local wall time" },
        Column { name: "end_time", meaning: "end, local wall time" },
        Column { name: "duration", meaning: "seconds; compared with end less start" },
        Column { name: "queue", meaning: "seconds; not read" },
    ],
    detect: |head| {
        header_has(head.line, &["job_id", "vc", "gpu_num", "submit_time", "start_time", "end_time"])
    },
    read,
};

/// The words that Slurm has for endings, as this log and Acme's have them.
pub(crate) const ENDINGS: &[(&str, Ending)] = &[
    ("COMPLETED", Ending::Completed),
    ("CANCELLED", Ending::Killed),
    ("FAILED", Ending::Failed),
    ("TIMEOUT", Ending::Failed),
    ("NODE_FAIL", Ending::Failed),
    ("RUNNING", Ending::Censored),
];

struct Columns {
    count: usize,
    job_id: usize,
    vc: usize,
    gpus: usize,
    cpus: usize,
    nodes: usize,
    state: usize,
    submitted: usize,
    started: usize,
    ended: usize,
    duration: Option<usize>,
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let header = Header::read(lines)?;
    let columns = Columns {
        count: header.len(),
        job_id: header.need(lines, "job_id")?,
        vc: header.need(lines, "vc")?,
        gpus: header.need(lines, "gpu_num")?,
        cpus: header.need(lines, "cpu_num")?,
        nodes: header.need(lines, "node_num")?,
        state: header.need(lines, "state")?,
        submitted: header.need(lines, "submit_time")?,
        started: header.need(lines, "start_time")?,
        ended: header.need(lines, "end_time")?,
        duration: header.find("duration"),
    };
    let clock = import.clock("Asia/Shanghai")?;
    let repairs = import.options.repairs;
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b','));
        let draft = row.and_then(|record| draft(&record, &columns, &clock, repairs));
        import.row(line.number, line.bytes, draft);
    }
    Ok(())
}

fn draft<'a>(
    record: &Record<'a>,
    columns: &Columns,
    clock: &Clock,
    repairs: Repairs,
) -> Result<Draft<'a>, Problem> {
    record.expect(columns.count)?;
    let name = record.get(columns.job_id);
    if name.is_empty() {
        return Err(Problem::new("job_id is missing", "job_id", "(empty)"));
    }
    let shape = demand(record, columns.gpus, columns.cpus, columns.nodes)?.shape(("gpu_num", "0"))?;
    let mut remarks = Vec::new();
    let stamps = Stamps {
        submitted: ("submit_time", record.get(columns.submitted)),
        started: ("start_time", record.get(columns.started)),
        ended: ("end_time", record.get(columns.ended)),
    };
    let run = stamps.run(clock, repairs, &mut remarks)?;
    if let Some(duration) = columns.duration {
        run.compare(("duration", record.get(duration)), &mut remarks);
    }
    let ending = ending(ENDINGS, ("state", record.get(columns.state)), &mut remarks);
    Ok(Draft { name: Some(name), tenant: record.get(columns.vc), ..run.draft(shape, ending, remarks) })
}

/// What a row asks for, as this log and Acme's say it.
pub(crate) fn demand(record: &Record<'_>, gpus: usize, cpus: usize, nodes: usize) -> Result<Demand, Problem> {
    let gpus = whole("gpu_num", record.get(gpus), 0.0, GPU_LIMIT)? as u32;
    let cpus = whole("cpu_num", record.get(cpus), 0.0, CPU_LIMIT)?;
    let nodes = whole("node_num", record.get(nodes), 0.0, GPU_LIMIT)? as u32;
    Ok(Demand { gpus, cpu_milli: cpus as u64 * 1000, memory_bytes: 0, nodes })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Parallelism, Resources, Span, Time};

    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::{Done, Workload};

    const HEAD: &str =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";

    fn read_rows(rows: &str, options: &Options) -> Workload {
        read_from("log.csv", format!("{HEAD}{rows}").as_bytes(), options).unwrap()
    }

    fn told(workload: &Workload, what: &str) -> (Done, u64) {
        let found = workload.report.findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", workload.report.findings));
        (found.done, found.count)
    }

    #[test]
    fn jobs_of_gpus_and_of_cpus_are_read() {
        let rows = "1,u,a,4,16,1,COMPLETED,2020-06-09 18:41:00,2020-06-09 18:42:00,2020-06-09 18:45:00,180,60\n\
            2,u,b,0,96,2,CANCELLED,2020-06-09 18:42:00,2020-06-09 18:42:00,2020-06-09 18:43:00,60,0\n\
            3,u,b,1,1,1,TIMEOUT,2020-06-09 18:43:00,2020-06-09 18:43:00,2020-06-09 19:43:00,3599,0\n\
            4,u,b,1,1,1,SUSPENDED,2020-06-09 18:44:00,2020-06-09 18:44:00,2020-06-09 19:43:00,99,0\n\
            5,u,b,1,1,1,RUNNING,2020-06-09 18:45:00,2020-06-09 18:45:00,,,0\n\
            6,u,b,1,1,1,CANCELLED,2020-06-09 18:46:00,None,2020-06-09 18:47:00,,\n\
            7,u,b,0,0,1,COMPLETED,2020-06-09 18:46:00,2020-06-09 18:46:00,2020-06-09 18:47:00,60,0\n";
        let read = read_rows(rows, &Options::default());
        assert_eq!((read.report.rows, read.report.kept), (7, 5));
        let worker = Resources { cpu_milli: 4000, ..Resources::gpus(1) };
        assert_eq!(read.jobs[0].0.shape, Parallelism::rigid(4, worker));
        assert_eq!(read.jobs[1].0.shape, Parallelism::rigid(2, Resources::cpus(48)));
        assert_eq!(read.jobs[1].0.submitted, Time::from_secs(60));
        let endings: Vec<Ending> = read.jobs.iter().map(|(_, truth)| truth.ending).collect();
        let expected =
            [Ending::Completed, Ending::Killed, Ending::Failed, Ending::Completed, Ending::Censored];
        assert_eq!(endings, expected);
        // From 18:45 to 19:43, the last moment that is told of.
        assert_eq!(read.jobs[4].1.iterations, 58.0 * 60.0);
        assert_eq!(told(&read, "state is no known word"), (Done::Assumed, 1));
        assert_eq!(told(&read, "duration is not the time"), (Done::Noted, 1));
        assert_eq!(told(&read, "never began"), (Done::Dropped, 1));
        assert_eq!(told(&read, "times without a zone are of Asia/Shanghai"), (Done::Assumed, 1));
        assert_eq!(told(&read, "neither GPUs nor CPUs"), (Done::Dropped, 1));
        assert_eq!(read.report.first_arrival.as_deref(), Some("2020-06-09T18:41:00+08:00[Asia/Shanghai]"));
    }

    #[test]
    fn negative_waits_and_run_times_are_left_out_or_mended() {
        let rows = "1,u,a,1,1,1,COMPLETED,2020-06-09 18:41:00,2020-06-09 18:40:00,2020-06-09 18:45:00,300,-60\n\
            2,u,a,1,1,1,FAILED,2020-06-09 18:41:00,2020-06-09 18:42:00,2020-06-09 18:41:30,-30,60\n\
            3,u,a,1,1,1,FAILED,2020-06-09 18:41:00,2020-06-09 18:42:00,2020-06-09 18:43:00,60,60\n";
        let read = read_rows(rows, &Options::default());
        assert_eq!(read.report.kept, 1);
        assert_eq!(told(&read, "the start is before the submission"), (Done::Dropped, 1));
        assert_eq!(told(&read, "the end is before the start"), (Done::Dropped, 1));
        let repairs = Repairs { clamp: true };
        let read = read_rows(rows, &Options { repairs, ..Options::default() });
        let lengths: Vec<f64> = read.jobs.iter().map(|(_, truth)| truth.iterations).collect();
        assert_eq!(lengths, [300.0, 1e-6, 60.0]);
        assert_eq!(told(&read, "the wait is taken for zero"), (Done::Repaired, 1));
        assert_eq!(told(&read, "the run time is now a microsecond"), (Done::Repaired, 1));
        assert!(read.jobs.iter().all(|(job, _)| job.declared.duration() > Some(Span::ZERO)));
    }
}
