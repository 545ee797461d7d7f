//! Time of a run that may last for months and over restarts. It never runs backwards: between two looks the machine's
//! monotonic clock counts, and over a restart the wall clock does, unless somebody has set it back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use trainyard_sched::model::{Span, Time};

/// What time it is in a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time of the run when this clock was made.
    base: Time,
    made: Instant,
}

impl Clock {
    /// The clock of a run that begins now.
    pub fn begin() -> Self {
        Self { base: Time::ZERO, made: Instant::now() }
    }

    /// The clock of a run whose last record was written at `last`, when the wall clock showed `then`.
    pub fn resume(last: Time, then: Wall) -> Self {
        let away = Wall::now().0.saturating_sub(then.0);
        Self { base: last + Span(away.max(1)), made: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.base + Span(u64::try_from(self.made.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// How long it is until `time`.
    pub fn until(&self, time: Time) -> Duration {
        Duration::from_micros(time.since(self.now()).0)
    }
}

/// A wall time: microseconds since 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Wall(pub u64);

impl Wall {
    /// Now, as the machine's wall clock says.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_back_does_not_turn_time_back() {
        let tomorrow = Wall(Wall::now().0 + 86_400_000_000);
        let clock = Clock::resume(Time(500), tomorrow);
        assert!(clock.now() > Time(500) && clock.now() < Time(60_000_000));
    }

    #[test]
    fn time_goes_on_while_nobody_is_there() {
        let an_hour_ago = Wall(Wall::now().0 - 3_600_000_000);
        let now = Clock::resume(Time(500), an_hour_ago).now();
        assert!(now >= Time(3_600_000_500) && now < Time(3_660_000_500));
    }
}
