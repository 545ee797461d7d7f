//! Writes a workload as native CSV. What that format cannot say is an error, never left out in silence.

use std::io::Write;

use trainyard_sched::model::{
    DataParallel, GPU, Goals, GpuTypeSet, Job, MoveCost, Parallelism, Span, SpeedFunction, TaskGraph,
    Topology, Wanted,
};

use super::native::{
    COLUMNS, ENDINGS, Key, graph_texts, rates_text, relaxing_text, stop_text, training_texts,
};
use crate::physics::Locality;
use crate::truth::{Speed, Truth};
use crate::workload::Workload;

const BYTES_PER_GB: f64 = 1e9;

/// Why a workload cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A job that the format cannot express.
    #[error("job `{job}` cannot be written as native CSV: {what}")]
    NotExpressible {
        /// The job's name.
        job: String,
        /// What the format lacks.
        what: &'static str,
    },
    /// The output takes no more.
    #[error("writing the trace failed at job `{job}`; check the free space")]
    Output {
        /// The job's name.
        job: String,
        /// The cause.
        source: csv::Error,
    },
    /// The output takes no more at the end.
    #[error("writing the trace failed at its end; check the free space")]
    End(#[source] std::io::Error),
}

/// What was not written, because readers may get it elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Jobs whose speeds beside other jobs on the same GPUs are known. Tables of throughputs have these.
    pub beside: u64,
}

/// Writes all jobs in the order of their ids.
///
/// A declaration is written where it differs from the truth. That a job declares nothing cannot be written:
/// whoever reads the file says what jobs declare.
pub fn write_csv(workload: &Workload, output: impl Write) -> Result<Unwritten, WriteError> {
    let mut unwritten = Unwritten::default();
    let mut writer = csv::Writer::from_writer(output);
    let header = writer.write_record(COLUMNS.iter().map(|column| column.name));
    header.map_err(|source| WriteError::Output { job: "(header)".to_owned(), source })?;
    for (job, truth) in &workload.jobs {
        let fields = fields(workload, job, truth)
            .map_err(|what| WriteError::NotExpressible { job: job.name.to_string(), what })?;
        let beside = matches!(&truth.speed, Speed::Table { table, .. } if table.has_pairs());
        unwritten.beside += u64::from(beside);
        writer
            .write_record(&fields)
            .map_err(|source| WriteError::Output { job: job.name.to_string(), source })?;
    }
    writer.flush().map_err(WriteError::End)?;
    Ok(unwritten)
}

/// The fields of one row.
struct Row([String; COLUMNS.len()]);

impl Row {
    fn put(&mut self, key: Key, text: impl Into<String>) {
        self.0[key as usize] = text.into();
    }

    /// Puts what is not as usual.
    fn unless(&mut self, usual: bool, key: Key, text: impl ToString) {
        if !usual {
            self.put(key, text.to_string());
        }
    }

    fn put_all<const N: usize>(&mut self, fields: [(Key, String); N]) {
        for (key, text) in fields {
            self.put(key, text);
        }
    }
}

fn seconds(span: Span) -> String {
    span.as_secs_f64().to_string()
}

/// The fields in the order of the columns.
fn fields(workload: &Workload, job: &Job, truth: &Truth) -> Result<[String; COLUMNS.len()], &'static str> {
    let mut row = Row(std::array::from_fn(|_| String::new()));
    check(job, truth)?;
    let [iterations, work, fixed, loss, noise, better, convergence, target, accuracy] =
        training_texts(truth, &job.declared.loss)?;
    row.put_all([
        (Key::Iterations, iterations),
        (Key::Work, work),
        (Key::Fixed, fixed),
        (Key::Loss, loss),
        (Key::LossNoise, noise),
        (Key::Better, better),
        (Key::Convergence, convergence),
        (Key::TargetLoss, target),
        (Key::Accuracy, accuracy),
    ]);
    match &job.shape {
        Parallelism::DataParallel(shape) => workers(&mut row, workload, job, shape, truth)?,
        Parallelism::TaskGraph(graph) => tasks(&mut row, job, graph, truth)?,
    }
    let tenant = workload.tenants.get(job.tenant).map_or("", |tenant| &tenant.name);
    let model = job.model.and_then(|model| workload.models.get(model.index()));
    let status = ENDINGS.iter().find(|(_, ending)| *ending == truth.ending).map_or("", |(word, _)| word);
    row.put(Key::JobId, &*job.name);
    row.put(Key::Submit, job.submitted.as_secs_f64().to_string());
    row.put(Key::Tenant, tenant);
    row.put(Key::GpuTypes, gpu_types(workload, job.wanted)?);
    row.unless(job.wanted.topology == Topology::Anywhere, Key::SameNode, true);
    row.put(Key::Model, model.cloned().unwrap_or_default());
    row.put(Key::Status, status);
    // Nobody said that moving costs nothing; left empty, the run that reads the trace may say what it costs.
    let free_to_move = truth.move_cost == MoveCost::default();
    row.unless(free_to_move, Key::Save, seconds(truth.move_cost.save));
    row.unless(free_to_move, Key::Load, seconds(truth.move_cost.load));
    row.put(Key::Checkpoint, truth.move_cost.checkpoint_every.map_or_else(String::new, seconds));
    row.put(Key::Limit, job.declared.limit.map_or_else(String::new, seconds));
    goals(&mut row, &job.goals);
    Ok(row.0)
}

/// What the job is for.
fn goals(row: &mut Row, goals: &Goals) {
    row.unless(goals.class.0 == 0, Key::Class, goals.class.0);
    row.unless(goals.weight == 1.0, Key::Weight, goals.weight);
    row.unless(goals.urgency.0 == 0, Key::Urgency, goals.urgency.0);
    let deadline = goals.deadline.map(|deadline| deadline.as_secs_f64().to_string());
    row.put(Key::Deadline, deadline.unwrap_or_default());
    row.put(Key::RequiredAccuracy, goals.accuracy.map(|needed| needed.0.to_string()).unwrap_or_default());
    row.put(Key::Stop, stop_text(goals.stop));
    row.put(Key::MayRelax, relaxing_text(goals.may_relax));
}

/// What there is to say of equal workers.
fn workers(
    row: &mut Row,
    workload: &Workload,
    job: &Job,
    shape: &DataParallel,
    truth: &Truth,
) -> Result<(), &'static str> {
    let (workers, honest) = workers_and_length(job, shape, truth)?;
    check_workers(shape)?;
    row.put(Key::Rates, rates(workload, job, truth)?);
    let each = shape.worker.gpu_milli;
    // GPUs in the columns are those of all workers; a job without GPUs counts its workers.
    let per_worker = each.div_ceil(GPU).max(1);
    let gpus = if each == 0 { 0 } else { u64::from(workers) * per_worker };
    let share = if each == 0 || each >= GPU { 1.0 } else { each as f64 / 1e3 };
    let limit = job.declared.limit;
    let claimed = job.declared.iterations.map(|count| honest.scaled(count / truth.iterations));
    // With a limit, an empty field means that nothing else is declared.
    let claimed = claimed.filter(|span| *span != honest || limit.is_some());
    let range = |count: u32| u64::from(count) * per_worker;
    let (cpu_milli, memory_bytes) = (shape.worker.cpu_milli, shape.worker.memory_bytes);
    row.put(Key::Duration, seconds(honest));
    row.put(Key::Gpus, gpus.to_string());
    row.unless(u64::from(workers) == gpus.max(1), Key::Workers, workers);
    row.unless(cpu_milli == 0, Key::Cpus, cpu_milli as f64 / 1e3);
    row.unless(memory_bytes == 0, Key::Memory, memory_bytes as f64 / BYTES_PER_GB);
    row.unless(share == 1.0, Key::Share, share);
    row.unless(shape.workers.min == workers, Key::MinGpus, range(shape.workers.min));
    row.unless(shape.workers.max == workers, Key::MaxGpus, range(shape.workers.max));
    row.put(Key::Declared, claimed.map_or_else(String::new, seconds));
    Ok(())
}

/// What there is to say of tasks.
fn tasks(row: &mut Row, job: &Job, graph: &TaskGraph, truth: &Truth) -> Result<(), &'static str> {
    if job.declared.rates.is_some() {
        return Err("it is a graph of tasks and declares speeds by GPU type");
    }
    let texts = graph_texts(graph, truth, &job.declared)?;
    row.put_all([
        (Key::Graph, texts.graph),
        (Key::Duration, texts.duration),
        (Key::Gpus, texts.gpus),
        (Key::Pace, texts.pace),
        (Key::Wander, texts.wander),
        (Key::Declared, texts.declared_s),
        (Key::DeclaredIterations, texts.declared_iterations),
    ]);
    Ok(())
}

/// How many workers the run time in the columns belongs to, and that run time.
fn workers_and_length(job: &Job, shape: &DataParallel, truth: &Truth) -> Result<(u32, Span), &'static str> {
    match &truth.speed {
        Speed::Fixed { iteration, workers } => Ok((*workers, iteration.scaled(truth.iterations))),
        Speed::Function(function @ SpeedFunction::WithFixedPart { .. }) => {
            let workers = shape.workers.min.max(1);
            let per_s = function.iterations_per_s(workers, 0);
            Ok((workers, Span::from_secs_f64(truth.iterations / per_s)))
        }
        Speed::Table { table, row } => {
            let workers = shape.workers.min;
            let names = table.figures().filter(|(of, _, gpus, ..)| (of, gpus) == (row, &workers));
            let speeds =
                names.filter_map(|(_, name, gpus, ..)| table.per_s(*row, name, gpus, Locality::Node));
            // What the owner takes an iteration to last belongs to one of the types.
            let said = job.declared.iteration.map_or(0.0, Span::as_secs_f64);
            let off = |per_s: &f64| (1.0 / per_s - said).abs();
            let per_s = speeds.min_by(|a, b| off(a).total_cmp(&off(b)));
            let per_s = per_s.ok_or("nothing is known of its speed on as many GPUs as it asks for")?;
            Ok((workers, Span::from_secs_f64(truth.iterations / per_s)))
        }
        _ => Err("its speed is neither in proportion to its workers nor that with a fixed part added"),
    }
}

/// Speeds by GPU type, which must be those that are declared.
fn rates(workload: &Workload, job: &Job, truth: &Truth) -> Result<String, &'static str> {
    let declared = job.declared.rates.as_deref();
    let Speed::Table { table, row } = &truth.speed else {
        let none = declared.is_none().then(String::new);
        return none.ok_or("it declares speeds by GPU type that are not its own");
    };
    if job.shape.data_parallel().is_none_or(|shape| shape.worker.gpu_milli != GPU) {
        return Err(
            "its speed is of a table of throughputs, and its workers have other than one whole GPU each",
        );
    }
    let own = table.rates(*row, &workload.gpu_types, None, |_| None);
    if declared.is_some_and(|declared| declared.alone() != own.alone()) {
        return Err("it declares speeds by GPU type that are not its own");
    }
    Ok(rates_text(table, *row))
}

/// Refuses what no column is for, whatever the shape.
fn check(job: &Job, truth: &Truth) -> Result<(), &'static str> {
    if job.declared.speed.is_some() {
        return Err("it declares its speed by size");
    }
    if job.goals.copies > 1 || !job.goals.movable {
        return Err("it may be forked into copies, or must not be moved");
    }
    if truth.move_cost.loses_when_stopped {
        return Err("it loses work when stopped");
    }
    if job.wanted.topology == Topology::SameRack || job.wanted.mixed_gpu_types {
        return Err("it wants one rack, or mixed GPU types");
    }
    Ok(())
}

/// Refuses what no column is for of equal workers.
fn check_workers(shape: &DataParallel) -> Result<(), &'static str> {
    if shape.server.is_some() {
        return Err("it has parameter servers");
    }
    if shape.worker.network_bytes_per_s > 0 {
        return Err("a worker needs network");
    }
    if shape.worker.gpu_milli > GPU && !shape.worker.gpu_milli.is_multiple_of(GPU) {
        return Err("a worker needs a part of a GPU besides whole ones");
    }
    Ok(())
}

/// The wanted types as `a|b`.
fn gpu_types(workload: &Workload, wanted: Wanted) -> Result<String, &'static str> {
    if wanted.gpu_types == GpuTypeSet::ALL {
        return Ok(String::new());
    }
    let has = |(i, name): (usize, &std::sync::Arc<str>)| {
        let id = trainyard_sched::model::GpuTypeId(i as u8);
        wanted.gpu_types.has(id).then(|| name.to_string())
    };
    let names: Vec<String> = workload.gpu_types.iter().enumerate().filter_map(has).collect();
    if names.is_empty() { Err("it wants GPU types that have no name") } else { Ok(names.join("|")) }
}

#[cfg(test)]
mod tests {
    use trainyard_sched::model::Seed;

    use super::*;
    use crate::generate::{Parameters, generate};
    use crate::trace::{Declaring, Options, read_from};

    fn round_trip(workload: &Workload) -> Workload {
        let mut text = Vec::new();
        write_csv(workload, &mut text).unwrap();
        read_from("written.csv", &text[..], &Options::default()).unwrap()
    }

    fn assert_same(back: &Workload, workload: &Workload) {
        assert_eq!(back.jobs.len(), workload.jobs.len());
        for (a, b) in back.jobs.iter().zip(&workload.jobs) {
            let tenant = |of: &Workload, job: &Job| of.tenants.get(job.tenant).unwrap().name.clone();
            assert_eq!(tenant(back, &a.0), tenant(workload, &b.0));
            let (mut job, truth) = a.clone();
            std::sync::Arc::make_mut(&mut job).tenant = b.0.tenant;
            assert_eq!((&job, &truth), (&b.0, &b.1));
        }
    }

    #[test]
    fn a_generated_workload_survives_the_round_trip() {
        let parameters =
            Parameters { preset: "philly".into(), jobs: Some(2000), seed: Seed(3), ..Parameters::default() };
        let workload = generate(&parameters).unwrap();
        assert_same(&round_trip(&workload), &workload);
    }

    #[test]
    fn every_column_survives_the_round_trip() {
        let text = "job_id,submit_s,duration_s,gpus,tenant,gpu_types,cpus,memory_gb,gpu_share,min_gpus,max_gpus,\
            same_node,class,weight,deadline_s,model,status,save_s,load_s,checkpoint_every_s,declared_s,limit_s,workers\n\
            \"a,\"\"x\",0.000001,60.25,4,t,v100|p100,2.5,16.5,,2,8,true,-3,0.5,100,bert,failed,5,7,600,90,,\n\
            b,1,9,1,u,p100,,,0.25,,,,,,,,killed,,,,,,\nc,2,9,0,t,,4,,,,,,,,,,,,,,,,\n\
            d,3,9,0,t,,1,2,,,,,,,,,censored,,,,,3600,128\ne,4,9,6,t,,,,0.5,3,12,,,,,,,,,,9,60,\n\
            f,5,9,16,t,,32,,,8,24,,,,,,,,,,,,2\n";
        let workload = read_from("own.csv", text.as_bytes(), &Options::default()).unwrap();
        let back = round_trip(&workload);
        assert_eq!(back.jobs, workload.jobs);
        assert_eq!((back.models, back.gpu_types), (workload.models, workload.gpu_types));
    }

    #[test]
    fn iterations_speeds_and_losses_survive_the_round_trip() {
        let text = "job_id,submit_s,duration_s,gpus,cpus,workers,min_gpus,max_gpus,declared_s,iterations,work_s,\
            fixed_s,loss,loss_noise,better,convergence,target_loss\n\
            a,0,105,0,1,4,4,640,,100,4,0.05,sublinear 0.5 1 0.5 2,0.01,,sublinear,2\n\
            b,1,60,2,,,,,90,1000,,,geometric -2 0.9 1,,higher,linear,\nc,2,60,1,,,,,,7,,,,,,non_convex,\n";
        let workload = read_from("own.csv", text.as_bytes(), &Options::default()).unwrap();
        let back = round_trip(&workload);
        assert_eq!(back.jobs, workload.jobs);
        let claimed = |i: usize| workload.jobs[i].0.declared.duration();
        assert_eq!([claimed(0), claimed(1)], [Some(Span::from_secs(105)), Some(Span::from_secs(90))]);
    }

    #[test]
    fn noisy_declarations_are_written() {
        let declared = Declaring::Noisy { spread: 1.0 };
        let workload = generate(&Parameters { declared, ..Parameters::default() }).unwrap();
        for (a, b) in round_trip(&workload).jobs.iter().zip(&workload.jobs) {
            let (a, b) = (a.0.declared.iterations.unwrap(), b.0.declared.iterations.unwrap());
            assert!((a - b).abs() <= 1e-6, "{a} against {b}");
        }
    }

    #[test]
    fn speeds_by_gpu_type_survive_the_round_trip() {
        let names = ["v100", "p100", "k80"].map(std::sync::Arc::from);
        let options = Options { gpu_types: names.to_vec(), ..Options::default() };
        let made = |preset: &str| {
            let (jobs, gpu_types) = (Some(60), options.gpu_types.clone());
            generate(&Parameters { preset: preset.into(), jobs, gpu_types, ..Parameters::default() }).unwrap()
        };
        // Of these it is known how fast they are when they are spread over nodes, too.
        let apart = "LM (batch size 5)\tpython3\t--steps\t1\t100000\t2\t1\n";
        let apart = read_from("apart.trace", apart.as_bytes(), &options).unwrap();
        let rates = apart.jobs[0].0.declared.rates.as_ref().unwrap();
        assert!(rates.alone().iter().any(|rate| rate.spread), "{rates:?}");
        for (preset, workload) in [("gavel", made("gavel")), ("gavel-b", made("gavel-b")), ("apart", apart)] {
            let mut text = Vec::new();
            write_csv(&workload, &mut text).unwrap();
            let back = read_from("written.csv", &text[..], &options).unwrap();
            assert_eq!(back.jobs.len(), workload.jobs.len());
            for ((a, own), (b, truth)) in back.jobs.iter().zip(&workload.jobs) {
                let declared = |job: &Job| job.declared.rates.as_ref().map(|rates| rates.alone().to_vec());
                assert!(declared(a).is_some_and(|rates| !rates.is_empty()), "{preset}: {}", a.name);
                assert_eq!(declared(a), declared(b), "{preset}: {}", a.name);
                assert_eq!(
                    (&a.shape, a.wanted, a.declared.iterations),
                    (&b.shape, b.wanted, b.declared.iterations)
                );
                let apart = a.declared.iteration.unwrap().0.abs_diff(b.declared.iteration.unwrap().0);
                assert!(apart <= 1, "{preset}: {}: {apart} us", a.name);
                assert_eq!(own.iterations, truth.iterations, "{preset}: {}", a.name);
                let (Speed::Table { table, row }, Speed::Table { table: theirs, row: other }) =
                    (&own.speed, &truth.speed)
                else {
                    panic!("{preset}: {}: {:?}", a.name, own.speed)
                };
                let figures = |table: &crate::physics::ThroughputTable, of: u32| {
                    let each = table.figures().filter(move |(row, ..)| *row == of);
                    let each =
                        each.map(|(_, name, gpus, apart, per_s)| (name.to_owned(), gpus, apart, per_s));
                    each.collect::<Vec<_>>()
                };
                assert_eq!(figures(table, *row), figures(theirs, *other));
            }
        }
    }

    /// Names of models are numbered as they come, and so are tenants; all else is the same.
    fn assert_same_graphs(back: &Workload, workload: &Workload) {
        assert_eq!(back.jobs.len(), workload.jobs.len());
        for ((job, truth), (own, own_truth)) in back.jobs.iter().zip(&workload.jobs) {
            let model = |of: &Workload, job: &Job| of.models[job.model.unwrap().index()].clone();
            assert_eq!(model(back, job), model(workload, own));
            let tenant = |of: &Workload, job: &Job| of.tenants.get(job.tenant).unwrap().name.clone();
            assert_eq!(tenant(back, job), tenant(workload, own));
            let renamed = Job { model: own.model, tenant: own.tenant, ..Job::clone(job) };
            assert_eq!((&renamed, truth), (&**own, own_truth));
        }
    }

    #[test]
    fn jobs_of_tasks_survive_the_round_trip_job_by_job() {
        let made = |preset: &str, jobs, options: &str, declared| {
            let options = options.parse().unwrap();
            let (preset, jobs) = (preset.to_owned(), Some(jobs));
            generate(&Parameters { preset, options, jobs, declared, seed: Seed(5), ..Parameters::default() })
                .unwrap()
        };
        for (preset, jobs, options) in [
            ("mlfs", 150, ""),
            ("mlfs-small", 60, "replicas = true\nown_iterations = 0.5"),
            ("mlfs-large", 150, "deadlines = \"literal\"\nwander = 0.0"),
            ("mlfs", 60, "prediction_error = 0.0"),
        ] {
            let workload = made(preset, jobs, options, Declaring::Exact);
            let back = round_trip(&workload);
            assert_same_graphs(&back, &workload);
            assert_same_graphs(&round_trip(&back), &workload);
        }
        for declared in [Declaring::Noisy { spread: 1.0 }, Declaring::Absent] {
            let workload = made("mlfs-small", 60, "", declared);
            assert_same_graphs(&round_trip(&workload), &workload);
        }
    }

    #[test]
    fn goals_and_accuracies_survive_the_round_trip() {
        let text = "job_id,submit_s,duration_s,gpus,loss,urgency,required_accuracy,stop,may_relax,accuracy,graph,iterations,pace,wander,limit_s,declared_s,declared_iterations\n\
            a,0,60,1,geometric 1 0.5 0,3,0.1,iterations 7,own_to_peak|own_to_accuracy,weibull 0.1 0.30000000000000004 5 1 9 0.001,,,,,,,\n\
            b,0,,,,0,,at_accuracy 0.75,,,gpu_milli=250 7 0.1|replica=1 7 0.1|torus 9|partial,3.5,1.25,0.9 0.1,100,7,\n\
            c,0,7,1,,255,1,own_iterations,,,gpu_milli=1000 0 3.5,,,0 0 18446744073709551615,,,5\n\
            d,1,,,,,,,,,cpu_milli=1 0 1e-3|0 0|0 0.5|1>2 1000000000000000000,2,,,60,,\n";
        let workload = read_from("own.csv", text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(workload.report.kept, 4, "{:?}", workload.report);
        assert_eq!(round_trip(&workload).jobs, workload.jobs);
    }

    #[test]
    fn speeds_beside_others_are_counted_as_not_written() {
        let trace = "A3C\tpython3\t--max-steps\t1\t1000\t1\t1\n";
        let options = Options { gpu_types: vec!["v100".into()], ..Options::default() };
        let workload = read_from("a.trace", trace.as_bytes(), &options).unwrap();
        assert_eq!(write_csv(&workload, Vec::new()).unwrap(), Unwritten { beside: 1 });
        let plain = generate(&Parameters { jobs: Some(3), ..Parameters::default() }).unwrap();
        assert_eq!(write_csv(&plain, Vec::new()).unwrap(), Unwritten::default());
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let trace = "A3C\tpython3\t--max-steps\t1\t1000\t1\t1\n";
        let options = Options { gpu_types: vec!["v100".into()], ..Options::default() };
        let mut workload = read_from("a.trace", trace.as_bytes(), &options).unwrap();
        let job = std::sync::Arc::make_mut(&mut workload.jobs[0].0);
        let rates = job.declared.rates.as_deref().unwrap();
        let slower = rates.alone().iter().map(|rate| trainyard_sched::model::Rate {
            iterations_per_s: rate.iterations_per_s / 2.0,
            ..*rate
        });
        job.declared.rates = trainyard_sched::model::Rates::new(slower.collect(), Vec::new()).shared();
        let error = write_csv(&workload, Vec::new()).unwrap_err();
        assert!(matches!(error, WriteError::NotExpressible { .. }), "{error}");
        assert!(error.to_string().contains("not its own"), "{error}");
    }
}
