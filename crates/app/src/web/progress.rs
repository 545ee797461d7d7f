//! What training programs send of their progress, where they share no file with us. They have tokens of their own, one for each
//! start of a job, which are good for nothing else; see `docs/job-contract.md`.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::Serialize;
use trainyard_live::mailbox::{self, Undelivered};
use trainyard_live::report::BodyError;
use utoipa::ToSchema;

use super::access::bearer;
use super::office::{Office, blocking};
use super::problem::{Kind, Problem};

/// What was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Taken {
    /// How many reports.
    reports: usize,
}

/// One report of progress, as far as it is known. Other names are passed over; the contract of jobs has further names for
/// these.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes what is sent; `live::report` reads it")]
pub(crate) struct ProgressReport {
    /// Iterations that are done, over all attempts; from 0 to 2^53.
    iteration: Option<f64>,
    /// The loss after them; `null` if it is no number.
    loss: Option<f64>,
    /// The accuracy after them.
    accuracy: Option<f64>,
    /// Iterations that are safe on disk.
    saved: Option<f64>,
}

/// Report progress: one report, or a list of them. For the program of a job, with the token in its `TRAINYARD_TOKEN`.
#[utoipa::path(post, path = "/v1/progress", tag = "progress", request_body = ProgressReport,
    responses((status = 200, description = "All of them were taken", body = Taken)))]
pub(crate) async fn report(
    State(office): State<Arc<Office>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Taken>, Problem> {
    let token = bearer(&headers)?.to_owned();
    let body = body.map_err(Problem::of_body)?;
    blocking(move || {
        let reports = mailbox::deliver(&office.jobs(), &token, &body).map_err(problem)?;
        Ok(Json(Taken { reports }))
    })
    .await
}

fn problem(why: Undelivered) -> Problem {
    let kind = match &why {
        Undelivered::Stranger => Kind::Unauthorized,
        Undelivered::Over(..) => Kind::Over,
        Undelivered::Body(BodyError::Long { .. }) => Kind::TooLarge,
        Undelivered::Body(BodyError::NotJson) => Kind::Malformed,
        Undelivered::Body(BodyError::NotAnObject { .. } | BodyError::Value { .. }) => Kind::Invalid,
        Undelivered::Disk(_) => Kind::Unavailable,
    };
    Problem::new(kind, why.to_string())
}
