//! What the native format says of training itself: iterations, the speed of one, and the loss.

use trainyard_sched::model::{Better, Convergence, Curve, DeclaredLoss, Span, SpeedFunction};

use super::{Key, Texts, goals};
use crate::curves::LossLog;
use crate::loss::{Course, TrueLoss};
use crate::trace::fields::{MOST_ITERATIONS, Problem, number, number_within};
use crate::trace::{nearest, shortened};
use crate::truth::{Speed, Truth};

/// How far `duration_s` may be from what the speed says, as a part of it.
const AGREEMENT: f64 = 1e-3;
const CONVERGENCES: [(&str, Convergence); 3] = [
    ("sublinear", Convergence::Sublinear),
    ("linear", Convergence::Linear),
    ("non_convex", Convergence::NonConvex),
];
const DIRECTIONS: [(&str, Better); 2] = [("lower", Better::Lower), ("higher", Better::Higher)];

/// How many iterations there are.
pub(super) fn iterations(field: &str, text: &str) -> Result<f64, Problem> {
    number_within(field, text, 1e-6, MOST_ITERATIONS)
}

/// How a job trains that runs for `duration` on so many workers: its truth but for its ending.
pub(super) fn truth(
    texts: &Texts<'_>,
    duration: Span,
    workers: u32,
    curves: Option<&LossLog>,
) -> Result<Truth, Problem> {
    let iterations = texts.optional(Key::Iterations, iterations)?;
    let seconds = |field: &str, text: &str| number_within(field, text, 0.0, 1e9);
    let (work_s, fixed_s) = (texts.optional(Key::Work, seconds)?, texts.optional(Key::Fixed, seconds)?);
    let mut truth = match (work_s, iterations) {
        (None, _) if fixed_s.is_some() => {
            let (field, text) = texts.get(Key::Fixed);
            return Err(Problem::new("fixed_s needs work_s beside it", field, text));
        }
        (None, None) => Truth::lasting(duration, workers),
        (None, Some(iterations)) => Truth::iterating(duration, iterations, workers),
        (Some(work_s), iterations) => {
            let (field, text) = texts.get(Key::Work);
            let iterations =
                iterations.ok_or_else(|| Problem::new("work_s needs iterations beside it", field, text))?;
            let fixed_s = fixed_s.unwrap_or(0.0);
            let said_s = iterations * (work_s / f64::from(workers) + fixed_s);
            let agrees = (duration.as_secs_f64() - said_s).abs() <= AGREEMENT * said_s + 1e-6;
            if !agrees || said_s <= 0.0 {
                let what = format!(
                    "duration_s is not iterations x (work_s / workers + fixed_s), which is {said_s:.6} s"
                );
                let (field, text) = texts.get(Key::Duration);
                return Err(Problem::new(what, field, text));
            }
            let speed = Speed::Function(SpeedFunction::WithFixedPart { work_s, fixed_s });
            Truth { iterations, speed, ..Truth::lasting(duration, workers) }
        }
    };
    truth.loss = loss(texts, curves)?;
    Ok(truth)
}

/// The time of one iteration on the workers to which the duration belongs, and on the smallest gang.
pub(super) fn iteration(truth: &Truth, workers: u32, least: u32) -> (Span, Span) {
    match &truth.speed {
        Speed::Function(function) => {
            let on = |workers| Span::from_secs_f64(1.0 / function.iterations_per_s(workers, 0)).max(Span(1));
            (on(workers), on(least))
        }
        Speed::Fixed { iteration, workers } => {
            (*iteration, iteration.scaled(f64::from(*workers) / f64::from(least)))
        }
        Speed::Table { .. } | Speed::Measured(_) | Speed::Graph(_) => {
            unreachable!("no column names measurements")
        }
    }
}

/// The loss that the job reports.
pub(super) fn loss(texts: &Texts<'_>, curves: Option<&LossLog>) -> Result<Option<TrueLoss>, Problem> {
    let accuracy = goals::accuracy(texts)?;
    let noise = texts.optional(Key::LossNoise, |field, text| number_within(field, text, 0.0, 1.0))?;
    let Some(course) = texts.optional(Key::Loss, |field, text| course(field, text, curves))? else {
        let (field, text) = texts.get(Key::Accuracy);
        let alone = || Problem::new("accuracy needs loss beside it", field, text);
        return accuracy.map_or(Ok(None), |_| Err(alone()));
    };
    if let Some(curve) = course.formula() {
        agrees(texts, curve)?;
    }
    let seed = TrueLoss::seed_of(texts.get(Key::JobId).1);
    Ok(Some(TrueLoss { course, noise: noise.unwrap_or(0.0), seed, accuracy }))
}

/// A formula gets better the way that its owner says.
fn agrees(texts: &Texts<'_>, curve: Curve) -> Result<(), Problem> {
    let rises = matches!(curve, Curve::Geometric { amplitude, .. } if amplitude < 0.0);
    let better =
        texts.optional(Key::Better, |field, text| word(field, text, &DIRECTIONS))?.unwrap_or_default();
    let what = match (better, rises) {
        (Better::Lower, true) => {
            "it rises, as its amplitude is negative; a score that rises has `higher` in the column better"
        }
        (Better::Higher, false) => {
            "it falls, but the column better says `higher`; a score that rises is `geometric` with a negative amplitude"
        }
        (Better::Lower, false) | (Better::Higher, true) => return Ok(()),
    };
    let (field, text) = texts.get(Key::Loss);
    Err(Problem::new(what, field, text))
}

fn course(field: &str, text: &str, curves: Option<&LossLog>) -> Result<Course, Problem> {
    let mut words = text.split_whitespace();
    let (name, numbers) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
    let read = |count: usize| -> Result<Vec<f64>, Problem> {
        if numbers.len() != count {
            return Err(Problem::new(format!("{name} needs {count} numbers"), field, text));
        }
        numbers.iter().map(|word| number(field, word)).collect()
    };
    let sound = |holds: bool, curve: Curve, what: &str| {
        if holds { Ok(Course::Formula(curve)) } else { Err(Problem::new(what, field, text)) }
    };
    match name {
        "sublinear" => {
            let [a, b, c, d] = read(4)?[..] else { unreachable!("four were asked for") };
            let holds = a >= 0.0 && b >= 0.0 && c > 0.0;
            sound(holds, Curve::Sublinear { a, b, c, d }, "a and b must not be negative, and c above 0")
        }
        "geometric" => {
            let [amplitude, mu, c] = read(3)?[..] else { unreachable!("three were asked for") };
            let holds = 0.0 < mu && mu < 1.0;
            sound(holds, Curve::Geometric { amplitude, mu, c }, "mu must be between 0 and 1")
        }
        _ => {
            let known = curves.and_then(|log| log.curves.get(text));
            known.cloned().map(Course::Recorded).ok_or_else(|| {
                let names = |log: &LossLog| log.curves.keys().any(|name| !name.is_empty());
                let hint = match curves {
                    None => "give the recorded curves with --curves FILE".to_owned(),
                    Some(log) if names(log) => {
                        nearest(&shortened(text, 60), log.curves.keys().map(String::as_str))
                    }
                    Some(log) => format!(
                        "{} has no column `curve` that names its curves",
                        shortened(&log.report.source, 60)
                    ),
                };
                Problem::new(format!("there is no curve of this name; {hint}"), field, text)
            })
        }
    }
}

/// What the owner says beforehand of the loss.
pub(super) fn declared_loss(texts: &Texts<'_>) -> Result<DeclaredLoss, Problem> {
    Ok(DeclaredLoss {
        better: texts
            .optional(Key::Better, |field, text| word(field, text, &DIRECTIONS))?
            .unwrap_or_default(),
        convergence: texts.optional(Key::Convergence, |field, text| word(field, text, &CONVERGENCES))?,
        target: texts.optional(Key::TargetLoss, number)?,
        curve: None,
    })
}

fn word<T: Copy>(field: &str, text: &str, known: &[(&str, T)]) -> Result<T, Problem> {
    known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Problem::new(format!("{field} is one of {}", words.join(", ")), field, text)
    })
}

/// The texts for the columns of this file, in their order, and for the accuracy; or what they cannot say.
pub(crate) fn texts(truth: &Truth, declared: &DeclaredLoss) -> Result<[String; 9], &'static str> {
    let (work, fixed) = match truth.speed {
        Speed::Function(SpeedFunction::WithFixedPart { work_s, fixed_s }) => {
            (work_s.to_string(), fixed_s.to_string())
        }
        _ => Default::default(),
    };
    // One iteration a second needs not be said.
    let usual = matches!(truth.speed, Speed::Fixed { iteration, .. } if iteration == Span::from_secs(1));
    let accuracy = truth.loss.as_ref().and_then(|loss| loss.accuracy.as_ref());
    let (loss, noise) = truth.loss.as_ref().map_or(Ok(Default::default()), loss_texts)?;
    if declared.curve.is_some() {
        return Err("it declares its loss curve");
    }
    let direction = (declared.better != Better::default()).then_some(declared.better);
    Ok([
        if usual { String::new() } else { truth.iterations.to_string() },
        work,
        fixed,
        loss,
        noise,
        name_of(direction, &DIRECTIONS),
        name_of(declared.convergence, &CONVERGENCES),
        declared.target.map_or_else(String::new, |target| target.to_string()),
        accuracy.map_or_else(String::new, goals::accuracy_text),
    ])
}

fn loss_texts(loss: &TrueLoss) -> Result<(String, String), &'static str> {
    let course = match &loss.course {
        Course::Formula(Curve::Sublinear { a, b, c, d }) => format!("sublinear {a} {b} {c} {d}"),
        Course::Formula(Curve::Geometric { amplitude, mu, c }) => format!("geometric {amplitude} {mu} {c}"),
        Course::Recorded(_) => return Err("its loss is a recorded curve, whose name is not kept"),
    };
    Ok((course, if loss.noise == 0.0 { String::new() } else { loss.noise.to_string() }))
}

fn name_of<T: PartialEq>(value: Option<T>, known: &[(&str, T)]) -> String {
    let found = value.and_then(|value| known.iter().find(|(_, known)| *known == value));
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::curves::{LogNames, read_from as read_log};
    use crate::trace::{Options, read_from};
    use crate::workload::{Done, Workload};

    const HEAD: &str = "job_id,submit_s,duration_s,gpus,cpus,workers,iterations,work_s,fixed_s,loss,loss_noise,better,convergence,target_loss\n";

    fn with(row: &str) -> Result<Workload, String> {
        let curves =
            read_log("c.csv", &b"curve,iteration,loss\nbert,0,9\nbert,10,4\n"[..], &LogNames::default());
        let options = Options { curves: Some(Arc::new(curves.unwrap())), ..Options::default() };
        read_from("own.csv", format!("{HEAD}{row}\n").as_bytes(), &options).map_err(|error| error.to_string())
    }

    #[test]
    fn speeds_and_losses_are_read() {
        let workload = with("a,0,105,0,1,4,100,4,0.05,sublinear 0 1 0.5 2,0.01,lower,sublinear,2").unwrap();
        let (job, truth) = &workload.jobs[0];
        let function = SpeedFunction::WithFixedPart { work_s: 4.0, fixed_s: 0.05 };
        assert_eq!((truth.iterations, &truth.speed), (100.0, &Speed::Function(function)));
        let loss = truth.loss.as_ref().unwrap();
        assert_eq!(loss.course, Course::Formula(Curve::Sublinear { a: 0.0, b: 1.0, c: 0.5, d: 2.0 }));
        assert_eq!(loss.noise, 0.01);
        let declared = job.declared.loss;
        assert_eq!((declared.convergence, declared.target), (Some(Convergence::Sublinear), Some(2.0)));
        let recorded = with("a,0,100,1,,,10,,,bert,,higher,,").unwrap();
        let (job, truth) = &recorded.jobs[0];
        assert_eq!(truth.loss.as_ref().unwrap().reported(5.0), 6.5);
        assert_eq!((truth.iterations, job.declared.loss.better), (10.0, Better::Higher));
    }

    #[test]
    fn a_score_may_rise_by_a_formula() {
        let workload = with("a,0,9,1,,,,,,geometric -0.8 0.5 0.9,,higher,,").unwrap();
        let loss = workload.jobs[0].1.loss.as_ref().unwrap();
        assert_eq!([0.0, 1.0].map(|k| loss.reported(k)), [0.9 - 0.8, 0.9 - 0.4]);
    }

    #[test]
    fn curves_without_names_are_said_to_have_none() {
        let curves = read_log("c.csv", &b"iteration,loss\n0,9\n10,4\n"[..], &LogNames::default());
        let options = Options { curves: Some(Arc::new(curves.unwrap())), ..Options::default() };
        let trace = format!("{HEAD}a,0,9,1,,,,,,bert,,,,\n");
        let error = read_from("own.csv", trace.as_bytes(), &options).unwrap_err().to_string();
        assert!(error.contains("c.csv has no column `curve`"), "{error}");
    }

    #[test]
    fn what_was_done_to_a_log_is_told_with_the_trace() {
        let curves = read_log(
            "c.csv",
            &b"curve,iteration,loss\nbert,0,9\nbert,1,nan\nbert,1,3\nbert,1,2\n"[..],
            &LogNames::default(),
        );
        let options = Options { curves: Some(Arc::new(curves.unwrap())), ..Options::default() };
        let trace = format!("{HEAD}a,0,9,1,,,,,,bert,,,,\n");
        let report = read_from("own.csv", trace.as_bytes(), &options).unwrap().report;
        assert_eq!((report.count(Done::Dropped), report.count(Done::Repaired)), (1, 1));
        assert!(report.findings.iter().all(|finding| finding.what.starts_with("c.csv: ")), "{report:?}");
        assert_eq!((report.rows, report.kept), (1, 1));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (row, what) in [
            ("a,0,9,0,1,4,,4,,,,,,", "work_s needs iterations"),
            ("a,0,9,0,1,4,,,4,,,,,", "fixed_s needs work_s"),
            ("a,0,9,0,1,4,100,4,0.05,,,,,", "which is 105.000000 s"),
            ("a,0,9,1,,,,,,sublinear 1 2,,,,", "sublinear needs 4 numbers"),
            ("a,0,9,1,,,,,,sublinear 0 1 0 2,,,,", "c above 0"),
            ("a,0,9,1,,,,,,geometric 1 1.5 2,,,,", "mu must be between 0 and 1"),
            ("a,0,9,1,,,,,,geometric -1 0.5 2,,,,", "has `higher` in the column better"),
            ("a,0,9,1,,,,,,geometric 1 0.5 2,,higher,,", "it falls, but the column better says `higher`"),
            ("a,0,9,1,,,,,,sublinear 0 1 1 2,,higher,,", "`geometric` with a negative amplitude"),
            ("a,0,9,1,,,,,,bret,,,,", "did you mean `bert`?"),
            ("a,0,9,1,,,,,,,,down,,", "better is one of lower, higher"),
            ("a,0,9,1,,,,,,,,,convex,", "convergence is one of sublinear, linear, non_convex"),
            ("a,0,9,1,,,,,,,2,,,", "loss_noise"),
        ] {
            let error = with(row).unwrap_err();
            assert!(error.contains(what), "{row}: {error}");
        }
    }
}
