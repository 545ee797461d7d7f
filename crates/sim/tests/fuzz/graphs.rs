//! Jobs that are graphs of tasks, sound and not: cycles, islands, many tasks, models without parameters, numbers beyond all
//! bounds, edges that are there twice, lead across or lead nowhere.

use std::fmt::Write as _;

use crate::judge::{Input, Kind};
use crate::mutate::{self, Dice};

const HEADER: &str = "job_id,submit_s,graph,iterations,duration_s,gpus,pace,wander,declared_s,declared_iterations,\
                      limit_s,urgency,required_accuracy,stop,may_relax,loss,accuracy,deadline_s";
const GPUS: [&str; 9] = ["1", "100", "250", "999", "1000", "2000", "0", "1500", "18446744073709551615"];
const AMOUNTS: [&str; 7] = ["0", "1", "4000", "500000000", "1e9", "-1", "18446744073709551615"];
const SECONDS: [&str; 9] = ["0.1", "1", "2.5", "0", "600", "1e-9", "NaN", "1e308", "-1"];
const PARAMETERS: [&str; 5] = ["0", "1000", "7", "18446744073709551615", "1.5"];
const BYTES: [&str; 6] = ["0", "75000000", "1", "1000000000000000000", "18446744073709551615", "NaN"];
const ITERATIONS: [&str; 8] = ["10", "100", "1", "0.001", "1e15", "", "0", "NaN"];
const OTHERS: [&[&str]; 14] = [
    &["", "60", "1e10"],
    &["", "1", "7"],
    &["", "2", "0.001", "1e9"],
    &["", "0.9 0.2", "0.9 0.2 7", "1 1", "0 0", "0.9 NaN", "0.9 0.2 -1"],
    &["", "100", "1e-6"],
    &["", "50", "1e-6"],
    &["", "3600", "0"],
    &["", "9", "256"],
    &["", "0.9", "1.1"],
    &["", "at_peak", "at_accuracy 0.5", "iterations 7", "never"],
    &["", "own_to_peak|peak_to_accuracy", "all"],
    &["", "sublinear 0 0.1 0.5 0.2", "geometric 1 0.9 0"],
    &["", "weibull 0.1 0.9 50 1", "weibull 0.1 0.9 1e-6 100 10 0.5", "weibull 0.1"],
    &["", "600", "1e-6"],
];

/// One of these; mostly one of the first, which are sound.
fn of<'a>(words: &[&'a str], sound: usize, dice: &mut Dice) -> &'a str {
    let odd = dice.chance(4);
    words[dice.below(if odd { words.len() } else { sound })]
}

/// The text of a graph of so many tasks.
fn graph(tasks: usize, dice: &mut Dice) -> String {
    let mut text = format!("gpu_milli={}", of(&GPUS, 6, dice));
    let replicas = 1 + dice.below(3);
    for task in 0..tasks {
        text.push('|');
        if dice.chance(30) && tasks < 1000 {
            let known = if dice.chance(3) { 5 } else { 4 };
            let names = ["cpu_milli", "memory_bytes", "state_bytes", "network_bytes_per_s", "gpu_mili"];
            let name = names[dice.below(known)];
            let _ = write!(text, "{name}={} ", of(&AMOUNTS, 4, dice));
        }
        if replicas > 1 {
            let _ = write!(text, "replica={} ", task * replicas / tasks.max(1));
        }
        let _ = write!(text, "{} {}", of(&PARAMETERS, 3, dice), of(&SECONDS, 5, dice));
    }
    if dice.chance(30) {
        let _ = write!(text, "|replica=none gpu_milli=0 cpu_milli=100 0 0.1|{}>{tasks} 9", tasks.max(1) - 1);
    }
    // Without edges it is all islands.
    let edges = if dice.chance(20) { 0 } else { tasks.min(10_000) };
    for _ in 0..edges {
        let from = dice.below(tasks.max(1));
        let (to, odd) = (from + 1 + dice.below(3), dice.chance(1) && tasks < 1000);
        let across = from * replicas / tasks.max(1) != to * replicas / tasks.max(1);
        if odd || (to < tasks && !across && !text.contains(&format!("|{from}>{to} "))) {
            let (from, to) = if odd && dice.chance(50) { (to, from) } else { (from, to) };
            let _ = write!(text, "|{from}>{to} {}", of(&BYTES, 4, dice));
        }
        if tasks >= 1000 {
            break;
        }
    }
    if dice.chance(20) {
        let _ = write!(text, "|{} {}", ["ring", "torus"][dice.below(2)], of(&BYTES, 4, dice));
    }
    if dice.chance(50) {
        text.push_str("|partial");
    }
    text
}

/// A trace with such jobs; some of them are changed as other files are.
pub(crate) fn input(mut dice: Dice) -> Input {
    let mut text = format!("{HEADER}\n");
    for row in 0..=dice.below(5) {
        let tasks = match dice.below(400) {
            0 => 10_000,
            1..=5 => 300,
            _ => dice.below(9),
        };
        let graph = if dice.chance(5) { String::new() } else { graph(tasks, &mut dice) };
        let _ = write!(text, "j{row},{},{graph},{}", row * 30, of(&ITERATIONS, 3, &mut dice));
        for words in OTHERS {
            let sound = if dice.chance(50) { 1 } else { 2.min(words.len()) };
            let _ = write!(text, ",{}", of(words, sound, &mut dice));
        }
        text.push('\n');
    }
    let mut bytes = text.into_bytes();
    if dice.chance(20) {
        let other = bytes.clone();
        mutate::change(&mut bytes, &other, &mut dice);
    }
    let choice = dice.next();
    Input { kind: Kind::Jobs, format: "native".to_owned(), plain_bytes: bytes.len(), bytes, choice }
}
