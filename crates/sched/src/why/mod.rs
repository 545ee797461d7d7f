//! Why one job waits: everything that can be said about it at one moment, with numbers.
//!
//! The policy's own verdict comes first. Beside it stand checks that hold whatever the policy says: limits, room,
//! order. What would change things is not guessed but tried, on the same snapshot with a fresh instance of the
//! policy. Nothing here is prose; whoever shows it finds the words.

mod capacity;
mod trial;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::control::Moment;
use crate::decide::{Plan, Policy, Reason, Verdict};
use crate::model::{GPU, Job, JobId, Resources, Span, TenantId, Time};
use crate::place::{Ask, FreeCapacity, Rule, no_room};
use crate::view::{JobView, Snapshot};

pub use capacity::Capacity;
pub use trial::{Change, Room};

/// Makes instances of the policy that decides.
pub type Make<'a> = dyn Fn() -> Box<dyn Policy> + 'a;

/// What can be said about a job that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Everything that keeps it waiting; what the policy says comes first and is what binds.
    pub reasons: Vec<Reason>,
    /// How much room there is for it now.
    pub capacity: Capacity,
    /// Where it stands.
    pub place: Standing,
    /// Who holds what it could use, those that claim to end first first.
    pub holders: Vec<Other>,
    /// What would let it start at once, each tried by itself.
    pub starts_with: Vec<Change>,
    /// Whose end would make room.
    pub room: Option<Room>,
}

/// Where a waiting job stands among those that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Jobs that wait, itself included, and those that have been told to give up what they hold.
    pub waiting: u32,
    /// Jobs that go before it, the first of all first.
    pub ahead: Vec<Other>,
    /// How many of those want the same kind of devices.
    pub ahead_for_same: u32,
    /// Whether these are all that go before it, or only those that do in any case.
    pub is_total: bool,
}

/// Another job, as far as it matters to one that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// Its number.
    pub job: JobId,
    /// What it is called.
    pub name: Arc<str>,
    /// Who owns it, by name.
    pub tenant: Arc<str>,
    /// GPUs that it holds, or that its smallest gang wants.
    pub gpus: f64,
    /// CPU cores that it holds, or that its smallest gang wants.
    pub cpus: f64,
    /// How long it still claims to run, if it says so.
    pub left: Option<Span>,
}

/// Says why a job waits, or `None` if it does not: it runs, has ended, or has not arrived.
pub fn why_waits(moment: &Moment, make: &Make<'_>, job: JobId) -> Option<Waits> {
    let seen = moment.snapshot();
    let view = seen.job(job).filter(|view| view.held.is_none())?;
    let free = free_by_targets(&seen);
    let place = standing(&seen, make, view);
    Some(Waits {
        reasons: reasons(moment, &seen, make, view, &free, &place),
        capacity: Capacity::of(&seen, &free, &view.job),
        holders: holders(&seen, &view.job),
        starts_with: trial::changes(&seen, make, view),
        room: trial::room(&seen, make, view, &free),
        place,
    })
}

/// What no target takes.
fn free_by_targets(seen: &Snapshot) -> FreeCapacity {
    let mut free = FreeCapacity::new(&seen.cluster);
    for view in seen.jobs().filter(|view| view.target.is_some()) {
        free.take(&view.target, &view.job.shape);
    }
    free
}

/// The policy's reason, then what else keeps the job waiting, each kind once.
fn reasons(
    moment: &Moment,
    seen: &Snapshot,
    make: &Make<'_>,
    view: &JobView,
    free: &FreeCapacity,
    place: &Standing,
) -> Vec<Reason> {
    let job = &view.job;
    let mut policy = make();
    let looked_at = moment.state.verdict(view.id()) != Verdict::Wait(Reason::NotYetEvaluated);
    let own = if looked_at { *policy.explain(seen, view.id()).reason() } else { Reason::NotYetEvaluated };
    let mut all = vec![own];
    let mut add = |reason: Option<Reason>| {
        let new = |reason: &Reason| all.iter().all(|known| known.kind() != reason.kind());
        all.extend(reason.filter(new));
    };
    let never = Plan::unplaceable(seen, job, Rule::Pack);
    add(never);
    let shuns = view.shuns.filter(|(_, until)| *until > seen.at);
    add(shuns.map(|(_, until)| Reason::Backoff { until }));
    let full = policy.keeps_limits().then(|| over_limit(seen, job)).flatten();
    add(full.map(|tenant| Reason::QuotaFull { tenant }));
    let fits = free.clone().place(Rule::Pack, &Ask::minimum(&job.shape, &job.wanted)).is_some();
    add((!fits && never.is_none()).then(|| Reason::NoCapacity(no_room(free, &job.shape, &job.wanted))));
    let first =
        place.ahead.iter().find(|other| seen.job(other.job).is_some_and(|other| is_rival(&other.job, job)));
    add(first.map(|other| Reason::Behind { ahead: other.job }));
    all
}

/// The tenant, or one above it, that would hold more than it may with this job.
fn over_limit(seen: &Snapshot, job: &Job) -> Option<TenantId> {
    let need = job.shape.minimum();
    seen.tenants.line(job.tenant).find(|above| {
        let below = |view: &&JobView| seen.tenants.line(view.job.tenant).any(|tenant| tenant == *above);
        let targets = seen.jobs().filter(|view| view.target.is_some()).filter(below);
        let held = targets.fold(Resources::NONE, |sum, view| sum + view.target.resources(&view.job.shape));
        seen.tenants.get(*above).is_some_and(|tenant| !(held + need).fits_in(&tenant.quota.limit))
    })
}

/// Whether two jobs want devices of one kind.
fn is_rival(a: &Job, b: &Job) -> bool {
    let wants_gpus = |job: &Job| job.shape.minimum().gpu_milli > 0;
    match (wants_gpus(a), wants_gpus(b)) {
        (true, true) => a.wanted.gpu_types.overlaps(b.wanted.gpu_types),
        (a, b) => a == b,
    }
}

fn standing(seen: &Snapshot, make: &Make<'_>, view: &JobView) -> Standing {
    let ahead = make().ahead(seen, view.id());
    let others = ahead.jobs.iter().filter_map(|id| seen.job(*id));
    let rivals = others.clone().filter(|other| is_rival(&other.job, &view.job)).count();
    Standing {
        waiting: seen.jobs().filter(|view| view.held.is_none() || view.target.is_none()).count() as u32,
        ahead: others.map(|other| Other::of(seen, other)).collect(),
        ahead_for_same: rivals as u32,
        is_total: ahead.is_total,
    }
}

/// Jobs that hold something where this one could run.
fn holders(seen: &Snapshot, job: &Job) -> Vec<Other> {
    let there = |view: &&JobView| view.held.nodes().iter().any(|node| capacity::allows(seen, job, *node));
    let mut holders: Vec<Other> = seen.jobs().filter(there).map(|view| Other::of(seen, view)).collect();
    holders.sort_by_key(|other| (other.left.is_none(), other.left, other.job));
    holders
}

impl Other {
    fn of(seen: &Snapshot, view: &JobView) -> Self {
        let shape = &view.job.shape;
        let (gpu_milli, cpu_milli) = if view.held.is_some() {
            (view.held.gpu_milli(), view.held.resources(shape).cpu_milli)
        } else {
            (shape.minimum().gpu_milli, shape.minimum().cpu_milli)
        };
        Self {
            job: view.id(),
            name: Arc::clone(&view.job.name),
            tenant: seen.tenants.get(view.job.tenant).map_or_else(|| "".into(), |tenant| tenant.name.clone()),
            gpus: gpu_milli as f64 / GPU as f64,
            cpus: cpu_milli as f64 / 1e3,
            left: view.declared_remaining(seen.at),
        }
    }

    /// When it ends by what it claims, if it runs.
    pub fn ends(&self, now: Time) -> Option<Time> {
        self.left.map(|left| now + left)
    }
}
