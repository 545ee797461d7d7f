//! Processes of this machine: who is who, and whether it is still there.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// How often what must go is looked for, and how long it is waited for each time.
const KILL_ROUNDS: u32 = 100;
const KILL_ROUND: Duration = Duration::from_millis(2);

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

/// Kills every process in whose environment this variable has this value, wherever it put itself; a process that starts
/// others while they are looked for is found at the next look. Says whether none is left.
pub(super) fn kill_marked(variable: &str, value: &Path) -> bool {
    let mark = [variable.as_bytes(), b"=", value.as_os_str().as_bytes()].concat();
    kill_until_none(|| with_environment(&mark))
}

/// Kills what `find` finds, again and again for a short while. Says whether it finds nothing any more.
pub(super) fn kill_until_none(find: impl Fn() -> Vec<Pid>) -> bool {
    for _ in 0..KILL_ROUNDS {
        let found = find();
        if found.is_empty() {
            return true;
        }
        for pid in found {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(KILL_ROUND);
    }
    false
}

/// Processes with this entry in the environment that they began with. A dead one has none.
fn with_environment(mark: &[u8]) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers =
        processes.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()));
    let marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark))
    };
    numbers.filter(marked).filter_map(Pid::from_raw).collect()
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
