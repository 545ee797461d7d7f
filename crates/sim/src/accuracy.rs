//! The true accuracy of a job, as its reports would show it.

/// An accuracy that rises towards a top, and may fall again where the model begins to learn its data by heart:
/// `top - (top - start) exp(-(i / scale)^shape)` after `i` iterations (MLFS specification, section 1.8, step 8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrueAccuracy {
    /// Before the first iteration, as a fraction.
    pub start: f64,
    /// What it comes to in the end.
    pub top: f64,
    /// Iterations after which all but a part `1 / e` of the way is done.
    pub scale: f64,
    /// How the rise is bent; 1 is an exponential.
    pub shape: f64,
    /// From which iteration on it falls, and how much in each, if it does.
    pub fall: Option<(f64, f64)>,
}

impl TrueAccuracy {
    /// The accuracy after so many iterations.
    pub fn after(&self, iterations: f64) -> f64 {
        let risen = |i: f64| self.top - (self.top - self.start) * (-(i / self.scale).powf(self.shape)).exp();
        match self.fall {
            Some((from, each)) if iterations > from => (risen(from) - each * (iterations - from)).max(0.0),
            _ => risen(iterations.max(0.0)),
        }
    }

    /// The scale for which all but a part `missing` of the way is done after so many iterations.
    pub fn scale_for(iterations: f64, missing: f64, shape: f64) -> f64 {
        iterations / (-missing.ln()).powf(1.0 / shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_to_its_top_and_may_fall_again() {
        let scale = TrueAccuracy::scale_for(50.0, 0.001, 0.8);
        let curve = TrueAccuracy { start: 0.1, top: 0.9, scale, shape: 0.8, fall: None };
        assert!((curve.after(0.0) - 0.1).abs() < 1e-12);
        assert!((curve.after(50.0) - (0.9 - 0.0008)).abs() < 1e-12);
        assert!((1..100).all(|i| curve.after(f64::from(i)) > curve.after(f64::from(i - 1))));
        let falling = TrueAccuracy { fall: Some((50.0, 0.01)), ..curve };
        assert_eq!(falling.after(50.0), curve.after(50.0));
        assert!((falling.after(60.0) - (curve.after(50.0) - 0.1)).abs() < 1e-12);
        assert_eq!(falling.after(1000.0), 0.0);
    }
}
