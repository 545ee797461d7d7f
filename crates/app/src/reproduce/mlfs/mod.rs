//! MLFS (CoNEXT 2020): jobs that are graphs of tasks under MLF-H, MLF-C and their rivals, checks of the specification's section 6.
//!
//! The paper's workload, rivals and many of its parameters are not public, and its figures contradict each other (specification,
//! section 4.5). So a check passes where the median over workloads reaches about half of what was published and the sign is right
//! on nine of ten; beside it stands what is known of the published figure.

mod checks;
mod plots;
mod rows;
mod runs;

use std::collections::BTreeSet;

use trainyard_sched::model::Seed;

use super::{Effort, Findings, Paper, Progress};
use crate::failure::Failure;
use runs::{Alone, Key, Load, MLFS, MLFS_PLUS, RIVALS, perform_all};

/// MLFS.
pub(super) const PAPER: Paper = Paper {
    name: "mlfs",
    title: "MLFS: tasks of model-parallel jobs by what they are worth, and jobs stopped when they have learnt enough",
    source: "Wang, Liu and Shen, CoNEXT 2020 (its workload and rivals are not public; these are of this project)",
    run,
};

/// Jobs under which trends are looked at, in parts of the highest load (section 4.1: a quarter to three times 620).
const LOADS: [u32; 5] = [12, 6, 3, 2, 1];
/// Options of deadlines as published.
const LITERAL: &str = "deadlines = 'literal'";
/// Options of jobs of which a part must do all their iterations, whatever the load.
const UNYIELDING: [(&str, &str); 2] =
    [("half of the jobs", "own_iterations = 0.5"), ("all jobs", "own_iterations = 1.0")];
/// Options of tasks that send ten times as much.
const STRESS: &str = "traffic = 10.0";
/// Options of tasks that use what they demand.
const CONSTANT: &str = "wander = 0.0";

/// The workloads of an effort.
struct Loads {
    /// The highest.
    full: Load,
    /// From the lowest to the highest.
    rising: Vec<Load>,
    literal: Load,
    constant: Load,
    /// A twelfth of the highest.
    light: Load,
    /// Where some jobs, named here, are never stopped early.
    unyielding: [(&'static str, Load); 2],
    stress: Load,
}

impl Loads {
    fn of(preset: &'static str, most: u32) -> Self {
        let load = |jobs, options| Load { preset, jobs, options };
        Self {
            full: load(most, ""),
            rising: LOADS.iter().map(|part| load(most / part, "")).collect(),
            literal: load(most, LITERAL),
            constant: load(most, CONSTANT),
            light: load(most / LOADS[0], ""),
            unyielding: UNYIELDING.map(|(who, options)| (who, load(most, options))),
            stress: load(most, STRESS),
        }
    }
}

fn run(effort: &Effort, progress: &Progress<'_>) -> Result<Findings, Failure> {
    // The testbed takes hours; a quarter of it shows the same in minutes.
    let (preset, most) = if effort.nightly { ("mlfs", 1860) } else { ("mlfs-small", 465) };
    let loads = Loads::of(preset, most);
    let seeds: Vec<Seed> = (0..effort.count(10, 3)).map(|i| effort.seed_of(i)).collect();
    let mut keys: BTreeSet<Key> = checks::keys(loads.full).into_iter().collect();
    let everybody =
        || [MLFS, Alone::MlfH.plain()].into_iter().chain(RIVALS.iter().map(|rival| rival.plain()));
    keys.extend(everybody().map(|who| (loads.literal, who)));
    keys.insert((loads.constant, Alone::MlfH.plain()));
    keys.extend([MLFS, Alone::Tiresias.plain()].map(|who| (loads.light, who)));
    if !effort.quick {
        for (_, load) in loads.unyielding {
            let rivals = RIVALS.iter().map(|rival| rival.controlled());
            keys.extend([MLFS, MLFS_PLUS].into_iter().chain(rivals).map(|who| (load, who)));
        }
        keys.extend(rows::STRESSED.map(|who| (loads.stress, who)));
        for load in &loads.rising {
            keys.extend(everybody().map(|who| (*load, who)));
        }
    }
    let keys: Vec<Key> = keys.into_iter().collect();
    let runs = perform_all(&keys, &seeds, progress)?;
    let mut found = Findings {
        setting: format!(
            "{most} jobs of 1 to 33 tasks over 36 hours on the machines of the preset {preset}, tight deadlines; {} workloads. \
             MLFS is MLF-H under MLF-C here, before anything is learnt. A check passes where the median over workloads reaches \
             its bound and the sign is right on nine of ten; low and high are the second least and the second largest of ten.",
            seeds.len()
        ),
        rows: rows::rows(&runs, &loads, effort),
        readings: rows::readings(&runs, &loads, effort),
        ..Findings::default()
    };
    plots::draw(&runs, &loads, &mut found);
    Ok(found)
}
