//! How often the accuracy that a job comes to lies where it was expected, by how much of the run was seen. Curves are those
//! of the generator for graphs of tasks: best accuracy from 0.7 to 0.98, reached within 0.1 % after 0.4 to 1 of all iterations.

#[path = "../../sched/tests/common/mod.rs"]
mod common;

use common::Dice;
use trainyard_sched::estimate::AccuracyForecast;
use trainyard_sim::accuracy::TrueAccuracy;

/// The spread of what is measured around the curve.
const NOISE: f64 = 0.003;
const CURVES: u32 = 100;

fn part(dice: &mut Dice) -> f64 {
    (dice.roll(1 << 30) as f64 + 0.5) / (1u64 << 30) as f64
}

fn normal(dice: &mut Dice) -> f64 {
    (-2.0 * part(dice).ln()).sqrt() * (std::f64::consts::TAU * part(dice)).cos()
}

/// Of a part of each run: the part of the ends within one and within two deviations, and the mean of deviations and misses.
fn covered(seen: f64) -> [f64; 4] {
    let mut all_z = Vec::new();
    let mut dice = Dice::new(20_201_201);
    let (mut sums, mut count) = ([0.0; 4], 0.0);
    for _ in 0..CURVES {
        let iterations = 50.0 + dice.roll(151) as f64;
        let reached = iterations * (0.4 + 0.6 * part(&mut dice));
        let (top, shape) = (0.7 + 0.28 * part(&mut dice), 0.8 + 0.4 * part(&mut dice));
        let scale = TrueAccuracy::scale_for(reached, 0.001, shape);
        let curve = TrueAccuracy { start: 0.1, top, scale, shape, fall: None };
        let mut measure = |k: f64| (k, curve.after(k) + NOISE * normal(&mut dice));
        let all: Vec<(f64, f64)> = (1..=iterations as u32).map(f64::from).map(&mut measure).collect();
        let known = &all[..(seen * iterations) as usize];
        let Some(forecast) = AccuracyForecast::fit(known, iterations) else { continue };
        let (mean, deviation) = (forecast.mean(iterations), forecast.deviation(iterations));
        let miss = (curve.after(iterations) - mean).abs();
        all_z.push(miss / deviation);
        let within = |times: f64| f64::from(u8::from(miss <= times * deviation));
        for (sum, each) in sums.iter_mut().zip([within(1.0), within(2.0), deviation, miss]) {
            *sum += each;
        }
        count += 1.0;
    }
    assert!(count > 0.9 * f64::from(CURVES), "there are forecasts");
    all_z.sort_by(f64::total_cmp);
    println!("{:?}", [0.5, 0.68, 0.8, 0.9, 0.95].map(|q| all_z[(q * count) as usize]));
    sums.map(|sum| sum / count)
}

#[test]
fn the_end_lies_within_the_deviation_as_often_as_a_normal_error_does() {
    let mut wrong = Vec::new();
    for (seen, least) in [(0.1, [0.5, 0.6]), (0.2, [0.65, 0.85]), (0.3, [0.7, 0.9]), (0.5, [0.8, 0.95])] {
        let [one, two, deviation, miss] = covered(seen);
        let told = format!(
            "{seen} of the run: within one deviation {one:.3}, within two {two:.3}; deviation {deviation:.4}, miss {miss:.4}"
        );
        println!("{told}");
        if one < least[0] || two < least[1] || deviation > 4.0 * miss + 2.0 * NOISE {
            wrong.push(told);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
