//! The core and the simulator, one slot at a time.

use trainyard_sched::control::{Backend, Core};
use trainyard_sched::decide::Policy;
use trainyard_sched::model::Time;
use trainyard_sim::backend::SimBackend;
use trainyard_sim::simulate::{Setup, prepare};

use crate::LearnError;

/// Where workloads come from: the setup of the `i`-th trace.
pub type Traces<'a> = &'a (dyn Fn(usize) -> Setup + Sync);

/// A run that stops whenever its policy has been asked.
pub struct Gym {
    backend: SimBackend,
    core: Core,
    wake: Option<Time>,
}

impl Gym {
    /// A run that has not begun.
    ///
    /// # Errors
    /// If it cannot begin.
    pub fn new(setup: Setup, policy: Box<dyn Policy>) -> Result<Self, LearnError> {
        let began = prepare(setup, policy);
        let (backend, core) =
            began.map_err(|source| LearnError::Setup { what: "a trace".to_owned(), source })?;
        let wake = core.next_wake(Time::ZERO);
        Ok(Self { backend, core, wake })
    }

    /// Goes on until the policy was asked; false when all is over.
    pub fn slot(&mut self) -> bool {
        loop {
            let Some(batch) = self.backend.wait(self.wake) else { return false };
            let step = self.core.step(&batch);
            for action in &step.actions {
                self.backend.perform(action);
            }
            self.wake = step.wake;
            if step.decision.is_some() {
                return true;
            }
        }
    }
}
