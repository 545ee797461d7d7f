//! Sia's list of Philly jobs (SOSP 2023 artifact): `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! Times are wall times of the US Pacific zone without the zone. They are taken as they stand, so the change
//! from summer time on 5 November 2017 is one hour off. Statuses are not in the file: every job is taken to
//! complete. `gpu_time` is duration times GPUs in every row and is not read.

use jiff::civil::{DateTime, date};
use trainyard_sched::model::{Parallelism, Time};

use super::error::TraceError;
use super::fields::{Header, Problem, Record, Splitter, duration_s, gpu_count};
use super::import::{Draft, Import};
use super::lines::Lines;
use super::{Column, Format, header_has};
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
    detect: |head| header_has(head, &["timestamp", "duration", "num_gpus", "cluster"]),
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
    import.start_at_first_arrival();
    import.assume("timestamps are wall times without a zone; they are taken as they stand, across the change from summer time too");
    import.assume("the file does not say which jobs failed or were killed; all are taken to complete");
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b','));
        let draft = row.and_then(|record| draft(&record, &columns));
        import.row(line.number, line.bytes, draft);
    }
    Ok(())
}

fn draft<'a>(record: &Record<'a>, columns: &Columns) -> Result<Draft<'a>, Problem> {
    record.expect(columns.count)?;
    let submitted = wall_time("timestamp", record.get(columns.timestamp))?;
    let duration = duration_s("duration", record.get(columns.duration))?;
    let gpus = gpu_count("num_gpus", record.get(columns.gpus))?;
    let draft = Draft::plain(submitted, Parallelism::gang(gpus), Truth::lasting(duration, gpus));
    Ok(Draft { tenant: record.get(columns.cluster), ..draft })
}

/// Microseconds since the year 1970 on the same wall clock.
fn wall_time(field: &str, value: &str) -> Result<Time, Problem> {
    let not_a_time = || Problem::new(format!("{field} is not a time like 2017-10-09 07:01:55"), field, value);
    let time: DateTime = value.parse().map_err(|_| not_a_time())?;
    let since = time.duration_since(date(1970, 1, 1).at(0, 0, 0, 0)).as_micros();
    u64::try_from(since)
        .map(Time)
        .map_err(|_| Problem::new(format!("{field} is before the year 1970"), field, value))
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Span;

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
