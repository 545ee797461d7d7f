//! `train`: weights for a policy that learns, from workloads as `run` takes them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::InputArguments;

/// What can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Learner {
    /// The policy dl2.
    Dl2,
}

/// What `train` is told.
#[derive(Args, Debug)]
pub(super) struct TrainArguments {
    /// What is trained.
    #[arg(value_enum)]
    pub(super) learner: Learner,
    #[command(flatten)]
    pub(super) inputs: InputArguments,
    /// The policy that is imitated first, such as slot-drf{misfit = "stop"}.
    #[arg(long, value_name = "POLICY", default_value = "slot-drf", help_heading = "Training")]
    pub(super) teacher: String,
    /// How many workloads it practises on, again and again; the first has the seed of --seed.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Training")]
    pub(super) workloads: u32,
    /// Steps of imitation; 0 to leave it out.
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Training")]
    pub(super) school: u32,
    /// Steps of practice; 0 to leave it out.
    #[arg(long, value_name = "N", default_value_t = 20_000, help_heading = "Training")]
    pub(super) updates: u32,
    /// How many jobs the network sees at a time.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500), help_heading = "Training")]
    pub(super) window: u32,
    /// How many kinds of jobs it tells apart, by the order in which models occur.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=500), help_heading = "Training")]
    pub(super) kinds: u32,
    /// The length of a slot in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1200.0, help_heading = "Training")]
    pub(super) slot_s: f64,
    /// Everything else: tables `school` and `practice` in TOML; docs/learning.md describes them.
    #[arg(long, value_name = "FILE", help_heading = "Training")]
    pub(super) settings: Option<PathBuf>,
    /// A line of JSON for each step, for programs.
    #[arg(long, value_name = "FILE", help_heading = "Training")]
    pub(super) log: Option<PathBuf>,
    /// The weights that are written.
    #[arg(long, value_name = "FILE", default_value = "dl2.safetensors", help_heading = "Training")]
    pub(super) out: PathBuf,
}

/// Trains.
#[cfg(not(feature = "learn"))]
pub(super) fn perform(
    given: &TrainArguments,
    _: super::Output,
) -> Result<super::Ending, crate::failure::Failure> {
    let Learner::Dl2 = given.learner;
    Err(crate::config::ArgumentError::NoLearning.into())
}

#[cfg(feature = "learn")]
pub(super) use learning::perform;

#[cfg(feature = "learn")]
mod learning {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde::{Deserialize, Serialize};
    use trainyard_learn::LearnError;
    use trainyard_learn::dl2::{Course, Practice, Schooling, Told, train};
    use trainyard_sched::model::Seed;
    use trainyard_sched::policies::dl2::{Rules, Schema};

    use super::super::whatif::progress_bar;
    use super::super::{Ending, Output, print, say};
    use super::TrainArguments;
    use crate::config::{ArgumentError, Inputs, Variation, WEIGHTS_SUFFIX, parse_policy};
    use crate::experiment::write_bytes;
    use crate::failure::Failure;

    /// The widths of the paper.
    const HIDDEN: [usize; 2] = [256, 256];

    #[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        school: Schooling,
        practice: Practice,
    }

    /// What came of it.
    #[derive(Debug, Serialize)]
    struct Trained {
        weights: String,
        /// Cross-entropy after the last step of school.
        school_loss: Option<f32>,
        /// What was told last of practice.
        practice: Option<Told>,
    }

    /// Trains.
    pub(in super::super) fn perform(given: &TrainArguments, output: Output) -> Result<Ending, Failure> {
        if !given.out.to_string_lossy().ends_with(WEIGHTS_SUFFIX) {
            return Err(ArgumentError::WeightsName { path: given.out.clone() }.into());
        }
        if given.school == 0 && given.updates == 0 {
            return Err(ArgumentError::NothingToLearn.into());
        }
        let settings = given.settings.as_deref().map_or_else(|| Ok(Settings::default()), read)?;
        let teacher = parse_policy(&given.teacher)?;
        let workloads = workloads(given)?;
        let course = course(given, &settings);
        let bar = progress_bar();
        bar.set_length(u64::from(given.school) + u64::from(given.updates));
        let (mut lines, mut last, mut school_loss) = (Vec::new(), None, None);
        let mut tell = |told: &Told, _: &_| {
            bar.inc(1);
            if given.log.is_some() {
                serde_json::to_writer(&mut lines, told).expect("numbers can be written");
                lines.push(b'\n');
            }
            if told.reward.is_some() { last = Some(*told) } else { school_loss = Some(told.loss) }
        };
        let making = || teacher.build().map_err(LearnError::from);
        let learned = train(&course, &making, &|i| workloads[i % workloads.len()].setup(), &mut tell);
        bar.finish_and_clear();
        let weights = learned.map_err(Failure::Learning)?.weights(&course.rules, made(given));
        write_bytes(&given.out, &weights.to_bytes())?;
        if let Some(log) = &given.log {
            write_bytes(log, &lines)?;
        }
        let trained = Trained { weights: given.out.display().to_string(), school_loss, practice: last };
        print(output, &trained, told)?;
        let words = format!("dl2{{weights = \"{}\"}}", given.out.display());
        say(&format!("Try it: trainyard evaluate {}, or --policy '{words}'.", given.out.display()));
        Ok(Ending::Done)
    }

    fn told(trained: &Trained) -> String {
        let mut text = format!("weights: {}", trained.weights);
        if let Some(loss) = trained.school_loss {
            text += &format!("\nafter school: cross-entropy {loss:.3}");
        }
        if let Some(Told { update, reward: Some(reward), entropy: Some(entropy), loss, .. }) =
            trained.practice
        {
            text += &format!(
                "\nafter {update} steps of practice: reward of a slot {reward:.3} (moving mean), entropy {entropy:.3}, loss of the critic {loss:.4}"
            );
        }
        text
    }

    fn read(path: &Path) -> Result<Settings, Failure> {
        let wrong = |problem: String| ArgumentError::LearningSettings { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Ok(toml::from_str(&text).map_err(|error| wrong(error.to_string()))?)
    }

    /// All workloads, read before anything is trained, so that what is wrong with them is told at once.
    fn workloads(given: &TrainArguments) -> Result<Vec<Inputs>, Failure> {
        let read = |i: u32| {
            let seed = given.inputs.seed.wrapping_add(u64::from(i));
            let resampled = given.inputs.trace.is_some() && i > 0;
            let variation = Variation { seed: Some(seed), resampled, ..Variation::default() };
            Inputs::varied(&given.inputs, &variation, None)
        };
        (0..given.workloads).map(read).collect()
    }

    fn course(given: &TrainArguments, settings: &Settings) -> Course {
        let schema = Schema { jobs: given.window as usize, kinds: given.kinds as usize };
        let Settings { school, practice } = *settings;
        Course {
            rules: Rules {
                schema,
                slot_s: given.slot_s,
                starts_all: true,
                stops_at_misfit: false,
                most_choices: 100_000,
            },
            hidden: HIDDEN.to_vec(),
            schooling: (given.school > 0).then_some(Schooling { updates: given.school as usize, ..school }),
            practice: (given.updates > 0).then_some(Practice { updates: given.updates as usize, ..practice }),
            traces: given.workloads as usize,
            seed: Seed(given.inputs.seed),
        }
    }

    fn made(given: &TrainArguments) -> BTreeMap<String, String> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        BTreeMap::from([
            ("command".to_owned(), format!("trainyard {}", arguments.join(" "))),
            ("seed".to_owned(), given.inputs.seed.to_string()),
            ("version".to_owned(), version),
        ])
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn settings_are_read_and_unknown_ones_refused() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("settings.toml");
            let read = |text: &str| {
                std::fs::write(&path, text).unwrap();
                super::read(&path)
            };
            let read_well = read("[practice]\ngamma = 0.5\n[school]\nbatch = 64\n").unwrap();
            assert_eq!((read_well.practice.gamma, read_well.school.batch), (0.5, 64));
            assert_eq!(read_well.practice.memory, Practice::default().memory);
            let error = read("[practice]\ngama = 0.5\n").unwrap_err().explain();
            assert!(error.contains("gama") && error.contains("gamma"), "{error}");
        }
    }
}
