//! Places at which a test may let the daemon die. Each time one is passed it is counted; at the number that was asked for
//! the process kills itself, as `kill -9` would.

use std::sync::atomic::{AtomicU64, Ordering};

static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Dies at the `number`th place, counted from 1.
pub fn die_at(number: u64) {
    LEFT.store(number, Ordering::SeqCst);
}

/// A place.
pub(crate) fn point() {
    if LEFT.load(Ordering::SeqCst) == u64::MAX {
        return;
    }
    if LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
