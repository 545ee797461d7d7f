//! `curve`: what can be said of losses that a program wrote down.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use trainyard_sched::estimate::{Fitting, Recency};
use trainyard_sched::model::{Better, Convergence, DeclaredLoss};
use trainyard_sim::curves::{self, LogNames, LossLog};
use trainyard_sim::workload::Done;

use super::compare::say_findings;
use super::{Ending, Output, print, say};
use crate::config::{ArgumentError, PIPE};
use crate::experiment::{CurveAnswer, fit_curve, looked_at, make_folder, write_text};
use crate::failure::Failure;
use crate::render::{curve_page, curve_text};

/// What can be done with loss curves.
#[derive(Subcommand, Debug)]
pub(super) enum CurveCommand {
    /// Fit the losses of a log, and tell what is expected of them.
    Fit(FitArguments),
}

/// What `curve fit` is told.
#[derive(Args, Debug)]
pub(super) struct FitArguments {
    /// The log: a table, JSON lines, or any text with `loss = NUMBER` in it; plain or packed. `-` is standard input.
    file: PathBuf,
    /// What the log calls the loss [default: found out].
    #[arg(long, value_name = "NAME")]
    loss: Option<String>,
    /// What the log calls the iteration [default: found out].
    #[arg(long, value_name = "NAME")]
    iteration: Option<String>,
    /// Of a log with several curves only this one.
    #[arg(long, value_name = "NAME")]
    curve: Option<String>,
    /// Whether lower or higher is better [default: as the name says, else lower].
    #[arg(long, value_enum)]
    better: Option<Direction>,
    /// How the algorithm is known to converge [default: what fits better].
    #[arg(long, value_enum)]
    convergence: Option<Known>,
    /// The loss that training is known to reach.
    #[arg(long, value_name = "LOSS", allow_negative_numbers = true)]
    target: Option<f64>,
    /// The weight of a point on squared errors, relative to that of the next.
    #[arg(long, value_name = "WEIGHT", default_value_t = Recency::default().decay)]
    decay: f64,
    /// The folder in which report.html is left, with plots.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// End with exit code 3 if lines of the log were left out or repaired.
    #[arg(long)]
    strict: bool,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// It is a loss.
    Lower,
    /// It is a score.
    Higher,
}

/// What is known of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Known {
    /// First-order methods, such as gradient descent.
    Sublinear,
    /// Quasi-Newton, expectation maximisation and the like.
    Linear,
    /// Deep networks.
    NonConvex,
}

/// Does what was asked for.
pub(super) fn perform(command: &CurveCommand, output: Output) -> Result<Ending, Failure> {
    let CurveCommand::Fit(given) = command;
    if let Some(target) = given.target.filter(|target| !target.is_finite()) {
        return Err(ArgumentError::TargetLoss { value: target.to_string() }.into());
    }
    if !(given.decay > 0.0 && given.decay <= 1.0) {
        return Err(ArgumentError::Decay { value: given.decay.to_string() }.into());
    }
    let names = LogNames { loss: given.loss.clone(), iteration: given.iteration.clone() };
    let log = if given.file == Path::new(PIPE) {
        curves::read_from("standard input", std::io::stdin().lock(), &names)?
    } else {
        curves::read(&given.file, &names)?
    };
    say_findings(&log.report);
    let declared = DeclaredLoss {
        better: better(given.better, &log),
        convergence: given.convergence.map(|known| match known {
            Known::Sublinear => Convergence::Sublinear,
            Known::Linear => Convergence::Linear,
            Known::NonConvex => Convergence::NonConvex,
        }),
        target: given.target,
        curve: None,
    };
    let fitting = Fitting::Families(Recency { decay: given.decay, ..Recency::default() });
    let wanted = |name: &&String| given.curve.as_ref().is_none_or(|curve| curve == *name);
    let names: Vec<&String> = log.curves.keys().filter(wanted).collect();
    let looked_at = looked_at(names.len());
    let answers: Vec<CurveAnswer> = names
        .into_iter()
        .map(|name| fit_curve(name, &log.curves[name], &declared, &fitting, looked_at))
        .collect();
    if answers.is_empty() {
        let name = given.curve.clone().unwrap_or_default();
        let hint = trainyard_sim::trace::nearest(&name, log.curves.keys().map(String::as_str));
        return Err(ArgumentError::NoSuchCurve { name, hint }.into());
    }
    print(output, &answers, |answers: &Vec<CurveAnswer>| curve_text(answers))?;
    if let Some(out) = &given.out {
        make_folder(out)?;
        let page = out.join("report.html");
        write_text(&page, &curve_page(&given.file, &answers, &log.report))?;
        say(&format!("The page is {}.", page.display()));
    }
    let blemished = log.report.count(Done::Dropped) + log.report.count(Done::Repaired) > 0;
    Ok(if given.strict && blemished { Ending::Blemished } else { Ending::Done })
}

/// Which way is better. What was asked for counts, then what the name says; what is taken for granted is told.
fn better(asked: Option<Direction>, log: &LossLog) -> Better {
    let name = &log.called;
    match (asked, log.better) {
        (Some(Direction::Lower), _) => Better::Lower,
        (Some(Direction::Higher), _) => Better::Higher,
        (None, Some(Better::Lower)) => Better::Lower,
        (None, Some(Better::Higher)) => {
            say(&format!(
                "note: `{name}` is taken for a score, of which more is better; --better lower says otherwise"
            ));
            Better::Higher
        }
        (None, None) => {
            say(&format!(
                "warning: `{name}` may be a loss or a score; it is taken for a loss. Say --better lower or --better higher"
            ));
            Better::Lower
        }
    }
}
