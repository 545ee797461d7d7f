//! Quality: workers go to the jobs whose loss falls most by them (`slaq` and `slaq-tail`).
//!
//! # Idea
//! Training has diminishing returns: most of the loss is lost early. In every epoch each job gets its least, and each
//! further worker goes to the job whose normalised loss it is predicted to lower most until the next epoch. The loss is
//! predicted by a curve through what the job reported, the iterations by its speed at each size.
//!
//! # Source
//! SLAQ: Zhang, Stafman, Or and Freedman, SoCC 2017; the text could not be had, so gaps are filled as in the specification
//! of this project (`A2.6`, `A4`). Curves are fitted in `estimate::loss`.
//!
//! # What it sees
//! Reported losses, measured speeds. Declared curves, targets and speeds where there are any. Every worker counts as one
//! unit, whatever it demands: a core, a GPU, a part of one.
//!
//! # Parameters
//! `epoch_s`: the length of an epoch; 3 s is what is remembered of the paper. `at_events`: whether it also decides when jobs
//! arrive and end and when nodes change; as published it does not, and a job waits for the next epoch.
//! `normaliser`: by what a fall of the loss is divided: `range`, from the first loss to the last expected, or
//! `largest_change`, the largest change of one iteration, which is the paper's wording. `range` serves better on SLAQ's own
//! numbers. `floor`: the part of the fair share that every job gets in any case; as published none.
//! `tail`, `trained_at`: see below; as published nothing. `takes_turns`: whether those that run give way where not everybody
//! can have its least; otherwise who has its least keeps it, and the others are let in as they came.
//! `use_targets`: whether declared targets (hints, for jobs without a model of convergence) are the end of the range and the
//! best loss that counts. `trust_curves`: whether a declared curve is believed before reports.
//! `new_iterations`, `new_cap`, `new_ratio`: of a job without a prediction each change counts as `new_ratio` of the one
//! before; until it has done so many iterations it gets at most so many fair shares by that, afterwards one.
//! `decay`, `window`, `least_points`: how curves are fitted; the paper says only that old points count exponentially less.
//! `overhead`: the part of its time that a job may lose to changes. Where a change costs `c` seconds (saving aside, as a
//! resized job need not save), a job is left alone for `c / overhead` after one, and is changed only if that brings more
//! than it costs by then. Without such costs, as in the paper, it does nothing. `placement`: the rule.
//!
//! # Where we differ
//! The paper has one kind of resource and elastic jobs. Here a job of fixed size is one claim for all of its workers, at its
//! least from the start. A graph of tasks counts by its complete replicas, where it makes progress with some of them, and is one
//! claim otherwise (MLFS, CoNEXT 2020, runs SLAQ so); its speed goes with its replicas. GPU types are pools of their own; a job grows on the type that it has. Jobs that must not be moved
//! keep the size they began with. With more jobs than room, first come those that never ran, then
//! those that wait longest, inside their priority class; of those that run the latest submitted give way. A job that would lose all that it did is not made to wait. A job's
//! weight multiplies what it gains. Limits and guarantees of
//! tenants are not looked at. What nobody gains by is divided equally. The usual speed of a job that says nothing is the
//! median of the others' that run now, as ended jobs are not in the picture.
//!
//! `slaq-tail` is for those who wait for the end of training and not for most of it. As published, jobs close to
//! convergence are starved down to their least, and the last per cent takes more than twice as long as under fair shares. A
//! floor mends that only as far as it takes the gain away. `tail` counts besides the fall of the loss, which is 1 over the
//! whole of a job's training, the part of its remaining iterations that an epoch does: whoever is nearly done is soon out of
//! the way, as under shortest remaining work first. A job is done where `trained_at` of its range is left. `slaq-tail` also
//! decides at events.

mod shares;
mod turns;
mod units;
mod worth;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::decide::{
    Abilities, Ahead, Cadence, Decision, Entry, PLACEMENT, Parameter, Plan, Policy, Reason, Suits, Verdict,
    chosen, counted, defaults, flagged, numbered, parameters,
};
use crate::estimate::{Fitting, Recency};
use crate::model::{Job, JobId, Span, Time};
use crate::place::Rule;
use crate::rank::{Offer, Shape, hand_out};
use crate::view::{Causes, JobView, Phase, Snapshot};

use shares::{ChangeCost, Claim, Shares, divide};
use turns::{Turn, Turns};
use units::{Kind, pools, pools_of};
use worth::{Normaliser, Outlook, Worth, speed};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Parameters {
    placement: Rule,
    epoch_s: f64,
    at_events: bool,
    normaliser: Normaliser,
    floor: f64,
    tail: f64,
    trained_at: f64,
    overhead: f64,
    takes_turns: bool,
    use_targets: bool,
    trust_curves: bool,
    new_iterations: f64,
    new_cap: f64,
    new_ratio: f64,
    decay: f64,
    window: u32,
    least_points: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        let Recency { decay, window, least_points } = Recency::default();
        Self {
            placement: Rule::Pack,
            epoch_s: 3.0,
            at_events: false,
            normaliser: Normaliser::Range,
            floor: 0.0,
            tail: 0.0,
            trained_at: 0.01,
            overhead: 0.1,
            takes_turns: true,
            use_targets: true,
            trust_curves: true,
            new_iterations: 3.0,
            new_cap: 2.0,
            new_ratio: 0.9,
            decay,
            window,
            least_points,
        }
    }
}

/// What their parameters mean and may be.
const PARAMETERS: &[Parameter] = &[
    flagged("at_events", "decide also when jobs arrive and end and when nodes change"),
    numbered(
        "decay",
        "",
        (0.001, 1.0),
        "weight of a reported loss on squared errors, relative to the next one",
    ),
    numbered("epoch_s", "s", (0.001, 1e6), "length of an epoch"),
    numbered("floor", "fair shares", (0.0, 1.0), "what every job gets in any case"),
    counted("least_points", "losses", (2, 1_000_000), "with fewer no curve is fitted"),
    numbered("new_cap", "fair shares", (0.0, 1e9), "the most that a job without a prediction gets at first"),
    numbered(
        "new_iterations",
        "iterations",
        (0.0, 1e9),
        "how long `new_cap` holds; then it is one fair share",
    ),
    numbered(
        "new_ratio",
        "",
        (0.0, 0.999_999),
        "of a job without a prediction each change of the loss is so many times the one before",
    ),
    chosen(
        "normaliser",
        &["range", "largest_change"],
        "what a fall of the loss is divided by: the whole range expected, or the largest change of one iteration",
    ),
    numbered("overhead", "", (0.001, 1.0), "part of its time that a job may lose to changes of its size"),
    PLACEMENT,
    numbered(
        "tail",
        "",
        (0.0, 1e9),
        "what finishing counts beside the fall of the loss over the whole training; 0 as published",
    ),
    flagged("takes_turns", "with more jobs than room, those that run give way to those that wait"),
    numbered("trained_at", "", (1e-9, 0.999), "a job is done where this part of its range of losses is left"),
    flagged("trust_curves", "believe a declared curve before there are reports"),
    flagged("use_targets", "take a declared target for the best loss that counts"),
    counted("window", "losses", (2, 1_000_000), "older losses than so many are not looked at"),
];

struct Slaq {
    parameters: Parameters,
    plan: Plan,
    unplaceable: BTreeMap<Shape, Option<Reason>>,
}

/// A job whose size is to be decided.
struct Sized {
    id: JobId,
    /// Workers that it has by the plan.
    has: u32,
}

impl Slaq {
    fn boxed(parameters: Parameters) -> Box<dyn Policy> {
        Box::new(Self { parameters, plan: Plan::default(), unplaceable: BTreeMap::new() })
    }

    fn arrange(&mut self, seen: &Snapshot) {
        let news = self.plan.follow(seen);
        if news.rebuilt || !seen.changed.nodes.is_empty() {
            self.unplaceable.clear();
        }
        let placed = self.admit(seen, news.jobs.into_iter().collect());
        let (sized, claims) = self.claims(seen, &placed);
        let pools = pools(seen, &self.plan, &sized, &claims);
        let shares = divide(&claims, &pools, self.parameters.floor);
        self.apply(seen, &sized, &claims, &shares);
    }

    /// Gives everybody its least, as far as there is room. Returns the jobs that had no target before.
    fn admit(&mut self, seen: &Snapshot, fresh: BTreeSet<JobId>) -> Vec<JobId> {
        let rule = self.parameters.placement;
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for view in seen.jobs() {
            let turn = Turn::of(view, seen.at);
            if view.target.is_some() {
                let cost = view.job.move_cost.save + view.job.move_cost.load;
                if can_change(view) && !self.is_recent(seen, view, cost) && keeps_something(view, seen.at) {
                    running.push((turn, view.job.clone()));
                }
            } else if let Some(never) = self.never_fits(seen, &view.job) {
                self.plan.say(view.id(), Verdict::Wait(never));
            } else {
                waiting.push((turn, view.job.clone()));
            }
        }
        if waiting.is_empty() {
            return Vec::new();
        }
        if !self.parameters.takes_turns {
            running.clear();
        }
        let mut turns = Turns::new(waiting, running, fresh);
        let mut placed = turns.place_who_fit(&mut self.plan, rule);
        if turns.is_anybody_waiting() {
            for view in seen.jobs().filter(|view| can_change(view)) {
                self.plan.shrink(view.id());
                self.plan.shrink_replicas(view.id());
            }
            placed.extend(turns.rotate(&mut self.plan, rule));
        }
        placed
    }

    fn never_fits(&mut self, seen: &Snapshot, job: &Job) -> Option<Reason> {
        let rule = self.parameters.placement;
        *self.unplaceable.entry(Shape::of(job)).or_insert_with(|| Plan::least_unplaceable(seen, job, rule))
    }

    /// Whether a job was changed so short a time ago that what it cost, so many seconds, has not come in.
    fn is_recent(&self, seen: &Snapshot, view: &JobView, cost: Span) -> bool {
        let pays_after_s = cost.as_secs_f64() / self.parameters.overhead;
        seen.at.since(view.served.changed).as_secs_f64() < pays_after_s
    }

    fn outlook(&self, seen: &Snapshot) -> Outlook {
        let single = |view: &JobView| {
            let per_s = speed(view)?.iterations_per_s(1, view.target.count_of(crate::model::SERVER_TASK));
            (per_s > 0.0 && per_s.is_finite()).then(|| 1.0 / per_s)
        };
        let Parameters { epoch_s, normaliser, trust_curves, use_targets, new_iterations, new_ratio, .. } =
            self.parameters;
        let Parameters { tail, trained_at, .. } = self.parameters;
        let is_known = seen.jobs().all(|view| speed(view).is_some());
        let mut known: Vec<f64> =
            if is_known { Vec::new() } else { seen.jobs().filter_map(single).collect() };
        known.sort_by(f64::total_cmp);
        Outlook {
            at: seen.at,
            epoch_s,
            normaliser,
            trust_curves,
            use_targets,
            new_iterations,
            new_ratio,
            tail,
            trained_at,
            usual_work_s: known.get(known.len() / 2).copied().unwrap_or(1.0),
        }
    }

    /// The jobs that may be of another size, with what they claim.
    fn claims(&self, seen: &Snapshot, placed: &[JobId]) -> (Vec<Sized>, Vec<Claim>) {
        let outlook = self.outlook(seen);
        let mut placed = placed.to_vec();
        placed.sort_unstable();
        let mut all = (Vec::new(), Vec::new());
        for view in seen.jobs() {
            let id = view.id();
            let Some(target) = self.plan.target(id) else { continue };
            let is_new = placed.binary_search(&id).is_ok();
            let Some(kind) = Kind::of(&view.job) else { continue };
            if !(is_new || can_change(view)) {
                continue;
            }
            let young = view.iterations(seen.at) < self.parameters.new_iterations;
            let by_curve = self.parameters.trust_curves && view.job.declared.loss.curve.is_some();
            all.0.push(Sized { id, has: kind.units_in(target) });
            all.1.push(Claim {
                least: kind.least,
                most: kind.most,
                worker: kind.unit,
                pools: pools_of(seen, &self.plan, &view.job, target),
                worth: Worth::of(view, &outlook),
                cap: (young && !by_curve).then_some(self.parameters.new_cap),
                change: self.change_cost(seen, view).filter(|_| !is_new),
            });
        }
        all
    }

    fn change_cost(&self, seen: &Snapshot, view: &JobView) -> Option<ChangeCost> {
        let load_s = view.job.move_cost.load.as_secs_f64();
        let Parameters { epoch_s, overhead, .. } = self.parameters;
        (load_s > 0.0).then(|| ChangeCost {
            held: Kind::of(&view.job).map_or(0, |kind| kind.units_in(&view.target)),
            part: (load_s / epoch_s).min(overhead),
            is_recent: self.is_recent(seen, view, view.job.move_cost.load),
        })
    }

    /// Brings the plan to these shares: first what shrinks, then what grows. Where constraints or gaps keep a job from
    /// its share, the others go on by their gains with what is left.
    fn apply(&mut self, seen: &Snapshot, sized: &[Sized], claims: &[Claim], shares: &Shares) {
        let rule = self.parameters.placement;
        let mut units: Vec<u32> = sized.iter().map(|sized| sized.has).collect();
        for (i, wanted) in shares.units.iter().enumerate().filter(|(i, wanted)| **wanted < sized[*i].has) {
            units[i] = self.plan.resize_units(sized[i].id, *wanted, rule);
        }
        for (i, wanted) in shares.units.iter().enumerate().filter(|(i, wanted)| **wanted > sized[*i].has) {
            units[i] = self.plan.resize_units(sized[i].id, *wanted, rule);
        }
        if units != shares.units {
            self.spread_rest(sized, claims, &mut units);
        }
        for (i, sized) in sized.iter().enumerate() {
            let before = seen.job(sized.id).map(|view| &view.target);
            if before.is_some_and(|before| before.is_some() && self.plan.target(sized.id) != Some(before)) {
                self.plan.say(sized.id, Verdict::Run(by_gain(&claims[i], units[i], shares)));
            }
        }
    }

    fn spread_rest(&mut self, sized: &[Sized], claims: &[Claim], units: &mut [u32]) {
        let rule = self.parameters.placement;
        let gain = |state: &(&mut Plan, &mut [u32]), i: usize| {
            let (claim, units) = (&claims[i], state.1[i]);
            let change = claim.change.is_some();
            (units < claim.most && !change).then(|| claim.worth.value(units + 1) - claim.worth.value(units))
        };
        hand_out(&mut (&mut self.plan, units), claims.len(), f64::NEG_INFINITY, gain, |(plan, units), i| {
            let has = plan.resize_units(sized[i].id, units[i] + 1, rule);
            let grew = has > units[i];
            units[i] = has;
            if grew { Offer::Taken } else { Offer::NoRoom }
        });
    }
}

/// What one more worker would bring, beside what the last one given brought.
fn by_gain(claim: &Claim, units: u32, shares: &Shares) -> Reason {
    let next = if units < claim.most { claim.worth.value(units + 1) - claim.worth.value(units) } else { 0.0 };
    Reason::ByGain { next: next.max(0.0), last: shares.price_in(claim.pools) }
}

/// Whether the size of a running job may be changed now: it may be moved, and nothing that was ordered is under way.
fn can_change(view: &JobView) -> bool {
    let settled = match view.phase {
        Phase::Starting => false,
        Phase::Running => view.held == view.target,
        Phase::Waiting | Phase::Stopping => true,
    };
    view.target.is_some() && view.job.goals.movable && settled && view.target.copies() == 1
}

/// Whether a job that is paused now goes on later with more than it began with. Where it would not, taking turns would
/// keep everybody at the beginning.
fn keeps_something(view: &JobView, at: Time) -> bool {
    let cost = &view.job.move_cost;
    let trained = at.since(view.served.changed).saturating_sub(cost.load);
    !cost.loses_when_stopped || cost.checkpoint_every.is_some_and(|every| trained >= every)
}

impl Policy for Slaq {
    fn cadence(&self) -> Cadence {
        let epoch = Span::from_secs_f64(self.parameters.epoch_s);
        if self.parameters.at_events {
            Cadence::Both(Causes::CAPACITY, epoch)
        } else {
            Cadence::Rounds(epoch)
        }
    }

    fn needs(&self) -> Abilities {
        Abilities::RESIZE | Abilities::LOSS
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.arrange(seen);
        self.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.arrange(seen);
        let said = self.plan.finish().verdicts.into_iter().find(|(id, _)| *id == job);
        said.map_or(Verdict::Run(Reason::Kept), |(_, verdict)| verdict)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        let Some(own) = seen.job(job).map(|view| Turn::of(view, seen.at)) else { return Ahead::default() };
        let waiting: Vec<&JobView> = seen.jobs().filter(|view| view.target.is_none()).collect();
        let mut before: Vec<Turn> = waiting
            .into_iter()
            .filter(|view| self.never_fits(seen, &view.job).is_none())
            .map(|view| Turn::of(view, seen.at))
            .filter(|turn| *turn < own)
            .collect();
        before.sort_unstable();
        Ahead { jobs: before.into_iter().map(|turn| turn.id).collect(), is_total: true }
    }

    fn fitting(&self) -> Option<Fitting> {
        let Parameters { decay, window, least_points, .. } = self.parameters;
        Some(Fitting::Families(Recency { decay, window, least_points }))
    }

    fn is_work_conserving(&self) -> bool {
        self.parameters.placement.uses_any_room()
    }
}

/// SLAQ's parameters where the end of training counts. The weight was chosen on SLAQ-W with the seeds 0 to 23 and 1000 to
/// 1023, to bring the mean time to 99 % to 1.2 times that of fair shares while that to 90 % stays 45 % below it; both can be
/// had only just. On the seeds 2000 to 2023 it gave 1.21 times and 48 %.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct TailParameters(Parameters);

impl Default for TailParameters {
    fn default() -> Self {
        Self(Parameters { tail: 0.05, at_events: true, ..Parameters::default() })
    }
}

/// For those who wait for the end.
pub(super) const SLAQ_TAIL: Entry = Entry {
    name: "slaq-tail",
    title: "like slaq, but to be done counts as well, so that jobs near their end are not starved",
    source: "Zhang et al., SoCC 2017; what it counts besides is this project's",
    reads_declared: true,
    suits: Suits::Losses,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<TailParameters>,
    build: |given| Ok(Slaq::boxed(parameters::<TailParameters>("slaq-tail", PARAMETERS, given)?.0)),
};

/// As published.
pub(super) const SLAQ: Entry = Entry {
    name: "slaq",
    title: "each worker to the job whose loss it lowers most in the next seconds",
    source: "Zhang et al., SoCC 2017",
    reads_declared: true,
    suits: Suits::Losses,
    parameters: PARAMETERS,
    sizes: true,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Slaq::boxed(parameters::<Parameters>("slaq", PARAMETERS, given)?)),
};
