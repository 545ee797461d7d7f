//! What a job is worth if it is done after so long: positive, and never more for a later end.
//!
//! Hadar (arXiv 2503.10918) lets the utility follow the objective. Its published formulas could not be had but for the effective
//! throughput (`raw`), so each form here has a name, and another one is one more variant. Where a formula is ours, it says why.

use serde::{Deserialize, Serialize};

/// The least time that counts, in seconds: nothing is infinitely worth.
const LEAST_S: f64 = 1e-3;

/// What a utility may depend on, beside the time that the job takes from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Facts {
    /// Iterations in all, done and left: `E_j N_j`.
    pub iterations: f64,
    /// How long all of them take on the fastest type: `t_j^min`.
    pub fastest_s: f64,
    /// And on the slowest: `t_j^max`.
    pub slowest_s: f64,
    /// When it would be done on an equal part of the cluster of its own: `D_j` of Gavel's finish-time fairness.
    pub isolated_s: f64,
}

/// A form of utility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Utility {
    /// `1 / JCT`. It has no unit of work in it, so models with small iterations do not rule.
    #[default]
    Inv,
    /// `t^min / JCT`: the part of its best speed that a job gets.
    Norm,
    /// `E N / JCT`: the effective throughput, in iterations a second whatever an iteration is.
    Raw,
    /// `D / JCT`: one over Gavel's finish-time fairness. Who is late is worth less, so it prefers those who can still be in time.
    Rho,
    /// `1 / (D JCT)`: like `inv`, and the more for a job the less it would take in isolation. That is what brings the mean of
    /// finish-time fairness down, as a second of waiting is a larger part of a short time than of a long one.
    Fair,
}

impl Utility {
    /// Whether it depends on how a job would fare in isolation.
    pub(super) const fn has_isolation(self) -> bool {
        matches!(self, Self::Rho | Self::Fair)
    }

    /// The worth of a job that ends so long after it arrived.
    pub(super) fn of(self, facts: &Facts, completion_s: f64) -> f64 {
        let gain = match self {
            Self::Inv => 1.0,
            Self::Norm => facts.fastest_s.max(LEAST_S),
            Self::Raw => facts.iterations.max(f64::MIN_POSITIVE),
            Self::Rho => facts.isolated_s.max(LEAST_S),
            Self::Fair => 1.0 / facts.isolated_s.max(LEAST_S),
        };
        gain / completion_s.max(LEAST_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const ALL: [Utility; 5] =
        [Utility::Inv, Utility::Norm, Utility::Raw, Utility::Rho, Utility::Fair];

    #[test]
    fn each_form_is_as_written_and_falls_with_time() {
        let facts = Facts { iterations: 1000.0, fastest_s: 50.0, slowest_s: 400.0, isolated_s: 80.0 };
        let worth = |utility: Utility| utility.of(&facts, 100.0);
        assert_eq!(ALL.map(worth), [0.01, 0.5, 10.0, 0.8, 0.01 / 80.0]);
        for utility in ALL {
            assert!(utility.of(&facts, 99.0) > worth(utility), "{utility:?}");
            let at_once = utility.of(&facts, 0.0);
            assert!(at_once.is_finite() && at_once > 0.0, "{utility:?}");
            let nothing = Facts { iterations: 0.0, fastest_s: 0.0, slowest_s: 0.0, isolated_s: 0.0 };
            assert!(utility.of(&nothing, 1e9) > 0.0, "{utility:?}");
        }
    }
}
