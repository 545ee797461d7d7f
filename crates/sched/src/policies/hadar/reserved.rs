//! Hadar with admission: a job that is admitted has its devices reserved from one slot until another, and nobody takes them.
//!
//! What is reserved is kept in the job's note, and the bounds of prices in that of the run: the first and the last slot, then
//! nodes with the workers there. Bounds only ever widen. A job that is not done when its slots are over, or that lost one of
//! its nodes, is admitted anew like one that comes. Jobs outside the model get what is left, as long as it is.

use crate::decide::Reason;
use crate::model::{NodeId, Span, Time};
use crate::view::{JobView, Note, Snapshot};

use super::calendar::{Calendar, Schedule};
use super::candidates::{Gang, Kind, Offer};
use super::desk::Accepted;
use super::prices::Bounds;
use super::round::{Entry, Round};
use super::stock::{Counts, Stock};
use super::told::{Price, told};

/// The slot of a time.
fn slot(at: Time, round: Span) -> u64 {
    at.0 / round.0.max(1)
}

/// A schedule as it is written down.
fn note(schedule: &Schedule, stock: &Stock) -> Note {
    let place = |(at, count): &(u32, u32)| i64::from(stock.spot(*at).node.0) << 32 | i64::from(*count);
    let slots = [schedule.from as i64, schedule.until as i64];
    Note(slots.into_iter().chain(schedule.offer.counts.iter().map(place)).collect())
}

/// A schedule that was written down and can still be kept.
fn read(view: &JobView, gang: &Gang, stock: &Stock, now: u64) -> Option<((u64, u64), Counts)> {
    let [from, until, places @ ..] = &view.note.0[..] else { return None };
    let (from, until) = (u64::try_from(*from).ok()?, u64::try_from(*until).ok()?);
    let place = |place: &i64| {
        let node = NodeId(u32::try_from(place >> 32).ok()?);
        let count = (place & i64::from(u32::MAX)) as u32;
        let at = (0..stock.types()).find_map(|gpu_type| stock.find(node, gpu_type))?;
        let spot = stock.spot(at);
        let stays = view.target.touches(node);
        (count > 0 && (spot.takes_work || stays) && gang.shuns != Some(node)).then_some((at, count))
    };
    let mut counts: Counts = places.iter().map(place).collect::<Option<_>>()?;
    counts.sort_unstable();
    let is_whole = counts.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() == u64::from(gang.workers);
    let is_sound = from < until && until > now && is_whole && gang.pace(stock, &counts) > 0.0;
    is_sound.then_some(((from, until), counts))
}

/// The bounds that hold: no less wide than ever before, as far as that was told.
pub(super) fn widened(seen: &Snapshot, bounds: Vec<Bounds>) -> Vec<Bounds> {
    let known = told(&seen.note);
    if known.len() != bounds.len() {
        return bounds;
    }
    let wider = |(own, known): (Bounds, Price)| {
        let is_sound = known.least > 0.0 && known.least.is_finite() && known.most.is_finite();
        if is_sound { Bounds::new(own.least.min(known.least), own.most.max(known.most)) } else { own }
    };
    bounds.into_iter().zip(known).map(wider).collect()
}

impl<'a> Round<'a> {
    /// Gives everybody what is reserved for now, and admits who has nothing reserved.
    pub(super) fn run_reserved(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let round = Span::from_secs_f64(self.parameters.round_s);
        let now = slot(self.seen.at, round);
        let mut calendar = Calendar::new(&self.stock, self.stock.bounds().to_vec(), self.parameters.round_s);
        let mut schedules: Vec<Option<((u64, u64), Counts)>> = Vec::with_capacity(entries.len());
        for entry in &entries {
            let kept = entry.gang.as_ref().and_then(|gang| read(entry.view, gang, &self.stock, now));
            if let (Some((slots, counts)), Some(gang)) = (&kept, &entry.gang) {
                calendar.reserve(*slots, counts, &gang.worker);
            }
            schedules.push(kept);
        }
        for (entry, kept) in entries.iter().zip(&mut schedules) {
            let Some(gang) = entry.gang.as_ref().filter(|_| kept.is_none()) else { continue };
            let found = calendar.best(gang, &self.terms, now);
            let Some(found) = found.as_ref().filter(|found| found.offer.payoff() > 0.0) else {
                self.forget(entry.view);
                let price =
                    |found: Schedule| Reason::TooDear { worth: found.offer.worth, price: found.offer.cost };
                self.said[entry.line] = found.map(price);
                continue;
            };
            calendar.reserve((found.from, found.until), &found.offer.counts, &gang.worker);
            self.notes.push((entry.view.id(), note(found, &self.stock)));
            *kept = Some(((found.from, found.until), found.offer.counts.clone()));
        }
        self.start_reserved(&entries, schedules, (now, round));
        for entry in entries.iter().filter(|entry| entry.gang.is_none()) {
            self.place_other(entry);
        }
        self.entries = entries;
    }

    fn start_reserved(
        &mut self,
        entries: &[Entry<'a>],
        schedules: Vec<Option<((u64, u64), Counts)>>,
        (now, round): (u64, Span),
    ) {
        let mut accepted = Vec::new();
        for (entry, kept) in entries.iter().zip(schedules) {
            let (Some(((from, _), counts)), Some(gang)) = (kept, &entry.gang) else { continue };
            if from > now {
                self.said[entry.line] = Some(Reason::Reserved { starts: Time(from.saturating_mul(round.0)) });
                continue;
            }
            // Who takes longer than was thought may still be there.
            if !counts.iter().all(|(at, count)| self.stock.spot(*at).slots(&gang.worker, *count) == *count) {
                continue;
            }
            let kind = if gang.held.as_ref() == Some(&counts) { Kind::Stay } else { Kind::Consolidated };
            let per_s = gang.pace(&self.stock, &counts);
            self.stock.take(&counts, &gang.worker);
            let offer = Offer { counts, kind, per_s, worth: 0.0, cost: 0.0 };
            accepted.push(Accepted { line: entry.line, had: &entry.view.target, gang, offer });
        }
        self.settle(&accepted);
    }

    /// Forgets what was reserved for a job.
    fn forget(&mut self, view: &JobView) {
        if view.note != Note::default() {
            self.notes.push((view.id(), Note::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_from_the_beginning_of_the_run() {
        let round = Span::from_secs(360);
        assert_eq!(slot(Time::from_secs(719), round), 1);
        assert_eq!(slot(Time::from_secs(720), round), 2);
        assert_eq!(slot(Time::from_secs(720), Span::ZERO), 720_000_000);
    }

    #[test]
    fn a_schedule_is_read_as_it_was_written_unless_it_cannot_be_kept() {
        use super::super::checks::gang;
        use super::super::checks::idle;
        use super::super::claim::tests::view;
        use crate::model::Declared;

        let (stock, job) = (idle(&[(0, 2), (1, 2)]), gang(2, &[1.0, 1.0], 10.0));
        let counts: Counts = [(0, 1), (1, 1)].into_iter().collect();
        let offer = Offer { counts: counts.clone(), kind: Kind::Spread, per_s: 1.0, worth: 1.0, cost: 0.0 };
        let mut view = view(2, Declared::default());
        view.note = note(&Schedule { from: 3, until: 5, offer }, &stock);
        assert_eq!(read(&view, &job, &stock, 4), Some(((3, 5), counts)));
        assert_eq!(read(&view, &job, &stock, 5), None, "it is over");
        let shy = Gang { shuns: Some(NodeId(1)), ..job.clone() };
        assert_eq!(read(&view, &shy, &stock, 4), None);
        assert_eq!(read(&view, &job, &idle(&[(0, 2)]), 4), None, "its node is gone");
        assert_eq!(read(&view, &gang(3, &[1.0, 1.0], 10.0), &stock, 4), None, "its gang is another");
        for odd in [vec![], vec![1], vec![-1, 5, 0], vec![5, 3, 2], vec![3, 5, -7], vec![3, 5, i64::MAX]] {
            view.note = Note(odd.into_iter().collect());
            assert_eq!(read(&view, &job, &stock, 0), None, "{:?}", view.note);
        }
    }
}
