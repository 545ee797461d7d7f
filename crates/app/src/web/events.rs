//! The steps of the loop as a stream of server-sent events: what happened and what was ordered, in brief. Each has the number
//! of its step in the journal as its id, so that one who was cut off can go on with `Last-Event-ID`, after a restart of the
//! daemon too.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use trainyard_live::board::Board;
use trainyard_live::daemon::Told;
use trainyard_sched::control::{Action, Event};
use trainyard_sched::decide::Decision;
use trainyard_sched::model::{Cluster, JobId};
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::office::{Office, blocking};
use super::parts::Query;
use super::problem::{Kind, Problem};
use super::shown::{Seen, state_word, wall_text, word};

/// So many steps are looked up at one time.
const AT_ONCE: usize = 256;
/// So many steps are listed when nobody says, and at the most.
const LISTED: usize = 50;
const MOST_LISTED: usize = 256;
/// How often something is sent to those who have nothing to hear.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where a stream begins.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// After the step of this number; by default with what happens from now on. 0 is everything.
    after: Option<u64>,
}

/// One step, as far as the one who asks may see it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepShown {
    /// Its number in the journal.
    id: u64,
    /// When, by RFC 3339.
    time: String,
    /// The same in seconds since the run began.
    at_s: f64,
    /// Whether the policy decided.
    decided: bool,
    /// What happened.
    happened: Vec<Happening>,
    /// What was ordered.
    ordered: Vec<Happening>,
}

impl StepShown {
    /// Whether there is anything in it that may be seen.
    fn says_something(&self) -> bool {
        !self.happened.is_empty() || !self.ordered.is_empty()
    }
}

/// One thing that happened or was ordered.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Happening {
    /// What, as a word.
    what: String,
    /// The job it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u32>,
    /// What that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The nodes it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Why the policy wants it so, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
}

/// Which of the latest steps are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Latest {
    /// At most so many: 50 by default, 256 at the most.
    limit: Option<usize>,
}

/// Some steps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepList {
    /// The steps, by number.
    steps: Vec<StepShown>,
    /// The number of the latest step of all; the stream of events may be followed after it.
    latest: u64,
}

/// List the latest steps in which more happened than progress.
///
/// The daemon remembers some hundred of them; older ones are in the stream of events.
#[utoipa::path(get, path = "/v1/steps", tag = "events", params(Latest),
    responses((status = 200, description = "As far as the token may see them", body = StepList)))]
pub(crate) async fn latest(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Query(which): Query<Latest>,
) -> Result<Json<StepList>, Problem> {
    let limit = which.limit.unwrap_or(LISTED);
    if !(1..=MOST_LISTED).contains(&limit) {
        return Err(Problem::field("limit", format!("write a number from 1 to {MOST_LISTED}")));
    }
    let (told, latest) = office.history.telling();
    let board = office.board();
    let teller = Teller { office: &office, board: &board, cluster: office.handle.cluster(), caller: &caller };
    let mut steps: Vec<StepShown> =
        told.iter().map(|told| teller.brief(told)).filter(StepShown::says_something).collect();
    steps.drain(..steps.len().saturating_sub(limit));
    Ok(Json(StepList { steps, latest }))
}

/// Follow the steps of the loop, as server-sent events.
///
/// The stream ends when the token is taken back, and when the daemon leaves.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(Since,
        ("Last-Event-ID" = Option<u64>, Header, description = "Go on after this step")),
    responses((status = 200, description = "A stream; the data of each event is a step", content_type = "text/event-stream", body = StepShown)))]
pub(crate) async fn follow(
    State(office): State<Arc<Office>>,
    caller: Caller,
    headers: HeaderMap,
    Query(since): Query<Since>,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Problem> {
    let latest = office.history.latest();
    let last =
        match headers.get("last-event-id") {
            Some(value) => {
                let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
                Some(number.ok_or_else(|| {
                    Problem::new(Kind::Malformed, "`Last-Event-ID` is the number of a step")
                })?)
            }
            None => since.after,
        };
    let seen = last.unwrap_or(*latest.borrow());
    let closing = office.closing();
    let removed = office.access.removed();
    let reader = Reader { office, caller, latest, closing, removed, seen, ready: VecDeque::new() };
    let stream = unfold(reader, |mut reader| async move {
        let step = reader.next().await?;
        let data = serde_json::to_string(&step).expect("a step can be written");
        Some((Ok(Sent::default().id(step.id.to_string()).event("step").data(data)), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Reader {
    office: Arc<Office>,
    caller: Caller,
    latest: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    removed: watch::Receiver<()>,
    /// The number of the last step that was looked at.
    seen: u64,
    ready: VecDeque<StepShown>,
}

impl Reader {
    /// The next step with something to see; none when the stream ends.
    async fn next(&mut self) -> Option<StepShown> {
        loop {
            if *self.closing.borrow() || !self.office.access.knows(&self.caller) {
                return None;
            }
            if let Some(step) = self.ready.pop_front() {
                return Some(step);
            }
            self.latest.borrow_and_update();
            if !self.read().await? {
                tokio::select! {
                    changed = self.latest.changed() => changed.ok()?,
                    _ = self.closing.changed() => return None,
                    _ = self.removed.changed() => {}
                }
            }
        }
    }

    /// Reads what is new; whether anything was.
    async fn read(&mut self) -> Option<bool> {
        let (history, seen) = (Arc::clone(&self.office.history), self.seen);
        let read =
            blocking(move || history.after(seen, AT_ONCE).map_err(|why| Problem::new(Kind::Internal, why)));
        let told = read.await.ok()?;
        let Some(last) = told.last() else { return Some(false) };
        self.seen = last.number;
        let board = self.office.board();
        let cluster = self.office.handle.cluster();
        let teller = Teller { office: &self.office, board: &board, cluster, caller: &self.caller };
        let shown = told.iter().map(|told| teller.brief(told));
        self.ready.extend(shown.filter(StepShown::says_something));
        Some(true)
    }
}

struct Teller<'a> {
    office: &'a Office,
    board: &'a Board,
    cluster: &'a Cluster,
    caller: &'a Caller,
}

impl Teller<'_> {
    /// A step in brief, as far as the caller may see it.
    fn brief(&self, told: &Told) -> StepShown {
        let record = &told.record;
        let unchanged = record.step.unchanged.as_deref();
        let events = record.events.iter();
        let mut happened: Vec<Happening> = events.filter_map(|event| self.event(event, unchanged)).collect();
        happened.extend(record.step.ended.iter().filter_map(|(job, outcome)| {
            let early = record.step.early.iter().find(|(early, _)| early == job);
            let because = early.map(|(_, early)| early.to_string());
            Some(Happening { detail: Some(word(outcome)), because, ..self.job("ended", *job)? })
        }));
        if let Some(panic) = record.step.panic.as_ref().filter(|_| self.caller.sees_only().is_none()) {
            happened.push(Happening {
                what: "cycle_lost".to_owned(),
                detail: Some(panic.clone()),
                ..Happening::default()
            });
        }
        let decision = record.step.decision.as_ref();
        let ordered = record.step.actions.iter().filter_map(|action| self.action(action, decision));
        StepShown {
            id: told.number,
            time: wall_text(told.wall),
            at_s: record.at.as_secs_f64(),
            decided: decision.is_some(),
            happened,
            ordered: ordered.collect(),
        }
    }

    fn job(&self, what: &str, job: JobId) -> Option<Happening> {
        let card = self.board.jobs.get(&job).filter(|card| self.caller.sees(card.tenant))?;
        Some(Happening {
            what: what.to_owned(),
            job: Some(job.0),
            name: Some(card.name.to_string()),
            tenant: self.board.tenants.get(card.tenant.index()).map(ToString::to_string),
            ..Happening::default()
        })
    }

    /// An event; `unchanged` is why a change of the policy was not made, if it was not.
    fn event(&self, event: &Event, unchanged: Option<&str>) -> Option<Happening> {
        let what = match event {
            Event::Arrived { .. } => "submitted",
            Event::Withdrawn { .. } => "withdrawn",
            Event::Resumed { .. } => "resumed",
            Event::NodeChanged { node, state } => {
                let nodes = vec![self.cluster.node(*node).name.to_string()];
                let detail = Some(state_word(*state).to_owned());
                return Some(Happening {
                    what: "node_changed".to_owned(),
                    nodes,
                    detail,
                    ..Happening::default()
                });
            }
            Event::PolicyChanged { policy, .. } => {
                let (what, detail) = match unchanged {
                    None => ("policy_changed", policy.clone()),
                    Some(why) => ("policy_refused", format!("{policy}: {why}")),
                };
                return Some(Happening {
                    what: what.to_owned(),
                    detail: Some(detail),
                    ..Happening::default()
                });
            }
            Event::Started { .. } => "started",
            Event::StartFailed { .. } => "start_failed",
            Event::Resized { .. } => "resized",
            Event::Stopped { .. } => "stopped",
            Event::Progress { .. } => "progress",
            // Every few seconds for every job: nobody would see anything else.
            Event::Used { .. } => return None,
            Event::Merged { .. } => "merged",
            Event::Lost { .. } => "lost",
            Event::Finished { .. } => "finished",
        };
        let detail = match event {
            Event::Progress { iterations, losses, .. } => Some(match losses.last() {
                Some(point) => format!("{iterations} iterations, loss {}", point.loss),
                None => format!("{iterations} iterations"),
            }),
            Event::Finished { outcome, .. } => Some(word(outcome)),
            _ => None,
        };
        Some(Happening { detail, ..self.job(what, event.job()?)? })
    }

    fn action(&self, action: &Action, decision: Option<&Decision>) -> Option<Happening> {
        let (what, allocation) = match action {
            Action::Start { allocation, .. } => ("start", Some(allocation)),
            Action::Stop { .. } => ("stop", None),
            Action::Resize { allocation, .. } => ("resize", Some(allocation)),
            Action::Merge { .. } => ("merge", None),
        };
        let nodes = allocation.map(|allocation| allocation.nodes()).unwrap_or_default();
        let nodes = nodes.into_iter().map(|node| self.cluster.node(node).name.to_string()).collect();
        let detail = allocation.map(|allocation| format!("{} workers", allocation.workers()));
        let verdicts = decision.map_or(&[][..], |decision| &decision.verdicts);
        let place = verdicts.binary_search_by_key(&action.job(), |(job, _)| *job);
        let because = place.ok().map(|place| {
            verdicts[place].1.reason().told(&Seen {
                office: self.office,
                board: self.board,
                caller: self.caller,
            })
        });
        Some(Happening { nodes, detail, because, ..self.job(what, action.job())? })
    }
}
