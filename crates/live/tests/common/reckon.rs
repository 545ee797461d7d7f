//! What copies left behind, reckoned by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::learn::State;

/// A job that ran `yard learn`, by its folder.
pub(crate) struct Ran(pub(crate) PathBuf);

impl Ran {
    pub(crate) fn attempt(&self, attempt: u32) -> PathBuf {
        self.0.join(attempt.to_string())
    }

    pub(crate) fn copy(&self, attempt: u32, copy: u32) -> PathBuf {
        self.attempt(attempt).join(format!("copy-{copy}"))
    }

    /// The state that the job as a whole has.
    pub(crate) fn merged(&self) -> State {
        state(&self.0.join("checkpoints"), "state")
    }

    /// The number of the latest merge of an attempt, and what it came to.
    pub(crate) fn ledger(&self, attempt: u32) -> (u64, f64) {
        let text = fs::read(self.attempt(attempt).join("merged.json")).expect("it is there");
        let ledger: serde_json::Value = serde_json::from_slice(&text).expect("it is whole");
        (ledger["number"].as_u64().expect("a number"), ledger["iterations"].as_f64().expect("a number"))
    }

    /// Checks all merges of an attempt that copies went on from, and gives the state that was merged last among them.
    pub(crate) fn look_at_merges(&self, attempt: u32, copies: u32) -> (State, u64) {
        let of = |copy| self.copy(attempt, copy);
        let mut base = state(&of(0), "loaded-0");
        let mut number = 0;
        let loaded = |copy, number| of(copy).join(format!("loaded-{number}.safetensors")).exists();
        while (0..copies).any(|copy| loaded(copy, number + 1)) {
            number += 1;
            let saved: Vec<State> =
                (0..copies).map(|copy| state(&of(copy), &format!("saved-{number}"))).collect();
            let wanted = mean(&base, &saved);
            for copy in 0..copies {
                // One that is stopped at once has no need to load.
                if loaded(copy, number) || !of(copy).join("saved-stop.safetensors").exists() {
                    same(&state(&of(copy), &format!("loaded-{number}")), &wanted);
                }
            }
            base = wanted;
        }
        (base, number)
    }

    /// Steps that were trained in all attempts, in copies or not.
    pub(crate) fn steps(&self) -> u64 {
        let attempts = (1..100).map(|attempt| self.attempt(attempt));
        let places = attempts.flat_map(|attempt| {
            (0..3)
                .map(|copy| attempt.join(format!("copy-{copy}")))
                .chain([attempt.clone()])
                .collect::<Vec<_>>()
        });
        places.filter_map(|place| fs::metadata(place.join("steps")).ok()).map(|file| file.len()).sum()
    }
}

/// A state that was written or is about to be.
#[track_caller]
pub(crate) fn state(folder: &Path, name: &str) -> State {
    let path = folder.join(format!("{name}.safetensors"));
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match State::read(&path) {
            Ok(state) => return state,
            Err(error) => assert!(Instant::now() < end, "{}: {error}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What states of copies come to, by hand, that began from the same one.
pub(crate) fn mean(base: &State, saved: &[State]) -> State {
    let did: Vec<f64> = saved.iter().map(|state| (state.step - base.step).max(0) as f64).collect();
    let all: f64 = did.iter().sum();
    if all == 0.0 {
        return base.clone();
    }
    let of = |value: &dyn Fn(&State) -> f64| -> f64 {
        saved.iter().zip(&did).map(|(state, did)| did * value(state)).sum::<f64>() / all
    };
    State {
        weights: (0..saved[0].weights.len()).map(|i| of(&|state| state.weights[i])).collect(),
        momentum: (0..saved[0].momentum.len())
            .map(|i| of(&|state| f64::from(state.momentum[i])) as f32)
            .collect(),
        step: base.step + saved.iter().map(|state| (state.step - base.step).max(0)).sum::<i64>(),
    }
}

#[track_caller]
pub(crate) fn same(found: &State, wanted: &State) {
    let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by * (1.0 + b.abs());
    let weights = found.weights.iter().zip(&wanted.weights).all(|(a, b)| near(*a, *b, 1e-12));
    let momentum =
        found.momentum.iter().zip(&wanted.momentum).all(|(a, b)| near((*a).into(), (*b).into(), 1e-6));
    assert!(weights && momentum && found.step == wanted.step, "{found:?} should be {wanted:?}");
}
