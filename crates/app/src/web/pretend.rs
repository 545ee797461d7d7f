//! An executor that runs nothing: jobs are started at once, and `sleep N` ends after so many seconds.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use trainyard_live::{Executor, Held, Reporter};
use trainyard_sched::control::{Event, How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Cluster, JobId, NodeId, NodeState};

/// See above.
#[derive(Default)]
pub(crate) struct Pretend {
    running: BTreeMap<(JobId, Attempt), Sender<()>>,
}

impl Executor for Pretend {
    fn abilities(&self) -> Abilities {
        Abilities::RESIZE | Abilities::LOSS
    }

    fn describe(&self) -> String {
        "pretends to run".to_owned()
    }

    fn adopt(&mut self, held: Vec<Held>, reporter: &Reporter) {
        held.into_iter().for_each(|held| self.start(held, reporter));
    }

    fn start(&mut self, held: Held, reporter: &Reporter) {
        let (stop, stopped) = channel();
        let (job, attempt, iterations) = (held.job.id, held.attempt, held.iterations);
        self.running.insert((job, attempt), stop);
        let reporter = reporter.clone();
        let seconds = match held.work.command.as_slice() {
            [program, seconds] if program == "sleep" => seconds.parse().unwrap_or(0.0),
            _ => 0.0,
        };
        std::thread::spawn(move || {
            reporter.tell(Event::Started { job, attempt, iterations, speed: 0.0 });
            match stopped.recv_timeout(Duration::from_secs_f64(seconds)) {
                Ok(()) => reporter.tell(Event::Stopped { job, attempt, iterations }),
                Err(_) => reporter.tell(Event::Finished { job, attempt, outcome: Outcome::Completed }),
            }
        });
    }

    fn stop(&mut self, job: JobId, attempt: Attempt, _: How) {
        if let Some(stop) = self.running.remove(&(job, attempt)) {
            let _ = stop.send(());
        }
    }

    fn resize(&mut self, _: JobId, _: Attempt, _: &Allocation) {}

    fn merge(&mut self, _: JobId, _: Attempt) {}

    fn node_changed(&mut self, _: &Cluster, _: NodeId, _: NodeState) {}
}
