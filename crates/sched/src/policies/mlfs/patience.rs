//! Whoever has waited too long is not passed over any more.
//!
//! A queue of gangs that takes whatever fits starves the large ones for as long as small ones come. The paper says nothing of
//! it: its queue is of single tasks.

use crate::model::JobId;
use crate::view::Snapshot;

use super::member::Fit;
use super::queue::Key;
use super::round::Mlfs;
use super::saying::is_rival;

impl Mlfs {
    /// Whether something of a job must leave room for what has waited too long.
    pub(super) fn is_held(&self, id: JobId) -> bool {
        let job = &self.members[&id].job;
        self.made.impatient.iter().any(|ahead| *ahead != id && is_rival(&self.members[ahead].job, job))
    }

    /// What has waited too long and found no room yet gets what comes free from now on.
    pub(super) fn hold_room(&mut self, seen: &Snapshot, key: &Key) {
        let patience_h = self.parameters.patience_h;
        let waited_h = key.waited * self.parameters.time_unit.seconds() / 3600.0;
        if patience_h == 0.0 || waited_h < patience_h {
            return;
        }
        let missed = self.made.misses.get(&key.job).is_some_and(|miss| miss.until.is_none());
        if missed && self.members[&key.job].target.is_none() && self.fit(seen, key.job) == Fit::Within {
            self.made.impatient.push(key.job);
        }
    }
}
