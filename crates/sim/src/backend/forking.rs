//! What happens to copies of jobs: they are brought together, come, go, load one by one, and rest when they have done what
//! they may.

use trainyard_sched::control::{Event, How};
use trainyard_sched::model::{Allocation, Attempt, CopyId, JobId, Quotas, Span};

use super::{Coming, SimBackend};
use crate::copies::Copies;
use crate::running::Running;

/// So few iterations are missing by rounding alone.
const ROUNDING: f64 = 1e-6;

impl SimBackend {
    /// Works out when a job with several copies is done, or one of these has done what it may; returns iterations a second.
    pub(super) fn expect_of_copies(&mut self, id: JobId) -> f64 {
        let all = self.workload.jobs[id.index()].1.iterations;
        let run = self.run(id);
        let (left, attempt, forecast) = (all - run.iterations, run.attempt, run.forecast);
        let Some(copies) = &run.copies else { return run.per_s };
        let (next, per_s) = (copies.next(left), copies.per_s());
        run.per_s = per_s;
        if let Some((after, is_all)) = next {
            let what = if is_all { Coming::Finished } else { Coming::Rested };
            self.expect(self.now + after, what(id, attempt, forecast));
        }
        per_s
    }

    /// A copy has done what it may, or prepared itself.
    pub(super) fn rested(&mut self, id: JobId, attempt: Attempt) {
        self.retime(id);
        self.tell_progress(id, attempt);
    }

    /// The copies of a job are to be brought together.
    pub(super) fn merge(&mut self, job: JobId, attempt: Attempt, number: u32, quotas: &Quotas) {
        if self.at_work(job, attempt).is_none() {
            return;
        }
        self.advance(job);
        let truth = &self.workload.jobs[job.index()].1;
        let (cost, all) = (truth.move_cost.merge, truth.iterations);
        let run = self.run(job);
        let is_training = run.is_training();
        let Some(copies) = &mut run.copies else {
            return self.ready.push(Event::Merged { job, attempt, number });
        };
        let is_done = copies.iterations() >= all - ROUNDING;
        let is_needless = !is_training || copies.are_equal() || is_done;
        if !copies.begin_merge(number, quotas) {
            return;
        }
        if is_needless || cost == Span::ZERO {
            return self.merged(job, attempt);
        }
        self.retime(job);
        self.tell_progress(job, attempt);
        self.expect(self.now + cost, Coming::Merged(job, attempt));
    }

    /// They are, and go on.
    pub(super) fn merged(&mut self, job: JobId, attempt: Attempt) {
        self.advance(job);
        let run = self.run(job);
        let (iterations, is_training) = (run.iterations, run.is_training());
        let Some(copies) = &mut run.copies else { return };
        let Some(number) = copies.merging() else { return };
        copies.end_merge();
        if is_training {
            run.saved = iterations;
            self.retime(job);
            self.tell_progress(job, attempt);
        }
        self.ready.push(Event::Merged { job, attempt, number });
    }

    /// A single copy that came to a running job goes on with the others.
    pub(super) fn copy_loaded(&mut self, id: JobId, attempt: Attempt, load: (CopyId, u32)) {
        self.advance(id);
        let run = self.run(id);
        let is_training = run.is_training();
        if let Some(copies) = &mut run.copies {
            copies.loaded(load);
        }
        if is_training {
            self.retime(id);
            self.tell_progress(id, attempt);
        }
    }

    pub(super) fn resize(&mut self, id: JobId, attempt: Attempt, allocation: &Allocation, quotas: &Quotas) {
        // Of a node that is down the loop will hear, and then order something else.
        let trains = self.at_work(id, attempt).is_some_and(Running::is_training);
        if !trains || self.down(allocation).is_some() {
            return;
        }
        if self.run(id).tasks.is_some() {
            return self.resize_tasks(id, attempt, allocation);
        }
        let before = self.run(id).held.clone();
        let real = self.overheads(id).map(|real| (real.stays(&before, allocation), real.resize));
        if real.is_some_and(|(stays, _)| !stays) {
            self.stop(id, attempt, How::Save);
            return;
        }
        self.advance(id);
        let shape = self.workload.jobs[id.index()].0.shape.clone();
        self.tasks_leave(id);
        self.occupancy.leave(id, &before, &shape);
        self.occupancy.enter(id, allocation, &shape);
        let usual = self.workload.jobs[id.index()].1.move_cost.load;
        let (goes_on, loads) = self.run(id).fork(allocation, quotas);
        let load = match real {
            Some((_, reported_after)) => {
                self.run(id).all_loaded();
                self.run(id).held = allocation.clone();
                self.retime(id);
                reported_after
            }
            None if goes_on => {
                self.run(id).held = allocation.clone();
                for (copy, load) in loads {
                    self.expect(self.now + usual, Coming::CopyLoaded(id, attempt, copy, load));
                }
                Span::ZERO
            }
            None => {
                self.run(id).pause(allocation.clone());
                usual
            }
        };
        self.uses_anew(id);
        self.retime_neighbours(id, &before);
        if load == Span::ZERO {
            self.moved(id);
        } else {
            self.expect(self.now + load, Coming::Moved(id, attempt));
        }
    }

    /// A job that was paused for a move goes on in its new place; one of which a copy stayed went on all the time.
    pub(super) fn moved(&mut self, id: JobId) {
        self.advance(id);
        self.run(id).resume();
        let speed = self.retime(id);
        let run = self.run(id);
        let (attempt, iterations, allocation) = (run.attempt, run.iterations, run.held.clone());
        let has_copies = run.copies.is_some();
        self.retime_neighbours(id, &allocation);
        self.ready.push(Event::Resized { job: id, attempt, allocation, iterations, speed });
        if has_copies {
            self.tell_progress(id, attempt);
        }
    }
}

impl Running {
    /// What is left of it without the copies on a node: what is saved, and what the others did since.
    pub(super) fn kept_without(&self, node: trainyard_sched::model::NodeId) -> f64 {
        match &self.copies {
            Some(copies) if self.is_training() => self.iterations - copies.lost(|held| held.touches(node)),
            _ => self.saved,
        }
    }

    /// It trains from so many iterations, after some work that leads to none.
    pub(super) fn warm_up(&mut self, iterations: f64, warm_up: f64) {
        match &mut self.copies {
            Some(copies) => copies.begin(iterations, warm_up),
            None => self.warm_up = warm_up,
        }
    }

    /// Its copies are those of another allocation from now on. Says whether one of them goes on where it was, and what the
    /// others load.
    pub(super) fn fork(&mut self, allocation: &Allocation, quotas: &Quotas) -> (bool, Vec<(CopyId, u32)>) {
        if self.copies.is_none() && allocation.copies() < 2 {
            return (false, Vec::new());
        }
        let from_one = || Copies::from_one(&self.held, self.iterations, self.per_s);
        let mut copies = self.copies.take().unwrap_or_else(from_one);
        let goes_on = copies.any_stays(allocation);
        let loads = copies.change(allocation, quotas);
        self.copies = (allocation.copies() > 1).then_some(copies);
        (goes_on, loads)
    }

    /// Nobody waits for a load any longer.
    pub(super) fn all_loaded(&mut self) {
        if let Some(copies) = &mut self.copies {
            copies.all_loaded();
        }
    }
}
