//! What comes from outside of the cluster while it runs, such as owners who change their minds.

use trainyard_sched::control::Event;

use super::SimBackend;

impl SimBackend {
    pub(super) fn come_from_outside(&mut self, i: u32) {
        let event = self.options.outside[i as usize].1.clone();
        // What was stopped for good may be started again, if its owner says so.
        if let Event::Resumed { job } = event
            && let Some(life) = self.jobs.get_mut(job.index())
            && life.iterations < self.workload.jobs[job.index()].1.iterations
        {
            life.is_over = false;
        }
        self.ready.push(event);
    }
}
