//! The only loop in the product.

use crate::model::Time;

use super::{Backend, Core, Log};

/// Runs until the backend says that nothing will happen any more.
pub fn run(backend: &mut dyn Backend, core: &mut Core, log: &mut dyn Log) {
    // A loop that goes on from a moment may have something ahead already.
    let mut wake = core.next_wake(Time::ZERO);
    while let Some(batch) = backend.wait(wake) {
        let step = core.step(&batch);
        log.step(&batch, &step);
        for action in &step.actions {
            backend.perform(action);
        }
        log.rest(core);
        wake = step.wake;
    }
}
