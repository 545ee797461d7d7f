//! Axes: from what is measured to a part of the way, with ticks at round numbers. Draws nothing.

use super::words::{count, short_length};

/// The shortest length of time that a logarithmic axis tells apart, in seconds; what is shorter is drawn there.
const SHORTEST_S: f64 = 1.0;
/// Round lengths of time in seconds.
const ROUND_S: [f64; 25] = [
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    5_184_000.0,
    7_776_000.0,
    15_552_000.0,
    31_536_000.0,
];
/// Marks of a logarithmic axis of lengths of time, in seconds.
const LOG_MARKS_S: [f64; 13] = [
    1.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    21_600.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    31_536_000.0,
    3.1536e8,
    3.1536e9,
    3.1536e10,
];

/// What an axis measures, which says how its values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Seconds.
    Length,
    /// Things that are counted.
    Count,
    /// Parts of one.
    Part,
    /// Plain numbers of any size and sign.
    Number,
}

/// How values become a part of the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// What it measures.
    measure: Measure,
    scale: Scale,
    from: f64,
    to: f64,
    /// What it is called.
    pub(crate) title: String,
    /// Its marks.
    pub(crate) ticks: Vec<Tick>,
}

/// A mark of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// The part of the way, from 0 to 1.
    pub(crate) at: f64,
    /// What is written there.
    pub(crate) label: String,
}

impl Axis {
    /// Time since the start of a run, up to so many seconds.
    pub(crate) fn time(to_s: f64, title: &str) -> Self {
        let step = round_step_s(to_s / 5.0);
        Self::linear(Measure::Length, to_s, step, title)
    }

    /// Things that are counted, from none to so many.
    pub(crate) fn counts(most: f64, title: &str) -> Self {
        let step = round_step(most.max(1.0) / 4.0).max(1.0);
        let to = (most.max(1.0) / step).ceil() * step;
        Self::linear(Measure::Count, to, step, title)
    }

    /// Parts of a whole, from 0 to so much of it.
    pub(crate) fn parts(to: f64, title: &str) -> Self {
        let step = if to == 1.0 { 0.25 } else { round_step(to / 4.0) };
        let to = (to / step - 1e-9).ceil().max(1.0) * step;
        Self::linear(Measure::Part, to, step, title)
    }

    /// Lengths of time, logarithmic, from a mark that is not longer than the shortest to the longest.
    pub(crate) fn lengths(shortest_s: f64, longest_s: f64, title: &str) -> Self {
        let from = LOG_MARKS_S.into_iter().rfind(|mark| *mark <= shortest_s).unwrap_or(SHORTEST_S);
        let to = longest_s.max(from * 10.0);
        let mut axis = Self {
            measure: Measure::Length,
            scale: Scale::Logarithmic,
            from,
            to,
            title: title.to_owned(),
            ticks: vec![],
        };
        let inside = LOG_MARKS_S.into_iter().filter(|mark| from * 0.999 <= *mark && *mark <= to * 1.001);
        axis.ticks = inside.map(|mark| Tick { at: axis.part(mark), label: axis.words(mark) }).collect();
        axis
    }

    /// Plain numbers, from one to another, with no need for zero to be in sight.
    pub(crate) fn numbers(lowest: f64, highest: f64, title: &str) -> Self {
        let span = if highest > lowest { highest - lowest } else { lowest.abs().max(1.0) };
        let step = round_step(span / 4.0);
        let (first, last) = ((lowest / step).floor(), ((lowest + span) / step).ceil());
        let (from, to) = (first * step, last * step);
        let (measure, scale) = (Measure::Number, Scale::Linear);
        let mut axis = Self { measure, scale, from, to, title: title.to_owned(), ticks: vec![] };
        let marks = (0..=(last - first).min(12.0) as i32).map(|k| (first + f64::from(k)) * step);
        axis.ticks = marks.map(|mark| Tick { at: axis.part(mark), label: axis.words(mark) }).collect();
        axis
    }

    /// Differences, from the lowest to the highest with zero in sight.
    pub(crate) fn differences(measure: Measure, lowest: f64, highest: f64, title: &str) -> Self {
        let (low, high) = (lowest.min(0.0), highest.max(0.0));
        let step = match measure {
            Measure::Length => round_step_s(((high - low) / 5.0).max(1.0)),
            Measure::Count => round_step(((high - low) / 5.0).max(1.0)),
            Measure::Part => round_step(((high - low) / 5.0).max(0.01)),
            Measure::Number => round_step((high - low) / 5.0),
        };
        let (first, last) = ((low / step).floor(), (high / step).ceil().max(1.0));
        let (from, to) = (first * step, last * step);
        let mut axis =
            Self { measure, scale: Scale::Linear, from, to, title: title.to_owned(), ticks: vec![] };
        let marks = (first as i32..=last as i32).map(|k| f64::from(k) * step);
        axis.ticks = marks.map(|mark| Tick { at: axis.part(mark), label: axis.signed(mark) }).collect();
        axis
    }

    /// A difference as it is written beside the axis.
    fn signed(&self, value: f64) -> String {
        let sign = if value < 0.0 { "\u{2212}" } else { "" };
        format!("{sign}{}", self.words(value.abs()))
    }

    fn linear(measure: Measure, to: f64, step: f64, title: &str) -> Self {
        let to = if to > 0.0 { to } else { 1.0 };
        let mut axis =
            Self { measure, scale: Scale::Linear, from: 0.0, to, title: title.to_owned(), ticks: vec![] };
        let marks = (0..=12).map(|k| f64::from(k) * step).filter(|mark| *mark <= to * 1.0001);
        axis.ticks = marks.map(|mark| Tick { at: axis.part(mark), label: axis.words(mark) }).collect();
        axis
    }

    /// The part of the way at which a value lies, from 0 to 1; what is outside is put at the end.
    pub(crate) fn part(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
        };
        part.clamp(0.0, 1.0)
    }

    /// Whether equal distances are equal factors.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.scale == Scale::Logarithmic
    }

    /// A value as it is written beside the axis.
    fn words(&self, value: f64) -> String {
        match self.measure {
            Measure::Length => short_length(value),
            Measure::Count => count(value.round() as u64),
            Measure::Part => format!("{:.0} %", value * 100.0),
            Measure::Number => plain(value),
        }
    }

    /// A value as it is told beside a chart, finer than beside the axis.
    pub(crate) fn value(&self, value: f64) -> String {
        match self.measure {
            Measure::Part => format!("{:.1} %", value * 100.0),
            _ => self.words(value),
        }
    }

    /// The axis for the read-outs of the page's script: scale, ends and measure.
    pub(crate) fn for_script(&self) -> String {
        let scale = match self.scale {
            Scale::Linear => "linear",
            Scale::Logarithmic => "log",
        };
        let measure = match self.measure {
            Measure::Length => "length",
            Measure::Count => "count",
            Measure::Part => "part",
            Measure::Number => "number",
        };
        format!("{scale} {} {} {measure}", self.from, self.to)
    }

    /// The most characters that one of its labels has.
    pub(crate) fn widest_label(&self) -> usize {
        self.ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0)
    }
}

/// A number as short as it may be.
fn plain(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The next round number from here on: 1, 2, 5, 10 and so on.
fn round_step(least: f64) -> f64 {
    let least = if least > 0.0 { least } else { 1.0 };
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * 0.9999)
        .unwrap_or(power)
}

/// The next round length of time.
fn round_step_s(least_s: f64) -> f64 {
    ROUND_S
        .into_iter()
        .find(|step| *step >= least_s)
        .unwrap_or_else(|| round_step(least_s / 31_536_000.0) * 31_536_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn marks_are_at_round_numbers() {
        assert_eq!(labels(&Axis::counts(512.0, "")), ["0", "200", "400", "600"]);
        assert_eq!(labels(&Axis::counts(3.0, "")), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::parts(1.0, "")), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert_eq!(labels(&Axis::parts(0.07, "")), ["0 %", "2 %", "4 %", "6 %", "8 %"]);
        assert_eq!(labels(&Axis::time(90_000.0, "")), ["0", "6 h", "12 h", "18 h", "1 d"]);
        assert_eq!(labels(&Axis::time(90.0, "")), ["0", "30 s", "1 min", "90 s"]);
        assert_eq!(
            labels(&Axis::lengths(0.0, 90_000.0, "")),
            ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]
        );
    }

    #[test]
    fn plain_numbers_have_round_marks_of_any_size() {
        assert_eq!(labels(&Axis::numbers(1.2, 9.8, "")), ["0", "5", "10"]);
        assert_eq!(labels(&Axis::numbers(-0.35, -0.11, "")), ["-0.4", "-0.3", "-0.2", "-0.1"]);
        assert_eq!(labels(&Axis::numbers(0.0, 4e-8, "")), ["0", "1.00e-8", "2.00e-8", "3.00e-8", "4.00e-8"]);
        assert_eq!(labels(&Axis::numbers(7.0, 7.0, "")).len(), 5);
    }

    #[test]
    fn differences_have_zero_in_sight_and_signs() {
        let axis = Axis::differences(Measure::Length, -9000.0, 1800.0, "");
        assert_eq!(labels(&axis), ["\u{2212}3 h", "\u{2212}2 h", "\u{2212}1 h", "0", "1 h"]);
        let axis = Axis::differences(Measure::Part, 0.011, 0.034, "");
        assert_eq!(labels(&axis), ["0 %", "1 %", "2 %", "3 %", "4 %"]);
        assert_eq!(labels(&Axis::differences(Measure::Count, 0.0, 0.0, "")), ["0", "1"]);
    }

    #[test]
    fn no_run_is_too_short_or_too_long_for_an_axis() {
        for seconds in [0.0, 1e-6, 1.0, 1e3, 1e6, 1e9, 1e12] {
            for axis in [Axis::time(seconds, ""), Axis::lengths(0.0, seconds, ""), Axis::counts(seconds, "")]
            {
                assert!((1..=13).contains(&axis.ticks.len()), "{seconds}: {axis:?}");
                assert!(axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)), "{seconds}: {axis:?}");
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_puts_equal_factors_at_equal_distances() {
        let axis = Axis::lengths(1.0, 10_000.0, "");
        assert!((axis.part(100.0) - 0.5).abs() < 1e-12);
        assert_eq!((axis.part(0.0), axis.part(1e9)), (0.0, 1.0));
    }
}
