//! What a policy may see: an immutable picture of the cluster and the jobs that have not ended.

mod causes;
mod job_view;
mod snapshot;

pub use causes::Causes;
pub use job_view::{Done, JobView, Note, Phase, Served};
pub use snapshot::{Changed, Jobs, Snapshot};
