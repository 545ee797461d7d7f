//! The true life of the copies of one job: each has a speed, pauses and a quota of its own.

use trainyard_sched::model::{Allocation, CopyId, CopyProgress, Quotas, Span};

/// What is missing of a whole iteration by rounding of time alone, in seconds of work.
const ROUNDING_S: f64 = 2e-6;

/// The copies of an attempt that has several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Ascending by number.
    parts: Vec<Part>,
    /// Iterations of the state that all began from, with those of copies that have left.
    base: f64,
    /// The merge that is being made.
    merging: Option<u32>,
    /// The number of the latest merge that was made.
    merges: u32,
    /// How far each may go once it is.
    next: Quotas,
    /// Counts the loads of single copies.
    loads: u32,
}

/// One copy.
#[derive(Clone, Debug)]
struct Part {
    copy: CopyId,
    held: Allocation,
    /// Iterations in this attempt, and since all were brought together.
    iterations: f64,
    since: f64,
    /// How many of the latter it may do.
    quota: Option<u64>,
    /// How fast it goes while it trains.
    per_s: f64,
    /// Which of the loads of these copies it waits for.
    loading: Option<u32>,
    /// Work that is left before its first new iteration, in iterations.
    warm_up: f64,
}

impl Part {
    fn new(copy: CopyId, held: Allocation, quota: Option<u64>) -> Self {
        let (iterations, since, per_s, warm_up) = (0.0, 0.0, 0.0, 0.0);
        Self { copy, held, iterations, since, quota, per_s, loading: None, warm_up }
    }

    fn left(&self) -> f64 {
        self.quota.map_or(f64::INFINITY, |quota| (quota as f64 - self.since).max(0.0))
    }

    fn trains(&self) -> bool {
        self.loading.is_none() && self.left() > 0.0
    }

    fn advance(&mut self, passed_s: f64) {
        let work = self.per_s * passed_s;
        let ready = self.warm_up.min(work);
        self.warm_up -= ready;
        let (left, done) = (self.left(), work - ready);
        // Time is whole microseconds, so at the end of its quota it may seem to lack a trifle.
        let reaches = self.warm_up == 0.0 && done >= left - self.per_s * ROUNDING_S;
        if reaches {
            self.iterations += left;
            self.since = self.quota.map_or(self.since, |quota| quota as f64);
        } else {
            self.iterations += done;
            self.since += done;
        }
    }
}

/// What each copy of an allocation holds.
pub(crate) fn split(allocation: &Allocation) -> Vec<(CopyId, Allocation)> {
    let copies = allocation.placements().chunk_by(|one, other| one.copy == other.copy);
    copies.map(|placements| (placements[0].copy, Allocation::new(placements.to_vec()))).collect()
}

impl Copies {
    /// The copies of an allocation, all from the same state; nothing if there are not several.
    pub(crate) fn of(allocation: &Allocation, quotas: &Quotas, iterations: f64) -> Option<Self> {
        let parts = split(allocation).into_iter().map(|(copy, held)| Part::new(copy, held, quotas.of(copy)));
        let copies = Self { parts: parts.collect(), base: iterations, ..Self::default() };
        (copies.parts.len() > 1).then_some(copies)
    }

    /// A job that ran as one goes on as this one copy, until others come.
    pub(crate) fn from_one(held: &Allocation, iterations: f64, per_s: f64) -> Self {
        let copy = held.placements().first().map_or(CopyId(0), |placement| placement.copy);
        let part = Part { per_s, ..Part::new(copy, held.clone(), None) };
        Self { parts: vec![part], base: iterations, ..Self::default() }
    }

    /// Iterations of all of them.
    pub(crate) fn iterations(&self) -> f64 {
        self.base + self.parts.iter().map(|part| part.iterations).sum::<f64>()
    }

    /// All begin to train from so many iterations, each after some work that leads to none.
    pub(crate) fn begin(&mut self, iterations: f64, warm_up: f64) {
        self.base = iterations;
        self.parts.iter_mut().for_each(|part| part.warm_up = warm_up);
    }

    pub(crate) fn advance(&mut self, passed_s: f64) {
        if self.merging.is_none() {
            self.parts.iter_mut().filter(|part| part.trains()).for_each(|part| part.advance(passed_s));
        }
    }

    /// Works out how fast each goes where it is.
    pub(crate) fn retime(&mut self, speed: impl Fn(&Allocation) -> f64) {
        self.parts.iter_mut().for_each(|part| part.per_s = speed(&part.held));
    }

    /// Iterations a second of those that train.
    pub(crate) fn per_s(&self) -> f64 {
        let training = self.parts.iter().filter(|part| self.merging.is_none() && part.trains());
        training.map(|part| part.per_s).sum()
    }

    /// How long it takes until one of them has done its quota or all have done so much, whichever is first, and whether it is
    /// the latter.
    pub(crate) fn next(&self, left: f64) -> Option<(Span, bool)> {
        // What is left is less than what a copy does in no time.
        let rest = self.parts.iter().map(|part| part.per_s).sum::<f64>() * ROUNDING_S;
        if left <= rest && self.merging.is_none() {
            return Some((Span::ZERO, true));
        }
        if self.merging.is_some() {
            return None;
        }
        let training = || self.parts.iter().filter(|part| part.trains() && part.per_s > 0.0);
        // Those that still prepare themselves do not yet count.
        let ready = || training().filter(|part| part.warm_up == 0.0);
        let all_s = left / ready().map(|part| part.per_s).sum::<f64>();
        let prepared_s = training().filter(|part| part.warm_up > 0.0).map(|part| part.warm_up / part.per_s);
        let quota_s = ready().map(|part| part.left() / part.per_s);
        let one_s = quota_s.chain(prepared_s).fold(f64::INFINITY, f64::min);
        let first_s = all_s.min(one_s);
        // Rounded up, so that what was waited for has come.
        first_s.is_finite().then(|| (Span((first_s * 1e6).ceil().max(1.0) as u64), all_s <= one_s))
    }

    /// How far each is.
    pub(crate) fn told(&self) -> Vec<CopyProgress> {
        let told = |part: &Part| CopyProgress {
            copy: part.copy,
            iterations: part.iterations,
            speed: part.per_s,
            waits: self.merging.is_some() || !part.trains(),
        };
        self.parts.iter().map(told).collect()
    }

    /// What a copy that is lost takes with it: iterations since all were brought together.
    pub(crate) fn lost(&self, is_lost: impl Fn(&Allocation) -> bool) -> f64 {
        self.parts.iter().filter(|part| is_lost(&part.held)).map(|part| part.since).sum()
    }

    /// Whether nobody has done anything since all were brought together.
    pub(crate) fn are_equal(&self) -> bool {
        self.parts.iter().all(|part| part.since == 0.0)
    }

    /// All are to be brought together. Says whether that is news.
    pub(crate) fn begin_merge(&mut self, number: u32, next: &Quotas) -> bool {
        if number != 0 && number <= self.merges {
            return false;
        }
        self.next = next.clone();
        self.merging.replace(number).is_none()
    }

    /// The merge that is being made.
    pub(crate) const fn merging(&self) -> Option<u32> {
        self.merging
    }

    /// All are equal, and go on as far as they may.
    pub(crate) fn end_merge(&mut self) {
        self.merges = self.merging.take().map_or(self.merges, |number| number.max(self.merges));
        let next = std::mem::take(&mut self.next);
        for part in &mut self.parts {
            (part.since, part.quota) = (0.0, next.of(part.copy));
        }
    }

    /// Whether a copy is on the same nodes in another allocation, and has the same there.
    fn stays(part: &Part, allocation: &[(CopyId, Allocation)]) -> bool {
        allocation.iter().any(|(copy, held)| *copy == part.copy && *held == part.held)
    }

    /// Whether any copy goes on as it is if all hold this.
    pub(crate) fn any_stays(&self, allocation: &Allocation) -> bool {
        let wanted = split(allocation);
        self.parts.iter().any(|part| Self::stays(part, &wanted))
    }

    /// They hold this from now on. What those did that go is brought in. Says which ones load, with the numbers of the loads.
    pub(crate) fn change(&mut self, allocation: &Allocation, quotas: &Quotas) -> Vec<(CopyId, u32)> {
        let wanted = split(allocation);
        let (stay, go): (Vec<Part>, Vec<Part>) =
            std::mem::take(&mut self.parts).into_iter().partition(|part| Self::stays(part, &wanted));
        let mut new = Vec::new();
        for (copy, held) in wanted {
            let part = stay.iter().find(|part| part.copy == copy).cloned().unwrap_or_else(|| {
                self.loads += 1;
                new.push((copy, self.loads));
                // One that is only given another size goes on counting.
                let before = go.iter().find(|part| part.copy == copy);
                let iterations = before.map_or(0.0, |part| part.iterations);
                let since = before.map_or(0.0, |part| part.since);
                Part { loading: Some(self.loads), iterations, since, ..Part::new(copy, held, None) }
            });
            self.parts.push(Part { quota: quotas.of(copy), ..part });
        }
        let gone = go.iter().filter(|part| new.iter().all(|(copy, _)| *copy != part.copy));
        self.base += gone.map(|part| part.iterations).sum::<f64>();
        new
    }

    /// A load is over, unless its copy has gone or begun another one.
    pub(crate) fn loaded(&mut self, load: (CopyId, u32)) {
        let is_it = |part: &&mut Part| (part.copy, part.loading) == (load.0, Some(load.1));
        if let Some(part) = self.parts.iter_mut().find(is_it) {
            part.loading = None;
        }
    }

    /// All have loaded.
    pub(crate) fn all_loaded(&mut self) {
        self.parts.iter_mut().for_each(|part| part.loading = None);
    }
}
