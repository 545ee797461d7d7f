//! What is known of a job: how fast it goes on each GPU type, how much is left, and what follows for its worth.
//!
//! All of it is declared or measured. Where that is not enough:
//! - A type on which nothing is known of a job counts as the slowest that is known; if none is, the speed that it reports now
//!   counts for all types, and if it reports none, all types are alike.
//! - A job that does not say how many iterations it has runs until its time limit. Without one it is taken to have as much
//!   left as it has done, and at least one round at its best: the longer it ran, the longer it will, as under least attained
//!   service.
//! - A job past its declared end has a hundredth of what it did left.

use crate::model::{GPU, GpuTypeId, Time};
use crate::view::JobView;

use super::candidates::Gang;
use super::stock::Worker;
use super::utility::Facts;

/// A job past its declared end has this part of what it did left.
const OVERTIME: f64 = 0.01;
/// The least that is ever left, as a part of a second at the best pace.
const LEAST_LEFT_S: f64 = 1e-3;

/// What is asked about all jobs alike.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The time, as a snapshot has it.
    pub at: Time,
    /// Working devices of each GPU type.
    pub gpus: Vec<u32>,
    /// Jobs that have not ended.
    pub jobs: usize,
    /// The length of a round in seconds.
    pub round_s: f64,
    /// Whether gangs on several nodes are slower as measured.
    pub kappa: bool,
}

/// What is known of one job.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    /// GPUs of its smallest gang, in whole devices or parts of one.
    pub gpus: f64,
    /// Workers of its smallest gang; 1 for a task graph.
    pub workers: u32,
    /// Iterations a second of that gang on one node, by type; 0 where it cannot run.
    pub together: Vec<f64>,
    /// The same on several nodes.
    pub spread: Vec<f64>,
    /// Iterations done and left.
    pub done: f64,
    /// Iterations left.
    pub left: f64,
    /// How long ago it arrived, in seconds.
    pub age_s: f64,
    /// The part of its pace on a type that it would get on its equal part of the cluster; see Gavel's isolated share.
    pub isolated_per_s: f64,
}

impl Claim {
    /// What is known of this job.
    pub(super) fn of(view: &JobView, frame: &Frame) -> Self {
        let shape = view.job.shape.data_parallel();
        let workers = shape.map_or(1, |shape| shape.workers.min.max(1));
        let gpus = view.job.shape.minimum().gpu_milli as f64 / GPU as f64;
        let together = paces(view, frame, workers);
        let spread = (0..together.len()).zip(&together).map(|(i, together)| {
            let apart = view.iterations_per_s(GpuTypeId(i as u8), workers, true).filter(|_| frame.kappa);
            apart.unwrap_or(*together).min(*together)
        });
        let spread = spread.collect();
        let fastest = fastest(&together);
        let done = view.iterations(frame.at).max(0.0);
        let left = left(view, frame, done, fastest).max(fastest * LEAST_LEFT_S);
        let isolated_per_s = isolated(&together, frame, gpus.max(1.0));
        let age_s = frame.at.since(view.served.arrived).as_secs_f64();
        Self { gpus, workers, together, spread, done, left, age_s, isolated_per_s }
    }

    /// Its pace on the fastest type.
    pub(super) fn fastest(&self) -> f64 {
        fastest(&self.together)
    }

    /// How long it still takes on the fastest type.
    pub(super) fn remaining_s(&self) -> f64 {
        self.left / self.fastest()
    }

    /// What its worth depends on, given how long it would have run in isolation so far.
    pub(super) fn facts(&self, isolated_so_far_s: f64) -> Facts {
        let slowest = self.together.iter().copied().filter(|pace| *pace > 0.0).fold(f64::INFINITY, f64::min);
        let slowest = if slowest.is_finite() { slowest } else { self.fastest() };
        let iterations = self.done + self.left;
        Facts {
            iterations,
            fastest_s: iterations / self.fastest(),
            slowest_s: iterations / slowest,
            isolated_s: isolated_so_far_s + self.left / self.isolated_per_s,
        }
    }

    /// The job as a gang of whole GPUs, if it is one: equal workers, without parameter servers.
    pub(super) fn gang(&self, view: &JobView, facts: Facts, restart_s: f64, mixing: bool) -> Option<Gang> {
        let shape = view.job.shape.data_parallel()?;
        let has_servers = shape.server.is_some() && shape.servers.min > 0;
        let worker = Worker::new(shape.worker).filter(|_| !has_servers && shape.workers.min > 0)?;
        Some(Gang {
            workers: self.workers,
            worker,
            together: self.together.clone(),
            spread: self.spread.clone(),
            left: self.left,
            age_s: self.age_s,
            facts,
            restart_s,
            held: None,
            may_mix: mixing && view.job.wanted.mixed_gpu_types,
            topology: view.job.wanted.topology,
            shuns: None,
        })
    }
}

fn fastest(together: &[f64]) -> f64 {
    let fastest = together.iter().copied().fold(0.0, f64::max);
    if fastest > 0.0 { fastest } else { 1.0 }
}

/// Iterations a second by type.
fn paces(view: &JobView, frame: &Frame, workers: u32) -> Vec<f64> {
    let known = |i: usize| {
        let exists = frame.gpus[i] > 0;
        let pace = view.iterations_per_s(GpuTypeId(i as u8), workers, false);
        if exists { pace.filter(|pace| pace.is_finite()) } else { Some(0.0) }
    };
    let known: Vec<Option<f64>> = (0..frame.gpus.len()).map(known).collect();
    let positive = known.iter().flatten().copied().filter(|pace| *pace > 0.0);
    let slowest = positive.fold(f64::INFINITY, f64::min);
    let now = if view.done.speed > 0.0 && view.done.speed.is_finite() { view.done.speed } else { 1.0 };
    let usual = if slowest.is_finite() { slowest } else { now };
    known.into_iter().map(|pace| pace.unwrap_or(usual)).collect()
}

/// Iterations that are left.
fn left(view: &JobView, frame: &Frame, done: f64, fastest: f64) -> f64 {
    let declared = &view.job.declared;
    match (view.job.goal(), declared.limit) {
        (Some(all), _) if all > done => all - done,
        (Some(_), _) => done * OVERTIME,
        (None, Some(limit)) => match limit.saturating_sub(view.executed(frame.at)).as_secs_f64() {
            left_s if left_s > 0.0 => left_s * fastest,
            _ => done * OVERTIME,
        },
        (None, None) => done.max(frame.round_s * fastest),
    }
}

/// Iterations a second on an equal part of the cluster: `N_j / (M s)` of each type, no more than all the time in sum.
fn isolated(together: &[f64], frame: &Frame, gpus: f64) -> f64 {
    let part = |i: usize| f64::from(frame.gpus[i]) / (frame.jobs.max(1) as f64 * gpus);
    let sum: f64 = (0..together.len()).map(part).sum();
    let pace: f64 = together.iter().enumerate().map(|(i, pace)| pace * part(i)).sum();
    let pace = pace / sum.max(1.0);
    if pace > 0.0 { pace } else { fastest(together) / (frame.jobs.max(1) as f64 * gpus) }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        Declared, Goals, GpuTypeSet, Job, JobId, MoveCost, Parallelism, Rate, Rates, Span, TenantId, Wanted,
    };

    pub(in super::super) fn view(workers: u32, declared: Declared) -> JobView {
        let job = Job {
            id: JobId(0),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(workers),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared,
            move_cost: MoveCost::default(),
        };
        JobView::new(Arc::new(job), Time::ZERO)
    }

    fn frame(at_s: u64) -> Frame {
        Frame { at: Time::from_secs(at_s), gpus: vec![2, 1, 0], jobs: 2, round_s: 360.0, kappa: true }
    }

    fn rates(known: &[(u8, bool, f64)]) -> Option<Arc<Rates>> {
        let rate = |(gpu_type, spread, per_s): &(u8, bool, f64)| Rate {
            gpu_type: GpuTypeId(*gpu_type),
            workers: 2,
            spread: *spread,
            iterations_per_s: *per_s,
        };
        Rates::new(known.iter().map(rate).collect(), Vec::new()).shared()
    }

    #[test]
    fn paces_are_profiled_ones_and_never_faster_when_spread() {
        let rates = rates(&[(0, false, 4.0), (0, true, 3.0), (1, false, 1.0), (1, true, 9.0)]);
        let declared = Declared { iterations: Some(100.0), rates, ..Declared::default() };
        let mut view = view(2, declared);
        let claim = Claim::of(&view, &frame(10));
        assert_eq!((&claim.together[..], &claim.spread[..]), (&[4.0, 1.0, 0.0][..], &[3.0, 1.0, 0.0][..]));
        assert_eq!((claim.left, claim.remaining_s(), claim.age_s), (100.0, 25.0, 10.0));
        // Of two jobs of two GPUs each has half of two and a quarter of one: 4/2 + 1/4.
        assert_eq!(claim.isolated_per_s, 2.25);
        let facts = claim.facts(3.0);
        assert_eq!((facts.fastest_s, facts.slowest_s), (25.0, 100.0));
        assert_eq!(facts.isolated_s, 3.0 + 100.0 / 2.25);
        let alike = Claim::of(&view, &Frame { kappa: false, ..frame(10) });
        assert_eq!(alike.spread, alike.together);
        view.done.iterations = 60.0;
        assert_eq!(Claim::of(&view, &frame(10)).left, 40.0);
        view.done.iterations = 200.0;
        assert_eq!(Claim::of(&view, &frame(10)).left, 2.0, "past its end");
        Arc::make_mut(&mut view.job).wanted.gpu_types = GpuTypeSet::of(&[GpuTypeId(1)]);
        assert_eq!(Claim::of(&view, &frame(10)).together, [0.0, 1.0, 0.0]);
    }

    #[test]
    fn what_is_not_known_of_a_type_is_the_slowest_that_is() {
        let declared = Declared { rates: rates(&[(0, false, 4.0)]), ..Declared::default() };
        let slow = view(2, declared);
        assert_eq!(Claim::of(&slow, &frame(0)).together, [4.0, 4.0, 0.0]);
        let mut silent = view(2, Declared::default());
        assert_eq!(Claim::of(&silent, &frame(0)).together, [1.0, 1.0, 0.0]);
        silent.done.speed = 5.0;
        assert_eq!(Claim::of(&silent, &frame(0)).together, [5.0, 5.0, 0.0]);
    }

    #[test]
    fn a_job_of_unknown_length_has_as_much_left_as_it_did() {
        let mut silent = view(1, Declared::default());
        assert_eq!(Claim::of(&silent, &frame(0)).left, 360.0, "a round at the least");
        silent.done.iterations = 5000.0;
        assert_eq!(Claim::of(&silent, &frame(0)).left, 5000.0);
        let limit = Some(Span::from_secs(1000));
        let mut limited = view(1, Declared { limit, ..Declared::default() });
        assert_eq!(Claim::of(&limited, &frame(0)).left, 1000.0);
        limited.served.executed = Span::from_secs(400);
        assert_eq!(Claim::of(&limited, &frame(0)).left, 600.0);
        limited.served.executed = Span::from_secs(4000);
        limited.done.iterations = 4000.0;
        assert_eq!(Claim::of(&limited, &frame(0)).left, 40.0);
    }

    #[test]
    fn only_equal_workers_with_whole_gpus_are_a_gang() {
        use crate::model::{DataParallel, Resources, WorkerRange};
        let gang = |shape: Parallelism| {
            let mut view = view(1, Declared::default());
            Arc::make_mut(&mut view.job).shape = shape;
            let claim = Claim::of(&view, &frame(0));
            claim.gang(&view, claim.facts(0.0), 0.0, true).is_some()
        };
        assert!(gang(Parallelism::gang(3)));
        assert!(gang(Parallelism::rigid(3, Resources::gpus(2))));
        assert!(!gang(Parallelism::rigid(3, Resources::cpus(2))));
        assert!(!gang(Parallelism::rigid(1, Resources { gpu_milli: 500, ..Resources::NONE })));
        let served = |count| DataParallel {
            worker: Resources::gpus(1),
            workers: WorkerRange::exactly(2),
            server: Some(Resources::cpus(1)),
            servers: WorkerRange::exactly(count),
        };
        assert!(!gang(Parallelism::DataParallel(served(1))));
        assert!(gang(Parallelism::DataParallel(served(0))));
    }
}
