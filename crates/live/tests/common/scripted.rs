//! A policy that does as it is told: the file `wanted` in the folder of the daemon says what the first job shall hold, as
//! `COPY:NODE:WORKERS ...`, and perhaps which GPU each worker has, as `COPY:NODE:1:GPU`. Other jobs wait.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainyard_live::Settings;
use trainyard_sched::decide::{Cadence, Decision, Policy, Reason, Verdict};
use trainyard_sched::model::{Allocation, CopyId, GpuSet, JobId, NodeId, NodeState, Placement, Span, TaskId};
use trainyard_sched::view::Snapshot;

/// How often it is asked.
const ROUND: Span = Span(20_000);

struct Scripted(PathBuf);

impl Policy for Scripted {
    fn cadence(&self) -> Cadence {
        Cadence::Rounds(ROUND)
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let Some(view) = seen.job(JobId(0)) else { return Decision::default() };
        let target = allocation(&text);
        let is_up = |node: &NodeId| seen.cluster.node(*node).state == NodeState::Up;
        if target == view.target || !target.nodes().iter().all(is_up) {
            return Decision::default();
        }
        let verdict = if target.is_some() {
            Verdict::Run(Reason::Chosen)
        } else {
            Verdict::Wait(Reason::NotYetEvaluated)
        };
        let id = view.id();
        Decision { targets: vec![(id, target)], verdicts: vec![(id, verdict)], ..Decision::default() }
    }

    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

fn allocation(text: &str) -> Allocation {
    let placement = |word: &str| {
        let mut numbers = word.split(':').map(|number| number.parse::<u32>().expect("a number"));
        let mut next = || numbers.next().expect("COPY:NODE:WORKERS");
        let (copy, node, count) = (CopyId(next() as u16), NodeId(next()), next());
        let gpus = numbers.next().map_or(GpuSet::NONE, |gpu| GpuSet::whole(1 << gpu));
        Placement { copy, task: TaskId(0), node, count, gpus }
    };
    Allocation::new(text.split_whitespace().map(placement).collect())
}

/// Says what the first job shall hold.
pub(crate) fn want(folder: &Path, words: &str) {
    let beside = folder.join("wanted.part");
    std::fs::write(&beside, words).expect("it can be written");
    std::fs::rename(beside, folder.join("wanted")).expect("it can be written");
}

/// Lets this policy decide.
pub(crate) fn decides(settings: &mut Settings) {
    let wanted = settings.folder.join("wanted");
    settings.policies = Arc::new(move |_, _| {
        let wanted = wanted.clone();
        Ok(Arc::new(move || Box::new(Scripted(wanted.clone()))))
    });
}
