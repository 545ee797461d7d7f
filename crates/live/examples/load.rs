//! Measures a daemon under load, on a cluster that is not there: how long submissions take when many come at once, and
//! whether a long queue makes decisions slower.
//!
//!     cargo run --release -p trainyard-live --example load [FOLDER]
//!
//! The folder says on which disk the journal is; by default it is the one for temporary files.

#![allow(dead_code, reason = "what tests share is not all used here")]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trainyard_live::{Daemon, Executor, Handle, Held, Reporter, Settings, Work};
use trainyard_sched::control::{Event, How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, Cluster, JobId, NodeId, NodeState, Quotas};

#[path = "../tests/common/place.rs"]
mod place;

const SUBMISSIONS: usize = 10_000;
const THREADS: usize = 50;
/// So many jobs of a queue are let through, one at a time, and as many are put at its end; and that so often.
const MEASURED: usize = 500;
const ROUNDS: usize = 12;
const QUEUES: [usize; 3] = [1_000, 10_000, 100_000];

/// How a measurement ends.
type Done = Result<(), Box<dyn Error>>;

/// Jobs that run until a gate is opened, and then end at once.
#[derive(Clone, Default)]
struct Gate {
    is_open: Arc<AtomicBool>,
    waiting: Arc<Mutex<Vec<(JobId, Attempt, Reporter)>>>,
}

impl Gate {
    fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
    }

    fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for (job, attempt, reporter) in waiting {
            reporter.tell(Event::Finished { job, attempt, outcome: Outcome::Completed });
        }
    }
}

impl Executor for Gate {
    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    fn describe(&self) -> String {
        "nothing really runs".to_owned()
    }

    fn adopt(&mut self, _: Vec<Held>, _: &Reporter) {}

    fn start(&mut self, held: Held, reporter: &Reporter) {
        let (job, attempt) = (held.job.id, held.attempt);
        reporter.tell(Event::Started { job, attempt, iterations: 0.0, speed: 0.0 });
        if self.is_open.load(Ordering::SeqCst) {
            reporter.tell(Event::Finished { job, attempt, outcome: Outcome::Completed });
        } else {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push((job, attempt, reporter.clone()));
        }
    }

    fn stop(&mut self, _: JobId, _: Attempt, _: How) {}
    fn resize(&mut self, _: JobId, _: Attempt, _: &Allocation, _: &Quotas) {}
    fn merge(&mut self, _: JobId, _: Attempt, _: u32, _: &Quotas) {}
    fn node_changed(&mut self, _: &Cluster, _: NodeId, _: NodeState) {}
}

fn begin(folder: &Path, gate: &Gate) -> Result<Daemon, Box<dyn Error>> {
    let settings = place::settings(folder, place::cluster((1, 1)), "fifo");
    let settings = Settings { settle: Duration::ZERO, ..settings };
    Ok(Daemon::begin(settings, Box::new(gate.clone()), Box::new(|_| {}))?)
}

/// Submits so many jobs from many threads: their numbers, and how long each took.
fn submit(handle: &Handle, count: usize) -> Vec<(JobId, Duration)> {
    let one = |handle: &Handle| {
        let work = Work::new(vec!["true".to_owned()]);
        let began = Instant::now();
        let answer = handle.submit(place::submission(place::gang(1), work, None));
        (answer.expect("it is taken").0, began.elapsed())
    };
    std::thread::scope(|scope| {
        let part = |_| scope.spawn(|| (0..count / THREADS).map(|_| one(handle)).collect::<Vec<_>>());
        let threads: Vec<_> = (0..THREADS).map(part).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it submits")).collect()
    })
}

fn submissions(folder: &Path) -> Done {
    let gate = Gate::default();
    let daemon = begin(folder, &gate)?;
    let began = Instant::now();
    let answers = submit(&daemon.handle(), SUBMISSIONS);
    let took = began.elapsed();
    let numbers: BTreeSet<JobId> = answers.iter().map(|(job, _)| *job).collect();
    let mut latencies: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
    latencies.sort();
    let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    daemon.leave();
    let daemon = begin(folder, &gate)?;
    let kept = daemon.handle().board().jobs.len();
    daemon.leave();
    println!(
        "{SUBMISSIONS} submissions from {THREADS} threads: {:.0} a second; {:.1} ms in the middle, {:.1} ms for 99 %, \
         {:.1} ms at the most; {} numbers, {kept} jobs after a restart",
        SUBMISSIONS as f64 / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0),
        numbers.len()
    );
    Ok(())
}

fn decisions(folder: &Path, queued: usize) -> Done {
    let gate = Gate::default();
    let daemon = begin(folder, &gate)?;
    let handle = daemon.handle();
    submit(&handle, queued);
    let (mut took, mut made, mut longest) = (Duration::ZERO, 0, Duration::ZERO);
    for _ in 0..ROUNDS {
        submit(&handle, MEASURED);
        let (decisions, starts) = (handle.board().decisions, handle.board().starts);
        let began = Instant::now();
        gate.open();
        let mut last = (starts, began);
        while handle.board().starts < starts + MEASURED as u64 {
            std::thread::sleep(Duration::from_micros(200));
            let now = handle.board().starts;
            if now != last.0 {
                longest = longest.max(last.1.elapsed());
                last = (now, Instant::now());
            }
        }
        took += began.elapsed();
        made += handle.board().decisions - decisions;
        gate.close();
    }
    daemon.leave();
    let began = Instant::now();
    begin(folder, &gate)?.leave();
    println!(
        "{queued} queued: {:.0} decisions a second, the longest pause {:.0} ms; {:.2} s to come back and leave again",
        made as f64 / took.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn main() -> Done {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let own = |name: &str| folder.join(format!("trainyard-load-{}-{name}", std::process::id()));
    let measure = |name: &str, act: &dyn Fn(&Path) -> Done| {
        let folder = own(name);
        let done = act(&folder);
        std::fs::remove_dir_all(&folder)?;
        done
    };
    measure("submissions", &submissions)?;
    QUEUES.iter().try_for_each(|queued| measure(&queued.to_string(), &|folder| decisions(folder, *queued)))
}
