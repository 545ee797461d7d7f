//! What is believed and wanted of jobs with several copies: when these are brought together, and how far each may go until then.

use serde::{Deserialize, Serialize};

use crate::decide::{Abilities, Decision};
use crate::model::{Allocation, CopyId, GpuTypeId, JobId, Placement, Quotas, Time, WORKER_TASK};
use crate::view::{Causes, JobView, Phase};

use super::{Action, How, State};

/// From one merge to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stretch {
    /// The number of the latest merge of this attempt.
    merges: u32,
    /// Whether the policy wants another one now, whatever else changes.
    is_wanted: bool,
    /// How far each copy of the target may go from then on.
    quotas: Quotas,
    /// The number and the quotas of the merge that was ordered last. Other quotas make another merge of it.
    #[serde(default)]
    ordered: Option<(u32, Quotas)>,
}

impl Stretch {
    /// The number of the merge that is open or comes next.
    fn open(&self) -> u32 {
        let ordered = self.ordered.as_ref().map_or(0, |(number, _)| *number);
        ordered.max(self.merges + 1)
    }

    /// The number of a merge with these quotas. Whoever was told of one with others may have made it by now.
    fn number(&self, quotas: &Quotas) -> u32 {
        let is_another = |(number, ordered): &(u32, Quotas)| *number > self.merges && ordered != quotas;
        self.open() + u32::from(self.ordered.as_ref().is_some_and(is_another))
    }
}

impl State {
    /// Takes over what a checked decision says of copies; its targets are taken over already.
    pub(super) fn adopt_merges(&mut self, decision: &Decision) {
        for (id, _) in &decision.targets {
            if let Some(stretch) = self.stretches.get_mut(id) {
                // What each could do before was meant for what it held before.
                (stretch.quotas, stretch.is_wanted) = (Quotas::NONE, false);
            }
        }
        for (id, quotas) in &decision.merges {
            let Some(view) = self.job(*id).filter(|view| view.target.copies() > 1) else { continue };
            let is_there = matches!(view.phase, Phase::Starting | Phase::Running) && view.held.copies() > 1;
            let stretch = self.stretches.entry(*id).or_default();
            (stretch.quotas, stretch.is_wanted) = (quotas.clone(), is_there);
        }
    }

    /// Somebody else decides from now on, who may know nothing of slots: copies that were given quotas are brought together, and
    /// then go on without any, if nobody says otherwise.
    pub(super) fn lift_quotas(&mut self) {
        let given = |(id, stretch): (&JobId, &Stretch)| (!stretch.quotas.is_none()).then_some(*id);
        let given: Vec<JobId> = self.stretches.iter().filter_map(given).collect();
        for id in given {
            let has_several = self.job(id).is_some_and(|view| view.held.copies() > 1);
            let Some(stretch) = self.stretches.get_mut(&id) else { continue };
            (stretch.quotas, stretch.is_wanted) = (Quotas::NONE, has_several);
            self.touch(id);
        }
    }

    /// A running job with several copies that is to change brings them together first.
    pub(super) fn note_unmerged(&mut self, id: JobId) {
        let is_to_change = |view: &JobView| {
            view.phase == Phase::Running && view.held.copies() > 1 && view.held != view.target
        };
        if self.job(id).is_some_and(is_to_change) {
            self.unmerged.insert(id);
        }
    }

    /// The copies of a job are brought together.
    pub(super) fn merged(&mut self, id: JobId, number: u32) -> Causes {
        let stretch = self.stretches.entry(id).or_default();
        let open = stretch.open();
        // A report of an earlier merge that comes again says nothing of the one that is open.
        if number == 0 || number == open {
            (stretch.merges, stretch.is_wanted) = (open, false);
            self.unmerged.remove(&id);
        } else if number < open {
            // It was made with quotas that are no longer meant.
            stretch.merges = stretch.merges.max(number);
        }
        Causes::NONE
    }

    /// It makes no progress while its copies are brought together. How far it is will be told then; what would be reckoned now may
    /// be more, and then a true report would seem to come late.
    pub(super) fn ordered_merge(&mut self, at: Time, id: JobId, number: u32, quotas: &Quotas) {
        self.touch(id);
        self.edit(id, |view| (view.done.speed, view.done.as_of) = (0.0, at));
        self.stretches.entry(id).or_default().ordered = Some((number, quotas.clone()));
    }

    /// An attempt is over. What its next one may do is still what was decided.
    pub(super) fn forget_stretch(&mut self, id: JobId) {
        if let Some(stretch) = self.stretches.get_mut(&id) {
            (stretch.merges, stretch.is_wanted, stretch.ordered) = (0, false, None);
        }
    }

    /// Jobs about which something may have to be done, in ascending order: those whose target is not what they hold, and
    /// those whose copies are to be brought together.
    pub(super) fn open(&self) -> Vec<JobId> {
        let wanted = self.stretches.iter().filter(|(_, stretch)| stretch.is_wanted).map(|(id, _)| *id);
        let mut open: Vec<JobId> = self.unsettled().chain(wanted).collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    /// How far the copies of what a job shall hold next may go.
    pub(super) fn quotas(&self, id: JobId, next: &Allocation, abilities: Abilities) -> Quotas {
        match self.stretches.get(&id) {
            Some(stretch) if next.copies() > 1 && abilities.has(Abilities::QUOTAS) => {
                stretch.quotas.for_copies(next.placements().iter().map(|p| p.copy))
            }
            _ => Quotas::NONE,
        }
    }

    /// How far each copy of a job may go that it holds something for, as decided last.
    pub fn quotas_of(&self, id: JobId) -> Quotas {
        self.job(id).map_or(Quotas::NONE, |view| self.quotas(id, &view.held, Abilities::ALL))
    }

    /// The same once it holds what it was ordered to move to.
    pub fn quotas_after_move(&self, id: JobId) -> Quotas {
        self.moves_to(id).map_or(Quotas::NONE, |to| self.quotas(id, to, Abilities::ALL))
    }

    /// Where the copies of a job are.
    pub(super) fn gpu_types_of_copies(&self, id: JobId) -> Vec<OfCopy> {
        let Some(view) = self.job(id) else { return Vec::new() };
        let each = view.held.placements().chunk_by(|one, other| one.copy == other.copy);
        let of_copy = |placements: &[Placement]| {
            let with_gpus = placements.iter().filter(|p| p.gpus.devices != 0);
            let mut types = with_gpus.map(|p| self.cluster().node(p.node).gpu_type);
            let first = types.next().flatten();
            let gpu_type = first.filter(|first| types.all(|other| other == Some(*first)));
            let workers = placements.iter().filter(|p| p.task == WORKER_TASK).map(|p| p.count).sum();
            let spread = placements.iter().any(|p| p.node != placements[0].node);
            OfCopy { copy: placements[0].copy, gpu_type, workers, spread }
        };
        each.map(of_copy).collect()
    }

    /// The order to bring the copies of a job together, if that is due.
    pub(super) fn merge_due(&self, view: &JobView, abilities: Abilities) -> Option<Action> {
        let id = view.id();
        let stretch = self.stretches.get(&id);
        if view.phase != Phase::Running {
            return None;
        }
        let is_due = self.unmerged.contains(&id) || stretch.is_some_and(|stretch| stretch.is_wanted);
        let quotas = self.quotas(id, &view.held, abilities);
        let number = stretch.map_or(1, |stretch| stretch.number(&quotas));
        is_due.then_some(Action::Merge { job: id, attempt: view.attempt, number, quotas })
    }

    /// What is to be done first of a job that runs, has or shall have several copies, and is to change: they are brought
    /// together, then those leave that do not stay, and only then others come. So jobs that exchange nodes do not wait for
    /// each other, and a copy that stays where it is goes on.
    pub(super) fn first_of_copies(&self, view: &JobView, abilities: Abilities) -> Option<Action> {
        if view.held.copies() < 2 && view.target.copies() < 2 {
            return None;
        }
        let (job, attempt) = (view.id(), view.attempt);
        if let Some(merge) = self.merge_due(view, abilities) {
            return Some(merge);
        }
        let allocation = staying(&view.held, &view.target);
        if allocation.is_none() {
            return Some(Action::Stop { job, attempt, how: How::Save });
        }
        let quotas = self.quotas(job, &allocation, abilities);
        (allocation != view.held).then_some(Action::Resize { job, attempt, allocation, quotas })
    }
}

/// Forgets how far copies were that have left: if their number is given again, that is another copy, and it begins with none.
pub(super) fn keep_copies(view: &mut JobView) {
    let (held, several) = (&view.held, view.held.copies() > 1);
    let is_there = |copy: CopyId| held.placements().iter().any(|p| p.copy == copy);
    view.done.copies.retain(|(copy, _)| several && is_there(*copy));
}

/// Where one copy of a job is.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfCopy {
    pub(super) copy: CopyId,
    /// The type of all its GPUs, if they are of one.
    pub(super) gpu_type: Option<GpuTypeId>,
    pub(super) workers: u32,
    /// Whether it is on several nodes.
    pub(super) spread: bool,
}

/// The copies of what is held that are to be on the same nodes, as they are.
fn staying(held: &Allocation, target: &Allocation) -> Allocation {
    let places = |of: &Allocation, copy: CopyId| -> Vec<_> {
        let own = of.placements().iter().filter(|p| p.copy == copy);
        own.map(|p| (p.task, p.node)).collect()
    };
    let stays = |p: &&Placement| places(held, p.copy) == places(target, p.copy);
    Allocation::new(held.placements().iter().filter(stays).copied().collect())
}
