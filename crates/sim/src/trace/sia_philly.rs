//! Sia's list of Philly jobs (SOSP 2023 artifact): `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! Times are wall times of the US Pacific zone without the zone (so says the README of the Philly traces), across the
//! end of summer time on 5 November 2017. Statuses are not in the file: every job is taken to complete. `gpu_time` is duration times GPUs in every row and is not read.

use trainyard_sched::model::Parallelism;

use super::error::TraceError;
use super::fields::{Header, Problem, Record, Splitter, gpu_count};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::wall::Clock;
use super::{Column, Format, Repairs, header_has};
use crate::truth::Truth;

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "sia-philly",
    title: "Philly jobs as Sia's artifact lists them",
    columns: &[
        Column {
            name: "timestamp",
            meaning: "submission, local wall time `YYYY-MM-DD hh:mm:ss` without zone",
        },
        Column { name: "duration", meaning: "run time in seconds" },
        Column { name: "num_gpus", meaning: "GPUs of the gang" },
        Column { name: "gpu_time", meaning: "GPU-seconds; not read" },
        Column { name: "cluster", meaning: "virtual cluster; becomes the tenant" },
    ],
    detect: |head| header_has(head.line, &["timestamp", "duration", "num_gpus", "cluster"]),
    read,
};

struct Columns {
    count: usize,
    timestamp: usize,
    duration: usize,
    gpus: usize,
    cluster: usize,
}

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let header = Header::read(lines)?;
    let columns = Columns {
        count: header.len(),
        timestamp: header.need(lines, "timestamp")?,
        duration: header.need(lines, "duration")?,
        gpus: header.need(lines, "num_gpus")?,
        cluster: header.need(lines, "cluster")?,
    };
    let clock = import.clock("America/Los_Angeles")?;
    let repairs = import.options.repairs;
    import.assume("the file does not say which jobs failed or were killed; all are taken to complete");
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
    let mut remarks = Vec::new();
    let submitted = clock.read("timestamp", record.get(columns.timestamp), &mut remarks)?;
    let duration = repairs.duration_s("duration", record.get(columns.duration), &mut remarks)?;
    let gpus = gpu_count("num_gpus", record.get(columns.gpus))?;
    let draft = Draft::plain(submitted, Parallelism::gang(gpus), Truth::lasting(duration, gpus));
    Ok(Draft { tenant: record.get(columns.cluster), remarks, ..draft })
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::{Span, Time};

    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::Done;

    const GOOD: &str = "timestamp,duration,num_gpus,gpu_time,cluster\n\
        2017-10-09 07:01:55,66.0,1,66.0,11cb48\n\
        2017-10-09 06:13:03,2951.0,8,2951.0,6214e9\n";

    #[test]
    fn jobs_are_sorted_and_the_first_arrives_at_zero() {
        let read = read_from("philly.csv", GOOD.as_bytes(), &Options::default()).unwrap();
        let submitted: Vec<Time> = read.jobs.iter().map(|(job, _)| job.submitted).collect();
        assert_eq!(submitted, [Time::ZERO, Time::from_secs(48 * 60 + 52)]);
        assert_eq!(read.jobs[0].1, Truth::lasting(Span::from_secs(2951), 8));
        assert_eq!(&*read.tenants.get(read.jobs[0].0.tenant).unwrap().name, "6214e9");
        assert_eq!((read.report.rows, read.report.kept), (2, 2));
        assert!(read.report.findings.iter().any(|f| f.done == Done::Noted && f.what.contains("sorted")));
    }

    #[test]
    fn an_hour_that_is_gone_through_twice_counts_twice() {
        let text = format!(
            "{GOOD}2017-11-05 00:30:00,5,1,5,a\n2017-11-05 01:30:00,5,1,5,a\n2017-11-05 02:30:00,5,1,5,a\n"
        );
        let read = read_from("philly.csv", text.as_bytes(), &Options::default()).unwrap();
        let apart = |i: usize| read.jobs[i].0.submitted.since(read.jobs[i - 1].0.submitted);
        assert_eq!((apart(3), apart(4)), (Span::from_secs(3600), Span::from_secs(2 * 3600)));
        let odd = read.report.findings.iter().find(|f| f.what.contains("occurs twice")).unwrap();
        assert_eq!(odd.examples, ["philly.csv:5: timestamp 2017-11-05 01:30:00"]);
        assert_eq!(read.report.zone.as_deref(), Some("America/Los_Angeles"));
        let first = read.report.first_arrival.as_deref();
        assert_eq!(first, Some("2017-10-09T06:13:03-07:00[America/Los_Angeles]"));
        let options = Options { zone: Some("UTC".to_owned()), ..Options::default() };
        let read = read_from("philly.csv", text.as_bytes(), &options).unwrap();
        assert_eq!(read.jobs[4].0.submitted.since(read.jobs[3].0.submitted), Span::from_secs(3600));
    }

    #[test]
    fn bad_rows_are_dropped_with_file_line_field_and_value() {
        let text = format!(
            "{GOOD}2017-13-09 00:00:00,5,1,5,a\n2017-10-09 00:00:00,5,four,5,a\n2017-10-09 00:00:00,5,1,5\n"
        );
        let read = read_from("philly.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!((read.report.rows, read.report.kept), (5, 2));
        let places: Vec<&String> = read.report.findings.iter().flat_map(|f| &f.examples).collect();
        assert_eq!(
            places,
            ["philly.csv:4: timestamp 2017-13-09 00:00:00", "philly.csv:5: num_gpus four", "philly.csv:6"]
        );
        assert!(read.report.findings.iter().any(|f| f.what == "expected 5 fields, found 4"));
    }
}
