//! The file of a sweep: factors with their levels, what is fixed, seeds, and what is compared with what. Described in
//! `docs/sweep.md`. Every argument of a run may be fixed or be a factor, by the name that it has on the command line.

mod reader;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches};
use toml::de::DeTable;

use super::{InputArguments, Metric, PolicyChoice, parse_policy};
use crate::failure::Failure;
use reader::Reader;

/// Why a sweep cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepFileError {
    /// The file may not be read.
    #[error("cannot read the sweep {}: check the path and its permissions", .path.display())]
    Open {
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML. The cause shows the line.
    #[error("{file}: the sweep is not understood; see docs/sweep.md")]
    Toml {
        /// The file's name.
        file: String,
        /// The cause, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A key that does not exist, or a value that makes no sense.
    #[error("{file}:{line}: {what}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line.
        line: usize,
        /// What is wrong, with key and value, and what to try.
        what: String,
    },
}

/// A sweep, read and checked.
#[derive(Debug)]
pub(crate) struct SweepFile {
    /// What it is called.
    pub(crate) title: String,
    /// The seeds; the first belongs to the trace as it is.
    pub(crate) seeds: Vec<u64>,
    /// Whether the other seeds draw other traces.
    pub(crate) resample: bool,
    /// What is compared.
    pub(crate) metrics: Vec<&'static Metric>,
    /// What all runs have in common.
    pub(crate) fixed: Vec<Setting>,
    /// What differs.
    pub(crate) factors: Vec<Factor>,
    /// The levels that others are compared with: positions of factors and of their levels.
    pub(crate) baseline: BTreeMap<usize, usize>,
    /// The bytes of the file.
    pub(crate) text: String,
    file: String,
}

/// An argument and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    /// The name of the argument, without dashes in front.
    pub(crate) name: String,
    /// The value; `true` of an argument that takes none.
    pub(crate) value: String,
}

/// A factor with its levels.
#[derive(Debug)]
pub(crate) struct Factor {
    /// The argument as the file writes it.
    pub(crate) name: String,
    line: usize,
    /// Its levels.
    pub(crate) levels: Vec<Setting>,
}

/// One combination of levels: everything that a run is told, the seed aside.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The position of the level of each factor.
    pub(crate) levels: Vec<usize>,
    /// All settings, by name.
    pub(crate) settings: Vec<Setting>,
    /// The inputs.
    pub(crate) inputs: InputArguments,
    /// The policy.
    pub(crate) policy: PolicyChoice,
}

impl SweepFile {
    /// Reads a sweep.
    pub(crate) fn read(path: &Path) -> Result<Self, SweepFileError> {
        let failed = |source| SweepFileError::Open { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self::parse(file, text)
    }

    fn parse(file: String, text: String) -> Result<Self, SweepFileError> {
        let wrong = |source| SweepFileError::Toml { file: file.clone(), source: Box::new(source) };
        let table = DeTable::parse(&text).map_err(wrong)?;
        let reader = Reader { file: &file, text: &text, arguments: arguments() };
        let sweep = reader.sweep(table.get_ref())?;
        drop(table);
        Ok(Self { text, file, ..sweep })
    }

    /// All combinations of levels; the first factor changes slowest.
    pub(crate) fn cells(&self) -> Result<Vec<Cell>, Failure> {
        let count: usize = self.factors.iter().map(|factor| factor.levels.len()).product();
        (0..count).map(|number| self.cell(number)).collect()
    }

    fn cell(&self, number: usize) -> Result<Cell, Failure> {
        let mut rest = number;
        let mut levels: Vec<usize> = Vec::with_capacity(self.factors.len());
        for factor in self.factors.iter().rev() {
            levels.push(rest % factor.levels.len());
            rest /= factor.levels.len();
        }
        levels.reverse();
        let chosen = self.factors.iter().zip(&levels).map(|(factor, level)| &factor.levels[*level]);
        let mut settings: Vec<Setting> = self.fixed.iter().chain(chosen).cloned().collect();
        settings.sort();
        let policy = settings.iter().find(|setting| setting.name == "policy");
        let policy = parse_policy(policy.map_or("", |setting| &setting.value));
        let policy = policy.map_err(|failure| self.wrong("policy", failure.to_string()))?;
        let words = settings.iter().filter(|setting| setting.name != "policy").filter_map(Setting::word);
        let matches = arguments().try_get_matches_from(words).map_err(|error| self.refused(&error))?;
        let inputs = InputArguments::from_arg_matches(&matches).map_err(|error| self.refused(&error))?;
        Ok(Cell { levels, settings, inputs, policy })
    }

    /// A refusal of the command line, at the line of the argument that it names.
    fn refused(&self, error: &clap::Error) -> SweepFileError {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let what = first.trim_start_matches("error: ").to_owned();
        let names = self.factors.iter().map(|factor| factor.name.as_str());
        let names = names.chain(self.fixed.iter().map(|setting| setting.name.as_str()));
        let named =
            names.filter(|name| what.contains(&format!("--{}", dashed(name)))).max_by_key(|name| name.len());
        self.wrong(named.unwrap_or_default(), what)
    }

    fn wrong(&self, name: &str, what: String) -> SweepFileError {
        let is_key = |line: &str| {
            let key = line.split('=').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            !name.is_empty() && dashed(key) == dashed(name)
        };
        let line =
            self.factors.iter().find(|factor| dashed(&factor.name) == dashed(name)).map(|factor| factor.line);
        let line = line.or_else(|| self.text.lines().position(is_key).map(|at| at + 1));
        SweepFileError::Wrong { file: self.file.clone(), line: line.unwrap_or(1), what }
    }
}

impl Setting {
    /// As the command line writes it; an argument without a value is there or not.
    fn word(&self) -> Option<String> {
        match self.value.as_str() {
            "false" => None,
            "true" => Some(format!("--{}", self.name)),
            value => Some(format!("--{}={value}", self.name)),
        }
    }
}

/// The arguments that say what is simulated.
fn arguments() -> clap::Command {
    InputArguments::augment_args(clap::Command::new("sweep").no_binary_name(true).disable_help_flag(true))
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"title = "two by two"
seeds = [3, 1]
metrics = ["p95_wait", "mean_jct"]
baseline = { policy = "fifo" }

[fixed]
generate = "day"
save_s = 10
jobs = 50

[factors]
policy = ["fifo", "srtf{by = 'gpu_time'}"]
load = ["0.5", "1.5x"]
"#;

    fn read(text: &str) -> Result<SweepFile, String> {
        SweepFile::parse("e.toml".to_owned(), text.to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_file_gives_all_combinations_in_order() {
        let sweep = read(WHOLE).unwrap();
        assert_eq!((sweep.title.as_str(), sweep.seeds.as_slice()), ("two by two", [3, 1].as_slice()));
        assert_eq!(sweep.metrics.iter().map(|m| m.key).collect::<Vec<_>>(), ["p95_wait_s", "avg_jct_s"]);
        assert_eq!(sweep.factors.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["policy", "load"]);
        assert_eq!(sweep.baseline, [(0, 0)].into_iter().collect());
        let cells = sweep.cells().unwrap();
        let levels: Vec<&[usize]> = cells.iter().map(|cell| cell.levels.as_slice()).collect();
        assert_eq!(levels, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(cells[3].policy.label(), "srtf{by=\"gpu_time\"}");
        assert_eq!(cells[3].inputs.load, Some(crate::config::words::LoadWord::Times(1.5)));
        assert_eq!((cells[0].inputs.save_s, cells[0].inputs.jobs), (10.0, Some(50)));
    }

    #[test]
    fn what_is_not_said_has_defaults() {
        let sweep = read("[factors]\npolicy = ['fifo']").unwrap();
        assert_eq!((sweep.seeds.len(), sweep.resample, sweep.metrics.len()), (10, true, 4));
        assert_eq!(read("seeds = 2\n[factors]\npolicy = ['fifo']").unwrap().seeds, [0, 1]);
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_to_try() {
        let head = "seeds = 2\n[factors]\npolicy = ['fifo']\n";
        for (text, told) in [
            ("sedes = 2\n", "e.toml:1: unknown key `sedes`; did you mean `seeds`?"),
            ("seeds = 0\n", "e.toml:1: `seeds` is a number from 1"),
            ("seeds = [1, 1]\n", "e.toml:1: seed 1 is there twice"),
            ("title = 3\n", "e.toml:1: `title` has a value of the wrong kind"),
            ("seeds = 2\n", "there are no [factors]"),
            ("[factors]\nsave_s = [1]\n", "`policy` is neither"),
            ("[factors]\npolicy = 'fifo'\n", "e.toml:2: factor `policy` is a list"),
            ("[factors]\npolicy = ['fifo', 'fifo']\n", "e.toml:2: factor `policy` has the level fifo twice"),
            (&format!("{head}polcy = ['x']\n"), "e.toml:4: unknown setting `polcy`; did you mean `policy`?"),
            (&format!("{head}seed = [1]\n"), "e.toml:4: `seed` is no setting of a sweep; write `seeds`"),
            (&format!("{head}jobs = [[1]]\n"), "e.toml:4: `jobs` takes text or a number"),
            (&format!("{head}[fixed]\npolicy = 'srtf'\n"), "`policy` is both fixed and a factor"),
            (
                &format!("{head}[baseline]\npolicy = 'fifoo'\n"),
                "e.toml:5: factor `policy` has no level fifoo; did",
            ),
            (
                &format!("{head}[baseline]\nload = '1x'\n"),
                "e.toml:5: `baseline` names `load`, which is no factor",
            ),
            (&format!("metrics = ['p95_wiat']\n{head}"), "e.toml:1: the summary has no number `p95_wiat`"),
            (&format!("metrics = ['wall_s']\n{head}"), "e.toml:1: `wall_s` is measured"),
        ] {
            let error = read(text).map(|_| ()).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(read("seeds = \n").is_err());
    }

    #[test]
    fn values_that_a_run_would_refuse_are_told_with_their_line() {
        let told = |text: &str| read(text).unwrap().cells().err().unwrap().to_string();
        let error = told("[factors]\npolicy = ['fifoo']\n");
        assert!(error.starts_with("e.toml:2: there is no policy `fifoo`, did you mean `fifo`"), "{error}");
        let error = told("[fixed]\ndeclared = 'maybe'\n[factors]\npolicy = ['fifo']\n");
        assert!(error.starts_with("e.toml:2: ") && error.contains("maybe"), "{error}");
    }
}
