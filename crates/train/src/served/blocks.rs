//! The blocks that the numbers of a model are cut into, and which server holds which.
//!
//! Source: Peng and others, "DL2" (TPDS 2021), section 5: best fit, so that all servers hold nearly equal amounts and as little as
//! possible is moved.

use std::ops::Range;

use crate::net::MOST_VALUES_IN_FRAME;

/// A block and its velocity fit into one frame.
const MOST_VALUES: usize = MOST_VALUES_IN_FRAME / 2;
/// A smaller block is not worth a frame.
const LEAST_VALUES: usize = 64;
/// Small models are cut into so many blocks.
const BLOCKS: usize = 64;

/// How numbers are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    width: usize,
    size: usize,
}

impl Blocks {
    /// Blocks of so many numbers.
    pub(super) fn of(width: usize) -> Self {
        Self { width, size: width.div_ceil(BLOCKS).clamp(LEAST_VALUES, MOST_VALUES) }
    }

    pub(super) fn count(self) -> usize {
        self.width.div_ceil(self.size)
    }

    /// The numbers of a block, which must be one of these.
    pub(super) fn numbers(self, block: usize) -> Range<usize> {
        let first = block * self.size;
        first..(first + self.size).min(self.width)
    }

    /// The same of a block that was sent.
    pub(super) fn known(self, block: u32) -> Option<Range<usize>> {
        let block = block as usize;
        (block < self.count()).then(|| self.numbers(block))
    }

    /// A server for each block. `homes` says where they are now, if that server stays; servers are numbers below `servers`.
    pub(super) fn assign(self, homes: &[Option<usize>], servers: usize) -> Vec<usize> {
        let size = |block: usize| self.numbers(block).len();
        let mut loads = vec![0; servers];
        for (block, home) in homes.iter().enumerate() {
            if let Some(home) = home {
                loads[*home] += size(block);
            }
        }
        let least = |loads: &[usize]| (0..servers).min_by_key(|server| loads[*server]).expect("there is one");
        let mut assigned = Vec::with_capacity(homes.len());
        for (block, home) in homes.iter().enumerate() {
            assigned.push(home.unwrap_or_else(|| {
                let server = least(&loads);
                loads[server] += size(block);
                server
            }));
        }
        loop {
            let to = least(&loads);
            let from = (0..servers).rev().max_by_key(|server| loads[*server]).expect("there is one");
            let gap = loads[from] - loads[to];
            // What brings the two nearest together; anything as large as the gap would only swap them.
            let fits = |block: &usize| assigned[*block] == from && size(*block) < gap;
            let Some(block) =
                (0..assigned.len()).filter(fits).min_by_key(|block| gap.abs_diff(2 * size(*block)))
            else {
                return assigned;
            };
            loads[from] -= size(block);
            loads[to] += size(block);
            assigned[block] = to;
        }
    }

    /// The server that leaves first: the one with the least, since the least is moved then.
    pub(super) fn least(self, homes: &[Option<usize>], servers: usize) -> usize {
        let load = |server: &usize| -> usize {
            let own = homes.iter().enumerate().filter(|(_, home)| **home == Some(*server));
            own.map(|(block, _)| self.numbers(block).len()).sum()
        };
        (0..servers).rev().min_by_key(load).expect("there is one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(blocks: Blocks, homes: &[usize], servers: usize) -> Vec<usize> {
        let mut loads = vec![0; servers];
        homes.iter().enumerate().for_each(|(block, home)| loads[*home] += blocks.numbers(block).len());
        loads
    }

    fn spread(loads: &[usize]) -> usize {
        loads.iter().max().unwrap() - loads.iter().min().unwrap()
    }

    #[test]
    fn blocks_cover_all_numbers_and_fit_into_frames() {
        for width in [1, 63, 64, 65, 200, 4096, 4097, 1_000_003, 5_000_000] {
            let blocks = Blocks::of(width);
            let mut next = 0;
            for block in 0..blocks.count() {
                let numbers = blocks.numbers(block);
                assert_eq!(numbers.start, next);
                assert!(!numbers.is_empty() && 2 * numbers.len() <= MOST_VALUES_IN_FRAME);
                next = numbers.end;
            }
            assert_eq!(next, width);
            assert!(blocks.known(blocks.count() as u32).is_none());
        }
    }

    #[test]
    fn servers_that_come_take_their_fair_part_and_nothing_else_moves() {
        for width in [200, 10_000, 1_000_003] {
            let blocks = Blocks::of(width);
            let size = blocks.numbers(0).len();
            for before in 1..8 {
                let first = blocks.assign(&vec![None; blocks.count()], before);
                assert!(spread(&loads(blocks, &first, before)) <= size, "{width} on {before}");
                for after in before..14 {
                    let homes: Vec<Option<usize>> = first.iter().copied().map(Some).collect();
                    let second = blocks.assign(&homes, after);
                    let new = loads(blocks, &second, after);
                    assert!(spread(&new) <= size, "{width}: {before} to {after}");
                    let moved: Vec<usize> =
                        (0..first.len()).filter(|block| first[*block] != second[*block]).collect();
                    assert!(moved.iter().all(|block| second[*block] >= before), "only newcomers get any");
                    let share = (0..before).map(|server| new[server]).min().expect("there is one");
                    assert!(new[before..].iter().all(|load| load + size >= share), "and each gets its part");
                }
            }
        }
    }

    #[test]
    fn what_a_leaving_server_had_is_spread_and_nothing_else_moves() {
        let blocks = Blocks::of(1_000_003);
        for before in 2..8 {
            let first = blocks.assign(&vec![None; blocks.count()], before);
            let homes: Vec<Option<usize>> = first.iter().copied().map(Some).collect();
            let victim = blocks.least(&homes, before);
            let least = loads(blocks, &first, before);
            assert_eq!(least[victim], *least.iter().min().unwrap());
            let renamed = |home: usize| if home > victim { home - 1 } else { home };
            let staying: Vec<Option<usize>> =
                first.iter().map(|home| (*home != victim).then(|| renamed(*home))).collect();
            let second = blocks.assign(&staying, before - 1);
            assert!(spread(&loads(blocks, &second, before - 1)) <= blocks.numbers(0).len());
            for (block, home) in staying.iter().enumerate() {
                assert!(home.is_none_or(|home| home == second[block]), "block {block} stays");
            }
        }
    }
}
