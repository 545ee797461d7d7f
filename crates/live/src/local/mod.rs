//! The executor for one machine.
