//! How copies begin: each gets the state that all begin from, and a gang of its own.

use std::io;
use std::time::Duration;

use trainyard_sched::model::{Allocation, Cluster, CopyId, Quotas};

use super::files::{Ledger, begin_copy, has_state};
use super::{Closing, Forked};
use crate::executor::{Held, Reporter};
use crate::local::Options;
use crate::local::attempt::{Control, Folder, Order};
use crate::local::launch::{self, Gang, OneOf};
use crate::local::member::Member;
use crate::local::watch::{self, Watched};

/// What each copy of an allocation holds.
pub(super) fn split(allocation: &Allocation) -> Vec<(CopyId, Allocation)> {
    let copies = allocation.placements().chunk_by(|one, other| one.copy == other.copy);
    copies.map(|placements| (placements[0].copy, Allocation::new(placements.to_vec()))).collect()
}

impl Forked {
    fn new(held: Held, options: &Options) -> Self {
        let folder = Folder::of(&options.jobs, held.job.id, held.attempt);
        let ledger = Ledger::read(&folder)
            .unwrap_or_else(|| Ledger { iterations: held.iterations, ..Ledger::default() });
        let checkpoints = launch::checkpoints(&held, options);
        let is_new = ledger.number == 0 && !has_state(&checkpoints);
        // Whatever the loop believes, copies that find no state have done nothing.
        let iterations = if is_new { 0.0 } else { ledger.iterations };
        let parts = split(&held.allocation);
        let of = parts.len();
        let (mut copies, mut programs_before) = (Vec::new(), 0);
        for (id, allocation) in parts {
            let own = Held { allocation, pending: None, iterations, ..held.clone() };
            let gang = Gang { held: own, copy: Some(OneOf { id, of, programs_before }), task: None };
            programs_before += gang.programs();
            copies.push(Member::new(format!("copy {}", id.0), gang, folder.of_copy(id)));
        }
        Self {
            folder,
            preparing: None,
            working: None,
            is_new,
            asked: None,
            ordered: None,
            needless: None,
            performed: ledger.ordered,
            untold: Some(ledger.ordered).filter(|number| *number > 0),
            again: None,
            quotas: held.quotas.clone(),
            next_quotas: Quotas::NONE,
            counted_from: match ledger.counted_from.len() == copies.len() {
                true => ledger.counted_from.clone(),
                false => vec![0.0; copies.len()],
            },
            tries: 0,
            trouble: None,
            not_before: None,
            begun: false,
            told: false,
            is_for_good: false,
            lost: None,
            closing: None,
            reason: None,
            checkpoints,
            resized: None,
            total: ledger.iterations,
            done: vec![0.0; copies.len()],
            copies,
            held,
            ledger,
        }
    }

    /// Begins an attempt: a thread gives each copy its files, which may take a while.
    pub(in crate::local) fn start(held: Held, options: &Options) -> io::Result<Self> {
        let folder = Folder::of(&options.jobs, held.job.id, held.attempt);
        launch::make_attempt(&folder)?;
        Ledger { iterations: held.iterations, ..Ledger::default() }.write(&folder)?;
        let mut new = Self::new(held, options);
        let (job, order) =
            (new.checkpoints.clone(), Order { grace_s: 0, begun_from: 0.0, programs: Vec::new() });
        let copies: Vec<_> = new.copies.iter().map(|copy| copy.gang.checkpoints(options)).collect();
        let prepare = move || {
            std::fs::create_dir_all(&job)?;
            copies.iter().try_for_each(|copy| begin_copy(&job, copy))?;
            // From here on there may be something to come back to.
            folder.write_order(&order)
        };
        new.preparing = Some(std::thread::spawn(prepare));
        Ok(new)
    }

    /// Launches the copies, once all of them have their files.
    pub(super) fn prepared(&mut self, options: &Options, cluster: &Cluster, reporter: &Reporter) {
        let Some(thread) = self.preparing.take() else { return };
        let prepared = thread.join().expect("copying files does not panic");
        let launched = prepared.and_then(|()| match self.closing {
            None => self.launch(options, cluster),
            Some(_) => Ok(()),
        });
        if let Err(error) = launched {
            reporter.say(self.held.job.id, self.held.attempt, format!("cannot be started: {error}"));
        }
        let after = match self.closing {
            None => watch::delay(&options.jobs, self.held.job.id, self.held.attempt),
            Some(_) => Duration::ZERO,
        };
        for copy in self.copies.iter_mut().filter(|copy| copy.watched.is_none()) {
            copy.watched = Some(Watched::refused(copy.gang.clone(), after, options, cluster));
        }
    }

    fn launch(&mut self, options: &Options, cluster: &Cluster) -> io::Result<()> {
        // All at once, so that no two copies meet at the same place.
        let meetings = self.copies.iter().map(|_| launch::listen()).collect::<io::Result<Vec<_>>>()?;
        let until = self.goal().map(|_| self.ledger.iterations as u64);
        for (copy, meeting) in self.copies.iter_mut().zip(&meetings) {
            let held = &copy.gang.held;
            let control = Control {
                until,
                // Whoever begins with nothing is asked at once for a state that all can begin from.
                merge: Some(u64::from(self.is_new)),
                merged: Some(0),
                ..launch::control(held, &held.allocation, options, cluster)
            };
            let (_, keeper) = launch::launch(&copy.gang, &control, meeting, options, cluster)?;
            copy.watched = Some(Watched::started(copy.gang.clone(), keeper, options, cluster));
        }
        Ok(())
    }

    /// An attempt that an earlier daemon started, as far as it came. What was not launched then never is.
    pub(in crate::local) fn adopted(held: Held, options: &Options, cluster: &Cluster) -> Self {
        let mut new = Self::new(held, options);
        for copy in &mut new.copies {
            let gang = copy.gang.clone();
            copy.watched = Some(if copy.folder.has_order() {
                Watched::adopted(gang, options, cluster)
            } else {
                Watched::refused(gang, Duration::ZERO, options, cluster)
            });
        }
        let is_told = |copy: &Member| copy.watched.as_ref().is_some_and(Watched::is_told);
        if new.copies.iter().any(is_told) {
            new.leave(Closing::Before);
        }
        new
    }
}
