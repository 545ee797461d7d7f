//! Requests about nodes.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use trainyard_sched::model::{NodeId, NodeState};
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::office::{Office, blocking};
use super::parts::{Body, Query};
use super::problem::{Kind, Problem};
use super::shown::NodeShown;
use super::strict;

/// All nodes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeList {
    /// The nodes, by number.
    pub(crate) nodes: Vec<NodeShown>,
    /// Give this as `after` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) next: Option<u32>,
}

/// Which nodes are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhichNodes {
    /// Only those after this number; `next` of the page before.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64)]
    after: Option<u32>,
    /// At most so many; by default all.
    limit: Option<usize>,
}

/// What a node shall be.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeChange {
    /// `up`, `draining` (keeps what runs there and takes nothing new) or `down` (loses what runs there).
    pub(crate) state: NodeWord,
}

/// The state of a node as operators write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeWord {
    /// Takes work.
    Up,
    /// Keeps what runs there and takes nothing new.
    Draining,
    /// Gone; whatever ran there is lost.
    Down,
}

impl From<NodeWord> for NodeState {
    fn from(word: NodeWord) -> Self {
        match word {
            NodeWord::Up => Self::Up,
            NodeWord::Draining => Self::Draining,
            NodeWord::Down => Self::Down,
        }
    }
}

/// List the nodes, by number, with what those jobs hold there that the token may see.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", params(WhichNodes),
    responses((status = 200, description = "Nodes", body = NodeList)))]
pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Query(which): Query<WhichNodes>,
) -> Result<Json<NodeList>, Problem> {
    if which.limit == Some(0) {
        return Err(Problem::field("limit", "write a number from 1"));
    }
    let board = office.board();
    let from = which.after.map_or(0, |after| after as usize + 1);
    let mut found = board.nodes.iter().enumerate().skip(from);
    let nodes: Vec<NodeShown> = found
        .by_ref()
        .take(which.limit.unwrap_or(usize::MAX))
        .map(|(id, node)| NodeShown::of(id, node, &board, &caller))
        .collect();
    let next = found.next().and_then(|_| nodes.last().map(|node| node.id));
    Ok(Json(NodeList { nodes, next }))
}

/// Let a node take work, drain it, or take it away. For administrators.
#[utoipa::path(post, path = "/v1/nodes/{name}", tag = "nodes", params(("name" = String, Path, description = "The node")),
    request_body = NodeChange, responses((status = 200, description = "The node as it is now", body = NodeShown)))]
pub(crate) async fn change(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<NodeChange>,
) -> Result<Json<NodeShown>, Problem> {
    caller.must_be_admin()?;
    let nodes = &office.handle.cluster().nodes;
    let Some(index) = nodes.iter().position(|node| *node.name == *name) else {
        let meant = strict::meant(&name, nodes.iter().map(|node| &*node.name));
        return Err(Problem::new(Kind::NotFound, format!("there is no node `{name}`{meant}")));
    };
    blocking(move || {
        office.handle.set_node(NodeId(index as u32), change.state.into())?;
        office.handle.look(|_, _| ())?;
        let board = office.board();
        Ok(Json(NodeShown::of(index, &board.nodes[index], &board, &caller)))
    })
    .await
}
