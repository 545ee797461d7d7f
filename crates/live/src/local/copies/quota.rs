//! How far each copy may train before it asks again, so that all of them together do neither less nor more than there is to do.
//!
//! What is left is handed out piece by piece, to each copy in proportion to its speed and half of it at a time, so pieces grow
//! smaller towards the end and the copies end close together (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions
//! on Computers C-36 (1987), section 3; the proportions: specification of Hadar and Gavel, 2.6.3). A piece is never taken back.
//!
//! Where a policy gives quotas these are handed out instead, as far as there is something to do. A copy may then be told less than
//! before: where the policy says less, or where others went further than they might. One that is beyond that only waits.

/// As long as speeds are not known, so small a part of what is left goes to each copy.
const UNKNOWN_PART: f64 = 1.0 / 16.0;
/// A piece lasts so long at least, in seconds: a copy needs a moment to hear of its next one.
const LEAST_S: f64 = 0.5;

/// A copy as it counts itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Runner {
    /// How far it is.
    pub(super) iterations: f64,
    /// How far it may train.
    pub(super) until: u64,
    /// Its speed in iterations a second; 0 while that is not known.
    pub(super) speed: f64,
}

/// How far each copy may train from now on, if all were equal after `base` iterations and together come to `goal`; nothing if they
/// have. Programs may count parts of iterations, and are told whole ones.
pub(super) fn ends(base: f64, goal: f64, copies: &[Runner]) -> Option<Vec<u64>> {
    let done = |copy: &Runner| (copy.iterations - base).max(0.0);
    if base + copies.iter().map(done).sum::<f64>() >= goal {
        return None;
    }
    let shares: Vec<Share> = copies
        .iter()
        .map(|copy| Share {
            done: done(copy) as u64,
            may: (copy.until as f64 - base).max(0.0) as u64,
            speed: copy.speed,
        })
        .collect();
    let given = hand_out((goal - base).ceil() as u64, &shares);
    // Nothing is taken back, and who may do no more is told nothing new.
    let end = |(copy, may): (&Runner, u64)| copy.until.max((base + may as f64).ceil() as u64);
    Some(copies.iter().zip(given).map(end).collect())
}

/// What is left may be so much more than was believed, as a part of all quotas, that it is done at once.
const SHORT_PART: f64 = 1.0 / 16.0;

/// Whether all copies have done what they were given, and so little is left that the quotas were to be the last: what was believed
/// to be left is told late. Then it is handed out piece by piece.
pub(super) fn is_rest(base: f64, goal: f64, copies: &[Runner], given: &[f64]) -> bool {
    let done = |copy: &Runner| (copy.iterations - base).max(0.0);
    let left = goal - base - copies.iter().map(done).sum::<f64>();
    let all_did = copies.iter().zip(given).all(|(copy, given)| done(copy) >= *given);
    all_did && left <= (given.iter().sum::<f64>() * SHORT_PART).max(1.0)
}

/// How far each copy may train if it was given so many iterations since all were equal, and all of them together are to come to
/// `goal`; nothing if they have. Where more was given than there is to do, later copies get less.
pub(super) fn given(base: f64, goal: f64, copies: &[Runner], given: &[f64]) -> Option<Vec<u64>> {
    let done = |copy: &Runner| (copy.iterations - base).max(0.0);
    let all: f64 = copies.iter().map(done).sum();
    if base + all >= goal {
        return None;
    }
    let mut left = (goal - base - all).ceil();
    let end = |(copy, given): (&Runner, &f64)| {
        let more = (given - done(copy)).max(0.0).min(left);
        left -= more.ceil();
        (base + done(copy) + more).ceil() as u64
    };
    Some(copies.iter().zip(given).map(end).collect())
}

/// The part of the training data that is each copy's own, from one fraction to another: in proportion to what each may do, so that
/// all together go through all of it once for each time that one alone would. Nothing if none may do anything.
pub(super) fn parts(quotas: &[u64]) -> Option<Vec<[f64; 2]>> {
    let all: u64 = quotas.iter().sum();
    let mut before = 0;
    let part = |quota: &u64| {
        let from = before as f64 / all as f64;
        before += quota;
        [from, before as f64 / all as f64]
    };
    (all > 0).then(|| quotas.iter().map(part).collect())
}

/// A copy, in iterations since all copies were equal.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    /// What it has done.
    done: u64,
    /// What it may do.
    may: u64,
    /// Its speed in iterations a second; 0 while that is not known.
    speed: f64,
}

/// What each copy may do from now on, if all of them together are to do `all`.
fn hand_out(all: u64, copies: &[Share]) -> Vec<u64> {
    let taken: u64 = copies.iter().map(|copy| copy.may.max(copy.done)).sum();
    let mut left = all.saturating_sub(taken);
    let sum: f64 = copies.iter().map(|copy| copy.speed).sum();
    let known = copies.iter().all(|copy| copy.speed > 0.0);
    let fastest = copies.iter().map(|copy| copy.speed).fold(0.0, f64::max);
    let give = |copy: &Share| {
        let ahead = copy.may.saturating_sub(copy.done);
        let part = if known { copy.speed / sum } else { 1.0 / copies.len() as f64 };
        let fair = left as f64 * part;
        // The others are done with all that is left before this one is with a single iteration.
        let is_too_slow = known && fair < 0.5 && copy.speed < fastest;
        let piece = if known { (fair / 2.0).max(copy.speed * LEAST_S) } else { fair * UNKNOWN_PART };
        let piece = (piece.ceil() as u64).clamp(1, left.max(1));
        if left == 0 || is_too_slow || ahead > piece / 2 {
            return copy.may;
        }
        left -= piece;
        copy.may.max(copy.done) + piece
    };
    copies.iter().map(give).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets copies of these speeds train, and says how much each does and how long each is at it.
    fn train(all: u64, speeds: &[f64]) -> (Vec<u64>, Vec<f64>) {
        let mut copies = vec![Share { done: 0, may: 0, speed: 0.0 }; speeds.len()];
        let (mut progress, mut ends) = (vec![0.0; speeds.len()], vec![0.0; speeds.len()]);
        for tick in 0..10_000_000 {
            let given = hand_out(all, &copies);
            copies.iter_mut().zip(given).for_each(|(copy, may)| {
                assert!(may >= copy.may, "nothing is taken back");
                copy.may = may;
            });
            assert!(copies.iter().map(|copy| copy.may).sum::<u64>() <= all);
            for (at, copy) in copies.iter_mut().enumerate() {
                progress[at] += speeds[at] * 0.02;
                if progress[at] >= 1.0 && copy.done < copy.may {
                    let made = (progress[at] as u64).min(copy.may - copy.done);
                    copy.done += made;
                    (copy.speed, ends[at]) = (speeds[at], 0.02 * f64::from(tick));
                    progress[at] -= made as f64;
                }
                progress[at] = progress[at].min(1.0 + speeds[at] * 0.02);
            }
            if copies.iter().map(|copy| copy.done).sum::<u64>() == all {
                break;
            }
        }
        (copies.iter().map(|copy| copy.done).collect(), ends)
    }

    #[test]
    fn all_is_done_and_no_more_and_the_copies_end_close_together() {
        for (all, speeds) in [
            (1, vec![5.0, 5.0]),
            (2, vec![0.5, 50.0, 5.0]),
            (300, vec![10.0, 1.0]),
            (10_000, vec![300.0, 100.0, 33.0]),
            (7, vec![1.0]),
        ] {
            let (done, ends) = train(all, &speeds);
            assert_eq!(done.iter().sum::<u64>(), all, "{speeds:?}");
            let last = ends.iter().copied().fold(0.0, f64::max);
            let best = all as f64 / speeds.iter().sum::<f64>();
            let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(last < 1.5 * best + 2.0 + 2.0 / slowest, "{speeds:?}: {done:?} at {ends:?}, best {best}");
        }
    }

    #[test]
    fn a_copy_that_is_much_slower_is_given_nothing_at_the_end() {
        let share = |speed| Share { done: 0, may: 0, speed };
        assert_eq!(hand_out(3, &[share(100.0), share(0.1)]), [3, 0]);
        assert_eq!(hand_out(0, &[share(100.0), share(0.1)]), [0, 0]);
        // One that has gone further than it may takes that from the others.
        let far = Share { done: 5, may: 3, speed: 1.0 };
        assert_eq!(hand_out(5, &[far, share(1.0)]), [3, 0]);
    }

    #[test]
    fn what_each_was_given_is_what_it_may_do_up_to_the_goal() {
        let copies = |first: f64, second: f64| {
            [first, second].map(|iterations| Runner { iterations, until: 0, speed: 1.0 })
        };
        assert_eq!(given(10.0, 100.0, &copies(10.0, 10.0), &[7.0, 0.0]), Some(vec![17, 10]));
        assert_eq!(given(10.0, 100.0, &copies(17.0, 10.0), &[7.0, 5.0]), Some(vec![17, 15]));
        assert_eq!(given(10.0, 20.0, &copies(10.0, 10.0), &[7.0, 5.0]), Some(vec![17, 13]));
        // One that went further than it may is not called back.
        assert_eq!(given(10.0, 100.0, &copies(19.0, 10.0), &[7.0, 5.0]), Some(vec![19, 15]));
        assert_eq!(given(10.0, 17.0, &copies(14.0, 13.0), &[7.0, 5.0]), None);
    }

    #[test]
    fn parts_of_the_data_are_as_quotas_and_leave_nothing_out() {
        assert_eq!(parts(&[6, 0, 2]), Some(vec![[0.0, 0.75], [0.75, 0.75], [0.75, 1.0]]));
        assert_eq!((parts(&[0, 0]), parts(&[])), (None, None));
        let thirds = parts(&[1, 1, 1]).expect("they may do something");
        assert!(thirds.windows(2).all(|pair| pair[0][1] == pair[1][0]) && thirds[2][1] == 1.0, "{thirds:?}");
    }

    #[test]
    fn what_was_left_over_is_done_at_once_if_it_is_little() {
        let copies = |first: f64, second: f64| {
            [first, second].map(|iterations| Runner { iterations, until: 0, speed: 1.0 })
        };
        let quotas = [80.0, 20.0];
        assert!(is_rest(10.0, 115.0, &copies(90.0, 30.0), &quotas));
        assert!(!is_rest(10.0, 115.0, &copies(90.0, 29.0), &quotas), "one of them is not done");
        assert!(!is_rest(10.0, 200.0, &copies(90.0, 30.0), &quotas), "the slot was never to be the last");
        assert!(is_rest(0.0, 2.0, &copies(1.0, 0.0), &[1.0, 0.0]), "a single one");
    }

    #[test]
    fn copies_that_began_between_two_iterations_come_to_the_goal() {
        for (base, goal, copies) in [(0.5, 10.0, 2), (2.25, 7.5, 3), (0.999, 20.0, 3), (3.0, 11.0, 2)] {
            // A program may go on from what it was told, or count in whole numbers.
            for first in [base, f64::floor(base)] {
                let until = base as u64;
                let mut all = vec![Runner { iterations: first, until, speed: 0.0 }; copies];
                let mut rounds = 0;
                while let Some(ends) = ends(base, goal, &all) {
                    for (copy, until) in all.iter_mut().zip(ends) {
                        copy.until = until;
                        while copy.iterations < until as f64 {
                            copy.iterations += 1.0;
                        }
                    }
                    rounds += 1;
                    assert!(rounds < 100, "they wait for ever: {base}, {goal}, {all:?}");
                }
                let sum = base + all.iter().map(|copy| copy.iterations - base).sum::<f64>();
                assert!(sum < goal + 1.0 + copies as f64, "{base}, {goal}: {all:?}");
                assert!(base.fract() > 0.0 || sum == goal, "{base}, {goal}: {all:?}");
            }
        }
    }
}
