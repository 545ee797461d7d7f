//! How fast on which type of GPU, and beside whom? Speeds that nobody measured, from those that somebody did.

mod beside;
mod factorisation;
mod unseen;

pub use beside::{References, pair_table};
pub use factorisation::complete;
pub use unseen::{Library, Profile, Unseen, unseen_per_s};
