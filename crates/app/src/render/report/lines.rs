//! Line charts: one curve for each series over time, or over lengths of time.

use maud::{Markup, html};

use super::Figure;
use super::figure::{colour, stroke};
use crate::render::axis::Axis;
use crate::render::svg::{Path, WIDTH};

/// The height of a chart in pixels.
const HEIGHT: u32 = 240;

/// A curve.
pub(crate) struct Curve<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    /// Which series it is, by which it has its colour and stroke.
    pub(crate) series: usize,
    /// Its points by x, few enough to be drawn one by one.
    pub(crate) points: &'a [(f64, f64)],
    /// Whether it keeps the height of a point until the next, as a distribution does, or goes straight there.
    pub(crate) steps: bool,
}

/// A line chart.
pub(crate) fn lines(figure: &Figure<'_>, x: &Axis, y: &Axis, curves: &[Curve<'_>]) -> Markup {
    let height = f64::from(HEIGHT);
    let place = |(at, value): &(f64, f64)| (x.part(*at) * WIDTH, (1.0 - y.part(*value)) * height);
    let path = |curve: &Curve<'_>| {
        let points = curve.points.iter().map(place);
        if curve.steps { Path::steps(points, height) } else { Path::line(points) }
    };
    let drawing = html! {
        @for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
            path.curve d=(path(curve).as_str()) stroke=(colour(curve.series))
                stroke-dasharray=(stroke(curve.series)) data-name=(curve.name) data-series=(curve.series) {}
        }
    };
    let empty = curves.iter().all(|curve| curve.points.is_empty());
    let body = html! {
        @if empty { p.note { "There is nothing to draw: no job came so far." } }
        @else { (figure.plot(x, y, HEIGHT, &drawing)) }
    };
    figure.draw("lines", &body)
}
