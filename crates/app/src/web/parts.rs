//! Parts of requests, read strictly: mistakes become problems that name the field.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};
use super::strict;

/// The body, as JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await.map_err(Problem::of_body)?;
        strict::from_json(&bytes).map(Self)
    }
}

/// What stands after the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|axum::extract::Query(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let message = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            // What stands before a colon is the key whose value is wrong.
            let (key, wrong) = message.split_once(": ").unwrap_or(("?", message));
            let detail = match wrong.starts_with("unknown field") {
                true => strict::explain("?", wrong),
                false => strict::explain(key, wrong),
            };
            Problem::new(Kind::Invalid, detail)
        })
    }
}
