//! Clusters from words and files. Says what machines and tenants there are; what happens to them is elsewhere.

mod words;

pub use words::{WordError, parse_words};
