//! What goes wrong with a request, as RFC 9457 says it: `application/problem+json` with what failed and what to try.

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use trainyard_live::Refusal;
use utoipa::ToSchema;

/// How a problem is sent.
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

/// A kind of problem. The list is closed, so that programs may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No token, or one that is not known.
    Unauthorized,
    /// The token may not do this, or not with this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path takes other methods.
    MethodNotAllowed,
    /// What it is about is over.
    Over,
    /// The request cannot be read.
    Malformed,
    /// It can be read and makes no sense here.
    Invalid,
    /// The job could never run.
    NeverFits,
    /// The job was not cut short, so it cannot be taken up again.
    NotCutShort,
    /// Larger than a request may be.
    TooLarge,
    /// It took too long.
    Slow,
    /// So many are being answered that no more are taken.
    Busy,
    /// No new work is taken.
    Draining,
    /// The scheduler does not answer, or is leaving.
    Unavailable,
    /// A fault of this program.
    Internal,
}

impl Kind {
    /// Every kind, with its place in a `type`, its status, its title, and what to try.
    pub(crate) const ALL: [(Self, &'static str, u16, &'static str, &'static str); 15] = [
        (Self::Unauthorized, "unauthorized", 401, "No valid token", "send `Authorization: Bearer TOKEN`"),
        (
            Self::Forbidden,
            "forbidden",
            403,
            "Not allowed",
            "ask an operator for a token of the right tenant or role",
        ),
        (Self::NotFound, "not-found", 404, "Not there", "list what there is with a GET one level up"),
        (
            Self::MethodNotAllowed,
            "method-not-allowed",
            405,
            "Method not allowed",
            "see /docs for what this path takes",
        ),
        (Self::Over, "over", 410, "It is over", "stop sending; what runs now has another token"),
        (
            Self::Malformed,
            "malformed",
            400,
            "The request cannot be read",
            "see /docs for the form of the request",
        ),
        (Self::Invalid, "invalid", 422, "The request makes no sense here", "change the value that is named"),
        (
            Self::NeverFits,
            "never-fits",
            422,
            "The job could never run",
            "ask for fewer workers, or less for each",
        ),
        (
            Self::NotCutShort,
            "not-cut-short",
            409,
            "The job was not cut short",
            "submit it again if it is to run once more",
        ),
        (Self::TooLarge, "too-large", 413, "The request is too large", "send less than 1 MiB"),
        (Self::Slow, "slow", 504, "It took too long", "ask again; submit with the same Idempotency-Key"),
        (Self::Busy, "busy", 503, "Too many requests at one time", "ask again in a second"),
        (
            Self::Draining,
            "draining",
            503,
            "No new work is taken",
            "submit elsewhere, or wait until an operator ends it",
        ),
        (
            Self::Unavailable,
            "unavailable",
            503,
            "The scheduler does not answer",
            "ask again; see /readyz for the reason",
        ),
        (Self::Internal, "internal", 500, "A fault of this program", "report it with what was asked"),
    ];

    fn entry(self) -> &'static (Self, &'static str, u16, &'static str, &'static str) {
        Self::ALL.iter().find(|entry| entry.0 == self).expect("every kind is in the table")
    }
}

/// A problem.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// Which kind, as a reference that stays the same.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The kind in words.
    pub(crate) title: String,
    /// The status of the answer.
    pub(crate) status: u16,
    /// What is wrong this time.
    pub(crate) detail: String,
    /// What to try.
    #[serde(rename = "try")]
    pub(crate) remedy: String,
}

impl Problem {
    /// A body that cannot be had.
    pub(crate) fn of_body(rejection: BytesRejection) -> Self {
        let kind = if rejection.status() == 413 { Kind::TooLarge } else { Kind::Malformed };
        Self::new(kind, format!("the body: {}", rejection.body_text()))
    }

    /// A problem of a kind, with what is wrong this time.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let (_, slug, status, title, remedy) = *kind.entry();
        Self {
            kind: format!("urn:trainyard:problem:{slug}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            remedy: remedy.to_owned(),
        }
    }

    /// The same with better advice.
    pub(crate) fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// A request that makes no sense because of one field.
    pub(crate) fn field(field: &str, wrong: impl std::fmt::Display) -> Self {
        Self::new(Kind::Invalid, format!("`{field}`: {wrong}"))
    }

    /// The same answer whether something is there that somebody may not see, or nothing is.
    pub(crate) fn not_yours() -> Self {
        Self::new(Kind::Forbidden, "this token may see no such job")
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::NeverFits { .. } | Refusal::TasksNeverFit { .. } => Kind::NeverFits,
            Refusal::Silent(_) | Refusal::Leaving => Kind::Unavailable,
            Refusal::Policy(_) | Refusal::Work(_) => Kind::Invalid,
            Refusal::NotCutShort { .. } => Kind::NotCutShort,
        };
        let problem = Self::new(kind, refusal.to_string());
        match refusal {
            Refusal::TasksNeverFit { .. } => {
                problem.with_remedy("ask for less for each task, or for fewer tasks")
            }
            Refusal::NeverFits { most: 0, .. } => {
                problem.with_remedy("ask for less for each worker, or for another type of GPU")
            }
            Refusal::NeverFits { most, .. } => {
                problem.with_remedy(format!("ask for at most {most} workers, or for less for each"))
            }
            _ => problem,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
