//! What a job runs, beside what it needs. The decision loop never sees this.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::Form;

/// A program and how it is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Where it is started; by default in a folder of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Variables of its environment, beyond those of the contract.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// How many processes it is.
    #[serde(default)]
    pub launch: Launch,
    /// How its progress is found; see [`crate::report`].
    #[serde(default = "Work::usual_progress")]
    pub progress: String,
    /// How long it may take to save and leave when told to stop, in seconds.
    #[serde(default = "Work::usual_grace_s")]
    pub grace_s: u32,
    /// How often it is started again after it failed by itself.
    #[serde(default)]
    pub retries: u32,
}

/// How many processes a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// One on each node; the workers there share it. While it stays on as many nodes, it is resized without a restart.
    #[default]
    PerNode,
    /// One for each worker, as torchrun does; another number of workers means a restart.
    PerWorker,
}

impl Work {
    /// A program with everything else as usual.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            directory: None,
            environment: BTreeMap::new(),
            launch: Launch::PerNode,
            progress: Self::usual_progress(),
            grace_s: Self::usual_grace_s(),
            retries: 0,
        }
    }

    /// What is wrong with it, if anything is.
    pub fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("there is no command; give the program and its arguments".to_owned());
        }
        let has_zero = |text: &String| text.contains('\0');
        let names = self.environment.keys().any(|name| name.is_empty() || name.contains(['=', '\0']));
        if self.command.iter().any(has_zero) || self.environment.values().any(has_zero) || names {
            return Err("a command or its environment has what no program can be given".to_owned());
        }
        self.progress.parse::<Form>().map(drop).map_err(|error| format!("progress: {error}"))
    }

    fn usual_progress() -> String {
        "jsonl".to_owned()
    }

    const fn usual_grace_s() -> u32 {
        30
    }
}
