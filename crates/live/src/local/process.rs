//! Processes of this machine: who is who, and whether it is still there.

use std::fs;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A process. Numbers are used again after a while; with the time of its beginning it is the same or it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Clock ticks since the machine started.
    pub(super) began: u64,
}

impl Identity {
    /// The process with this number now, unless it has ended.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let (state, began) = stat(pid)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, began })
    }

    /// This process.
    pub(super) fn mine() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid).unwrap_or(Self { pid, began: 0 })
    }

    pub(super) fn lives(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal, if the process is still there.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.lives()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Sends a signal to a process group.
pub(super) fn signal_group(leader: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// State and beginning of a process; see proc(5).
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, after) = text.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let began = fields.nth(18)?.parse().ok()?;
    Some((state, began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_was_reaped_does_not() {
        assert!(Identity::mine().lives());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = Identity::of(child.id() as i32).unwrap();
        assert!(id.lives());
        assert!(!Identity { began: id.began + 1, ..id }.lives(), "another process with the same number");
        id.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!id.lives());
    }
}
