//! Requests about jobs.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use trainyard_live::Refusal;
use trainyard_live::board::{Card, Standing};
use trainyard_sched::model::{JobId, TenantId};
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::asking::ask_why;
use super::job_request::{JobRequest, Terms};
use super::office::{Office, blocking};
use super::parts::{Body, Query};
use super::problem::{Kind, Problem};
use super::shown::{JobShown, Seen, now};
use super::strict;
use crate::render::why_text;

/// So many jobs are listed at one time, at the most.
const MOST_LISTED: usize = 1000;
/// So many are listed when nobody says.
const LISTED: usize = 100;
/// The longest name of a request.
const LONGEST_KEY: usize = 200;

/// What became of a submission.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Submitted {
    /// Whether it is new; it is not if the same request came before.
    pub(crate) new: bool,
    /// The job.
    pub(crate) job: JobShown,
}

/// Which jobs are listed.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<StateFilter>,
    /// Only those of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// Only those of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Only those after this number; `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64)]
    pub(crate) after: Option<u32>,
    /// At most so many: 100 by default, 1000 at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// In which order; `after` goes on in the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<Order>,
    /// With so many points of each job's loss curve, 240 at the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) points: Option<usize>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// By number, as they were submitted.
    Oldest,
    /// The other way round.
    Newest,
}

/// What a job is doing; `active` is everything but `ended`, and `holding` what has devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateFilter {
    /// Holds nothing.
    Waiting,
    /// Is being started.
    Starting,
    /// Runs.
    Running,
    /// Has been told to stop.
    Stopping,
    /// Is over.
    Ended,
    /// Is not over.
    Active,
    /// Is being started, runs, or has been told to stop.
    Holding,
}

/// Some jobs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobPage {
    /// The jobs, by number.
    pub(crate) jobs: Vec<JobShown>,
    /// Give this as `after` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) next: Option<u32>,
}

impl StateFilter {
    fn takes(self, state: Standing) -> bool {
        match self {
            Self::Waiting => state == Standing::Waiting,
            Self::Starting => state == Standing::Starting,
            Self::Running => state == Standing::Running,
            Self::Stopping => state == Standing::Stopping,
            Self::Ended => state == Standing::Ended,
            Self::Active => state != Standing::Ended,
            Self::Holding => !matches!(state, Standing::Waiting | Standing::Ended),
        }
    }
}

/// Submit a job.
///
/// When the answer comes the job is on disk. The same request with the same `Idempotency-Key` is the same job.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", request_body = JobRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "What the client calls this request")),
    responses((status = 201, description = "A new job", body = Submitted),
        (status = 200, description = "The same request came before", body = Submitted)))]
pub(crate) async fn submit(
    State(office): State<Arc<Office>>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<JobRequest>,
) -> Result<Response, Problem> {
    caller.must_write()?;
    let key = key_of(&headers)?;
    blocking(move || {
        let (tenant, tenant_name) = tenant_of(&office, &caller, request.tenant.as_deref())?;
        if office.is_draining() {
            return Err(Problem::new(Kind::Draining, "an operator has stopped the taking of new jobs"));
        }
        let now = office.handle.look(|_, at| at)?;
        let terms = Terms { cluster: office.handle.cluster(), tenant, tenant_name, now, key };
        let (job, new) = office.handle.submit(request.submission(&terms)?)?;
        let job = shown(&office, &caller, job)?;
        let status = if new { StatusCode::CREATED } else { StatusCode::OK };
        let place = [(header::LOCATION, format!("/v1/jobs/{}", job.id))];
        Ok((status, place, Json(Submitted { new, job })).into_response())
    })
    .await
}

fn key_of(headers: &HeaderMap) -> Result<Option<Arc<str>>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|text| (1..=LONGEST_KEY).contains(&text.len()));
    let wrong = || {
        Problem::new(Kind::Malformed, format!("`Idempotency-Key` has 1 to {LONGEST_KEY} ASCII characters"))
    };
    Ok(Some(text.ok_or_else(wrong)?.into()))
}

/// Whose a new job is: the one who asks, or whom an administrator names.
fn tenant_of(office: &Office, caller: &Caller, named: Option<&str>) -> Result<(TenantId, Arc<str>), Problem> {
    let tenants = office.handle.tenants();
    let own = caller.sees_only();
    let found = match (named, own) {
        (None, Some(own)) => Some(own),
        (None, None) if tenants.len() == 1 => tenants.iter().next().map(|(id, _)| id),
        (None, None) => {
            let names: Vec<&str> = tenants.iter().map(|(_, tenant)| &*tenant.name).collect();
            return Err(Problem::field(
                "tenant",
                format!("say whose job it is; there are {}", names.join(", ")),
            ));
        }
        (Some(name), _) => tenants.find(name),
    };
    match (found, own) {
        (Some(id), own) if own.is_none_or(|own| own == id) => {
            let name = tenants.get(id).map(|tenant| Arc::clone(&tenant.name)).unwrap_or_default();
            Ok((id, name))
        }
        (_, Some(_)) => Err(Problem::new(Kind::Forbidden, "this token submits for its own tenant only")
            .with_remedy("leave `tenant` out")),
        (_, None) => {
            let name = named.unwrap_or_default();
            let meant = strict::meant(name, tenants.iter().map(|(_, tenant)| &*tenant.name));
            Err(Problem::field("tenant", format!("there is no tenant `{name}`{meant}")))
        }
    }
}

fn shown(office: &Office, caller: &Caller, job: JobId) -> Result<JobShown, Problem> {
    let board = office.board();
    let card =
        board.jobs.get(&job).ok_or_else(|| Problem::new(Kind::Internal, "the job is not on the board"))?;
    let names = Seen { office, board: &board, caller };
    Ok(JobShown::of(card, &board, &names, now(&board)).in_full(card, &board))
}

/// List jobs, by number or the latest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(Which),
    responses((status = 200, description = "Some jobs", body = JobPage)))]
pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<JobPage>, Problem> {
    let limit = which.limit.unwrap_or(LISTED);
    if !(1..=MOST_LISTED).contains(&limit) {
        return Err(Problem::field("limit", format!("write a number from 1 to {MOST_LISTED}")));
    }
    let points = which.points.map(super::losses::checked).transpose()?;
    let board = office.board();
    let (names, now) = (Seen { office: &office, board: &board, caller: &caller }, now(&board));
    let tenant = which.tenant.as_deref().map(|name| office.handle.tenants().find(name));
    let is_it = |card: &&Card| {
        caller.sees(card.tenant)
            && which.state.is_none_or(|state| state.takes(card.state))
            && tenant.is_none_or(|tenant| tenant == Some(card.tenant))
            && which.name.as_deref().is_none_or(|name| *card.name == *name)
    };
    let (first, last) = match which.order.unwrap_or(Order::Oldest) {
        Order::Oldest => (which.after.map_or(0, |after| after.saturating_add(1)), u32::MAX),
        Order::Newest => (0, which.after.unwrap_or(u32::MAX)),
    };
    let range = board.jobs.range(JobId(first)..JobId(last)).map(|(_, card)| card);
    let (jobs, more) = match which.order.unwrap_or(Order::Oldest) {
        Order::Oldest => some(range.filter(is_it), limit),
        Order::Newest => some(range.rev().filter(is_it), limit),
    };
    let jobs: Vec<JobShown> = jobs
        .into_iter()
        .map(|card| {
            let shown = JobShown::of(card, &board, &names, now);
            match points {
                Some(most) => shown.with_losses(card, most),
                None => shown,
            }
        })
        .collect();
    let next = jobs.last().filter(|_| more).map(|job| job.id);
    Ok(Json(JobPage { jobs, next }))
}

/// So many of them, and whether there are more.
fn some<'a>(mut all: impl Iterator<Item = &'a Card>, limit: usize) -> (Vec<&'a Card>, bool) {
    let first = all.by_ref().take(limit).collect();
    (first, all.next().is_some())
}

/// Look at a job, by number or name.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, description = "The job", body = JobShown)))]
pub(crate) async fn look(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<JobShown>, Problem> {
    let card = office.find(&caller, &job)?;
    Ok(Json(shown(&office, &caller, card.job)?))
}

/// Take a job back. It is told to stop if it runs; one that is over stays as it is.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, description = "The job as it is now", body = JobShown)))]
pub(crate) async fn cancel(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<JobShown>, Problem> {
    let withdraw = |office: &Office, card: &Card| match card.state {
        Standing::Ended => Ok(()),
        _ => office.handle.withdraw(card.job),
    };
    changed(office, caller, job, withdraw).await
}

/// Take a job up again that its stop rule has cut short. It goes on from what it saved, to its own end.
#[utoipa::path(post, path = "/v1/jobs/{job}/resume", tag = "jobs", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, description = "The job as it is now", body = JobShown)))]
pub(crate) async fn resume(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<JobShown>, Problem> {
    changed(office, caller, job, |office, card| office.handle.resume(card.job)).await
}

/// Changes a job, if the one who asks may, and shows it as it is then.
async fn changed(
    office: Arc<Office>,
    caller: Caller,
    job: String,
    change: impl FnOnce(&Office, &Card) -> Result<(), Refusal> + Send + 'static,
) -> Result<Json<JobShown>, Problem> {
    caller.must_write()?;
    let card = office.find(&caller, &job)?;
    blocking(move || {
        change(&office, &card)?;
        // The board is renewed after the answer; one more look waits for that.
        office.handle.look(|_, _| ())?;
        Ok(Json(shown(&office, &caller, card.job)?))
    })
    .await
}

/// Say why a job waits, who is ahead, and when it will start.
///
/// The answer is that of `trainyard why` (docs/why.md); as text if that is what is accepted.
#[utoipa::path(get, path = "/v1/jobs/{job}/why", tag = "jobs", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, description = "The answer, of the form trainyard.why/1", body = Object)))]
pub(crate) async fn why(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let card = office.find(&caller, &job)?;
    let as_text = headers
        .get(header::ACCEPT)
        .and_then(|accepted| accepted.to_str().ok())
        .is_some_and(|accepted| accepted.starts_with("text/plain"));
    blocking(move || {
        let answer = ask_why(&office, &caller, &card)?;
        Ok(if as_text { why_text(&answer).into_response() } else { Json(answer).into_response() })
    })
    .await
}
