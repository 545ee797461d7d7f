//! What the native format says of the goals of a job, whatever its shape: how urgent it is, which accuracy it needs, when it has
//! had enough, and how its accuracy really goes.

use trainyard_sched::model::{Accuracy, Goals, PriorityClass, Relaxing, StopRule, Urgency};

use super::{Key, Texts};
use crate::accuracy::TrueAccuracy;
use crate::trace::fields::{MOST_ITERATIONS, Problem, number_within, time_s, whole};
use crate::trace::nearest;

const OWN: &str = "own_iterations";
const ITERATIONS: &str = "iterations";
const AT_PEAK: &str = "at_peak";
const AT_ACCURACY: &str = "at_accuracy";
const RELAXATIONS: [&str; 3] = ["own_to_peak", "own_to_accuracy", "peak_to_accuracy"];
/// The family of the curve of an accuracy.
const WEIBULL: &str = "weibull";

/// What a job is for.
pub(super) fn read(texts: &Texts<'_>) -> Result<Goals, Problem> {
    let class = texts.optional(Key::Class, |field, text| whole(field, text, -32_768.0, 32_767.0))?;
    let weight = texts.optional(Key::Weight, |field, text| number_within(field, text, 0.0, 1e9))?;
    let urgency = texts.optional(Key::Urgency, |field, text| whole(field, text, 0.0, 255.0))?;
    Ok(Goals {
        class: PriorityClass(class.unwrap_or(0.0) as i16),
        weight: weight.unwrap_or(1.0),
        deadline: texts.optional(Key::Deadline, time_s)?,
        urgency: Urgency(urgency.unwrap_or(0.0) as u8),
        accuracy: texts.optional(Key::RequiredAccuracy, fraction)?.map(Accuracy),
        stop: texts.optional(Key::Stop, stop)?.unwrap_or_default(),
        may_relax: texts.optional(Key::MayRelax, relaxing)?.unwrap_or_default(),
        ..Goals::default()
    })
}

fn fraction(field: &str, text: &str) -> Result<f64, Problem> {
    number_within(field, text, 0.0, 1.0)
}

fn stop(field: &str, text: &str) -> Result<StopRule, Problem> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [OWN] => Ok(StopRule::OwnIterations),
        [ITERATIONS, most] => Ok(StopRule::Iterations(whole(field, most, 1.0, MOST_ITERATIONS)? as u64)),
        [AT_PEAK] => Ok(StopRule::AtPeak),
        [AT_ACCURACY, accuracy] => Ok(StopRule::AtAccuracy(Accuracy(fraction(field, accuracy)?))),
        _ => {
            let what =
                format!("{field} is one of `{OWN}`, `{ITERATIONS} N`, `{AT_PEAK}`, `{AT_ACCURACY} ACCURACY`");
            Err(Problem::new(what, field, text))
        }
    }
}

fn relaxing(field: &str, text: &str) -> Result<Relaxing, Problem> {
    let mut may = Relaxing::NONE;
    for word in text.split('|').map(str::trim) {
        match word {
            "own_to_peak" => may.own_to_peak = true,
            "own_to_accuracy" => may.own_to_accuracy = true,
            "peak_to_accuracy" => may.peak_to_accuracy = true,
            _ => {
                let hint = nearest(word, RELAXATIONS.into_iter());
                return Err(Problem::new(format!("{field} has an unknown word; {hint}"), field, word));
            }
        }
    }
    Ok(may)
}

/// How the accuracy really goes: `weibull start top scale shape`, and `from each` behind it if it falls in the end.
pub(super) fn accuracy(texts: &Texts<'_>) -> Result<Option<TrueAccuracy>, Problem> {
    texts.optional(Key::Accuracy, |field, text| {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<&str> = words.collect();
        if name != WEIBULL || !matches!(numbers.len(), 4 | 6) {
            let what = format!(
                "{field} is `{WEIBULL} start top scale shape` or `{WEIBULL} start top scale shape from each`"
            );
            return Err(Problem::new(what, field, text));
        }
        let within = |i: usize, least, most| number_within(field, numbers[i], least, most);
        let fall = if numbers.len() == 6 {
            Some((within(4, 0.0, MOST_ITERATIONS)?, within(5, 0.0, 1.0)?))
        } else {
            None
        };
        Ok(TrueAccuracy {
            start: within(0, 0.0, 1.0)?,
            top: within(1, 0.0, 1.0)?,
            scale: within(2, 1e-6, MOST_ITERATIONS)?,
            shape: within(3, 1e-3, 100.0)?,
            fall,
        })
    })
}

/// The text of an accuracy.
pub(crate) fn accuracy_text(accuracy: &TrueAccuracy) -> String {
    let TrueAccuracy { start, top, scale, shape, fall } = accuracy;
    let fall = fall.map_or_else(String::new, |(from, each)| format!(" {from} {each}"));
    format!("{WEIBULL} {start} {top} {scale} {shape}{fall}")
}

/// The text of a stop rule; empty for the usual one.
pub(crate) fn stop_text(stop: StopRule) -> String {
    match stop {
        StopRule::OwnIterations => String::new(),
        StopRule::Iterations(most) => format!("{ITERATIONS} {most}"),
        StopRule::AtPeak => AT_PEAK.to_owned(),
        StopRule::AtAccuracy(Accuracy(accuracy)) => format!("{AT_ACCURACY} {accuracy}"),
    }
}

/// The text of what a job may be relaxed to.
pub(crate) fn relaxing_text(may: Relaxing) -> String {
    let each = [may.own_to_peak, may.own_to_accuracy, may.peak_to_accuracy];
    let words = RELAXATIONS.iter().zip(each).filter(|(_, may)| *may).map(|(word, _)| *word);
    words.collect::<Vec<_>>().join("|")
}
