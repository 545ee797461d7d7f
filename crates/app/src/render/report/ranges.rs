//! Ranges side by side: a line from low to high with a mark in the middle, for percentiles and for intervals. One group
//! for each thing, one range for each series in it, and the numbers as a table below.

use maud::{Markup, html};

use super::figure::{caption, colour, percent, tick_marks};
use super::{Figure, swatch};
use crate::render::axis::Axis;

/// A range.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The series that it belongs to.
    pub(crate) series: usize,
    /// What the series is called.
    pub(crate) name: String,
    /// The lower end, the mark, and the upper end; `None` where there are no values.
    pub(crate) values: Option<[f64; 3]>,
}

/// A group of ranges.
#[derive(Clone, Debug)]
pub(crate) struct RangeRow {
    /// What it is about.
    pub(crate) name: String,
    /// How much it stands on, such as `120 jobs`.
    pub(crate) note: String,
    /// The ranges.
    pub(crate) ranges: Vec<Range>,
}

/// A chart of ranges. `titles` say what the three numbers are; `show` writes one.
pub(crate) fn ranges(
    figure: &Figure<'_>,
    axis: &Axis,
    rows: &[RangeRow],
    titles: [&str; 3],
    show: impl Fn(f64) -> String,
) -> Markup {
    let body = html! {
        div.ranges role="img" aria-label=(figure.alternative) {
            @for row in rows {
                div.group {
                    p.name { (row.name) " " span.soft { (row.note) } }
                    @for range in &row.ranges {
                        span.of { (range.name) }
                        div.track { @match range.values {
                            Some(values) => (bar(axis, range.series, values)),
                            None => span.soft { "none" },
                        } }
                    }
                    (tick_marks(axis))
                }
            }
        }
        p.note { (axis.title) }
        (table(figure, rows, titles, show))
    };
    figure.draw("rangechart", &body)
}

fn bar(axis: &Axis, series: usize, [low, middle, high]: [f64; 3]) -> Markup {
    let (low, middle, high) = (axis.part(low), axis.part(middle), axis.part(high));
    let whole = format!("left:{};width:{};--c:{}", percent(low), percent(high - low), colour(series));
    html! {
        i.span style=(whole) {}
        i.dot.(format!("m{}", series % 5)) style={ "left:" (percent(middle)) ";--c:" (colour(series)) } {}
    }
}

/// The same as numbers.
fn table(figure: &Figure<'_>, rows: &[RangeRow], titles: [&str; 3], show: impl Fn(f64) -> String) -> Markup {
    html! {
        details.data {
            summary { "The numbers" }
            div.scroll tabindex="0" role="region" aria-label={ (figure.title) ", as numbers" } {
                table.numbers {
                    (caption(figure.title))
                    thead { tr {
                        th scope="col" { "group" } th scope="col" { "series" }
                        @for title in titles { th.num scope="col" { (title) } }
                    } }
                    @for row in rows { tbody { @for (i, range) in row.ranges.iter().enumerate() { tr {
                        @if i == 0 {
                            th scope="rowgroup" rowspan=(row.ranges.len()) { (row.name) " " span.soft { (row.note) } }
                        }
                        th scope="row" { (swatch(range.series)) (range.name) }
                        @for k in 0..3 { td.num { (range.values.map_or_else(|| "-".to_owned(), |v| show(v[k]))) } }
                    } } } }
                }
            }
        }
    }
}
