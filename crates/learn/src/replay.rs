//! What was done and what came of it: a memory that gives back more often what was surprising (Schaul et al., 2016, as the
//! public code of DL2 has it; specification B4.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64;

/// One action.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What was seen.
    pub state: Arc<[f32]>,
    /// What was seen next in the same slot; nothing if this was the last.
    pub after: Option<Arc<[f32]>>,
    /// What might have been done.
    pub open: Box<[bool]>,
    /// What was done.
    pub action: u32,
    /// How likely that was.
    pub likely: f32,
    /// In which slot.
    pub slot: u64,
    /// What came of this action alone, where that counts and not what came of the slot.
    pub reward: Option<f32>,
}

/// What came of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Progress until the next slot in which something was done, that of later slots discounted.
    pub reward: f32,
    /// What was seen first then, and by how much its worth is discounted; nothing if all was over.
    pub next: Option<(Arc<[f32]>, f32)>,
}

/// A sample with how much it counts.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Its position, for [`Replay::surprise`].
    pub at: usize,
    /// How much its gradient counts: less if it is drawn often; the rarest counts 1.
    pub weight: f32,
}

const LEAST_SURPRISE: f64 = 0.01;
const MOST_SURPRISE: f64 = 4.0;
const SURPRISE_POWER: f64 = 0.9;

/// The memory.
pub struct Replay {
    most: usize,
    samples: Vec<Sample>,
    /// The oldest, once it is full.
    oldest: usize,
    /// Priorities in the leaves, sums above them; the root is at 1.
    tree: Vec<f64>,
    outcomes: BTreeMap<u64, Outcome>,
    /// Sum of the rewards of all outcomes.
    rewards: f64,
}

impl Replay {
    /// Room for so many samples.
    pub fn new(most: usize) -> Self {
        let most = most.next_power_of_two();
        Self {
            most,
            samples: Vec::new(),
            oldest: 0,
            tree: vec![0.0; 2 * most],
            outcomes: BTreeMap::new(),
            rewards: 0.0,
        }
    }

    /// How many samples there are.
    pub const fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// A sample.
    pub fn sample(&self, at: usize) -> &Sample {
        &self.samples[at]
    }

    /// What came of the slot of a sample.
    pub fn outcome(&self, slot: u64) -> &Outcome {
        &self.outcomes[&slot]
    }

    /// Takes in a slot. The oldest samples make room.
    pub fn add(&mut self, slot: u64, samples: Vec<Sample>, outcome: Outcome) {
        let mean = self.rewards / self.outcomes.len().max(1) as f64;
        let priority = (f64::from(outcome.reward) - mean).max(1.0);
        self.rewards += f64::from(outcome.reward);
        self.outcomes.insert(slot, outcome);
        for sample in samples {
            let at = if self.samples.len() < self.most {
                self.samples.push(sample);
                self.samples.len() - 1
            } else {
                let at = self.oldest;
                self.oldest = (at + 1) % self.most;
                self.samples[at] = sample;
                at
            };
            self.set(at, priority);
        }
        let first = self.samples.get(self.oldest).map_or(slot, |sample| sample.slot);
        while let Some(entry) = self.outcomes.first_entry().filter(|entry| *entry.key() < first) {
            self.rewards -= f64::from(entry.remove().reward);
        }
    }

    fn set(&mut self, at: usize, priority: f64) {
        let mut node = self.most + at;
        self.tree[node] = priority;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1];
        }
    }

    /// So many samples, each drawn from an equal part of all priorities. `correction` says by which power of its probability
    /// a sample counts less.
    pub fn draw(&self, count: usize, correction: f64, random: &mut Pcg64) -> Vec<Drawn> {
        let (all, part) = (self.tree[1], self.tree[1] / count as f64);
        let mut drawn: Vec<(usize, f64)> = Vec::with_capacity(count);
        for i in 0..count {
            let at = self.find((i as f64 + random.random::<f64>()) * part);
            drawn.push((at, self.tree[self.most + at] / all));
        }
        let rarest = drawn.iter().map(|(_, p)| *p).fold(f64::INFINITY, f64::min);
        drawn.into_iter().map(|(at, p)| Drawn { at, weight: (p / rarest).powf(-correction) as f32 }).collect()
    }

    /// The sample at which the sum of priorities passes this.
    fn find(&self, mut sum: f64) -> usize {
        let mut node = 1;
        while node < self.most {
            node *= 2;
            // Rounding must not lead to where nothing is.
            if sum >= self.tree[node] && self.tree[node + 1] > 0.0 {
                sum -= self.tree[node];
                node += 1;
            }
        }
        (node - self.most).min(self.samples.len() - 1)
    }

    /// Says how far off a sample's worth was.
    pub fn surprise(&mut self, at: usize, by: f32) {
        let by = if by.is_finite() { f64::from(by.abs()) } else { MOST_SURPRISE };
        self.set(at, (by + LEAST_SURPRISE).min(MOST_SURPRISE).powf(SURPRISE_POWER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    fn samples(slot: u64, count: u32) -> Vec<Sample> {
        let one = |action| Sample {
            state: Arc::new([]),
            after: None,
            open: Box::new([]),
            action,
            likely: 1.0,
            slot,
            reward: None,
        };
        (0..count).map(one).collect()
    }

    fn outcome(reward: f32) -> Outcome {
        Outcome { reward, next: None }
    }

    #[test]
    fn the_oldest_make_room_and_their_slots_are_forgotten() {
        let mut replay = Replay::new(8);
        (0..3).for_each(|slot| replay.add(slot, samples(slot, 5), outcome(slot as f32)));
        assert_eq!(replay.len(), 8);
        let mut kept: Vec<(u64, u32)> =
            (0..8).map(|at| (replay.sample(at).slot, replay.sample(at).action)).collect();
        kept.sort_unstable();
        assert_eq!(kept, [(1, 2), (1, 3), (1, 4), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]);
        assert_eq!(replay.outcomes.keys().copied().collect::<Vec<u64>>(), [1, 2]);
        assert_eq!(replay.rewards, 3.0);
    }

    #[test]
    fn what_surprised_is_drawn_more_often_and_counts_less() {
        let mut random = Pcg64::seed_from_u64(3);
        let mut replay = Replay::new(4);
        replay.add(0, samples(0, 4), outcome(0.0));
        (0..4).for_each(|at| replay.surprise(at, if at == 2 { 10.0 } else { 0.99 }));
        let mut seen = [0_u32; 4];
        let mut weights = [0.0_f32; 4];
        for drawn in (0..1000).flat_map(|_| replay.draw(7, 1.0, &mut random)) {
            seen[drawn.at] += 1;
            weights[drawn.at] = drawn.weight;
        }
        let expected = 4.0_f64.powf(0.9);
        let ratio = f64::from(seen[2]) / (f64::from(seen[0] + seen[1] + seen[3]) / 3.0);
        assert!((ratio / expected - 1.0).abs() < 0.1, "{seen:?}");
        assert_eq!(weights[0], 1.0);
        assert!((f64::from(weights[2]) - 1.0 / expected).abs() < 1e-6, "{weights:?}");
        let even = replay.draw(50, 0.0, &mut random);
        assert!(even.iter().all(|drawn| drawn.weight == 1.0), "without correction all count alike");
    }
}
