//! Training programs: six classic algorithms on real data, with real gradients and real losses.
//!
//! They are jobs that a cluster may run: each iteration reports its loss, the number of threads may change between two
//! iterations, and all state can be written down and taken up again. They know nothing of scheduling.
//!
//! Whatever is summed over rows is summed over fixed shards and added up along a fixed tree ([`Pool`]), so that losses are the same
//! byte for byte on any number of threads. What a shard contributes is always apart from what is done with the sum, so that several
//! processes can share a training: as the ranks of a ring ([`Meeting`]), or as workers and parameter servers that come and go
//! ([`coordinate`]). An algorithm that is a chain of layers can be cut into partitions instead, a process each ([`partition()`]). Or a job is several copies that train side by side and are averaged now and then ([`OneCopy`]).

pub mod algorithms;
pub mod data;

mod address;
mod algorithm;
mod checkpoint;
mod copy;
mod descent;
mod error;
mod linear;
mod merge;
mod momentum;
mod net;
mod notice;
mod order;
mod parameters;
mod partitions;
mod pool;
mod program;
mod report;
mod ring;
mod served;
mod tensors;

pub use algorithm::{Algorithm, Begin, Entry, Measured};
pub use checkpoint::{Checkpoint, Identity};
pub use copy::OneCopy;
pub use error::TrainError;
pub use net::Token;
pub use notice::Notice;
pub use parameters::{Kind, Parameter, Values};
pub use partitions::{Held, Partition, Partitioning, latest, partition};
pub use pool::{Pool, SHARDS, Shards};
pub use program::{Ended, Files, Outcome, Stops, Training, run};
pub use report::{Line, Report};
pub use ring::{Meeting, Place};
pub use served::{Coordinating, Joining, Order, Scaled, coordinate, serve, work};
pub use tensors::{StateError, Tensor, Tensors};
