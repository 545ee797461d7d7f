//! `whatif`: what other machines, another load or another policy would change, on one page for a manager.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, FromArgMatches};
use indicatif::{ProgressBar, ProgressStyle};

use super::compare::say_findings;
use super::{Ending, Output, print, say};
use crate::config::{
    Addition, ArgumentError, InputArguments, NodeKind, Removal, Requirement, Threads, load_factor,
    parse_policy,
};
use crate::experiment::whatif::{Answer, Goal, Question, answer};
use crate::experiment::{make_folder, pool, write_json, write_text};
use crate::failure::Failure;
use crate::render::{whatif_page, whatif_sentences, whatif_text};

/// The file with everything that was found.
const ANSWER: &str = "whatif.json";
/// The page for people.
const REPORT: &str = "report.html";

/// What `whatif` is told.
#[derive(Args, Debug)]
pub(super) struct WhatIfArguments {
    #[command(flatten)]
    today: Today,
    /// The policy of today: name, or name{key = value, ...}; mlf-c(NAME) puts load control around any.
    #[arg(long, value_name = "POLICY", default_value = "fifo", help_heading = "Run")]
    baseline: String,
    /// Add machines, such as 4x8:h100; may be repeated.
    #[arg(long, value_name = "WORDS", help_heading = "What if")]
    add: Vec<Addition>,
    /// Take machines away: a GPU type such as k80, or words such as 2x8:k80; may be repeated.
    #[arg(long, value_name = "TYPE|WORDS", help_heading = "What if")]
    remove: Vec<Removal>,
    /// So many times the load, such as 1.5x.
    #[arg(id = "load_factor", long = "load", value_name = "FACTORx", value_parser = load_factor,
        help_heading = "What if")]
    load: Option<f64>,
    /// Another policy, written like that of today; may be repeated.
    #[arg(long, value_name = "POLICY", help_heading = "What if")]
    policy: Vec<String>,
    /// Search for the fewest nodes of --grow that keep these bounds, such as 'p95_wait<1h'; several with ; or repeated.
    #[arg(id = "bounds", long = "until", value_name = "BOUNDS", requires = "grow", help_heading = "What if")]
    bounds: Vec<String>,
    /// The kind of node that is added by the search: GPUs : type, such as 8:h100.
    #[arg(long, value_name = "GPUS:TYPE", requires = "bounds", help_heading = "What if")]
    grow: Option<NodeKind>,
    /// The most nodes that the search tries.
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = "What if")]
    most: u32,
    /// The speed of a GPU type, relative to that of the trace, such as h100=2.5; may be repeated.
    #[arg(long, value_name = "TYPE=FACTOR", value_parser = gpu_speed, help_heading = "What if")]
    gpu_speed: Vec<(String, f64)>,
    /// What a GPU costs in an hour, in any currency.
    #[arg(long, value_name = "AMOUNT", help_heading = "What if")]
    price: Option<f64>,
    /// How many replicates are compared [default: from 20 for small workloads down to 3 for large ones].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = "Run")]
    seeds: Option<u16>,
    /// How many runs go on at one time [default: as many as there are cores].
    #[arg(long, value_name = "N", help_heading = "Run")]
    threads: Option<Threads>,
    /// The folder that is left; files of the same names are replaced.
    #[arg(long, value_name = "DIR", default_value = "trainyard-out", help_heading = "Run")]
    out: PathBuf,
}

/// The inputs of today. Two of their arguments give way to changes of the same name.
#[derive(Debug)]
struct Today(InputArguments);

impl Args for Today {
    fn augment_args(command: clap::Command) -> clap::Command {
        let renamed = |name: &'static str| move |argument: Arg| argument.long(name);
        InputArguments::augment_args(command)
            .mut_arg("until", renamed("to"))
            .mut_arg("load", renamed("base-load"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Today {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        InputArguments::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn gpu_speed(value: &str) -> Result<(String, f64), ArgumentError> {
    let wrong =
        || ArgumentError::Machines(format!("`{value}` is no speed; write a type and a factor: h100=2.5"));
    let (gpu_type, factor) = value.split_once('=').ok_or_else(wrong)?;
    let factor: f64 = factor.trim().parse().ok().filter(|f| *f > 0.0 && *f <= 1e9).ok_or_else(wrong)?;
    let gpu_type = gpu_type.trim().to_lowercase();
    if gpu_type.is_empty() { Err(wrong()) } else { Ok((gpu_type, factor)) }
}

/// Answers the question.
pub(super) fn perform(given: &WhatIfArguments, output: Output) -> Result<Ending, Failure> {
    let question = question(given)?;
    make_folder(&given.out)?;
    let bar = progress_bar();
    let found = pool(given.threads)?
        .install(|| answer(&question, |runs| bar.set_length(runs as u64), &|| bar.inc(1)));
    bar.finish_and_clear();
    let (mut found, inputs) = found?;
    found.sentences = whatif_sentences(&found);
    inputs.reports().for_each(say_findings);
    write_json(&given.out.join(ANSWER), &found)?;
    write_text(&given.out.join(REPORT), &whatif_page(&inputs, &found))?;
    print(output, &found, whatif_text)?;
    say(&format!("The answer is in {}; open {REPORT} there to see it.", given.out.display()));
    if given.today.0.reading.strict && inputs.has_blemishes() {
        say("rows of the trace were left out or repaired, and --strict was given");
        return Ok(Ending::Blemished);
    }
    Ok(judge(&found))
}

fn judge(found: &Answer) -> Ending {
    let missed = found.searches.iter().filter(|search| search.nodes.is_none());
    let mut ending = Ending::Done;
    for search in missed {
        let bounds = search.all_bounds();
        say(&format!("missed: {} with up to {} nodes of {}", bounds, search.looked_up_to, search.node));
        ending = Ending::Missed;
    }
    ending
}

fn question(given: &WhatIfArguments) -> Result<Question, Failure> {
    let price = given.price.filter(|price| !(price.is_finite() && *price >= 0.0));
    if let Some(price) = price {
        return Err(ArgumentError::Machines(format!("--price {price}: give a number from 0 upwards")).into());
    }
    let bounds: Result<Vec<Requirement>, ArgumentError> =
        given.bounds.iter().flat_map(|bounds| bounds.split(';')).map(str::parse).collect();
    let bounds = bounds?;
    if let Some(bound) = bounds.iter().find(|bound| bound.metric.measured) {
        return Err(ArgumentError::Measured { key: bound.metric.key.to_owned() }.into());
    }
    let goal = given.grow.clone().map(|node| Goal { bounds, node, most: given.most });
    if given.add.is_empty()
        && given.remove.is_empty()
        && given.load.is_none()
        && given.policy.is_empty()
        && goal.is_none()
    {
        return Err(ArgumentError::NothingAsked.into());
    }
    let policies: Result<Vec<_>, Failure> = given.policy.iter().map(|policy| parse_policy(policy)).collect();
    Ok(Question {
        inputs: given.today.0.clone(),
        policy: parse_policy(&given.baseline)?,
        add: given.add.clone(),
        remove: given.remove.clone(),
        load: given.load,
        policies: policies?,
        gpu_speed: given.gpu_speed.clone(),
        replicates: given.seeds.map(usize::from),
        price: given.price,
        goal,
    })
}

/// How many runs are over. Drawn on standard error, and only if that is a terminal.
pub(super) fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
