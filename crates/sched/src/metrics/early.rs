//! How many jobs were cut short, by which rule, and what that spared.

use serde::{Deserialize, Serialize};

use crate::decide::{EarlyEnd, Enough};

/// Jobs that ended before their own end because they had had enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlySummary {
    /// Those that were as good as they were going to be.
    pub at_peak: u64,
    /// GPU-hours that all of them would still have taken, as far as could be foretold.
    pub gpu_hours_saved: f64,
    /// Those that were unlikely ever to be as good as their owners need.
    pub hopeless: u64,
    /// All of them.
    pub jobs: u64,
    /// Those that were as good as their owners need.
    pub reached: u64,
    /// Those that had not become better for a while.
    pub stalled: u64,
}

impl EarlySummary {
    /// Of these ends; nothing if there are none.
    pub fn of<'a>(ends: impl Iterator<Item = &'a EarlyEnd>) -> Option<Self> {
        let mut all = Self::default();
        for end in ends {
            all.jobs += 1;
            all.gpu_hours_saved += end.saved_gpu_s / 3600.0;
            *match end.why {
                Enough::Reached { .. } => &mut all.reached,
                Enough::AtPeak { .. } => &mut all.at_peak,
                Enough::Stalled { .. } => &mut all.stalled,
                Enough::Hopeless { .. } => &mut all.hopeless,
            } += 1;
        }
        (all.jobs > 0).then_some(all)
    }
}
