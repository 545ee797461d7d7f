//! From runs to rows.

use super::super::{Effort, Figures, Gate, Row};
use super::Loads;
use super::checks::Quantity::{self, Accuracy};
use super::checks::{ABLATIONS, Bound, CHECKS, Check};
use super::runs::{Alone, Load, MLFS, MLFS_PLUS, Measured, RIVALS, Runs, Who};

/// Of so many workloads the sign must be right.
const RIGHT: f64 = 0.9;
/// A wait is long beside the mean.
const LONG_WAIT: f64 = 10.0;
/// What rises with the load (E8).
const RISING: [Quantity; 3] = [Quantity::Jct, Quantity::Waiting, Quantity::Traffic];
/// Minutes of a day, which is the longest published deadline.
const DAY_MIN: f64 = 1440.0;

pub(super) fn rows(runs: &Runs, loads: &Loads, effort: &Effort) -> Vec<Row> {
    let mut rows: Vec<Row> = CHECKS.iter().map(|check| compared(check, runs, loads.full)).collect();
    rows.extend([MLFS, MLFS_PLUS].map(|who| fair_test(runs, loads.full, who)));
    rows.extend(absolute(runs, loads.full));
    rows.extend(exact(runs, loads));
    rows.extend(light(runs, loads.light));
    rows.extend(times(runs, loads.full));
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

/// By how much a policy's mean JCT is better than the best rival's under the same load control, on each workload.
fn beyond_best(runs: &Runs, load: Load, who: Who) -> Vec<f64> {
    let rivals: Vec<&[Measured]> = RIVALS.iter().map(|rival| of(runs, load, rival.controlled())).collect();
    let best =
        |i: usize| rivals.iter().filter_map(|runs| runs.get(i)).map(|run| run.jct_min).reduce(f64::min);
    let own = of(runs, load, who).iter().enumerate();
    own.map(|(i, run)| best(i).map_or(f64::NAN, |best| 1.0 - run.jct_min / best)).collect()
}

/// J11: everybody has the same load control, so what is left is the scheduling.
fn fair_test(runs: &Runs, load: Load, who: Who) -> Row {
    let values = beyond_best(runs, load, who);
    let gate = if who == MLFS { Gate::Told } else { Gate::AtLeast(0.0) };
    let what =
        format!("mean JCT: {} better than the best rival with the same load control, in parts", who.label());
    let row = over_workloads("J11", what, None, gate, &values);
    if who == MLFS { row.beside("MLF-H as published; see MLFS+") } else { with_sign(row, &values) }
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

/// C3: everybody reaches what is needed where nobody waits, so the rest is decided here.
fn light(runs: &Runs, load: Load) -> Vec<Row> {
    let values = gains(Accuracy, of(runs, load, MLFS), of(runs, load, Alone::Tiresias.plain()));
    let what = format!("{}, a twelfth of the load: MLFS better than Tiresias, in parts", Accuracy.name());
    let row = over_workloads("C3", what, Some(0.14), Gate::AtLeast(0.07), &values);
    vec![with_sign(row, &values).beside("where nobody waits, whoever stops early cannot be more accurate")]
}

/// O1, on this machine beside the other runs.
fn times(runs: &Runs, load: Load) -> Vec<Row> {
    let row = |who: Who, published, most| {
        let values: Vec<f64> = of(runs, load, who).iter().map(|run| run.decision_p99_ms).collect();
        let what = format!("decisions of {}: all but one of a hundred take at most (ms)", who.label());
        over_workloads("O1", what, published, Gate::AtMost(most), &values)
    };
    vec![row(Alone::MlfH.plain(), None, 5.0), row(MLFS, Some(54.0), 50.0)]
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
    let longest = |who: Alone| {
        let waits = of(runs, loads.full, who.plain()).iter();
        waits.map(|run| run.longest_wait_s / run.waiting_s.max(60.0)).fold(0.0, f64::max)
    };
    let ended = runs.values().flatten().map(|run| run.ended).fold(1.0, f64::min);
    vec![
        single(
            "S3",
            "MLF-H: the longest wait over the mean, or over a minute",
            Gate::AtMost(LONG_WAIT),
            longest(Alone::MlfH),
        )
        .beside("large gangs are passed over by small ones; mlf-h+ holds room for them after some hours"),
        single(
            "S3",
            "MLF-H+: the longest wait over the mean, or over a minute",
            Gate::Told,
            longest(Alone::MlfHPlus),
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
    for quantity in RISING {
        let part = rises(runs, loads, quantity).into_iter().map(|(_, part)| part).fold(1.0, f64::min);
        let what = format!(
            "{}: the part of the workloads on which it rises with the load, of the worst policy",
            quantity.name()
        );
        rows.push(Row::single("E8", what, Figures::default(), Gate::AtLeast(RIGHT), Some(part)));
    }
    rows
}

/// Of each policy, the part of the workloads on which something rises from load to load.
fn rises(runs: &Runs, loads: &Loads, quantity: Quantity) -> Vec<(Who, f64)> {
    let Some(lowest) = loads.rising.first() else { return Vec::new() };
    let part = |who: Who| {
        let by_load: Vec<&[Measured]> = loads.rising.iter().map(|load| of(runs, *load, who)).collect();
        let count = by_load.iter().map(|runs| runs.len()).min().unwrap_or(0);
        let rises =
            |i: &usize| by_load.windows(2).all(|pair| quantity.of(&pair[0][*i]) <= quantity.of(&pair[1][*i]));
        (0..count).filter(rises).count() as f64 / count as f64
    };
    // Not everybody that was run under the lowest load was run under all of them.
    let everywhere = |who: &Who| loads.rising.iter().all(|load| runs.contains_key(&(*load, *who)));
    let everybody = runs.keys().filter(|(load, _)| load == lowest).map(|(_, who)| *who);
    everybody.filter(everywhere).map(|who| (who, part(who))).collect()
}

/// Who is run with ten times the traffic.
pub(super) const STRESSED: [Who; 3] = [MLFS, Alone::NoBandwidth.controlled(), Alone::Borg.controlled()];

/// What becomes of the fair test where jobs may not be stopped, and of traffic where there is ten times as much.
fn sweeps(runs: &Runs, loads: &Loads) -> Vec<Row> {
    let mut rows = Vec::new();
    for (jobs, load) in loads.unyielding {
        for who in [MLFS, MLFS_PLUS] {
            let what = format!(
                "{jobs} never stopped early: mean JCT: {} better than the best rival with the same load control, in parts",
                who.label()
            );
            rows.push(over_workloads("J11", what, None, Gate::Told, &beyond_best(runs, load, who)));
        }
    }
    for quantity in [Quantity::Jct, Quantity::Traffic] {
        for other in STRESSED.into_iter().skip(1) {
            let values = gains(quantity, of(runs, loads.stress, MLFS), of(runs, loads.stress, other));
            let what = format!(
                "ten times the traffic: {}: MLFS better than {}, in parts",
                quantity.name(),
                other.label()
            );
            rows.push(over_workloads("E3", what, None, Gate::Told, &values));
        }
    }
    rows
}

/// Every policy in every quantity, and each rival with the same load control.
pub(super) fn readings(runs: &Runs, loads: &Loads, effort: &Effort) -> Vec<Row> {
    let (mut readings, load) = (Vec::new(), loads.full);
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
    if effort.quick {
        return readings;
    }
    readings.extend(sweeps(runs, loads));
    // Load control takes so much away that little is left to be seen of a part of MLF-H.
    let ablations = CHECKS.iter().filter(|check| ABLATIONS.contains(&check.second.policy));
    for check in ablations {
        let (whole, without) = (Alone::MlfH.plain(), check.second.policy.plain());
        let values = gains(check.quantity, of(runs, load, whole), of(runs, load, without));
        let what = format!(
            "without load control: {}: {} better than {}, in parts",
            check.quantity.name(),
            whole.label(),
            without.label()
        );
        readings.push(over_workloads(check.number, what, Some(check.published), Gate::Told, &values));
    }
    for quantity in RISING {
        for (who, part) in rises(runs, loads, quantity) {
            let what = format!(
                "{} of {}: the part of the workloads on which it rises with the load",
                quantity.name(),
                who.label()
            );
            readings.push(Row::single("E8", what, Figures::default(), Gate::Told, Some(part)));
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
