//! How many iterations each copy of a job does in a slot (specification of Hadar and Gavel, 2.6.3, step 3).

/// A copy on a node for one slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seat {
    /// Iterations a second.
    pub per_s: f64,
    /// Seconds of the slot in which it does not train.
    pub overhead_s: f64,
}

impl Seat {
    /// What it can do in a time.
    pub(super) fn within(&self, span_s: f64) -> f64 {
        self.per_s * (span_s - self.overhead_s).max(0.0)
    }

    /// When it is done with its first iteration.
    pub(super) fn one_s(&self) -> f64 {
        self.overhead_s + 1.0 / self.per_s
    }
}

/// What all can do together in a time.
pub(super) fn capacity(seats: &[Seat], span_s: f64) -> f64 {
    seats.iter().map(|seat| seat.within(span_s)).sum()
}

/// When copies are done with `left` iterations if they end together: τ. Those that would not have begun by then take no part.
/// `None` if they never are.
pub(super) fn together_s(left: f64, seats: &[Seat]) -> Option<f64> {
    let mut order: Vec<&Seat> = seats.iter().filter(|seat| seat.per_s > 0.0).collect();
    order.sort_by(|a, b| a.overhead_s.total_cmp(&b.overhead_s));
    let (mut per_s, mut late, mut end_s) = (0.0, 0.0, None);
    for seat in order {
        if end_s.is_some_and(|end_s| end_s <= seat.overhead_s) {
            break;
        }
        per_s += seat.per_s;
        late += seat.per_s * seat.overhead_s;
        end_s = Some((left + late) / per_s);
    }
    end_s
}

/// The quota of each copy in a slot of so many seconds, if `left` iterations are to be done. Where a slot is enough for all of
/// them the copies end together, and the quotas add up to what is left, rounded up; else each does what it can end in the slot.
pub(super) fn quotas(left: f64, slot_s: f64, seats: &[Seat]) -> Vec<u64> {
    let whole = left.max(0.0).ceil();
    if left >= capacity(seats, slot_s) {
        let mut given: Vec<u64> = seats.iter().map(|seat| seat.within(slot_s).floor() as u64).collect();
        // A single iteration may take longer than a slot; then the one that is done with it first does that.
        if whole > 0.0 && given.iter().all(|quota| *quota == 0) {
            let trains = (0..seats.len()).filter(|at| seats[*at].per_s > 0.0);
            let first = trains.min_by(|a, b| seats[*a].one_s().total_cmp(&seats[*b].one_s()));
            first.into_iter().for_each(|at| given[at] = 1);
        }
        return given;
    }
    let end_s = together_s(left, seats).unwrap_or(0.0);
    let shares: Vec<f64> = seats.iter().map(|seat| seat.within(end_s)).collect();
    let sum: f64 = shares.iter().sum();
    // What is left may be no whole number; it is rounded up in proportion.
    let shares = shares.iter().map(|share| if sum > 0.0 { share * (whole / sum) } else { 0.0 });
    largest_remainder(whole as u64, &shares.collect::<Vec<_>>())
}

/// Whole numbers that add up to `whole`, each one of the two next to its share: those with the largest remainder get one more.
fn largest_remainder(whole: u64, shares: &[f64]) -> Vec<u64> {
    let mut given: Vec<u64> = shares.iter().map(|share| share.floor() as u64).collect();
    let missing = whole.saturating_sub(given.iter().sum());
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|a, b| shares[*b].fract().total_cmp(&shares[*a].fract()).then(a.cmp(b)));
    for at in order.iter().cycle().take(if shares.is_empty() { 0 } else { missing as usize }) {
        given[*at] += 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(all: &[(f64, f64)]) -> Vec<Seat> {
        all.iter().map(|(per_s, overhead_s)| Seat { per_s: *per_s, overhead_s: *overhead_s }).collect()
    }

    #[test]
    fn a_full_slot_is_what_each_can_do() {
        let all = seats(&[(4.0, 5.0), (1.5, 5.0), (0.5, 10.0)]);
        assert_eq!(quotas(1e6, 360.0, &all), [1420, 532, 175]);
        assert_eq!(quotas(1e6, 1.0, &seats(&[(0.1, 0.0)])), [1], "an iteration longer than the slot");
        assert_eq!(quotas(1e6, 10.0, &seats(&[(3.0, 20.0), (1.0, 0.0)])), [0, 10]);
    }

    #[test]
    fn an_iteration_longer_than_a_slot_is_given_to_whoever_is_done_with_it_first() {
        assert_eq!(quotas(1.0, 360.0, &seats(&[(0.0001, 0.0), (0.0024, 0.0)])), [0, 1]);
        assert_eq!(quotas(9.0, 360.0, &seats(&[(0.0024, 500.0), (0.002, 0.0)])), [0, 1]);
        assert_eq!(
            quotas(9.0, 360.0, &seats(&[(0.0001, 0.0), (0.02, 0.0)])),
            [0, 7],
            "nor is it begun beside others"
        );
        assert_eq!(quotas(0.0, 360.0, &seats(&[(0.0, 0.0)])), [0]);
    }

    #[test]
    fn what_is_left_is_shared_in_proportion_and_all_end_together() {
        let all = seats(&[(4.0, 0.0), (1.0, 0.0)]);
        assert_eq!(quotas(100.0, 360.0, &all), [80, 20]);
        assert_eq!(quotas(101.0, 360.0, &all), [81, 20]);
        assert_eq!(quotas(99.2, 360.0, &all).iter().sum::<u64>(), 100, "a part of an iteration is one");
        // τ = (100 + 2 · 10) / 4 = 30
        assert_eq!(quotas(100.0, 360.0, &seats(&[(2.0, 0.0), (2.0, 10.0)])), [60, 40]);
        assert_eq!(quotas(0.0, 360.0, &all), [0, 0]);
    }

    #[test]
    fn one_that_would_come_too_late_takes_no_part() {
        assert_eq!(quotas(8.0, 360.0, &seats(&[(2.0, 0.0), (50.0, 10.0)])), [8, 0]);
        assert_eq!(together_s(8.0, &seats(&[(2.0, 0.0), (50.0, 10.0)])), Some(4.0));
        assert_eq!(together_s(8.0, &seats(&[(0.0, 0.0)])), None);
    }

    #[test]
    fn quotas_add_up_and_lie_next_to_their_shares() {
        for left in 1..400_u64 {
            let all = seats(&[(3.7, 0.0), (1.3, 4.0), (0.9, 10.0), (11.0, 1.0), (0.2, 0.0)]);
            let given = quotas(left as f64, 3600.0, &all);
            assert_eq!(given.iter().sum::<u64>(), left, "{given:?}");
            let end_s = together_s(left as f64, &all).expect("they train");
            for (seat, quota) in all.iter().zip(&given) {
                assert!((seat.within(end_s) - *quota as f64).abs() <= 1.0, "{left}: {given:?}");
            }
        }
    }
}
