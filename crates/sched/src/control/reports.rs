//! What running jobs report: how far they are, how fast, and how good.

use std::sync::Arc;

use crate::estimate::{Fitting, SpeedPoint};
use crate::model::{
    Accuracy, CopyId, CopyProgress, JobId, LossPoint, Parallelism, SERVER_TASK, StopRule, Time,
};
use crate::place::complete_units;
use crate::view::{Causes, JobView, Phase};

use super::copies::OfCopy;
use super::{Outcome, State};

impl State {
    /// How loss curves are fitted from now on. Curves that were fitted otherwise are fitted anew.
    pub(super) fn set_fitting(&mut self, fitting: Option<Fitting>) {
        if self.fitting == fitting {
            return;
        }
        self.fitting = fitting;
        let reported: Vec<JobId> =
            self.jobs().filter(|view| view.losses.latest().is_some()).map(JobView::id).collect();
        for id in reported {
            self.touch(id);
            self.edit(id, |view| {
                Arc::make_mut(&mut view.losses).refit(&view.job.declared.loss, fitting.as_ref());
            });
        }
    }

    pub(super) fn progress(
        &mut self,
        at: Time,
        id: JobId,
        (iterations, speed, saved): (f64, f64, f64),
        (losses, copies): (&[LossPoint], &[CopyProgress]),
    ) -> Causes {
        let Some(view) = self.job(id) else { return Causes::NONE };
        let (done, running) = (&view.done, view.phase == Phase::Running);
        let is_sound = iterations >= 0.0 && [iterations, speed, saved].iter().all(|x| x.is_finite());
        let known = view.losses.knows(losses, &view.job.declared.loss);
        let same =
            (iterations, speed) == (done.iterations, done.speed) && at > done.as_of && speed > 0.0 && known;
        if !is_sound || (running && same) {
            return Causes::NONE;
        }
        let back = running && iterations < done.iterations;
        if back && (known || !self.begins_anew(id, iterations)) {
            return Causes::NONE;
        }
        self.suspects.remove(&id);
        let fitting = self.fitting;
        let types = self.gpu_types_of_copies(id);
        let rules = self.edit(id, |view| {
            let farther = view.phase == Phase::Running && iterations > view.done.iterations;
            if view.phase == Phase::Running && at >= view.done.as_of {
                view.done.iterations = iterations;
                (view.done.speed, view.done.as_of) = (speed, at);
                if saved > view.done.saved || back {
                    (view.done.saved, view.done.saved_at) = (saved, at);
                }
            }
            if view.phase == Phase::Running {
                measure_speed(view);
                measure_rates(view, farther, copies, &types);
            }
            if back {
                Arc::make_mut(&mut view.losses).restart();
            }
            if !losses.is_empty() {
                Arc::make_mut(&mut view.losses).report(losses, &view.job.declared.loss, fitting.as_ref());
            }
            // A cheaper rule stands beside that of the owner, and does not lift it.
            [Some(view.job.goals.stop), view.relaxed]
        });
        let accuracies = || losses.iter().filter_map(|point| point.accuracy).filter(|x| x.is_finite());
        let is_met = |rule: StopRule| match rule {
            StopRule::Iterations(most) => iterations >= most as f64,
            StopRule::AtAccuracy(wanted) => accuracies().any(|reached| Accuracy(reached) >= wanted),
            // The peak of a curve is a matter of prediction, and so of the policy.
            StopRule::OwnIterations | StopRule::AtPeak => false,
        };
        if rules.into_iter().flatten().flatten().any(is_met) {
            self.begin_ending(id, Outcome::StopRuleMet);
        }
        Causes::REPORTED
    }

    /// Whether a job whose iterations are lower than they were has begun to count anew. A report may come late, so one
    /// such report says nothing: it takes two that go on from each other, both below half of what was done.
    fn begins_anew(&mut self, id: JobId, iterations: f64) -> bool {
        let done = self.job(id).map_or(0.0, |view| view.done.iterations);
        let before = self.suspects.insert(id, iterations);
        before.is_some_and(|before| before < iterations && iterations < 0.5 * done)
    }
}

/// Writes down how fast the job goes at its present size: that of a graph is its complete replicas. Several copies have no
/// common speed.
fn measure_speed(view: &mut JobView) {
    if view.held.copies() == 1 {
        let (workers, servers) = match &view.job.shape {
            Parallelism::TaskGraph(graph) => (complete_units(graph, &view.held), 0),
            Parallelism::DataParallel(_) => (view.held.workers(), view.held.count_of(SERVER_TASK)),
        };
        view.speeds.measure(SpeedPoint { workers, servers, iterations_per_s: view.done.speed });
    }
}

/// Writes down how fast each copy goes where it is, if it has gone on since it was last reported, and how far it is.
fn measure_rates(view: &mut JobView, farther: bool, copies: &[CopyProgress], types: &[OfCopy]) {
    let alone = CopyProgress { copy: CopyId(0), iterations: 0.0, speed: view.done.speed, waits: false };
    let is_alone = copies.is_empty() && types.len() == 1;
    let each = if is_alone { std::slice::from_ref(&alone) } else { copies };
    for told in each {
        let Some(of) = types.iter().find(|of| is_alone || of.copy == told.copy) else { continue };
        if !told.iterations.is_finite() || told.iterations < 0.0 {
            continue;
        }
        let mut goes_on = farther;
        if !is_alone {
            let known = view.done.copies.iter_mut().find(|(copy, _)| *copy == told.copy);
            let before = known.as_ref().map_or(0.0, |(_, done)| *done);
            // Where the job is no farther, what is told was done before its copies changed, perhaps elsewhere.
            goes_on = farther && told.iterations > before;
            match known {
                Some((_, done)) => *done = done.max(told.iterations),
                None => view.done.copies.push((told.copy, told.iterations)),
            }
        }
        if let Some(gpu_type) = of.gpu_type.filter(|_| goes_on) {
            view.measured.measure(gpu_type, of.workers, of.spread, told.speed);
        }
    }
    view.done.copies.sort_unstable_by_key(|(copy, _)| *copy);
}

/// An attempt begins from so many iterations; what was reported beyond them will come again.
pub(super) fn resume_losses(view: &mut JobView, iterations: f64, fitting: Option<&Fitting>) {
    if view.losses.latest().is_some() {
        Arc::make_mut(&mut view.losses).resume(iterations, &view.job.declared.loss, fitting);
    }
}
