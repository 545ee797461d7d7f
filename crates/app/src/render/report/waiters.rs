//! The jobs that waited longest, each with the reason that held it longest at a stretch.

use maud::{Markup, html};
use trainyard_sched::metrics::LongWait;

use super::figure::caption;
use crate::config::Inputs;
use crate::render::words::{count, duration, job_gpus, tenant_name};

/// The table.
pub(crate) fn waiters(inputs: &Inputs, waits: &[LongWait]) -> Markup {
    if waits.is_empty() {
        return html! { p.note { "No job that could run was kept waiting." } };
    }
    let words = format!(
        "The {} longest waits. The reason is the one that held the job for the longest stretch, as the policy gave it at \
         the end of that stretch; jobs are numbered as in jobs.csv.",
        count(waits.len() as u64)
    );
    html! {
        div.scroll tabindex="0" role="region" aria-label="The longest waits" {
            table.waiters {
                (caption(&words))
                thead { tr {
                    th scope="col" { "job" } th scope="col" { "tenant" } th.num scope="col" { "GPUs" }
                    th.num scope="col" { "waited" } th scope="col" { "mostly because" }
                } }
                tbody { @for wait in waits { (row(inputs, wait)) } }
            }
        }
    }
}

fn row(inputs: &Inputs, wait: &LongWait) -> Markup {
    let job = inputs.workload.jobs.get(wait.job.index()).map(|(job, _)| job);
    let whole = wait.stretch == wait.waited;
    html! {
        tr {
            th scope="row" {
                (wait.job)
                @if let Some(job) = job && *job.name != *wait.job.0.to_string() { " " span.soft { (job.name) } }
            }
            td { @if let Some(job) = job { (tenant_name(&inputs.tenants, job.tenant)) } }
            td.num { @if let Some(job) = job { (job_gpus(job)) } }
            td.num { (duration(wait.waited.as_secs_f64())) @if wait.waits_still { br; span.tag.repaired { "waits still" } } }
            td.reason {
                (wait.reason)
                span.soft {
                    " (" code { (wait.reason.kind()) }
                    @if whole { ", all the time)" }
                    @else { ", for " (duration(wait.stretch.as_secs_f64())) " from " (duration(wait.from.as_secs_f64())) " on)" }
                }
            }
        }
    }
}
