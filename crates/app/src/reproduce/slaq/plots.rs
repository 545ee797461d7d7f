//! What is drawn of SLAQ's experiments: the figures of the paper, as far as they are known, and the trade-off of the floor.

use crate::reproduce::{Plot, PlotCurve, Scale};

use super::alone::Predicted;
use super::runs::Measured;
use super::{Runs, Which};

/// Points of a curve; more than a chart has pixels to tell apart.
const MOST_POINTS: usize = 240;
/// Seconds over which curves over time are averaged.
const BIN_S: f64 = 15.0;

const SHOWN: [(Which, &str); 4] = [
    (Which::Fair, "fair"),
    (Which::Slaq, "slaq"),
    (Which::Change, "slaq, by the largest change"),
    (Which::Tail, "slaq-tail"),
];

pub(super) fn plots(runs: &Runs, predicted: &[Predicted]) -> Vec<Plot> {
    let mut plots = vec![losses(runs)];
    let levels = [(0, "90"), (1, "95"), (2, "99")];
    plots.extend(levels.map(|(level, name)| times(runs, level, name)));
    plots.push(shares(runs));
    plots.extend([true, false].into_iter().filter_map(|family| prediction(predicted, family)));
    plots.push(trade_off(runs));
    plots
}

/// Means of what is measured at the epochs of one run, over equal stretches of time.
fn over_time(run: &Measured, of: impl Fn(usize) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let first_s = run.moments.first().map_or(0.0, |moment| moment.at.as_secs_f64());
    for (i, moment) in run.moments.iter().enumerate() {
        let bin = ((moment.at.as_secs_f64() - first_s) / BIN_S) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, (0.0, 0.0));
        }
        if let Some(value) = of(i) {
            bins[bin] = (bins[bin].0 + value, bins[bin].1 + 1.0);
        }
    }
    let filled = bins.iter().enumerate().filter(|(_, bin)| bin.1 > 0.0);
    filled.map(|(i, bin)| ((i as f64 + 0.5) * BIN_S, bin.0 / bin.1)).take(MOST_POINTS).collect()
}

fn losses(runs: &Runs) -> Plot {
    let curve = |(which, name): (Which, &str)| {
        let run = &runs[&which][0];
        PlotCurve { name: name.to_owned(), points: over_time(run, |i| Some(run.moments[i].mean_loss)) }
    };
    let mean = |which| runs[&which].iter().map(|run| run.mean_loss).sum::<f64>() / runs[&which].len() as f64;
    Plot {
        title: "Mean normalised loss of the jobs that are there".to_owned(),
        reading: "1 is where a job begins, 0 where its curve ends; the first workload, means over 15 s."
            .to_owned(),
        alternative: format!(
            "Over all workloads the mean is {:.3} under fair shares and {:.3} under SLAQ.",
            mean(Which::Fair),
            mean(Which::Slaq)
        ),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "mean loss"),
        steps: false,
        curves: SHOWN.map(curve).to_vec(),
    }
}

fn times(runs: &Runs, level: usize, name: &str) -> Plot {
    let curve = |(which, called): (Which, &str)| {
        let mut all: Vec<f64> = runs[&which].iter().flat_map(|run| run.to[level].clone()).collect();
        all.sort_by(f64::total_cmp);
        let count = all.len().min(MOST_POINTS);
        let rank = |k: usize| k * (all.len() - 1) / (count - 1).max(1);
        let points = (0..count).map(rank).map(|i| (all[i], (i + 1) as f64 / all.len() as f64)).collect();
        PlotCurve { name: called.to_owned(), points }
    };
    let mean =
        |which| runs[&which].iter().map(|run| run.mean_to(level)).sum::<f64>() / runs[&which].len() as f64;
    Plot {
        title: format!("Time to {name} % of the loss reduction"),
        reading: "The part of the jobs that needed no longer, over all workloads.".to_owned(),
        alternative: format!(
            "The mean is {:.0} s under fair shares, {:.0} s under SLAQ and {:.0} s under slaq-tail.",
            mean(Which::Fair),
            mean(Which::Slaq),
            mean(Which::Tail)
        ),
        x: (Scale::Factors, "time since arrival"),
        y: (Scale::Part, "jobs"),
        steps: true,
        curves: SHOWN.map(curve).to_vec(),
    }
}

fn shares(runs: &Runs) -> Plot {
    let run = &runs[&Which::Slaq][0];
    let names = ["quarter with the highest loss", "next quarter", "half with the lower loss"];
    let curve = |(part, name): (usize, &str)| PlotCurve {
        name: name.to_owned(),
        points: over_time(run, |i| run.moments[i].shares.map(|shares| shares[part])),
    };
    let [top, _, lower] = run.shares;
    Plot {
        title: "Cores by loss under SLAQ".to_owned(),
        reading: "Parts of the cores that are held; epochs with four jobs and more, means over 15 s."
            .to_owned(),
        alternative: format!("The quarter with the highest loss has {top:.2}, the lower half {lower:.2}."),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "cores"),
        steps: false,
        curves: names.into_iter().enumerate().map(curve).collect(),
    }
}

/// The first curve of a family, as far as it is of a length that can be drawn.
fn prediction(predicted: &[Predicted], is_geometric: bool) -> Option<Plot> {
    let one = predicted.iter().find(|curve| curve.is_geometric == is_geometric && curve.points.len() > 10)?;
    let every = one.points.len().div_ceil(MOST_POINTS);
    let points = || one.points.iter().step_by(every);
    let family = if is_geometric { "geometric" } else { "sublinear" };
    Some(Plot {
        title: format!("Predicted and reported loss, a {family} curve"),
        reading: "Each prediction is made ten iterations before, from reports with 1 % noise.".to_owned(),
        alternative: format!("The mean error is {:.2} %.", one.mean_error * 100.0),
        x: (Scale::Count, "iteration"),
        y: (Scale::Part, "loss"),
        steps: false,
        curves: vec![
            PlotCurve { name: "reported".to_owned(), points: points().map(|p| (p.0, p.2)).collect() },
            PlotCurve { name: "predicted".to_owned(), points: points().map(|p| (p.0, p.1)).collect() },
        ],
    })
}

fn trade_off(runs: &Runs) -> Plot {
    let relative = |which: Which, level: usize| {
        let both = runs[&which].iter().zip(&runs[&Which::Fair]);
        let ratios: Vec<f64> = both.map(|(ours, fair)| ours.mean_to(level) / fair.mean_to(level)).collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let curve = |name: &str, belongs: fn(&Which) -> bool| {
        let members = runs.keys().copied().filter(&belongs);
        let mut points: Vec<(f64, f64)> =
            members.map(|which| (relative(which, 2), relative(which, 0))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        PlotCurve { name: name.to_owned(), points }
    };
    Plot {
        title: "What the end of training costs at 90 %".to_owned(),
        reading: "Mean times relative to fair shares, which are at 1 on both axes; further down and left is better. \
                  The least floor and the least weight are on the right."
            .to_owned(),
        alternative: format!(
            "slaq-tail takes {:.2} times as long as fair shares to 99 %, and {:.2} times to 90 %.",
            relative(Which::Tail, 2),
            relative(Which::Tail, 0)
        ),
        x: (Scale::Count, "time to 99 %, times that of fair"),
        y: (Scale::Count, "time to 90 %, times that of fair"),
        steps: false,
        curves: vec![
            curve("slaq, by the floor", |which| matches!(which, Which::Floor(_))),
            curve("slaq-tail, by the weight of the end", |which| matches!(which, Which::Weight(_))),
        ],
    }
}
