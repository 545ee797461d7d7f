//! From futures to an interval.
//!
//! The interval reaches from the twentieth part of the futures to the twentieth part from the end (from the first to the
//! last where there are 19 or fewer). If what really happens were like one of the futures, it would lie inside with a
//! chance of 90 % (80 % with nine futures). It is called an interval of 80 %, because futures are drawn from what is
//! believed, and that is not all there is; the program `calibration` measures how often it holds. No shape is assumed.

use serde::{Deserialize, Serialize};
use trainyard_sched::model::{Span, Time};

/// How one future came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Future {
    /// The job gets devices at this time.
    Starts(Time),
    /// It had none until then, and nobody looked further.
    NotBefore(Time),
}

/// When a job will get devices, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// With a chance of 80 % not earlier than this, if any future saw a start.
    pub earliest: Option<Time>,
    /// As likely earlier as later, if half of the futures saw a start.
    pub median: Option<Time>,
    /// With a chance of 80 % not later than this; `None` means that too many futures saw no start.
    pub latest: Option<Time>,
    /// All futures were looked at up to here, or up to the start.
    pub looked_until: Time,
    /// How many futures there are.
    pub futures: u32,
    /// In how many of them the job starts.
    pub starts: u32,
}

impl Estimate {
    /// The interval of so many futures, seen from `now` and rounded outwards.
    ///
    /// # Panics
    /// If there are no futures.
    pub fn new(now: Time, futures: &[Future]) -> Self {
        assert!(!futures.is_empty(), "an interval needs futures");
        let mut times: Vec<Option<Time>> = futures.iter().map(|future| future.start()).collect();
        // What does not start comes last.
        times.sort_by_key(|start| (start.is_none(), *start));
        let n = times.len().div_ceil(20).min(times.len().div_ceil(2)).max(1);
        let (early, late) = (times[n - 1], times[times.len() - n]);
        let ends = futures.iter().filter_map(|future| match future {
            Future::NotBefore(at) => Some(*at),
            Future::Starts(_) => None,
        });
        Self {
            earliest: early.map(|at| now + rounded(at.since(now), false)),
            median: times[times.len() / 2],
            latest: late.map(|at| now + rounded(at.since(now), true)),
            looked_until: ends.min().or_else(|| times.iter().flatten().max().copied()).unwrap_or(now),
            futures: times.len() as u32,
            starts: times.iter().flatten().count() as u32,
        }
    }

    /// Whether a start lies inside.
    pub fn holds(&self, start: Time) -> bool {
        self.earliest.unwrap_or(self.looked_until) <= start
            && self.latest.is_none_or(|latest| start <= latest)
    }

    /// How wide it is, if it has an end.
    pub fn width(&self) -> Option<Span> {
        Some(self.latest?.since(self.earliest?))
    }
}

impl Future {
    /// The time of the start, if there is one.
    pub const fn start(&self) -> Option<Time> {
        match self {
            Self::Starts(at) => Some(*at),
            Self::NotBefore(_) => None,
        }
    }
}

/// A length of time to a precision that it deserves, down or up.
fn rounded(span: Span, up: bool) -> Span {
    let seconds = span.0 / 1_000_000;
    let grain_s = match seconds {
        0..60 => 1,
        60..600 => 10,
        600..3_600 => 60,
        3_600..21_600 => 300,
        21_600..86_400 => 900,
        86_400..604_800 => 3_600,
        _ => 21_600,
    };
    let grain = grain_s * 1_000_000;
    Span(if up { span.0.div_ceil(grain) * grain } else { span.0 / grain * grain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Future {
        Future::Starts(Time::from_secs(seconds))
    }

    #[test]
    fn the_ends_are_the_right_ranks() {
        let futures: Vec<Future> = (1..=19).map(at).collect();
        let found = Estimate::new(Time::ZERO, &futures);
        assert_eq!((found.earliest, found.latest), (Some(Time::from_secs(1)), Some(Time::from_secs(19))));
        assert_eq!(found.median, Some(Time::from_secs(10)));
        let many: Vec<Future> = (1..=59).map(at).collect();
        let found = Estimate::new(Time::ZERO, &many);
        assert_eq!((found.earliest, found.latest), (Some(Time::from_secs(3)), Some(Time::from_secs(57))));
        let nine: Vec<Future> = (1..=9).map(at).collect();
        let found = Estimate::new(Time::ZERO, &nine);
        assert_eq!((found.earliest, found.latest), (Some(Time::from_secs(1)), Some(Time::from_secs(9))));
    }

    #[test]
    fn futures_without_a_start_leave_the_end_open() {
        let mut futures: Vec<Future> = (1..=7).map(at).collect();
        futures.extend([Future::NotBefore(Time::from_secs(500)), Future::NotBefore(Time::from_secs(400))]);
        let found = Estimate::new(Time::ZERO, &futures);
        assert_eq!((found.earliest, found.latest), (Some(Time::from_secs(1)), None));
        assert_eq!((found.looked_until, found.starts, found.width()), (Time::from_secs(400), 7, None));
        assert!(found.holds(Time::from_secs(10_000)) && !found.holds(Time::ZERO));
        let never = Estimate::new(Time::ZERO, &[Future::NotBefore(Time::from_secs(9)); 9]);
        assert_eq!((never.earliest, never.median), (None, None));
        assert!(never.holds(Time::from_secs(9)) && !never.holds(Time::from_secs(8)));
    }

    #[test]
    fn rounding_goes_outwards() {
        let now = Time(500_000);
        let found = Estimate::new(now, &[Future::Starts(Time(4_000_500_000)); 9]);
        assert_eq!(found.earliest, Some(now + Span::from_secs(3900)));
        assert_eq!(found.latest, Some(now + Span::from_secs(4200)));
        assert_eq!(rounded(Span::ZERO, true), Span::ZERO);
    }
}
