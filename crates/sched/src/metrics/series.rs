//! A quantity over time in a bounded number of equal intervals.

use serde::{Deserialize, Serialize};

use crate::model::Time;

/// How many intervals a series has at the most; when time outgrows them, neighbours are merged.
const MOST_INTERVALS: usize = 1024;

/// The time integral of a step function, interval by interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The length of an interval in microseconds.
    interval_us: u64,
    /// The integral over each interval, in units times microseconds.
    integrals: Vec<f64>,
    value: f64,
    since: Time,
}

impl Default for Series {
    fn default() -> Self {
        Self { interval_us: 1_000_000, integrals: Vec::new(), value: 0.0, since: Time::ZERO }
    }
}

impl Series {
    /// From `at` on the quantity is `value`. Times must not fall.
    pub fn set(&mut self, at: Time, value: f64) {
        self.advance(at);
        self.value = value;
    }

    /// From `at` on the quantity is larger by `change`.
    pub fn add(&mut self, at: Time, change: f64) {
        self.set(at, self.value + change);
    }

    /// The quantity now.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Accounts for the time up to `at`.
    pub fn advance(&mut self, at: Time) {
        while at.0 / self.interval_us >= MOST_INTERVALS as u64 {
            self.halve();
        }
        while self.since < at {
            let i = (self.since.0 / self.interval_us) as usize;
            // The last interval may end after the end of time.
            let end = (i as u64 + 1).saturating_mul(self.interval_us).min(at.0);
            if self.integrals.len() <= i {
                self.integrals.resize(i + 1, 0.0);
            }
            self.integrals[i] += self.value * (end - self.since.0) as f64;
            self.since = Time(end);
        }
    }

    fn halve(&mut self) {
        self.interval_us *= 2;
        self.integrals = self.integrals.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// The integral over all time so far, in units times seconds.
    pub fn integral(&self) -> f64 {
        self.integrals.iter().sum::<f64>() / 1e6
    }

    /// The mean of each interval with the time of its middle in seconds.
    pub fn means(&self) -> Vec<(f64, f64)> {
        let interval = self.interval_us as f64;
        let last_end = self.since.0 as f64;
        self.integrals
            .iter()
            .enumerate()
            .map(|(i, integral)| {
                let begin = i as f64 * interval;
                let length = (last_end - begin).min(interval);
                ((begin + length / 2.0) / 1e6, integral / length)
            })
            .collect()
    }

    /// The mean between two times, to the precision of the intervals.
    pub fn mean_between(&self, from: Time, to: Time) -> f64 {
        let points = self.means();
        let inside: Vec<f64> = points
            .iter()
            .filter(|(at, _)| from.as_secs_f64() <= *at && *at <= to.as_secs_f64())
            .map(|(_, value)| *value)
            .collect();
        if inside.is_empty() { 0.0 } else { inside.iter().sum::<f64>() / inside.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_can_be_reached() {
        let mut series = Series::default();
        series.set(Time::ZERO, 1.0);
        series.advance(Time::NEVER);
        assert!((series.integral() / (Time::NEVER.0 as f64 / 1e6) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_series_keeps_its_integral_however_long_it_gets() {
        let mut series = Series::default();
        series.set(Time::from_secs(0), 2.0);
        series.set(Time::from_secs(10), 4.0);
        series.advance(Time::from_secs(15));
        assert_eq!(series.integral(), 40.0);
        series.add(Time::from_secs(20), -4.0);
        series.advance(Time::from_secs(5_000_000));
        assert_eq!(series.integral(), 60.0);
        assert!(series.means().len() <= MOST_INTERVALS);
    }

    #[test]
    fn means_are_per_interval_and_the_last_one_may_be_short() {
        let mut series = Series::default();
        series.set(Time::ZERO, 1.0);
        series.set(Time::from_secs(1), 3.0);
        series.advance(Time::from_secs_f64(1.5));
        assert_eq!(series.means(), [(0.5, 1.0), (1.25, 3.0)]);
    }
}
