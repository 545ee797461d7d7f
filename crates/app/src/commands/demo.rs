//! `demo`: the same real training jobs on this machine under one policy after another.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use trainyard_live::local::Confinement;
use trainyard_sched::model::Seed;

use super::{Ending, Output, print, say};
use crate::config::PolicyChoice;
use crate::demo::{self, Course, Load, Place};
use crate::experiment::{make_folder, write_json, write_text};
use crate::failure::Failure;
use crate::render::{DemoAnswer, DemoRow, demo_page, demo_text};
use crate::statistics::Estimate;

/// The parts of the loss reduction that are left when a job counts as so far.
const LEFT: [f64; 2] = [0.1, 0.05];

/// What `demo` is told.
#[derive(Args, Debug)]
pub(super) struct DemoArguments {
    /// How many jobs come.
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(2..=500))]
    jobs: u32,
    /// How many times the whole is repeated, each with other jobs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// The seed of the jobs and of their arrivals.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Seconds within which the jobs come.
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    within: f64,
    /// Core-seconds of a job, on average.
    #[arg(long, value_name = "S", default_value_t = 4.5, value_parser = seconds)]
    work: f64,
    /// Seconds after which a policy is cut short.
    #[arg(long, value_name = "S", default_value_t = 80.0, value_parser = seconds)]
    most: f64,
    /// The folder that is left; what an earlier demonstration left there is replaced.
    #[arg(long, value_name = "DIR", default_value = "trainyard-demo")]
    out: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=1e5).contains(&value) => Ok(value),
        _ => Err("give a number of seconds from 0.1 to 100000".to_owned()),
    }
}

/// Shows it.
pub(super) fn perform(given: &DemoArguments, output: Output) -> Result<Ending, Failure> {
    let exe = std::env::current_exe().map_err(Failure::file("find", "this program".as_ref()))?;
    make_folder(&given.out)?;
    let confinement = Confinement::find(&format!("trainyard-demo-{}", std::process::id()));
    say(&format!("{}.", confinement.describe()));
    let mut slaq = toml::Table::new();
    slaq.insert("epoch_s".to_owned(), toml::Value::Float(0.5));
    slaq.insert("at_events".to_owned(), toml::Value::Boolean(true));
    let policies = [PolicyChoice::new("slaq", slaq)?, PolicyChoice::new("fair", toml::Table::new())?];
    let load = Load { jobs: given.jobs as usize, within_s: given.within, work_s: given.work };
    let mut all: Vec<Vec<Course>> = Vec::new();
    for repeat in 0..u64::from(given.repeats) {
        let jobs = demo::draw(load, Seed(given.seed).numbered(repeat), &exe)?;
        let mut courses = Vec::new();
        for policy in &policies {
            let bar = bar(&format!("{} {}/{}", policy.name(), repeat + 1, given.repeats), jobs.len());
            let folder = demo::fresh(&given.out, &format!("{}-{repeat}", policy.name()))?;
            let place = Place {
                folder: &folder,
                exe: &exe,
                confinement: &confinement,
                most: Duration::from_secs_f64(given.most),
                progress: &|come, ended| {
                    bar.set_position(ended as u64);
                    bar.set_message(format!("{come} came"));
                },
            };
            courses.push(demo::course(policy, &jobs, &place)?);
            bar.finish_and_clear();
        }
        all.push(courses);
        // What is done is done, should the rest be cut off.
        let so_far = answer(given, &all, confinement.describe());
        write_json(&given.out.join("demo.json"), &so_far)?;
        write_text(&given.out.join("report.html"), &demo_page(&so_far))?;
    }
    confinement.leave();
    let answer = answer(given, &all, confinement.describe());
    print(output, &answer, demo_text)?;
    let failed: usize = all.iter().flatten().map(|course| course.failed.0).sum();
    if failed > 0 {
        let first = all.iter().flatten().find_map(|course| course.failed.1.clone()).unwrap_or_default();
        say(&format!(
            "{failed} jobs failed, so these figures mean nothing; the first is {first}. See {}.",
            given.out.display()
        ));
        return Ok(Ending::Failed);
    }
    say(&format!("The page is {}.", given.out.join("report.html").display()));
    Ok(Ending::Done)
}

fn bar(name: &str, jobs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} jobs done, {msg}, {elapsed}");
    let bar = ProgressBar::new(jobs as u64).with_prefix(name.to_owned());
    bar.set_style(style.expect("this is a template"));
    bar
}

/// What all courses came to; of each repeat there is one under either policy.
fn answer(given: &DemoArguments, all: &[Vec<Course>], confinement: String) -> DemoAnswer {
    let both = |figure: &dyn Fn(&Course) -> Option<f64>| {
        [0, 1].map(|i| all.iter().map(|courses| figure(&courses[i])).collect::<Vec<Option<f64>>>())
    };
    let row = |what, values: [Vec<Option<f64>>; 2]| {
        let ratio = Estimate::of_ratio(&values[0], &values[1], Seed(given.seed).branch("intervals"));
        let mean = |values: &[Option<f64>]| Estimate::of(values, Seed(0)).mean;
        DemoRow {
            what,
            values: [mean(&values[0]), mean(&values[1])],
            less: ratio.mean.map(|ratio| 1.0 - ratio),
            interval: ratio.interval_95.map(|interval| (1.0 - interval.high, 1.0 - interval.low)),
        }
    };
    let names = ["mean seconds to 90 % loss reduction", "mean seconds to 95 % loss reduction"];
    let mut rows: Vec<DemoRow> = LEFT
        .iter()
        .zip(names)
        .map(|(left, what)| row(what, both(&|course| demo::mean_seconds_to(course, *left))))
        .collect();
    rows.push(row("mean normalised loss over time", both(&|course| course.quality.summary()?.avg_loss)));
    let times = [0, 1].map(|i| {
        let learners = all[0][i].quality.jobs();
        let mut times: Vec<f64> = learners.filter_map(|(_, job)| job.seconds_to(LEFT[0])).collect();
        times.sort_by(f64::total_cmp);
        times
    });
    let mean = |i: usize| all.iter().map(|courses| courses[i].seconds).sum::<f64>() / all.len() as f64;
    DemoAnswer {
        schema: "trainyard.demo/1",
        policies: [all[0][0].policy.clone(), all[0][1].policy.clone()],
        jobs: given.jobs,
        repeats: all.len() as u32,
        units: demo::units(),
        confinement,
        cut: [0, 1].map(|i| all.iter().map(|courses| courses[i].cut).sum()),
        seconds: [mean(0), mean(1)],
        rows,
        losses: [0, 1].map(|i| demo::losses_over_time(&all[0][i])),
        times,
    }
}
