//! Cuts a model that is described by layers into parts, and makes the graph of tasks of it (MLFS, section 4.1): chains into
//! consecutive parts, layered models by cutting each layer, or each run of layers, into several parts.
//!
//! Both are exact for what they say that they make small. Which cut is best for the time of an iteration on given nodes is another
//! question, and not asked here.

use std::fmt;

use crate::model::{
    AllReduce, Along, Edge, GraphError, MAX_EDGES, MAX_TASKS, Resources, Task, TaskGraph, TaskId,
};

/// A layer of a model. Layers stand in an order in which data flows from earlier to later ones only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Its parameters.
    pub parameters: u64,
    /// Seconds of computing in one iteration on an idle device.
    pub compute_s: f64,
    /// Bytes that it exchanges with each later layer that works on what it puts out, in one iteration.
    pub output_bytes: u64,
    /// The layers whose output it works on.
    pub after: Vec<usize>,
}

/// How a model is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Into consecutive parts, the largest of them as small as possible.
    Chain,
    /// Into runs of layers, of which there are about one for each `width` parts, and these into pieces, the largest of them as
    /// small as possible.
    Layers {
        /// How many pieces of one run there are on average.
        width: u32,
    },
}

/// What is to be as equal as possible among parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Their parameters.
    #[default]
    Parameters,
    /// Their computing time.
    Compute,
}

/// How replicas come together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Together {
    /// They do not: there is one.
    Alone,
    /// In a parameter server.
    Server {
        /// What it needs.
        demand: Resources,
        /// Its seconds of computing in one iteration.
        compute_s: f64,
        /// Bytes that each replica sends to it in one iteration, and that come back.
        bytes: u64,
    },
    /// By all-reduce.
    Reduce {
        /// Along what.
        along: Along,
        /// Bytes that each replica brings into it.
        bytes: u64,
    },
}

/// How a job is to be made of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manner {
    /// Into how many parts each replica is cut.
    pub parts: u32,
    /// How.
    pub cut: Cut,
    /// What is to be equal among them.
    pub by: By,
    /// Replicas of the whole model.
    pub replicas: u32,
    /// What each task needs.
    pub demand: Resources,
    /// Bytes of state for each parameter.
    pub state_bytes_per_parameter: u64,
    /// How replicas come together.
    pub together: Together,
    /// Whether the job makes progress while only some of its replicas are placed.
    pub partial: bool,
}

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Its first layer.
    pub first: usize,
    /// The layer after its last one.
    pub end: usize,
    /// Which piece of these layers it is, from 0.
    pub piece: u32,
    /// How many pieces there are of these layers.
    pub pieces: u32,
    /// Its parameters.
    pub parameters: u64,
    /// Its seconds of computing in one iteration.
    pub compute_s: f64,
}

/// A model that was cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The parts of one replica, in the order of its tasks.
    pub parts: Vec<Part>,
    /// The graph of all replicas.
    pub graph: TaskGraph,
}

/// Why a model cannot be cut like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionError {
    /// It has no layer.
    NoLayer,
    /// Nothing, or no replica, is asked for.
    Nothing,
    /// A chain has fewer layers than parts.
    FewLayers {
        /// Layers.
        layers: usize,
        /// Parts.
        parts: u32,
    },
    /// A layer comes before one whose output it works on.
    Order {
        /// The layer.
        layer: usize,
    },
    /// What came of it is no graph.
    Graph(GraphError),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLayer => f.write_str("the model has no layer"),
            Self::Nothing => {
                f.write_str("no part, no piece or no replica is asked for; ask for at least one")
            }
            Self::FewLayers { layers, parts } => write!(
                f,
                "a chain of {layers} layers cannot be cut into {parts} parts; ask for fewer, or have each layer cut"
            ),
            Self::Order { layer } => write!(
                f,
                "layer {layer}, counted from 0, works on the output of one that does not come before it; a model has no cycle"
            ),
            Self::Graph(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PartitionError {}

impl From<GraphError> for PartitionError {
    fn from(error: GraphError) -> Self {
        Self::Graph(error)
    }
}

/// Where each of so many consecutive parts begins, so that the largest sum of weights is as small as possible. Exact: the largest
/// sum is found by bisection, each guess tried by filling parts from the left.
///
/// # Panics
/// If there are no parts, or more parts than weights.
pub fn consecutive(weights: &[u64], parts: usize) -> Vec<usize> {
    assert!((1..=weights.len()).contains(&parts), "each part has a weight");
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let largest = weights.iter().copied().map(u128::from).max().unwrap_or_default();
    let (mut low, mut high) = (largest.max(sum.div_ceil(parts as u128)), sum);
    while low < high {
        let middle = low + (high - low) / 2;
        if fill(weights, middle).len() <= parts {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    cut_further(weights, fill(weights, high), parts)
}

/// Cuts the heaviest parts in two until there are enough; that makes no part larger.
fn cut_further(weights: &[u64], mut begins: Vec<usize>, parts: usize) -> Vec<usize> {
    let mut sums = vec![0_u128];
    sums.extend(weights.iter().scan(0, |sum, weight| {
        *sum += u128::from(*weight);
        Some(*sum)
    }));
    let ends: Vec<usize> = begins.iter().skip(1).copied().chain([weights.len()]).collect();
    let sum = |begin: usize, end: usize| (sums[end] - sums[begin], end - begin, begin);
    let is_long = |part: &(u128, usize, usize)| part.1 > 1;
    let mut heap: std::collections::BinaryHeap<_> =
        begins.iter().zip(ends).map(|(begin, end)| sum(*begin, end)).filter(is_long).collect();
    while begins.len() < parts {
        let (weight, length, begin) = heap.pop().expect("there are more weights than parts");
        let end = begin + length;
        let half = sums[begin] + weight / 2;
        // The middle is just before or just behind the weight at half of the sum.
        let behind = sums[begin + 1..end].partition_point(|sum| *sum <= half) + begin + 1;
        let larger = |at: usize| (sums[at] - sums[begin]).max(sums[end] - sums[at]);
        let at = [behind - 1, behind]
            .into_iter()
            .filter(|at| begin < *at && *at < end)
            .min_by_key(|at| larger(*at));
        let at = at.expect("a part of two weights has a place to be cut");
        begins.push(at);
        heap.extend([sum(begin, at), sum(at, end)].into_iter().filter(is_long));
    }
    begins.sort_unstable();
    begins
}

/// Where parts begin that are filled from the left up to a sum, which is no less than any weight.
fn fill(weights: &[u64], most: u128) -> Vec<usize> {
    let (mut begins, mut sum) = (vec![0], 0);
    for (i, weight) in weights.iter().enumerate() {
        sum += u128::from(*weight);
        if sum > most {
            begins.push(i);
            sum = u128::from(*weight);
        }
    }
    begins
}

/// Into how many pieces each weight is cut, so many in all, so that the largest piece is as small as possible. Exact: the next
/// piece goes to whoever has the largest ones.
///
/// # Panics
/// If there are fewer pieces than weights.
pub fn pieces(weights: &[u64], in_all: usize) -> Vec<u32> {
    assert!(in_all >= weights.len(), "each weight has a piece");
    let mut heap: std::collections::BinaryHeap<Pile> =
        weights.iter().enumerate().map(|(at, weight)| Pile { weight: *weight, pieces: 1, at }).collect();
    for _ in weights.len()..in_all {
        if let Some(mut most) = heap.peek_mut() {
            most.pieces += 1;
        }
    }
    let mut found = vec![1; weights.len()];
    for pile in heap {
        found[pile.at] = pile.pieces;
    }
    found
}

/// A weight in equal pieces; the one with the largest pieces is the greatest, and of equal ones the first.
#[derive(PartialEq, Eq)]
struct Pile {
    weight: u64,
    pieces: u32,
    at: usize,
}

impl Ord for Pile {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let (own, others) = (u128::from(self.weight), u128::from(other.weight));
        let by_size = (own * u128::from(other.pieces)).cmp(&(others * u128::from(self.pieces)));
        by_size.then(other.pieces.cmp(&self.pieces)).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Pile {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What a layer weighs; times are compared by nanoseconds.
fn weight(layer: &Layer, by: By) -> u64 {
    match by {
        By::Parameters => layer.parameters,
        By::Compute => (layer.compute_s * 1e9).round() as u64,
    }
}

/// Cuts a model and makes the graph of its tasks.
pub fn partition(layers: &[Layer], manner: &Manner) -> Result<Partition, PartitionError> {
    if layers.is_empty() {
        return Err(PartitionError::NoLayer);
    }
    if manner.parts == 0 || manner.replicas == 0 || manner.cut == (Cut::Layers { width: 0 }) {
        return Err(PartitionError::Nothing);
    }
    if let Some(layer) = (0..layers.len()).find(|i| layers[*i].after.iter().any(|before| before >= i)) {
        return Err(PartitionError::Order { layer });
    }
    let count = manner.parts as usize;
    let tasks = u64::from(manner.parts) * u64::from(manner.replicas);
    if tasks >= MAX_TASKS as u64 {
        return Err(GraphError::TooLarge { tasks: tasks as usize, edges: 0 }.into());
    }
    let weights: Vec<u64> = layers.iter().map(|layer| weight(layer, manner.by)).collect();
    let runs = match manner.cut {
        Cut::Chain if count > layers.len() => {
            return Err(PartitionError::FewLayers { layers: layers.len(), parts: manner.parts });
        }
        Cut::Chain => count,
        Cut::Layers { width } => count.div_ceil(width as usize).min(layers.len()),
    };
    let begins = consecutive(&weights, runs);
    let end_of = |run: usize| begins.get(run + 1).copied().unwrap_or(layers.len());
    let sum = |run: usize| weights[begins[run]..end_of(run)].iter().copied().fold(0, u64::saturating_add);
    let sums: Vec<u64> = (0..runs).map(sum).collect();
    let pieces = pieces(&sums, count);
    let mut parts = Vec::with_capacity(count);
    for (run, pieces) in pieces.iter().copied().enumerate() {
        let (first, end) = (begins[run], end_of(run));
        let own = &layers[first..end];
        let parameters = own.iter().map(|layer| layer.parameters).fold(0, u64::saturating_add);
        let compute_s = own.iter().map(|layer| layer.compute_s).sum::<f64>() / f64::from(pieces);
        parts.extend((0..pieces).map(|piece| {
            let parameters = share(parameters, piece, pieces);
            Part { first, end, piece, pieces, parameters, compute_s }
        }));
    }
    let flows = flows(layers, &begins, &pieces)?;
    let graph = graph(&parts, &flows, manner)?;
    Ok(Partition { parts, graph })
}

/// The share of one of several that are as equal as whole numbers can be.
fn share(whole: u64, which: u32, of: u32) -> u64 {
    let (which, of) = (u64::from(which), u64::from(of));
    whole / of + u64::from(which < whole % of)
}

/// What flows between the parts of one replica. Each piece of a run puts out its share, and each piece of a later run works on all
/// of it. What several layers of a run work on is sent to it once.
fn flows(layers: &[Layer], begins: &[usize], pieces: &[u32]) -> Result<Vec<Edge>, PartitionError> {
    let run_of = |layer: usize| begins.partition_point(|begin| *begin <= layer) - 1;
    let mut heard: Vec<(usize, usize)> = Vec::new();
    for (layer, of) in layers.iter().enumerate() {
        heard.extend(of.after.iter().map(|before| (*before, run_of(layer))));
    }
    heard.retain(|(from, run)| run_of(*from) != *run);
    heard.sort_unstable();
    heard.dedup();
    let mut between: std::collections::BTreeMap<(usize, usize), u64> = std::collections::BTreeMap::new();
    for (from, run) in heard {
        let bytes = between.entry((run_of(from), run)).or_default();
        *bytes = bytes.saturating_add(layers[from].output_bytes);
    }
    let count = |(from, to): &(usize, usize)| u64::from(pieces[*from]) * u64::from(pieces[*to]);
    let edges: u64 = between.keys().map(count).sum();
    if edges > MAX_EDGES as u64 {
        return Err(GraphError::TooLarge { tasks: 0, edges: edges as usize }.into());
    }
    let firsts: Vec<u32> = pieces
        .iter()
        .scan(0, |next, pieces| {
            *next += pieces;
            Some(*next - pieces)
        })
        .collect();
    let mut edges = Vec::with_capacity(edges as usize);
    for ((from, to), bytes) in between {
        for piece in 0..pieces[from] {
            let bytes = share(bytes, piece, pieces[from]);
            edges.extend((0..pieces[to]).map(|other| Edge {
                from: TaskId(firsts[from] + piece),
                to: TaskId(firsts[to] + other),
                bytes,
            }));
        }
    }
    Ok(edges)
}

/// The graph of all replicas.
fn graph(parts: &[Part], flows: &[Edge], manner: &Manner) -> Result<TaskGraph, GraphError> {
    let (count, replicas) = (parts.len() as u32, manner.replicas);
    let all = flows.len() as u64 * u64::from(replicas);
    if all > MAX_EDGES as u64 {
        return Err(GraphError::TooLarge { tasks: (count * replicas) as usize, edges: all as usize });
    }
    let (mut tasks, mut edges) = (Vec::new(), Vec::new());
    for replica in 0..replicas {
        tasks.extend(parts.iter().map(|part| Task {
            demand: manner.demand,
            parameters: part.parameters,
            replica: Some(replica),
            compute_s: part.compute_s,
            state_bytes: part.parameters.saturating_mul(manner.state_bytes_per_parameter),
        }));
        let own = |task: TaskId| TaskId(replica * count + task.0);
        edges.extend(flows.iter().map(|edge| Edge { from: own(edge.from), to: own(edge.to), ..*edge }));
    }
    let mut reduce = None;
    match manner.together {
        Together::Alone => {}
        Together::Reduce { along, bytes } => reduce = Some(AllReduce { along, bytes }),
        Together::Server { demand, compute_s, bytes } => {
            let server = TaskId(tasks.len() as u32);
            let parameters = parts.iter().map(|part| part.parameters).fold(0, u64::saturating_add);
            let state_bytes = parameters.saturating_mul(manner.state_bytes_per_parameter);
            tasks.push(Task { demand, parameters: 0, replica: None, compute_s, state_bytes });
            let mut leads_on = vec![false; parts.len()];
            flows.iter().for_each(|edge| leads_on[edge.from.index()] = true);
            let last: Vec<u32> = (0..count).filter(|part| !leads_on[*part as usize]).collect();
            for replica in 0..replicas {
                edges.extend(last.iter().enumerate().map(|(i, part)| Edge {
                    from: TaskId(replica * count + part),
                    to: server,
                    bytes: share(bytes, i as u32, last.len() as u32),
                }));
            }
        }
    }
    TaskGraph::new(tasks, edges, reduce, manner.partial)
}
