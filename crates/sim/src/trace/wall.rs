//! Times on a wall clock: with an offset, with the letters of a zone, or bare in the zone of the trace. Everything
//! becomes microseconds since 1970 (UTC). Zones come with the program, so that no machine reads a trace otherwise.
//!
//! A bare time may occur twice (clocks go back) or not at all (clocks go forward). Then the time before the change is
//! meant, as RFC 5545 says, and that is told of the row.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, tz};
use trainyard_sched::model::Time;

use super::error::{TraceError, nearest};
use super::fields::{Problem, Remark};
use crate::workload::Done;

/// Letters of zones that mean one thing wherever they are written, with hours east of Greenwich. The letters that the
/// trace's own zone uses go first, so that CST is Shanghai's in a trace from there.
const LETTERS: &[(&str, i8)] = &[
    ("Z", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("EST", -5),
    ("EDT", -4),
    ("CST", -6),
    ("CDT", -5),
    ("MST", -7),
    ("MDT", -6),
    ("PST", -8),
    ("PDT", -7),
    ("CET", 1),
    ("CEST", 2),
    ("JST", 9),
];

/// The end of the year 5000 in seconds since 1970: no later moment can be written as a time of our own format.
const LAST_S: i64 = 95_649_119_999;

/// A clock on the wall of wherever the trace was made.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    zone: TimeZone,
    name: String,
}

impl Clock {
    /// The clock of an IANA zone.
    pub(crate) fn new(zone: &str) -> Result<Self, TraceError> {
        let found = TimeZone::get(zone).map_err(|_| {
            let names: Vec<String> = tz::db().available().map(|name| name.as_str().to_owned()).collect();
            let hint = nearest(zone, names.iter().map(String::as_str));
            // All six hundred names help nobody.
            let hint = if hint.len() > 200 { "nothing is spelled nearly so".to_owned() } else { hint };
            TraceError::UnknownZone { name: zone.to_owned(), hint }
        })?;
        let name = found.iana_name().unwrap_or(zone).to_owned();
        Ok(Self { zone: found, name })
    }

    /// The zone's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A moment as people write it there.
    pub(crate) fn write(&self, at: Time) -> String {
        let micros = i64::try_from(at.0).unwrap_or(i64::MAX);
        Timestamp::from_microsecond(micros)
            .map_or_else(|_| at.as_secs_f64().to_string(), |at| at.to_zoned(self.zone.clone()).to_string())
    }

    /// A time such as `2017-10-09 07:01:55`, `2023-05-17T11:00:58+08:00` or `2017-11-05 01:30:00 PDT`.
    pub(crate) fn read(&self, field: &str, value: &str, remarks: &mut Vec<Remark>) -> Result<Time, Problem> {
        let odd = || Problem::new(format!("{field} is not a time like 2017-10-09 07:01:55"), field, value);
        let (civil, letters) = split(value).ok_or_else(odd)?;
        let at = match letters {
            "" => {
                let (at, remark) = self.bare(civil).ok_or_else(odd)?;
                remarks.extend(remark.map(|what| Remark {
                    done: Done::Assumed,
                    problem: Problem::new(format!("{field} {what}"), field, value),
                }));
                at
            }
            letters => {
                self.offset(civil, letters).and_then(|offset| offset.to_timestamp(civil).ok()).ok_or_else(
                    || Problem::new(format!("{field} has a time zone that is not understood"), field, value),
                )?
            }
        };
        let outside = |what: &str| Problem::new(format!("{field} is {what}"), field, value);
        if at.as_second() > LAST_S {
            return Err(outside("after the year 5000"));
        }
        u64::try_from(at.as_microsecond()).map(Time).map_err(|_| outside("before the year 1970"))
    }

    /// A time without a zone, and what had to be assumed about it.
    fn bare(&self, civil: DateTime) -> Option<(Timestamp, Option<&'static str>)> {
        let found = self.zone.to_ambiguous_timestamp(civil);
        let (offset, remark) = match found.offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, None),
            AmbiguousOffset::Fold { before, .. } => {
                (before, Some("occurs twice, because clocks were put back; the first is taken"))
            }
            AmbiguousOffset::Gap { before, .. } => {
                (before, Some("never occurred, because clocks were put forward; the offset before is taken"))
            }
        };
        Some((offset.to_timestamp(civil).ok()?, remark))
    }

    /// What the letters or digits behind a time mean.
    fn offset(&self, civil: DateTime, letters: &str) -> Option<Offset> {
        if let Some(sign) = letters.strip_prefix(['+', '-']) {
            let digits: String = sign.chars().filter(|c| *c != ':').collect();
            let all_digits = digits.len() <= 4 && digits.chars().all(|c| c.is_ascii_digit());
            let (hours, minutes) = digits.split_at_checked(2).filter(|_| all_digits)?;
            let hours: i32 = hours.parse().ok()?;
            let minutes: i32 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
            let seconds = hours * 3600 + minutes * 60;
            return Offset::from_seconds(if letters.starts_with('-') { -seconds } else { seconds }).ok();
        }
        let here = match self.zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => [offset, offset],
            AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
                [before, after]
            }
        };
        let own = here.into_iter().find(|offset| {
            let at = offset.to_timestamp(civil).ok();
            at.is_some_and(|at| self.zone.to_offset_info(at).abbreviation() == letters)
        });
        let known = || LETTERS.iter().find(|(known, _)| *known == letters);
        own.or_else(|| known().map(|(_, hours)| Offset::constant(*hours)))
    }
}

/// Splits a time into the reading of the clock and what stands behind it.
fn split(value: &str) -> Option<(DateTime, &str)> {
    let bytes = value.as_bytes();
    let digits = |from: usize, to: usize| -> Option<i32> {
        let part = bytes.get(from..to)?;
        part.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i32::from(byte - b'0')))
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is(4, b"-/") && is(7, b"-/") && is(10, b" T") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let mut rest = value.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let text = fraction.get(..length.min(9)).filter(|text| !text.is_empty())?;
        nanos = text.parse::<i32>().ok()? * 10_i32.pow(9 - text.len() as u32);
        rest = &fraction[length..];
    }
    let civil =
        DateTime::new(year as i16, month as i8, day as i8, hour as i8, minute as i8, second as i8, nanos);
    Some((civil.ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(zone: &str, value: &str) -> (i64, Vec<Remark>) {
        let mut remarks = Vec::new();
        let time = Clock::new(zone).unwrap().read("time", value, &mut remarks).unwrap();
        ((time.0 / 1_000_000) as i64, remarks)
    }

    const PACIFIC: &str = "America/Los_Angeles";

    #[test]
    fn letters_tell_times_apart_across_the_end_of_summer_time() {
        let (before, first) = at(PACIFIC, "2017-11-05 01:30:00 PDT");
        let (after, second) = at(PACIFIC, "2017-11-05 01:10:00 PST");
        assert_eq!(after - before, 40 * 60, "forty real minutes later, not twenty earlier");
        assert!(first.is_empty() && second.is_empty(), "nothing had to be assumed");
        assert_eq!(at("UTC", "2017-11-05 01:10:00 PST").0, after, "the letters also mean that elsewhere");
    }

    #[test]
    fn bare_times_are_of_the_zone_and_odd_ones_are_told() {
        // 2017-10-09 07:01:55 in Los Angeles is 14:01:55 in Greenwich.
        let (noon, none) = at(PACIFIC, "2017-10-09 07:01:55");
        assert_eq!((noon, none.len()), (1_507_557_715, 0));
        assert_eq!(at("Asia/Shanghai", "2017-10-09 22:01:55").0, noon);
        let (twice, remarks) = at(PACIFIC, "2017-11-05 01:30:00");
        assert_eq!(twice, at(PACIFIC, "2017-11-05 01:30:00 PDT").0);
        assert!(remarks[0].problem.what.contains("occurs twice"), "{remarks:?}");
        let (never, remarks) = at(PACIFIC, "2017-03-12 02:30:00");
        assert_eq!(never, at(PACIFIC, "2017-03-12 03:30:00").0);
        assert!(remarks[0].problem.what.contains("never occurred"), "{remarks:?}");
    }

    #[test]
    fn offsets_are_read_in_every_spelling() {
        let moment = at("UTC", "2023-05-17 11:00:58").0;
        for value in [
            "2023-05-17T11:00:58Z",
            "2023-05-17 11:00:58 UTC",
            "2023-05-17 19:00:58+08:00",
            "2023-05-17T19:00:58+0800",
            "2023-05-17 19:00:58.999 +08",
            "2023/05/17 06:30:58-04:30",
        ] {
            assert_eq!(at(PACIFIC, value).0, moment, "{value}");
        }
        // The same letters are Chicago's in one trace and Shanghai's in another.
        assert_eq!(at("Asia/Shanghai", "2023-05-17 19:00:58 CST").0, moment);
        assert_eq!(at("America/Chicago", "2023-01-17 06:00:00 CST").0, at("UTC", "2023-01-17 12:00:00").0);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let clock = Clock::new("UTC").unwrap();
        for value in [
            "",
            "None",
            "2017-13-09 00:00:00",
            "2017-10-09",
            "2017-10-09 00:00",
            "1969-12-31 23:59:59",
            "2017-10-09 00:00:00 XYZ",
            "2017-10-09 00:00:00+",
            "2017-10-09 00:00:00.",
            "2017-10-09 24:00:00",
            "2017-10-09 00:00:00\u{20ac}",
            "\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}\u{20ac}",
        ] {
            let problem = clock.read("start", value, &mut Vec::new()).unwrap_err();
            assert!(problem.what.starts_with("start "), "{problem:?}");
        }
        let error = Clock::new("Europe/Berlim").unwrap_err().to_string();
        assert!(error.contains("did you mean `Europe/Berlin`?"), "{error}");
        assert!(Clock::new("Nowhere/Never").unwrap_err().to_string().contains("Nowhere/Never"));
        assert_eq!(
            Clock::new(PACIFIC).unwrap().write(Time::ZERO),
            "1969-12-31T16:00:00-08:00[America/Los_Angeles]"
        );
    }
}
