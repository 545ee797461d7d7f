//! Charts as SVG text. The only module that knows the plotting library; colours are CSS variables, so that one
//! chart serves light and dark pages.

use std::sync::Arc;

use kuva::plot::LinePlot;
use kuva::prelude::{Layout, Plot, Theme, TickFormat};

/// Colours that a page must define as `--series-0` and so on; more series repeat them with other strokes.
pub(crate) const SERIES_COLOURS: usize = 8;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 330.0;
/// A logarithmic axis begins here, at 3.6 s: what is shorter is drawn there.
const SHORTEST_HOURS: f64 = 0.001;

/// One curve.
pub(crate) struct Curve<'a> {
    /// Its points by x, few enough to be drawn one by one.
    pub(crate) points: &'a [(f64, f64)],
    /// Which colour and stroke it has.
    pub(crate) series: usize,
}

/// A chart.
pub(crate) struct Chart<'a> {
    /// What the chart says, for those who do not see it.
    pub(crate) alternative: String,
    /// What runs upwards.
    pub(crate) y_label: &'static str,
    /// What runs to the right.
    pub(crate) x: Axis,
    /// The curves.
    pub(crate) curves: Vec<Curve<'a>>,
}

/// What runs to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// A length of time, logarithmic.
    Length,
    /// Time since the start, linear.
    Time,
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart<'_>) -> String {
    let plots: Vec<Plot> = chart
        .curves
        .iter()
        .filter(|curve| !curve.points.is_empty())
        .map(|curve| {
            let scaled = curve.points.iter().map(|(x, y)| match chart.x {
                Axis::Length => ((x / 3600.0).max(SHORTEST_HOURS), *y),
                Axis::Time => (x / 3600.0, *y),
            });
            let line = LinePlot::new()
                .with_data(scaled.collect::<Vec<_>>())
                .with_color(format!("var(--series-{})", curve.series % SERIES_COLOURS))
                .with_stroke_width(2.0);
            match curve.series / SERIES_COLOURS {
                0 => line,
                1 => line.with_dashed(),
                _ => line.with_dotted(),
            }
            .into()
        })
        .collect();
    if plots.is_empty() {
        return String::new();
    }
    let layout = layout(chart, &plots);
    accessible(&kuva::render_to_svg(plots, layout), &chart.alternative)
}

fn layout(chart: &Chart<'_>, plots: &[Plot]) -> Layout {
    let layout = Layout::auto_from_plots(plots)
        .with_width(WIDTH)
        .with_height(HEIGHT)
        .with_theme(theme())
        .with_y_axis_min(0.0)
        .with_y_label(chart.y_label)
        .with_label_size(13)
        .with_tick_size(12);
    match chart.x {
        Axis::Length => layout
            .with_log_x()
            .with_y_axis_max(1.0)
            .with_y_tick_format(TickFormat::Custom(Arc::new(|part| format!("{:.0} %", part * 100.0))))
            .with_x_tick_format(TickFormat::Custom(Arc::new(round_length)))
            .with_x_label("length of time, logarithmic"),
        Axis::Time => layout.with_x_label("hours since the start"),
    }
}

/// A power of ten of an hour, as short as can be.
fn round_length(hours: f64) -> String {
    match hours {
        ..0.01667 => format!("{:.0} s", hours * 3600.0),
        ..1.0 => format!("{:.0} min", hours * 60.0),
        _ => format!("{hours:.0} h"),
    }
}

fn theme() -> Theme {
    let ink = || "var(--ink-soft)".to_owned();
    Theme {
        background: "none".to_owned(),
        axis_color: ink(),
        grid_color: "var(--line)".to_owned(),
        tick_color: ink(),
        text_color: ink(),
        font_family: Some("inherit".to_owned()),
        ..Theme::light()
    }
}

/// Makes the picture fit its frame, and gives it words for those who do not see it.
fn accessible(svg: &str, alternative: &str) -> String {
    let Some((head, rest)) = svg.split_once('>') else { return String::new() };
    let head = head.replacen("<svg", "", 1);
    let fixed = |attribute: &str| {
        let start = head.find(&format!(" {attribute}=\"")).map(|at| at + attribute.len() + 3)?;
        head[start..].split('"').next().map(str::to_owned)
    };
    let (width, height) = (fixed("width").unwrap_or_default(), fixed("height").unwrap_or_default());
    let label = alternative.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{rest}")
}
