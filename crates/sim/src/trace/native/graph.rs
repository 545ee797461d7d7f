//! What the native format says of a job that is a graph of tasks: how long its iterations really take, how what its tasks use
//! wanders, and what must agree with the graph. The text of the graph itself is in `graph_words`.

use trainyard_sched::estimate::graph_iteration_s;
use trainyard_sched::model::{Declared, GPU, Parallelism, Seed, Span, TaskGraph};

use super::super::fields::{Problem, Remark, duration_s, number_within, whole};
use super::super::options::Options;
use super::graph_words::{count, graph, graph_text};
use super::{Body, Key, Texts, training};
use crate::tasks::{TrueGraph, Wander};
use crate::truth::{Speed, Truth};

/// How far `duration_s` may be from what the graph says, as a part of it.
const AGREEMENT: f64 = 1e-3;
/// True times are not more often as long, or as short, as declared ones.
const PACE: (f64, f64) = (1e-3, 1e3);
/// The most that the use of a task may deviate, in parts of its demand.
const MOST_DEVIATION: f64 = 1.0;
/// What is said of equal workers, and not of tasks.
const OF_WORKERS: [Key; 9] = [
    Key::Workers,
    Key::Cpus,
    Key::Memory,
    Key::Share,
    Key::MinGpus,
    Key::MaxGpus,
    Key::Work,
    Key::Fixed,
    Key::Rates,
];
/// What is said of tasks, and not of equal workers.
const OF_TASKS: [Key; 3] = [Key::Pace, Key::Wander, Key::DeclaredIterations];

/// A job of tasks, if the row has a graph.
pub(super) fn read(
    texts: &Texts<'_>,
    options: &Options,
    remarks: &mut Vec<Remark>,
) -> Result<Option<Body>, Problem> {
    let (field, text) = texts.get(Key::Graph);
    let other: &[Key] = if text.is_empty() { &OF_TASKS } else { &OF_WORKERS };
    if let Some((other, said)) = other.iter().map(|key| texts.get(*key)).find(|(_, said)| !said.is_empty()) {
        let is = if text.is_empty() { "needs a graph beside it" } else { "has no place beside a graph" };
        return Err(Problem::new(format!("{other} {is}"), other, said));
    }
    if text.is_empty() {
        return Ok(None);
    }
    let graph = graph(field, text)?;
    let pace = texts.optional(Key::Pace, |field, text| number_within(field, text, PACE.0, PACE.1))?;
    let pace = pace.unwrap_or(1.0);
    let iteration_s = graph_iteration_s(&graph, |_| true, |_| pace, |_| 0.0);
    if iteration_s < 1e-6 {
        let what = "an iteration of the graph takes no time; give its tasks seconds of computing";
        return Err(Problem::new(what, field, text));
    }
    agrees_on_gpus(texts, &graph)?;
    let iterations = iterations(texts, iteration_s, options, remarks)?;
    let iteration = Span::from_secs_f64(iteration_s);
    let truth = Truth {
        iterations,
        speed: Speed::Graph(TrueGraph { pace, wander: wander(texts)? }),
        loss: training::loss(texts, options.curves.as_deref())?,
        ..Truth::lasting(iteration, 1)
    };
    let declared = declared(texts, iterations)?;
    let shape = Parallelism::TaskGraph(graph);
    Ok(Some(Body { shape, truth, gpu_types: None, rates: None, iteration, declared }))
}

/// `gpus` may be left out; if it is there, it is what the tasks demand together.
fn agrees_on_gpus(texts: &Texts<'_>, graph: &TaskGraph) -> Result<(), Problem> {
    let Some(said) = texts.optional(Key::Gpus, |field, text| whole(field, text, 0.0, 1e9))? else {
        return Ok(());
    };
    let needed = gpus(graph);
    if said == needed as f64 {
        return Ok(());
    }
    let (field, text) = texts.get(Key::Gpus);
    let what =
        format!("gpus is not what the tasks of the graph demand together, which is {needed}; leave it empty");
    Err(Problem::new(what, field, text))
}

/// The GPUs that all tasks demand together, rounded up.
fn gpus(graph: &TaskGraph) -> u64 {
    let demanded = graph.tasks().iter().map(|task| task.demand.gpu_milli);
    demanded.fold(0, u64::saturating_add).div_ceil(GPU)
}

/// The iterations that are said, or those in the run time that is; both must agree.
fn iterations(
    texts: &Texts<'_>,
    iteration_s: f64,
    options: &Options,
    remarks: &mut Vec<Remark>,
) -> Result<f64, Problem> {
    let said = texts.optional(Key::Iterations, training::iterations)?;
    let (field, text) = texts.get(Key::Duration);
    if text.is_empty() {
        let missing = || Problem::new("a graph needs iterations or duration_s beside it", field, "(empty)");
        return said.ok_or_else(missing);
    }
    let duration_s = options.repairs.duration_s(field, text, remarks)?.as_secs_f64();
    let Some(said) = said else {
        let (field, iterations) = (texts.get(Key::Iterations).0, duration_s / iteration_s);
        return training::iterations(field, &iterations.to_string());
    };
    let comes_to_s = said * iteration_s;
    if (duration_s - comes_to_s).abs() <= AGREEMENT * comes_to_s + 1e-6 {
        return Ok(said);
    }
    let what = format!(
        "duration_s is not iterations x the longest path of the graph, which is {comes_to_s:.6} s; leave it empty"
    );
    Err(Problem::new(what, field, text))
}

/// What its owner claims, if anything is said.
fn declared(texts: &Texts<'_>, iterations: f64) -> Result<Option<Declared>, Problem> {
    let claimed = texts.optional(Key::Declared, duration_s)?;
    let limit = texts.optional(Key::Limit, duration_s)?;
    let count = texts.optional(Key::DeclaredIterations, training::iterations)?;
    let says_something = claimed.is_some() || limit.is_some() || count.is_some();
    Ok(says_something.then(|| Declared {
        iterations: count.or(claimed.map(|_| iterations)),
        iteration: claimed.map(|claimed| part_of(claimed, iterations)),
        limit,
        ..Declared::default()
    }))
}

fn part_of(claimed: Span, iterations: f64) -> Span {
    Span::from_secs_f64(claimed.as_secs_f64() / iterations).max(Span(1))
}

/// `rho deviation [seed]`.
fn wander(texts: &Texts<'_>) -> Result<Option<Wander>, Problem> {
    let (_, name) = texts.get(Key::JobId);
    texts.optional(Key::Wander, |field, text| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let seed = match words[..] {
            [_, _] => Seed(0).branch("wander").branch(name),
            [_, _, seed] => Seed(count("the seed", field, seed)?),
            _ => return Err(Problem::new("wander is `rho deviation` or `rho deviation seed`", field, text)),
        };
        let rho = number_within(field, words[0], 0.0, 1.0)?;
        let deviation = number_within(field, words[1], 0.0, MOST_DEVIATION)?;
        Ok(Wander { rho, deviation, seed })
    })
}

/// The texts of a row for what this file knows, or what they cannot say.
pub(crate) struct GraphTexts {
    pub(crate) graph: String,
    pub(crate) duration: String,
    pub(crate) gpus: String,
    pub(crate) pace: String,
    pub(crate) wander: String,
    pub(crate) declared_s: String,
    pub(crate) declared_iterations: String,
}

/// The texts of a job of tasks.
pub(crate) fn texts(
    graph: &TaskGraph,
    truth: &Truth,
    declared: &Declared,
) -> Result<GraphTexts, &'static str> {
    let Speed::Graph(own) = truth.speed else { return Err("its speed is not that of its graph of tasks") };
    let idle_s = graph_iteration_s(graph, |_| true, |_| own.pace, |_| 0.0);
    let (declared_s, declared_iterations) = claims(truth, declared, Span::from_secs_f64(idle_s))?;
    let wander = own.wander.map(|wander| format!("{} {} {}", wander.rho, wander.deviation, wander.seed.0));
    Ok(GraphTexts {
        graph: graph_text(graph),
        duration: Span::from_secs_f64(idle_s).scaled(truth.iterations).as_secs_f64().to_string(),
        gpus: gpus(graph).to_string(),
        pace: if own.pace == 1.0 { String::new() } else { own.pace.to_string() },
        wander: wander.unwrap_or_default(),
        declared_s,
        declared_iterations,
    })
}

/// What is claimed of the run time and of the number of iterations, where it is not the truth.
fn claims(truth: &Truth, declared: &Declared, idle: Span) -> Result<(String, String), &'static str> {
    let count = |count: f64| count.to_string();
    match (declared.iterations, declared.iteration) {
        (None, None) => Ok(Default::default()),
        (None, Some(_)) => Err("it declares how long an iteration takes and not how many there are"),
        (Some(iterations), None) => Ok((String::new(), count(iterations))),
        (Some(iterations), Some(each))
            if iterations == truth.iterations && each == idle && declared.limit.is_none() =>
        {
            Ok(Default::default())
        }
        (Some(iterations), Some(each)) => {
            let claimed = each.scaled(truth.iterations);
            if part_of(claimed, truth.iterations) != each {
                return Err("it declares iterations so short that their time cannot be told from the whole");
            }
            let other = (iterations != truth.iterations).then(|| count(iterations));
            Ok((claimed.as_secs_f64().to_string(), other.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use trainyard_sched::model::{Along, TaskId};

    use super::*;
    use crate::trace::{read_from, write_csv};
    use crate::workload::Workload;

    const HEAD: &str = "job_id,submit_s,graph,iterations,duration_s,gpus,workers,pace,wander,declared_s,limit_s,declared_iterations\n";

    fn with(row: &str) -> Result<Workload, String> {
        let text = format!("{HEAD}{row}\n");
        read_from("own.csv", text.as_bytes(), &Options::default()).map_err(|error| error.to_string())
    }

    fn with_graph(graph: &str) -> Result<TaskGraph, String> {
        let workload = with(&format!("a,0,{graph},10,,,,,,,,"))?;
        match &workload.jobs[0].0.shape {
            Parallelism::TaskGraph(graph) => Ok(graph.clone()),
            Parallelism::DataParallel(_) => Err("it is no graph".to_owned()),
        }
    }

    const DIAMOND: &str =
        "gpu_milli=200 state_bytes=5|4 1|2 2|1 3|cpu_milli=7 3 1|0>1 10|0>2 20|1>3 30|2>3 40";

    #[test]
    fn a_graph_is_read_as_text_and_as_an_object() {
        let graph = with_graph(DIAMOND).unwrap();
        assert_eq!((graph.tasks().len(), graph.edges().len(), graph.parameters()), (4, 4, 10));
        let last = graph.tasks()[3];
        assert_eq!((last.demand.cpu_milli, last.demand.gpu_milli, last.state_bytes), (7, 200, 5));
        assert_eq!(with_graph(&graph_text(&graph)).as_ref(), Ok(&graph));
        let object = serde_json::to_string(&graph).unwrap();
        let json = format!("{{\"job_id\": \"a\", \"submit_s\": 0, \"iterations\": 10, \"graph\": {object}}}");
        let back = read_from("own.jsonl", json.as_bytes(), &Options::default()).unwrap();
        assert_eq!(back.jobs, with(&format!("a,0,{DIAMOND},10,,,,,,,,")).unwrap().jobs);
        let servers =
            with_graph("gpu_milli=9|1 1|replica=1 1 1|replica=none gpu_milli=0 0 0.5|0>2 1|1>2 1|partial");
        let servers = servers.unwrap();
        assert!(servers.is_partial() && servers.is_server(TaskId(2)) && servers.replicas() == [0, 1]);
        assert_eq!(with_graph(&graph_text(&servers)), Ok(servers));
    }

    /// The text of each column of what was written of a job.
    fn cells(text: &str) -> BTreeMap<String, String> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let row = reader.records().next().unwrap().unwrap();
        header.iter().zip(row.iter()).map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect()
    }

    #[test]
    fn what_was_read_is_written_column_by_column_and_read_again() {
        let three = "gpu_milli=900|1 1|replica=1 1 1|replica=2 cpu_milli=70 memory_bytes=8 network_bytes_per_s=9 state_bytes=6 5 0.5";
        // The row, and what is written of iterations, duration, GPUs, pace, use and declarations.
        for (row, written) in [
            (format!("{DIAMOND},10,,,,2,0.9 0.25 77,,,"), ["10", "100", "1", "2", "0.9 0.25 77", "", ""]),
            (format!("{three}|ring 40,10,,,,,,30,,8"), ["10", "10", "3", "", "", "30", "8"]),
            (
                format!("partial|{three}|torus 41,10,,,,,0.5 0 3,,,7"),
                ["10", "10", "3", "", "0.5 0 3", "", "7"],
            ),
        ] {
            let first = with(&format!("a,0,{row}")).unwrap();
            let mut text = Vec::new();
            write_csv(&first, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let again = read_from("own.csv", text.as_bytes(), &Options::default()).unwrap();
            assert_eq!(again.jobs, first.jobs, "{text}");
            let cells = cells(&text);
            let names =
                ["iterations", "duration_s", "gpus", "pace", "wander", "declared_s", "declared_iterations"];
            assert_eq!(names.map(|name| cells[name].as_str()), written, "{text}");
            let Parallelism::TaskGraph(graph) = &first.jobs[0].0.shape else { panic!("it is a graph") };
            assert_eq!(with_graph(&cells["graph"]).as_ref(), Ok(graph), "{text}");
            let reduce = row.contains("ring 40").then_some((Along::Ring, 40));
            let reduce = reduce.or_else(|| row.contains("torus 41").then_some((Along::Torus, 41)));
            assert_eq!(graph.reduce().map(|reduce| (reduce.along, reduce.bytes)), reduce);
            assert_eq!(graph.is_partial(), row.contains("partial"));
        }
    }

    #[test]
    fn what_follows_from_a_graph_may_be_left_out_and_must_agree() {
        let (_, truth) = with(&format!("a,0,{DIAMOND},10,,,,,,,,")).unwrap().jobs.remove(0);
        assert_eq!(
            (truth.iterations, truth.speed),
            (10.0, Speed::Graph(TrueGraph { pace: 1.0, wander: None }))
        );
        let (job, truth) = with(&format!("a,0,{DIAMOND},,100,1,,2,,,,")).unwrap().jobs.remove(0);
        assert_eq!((truth.iterations, job.declared.iteration), (10.0, Some(Span::from_secs(10))));
        assert!(with(&format!("a,0,{DIAMOND},10,50,1,,,,,,")).is_ok());
        let (job, _) = with(&format!("a,0,{DIAMOND},10,,,,,,30,,8")).unwrap().jobs.remove(0);
        assert_eq!((job.declared.iterations, job.declared.iteration), (Some(8.0), Some(Span::from_secs(3))));
        for (row, what) in [
            (",,,,,,,,", "a graph needs iterations or duration_s"),
            ("10,50,2,,,,,,", "demand together, which is 1"),
            ("10,60,,,,,,,", "which is 50.000000 s"),
            ("10,,,2,,,,,", "workers has no place beside a graph"),
            ("10,,,,0,,,,", "pace"),
            ("10,,,,,0.9,,,", "wander is"),
            ("10,,,,,0.9 0.1 x,,,", "the seed is no whole number"),
            ("10,,,,,,,,0", "declared_iterations"),
        ] {
            let error = with(&format!("a,0,{DIAMOND},{row}")).unwrap_err();
            assert!(error.contains(what), "{row}: {error}");
        }
        for row in ["a,0,,,60,1,,2,,,,", "a,0,,,60,1,,,0.9 0.1,,,", "a,0,,,60,1,,,,,,7"] {
            assert!(with(row).unwrap_err().contains("needs a graph beside it"), "{row}");
        }
        assert!(with("a,0,,,,,,,,,,").unwrap_err().contains("duration_s is missing"));
    }

    #[test]
    fn what_is_no_graph_costs_the_row_and_is_named() {
        for (graph, what) in [
            ("gpu_milli=9|1 1|1 1|0>1 1|1>0 1", "edge 1 leads back"),
            ("gpu_milli=9|1 1|0>0 1", "edge 0 leads back"),
            ("gpu_milli=9|1 1|1 1|0>1 1|0>1 2", "two edges lead from task 0 to task 1"),
            ("gpu_milli=9|1 1|replica=1 1 1|0>1 1", "from one replica to another"),
            ("gpu_milli=9|1 1|0>7 1", "names task 7"),
            ("gpu_milli=9|1 1|0>99999999999 1", "which is not there"),
            ("gpu_milli=9|replica=none 1 1", "no task of any replica"),
            ("gpu_milli=9|1 NaN", "not a finite number"),
            ("gpu_milli=9|1 -1", "not between 0"),
            ("gpu_milli=9|1.5 1", "parameters of a task is no whole number"),
            ("gpu_milli=99999999999999999999|1 1", "gpu_milli is no whole number"),
            ("gpu_mili=9|1 1", "did you mean `gpu_milli`?"),
            ("gpu_milli=9|1 1||", "an item of the graph is none of"),
            ("gpu_milli=9|1 1|ring 4|torus 4", "two all-reduces"),
            ("gpu_milli=9|1 0", "takes no time"),
            ("1 1", "neither GPUs nor CPU cores"),
            ("gpu_milli=1500|1 1", "whole GPUs or a part of one"),
            ("gpu_milli=9|1 1e9", "more than a year"),
            ("gpu_milli=65535001|1 1", "whole GPUs or a part of one"),
            ("gpu_milli=65536000|1 1", "more than 65535 GPUs"),
            ("gpu_milli=9 memory_bytes=18446744073709551615|1 1", "thousand million GB"),
            ("gpu_milli=9|1 1|1 1|0>1 1000000000000000001", "thousand million GB"),
            ("{}", "the graph cannot be read"),
        ] {
            let error = with_graph(graph).unwrap_err();
            assert!(error.contains(what), "{graph}: {error}");
            assert!(error.contains("own.csv:2"), "{graph}: {error}");
        }
    }

    #[test]
    fn ten_thousand_tasks_fit_into_a_row() {
        let mut text = "gpu_milli=1".to_owned();
        for task in 0..10_000 {
            let _ = write!(text, "|{} {}", 1000 + task, 0.1 + f64::from(task) / 7.0);
        }
        for task in 0..9_999 {
            let _ = write!(text, "|{}>{} 75000000", task, task + 1);
        }
        let graph = with(&format!("a,0,{text},0.001,,,,,,,,")).unwrap().jobs.remove(0).0.shape.clone();
        assert_eq!(graph.minimum().gpu_milli, 10_000);
    }
}
