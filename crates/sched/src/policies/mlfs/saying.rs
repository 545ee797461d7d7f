//! Why jobs run or wait under MLF-H.

use crate::decide::{Reason, Verdict};
use crate::model::{Job, JobId};
use crate::place::{Ask, Rule, no_room};
use crate::view::Snapshot;

use super::member::Fit;
use super::round::{Miss, Mlfs};

impl Mlfs {
    /// What is to be said about a job after everything was decided.
    pub(super) fn verdict(&mut self, seen: &Snapshot, id: JobId) -> Verdict {
        let member = &self.members[&id];
        let had = self.made.before.get(&id).unwrap_or(&member.target);
        let relieved = self.made.relieved.get(&id).map(|relieved| Reason::Relieved { node: relieved.node });
        if member.target.is_none() {
            return match relieved.filter(|_| had.is_some()) {
                Some(reason) => Verdict::Yield(reason),
                None => Verdict::Wait(self.why_it_waits(seen, id)),
            };
        }
        let in_part = member.waits().then(|| Reason::InPart {
            placed: member.target.placements().len() as u32,
            tasks: member.tasks() as u32,
        });
        let usual = if *had == member.target { Reason::Kept } else { Reason::Chosen };
        Verdict::Run(relieved.or(in_part).unwrap_or(usual))
    }

    fn why_it_waits(&mut self, seen: &Snapshot, id: JobId) -> Reason {
        let Some(Miss { task, found, tasks, until }) = self.made.misses.get(&id).copied() else {
            return self.not_looked_at(id);
        };
        if let Fit::Never { workers, largest } = self.fit(seen, id) {
            return Reason::Unplaceable { workers, largest };
        }
        if let Some(until) = until {
            return Reason::Backoff { until };
        }
        let job = &self.members[&id].job;
        if job.shape.data_parallel().is_some() {
            match self.servers.free.place(Rule::Pack, &Ask::minimum(&job.shape, &job.wanted)) {
                Some(room) => self.servers.free.release(&room, &job.shape),
                None => {
                    return Reason::NoCapacity(no_room(&self.servers.free, &job.shape, &job.wanted));
                }
            }
        }
        Reason::NoHost { task, found, tasks }
    }

    /// Of a job that came too late in the queue.
    fn not_looked_at(&self, id: JobId) -> Reason {
        let job = &self.members[&id].job;
        let rival = |other: &&JobId| is_rival(&self.members[other].job, job);
        let ahead = self.made.first_missed.iter().find(rival);
        ahead.map_or(Reason::NotYetEvaluated, |ahead| Reason::Behind { ahead: *ahead })
    }
}

/// Whether one job wants what another waits for.
pub(super) fn is_rival(ahead: &Job, job: &Job) -> bool {
    let wants_gpus = |job: &Job| job.shape.minimum().gpu_milli > 0;
    match (wants_gpus(ahead), wants_gpus(job)) {
        (true, true) => ahead.wanted.gpu_types.overlaps(job.wanted.gpu_types),
        (ahead, own) => ahead == own,
    }
}
