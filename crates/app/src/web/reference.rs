//! The document of the API as it is fetched, and a page made from it that needs nothing from anywhere else.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use utoipa::openapi::OpenApi as ApiDocument;

use super::office::Office;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color:#1a1a1a;background:#fff}code,pre{font:.9em ui-monospace,monospace}h2{margin-top:2.5rem}\
    section{border-top:1px solid #bbb;padding:.5rem 0}table{border-collapse:collapse;width:100%}\
    td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #ddd}\
    b.m{display:inline-block;min-width:4.5rem}@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181b}\
    section{border-color:#555}td,th{border-color:#333}a{color:#8ab4f8}}";

/// `/openapi.json` and `/docs`.
pub(crate) fn routes(document: ApiDocument) -> Router<Arc<Office>> {
    let json = serde_json::to_value(&document).unwrap_or_default();
    let page: Arc<str> = page(&json).into_string().into();
    let text: Arc<str> = serde_json::to_string_pretty(&json).unwrap_or_default().into();
    Router::new()
        .route(
            "/openapi.json",
            get(async move || {
                ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
            }),
        )
        .route(
            "/docs",
            get(async move || {
                ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.to_string()).into_response()
            }),
        )
}

fn page(document: &Value) -> Markup {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let empty = serde_json::Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty);
    let schemas = document["components"]["schemas"].as_object().unwrap_or(&empty);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Trainyard API" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Trainyard API" }
                p { (text(&document["info"]["description"])) " " a href="/openapi.json" { "openapi.json" } }
                h2 { "Requests" }
                @for (path, methods) in paths {
                    @for (method, operation) in methods.as_object().unwrap_or(&empty) { (request(path, method, operation)) }
                }
                h2 { "Forms" }
                @for (name, schema) in schemas { (form(name, schema)) }
            }
        }
    }
}

fn request(path: &str, method: &str, operation: &Value) -> Markup {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let empty = serde_json::Map::new();
    let body = operation["requestBody"]["content"]["application/json"]["schema"].clone();
    html! {
        section {
            p { b.m { (method.to_uppercase()) } code { (path) } " — " (text(&operation["summary"])) }
            @if let Some(more) = operation["description"].as_str() { p { (more) } }
            @if let Some(parameters) = operation["parameters"].as_array() {
                table {
                    @for parameter in parameters {
                        tr {
                            td { code { (text(&parameter["name"])) } }
                            td { (text(&parameter["in"])) }
                            td { (text(&parameter["description"])) }
                        }
                    }
                }
            }
            @if !body.is_null() { p { "Body: " (kind(&body)) } }
            ul {
                @for (status, response) in operation["responses"].as_object().unwrap_or(&empty) {
                    li {
                        (status) ": " (text(&response["description"]))
                        @for content in response["content"].as_object().into_iter().flat_map(|all| all.values()) {
                            " — " (kind(&content["schema"]))
                        }
                    }
                }
            }
        }
    }
}

fn form(name: &str, schema: &Value) -> Markup {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    html! {
        section id=(name) {
            h3 { (name) }
            p { (text(&schema["description"])) }
            @if let Some(properties) = schema["properties"].as_object() {
                table {
                    @for (key, property) in properties {
                        tr {
                            td { code { (key) } }
                            td { (kind(property)) }
                            td { (text(&property["description"])) }
                        }
                    }
                }
            } @else { p { (kind(schema)) } }
        }
    }
}

/// What kind of value a schema is.
fn kind(schema: &Value) -> Markup {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return html! { a href={ "#" (name) } { (name) } };
    }
    let choices = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|key| schema[key].as_array());
    if let Some(choices) = choices {
        return html! { @for (i, choice) in choices.iter().enumerate() { @if i > 0 { " or " } (kind(choice)) } };
    }
    if let Some(words) = schema["enum"].as_array() {
        return html! { @for (i, word) in words.iter().enumerate() { @if i > 0 { ", " } code { (word.to_string()) } } };
    }
    if schema["type"] == "array" {
        return html! { "list of " (kind(&schema["items"])) };
    }
    match &schema["type"] {
        Value::String(name) => html! { (name) },
        Value::Array(names) => {
            html! { @for (i, name) in names.iter().enumerate() { @if i > 0 { " or " } (name.as_str().unwrap_or_default()) } }
        }
        _ => html! { "any" },
    }
}
