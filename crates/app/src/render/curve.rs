//! What is said of loss curves, as text and as a page.

use std::path::Path;

use maud::{Markup, html};
use trainyard_sched::estimate::{Family, LossHealth};
use trainyard_sim::workload::ImportReport;

use super::axis::Axis;
use super::report::{Curve, Figure, Page, facts, import_report, legend, lines};
use crate::experiment::CurveAnswer;

/// A loss in as many digits as say something.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        1e-3..1e6 => {
            let decimals = (4 - size.log10().floor() as i32).clamp(0, 7) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.4e}"),
    }
}

fn give_or_take(value: f64, deviation: Option<f64>) -> String {
    deviation.map_or_else(|| number(value), |by| format!("{} +- {}", number(value), number(by)))
}

const fn family(family: Family) -> &'static str {
    match family {
        Family::Sublinear => "sublinear, as of first-order methods",
        Family::Geometric => "geometric, as of quasi-Newton methods and the like",
    }
}

/// All answers, one below the other.
pub(crate) fn curve_text(answers: &[CurveAnswer]) -> String {
    let text = |answer: &CurveAnswer| {
        let lines = said(answer).into_iter().map(|(term, fact)| format!("{term:>14}  {fact}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    answers.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

/// What is said of a curve, term by term.
fn said(answer: &CurveAnswer) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    if !answer.curve.is_empty() {
        said.push(("curve", answer.curve.clone()));
    }
    said.push((
        "points",
        format!(
            "{}, from {} at iteration {} to {} at iteration {}",
            answer.points,
            number(answer.first.loss),
            answer.first.iteration,
            number(answer.latest.loss),
            answer.latest.iteration
        ),
    ));
    match &answer.fit {
        Some(fit) => {
            said.push(("family", family(fit.family).to_owned()));
            said.push((
                "curve fitted",
                format!("{}; it leaves {} unexplained", fit.formula, number(fit.residual)),
            ));
        }
        None => {
            said.push(("curve fitted", "none; expected is that changes go on shrinking as lately".to_owned()))
        }
    }
    for ahead in &answer.ahead {
        let loss = give_or_take(ahead.loss, ahead.deviation);
        said.push(("expected", format!("{loss} in {} iterations", ahead.iterations_ahead)));
    }
    if let Some(asymptote) = answer.asymptote {
        said.push(("tends to", number(asymptote)));
    }
    let flattens = answer.flattens.map_or_else(
        || "not within a thousand times what there is".to_owned(),
        |flat| {
            format!(
                "at iteration {}, when 99 % of what can be gained is gained",
                give_or_take(flat.iteration, flat.deviation)
            )
        },
    );
    said.push(("flattens", flattens));
    if let Some(back) = answer.looking_back {
        said.push((
            "looking back",
            format!(
                "ten points ahead it was off by {:.2} % on average, {:.2} % at worst, of {} looks",
                back.mean_error * 100.0,
                back.worst_error * 100.0,
                back.looks
            ),
        ));
    }
    said.extend(odd(answer.health).map(|what| ("odd", what)));
    said
}

/// What stands out.
fn odd(health: LossHealth) -> impl Iterator<Item = String> {
    [
        health
            .direction_suspicious
            .then(|| "it has only got worse; is lower or higher better? See --better".to_owned()),
        (health.diverging && !health.direction_suspicious).then(|| "it gets worse steadily".to_owned()),
        health.flat.then(|| "it does not change any more".to_owned()),
    ]
    .into_iter()
    .flatten()
}

/// The whole page.
pub(crate) fn curve_page(file: &Path, answers: &[CurveAnswer], report: &ImportReport) -> String {
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let foretold = answers.iter().filter_map(|answer| answer.looking_back).map(|back| back.mean_error);
    let worst =
        foretold.fold(None, |most: Option<f64>, error| Some(most.map_or(error, |most| most.max(error))));
    let in_short = worst.map_or_else(
        || "There are too few points to say how well the curve is foretold.".to_owned(),
        |worst| format!("Ten points ahead the loss is foretold to within {:.1} % on average.", worst * 100.0),
    );
    let mut page = Page::new(format!("Loss curves of {name}"), in_short).with(
        "read",
        "What was read and assumed",
        import_report(report),
    );
    let drawn = html! { @for answer in answers { (section(answer)) } };
    page = page.with("curves", "Curves", drawn);
    page.note("Plus and minus is one standard deviation of a loss that would be reported then.").into_html()
}

fn section(answer: &CurveAnswer) -> Markup {
    let said = said(answer);
    let terms: Vec<(&str, Markup)> = said.iter().map(|(term, fact)| (*term, html! { (fact) })).collect();
    let title = if answer.curve.is_empty() { "The curve" } else { &answer.curve };
    html! {
        @if !answer.curve.is_empty() { h3 { (answer.curve) } }
        (facts(&terms))
        (figure(title, answer))
    }
}

fn figure(title: &str, answer: &CurveAnswer) -> Markup {
    let drawn = &answer.drawn;
    let named =
        [("log", &drawn.log), ("expected", &drawn.expected), ("expected ten points before", &drawn.foretold)];
    let all = named.iter().flat_map(|(_, points)| points.iter());
    let start = [answer.first.loss, answer.latest.loss];
    let (low, high) = (start[0].min(start[1]), start[0].max(start[1]));
    let (low, high) =
        all.clone().fold((low, high), |(low, high), (_, loss)| (low.min(*loss), high.max(*loss)));
    let last = all.map(|(k, _)| *k).fold(1.0, f64::max);
    let (x, y) = (Axis::counts(last, "iterations"), Axis::numbers(low, high, "loss"));
    let curves: Vec<Curve<'_>> = named
        .iter()
        .enumerate()
        .map(|(series, (name, points))| Curve { name, series, points, steps: false })
        .collect();
    let alternative =
        format!("Loss over {last:.0} iterations, from {} to {}.", number(start[0]), number(start[1]));
    let names: Vec<String> = named.iter().map(|(name, _)| (*name).to_owned()).collect();
    let reading = "Beyond the end of the log only what is expected is drawn.";
    html! { (legend(&names)) (lines(&Figure { title, reading, alternative }, &x, &y, &curves)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_digits_that_say_something() {
        let shown = [0.0, 10.497_24, 0.012_345_67, 1e-8, 2.5e7, -3.0].map(number);
        assert_eq!(shown, ["0", "10.497", "0.012346", "1.0000e-8", "2.5000e7", "-3.0000"]);
    }
}
