//! What is drawn of an experiment: curves and bars by what their axes measure, and stretches of time. Does not draw.

/// What an axis measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Seconds, from zero.
    Seconds,
    /// Seconds, equal factors at equal distances.
    Factors,
    /// Parts of one, from zero.
    Part,
    /// Things that are counted, from zero.
    Count,
    /// Plain numbers.
    Number,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlotCurve {
    /// What it is called.
    pub(crate) name: String,
    /// Its points, few enough to be drawn one by one.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart of curves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plot {
    /// What it shows.
    pub(crate) title: String,
    /// How to read it, in a sentence.
    pub(crate) reading: String,
    /// What it says in numbers, for those who do not see it.
    pub(crate) alternative: String,
    /// The horizontal axis and what it is called.
    pub(crate) x: (Scale, &'static str),
    /// The vertical axis and what it is called.
    pub(crate) y: (Scale, &'static str),
    /// Whether a curve keeps its height until the next point, as a distribution does.
    pub(crate) steps: bool,
    /// The curves.
    pub(crate) curves: Vec<PlotCurve>,
}

impl Plot {
    /// The largest values on both axes, over all curves.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        points.fold((0.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)))
    }
}

/// Bars side by side, in groups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bars {
    /// What it shows.
    pub(crate) title: String,
    /// How to read it, in a sentence.
    pub(crate) reading: String,
    /// What it says in numbers, for those who do not see it.
    pub(crate) alternative: String,
    /// What bars measure, and what the axis is called.
    pub(crate) y: (Scale, &'static str),
    /// What the bars of a group stand for.
    pub(crate) series: Vec<String>,
    /// The groups: their names and the length of each bar, where it is known.
    pub(crate) groups: Vec<(String, Vec<Option<f64>>)>,
}

/// A stretch of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Band {
    /// Since when, in seconds.
    pub(crate) from_s: f64,
    /// Until when.
    pub(crate) to_s: f64,
    /// Which series it belongs to, by which it has its colour.
    pub(crate) series: usize,
    /// How strong the colour is, from 0 to 1.
    pub(crate) strength: f64,
}

/// Rows with stretches over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bands {
    /// What it shows.
    pub(crate) title: String,
    /// How to read it, in a sentence.
    pub(crate) reading: String,
    /// What it says in words, for those who do not see it.
    pub(crate) alternative: String,
    /// What the colours stand for.
    pub(crate) series: Vec<String>,
    /// The rows: their names and stretches.
    pub(crate) rows: Vec<(String, Vec<Band>)>,
    /// Where time ends.
    pub(crate) to_s: f64,
}
