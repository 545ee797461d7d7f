//! What is said of loss curves, as text and as a page.

use std::path::Path;

use maud::{Markup, html};
use trainyard_sched::estimate::{Family, LossTrend};
use trainyard_sched::model::Better;
use trainyard_sim::workload::ImportReport;

use super::axis::Axis;
use super::report::{Curve, Figure, Page, facts, import_report, legend, lines};
use crate::experiment::{Caution, CurveAnswer, Fitted, Reach, TargetAnswer};

/// A loss in as many digits as say something.
fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !size.is_finite() => "unknown".to_owned(),
        0.0 => "0".to_owned(),
        1e-3..1e6 => {
            let decimals = (4 - size.log10().floor() as i32).clamp(0, 7) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.4e}"),
    }
}

/// Iterations are mostly whole.
fn iteration(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { number(value) }
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
    said.extend(answer.cautions.iter().map(|what| ("caution", caution(*what, answer.better))));
    match &answer.fit {
        Some(Fitted { formula: Some(formula), residual, family: of, .. }) => {
            said.push(("family", family(*of).to_owned()));
            said.push(("curve fitted", format!("{formula}; it leaves {} unexplained", number(*residual))));
        }
        Some(fit) => {
            let level = answer.asymptote.or_else(|| answer.ahead.first().map(|ahead| ahead.loss));
            let level = level.map_or_else(String::new, number);
            let said_of = format!("a constant, {level}; it leaves {} unexplained", number(fit.residual));
            said.push(("curve fitted", said_of));
        }
        None if answer.health.trend == LossTrend::Constant => {
            said.push(("curve fitted", "none, as all points are the same".to_owned()));
        }
        None => {
            said.push((
                "curve fitted",
                "none; expected is that changes go on shrinking as lately".to_owned(),
            ));
        }
    }
    for ahead in &answer.ahead {
        let loss = give_or_take(ahead.loss, ahead.deviation);
        said.push(("expected", format!("{loss} in {} iterations", ahead.iterations_ahead)));
    }
    said.push(("tends to", answer.asymptote.map_or_else(|| "unknown".to_owned(), number)));
    let flattens = flattens(answer);
    said.push(("flattens", flattens));
    said.extend(answer.target.map(|target| ("target", reach(&target))));
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
    said
}

/// When it is done.
fn flattens(answer: &CurveAnswer) -> String {
    let gained = "99 % of what can be gained";
    match (answer.health.trend, answer.flattens) {
        (LossTrend::Constant, _) => "it never changed".to_owned(),
        (LossTrend::Flat { since }, _) => format!("flat already, since iteration {}", iteration(since)),
        (_, Some(flat)) if flat.iteration < answer.latest.iteration => {
            let at = give_or_take(flat.iteration, flat.deviation);
            format!("at iteration {at}, which is past: {gained} was gained then")
        }
        (_, Some(flat)) => {
            let at = give_or_take(flat.iteration, flat.deviation);
            format!("at iteration {at}, when {gained} is gained")
        }
        (_, None) if answer.fit.is_none() || answer.health.is_diverging() => "unknown".to_owned(),
        (_, None) => "not within a thousand times what there is".to_owned(),
    }
}

fn reach(target: &TargetAnswer) -> String {
    let loss = number(target.loss);
    match target.reach {
        Reach::Reached { iteration: at } => format!("{loss} was reached at iteration {}", iteration(at)),
        Reach::Expected { iteration: at } => {
            format!("{loss} is expected at iteration {} by a curve that is not told of it", iteration(at))
        }
        Reach::Asymptote => format!("{loss} is where the curve tends to: it is come near to, not passed"),
        Reach::NotReachable { asymptote } => format!(
            "{loss} is not reachable by this curve: one that is not told of it tends to {}",
            number(asymptote)
        ),
        Reach::Unknown => format!("nothing can be said of when {loss} is reached"),
    }
}

/// Why little may be made of the rest.
fn caution(caution: Caution, better: Better) -> String {
    match (caution, better) {
        (Caution::Backwards, Better::Lower) => {
            "it only rises, so nothing below means anything: if it is a score, \
             say --better higher; if it is a loss, it diverges"
                .to_owned()
        }
        (Caution::Backwards, Better::Higher) => {
            "it only falls, so nothing below means anything: if it is a loss, \
             say --better lower; if it is a score, it gets worse"
                .to_owned()
        }
        (Caution::Diverging { since }, _) => format!(
            "diverging: it has got worse since iteration {}, which no curve below foresees",
            iteration(since)
        ),
        (Caution::Outlier { iteration: at, loss }, _) => format!(
            "an outlier, {} at iteration {}, bends the curve: leave it out of the log to see what is below without it",
            number(loss),
            iteration(at)
        ),
        (Caution::FewPoints { points }, _) => {
            let few = if points == 1 { "1 point is" } else { &format!("{points} points are") };
            format!("{few} too few: nothing could be held against what came, so this is a guess")
        }
        (Caution::NoTrend, _) => "no trend stands out from the noise".to_owned(),
        (Caution::Noise { part }, _) => {
            format!("noisy: about the curve it scatters by {:.0} % of what was gained so far", part * 100.0)
        }
        (Caution::Unbent, _) => {
            "it has hardly bent yet: where it tends to, and when it flattens, lies beyond all that was seen"
                .to_owned()
        }
    }
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
