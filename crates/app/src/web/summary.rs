//! The cluster at a glance: who decides, how many jobs are in which state, how much is in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use trainyard_live::board::{Board, NodeCard, Standing};
use trainyard_live::clock::Wall;
use utoipa::ToSchema;

use super::access::{Caller, Role};
use super::office::Office;
use super::policy::PolicyShown;
use super::shown::{state_word, wall_text, word};

/// The cluster at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Summary {
    /// The version of the program.
    version: &'static str,
    /// The machines, in words.
    cluster: String,
    /// Who decides.
    policy: PolicyShown,
    /// What the one who asks may do.
    role: Role,
    /// Whose jobs it may see; all if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// What time it is, by RFC 3339.
    now: String,
    /// The number of the latest step in the journal.
    latest_step: u64,
    /// Decisions since the daemon came to life.
    decisions: u64,
    /// How many of the jobs that it may see are in which state.
    jobs: BTreeMap<String, u64>,
    /// How many nodes are in which state.
    nodes: BTreeMap<String, u64>,
    /// GPUs of all nodes.
    gpus: f64,
    /// Those in use.
    gpus_used: f64,
    /// CPU cores of nodes where they are tracked.
    cpus: f64,
    /// Those in use.
    cpus_used: f64,
    /// Whether no new jobs are taken.
    draining: bool,
    /// Why the journal cannot be written, while it cannot. Nothing is decided then.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
}

/// Look at the cluster at a glance.
#[utoipa::path(get, path = "/v1/summary", tag = "health",
    responses((status = 200, description = "How it stands, with the jobs that the token may see", body = Summary)))]
pub(crate) async fn show(State(office): State<Arc<Office>>, caller: Caller) -> Json<Summary> {
    let latest_step = *office.history.latest().borrow();
    let board = office.board();
    let tenant = caller.sees_only().and_then(|tenant| board.tenants.get(tenant.index()));
    let sum = |of: fn(&NodeCard) -> f64| board.nodes.iter().map(of).sum::<f64>();
    let mut nodes = BTreeMap::new();
    for node in &board.nodes {
        *nodes.entry(state_word(node.state).to_owned()).or_insert(0) += 1;
    }
    Json(Summary {
        version: env!("CARGO_PKG_VERSION"),
        cluster: office.handle.cluster().to_string(),
        policy: PolicyShown::told(&board.policy, &board.parameters),
        role: caller.role(),
        tenant: tenant.map(ToString::to_string),
        now: wall_text(Wall::now()),
        latest_step,
        decisions: board.decisions,
        jobs: by_state(&board, &caller),
        nodes,
        gpus: sum(|node| node.gpus),
        gpus_used: sum(|node| node.gpus_used),
        cpus: sum(|node| node.cpus.unwrap_or(0.0)),
        cpus_used: sum(|node| node.cpus_used),
        draining: office.is_draining(),
        stalled: board.stalled.clone(),
    })
}

/// How many jobs that somebody may see are in which state; every state is there.
fn by_state(board: &Board, caller: &Caller) -> BTreeMap<String, u64> {
    let all = [Standing::Waiting, Standing::Starting, Standing::Running, Standing::Stopping, Standing::Ended];
    let mut counts = all.map(|state| (state, 0));
    for card in board.jobs.values().filter(|card| caller.sees(card.tenant)) {
        if let Some((_, count)) = counts.iter_mut().find(|(state, _)| *state == card.state) {
            *count += 1;
        }
    }
    counts.iter().map(|(state, count)| (word(state), *count)).collect()
}
