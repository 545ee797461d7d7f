//! What can go wrong in a command, and the exit code that tells of it. Says nothing about panics: those are bugs.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use trainyard_live::Refusal;
use trainyard_live::daemon::DaemonError;
use trainyard_sched::decide::ParameterError;
use trainyard_sched::partition::PartitionError;
use trainyard_sim::capacity::CapacityError;
use trainyard_sim::cluster::ClusterFileError;
use trainyard_sim::curves::CurvesError;
use trainyard_sim::faults::FaultsError;
use trainyard_sim::generate::GenerateError;
use trainyard_sim::physics::TableError;
use trainyard_sim::simulate::SetupError;
use trainyard_sim::trace::{TraceError, WriteError};
use trainyard_train::TrainError;

use crate::commands::{ClientError, ReplayError, WhyError};
use crate::config::{ArgumentError, MachineError, ModelError, ServiceError, SweepFileError};
use crate::experiment::RecordingError;
use crate::fidelity::FidelityError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There was no training.
    #[cfg(feature = "learn")]
    #[error(transparent)]
    Learning(trainyard_learn::LearnError),
    /// An argument that is not understood.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The file of a sweep makes no sense.
    #[error(transparent)]
    Sweep(#[from] SweepFileError),
    /// A policy or a parameter that does not exist.
    #[error(transparent)]
    Policy(#[from] ParameterError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The cluster makes no sense.
    #[error(transparent)]
    Cluster(#[from] ClusterFileError),
    /// The changing capacity cannot be had.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// Recorded losses cannot be read.
    #[error(transparent)]
    Curves(#[from] CurvesError),
    /// A table of throughputs cannot be read.
    #[error(transparent)]
    Throughputs(#[from] TableError),
    /// A model cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model cannot be cut as was asked.
    #[error("the model cannot be cut: {0}")]
    Partition(#[from] PartitionError),
    /// Nothing can be generated from these parameters.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The node failures cannot be had.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// A training program cannot begin or go on.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The run cannot begin.
    #[error("the run of {policy} cannot begin: {source}")]
    Setup {
        /// The policy with its parameters.
        policy: String,
        /// The cause.
        source: SetupError,
    },
    /// A workload cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A recorded run does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The journal of a daemon cannot be simulated.
    #[error(transparent)]
    Fidelity(#[from] FidelityError),
    /// A recorded run cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Nothing can be said about a job of a recorded run.
    #[error(transparent)]
    Why(#[from] WhyError),
    /// Settings of the daemon make no sense.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The GPUs that were asked for are not there.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A daemon did not do what was asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The daemon cannot begin.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Nobody can be served.
    #[error(
        "cannot serve at {address}; choose another address with --listen, such as 127.0.0.1:0 for any free port"
    )]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A file or folder refuses.
    #[error("cannot {act} {}; check the path, its permissions and the free space", .path.display())]
    File {
        /// What was to be done with it.
        act: &'static str,
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The daemon refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Standard output refuses.
    #[error("cannot write to standard output")]
    Output(#[source] std::io::Error),
    /// The threads cannot be started.
    #[error("cannot start {threads} threads; try --threads 1")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// The cause.
        source: rayon::ThreadPoolBuildError,
    },
}

impl Failure {
    /// Turns an input or output error into a failure that says what was tried with which file.
    pub(crate) fn file(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { act, path, source }
    }

    /// The documented exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::File { .. }
            | Self::Output(_)
            | Self::Threads { .. }
            | Self::Write(_)
            | Self::Listen { .. } => 1,
            Self::Daemon(DaemonError::Folder { .. } | DaemonError::Taken { .. } | DaemonError::Store(_)) => 1,
            Self::Train(
                TrainError::File { .. }
                | TrainError::Diverged { .. }
                | TrainError::Threads { .. }
                | TrainError::Network { .. }
                | TrainError::Lost { .. },
            ) => 1,
            Self::Client(error) => error.exit_code(),
            Self::Replay(error) => error.exit_code(),
            Self::Recording(error) => error.exit_code(),
            _ => 2,
        }
    }

    /// Whether the reader of the output went away, which is no failure of ours.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> =
            matches!(self, Self::Output(_) | Self::Write(_) | Self::Train(TrainError::File { .. }))
                .then_some(self);
        while let Some(error) = cause {
            let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            let csv = error.downcast_ref::<csv::Error>().and_then(|error| match error.kind() {
                csv::ErrorKind::Io(error) => Some(error.kind()),
                _ => None,
            });
            if io.or(csv) == Some(std::io::ErrorKind::BrokenPipe) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// The message and its causes, one a line.
    pub(crate) fn explain(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            let line = cause.to_string();
            if !text.contains(line.as_str()) {
                text.push_str("\n  because: ");
                text.push_str(line.trim_end());
            }
            source = cause.source();
        }
        text
    }
}
