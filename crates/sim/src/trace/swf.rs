//! The Standard Workload Format of the Parallel Workloads Archive: 18 blank-separated numbers a job, `;` before comments.
//!
//! Source: www.cs.huji.ac.il/labs/parallel/workload/swf.html. Rules:
//! - -1 means unknown, never minus one.
//! - Processors are CPUs: a job is a gang of workers with one core each. The number that was requested counts, else the
//!   number that was given.
//! - The requested time is the limit that the owner declared.
//! - Status 1 is completed, 0 failed, 5 cancelled. Status 2 to 4 are parts of a job that also stands whole in another
//!   line; they are passed over. Memory is in kilobytes a processor.
//! - Times are seconds from the start of the log, which the header may give as `UnixStartTime` and `TimeZoneString`.

use trainyard_sched::model::{Declared, Parallelism, Resources, Time};

use super::error::TraceError;
use super::fields::{GPU_LIMIT, Problem, Remark, number, span_s, time_s, whole};
use super::import::{Draft, Import};
use super::lines::{Head, Lines};
use super::wall::Clock;
use super::{Column, Format, Repairs};
use crate::truth::{Ending, Truth};

const FIELDS: usize = 18;
const UNKNOWN: f64 = -1.0;
const BYTES_PER_KB: u64 = 1024;
const COMMENT: char = ';';

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "swf",
    title: "the Standard Workload Format of the Parallel Workloads Archive",
    columns: &[
        Column { name: "job number", meaning: "field 1: the job's id" },
        Column { name: "submit time", meaning: "field 2: submission in seconds" },
        Column { name: "wait time", meaning: "field 3: seconds; only a negative one matters" },
        Column { name: "run time", meaning: "field 4: seconds" },
        Column { name: "allocated processors", meaning: "field 5: read where none are requested" },
        Column { name: "average CPU time", meaning: "field 6; not read" },
        Column { name: "used memory", meaning: "field 7; not read" },
        Column { name: "requested processors", meaning: "field 8: CPUs of the gang" },
        Column { name: "requested time", meaning: "field 9: the declared limit in seconds" },
        Column { name: "requested memory", meaning: "field 10: kilobytes a processor" },
        Column { name: "status", meaning: "field 11: how it ended" },
        Column { name: "user", meaning: "field 12: its number is the tenant" },
        Column { name: "group", meaning: "field 13; not read" },
        Column { name: "executable", meaning: "field 14; not read" },
        Column { name: "queue", meaning: "field 15; not read" },
        Column { name: "partition", meaning: "field 16; not read" },
        Column { name: "preceding job", meaning: "field 17; not read" },
        Column { name: "think time", meaning: "field 18; not read" },
    ],
    detect,
    read,
};

fn detect(head: &Head<'_>) -> bool {
    let mut lines = head.text.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.find(|line| !line.starts_with(COMMENT)) {
        Some(row) => {
            let fields = row.split_ascii_whitespace();
            fields.clone().count() == FIELDS && fields.clone().all(|field| field.parse::<f64>().is_ok())
        }
        // Nothing but a long header so far.
        None => ["Version:", "MaxProcs:", "MaxNodes:"].iter().any(|key| head.text.contains(key)),
    }
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let repairs = import.options.repairs;
    let mut notes = Notes::default();
    while let Some(line) = lines.next()? {
        let text = line.text().map(str::trim);
        if let Ok(text) = text
            && let Some(comment) = text.strip_prefix(COMMENT)
        {
            notes.take(comment);
            continue;
        }
        let row = text.and_then(Row::of);
        match row {
            Ok(row) if row.is_part() => {
                let what = "the line is a part of a job that stands whole in another line";
                import.pass(line.number, Problem::new(what, "status", row.0[10]));
            }
            row => import.row(line.number, line.bytes, row.and_then(|row| draft(&row, repairs))),
        }
    }
    notes.tell(import)
}

/// The end of the year 9999. A log that begins later has something else in its header, and its hours of the day are unknown.
const LAST_UNIX_S: u64 = 253_402_300_799;

/// What the header says of the log.
#[derive(Default)]
struct Notes {
    unix_start: Option<u64>,
    zone: Option<String>,
    processors: Option<u64>,
}

impl Notes {
    fn take(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(':') else { return };
        let value = value.trim();
        match key.trim() {
            "UnixStartTime" => {
                self.unix_start = value.parse().ok().filter(|start| (1..=LAST_UNIX_S).contains(start))
            }
            "TimeZoneString" => self.zone = Some(value.to_owned()),
            "MaxProcs" => self.processors = value.parse().ok(),
            _ => {}
        }
    }

    fn tell(self, import: &mut Import<'_>) -> Result<(), TraceError> {
        if let Some(count) = self.processors {
            import.note(&format!("the log is of a machine of {count} processors"));
        }
        let Some(start) = self.unix_start else { return Ok(()) };
        let zone = import.options.zone.clone().or(self.zone).unwrap_or_default();
        // A header may name a zone as nobody else does; that spoils no jobs.
        let clock = match Clock::new(&zone) {
            Ok(clock) => clock,
            Err(_) => Clock::new("UTC")?,
        };
        import.begins_at(clock, Time::from_secs(start));
        Ok(())
    }
}

/// The fields of a job.
struct Row<'a>([&'a str; FIELDS]);

impl<'a> Row<'a> {
    fn of(text: &'a str) -> Result<Self, Problem> {
        let mut fields = [""; FIELDS];
        let mut count = 0;
        for field in text.split_ascii_whitespace() {
            if let Some(place) = fields.get_mut(count) {
                *place = field;
            }
            count += 1;
        }
        if count == FIELDS {
            return Ok(Self(fields));
        }
        Err(Problem::new(format!("expected {FIELDS} fields, found {count}"), "", ""))
    }

    /// A field, unless it is unknown.
    fn known(&self, index: usize) -> Option<(&'static str, &'a str)> {
        let (name, text) = (FORMAT.columns[index].name, self.0[index]);
        (text.parse() != Ok(UNKNOWN)).then_some((name, text))
    }

    fn is_part(&self) -> bool {
        matches!(self.0[10], "2" | "3" | "4")
    }
}

fn draft<'a>(row: &Row<'a>, repairs: Repairs) -> Result<Draft<'a>, Problem> {
    let mut remarks = Vec::new();
    let need = |index: usize| row.known(index).ok_or_else(|| unknown(index));
    let (_, name) = need(0)?;
    let (field, text) = need(1)?;
    let submitted = time_s(field, text)?;
    if let Some((field, text)) = row.known(2)
        && number(field, text)? < 0.0
    {
        let problem = Problem::new("the start is before the submission", field, text);
        repairs.mend(problem, "the wait is taken for zero", &mut remarks)?;
    }
    let ending = match row.known(10) {
        Some((_, "1")) => Ending::Completed,
        Some((_, "0")) => Ending::Failed,
        Some((_, "5")) => Ending::Killed,
        other => {
            let (field, text) = other.unwrap_or(("status", "-1"));
            remarks.push(Remark::assumed("the status is unknown; the job is taken to complete", field, text));
            Ending::Completed
        }
    };
    let (field, text) = need(3)?;
    if ending == Ending::Killed && number(field, text)? == 0.0 {
        return Err(Problem::new("the job was cancelled before it ran", field, text));
    }
    let duration = repairs.duration_s(field, text, &mut remarks)?;
    let processors = [7, 4].into_iter().filter_map(|index| row.known(index)).find(|(_, text)| *text != "0");
    let (field, text) = processors.ok_or_else(|| unknown(7))?;
    let processors = whole(field, text, 1.0, GPU_LIMIT)? as u32;
    let memory = row.known(9).map(|(field, text)| whole(field, text, 0.0, 1e12)).transpose()?;
    let worker =
        Resources { memory_bytes: memory.unwrap_or(0.0) as u64 * BYTES_PER_KB, ..Resources::cpus(1) };
    let limit = row.known(8).map(|(field, text)| span_s(field, text)).transpose()?;
    let declared =
        limit.filter(|limit| limit.0 > 0).map(|limit| Declared { limit: Some(limit), ..Declared::default() });
    let truth = Truth { ending, ..Truth::lasting(duration, processors) };
    let plain = Draft::plain(submitted, Parallelism::rigid(processors, worker), truth);
    let tenant = row.known(11).map_or("", |(_, user)| user);
    Ok(Draft { name: Some(name), tenant, declared, remarks, ..plain })
}

fn unknown(index: usize) -> Problem {
    let field = FORMAT.columns[index].name;
    Problem::new(format!("{field} is unknown"), field, "-1")
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Span;

    use super::*;
    use crate::trace::{Options, TraceError, read_from};
    use crate::workload::{Done, Workload};

    const HEAD: &str =
        "; Version: 2.2\n; UnixStartTime: 749458803\n; TimeZoneString: US/Pacific\n; MaxProcs: 128\n;\n";

    fn read_rows(rows: &str, options: &Options) -> Result<Workload, TraceError> {
        read_from("log.swf", format!("{HEAD}{rows}").as_bytes(), options)
    }

    fn told(workload: &Workload, what: &str) -> (Done, u64) {
        let found = workload.report.findings.iter().find(|finding| finding.what.contains(what));
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", workload.report.findings));
        (found.done, found.count)
    }

    #[test]
    fn minus_one_is_unknown_and_requested_values_count() {
        let rows = "  1   0  -1 1451 128 -1 -1  -1   -1  -1 -1  1 1 -1 -1 -1 -1 -1\n\
              2   5  10  100   4 -1 -1   8 3600 512  1  7 1 -1 -1 -1 -1 -1\n\
              3   6  10  100  -1 -1 -1  -1   -1  -1  0 -1 1 -1 -1 -1 -1 -1\n\
              4   7  10   -1   4 -1 -1  -1   -1  -1  1 -1 1 -1 -1 -1 -1 -1\n\
              5   8  10    0   4 -1 -1  -1   -1  -1  5 -1 1 -1 -1 -1 -1 -1\n\
              6   9  10   50   4 -1 -1   0   -1  -1  5 -1 1 -1 -1 -1 -1 -1\n\
              6   9  10   20   4 -1 -1   0   -1  -1  2 -1 1 -1 -1 -1 -1 -1\n\
              7   9 -30   50   4 -1 -1  -1   -1  -1  0 -1 1 -1 -1 -1 -1\n\
              8   9 -30   50   4 -1 -1  -1   -1  -1  0 -1 1 -1 -1 -1 -1 -1\n";
        let read = read_rows(rows, &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (9, 3));
        let jobs: Vec<(&str, f64, Ending)> =
            read.jobs.iter().map(|(job, truth)| (&*job.name, truth.iterations, truth.ending)).collect();
        let expected =
            [("1", 1451.0, Ending::Completed), ("2", 100.0, Ending::Completed), ("6", 50.0, Ending::Killed)];
        assert_eq!(jobs, expected);
        let worker = Resources { memory_bytes: 512 * 1024, ..Resources::cpus(1) };
        assert_eq!(read.jobs[0].0.shape, Parallelism::rigid(128, Resources::cpus(1)));
        assert_eq!(read.jobs[1].0.shape, Parallelism::rigid(8, worker));
        assert_eq!(read.jobs[1].0.declared.duration(), Some(Span::from_secs(3600)));
        assert_eq!(read.jobs[0].0.declared.duration(), Some(Span::from_secs(1451)));
        assert_eq!(&*read.tenants.get(read.jobs[1].0.tenant).unwrap().name, "7");
        assert_eq!(&*read.tenants.get(read.jobs[2].0.tenant).unwrap().name, "default");
        assert_eq!(told(&read, "the status is unknown"), (Done::Assumed, 1));
        assert_eq!(told(&read, "requested processors is unknown"), (Done::Dropped, 1));
        assert_eq!(told(&read, "run time is unknown"), (Done::Dropped, 1));
        assert_eq!(told(&read, "cancelled before it ran"), (Done::Dropped, 1));
        assert_eq!(told(&read, "a part of a job"), (Done::Noted, 1));
        assert_eq!(told(&read, "expected 18 fields, found 17"), (Done::Dropped, 1));
        assert_eq!(told(&read, "the start is before the submission"), (Done::Dropped, 1));
        assert_eq!(told(&read, "a machine of 128 processors"), (Done::Noted, 1));
        let first = read.report.first_arrival.as_deref();
        assert_eq!(first, Some("1993-10-01T00:00:03-07:00[US/Pacific]"));
        assert_eq!(read.jobs[1].0.submitted, Time::from_secs(5), "times are left as they stand");
    }

    #[test]
    fn a_log_without_header_is_recognised_and_a_zone_that_nobody_knows_spoils_nothing() {
        let row = "1 0 -1 10 1 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n";
        assert_eq!(read_from("log", row.as_bytes(), &Options::default()).unwrap().jobs.len(), 1);
        let odd = format!("; UnixStartTime: 0\n; TimeZoneString: Middle/Earth\n{row}");
        assert_eq!(read_from("log", odd.as_bytes(), &Options::default()).unwrap().report.zone, None);
        let odd = odd.replace(": 0", ": 749458803");
        assert_eq!(
            read_from("log", odd.as_bytes(), &Options::default()).unwrap().report.zone.as_deref(),
            Some("UTC")
        );
    }
}
