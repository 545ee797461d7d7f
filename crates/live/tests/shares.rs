//! What a share of the processor is worth: programs that spin, and what the kernel says that they used.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Yard, gang, shell};
use trainyard_live::Work;
use trainyard_live::board::Standing;
use trainyard_live::local::Confinement;
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{JobId, Parallelism, Resources, WorkerRange};

/// A worker with so many thousandths of a core.
const fn part(cpu_milli: u64) -> Resources {
    Resources { cpu_milli, ..Resources::NONE }
}

fn spins() -> Work {
    Work { grace_s: 1, ..shell("while :; do :; done") }
}

fn yard(policy: &'static str) -> Option<Yard> {
    let yard = Yard::begin_confined(policy, "1x1:cpu");
    if yard.is_none() {
        println!("skipped: control groups cannot be made on this machine");
    }
    yard
}

/// A part of a file that an attempt left, as JSON.
fn part_of(yard: &Yard, job: JobId, file: &str, pointer: &str) -> serde_json::Value {
    let path = yard.path().join("jobs").join(job.0.to_string()).join("1").join(file);
    let text = fs::read_to_string(&path).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    all.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {text}")).clone()
}

/// Seconds of the processor that the first program of a job used; see proc(5).
fn used_s(yard: &Yard, job: JobId) -> f64 {
    let pid = part_of(yard, job, "running.json", "/programs/0/pid");
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    // Linux counts in hundredths of a second here, whatever its own ticks are.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// The part of a core to which a job's first program is held.
fn quota(yard: &Yard, job: JobId) -> f64 {
    let group: PathBuf = part_of(yard, job, "order.json", "/programs/0/groups/0").as_str().unwrap().into();
    let number = |text: &str| text.trim().parse::<f64>().unwrap();
    let read = |name: &str| fs::read_to_string(group.join(name)).unwrap();
    match yard.confinement() {
        Confinement::V1 { .. } => number(&read("cpu.cfs_quota_us")) / number(&read("cpu.cfs_period_us")),
        _ => {
            let text = read("cpu.max");
            let (quota, period) = text.split_once(' ').unwrap();
            number(quota) / number(period)
        }
    }
}

#[test]
fn who_has_four_times_the_share_computes_four_times_as_much_and_no_more_than_that() {
    let Some(yard) = yard("fifo") else { return };
    let small = yard.submit(Parallelism::rigid(1, part(100)), spins());
    let large = yard.submit(Parallelism::rigid(1, part(400)), spins());
    yard.until(|board| [small, large].iter().all(|job| board.jobs[job].state == Standing::Running));
    let begun = (Instant::now(), used_s(&yard, small), used_s(&yard, large));
    std::thread::sleep(Duration::from_secs(3));
    let (few, many) = (used_s(&yard, small) - begun.1, used_s(&yard, large) - begun.2);
    // Both are held back alike when the machine is busy, so it is the ratio that counts.
    assert!((2.5..6.5).contains(&(many / few)), "{many} s against {few} s");
    let most = 0.4 * begun.0.elapsed().as_secs_f64();
    assert!(many <= most * 1.2 + 0.1, "{many} s, and {most} s are its share");
}

#[test]
fn a_job_that_must_give_way_is_held_to_less_while_it_runs() {
    let Some(yard) = yard("fair") else { return };
    let elastic = Parallelism::elastic(WorkerRange { min: 1, max: 16 }, part(50));
    let first = yard.submit(elastic.clone(), spins());
    // One that has not begun yet is started anew instead.
    yard.until(|board| board.jobs[&first].state == Standing::Running && board.jobs[&first].workers == 16);
    assert!((quota(&yard, first) - 0.8).abs() < 1e-9);
    let second = yard.submit(elastic, spins());
    yard.until(|board| board.jobs[&first].workers == 10 && board.jobs[&second].workers == 10);
    assert!((quota(&yard, first) - 0.5).abs() < 1e-9);
    assert!((quota(&yard, second) - 0.5).abs() < 1e-9);
    assert_eq!(part_of(&yard, first, "control.json", "/workers"), 10);
    assert_eq!(yard.card(first).attempt, 1, "it was not started again");
}

#[test]
fn nothing_is_left_in_the_kernel_when_all_is_over() {
    let Some(mut yard) = yard("fifo") else { return };
    let (Confinement::V2 { root } | Confinement::V1 { cpu: root, .. }) = yard.confinement().clone() else {
        unreachable!("there are control groups")
    };
    let job = yard.submit(gang(1), shell("sleep 0.2"));
    yard.until(|board| board.jobs[&job].state == Standing::Running);
    assert!(root.exists());
    yard.ends(job);
    yard.leave();
    assert!(!root.exists(), "{} is still there", root.display());
    // Another daemon makes its own again.
    yard.come_back();
    let job = yard.submit(gang(1), shell("true"));
    assert_eq!(yard.ends(job).outcome, Some(Outcome::Completed));
}
