//! Rows with stretches over time: what ran where, coloured by series, or how much of something there was.

use maud::{Markup, html};

use super::Figure;
use super::figure::{colour, legend};
use crate::render::axis::{Axis, Tick};
use crate::render::svg::{Path, WIDTH};

/// The height of a row in pixels, and the part of it that is drawn.
const ROW: u32 = 14;
const FILLED: f64 = 0.8;
/// Strengths of a colour that are told apart.
const SHADES: usize = 8;
/// More rows than these have no names, because there is no room.
const MOST_NAMES: usize = 64;

/// A stretch of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Since when, in what the axis measures.
    pub(crate) from: f64,
    /// Until when.
    pub(crate) to: f64,
    /// By which it has its colour.
    pub(crate) series: usize,
    /// How strong the colour is, from 0 to 1.
    pub(crate) strength: f64,
}

/// The rows from top to bottom.
pub(crate) fn bands(
    figure: &Figure<'_>,
    x: &Axis,
    series: &[String],
    rows: &[(&str, Vec<Stretch>)],
) -> Markup {
    let height = ROW * rows.len().max(1) as u32;
    let shade = |stretch: &Stretch| (stretch.strength.clamp(0.0, 1.0) * SHADES as f64).ceil() as usize;
    let path = |of: usize, strength: usize| {
        let mut path = Path::default();
        for (i, (_, stretches)) in rows.iter().enumerate() {
            let top = (i as f64 + (1.0 - FILLED) / 2.0) * f64::from(ROW);
            for stretch in
                stretches.iter().filter(|stretch| stretch.series == of && shade(stretch) == strength)
            {
                let (from, to) = (x.part(stretch.from) * WIDTH, x.part(stretch.to) * WIDTH);
                path.rectangle((from, top), ((to - from).max(0.5), FILLED * f64::from(ROW)));
            }
        }
        path
    };
    let drawing = html! {
        @for (i, name) in series.iter().enumerate() {
            @for strength in 1..=SHADES {
                @let path = path(i, strength);
                @if !path.is_empty() {
                    path d=(path.as_str()) fill=(colour(i)) fill-opacity=(format!("{:.3}", strength as f64 / SHADES as f64))
                        data-name=(name) {}
                }
            }
        }
    };
    let mut y = Axis::numbers(0.0, 1.0, "");
    let count = rows.len() as f64;
    let name = |(i, (name, _)): (usize, &(&str, Vec<Stretch>))| Tick {
        at: 1.0 - (i as f64 + 0.5) / count,
        label: (*name).to_owned(),
    };
    y.ticks = if rows.len() <= MOST_NAMES { rows.iter().enumerate().map(name).collect() } else { Vec::new() };
    let body = figure.plot_without_read_outs(x, &y, height, &drawing);
    html! { (legend(series)) (figure.draw("bands", &body)) }
}
