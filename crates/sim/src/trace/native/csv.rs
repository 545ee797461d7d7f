//! The native format as CSV: a header of known columns in any order, then one row a job.

use super::super::error::{TraceError, nearest, shortened};
use super::super::fields::{Header, Splitter};
use super::super::import::Import;
use super::super::lines::Lines;
use super::super::{Format, header_has};
use super::{ALWAYS_REQUIRED, COLUMNS, Key, REQUIRED, Texts, take};

/// The entry of the table of formats.
pub(crate) const FORMAT: Format = Format {
    name: "native",
    title: "Trainyard's own CSV",
    columns: COLUMNS,
    detect: |head| header_has(head.line, &["job_id", "submit_s"]),
    read,
};

fn read(lines: &mut Lines<'_>, import: &mut Import<'_>) -> Result<(), TraceError> {
    let header = Header::read(lines)?;
    let is_known = |name: &str| COLUMNS.iter().any(|column| column.name == name);
    if let Some(column) = header.names().iter().find(|name| !is_known(name)) {
        return Err(TraceError::UnknownColumn {
            file: lines.file().to_owned(),
            line: header.line(),
            column: shortened(column, 60),
            hint: nearest(column, COLUMNS.iter().map(|column| column.name)),
        });
    }
    let has_graphs = header.find(COLUMNS[Key::Graph as usize].name).is_some();
    for column in &COLUMNS[..if has_graphs { ALWAYS_REQUIRED } else { REQUIRED }] {
        header.need(lines, column.name)?;
    }
    let mut places = [None; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header.find(column.name);
    }
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b','));
        let texts = row.and_then(|record| {
            record.expect(header.len())?;
            Ok(Texts(places.map(|place| place.map_or("", |place| record.get(place)))))
        });
        take(import, line.number, line.bytes, texts)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trainyard_sched::model::{
        Accuracy, GpuTypeId, GpuTypeSet, Job, MoveCost, Parallelism, PriorityClass, Relaxing, Resources,
        Span, StopRule, Time, Topology, Urgency, WorkerRange,
    };

    use super::*;
    use crate::trace::{Declaring, Options, read_from};
    use crate::truth::{Ending, Truth};
    use crate::workload::{Done, Workload};

    fn read_text(text: &str) -> Result<Workload, TraceError> {
        read_from("own.csv", text.as_bytes(), &Options::default())
    }

    fn only(text: &str) -> (Arc<Job>, Truth) {
        read_text(text).unwrap().jobs.remove(0)
    }

    #[test]
    fn four_columns_are_enough() {
        let (job, truth) = only("job_id,submit_s,duration_s,gpus\na,1.5,60,4\n");
        assert_eq!((&*job.name, job.submitted), ("a", Time(1_500_000)));
        assert_eq!(job.shape, Parallelism::gang(4));
        assert_eq!(truth, Truth::lasting(Span::from_secs(60), 4));
        assert_eq!(job.declared.duration(), Some(Span::from_secs(60)));
    }

    #[test]
    fn every_column_finds_its_place() {
        let header: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let row = "j,1,60,4,team,v100|p100|v100,4,2.5,16,1,2,8,true,-3,0.5,100,bert,failed,5,7,600,90,7200,120,,,geometric 2 0.9 1,0.01,lower,linear,1,,7,0.9,at_peak,peak_to_accuracy,weibull 0.1 0.9 50 1,,,,";
        let (job, truth) = only(&format!("{}\n{row}\n", header.join(",")));
        let memory_bytes = 16_000_000_000;
        let worker = Resources { cpu_milli: 2500, memory_bytes, ..Resources::gpus(1) };
        assert_eq!(job.shape, Parallelism::elastic(WorkerRange { min: 2, max: 8 }, worker));
        assert_eq!(job.wanted.gpu_types, GpuTypeSet::of(&[GpuTypeId(0), GpuTypeId(1)]));
        assert_eq!(job.wanted.topology, Topology::SameNode);
        assert_eq!((job.goals.class, job.goals.weight), (PriorityClass(-3), 0.5));
        assert_eq!(job.goals.deadline, Some(Time::from_secs(100)));
        assert_eq!((job.goals.urgency, job.goals.accuracy), (Urgency(7), Some(Accuracy(0.9))));
        let relaxing = Relaxing { peak_to_accuracy: true, ..Relaxing::NONE };
        assert_eq!((job.goals.stop, job.goals.may_relax), (StopRule::AtPeak, relaxing));
        let checkpoint_every = Some(Span::from_secs(600));
        let (save, load) = (Span::from_secs(5), Span::from_secs(7));
        let cost = MoveCost { save, load, checkpoint_every, ..MoveCost::default() };
        assert_eq!((job.move_cost, truth.move_cost), (cost, cost));
        assert_eq!((truth.ending, truth.iterations), (Ending::Failed, 120.0));
        // 90 s are claimed on 4 GPUs; the smallest gang of 2 takes twice as long.
        assert_eq!(job.declared.duration(), Some(Span::from_secs(180)));
        assert_eq!(job.declared.limit, Some(Span::from_secs(7200)));
        let loss = truth.loss.unwrap();
        assert!((loss.course.loss(1.0) - 2.8).abs() < 1e-12);
        assert!(loss.accuracy(0.0).is_some_and(|accuracy| (accuracy - 0.1).abs() < 1e-12));
        assert_eq!(job.declared.loss.target, Some(1.0));
    }

    #[test]
    fn workers_may_have_several_gpus_a_part_of_one_or_none() {
        let head = "job_id,submit_s,duration_s,gpus,workers,cpus,gpu_share,min_gpus,max_gpus";
        let rows = "pods,0,9,16,2,,,8,24\nshares,0,9,3,,,0.5,,\nfarm,0,9,0,128,1,,64,\n";
        let read = read_text(&format!("{head}\n{rows}")).unwrap();
        let shape = |i: usize| read.jobs[i].0.shape.data_parallel().copied().unwrap();
        let workers = |min, max| WorkerRange { min, max };
        assert_eq!((shape(0).workers, shape(0).worker), (workers(1, 3), Resources::gpus(8)));
        let half = Resources { gpu_milli: 500, ..Resources::NONE };
        assert_eq!((shape(1).workers, shape(1).worker), (workers(3, 3), half));
        assert_eq!((shape(2).workers, shape(2).worker), (workers(64, 128), Resources::cpus(1)));
        for odd in
            ["a,0,9,3,2,,,,", "b,0,9,16,2,,0.5,,", "c,0,9,16,2,,,4,", "d,0,9,16,2,,,,20", "e,0,9,0,2,,,,"]
        {
            assert!(read_text(&format!("{head}\n{odd}\n")).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_limit_alone_is_all_that_is_declared() {
        let text = "job_id,submit_s,duration_s,gpus,limit_s,declared_s\na,0,60,1,3600,\nb,0,60,1,3600,50\nc,0,60,1,,\n";
        let read = read_text(text).unwrap();
        let declared = |i: usize| read.jobs[i].0.declared.duration();
        assert_eq!([declared(0), declared(1), declared(2)], [3600, 50, 60].map(|s| Some(Span::from_secs(s))));
        assert_eq!(read.jobs[0].0.declared.iterations, None);
    }

    #[test]
    fn an_unknown_column_is_an_error_with_a_suggestion() {
        let error = read_text("job_id,submit_s,duration_s,gpus,tennant\n").unwrap_err();
        assert_eq!(error.to_string(), "own.csv:1: unknown column `tennant`; did you mean `tenant`?");
        let error = read_text("job_id,submit_s,gpus\n").unwrap_err();
        assert!(matches!(error, TraceError::MissingColumn { column: "duration_s", .. }));
        let error = read_text("job_id,submit_s,duration_s,gpus,gpus\n").unwrap_err();
        assert!(matches!(error, TraceError::RepeatedColumn { .. }));
    }

    #[test]
    fn a_file_without_jobs_is_an_error() {
        assert!(matches!(read_text(""), Err(TraceError::Empty { .. })));
        let header_only = read_text("job_id,submit_s,duration_s,gpus\n\n");
        assert!(matches!(header_only, Err(TraceError::HeaderOnly { .. })));
        let error = read_text("job_id,submit_s,duration_s,gpus\na,0,1,four\n").unwrap_err();
        assert!(error.to_string().contains("own.csv:2: gpus four"), "{error}");
    }

    #[test]
    fn odd_demands_are_dropped_one_by_one() {
        let header = "job_id,submit_s,duration_s,gpus,cpus,gpu_share,min_gpus,max_gpus";
        let rows = [
            "ok,0,9,1,,0.25,,",
            "cpu,0,9,0,4,,,",
            "a,0,9,-1,,,,",
            "b,0,9,2.5,,,,",
            "c,0,9,1e309,,,,",
            "d,0,9,NaN,,,,",
            "e,0,9,0,,,,",
            "f,0,9,2,,0.0005,,",
            "g,0,9,4,,,8,",
            "h,0,9,4,,,,2",
            "i,0,9,1,,1.5,,",
            "j,0,0,1,,,,",
            "k,0,-5,1,,,,",
            "l,-1,5,1,,,,",
            ",0,9,1,,,,",
            "m,0,9,1,,,",
        ];
        let read = read_text(&format!("{header}\n{}\n", rows.join("\n"))).unwrap();
        let kept: Vec<&str> = read.jobs.iter().map(|(job, _)| &*job.name).collect();
        assert_eq!(kept, ["ok", "cpu"]);
        assert_eq!(read.jobs[0].0.shape.minimum().gpu_milli, 250);
        let dropped: u64 =
            read.report.findings.iter().filter(|f| f.done == Done::Dropped).map(|f| f.count).sum();
        assert_eq!(dropped, rows.len() as u64 - 2);
    }

    #[test]
    fn an_unknown_gpu_type_is_an_error_that_lists_the_known_ones() {
        let options = Options { gpu_types: vec!["h100".into(), "k80".into()], ..Options::default() };
        let text = "job_id,submit_s,duration_s,gpus,gpu_types\na,0,9,1,K80\nb,0,9,1,h900\n";
        let error = read_from("own.csv", text.as_bytes(), &options).unwrap_err();
        let told = "own.csv:3: gpu_types `h900`: the cluster has no `h900`, and no --map renames it; did you mean `h100`?";
        assert_eq!(error.to_string(), told);
    }

    #[test]
    fn an_unknown_status_is_kept_and_said() {
        let read = read_text("job_id,submit_s,duration_s,gpus,status\na,0,9,1,suspended\n").unwrap();
        assert_eq!(read.jobs[0].1.ending, Ending::Completed);
        let said = &read.report.findings[0];
        assert_eq!(
            (said.done, said.examples.as_slice()),
            (Done::Assumed, &["own.csv:2: status suspended".to_owned()][..])
        );
    }

    #[test]
    fn noise_depends_on_the_job_and_the_seed_but_not_on_other_jobs() {
        let declared = Declaring::Noisy { spread: 0.5 };
        let read = |text: &str, seed| {
            let options =
                Options { declared, seed: trainyard_sched::model::Seed(seed), ..Options::default() };
            let read = read_from("own.csv", text.as_bytes(), &options).unwrap();
            read.jobs.last().unwrap().0.declared.iterations.unwrap()
        };
        let alone = "job_id,submit_s,duration_s,gpus\nb,2,100,1\n";
        let both = "job_id,submit_s,duration_s,gpus\na,1,100,1\nb,2,100,1\n";
        assert_eq!(read(alone, 7), read(both, 7));
        assert_ne!(read(alone, 7), read(alone, 8));
        assert_ne!(read(alone, 7), 100.0);
        assert_ne!(read(alone, 7), read(&alone.replace("b,", "a,"), 7), "each job has its own noise");
        let absent = Options { declared: Declaring::Absent, ..Options::default() };
        let jobs = read_from("own.csv", alone.as_bytes(), &absent).unwrap().jobs;
        assert_eq!(jobs[0].0.declared.duration(), None);
    }

    #[test]
    fn equal_times_keep_the_order_of_the_file() {
        let rows: Vec<String> = (0..50).map(|i| format!("j{},0,9,1", (i * 7) % 50)).collect();
        let read = read_text(&format!("job_id,submit_s,duration_s,gpus\n{}", rows.join("\n"))).unwrap();
        assert!(read.jobs.iter().enumerate().all(|(i, (job, _))| *job.name == format!("j{}", (i * 7) % 50)));
    }

    #[test]
    fn a_row_that_is_not_text_is_dropped_with_its_line() {
        let mut bytes = b"job_id,submit_s,duration_s,gpus,tenant\na,0,9,1,M\xfcller\nb,0,9,1,x\0y\n".to_vec();
        bytes.extend(b"c,0,9,1,ok\n");
        let read = read_from("own.csv", &bytes[..], &Options::default()).unwrap();
        assert_eq!(read.report.kept, 1);
        let places: Vec<&String> = read.report.findings.iter().flat_map(|f| &f.examples).collect();
        assert!(places[0].starts_with("own.csv:2:") && places[1].starts_with("own.csv:3"), "{places:?}");
    }
}
