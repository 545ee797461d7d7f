//! Time as integers, so that its order is total and two runs are byte-equal.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

const MICROS_PER_SECOND: f64 = 1e6;

/// A point in time: microseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every event.
    pub const NEVER: Self = Self(u64::MAX);

    /// Seconds since the run began, rounded to the nearest microsecond.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self(Span::from_secs_f64(seconds).0)
    }

    /// Whole seconds since the run began.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// Seconds since the run began.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / MICROS_PER_SECOND
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than every run.
    pub const FOREVER: Self = Self(u64::MAX);

    /// Seconds, rounded to the nearest microsecond; negative values and NaN give zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * MICROS_PER_SECOND).round() as u64)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / MICROS_PER_SECOND
    }

    /// This span minus `other`, not below zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This span times a factor, rounded to the nearest microsecond.
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Span {
    /// `2d 03h`, `2h 05m`, `3m 20s`, `12s` or `0.250s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FOREVER {
            return f.write_str("forever");
        }
        let seconds = self.0 / 1_000_000;
        match seconds {
            0 if self.0 > 0 => write!(f, "{:.3}s", self.as_secs_f64()),
            0..=59 => write!(f, "{seconds}s"),
            60..=3599 => write!(f, "{}m {:02}s", seconds / 60, seconds % 60),
            3600..=86_399 => write!(f, "{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
            _ => write!(f, "{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3600),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Span(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_like_a_person_would_write_them() {
        let cases = [
            (Span(0), "0s"),
            (Span(250_000), "0.250s"),
            (Span::from_secs(12), "12s"),
            (Span::from_secs(200), "3m 20s"),
            (Span::from_secs(7500), "2h 05m"),
            (Span::from_secs(86_400 * 2 + 3600 * 3), "2d 03h"),
            (Span::FOREVER, "forever"),
        ];
        for (span, text) in cases {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn seconds_round_to_the_nearest_microsecond() {
        assert_eq!(Span::from_secs_f64(0.1 + 0.2), Span(300_000));
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
    }
}
