//! Requests about tokens. All are for administrators.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{Caller, KeptToken, Role};
use super::office::{Office, blocking};
use super::parts::Body;
use super::problem::{Kind, Problem};
use super::strict;

/// A token that somebody wants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRequest {
    /// What it is for.
    pub(crate) role: Role,
    /// Whose it is; a user's must be somebody's.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
}

/// A token that was made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NewToken {
    /// What is kept of it.
    #[serde(flatten)]
    pub(crate) kept: KeptToken,
    /// The token. It is shown this once.
    pub(crate) token: String,
}

/// All tokens but the first administrator's.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TokenList {
    /// The tokens, without what they are.
    pub(crate) tokens: Vec<KeptToken>,
}

/// Make a token. It is shown once.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", request_body = TokenRequest,
    responses((status = 201, description = "The token", body = NewToken)))]
pub(crate) async fn add(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Body(request): Body<TokenRequest>,
) -> Result<(StatusCode, Json<NewToken>), Problem> {
    caller.must_be_admin()?;
    let tenants = office.handle.tenants();
    match &request.tenant {
        Some(name) if tenants.find(name).is_none() => {
            let meant = strict::meant(name, tenants.iter().map(|(_, tenant)| &*tenant.name));
            return Err(Problem::field("tenant", format!("there is no tenant `{name}`{meant}")));
        }
        Some(_) if request.role == Role::Admin => {
            return Err(Problem::field("tenant", "an administrator is of no tenant; leave it out"));
        }
        None if request.role == Role::User => return Err(Problem::field("tenant", "say whose token it is")),
        _ => {}
    }
    blocking(move || {
        let made = office.access.add(request.role, request.tenant);
        let (kept, token) =
            made.map_err(|error| Problem::new(Kind::Internal, format!("cannot keep the token: {error}")))?;
        let kept = KeptToken { sha256: String::new(), ..kept };
        Ok((StatusCode::CREATED, Json(NewToken { kept, token })))
    })
    .await
}

/// List the tokens, without what they are.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", responses((status = 200, description = "The tokens", body = TokenList)))]
pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    caller: Caller,
) -> Result<Json<TokenList>, Problem> {
    caller.must_be_admin()?;
    Ok(Json(TokenList { tokens: office.access.all() }))
}

/// Take a token back. It is of no use from now on.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path, description = "The token's id")),
    responses((status = 204, description = "It is gone")))]
pub(crate) async fn remove(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.must_be_admin()?;
    blocking(move || match office.access.remove(&id) {
        Ok(true) => Ok(StatusCode::NO_CONTENT),
        Ok(false) => Err(Problem::new(Kind::NotFound, format!("there is no token `{id}`"))),
        Err(error) => Err(Problem::new(Kind::Internal, format!("cannot keep the tokens: {error}"))),
    })
    .await
}
