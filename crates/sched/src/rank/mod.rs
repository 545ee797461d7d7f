//! Who goes next? Queues by shape, and service bands. Plain functions on nouns and numbers.

mod bands;
mod queue;

pub use bands::Bands;
pub use queue::{Queue, Shape, Waiting, Walk};
