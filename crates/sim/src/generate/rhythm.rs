//! Arrivals with a rhythm of hours and weekdays: a Poisson process whose rate changes every hour.
//!
//! Given their number, the arrivals of such a process are independent draws from the normalised rate
//! (Kingman, Poisson Processes, 1993, section 2.4), so they are drawn like that and sorted. There are no bursts
//! beyond this: real traces have some, because one user often submits many jobs at a time.

use rand::RngExt;
use rand_pcg::Pcg64;
use trainyard_sched::model::Time;

const HOUR_S: f64 = 3600.0;

/// How the rate of arrivals changes; only ratios matter. Time zero is midnight before a Monday.
pub(crate) struct Rhythm {
    /// By hour of the day.
    pub(crate) hours: [f64; 24],
    /// By weekday, Monday first.
    pub(crate) weekdays: [f64; 7],
}

impl Rhythm {
    /// So many arrivals within `span_s` seconds, in order.
    pub(crate) fn arrivals(&self, count: usize, span_s: f64, random: &mut Pcg64) -> Vec<Time> {
        let hours = (span_s / HOUR_S).ceil().max(1.0) as usize;
        // The expected number up to the end of each hour, up to a factor.
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..hours)
            .map(|hour| {
                let length_s = (span_s - hour as f64 * HOUR_S).min(HOUR_S);
                sum += self.rate(hour) * length_s;
                sum
            })
            .collect();
        let mut times: Vec<Time> = (0..count)
            .map(|_| {
                let drawn = random.random::<f64>() * sum;
                let hour = sums.partition_point(|before| *before <= drawn).min(hours - 1);
                let before = if hour == 0 { 0.0 } else { sums[hour - 1] };
                let within_s = (drawn - before) / self.rate(hour);
                Time::from_secs_f64(hour as f64 * HOUR_S + within_s)
            })
            .collect();
        times.sort_unstable();
        times
    }

    fn rate(&self, hour: usize) -> f64 {
        self.hours[hour % 24] * self.weekdays[hour / 24 % 7]
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn busy_hours_and_days_get_their_share() {
        let mut hours = [1.0; 24];
        hours[10] = 25.0;
        let mut weekdays = [1.0; 7];
        weekdays[2] = 4.0;
        let rhythm = Rhythm { hours, weekdays };
        let times = rhythm.arrivals(100_000, 7.0 * 86_400.0, &mut Pcg64::seed_from_u64(1));
        assert!(times.is_sorted() && times.last().unwrap().as_secs_f64() < 7.0 * 86_400.0);
        let share = |keep: &dyn Fn(u64) -> bool| {
            times.iter().filter(|time| keep(time.0 / 3_600_000_000)).count() as f64 / times.len() as f64
        };
        // 25 of 48 parts of a day, 4 of 10 parts of a week; three standard deviations are below 0.005.
        assert!((share(&|hour| hour % 24 == 10) - 25.0 / 48.0).abs() < 0.005);
        assert!((share(&|hour| hour / 24 == 2) - 0.4).abs() < 0.005);
    }

    #[test]
    fn a_span_shorter_than_an_hour_is_kept() {
        let rhythm = Rhythm { hours: [1.0; 24], weekdays: [1.0; 7] };
        let times = rhythm.arrivals(1000, 60.0, &mut Pcg64::seed_from_u64(1));
        assert!(times.iter().all(|time| time.as_secs_f64() <= 60.0));
        assert!(times[999].as_secs_f64() > 50.0);
    }
}
