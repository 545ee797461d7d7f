//! Eleven families of learning curves (Domhan, Springenberg and Hutter, IJCAI 2015, table 1) over `x` from 1 on, for an
//! accuracy from 0 to 1. Start values are those of the published code; bounds are ours. The asymptote, where a family has
//! one, is the first parameter.

/// A family of curves with up to four parameters; the others are not used.
pub(super) struct Family {
    /// Its name in the paper.
    pub name: &'static str,
    /// How many parameters it has.
    pub parameters: usize,
    /// Where to begin.
    pub start: [f64; 4],
    /// Least values.
    pub low: [f64; 4],
    /// Greatest values.
    pub high: [f64; 4],
    /// The curve.
    pub value: fn(f64, &[f64; 4]) -> f64,
}

/// Twice a perfect accuracy: an asymptote above 1 does not keep a curve from being right on its way there.
const TOP: f64 = 2.0;

pub(super) const ALL: [Family; 11] = [
    Family {
        name: "vapor pressure",
        parameters: 3,
        start: [-0.622, -0.470, 0.0423, 0.0],
        low: [-20.0, -20.0, -2.0, 0.0],
        high: [5.0, 20.0, 2.0, 0.0],
        value: |x, [a, b, c, _]| (a + b / x + c * x.ln()).exp(),
    },
    Family {
        name: "pow3",
        parameters: 3,
        start: [0.84, 0.52, 0.01, 0.0],
        low: [0.0, 0.0, 1e-3, 0.0],
        high: [TOP, 50.0, 5.0, 0.0],
        value: |x, [c, a, power, _]| c - a * x.powf(-power),
    },
    Family {
        // The published copies have the line inside without the outer logarithm. This is the formula of the paper, with a
        // start of ours.
        name: "log log linear",
        parameters: 2,
        start: [0.2, 1.2, 0.0, 0.0],
        low: [0.0, 1e-3, 0.0, 0.0],
        high: [20.0, 20.0, 0.0, 0.0],
        value: |x, [a, b, _, _]| (a * x.ln() + b).ln(),
    },
    Family {
        name: "Hill3",
        parameters: 3,
        start: [0.772, 0.586, 2.461, 0.0],
        low: [0.0, 1e-2, 1e-3, 0.0],
        high: [TOP, 10.0, 1e4, 0.0],
        value: |x, [top, eta, kappa, _]| top / (1.0 + (kappa / x).powf(*eta)),
    },
    Family {
        name: "log power",
        parameters: 3,
        start: [0.77, 2.98, -0.51, 0.0],
        low: [0.0, -10.0, -10.0, 0.0],
        high: [TOP, 10.0, 0.0, 0.0],
        value: |x, [a, b, c, _]| a / (1.0 + (x / b.exp()).powf(*c)),
    },
    Family {
        name: "pow4",
        parameters: 4,
        start: [0.8, 200.0, 0.0, 0.1],
        low: [0.0, 1e-6, 0.0, 1e-3],
        high: [TOP, 1e4, 1e4, 5.0],
        value: |x, [c, a, b, power]| c - (a * x + b).powf(-power),
    },
    Family {
        name: "MMF",
        parameters: 4,
        start: [0.7, 0.1, 0.01, 5.0],
        low: [0.0, -1.0, 1e-6, 1e-2],
        high: [TOP, 1.0, 1e3, 10.0],
        value: |x, [top, bottom, kappa, delta]| top - (top - bottom) / (1.0 + (kappa * x).powf(*delta)),
    },
    Family {
        name: "exp4",
        parameters: 4,
        start: [0.7, 0.8, -0.8, 0.3],
        low: [0.0, 1e-6, -20.0, 1e-2],
        high: [TOP, 20.0, 5.0, 3.0],
        value: |x, [c, a, b, power]| c - (b - a * x.powf(*power)).exp(),
    },
    Family {
        name: "ilog2",
        parameters: 2,
        start: [0.78, 0.43, 0.0, 0.0],
        low: [0.0, 0.0, 0.0, 0.0],
        high: [TOP, 20.0, 0.0, 0.0],
        // As in the published code, counted from 2, where the logarithm is not nought.
        value: |x, [c, a, _, _]| c - a / (1.0 + x).ln(),
    },
    Family {
        name: "Weibull",
        parameters: 4,
        start: [0.7, 0.1, 0.01, 1.0],
        low: [0.0, -1.0, 1e-6, 1e-2],
        high: [TOP, 1.0, 1e3, 10.0],
        value: |x, [top, bottom, kappa, delta]| top - (top - bottom) * (-(kappa * x).powf(*delta)).exp(),
    },
    Family {
        name: "Janoschek",
        parameters: 4,
        start: [0.73, 0.07, 0.355, 0.46],
        low: [0.0, -1.0, 1e-6, 1e-2],
        high: [TOP, 1.0, 1e3, 10.0],
        value: |x, [top, bottom, kappa, delta]| top - (top - bottom) * (-kappa * x.powf(*delta)).exp(),
    },
];
