//! The formula of a fitted curve, as people write it: no term that says nothing, and no curve where there is a constant.

use trainyard_sched::estimate::Fit;
use trainyard_sched::model::{Better, Curve};

/// What is smaller than this part of the whole is not written.
const NEGLIGIBLE: f64 = 1e-9;
/// A curve that changes by no more than this part of its height over all that was seen is written as a constant.
const LEVEL: f64 = 1e-6;

/// The formula of a curve that was fitted to points up to an iteration; nothing if it is a constant. That of a score is
/// turned around again.
pub(super) fn formula(fit: &Fit, last: f64, better: Better) -> Option<String> {
    let extent = (last - fit.origin).max(1.0);
    let (excess, end) = match fit.curve {
        Curve::Sublinear { a, b, c, d } => (sublinear([a * extent * extent, b * extent, c], extent, d)?, d),
        Curve::Geometric { amplitude, mu, c } => (geometric(amplitude, -mu.ln(), extent, c)?, c),
    };
    let text = match better {
        Better::Lower if end < 0.0 => format!("{excess} - {}", digits(-end)),
        Better::Lower => format!("{excess} + {}", digits(end)),
        Better::Higher => format!("{} - {excess}", digits(-end)),
    };
    Some(if fit.origin == 0.0 { text } else { format!("{text}, k counted from {}", digits(fit.origin)) })
}

/// The three terms of the inverse are those at the last iteration.
fn sublinear(terms: [f64; 3], last: f64, d: f64) -> Option<String> {
    let [quadratic, linear, c] = terms;
    let all = quadratic + linear + c;
    let is_level = quadratic + linear <= LEVEL * c || 1.0 / c <= NEGLIGIBLE * d.abs();
    if is_level {
        return None;
    }
    let named = [(quadratic, last * last, " k^2"), (linear, last, " k"), (c, 1.0, "")];
    let written: Vec<String> = named
        .into_iter()
        .filter(|(term, _, _)| *term > NEGLIGIBLE * all)
        .map(|(term, per, power)| format!("{}{power}", digits(term / per)))
        .collect();
    Some(format!("1 / ({})", written.join(" + ")))
}

fn geometric(amplitude: f64, rate: f64, last: f64, c: f64) -> Option<String> {
    let is_level = amplitude.abs() <= NEGLIGIBLE * c.abs() || rate * last <= LEVEL || !rate.is_finite();
    if is_level {
        return None;
    }
    let mu = digits((-rate).exp());
    // So near to 1 the rate says more than the ratio.
    let power = if mu == "1" { format!("exp(-{} k)", digits(rate)) } else { format!("{mu}^k") };
    Some(format!("{} * {power}", digits(amplitude)))
}

/// Six digits that say something.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:.5e}");
    }
    let decimals = (5 - size.max(1e-4).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_that_say_something() {
        let shown = [0.0, 1.0, 0.123_456_78, 1234.5678, 1e-9, 12_345_678.0].map(digits);
        assert_eq!(shown, ["0", "1", "0.123457", "1234.57", "1.00000e-9", "1.23457e7"]);
    }

    #[test]
    fn terms_that_say_nothing_are_not_written() {
        let text = |terms| sublinear(terms, 10.0, -0.5);
        assert_eq!(text([0.0, 2.0, 1.0]).unwrap(), "1 / (0.2 k + 1)");
        assert_eq!(text([200.0, 0.0, 1.0]).unwrap(), "1 / (2 k^2 + 1)");
        assert_eq!(text([0.0, 0.0, 1.6]), None);
        assert_eq!(text([0.0, 1.0, 1e12]), None);
        assert_eq!(geometric(3.0, 0.5_f64, 10.0, 1.0).unwrap(), "3 * 0.606531^k");
        assert_eq!(geometric(3.0, 1e-7, 1e5, 1.0).unwrap(), "3 * exp(-1.00000e-7 k)");
        for level in [(3.0, 1e-9, 1.0), (0.0, 0.5, 1.0), (1e-12, 0.5, 1.0), (3.0, f64::INFINITY, 0.0)] {
            assert_eq!(geometric(level.0, level.1, 100.0, level.2), None, "{level:?}");
        }
    }
}
