//! Shanghai AI Laboratory's Acme clusters (NSDI 2024): `trace_seren.csv` and `trace_kalos.csv`.
//!
//! Source: github.com/InternLM/AcmeTrace. Quirks:
//! - Times carry their offset (+08:00 in Seren, +00:00 in Kalos).
//! - The column `duration` of Kalos is not end less start; the times count, and disagreements are counted.
//! - Kalos has memory by pod, with a pod on each machine; Seren has none.
//! - There are no tenants, so users stand for them. `type` is the stage of the work and is taken for the model.

use super::error::TraceError;
use super::fields::{Header, MOST_BYTES, Problem, Record, Splitter, number_within};
use super::helios::{ENDINGS, demand};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::logged::{Stamps, ending};
use super::wall::Clock;
use super::{Column, Format, Repairs, header_has};

const BYTES_PER_GB: f64 = 1e9;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "acme",
    title: "the job logs of the Acme clusters Seren and Kalos",
    columns: &[
        Column { name: "job_id", meaning: "the job's id" },
        Column { name: "user", meaning: "who owns it; becomes the tenant" },
        Column { name: "node_num", meaning: "machines; read for memory and for jobs of CPUs" },
        Column { name: "gpu_num", meaning: "GPUs of the gang; 0 for a job of CPUs" },
        Column { name: "cpu_num", meaning: "CPU cores in all" },
        Column { name: "mem_per_pod_GB", meaning: "memory of each machine's pod; Kalos only" },
        Column { name: "shared_mem_per_pod", meaning: "not read; Kalos only" },
        Column { name: "type", meaning: "stage of the work; becomes the model" },
        Column { name: "state", meaning: "how it ended" },
        Column { name: "submit_time", meaning: "submission, with offset" },
        Column { name: "start_time", meaning: "start, with offset" },
        Column { name: "end_time", meaning: "end, with offset" },
        Column { name: "fail_time", meaning: "not read; Kalos only" },
        Column { name: "stop_time", meaning: "not read; Kalos only" },
        Column { name: "duration", meaning: "seconds; compared with end less start" },
        Column { name: "queue", meaning: "seconds; not read" },
        Column { name: "gpu_time", meaning: "GPU-seconds; not read" },
    ],
    detect: |head| {
        header_has(head.line, &["job_id", "type", "gpu_num", "submit_time", "start_time", "end_time"])
    },
    read,
};

struct Columns {
    count: usize,
    job_id: usize,
    user: usize,
    gpus: usize,
    cpus: usize,
    nodes: usize,
    memory: Option<usize>,
    stage: usize,
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
        user: header.need(lines, "user")?,
        gpus: header.need(lines, "gpu_num")?,
        cpus: header.need(lines, "cpu_num")?,
        nodes: header.need(lines, "node_num")?,
        memory: header.find("mem_per_pod_GB"),
        stage: header.need(lines, "type")?,
        state: header.need(lines, "state")?,
        submitted: header.need(lines, "submit_time")?,
        started: header.need(lines, "start_time")?,
        ended: header.need(lines, "end_time")?,
        duration: header.find("duration"),
    };
    let clock = import.clock_with_zones()?;
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
    let mut demand = demand(record, columns.gpus, columns.cpus, columns.nodes)?;
    let memory = columns.memory.map_or("", |column| record.get(column));
    if !memory.is_empty() {
        let each = number_within("mem_per_pod_GB", memory, 0.0, 1e9)?;
        let all = each * BYTES_PER_GB * f64::from(demand.nodes.max(1));
        if all > MOST_BYTES {
            let what = "the pods together ask for more than 1e18 bytes of memory";
            return Err(Problem::new(what, "mem_per_pod_GB", memory));
        }
        demand.memory_bytes = all as u64;
    }
    let shape = demand.shape(("gpu_num", "0"))?;
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
    let (tenant, model) = (record.get(columns.user), record.get(columns.stage));
    Ok(Draft { name: Some(name), tenant, model, ..run.draft(shape, ending, remarks) })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Parallelism, Resources, Time};

    use crate::trace::{Options, read_from};
    use crate::workload::Done;

    #[test]
    fn both_clusters_are_read_and_the_times_count() {
        let seren = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n\
            1,u,1,8,128,Other,FAILED,2023-03-01 00:18:00+08:00,2023-03-01 00:18:30+08:00,2023-03-01 00:20:30+08:00,120,30,960.0\n\
            2,u,1,8,128,SFT,COMPLETED,2023-02-28 16:20:00+00:00,2023-02-28 16:21:00+00:00,2023-02-28 16:22:00+00:00,60,60,480.0\n";
        let read = read_from("seren.csv", seren.as_bytes(), &Options::default()).unwrap();
        let worker = Resources { cpu_milli: 16_000, ..Resources::gpus(1) };
        assert_eq!(read.jobs[0].0.shape, Parallelism::rigid(8, worker));
        assert_eq!(read.jobs[1].0.submitted, Time::from_secs(120), "offsets are obeyed");
        assert_eq!(read.models, ["Other", "SFT"]);
        let kalos = "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,\
            start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n\
            a,u,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:50+00:00,2023-05-17 11:01:00+00:00,\
            2023-05-17 11:01:08+00:00,2023-05-17 11:01:08+00:00,,18,10.0,1152.0\n";
        let read = read_from("kalos.csv", kalos.as_bytes(), &Options::default()).unwrap();
        let more = kalos.replace(",1000,100.0,", ",1e9,100.0,").replace("a,u,8,64", "a,u,100,64");
        let error = read_from("kalos.csv", more.as_bytes(), &Options::default()).unwrap_err().to_string();
        assert!(error.contains("mem_per_pod_GB 1e9"), "{error}");
        let (job, truth) = &read.jobs[0];
        assert_eq!(truth.iterations, 8.0);
        assert_eq!(
            job.shape.demand_of(trainyard_sched::model::WORKER_TASK).unwrap().memory_bytes,
            125_000_000_000
        );
        let odd = read.report.findings.iter().find(|finding| finding.what.contains("duration")).unwrap();
        assert_eq!(
            (odd.done, odd.count, odd.examples[0].as_str()),
            (Done::Noted, 1, "kalos.csv:2: duration 18")
        );
    }
}
