//! How programs are held to their share of the machine: by control groups where they can be made, and else by being
//! nice, which only counts when somebody else wants the processor too. Which it is, is said.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::process::{Identity, kill_until_none};

/// The period of CPU quotas in microseconds, the kernel's usual one.
const PERIOD_US: u64 = 100_000;
/// The smallest quota that the kernel takes.
const LEAST_QUOTA_US: u64 = 1_000;
/// One step of niceness changes a weight by this factor; see sched(7).
const NICE_FACTOR: f64 = 1.25;

/// How often, and after how long each time, it is tried to remove a group.
const REMOVE_ROUNDS: u32 = 50;
const REMOVE_ROUND: Duration = Duration::from_millis(2);

/// The way in which shares are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// Control groups, version 2.
    V2 {
        /// The group that has those of all attempts.
        root: PathBuf,
    },
    /// Control groups, version 1.
    V1 {
        /// The same for the processor.
        cpu: PathBuf,
        /// The same for memory, if that is allowed.
        memory: Option<PathBuf>,
    },
    /// Being nice.
    Nice,
}

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// CPU cores.
    pub(super) cpus: Option<f64>,
    /// Bytes of memory.
    pub(super) memory_bytes: Option<u64>,
}

impl Confinement {
    /// The best way there is on this machine; groups are called by `name`.
    pub fn find(name: &str) -> Self {
        Self::version_2(name).or_else(|| Self::version_1(name)).unwrap_or(Self::Nice)
    }

    fn version_2(name: &str) -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
        if !controllers.split_whitespace().any(|name| name == "cpu") {
            return None;
        }
        let own = own_group("")?;
        let (parent, root) = (mount.join(&own), mount.join(&own).join(name));
        share_out(&parent).ok()?;
        make(&root).ok()?;
        share_out(&root).ok()?;
        let sample = root.join("probe");
        make(&sample).ok()?;
        let works = sample.join("cpu.max").exists();
        let _ = fs::remove_dir(&sample);
        works.then_some(Self::V2 { root })
    }

    fn version_1(name: &str) -> Option<Self> {
        let of = |controller: &str, file: &str| -> Option<PathBuf> {
            let root = Path::new("/sys/fs/cgroup").join(controller).join(own_group(controller)?).join(name);
            make(&root).ok()?;
            let writable = fs::OpenOptions::new().write(true).open(root.join(file)).is_ok();
            writable.then_some(root)
        };
        let cpu = of("cpu", "cpu.cfs_quota_us")?;
        Some(Self::V1 { cpu, memory: of("memory", "memory.limit_in_bytes") })
    }

    /// What it is, as a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::V2 { root } => format!("CPU and memory are limited by control groups (v2) in {}", root.display()),
            Self::V1 { cpu, memory: Some(_) } => {
                format!("CPU and memory are limited by control groups (v1) in {}", cpu.display())
            }
            Self::V1 { cpu, memory: None } => format!(
                "CPU is limited by control groups (v1) in {}; memory by the size of the address space",
                cpu.display()
            ),
            Self::Nice => "control groups cannot be made here, so CPU shares are kept by niceness and affinity only: \
                           a program gets more than its share while nobody else wants it; memory is limited by the \
                           size of the address space"
                .to_owned(),
        }
    }

    /// The groups that have those of all attempts.
    fn roots(&self) -> Vec<&PathBuf> {
        match self {
            Self::V2 { root } => vec![root],
            Self::V1 { cpu, memory } => [Some(cpu), memory.as_ref()].into_iter().flatten().collect(),
            Self::Nice => Vec::new(),
        }
    }

    /// Removes the group that had those of all attempts, if none is left.
    pub fn leave(&self) {
        self.roots().into_iter().for_each(|root| drop(fs::remove_dir(root)));
    }

    /// Removes the groups of programs that nobody knows any more, and kills what is in them.
    pub(super) fn sweep(&self, is_known: impl Fn(&str) -> bool) {
        for root in self.roots() {
            let entries = fs::read_dir(root).into_iter().flatten().flatten();
            let unknown = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str());
                path.is_dir() && name.is_some_and(|name| !is_known(name))
            };
            let groups: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(unknown).collect();
            empty(&groups);
            remove(&groups);
        }
    }

    /// Makes the groups that have those of all attempts. They go when a daemon goes, and another may come.
    fn make_roots(&self) -> io::Result<()> {
        for root in self.roots() {
            let is_new = !root.exists();
            make(root)?;
            if let (true, Self::V2 { .. }) = (is_new, self) {
                share_out(root)?;
            }
        }
        Ok(())
    }

    /// The groups of one program, made if need be.
    pub(super) fn groups(&self, program: &str) -> io::Result<Vec<PathBuf>> {
        self.make_roots()?;
        let groups: Vec<PathBuf> = self.roots().into_iter().map(|root| root.join(program)).collect();
        groups.iter().try_for_each(|group| make(group))?;
        Ok(groups)
    }

    /// Holds the groups of a program to its share.
    pub(super) fn set(&self, groups: &[PathBuf], share: Share) -> io::Result<()> {
        let quota = share.cpus.map(|cpus| ((cpus * PERIOD_US as f64) as u64).max(LEAST_QUOTA_US));
        match self {
            Self::V2 { .. } => {
                let group = &groups[0];
                let cpu = quota.map_or_else(|| format!("max {PERIOD_US}"), |us| format!("{us} {PERIOD_US}"));
                fs::write(group.join("cpu.max"), cpu)?;
                // Where strangers want the processor too, what is left is divided like the shares.
                let weight = share.cpus.map_or(100, |cpus| ((cpus * 100.0).round() as u64).clamp(1, 10_000));
                fs::write(group.join("cpu.weight"), weight.to_string())?;
                let memory = share.memory_bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
                if group.join("memory.max").exists() {
                    fs::write(group.join("memory.max"), memory)?;
                }
                Ok(())
            }
            Self::V1 { memory, .. } => {
                fs::write(groups[0].join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                let cpu = quota.map_or_else(|| "-1".to_owned(), |us| us.to_string());
                fs::write(groups[0].join("cpu.cfs_quota_us"), cpu)?;
                let weight =
                    share.cpus.map_or(1024, |cpus| ((cpus * 1024.0).round() as u64).clamp(2, 262_144));
                fs::write(groups[0].join("cpu.shares"), weight.to_string())?;
                if let (Some(_), Some(bytes)) = (memory, share.memory_bytes) {
                    fs::write(groups[1].join("memory.limit_in_bytes"), bytes.to_string())?;
                }
                Ok(())
            }
            Self::Nice => Ok(()),
        }
    }

    /// Where there are no groups: niceness, processors and address space of a program.
    pub(super) fn manners(&self, share: Share) -> (Option<i32>, Option<usize>, Option<u64>) {
        match self {
            Self::V2 { .. } | Self::V1 { memory: Some(_), .. } => (None, None, None),
            Self::V1 { memory: None, .. } => (None, None, share.memory_bytes),
            Self::Nice => (
                share.cpus.map(niceness),
                share.cpus.filter(|cpus| *cpus >= 1.0).map(|cpus| cpus.ceil() as usize),
                share.memory_bytes,
            ),
        }
    }

    /// Changes the share of a program that runs.
    pub(super) fn change(
        &self,
        groups: &[PathBuf],
        leader: Option<Identity>,
        share: Share,
    ) -> io::Result<()> {
        if let (Self::Nice, Some(leader), Some(cpus)) = (self, leader, share.cpus) {
            let pid = rustix::process::Pid::from_raw(leader.pid);
            rustix::process::setpriority_pgrp(pid, niceness(cpus))?;
        }
        self.set(groups, share)
    }
}

/// Weights fall by a factor for each step, so a part of a core is so many steps.
fn niceness(cpus: f64) -> i32 {
    let steps = (1.0 / cpus.clamp(1e-3, 1.0)).ln() / NICE_FACTOR.ln();
    (steps.round() as i32).clamp(0, 19)
}

/// Kills what is left in the groups of a program. Says whether nothing is left.
pub(super) fn empty(groups: &[PathBuf]) -> bool {
    let inside = |group: &PathBuf| {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect::<Vec<_>>()
    };
    groups.iter().all(|group| kill_until_none(|| inside(group)))
}

/// Removes the groups of a program that is gone. The kernel needs a moment after the last process.
pub(super) fn remove(groups: &[PathBuf]) {
    for group in groups {
        for _ in 0..REMOVE_ROUNDS {
            match fs::remove_dir(group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(REMOVE_ROUND),
                _ => break,
            }
        }
    }
}

/// Lets the groups below one of version 2 be limited in what it can be limited in itself.
fn share_out(group: &Path) -> io::Result<()> {
    let controllers = fs::read_to_string(group.join("cgroup.controllers"))?;
    let has_memory = controllers.split_whitespace().any(|name| name == "memory");
    let wants = if has_memory { "+cpu +memory" } else { "+cpu" };
    fs::write(group.join("cgroup.subtree_control"), wants)
}

fn make(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// The group that this process is in, for a controller of version 1, or for version 2 if it is called "".
fn own_group(controller: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = controllers.split(',').any(|name| name == controller);
        is_it.then(|| PathBuf::from(path.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_part_of_a_core_is_nicer() {
        assert_eq!(niceness(1.0), 0);
        assert_eq!(niceness(4.0), 0);
        assert_eq!(niceness(0.5), 3);
        assert_eq!(niceness(0.05), 13);
        assert_eq!(niceness(1e-9), 19);
    }
}
