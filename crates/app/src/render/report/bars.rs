//! Bars side by side, in groups: one bar for each series.

use maud::{Markup, html};

use super::Figure;
use super::figure::{caption, colour, legend, swatch};
use crate::render::axis::Axis;
use crate::render::svg::{Path, WIDTH};

/// The height of a chart in pixels.
const HEIGHT: u32 = 240;
/// The part of a group's place that its bars take.
const FILLED: f64 = 0.8;

/// A chart of bars. A bar that is not known is left out.
pub(crate) fn bars(
    figure: &Figure<'_>,
    y: &Axis,
    series: &[String],
    groups: &[(String, Vec<Option<f64>>)],
) -> Markup {
    let height = f64::from(HEIGHT);
    let place = WIDTH / groups.len().max(1) as f64;
    let width = place * FILLED / series.len().max(1) as f64;
    let path = |of: usize| {
        let mut path = Path::default();
        for (i, (_, bars)) in groups.iter().enumerate() {
            let Some(length) = bars.get(of).copied().flatten() else { continue };
            let tall = y.part(length) * height;
            let x = (i as f64 + (1.0 - FILLED) / 2.0) * place + of as f64 * width;
            path.rectangle((x, height - tall), (width * 0.92, tall));
        }
        path
    };
    let drawing = html! {
        @for (i, name) in series.iter().enumerate() {
            path d=(path(i).as_str()) fill=(colour(i)) data-name=(name) data-series=(i) {}
        }
    };
    let mut x = Axis::numbers(0.0, 1.0, "");
    x.ticks = groups
        .iter()
        .enumerate()
        .map(|(i, (name, _))| crate::render::axis::Tick {
            at: (i as f64 + 0.5) / groups.len() as f64,
            label: name.clone(),
        })
        .collect();
    let body = html! {
        div style=(format!("--groups:{}", groups.len().max(1))) {
            (figure.plot_without_read_outs(&x, y, HEIGHT, &drawing))
        }
        (table(figure, y, series, groups))
    };
    html! { (legend(series)) (figure.draw("columns", &body)) }
}

/// The same as numbers.
fn table(figure: &Figure<'_>, y: &Axis, series: &[String], groups: &[(String, Vec<Option<f64>>)]) -> Markup {
    html! {
        details.data {
            summary { "The numbers" }
            div.scroll tabindex="0" role="region" aria-label={ (figure.title) ", as numbers" } {
                table.numbers {
                    (caption(figure.title))
                    thead { tr {
                        th scope="col" { "group" }
                        @for (i, name) in series.iter().enumerate() { th.num scope="col" { (swatch(i)) (name) } }
                    } }
                    tbody { @for (name, bars) in groups { tr {
                        th scope="row" { (name) }
                        @for i in 0..series.len() {
                            td.num { (bars.get(i).copied().flatten().map_or_else(|| "-".to_owned(), |bar| y.value(bar))) }
                        }
                    } } }
                }
            }
        }
    }
}
