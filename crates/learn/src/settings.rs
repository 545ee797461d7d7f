//! What may be set of school and practice; docs/learning.md has all of it with its meaning.

use serde::{Deserialize, Serialize};

/// What is varied while it learns, from the first step to the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Falling {
    /// At the first step.
    pub from: f64,
    /// At the last.
    pub to: f64,
}

impl Falling {
    pub(crate) fn at(self, part: f64) -> f64 {
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }
}

/// How to learn from progress.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Practice {
    /// Steps; there is one after each slot of all clusters.
    pub updates: usize,
    /// Samples in each step, over all clusters.
    pub batch: usize,
    /// The size of a step of the policy.
    pub rate: Falling,
    /// The size of a step of the critic.
    pub critic_rate: Falling,
    /// Whether gains are divided by their spread in a batch.
    pub normalised: bool,
    /// Whether jobs of the window change places by chance before they are learned from.
    pub shuffles: bool,
    /// What a reward one slot later is worth.
    pub gamma: f32,
    /// Samples that are remembered.
    pub memory: usize,
    /// There is no step before so many are there.
    pub begin_at: usize,
    /// How likely a rule of thumb acts instead of the network.
    pub exploring: Falling,
    /// How likely a slot goes to numbers that are drawn for each job.
    pub aims: Falling,
    /// How much of a gain is what came of the whole slot; the rest is what the critic takes the next state of the slot to be
    /// better.
    pub whole: f32,
    /// The ratio of workers and servers beyond which it does.
    pub ratio: f64,
    /// The weight of entropy.
    pub entropy: Falling,
    /// A longer gradient is shortened to this.
    pub longest: f32,
    /// Whether there is a critic; else rewards are measured against their moving average.
    pub critic: bool,
    /// Whether an action is rewarded by the progress of the job that it served, and not of all.
    pub own_reward: bool,
    /// Whether slots are remembered; else only the last one is learned from.
    pub remembers: bool,
    /// Clusters that learn together.
    pub clusters: usize,
}

impl Default for Practice {
    fn default() -> Self {
        Self {
            updates: 20_000,
            batch: 512,
            rate: Falling { from: 1e-3, to: 1e-4 },
            critic_rate: Falling { from: 2e-3, to: 2e-4 },
            normalised: true,
            shuffles: true,
            gamma: 0.0,
            memory: 32_768,
            begin_at: 1024,
            exploring: Falling { from: 0.4, to: 0.05 },
            aims: Falling { from: 0.8, to: 0.05 },
            whole: 0.0,
            ratio: 10.0,
            entropy: Falling { from: 0.02, to: 0.003 },
            longest: 0.5,
            critic: true,
            own_reward: false,
            remembers: true,
            clusters: 1,
        }
    }
}

/// How to learn from another scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schooling {
    /// Steps.
    pub updates: usize,
    /// Labels in each.
    pub batch: usize,
    /// The size of a step.
    pub rate: f32,
    /// The part of the probability that is spread over all that might have been done.
    pub smoothing: f32,
    /// Labels that are kept, evenly drawn from all.
    pub labels: usize,
    /// Traces that the other one is watched in.
    pub traces: usize,
}

impl Default for Schooling {
    fn default() -> Self {
        Self { updates: 200, batch: 256, rate: 0.005, smoothing: 0.02, labels: 8192, traces: 10 }
    }
}
