//! How fast on which type of GPU? Speeds that nobody measured, from those that somebody did.

mod unseen;

pub use unseen::{Profile, Unseen, unseen_by_request, unseen_per_s};
