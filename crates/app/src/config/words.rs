//! Small languages of single arguments: lengths of time, declarations, faults, requirements.

use std::path::PathBuf;
use std::str::FromStr;

use trainyard_sched::model::Span;
use trainyard_sim::faults::FaultModel;
use trainyard_sim::generate::ServerSpeeds;
use trainyard_sim::trace::Declaring;

/// An argument that is not understood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// A worker or a server that is not told of a coordinator.
    #[error(
        "a worker or a server needs --join with the coordinator's HOST:PORT, or the file named by its --address"
    )]
    NobodyToJoin,
    /// Copies of a program of several processes.
    #[error(
        "this process is one of several copies of its job, and copies of train-job are of one process each; leave out --role, or ask for one copy"
    )]
    CopiesOfSeveral,
    /// A partition that there is not.
    #[error("there is no partition {number} of {count}; they are numbered from 0")]
    NoPartition {
        /// Which one was asked for.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// An argument that says nothing to a role.
    #[error("{argument} says nothing to a {role}; give it to a {roles}")]
    NotForRole {
        /// The argument.
        argument: &'static str,
        /// The role that was given.
        role: String,
        /// Whom it is for.
        roles: String,
    },
    /// No length of time.
    #[error("`{value}` is no length of time; write a number with a unit, such as 90s, 15m, 2h or 1.5d")]
    Span {
        /// What was given.
        value: String,
    },
    /// No seed.
    #[error("`{value}` is no seed; write 0 or a whole number up to 2^64-1 ({})", u64::MAX)]
    Seed {
        /// What was given.
        value: String,
    },
    /// Arguments about reading, and nothing to read.
    #[error("arguments about reading a trace ({given}) do not go with --generate; name a file with --trace")]
    NothingToRead {
        /// What was given.
        given: String,
    },
    /// No renaming of a GPU type.
    #[error(
        "`{value}` renames no GPU type; write the name in the trace and the name it stands for: H900=H100"
    )]
    Renaming {
        /// What was given.
        value: String,
    },
    /// No declaration.
    #[error("`{value}` is no way to declare; write exact, noisy:0.3 or absent")]
    Declared {
        /// What was given.
        value: String,
    },
    /// No failures.
    #[error("`{value}` says no failures; write mtbf:30d or mtbf:30d,mttr:1h, or name a CSV file")]
    Faults {
        /// What was given.
        value: String,
    },
    /// No requirement.
    #[error(
        "`{value}` is no bound; write a key of the summary, <, <=, > or >=, and a number or a length of time: \
         avg_jct_s<=3600, p95_wait<1h"
    )]
    Requirement {
        /// What was given.
        value: String,
    },
    /// A key that the summary does not have.
    #[error("the summary has no number `{key}`; {known}")]
    NoSuchKey {
        /// What was given.
        key: String,
        /// The nearest name, and all keys.
        known: String,
    },
    /// A number that differs from run to run.
    #[error("`{key}` is measured on this machine and differs from run to run; compare another number")]
    Measured {
        /// What was given.
        key: String,
    },
    /// No load.
    #[error("`{value}` is no load; write a factor above 0 and up to 100, such as 1.5x")]
    Load {
        /// What was given.
        value: String,
    },
    /// A trace is as large as it is.
    #[error(
        "--load {fraction}: a trace has the load it has; give a factor on it, such as --load {fraction}x"
    )]
    FractionOfTrace {
        /// What was given.
        fraction: String,
    },
    /// A file that this program cannot write.
    #[error(
        "--parquet: this program was built without it; build it with `cargo build --release --features parquet`"
    )]
    NoParquet,
    /// The program was built without what training needs.
    #[cfg(not(feature = "learn"))]
    #[error("this program cannot train; build it with `--features learn`")]
    NoLearning,
    /// The name of a file of weights.
    #[cfg(feature = "learn")]
    #[error("--out {}: files of weights end with .safetensors; give such a name", .path.display())]
    WeightsName {
        /// What was given.
        path: std::path::PathBuf,
    },
    /// Neither school nor practice.
    #[cfg(feature = "learn")]
    #[error("--school 0 and --updates 0 leave nothing to learn; give one of them")]
    NothingToLearn,
    /// Settings of training.
    #[cfg(feature = "learn")]
    #[error("{}: {problem}", .path.display())]
    LearningSettings {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A target that is no number.
    #[error("--target: {value} is no loss; give a finite number")]
    TargetLoss {
        /// What was given.
        value: String,
    },
    /// An interval that is too short.
    #[error("`{value}` is too short; give at least a millisecond, such as 3s")]
    Interval {
        /// What was given.
        value: String,
    },
    /// A weight that is none.
    #[error("--decay: {value} is no weight; give a number above 0 and up to 1")]
    Decay {
        /// What was given.
        value: String,
    },
    /// A curve that the log does not have.
    #[error("--curve: the log has no curve `{name}`; {hint}")]
    NoSuchCurve {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A paper that nobody has here.
    #[error("there is no paper `{name}` to reproduce; {hint}")]
    NoSuchPaper {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// Standard input, where the trace is read several times.
    #[error("--trace -: the trace is read several times; write it to a file first")]
    PipedTrace,
    /// A question without a change.
    #[error(
        "nothing is changed; say what to look at, such as --add 4x8:h100, --remove k80, --load 1.5x, --policy srtf, or \
         --until 'p95_wait<1h' --grow 8:h100"
    )]
    NothingAsked,
    /// Machines that are not understood or not there, in words.
    #[error("{0}")]
    Machines(String),
    /// Nothing could happen before the run is cut off.
    #[error("--horizon {horizon}: the first job arrives at {first}; cut the run off later than that")]
    Horizon {
        /// When the run would be cut off.
        horizon: Span,
        /// When the first job arrives.
        first: Span,
    },
    /// No number of seconds.
    #[error("{flag} {value}: give a number of seconds from 0 to 1e9")]
    Seconds {
        /// The argument.
        flag: &'static str,
        /// What was given.
        value: String,
    },
    /// A trace without a cluster to run it on.
    #[error(
        "--cluster is missing; say what to run on, such as --cluster 64x8:a100 or --cluster my-cluster.toml"
    )]
    NoCluster,
    /// The text of a policy is not understood.
    #[error("`{value}` is no policy: {problem}; write name or name{{key = value, ...}}")]
    PolicyText {
        /// What was given.
        value: String,
        /// What is wrong.
        problem: String,
    },
    /// A preset that is not written as one.
    #[error("`{value}` names no preset: {problem}; write name or name{{key = value, ...}}")]
    PresetText {
        /// What was given.
        value: String,
        /// What is wrong.
        problem: String,
    },
    /// Nothing to compare.
    #[error("--policies is empty; name at least one, such as --policies fifo,srtf")]
    NoPolicies,
    /// The number of threads.
    #[error("`{value}` is no number of threads; give a number from 1 to 1024")]
    Threads {
        /// What was given.
        value: String,
    },
}

/// Reads a length of time: a number with a unit, or plain seconds.
pub(crate) fn span(value: &str) -> Result<Span, ArgumentError> {
    let wrong = || ArgumentError::Span { value: value.to_owned() };
    let text = value.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    // Ten thousand years in microseconds still fit.
    let possible = number.is_finite() && number >= 0.0 && number * unit_s <= 3.2e11;
    possible.then(|| Span::from_secs_f64(number * unit_s)).ok_or_else(wrong)
}

/// Reads a length of time of at least a millisecond: what is done so often must come to an end.
pub(crate) fn interval(value: &str) -> Result<Span, ArgumentError> {
    let found = span(value)?;
    let possible = found >= Span(1000);
    if possible { Ok(found) } else { Err(ArgumentError::Interval { value: value.to_owned() }) }
}

/// Writes a length of time so that [`span`] reads the same, in the largest unit that needs no fraction.
pub(crate) fn span_word(span: Span) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let whole = |(unit, _): &(u64, &str)| span.0 > 0 && span.0.is_multiple_of(unit * 1_000_000);
    match units.into_iter().find(whole) {
        Some((unit, name)) => format!("{}{name}", span.0 / (unit * 1_000_000)),
        None => format!("{}s", span.as_secs_f64()),
    }
}

/// Reads which speeds jobs with parameter servers have: a name, or a file. That the file is there is seen when it is read.
pub(crate) fn server_speeds(value: &str) -> Result<ServerSpeeds, std::convert::Infallible> {
    Ok(match value {
        "strong" => ServerSpeeds::Strong,
        "strong-fitted" => ServerSpeeds::StrongFitted,
        "weak" => ServerSpeeds::Weak,
        _ => {
            let dropped = value.strip_suffix("?failed=drop");
            ServerSpeeds::File { path: dropped.unwrap_or(value).into(), keep_failed: dropped.is_none() }
        }
    })
}

/// Reads a seed.
pub(crate) fn seed(value: &str) -> Result<u64, ArgumentError> {
    value.trim().parse().map_err(|_| ArgumentError::Seed { value: value.to_owned() })
}

/// Reads a number of seconds that moving a job costs.
pub(crate) fn seconds(flag: &'static str, value: f64) -> Result<Span, ArgumentError> {
    let possible = (0.0..=1e9).contains(&value);
    let wrong = || ArgumentError::Seconds { flag, value: value.to_string() };
    possible.then(|| Span::from_secs_f64(value)).ok_or_else(wrong)
}

/// Reads what jobs declare.
pub(crate) fn declaring(value: &str) -> Result<Declaring, ArgumentError> {
    let wrong = || ArgumentError::Declared { value: value.to_owned() };
    match value.split_once(':') {
        None if value == "exact" => Ok(Declaring::Exact),
        None if value == "absent" => Ok(Declaring::Absent),
        Some(("noisy", spread)) => {
            let spread: f64 = spread.parse().map_err(|_| wrong())?;
            let possible = (0.0..=100.0).contains(&spread);
            possible.then_some(Declaring::Noisy { spread }).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// Where node failures come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FaultsWord {
    /// Drawn from a seed.
    Drawn(FaultModel),
    /// A file of them.
    File(PathBuf),
}

impl FromStr for FaultsWord {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let Some(rest) = value.strip_prefix("mtbf:") else {
            let is_model = value.trim().is_empty() || value.starts_with("mttr:");
            let wrong = ArgumentError::Faults { value: value.to_owned() };
            return if is_model { Err(wrong) } else { Ok(Self::File(value.into())) };
        };
        let wrong = |_| ArgumentError::Faults { value: value.to_owned() };
        let (between, repair) = rest.split_once(",mttr:").unwrap_or((rest, "1h"));
        Ok(Self::Drawn(FaultModel {
            mean_time_between_failures_per_node: span(between).map_err(wrong)?,
            mean_time_to_repair: span(repair).map_err(wrong)?,
        }))
    }
}

/// How much work there shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LoadWord {
    /// So much that it asks for this part of the cluster's GPU time: `0.9`.
    Fraction(f64),
    /// So many times what there is: `1.5x`.
    Times(f64),
}

impl FromStr for LoadWord {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let wrong = || ArgumentError::Load { value: value.to_owned() };
        let text = value.trim();
        let (digits, is_factor) = text.strip_suffix('x').map_or((text, false), |digits| (digits, true));
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        match is_factor {
            // The range of a fraction is checked where its cluster is known.
            false => Ok(Self::Fraction(number)),
            true if number > 0.0 && number <= 100.0 => Ok(Self::Times(number)),
            true => Err(wrong()),
        }
    }
}

/// A factor on the load, such as `1.5x`.
pub(crate) fn load_factor(value: &str) -> Result<f64, ArgumentError> {
    match value.parse()? {
        LoadWord::Times(factor) => Ok(factor),
        LoadWord::Fraction(_) => Err(ArgumentError::Load { value: value.to_owned() }),
    }
}

/// A number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads(pub(crate) usize);

impl FromStr for Threads {
    type Err = ArgumentError;

    fn from_str(value: &str) -> Result<Self, ArgumentError> {
        let count = value.parse().ok().filter(|count| (1..=1024).contains(count));
        count.map(Self).ok_or_else(|| ArgumentError::Threads { value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_have_units() {
        assert_eq!(span("90"), Ok(Span::from_secs(90)));
        assert_eq!(span("1.5h"), Ok(Span::from_secs(5400)));
        assert_eq!(span("2d"), Ok(Span::from_secs(172_800)));
        for word in ["2d", "36h", "90m", "1.5s", "0s"] {
            assert_eq!(span_word(span(word).unwrap()), word);
        }
        for bad in ["", "h", "-1h", "3 weeks", "1e300d", "NaN", "inf", "1h30m"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_seed_is_any_number_of_64_bits_and_others_are_told_so() {
        assert_eq!((seed("0"), seed("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        for bad in ["-1", "1.5", "", "18446744073709551616", "x"] {
            let message = seed(bad).unwrap_err().to_string();
            assert!(message.contains("0 or a whole number up to 2^64-1 (18446744073709551615)"), "{message}");
        }
    }

    #[test]
    fn declarations_are_three_words() {
        assert_eq!(declaring("exact"), Ok(Declaring::Exact));
        assert_eq!(declaring("noisy:0.3"), Ok(Declaring::Noisy { spread: 0.3 }));
        assert_eq!(declaring("absent"), Ok(Declaring::Absent));
        for bad in ["", "noisy", "noisy:", "noisy:-1", "noisy:NaN", "exactly"] {
            assert!(declaring(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_are_a_model_or_a_file() {
        let drawn: FaultsWord = "mtbf:30d,mttr:2h".parse().unwrap();
        let FaultsWord::Drawn(model) = drawn else { panic!("{drawn:?}") };
        assert_eq!(model.mean_time_to_repair, Span::from_secs(7200));
        assert_eq!("faults.csv".parse(), Ok(FaultsWord::File("faults.csv".into())));
        assert!("mtbf:often".parse::<FaultsWord>().is_err());
    }

    #[test]
    fn a_load_is_a_part_of_the_cluster_or_a_factor() {
        assert_eq!("0.9".parse(), Ok(LoadWord::Fraction(0.9)));
        assert_eq!("1.5x".parse(), Ok(LoadWord::Times(1.5)));
        assert_eq!(load_factor("2x"), Ok(2.0));
        for bad in ["", "x", "-1x", "0x", "101x", "NaNx", "twice"] {
            assert!(bad.parse::<LoadWord>().is_err(), "{bad}");
        }
        assert!(load_factor("1.5").is_err());
    }
}
