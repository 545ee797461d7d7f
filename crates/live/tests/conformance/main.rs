//! One script for all backends: what the loop may rely on, whatever it drives. It is played on the simulator and on real
//! processes of this machine; another kind of cluster is another [`stage::Stage`].
//!
//! The simulator is here as one more thing to be tested. The libraries do not know each other.

mod account;
mod copied;
mod play;
mod processes;
mod ramble;
mod scenes;
mod script;
mod simulated;
mod spoiled;
mod stage;
mod tasked;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use trainyard_sched::decide::Abilities;

use play::{Played, play};
use processes::{on_devices, processes};
use ramble::ramble;
use scenes::script;
use script::Scene;
use simulated::simulated;
use spoiled::{FAULTS, Fault, Spoiled};
use stage::{Setting, Stage, Theatre};

/// So many scenes are played side by side. They mostly wait.
const TOGETHER: usize = 4;

/// Plays all scenes; what went wrong, and which were left out.
fn play_all(scenes: &[Scene], theatre: Theatre<'_>) -> (Vec<String>, Vec<&'static str>) {
    let (next, wrong, left_out) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..TOGETHER {
            threads.spawn(|| {
                while let Some(scene) = scenes.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let mut stage = theatre(&scene.setting);
                    match play(scene, &mut *stage) {
                        Ok(Played::Through) => {}
                        Ok(Played::LeftOut) => left_out.lock().unwrap().push(scene.name),
                        Err(error) => wrong.lock().unwrap().push(error),
                    }
                }
            });
        }
    });
    (wrong.into_inner().unwrap(), left_out.into_inner().unwrap())
}

#[test]
fn the_simulator_keeps_to_the_script() {
    let (wrong, left_out) = play_all(&script(), &simulated);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(left_out, [""; 0], "the simulator offers everything");
}

#[test]
fn real_processes_keep_to_the_script() {
    let (wrong, _) = play_all(&script(), &processes);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_program_that_changes_its_size_uses_the_devices_that_it_has() {
    let sizes: Vec<Scene> = script().into_iter().filter(|scene| scene.needs == Abilities::RESIZE).collect();
    let (wrong, left_out) = play_all(&sizes, &on_devices);
    assert!(wrong.is_empty() && sizes.len() > left_out.len(), "{}", wrong.join("\n\n"));
}

#[test]
fn random_orders_bring_nothing_about_in_the_simulator_that_must_not_be() {
    for seed in 0..300 {
        ramble(seed, 120, &simulated).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn random_orders_bring_nothing_about_among_real_processes_that_must_not_be() {
    for seed in 0..2 {
        ramble(seed, 60, &processes).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The scenes that notice a fault. A backend that notices it itself and panics counts as well.
fn noticed(fault: Fault) -> BTreeSet<&'static str> {
    let stage = |setting: &Setting| Box::new(Spoiled::new(simulated(setting), fault)) as Box<dyn Stage>;
    let notices = |scene: &Scene| {
        let mut stage = stage(&scene.setting);
        catch_unwind(AssertUnwindSafe(|| play(scene, &mut *stage))).map_or(true, |played| played.is_err())
    };
    script().iter().filter(|scene| notices(scene)).map(|scene| scene.name).collect()
}

#[test]
fn whatever_is_broken_on_purpose_is_noticed() {
    assert_eq!(noticed(Fault::Nothing), BTreeSet::new());
    for fault in FAULTS {
        assert!(!noticed(fault).is_empty(), "{fault:?} is not noticed by any scene");
    }
}
