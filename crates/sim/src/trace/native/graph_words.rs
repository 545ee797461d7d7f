//! The text of a graph of tasks: items with `|` between them. Words with `=` hold for all tasks after them; two numbers are a task,
//! `0>1 9` is an edge. An object is the one of [`TaskGraph`].

use std::fmt::Write as _;

use trainyard_sched::model::{
    AllReduce, Along, Edge, MAX_EDGES, MAX_TASKS, Resources, Task, TaskGraph, TaskId,
};

use super::super::error::{LONGEST_LIST, shortened};
use super::super::fields::{Problem, number_within, whole};

const NO_REPLICA: &str = "none";
const PARTIAL: &str = "partial";
const RINGS: [(&str, Along); 2] = [("ring", Along::Ring), ("torus", Along::Torus)];

pub(super) fn graph(field: &str, text: &str) -> Result<TaskGraph, Problem> {
    if text.starts_with('{') {
        let read = serde_json::from_str::<TaskGraph>(text);
        return read.map_err(|error| {
            // The text of the error names what it met, and that may be as long as the file.
            let (told, column) = (shortened(&error.to_string(), LONGEST_LIST), error.column());
            Problem::new(format!("the graph cannot be read, at its byte {column}: {told}"), field, text)
        });
    }
    let mut written = Written::default();
    for item in text.split('|') {
        written.item(field, item)?;
    }
    let Written { tasks, edges, reduce, partial, .. } = written;
    TaskGraph::new(tasks, edges, reduce, partial)
        .map_err(|error| Problem::new(error.to_string(), field, text))
}

/// A whole number.
pub(super) fn count(what: &str, field: &str, word: &str) -> Result<u64, Problem> {
    word.parse().map_err(|_| Problem::new(format!("{what} is no whole number from 0 up"), field, word))
}

/// A graph as far as its text was read.
#[derive(Default)]
struct Written {
    tasks: Vec<Task>,
    edges: Vec<Edge>,
    reduce: Option<AllReduce>,
    partial: bool,
    /// What holds for the next task.
    demand: Resources,
    state_bytes: u64,
    /// Its replica; the outer `None` is the first one.
    replica: Option<Option<u32>>,
}

impl Written {
    fn item(&mut self, field: &str, item: &str) -> Result<(), Problem> {
        let mut words = [""; 3];
        let (mut plain, mut settings) = (0, 0);
        for word in item.split_whitespace() {
            if let Some((key, value)) = word.split_once('=') {
                self.setting(field, key, value)?;
                settings += 1;
            } else {
                if plain < words.len() {
                    words[plain] = word;
                }
                plain += 1;
            }
        }
        let ring = |word: &str| RINGS.iter().find(|(name, _)| *name == word).map(|(_, along)| *along);
        match (plain, words) {
            (0, _) if settings > 0 => Ok(()),
            (1, [PARTIAL, ..]) => {
                self.partial = true;
                Ok(())
            }
            (2, [word, bytes, _]) if ring(word).is_some() => {
                let bytes = count("the bytes of the all-reduce", field, bytes)?;
                let again = self.reduce.replace(AllReduce { along: ring(word).unwrap_or_default(), bytes });
                let twice = || Problem::new("the graph has two all-reduces", field, item);
                again.map_or(Ok(()), |_| Err(twice()))
            }
            (2, [ends, bytes, _]) if ends.contains('>') => self.edge(field, ends, bytes),
            (2, [parameters, seconds, _]) => self.task(field, parameters, seconds),
            _ => {
                let what = "an item of the graph is none of `key=value`, `PARAMETERS SECONDS`, `FROM>TO BYTES`, `ring BYTES`, `torus BYTES`, `partial`";
                Err(Problem::new(what, field, item))
            }
        }
    }

    fn setting(&mut self, field: &str, key: &str, value: &str) -> Result<(), Problem> {
        if key == "replica" {
            let index = || whole(field, value, 0.0, f64::from(u32::MAX)).map(|index| index as u32);
            self.replica = Some(if value == NO_REPLICA { None } else { Some(index()?) });
            return Ok(());
        }
        let amount = match key {
            "gpu_milli" => &mut self.demand.gpu_milli,
            "cpu_milli" => &mut self.demand.cpu_milli,
            "memory_bytes" => &mut self.demand.memory_bytes,
            "network_bytes_per_s" => &mut self.demand.network_bytes_per_s,
            "state_bytes" => &mut self.state_bytes,
            _ => {
                let known = [
                    "replica",
                    "state_bytes",
                    "gpu_milli",
                    "cpu_milli",
                    "memory_bytes",
                    "network_bytes_per_s",
                ];
                let hint = crate::trace::nearest(key, known.into_iter());
                return Err(Problem::new(
                    format!("the graph says something unknown of its tasks; {hint}"),
                    field,
                    key,
                ));
            }
        };
        *amount = count(key, field, value)?;
        Ok(())
    }

    fn task(&mut self, field: &str, parameters: &str, seconds: &str) -> Result<(), Problem> {
        self.room(field)?;
        self.tasks.push(Task {
            demand: self.demand,
            parameters: count("the number of parameters of a task", field, parameters)?,
            replica: self.replica.unwrap_or(Some(0)),
            compute_s: number_within(field, seconds, 0.0, 1e9)?,
            state_bytes: self.state_bytes,
        });
        Ok(())
    }

    fn edge(&mut self, field: &str, ends: &str, bytes: &str) -> Result<(), Problem> {
        self.room(field)?;
        let (from, to) = ends.split_once('>').unwrap_or_default();
        let task = |word: &str| {
            let number = count("an end of an edge", field, word)?;
            Ok(TaskId(u32::try_from(number).unwrap_or(u32::MAX)))
        };
        let bytes = count("the bytes of an edge", field, bytes)?;
        self.edges.push(Edge { from: task(from)?, to: task(to)?, bytes });
        Ok(())
    }

    /// Refuses more than any graph has before memory is taken for it.
    fn room(&self, field: &str) -> Result<(), Problem> {
        if self.tasks.len() <= MAX_TASKS && self.edges.len() <= MAX_EDGES {
            return Ok(());
        }
        let what = format!("the graph has more than {MAX_TASKS} tasks or {MAX_EDGES} edges");
        Err(Problem::new(what, field, ""))
    }
}

/// A graph as the text that the native format has for it.
pub fn graph_text(graph: &TaskGraph) -> String {
    let mut items: Vec<String> = Vec::with_capacity(graph.tasks().len() + graph.edges().len() + 2);
    if graph.is_partial() {
        items.push(PARTIAL.to_owned());
    }
    if let Some(AllReduce { along, bytes }) = graph.reduce() {
        let word = RINGS.iter().find(|(_, known)| *known == along).map_or("", |(word, _)| word);
        items.push(format!("{word} {bytes}"));
    }
    let nothing =
        Task { demand: Resources::NONE, parameters: 0, replica: Some(0), compute_s: 0.0, state_bytes: 0 };
    let mut before = &nothing;
    for task in graph.tasks() {
        let mut item = String::new();
        let amounts = |task: &Task| {
            let [gpu, cpu, memory, network] = task.demand.amounts();
            [gpu, cpu, memory, network, task.state_bytes]
        };
        let names = ["gpu_milli", "cpu_milli", "memory_bytes", "network_bytes_per_s", "state_bytes"];
        for ((name, old), new) in names.iter().zip(amounts(before)).zip(amounts(task)) {
            if old != new {
                let _ = write!(item, "{name}={new} ");
            }
        }
        if before.replica != task.replica {
            let replica = task.replica.map_or_else(|| NO_REPLICA.to_owned(), |replica| replica.to_string());
            let _ = write!(item, "replica={replica} ");
        }
        let _ = write!(item, "{} {}", task.parameters, task.compute_s);
        items.push(item);
        before = task;
    }
    items.extend(graph.edges().iter().map(|edge| format!("{}>{} {}", edge.from.0, edge.to.0, edge.bytes)));
    items.join("|")
}
