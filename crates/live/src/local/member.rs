//! A member of an attempt, one of its copies or tasks: a gang that is followed like an attempt, and what it has come to.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::model::{LossPoint, NodeId};

use super::attempt::{Ended, Folder};
use super::launch::Gang;
use super::watch::Watched;
use crate::bridge::Message;
use crate::executor::{Held, Reporter};

/// How a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to stop and left with 0: what it saved counts.
    Well,
    /// It was told to stop and left otherwise.
    Badly,
    /// It left with 0 without being told: its program thinks that the job is done.
    Completed,
    /// It failed or was killed once too often.
    Failed(Outcome),
    /// It failed or was killed, perhaps with its node.
    Lost(Option<NodeId>),
    /// It never began.
    NotStarted,
}

impl End {
    /// Whether it failed or was killed, and its node is still there.
    pub(super) const fn is_broken(self) -> bool {
        matches!(self, Self::Failed(_) | Self::Lost(None))
    }

    /// Whether what it saved is to be had.
    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::Well | Self::Completed)
    }
}

/// Who is to blame for the end of members, if anybody: how the first that failed did, and the first node that was lost.
pub(super) fn blamed(ends: impl Iterator<Item = End> + Clone) -> (Option<Outcome>, Option<NodeId>) {
    let failed = |end| if let End::Failed(outcome) = end { Some(outcome) } else { None };
    let lost = |end| if let End::Lost(node) = end { node } else { None };
    (ends.clone().find_map(failed), ends.clone().find_map(lost))
}

/// The end of an attempt, as the loop and people are told of it. `members` is what it consists of.
pub(super) fn tell_end(
    reporter: &Reporter,
    held: &Held,
    members: &str,
    event: Event,
    reason: Option<&String>,
) {
    let said = match event {
        Event::Finished { outcome: Outcome::Completed, .. } => Some("finished".to_owned()),
        Event::Lost { node: Some(_), .. } => Some(format!("the node of one of its {members} went down")),
        _ => reason.cloned(),
    };
    if let Some(said) = said {
        reporter.say(held.job.id, held.attempt, said);
    }
    reporter.tell(event);
}

/// A member of an attempt.
#[derive(Debug)]
pub(super) struct Member {
    /// What people call it.
    name: String,
    pub(super) gang: Gang,
    pub(super) folder: Folder,
    /// Whoever follows it, once it was launched.
    pub(super) watched: Option<Watched>,
    inbox: Receiver<Message>,
    reporter: Reporter,
    pub(super) begun: bool,
    /// As it counts itself; a copy goes on from what was merged last.
    pub(super) iterations: f64,
    pub(super) saved: f64,
    pub(super) speed: f64,
    pub(super) losses: Vec<LossPoint>,
    pub(super) has_news: bool,
    pub(super) is_resized: bool,
    pub(super) end: Option<End>,
    /// What was said of it last.
    pub(super) said: Option<String>,
    /// Whether somebody was told that its answer is not understood.
    pub(super) is_answer_odd: bool,
}

impl Member {
    /// One that is not followed yet.
    pub(super) fn new(name: String, gang: Gang, folder: Folder) -> Self {
        let (sender, inbox) = channel();
        let iterations = gang.held.iterations;
        Self {
            name,
            gang,
            folder,
            watched: None,
            inbox,
            reporter: Reporter(sender),
            begun: false,
            iterations,
            saved: iterations,
            speed: 0.0,
            losses: Vec::new(),
            has_news: false,
            is_resized: false,
            end: None,
            said: None,
            is_answer_odd: false,
        }
    }

    /// Looks once. What it says is passed on with its name.
    pub(super) fn look(&mut self, jobs: &Path, reporter: &Reporter) {
        let Some(watched) = self.watched.as_mut().filter(|_| self.end.is_none()) else { return };
        let _ = watched.look(jobs, &self.reporter);
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Said(_, _, text) => self.say(&text, reporter),
                Message::Happened(event) => self.hear(event),
                _ => {}
            }
        }
    }

    pub(super) fn say(&mut self, text: &str, reporter: &Reporter) {
        let (held, text) = (&self.gang.held, format!("{}: {text}", self.name));
        reporter.say(held.job.id, held.attempt, text.clone());
        self.said = Some(text);
    }

    fn hear(&mut self, event: Event) {
        let ended = self.folder.ended();
        let was_told = self.watched.as_ref().is_some_and(Watched::is_told);
        let after_word =
            if ended.is_some_and(|ended| ended.code == Some(0)) { End::Well } else { End::Badly };
        match event {
            Event::Started { .. } => self.begun = true,
            Event::Resized { .. } => self.is_resized = true,
            Event::Progress { iterations, speed, saved, losses, .. } => {
                (self.iterations, self.speed, self.saved) = (iterations, speed, saved);
                self.losses.extend(losses);
                self.has_news = true;
            }
            Event::Lost { node: Some(node), .. } => self.end = Some(End::Lost(Some(node))),
            Event::Stopped { .. } => self.end = Some(after_word),
            Event::Finished { .. } | Event::Lost { .. } if was_told => self.end = Some(after_word),
            Event::Finished { outcome: Outcome::Completed, .. } => self.end = Some(End::Completed),
            Event::Finished { outcome, .. } => self.end = Some(End::Failed(outcome)),
            Event::Lost { .. } => self.end = Some(End::Lost(None)),
            _ => self.end = Some(End::NotStarted),
        }
    }

    /// Tells it to save and leave.
    pub(super) fn stop(&mut self) {
        let is_over = self.end.is_some();
        match &mut self.watched {
            Some(watched) if !is_over => watched.stop(),
            Some(_) => {}
            None => self.end = Some(End::NotStarted),
        }
    }

    /// How it ended, as it was written down.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.folder.ended()
    }
}
