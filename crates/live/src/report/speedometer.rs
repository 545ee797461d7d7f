//! Iterations a second, from reports that come when they like.

use std::collections::VecDeque;
use std::time::Duration;

/// Reports closer together than this are one: programs that gather their output write many lines at once, and how far
/// apart those come says nothing.
const TOGETHER: Duration = Duration::from_millis(100);
/// Speed is measured over reports of the last ten seconds, or the last eight reports if these are older.
const WINDOW: Duration = Duration::from_secs(10);
const FEWEST: usize = 8;

/// Measures the speed of an attempt. Times are since any moment, on a clock that does not run backwards.
#[derive(Clone, Debug, Default)]
pub struct Speedometer {
    points: VecDeque<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    /// When the first of the reports came that are one here.
    since: Duration,
    at: Duration,
    iteration: f64,
}

impl Speedometer {
    /// So many iterations were done at this time.
    ///
    /// That an iteration was done is told by the first report of it; later ones of the same say nothing new. If iterations
    /// go back, it begins anew.
    pub fn tell(&mut self, iteration: f64, at: Duration) {
        if !iteration.is_finite() {
            return;
        }
        let Some(last) = self.points.back_mut() else {
            self.points.push_back(Point { since: at, at, iteration });
            return;
        };
        if iteration < last.iteration {
            self.points.clear();
            self.points.push_back(Point { since: at, at, iteration });
        } else if iteration > last.iteration {
            if at < last.since + TOGETHER {
                (last.at, last.iteration) = (at.max(last.at), iteration);
            } else {
                self.points.push_back(Point { since: at, at, iteration });
            }
            self.forget();
        }
    }

    /// Forgets everything, as when the job was resized.
    pub fn start_anew(&mut self) {
        self.points.clear();
    }

    /// Iterations a second as of now; none before two reports at different times. When reports stay away for longer than
    /// they ever did in the window, the speed falls.
    pub fn speed(&self, now: Duration) -> Option<f64> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let times = self.points.iter().map(|point| point.at);
        let gaps = times.clone().zip(times.skip(1)).map(|(a, b)| b.saturating_sub(a));
        let longest = gaps.max()?;
        let until = last.at.max(now.saturating_sub(longest));
        let seconds = until.saturating_sub(first.at).as_secs_f64();
        (seconds > 0.0).then(|| (last.iteration - first.iteration) / seconds)
    }

    fn forget(&mut self) {
        let Some(last) = self.points.back().map(|point| point.at) else { return };
        let is_old = |point: &Point| last.saturating_sub(point.at) > WINDOW;
        while self.points.len() > FEWEST && self.points.front().is_some_and(is_old) {
            self.points.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn told(points: impl IntoIterator<Item = (f64, u64)>) -> (Speedometer, Duration) {
        let mut meter = Speedometer::default();
        let mut now = Duration::ZERO;
        for (iteration, at) in points {
            now = ms(at);
            meter.tell(iteration, now);
        }
        (meter, now)
    }

    fn is_near(speed: Option<f64>, expected: f64, part: f64) {
        let speed = speed.expect("there is a speed");
        assert!((speed / expected - 1.0).abs() <= part, "{speed} and not {expected}");
    }

    #[test]
    fn a_steady_job_has_its_speed_and_the_window_slides() {
        let (meter, now) = told((0..50).map(|i| (f64::from(i), 500 * i as u64)));
        is_near(meter.speed(now), 2.0, 1e-12);
        let (meter, now) = told(
            (0..40)
                .map(|i| (f64::from(i), 500 * i as u64))
                .chain((1..40).map(|i| (39.0 + f64::from(i), 19_500 + 1000 * i as u64))),
        );
        is_near(meter.speed(now), 1.0, 1e-12);
        let (slow, now) = told((0..20).map(|i| (f64::from(i), 600_000 * i as u64)));
        is_near(slow.speed(now), 1.0 / 600.0, 1e-12);
        assert_eq!(slow.points.len(), FEWEST);
    }

    #[test]
    fn a_program_that_gathers_its_output_has_the_speed_of_its_work() {
        // A hundred iterations a second, written sixty at a time within some milliseconds.
        let burst = |b: u64| (0..60_u64).map(move |i| ((60 * b + i) as f64, 600 * b + i / 10));
        let (meter, now) = told((1..30).flat_map(burst));
        is_near(meter.speed(now), 100.0, 0.01);
        let (first, now) = told((0..60).map(|i| (f64::from(i), i as u64 / 10)));
        assert_eq!(first.speed(now), None, "one burst says nothing");
    }

    #[test]
    fn a_very_fast_job_is_held_in_little_memory() {
        let (meter, now) = told((0..200_000).map(|i| (f64::from(i), i as u64)));
        is_near(meter.speed(now), 1000.0, 0.02);
        assert!(meter.points.len() <= 102, "{}", meter.points.len());
    }

    #[test]
    fn silence_slows_down_once_it_is_longer_than_any_before() {
        let (meter, now) = told((0..5).map(|i| (f64::from(i), 1000 * i as u64)));
        is_near(meter.speed(now + ms(1000)), 1.0, 1e-12);
        is_near(meter.speed(now + ms(5000)), 0.5, 1e-12);
        assert!(meter.speed(now + ms(1_000_000)).is_some_and(|speed| speed < 0.01));
    }

    #[test]
    fn counters_that_begin_anew_and_repeated_iterations_do_no_harm() {
        let (mut meter, now) = told([(100.0, 0), (110.0, 1000), (0.0, 2000)]);
        assert_eq!(meter.speed(now), None);
        meter.tell(4.0, ms(4000));
        meter.tell(4.0, ms(9000));
        meter.tell(f64::NAN, ms(9000));
        is_near(meter.speed(ms(4000)), 2.0, 1e-12);
        meter.start_anew();
        assert_eq!(meter.speed(ms(9000)), None);
        let (back, _) = told([(1.0, 5000), (2.0, 4000), (3.0, 6000)]);
        is_near(back.speed(ms(6000)), 1.0, 1e-12);
    }
}
