//! Speeds on types of GPU on which a job was never seen, estimated from those of others: `hadar_gavel.md`, check E-8. Each of
//! Gavel's figures for a single GPU is left out once and estimated from all others.

use trainyard_sched::estimate::{MeasuredRates, Profile, unseen_per_s};
use trainyard_sched::model::GpuTypeId;
use trainyard_sim::physics::{Locality, gavel_throughputs};

const TYPES: [&str; 3] = ["v100", "p100", "k80"];

/// Family, batch and speeds of each type of job.
fn rows() -> Vec<(u32, Option<f64>, Vec<Option<f64>>)> {
    let table = gavel_throughputs();
    let mut families: Vec<String> = Vec::new();
    let row = |row: u32| {
        let name = table.name(row).to_owned();
        let (family, batch) = match name.split_once(" (batch size ") {
            Some((family, batch)) => (family.to_owned(), batch.trim_end_matches(')').parse().ok()),
            None => (name, None),
        };
        if !families.contains(&family) {
            families.push(family.clone());
        }
        let number = families.iter().position(|known| *known == family).expect("it is there") as u32;
        let per_s = TYPES.map(|gpu_type| table.per_s(row, gpu_type, 1, Locality::Node));
        (number, batch, per_s.map(|per_s| per_s.filter(|per_s| *per_s > 0.0)).to_vec())
    };
    (0..table.rows()).map(row).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn e8_a_speed_that_was_left_out_is_found_again_roughly_and_after_one_report_exactly() {
    let rows = rows();
    assert_eq!(rows.len(), 26, "Gavel's types of jobs");
    let (mut errors, mut refined, mut within) = (Vec::new(), Vec::new(), 0);
    for (at, (family, batch, per_s)) in rows.iter().enumerate() {
        let others: Vec<Profile<'_>> = rows
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, (family, batch, per_s))| Profile { family: Some(*family), batch: *batch, per_s })
            .collect();
        for gpu_type in 0..TYPES.len() {
            let Some(truth) = per_s[gpu_type] else { continue };
            let mut known = per_s.clone();
            known[gpu_type] = None;
            let job = Profile { family: Some(*family), batch: *batch, per_s: &known };
            let found = unseen_per_s(&job, &others, gpu_type).expect("others are known there");
            errors.push((found.per_s / truth - 1.0).abs());
            within += u32::from(found.between.0 <= truth && truth <= found.between.1);
            // A report of a slot is off by less than a hundredth.
            let mut measured = MeasuredRates::default();
            measured.measure(GpuTypeId(gpu_type as u8), 1, false, truth * 1.004);
            let after = measured.per_s(GpuTypeId(gpu_type as u8), 1, false).expect("it was measured");
            refined.push((after / truth - 1.0).abs());
        }
    }
    let (before, after, count) = (median(errors.clone()), median(refined), errors.len());
    println!(
        "{count} figures: median error {before:.3}, {within} within their intervals; {after:.4} after one report"
    );
    assert!(before <= 0.25, "{before}");
    assert!(after <= 0.01, "{after}");
    // Two of three is what is said of the intervals; sources that agree and are wrong all the same make it fewer.
    assert!(f64::from(within) >= 0.4 * count as f64, "{within} of {count}");
}
