//! How a trace is to be read: the arguments that every command with a trace has, and what they mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use trainyard_sim::curves::{self, LogNames};
use trainyard_sim::physics::{ThroughputTable, load_throughputs};
use trainyard_sim::trace::{self, OnDuplicate, Options, Preset, Repairs};
use trainyard_sim::workload::Workload;

use super::ArgumentError;
use crate::failure::Failure;

/// The path that means standard input or output.
pub(crate) const PIPE: &str = "-";

/// The arguments. The command calls the argument with the file `trace`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TraceArguments {
    /// The format of the trace, where it is not recognised.
    #[arg(long, value_name = "NAME", requires = "trace", help_heading = "Reading")]
    pub(crate) format: Option<String>,
    /// The member of an archive (tar, zip), where several hold jobs.
    #[arg(long, value_name = "NAME", requires = "trace", help_heading = "Reading")]
    pub(crate) member: Option<String>,
    /// Mend rows instead of leaving them out; clamp: negative waits become 0 and run times a microsecond.
    #[arg(long, value_enum, value_delimiter = ',', requires = "trace", help_heading = "Reading")]
    pub(crate) repair: Vec<Repair>,
    /// Take one GPU type of the trace for another, such as H900=H100; may be repeated.
    #[arg(
        long,
        value_name = "TYPE=TYPE",
        value_delimiter = ',',
        requires = "trace",
        help_heading = "Reading"
    )]
    pub(crate) map: Vec<Renaming>,
    /// The time zone of wall times without one, such as Europe/Berlin [default: as the format says].
    #[arg(long, value_name = "ZONE", requires = "trace", help_heading = "Reading")]
    pub(crate) tz: Option<String>,
    /// What happens to different rows for one job; equal rows count once in any case.
    #[arg(long, value_enum, value_name = "HOW", requires = "trace", help_heading = "Reading")]
    pub(crate) on_duplicate: Option<Duplicate>,
    /// Count jobs that were still running when the trace ended, as if they had completed then.
    #[arg(long, requires = "trace", help_heading = "Reading")]
    pub(crate) count_censored: bool,
    /// Choose and change jobs as a known study did: blox (jobs of 31.6 to 10,000 minutes, odd numbers of GPUs become 1).
    #[arg(long = "preset", value_enum, value_name = "STUDY", requires = "trace", help_heading = "Reading")]
    pub(crate) study: Option<Study>,
    /// Recorded losses that jobs of the trace name in their column `loss`; docs/curves.md describes the file.
    #[arg(long, value_name = "FILE", requires = "trace", help_heading = "Reading")]
    pub(crate) curves: Option<PathBuf>,
    /// How fast profiled jobs go, of Gavel's traces and generated ones: gavel, gavel-physical, or a file (our CSV, or
    /// Gavel's JSON; docs/throughputs.md describes it) [default: gavel].
    #[arg(long, value_name = "NAME|FILE", help_heading = "Jobs")]
    pub(crate) throughputs: Option<String>,
    /// End with exit code 3 if rows of the trace were left out or repaired.
    #[arg(long, help_heading = "Reading")]
    pub(crate) strict: bool,
}

/// What can be mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Repair {
    /// Negative waits and run times.
    Clamp,
}

/// What happens to different rows for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Duplicate {
    /// The trace is refused.
    Error,
    /// Later jobs get other names.
    Suffix,
    /// The first row is kept.
    First,
}

/// A known study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Study {
    /// Blox.
    Blox,
}

/// One GPU type that is taken for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renaming {
    from: String,
    to: String,
}

impl FromStr for Renaming {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let wrong = || ArgumentError::Renaming { value: value.to_owned() };
        let (from, to) = value.split_once('=').ok_or_else(wrong)?;
        let (from, to) = (from.trim().to_lowercase(), to.trim().to_lowercase());
        if from.is_empty() || to.is_empty() || to.contains('=') {
            Err(wrong())
        } else {
            Ok(Self { from, to })
        }
    }
}

/// The arguments as they are written down, as far as they differ from what is usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReadingPart {
    /// The format that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// The member of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    /// What was mended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repair: Vec<String>,
    /// The time zone that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<String>,
    /// What happened to different rows for one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<String>,
    /// Whether jobs count that were running when the trace ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    count_censored: bool,
    /// The study whose choice of jobs was repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<String>,
    /// The recorded losses that jobs name.
    #[serde(skip_serializing_if = "Option::is_none")]
    curves: Option<String>,
    /// The table of throughputs, where it was not Gavel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughputs: Option<String>,
    /// Types that were taken for others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    map: BTreeMap<String, String>,
}

impl TraceArguments {
    /// Puts what these arguments say into options.
    pub(crate) fn options(&self, rest: Options) -> Result<Options, Failure> {
        let curves =
            self.curves.as_deref().map(|path| curves::read(path, &LogNames::default())).transpose()?;
        Ok(Options {
            curves: curves.map(Arc::new),
            throughputs: self.throughputs()?,
            format: self.format.clone(),
            member: self.member.clone(),
            repairs: Repairs { clamp: self.repair.contains(&Repair::Clamp) },
            gpu_type_names: self.renamings(),
            zone: self.tz.clone(),
            on_duplicate: match self.on_duplicate {
                None | Some(Duplicate::Error) => OnDuplicate::Error,
                Some(Duplicate::Suffix) => OnDuplicate::Suffix,
                Some(Duplicate::First) => OnDuplicate::First,
            },
            count_censored: self.count_censored,
            preset: self.study.map(|Study::Blox| Preset::Blox),
            ..rest
        })
    }

    /// Reads the trace at `path`, or from standard input.
    pub(crate) fn read(&self, path: &Path, rest: Options) -> Result<Workload, Failure> {
        let options = self.options(rest)?;
        if path == Path::new(PIPE) {
            return Ok(trace::read_from("standard input", std::io::stdin().lock(), &options)?);
        }
        Ok(trace::read(path, &options)?)
    }

    /// The arguments as they are written down.
    pub(crate) fn part(&self) -> ReadingPart {
        ReadingPart {
            format: self.format.clone(),
            member: self.member.clone(),
            repair: self.repair.iter().map(word).collect(),
            tz: self.tz.clone(),
            on_duplicate: self.on_duplicate.as_ref().map(word),
            count_censored: self.count_censored,
            preset: self.study.as_ref().map(word),
            curves: self.curves.as_deref().map(|path| path.display().to_string()),
            throughputs: self.throughputs.clone(),
            map: self.renamings(),
        }
    }

    /// The arguments that mean nothing without a trace, as they are written down.
    pub(crate) fn part_of_traces(&self) -> ReadingPart {
        ReadingPart { throughputs: None, ..self.part() }
    }

    /// The table of throughputs, if one was named.
    pub(crate) fn throughputs(&self) -> Result<Option<Arc<ThroughputTable>>, Failure> {
        Ok(self.throughputs.as_deref().map(load_throughputs).transpose()?)
    }

    fn renamings(&self) -> BTreeMap<String, String> {
        self.map.iter().map(|renaming| (renaming.from.clone(), renaming.to.clone())).collect()
    }
}

/// A value as it is written on the command line.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renaming_has_two_sides() {
        let read: Renaming = "H900=h100".parse().unwrap();
        assert_eq!(read, Renaming { from: "h900".to_owned(), to: "h100".to_owned() });
        for odd in ["", "h900", "=h100", "h900=", "a=b=c"] {
            let error = odd.parse::<Renaming>().unwrap_err().to_string();
            assert!(error.contains("H900=H100"), "{error}");
        }
    }

    #[test]
    fn only_what_is_unusual_is_written_down() {
        let usual = toml::to_string(&TraceArguments::default().part()).unwrap();
        assert_eq!(usual, "");
        let arguments = TraceArguments {
            repair: vec![Repair::Clamp],
            map: vec!["a=b".parse().unwrap()],
            on_duplicate: Some(Duplicate::Suffix),
            count_censored: true,
            ..TraceArguments::default()
        };
        let text = toml::to_string(&arguments.part()).unwrap();
        let expected =
            "repair = [\"clamp\"]\non_duplicate = \"suffix\"\ncount_censored = true\n\n[map]\na = \"b\"\n";
        assert_eq!(text, expected);
        assert_eq!(toml::from_str::<ReadingPart>(&text).unwrap(), arguments.part());
    }
}
