//! Per-job results of Gavel's simulator, as CSV: `job_id,arrival_s,scale_factor,total_steps,job_type,jct_s`.
//!
//! They hold the jobs that went in. Lengths come from a table of throughputs, as for Gavel's traces; how long a job
//! took in the run in question is not read.

use super::Format;
use super::error::TraceError;
use super::fields::{MOST_ITERATIONS, Problem, gpu_count, number_within, time_s};
use super::gavel::Catalogue;
use super::import::{Draft, Import};
use super::lines::Lines;
use super::rows::{Row, columns};

columns! {
    need {
        JobId "job_id" "the job's id";
        Arrival "arrival_s" "submission in seconds";
        Gpus "scale_factor" "GPUs of the gang";
        Steps "total_steps" "iterations in all";
        JobType "job_type" "model with batch size, a row of the table of throughputs";
    }
    may {}
    unread {
        "jct_s" "seconds from arrival to end in that run";
    }
}

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "gavel-result",
    title: "per-job results of Gavel's simulator, for the jobs in them",
    columns: TABLE.columns,
    detect: |head| TABLE.fits(head),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    import.assume("the file is the result of a run; its jobs are read, and their completion times are not");
    let catalogue = Catalogue::of(import);
    TABLE.read(lines, import, |row| draft(row, &catalogue))
}

fn draft<'a>(row: &Row<'a, '_>, catalogue: &Catalogue) -> Result<Draft<'a>, Problem> {
    let name = row.filled(Key::JobId)?;
    let submitted = row.read(Key::Arrival, time_s)?;
    let gpus = row.read(Key::Gpus, gpu_count)?;
    let steps = row.read(Key::Steps, |field, value| number_within(field, value, 1.0, MOST_ITERATIONS))?;
    let draft = catalogue.draft(submitted, row.filled(Key::JobType)?, gpus, steps)?;
    Ok(Draft { name: Some(name), ..draft })
}

#[cfg(test)]
mod tests {
    use crate::trace::{Options, dropped_places, read_from};

    #[test]
    fn the_jobs_are_those_of_the_trace_and_bad_rows_are_dropped() {
        let text = "job_id,arrival_s,scale_factor,total_steps,job_type,jct_s\n\
            7,0.5,1,1000,\"A3C\",99\n8,0.5,16,1000,\"A3C\",99\n9,0.5,1,0,\"A3C\",99\n10,x,1,5,A3C,\n";
        let read = read_from("run.csv", text.as_bytes(), &Options::default()).unwrap();
        let trace = "A3C\tpython3\t--max-steps\t1\t1000\t0.5\t1\n";
        let trace = read_from("a.trace", trace.as_bytes(), &Options::default()).unwrap();
        assert_eq!(read.jobs.len(), 1);
        assert_eq!(&*read.jobs[0].0.name, "7");
        assert_eq!(
            (&read.jobs[0].0.declared, &read.jobs[0].1),
            (&trace.jobs[0].0.declared, &trace.jobs[0].1)
        );
        let places = ["run.csv:3: job type A3C on 16", "run.csv:4: total_steps 0", "run.csv:5: arrival_s x"];
        assert_eq!(dropped_places(&read), places);
    }
}
