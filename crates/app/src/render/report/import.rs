//! What was read and how far it can be trusted: rows kept, left out, repaired, and what was assumed, with examples.

use maud::{Markup, html};
use trainyard_sim::workload::{Done, Finding, ImportReport};

use super::figure::caption;
use crate::render::words::{count, percent};

/// What is done about findings, in the order of their weight: a word for the row, a word for the sum, and a class.
const KINDS: [(Done, &str, &str, &str); 4] = [
    (Done::Dropped, "Left out", "left out", "dropped"),
    (Done::Repaired, "Repaired", "repaired", "repaired"),
    (Done::Assumed, "Assumed", "assumed", "assumed"),
    (Done::Noted, "Noted", "noted", "noted"),
];

/// The sums, and a table of findings.
pub(crate) fn import_report(report: &ImportReport) -> Markup {
    let of = |done: Done| report.findings.iter().filter(move |finding| finding.done == done);
    let sum = |done| report.count(done);
    let kept = if report.rows > 0 { report.kept as f64 / report.rows as f64 } else { 0.0 };
    let examples = report.findings.iter().any(|finding| !finding.examples.is_empty());
    html! {
        ul.sums aria-label="Rows of the trace" {
            li { b { (count(report.rows)) } " rows read" }
            li { b { (count(report.kept)) } " jobs kept"
                @if report.rows > report.kept { span.soft { " (" (percent(kept)) ")" } } }
            @for (done, _, word, class) in KINDS {
                @if sum(done) > 0 { li class=(class) { b { (count(sum(done))) } " " (word) } }
            }
        }
        @if report.findings.is_empty() {
            p.note { "Nothing had to be left out, repaired or assumed." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="What was found in the trace" {
                table.findings {
                    (caption("What was found in the trace, and what was done about it"))
                    thead { tr {
                        th scope="col" { "Done" } th scope="col" { "What" }
                        th.num scope="col" { "Times" } @if examples { th scope="col" { "For example" } }
                    } }
                    tbody {
                        @for (done, word, _, class) in KINDS { @for finding in of(done) { (row(finding, word, class, examples)) } }
                    }
                }
            }
        }
    }
}

fn row(finding: &Finding, word: &str, class: &str, examples: bool) -> Markup {
    html! {
        tr {
            td { span.tag.(class) { (word) } }
            th scope="row" { (finding.what) }
            td.num { (count(finding.count)) }
            @if examples { td.examples {
                @for (i, example) in finding.examples.iter().enumerate() { @if i > 0 { br; } code { (example) } }
            } }
        }
    }
}
