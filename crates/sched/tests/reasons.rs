//! Reasons tell the truth: what policies say about waiting jobs is held against the snapshot it was said about, on
//! random histories. Every kind of reason comes up there, through a real policy.

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use common::{Course, Dice, History, Trying};
use trainyard_sched::decide::{Abilities, Ahead, Cadence, Decision, Entry, Policy, Reason, Verdict};
use trainyard_sched::estimate::Fitting;
use trainyard_sched::model::{
    Allocation, Cluster, Declared, GPU, Job, JobId, NodeState, Parallelism, Quota, Resources, Tenant,
    TenantId, Tenants, Topology, Weight,
};
use trainyard_sched::policies;
use trainyard_sched::rank::Shape;
use trainyard_sched::view::{JobView, Snapshot};
use trainyard_sched::why::why_waits;

/// A policy under observation.
struct Judge {
    entry: &'static Entry,
    inner: Box<dyn Policy>,
    found: Arc<Mutex<Found>>,
}

/// What was seen so far.
#[derive(Default)]
struct Found {
    complaints: Vec<String>,
    kinds: BTreeSet<&'static str>,
}

fn fresh(entry: &Entry) -> Box<dyn Policy> {
    (entry.build)(&toml::Table::new()).expect("defaults are fine")
}

/// What a job has after a decision.
fn after<'a>(view: &'a JobView, decision: &'a Decision) -> &'a Allocation {
    let changed = decision.targets.iter().find(|(id, _)| *id == view.id());
    changed.map_or(&view.target, |(_, target)| target)
}

fn waits(view: &JobView, decision: &Decision) -> bool {
    after(view, decision).is_none()
}

impl Judge {
    fn complain(&self, seen: &Snapshot, kind: &str, detail: impl std::fmt::Debug) {
        let text = format!("{kind}: {} in decision {}: {detail:?}", self.entry.name, seen.number);
        self.found.lock().expect("no panic").complaints.push(text);
    }

    fn check(&self, seen: &Snapshot, decision: &Decision) {
        for (id, verdict) in &decision.verdicts {
            self.found.lock().expect("no panic").kinds.insert(verdict.reason().kind());
            self.refers(seen, *id, verdict.reason());
            let asked = fresh(self.entry).explain(seen, *id);
            if asked.reason().kind() != verdict.reason().kind() && !verdict.runs() {
                self.complain(seen, "explain", (id, verdict, asked));
            }
        }
        for view in seen.jobs() {
            let verdict = fresh(self.entry).explain(seen, view.id());
            self.found.lock().expect("no panic").kinds.insert(verdict.reason().kind());
            self.refers(seen, view.id(), verdict.reason());
            if verdict.runs() == waits(view, decision) {
                self.complain(seen, "side", (view.id(), verdict));
            }
            match verdict.reason() {
                Reason::Behind { ahead } => self.behind(seen, decision, view, *ahead),
                Reason::NoCapacity(_) => self.no_capacity(seen, decision, view),
                _ => {}
            }
        }
    }

    /// A job or tenant that is spoken of must be there, and be another.
    fn refers(&self, seen: &Snapshot, id: JobId, reason: &Reason) {
        let wrong = match reason {
            Reason::Backfilled { ahead_of: job }
            | Reason::Behind { ahead: job }
            | Reason::WouldDelay { reserved: job, .. }
            | Reason::TurnOver { by: job }
            | Reason::Outranked { by: job } => *job == id || seen.job(*job).is_none(),
            Reason::ShareUsed { tenant, .. }
            | Reason::OnlyIdle { tenant }
            | Reason::QuotaFull { tenant }
            | Reason::Reclaimed { by: tenant } => seen.tenants.get(*tenant).is_none(),
            _ => false,
        };
        if wrong {
            self.complain(seen, "refers", (id, reason));
        }
    }

    /// Who is ahead still waits, wants the same, and goes first by the policy's own order.
    fn behind(&self, seen: &Snapshot, decision: &Decision, view: &JobView, ahead: JobId) {
        let Some(other) = seen.job(ahead) else { return };
        let gpus = |job: &Job| job.shape.minimum().gpu_milli > 0;
        let same = match (gpus(&other.job), gpus(&view.job)) {
            (true, true) => other.job.wanted.gpu_types.overlaps(view.job.wanted.gpu_types),
            (false, true) => false,
            _ => true,
        };
        // A job that loses its devices in this very decision is queued anew, and its old order is void.
        let settled = view.target.is_none() && other.target.is_none();
        let first = !settled || fresh(self.entry).ahead(seen, view.id()).jobs.contains(&ahead);
        if !waits(other, decision) || !same || !first {
            self.complain(seen, "behind", (view.id(), ahead, waits(other, decision), same, first));
        }
    }

    /// Counted by hand on what is left after the decision, a gang of whole GPUs really does not fit.
    fn no_capacity(&self, seen: &Snapshot, decision: &Decision, view: &JobView) {
        let rule = common::rule_of(&(self.entry.defaults)());
        // Where a job was found not to fit no policy need put it.
        let known = Job { wanted: common::fitting(&seen.cluster, &view.job), ..(*view.job).clone() };
        if rule.uses_any_room() && fits_by_hand(seen, decision, &known) == Some(true) {
            self.complain(seen, "no_capacity", view.id());
        }
    }

    /// Of two jobs that waited, want the same and differ in order only, the one ahead is not left behind.
    fn order(&self, seen: &Snapshot, decision: &Decision) {
        let waiting: Vec<&JobView> = seen.jobs().filter(|view| view.target.is_none()).collect();
        let rivals: Vec<Ahead> =
            waiting.iter().map(|view| fresh(self.entry).ahead(seen, view.id())).collect();
        let passes = |id: JobId| {
            let said = decision.verdicts.iter().find(|(job, _)| *job == id);
            matches!(said, Some((_, Verdict::Run(Reason::Backfilled { .. }))))
        };
        for (view, ahead) in waiting.iter().zip(&rivals) {
            let others = ahead.jobs.iter().filter_map(|id| seen.job(*id));
            let alike = others.filter(|other| {
                let shuns = other.shuns.is_some_and(|(_, until)| until > seen.at);
                // Policies may look at how fast jobs go where.
                let known = other.job.declared.rates == view.job.declared.rates;
                Shape::of(&other.job) == Shape::of(&view.job) && known && !shuns
            });
            let limits = !fresh(self.entry).keeps_limits();
            for other in alike.filter(|other| limits || other.job.tenant == view.job.tenant) {
                if waits(other, decision) && !waits(view, decision) && !passes(view.id()) {
                    self.complain(seen, "order", (other.id(), view.id()));
                }
            }
            let like_me = |other: &&&JobView| {
                let same =
                    (other.job.tenant, other.job.goals.class) == (view.job.tenant, view.job.goals.class);
                same && other.id() != view.id() && Shape::of(&other.job) == Shape::of(&view.job)
            };
            for other in waiting.iter().filter(like_me) {
                let theirs = &rivals[waiting.iter().position(|v| v.id() == other.id()).expect("it is there")];
                let never = policies_unplaceable(self.entry, seen, view);
                if !never && ahead.jobs.contains(&other.id()) == theirs.jobs.contains(&view.id()) {
                    self.complain(seen, "one of two is ahead", (view.id(), other.id()));
                }
            }
            if ahead.is_total {
                let nested = ahead.jobs.iter().enumerate().all(|(i, id)| {
                    let theirs = waiting.iter().position(|view| view.id() == *id).map(|i| &rivals[i].jobs);
                    theirs.is_some_and(|theirs| theirs[..] == ahead.jobs[..i])
                });
                if !nested {
                    self.complain(seen, "nested", (view.id(), &ahead.jobs));
                }
            }
        }
    }

    /// What the table says about a policy is so.
    fn flags(&self, seen: &Snapshot, decision: &Decision) {
        if !self.entry.reads_declared {
            let mut silent = seen.clone();
            for view in seen.jobs() {
                let job = Arc::new(Job { declared: Declared::default(), ..(*view.job).clone() });
                silent.jobs.insert(job.id, Arc::new(JobView { job, ..view.clone() }));
            }
            if fresh(self.entry).decide(&silent).targets != fresh(self.entry).decide(seen).targets {
                self.complain(seen, "reads_declared", ());
            }
        }
        if self.inner.keeps_limits() {
            for (tenant, known) in seen.tenants.iter() {
                let below = |view: &&JobView| seen.tenants.line(view.job.tenant).any(|above| above == tenant);
                let sum = |of: &dyn Fn(&JobView) -> Resources| {
                    seen.jobs().filter(below).fold(Resources::NONE, |sum, view| sum + of(view))
                };
                let now = sum(&|view| after(view, decision).resources(&view.job.shape));
                let before = sum(&|view| view.target.resources(&view.job.shape));
                if !now.fits_in(&known.quota.limit) && before.fits_in(&known.quota.limit) {
                    self.complain(seen, "limits", (tenant, now));
                }
            }
        }
    }
}

fn policies_unplaceable(entry: &Entry, seen: &Snapshot, view: &JobView) -> bool {
    matches!(fresh(entry).explain(seen, view.id()).reason(), Reason::Unplaceable { .. })
}

/// Whether a gang of whole GPUs fits what is left after a decision; `None` for jobs that this simple count does not
/// understand.
fn fits_by_hand(seen: &Snapshot, decision: &Decision, job: &Job) -> Option<bool> {
    let Parallelism::DataParallel(shape) = &job.shape else { return None };
    let whole = shape.worker.gpu_milli > 0 && shape.worker.gpu_milli.is_multiple_of(GPU);
    if !whole
        || shape.server.is_some()
        || job.wanted.mixed_gpu_types
        || job.wanted.topology == Topology::SameRack
    {
        return None;
    }
    let slots_of_type = |gpu_type| {
        let nodes = seen.cluster.nodes.iter().filter(move |node| {
            node.gpu_type == Some(gpu_type) && node.state == NodeState::Up && node.gpu_count() > 0
        });
        nodes.map(|node| {
            let mut devices = vec![0_u64; node.gpu_count() as usize];
            let mut used = Resources::NONE;
            for view in seen.jobs() {
                for p in after(view, decision).placements().iter().filter(|p| p.node == node.id) {
                    used += view.job.shape.demand_of(p.task).unwrap_or_default().times(u64::from(p.count));
                    let taken = (0..devices.len()).filter(|i| p.gpus.devices >> i & 1 == 1);
                    taken.for_each(|i| devices[i] += u64::from(p.gpus.share_milli));
                }
            }
            let free = devices.iter().filter(|taken| **taken == 0).count() as u64;
            let by_gpus = free / (shape.worker.gpu_milli / GPU);
            let others = |(need, (holds, used)): (u64, (u64, u64))| {
                if need == 0 || holds == u64::MAX { u64::MAX } else { (holds - used) / need }
            };
            let amounts = node.holds.amounts().into_iter().zip(used.amounts());
            let rest = shape.worker.amounts().into_iter().zip(amounts).skip(1).map(others).min();
            by_gpus.min(rest.unwrap_or(u64::MAX))
        })
    };
    let types = (0..seen.cluster.gpu_types.len() as u8).map(trainyard_sched::model::GpuTypeId);
    let workers = u64::from(shape.workers.min);
    Some(types.filter(|gpu_type| job.wanted.gpu_types.has(*gpu_type)).any(|gpu_type| {
        let slots: Vec<u64> = slots_of_type(gpu_type).collect();
        match job.wanted.topology {
            Topology::SameNode => slots.iter().any(|slots| *slots >= workers),
            _ => slots.iter().sum::<u64>() >= workers,
        }
    }))
}

impl Policy for Judge {
    fn cadence(&self) -> Cadence {
        // Every fourth policy is asked in rounds, so that jobs arrive that nobody has looked at.
        let rounds = self.entry.name.len().is_multiple_of(4);
        let span = trainyard_sched::model::Span::from_secs(120);
        if rounds { Cadence::Rounds(span) } else { self.inner.cadence() }
    }
    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let decision = self.inner.decide(seen);
        self.check(seen, &decision);
        self.order(seen, &decision);
        self.flags(seen, &decision);
        decision
    }
    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.inner.explain(seen, job)
    }
    fn fitting(&self) -> Option<Fitting> {
        self.inner.fitting()
    }
    fn keeps_limits(&self) -> bool {
        self.inner.keeps_limits()
    }
}

/// Tenants with weights, guarantees and limits; one has weight 0.
fn tenants(dice: &mut Dice, cluster: &Cluster) -> Tenants {
    let total = cluster.total();
    let half = total.gpu_milli / 2000 * GPU;
    let tenant = |(i, weight, guaranteed, limit): (u32, f64, u64, u64)| Tenant {
        name: format!("team-{i}").into(),
        parent: None,
        weight: Weight(weight),
        quota: Quota {
            guaranteed: Resources { gpu_milli: guaranteed, ..Resources::NONE },
            limit: Resources { gpu_milli: limit, ..Quota::OPEN.limit },
        },
    };
    let guaranteed = if dice.chance(60) { half } else { 0 };
    let limit = if dice.chance(50) { half.max(GPU) } else { u64::MAX };
    let lines = [(0, 1.0, guaranteed, u64::MAX), (1, 2.0, 0, limit), (2, 0.0, 0, u64::MAX)];
    Tenants::new(lines.map(tenant).to_vec(), total).expect("these make sense")
}

/// Leads a policy through a random history and looks at what it says.
fn observe(entry: &'static Entry, seed: u64, found: &Arc<Mutex<Found>>) {
    let mut dice = Dice::new(seed);
    let cluster = common::cluster(&mut dice);
    let tenants = tenants(&mut dice, &cluster);
    let judge = Judge { entry, inner: fresh(entry), found: Arc::clone(found) };
    let course = Course { seed, steps: 40, mishaps: true, abilities: Abilities::ALL };
    let mut history = History::new(course, cluster.clone(), tenants.clone(), Box::new(judge));
    let mut make = |dice: &mut Dice, id, at| common::job_of_tasks(dice, id, at, &cluster, &tenants);
    for _ in 0..course.steps {
        let step = history.advance(&mut make);
        assert!(step.panic.is_none(), "{:?}", step.panic);
        let state = history.core.state();
        let pending: Vec<&JobView> = state.jobs().filter(|view| view.held.is_none()).collect();
        let mut counts = [0_usize; Reason::KINDS.len()];
        for view in &pending {
            let verdict = state.verdict(view.id());
            counts[verdict.reason().kind_index()] += 1;
            found.lock().expect("no panic").kinds.insert(verdict.reason().kind());
            if view.target.is_none()
                && verdict.runs()
                && step.decision.is_some()
                && !state.is_ending(view.id())
            {
                let lost = state.job(view.id()).is_some_and(|view| view.served.failures > 0);
                assert!(
                    lost,
                    "{} holds nothing, is to hold nothing, and is said to run: {verdict:?}",
                    view.id()
                );
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), pending.len(), "each pending job has one reason");
        why_is_sound(entry, &history);
    }
}

/// `why` on one pending job: what was tried keeps its word, and lists are consistent with the snapshot.
fn why_is_sound(entry: &'static Entry, history: &History) {
    let moment = history.core.moment(history.at);
    let make = || fresh(entry);
    let pending = moment.state.jobs().find(|view| view.held.is_none() && !moment.state.is_ending(view.id()));
    let Some(id) = pending.map(JobView::id) else { return };
    let Some(waits) = why_waits(&moment, &make, id) else { panic!("{id} waits and nothing is said") };
    let nodes = moment.state.cluster().nodes.len() as u32;
    let room = &waits.capacity;
    let sum = room.nodes_not_up
        + room.nodes_of_other_type
        + room.nodes_too_small
        + room.nodes_full
        + room.nodes_with_room;
    assert_eq!(sum, nodes, "{}: every node is counted once", entry.name);
    assert!(
        waits.place.ahead.iter().all(|other| moment.state.job(other.job).is_some_and(|v| v.target.is_none()))
    );
    assert!(waits.place.ahead.len() < waits.place.waiting as usize);
    assert!(waits.holders.iter().all(|other| moment.state.job(other.job).is_some_and(|v| v.held.is_some())));
    let kinds: BTreeSet<_> = waits.reasons.iter().map(Reason::kind).collect();
    assert_eq!(kinds.len(), waits.reasons.len(), "each kind once");
    if let Some(room) = &waits.room {
        assert!(!room.ends.is_empty() && room.ends.iter().all(|job| moment.state.job(*job).is_some()));
    }
}

/// Hadar with admission: what it says of reservations and prices is so.
fn reservations_are_true(seed: u64, kinds: &mut BTreeSet<&'static str>) {
    let _trying = Trying(format!("hadar with admission with seed {seed}"));
    let parameters = toml::Table::from_iter([("admission".to_owned(), toml::Value::Boolean(true))]);
    let policy = policies::build("hadar", &parameters).expect("it takes that");
    let mut dice = Dice::new(seed);
    let cluster = common::cluster(&mut dice);
    let tenants = tenants(&mut dice, &cluster);
    let course = Course { seed, steps: 40, mishaps: true, abilities: Abilities::ALL };
    let mut history = History::new(course, cluster.clone(), tenants.clone(), policy);
    let mut make = |dice: &mut Dice, id, at| common::job_of_tasks(dice, id, at, &cluster, &tenants);
    for _ in 0..course.steps {
        let step = history.advance(&mut make);
        assert!(step.panic.is_none() && step.faults.is_empty(), "{:?} {:?}", step.panic, step.faults);
        let Some(decision) = &step.decision else { continue };
        for (id, verdict) in &decision.verdicts {
            kinds.insert(verdict.reason().kind());
            match verdict.reason() {
                Reason::TooDear { worth, price } => assert!(worth <= price, "{id}: {worth} {price}"),
                Reason::Reserved { starts } => assert!(*starts > history.at, "{id}: {starts}"),
                _ => {}
            }
        }
    }
}

#[test]
fn reasons_are_true_and_every_kind_comes_up() {
    let found = Arc::new(Mutex::new(Found::default()));
    for entry in policies::ALL {
        // It takes long until a job is demoted, so few histories have that.
        let seeds = if entry.name == "tiresias" { 60 } else { 12 };
        for seed in 0..seeds {
            let _trying = Trying(format!("{} with seed {seed}", entry.name));
            observe(entry, seed, &found);
        }
    }
    let mut found = Arc::into_inner(found).expect("the judges are gone").into_inner().expect("no panic");
    (0..40).for_each(|seed| reservations_are_true(seed, &mut found.kinds));
    let mut by_kind: Vec<&String> = Vec::new();
    for complaint in &found.complaints {
        let head: Vec<&str> = complaint.split(" in decision").collect();
        if by_kind.iter().filter(|known| known.starts_with(head[0])).count() < 2 {
            by_kind.push(complaint);
        }
    }
    assert!(by_kind.is_empty(), "{} complaints, among them {by_kind:#?}", found.complaints.len());
    let never: Vec<_> =
        Reason::KINDS.iter().map(|(kind, _)| *kind).filter(|kind| !found.kinds.contains(kind)).collect();
    assert!(never.is_empty(), "no history brings up {never:?}");
}

/// A journal in which a number cannot be read again would keep a daemon from coming back.
#[test]
fn a_number_without_bounds_in_a_reason_can_be_written_and_read() {
    let share = |share| Verdict::Wait(Reason::ShareUsed { tenant: TenantId(3), share });
    let gain = |next, last| Verdict::Run(Reason::ByGain { next, last });
    let served = |served_gpu_s| Verdict::Run(Reason::Demoted { band: 2, served_gpu_s });
    let owed = |unsolved| Verdict::Wait(Reason::TimeHad { share: 0.25, had: f64::INFINITY, unsolved });
    for verdict in [
        share(f64::INFINITY),
        gain(f64::INFINITY, 0.5),
        gain(1.0, f64::INFINITY),
        served(f64::INFINITY),
        owed(false),
        owed(true),
    ] {
        let text = serde_json::to_string(&verdict).expect("it can be written");
        assert_eq!(serde_json::from_str::<Verdict>(&text).expect("it can be read"), verdict, "{text}");
    }
    let says = |unsolved| owed(unsolved).reason().to_string().contains("could not be solved");
    assert_eq!([false, true].map(says), [false, true]);
}
