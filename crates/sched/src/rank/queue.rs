//! A queue in any order, grouped by shape, so that a job that does not fit rules out all later jobs of
//! its shape at once.
//!
//! Cost: O(log n) to insert, remove, or step; starting a walk is O(shapes). A decision thus does not
//! depend on how many jobs wait, only on how many different things they ask for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use crate::model::{Job, JobId, Parallelism, Resources, Wanted, WorkerRange};

/// What decides whether a job's smallest gang fits: two jobs of one shape fit or do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    worker: Resources,
    workers: WorkerRange,
    server: Option<Resources>,
    servers: WorkerRange,
    wanted: Wanted,
    /// Every task graph is a shape of its own.
    graph: Option<JobId>,
}

impl Shape {
    /// The shape of a job.
    pub fn of(job: &Job) -> Self {
        match &job.shape {
            Parallelism::DataParallel(shape) => Self {
                worker: shape.worker,
                workers: shape.workers,
                server: shape.server,
                servers: shape.servers,
                wanted: job.wanted,
                graph: None,
            },
            Parallelism::TaskGraph(_) => Self {
                worker: Resources::NONE,
                workers: WorkerRange::exactly(0),
                server: None,
                servers: WorkerRange::exactly(0),
                wanted: job.wanted,
                graph: Some(job.id),
            },
        }
    }
}

/// Waiting jobs, ordered by a key and then by number.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    numbers: BTreeMap<Shape, usize>,
    /// One ordered list for each shape.
    lists: Vec<BTreeMap<(K, JobId), Arc<Job>>>,
    places: BTreeMap<JobId, (usize, K)>,
}

/// A job met on a walk.
#[derive(Clone, Debug)]
pub struct Waiting<K> {
    /// Its key.
    pub key: K,
    /// The job.
    pub job: Arc<Job>,
    /// The number of its shape in this queue.
    pub shape: usize,
}

/// A walk along a queue in its order. Jobs may be removed and added while it goes on.
#[derive(Clone, Debug)]
pub struct Walk<K> {
    ahead: BinaryHeap<Reverse<(K, JobId, usize)>>,
    last: Option<(K, JobId)>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), lists: Vec::new(), places: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Queue<K> {
    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The key of a waiting job.
    pub fn key(&self, id: JobId) -> Option<K> {
        self.places.get(&id).map(|(_, key)| *key)
    }

    /// A waiting job, given its key.
    pub fn get(&self, id: JobId, key: K) -> Option<&Arc<Job>> {
        let (shape, _) = self.places.get(&id)?;
        self.lists[*shape].get(&(key, id))
    }

    /// Adds a job, or moves it if it is there already.
    pub fn insert(&mut self, key: K, job: &Arc<Job>) {
        self.remove(job.id);
        let new = self.numbers.len();
        let shape = *self.numbers.entry(Shape::of(job)).or_insert(new);
        if shape == self.lists.len() {
            self.lists.push(BTreeMap::new());
        }
        self.lists[shape].insert((key, job.id), job.clone());
        self.places.insert(job.id, (shape, key));
    }

    /// Removes a job, if it is there.
    pub fn remove(&mut self, id: JobId) -> bool {
        let Some((shape, key)) = self.places.remove(&id) else { return false };
        self.lists[shape].remove(&(key, id));
        true
    }

    /// The first job of the same shape as `job`.
    pub fn first_like(&self, job: &Job) -> Option<&Arc<Job>> {
        let shape = self.numbers.get(&Shape::of(job))?;
        self.lists[*shape].values().next()
    }

    /// The jobs before a waiting one, the first of all first; none if it does not wait here. O(n log n).
    pub fn ahead_of(&self, id: JobId) -> Vec<JobId> {
        let Some((_, key)) = self.places.get(&id) else { return Vec::new() };
        let mut before: Vec<(K, JobId)> =
            self.lists.iter().flat_map(|list| list.range(..(*key, id)).map(|(place, _)| *place)).collect();
        before.sort_unstable();
        before.into_iter().map(|(_, id)| id).collect()
    }

    /// Those of the jobs before a waiting one that have its shape, the first first.
    pub fn ahead_alike(&self, id: JobId) -> Vec<JobId> {
        let Some((shape, key)) = self.places.get(&id) else { return Vec::new() };
        self.lists[*shape].range(..(*key, id)).map(|((_, id), _)| *id).collect()
    }

    /// The first of all.
    pub fn first(&self) -> Option<Waiting<K>> {
        self.walk().next(self)
    }

    /// The first job of each shape, in no particular order.
    pub fn heads(&self) -> impl Iterator<Item = Waiting<K>> + '_ {
        self.lists.iter().enumerate().filter_map(|(shape, list)| {
            let ((key, _), job) = list.first_key_value()?;
            Some(Waiting { key: *key, job: job.clone(), shape })
        })
    }

    /// All waiting jobs by number.
    pub fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.places.keys().copied()
    }

    /// A walk from the first job on.
    pub fn walk(&self) -> Walk<K> {
        let heads = self.lists.iter().enumerate().filter_map(|(shape, list)| {
            list.first_key_value().map(|((key, id), _)| Reverse((*key, *id, shape)))
        });
        Walk { ahead: heads.collect(), last: None }
    }
}

impl<K: Ord + Copy> Walk<K> {
    /// The next job. Its shape is walked on only after [`Self::go_on`].
    pub fn next(&mut self, queue: &Queue<K>) -> Option<Waiting<K>> {
        loop {
            let Reverse((key, id, shape)) = self.ahead.pop()?;
            if self.last == Some((key, id)) {
                continue;
            }
            self.last = Some((key, id));
            match queue.lists[shape].get(&(key, id)) {
                Some(job) => return Some(Waiting { key, job: job.clone(), shape }),
                None => self.push_after(queue, shape, key, id),
            }
        }
    }

    /// Lets the walk meet the jobs behind `met` of the same shape.
    pub fn go_on(&mut self, queue: &Queue<K>, met: &Waiting<K>) {
        self.push_after(queue, met.shape, met.key, met.job.id);
    }

    /// Lets the walk meet a job that was added to the queue while it went on, behind what it has met.
    pub fn meet(&mut self, queue: &Queue<K>, id: JobId) {
        if let Some((shape, key)) = queue.places.get(&id) {
            self.ahead.push(Reverse((*key, id, *shape)));
        }
    }

    fn push_after(&mut self, queue: &Queue<K>, shape: usize, key: K, id: JobId) {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut behind = queue.lists[shape].range((Excluded((key, id)), Unbounded));
        if let Some(((key, id), _)) = behind.next() {
            self.ahead.push(Reverse((*key, *id, shape)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Declared, Goals, MoveCost, TenantId, Time};

    fn job(id: u32, gpus: u32) -> Arc<Job> {
        Arc::new(Job {
            id: JobId(id),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(gpus),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared: Declared::default(),
            move_cost: MoveCost::default(),
        })
    }

    fn ids_met(queue: &Queue<u32>, block: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut walk = queue.walk();
        let mut met = Vec::new();
        while let Some(waiting) = walk.next(queue) {
            met.push(waiting.job.id.0);
            if !block(waiting.job.id.0) {
                walk.go_on(queue, &waiting);
            }
        }
        met
    }

    #[test]
    fn a_walk_meets_all_shapes_in_one_order() {
        let mut queue = Queue::default();
        for (id, gpus, key) in [(0, 1, 5), (1, 8, 1), (2, 1, 3), (3, 8, 9), (4, 2, 4)] {
            queue.insert(key, &job(id, gpus));
        }
        assert_eq!(ids_met(&queue, |_| false), [1, 2, 4, 0, 3]);
        assert_eq!(ids_met(&queue, |id| id == 2), [1, 2, 4, 3], "job 0 has the shape of job 2");
        queue.insert(0, &job(3, 8));
        assert_eq!(ids_met(&queue, |_| false), [3, 1, 2, 4, 0], "a job that is added again moves");
        assert!(queue.remove(JobId(1)) && !queue.remove(JobId(1)));
        assert_eq!(queue.len(), 4);
    }

    #[test]
    fn a_walk_meets_each_job_once_even_if_told_twice() {
        let mut queue = Queue::default();
        for id in 0..3 {
            queue.insert(id, &job(id, 1));
        }
        let mut walk = queue.walk();
        let first = walk.next(&queue).unwrap();
        walk.go_on(&queue, &first);
        walk.meet(&queue, JobId(1));
        walk.meet(&queue, JobId(2));
        let mut met = Vec::new();
        while let Some(waiting) = walk.next(&queue) {
            met.push(waiting.job.id.0);
            walk.go_on(&queue, &waiting);
        }
        assert_eq!(met, [1, 2]);
    }
}
