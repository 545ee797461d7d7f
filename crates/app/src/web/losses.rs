//! The loss curve of a job.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use trainyard_live::curve::MOST_POINTS;
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::office::Office;
use super::parts::Query;
use super::problem::Problem;
use super::shown::word;

/// How much of a curve is wanted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HowMany {
    /// At most so many points: 240 by default and at the most.
    points: Option<usize>,
}

/// A loss curve.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LossCurve {
    /// The job.
    job: u32,
    /// Which way what it reports gets better: `lower` or `higher`.
    better: String,
    /// The points, each an iteration and a loss, by ascending iteration. Of many reports some are left out; the latest is
    /// there.
    points: Vec<[f64; 2]>,
}

/// Look at a job's loss curve.
///
/// What came after a checkpoint that the job went back to is told anew. After a restart of the daemon the curve of a job
/// that goes on has the reports that policies go by.
#[utoipa::path(get, path = "/v1/jobs/{job}/losses", tag = "jobs",
    params(("job" = String, Path, description = "Number or name"), HowMany),
    responses((status = 200, description = "The curve", body = LossCurve),
        (status = 403, description = "Not there, or not yours", body = Problem)))]
pub(crate) async fn curve(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
    Query(how_many): Query<HowMany>,
) -> Result<Json<LossCurve>, Problem> {
    let most = checked(how_many.points.unwrap_or(MOST_POINTS))?;
    let card = office.find(&caller, &job)?;
    let points = card.curve.thinned(most).into_iter().map(|(iteration, loss)| [iteration, loss]);
    let better = word(&card.asked.declared.loss.better);
    Ok(Json(LossCurve { job: card.job.0, better, points: points.collect() }))
}

/// A number of points that can be asked for.
pub(super) fn checked(points: usize) -> Result<usize, Problem> {
    if (1..=MOST_POINTS).contains(&points) {
        return Ok(points);
    }
    Err(Problem::field("points", format!("write a number from 1 to {MOST_POINTS}")))
}
