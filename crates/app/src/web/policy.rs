//! Requests about who decides, and about whether new work is taken.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::digest;

use super::access::Caller;
use super::office::{Office, blocking};
use super::parts::Body;
use super::problem::{Kind, Problem};

/// Who decides.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "name": "slaq", "parameters": {} }))]
pub(crate) struct PolicyShown {
    /// The policy's name.
    pub(crate) name: String,
    /// Its parameters; those not given have their defaults.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub(crate) parameters: toml::Table,
}

/// Whether new work is taken.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Draining {
    /// Whether it is not.
    pub(crate) draining: bool,
}

/// Who decides.
#[utoipa::path(get, path = "/v1/policy", tag = "policy", responses((status = 200, description = "The policy", body = PolicyShown)))]
pub(crate) async fn show(State(office): State<Arc<Office>>, _caller: Caller) -> Json<PolicyShown> {
    Json(shown(&office))
}

fn shown(office: &Office) -> PolicyShown {
    let board = office.board();
    PolicyShown::told(&board.policy, &board.parameters)
}

impl PolicyShown {
    /// A policy as people are told of it: of what was learned, its digest.
    pub(crate) fn told(name: &str, parameters: &toml::Table) -> Self {
        let told = |(key, value): (&String, &toml::Value)| match value {
            toml::Value::String(text) if text.len() > LONGEST => (key.clone(), digest(text).into()),
            _ => (key.clone(), value.clone()),
        };
        Self { name: name.to_owned(), parameters: parameters.iter().map(told).collect() }
    }
}

/// Longer texts are not for people.
const LONGEST: usize = 256;

/// Let another policy decide from now on. For administrators.
#[utoipa::path(put, path = "/v1/policy", tag = "policy", request_body = PolicyShown,
    responses((status = 200, description = "The policy as it is now", body = PolicyShown)))]
pub(crate) async fn choose(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Body(chosen): Body<PolicyShown>,
) -> Result<Json<PolicyShown>, Problem> {
    caller.must_be_admin()?;
    blocking(move || {
        office.handle.choose(&chosen.name, &chosen.parameters)?;
        Ok(Json(shown(&office)))
    })
    .await
}

/// Take no new jobs from now on. Those that are there go on. For administrators.
#[utoipa::path(post, path = "/v1/drain", tag = "policy", responses((status = 200, description = "As it is now", body = Draining)))]
pub(crate) async fn drain(
    State(office): State<Arc<Office>>,
    caller: Caller,
) -> Result<Json<Draining>, Problem> {
    set_draining(&office, &caller, true)
}

/// Take new jobs again. For administrators.
#[utoipa::path(delete, path = "/v1/drain", tag = "policy", responses((status = 200, description = "As it is now", body = Draining)))]
pub(crate) async fn undrain(
    State(office): State<Arc<Office>>,
    caller: Caller,
) -> Result<Json<Draining>, Problem> {
    set_draining(&office, &caller, false)
}

fn set_draining(office: &Office, caller: &Caller, drains: bool) -> Result<Json<Draining>, Problem> {
    caller.must_be_admin()?;
    office.drain(drains);
    Ok(Json(Draining { draining: drains }))
}

/// Nothing is there.
pub(crate) async fn nothing() -> Problem {
    Problem::new(Kind::NotFound, "there is nothing at this path").with_remedy("see /docs for what there is")
}

/// The method is wrong.
pub(crate) async fn no_such_method() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "this path does not take this method")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_is_told_by_its_digest() {
        let table = |text: &str| toml::Table::from_iter([("weights".to_owned(), text.into())]);
        let told = PolicyShown::told("dl2", &table(&"x".repeat(100_000)));
        assert_eq!(told.parameters["weights"].as_str().map(str::len), Some(12));
        assert_ne!(told.parameters, PolicyShown::told("dl2", &table(&"y".repeat(100_000))).parameters);
        assert_eq!(PolicyShown::told("dl2", &table("short")).parameters, table("short"));
    }
}
