//! What each tenant got against what it was entitled to: a table with a bar and a mark in each row.

use maud::{Markup, html};
use trainyard_sched::metrics::Share;
use trainyard_sched::model::Tenants;

use super::figure::{caption, percent as css_percent};
use crate::render::words::{count, percent};

/// Tenants beyond these are one row together.
const MOST_TENANTS: usize = 12;

/// A row: a tenant, or all others together.
struct Row {
    name: String,
    jobs: u64,
    held: f64,
    wanted: f64,
    entitled: f64,
    guaranteed: f64,
}

/// The table. Parts are of the GPU time that anybody held, and of what all were entitled to.
pub(crate) fn tenants(tenants: &Tenants, shares: &[Share]) -> Markup {
    let rows = rows(tenants, shares);
    let sum = |of: fn(&Row) -> f64| rows.iter().map(of).sum::<f64>().max(f64::MIN_POSITIVE);
    let (held, entitled) = (sum(|row| row.held), sum(|row| row.entitled));
    let scale =
        rows.iter().map(|row| (row.held / held).max(row.entitled / entitled)).fold(0.0, f64::max).max(1e-9);
    let promised = rows.iter().any(|row| row.guaranteed > 0.0);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Tenants" {
            table.tenants {
                (caption("What tenants got. The bar is a tenant's part of the GPU time that was held; the mark is the part that \
                    its weight entitled it to while it had jobs."))
                thead { tr {
                    th scope="col" { "tenant" } th.num scope="col" { "jobs" }
                    th.bars scope="col" { "got, against entitled" }
                    th.num scope="col" { "got" } th.num scope="col" { "entitled" }
                    th.num scope="col" title="GPU-hours that its jobs wanted while they waited" { "waited for, GPU h" }
                    @if promised { th.num scope="col" { "guaranteed GPUs" } }
                } }
                tbody { @for row in &rows {
                    tr {
                        th scope="row" { (row.name) }
                        td.num { (count(row.jobs)) }
                        td.bars { div.bullet aria-hidden="true" {
                            i.got style={ "width:" (css_percent(row.held / held / scale)) } {}
                            i.due style={ "left:" (css_percent(row.entitled / entitled / scale)) } {}
                        } }
                        td.num { (percent(row.held / held)) }
                        td.num { (percent(row.entitled / entitled)) }
                        td.num { (count((row.wanted / 3600.0).round() as u64)) }
                        @if promised { td.num { (if row.guaranteed > 0.0 { row.guaranteed.to_string() } else { "-".to_owned() }) } }
                    }
                } }
            }
        }
    }
}

/// Tenants by what they held, the largest first, and the small ones together.
fn rows(tenants: &Tenants, shares: &[Share]) -> Vec<Row> {
    let mut all: Vec<Row> = shares
        .iter()
        .map(|share| Row {
            name: tenants.get(share.tenant).map_or_else(|| share.tenant.to_string(), |t| t.name.to_string()),
            jobs: share.jobs,
            held: share.held_gpu_s,
            wanted: share.wanted_gpu_s,
            entitled: share.entitled_gpu_s,
            guaranteed: share.guaranteed_gpus,
        })
        .collect();
    all.sort_by(|a, b| b.held.total_cmp(&a.held));
    if all.len() <= MOST_TENANTS + 1 {
        return all;
    }
    let rest = all.split_off(MOST_TENANTS);
    let sum = |of: fn(&Row) -> f64| rest.iter().map(of).sum();
    all.push(Row {
        name: format!("{} others", count(rest.len() as u64)),
        jobs: rest.iter().map(|row| row.jobs).sum(),
        held: sum(|row| row.held),
        wanted: sum(|row| row.wanted),
        entitled: sum(|row| row.entitled),
        guaranteed: sum(|row| row.guaranteed),
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tenants_are_one_row_and_nothing_is_lost() {
        let mut names = Tenants::default();
        let share = |i: u32| Share {
            tenant: names.intern(&format!("team{i}")),
            jobs: 1,
            held_gpu_s: f64::from(i),
            wanted_gpu_s: 1.0,
            entitled_gpu_s: 2.0,
            guaranteed_gpus: 0.0,
        };
        let shares: Vec<Share> = (0..30).map(share).collect();
        let rows = rows(&names, &shares);
        assert_eq!((rows.len(), rows[0].name.as_str(), rows[12].name.as_str()), (13, "team29", "18 others"));
        assert_eq!(rows.iter().map(|row| row.held).sum::<f64>(), (0..30).map(f64::from).sum::<f64>());
        assert_eq!(rows.iter().map(|row| row.jobs).sum::<u64>(), 30);
    }
}
