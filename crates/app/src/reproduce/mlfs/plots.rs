//! What is drawn of MLFS and its rivals.

use super::super::{Bars, Findings, Plot, PlotCurve, Scale};
use super::Loads;
use super::checks::Quantity;
use super::runs::{Alone, Load, MLFS, MLFS_PLUS, RIVALS, Runs, Who};

fn mean(runs: &Runs, load: Load, who: Who, quantity: Quantity) -> Option<f64> {
    let runs = runs.get(&(load, who))?;
    let sum: f64 = runs.iter().map(|run| quantity.of(run)).sum();
    Some(sum / runs.len() as f64)
}

pub(super) fn draw(runs: &Runs, loads: &Loads, found: &mut Findings) {
    let alone = || [MLFS, Alone::MlfH.plain()].into_iter().chain(RIVALS.iter().map(|rival| rival.plain()));
    found.bars.push(with_and_without(runs, loads.full));
    found.plots.push(trade_off(runs, loads.full));
    let rising = |quantity: Quantity, y: (Scale, &'static str), factor: f64| {
        let curve = |who: Who| {
            let point =
                |load: &Load| Some((f64::from(load.jobs), factor * mean(runs, *load, who, quantity)?));
            PlotCurve { name: who.label(), points: loads.rising.iter().filter_map(point).collect() }
        };
        let curves: Vec<PlotCurve> = alone().map(curve).filter(|curve| curve.points.len() > 1).collect();
        let told: Vec<String> = curves
            .iter()
            .filter_map(|curve| Some(format!("{} {:.2}", curve.name, curve.points.last()?.1)))
            .collect();
        (!curves.is_empty()).then(|| Plot {
            title: format!("{} against load", capital(quantity.name())),
            reading: "Means over all workloads; more jobs arrive in the same 36 hours from left to right."
                .to_owned(),
            alternative: format!("At the highest load: {}.", told.join(", ")),
            x: (Scale::Count, "jobs"),
            y,
            steps: false,
            curves,
        })
    };
    let minutes = rising(Quantity::Jct, (Scale::Seconds, "mean JCT"), 60.0);
    let deadlines = rising(Quantity::Deadlines, (Scale::Part, "deadline ratio"), 1.0);
    let accuracies = rising(Quantity::Accuracies, (Scale::Part, "accuracy ratio"), 1.0);
    let traffic = rising(Quantity::Traffic, (Scale::Number, "TB between nodes"), 1.0);
    found.plots.extend([minutes, deadlines, accuracies, traffic].into_iter().flatten());
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Everybody alone and under the same load control.
fn with_and_without(runs: &Runs, load: Load) -> Bars {
    let all = [Alone::MlfHPlus, Alone::MlfH].into_iter().chain(RIVALS);
    let groups: Vec<(String, Vec<Option<f64>>)> = all
        .map(|policy| {
            let jct = |who| mean(runs, load, who, Quantity::Jct).map(|minutes| 60.0 * minutes);
            (policy.plain().label(), vec![jct(policy.plain()), jct(policy.controlled())])
        })
        .collect();
    let told: Vec<String> = groups
        .iter()
        .map(|(name, bars)| {
            let minutes =
                |bar: &Option<f64>| bar.map_or("none".to_owned(), |bar| format!("{:.0}", bar / 60.0));
            format!("{name} {} and {}", minutes(&bars[0]), minutes(&bars[1]))
        })
        .collect();
    Bars {
        title: "Mean JCT, alone and with the same load control".to_owned(),
        reading: "What a policy gains from left to right is early stopping; what differs among the right ones is scheduling.".to_owned(),
        alternative: format!("In minutes: {}.", told.join("; ")),
        y: (Scale::Seconds, "mean JCT"),
        series: vec!["alone".to_owned(), "with MLF-C".to_owned()],
        groups,
    }
}

/// Two objectives at once: nobody to the upper left of a policy is worse than it in either.
fn trade_off(runs: &Runs, load: Load) -> Plot {
    let everybody: Vec<Who> = [MLFS_PLUS, MLFS, Alone::MlfH.plain()]
        .into_iter()
        .chain(RIVALS.iter().flat_map(|rival| [rival.plain(), rival.controlled()]))
        .collect();
    let at = |who: Who| {
        let jct_s = 60.0 * mean(runs, load, who, Quantity::Jct)?;
        Some((jct_s, mean(runs, load, who, Quantity::Accuracies)?))
    };
    let points: Vec<(Who, (f64, f64))> =
        everybody.into_iter().filter_map(|who| Some((who, at(who)?))).collect();
    let beaten =
        |(x, y): (f64, f64)| points.iter().any(|(_, (a, b))| *a <= x && *b >= y && (*a, *b) != (x, y));
    let best: Vec<String> =
        points.iter().filter(|(_, point)| !beaten(*point)).map(|(who, _)| who.label()).collect();
    Plot {
        title: "Mean JCT against accuracy ratio".to_owned(),
        reading: format!("Left and above is better. Nobody is better in both than {}.", best.join(", ")),
        alternative: points
            .iter()
            .map(|(who, (jct_s, ratio))| format!("{}: {:.0} min, {ratio:.2}", who.label(), jct_s / 60.0))
            .collect::<Vec<_>>()
            .join("; "),
        x: (Scale::Seconds, "mean JCT"),
        y: (Scale::Part, "accuracy ratio"),
        steps: false,
        curves: points
            .iter()
            .map(|(who, (x, y))| PlotCurve {
                name: who.label(),
                points: vec![(0.985 * x, *y), (1.015 * x, *y)],
            })
            .collect(),
    }
}
