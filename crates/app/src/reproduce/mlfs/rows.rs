//! From runs to rows.

use super::super::{Effort, Figures, Gate, Row};
use super::Loads;
use super::checks::{Bound, CHECKS, Check, Quantity};
use super::runs::{Alone, Load, MLFS, MLFS_PLUS, Measured, RIVALS, Runs, Who};

/// Of so many workloads the sign must be right.
const RIGHT: f64 = 0.9;
/// A wait is long beside the mean.
const LONG_WAIT: f64 = 10.0;
/// Minutes of a day, which is the longest published deadline.
const DAY_MIN: f64 = 1440.0;

pub(super) fn rows(runs: &Runs, loads: &Loads, effort: &Effort) -> Vec<Row> {
    let mut rows: Vec<Row> = CHECKS.iter().map(|check| compared(check, runs, loads.full)).collect();
    rows.extend(fair_test(runs, loads.full, MLFS));
    rows.extend(fair_test(runs, loads.full, MLFS_PLUS));
    rows.extend(absolute(runs, loads.full));
    rows.extend(exact(runs, loads));
    if !effort.quick {
        rows.extend(trends(runs, loads));
    }
    rows.sort_by_key(|row| order(row.check));
    rows
}

/// Groups of checks in the order of the specification, and in each by number.
fn order(check: &str) -> (usize, u32) {
    let group = ["S", "J", "M", "D", "Q", "C", "B", "O", "E"];
    let (letter, number) = check.split_at(1);
    (group.iter().position(|known| *known == letter).unwrap_or(group.len()), number.parse().unwrap_or(0))
}

fn of(runs: &Runs, load: Load, who: Who) -> &[Measured] {
    runs.get(&(load, who)).map_or(&[], Vec::as_slice)
}

/// The middle of some values, and the values between which it lies with a certainty of 95 % and more: of ten, the second from
/// both ends (order statistics; 97.9 %).
fn middle(values: &[f64]) -> (Option<f64>, Option<(f64, f64)>) {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    if sorted.is_empty() || sorted.len() < values.len() {
        return (None, None);
    }
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    let outer = count / 10;
    (Some(median), (count >= 6).then(|| (sorted[outer], sorted[count - 1 - outer])))
}

/// A row on the median over workloads.
fn over_workloads(
    check: &'static str,
    what: String,
    published: Option<f64>,
    gate: Gate,
    values: &[f64],
) -> Row {
    let (median, range) = middle(values);
    let mut row = Row::single(check, what, Figures { published, reference: None }, gate, median);
    (row.low, row.high) = range.map_or((None, None), |(low, high)| (Some(low), Some(high)));
    row
}

/// The same, which must be above zero on nine of ten workloads.
fn with_sign(row: Row, values: &[f64]) -> Row {
    let right = values.iter().filter(|value| **value > 0.0).count();
    let enough = right as f64 >= RIGHT * values.len() as f64;
    row.and(enough, &format!("better on {right} of {} workloads", values.len()))
}

fn gains(quantity: Quantity, first: &[Measured], second: &[Measured]) -> Vec<f64> {
    first.iter().zip(second).map(|(run, other)| quantity.gain(run, other)).collect()
}

fn compared(check: &Check, runs: &Runs, load: Load) -> Row {
    let values = gains(check.quantity, of(runs, load, check.first), of(runs, load, check.second));
    let what = format!(
        "{}: {} better than {}, in parts",
        check.quantity.name(),
        check.first.label(),
        check.second.label()
    );
    let row = |gate| over_workloads(check.number, what, Some(check.published), gate, &values);
    match check.bound {
        Bound::Better(least) => with_sign(row(Gate::AtLeast(least)), &values),
        Bound::NoWorse(most) => row(Gate::AtLeast(-most)),
    }
    .beside(check.audit)
}

/// J11: everybody has the same load control, so what is left is the scheduling.
fn fair_test(runs: &Runs, load: Load, who: Who) -> Vec<Row> {
    let own = of(runs, load, who);
    let rivals: Vec<&[Measured]> = RIVALS.iter().map(|rival| of(runs, load, rival.controlled())).collect();
    let best = |i: usize| rivals.iter().map(|runs| runs[i].jct_min).fold(f64::INFINITY, f64::min);
    let values: Vec<f64> = own.iter().enumerate().map(|(i, run)| 1.0 - run.jct_min / best(i)).collect();
    let gate = if who == MLFS { Gate::Told } else { Gate::AtLeast(0.0) };
    let what =
        format!("mean JCT: {} better than the best rival with the same load control, in parts", who.label());
    let row = over_workloads("J11", what, None, gate, &values);
    vec![if who == MLFS { row.beside("MLF-H as published; see MLFS+") } else { with_sign(row, &values) }]
}

fn absolute(runs: &Runs, load: Load) -> Vec<Row> {
    let own = of(runs, load, MLFS);
    let values = |quantity: Quantity| own.iter().map(|run| quantity.of(run)).collect::<Vec<f64>>();
    let row = |check, quantity: Quantity, published, least| {
        let what = format!("{} of MLFS", quantity.name());
        over_workloads(check, what, Some(published), Gate::AtLeast(least), &values(quantity))
    };
    vec![row("D1", Quantity::Deadlines, 0.91, 0.75), row("C4", Quantity::Accuracies, 1.0, 0.85)]
}

/// Checks that hold on every workload, or something is wrong.
fn exact(runs: &Runs, loads: &Loads) -> Vec<Row> {
    let single =
        |check, what: &str, gate, value| Row::single(check, what, Figures::default(), gate, Some(value));
    let everybody = || runs.keys().filter(|(load, _)| *load == loads.literal).map(|(_, who)| *who);
    // A deadline is at least a time drawn evenly from half an hour to a day, so few can miss it.
    let worst = everybody()
        .flat_map(|who| of(runs, loads.literal, who))
        .map(|run| {
            let missed = 1.0 - run.objectives.deadline_ratio.unwrap_or(f64::NAN);
            let expected = (run.jct_min / DAY_MIN).min(1.0);
            let error = (expected * (1.0 - expected) / f64::from(loads.literal.jobs)).sqrt();
            missed - expected - 3.0 * error
        })
        .fold(f64::NEG_INFINITY, f64::max);
    let constant = of(runs, loads.constant, Alone::MlfH.plain());
    let sum = |of: fn(&Measured) -> f64| constant.iter().map(of).sum::<f64>();
    let waits = of(runs, loads.full, Alone::MlfH.plain());
    let longest = waits.iter().map(|run| run.longest_wait_s / run.waiting_s.max(60.0)).fold(0.0, f64::max);
    let ended = runs.values().flatten().map(|run| run.ended).fold(1.0, f64::min);
    vec![
        single(
            "S3",
            "MLF-H: the longest wait over the mean, or over a minute",
            Gate::AtMost(LONG_WAIT),
            longest,
        ),
        single("S3", "the part of the jobs that ended, in the worst run of all", Gate::AtLeast(1.0), ended),
        single(
            "S5",
            "MLF-H, tasks that use what they demand: overloads",
            Gate::AtMost(0.0),
            sum(|run| run.objectives.overloads as f64),
        ),
        single(
            "S5",
            "the same: moves of tasks",
            Gate::AtMost(0.0),
            sum(|run| run.objectives.task_moves as f64),
        ),
        single(
            "S15",
            "published deadlines: missed beyond mean JCT over a day and three standard errors, at most",
            Gate::AtMost(0.0),
            worst,
        ),
    ]
}

/// D6, E8 and what the deadline ratio does.
fn trends(runs: &Runs, loads: &Loads) -> Vec<Row> {
    let (Some(lowest), Some(highest)) = (loads.rising.first(), loads.rising.last()) else {
        return Vec::new();
    };
    let ratio = |who: Who| -> Vec<f64> {
        let (low, high) = (of(runs, *lowest, who), of(runs, *highest, who));
        let ratio = |(low, high)| Quantity::Deadlines.of(high) / Quantity::Deadlines.of(low);
        low.iter().zip(high).map(ratio).collect()
    };
    let what = "deadline ratio of MLFS at the highest load over that at the lowest".to_owned();
    let mut rows = vec![over_workloads("D6", what, Some(0.97), Gate::AtLeast(0.85), &ratio(MLFS))];
    for quantity in [Quantity::Jct, Quantity::Waiting, Quantity::Traffic] {
        let everybody = runs.keys().filter(|(load, _)| load == lowest).map(|(_, who)| *who);
        let part = everybody
            .map(|who| {
                let by_load: Vec<&[Measured]> =
                    loads.rising.iter().map(|load| of(runs, *load, who)).collect();
                let count = by_load[0].len();
                let rises = |i: &usize| {
                    by_load.windows(2).all(|pair| quantity.of(&pair[0][*i]) <= quantity.of(&pair[1][*i]))
                };
                (0..count).filter(rises).count() as f64 / count as f64
            })
            .fold(1.0, f64::min);
        let what = format!(
            "{}: the part of the workloads on which it rises with the load, of the worst policy",
            quantity.name()
        );
        rows.push(Row::single("E8", what, Figures::default(), Gate::AtLeast(RIGHT), Some(part)));
    }
    rows
}

/// Every policy in every quantity, and each rival with the same load control.
pub(super) fn readings(runs: &Runs, load: Load) -> Vec<Row> {
    let mut readings = Vec::new();
    for ((_, who), measured) in runs.iter().filter(|((of_load, _), _)| *of_load == load) {
        for quantity in [
            Quantity::Jct,
            Quantity::Makespan,
            Quantity::Waiting,
            Quantity::Deadlines,
            Quantity::Accuracy,
            Quantity::Accuracies,
            Quantity::Traffic,
            Quantity::Overloads,
        ] {
            let unit = match quantity {
                Quantity::Jct => " (min)",
                Quantity::Makespan => " (h)",
                Quantity::Waiting => " (s)",
                Quantity::Traffic => " (TB)",
                _ => "",
            };
            let values: Vec<f64> = measured.iter().map(|run| quantity.of(run)).collect();
            let what = format!("{}: {}{unit}", who.label(), quantity.name());
            readings.push(over_workloads("told", what, None, Gate::Told, &values));
        }
    }
    for own in [MLFS, MLFS_PLUS] {
        for rival in RIVALS {
            let values = gains(Quantity::Jct, of(runs, load, own), of(runs, load, rival.controlled()));
            let what =
                format!("mean JCT: {} better than {}, in parts", own.label(), rival.controlled().label());
            readings.push(over_workloads("J11", what, None, Gate::Told, &values));
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_that_of_all_values_or_none() {
        assert_eq!(middle(&[3.0, 1.0, 2.0]), (Some(2.0), None));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(middle(&ten), (Some(5.5), Some((2.0, 9.0))));
        assert_eq!(middle(&[1.0, f64::NAN]), (None, None));
        assert_eq!(middle(&[]), (None, None));
    }

    #[test]
    fn the_sign_must_be_right_on_nine_of_ten() {
        let row = |values: &[f64]| {
            let row = over_workloads("J1", String::new(), None, Gate::AtLeast(0.1), values);
            with_sign(row, values).pass
        };
        let mut values = [0.3; 10];
        values[0] = -1.0;
        assert!(row(&values));
        values[1] = 0.0;
        assert!(!row(&values), "only eight are better");
        assert!(!row(&[0.05; 10]), "the median is too low");
    }

    #[test]
    fn checks_stand_in_the_order_of_the_specification() {
        let mut checks = ["E4", "J11", "S5", "J2", "D1", "C4", "B1", "M1", "Q2"];
        checks.sort_by_key(|check| order(check));
        assert_eq!(checks, ["S5", "J2", "J11", "M1", "D1", "Q2", "C4", "B1", "E4"]);
    }
}
