//! The speed of replays; empty until there is a backend to replay with.

fn main() {}
