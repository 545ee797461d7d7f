//! What must be remembered about a job from round to round, as a few integers in its note: how long its replicas have waited
//! while others of it ran, and which tasks moved lately.

use smallvec::SmallVec;

use crate::model::{Span, TaskId, Time};
use crate::view::{JobView, Note};

/// What the note of a job says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// For each replica, if they differ: since when it waits, earlier by what it waited before; or, if it is placed, what it
    /// waited before, less than nought.
    waits: Vec<i64>,
    /// Tasks that moved lately, and when.
    moves: Vec<(TaskId, Time)>,
}

impl Memory {
    pub(super) fn of(view: &JobView) -> Self {
        let Some((count, rest)) = view.note.0.split_first() else { return Self::default() };
        let count = usize::try_from(*count).unwrap_or(0).min(rest.len());
        let (waits, moves) = rest.split_at(count);
        let moved = |pair: &[i64]| (TaskId(pair[0] as u32), Time(pair[1] as u64));
        Self { waits: waits.to_vec(), moves: moves.chunks_exact(2).map(moved).collect() }
    }

    pub(super) fn to_note(&self) -> Note {
        if self.waits.is_empty() && self.moves.is_empty() {
            return Note::default();
        }
        let mut numbers: SmallVec<[i64; 4]> = SmallVec::new();
        numbers.push(self.waits.len() as i64);
        numbers.extend(self.waits.iter().copied());
        numbers.extend(self.moves.iter().flat_map(|(task, at)| [i64::from(task.0), at.0 as i64]));
        Note(numbers)
    }

    /// How long a replica has waited, given its position among the replicas of the job and whether it is placed.
    pub(super) fn waited(&self, view: &JobView, replica: usize, is_placed: bool, now: Time) -> Span {
        match self.waits.get(replica) {
            None => view.waited(now),
            Some(since) if *since >= 0 => now.since(Time(*since as u64)),
            Some(had) => {
                let had = Span((-(had + 1)) as u64);
                // It lost its place by a failure, at the latest when the job held nothing any more.
                let lost = !is_placed && view.held.is_none();
                had + if lost { now.since(view.served.changed) } else { Span::ZERO }
            }
        }
    }

    /// The replicas of a job change: each has waited so long by now and is placed from now on, or is not.
    pub(super) fn set_waits(&mut self, waits: impl Iterator<Item = (Span, bool)>, now: Time) {
        let coded = |(waited, is_placed): (Span, bool)| {
            let waited = waited.0.min(now.0) as i64;
            if is_placed { -waited - 1 } else { now.0 as i64 - waited }
        };
        self.waits = waits.map(coded).collect();
    }

    /// A task moves now.
    pub(super) fn moved(&mut self, task: TaskId, now: Time) {
        self.moves.retain(|(other, _)| *other != task);
        self.moves.push((task, now));
    }

    /// When a task moved last, if that is remembered.
    pub(super) fn last_move(&self, task: TaskId) -> Option<Time> {
        self.moves.iter().find(|(other, _)| *other == task).map(|(_, at)| *at)
    }

    /// Forgets moves that are long enough ago.
    pub(super) fn forget(&mut self, before: Time) {
        self.moves.retain(|(_, at)| *at > before);
    }
}
