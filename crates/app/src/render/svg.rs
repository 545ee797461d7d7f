//! Small SVG texts: numbers as short as they may be, paths, and what must be escaped. Knows nothing of charts.
//!
//! Drawings are stretched to the width of their place, so they hold lines and areas only; words stand beside them as
//! HTML, where they keep their size.

use std::fmt::Write as _;

/// The width of every drawing in its own units. A unit is about a pixel on a wide screen.
pub(crate) const WIDTH: f64 = 1000.0;

/// A number with at most one decimal, such as `12` or `0.5`.
pub(crate) fn number(value: f64) -> String {
    let tenths = (value * 10.0).round();
    // A plain zero, also for what rounds to it from below.
    if tenths == 0.0 {
        return "0".to_owned();
    }
    if tenths % 10.0 == 0.0 { format!("{:.0}", tenths / 10.0) } else { format!("{:.1}", tenths / 10.0) }
}

/// What a path goes through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    /// A line through points.
    pub(crate) fn line(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut text = String::new();
        for (i, (x, y)) in points.into_iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let _ = write!(text, "{command}{} {}", number(x), number(y));
        }
        Self(text)
    }

    /// Steps that keep the height of a point until the next one, and that of a floor before the first.
    pub(crate) fn steps(points: impl IntoIterator<Item = (f64, f64)>, floor: f64) -> Self {
        let mut text = String::new();
        for (i, (x, y)) in points.into_iter().enumerate() {
            if i == 0 {
                let _ = write!(text, "M0 {}H{}V{}", number(floor), number(x), number(y));
            } else {
                let _ = write!(text, "H{}V{}", number(x), number(y));
            }
        }
        Self(text)
    }

    /// Adds a rectangle.
    pub(crate) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let (width, height) = (number(width), number(height));
        let _ = write!(self.0, "M{} {}h{width}v{height}h-{width}z", number(x), number(y));
    }

    /// Adds a stroke from top to bottom.
    pub(crate) fn upright(&mut self, x: f64, from_y: f64, to_y: f64) {
        let _ = write!(self.0, "M{} {}V{}", number(x), number(from_y), number(to_y));
    }

    /// Adds a stroke from left to right.
    pub(crate) fn level(&mut self, y: f64, from_x: f64, to_x: f64) {
        let _ = write!(self.0, "M{} {}H{}", number(from_x), number(y), number(to_x));
    }

    /// Whether there is nothing to draw.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attribute `d`.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_may_be() {
        let cases =
            [(12.0, "12"), (12.04, "12"), (0.25, "0.3"), (-0.01, "0"), (-3.5, "-3.5"), (999.96, "1000")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn paths_hold_what_was_drawn() {
        assert_eq!(Path::line([(0.0, 1.0), (2.5, 3.0)]).as_str(), "M0 1L2.5 3");
        assert_eq!(Path::steps([(1.0, 5.0), (2.0, 3.0)], 9.0).as_str(), "M0 9H1V5H2V3");
        let mut bars = Path::default();
        bars.rectangle((1.0, 2.0), (3.0, 4.0));
        bars.upright(5.0, 0.0, 8.0);
        bars.level(1.0, 0.0, 9.0);
        assert_eq!(bars.as_str(), "M1 2h3v4h-3zM5 0V8M0 1H9");
    }
}
