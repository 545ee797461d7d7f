//! What the native format says of speeds by GPU type: how fast the whole job goes on GPUs of one type, alone. Speeds beside other
//! jobs depend on these and cannot be written; they are in tables of throughputs.

use std::sync::Arc;

use trainyard_sched::model::{GPU, GpuTypeId, GpuTypeSet, Rates, Resources, Span};

use super::super::error::TraceError;
use super::super::fields::{GPU_LIMIT, Problem, number_within, whole};
use super::super::import::Import;
use super::{Key, Texts};
use crate::physics::{Locality, ThroughputTable};
use crate::truth::{Speed, Truth};

/// How far `duration_s` may be from what a speed says, as a part of it.
const AGREEMENT: f64 = 1e-3;
/// More iterations a second than any job does.
const MOST_PER_S: f64 = 1e9;
/// The word for workers on several nodes.
const APART: &str = "apart";

/// Speeds as a row names them.
pub(super) struct Profile {
    table: ThroughputTable,
    /// All types that the trace or the cluster has, by number.
    gpu_types: Vec<Arc<str>>,
    /// Whether all of these are known before the trace is read.
    is_closed: bool,
}

/// What follows from them for a job.
pub(super) struct Speeds {
    /// What is declared.
    pub(super) rates: Option<Arc<Rates>>,
    /// The types on which it can run.
    pub(super) gpu_types: GpuTypeSet,
    /// The time of one iteration where the run time in the columns was measured, and on the smallest gang there.
    pub(super) iteration: (Span, Span),
}

/// Reads the column. A type that is not there ends the reading, as in `gpu_types`; other nonsense costs the row.
pub(super) fn read(
    import: &mut Import<'_>,
    line: u64,
    texts: &Texts<'_>,
) -> Result<Result<Option<Profile>, Problem>, TraceError> {
    let (field, text) = texts.get(Key::Rates);
    if text.is_empty() {
        return Ok(Ok(None));
    }
    let mut table = ThroughputTable::default();
    let row = table.intern(texts.get(Key::Model).1);
    for words in text.split('|') {
        let figure = match figure(field, words, texts) {
            Ok(figure) => figure,
            Err(problem) => return Ok(Err(problem)),
        };
        let set = import.gpu_types(line, figure.gpu_type)?;
        let index = (0..import.gpu_types.len()).find(|i| set.has(GpuTypeId(*i as u8)));
        let name = Arc::clone(&import.gpu_types[index.unwrap_or_default()]);
        let known = table.figures().any(|(_, gpu_type, gpus, apart, _)| {
            (gpu_type, gpus, apart) == (&*name, figure.gpus, figure.is_apart)
        });
        if known {
            return Ok(Err(Problem::new("rates has two figures for the same GPUs", field, words)));
        }
        table.insert(row, &name, figure.gpus, figure.is_apart, figure.per_s);
    }
    let is_closed = !import.options.gpu_types.is_empty();
    Ok(Ok(Some(Profile { table, gpu_types: import.gpu_types.clone(), is_closed })))
}

/// `TYPE [xGPUS] [apart] RATE`.
struct Figure<'a> {
    gpu_type: &'a str,
    gpus: u32,
    is_apart: bool,
    per_s: f64,
}

fn figure<'a>(field: &str, words: &'a str, texts: &Texts<'_>) -> Result<Figure<'a>, Problem> {
    let odd = || Problem::new("rates is not made of `TYPE RATE` or `TYPE xGPUS apart RATE`", field, words);
    let (rest, rate) = words.trim().rsplit_once(char::is_whitespace).ok_or_else(odd)?;
    let per_s = number_within(field, rate, 0.0, MOST_PER_S)?;
    let rest = rest.trim_end();
    let (rest, is_apart) = match rest.strip_suffix(APART) {
        Some(before) if before.ends_with(char::is_whitespace) => (before.trim_end(), true),
        _ => (rest, false),
    };
    let gang = rest.rsplit_once(char::is_whitespace).and_then(|(before, gang)| {
        let gpus = gang.strip_prefix('x').filter(|gpus| gpus.starts_with(|c: char| c.is_ascii_digit()))?;
        Some((before.trim_end(), gpus))
    });
    let (gpu_type, gpus) = match gang {
        Some((gpu_type, gpus)) => (gpu_type, whole(field, gpus, 1.0, GPU_LIMIT)?),
        None => (rest, texts.required(Key::Gpus, |field, text| whole(field, text, 0.0, GPU_LIMIT))?),
    };
    let is_name = !gpu_type.is_empty() && !gpu_type.contains(char::is_whitespace);
    if is_name { Ok(Figure { gpu_type, gpus: gpus as u32, is_apart, per_s }) } else { Err(odd()) }
}

impl Profile {
    /// Makes a job go at these speeds, where the truth is what the other columns say of it.
    pub(super) fn apply(
        self,
        texts: &Texts<'_>,
        truth: &mut Truth,
        (wanted, duration): (GpuTypeSet, Span),
        (workers, least, worker): (u32, u32, Resources),
    ) -> Result<Speeds, Problem> {
        let (field, text) = texts.get(Key::Rates);
        let wrong = |what: &str| Problem::new(what, field, text);
        if worker.gpu_milli != GPU {
            return Err(wrong("rates are of jobs whose workers have one whole GPU each"));
        }
        if !texts.get(Key::Work).1.is_empty() {
            return Err(wrong("rates and work_s both say how fast the job is; leave one out"));
        }
        let iterations = texts.optional(Key::Iterations, super::training::iterations)?;
        let iterations = iterations.ok_or_else(|| wrong("rates needs iterations beside it"))?;
        let per_s = |gpu_type: &str, gpus| self.table.per_s(0, gpu_type, gpus, Locality::Node);
        let known = |(i, name): (usize, &Arc<str>)| per_s(name, workers).map(|per_s| (i, per_s));
        let there: Vec<(usize, f64)> = self.gpu_types.iter().enumerate().filter_map(known).collect();
        let off = |per_s: f64| (iterations / per_s - duration.as_secs_f64()).abs();
        let nearest = there.iter().min_by(|a, b| off(a.1).total_cmp(&off(b.1)));
        let &(reference, fastest) =
            nearest.ok_or_else(|| wrong("rates says of no type how fast the job is on its gpus"))?;
        if off(fastest) > AGREEMENT * iterations / fastest + 1e-6 {
            let what =
                format!("duration_s is not iterations over one of rates; {:.6} s is", iterations / fastest);
            let (field, text) = texts.get(Key::Duration);
            return Err(Problem::new(what, field, text));
        }
        let types: Vec<GpuTypeId> = there.iter().map(|(i, _)| GpuTypeId(*i as u8)).collect();
        let strange = |i: usize| wanted.has(GpuTypeId(i as u8)) && !types.contains(&GpuTypeId(i as u8));
        let gpu_types = if wanted != GpuTypeSet::ALL {
            if (0..self.gpu_types.len()).any(strange) {
                return Err(wrong("gpu_types has a type of which rates says nothing"));
            }
            wanted
        } else if self.is_closed && types.len() == self.gpu_types.len() {
            GpuTypeSet::ALL
        } else {
            GpuTypeSet::of(&types)
        };
        let on_least = per_s(&self.gpu_types[reference], least);
        let on_least = on_least.unwrap_or(fastest * f64::from(least) / f64::from(workers));
        let span = |per_s: f64| Span::from_secs_f64(1.0 / per_s);
        let rates = self.table.rates(0, &self.gpu_types, None, |_| None).shared();
        truth.iterations = iterations;
        truth.speed = Speed::Table { table: Arc::new(self.table), row: 0 };
        Ok(Speeds { rates, gpu_types, iteration: (span(fastest), span(on_least)) })
    }
}

/// The column for a job that goes by a row of a table.
pub(crate) fn text(table: &ThroughputTable, row: u32) -> String {
    let of_row = table.figures().filter(|(of, ..)| *of == row);
    let each = of_row.map(|(_, gpu_type, gpus, apart, per_s)| {
        let apart = if apart { " apart" } else { "" };
        format!("{gpu_type} x{gpus}{apart} {per_s}")
    });
    each.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::GpuTypeId;

    use super::*;
    use crate::trace::{Options, read_from};
    use crate::workload::Workload;

    const HEAD: &str = "job_id,submit_s,duration_s,gpus,iterations,gpu_types,rates\n";

    fn read_text(rows: &str, options: &Options) -> Result<Workload, TraceError> {
        read_from("own.csv", format!("{HEAD}{rows}").as_bytes(), options)
    }

    fn three_types() -> Options {
        Options { gpu_types: vec!["v100".into(), "p100".into(), "k80".into()], ..Options::default() }
    }

    #[test]
    fn a_job_goes_at_its_rates_and_declares_them() {
        let text = "a,0,100,2,400,,K80 1|V100 4|v100 x1 2.5|v100 apart 3|p100 0\n";
        let read = read_text(text, &three_types()).unwrap();
        let (job, truth) = &read.jobs[0];
        let rates = job.declared.rates.as_ref().unwrap();
        let per_s = |i, workers, spread| rates.per_s(GpuTypeId(i), workers, spread);
        assert_eq!(
            (per_s(0, 2, false), per_s(0, 2, true), per_s(0, 1, false)),
            (Some(4.0), Some(3.0), Some(2.5))
        );
        assert_eq!((per_s(1, 2, false), per_s(2, 2, false)), (Some(0.0), Some(1.0)));
        assert_eq!(job.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0), GpuTypeId(2)]), "not on P100");
        assert_eq!((truth.iterations, job.declared.duration()), (400.0, Some(Span::from_secs(100))));
        let Speed::Table { table, row } = &truth.speed else { panic!("{truth:?}") };
        assert_eq!(table.per_s(*row, "v100", 2, Locality::Rack), Some(3.0));
        let slow = read_text(&text.replace(",100,2", ",400,2"), &three_types()).unwrap();
        assert_eq!(slow.jobs[0].0.declared.duration(), Some(Span::from_secs(400)), "that is on K80");
    }

    #[test]
    fn nonsense_costs_the_row_and_says_where() {
        for (row, told) in [
            ("a,0,100,1,100,,v100 -1", "rates is not between 0 and"),
            ("a,0,100,1,100,,v100 NaN", "rates"),
            ("a,0,100,1,100,,v100 inf", "rates"),
            ("a,0,100,1,100,,v100 1e400", "rates"),
            ("a,0,100,1,100,,v100 fast", "rates"),
            ("a,0,100,1,100,,v100", "TYPE RATE"),
            ("a,0,100,1,100,,|", "TYPE RATE"),
            ("a,0,100,1,100,,v100 1|", "TYPE RATE"),
            ("a,0,100,1,100,,v100 k80 1", "TYPE RATE"),
            ("a,0,100,1,100,,apart 1", "cluster has no `apart`"),
            ("a,0,100,1,100,,v100 x0 1", "rates is not between 1 and"),
            ("a,0,100,1,100,,v100 x1.5 1", "not a whole number"),
            ("a,0,100,1,100,,v100 1|V100 x1 2", "two figures"),
            ("a,0,100,1,,,v100 1", "needs iterations"),
            ("a,0,100,2,100,,v100 x1 1", "of no type"),
            ("a,0,100,1,100,,v100 0", "of no type"),
            ("a,0,90,1,100,,v100 1", "100.000000 s is"),
            ("a,0,100,1,100,k80,v100 1", "says nothing"),
            ("a,0,100,1,100,,v100 1|h900 2", "the cluster has no `h900`"),
        ] {
            let error = read_text(&format!("{row}\n"), &three_types()).unwrap_err().to_string();
            assert!(error.contains("own.csv:2:") && error.contains(told), "{row}: {error}");
        }
        let repeated = "job_id,submit_s,duration_s,gpus,rates,rates\n";
        let error = read_from("own.csv", repeated.as_bytes(), &Options::default()).unwrap_err();
        assert!(matches!(error, TraceError::RepeatedColumn { .. }), "{error}");
        let shared = "job_id,submit_s,duration_s,gpus,iterations,gpu_share,rates\na,0,9,1,9,0.5,v100 1\n";
        let error = read_from("own.csv", shared.as_bytes(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains("one whole GPU each"), "{error}");
    }

    #[test]
    fn types_are_those_of_the_trace_where_no_cluster_is_known() {
        let read = read_text("a,0,100,1,100,,k80 1\nb,1,50,1,100,,v100 2\n", &Options::default()).unwrap();
        assert_eq!(read.gpu_types, ["k80".into(), "v100".into()]);
        assert_eq!(read.jobs[0].0.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0)]));
        assert_eq!(read.jobs[1].0.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(1)]));
    }

    #[test]
    fn rows_of_json_have_rates_as_a_list() {
        let row = r#"{"job_id": 1, "submit_s": 0, "duration_s": 50, "gpus": 1, "iterations": 100, "rates": ["v100 2", "k80 1"]}"#;
        let json = read_from("own.jsonl", row.as_bytes(), &three_types()).unwrap();
        let csv = read_text("1,0,50,1,100,,v100 2|k80 1\n", &three_types()).unwrap();
        assert_eq!(json.jobs, csv.jobs);
    }
}
