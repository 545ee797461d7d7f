//! Losses of real training runs, predicted ten reports ahead as SLAQ would online: at each report from the 20th on, the
//! curve is fitted to what was reported so far, and the error is that of the tenth report after it, relative to what was
//! reported then. All logs that are at hand are shown, also those whose loss is not of SLAQ's kind.

mod shared_data;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use shared_data::public;
use trainyard_sched::estimate::{Expected, Fitting, LossHistory};
use trainyard_sched::model::{Better, Convergence, DeclaredLoss, LossPoint};

/// The logs of one model.
struct Kind {
    folder: &'static str,
    better: Better,
    /// What the mean error of none of its logs exceeds, in percent: as deep networks are declared, and if nothing is. SLAQ's
    /// paper has 5 % for its own workloads.
    most_percent: [f64; 2],
}

/// Accuracies, F1 scores and word error rates; of yolov3 it is the loss on held-out data. Those of bert and gpt_pmp have two
/// reports each, of which nothing can be predicted.
const KINDS: [Kind; 7] = [
    Kind { folder: "rubick/loss", better: Better::Lower, most_percent: [1.5, 1.5] },
    Kind { folder: "sia/traces/bert", better: Better::Higher, most_percent: [0.0, 0.0] },
    Kind { folder: "sia/traces/gpt_pmp", better: Better::Higher, most_percent: [0.0, 0.0] },
    Kind { folder: "sia/traces/cifar10", better: Better::Higher, most_percent: [1.5, 1.5] },
    // Falls from 100 % along a line that ends in a corner: extrapolated past the corner, the line is wrong by up to its whole
    // fall in ten reports.
    Kind { folder: "sia/traces/deepspeech2", better: Better::Lower, most_percent: [7.0, 6.0] },
    // After reports 30 and 60, where the usual schedule lowers the learning rate, the accuracy jumps by up to a third at once.
    // No curve can foresee that (to assume no change errs by 5 to 8 %), and for some reports afterwards any smooth curve takes
    // the jump for its slope.
    Kind { folder: "sia/traces/imagenet", better: Better::Higher, most_percent: [15.5, 15.5] },
    Kind { folder: "sia/traces/yolov3", better: Better::Lower, most_percent: [4.0, 4.0] },
];

/// Predictions begin here.
const FIRST: usize = 20;
const AHEAD: usize = 10;

#[expect(clippy::disallowed_methods, reason = "the data are files")]
fn logs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.retain(|path| {
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        name.starts_with("validation-") || name.ends_with(".log.gz")
    });
    paths.sort();
    paths
}

#[expect(clippy::disallowed_methods, reason = "the data are files")]
fn numbers(path: &Path) -> Vec<f64> {
    let bytes = std::fs::read(path).expect("the log can be read");
    if path.extension().is_some_and(|extension| extension == "csv") {
        let mut rows = csv::Reader::from_reader(&bytes[..]);
        let metric = rows.headers().expect("a head").iter().position(|name| name == "metric");
        let metric = metric.expect("there is a metric");
        return rows.records().map(|row| row.expect("a row")[metric].parse().expect("a number")).collect();
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("it is text");
    // Evaluations between iterations are not what the job reports.
    let steps = text.lines().filter(|line| line.starts_with("{\"iteration\""));
    let number = |line: &str| {
        let rest = line.split_once("lm loss: ").expect("a loss").1;
        rest.split_once(' ').expect("more follows").0.parse().expect("a number")
    };
    steps.map(number).collect()
}

/// Mean relative errors in percent of what `predict` says of the report ten later.
fn mean_error(
    numbers: &[f64],
    declared: &DeclaredLoss,
    predict: impl Fn(&LossHistory, f64) -> f64,
) -> Option<f64> {
    let mut history = LossHistory::default();
    let mut errors = Vec::new();
    for (i, number) in numbers.iter().enumerate() {
        let point = LossPoint { iteration: (i + 1) as f64, loss: *number, accuracy: None };
        history.report(&[point], declared, Some(&Fitting::default()));
        if let Some(truth) = numbers.get(i + AHEAD).filter(|_| i + 1 >= FIRST) {
            let truth = if declared.better == Better::Higher { -truth } else { *truth };
            errors.push(((predict(&history, (i + 1 + AHEAD) as f64) - truth) / truth).abs());
        }
    }
    (!errors.is_empty()).then(|| 100.0 * errors.iter().sum::<f64>() / errors.len() as f64)
}

fn fitted(history: &LossHistory, k: f64) -> f64 {
    history.expected().map_or(f64::NAN, |expected: Expected| expected.loss(k))
}

#[test]
fn real_losses_are_predicted_ten_reports_ahead() {
    let Some(data) = public("") else { return };
    let mut table = format!(
        "{:42}{:>8}{:>9}{:>9}{:>9}{:>9}{:>10}\n",
        "mean error in percent", "reports", "deep net", "unknown", "subl.", "linear", "no change"
    );
    let mut wrong = Vec::new();
    let mut seen = 0;
    for kind in &KINDS {
        for path in logs(&data.join(kind.folder)) {
            seen += 1;
            let numbers = numbers(&path);
            let name = format!("{}/{}", kind.folder, path.file_name().expect("a name").to_string_lossy());
            let declared =
                |convergence| DeclaredLoss { better: kind.better, convergence, ..DeclaredLoss::default() };
            let classes =
                [Some(Convergence::NonConvex), None, Some(Convergence::Sublinear), Some(Convergence::Linear)];
            let mut errors: Vec<Option<f64>> =
                classes.iter().map(|class| mean_error(&numbers, &declared(*class), fitted)).collect();
            let latest = |history: &LossHistory, _| history.latest().map_or(f64::NAN, |point| point.loss);
            errors.push(mean_error(&numbers, &declared(None), latest));
            let cell = |error: &Option<f64>| error.map_or("-".to_owned(), |error| format!("{error:.2}"));
            let _ = write!(table, "{name:42}{:>8}", numbers.len());
            table.extend(errors.iter().map(|error| format!("{:>9}", cell(error))));
            table.push('\n');
            for (error, most) in errors.iter().zip(kind.most_percent) {
                if error.is_some_and(|error| error.is_nan() || error > most) {
                    wrong.push(format!("{name}: {error:?} is over {most}"));
                }
            }
        }
    }
    println!("{table}");
    assert_eq!(seen, 39, "all logs are shown");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
