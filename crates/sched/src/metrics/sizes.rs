//! Waits by the size of jobs: large gangs and small jobs are kept waiting for different reasons, and a mean hides that.

use super::{JobRow, percentile};

/// Jobs of about one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeClass {
    /// The fewest GPUs of its jobs; the class begins above the one before.
    pub from_gpus: u64,
    /// The most GPUs of its jobs.
    pub to_gpus: u64,
    /// Its jobs that came to an end.
    pub completed: u64,
    /// Its jobs that did not, or never could.
    pub others: u64,
    /// The 10th, 50th and 90th percentile of the waiting time of the completed ones, in seconds.
    pub wait_s: Option<[f64; 3]>,
}

/// The classes: up to one GPU, 2 to 4, 5 to 8, and then twice as many each time. Only those with jobs are told of.
pub fn waits_by_size<'a>(rows: impl Iterator<Item = &'a JobRow>) -> Vec<SizeClass> {
    let mut classes: std::collections::BTreeMap<u64, (Vec<f64>, u64)> = std::collections::BTreeMap::new();
    for row in rows {
        let (waits, others) = classes.entry(class_top(row.gpus)).or_default();
        if row.is_completed() { waits.push(row.wait_s()) } else { *others += 1 }
    }
    let class = |(to_gpus, (mut waits, others)): (u64, (Vec<f64>, u64))| {
        waits.sort_by(f64::total_cmp);
        let of = |percent| percentile(&waits, percent);
        let wait_s = of(10.0).zip(of(50.0)).zip(of(90.0)).map(|((low, middle), high)| [low, middle, high]);
        let from_gpus = match to_gpus {
            0..=1 => to_gpus,
            2..=4 => 2,
            more => more / 2 + 1,
        };
        SizeClass { from_gpus, to_gpus, completed: waits.len() as u64, others, wait_s }
    };
    classes.into_iter().map(class).collect()
}

/// The most GPUs of the class that a job is in.
fn class_top(gpus: f64) -> u64 {
    match gpus.ceil() as u64 {
        few @ 0..=1 => few,
        2..=4 => 4,
        more => more.next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_in_the_class_that_holds_it() {
        let cases =
            [(0.0, 0), (0.3, 1), (1.0, 1), (1.5, 4), (4.0, 4), (5.0, 8), (8.0, 8), (9.0, 16), (17.0, 32)];
        for (gpus, top) in cases {
            assert_eq!(class_top(gpus), top, "{gpus}");
        }
    }
}
