//! A naive slot simulator: the public code of DL2's baselines as the specification tells it (section B9, faithful mode),
//! written apart from the policies and without the decision loop, so that both can be held against it.
//!
//! Every slot all is given away anew. A unit goes to the node with the least used slots, and the first that does not fit
//! there ends the slot. Speeds depend on numbers alone. It is slow, and knows nothing but jobs with parameter servers on
//! nodes of 8 CPU and 8 GPU slots.

use std::cmp::Reverse;

use trainyard_sched::model::SpeedFunction;

use crate::generate::{SLOT_S, ServerJob, server_model_needs_gpu};

/// The most workers of a job, and the most servers.
const MOST: u32 = 16;
/// CPU and GPU slots of a node.
const NODE: [u64; 2] = [8, 8];
const SERVER: [u64; 2] = [2, 0];

/// One of the baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Dominant resource fairness by progressive filling.
    Drf,
    /// First in, first out.
    Fifo,
    /// The least remaining fraction first.
    Srtf,
    /// Alignment plus remaining work.
    Tetris,
    /// Marginal gains in time on the true speeds.
    Optimus,
}

struct Job<'a> {
    of: &'a ServerJob,
    speed: &'a SpeedFunction,
    worker: [u64; 2],
    done: f64,
    workers: u32,
    servers: u32,
    ended: Option<f64>,
}

impl Job<'_> {
    fn bundle(&self) -> [u64; 2] {
        std::array::from_fn(|r| self.worker[r] + SERVER[r])
    }

    /// Slots that are left with so many workers and servers.
    fn left(&self, workers: u32, servers: u32) -> f64 {
        let per_slot = self.speed.iterations_per_s(workers, servers) * SLOT_S as f64;
        (self.of.units - self.done) / per_slot
    }

    fn fraction_left(&self) -> f64 {
        1.0 - self.done / self.of.units
    }
}

struct World<'a> {
    nodes: Vec<[u64; 2]>,
    jobs: Vec<Job<'a>>,
    /// For each job, its place among equals.
    ties: &'a [usize],
    /// The jobs that are there, in the order of ties.
    there: Vec<usize>,
}

/// Completion times in slots, by job. `ties` says for each job how early it comes among equals.
pub fn run<'a>(
    baseline: Baseline,
    nodes: usize,
    jobs: &'a [ServerJob],
    speeds: &'a [SpeedFunction],
    ties: &'a [usize],
) -> Vec<f64> {
    let job = |of: &'a ServerJob| {
        let worker = [2, if server_model_needs_gpu(of.model) { 4 } else { 0 }];
        Job { of, speed: &speeds[of.model], worker, done: 0.0, workers: 0, servers: 0, ended: None }
    };
    let all = jobs.iter().map(job).collect();
    let mut world = World { nodes: vec![[0; 2]; nodes], jobs: all, ties, there: Vec::new() };
    for slot in 0.. {
        let mut there: Vec<usize> =
            (0..jobs.len()).filter(|i| jobs[*i].slot <= slot && world.jobs[*i].ended.is_none()).collect();
        there.sort_by_key(|i| ties[*i]);
        world.there = there;
        world.slot(baseline);
        world.train(slot);
        if world.jobs.iter().all(|job| job.ended.is_some()) {
            break;
        }
    }
    world.jobs.iter().map(|job| job.ended.expect("all ended") - job.of.slot as f64).collect()
}

impl World<'_> {
    fn slot(&mut self, baseline: Baseline) {
        self.nodes.iter_mut().for_each(|node| *node = [0; 2]);
        self.jobs.iter_mut().for_each(|job| (job.workers, job.servers) = (0, 0));
        match baseline {
            Baseline::Drf => self.drf(),
            Baseline::Fifo => self.one_after_the_other(|_| 0.0),
            Baseline::Srtf => self.one_after_the_other(|job| job.fraction_left()),
            Baseline::Tetris => (0..self.nodes.len()).for_each(|node| self.tetris(node)),
            Baseline::Optimus => self.optimus(),
        }
    }

    fn train(&mut self, slot: u64) {
        for job in self.jobs.iter_mut().filter(|job| job.workers > 0 && job.servers > 0) {
            let left = job.left(job.workers, job.servers);
            if left <= 1.0 {
                job.ended = Some(slot as f64 + left);
            } else {
                job.done += job.speed.iterations_per_s(job.workers, job.servers) * SLOT_S as f64;
            }
        }
    }

    /// Takes so many slots on a node, if they are free there.
    fn take(&mut self, node: usize, need: [u64; 2]) -> bool {
        let fits = (0..2).all(|r| self.nodes[node][r] + need[r] <= NODE[r]);
        if fits {
            (0..2).for_each(|r| self.nodes[node][r] += need[r]);
        }
        fits
    }

    fn take_least_loaded(&mut self, need: [u64; 2]) -> bool {
        let least = (0..self.nodes.len()).min_by_key(|node| (self.nodes[*node].iter().sum::<u64>(), *node));
        self.take(least.expect("there are nodes"), need)
    }

    fn give_bundle(&mut self, i: usize) -> bool {
        let given = self.take_least_loaded(self.jobs[i].bundle());
        if given {
            self.jobs[i].workers += 1;
            self.jobs[i].servers += 1;
        }
        given
    }

    fn drf(&mut self) {
        let all = self.nodes.len() as f64 * 8.0;
        loop {
            let share = |i: usize| {
                let job = &self.jobs[i];
                let of =
                    |r: usize| u64::from(job.workers) * job.worker[r] + u64::from(job.servers) * SERVER[r];
                (of(0).max(of(1)) as f64) / all
            };
            let open = self.there.iter().filter(|i| self.jobs[**i].workers < MOST);
            let next = open.min_by(|a, b| {
                let arrival = |i: usize| (self.jobs[i].of.slot, self.ties[i]);
                share(**a).total_cmp(&share(**b)).then(arrival(**a).cmp(&arrival(**b)))
            });
            let Some(i) = next.copied() else { return };
            if !self.give_bundle(i) {
                return;
            }
        }
    }

    fn one_after_the_other(&mut self, key: impl Fn(&Job<'_>) -> f64) {
        let mut order = self.there.clone();
        order.sort_by(|a, b| {
            let arrival = |i: usize| (self.jobs[i].of.slot, self.ties[i]);
            key(&self.jobs[*a]).total_cmp(&key(&self.jobs[*b])).then(arrival(*a).cmp(&arrival(*b)))
        });
        for i in order {
            for _ in 0..MOST {
                if !self.give_bundle(i) {
                    return;
                }
            }
        }
    }

    fn tetris(&mut self, node: usize) {
        loop {
            let free: [f64; 2] = std::array::from_fn(|r| (NODE[r] - self.nodes[node][r]) as f64);
            let align = |i: usize| {
                let bundle = self.jobs[i].bundle();
                (0..2).map(|r| free[r] * bundle[r] as f64).sum::<f64>()
            };
            let work =
                |i: usize| self.jobs[i].bundle().iter().sum::<u64>() as f64 * self.jobs[i].fraction_left();
            let mean = |of: &dyn Fn(usize) -> f64| self.there.iter().map(|i| of(*i)).sum::<f64>();
            let weight = mean(&align) / mean(&work);
            if weight.is_nan() || weight == 0.0 {
                return;
            }
            let score = |i: usize| align(i) + weight * work(i);
            let open = self.there.iter().filter(|i| self.jobs[**i].workers < MOST);
            let best = open.min_by(|a, b| score(**b).total_cmp(&score(**a)));
            let Some(i) = best.copied() else { return };
            if !self.take(node, self.jobs[i].bundle()) {
                return;
            }
            self.jobs[i].workers += 1;
            self.jobs[i].servers += 1;
        }
    }

    /// A job's better unit (whether it is a server) and what it gains.
    fn gain(&self, i: usize) -> (bool, f64) {
        let job = &self.jobs[i];
        if job.workers == 0 || job.servers == 0 {
            return (job.workers > 0, f64::INFINITY);
        }
        let now = job.left(job.workers, job.servers);
        let worker = now - job.left(job.workers + 1, job.servers);
        let server = now - job.left(job.workers, job.servers + 1);
        if server >= worker { (true, server) } else { (false, worker) }
    }

    fn optimus(&mut self) {
        let mut open = self.there.clone();
        while !open.is_empty() {
            let best = |a: &&usize, b: &&usize| {
                self.gain(**a)
                    .1
                    .total_cmp(&self.gain(**b).1)
                    .then(Reverse(self.ties[**a]).cmp(&Reverse(self.ties[**b])))
            };
            let i = *open.iter().max_by(best).expect("some are open");
            let (server, gain) = self.gain(i);
            let count = if server { self.jobs[i].servers } else { self.jobs[i].workers };
            if gain <= 0.0 {
                return;
            }
            if count >= MOST {
                open.retain(|other| *other != i);
                continue;
            }
            if !self.take_least_loaded(if server { SERVER } else { self.jobs[i].worker }) {
                return;
            }
            *if server { &mut self.jobs[i].servers } else { &mut self.jobs[i].workers } += 1;
        }
    }
}
