//! What all figures share: a frame with a caption, axes with words beside a drawing that stretches, and the signs by
//! which series are told apart: a colour and a stroke, so that colour is never alone.

use maud::{Markup, html};

use crate::render::axis::Axis;

/// Colours of series; the page's style defines `--s0` and so on. More series repeat them with other strokes.
const COLOURS: usize = 8;
/// Strokes of series, as lengths of dashes and gaps. Eight colours and five strokes give forty different series.
const STROKES: [&str; 5] = ["none", "8 4", "2 3", "11 3 2 3", "5 2"];

/// The frame of a figure.
pub(crate) struct Figure<'a> {
    /// What it shows.
    pub(crate) title: &'a str,
    /// How to read it, in a sentence; may be empty.
    pub(crate) reading: &'a str,
    /// What it says in numbers, for those who do not see it.
    pub(crate) alternative: String,
}

impl Figure<'_> {
    /// The figure with what is in it.
    pub(crate) fn draw(&self, class: &str, body: &Markup) -> Markup {
        html! {
            figure class=(class) {
                figcaption {
                    span.title { (self.title) }
                    @if !self.reading.is_empty() { span.reading { (self.reading) } }
                }
                (body)
            }
        }
    }

    /// A drawing of `height` units between two axes. Its width is that of its place.
    pub(crate) fn plot(&self, x: &Axis, y: &Axis, height: u32, drawing: &Markup) -> Markup {
        self.framed(x, y, height, drawing, true)
    }

    /// The same, where there is nothing to read out at a place of the drawing.
    pub(crate) fn plot_without_read_outs(&self, x: &Axis, y: &Axis, height: u32, drawing: &Markup) -> Markup {
        self.framed(x, y, height, drawing, false)
    }

    fn framed(&self, x: &Axis, y: &Axis, height: u32, drawing: &Markup, read_out: bool) -> Markup {
        let gutter = format!("--gutter:{}ch;--height:{height}px", y.widest_label() + 1);
        let of = |axis: &Axis| read_out.then(|| axis.for_script());
        html! {
            div.plot style=(gutter) data-x=[of(x)] data-y=[of(y)] {
                @if !y.title.is_empty() { p.ytitle aria-hidden="true" { (y.title) } }
                div.yticks aria-hidden="true" {
                    @for tick in &y.ticks { span style={ "bottom:" (percent(tick.at)) } { (tick.label) } }
                }
                div.canvas { (self.svg(height, x, y, drawing)) }
                (x_ticks(x))
            }
        }
    }

    fn svg(&self, height: u32, x: &Axis, y: &Axis, drawing: &Markup) -> Markup {
        let h = f64::from(height);
        let mut grid = crate::render::svg::Path::default();
        for tick in &y.ticks {
            grid.level((1.0 - tick.at) * h, 0.0, 1000.0);
        }
        for tick in &x.ticks {
            grid.upright(tick.at * 1000.0, 0.0, h);
        }
        html! {
            svg role="img" aria-label=(self.alternative) viewBox={ "0 0 1000 " (height) } preserveAspectRatio="none" {
                path.grid d=(grid.as_str()) {}
                (drawing)
            }
        }
    }
}

/// The marks under a drawing.
pub(crate) fn tick_marks(x: &Axis) -> Markup {
    html! {
        div.xticks aria-hidden="true" {
            @for tick in &x.ticks { span style={ "left:" (percent(tick.at)) } { (tick.label) } }
        }
    }
}

/// The marks under a drawing, and what it measures.
pub(crate) fn x_ticks(x: &Axis) -> Markup {
    html! {
        (tick_marks(x))
        @if !x.title.is_empty() { p.xtitle aria-hidden="true" { (x.title) } }
    }
}

/// The caption of a table. It stays in sight when a wide table is moved sideways.
pub(crate) fn caption(words: &str) -> Markup {
    html! { caption { span { (words) } } }
}

/// A part as a length of the style.
pub(crate) fn percent(part: f64) -> String {
    format!("{}%", (part * 10_000.0).round() / 100.0)
}

/// The colour of a series.
pub(crate) fn colour(series: usize) -> String {
    format!("var(--s{})", series % COLOURS)
}

/// The stroke of a series.
pub(crate) const fn stroke(series: usize) -> &'static str {
    STROKES[series % STROKES.len()]
}

/// The line that stands for a series, as in the charts.
pub(crate) fn swatch(series: usize) -> Markup {
    html! {
        svg.swatch viewBox="0 0 26 8" aria-hidden="true" focusable="false" {
            line x1="0" y1="4" x2="26" y2="4" stroke=(colour(series)) stroke-dasharray=(stroke(series)) {}
        }
    }
}

/// Which line is which series.
pub(crate) fn legend(names: &[String]) -> Markup {
    html! {
        ul.legend aria-label="Lines" {
            @for (series, name) in names.iter().enumerate() { li data-series=(series) { (swatch(series)) (name) } }
        }
    }
}
