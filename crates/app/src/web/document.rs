//! The document of the API. Each request describes itself; what holds for all of them is added here: who may ask, and how it
//! is told what went wrong.

use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as ApiDocument, Ref};

use super::jobs::{Order, StateFilter};
use super::problem::{CONTENT_TYPE, Problem};

/// The head of the document; the paths are added where they are routed.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Trainyard",
        description = "Submits jobs to a cluster and says why they wait. All but /healthz and /readyz need `Authorization: \
                       Bearer TOKEN`. What goes wrong is told as `application/problem+json` (RFC 9457)."
    ),
    components(schemas(Problem, StateFilter, Order))
)]
pub(crate) struct Document;

/// The token of a person or a program that asks.
const TOKEN: &str = "token";
/// The token of an attempt of a job.
const JOB_TOKEN: &str = "job_token";
/// What anybody may ask.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];
/// What is asked with the token of a job.
const OF_JOBS: [&str; 1] = ["/v1/progress"];

/// Adds what holds for all requests.
pub(crate) fn finish(mut document: ApiDocument) -> ApiDocument {
    let bearer = |what: &str| {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(what));
        SecurityScheme::Http(scheme.build())
    };
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(
        TOKEN,
        bearer("A token of a tenant or an operator; the first is in the daemon's folder."),
    );
    components.add_security_scheme(JOB_TOKEN, bearer("What a program of a job finds in `TRAINYARD_TOKEN`."));
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            let responses = &mut operation.responses.responses;
            for (status, what) in
                [("4XX", "What is wrong with the request"), ("5XX", "Why it cannot be done now")]
            {
                responses.insert(status.to_owned(), problem(what).into());
            }
            let path = path.as_str();
            let scheme = if OF_JOBS.contains(&path) { JOB_TOKEN } else { TOKEN };
            let needed = SecurityRequirement::new(scheme, [""; 0]);
            operation.security = (!OPEN.contains(&path)).then(|| vec![needed]);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

fn problem(what: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(what).content(CONTENT_TYPE, content).build()
}
