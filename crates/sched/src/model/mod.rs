//! The nouns: what a cluster, a job and an allocation are. No algorithms, no clock, no policy.

mod allocation;
mod cluster;
mod copies;
mod curve;
mod goals;
mod graph;
mod ids;
mod job;
mod links;
mod parallelism;
mod rates;
mod resources;
mod seed;
mod speed;
mod tenants;
mod time;
mod usage;

pub use allocation::{Allocation, GpuSet, MAX_GPUS_PER_NODE, Placement, SERVER_TASK, WORKER_TASK};
pub use cluster::{Cluster, ClusterError, GpuType, GpuTypeSet, Node, NodeState};
pub use copies::{CopyProgress, Quotas};
pub(crate) use curve::any_number;
pub use curve::{Better, Convergence, Curve, LossPoint};
pub use goals::{Accuracy, Goals, PriorityClass, Relaxing, StopRule, Urgency};
pub use graph::{AllReduce, Along, Edge, GraphError, MAX_EDGES, MAX_TASKS, Task, TaskGraph};
pub use ids::{Attempt, CopyId, GpuTypeId, JobId, ModelId, NodeId, RackId, TaskId, TenantId};
pub use job::{Declared, DeclaredLoss, Job, MoveCost, Topology, Wanted};
pub use links::{Link, Links};
pub use parallelism::{DataParallel, Parallelism, WorkerRange};
pub use rates::{Profiled, Rate, RateBeside, Rates};
pub use resources::{GPU, Resources, UNLIMITED};
pub use seed::Seed;
pub use speed::{SpeedFunction, SpeedTable};
pub use tenants::{Quota, Tenant, Tenants, TenantsError, Weight};
pub use time::{Span, Time};
pub use usage::{TaskUse, Usage};
