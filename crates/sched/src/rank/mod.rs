//! Who goes next? Queues by shape, service bands, and a greedy by gain. Plain functions on nouns and numbers.

mod bands;
mod gain;
mod queue;

pub use bands::Bands;
pub use gain::{Offer, hand_out, ordered};
pub use queue::{Queue, Shape, Waiting, Walk};
