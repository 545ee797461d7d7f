//! Identifiers: distinct types over small integers, dense from zero, so that they index vectors.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The position this id has in a vector that is indexed by it.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A job, numbered in the order in which the backend first knew it.
    JobId(u32),
    "job "
);
id!(
    /// A machine.
    NodeId(u32),
    "node "
);
id!(
    /// A rack (or switch) that nodes share.
    RackId(u16),
    "rack "
);
id!(
    /// A kind of GPU; an index into [`super::Cluster::gpu_types`].
    GpuTypeId(u8),
    "gpu type "
);
id!(
    /// A tenant (user, team, virtual cluster); an index into [`super::Tenants`].
    TenantId(u32),
    "tenant "
);
id!(
    /// A kind of model that is trained; the same number means the same speed and curve family.
    ModelId(u32),
    "model "
);
id!(
    /// A task of a job. Data-parallel jobs have two: workers are task 0, parameter servers task 1.
    TaskId(u32),
    "task "
);
id!(
    /// A forked copy of a job (HadarE). Jobs that were never forked have copy 0 only.
    CopyId(u16),
    "copy "
);
id!(
    /// Numbers the starts of a job. Events and actions of an older attempt are ignored.
    Attempt(u32),
    "attempt "
);

impl Attempt {
    /// The attempt after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
