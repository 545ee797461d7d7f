//! Whether the program lives, whether it can do its work, and its numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use trainyard_live::board::{Board, Standing};
use trainyard_sched::decide::Enough;
use utoipa::ToSchema;

use super::access::Caller;
use super::office::{Office, blocking};
use super::problem::{Kind, Problem};

/// That all is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Well {
    /// Always `ok`.
    status: &'static str,
}

/// Whether the program lives. Needs no token.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "It does", body = Well)))]
pub(crate) async fn lives() -> Json<Well> {
    Json(Well { status: "ok" })
}

/// Whether it can do its work: the journal can be written, and the loop answers. Needs no token.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, description = "It can", body = Well)))]
pub(crate) async fn ready(State(office): State<Arc<Office>>) -> Result<Json<Well>, Problem> {
    let stalled = office.board().stalled.clone();
    if let Some(why) = stalled {
        return Err(Problem::new(Kind::Unavailable, format!("the journal cannot be written: {why}"))
            .with_remedy("make room on the disk of the daemon's folder; it goes on by itself"));
    }
    blocking(move || {
        office.handle.look(|_, _| ())?;
        Ok(Json(Well { status: "ok" }))
    })
    .await
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabel {
    rule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

/// The numbers, as Prometheus reads them. For administrators and viewers of everything.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text", body = String)))]
pub(crate) async fn metrics(State(office): State<Arc<Office>>, caller: Caller) -> Result<Response, Problem> {
    if caller.sees_only().is_some() {
        return Err(Problem::new(Kind::Forbidden, "the numbers are of all tenants"));
    }
    let mut text = String::new();
    let registry = registry(&office.board(), &office);
    encode(&mut text, &registry).map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn registry(board: &Board, office: &Office) -> Registry {
    let mut all = Registry::with_prefix("trainyard");
    let counters = [
        ("decisions", "Decisions since the daemon came to life", board.decisions),
        ("starts", "Attempts that were started", board.starts),
        ("lost_cycles", "Cycles lost to a policy that panicked or took too long", board.lost_cycles),
        ("faults", "Parts of decisions that were refused", board.faults),
    ];
    for (name, help, value) in counters {
        all.register(name, help, ConstCounter::new(value));
    }
    let cut_short = Family::<RuleLabel, Counter>::default();
    for rule in Enough::KINDS {
        let count = board.cut_short.get(rule).copied().unwrap_or(0);
        cut_short.get_or_create(&RuleLabel { rule: rule.to_owned() }).inc_by(count);
    }
    all.register(
        "cut_short",
        "Jobs that were cut short since the daemon came to life, by the kind of rule",
        cut_short,
    );
    let saved: ConstCounter<f64> = ConstCounter::new(board.saved_gpu_s);
    all.register(
        "saved_gpu_seconds",
        "GPU-seconds that cutting jobs short spared, as far as could be foretold",
        saved,
    );
    all.register("cycle_seconds", "From a step's messages until it was on disk", office.history.took.clone());
    let pending = Family::<ReasonLabel, Gauge>::default();
    for (reason, count) in pending_by_reason(board) {
        pending.get_or_create(&ReasonLabel { reason: reason.to_owned() }).set(count);
    }
    all.register("pending", "Jobs that hold nothing, by the policy's reason", pending);
    let jobs = Family::<StateLabel, Gauge>::default();
    for (state, count) in by_state(board) {
        jobs.get_or_create(&StateLabel { state }).set(count);
    }
    all.register("jobs", "Jobs by what they are doing", jobs);
    let sum = |of: fn(&trainyard_live::board::NodeCard) -> f64| board.nodes.iter().map(of).sum::<f64>();
    let gauges = [
        ("gpus", "GPUs of all nodes", sum(|node| node.gpus)),
        ("gpus_used", "GPUs in use", sum(|node| node.gpus_used)),
        ("cpus", "CPU cores of nodes where they are tracked", sum(|node| node.cpus.unwrap_or(0.0))),
        ("cpus_used", "CPU cores in use", sum(|node| node.cpus_used)),
        (
            "journal_stalled",
            "1 while the journal cannot be written",
            f64::from(u8::from(board.stalled.is_some())),
        ),
        ("draining", "1 while no new jobs are taken", f64::from(u8::from(office.is_draining()))),
    ];
    for (name, help, value) in gauges {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        all.register(name, help, gauge);
    }
    all
}

/// How many jobs wait for which reason. Their sum is the number of jobs that wait.
fn pending_by_reason(board: &Board) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    for card in board.jobs.values().filter(|card| card.state == Standing::Waiting) {
        let reason = card.verdict.as_ref().map_or("not_yet_evaluated", |verdict| verdict.reason().kind());
        *counts.entry(reason).or_insert(0) += 1;
    }
    counts
}

fn by_state(board: &Board) -> BTreeMap<String, i64> {
    let all = [Standing::Waiting, Standing::Starting, Standing::Running, Standing::Stopping, Standing::Ended];
    let mut counts: BTreeMap<String, i64> = all.iter().map(|state| (super::shown::word(state), 0)).collect();
    for card in board.jobs.values() {
        *counts.entry(super::shown::word(&card.state)).or_insert(0) += 1;
    }
    counts
}
