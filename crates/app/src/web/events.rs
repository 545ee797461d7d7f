//! The steps of the loop as a stream of server-sent events: what happened and what was ordered, in brief. Each has the number
//! of its step in the journal as its id, so that one who was cut off can go on with `Last-Event-ID`, after a restart of the
//! daemon too.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use trainyard_live::board::Board;
use trainyard_live::daemon::Told;
use trainyard_sched::control::{Action, Event};
use trainyard_sched::model::{Cluster, JobId};
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::office::{Office, blocking};
use super::parts::Query;
use super::problem::{Kind, Problem};
use super::shown::{state_word, wall_text, word};

/// So many steps are looked up at one time.
const AT_ONCE: usize = 256;
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
}

/// Follow the steps of the loop, as server-sent events.
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
    let reader = Reader { office, caller, latest, closing, seen, ready: VecDeque::new() };
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
    /// The number of the last step that was looked at.
    seen: u64,
    ready: VecDeque<StepShown>,
}

impl Reader {
    /// The next step with something to see; none when the stream ends.
    async fn next(&mut self) -> Option<StepShown> {
        loop {
            if *self.closing.borrow() {
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
        let shown = told.iter().map(|told| brief(told, &board, cluster, &self.caller));
        self.ready.extend(shown.filter(|step| !step.happened.is_empty() || !step.ordered.is_empty()));
        Some(true)
    }
}

/// A step in brief, as far as `caller` may see it.
fn brief(told: &Told, board: &Board, cluster: &Cluster, caller: &Caller) -> StepShown {
    let record = &told.record;
    let teller = Teller { board, cluster, caller, unchanged: record.step.unchanged.as_deref() };
    let mut happened: Vec<Happening> = record.events.iter().filter_map(|event| teller.event(event)).collect();
    happened.extend(record.step.ended.iter().filter_map(|(job, outcome)| {
        Some(Happening { detail: Some(word(outcome)), ..teller.job("ended", *job)? })
    }));
    if let Some(panic) = record.step.panic.as_ref().filter(|_| caller.sees_only().is_none()) {
        happened.push(Happening {
            what: "cycle_lost".to_owned(),
            detail: Some(panic.clone()),
            ..Happening::default()
        });
    }
    StepShown {
        id: told.number,
        time: wall_text(told.wall),
        at_s: record.at.as_secs_f64(),
        decided: record.step.decision.is_some(),
        happened,
        ordered: record.step.actions.iter().filter_map(|action| teller.action(action)).collect(),
    }
}

struct Teller<'a> {
    board: &'a Board,
    cluster: &'a Cluster,
    caller: &'a Caller,
    /// Why a change of the policy was not made, if it was not.
    unchanged: Option<&'a str>,
}

impl Teller<'_> {
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

    fn event(&self, event: &Event) -> Option<Happening> {
        let what = match event {
            Event::Arrived { .. } => "submitted",
            Event::Withdrawn { .. } => "withdrawn",
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
                let (what, detail) = match self.unchanged {
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

    fn action(&self, action: &Action) -> Option<Happening> {
        let (what, allocation) = match action {
            Action::Start { allocation, .. } => ("start", Some(allocation)),
            Action::Stop { .. } => ("stop", None),
            Action::Resize { allocation, .. } => ("resize", Some(allocation)),
            Action::Merge { .. } => ("merge", None),
        };
        let nodes = allocation.map(|allocation| allocation.nodes()).unwrap_or_default();
        let nodes = nodes.into_iter().map(|node| self.cluster.node(node).name.to_string()).collect();
        let detail = allocation.map(|allocation| format!("{} workers", allocation.workers()));
        Some(Happening { nodes, detail, ..self.job(what, action.job())? })
    }
}
