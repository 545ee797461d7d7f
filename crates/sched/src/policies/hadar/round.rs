//! One round: all jobs compete anew for all GPUs that no unmovable job holds.
//!
//! Class by class: jobs that waited too long first, then the dual subroutine, then a second walk that gives what is left to
//! whoever fits, whatever it pays. Jobs outside Hadar's model (shares of a GPU, CPUs only, parameter servers, task graphs) are
//! placed in their turn: the search ends before such a job and goes on behind it.

use std::cmp::{Ordering, Reverse};

use crate::decide::{Decision, Memory, Misfit, Reason, Slate, Verdict};
use crate::model::{Allocation, GPU, GpuTypeId, JobId, NodeState, PriorityClass, Resources, Time};
use crate::place::Ask;
use crate::view::{JobView, Note, Snapshot};

use super::candidates::{Gang, Offer, Terms, find};
use super::claim::{Claim, Frame};
use super::desk::{Accepted, Desk};
use super::dual::plan;
use super::isolated::Account;
use super::parameters::{Objective, Parameters};
use super::prices::{Horizon, Payer, bounds};
use super::reserved::widened;
use super::stock::{Spot, Stock};
use super::targets::targets;
use super::told::tell;
use super::utility::Facts;

/// A share of time that is less is not worth a move.
const LEAST_SHARE: f64 = 0.01;
/// By how much larger the share on a type counts for a job that is there.
const STAYS: f64 = 0.1;

/// Where a job stands in the order: less goes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    class: Reverse<PriorityClass>,
    /// Since when it waits, if that is too long.
    aged: Option<Time>,
    /// More goes first.
    value: f64,
    submitted: Time,
    id: JobId,
}

impl Turn {
    /// The order of turns.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let aged = |turn: &Self| (turn.aged.is_none(), turn.aged);
        let by_age = self.class.cmp(&other.class).then(aged(self).cmp(&aged(other)));
        let by_value = by_age.then(other.value.total_cmp(&self.value));
        by_value.then((self.submitted, self.id).cmp(&(other.submitted, other.id)))
    }
}

/// A job that may be given something.
pub(super) struct Entry<'a> {
    /// Its position on the slate.
    pub(super) line: usize,
    /// What is seen of it.
    pub(super) view: &'a JobView,
    claim: Claim,
    /// As the search sees it; `None` if it is outside the model.
    pub(super) gang: Option<Gang>,
    turn: Turn,
}

/// A round on its way.
pub(super) struct Round<'a> {
    pub(super) seen: &'a Snapshot,
    pub(super) parameters: &'a Parameters,
    pub(super) terms: Terms,
    slate: Slate<'a>,
    pub(super) stock: Stock,
    desk: Desk,
    pub(super) entries: Vec<Entry<'a>>,
    /// What to remember of jobs.
    pub(super) notes: Vec<(JobId, Note)>,
    /// By position on the slate: why a job has nothing.
    pub(super) said: Vec<Option<Reason>>,
    /// The job that was placed last on each GPU type.
    latest: Vec<Option<JobId>>,
}

impl<'a> Round<'a> {
    /// Looks at everything; nothing is given away yet.
    pub(super) fn new(seen: &'a Snapshot, parameters: &'a Parameters) -> Self {
        let utility = parameters.utility();
        let terms = Terms { utility, beta: parameters.beta, guards_mixing: true };
        let slate = Slate::new(seen, Misfit::Skip);
        let frame = frame(seen, parameters);
        let claims: Vec<Claim> = seen.jobs().map(|view| Claim::of(view, &frame)).collect();
        let account =
            |(view, claim): (&JobView, &Claim)| (view.id(), Account::read(&view.note).carried_on(claim));
        let accounts: Vec<(JobId, Account)> = if utility.has_isolation() {
            seen.jobs().zip(&claims).map(account).collect()
        } else {
            Vec::new()
        };
        let so_far_s = |i: usize| accounts.get(i).map_or(0.0, |(_, account)| account.so_far_s);
        let facts: Vec<Facts> = (0..).zip(&claims).map(|(i, claim)| claim.facts(so_far_s(i))).collect();
        let stock = stock(seen, &slate, parameters, &frame, (&claims, &facts));
        let mut entries = Vec::with_capacity(claims.len());
        for (line, (view, (claim, facts))) in seen.jobs().zip(claims.into_iter().zip(facts)).enumerate() {
            if !slate.lines()[line].is_bound {
                entries.push(Entry::new(line, view, claim, facts, (seen.at, parameters, &stock)));
            }
        }
        entries.sort_by(|a, b| a.turn.order(&b.turn));
        let desk = Desk::new(seen, &slate);
        let notes = accounts.into_iter().map(|(id, account)| (id, account.note())).collect();
        let (said, latest) = (vec![None; seen.jobs.len()], vec![None; stock.types()]);
        Self { seen, parameters, terms, slate, stock, desk, entries, notes, said, latest }
    }

    /// The turns of all jobs that may be given something, in order.
    pub(super) fn turns(&self) -> impl Iterator<Item = (&JobView, Turn)> {
        self.entries.iter().map(|entry| (entry.view, entry.turn))
    }

    /// Gives everything away.
    pub(super) fn run(&mut self) {
        if self.parameters.admission {
            return self.run_reserved();
        }
        let entries = std::mem::take(&mut self.entries);
        for class in entries.chunk_by(|a, b| a.turn.class == b.turn.class) {
            let (aged, others) = class.split_at(class.partition_point(|entry| entry.turn.aged.is_some()));
            self.fill(aged);
            if !(self.parameters.has_targets() && self.steer(others)) {
                self.compete(others);
            }
            // Who is placed from here on did not go before those that are not.
            let said = self.said.clone();
            self.fill(class);
            self.said = said;
        }
        self.entries = entries;
    }

    /// The dual subroutine, between jobs that are outside the model.
    fn compete(&mut self, entries: &[Entry<'a>]) {
        for part in entries.chunk_by(|a, b| a.gang.is_some() && b.gang.is_some()) {
            let gangs: Vec<&Gang> = part.iter().filter_map(|entry| entry.gang.as_ref()).collect();
            if gangs.is_empty() {
                self.fill(part);
                continue;
            }
            let offers = plan(&gangs, &mut self.stock, &self.terms, self.parameters.beam);
            let mut accepted = Vec::new();
            for ((entry, gang), offer) in part.iter().zip(&gangs).zip(offers) {
                let Some(offer) = offer else {
                    self.note_rival(entry);
                    continue;
                };
                self.note_place(entry, &offer);
                accepted.push(Accepted { line: entry.line, had: &entry.view.target, gang, offer });
            }
            self.settle(&accepted);
        }
    }

    /// Puts jobs where the least makespan needs them: of all jobs and types the pair with the largest share of time first. Jobs
    /// outside the model go before. Says whether that could be worked out.
    fn steer(&mut self, entries: &[Entry<'a>]) -> bool {
        let gangs: Vec<&Gang> = entries.iter().filter_map(|entry| entry.gang.as_ref()).collect();
        let free: Vec<u32> = (0..self.stock.types()).map(|gpu_type| self.stock.free(gpu_type)).collect();
        let Some(shares) = targets(&gangs, &free) else { return false };
        entries.iter().filter(|entry| entry.gang.is_none()).for_each(|entry| self.place_other(entry));
        let within: Vec<&Entry<'_>> = entries.iter().filter(|entry| entry.gang.is_some()).collect();
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for (i, (gang, shares)) in gangs.iter().zip(&shares).enumerate() {
            let is_there = |gpu_type: usize| {
                let held = gang.held.iter().flatten();
                gang.held.is_some()
                    && held.map(|(at, _)| self.stock.spot(*at).gpu_type).all(|held| held == gpu_type)
            };
            for (gpu_type, share) in shares.iter().enumerate().filter(|(_, share)| **share > LEAST_SHARE) {
                let share = if is_there(gpu_type) { share + STAYS } else { *share };
                pairs.push((share, i, gpu_type));
            }
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut accepted: Vec<Accepted<'_>> = Vec::new();
        let mut is_placed = vec![false; gangs.len()];
        for (_, i, gpu_type) in pairs {
            if is_placed[i] {
                continue;
            }
            if let Some(offer) = find(&gangs[i].only_on(gpu_type), &self.stock, &self.terms) {
                self.stock.take(&offer.counts, &gangs[i].worker);
                self.note_place(within[i], &offer);
                is_placed[i] = true;
                accepted.push(Accepted {
                    line: within[i].line,
                    had: &within[i].view.target,
                    gang: gangs[i],
                    offer,
                });
            }
        }
        self.settle(&accepted);
        true
    }

    /// Gives what is left to whoever fits, in order, whatever it pays.
    fn fill(&mut self, entries: &[Entry<'a>]) {
        let terms = Terms { guards_mixing: false, ..self.terms };
        let mut accepted = Vec::new();
        for entry in entries {
            if self.slate.lines()[entry.line].runs() {
                continue;
            }
            let Some(gang) = &entry.gang else {
                self.settle(&accepted);
                accepted.clear();
                self.place_other(entry);
                continue;
            };
            if let Some(offer) = find(gang, &self.stock, &terms) {
                self.stock.take(&offer.counts, &gang.worker);
                self.note_place(entry, &offer);
                accepted.push(Accepted { line: entry.line, had: &entry.view.target, gang, offer });
            } else {
                self.note_rival(entry);
            }
        }
        self.settle(&accepted);
    }

    /// Hands out devices, and follows what could not be handed out after all.
    pub(super) fn settle(&mut self, accepted: &[Accepted<'_>]) {
        for line in self.desk.give(&mut self.slate, &self.stock, accepted) {
            let missed = accepted.iter().find(|each| each.line == line).expect("it was accepted");
            for (at, _) in missed.offer.counts.clone() {
                self.follow(at);
            }
        }
    }

    /// A job outside the model stays where it is, or goes where it fits.
    pub(super) fn place_other(&mut self, entry: &Entry<'_>) {
        let view = entry.view;
        self.desk.let_go(&view.target);
        let kept = view.target.is_some() && self.slate.keep(entry.line, &view.target);
        let placed = kept || self.slate.place(entry.line, &Ask::minimum(&view.job.shape, &view.job.wanted));
        if !placed {
            return self.note_rival(entry);
        }
        let target = self.slate.lines()[entry.line].target();
        self.desk.mark_taken(&target);
        for node in target.nodes() {
            let gpu_type = self.seen.cluster.node(node).gpu_type.map(GpuTypeId::index);
            let at = gpu_type.and_then(|gpu_type| self.stock.find(node, gpu_type));
            if let Some(at) = at {
                self.follow(at);
                self.latest[self.stock.spot(at).gpu_type] = Some(view.id());
            }
        }
    }

    /// Brings the stock in step with what is really free on a node.
    fn follow(&mut self, at: u32) {
        let node = self.stock.spot(at).node;
        let (free, room) = free_on(&self.slate, node, self.stock.spot(at).takes_work);
        self.stock.set(at, free, room);
    }

    fn note_place(&mut self, entry: &Entry<'_>, offer: &Offer) {
        for (at, _) in &offer.counts {
            self.latest[self.stock.spot(*at).gpu_type] = Some(entry.view.id());
        }
    }

    /// Notes who was placed before this job where it could run.
    fn note_rival(&mut self, entry: &Entry<'_>) {
        let needs_gpus = entry.claim.gpus > 0.0;
        let usable = entry.claim.together.iter().zip(&self.latest).filter(|(pace, _)| **pace > 0.0);
        let by = usable.filter_map(|(_, latest)| *latest).next_back();
        if needs_gpus && self.said[entry.line].is_none() {
            self.said[entry.line] = by.map(|by| Reason::Outranked { by });
        }
    }

    /// The decision, once everything is given away.
    pub(super) fn finish(self, memory: &mut Memory) -> Decision {
        let Self { seen, slate, stock, said, notes, .. } = self;
        let mut decision = slate.finish(memory);
        for ((_, verdict), said) in decision.verdicts.iter_mut().zip(said) {
            if let (Verdict::Wait(reason) | Verdict::Yield(reason), Some(said)) = (verdict, said)
                && matches!(reason, Reason::NoCapacity(_))
            {
                *reason = said;
            }
        }
        let changed = |(id, note): &(JobId, Note)| seen.job(*id).is_some_and(|view| view.note != *note);
        decision.notes = notes.into_iter().filter(changed).collect();
        decision.notes.sort_by_key(|(id, _)| *id);
        decision.note = Some(tell(&stock)).filter(|note| *note != seen.note);
        decision
    }
}

impl<'a> Entry<'a> {
    fn new(
        line: usize,
        view: &'a JobView,
        claim: Claim,
        facts: Facts,
        (now, parameters, stock): (Time, &Parameters, &Stock),
    ) -> Self {
        let restart_s = parameters.restart_s(&view.job.move_cost, view.target.is_some());
        let mut gang = claim.gang(view, facts, restart_s, parameters.mixing);
        let shuns = view.shuns.filter(|(_, until)| *until > now).map(|(node, _)| node);
        if let Some(gang) = &mut gang {
            gang.shuns = shuns;
            gang.held =
                held(view, gang, stock).filter(|_| !shuns.is_some_and(|node| view.target.touches(node)));
        }
        let utility = parameters.utility();
        let waits = view.target.is_none() && view.held.is_none();
        let longest = crate::model::Span::from_secs_f64(parameters.age_h * 3600.0);
        let aged = waits && parameters.age_h > 0.0 && now.since(view.served.changed) > longest;
        let best = match &gang {
            Some(gang) => gang.best_worth(stock, utility),
            None => utility.of(&facts, claim.age_s + restart_s + claim.remaining_s()),
        };
        let value = match parameters.objective {
            Objective::Makespan => claim.remaining_s(),
            Objective::Jct | Objective::Ftf => best / claim.gpus,
        };
        let turn = Turn {
            class: Reverse(view.job.goals.class),
            aged: aged.then_some(view.served.changed),
            // What needs no GPUs is worth a lot for each.
            value: if value.is_nan() { 0.0 } else { value },
            submitted: view.job.submitted,
            id: view.id(),
        };
        Self { line, view, claim, gang, turn }
    }
}

fn frame(seen: &Snapshot, parameters: &Parameters) -> Frame {
    let mut gpus = vec![0; seen.cluster.gpu_types.len()];
    for node in seen.cluster.nodes.iter().filter(|node| node.state != NodeState::Down) {
        if let Some(gpu_type) = node.gpu_type {
            gpus[gpu_type.index()] += node.gpu_count();
        }
    }
    let Parameters { round_s, kappa, .. } = *parameters;
    Frame { at: seen.at, gpus, jobs: seen.jobs.len(), round_s, kappa }
}

/// Wholly free devices of a node, and all that is free there.
fn free_on(slate: &Slate<'_>, node: crate::model::NodeId, takes_work: bool) -> (u32, Resources) {
    let free = slate.board().free();
    let room = free.room(node);
    let all = u64::from(crate::model::MAX_GPUS_PER_NODE);
    let whole = if takes_work { free.slots(node, &Resources::gpus(1), all) } else { room.gpu_milli / GPU };
    (whole as u32, room)
}

/// What is free, with prices that follow from all jobs.
fn stock(
    seen: &Snapshot,
    slate: &Slate<'_>,
    parameters: &Parameters,
    frame: &Frame,
    (claims, facts): (&[Claim], &[Facts]),
) -> Stock {
    let usable: Vec<Vec<bool>> =
        claims.iter().map(|claim| claim.together.iter().map(|pace| *pace > 0.0).collect()).collect();
    let payer = |i: usize| {
        let Claim { age_s, gpus, .. } = claims[i];
        Payer { facts: &facts[i], age_s, gpus, usable: &usable[i] }
    };
    let pays = |i: &usize| claims[*i].gpus > 0.0 && usable[*i].iter().any(|usable| *usable);
    let payers: Vec<Payer<'_>> = (0..claims.len()).filter(pays).map(payer).collect();
    let gpus: f64 = frame.gpus.iter().map(|count| f64::from(*count)).sum();
    let horizon = Horizon::of(frame.round_s, gpus, payers.iter().copied());
    let bounds = bounds(parameters.utility(), horizon, (frame.gpus.len(), gpus), parameters.eta, &payers);
    let bounds = if parameters.admission { widened(seen, bounds) } else { bounds };
    let there =
        seen.cluster.nodes.iter().filter(|node| node.state != NodeState::Down && node.gpu_count() > 0);
    let spots = there.filter_map(|node| {
        let takes_work = node.state == NodeState::Up;
        let (free, room) = free_on(slate, node.id, takes_work);
        let gpu_type = node.gpu_type?.index();
        let (node, rack, devices) = (node.id, node.rack, node.gpu_count());
        Some(Spot { node, gpu_type, rack, takes_work, devices, free, room, price: 0.0 })
    });
    Stock::new(spots.collect(), bounds)
}

/// Where a gang is, if it could go on there.
fn held(view: &JobView, gang: &Gang, stock: &Stock) -> Option<super::stock::Counts> {
    let target: &Allocation = &view.target;
    let is_gang = target.is_some() && target.copies() == 1 && target.workers() == gang.workers;
    let workers_only = target.placements().iter().all(|p| p.task == crate::model::WORKER_TASK);
    if !(is_gang && workers_only) {
        return None;
    }
    let place = |p: &crate::model::Placement| {
        let found = (0..stock.types()).find_map(|gpu_type| stock.find(p.node, gpu_type));
        found.map(|at| (at, p.count))
    };
    let mut counts: super::stock::Counts = target.placements().iter().map(place).collect::<Option<_>>()?;
    counts.sort_unstable();
    let mut types: Vec<usize> = counts.iter().map(|(at, _)| stock.spot(*at).gpu_type).collect();
    types.dedup();
    (types.len() == 1 || gang.may_mix).then_some(counts)
}
