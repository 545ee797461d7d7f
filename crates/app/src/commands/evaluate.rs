//! `evaluate`: what was learned against policies of the table, workload by workload.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use trainyard_sched::model::Seed;

use super::whatif::progress_bar;
use super::{Ending, Output, print, say};
use crate::config::{InputArguments, Inputs, PolicyChoice, Threads, Variation, parse_policies};
use crate::experiment::{measure, pool, side_by_side};
use crate::failure::Failure;
use crate::render::{Align, plain_table};
use crate::statistics::{Estimate, paired};

/// Who is compared with, if nobody says: whoever gives out workers and servers, and two that everybody knows.
const USUAL: &str = "slot-drf,slot-fifo,slot-srtf,slot-tetris,optimus,fair,fifo";

/// What `evaluate` is told.
#[derive(Args, Debug)]
pub(super) struct EvaluateArguments {
    /// The weights, as `train` wrote them.
    weights: PathBuf,
    #[command(flatten)]
    inputs: InputArguments,
    /// Whom it is compared with [default: slot-drf, slot-fifo, slot-srtf, slot-tetris, optimus, fair, fifo].
    #[arg(long, value_name = "LIST", help_heading = "Run")]
    against: Option<String>,
    /// Other parameters of the policy, such as {misfit = "stop"}.
    #[arg(long, value_name = "PARAMETERS", default_value = "{}", help_heading = "Run")]
    with: String,
    /// On how many workloads; the first has the seed of --seed. Take seeds that were not learned from.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Run")]
    workloads: u32,
    /// How many runs go on at one time [default: as many as there are cores].
    #[arg(short = 'j', long, value_name = "N", help_heading = "Run")]
    threads: Option<Threads>,
}

/// One policy beside what was learned.
#[derive(Debug, Serialize)]
struct Compared {
    policy: String,
    /// Its mean completion time, seconds.
    avg_jct_s: Estimate,
    /// By how much what was learned takes longer, seconds: negative is better.
    longer_s: Estimate,
    /// The same as a part of the other's time.
    longer: Estimate,
}

/// Compares.
pub(super) fn perform(given: &EvaluateArguments, output: Output) -> Result<Ending, Failure> {
    let own = learned(given)?;
    let others = parse_policies(given.against.as_deref().unwrap_or(USUAL))?;
    let all: Vec<&PolicyChoice> = std::iter::once(&own).chain(&others).collect();
    let count = given.workloads as usize;
    let bar = progress_bar();
    bar.set_length((all.len() * count) as u64);
    let run = |i: usize| {
        let (policy, workload) = (all[i / count], i % count);
        let seed = given.inputs.seed.wrapping_add(workload as u64);
        let resampled = given.inputs.trace.is_some() && workload > 0;
        let variation = Variation { seed: Some(seed), resampled, ..Variation::default() };
        let measured = measure(Inputs::varied(&given.inputs, &variation, None)?, policy)?;
        bar.inc(1);
        Ok(measured.summary.avg_jct_s)
    };
    let times = pool(given.threads)?.install(|| side_by_side(all.len() * count, run));
    bar.finish_and_clear();
    let times = times?;
    let of = |policy: usize| &times[policy * count..(policy + 1) * count];
    let compared: Vec<Compared> =
        all.iter().enumerate().map(|(i, policy)| compare(policy, of(0), of(i))).collect();
    print(output, &compared, |compared: &Vec<Compared>| table(compared))?;
    say(&in_words(&compared, count));
    Ok(Ending::Done)
}

/// The policy with these weights.
fn learned(given: &EvaluateArguments) -> Result<PolicyChoice, Failure> {
    let path = given.weights.display().to_string();
    let weights = toml::Value::String(path).to_string();
    let inner = given.with.trim().trim_start_matches('{').trim_end_matches('}').trim();
    let rest = if inner.is_empty() { String::new() } else { format!(", {inner}") };
    let mut choices = parse_policies(&format!("dl2{{weights = {weights}{rest}}}"))?;
    Ok(choices.remove(0))
}

fn compare(policy: &PolicyChoice, own: &[Option<f64>], other: &[Option<f64>]) -> Compared {
    let differences = paired(own, other);
    let parts: Vec<Option<f64>> =
        differences.iter().zip(other).map(|(by, other)| Some((*by)? / (*other)?)).collect();
    Compared {
        policy: policy.label(),
        avg_jct_s: Estimate::of(other, Seed(0)),
        longer_s: Estimate::of(&differences, Seed(0)),
        longer: Estimate::of(&parts, Seed(0)),
    }
}

fn table(compared: &[Compared]) -> String {
    let percent = |x: f64| format!("{:+.1} %", 100.0 * x);
    let rows = compared.iter().enumerate().map(|(i, row)| {
        let interval = row.longer.interval_95.filter(|_| i > 0);
        vec![
            row.policy.clone(),
            row.avg_jct_s.mean.map_or_else(|| "unstable".to_owned(), |mean| format!("{mean:.0} s")),
            row.longer.mean.filter(|_| i > 0).map_or_else(|| "-".to_owned(), percent),
            interval.map_or_else(|| "-".to_owned(), |i| format!("{} to {}", percent(i.low), percent(i.high))),
        ]
    });
    plain_table(
        &[
            ("policy", Align::Left),
            ("mean JCT", Align::Right),
            ("learned takes longer by", Align::Right),
            ("95 %", Align::Right),
        ],
        rows.collect(),
    )
}

/// Whom it beats, and whom it does not.
fn in_words(compared: &[Compared], workloads: usize) -> String {
    let others = &compared[1..];
    let beats = |row: &&Compared| row.longer.interval_95.is_some_and(|interval| interval.high < 0.0);
    let loses = |row: &&Compared| row.longer.interval_95.is_some_and(|interval| interval.low > 0.0);
    let names = |which: &dyn Fn(&&Compared) -> bool| -> String {
        let names: Vec<&str> =
            others.iter().filter(|row| which(row)).map(|row| row.policy.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let best =
        others.iter().filter_map(|row| Some((row.avg_jct_s.mean?, row))).min_by(|a, b| a.0.total_cmp(&b.0));
    let verdict = best.map_or_else(String::new, |(_, best)| {
        let said = if beats(&best) {
            "it beats"
        } else if loses(&best) {
            "it does NOT beat"
        } else {
            "nothing can be said against"
        };
        format!(" Of them {} is the best: {said} it.", best.policy)
    });
    format!(
        "On {workloads} workloads the learned policy is better with 95 % certainty than: {}; worse than: {}.{verdict}",
        names(&beats),
        names(&loses)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, own: &[f64], other: &[f64]) -> Compared {
        let values = |values: &[f64]| values.iter().map(|x| Some(*x)).collect::<Vec<_>>();
        let policy = parse_policies(name).unwrap().remove(0);
        compare(&policy, &values(own), &values(other))
    }

    #[test]
    fn words_say_whom_it_does_not_beat() {
        let own = [10.0, 11.0, 12.0, 10.0, 11.0, 12.0];
        let worse = own.map(|x| x * 1.5);
        let better = own.map(|x| x * 0.8);
        let rows = vec![row("dl2", &own, &own), row("fifo", &own, &worse), row("srtf", &own, &better)];
        let said = in_words(&rows, 6);
        assert!(said.contains("certainty than: fifo; worse than: srtf"), "{said}");
        assert!(said.contains("srtf is the best: it does NOT beat it"), "{said}");
        let rows = vec![row("dl2", &own, &own), row("fifo", &own, &worse)];
        assert!(in_words(&rows, 6).contains("fifo is the best: it beats it"));
        let rows = vec![row("dl2", &own, &own), row("fifo", &own, &own)];
        assert!(in_words(&rows, 6).contains("nothing can be said against it"));
        let told = table(&[row("dl2", &own, &own), row("fifo", &own, &worse)]);
        assert!(told.contains("-33.3 %"), "{told}");
    }
}
