//! Loop.
