//! What the specification asks of Gavel's parts on drawn and on known instances (checks G-3, G-9 and G-11). Tests use it, and
//! whoever shows how far off the parts are.

mod hierarchy;
mod limits;
mod received;

pub use hierarchy::{LEVELS, hierarchy, levels};
pub use limits::{beyond, broken, limits};
pub use received::received;
