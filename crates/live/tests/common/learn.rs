//! A program that trains nothing and keeps account of everything: it speaks the whole contract of a copy, and leaves behind what
//! it saved and what it loaded, so that a test can reckon by hand.
//!
//! Words: `step=MS` is how long an iteration of copy 0 takes; copy 1 needs twice as long, copy 2 three times; `goal=STEP` ends it
//! there; `silent=COPY` answers no merge but the first, `deaf=COPY` does not heed signals either, `form=COPY` saves a tensor of
//! another shape than the others do, `odd=COPY` begins from another state.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// How often a copy looks whether it may go on.
const LOOK: Duration = Duration::from_millis(5);

/// What is learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) weights: Vec<f64>,
    pub(crate) momentum: Vec<f32>,
    pub(crate) step: i64,
}

impl State {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let bytes = fs::read(path)?;
        let all = SafeTensors::deserialize(&bytes)?;
        let of = |name: &str| all.tensor(name).map(|view| view.data().to_vec());
        let (weights, momentum, step) = (of("weights")?, of("momentum")?, of("step")?);
        Ok(Self {
            weights: weights
                .chunks_exact(8)
                .map(|eight| f64::from_le_bytes(eight.try_into().unwrap()))
                .collect(),
            momentum: momentum
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect(),
            step: i64::from_le_bytes(step.as_slice().try_into()?),
        })
    }

    fn write(&self, path: &Path, is_odd: bool) -> Result<(), Box<dyn Error>> {
        let weights: Vec<u8> = self.weights.iter().flat_map(|value| value.to_le_bytes()).collect();
        let momentum: Vec<u8> = self.momentum.iter().flat_map(|value| value.to_le_bytes()).collect();
        let step = self.step.to_le_bytes();
        let shape = if is_odd { vec![1, self.weights.len()] } else { vec![self.weights.len()] };
        let views = vec![
            ("weights", TensorView::new(Dtype::F64, shape, &weights)?),
            ("momentum", TensorView::new(Dtype::F32, vec![self.momentum.len()], &momentum)?),
            ("step", TensorView::new(Dtype::I64, vec![], &step)?),
        ];
        let metadata = HashMap::from([("by".to_owned(), "learn".to_owned())]);
        let beside = path.with_extension("part");
        let mut file = fs::File::create(&beside)?;
        file.write_all(&safetensors::serialize(views, Some(metadata))?)?;
        file.sync_all()?;
        Ok(fs::rename(beside, path)?)
    }

    /// One iteration of a copy. It depends on the copy, so states differ.
    fn train(&mut self, copy: u64) {
        let at = self.step as f64;
        for (i, weight) in self.weights.iter_mut().enumerate() {
            *weight += (at * 0.7 + i as f64 + copy as f64).sin();
        }
        self.momentum.iter_mut().for_each(|value| *value = 0.9 * *value + 0.01 * (copy + 1) as f32);
        self.step += 1;
    }
}

struct Words {
    step: Duration,
    silent: Option<u64>,
    deaf: Option<u64>,
    form: Option<u64>,
    goal: Option<u64>,
    odd: Option<u64>,
}

impl Words {
    fn read(words: &[&str]) -> Result<Self, Box<dyn Error>> {
        let mut all = Self { step: LOOK, silent: None, deaf: None, form: None, goal: None, odd: None };
        for word in words {
            let (name, value) = word.split_once('=').ok_or("a word is NAME=NUMBER")?;
            let number: u64 = value.parse()?;
            match name {
                "step" => all.step = Duration::from_millis(number),
                "silent" => all.silent = Some(number),
                "deaf" => all.deaf = Some(number),
                "form" => all.form = Some(number),
                "odd" => all.odd = Some(number),
                "goal" => all.goal = Some(number),
                _ => return Err("an unknown word".into()),
            }
        }
        Ok(all)
    }
}

/// Trains until it is told to stop.
pub(crate) fn learn(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let words = Words::read(words)?;
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is missing"));
    let copy: u64 = std::env::var("TRAINYARD_COPY").unwrap_or_default().parse().unwrap_or(0);
    let (own, state_file) =
        (path("TRAINYARD_DIR")?, path("TRAINYARD_CHECKPOINT_DIR")?.join("state.safetensors"));
    let (control, progress) = (path("TRAINYARD_CONTROL_FILE")?, path("TRAINYARD_PROGRESS_FILE")?);
    let answer_file = path("TRAINYARD_MERGE_FILE").ok();
    let is_deaf = words.deaf == Some(copy);
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&asked))?;

    let first = if words.odd == Some(copy) { 5.0 } else { 0.0 };
    let fresh = State { weights: vec![first, 1.0, 2.0], momentum: vec![0.0; 2], step: 0 };
    let mut state = if state_file.exists() { State::read(&state_file)? } else { fresh };
    let begin = state.clone();
    begin.write(&own.join("loaded-0.safetensors"), false)?;
    let say = |line: String| append(&progress, &line);
    let answer = |merge: u64, step: i64| -> Result<(), Box<dyn Error>> {
        let Some(file) = &answer_file else { return Ok(()) };
        let beside = file.with_extension("part");
        fs::write(&beside, format!("{{\"merge\":{merge},\"iteration\":{step}}}"))?;
        Ok(fs::rename(beside, file)?)
    };
    let save = |state: &State, name: &str| -> Result<(), Box<dyn Error>> {
        state.write(&own.join(format!("saved-{name}.safetensors")), false)?;
        state.write(&state_file, words.form == Some(copy))?;
        say(format!("{{\"saved\":{}}}\n", state.step))
    };
    answer(0, state.step)?;
    let mut known = 0;
    loop {
        let said: serde_json::Value = serde_json::from_slice(&fs::read(&control)?)?;
        let number = |name: &str| said[name].as_u64();
        let is_done = words.goal.is_some_and(|goal| goal <= state.step as u64);
        if is_done || !is_deaf && (asked.load(Ordering::SeqCst) || said["stop"] == true) {
            save(&state, "stop")?;
            return Ok(());
        }
        let (merge, merged) = (number("merge").unwrap_or(0), number("merged").unwrap_or(0));
        if merged > known {
            state = State::read(&state_file)?;
            state.write(&own.join(format!("loaded-{merged}.safetensors")), false)?;
            known = merged;
        } else if merge > known && (merge == 1 || words.silent != Some(copy) && !is_deaf) {
            if !own.join(format!("saved-{merge}.safetensors")).exists() {
                save(&state, &merge.to_string())?;
            }
            answer(merge, state.step)?;
            std::thread::sleep(LOOK);
        } else if number("until").is_some_and(|until| until <= state.step as u64) {
            std::thread::sleep(LOOK);
        } else {
            std::thread::sleep(words.step * (copy as u32 + 1));
            state.train(copy);
            append(&own.join("steps"), ".")?;
            let loss = 1.0 / (1.0 + state.step as f64);
            say(format!("{{\"iteration\":{},\"loss\":{loss}}}\n", state.step))?;
        }
    }
}

fn append(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}
