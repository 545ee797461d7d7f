//! Tiresias: least attained service in bands, for jobs whose length nobody knows.
//!
//! # Idea
//! A job's *attained service* is its GPUs times the time that it held them. Jobs begin in band 0 and sink
//! a band when their service passes its threshold. Lower bands go first; inside a band running jobs stay
//! ahead of waiting ones, in the order in which they began. So short jobs pass long ones without anybody
//! declaring anything. The Gittins variant orders each band by the chance of ending soon, learnt from
//! the service of past jobs.
//!
//! # Source
//! Gu et al., Tiresias, NSDI 2019, sections 3.2 and 3.3; `dlas-gpu` and `dlas-gpu-gittins` in its code.
//!
//! # What it sees
//! Attained service only; never what jobs declare.
//!
//! # Parameters
//! `thresholds_gpu_s`: upper ends of the bands but the last. `promote`: a waiting job that waited this
//! many times as long as it ran (both since it was last in band 0) returns to band 0; 0 is never.
//! `variant`: `las` or `gittins`. `history_gpu_s`: sorted service of past jobs, for the index.
//! `quantum_gpu_s`: the look-ahead of the index. `placement`: the rule. `timing`: `exact` wakes when a
//! threshold is crossed; `python2` and `python3` follow the public simulator, which computes the crossing
//! without multiplying the executed time by the GPUs and so can be late, and which rounds the seconds
//! down under Python 2 and up under Python 3. `index`: `textbook` counts the
//! service that remains, `as_coded` the whole service.
//!
//! # Where we differ
//! Two bands at 3600 GPU-seconds by default: the paper says that two suffice. Exact crossings. The
//! public code's Gittins index uses whole instead of remaining service.

mod gittins;
mod history;
mod parameters;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::decide::{
    Ahead, Cadence, Decision, Entry, Manner, ParameterError, Policy, Rank, Ranked, Reason, Suits, Verdict,
    defaults, parameters,
};
use crate::model::{JobId, PriorityClass, Span, Time};
use crate::rank::Bands;
use crate::view::{Causes, JobView, Note, Snapshot};

use gittins::Gittins;
use parameters::{PARAMETERS, Parameters, Timing, Variant};

/// Where a job stands: class, band, index, then running before waiting, then a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    class: Reverse<PriorityClass>,
    band: u8,
    /// The Gittins index, as bits in an order that compares like the number; 0 for the LAS variant.
    index: Reverse<u64>,
    section: Section,
    number: i64,
}

impl Rank for Order {}

/// Inside a band, those that ran before this decision and stay stand before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Settled,
    Waiting,
}

/// What is remembered about a job, in its note.
#[derive(Clone, Copy, Debug)]
struct Memory {
    band: u8,
    number: i64,
    /// Attained service in milli-GPU-microseconds, time with devices and time without in microseconds,
    /// all when the job was last put into band 0.
    service_base: u64,
    executed_base: Span,
    waited_base: Span,
}

impl Memory {
    /// A job that is new to band 0.
    const fn new(number: i64) -> Self {
        let (executed_base, waited_base) = (Span::ZERO, Span::ZERO);
        Self { band: 0, number, service_base: 0, executed_base, waited_base }
    }

    fn read(note: &Note) -> Option<Self> {
        let [band, number, service, executed, waited] = note.0[..] else { return None };
        Some(Self {
            band: band as u8,
            number,
            service_base: service as u64,
            executed_base: Span(executed as u64),
            waited_base: Span(waited as u64),
        })
    }

    fn note(&self) -> Note {
        let times = [self.service_base, self.executed_base.0, self.waited_base.0].map(|base| base as i64);
        Note([i64::from(self.band), self.number].into_iter().chain(times).collect())
    }
}

struct Tiresias {
    bands: Bands,
    promote: f64,
    gittins: Option<Gittins>,
    timing: Timing,
    manner: Manner,
    ranked: Ranked<Order>,
    memories: BTreeMap<JobId, (Memory, Order)>,
    /// When running jobs reach the end of their band, at the earliest.
    crossings: BTreeSet<(Time, JobId)>,
    crossing_of: BTreeMap<JobId, Time>,
    /// When waiting jobs have waited long enough to be promoted.
    promotions: BTreeSet<(Time, JobId)>,
    promotion_of: BTreeMap<JobId, Time>,
    /// Jobs that still wait for the devices of their target, so that their crossing recedes.
    pending: BTreeSet<JobId>,
}

/// Numbers given in one decision are larger than all given before. There is room for every job twice.
const PER_DECISION: u32 = 33;

impl Tiresias {
    fn new(given: &toml::Table) -> Result<Self, ParameterError> {
        let p: Parameters = parameters("tiresias", PARAMETERS, given)?;
        let bad =
            |message: &str| ParameterError::BadValue { policy: "tiresias", message: message.to_owned() };
        let bands = Bands::new(&p.thresholds_gpu_s)
            .ok_or_else(|| bad("`thresholds_gpu_s` must be ascending, none twice, for example [3600.0]"))?;
        let gittins = match p.variant {
            Variant::Las => None,
            Variant::Gittins => Some(
                Gittins::new(&p.history_gpu_s, p.quantum_gpu_s, p.index)
                    .ok_or_else(|| bad("`history_gpu_s` must not be empty"))?,
            ),
        };
        Ok(Self {
            bands,
            promote: p.promote,
            gittins,
            timing: p.timing,
            manner: Manner { rule: p.placement, preempts: true },
            ranked: Ranked::placing_by(p.placement),
            memories: BTreeMap::new(),
            crossings: BTreeSet::new(),
            crossing_of: BTreeMap::new(),
            promotions: BTreeSet::new(),
            promotion_of: BTreeMap::new(),
            pending: BTreeSet::new(),
        })
    }

    fn demoted(view: &JobView, memory: &Memory, now: Time) -> Reason {
        let served_gpu_s = Self::service_gpu_milli_us(view, memory, now) as f64 / 1e9;
        Reason::Demoted { band: memory.band, served_gpu_s }
    }

    /// Service since the job was last put into band 0, in thousandths of a GPU times microseconds.
    fn service_gpu_milli_us(view: &JobView, memory: &Memory, now: Time) -> u64 {
        view.attained_gpu_milli_us(now).saturating_sub(memory.service_base)
    }

    fn order(&self, view: &JobView, memory: &Memory, section: Section, now: Time) -> Order {
        let index =
            self.gittins.as_ref().map_or(0, |gittins| gittins.index(view.attained_gpu_s(now)).to_bits());
        // The Gittins variant orders a band by index and submission alone.
        let (section, number) = match self.gittins {
            Some(_) => (Section::Settled, i64::from(view.id().0)),
            None => (section, memory.number),
        };
        let class = Reverse(view.job.goals.class);
        Order { class, band: memory.band, index: Reverse(index), section, number }
    }

    /// Brings memories, queues and alarms in step with the snapshot.
    fn follow(&mut self, seen: &Snapshot) {
        let back = (seen.number as i64) << PER_DECISION;
        if !self.ranked.plan.is_in_step(seen) {
            self.memories.clear();
            self.crossings.clear();
            self.crossing_of.clear();
            self.promotions.clear();
            self.promotion_of.clear();
            self.pending.clear();
        }
        let changed = self.ranked.would_follow(seen);
        let mut fresh = Vec::new();
        for id in &changed {
            let Some(view) = seen.job(*id) else {
                self.memories.remove(id);
                continue;
            };
            let memory = Memory::read(&view.note).unwrap_or_else(|| {
                let new = Memory::new(back + i64::from(id.0));
                fresh.push((*id, new));
                new
            });
            let section = if view.target.is_some() { Section::Settled } else { Section::Waiting };
            let order = self.order(view, &memory, section, seen.at);
            self.memories.insert(*id, (memory, order));
        }
        let memories = &self.memories;
        self.ranked.follow(seen, |view, _| memories[&view.id()].1);
        for (id, memory) in fresh {
            self.ranked.plan.note(id, memory.note());
        }
        for id in self.pending.iter().copied().chain(changed).collect::<BTreeSet<JobId>>() {
            self.set_alarms(seen, id);
        }
    }

    /// Works out anew when a job will cross a threshold or be promoted.
    fn set_alarms(&mut self, seen: &Snapshot, id: JobId) {
        if let Some(at) = self.crossing_of.remove(&id) {
            self.crossings.remove(&(at, id));
        }
        if let Some(at) = self.promotion_of.remove(&id) {
            self.promotions.remove(&(at, id));
        }
        self.pending.remove(&id);
        let (Some(view), Some((memory, _))) = (seen.job(id), self.memories.get(&id)) else { return };
        if let Some(target) = self.ranked.plan.target(id) {
            if view.held.is_none() {
                self.pending.insert(id);
            }
            let service = Self::service_gpu_milli_us(view, memory, seen.at);
            if let Some(left) = self.bands.until_demotion(memory.band, service, target.gpu_milli()) {
                let at = seen.at + left;
                self.crossing_of.insert(id, at);
                self.crossings.insert((at, id));
            }
        } else if self.promote > 0.0 && memory.band > 0 {
            let executed = view.executed(seen.at).saturating_sub(memory.executed_base);
            let waited = view.waited(seen.at).saturating_sub(memory.waited_base);
            if executed > Span::ZERO {
                let at = seen.at + executed.scaled(self.promote).saturating_sub(waited);
                self.promotion_of.insert(id, at);
                self.promotions.insert((at, id));
            }
        }
    }

    /// Sinks the running jobs whose service has passed the end of their band by one band, and puts the
    /// waiting ones that have waited long enough back into band 0. Both go to the end of their new band.
    fn sink_and_promote(&mut self, seen: &Snapshot) -> Vec<JobId> {
        let end = (Time(seen.at.0.saturating_add(1)), JobId(0));
        let mut due: Vec<JobId> = self.crossings.range(..end).map(|(_, id)| *id).collect();
        due.extend(self.promotions.range(..end).map(|(_, id)| *id));
        due.sort_unstable();
        let back = ((seen.number as i64) << PER_DECISION) + (1 << (PER_DECISION - 1));
        let mut moved = Vec::new();
        for id in due {
            let view = seen.job(id).expect("only jobs of the snapshot have alarms");
            let (mut memory, _) = self.memories[&id];
            let runs = self.ranked.plan.target(id).is_some();
            if runs {
                let upper = self.bands.upper_gpu_milli_us(memory.band).expect("the last band has no end");
                if Self::service_gpu_milli_us(view, &memory, seen.at) < upper {
                    // It started later than was planned.
                    self.set_alarms(seen, id);
                    continue;
                }
                memory.band += 1;
            } else {
                memory.band = 0;
                memory.service_base = view.attained_gpu_milli_us(seen.at);
                memory.executed_base = view.executed(seen.at);
                memory.waited_base = view.waited(seen.at);
            }
            memory.number = back + i64::from(id.0);
            let order = self.order(view, &memory, Section::Waiting, seen.at);
            self.memories.insert(id, (memory, order));
            if runs {
                self.ranked.rerank_running(id, order);
                moved.push(id);
            } else {
                self.ranked.queue.insert(order, &view.job);
            }
            self.ranked.plan.note(id, memory.note());
            self.set_alarms(seen, id);
        }
        moved
    }

    /// The Gittins index of running jobs changes all the time.
    fn refresh_indices(&mut self, seen: &Snapshot) {
        if self.gittins.is_none() {
            return;
        }
        let running: Vec<JobId> = self.ranked.running().map(|(_, id)| id).collect();
        for id in running {
            let view = seen.job(id).expect("a running job is in the snapshot");
            let (memory, _) = self.memories[&id];
            let order = self.order(view, &memory, Section::Settled, seen.at);
            self.memories.insert(id, (memory, order));
            self.ranked.rerank_running(id, order);
        }
    }

    fn fill(&mut self, seen: &Snapshot) {
        self.follow(seen);
        let sunk = self.sink_and_promote(seen);
        self.refresh_indices(seen);
        let memories = &self.memories;
        // During the walk everybody keeps the place that it had when the walk began.
        self.ranked.fill(seen, self.manner, |view, _| memories[&view.id()].1);
        self.settle(seen, &sunk);
    }

    /// After the walk: who runs moves to the end of the running part of its band, who lost its devices
    /// to the front of the waiting part, each group in the order in which it was walked.
    fn settle(&mut self, seen: &Snapshot, sunk: &[JobId]) {
        let ordered = |policy: &Self, ids: Vec<JobId>| {
            let mut ids: Vec<(Order, JobId)> = ids.iter().map(|id| (policy.memories[id].1, *id)).collect();
            ids.sort_unstable();
            ids
        };
        let mut begun: Vec<JobId> = self.ranked.started().to_vec();
        begun.extend(sunk.iter().filter(|id| self.ranked.plan.target(**id).is_some()));
        let step = 1_i64 << PER_DECISION;
        let base = seen.number as i64 * step;
        for (i, (_, id)) in ordered(self, begun).into_iter().enumerate() {
            self.renumber(seen, id, base + i as i64, Section::Settled);
        }
        let lost: Vec<JobId> = self.ranked.evicted().to_vec();
        for (i, (order, id)) in ordered(self, lost).into_iter().enumerate() {
            if order.section == Section::Settled {
                self.renumber(seen, id, i as i64 - base - step, Section::Waiting);
            }
            self.say_demoted(seen, id);
        }
        // A job may have sunk and lost its devices in one decision.
        for id in sunk {
            self.set_alarms(seen, *id);
        }
    }

    fn renumber(&mut self, seen: &Snapshot, id: JobId, number: i64, section: Section) {
        let view = seen.job(id).expect("only jobs of the snapshot are numbered");
        let (mut memory, _) = self.memories[&id];
        memory.number = number;
        if section == Section::Settled && view.executed(seen.at) == memory.executed_base {
            // Waiting counts towards a promotion only from the first run on.
            memory.waited_base = view.waited(seen.at);
        }
        let order = self.order(view, &memory, section, seen.at);
        self.memories.insert(id, (memory, order));
        match section {
            Section::Settled => self.ranked.rerank_running(id, order),
            Section::Waiting => self.ranked.queue.insert(order, &view.job),
        }
        self.ranked.plan.note(id, memory.note());
        self.set_alarms(seen, id);
    }

    fn say_demoted(&mut self, seen: &Snapshot, id: JobId) {
        let view = seen.job(id).expect("only jobs of the snapshot are judged");
        let (memory, _) = self.memories[&id];
        if memory.band > 0 {
            self.ranked.plan.say(id, Verdict::Yield(Self::demoted(view, &memory, seen.at)));
        }
    }

    /// A job that waits in a lower band waits because it was demoted; the walk only saw that there is no room.
    fn say_who_was_demoted(&mut self, seen: &Snapshot, changed: &[JobId]) {
        for id in changed.iter().filter(|id| seen.job(**id).is_some_and(|view| view.target.is_none())) {
            let waits = self.ranked.waits_because(*id, self.manner.rule);
            let (Some(view), Some((memory, _))) = (seen.job(*id), self.memories.get(id)) else { continue };
            if memory.band > 0 && matches!(waits, Some(Reason::NoCapacity(_) | Reason::Behind { .. })) {
                self.ranked.plan.say(*id, Verdict::Wait(Self::demoted(view, memory, seen.at)));
            }
        }
    }

    fn next_alarm(&self, seen: &Snapshot) -> Option<Time> {
        let crossing = match self.timing {
            Timing::Exact => self.crossings.first().map(|(at, _)| *at),
            Timing::Python2 | Timing::Python3 => self.crossing_as_coded(seen),
        };
        let promotion = self.promotions.first().map(|(at, _)| *at);
        [crossing, promotion].into_iter().flatten().min()
    }

    /// The public simulator's next crossing: whole seconds, `(threshold - executed) / gpus` from now.
    fn crossing_as_coded(&self, seen: &Snapshot) -> Option<Time> {
        let of = |id: &JobId| {
            let (memory, _) = self.memories.get(id)?;
            let upper = self.bands.upper_gpu_s(memory.band)? as u64;
            let executed = seen.job(*id)?.executed(seen.at).saturating_sub(memory.executed_base);
            let gpus = (self.ranked.plan.target(*id)?.gpu_milli() / 1000).max(1);
            let left_s = upper.saturating_sub(executed.0 / 1_000_000);
            let left_s = if self.timing == Timing::Python2 { left_s / gpus } else { left_s.div_ceil(gpus) };
            Some(seen.at + Span::from_secs(left_s))
        };
        self.crossing_of.keys().filter_map(of).min()
    }
}

impl Policy for Tiresias {
    fn cadence(&self) -> Cadence {
        Cadence::OnEvents(Causes::CAPACITY)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let changed = self.ranked.would_follow(seen);
        self.fill(seen);
        self.say_who_was_demoted(seen, &changed);
        if let Some(at) = self.next_alarm(seen) {
            self.ranked.plan.wake_at(at);
        }
        self.ranked.plan.finish()
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.fill(seen);
        let verdict = self.ranked.explain(seen, job, self.manner.rule);
        let demoted = self.memories.get(&job).filter(|(memory, _)| memory.band > 0);
        match (verdict, demoted, seen.job(job)) {
            (Verdict::Wait(Reason::NoCapacity(_) | Reason::Behind { .. }), Some((memory, _)), Some(view)) => {
                Verdict::Wait(Self::demoted(view, memory, seen.at))
            }
            _ => verdict,
        }
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        self.sink_and_promote(seen);
        self.refresh_indices(seen);
        self.ranked.ahead(job)
    }

    fn is_work_conserving(&self) -> bool {
        self.manner.rule.uses_any_room()
    }
}

/// Tiresias' two-dimensional least attained service, or its Gittins index.
pub(super) const ENTRY: Entry = Entry {
    name: "tiresias",
    title: "least attained service in bands (2D-LAS), or by Gittins index; needs no declared length",
    source: "Gu et al., Tiresias, NSDI 2019",
    reads_declared: false,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Tiresias::new(given)?)),
};
