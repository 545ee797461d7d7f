//! All paths, and what each request passes on its way. The document of the API is made from the same list.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::document::{self, Document};
use super::office::Office;
use super::problem::{Kind, Problem};
use super::{events, health, jobs, logs, losses, nodes, page, policy, progress, reference, summary, tokens};

/// The largest body.
const LARGEST: usize = 1 << 20;
/// The longest that a request may take. The daemon itself answers within less, or says that it does not.
const LONGEST: Duration = Duration::from_secs(30);

/// The whole service.
pub(crate) fn service(office: Arc<Office>) -> Router {
    let (router, document) = paths();
    let (streams, _) = streams().split_for_parts();
    let reference = reference::routes(document);
    router
        .layer(from_fn_with_state(Arc::clone(&office), with_limits))
        .merge(streams)
        .merge(reference)
        .merge(page::routes())
        .fallback(policy::nothing)
        .method_not_allowed_fallback(policy::no_such_method)
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(office)
}

/// The document of the API.
pub(crate) fn document() -> utoipa::openapi::OpenApi {
    paths().1
}

/// All paths but the reference itself.
fn paths() -> (Router<Arc<Office>>, utoipa::openapi::OpenApi) {
    let answers = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(jobs::submit, jobs::list))
        .routes(routes!(jobs::look, jobs::cancel))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::why))
        .routes(routes!(losses::curve))
        .routes(routes!(summary::show))
        .routes(routes!(events::latest))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::change))
        .routes(routes!(policy::show, policy::choose))
        .routes(routes!(policy::drain, policy::undrain))
        .routes(routes!(tokens::add, tokens::list))
        .routes(routes!(tokens::remove))
        .routes(routes!(progress::report))
        .routes(routes!(health::lives))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics));
    let (router, mut document) = answers.split_for_parts();
    document.merge(streams().split_for_parts().1);
    (router, document::finish(document))
}

/// Those that go on for as long as somebody listens.
fn streams() -> OpenApiRouter<Arc<Office>> {
    OpenApiRouter::new().routes(routes!(events::follow)).routes(routes!(logs::logs))
}

/// Takes only so many requests at one time, and ends those that take too long.
async fn with_limits(State(office): State<Arc<Office>>, request: Request, next: Next) -> Response {
    use axum::response::IntoResponse as _;
    let Ok(_place) = office.room.try_acquire() else {
        return Problem::new(Kind::Busy, "as many requests as can be are being answered").into_response();
    };
    match tokio::time::timeout(LONGEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            Problem::new(Kind::Slow, format!("no answer within {} s", LONGEST.as_secs())).into_response()
        }
    }
}
