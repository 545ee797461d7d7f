//! The smallest number that is good enough, where more is usually better and not always. Knows nothing of clusters.

use std::collections::BTreeMap;

/// Numbers below the answer that are looked at in the end, because the curve need not fall all the time.
const NEIGHBOURS: u32 = 3;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The smallest number that was found to be good enough.
    pub(crate) answer: Option<u32>,
    /// The largest number that was tried.
    pub(crate) looked_up_to: u32,
    /// Whether a larger number was seen to be worse than a smaller one that is good enough.
    pub(crate) is_uneven: bool,
}

/// What came of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// It is good enough.
    Enough,
    /// It is not.
    TooLittle,
    /// It is not, and no larger one will be.
    Hopeless,
}

/// Numbers that were tried, each once.
struct Trials<F> {
    seen: BTreeMap<u32, Tried>,
    attempt: F,
}

impl<F> Trials<F> {
    fn of<E>(&mut self, number: u32) -> Result<Tried, E>
    where
        F: FnMut(u32) -> Result<Tried, E>,
    {
        if let Some(known) = self.seen.get(&number) {
            return Ok(*known);
        }
        let tried = (self.attempt)(number)?;
        self.seen.insert(number, tried);
        Ok(tried)
    }

    fn is_enough<E>(&mut self, number: u32) -> Result<bool, E>
    where
        F: FnMut(u32) -> Result<Tried, E>,
    {
        Ok(self.of(number)? == Tried::Enough)
    }

    fn found(&self, answer: Option<u32>) -> Found {
        let worse = |(number, tried): (&u32, &Tried)| {
            answer.is_some_and(|answer| *number > answer) && *tried != Tried::Enough
        };
        let looked_up_to = self.seen.keys().next_back().copied().unwrap_or_default();
        Found { answer, looked_up_to, is_uneven: self.seen.iter().any(worse) }
    }
}

/// Looks for the smallest number up to `limit` by doubling from 1, then by halving the gap, then at neighbours: the next
/// ones below the answer, as long as one of them is good enough, and the one above. Each number is tried once.
pub(crate) fn smallest<E>(limit: u32, attempt: impl FnMut(u32) -> Result<Tried, E>) -> Result<Found, E> {
    let mut trials = Trials { seen: BTreeMap::new(), attempt };
    let (mut below, mut answer) = (0, 0);
    loop {
        match trials.of(answer)? {
            Tried::Enough => break,
            Tried::TooLittle if answer < limit => {}
            Tried::TooLittle | Tried::Hopeless => return Ok(trials.found(None)),
        }
        below = answer;
        answer = (answer * 2).clamp(1, limit);
    }
    while answer - below > 1 {
        let middle = below + (answer - below) / 2;
        if trials.is_enough(middle)? { answer = middle } else { below = middle }
    }
    let mut lower = answer;
    while lower > answer.saturating_sub(NEIGHBOURS) {
        lower -= 1;
        if trials.is_enough(lower)? {
            answer = lower;
        }
    }
    if answer > 0 && answer < limit {
        trials.of(answer + 1)?;
    }
    Ok(trials.found(Some(answer)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn search(limit: u32, enough: impl Fn(u32) -> bool) -> (Found, Vec<u32>) {
        let mut tried = Vec::new();
        let found = smallest(limit, |number| {
            tried.push(number);
            Ok::<_, Infallible>(if enough(number) { Tried::Enough } else { Tried::TooLittle })
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn on_an_even_curve_it_finds_what_a_scan_finds() {
        for limit in [0, 1, 2, 7, 100] {
            for least in 0..=limit + 1 {
                let (found, tried) = search(limit, |number| number >= least);
                let scan = (0..=limit).find(|number| *number >= least);
                assert_eq!((found.answer, found.is_uneven), (scan, false), "{least} of {limit}");
                let mut once = tried.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), tried.len(), "each number is tried once");
                assert!(tried.len() <= 20 && tried.iter().all(|number| *number <= limit));
            }
        }
    }

    #[test]
    fn near_dips_are_found_and_unevenness_is_told() {
        let (found, _) = search(100, |number| number == 18 || number >= 21);
        assert_eq!(found.answer, Some(18));
        assert!(found.is_uneven, "19 is worse");
        let (found, _) = search(100, |number| [10, 13, 16].contains(&number) || number >= 17);
        assert_eq!(found.answer, Some(10), "from neighbour to neighbour");
    }

    #[test]
    fn it_says_how_far_it_looked_and_stops_where_there_is_no_hope() {
        let (found, tried) = search(50, |_| false);
        assert_eq!((found.answer, found.looked_up_to), (None, 50));
        assert_eq!(tried, [0, 1, 2, 4, 8, 16, 32, 50]);
        let hopeless =
            |number| Ok::<_, Infallible>(if number < 4 { Tried::TooLittle } else { Tried::Hopeless });
        assert_eq!(smallest(50, hopeless).unwrap().looked_up_to, 4);
    }
}
