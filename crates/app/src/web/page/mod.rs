//! The live page: jobs, nodes, losses and decisions as they are. It is a few files in this program, and holds no data; its
//! script asks the API with the token of whoever looks, like any other client.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::office::Office;

/// Where the files are, what they are, and their text.
const FILES: [(&str, &str, &str); 10] = [
    ("/", HTML, include_str!("page.html")),
    ("/page/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page/mark.svg", "image/svg+xml", include_str!("mark.svg")),
    ("/page/page.js", SCRIPT, include_str!("page.js")),
    ("/page/client.js", SCRIPT, include_str!("client.js")),
    ("/page/make.js", SCRIPT, include_str!("make.js")),
    ("/page/lists.js", SCRIPT, include_str!("lists.js")),
    ("/page/job.js", SCRIPT, include_str!("job.js")),
    ("/page/ticks.js", SCRIPT, include_str!("ticks.js")),
    ("/page/log.js", SCRIPT, include_str!("log.js")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What browsers hold the page to: nothing but its own files and its own daemon, no markup made of text, and in nobody's
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The page and its files. They need no token.
pub(crate) fn routes() -> Router<Arc<Office>> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(async move || file(kind, text)))
    })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of the program has other files.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_name_nothing_outside_and_make_no_markup_of_text() {
        for (path, kind, text) in FILES {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "url(", "@import", "XMLHttp", "EventSource"] {
                assert!(!text.contains(outside), "{path}: {outside}");
            }
            for unsafe_way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!text.contains(unsafe_way), "{path}: {unsafe_way}");
            }
            // Inline scripts and styles would be refused.
            assert!(kind != HTML || !(text.contains("style=") || text.contains("<style")), "{path}");
            assert!(text.lines().count() <= 500, "{path} is too long");
        }
    }

    #[test]
    fn every_file_that_is_asked_for_is_there() {
        let has = |path: &str| FILES.iter().any(|(own, _, _)| *own == path);
        let mut asked = 0;
        for (path, _, text) in FILES {
            for name in text.split("\"./").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(has(&format!("/page/{name}")), "{path} asks for {name}");
                asked += 1;
            }
            for name in text.split("\"page/").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(has(&format!("/page/{name}")), "{path} asks for {name}");
                asked += 1;
            }
        }
        assert!(asked >= FILES.len() - 1, "all are asked for by something");
    }
}
