//! Whoever has waited too long is not passed over any more.
//!
//! A queue of gangs that takes whatever fits starves the large ones for as long as small ones come. The paper says nothing of
//! it: its queue is of single tasks.
//!
//! Whatever could not even start if nothing ran on the nodes that take work now keeps nobody waiting.

use crate::model::{JobId, NodeId, NodeState};
use crate::place::{Ask, Rule};
use crate::view::{JobView, Snapshot};

use super::member::{Fit, Member};
use super::placing::{Sought, pieces};
use super::queue::{Key, What};
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
        let may_start = missed
            && self.members[&key.job].target.is_none()
            && !matches!(self.fit(seen, key.job), Fit::Never { .. })
            && self.fits_what_is_up(seen, key.job);
        if may_start {
            self.made.impatient.push(key.job);
        }
    }

    /// Whether a job could start on the nodes that take work now, if nothing ran there.
    fn fits_what_is_up(&mut self, seen: &Snapshot, id: JobId) -> bool {
        let is_out = |state: NodeState| state != NodeState::Up;
        let nodes = seen.cluster.nodes.iter().filter(|node| is_out(node.state));
        let out: Vec<(NodeId, NodeState)> = nodes.map(|node| (node.id, node.state)).collect();
        if out.is_empty() {
            return true;
        }
        let alone = Member::new(&self.members[&id].job);
        let view = JobView::new(alone.job.clone(), seen.at);
        out.iter().for_each(|(node, state)| self.idle.set_state(*node, *state));
        let fits = if alone.goes_by_replica() {
            match self.idle.seek(&alone, &pieces(&view, &alone, What::Replica(0), None), None) {
                Sought::Found(new) => {
                    new.iter().for_each(|(_, load)| self.idle.remove(load));
                    true
                }
                Sought::NotFound { .. } => false,
            }
        } else {
            let room = self.idle.free.place(Rule::Pack, &Ask::minimum(&alone.job.shape, &alone.job.wanted));
            room.map(|room| self.idle.free.release(&room, &alone.job.shape)).is_some()
        };
        out.iter().for_each(|(node, _)| self.idle.set_state(*node, NodeState::Up));
        fits
    }
}
