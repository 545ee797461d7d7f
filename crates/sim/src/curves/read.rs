//! Reads a log: finds out how it names things, and takes every line that tells a loss.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use trainyard_sched::model::{Better, LossPoint};

use super::words::value_of;
use super::{CurvesError, LossLog, Recording};
use crate::trace::{Head, Header, Lines, Problem, Splitter, TraceError, nearest, number, shortened};
use crate::workload::{Done, ImportReport};

/// A log may have no more losses than this.
const MOST_POINTS: usize = 20_000_000;
/// How losses are called, the surest first.
const LOSSES: [&str; 7] =
    ["loss", "train_loss", "training_loss", "train/loss", "lm loss", "objective", "cost"];
/// What may be either.
const EITHER: [&str; 1] = ["metric"];
/// How scores are called, of which more is better.
const SCORES: [&str; 11] = [
    "score",
    "accuracy",
    "val_accuracy",
    "validation_accuracy",
    "eval_accuracy",
    "acc",
    "val_acc",
    "auc",
    "f1",
    "bleu",
    "reward",
];
const ITERATIONS: [&str; 8] =
    ["iteration", "iterations", "iter", "step", "global_step", "train/global_step", "epoch", "k"];
const ACCURACIES: [&str; 6] =
    ["accuracy", "val_accuracy", "validation_accuracy", "eval_accuracy", "acc", "val_acc"];
const CURVES: [&str; 4] = ["curve", "job", "job_id", "run"];

/// How a log calls things; what is left open is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogNames {
    /// The loss.
    pub loss: Option<String>,
    /// The iteration.
    pub iteration: Option<String>,
}

/// All names that are looked for.
fn known() -> impl Iterator<Item = &'static str> {
    LOSSES.into_iter().chain(EITHER).chain(SCORES)
}

/// Which way is better, as far as a name says.
fn better(name: &str) -> Option<Better> {
    let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_in(&LOSSES) {
        return Some(Better::Lower);
    }
    is_in(&SCORES).then_some(Better::Higher)
}

/// The names that are used.
struct Names {
    loss: String,
    iteration: Option<String>,
    accuracy: Option<String>,
    curve: Option<String>,
}

/// Reads a log, plain or packed with gzip or zstd.
pub fn read(path: &Path, names: &LogNames) -> Result<LossLog, CurvesError> {
    read_lines(Lines::open(path)?, names)
}

/// The same from anything; `file` is what errors and findings call it.
pub fn read_from(file: &str, source: impl Read, names: &LogNames) -> Result<LossLog, CurvesError> {
    read_lines(Lines::new(file, source), names)
}

fn read_lines(mut lines: Lines<'_>, asked: &LogNames) -> Result<LossLog, CurvesError> {
    let file = lines.file().to_owned();
    let head = match Head::of(lines.head()) {
        Ok(Some(head)) => (head.line.to_owned(), head.number, head.text.to_owned()),
        Ok(None) => return Err(TraceError::Empty { file }.into()),
        Err(line) => return Err(TraceError::HeaderNotText { file, line }.into()),
    };
    let separator = separator(&head.0, asked);
    let mut log = Log::new(&file);
    match separator {
        Some(separator) => log.read_table(&mut lines, separator, asked)?,
        None => log.read_text(&mut lines, (&head.0, head.1, &head.2), asked)?,
    }
    log.finish()
}

/// What separates the columns, if the first line is a header that names a loss.
fn separator(line: &str, asked: &LogNames) -> Option<u8> {
    let names_loss = |field: &str| {
        let field = field.trim().trim_matches('"');
        asked.loss.as_deref().map_or_else(
            || known().any(|name| field.eq_ignore_ascii_case(name)),
            |name| field.eq_ignore_ascii_case(name),
        )
    };
    [b',', b'\t', b';'].into_iter().find(|separator| line.split(char::from(*separator)).any(names_loss))
}

/// What was read so far.
struct Log {
    file: String,
    points: BTreeMap<String, Vec<LossPoint>>,
    count: usize,
    report: ImportReport,
    first: Option<String>,
    called: String,
    better: Option<Better>,
}

impl Log {
    fn new(file: &str) -> Self {
        let report = ImportReport { source: file.to_owned(), ..ImportReport::default() };
        Self {
            file: file.to_owned(),
            points: BTreeMap::new(),
            count: 0,
            report,
            first: None,
            called: String::new(),
            better: None,
        }
    }

    fn read_table(
        &mut self,
        lines: &mut Lines<'_>,
        separator: u8,
        asked: &LogNames,
    ) -> Result<(), CurvesError> {
        let header = Header::read_with(lines, separator)?;
        let columns: Vec<String> = header.names().iter().map(|name| name.to_lowercase()).collect();
        let place = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        let names = self.names(asked, |name| place(name).is_some(), &header.names().join(", "))?;
        let places = [
            place(&names.loss),
            names.iteration.as_deref().and_then(place),
            names.accuracy.as_deref().and_then(place),
            names.curve.as_deref().and_then(place),
        ];
        let mut splitter = Splitter::default();
        while let Some(line) = lines.next()? {
            let at = line.number;
            let row = line.text().and_then(|text| splitter.split(text, separator)).and_then(|record| {
                record.expect(header.len())?;
                let get = |i: usize| places[i].map(|place| record.get(place).trim());
                Ok((get(0).unwrap_or_default(), get(1), get(2), get(3).unwrap_or_default().to_owned()))
            });
            match row {
                Ok((loss, iteration, accuracy, curve)) => {
                    self.take(at, &names, (Some(loss), iteration, accuracy), &curve)?;
                }
                Err(problem) => self.leave_out(at, &problem),
            }
        }
        Ok(())
    }

    fn read_text(
        &mut self,
        lines: &mut Lines<'_>,
        (line, number, text): (&str, u64, &str),
        asked: &LogNames,
    ) -> Result<(), CurvesError> {
        let has = |name: &str| text.lines().any(|line| value_of(line, name).is_some());
        if asked.loss.is_none() && !known().any(has) {
            return Err(CurvesError::NoLoss {
                file: self.file.clone(),
                line: number,
                start: shortened(line, 60),
                known: known().collect::<Vec<_>>().join(", "),
            });
        }
        let names = self.names(asked, has, "")?;
        while let Some(line) = lines.next()? {
            let at = line.number;
            match line.text() {
                Ok(text) => {
                    let of = |name: &Option<String>| name.as_deref().and_then(|name| value_of(text, name));
                    // Lines that tell no loss belong to something else.
                    let Some(loss) = value_of(text, &names.loss) else {
                        self.report.find(
                            Done::Noted,
                            format!("the line does not tell `{}`", names.loss),
                            None,
                        );
                        continue;
                    };
                    self.take(at, &names, (Some(loss), of(&names.iteration), of(&names.accuracy)), "")?;
                }
                Err(problem) => self.leave_out(at, &problem),
            }
        }
        Ok(())
    }

    /// The names to be used, given what the log has.
    fn names(
        &mut self,
        asked: &LogNames,
        has: impl Fn(&str) -> bool,
        found: &str,
    ) -> Result<Names, CurvesError> {
        let missing = |name: &str| {
            CurvesError::NoSuchName {
            file: self.file.clone(),
            name: shortened(name, 60),
            hint: match found {
                "" => "a name is looked for as a whole word with a number behind it, in the beginning of the file".into(),
                _ => format!("it has {}; {}", shortened(found, 200), nearest(name, found.split(", "))),
            },
        }
        };
        let chosen = |asked: &Option<String>, known: &[&str]| match asked {
            Some(name) if has(name) => Ok(Some(name.clone())),
            Some(name) => Err(missing(name)),
            None => Ok(known.iter().find(|name| has(name)).map(|name| (*name).to_owned())),
        };
        let all: Vec<&str> = known().collect();
        let loss = chosen(&asked.loss, &all)?.ok_or_else(|| missing("loss"))?;
        let iteration = chosen(&asked.iteration, &ITERATIONS)?;
        let (accuracy, curve) = (chosen(&None, &ACCURACIES)?, chosen(&None, &CURVES)?);
        let accuracy = accuracy.filter(|name| *name != loss);
        self.better = better(&loss);
        let what = if self.better == Some(Better::Higher) { "score" } else { "loss" };
        self.report.find(Done::Noted, format!("the {what} is called `{loss}`"), None);
        self.called.clone_from(&loss);
        match &iteration {
            Some(name) => self.report.find(Done::Noted, format!("the iteration is called `{name}`"), None),
            None => self.report.find(Done::Assumed, "no iteration is told; each loss counts as one", None),
        }
        Ok(Names { loss, iteration, accuracy, curve })
    }

    /// Takes one point: the texts of loss, iteration and accuracy.
    fn take(
        &mut self,
        line: u64,
        names: &Names,
        (loss, iteration, accuracy): (Option<&str>, Option<&str>, Option<&str>),
        curve: &str,
    ) -> Result<(), CurvesError> {
        self.report.rows += 1;
        let point = self.point(names, (loss.unwrap_or_default(), iteration, accuracy), curve);
        match point {
            Ok(point) => {
                if self.count == MOST_POINTS {
                    let file = self.file.clone();
                    return Err(CurvesError::TooMany { file, line, limit: MOST_POINTS });
                }
                self.count += 1;
                self.report.kept += 1;
                match self.points.get_mut(curve) {
                    Some(points) => points.push(point),
                    None => drop(self.points.insert(curve.to_owned(), vec![point])),
                }
            }
            Err(problem) => {
                self.report.rows -= 1;
                self.leave_out(line, &problem);
            }
        }
        Ok(())
    }

    fn point(
        &self,
        names: &Names,
        (loss, iteration, accuracy): (&str, Option<&str>, Option<&str>),
        curve: &str,
    ) -> Result<LossPoint, Problem> {
        let loss = number(&names.loss, loss)?;
        let iteration = match (&names.iteration, iteration) {
            (Some(name), Some(text)) => number(name, text)?,
            (Some(name), None) => return Err(Problem::new("the iteration is missing", name, "")),
            (None, _) => self.points.get(curve).map_or(1.0, |points| points.len() as f64 + 1.0),
        };
        let accuracy = names
            .accuracy
            .as_deref()
            .zip(accuracy.filter(|text| !text.is_empty()))
            .map(|(name, text)| number(name, text))
            .transpose()?;
        Ok(LossPoint { iteration, loss, accuracy })
    }

    fn leave_out(&mut self, line: u64, problem: &Problem) {
        self.report.rows += 1;
        let place = problem.place(&self.file, line);
        self.first.get_or_insert_with(|| format!("{place}: {}", problem.what));
        self.report.find(Done::Dropped, problem.what.clone(), Some(place));
    }

    fn finish(mut self) -> Result<LossLog, CurvesError> {
        let mut curves = BTreeMap::new();
        for (name, points) in self.points {
            let told = points.len();
            let back = points.windows(2).filter(|pair| pair[1].iteration < pair[0].iteration).count();
            let Some(recording) = Recording::new(points) else { continue };
            let again = told - recording.points().len();
            let what = "the iteration is lower than the one before; the points were sorted";
            self.report.find_many(Done::Repaired, what, back as u64);
            let what = "the iteration was told before; the last loss for it counts";
            self.report.find_many(Done::Repaired, what, again as u64);
            curves.insert(name, Arc::new(recording));
        }
        if curves.is_empty() {
            let first = self.first.unwrap_or_else(|| "there are no lines with a loss".to_owned());
            return Err(CurvesError::NoPoints { file: self.file, first });
        }
        Ok(LossLog { curves, called: self.called, better: self.better, report: self.report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Result<LossLog, CurvesError> {
        read_from("log", text.as_bytes(), &LogNames::default())
    }

    fn points(log: &LossLog, curve: &str) -> Vec<(f64, f64)> {
        log.curves[curve].points().iter().map(|point| (point.iteration, point.loss)).collect()
    }

    #[test]
    fn one_curve_in_five_forms_is_the_same() {
        let expected = [(1.0, 4.0), (2.0, 2.5), (3.0, 2.0)];
        for text in [
            "iteration,loss\n1,4\n2,2.5\n3,2\n",
            "\u{feff}Step;Train_Loss\r\n1;4\r\n2;2.5\r\n3;2\r\n",
            "epoch\tmetric\tgrad\n1\t4\t9\n2\t2.5\t9\n3\t2\t9\n",
            "starting up\nstep 1: loss 4\nstep 2: loss 2.5\nsaved a checkpoint\nstep 3: loss 2\n",
            "{\"step\":1,\"loss\":4}\n{\"step\":2,\"loss\":2.5}\n{\"step\":3,\"loss\":2.0}\n",
            "loss = 4\nloss = 2.5\nloss = 2\n",
        ] {
            assert_eq!(points(&log(text).unwrap(), ""), expected, "{text}");
        }
    }

    #[test]
    fn several_curves_and_accuracies_are_told_apart() {
        let log = log("job,iteration,loss,accuracy\na,1,4,0.1\nb,1,9,\na,2,3,0.2\n").unwrap();
        assert_eq!(points(&log, "a"), [(1.0, 4.0), (2.0, 3.0)]);
        assert_eq!(points(&log, "b"), [(1.0, 9.0)]);
        let accuracies: Vec<_> = log.curves["a"].points().iter().map(|point| point.accuracy).collect();
        assert_eq!(accuracies, [Some(0.1), Some(0.2)]);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_counted() {
        let log = log("iteration,loss\n1,4\n2,nan\n3,oops\n4\n5,1\n2,3\n").unwrap();
        assert_eq!(points(&log, ""), [(1.0, 4.0), (2.0, 3.0), (5.0, 1.0)]);
        assert_eq!((log.report.rows, log.report.kept), (6, 3));
        assert_eq!(log.report.count(Done::Dropped), 3);
        assert_eq!(log.report.count(Done::Repaired), 1, "the iterations went back");
    }

    #[test]
    fn errors_say_what_there_is() {
        let told =
            |text: &str, names: &LogNames| read_from("l", text.as_bytes(), names).unwrap_err().to_string();
        let open = LogNames::default();
        assert!(told("", &open).contains("the file is empty"));
        assert!(told("hello\n", &open).starts_with("l:1: `hello` names no loss"));
        let asked = LogNames { loss: Some("los".to_owned()), ..LogNames::default() };
        let error = told("iteration,loss\n1,2\n", &asked);
        assert!(error.starts_with("l: nothing in it is called `los`"), "{error}");
        assert!(told("step 1: loss 2\n", &asked).contains("a whole word with a number behind it"));
        let asked = LogNames { iteration: Some("itertion".to_owned()), ..LogNames::default() };
        let error = told("iteration,loss\n1,2\n", &asked);
        assert!(error.contains("`itertion`") && error.contains("did you mean `iteration`?"), "{error}");
        assert!(told("iteration,loss\n1,nan\n", &open).contains("no line of it tells a loss"));
    }
}
