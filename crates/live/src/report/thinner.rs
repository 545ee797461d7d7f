//! Few reports of many: what is passed on is bounded, and what matters in it stays.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Report;

/// Passes on a bounded number of reports a second, in the order in which they came.
///
/// Of those that are too many, what is kept first is the latest, then one that is no number, the lowest and the highest loss,
/// the first, the latest with an accuracy, and then as many as may be, evenly. The latest is never lost: it waits until
/// something may pass. What was saved is passed on with the next report that is.
#[derive(Clone, Debug)]
pub struct Thinner {
    a_second: NonZeroU32,
    /// How many may pass now, up to those of one second.
    credit: f64,
    last: Option<Duration>,
    held: Vec<Report>,
    dropped: u64,
}

/// Never fewer than these are held: the kinds of reports that matter each find room, and twice that before it is thinned.
const FEWEST_HELD: usize = 8;

impl Thinner {
    /// At most so many a second; as many may pass at once after a second of silence.
    pub fn new(a_second: NonZeroU32) -> Self {
        Self { a_second, credit: f64::from(a_second.get()), last: None, held: Vec::new(), dropped: 0 }
    }

    /// Holds a report until it is drained.
    pub fn push(&mut self, report: Report) {
        let only_saved = Report { saved: report.saved, ..Report::default() };
        if report == only_saved
            && let Some(last) = self.held.last_mut()
        {
            // It would take the place of the latest report that says how far the job is.
            last.saved = report.saved;
            self.dropped += 1;
            return;
        }
        self.held.push(report);
        let most = self.most_at_once().max(FEWEST_HELD);
        if self.held.len() >= 2 * most {
            self.thin(most);
        }
    }

    /// What may pass now. The time is since any moment, on a clock that does not run backwards.
    pub fn drain(&mut self, now: Duration) -> Vec<Report> {
        let most = f64::from(self.a_second.get());
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        self.credit = (self.credit + most * since.as_secs_f64()).min(most);
        // Sums of parts of a second fall short of whole reports by rounding.
        let may_pass = (self.credit + 1e-6).floor().max(0.0) as usize;
        if may_pass == 0 {
            return Vec::new();
        }
        self.thin(may_pass);
        self.credit -= self.held.len() as f64;
        std::mem::take(&mut self.held)
    }

    /// What is left when the attempt is over, without waiting: no more than those of one second.
    pub fn finish(&mut self) -> Vec<Report> {
        self.thin(self.most_at_once());
        std::mem::take(&mut self.held)
    }

    /// How many reports were not passed on, or only what they said to be saved.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn most_at_once(&self) -> usize {
        self.a_second.get() as usize
    }

    /// Keeps so many of those that are held.
    fn thin(&mut self, most: usize) {
        if self.held.len() <= most {
            return;
        }
        let keep = chosen(&self.held, most);
        let mut saved = None;
        let mut kept = Vec::with_capacity(most);
        for (mut report, keep) in self.held.drain(..).zip(keep) {
            // The later word counts: a job may have begun again from an earlier state.
            saved = report.saved.or(saved);
            if keep {
                report.saved = saved.take();
                kept.push(report);
            } else {
                self.dropped += 1;
            }
        }
        self.held = kept;
    }
}

/// Which of them are kept; the last one always is.
fn chosen(held: &[Report], most: usize) -> Vec<bool> {
    let mut keep = vec![false; held.len()];
    let loss = |at: &usize| held[*at].loss.filter(|loss| !loss.is_nan()).map(|loss| (loss, *at));
    let by_loss = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0);
    let places = || 0..held.len();
    let matter = [
        held.len().checked_sub(1),
        places().find(|at| held[*at].loss.is_some_and(f64::is_nan)),
        places().filter_map(|at| loss(&at)).min_by(by_loss).map(|(_, at)| at),
        places().filter_map(|at| loss(&at)).max_by(by_loss).map(|(_, at)| at),
        Some(0),
        places().rev().find(|at| held[*at].accuracy.is_some()),
    ];
    let mut room = most;
    for at in matter.into_iter().flatten() {
        if room > 0 && !keep[at] {
            keep[at] = true;
            room -= 1;
        }
    }
    let others: Vec<usize> = places().filter(|at| !keep[*at]).collect();
    for i in 0..room.min(others.len()) {
        // The middles of as many equal parts.
        keep[others[(2 * i + 1) * others.len() / (2 * room)]] = true;
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinner(a_second: u32) -> Thinner {
        Thinner::new(NonZeroU32::new(a_second).expect("some"))
    }

    fn report(iteration: u32, loss: f64) -> Report {
        Report { iteration: Some(f64::from(iteration)), loss: Some(loss), ..Report::default() }
    }

    fn has(reports: &[Report], iteration: u32) -> bool {
        reports.iter().any(|report| report.iteration == Some(f64::from(iteration)))
    }

    #[test]
    fn what_is_not_too_much_passes_as_it_is() {
        let mut thinner = thinner(20);
        for second in 0..10 {
            for i in 0..20 {
                thinner.push(report(20 * second + i, 1.0));
            }
            assert_eq!(thinner.drain(Duration::from_secs(second.into())).len(), 20);
        }
        assert_eq!(thinner.dropped(), 0);
    }

    #[test]
    fn no_more_pass_than_may_and_the_latest_always_does() {
        let mut thinner = thinner(20);
        let mut passed = Vec::new();
        // Ten seconds of a thousand reports each, looked at every thirty milliseconds.
        for i in 0..10_000_u32 {
            thinner.push(report(i, f64::from(i)));
            if i % 30 == 0 {
                passed.extend(thinner.drain(Duration::from_millis(i.into())));
            }
            assert!(thinner.held.len() < 40);
        }
        passed.extend(thinner.drain(Duration::from_secs(11)));
        assert!(passed.len() <= 20 + 220 && passed.len() >= 200, "{}", passed.len());
        assert_eq!(thinner.dropped() + passed.len() as u64, 10_000);
        assert!(has(&passed, 0) && has(&passed, 9_999));
        assert!(passed.is_sorted_by(|a, b| a.iteration < b.iteration), "their order stays");
    }

    #[test]
    fn extremes_stay_and_so_does_what_was_saved() {
        let mut thinner = thinner(6);
        for i in 0..1000 {
            let loss = match i {
                137 => -5.0,
                138 => f64::NAN,
                611 => 99.0,
                _ => 1.0,
            };
            let accuracy = (i == 500).then_some(0.5);
            let saved = (i == 300 || i == 700).then_some(f64::from(i));
            thinner.push(Report { accuracy, saved, ..report(i, loss) });
        }
        let passed = thinner.drain(Duration::ZERO);
        assert_eq!(passed.len(), 6);
        for kept in [0, 137, 138, 500, 611, 999] {
            assert!(has(&passed, kept), "{kept} is missing");
        }
        assert_eq!(passed.last().and_then(|report| report.saved), Some(700.0));
        thinner.push(report(1000, 1.0));
        thinner.push(report(1001, 1.0));
        assert!(thinner.drain(Duration::ZERO).is_empty(), "nothing may pass");
        assert!(has(&thinner.finish(), 1001), "and yet nothing is lost");
        assert!(thinner.finish().is_empty());
    }

    #[test]
    fn word_of_what_was_saved_does_not_displace_how_far_the_job_is() {
        let mut thinner = thinner(2);
        let saved = |iteration: u32| Report { saved: Some(f64::from(iteration)), ..Report::default() };
        thinner.push(saved(7));
        assert_eq!(thinner.drain(Duration::ZERO), [saved(7)]);
        for i in 0..100 {
            thinner.push(report(i, 1.0));
        }
        thinner.push(saved(100));
        let passed = thinner.drain(Duration::from_secs(1));
        assert_eq!(passed.last(), Some(&Report { saved: Some(100.0), ..report(99, 1.0) }));
    }

    #[test]
    fn one_report_a_second_is_the_latest() {
        let mut thinner = thinner(1);
        for i in 0..100 {
            thinner.push(report(i, 1.0));
        }
        let passed = thinner.drain(Duration::ZERO);
        assert_eq!(passed.len(), 1);
        assert!(has(&passed, 99));
        for i in 100..200 {
            thinner.push(report(i, 1.0));
            assert!(thinner.drain(Duration::from_millis(999)).is_empty());
        }
        assert!(has(&thinner.drain(Duration::from_millis(1000)), 199));
    }
}
