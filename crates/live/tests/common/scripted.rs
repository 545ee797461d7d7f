//! A policy that does as it is told: the file `wanted` in the folder of the daemon says what the first job shall hold, as
//! `COPY:NODE:WORKERS ...`, and perhaps which GPU each worker has, as `COPY:NODE:1:GPU`; or of a job of tasks, as `tTASK:NODE ...`. A last word `/SLOT:QUOTA:QUOTA...`
//! lets a slot begin, once for each number: the copies are brought together, and each may then do its quota. Other jobs
//! wait.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainyard_live::Settings;
use trainyard_sched::decide::{Cadence, Decision, Policy, Reason, Verdict};
use trainyard_sched::model::{
    Allocation, CopyId, GpuSet, JobId, NodeId, NodeState, Placement, Quotas, Span, TaskId, Time,
};
use trainyard_sched::policies;
use trainyard_sched::view::{JobView, Note, Snapshot};

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
        let (text, slot) = text.split_once('/').unwrap_or((&text, ""));
        let (target, slot) = (allocation(text), numbers(slot));
        let is_up = |node: &NodeId| seen.cluster.node(*node).state == NodeState::Up;
        if !target.nodes().iter().all(is_up) {
            return Decision::default();
        }
        let id = view.id();
        // A slot that has begun does not begin again, not even after a restart.
        let is_next = slot.first().is_some_and(|slot| seen.note.0.first() != Some(slot));
        let mut decision = Decision::default();
        // What a job might do at one place says nothing of another one, nor of a start that failed.
        let is_placed = !slot.is_empty() && target != view.target;
        if (is_next || is_placed) && target.copies() > 1 {
            let quotas = quotas(&slot[1..], view, seen.at);
            decision.merges.extend((quotas.sum() > 0).then_some((id, quotas)));
            decision.note = Some(Note([slot[0]].into_iter().collect()));
        }
        if target == view.target {
            return decision;
        }
        let verdict = if target.is_some() {
            Verdict::Run(Reason::Chosen)
        } else {
            Verdict::Wait(Reason::NotYetEvaluated)
        };
        Decision { targets: vec![(id, target)], verdicts: vec![(id, verdict)], ..decision }
    }

    fn explain(&mut self, _: &Snapshot, _: JobId) -> Verdict {
        Verdict::Wait(Reason::NotYetEvaluated)
    }
}

fn allocation(text: &str) -> Allocation {
    let placement = |word: &str| {
        if let Some(task) = word.strip_prefix('t') {
            let (task, node) = task.split_once(':').expect("tTASK:NODE");
            let (task, node) = (task.parse().expect("a number"), node.parse().expect("a number"));
            let (copy, gpus) = (CopyId(0), GpuSet::NONE);
            return Placement { copy, task: TaskId(task), node: NodeId(node), count: 1, gpus };
        }
        let mut numbers = word.split(':').map(|number| number.parse::<u32>().expect("a number"));
        let mut next = || numbers.next().expect("COPY:NODE:WORKERS");
        let (copy, node, count) = (CopyId(next() as u16), NodeId(next()), next());
        let gpus = numbers.next().map_or(GpuSet::NONE, |gpu| GpuSet::whole(1 << gpu));
        Placement { copy, task: TaskId(0), node, count, gpus }
    };
    Allocation::new(text.split_whitespace().map(placement).collect())
}

fn numbers(word: &str) -> Vec<i64> {
    let each = word.split(':').filter(|number| !number.trim().is_empty());
    each.map(|number| number.trim().parse().expect("a number")).collect()
}

/// What each copy may do, and no more than is left.
fn quotas(each: &[i64], view: &JobView, at: Time) -> Quotas {
    let goal = view.job.goal().expect("it says how many iterations it has");
    let mut left = (goal - view.iterations(at)).ceil().max(0.0) as u64;
    let give = |(copy, quota): (u16, &i64)| {
        let given = left.min(*quota as u64);
        left -= given;
        (CopyId(copy), given)
    };
    Quotas::new((0..).zip(each).map(give).collect())
}

/// Says what the first job shall hold.
pub(crate) fn want(folder: &Path, words: &str) {
    let beside = folder.join("wanted.part");
    std::fs::write(&beside, words).expect("it can be written");
    std::fs::rename(beside, folder.join("wanted")).expect("it can be written");
}

/// Lets this policy decide, until another one is chosen.
pub(crate) fn decides(settings: &mut Settings) {
    let wanted = settings.folder.join("wanted");
    settings.policies = Arc::new(move |name, _| {
        let (name, wanted) = (name.to_owned(), wanted.clone());
        Ok(Arc::new(move || match name.as_str() {
            "scripted" => Box::new(Scripted(wanted.clone())),
            _ => policies::build(&name, &toml::Table::new()).expect("it exists"),
        }))
    });
}
