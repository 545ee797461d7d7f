//! The graphs that are drawn: chains and layers, with parameter servers or all-reduce.

use rand::RngExt;
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64;
use trainyard_sched::estimate::graph_iteration_s;
use trainyard_sched::model::{AllReduce, Along, Edge, GPU, Resources, Task, TaskGraph, TaskId};

/// Parameters of every model; only parts of it matter.
const PARAMETERS: f64 = 1e7;
const MB: f64 = 1e6;
/// What a task demands, in parts of a GPU and of a server with this.
const GPU_DEMAND: (f64, f64) = (0.1, 0.3);
const SERVER_DEMAND: (f64, f64) = (0.02, 0.06);
const SERVER: Resources = Resources {
    gpu_milli: 4 * GPU,
    cpu_milli: 32 * GPU,
    memory_bytes: 244_000_000_000,
    network_bytes_per_s: 1_250_000_000,
};
/// The part of a replica's computing that a parameter server does.
const SERVER_COMPUTES: f64 = 0.02;

/// A graph to be drawn.
pub(super) struct Shape {
    /// GPUs, and so tasks of all replicas together.
    pub(super) gpus: u32,
    /// Whether the model can be cut; else each task is a replica.
    pub(super) is_cut: bool,
    /// Whether each layer is cut into several parts, and the model is no chain.
    pub(super) is_layered: bool,
    /// Replicas, where the model can be cut; they divide the GPUs.
    pub(super) replicas: u32,
    /// Whether replicas meet in a parameter server; else in a ring.
    pub(super) has_server: bool,
    /// Seconds of one iteration on an idle node.
    pub(super) iteration_s: f64,
    /// A factor on all that flows.
    pub(super) traffic: f64,
}

fn between(random: &mut Pcg64, (least, most): (f64, f64)) -> f64 {
    least + (most - least) * random.random::<f64>()
}

impl Shape {
    /// Draws sizes, demands and flows (MLFS specification, section 6.1).
    pub(super) fn draw(&self, random: &mut Pcg64) -> TaskGraph {
        let replicas = if self.is_cut { self.replicas } else { self.gpus };
        let parts = self.gpus / replicas;
        let width = if self.is_layered { 2 + random.random_range(0..3) } else { 1 };
        let sizes = dirichlet(parts, random);
        let (within, to_server) = (self.bytes(random), self.bytes(random));
        let demand = self.demand(random);
        let state_bytes = between(random, (200.0 * MB, 2000.0 * MB)) as u64;
        let task = |replica, size: f64| Task {
            demand,
            parameters: (PARAMETERS * size) as u64,
            replica,
            compute_s: size,
            state_bytes,
        };
        let (mut tasks, mut edges) = (Vec::new(), Vec::new());
        for replica in 0..replicas {
            let first = replica * parts;
            tasks.extend(sizes.iter().map(|size| task(Some(replica), *size)));
            edges.extend(layers(parts, width).into_iter().map(|(from, to)| Edge {
                from: TaskId(first + from),
                to: TaskId(first + to),
                bytes: within,
            }));
        }
        let workers = replicas * parts;
        if self.has_server {
            let leads_on = |task: u32| edges.iter().any(|edge| edge.from == TaskId(task));
            let last: Vec<u32> = (0..workers).filter(|task| !leads_on(*task)).collect();
            let server = Task { parameters: 0, ..task(None, SERVER_COMPUTES) };
            let demand = Resources { gpu_milli: 0, ..server.demand };
            tasks.push(Task { demand, ..server });
            edges.extend(last.into_iter().map(|from| Edge {
                from: TaskId(from),
                to: TaskId(workers),
                bytes: to_server,
            }));
        }
        let reduce =
            (!self.has_server && replicas > 1).then_some(AllReduce { along: Along::Ring, bytes: to_server });
        self.timed(tasks, edges, reduce)
    }

    fn bytes(&self, random: &mut Pcg64) -> u64 {
        (self.traffic * between(random, (50.0 * MB, 100.0 * MB))) as u64
    }

    fn demand(&self, random: &mut Pcg64) -> Resources {
        let gpu = between(random, GPU_DEMAND);
        let [cpus, memory, network] = [(); 3].map(|()| between(random, SERVER_DEMAND));
        let of = |amount: u64, part: f64| (amount as f64 * part).round() as u64;
        Resources {
            gpu_milli: of(GPU, gpu),
            cpu_milli: of(SERVER.cpu_milli, cpus),
            memory_bytes: of(SERVER.memory_bytes, memory),
            // What short iterations send would be more than any network carries, so this is drawn as the others are.
            network_bytes_per_s: of(SERVER.network_bytes_per_s, network),
        }
    }

    /// The graph with computing times that come to an iteration on an idle node.
    fn timed(&self, mut tasks: Vec<Task>, edges: Vec<Edge>, reduce: Option<AllReduce>) -> TaskGraph {
        let graph = |tasks| {
            TaskGraph::new(tasks, edges.clone(), reduce, true)
                .expect("what is drawn leads from layer to layer")
        };
        let longest = graph_iteration_s(&graph(tasks.clone()), |_| true, |_| 1.0, |_| 0.0);
        for task in &mut tasks {
            task.compute_s *= self.iteration_s / longest;
        }
        graph(tasks)
    }
}

/// Edges between parts in layers of this width, all of one layer with all of the next.
fn layers(parts: u32, width: u32) -> Vec<(u32, u32)> {
    let pairs = |from: u32| {
        let next = (from / width + 1) * width;
        (next..(next + width).min(parts)).map(move |to| (from, to))
    };
    (0..parts).flat_map(pairs).collect()
}

/// Parts of a whole: a Dirichlet distribution with all parameters 2.
fn dirichlet(parts: u32, random: &mut Pcg64) -> Vec<f64> {
    let gamma = Gamma::new(2.0, 1.0).expect("2 and 1 are positive");
    let drawn: Vec<f64> = (0..parts).map(|_| gamma.sample(random)).collect();
    let sum: f64 = drawn.iter().sum();
    drawn.into_iter().map(|part| part / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    fn shape() -> Shape {
        Shape {
            gpus: 8,
            is_cut: true,
            is_layered: false,
            replicas: 1,
            has_server: true,
            iteration_s: 6.0,
            traffic: 1.0,
        }
    }

    fn drawn(shape: &Shape) -> TaskGraph {
        shape.draw(&mut Pcg64::seed_from_u64(3))
    }

    #[test]
    fn a_chain_leads_to_its_server() {
        let graph = drawn(&shape());
        assert_eq!((graph.tasks().len(), graph.edges().len()), (9, 8));
        assert!(graph.edges().iter().all(|edge| edge.to.0 == edge.from.0 + 1));
        assert!(graph.edges().iter().all(|edge| (50_000_000..=100_000_000).contains(&edge.bytes)));
        let idle_s = graph_iteration_s(&graph, |_| true, |_| 1.0, |_| 0.0);
        assert!((idle_s - 6.0).abs() < 1e-9, "{idle_s}");
        let parts: f64 = (0..8).map(|task| graph.part(TaskId(task))).sum();
        assert!((parts - 1.0).abs() < 1e-5);
        assert_eq!((graph.is_server(TaskId(8)), graph.tasks()[8].demand.gpu_milli), (true, 0));
    }

    #[test]
    fn layers_are_connected_all_with_all() {
        assert_eq!(layers(5, 2), [(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)]);
        assert_eq!(layers(3, 1), [(0, 1), (1, 2)]);
        assert_eq!(layers(2, 3), []);
        let graph = drawn(&Shape { is_layered: true, has_server: false, ..shape() });
        assert!(graph.edges().len() > 8 && graph.reduce().is_none());
    }

    #[test]
    fn what_cannot_be_cut_is_replicated() {
        let graph = drawn(&Shape { is_cut: false, has_server: false, ..shape() });
        assert_eq!((graph.replicas().len(), graph.edges().len()), (8, 0));
        assert!(graph.reduce().is_some() && (graph.part(TaskId(5)) - 1.0).abs() < 1e-9);
        let both = drawn(&Shape { replicas: 4, ..shape() });
        assert_eq!((both.replicas().len(), both.tasks().len(), both.edges().len()), (4, 9, 8));
    }
}
