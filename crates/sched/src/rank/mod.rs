//! Who goes next? Queues by shape, shares, and service bands. Plain functions on nouns and numbers.

mod bands;
mod queue;
mod share;

pub use bands::Bands;
pub use queue::{Queue, Shape, Waiting, Walk};
pub use share::Shares;
