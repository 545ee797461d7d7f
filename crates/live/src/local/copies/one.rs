//! What is special about a member that is a copy: it answers when it has saved for a merge, and is told how far it may train.

use trainyard_sched::model::CopyId;

use crate::executor::Reporter;
use crate::local::attempt::Answer;
use crate::local::member::{End, Member};
use crate::local::watch::Watched;

impl Member {
    /// Which copy it is.
    pub(super) fn id(&self) -> CopyId {
        self.gang.copy.map(|copy| copy.id).unwrap_or_default()
    }

    /// What it answered last, if that is understood; if not, that is said once.
    pub(super) fn answer(&mut self, reporter: &Reporter) -> Option<Answer> {
        match self.folder.answer() {
            Ok(answer) => answer,
            Err(why) => {
                if !self.is_answer_odd {
                    self.say(
                        &format!("{} is not understood: {why}", self.folder.answer_file().display()),
                        reporter,
                    );
                }
                self.is_answer_odd = true;
                None
            }
        }
    }

    /// Iterations that it did since the copies were equal after so many.
    pub(super) fn done_since(&self, base: f64) -> f64 {
        (self.iterations - base).max(0.0)
    }

    /// Those of them that it saved before it ended, if that counts.
    pub(super) fn left_since(&self, base: f64) -> f64 {
        if self.end.is_some_and(End::is_good) { (self.saved - base).max(0.0) } else { 0.0 }
    }

    /// What it was told of merges: the one to save for, and the one that is in place.
    pub(super) fn merges(&self) -> (u64, u64) {
        let control = self.watched.as_ref().map(Watched::control);
        control.map_or((0, 0), |control| (control.merge.unwrap_or(0), control.merged.unwrap_or(0)))
    }

    /// How far it may train.
    pub(super) fn until(&self) -> Option<u64> {
        self.watched.as_ref().and_then(|watched| watched.control().until)
    }

    /// Tells it how far it may go, which merge to save for and which one is in place.
    pub(super) fn tell(&mut self, until: Option<u64>, merge: u64, merged: u64) {
        if let Some(watched) = &mut self.watched {
            let part = watched.control().part;
            watched.tell_copy(until, (merge, merged), part);
        }
    }

    /// Tells it how far it may go, and which part of the data is its own.
    pub(super) fn let_train(&mut self, until: u64, part: Option<[f64; 2]>) {
        let merges = self.merges();
        if let Some(watched) = &mut self.watched {
            watched.tell_copy(Some(until), merges, part);
        }
    }
}
