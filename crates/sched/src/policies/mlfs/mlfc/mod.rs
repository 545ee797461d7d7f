//! Load control around any other policy (`mlf-c`).
//!
//! # Idea
//! Training is cut short where its owner allows it. A job that is to stop at the peak of its accuracy is stopped once it is
//! there. While the cluster is overloaded, jobs follow a cheaper rule, as far as their owners allow one: the one by which
//! they are expected to end first. Who runs where is decided by another policy, which is shown what is left.
//!
//! # Source
//! MLFS: Wang, Liu and Shen, CoNEXT 2020, section 3.5 (MLF-C). The thresholds of its stopping method are not published; these
//! are from the specification of this project (A18, A19).
//!
//! # What it sees
//! Reported accuracies, iterations and speeds; what owners say of their stop rules, of the accuracy that they need and of
//! what they allow; what tasks use. Jobs that report no accuracy are left alone.
//!
//! # Parameters
//! `inner`, `inner_parameters`: the other policy. `overload_above` (the paper's `h_s`): the cluster is overloaded above this
//! degree, or while somebody waits. The degree is the mean over servers of the norm of what is used of each resource;
//! `normalise_degree` divides it by the root of the number of resources, without which 0.9 is reached at 45 % of four.
//! `margin`: accuracies as good as equal. `sure_deviation`: a forecast with no more is trusted, as is any once half of the
//! iterations are done. `stalled_after`: measurements without a gain by `margin` after which a job has stalled, if the
//! chance of something better is below `least_chance`. `hopeless`: when a job under the peak rule ends that has no more than
//! that chance of what its owner needs. `refit_every`: measurements between two forecasts. `look_every_s`: how often jobs are looked at
//! that may end, where the other policy has no rounds.
//!
//! # Where we differ
//! The paper counts iterations, of which each has a measurement. Ours may be more or fewer, so what it counts as iterations
//! without a gain, and between forecasts, are measurements here. No forecast is made of a job that gained more than `margin` in
//! the latest tenth of its measurements: it is not at its peak. A job that has only just come does not wait yet, and one
//! that would wait on an idle cluster, too, says nothing about load. A job under a cheaper rule is still held to
//! its own, so a change never adds iterations. Deadlines that have passed limit nothing.

mod enough;
mod outlook;
mod overload;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::{
    Abilities, Ahead, Cadence, Change, Decision, Enough, Entry, Parameter, ParameterError, Policy, Reason,
    Suits, Values, Verdict, chosen, counted, defaults, flagged, numbered, parameters,
};
use crate::estimate::Fitting;
use crate::model::{Allocation, JobId, Span, StopRule, Time};
use crate::view::{Changed, JobView, Snapshot};

use enough::{Bars, Hopeless, enough, iterations_by, still_rises};
use outlook::{Outlook, Outlooks};
use overload::{Queued, degree};

const NAME: &str = "mlf-c";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parameters {
    inner: String,
    inner_parameters: toml::Table,
    overload_above: f64,
    normalise_degree: bool,
    margin: f64,
    sure_deviation: f64,
    stalled_after: u32,
    least_chance: f64,
    hopeless: Hopeless,
    refit_every: u32,
    look_every_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            inner: "fifo".to_owned(),
            inner_parameters: toml::Table::new(),
            overload_above: 0.9,
            normalise_degree: false,
            margin: 0.005,
            sure_deviation: 0.01,
            stalled_after: 5,
            least_chance: 0.05,
            hopeless: Hopeless::Overloaded,
            refit_every: 5,
            look_every_s: 60.0,
        }
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "inner",
        meaning: "the policy that decides who runs where",
        unit: "",
        values: Values::Policy,
    },
    Parameter {
        name: "inner_parameters",
        meaning: "the parameters of that policy",
        unit: "",
        values: Values::Parameters,
    },
    numbered("overload_above", "", (0.0, 1e3), "overload degree of the cluster above which it is overloaded"),
    flagged("normalise_degree", "whether the degree is divided by the root of the number of resources"),
    numbered("margin", "", (0.0, 1.0), "accuracies nearer to each other than this are as good as equal"),
    numbered("sure_deviation", "", (0.0, 1.0), "largest standard deviation of a forecast that is trusted"),
    counted(
        "stalled_after",
        "measurements",
        (1, 1000),
        "measurements without a gain after which a job may have stalled",
    ),
    numbered("least_chance", "", (0.0, 1.0), "chances below this are none"),
    chosen(
        "hopeless",
        &["never", "overloaded", "always"],
        "when a job under the peak rule ends that has no chance of what its owner needs",
    ),
    counted("refit_every", "measurements", (1, 1000), "measurements between two forecasts"),
    numbered(
        "look_every_s",
        "s",
        (0.001, 1e6),
        "time between looks at jobs that may end, where the policy has no rounds",
    ),
];

/// Load control.
pub(in crate::policies) const MLF_C: Entry = Entry {
    name: NAME,
    title: "load control around another policy: jobs end early where their owners allow it (MLF-C)",
    source: "Wang, Liu and Shen, MLFS, CoNEXT 2020",
    reads_declared: true,
    suits: Suits::StopRules,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| {
        let parameters: Parameters = parameters(NAME, PARAMETERS, given)?;
        let inner = inner(&parameters)?;
        Ok(Box::new(LoadControl::new(parameters, inner)))
    },
};

/// Makes the policy inside, or says what is wrong with it.
fn inner(given: &Parameters) -> Result<Box<dyn Policy>, ParameterError> {
    let bad = |parameter: &str, why: &dyn std::fmt::Display| ParameterError::BadValue {
        policy: NAME,
        message: format!("{parameter}: {why}"),
    };
    if given.inner == NAME {
        return Err(bad("inner", &"it cannot stand around itself; name another policy"));
    }
    crate::policies::find(&given.inner).map_err(|error| bad("inner", &error))?;
    crate::policies::build(&given.inner, &given.inner_parameters)
        .map_err(|error| bad("inner_parameters", &error))
}

struct LoadControl {
    parameters: Parameters,
    inner: Box<dyn Policy>,
    /// The number of the snapshot that was seen last.
    following: Option<u64>,
    /// Jobs that may end early.
    watched: BTreeSet<JobId>,
    queued: Queued,
    outlooks: Outlooks,
}

/// What load control says to a snapshot.
#[derive(Debug, Default)]
struct Control {
    changes: Vec<Change>,
    /// Who ends.
    ended: Vec<(JobId, Enough)>,
    /// Who may end soon, once it runs.
    may_end: Vec<JobId>,
}

impl LoadControl {
    fn new(parameters: Parameters, inner: Box<dyn Policy>) -> Self {
        Self {
            parameters,
            inner,
            following: None,
            watched: BTreeSet::new(),
            queued: Queued::default(),
            outlooks: Outlooks::default(),
        }
    }

    fn follow(&mut self, seen: &Snapshot) {
        let in_step = self.following.is_some_and(|number| number + 1 == seen.number);
        self.following = Some(seen.number);
        if in_step {
            seen.changed.jobs.iter().for_each(|id| self.note(*id, seen.job(*id)));
            return;
        }
        self.watched.clear();
        self.queued.clear();
        seen.jobs().for_each(|view| self.note(view.id(), Some(view)));
        // Jobs may have ended unseen. What is known of the others still holds, as it is compared with what it rests on.
        self.outlooks.keep(|id| seen.jobs.contains_key(&id));
    }

    fn note(&mut self, id: JobId, view: Option<&JobView>) {
        self.queued.note(id, view);
        if view.is_some_and(may_end_early) {
            self.watched.insert(id);
        } else {
            self.watched.remove(&id);
            self.outlooks.forget(id);
        }
    }

    /// Steps 1 to 5 of the algorithm: who follows which rule, and who has had enough.
    fn control(&mut self, seen: &Snapshot) -> Control {
        self.follow(seen);
        let mut control = Control::default();
        if self.watched.is_empty() {
            return control;
        }
        let overloaded = self.queued.somebody_waits(seen, self.inner.cadence().round().unwrap_or_default())
            || degree(seen, self.parameters.normalise_degree) > self.parameters.overload_above;
        let bars = self.bars(overloaded);
        let watched: Vec<&JobView> = self.watched.iter().filter_map(|id| seen.job(*id)).collect();
        for view in watched {
            let id = view.id();
            let cheaper = if overloaded { self.cheaper(view, &bars, seen.at) } else { None };
            match cheaper {
                Some(to) if view.relaxed != Some(to) => control.changes.push(Change::Relax { job: id, to }),
                None if view.relaxed.is_some() => control.changes.push(Change::Restore { job: id }),
                _ => {}
            }
            let rules = [Some(view.job.goals.stop), cheaper];
            let rules: smallvec::SmallVec<[StopRule; 2]> = rules.into_iter().flatten().collect();
            match self.enough(view, &rules, &bars, seen.at) {
                Some(why) => {
                    let saved_gpu_s = view.remaining_gpu_s(seen.at);
                    control.changes.push(Change::Stop { job: id, why, saved_gpu_s });
                    control.ended.push((id, why));
                }
                None => {
                    let waits_for_peak = view.job.goals.stop == StopRule::AtPeak;
                    control.may_end.extend((overloaded || waits_for_peak).then_some(id));
                }
            }
        }
        control
    }

    fn bars(&self, overloaded: bool) -> Bars {
        let given = &self.parameters;
        Bars {
            margin: given.margin,
            sure: given.sure_deviation,
            stalled: given.stalled_after as usize,
            chance: given.least_chance,
            hopeless: match given.hopeless {
                Hopeless::Never => false,
                Hopeless::Overloaded => overloaded,
                Hopeless::Always => true,
            },
        }
    }

    /// The allowed rule by which the job is expected to end first, if that is before it ends by its own.
    fn cheaper(&mut self, view: &JobView, bars: &Bars, now: Time) -> Option<StopRule> {
        let goals = &view.job.goals;
        let options = [Some(StopRule::AtPeak), goals.accuracy.map(StopRule::AtAccuracy)];
        let mut allowed =
            options.into_iter().flatten().filter(|to| goals.may_relax.allows(goals.stop, *to)).peekable();
        allowed.peek()?;
        let best = view.losses.best_accuracy()?;
        let known = (best, self.outlook(view));
        let mut first = (iterations_by(goals.stop, view, known, bars, now), None);
        for to in allowed {
            let iterations = iterations_by(to, view, known, bars, now);
            if iterations < first.0 {
                first = (iterations, Some(to));
            }
        }
        first.1
    }

    /// What is expected of a job that does not rise any more; whoever still does is not at its peak, so nobody need foretell it.
    fn outlook(&mut self, view: &JobView) -> Option<&Outlook> {
        let refit_every = self.parameters.refit_every.into();
        if still_rises(view, self.parameters.margin) { None } else { self.outlooks.of(view, refit_every) }
    }

    fn enough(&mut self, view: &JobView, rules: &[StopRule], bars: &Bars, now: Time) -> Option<Enough> {
        let best = view.losses.best_accuracy()?;
        let outlook = if rules.contains(&StopRule::AtPeak) { self.outlook(view) } else { None };
        enough(view, rules, (best, outlook), bars, now)
    }

    /// When to look again, where the policy inside has no rounds and somebody may end soon who holds something, or is given
    /// something now: that it starts is no cause for a decision.
    fn next_look(&self, seen: &Snapshot, control: &Control, decision: &Decision) -> Option<Time> {
        if control.may_end.is_empty() || self.inner.cadence().round().is_some() {
            return None;
        }
        let holds =
            |id: &JobId| seen.job(*id).is_some_and(|view| view.held.is_some() || view.target.is_some());
        let gets = |(id, target): &(JobId, Allocation)| {
            target.is_some() && control.may_end.binary_search(id).is_ok()
        };
        let runs = control.may_end.iter().any(holds) || decision.targets.iter().any(gets);
        runs.then(|| seen.at + Span::from_secs_f64(self.parameters.look_every_s))
    }
}

/// Whether a job may be cut short at all.
fn may_end_early(view: &JobView) -> bool {
    let goals = &view.job.goals;
    view.relaxed.is_some()
        || goals.may_relax.any()
        || matches!(goals.stop, StopRule::AtPeak | StopRule::AtAccuracy(_))
}

/// The snapshot as it would be if these had ended.
fn without(seen: &Snapshot, ended: &[(JobId, Enough)]) -> Snapshot {
    let mut left = seen.clone();
    let mut changed = Changed::clone(&seen.changed);
    for (id, _) in ended {
        left.jobs.remove(id);
        if let Err(place) = changed.jobs.binary_search(id) {
            changed.jobs.insert(place, *id);
        }
    }
    left.changed = Arc::new(changed);
    left
}

fn verdict(view: &JobView, why: Enough) -> Verdict {
    let reason = Reason::HadEnough(why);
    if view.target.is_some() { Verdict::Yield(reason) } else { Verdict::Wait(reason) }
}

impl Policy for LoadControl {
    fn cadence(&self) -> Cadence {
        self.inner.cadence()
    }

    fn needs(&self) -> Abilities {
        self.inner.needs() | Abilities::RELAX
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let control = self.control(seen);
        let mut decision = if control.ended.is_empty() {
            self.inner.decide(seen)
        } else {
            self.inner.decide(&without(seen, &control.ended))
        };
        decision.wake = decision.wake.into_iter().chain(self.next_look(seen, &control, &decision)).min();
        for (id, why) in &control.ended {
            let view = seen.job(*id).expect("only jobs that are there end");
            if view.target.is_some() {
                decision.targets.push((*id, Allocation::NONE));
            }
            decision.verdicts.push((*id, verdict(view, *why)));
        }
        if !control.ended.is_empty() {
            decision.targets.sort_by_key(|(id, _)| *id);
            decision.verdicts.sort_by_key(|(id, _)| *id);
        }
        decision.changes.extend(control.changes);
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        let control = self.control(seen);
        match control.ended.iter().find(|(id, _)| *id == job) {
            Some((_, why)) => verdict(seen.job(job).expect("it is in the snapshot"), *why),
            None if control.ended.is_empty() => self.inner.explain(seen, job),
            None => self.inner.explain(&without(seen, &control.ended), job),
        }
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let control = self.control(seen);
        if control.ended.iter().any(|(id, _)| *id == job) {
            return Ahead::default();
        }
        self.inner.ahead(&without(seen, &control.ended), job)
    }

    fn fitting(&self) -> Option<Fitting> {
        self.inner.fitting()
    }

    fn keeps_limits(&self) -> bool {
        self.inner.keeps_limits()
    }

    fn is_work_conserving(&self) -> bool {
        self.inner.is_work_conserving()
    }

    fn is_starvation_free(&self) -> bool {
        self.inner.is_starvation_free()
    }
}
