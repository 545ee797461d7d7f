//! Parts of a whole, side by side: one bar for each thing, cut into named parts. The numbers stand below as a table, and
//! in a part where there is room.

use maud::{Markup, html};

use super::Figure;
use super::figure::{caption, percent as css_percent};
use crate::render::words::percent;

/// A part narrower than this has no number in it.
const ROOM_FOR_NUMBER: f64 = 0.07;

/// A whole and its parts, each at least zero, in the order of the names.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// What it is called.
    pub(crate) name: String,
    /// How much it is in all, in words.
    pub(crate) note: String,
    /// The parts.
    pub(crate) parts: Vec<f64>,
}

/// A chart of parts. Parts that are nothing everywhere should be left out by the caller.
pub(crate) fn parts(figure: &Figure<'_>, names: &[&str], wholes: &[Whole]) -> Markup {
    let body = html! {
        ul.legend aria-label="Parts" { @for (i, name) in names.iter().enumerate() { li { (key(i)) (name) } } }
        div.parts role="img" aria-label=(figure.alternative) {
            @for whole in wholes {
                p.name { (whole.name) " " span.soft { (whole.note) } }
                div.stack { @for (i, part) in shares(whole).filter(|(_, part)| *part > 0.0) {
                    i.part.(format!("p{}", i % 8)) style={ "width:" (css_percent(part)) } {
                        @if part >= ROOM_FOR_NUMBER { (format!("{:.0} %", part * 100.0)) }
                    }
                } }
            }
        }
        (table(figure, names, wholes))
    };
    figure.draw("partchart", &body)
}

fn shares(whole: &Whole) -> impl Iterator<Item = (usize, f64)> {
    let sum: f64 = whole.parts.iter().sum();
    whole.parts.iter().map(move |part| if sum > 0.0 { part / sum } else { 0.0 }).enumerate()
}

fn key(i: usize) -> Markup {
    html! { i.key.part.(format!("p{}", i % 8)) aria-hidden="true" {} }
}

/// The same as numbers.
fn table(figure: &Figure<'_>, names: &[&str], wholes: &[Whole]) -> Markup {
    html! {
        details.data {
            summary { "The numbers" }
            div.scroll tabindex="0" role="region" aria-label={ (figure.title) ", as numbers" } {
                table.numbers {
                    (caption(figure.title))
                    thead { tr {
                        th scope="col" { "of" }
                        @for name in names { th.num scope="col" { (name) } }
                    } }
                    tbody { @for whole in wholes { tr {
                        th scope="row" { (whole.name) " " span.soft { (whole.note) } }
                        @for (_, part) in shares(whole) { td.num { (percent(part)) } }
                    } } }
                }
            }
        }
    }
}
