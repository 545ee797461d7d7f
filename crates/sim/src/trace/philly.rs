//! Microsoft's Philly trace (ATC 2019): `cluster_job_log`, one JSON list of jobs with their attempts.
//!
//! Source: github.com/msr-fiddle/philly-traces. Its README has the rules that hold here:
//! - Times are wall times of the US Pacific zone without the zone.
//! - The run time is the sum of the attempts. An attempt without a start is left out; a last attempt without an end was
//!   still running when the trace was taken. `None` may be a word or a JSON null.
//! - A job without attempts never ran. Its GPUs are not known either, because they stand in the attempts only.
//! - GPUs are counted over the machines of an attempt. Attempts of one job may differ; the longest counts, a running one
//!   before all others, since most of the job's GPU time was spent there.
//!
//! The machine list of the trace is not consulted, so an attempt with more GPUs on a machine than the list says it has,
//! of which there are some, is taken as it stands.

use serde::Deserialize;
use trainyard_sched::model::{Parallelism, Span, Time};

use super::elements::{Elements, Place};
use super::error::TraceError;
use super::fields::{GPU_LIMIT, Problem, Remark};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::logged::{Run, ending, is_open, never_ran};
use super::wall::Clock;
use super::{Column, Format, Repairs};
use crate::truth::Ending;
use crate::workload::Done;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "philly",
    title: "the job log of Microsoft's Philly trace, one JSON list",
    columns: &[
        Column { name: "jobid", meaning: "the job's id" },
        Column { name: "status", meaning: "`Pass`, `Killed` or `Failed`" },
        Column { name: "vc", meaning: "virtual cluster; becomes the tenant" },
        Column { name: "user", meaning: "not read" },
        Column { name: "submitted_time", meaning: "submission, wall time of the US Pacific zone" },
        Column {
            name: "attempts",
            meaning: "list of `start_time`, `end_time` and `detail` with the GPUs on each machine",
        },
    ],
    detect: |head| {
        let has = |key: &str| head.text.contains(key);
        head.line.trim_start().starts_with('[') && has("\"jobid\"") && has("\"attempts\"")
    },
    read,
};

const ENDINGS: &[(&str, Ending)] =
    &[("Pass", Ending::Completed), ("Killed", Ending::Killed), ("Failed", Ending::Failed)];

#[derive(Deserialize)]
struct Entry {
    jobid: String,
    status: String,
    #[serde(default)]
    vc: String,
    submitted_time: Option<String>,
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    #[serde(default)]
    gpus: Vec<serde::de::IgnoredAny>,
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let clock = import.clock("America/Los_Angeles")?;
    let repairs = import.options.repairs;
    let mut elements = Elements::of(Place::Top);
    while let Some(line) = elements.next(lines)? {
        let entry = serde_json::from_slice::<Entry>(line.bytes)
            .map_err(|error| Problem::new("the element is no job of this format", "", &error.to_string()));
        let draft = match &entry {
            Ok(entry) => draft(entry, &clock, repairs),
            Err(problem) => Err(problem.clone()),
        };
        import.row(line.number, line.bytes, draft);
    }
    Ok(())
}

fn draft<'a>(entry: &'a Entry, clock: &Clock, repairs: Repairs) -> Result<Draft<'a>, Problem> {
    let mut remarks = Vec::new();
    let told = known(&entry.submitted_time);
    let submitted = clock.read("submitted_time", told.unwrap_or("None"), &mut remarks)?;
    let spans = spans(entry, submitted, clock, repairs, &mut remarks)?;
    let Some(main) = spans.iter().max_by_key(|span| (span.ended.is_none(), span.length())) else {
        return Err(never_ran((
            "attempts",
            if entry.attempts.is_empty() { "[]" } else { "without a start" },
        )));
    };
    if main.gpus == 0 || f64::from(main.gpus) > GPU_LIMIT {
        return Err(Problem::new("the attempt has no GPUs, or too many", "gpus", &main.gpus.to_string()));
    }
    if spans.iter().any(|span| span.gpus != main.gpus) {
        let counts: Vec<String> = spans.iter().map(|span| span.gpus.to_string()).collect();
        let what = "attempts had different numbers of GPUs; those of the longest are taken";
        remarks.push(Remark::assumed(what, "gpus", &counts.join(", ")));
    }
    for _ in 1..spans.len() {
        let what = "the job was tried again; its run time is the sum of its attempts";
        remarks.push(Remark { done: Done::Noted, problem: Problem::new(what, "jobid", &entry.jobid) });
    }
    let mut length = spans.iter().fold(Span::ZERO, |sum, span| sum + span.length());
    let running_since = spans.last().filter(|span| span.ended.is_none()).map(|span| span.started);
    let ended = spans.iter().filter_map(|span| span.ended).max();
    if running_since.is_none() && length == Span::ZERO {
        length = repairs.length(submitted, submitted, ("end_time", "as the start"), &mut remarks)?;
    }
    let ending = ending(ENDINGS, ("status", &entry.status), &mut remarks);
    let run = Run { submitted, ended, length, running_since };
    let draft = run.draft(Parallelism::gang(main.gpus), ending, remarks);
    Ok(Draft { name: Some(&entry.jobid), tenant: &entry.vc, ..draft })
}

/// One attempt that began.
struct Tried {
    started: Time,
    ended: Option<Time>,
    gpus: u32,
}

impl Tried {
    fn length(&self) -> Span {
        self.ended.map_or(Span::ZERO, |ended| ended.since(self.started))
    }
}

fn spans(
    entry: &Entry,
    submitted: Time,
    clock: &Clock,
    repairs: Repairs,
    remarks: &mut Vec<Remark>,
) -> Result<Vec<Tried>, Problem> {
    let mut spans = Vec::new();
    for (index, attempt) in entry.attempts.iter().enumerate() {
        let Some(start) = known(&attempt.start_time) else {
            remarks.push(Remark::assumed("an attempt has no start; it is left out", "start_time", "None"));
            continue;
        };
        let started = clock.read("start_time", start, remarks)?;
        repairs.wait(submitted, started, ("start_time", start), remarks)?;
        let ended = match known(&attempt.end_time) {
            Some(end) => {
                let ended = clock.read("end_time", end, remarks)?;
                if ended < started {
                    repairs.length(started, ended, ("end_time", end), remarks)?;
                }
                Some(ended.max(started))
            }
            None if index + 1 == entry.attempts.len() => None,
            None => {
                let what = "an attempt has no end, and another follows; it is left out";
                remarks.push(Remark::assumed(what, "start_time", start));
                continue;
            }
        };
        let gpus = attempt.detail.iter().map(|machine| machine.gpus.len() as u32).sum();
        spans.push(Tried { started, ended, gpus });
    }
    Ok(spans)
}

/// A time, if it is told.
fn known(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !is_open(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::Workload;

    fn attempt(start: &str, end: &str, gpus: &[usize]) -> String {
        let machines: Vec<String> = gpus
            .iter()
            .enumerate()
            .map(|(i, count)| {
                let gpus: Vec<String> = (0..*count).map(|gpu| format!("\"gpu{gpu}\"")).collect();
                format!("{{\"ip\": \"m{i}\", \"gpus\": [{}]}}", gpus.join(", "))
            })
            .collect();
        format!("{{\"start_time\": {start}, \"end_time\": {end},\n \"detail\": [{}]}}", machines.join(", "))
    }

    fn job(id: &str, status: &str, attempts: &[String]) -> String {
        format!(
            "{{\"status\": \"{status}\", \"vc\": \"ee\", \"jobid\": \"{id}\", \"attempts\": [{}], \
             \"submitted_time\": \"2017-10-07 01:00:00\", \"user\": \"u\"}}",
            attempts.join(",\n")
        )
    }

    fn read_jobs(jobs: &[String], options: &Options) -> Workload {
        read_from("log.json", format!("[\n{}\n]\n", jobs.join(",\n")).as_bytes(), options).unwrap()
    }

    fn told(workload: &Workload, what: &str) -> (Done, u64) {
        let found = workload.report.findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", workload.report.findings));
        (found.done, found.count)
    }

    const A: &str = "\"2017-10-07 01:10:00\"";
    const B: &str = "\"2017-10-07 01:20:00\"";
    const C: &str = "\"2017-10-07 01:30:00\"";
    const D: &str = "\"2017-10-07 03:30:00\"";

    #[test]
    fn attempts_add_up_and_the_longest_says_how_many_gpus() {
        let jobs = [
            job("once", "Pass", &[attempt(A, B, &[8, 8])]),
            job("twice", "Failed", &[attempt(A, B, &[2]), attempt(C, D, &[4])]),
            job("part", "Killed", &[attempt("null", "\"None\"", &[1]), attempt(A, B, &[1])]),
        ];
        let read = read_jobs(&jobs, &Options::default());
        let of = |i: usize| (read.jobs[i].1.iterations, read.jobs[i].1.ending, read.jobs[i].0.shape.clone());
        assert_eq!(of(0), (600.0, Ending::Completed, Parallelism::gang(16)));
        assert_eq!(of(1), (600.0 + 7200.0, Ending::Failed, Parallelism::gang(4)));
        assert_eq!(of(2), (600.0, Ending::Killed, Parallelism::gang(1)));
        assert_eq!(told(&read, "tried again"), (Done::Noted, 1));
        assert_eq!(told(&read, "different numbers of GPUs"), (Done::Assumed, 1));
        assert_eq!(told(&read, "no start; it is left out"), (Done::Assumed, 1));
        assert_eq!(
            read.report.first_arrival.as_deref(),
            Some("2017-10-07T01:00:00-07:00[America/Los_Angeles]")
        );
    }

    #[test]
    fn jobs_that_never_ran_are_left_out_and_running_ones_are_cut_off() {
        let jobs = [
            job("never", "Killed", &[]),
            job("unborn", "Killed", &[attempt("null", "null", &[])]),
            job("running", "Pass", &[attempt(A, B, &[1]), attempt(C, "null", &[2])]),
            job("last", "Pass", &[attempt(A, D, &[1])]),
        ];
        let read = read_jobs(&jobs, &Options::default());
        assert_eq!((read.report.rows, read.report.kept), (4, 2));
        assert_eq!(told(&read, "never began"), (Done::Dropped, 2));
        // Ten minutes at first, and two hours until the last moment that the trace tells of.
        let (running, truth) = &read.jobs[0];
        assert_eq!((&*running.name, truth.iterations, truth.ending), ("running", 7800.0, Ending::Censored));
        assert_eq!(running.shape, Parallelism::gang(2));
        assert_eq!(running.declared.duration(), Some(Span::from_secs(7800)));
        assert_eq!(told(&read, "still running when the trace ended"), (Done::Noted, 1));
        let counted = read_jobs(&jobs, &Options { count_censored: true, ..Options::default() });
        assert_eq!(counted.jobs[0].1.ending, Ending::Completed);
    }

    #[test]
    fn odd_jobs_are_left_out_or_mended() {
        let jobs = [
            job("back", "Pass", &[attempt(B, A, &[1])]),
            job("none", "Pass", &[attempt(A, A, &[1])]),
            job("early", "Paused", &[attempt("\"2017-10-07 00:50:00\"", A, &[1])]),
            job("bare", "Pass", &[attempt(A, B, &[])]),
            "{\"jobid\": 3}".to_owned(),
            job("good", "Pass", &[attempt(A, B, &[1])]),
        ];
        let read = read_jobs(&jobs, &Options::default());
        assert_eq!((read.report.rows, read.report.kept), (6, 1));
        let mend = Options { repairs: Repairs { clamp: true }, ..Options::default() };
        let read = read_jobs(&jobs, &mend);
        let lengths: Vec<(&str, f64)> =
            read.jobs.iter().map(|(job, truth)| (&*job.name, truth.iterations)).collect();
        assert_eq!(lengths, [("back", 1e-6), ("none", 1e-6), ("early", 1200.0), ("good", 600.0)]);
        assert_eq!(told(&read, "the wait is taken for zero"), (Done::Repaired, 1));
        assert_eq!(told(&read, "status is no known word"), (Done::Assumed, 1));
    }
}
