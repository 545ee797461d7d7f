//! The only loop in the product.

use super::{Backend, Core, Log};

/// Runs until the backend says that nothing will happen any more.
pub fn run(backend: &mut dyn Backend, core: &mut Core, log: &mut dyn Log) {
    let mut wake = None;
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
