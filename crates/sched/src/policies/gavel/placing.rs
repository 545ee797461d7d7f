//! Choices become targets: whoever can stay stays, and the others are placed, large gangs first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Allocation, GPU, GpuSet, Job, Placement};
use crate::place::Ask;
use crate::rank::Shape;

use super::Gavel;
use super::members::on_type;
use super::rounds::{Entry, Now, Pick, Picks};

/// An allocation with the whole of each of its devices.
fn whole(held: &Allocation) -> Allocation {
    let whole = |p: &Placement| Placement { gpus: GpuSet::whole(p.gpus.devices), ..*p };
    Allocation::new(held.placements().iter().map(whole).collect())
}

impl Gavel {
    /// Makes the choices targets. What cannot be placed is taken out of the choices.
    pub(super) fn place(&mut self, now: &Now<'_>, queue: &[Entry], picks: &mut Picks) {
        let had = self.clear(picks);
        // Large gangs first, else they find no room on few nodes.
        let mut rank = vec![usize::MAX; picks.len()];
        for (place, entry) in queue.iter().enumerate() {
            rank[entry.member()] = rank[entry.member()].min(place);
        }
        let is_new = |i: &usize| picks[*i].is_some() && self.members.all[*i].on.is_none();
        let mut new: Vec<usize> = (0..picks.len()).filter(is_new).collect();
        new.sort_by_key(|i| (Reverse(self.members.all[*i].gpu_milli), rank[*i]));
        for i in new {
            // The other one of a pair was placed with the first.
            let Some(pick) = picks[i].filter(|_| self.members.all[i].on.is_none()) else { continue };
            let is_held = self.rounds.hold_for_new && !self.members.all[i].is_owed();
            let placed = match pick.beside {
                _ if is_held => false,
                Some(other) => self.put_pair(now, (i, other), pick.column, &had, picks),
                None => {
                    self.put_back(now, i, pick.column, &had[i]) || self.put(&now.views[i].job, i, pick.column)
                }
            };
            if !placed {
                picks[i] = None;
            }
        }
        if !self.rounds.hold_for_new {
            self.fill(now, queue, picks);
        }
    }

    /// Takes targets from those who do not stay as they are. Returns what they had.
    fn clear(&mut self, picks: &Picks) -> Vec<Allocation> {
        let stays: Vec<bool> = (0..picks.len()).map(|i| self.stays(i, picks[i])).collect();
        let mut had = vec![Allocation::NONE; picks.len()];
        for i in 0..picks.len() {
            let member = &mut self.members.all[i];
            if !member.is_gang() || member.on.is_none() {
                continue;
            }
            // Of a pair both stay, or none.
            let both = picks[i].and_then(|pick| pick.beside).is_none_or(|other| stays[other]);
            if stays[i] && both {
                member.on = picks[i].map(|pick| pick.column);
            } else {
                had[i] = self.plan.evict(member.id);
                (member.on, member.is_halved) = (None, false);
            }
        }
        had
    }

    /// Whether the target of a member is already what was chosen.
    fn stays(&self, i: usize, pick: Option<Pick>) -> bool {
        let member = &self.members.all[i];
        let Some((on, pick)) = member.on.zip(pick) else { return false };
        let target = |i: usize| self.plan.target(self.members.all[i].id);
        let alike = match pick.beside {
            None => !member.is_halved,
            Some(other) => {
                let both = target(i).zip(target(other));
                member.is_halved && both.is_some_and(|(here, there)| here.is_on_same_devices(there))
            }
        };
        alike && self.serves(on, pick.column)
    }

    /// Whether what was placed on a column is as good as another asks: gangs that may be spread may also be close together.
    fn serves(&self, on: usize, wanted: usize) -> bool {
        let (on_column, wanted_column) = (self.members.columns[on], self.members.columns[wanted]);
        on == wanted || (on_column.pool == wanted_column.pool && wanted_column.is_spread)
    }

    /// Whether something that a member had is on GPUs of a column.
    fn is_on(&self, had: &Allocation, column: usize) -> bool {
        let first = had.placements().iter().find(|p| p.gpus.devices != 0);
        let gpu_type = first.and_then(|p| self.plan.free().gpu_type(p.node));
        let wanted = self.members.columns[column];
        gpu_type.is_some_and(|gpu_type| gpu_type.index() == wanted.pool)
            && (wanted.is_spread || !self.is_by_place())
    }

    /// Gives a member that shared its devices the whole of them.
    fn put_back(&mut self, now: &Now<'_>, i: usize, column: usize, had: &Allocation) -> bool {
        let placed = had.is_some()
            && self.is_on(had, column)
            && !self.plan.keeps_away(self.members.all[i].id)
            && self.plan.give(&now.views[i].job, whole(had));
        if placed {
            self.members.all[i].on = Some(column);
        }
        placed
    }

    /// Places two members on the same devices: those of one of them if that goes. If only one finds room, it is alone there.
    fn put_pair(
        &mut self,
        now: &Now<'_>,
        (i, other): (usize, usize),
        column: usize,
        had: &[Allocation],
        picks: &mut Picks,
    ) -> bool {
        let back = self.put_back(now, i, column, &had[i]) || {
            let theirs = had[other].clone();
            self.put_back(now, i, column, &theirs)
        };
        if !back && !self.put(&now.views[i].job, i, column) {
            picks[other] = None;
            return false;
        }
        let (job, others): (&Arc<Job>, &Arc<Job>) = (&now.views[i].job, &now.views[other].job);
        let alone = self.plan.evict(job.id);
        let halved = alone.halved();
        let both = self.plan.give(job, halved.clone()) && {
            let fits = self.plan.give(others, halved);
            if !fits {
                self.plan.evict(job.id);
            }
            fits
        };
        if both {
            self.members.all[other].on = Some(column);
            (self.members.all[i].is_halved, self.members.all[other].is_halved) = (true, true);
        } else {
            assert!(self.plan.give(job, alone), "what was given a moment ago is free");
            picks[other] = None;
            let account = self.members.all[i].is_owed().then_some(0);
            picks[i] = Some(Pick { column, account, beside: None });
        }
        true
    }

    /// Places whoever still fits: what was chosen by count may not fit its nodes, and then others do.
    pub(super) fn fill(&mut self, now: &Now<'_>, queue: &[Entry], picks: &mut Picks) {
        let mut stuck: BTreeSet<(Shape, usize)> = BTreeSet::new();
        for entry in queue.iter().filter(|entry| !entry.is_of_pair()) {
            let (i, column) = (entry.member(), entry.column());
            if picks[i].is_some() || !self.may_run(entry) {
                continue;
            }
            let job = &now.views[i].job;
            let gpu_milli = self.members.all[i].gpu_milli;
            let only = on_type(&job.wanted, self.members.columns[column].pool).gpu_types;
            if gpu_milli >= GPU && self.plan.free().whole_gpus(only) * GPU < gpu_milli {
                continue;
            }
            let key = (Shape::of(job), column);
            if stuck.contains(&key) {
                continue;
            }
            if self.put(job, i, column) {
                self.pick(entry, picks);
            } else if !self.plan.keeps_away(job.id) {
                stuck.insert(key);
            }
        }
    }

    /// Gives a member a target on a column.
    fn put(&mut self, job: &Arc<Job>, i: usize, column: usize) -> bool {
        let wanted = on_type(&job.wanted, self.members.columns[column].pool);
        let rule = self.rule_of(column);
        let placed = self.plan.place_as(job, rule, &Ask::minimum(&job.shape, &wanted));
        if placed {
            self.members.all[i].on = Some(column);
        }
        placed
    }

    /// Who has the other half of the devices of each member.
    pub(super) fn partners(&self) -> Vec<Option<usize>> {
        let mut partners = vec![None; self.members.all.len()];
        // The first of two, by their first devices: whoever shares those shares all.
        let mut halved = BTreeMap::new();
        for (i, member) in self.members.all.iter().enumerate().filter(|(_, member)| member.is_halved) {
            let Some(first) = self.plan.target(member.id).and_then(|target| target.placements().first())
            else {
                continue;
            };
            if let Some(other) = halved.insert((first.node, first.gpus.devices), i) {
                (partners[i], partners[other]) = (Some(other), Some(i));
            }
        }
        partners
    }
}
