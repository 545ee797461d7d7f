//! What can go wrong around a training program: one variant for each act that can fail.

use std::path::PathBuf;

use crate::tensors::StateError;

/// Why a training program cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// There is nothing of this name.
    #[error("there is no {what} `{name}`; {hint}")]
    Unknown {
        /// What was looked for.
        what: String,
        /// The name that was given.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A value that its parameter cannot have.
    #[error("{of}: the parameter `{name}` cannot be `{value}`; it is {wanted}")]
    Parameter {
        /// Whose parameter.
        of: String,
        /// Its name.
        name: String,
        /// What was given.
        value: String,
        /// What may be given.
        wanted: String,
    },
    /// A file refuses.
    #[error("cannot {act} {}; check the path, its permissions and the free space", .path.display())]
    File {
        /// What was to be done with it.
        act: &'static str,
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line of data that is not understood.
    #[error("{file}:{line}: {field} is `{value}`; {wanted}")]
    Field {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// Which field.
        field: String,
        /// What stands there.
        value: String,
        /// What should stand there.
        wanted: &'static str,
    },
    /// A file without data.
    #[error("{file}: there is not a single row of data in it")]
    NoRows {
        /// The file.
        file: String,
    },
    /// More than may be held in memory.
    #[error("{what} would take {values} numbers in memory, and {limit} are allowed; {remedy}")]
    TooLarge {
        /// What.
        what: String,
        /// How many numbers.
        values: u64,
        /// The most.
        limit: u64,
        /// What to try.
        remedy: &'static str,
    },
    /// The algorithm learns from something else.
    #[error("{algorithm} learns from {wanted}, and this is {given}")]
    WrongData {
        /// The algorithm.
        algorithm: &'static str,
        /// What it needs.
        wanted: &'static str,
        /// What it was given.
        given: String,
    },
    /// A checkpoint that cannot be gone on with.
    #[error("cannot resume from {}: {reason}", .path.display())]
    Resume {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The state in a checkpoint does not fit.
    #[error("cannot resume from {}", .path.display())]
    State {
        /// The checkpoint.
        path: PathBuf,
        /// What does not fit.
        source: StateError,
    },
    /// The loss is no number any more.
    #[error(
        "the loss of iteration {iteration} is {loss}: it diverges; try a smaller `step`, or `--standardise`"
    )]
    Diverged {
        /// The iteration.
        iteration: u64,
        /// The loss.
        loss: f64,
    },
    /// What stands in the environment makes no sense.
    #[error("the environment variable {name} is `{value}`; {wanted}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What stands in it, or nothing.
        value: String,
        /// What should stand there.
        wanted: &'static str,
    },
    /// The network refuses.
    #[error("cannot {act} {address}; is the address right, and is the other side at work?")]
    Network {
        /// What was to be done.
        act: &'static str,
        /// The address as it was given.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process of the job is gone, or cannot be worked with.
    #[error(
        "the job ends without {who}: {reason}; start it again with --resume to go on from its checkpoint"
    )]
    Lost {
        /// Who.
        who: String,
        /// Why.
        reason: String,
    },
    /// A way to train that this algorithm does not have.
    #[error(
        "{algorithm} cannot train with parameter servers: its steps need sums over all parameters; take `--role peer`, or `mlp`"
    )]
    NotServed {
        /// The algorithm.
        algorithm: String,
    },
    /// An algorithm that cannot be cut into so many partitions.
    #[error(
        "{algorithm} has {layers} layers to be cut, so there can be no {partitions} partitions; {remedy}"
    )]
    NotCut {
        /// The algorithm.
        algorithm: String,
        /// How many layers of weights it has.
        layers: usize,
        /// How many partitions were asked for.
        partitions: usize,
        /// What to try.
        remedy: &'static str,
    },
    /// Copies of it would be of no use.
    #[error(
        "{algorithm} takes all rows in each iteration, so several copies would all do the same; ask for one copy, or take `mlp`, or `logistic` with `method=stochastic`"
    )]
    NotForked {
        /// The algorithm.
        algorithm: String,
    },
    /// The threads cannot be started.
    #[error("cannot start {threads} threads; try fewer")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// The cause.
        source: rayon::ThreadPoolBuildError,
    },
}

/// The sentence that helps with an unknown name: the nearest known one, or all of them.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match known.iter().map(|other| (strsim::damerau_levenshtein(name, other), *other)).min() {
        Some((distance, near)) if distance <= 1 + name.chars().count() / 3 => {
            format!("did you mean `{near}`?")
        }
        _ => format!("there are {}", known.join(", ")),
    }
}
