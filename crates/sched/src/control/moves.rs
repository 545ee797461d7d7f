//! Jobs that are ordered to hold something else while they run: until that is reported they hold both.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::model::{Allocation, GpuSet, Placement};

/// A move that was ordered and not yet reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Move {
    pub(super) to: Allocation,
    pub(super) extra: Parts,
}

/// Parts of an allocation; most often one.
pub(super) type Parts = SmallVec<[Placement; 2]>;

/// What of `wanted` is not part of `held`, part by part: further instances, further devices, and more of devices that are
/// held in part. Where only the devices change there are no further instances.
pub(super) fn beyond(wanted: &Allocation, held: &Allocation) -> Parts {
    let more = |want: &Placement| {
        let same = |have: &&Placement| (have.copy, have.task, have.node) == (want.copy, want.task, want.node);
        let Some(have) = held.placements().iter().find(same) else { return [Some(*want), None] };
        let mut more = *want;
        more.count = want.count.saturating_sub(have.count);
        more.gpus.devices &= !have.gpus.devices;
        let share_milli = want.gpus.share_milli.saturating_sub(have.gpus.share_milli);
        let devices = if share_milli > 0 { want.gpus.devices & have.gpus.devices } else { 0 };
        let rest = Placement { count: 0, gpus: GpuSet { devices, share_milli }, ..*want };
        [Some(more), Some(rest)]
    };
    let mut parts = Parts::new();
    for part in wanted.placements().iter().flat_map(more).flatten() {
        if part.count > 0 || part.gpus.devices != 0 {
            parts.push(part);
        }
    }
    parts
}
