//! One check of the specifications: what was published, what we see, and whether it is enough.

use serde::Serialize;
use trainyard_sched::model::Seed;

use crate::statistics::Estimate;

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The number of the check in the specifications, such as `S-1`.
    pub(crate) check: &'static str,
    /// What is measured, with its unit.
    pub(crate) what: String,
    /// The figure of the paper.
    pub(crate) published: Option<f64>,
    /// The figure of the specification's own reference run.
    pub(crate) reference: Option<f64>,
    /// Our figure; absent where a run has none.
    pub(crate) ours: Option<f64>,
    /// Where our figure lies with a certainty of 95 %; absent where it does not vary, or comes from one workload.
    pub(crate) low: Option<f64>,
    /// The upper end of the same.
    pub(crate) high: Option<f64>,
    /// Whether our figure is as good as the check asks for.
    pub(crate) pass: bool,
    /// The same in words.
    pub(crate) verdict: String,
}

/// What is known of a figure beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// By the paper.
    pub(crate) published: Option<f64>,
    /// By the specification.
    pub(crate) reference: Option<f64>,
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gate {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
    /// No further from a figure than this part of it.
    Near {
        /// The figure.
        of: f64,
        /// The part of it.
        by: f64,
    },
    /// Anything: it is only told.
    Told,
}

impl Gate {
    /// Whether a figure is good enough. No figure is good enough for no gate.
    pub(crate) fn lets(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Near { of, by } => (value - of).abs() <= by * of.abs(),
            Self::Told => value.is_finite(),
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Near { of, by } => format!("{of} give or take {} %", by * 100.0),
            Self::Told => "no bound".to_owned(),
        }
    }
}

impl Row {
    /// A figure that is the mean over workloads.
    pub(crate) fn over(
        check: &'static str,
        what: impl Into<String>,
        figures: Figures,
        gate: Gate,
        values: &[Option<f64>],
        seed: Seed,
    ) -> Self {
        let estimate = Estimate::of(values, seed);
        let mut row = Self::single(check, what, figures, gate, estimate.mean);
        row.low = estimate.interval_95.map(|interval| interval.low);
        row.high = estimate.interval_95.map(|interval| interval.high);
        if estimate.absent > 0 {
            row.verdict = format!("missed: {} of {} workloads gave no figure", estimate.absent, values.len());
        }
        row
    }

    /// A figure that does not vary.
    pub(crate) fn single(
        check: &'static str,
        what: impl Into<String>,
        Figures { published, reference }: Figures,
        gate: Gate,
        ours: Option<f64>,
    ) -> Self {
        let pass = ours.is_some_and(|value| gate.lets(value));
        let verdict = match (ours, gate, pass) {
            (None, ..) => "missed: there is no figure".to_owned(),
            (_, Gate::Told, _) => "told; no bound".to_owned(),
            (_, gate, true) => format!("reached: {}", gate.words()),
            (_, gate, false) => format!("missed: {}", gate.words()),
        };
        Self { check, what: what.into(), published, reference, ours, low: None, high: None, pass, verdict }
    }

    /// The same row with something told beside it.
    #[must_use]
    pub(crate) fn beside(mut self, what: &str) -> Self {
        self.verdict = format!("{}; {what}", self.verdict);
        self
    }

    /// The same row, which passes only if something else holds as well.
    #[must_use]
    pub(crate) fn and(mut self, holds: bool, what: &str) -> Self {
        self.pass &= holds;
        let word = if holds { "and" } else { "missed:" };
        self.verdict = format!("{}; {word} {what}", self.verdict);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_passes_as_its_gate_says() {
        let row = |gate, ours| Row::single("X-1", "of a kind (s)", Figures::default(), gate, ours);
        assert!(row(Gate::AtLeast(2.0), Some(2.0)).pass && !row(Gate::AtLeast(2.0), Some(1.9)).pass);
        assert!(row(Gate::AtMost(2.0), Some(2.0)).pass && !row(Gate::AtMost(2.0), Some(2.1)).pass);
        let near = Gate::Near { of: 10.0, by: 0.1 };
        assert!(row(near, Some(9.0)).pass && row(near, Some(11.0)).pass && !row(near, Some(11.1)).pass);
        assert!(row(Gate::Told, Some(1e9)).pass);
        for gate in [Gate::Told, Gate::AtMost(1.0), Gate::AtLeast(1.0), near] {
            assert!(!row(gate, None).pass, "no figure passes no gate: {gate:?}");
            assert!(!row(gate, Some(f64::NAN)).pass, "{gate:?}");
        }
        let both = row(Gate::AtMost(2.0), Some(1.0)).and(false, "the other half is not there");
        assert!(!both.pass && both.verdict.contains("the other half"), "{}", both.verdict);
    }

    #[test]
    fn a_workload_without_a_figure_is_not_left_out() {
        let values = [Some(1.0), None, Some(3.0)];
        let row = Row::over("X-1", "", Figures::default(), Gate::AtMost(9.0), &values, Seed(1));
        assert!(!row.pass && row.ours.is_none());
        assert_eq!(row.verdict, "missed: 1 of 3 workloads gave no figure");
        let row =
            Row::over("X-1", "", Figures::default(), Gate::AtMost(9.0), &[Some(1.0), Some(3.0)], Seed(1));
        assert_eq!((row.ours, row.low, row.high), (Some(2.0), Some(1.0), Some(3.0)));
    }
}
