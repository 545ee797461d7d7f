//! What the programs of tasks used lately: processors and memory, as the kernel counts them in their control groups, or by process
//! where it does not count there.
//!
//! It is told in the units of what jobs demand: a node that gives half a core for each core asked for counts half a core as one, and
//! where cores stand for GPUs, what was used is divided as what was asked for. What nobody measures, which is the network and real
//! GPUs, is taken to be used as declared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trainyard_sched::model::{GPU, Resources, TaskId, TaskUse, Usage};

use super::Options;
use super::process::Identity;
use super::watch::Watched;

/// How often it is told.
const EVERY: Duration = Duration::from_secs(5);

/// What programs used since they began, and the memory that they have now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) cpu_us: u64,
    pub(super) memory_bytes: u64,
}

/// Reads what was used between two looks.
#[derive(Debug, Default)]
pub(super) struct Meter {
    looked: Option<Instant>,
    /// By task and folder, which tells the starts of a task apart.
    before: BTreeMap<(TaskId, PathBuf), u64>,
}

impl Meter {
    /// What tasks used since the last time, if that is long enough ago.
    pub(super) fn read<'a>(
        &mut self,
        tasks: impl Iterator<Item = (TaskId, &'a Watched)>,
        options: &Options,
    ) -> Option<Usage> {
        let passed = self.looked.map(|looked| looked.elapsed());
        if passed.is_some_and(|passed| passed < EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let (mut seen, mut told) = (BTreeMap::new(), Vec::new());
        for (task, watched) in tasks {
            let Some(spent) = spent(watched) else { continue };
            let key = (task, watched.folder.0.clone());
            if let (Some(before), Some(passed)) = (self.before.get(&key), passed) {
                let cpus = spent.cpu_us.saturating_sub(*before) as f64 / 1e6 / passed.as_secs_f64();
                let used = used(task, watched, cpus, spent.memory_bytes, options);
                told.push(TaskUse { task, used });
            }
            seen.insert(key, spent.cpu_us);
        }
        self.before = seen;
        (!told.is_empty()).then(|| Usage::new(told))
    }
}

/// What real cores and memory are of what a task demands.
fn used(task: TaskId, watched: &Watched, cpus: f64, memory_bytes: u64, options: &Options) -> Resources {
    let held = &watched.gang.held;
    let demand = held.job.shape.demand_of(task).unwrap_or_default();
    let Some(placement) = held.allocation.placements().first() else { return Resources::NONE };
    let speed = options.speeds.get(placement.node.index()).copied().unwrap_or(1.0);
    let cpus = cpus / speed.max(1e-6);
    let virtual_cpus =
        options.cpus_per_gpu.map_or(0.0, |cpus| cpus * placement.gpus.milli() as f64 / GPU as f64);
    let milli = |amount: f64| (amount * GPU as f64).round() as u64;
    let (cpu_milli, gpu_milli) = match options.cpus_per_gpu {
        Some(per_gpu) if virtual_cpus > 0.0 => {
            let part = virtual_cpus / (virtual_cpus + demand.cpu_milli as f64 / GPU as f64);
            (milli(cpus * (1.0 - part)), milli(cpus * part / per_gpu))
        }
        _ => (milli(cpus), demand.gpu_milli),
    };
    Resources { gpu_milli, cpu_milli, memory_bytes, ..demand }
}

/// What the programs of a task have used, as far as the kernel says.
fn spent(watched: &Watched) -> Option<Spent> {
    let leaders = watched.folder.running()?.programs;
    let all = watched.groups().iter().enumerate().map(|(i, groups)| {
        let processes = || match groups.first() {
            Some(group) => inside(group),
            None => leaders.get(i).map_or_else(Vec::new, |leader| of_leader(*leader)),
        };
        let sum = |of: fn(i32) -> Option<u64>| processes().into_iter().filter_map(of).sum();
        Spent {
            cpu_us: groups.iter().find_map(|group| cpu_us_of_group(group)).unwrap_or_else(|| sum(cpu_us)),
            memory_bytes: groups
                .iter()
                .find_map(|group| memory_of_group(group))
                .unwrap_or_else(|| sum(memory)),
        }
    });
    Some(all.fold(Spent::default(), |sum, one| Spent {
        cpu_us: sum.cpu_us + one.cpu_us,
        memory_bytes: sum.memory_bytes + one.memory_bytes,
    }))
}

/// Processor time of a group: of version 2, or of version 1 where it counts.
fn cpu_us_of_group(group: &Path) -> Option<u64> {
    let v2 = || {
        let text = fs::read_to_string(group.join("cpu.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse::<u64>().ok())
    };
    let v1 = || {
        let text = fs::read_to_string(group.join("cpuacct.usage")).ok()?;
        Some(text.trim().parse::<u64>().ok()? / 1000)
    };
    v2().or_else(v1)
}

fn memory_of_group(group: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
    read("memory.current").or_else(|| read("memory.usage_in_bytes"))
}

/// The processes in a group.
fn inside(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The processes in the process group of a leader.
fn of_leader(leader: Identity) -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| stat(*pid, 2) == Some(leader.pid as u64)).collect()
}

/// Processor time of a process and of those children that it has waited for.
fn cpu_us(pid: i32) -> Option<u64> {
    // utime, stime, cutime and cstime.
    let ticks: u64 = (11..15).map(|field| stat(pid, field)).sum::<Option<u64>>()?;
    Some(ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// Resident memory of a process.
fn memory(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// A field of what the kernel says of a process, counted from its state; see proc(5).
fn stat(pid: i32, field: usize) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, after) = text.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_is_seen_to_use_time_and_memory() {
        let own = Identity::mine();
        let before = cpu_us(own.pid).unwrap();
        let block = vec![1_u8; 64 << 20];
        let until = Instant::now() + Duration::from_secs(20);
        while cpu_us(own.pid).unwrap() < before + 50_000 {
            assert!(Instant::now() < until, "time passes and none of it is counted");
            std::hint::black_box(block.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        assert!(memory(own.pid).unwrap() > 64 << 20);
        assert!(cpu_us(-1).is_none() && memory(-1).is_none());
        let leader = Identity { pid: stat(own.pid, 2).unwrap() as i32, began: 0 };
        assert!(of_leader(leader).contains(&own.pid));
    }
}
