//! Why a job waits, as people read it and as programs do. Both are made from one answer.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use trainyard_sched::control::Outcome;
use trainyard_sched::decide::{Names, Reason, Verdict};
use trainyard_sched::estimate::{LossHealth, LossTrend};
use trainyard_sched::model::{JobId, Span, TenantId, Time};
use trainyard_sched::view::Phase;
use trainyard_sched::why::{Change, Other, Room, Standing, Waits};
use trainyard_sim::forecast::{ASSUMPTIONS, Estimate};

use super::words::count;

/// The name and version of the form of the answer in JSON.
pub(crate) const WHY_SCHEMA: &str = "trainyard.why/1";
/// Nodes that are named of a longer list.
const MOST_NODES: usize = 8;
/// Jobs that are named of a longer list.
const MOST_OTHERS: usize = 3;

/// Everything that is answered. Times are microseconds since the run began, lengths of time are microseconds.
#[derive(Serialize)]
pub(crate) struct Answer {
    pub(crate) schema: &'static str,
    pub(crate) policy: String,
    pub(crate) job: JobId,
    pub(crate) name: Arc<str>,
    pub(crate) tenant: Option<Arc<str>>,
    /// GPUs of its smallest gang.
    pub(crate) gpus: Option<f64>,
    /// CPU cores of its smallest gang.
    pub(crate) cpus: Option<f64>,
    /// The moment that is spoken of.
    pub(crate) at: Time,
    /// Whether that is the last moment at which it waited, because nobody said another.
    pub(crate) is_last_wait: bool,
    pub(crate) run_ends: Time,
    pub(crate) state: Stands,
    /// How its losses look, if it has reported any.
    pub(crate) losses: Option<Losses>,
    /// What keeps it waiting, what binds first.
    pub(crate) reasons: Vec<Said>,
    /// The numbers behind it, if it waits.
    pub(crate) waits: Option<Waits>,
    /// When it will start, if it waits.
    pub(crate) forecast: Option<Outlooked>,
    #[serde(skip)]
    pub(crate) names: Called,
}

/// What the job does.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub(crate) enum Stands {
    NotArrived {
        arrives: Time,
    },
    Waits {
        arrived: Time,
        since: Time,
        waited: Span,
        attempts: u32,
    },
    Runs {
        arrived: Time,
        since: Time,
        phase: Phase,
        nodes: Vec<u32>,
        node_names: Vec<String>,
        gpus: f64,
        cpus: f64,
        waited: Span,
        attempts: u32,
        left: Option<Span>,
        verdict: Verdict,
    },
    Ended {
        ended: Time,
        outcome: Outcome,
        /// Why it was cut short, if it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        early: Option<String>,
        arrived: Time,
        started: Option<Time>,
    },
}

/// What is seen of a job's losses.
#[derive(Serialize)]
pub(crate) struct Losses {
    /// How many reports are kept.
    pub(crate) reports: usize,
    /// The iteration of the latest.
    pub(crate) iteration: f64,
    /// The loss, or score, then.
    pub(crate) latest: f64,
    /// What stands out.
    pub(crate) health: LossHealth,
    /// Whether the policy looks at losses.
    pub(crate) matters: bool,
}

/// A reason with its words.
#[derive(Serialize)]
pub(crate) struct Said {
    pub(crate) reason: Reason,
    /// Since when the policy has given it, where that is known.
    pub(crate) since: Option<Time>,
    pub(crate) sentence: String,
    pub(crate) remedy: &'static str,
}

/// A forecast and what it stands on.
#[derive(Serialize)]
pub(crate) struct Outlooked {
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
    /// Ended jobs from which was learnt how far declarations are off.
    pub(crate) learnt_from: u64,
}

/// What the jobs and tenants are called that somebody may not see.
pub(crate) const OTHERS: &str = "another tenant";

/// What jobs and tenants are called, by number.
#[derive(Clone, Default)]
pub(crate) struct Called {
    jobs: Vec<Arc<str>>,
    tenants: Vec<Arc<str>>,
    /// Whether who is not named here is somebody else's.
    is_part: bool,
}

impl Called {
    /// All names there are.
    pub(crate) fn new(jobs: Vec<Arc<str>>, tenants: Vec<Arc<str>>) -> Self {
        Self { jobs, tenants, is_part: false }
    }

    /// Some names; the others are empty and are not to be told.
    pub(crate) fn part(jobs: Vec<Arc<str>>, tenants: Vec<Arc<str>>) -> Self {
        Self { jobs, tenants, is_part: true }
    }

    fn called(&self, of: &[Arc<str>], index: usize) -> Option<Arc<str>> {
        of.get(index).filter(|name| !self.is_part || !name.is_empty()).cloned()
    }
}

impl Names for Called {
    fn job(&self, id: JobId) -> String {
        match self.called(&self.jobs, id.index()) {
            Some(name) => format!("job {name}"),
            None if self.is_part => format!("a job of {OTHERS}"),
            None => id.to_string(),
        }
    }

    fn tenant(&self, id: TenantId) -> String {
        match self.called(&self.tenants, id.index()) {
            Some(name) => format!("tenant {name}"),
            None if self.is_part => OTHERS.to_owned(),
            None => id.to_string(),
        }
    }
}

/// The answer as about ten lines.
pub(crate) fn why_text(answer: &Answer) -> String {
    let mut text = headline(answer);
    let mut line = |label: &str, words: String| {
        let _ = writeln!(text, "  {label:<9} {words}");
    };
    for (i, said) in answer.reasons.iter().enumerate() {
        let since =
            said.since.filter(|_| i == 0).map_or_else(String::new, |since| format!(" (since {since})"));
        let label = if i == 0 { answer.policy.as_str() } else { "also" };
        line(label, format!("{}: {}{since}", said.reason.kind(), said.sentence));
    }
    if let Some(losses) = &answer.losses {
        line("its loss", its_loss(losses));
    }
    if let Some(waits) = &answer.waits {
        line("room", room_now(waits));
        line("place", place(&waits.place));
        line("held by", held_by(answer.at, &waits.holders));
        for words in helps(answer, waits) {
            line("helps", words);
        }
    }
    if let Some(forecast) = &answer.forecast {
        line("starts", starts(answer.at, &forecast.estimate));
        line(
            "assuming",
            format!("{}; learnt from {} ended jobs", ASSUMPTIONS.join("; "), count(forecast.learnt_from)),
        );
    }
    text
}

fn headline(answer: &Answer) -> String {
    let name = &answer.name;
    let of = answer.tenant.as_ref().map_or_else(String::new, |tenant| format!(" of {tenant}"));
    let wants = answer.gpus.zip(answer.cpus);
    let wants = wants.map_or_else(String::new, |(gpus, cpus)| format!(", {}", devices(gpus, cpus)));
    let moment = if answer.is_last_wait { " (the last moment at which it waited)" } else { "" };
    let at = answer.at;
    let times = |attempts: u32| match attempts {
        0 => "never started".to_owned(),
        1 => "started once".to_owned(),
        more => format!("started {more} times"),
    };
    match &answer.state {
        Stands::NotArrived { arrives } => {
            format!("job {name}: not there yet at {at}; it arrives at {arrives}\n")
        }
        Stands::Waits { arrived, since, waited, attempts } => format!(
            "job {name}{of}{wants}: waits at {at}{moment}, {waited} so far; submitted at {arrived}, waiting since {since}, {}\n",
            times(*attempts)
        ),
        Stands::Runs {
            arrived,
            since,
            phase,
            node_names,
            gpus,
            cpus,
            waited,
            attempts,
            left,
            verdict,
            ..
        } => {
            let doing = match phase {
                Phase::Starting => "loads",
                Phase::Stopping => "is told to stop and saves",
                Phase::Running | Phase::Waiting => "runs",
            };
            let left =
                left.map_or_else(|| "it declares no end".to_owned(), |left| format!("it claims {left} more"));
            format!(
                "job {name}{of}: {doing} at {at} on {} of {} since {since}\n  submitted at {arrived}, waited \
                 {waited}, {}; {left}\n  {}: {}\n",
                devices(*gpus, *cpus),
                named_nodes(node_names),
                times(*attempts),
                answer.policy,
                verdict.reason().told(&answer.names)
            )
        }
        Stands::Ended { ended, outcome, early, arrived, started } => {
            let how = serde_json::to_value(outcome).ok().and_then(|word| word.as_str().map(str::to_owned));
            let how = how.unwrap_or_default().replace('_', " ");
            let waited = started.map_or_else(
                || "it never started".to_owned(),
                |started| format!("it first started at {started}, after {}", started.since(*arrived)),
            );
            let early = early.as_ref().map_or_else(String::new, |early| format!("  {early}\n"));
            format!(
                "job {name}{of}{wants}: ended at {ended} ({how}); submitted at {arrived}, {waited}\n{early}"
            )
        }
    }
}

/// What a job takes, in what matters: GPUs, or CPU cores if it has none.
fn devices(gpus: f64, cpus: f64) -> String {
    if gpus == 0.0 && cpus > 0.0 { format!("{cpus} CPUs") } else { format!("{gpus} GPUs") }
}

/// The first few nodes and how many more there are.
fn named_nodes(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NODES).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MOST_NODES);
    if more > 0 { format!("{shown} and {} more", count(more as u64)) } else { shown }
}

/// Where its losses go, and what that means for it.
fn its_loss(losses: &Losses) -> String {
    let gains = if losses.matters {
        "; next to no gain is expected of it, so it keeps its fewest workers while others gain more"
    } else {
        ""
    };
    let words = loss_words(&losses.health, gains);
    format!("{words} ({} at iteration {})", losses.latest, losses.iteration)
}

/// What stands out in losses, with what it means for those that do not gain.
pub(crate) fn loss_words(health: &LossHealth, gains: &str) -> String {
    let LossHealth { trend, outlier, ignored, restarts } = *health;
    let mut words = match trend {
        LossTrend::Unknown => "too few reports to say where it goes".to_owned(),
        LossTrend::Falling => "it gets better".to_owned(),
        LossTrend::Unclear => "no trend stands out from its noise".to_owned(),
        LossTrend::Constant => format!("it never changed{gains}"),
        LossTrend::Flat { since } => format!("flat since iteration {since}{gains}"),
        LossTrend::Diverging { since } => format!("diverging since iteration {since}{gains}"),
        LossTrend::Backwards => {
            format!(
                "it has got worse from the beginning: does the job say rightly which way is better?{gains}"
            )
        }
    };
    if let Some(at) = outlier {
        words += &format!("; an outlier at iteration {at}");
    }
    if ignored > 0 {
        words += &format!("; {} reports were no numbers", count(ignored));
    }
    if restarts > 0 {
        words += &format!("; it began anew {} times", count(u64::from(restarts)));
    }
    words
}

fn room_now(waits: &Waits) -> String {
    let room = &waits.capacity;
    let parts = [
        (room.nodes_of_other_type, "of another type"),
        (room.nodes_not_up, "not up"),
        (room.nodes_too_small, "too small"),
        (room.nodes_full, "full"),
        (room.nodes_with_room, "with room"),
    ];
    let nodes: Vec<String> =
        parts.iter().filter(|(nodes, _)| *nodes > 0).map(|(nodes, what)| format!("{nodes} {what}")).collect();
    let free = if room.needs_gpus == 0.0 {
        format!("{} CPUs", room.free_cpus)
    } else {
        format!("{} GPUs", room.free_gpus)
    };
    format!(
        "needs {} workers with {}; {free} are free, the largest block is {} workers; nodes: {}",
        room.workers,
        devices(room.needs_gpus, room.needs_cpus),
        room.largest_block,
        nodes.join(", ")
    )
}

fn place(place: &Standing) -> String {
    let ahead = place.ahead.len();
    let waiting = count(u64::from(place.waiting));
    let others = |other: &Other| {
        let left = other.left.map_or_else(|| "length unknown".to_owned(), |left| format!("{left} left"));
        format!("{} ({}, {}, {left})", other.name, other.tenant, devices(other.gpus, other.cpus))
    };
    let named = named(&place.ahead, others);
    match (place.is_total, ahead) {
        (true, 0) => format!("first of {waiting} that wait"),
        (true, _) => format!(
            "{} of {waiting} that wait; {} of those ahead want the same; ahead: {named}",
            count(ahead as u64 + 1),
            count(u64::from(place.ahead_for_same))
        ),
        (false, 0) => format!("the policy has no fixed order; nobody of {waiting} goes first in any case"),
        (false, _) => format!(
            "the policy has no fixed order; of {waiting} that wait {} go first in any case: {named}",
            count(ahead as u64)
        ),
    }
}

fn held_by(at: Time, holders: &[Other]) -> String {
    if holders.is_empty() {
        return "nobody".to_owned();
    }
    let gpus: f64 = holders.iter().map(|other| other.gpus).sum();
    let cpus: f64 = holders.iter().map(|other| other.cpus).sum();
    let of = |other: &Other| {
        let ends = other.ends(at).map_or_else(|| "end unknown".to_owned(), |ends| format!("until {ends}"));
        format!("{} ({}, {}, {ends})", other.name, other.tenant, devices(other.gpus, other.cpus))
    };
    format!("{} jobs on {}: {}", count(holders.len() as u64), devices(gpus, cpus), named(holders, of))
}

/// The first few of a list and how many more there are.
fn named(others: &[Other], words: impl Fn(&Other) -> String) -> String {
    let mut shown: Vec<String> = others.iter().take(MOST_OTHERS).map(words).collect();
    if others.len() > MOST_OTHERS {
        shown.push(format!("and {} more", count((others.len() - MOST_OTHERS) as u64)));
    }
    shown.join(", ")
}

/// What would change it: what was tried, then the advice.
fn helps(answer: &Answer, waits: &Waits) -> Vec<String> {
    let mut all: Vec<String> = waits
        .starts_with
        .iter()
        .map(|change| match change {
            Change::FewerWorkers { workers, gpus, cpus } => {
                format!(
                    "would start now with {workers} workers ({}), if it runs longer in proportion",
                    devices(*gpus, *cpus)
                )
            }
            Change::AnyGpuType => "would start now if it took any type of GPU".to_owned(),
            Change::Anywhere => "would start now if its workers could be on any nodes".to_owned(),
        })
        .collect();
    all.extend(waits.room.as_ref().map(|room| room_later(answer, room)));
    all.extend(answer.reasons.first().map(|said| said.remedy.to_owned()));
    all
}

fn room_later(answer: &Answer, room: &Room) -> String {
    let Room { ends, at, then_starts } = room;
    let who: Vec<String> = ends.iter().take(MOST_OTHERS).map(|job| answer.names.job(*job)).collect();
    let more = ends.len().saturating_sub(MOST_OTHERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let when =
        at.map_or_else(|| "they do not all say when".to_owned(), |at| format!("by declaration at {at}"));
    let then = if *then_starts { "then it would start" } else { "but then others go first" };
    let end = if ends.len() == 1 { "ends" } else { "end" };
    format!("there is room when {}{more} {end}, {when}; {then}", who.join(", "))
}

fn starts(now: Time, estimate: &Estimate) -> String {
    let Estimate { earliest, median, latest, looked_until, futures, starts } = *estimate;
    let from_now = |at: Time| at.since(now).to_string();
    let (Some(earliest), futures) = (earliest, count(u64::from(futures))) else {
        return format!("not within {}: it starts in none of {futures} futures", from_now(looked_until));
    };
    let median =
        median.map_or_else(String::new, |median| format!(", as likely before as after {}", from_now(median)));
    let Some(latest) = latest else {
        return format!(
            "not before {} from now{median}; in {} of {futures} futures not within {}",
            from_now(earliest),
            u64::from(estimate.futures - starts),
            from_now(looked_until)
        );
    };
    format!(
        "in {} to {} with a chance of 80 %{median}, that is at {earliest} to {latest}; {futures} futures",
        from_now(earliest),
        from_now(latest)
    )
}
