//! `why`: why a job of a recorded run waits at a moment, and until when. The run is told again up to that moment;
//! the answer is worked out from what was believed then.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use trainyard_sched::control::{Action, Batch, Core, Event, Moment, Outcome, Record, Settings};
use trainyard_sched::decide::{EarlyEnd, Verdict};
use trainyard_sched::model::{JobId, Span, Time};
use trainyard_sched::policies;
use trainyard_sim::forecast::Past;

use super::client::{Place, ask_why};
use super::{Ending, Output, print};
use crate::config::span;
use crate::experiment::Recording;
use crate::failure::Failure;
use crate::inquiry::Inquiry;
use crate::render::{Answer, Called, why_text};

/// Names that are shown when one is not known.
const MOST_NAMES: usize = 3;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WhyError {
    /// No job is called so.
    #[error("no job of this run is called `{name}`{hint}; give a name or a number from jobs.csv")]
    NoSuchJob {
        /// What was asked for.
        name: String,
        /// The most similar names.
        hint: String,
    },
    /// A moment of no run.
    #[error(
        "--at speaks of a moment of a recorded run; name its folder too: trainyard why RUN JOB --at TIME"
    )]
    NoRun,
    /// The moment is not in the run.
    #[error("--at {at}: the run goes from 0s to {end}; ask about a moment in between")]
    Outside {
        /// The moment.
        at: Span,
        /// The end of the run.
        end: Span,
    },
}

/// What `why` is told.
#[derive(Args, Debug)]
pub(super) struct WhyArguments {
    /// The folder that `trainyard run` left, with its journal; without it the daemon is asked.
    #[arg(value_name = "RUN")]
    run_or_job: String,
    /// The job: its name, or its number.
    job: Option<String>,
    /// The moment, as time since the run began [default: the last at which the job waited].
    #[arg(long, value_name = "TIME", value_parser = span)]
    at: Option<Span>,
    #[command(flatten)]
    place: Place,
}

/// A question about a recorded run.
struct Recorded<'a> {
    run: &'a Path,
    job: &'a str,
    at: Option<Span>,
}

/// Answers.
pub(super) fn perform(given: &WhyArguments, output: Output) -> Result<Ending, Failure> {
    match (&given.job, given.at) {
        (Some(job), at) => answer(&Recorded { run: Path::new(&given.run_or_job), job, at }, output),
        (None, None) => ask_why(&given.place, &given.run_or_job, output),
        (None, Some(_)) => Err(WhyError::NoRun.into()),
    }
}

fn answer(given: &Recorded<'_>, output: Output) -> Result<Ending, Failure> {
    let life = Life::of(given)?;
    let end = life.run_ends;
    let at = given.at.map_or_else(|| life.usual_moment(), |at| Time::ZERO + at);
    if at > end {
        return Err(WhyError::Outside { at: at.since(Time::ZERO), end: end.since(Time::ZERO) }.into());
    }
    let retold = Retold::until(given, life.job, at)?;
    let answer = retold.answer(&life, given.at.is_none());
    print(output, &answer, why_text)?;
    Ok(Ending::Done)
}

/// What happened to the job that is asked about, from the whole journal.
struct Life {
    job: JobId,
    name: Arc<str>,
    arrived: Time,
    /// When it first got devices.
    started: Option<Time>,
    /// Whether it holds devices after the records so far.
    holds: bool,
    /// The last moment of the run at which it held nothing, after all that happened then, and had not ended.
    waited_last: Option<Time>,
    /// The last such moment before that one.
    waited_before: Option<Time>,
    ended: Option<(Time, Outcome)>,
    /// Why it was cut short, if it was.
    early: Option<EarlyEnd>,
    run_ends: Time,
}

impl Life {
    /// Reads the journal to its end for one job.
    fn of(given: &Recorded<'_>) -> Result<Self, Failure> {
        let mut run = Recording::open(given.run)?;
        let number = given.job.parse().ok().map(JobId);
        let (mut by_name, mut by_number): (Option<Self>, Option<Self>) = (None, None);
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut last = Time::ZERO;
        while let Some(record) = run.record()? {
            for event in &record.events {
                let Event::Arrived { job } = event else { continue };
                names.push(Arc::clone(&job.name));
                let life = || Self::begin(job.id, &job.name, record.at);
                if by_name.is_none() && *job.name == *given.job {
                    by_name = Some(life());
                }
                if by_number.is_none() && Some(job.id) == number {
                    by_number = Some(life());
                }
            }
            for life in [&mut by_name, &mut by_number].into_iter().flatten() {
                life.follow(&record);
            }
            last = record.at;
        }
        let life = by_name.or(by_number).ok_or_else(|| WhyError::NoSuchJob {
            name: given.job.to_owned(),
            hint: hint(given.job, &names),
        })?;
        let end = run.settings.ended.at_us.max(last);
        let waits_still = life.ended.is_none() && !life.holds;
        Ok(Self {
            run_ends: end,
            waited_last: if waits_still { Some(end) } else { life.waited_last },
            ..life
        })
    }

    fn begin(job: JobId, name: &Arc<str>, arrived: Time) -> Self {
        let name = Arc::clone(name);
        let (started, waited_last, waited_before, ended, early) = (None, None, None, None, None);
        Self {
            job,
            name,
            arrived,
            started,
            holds: false,
            waited_last,
            waited_before,
            ended,
            early,
            run_ends: arrived,
        }
    }

    /// Follows one record. Several records may be of the same moment: devices that are given back in one are given
    /// away in the next.
    fn follow(&mut self, record: &Record) {
        let gives_up = record.events.iter().any(|event| {
            matches!(event, Event::Stopped { job, .. } | Event::Lost { job, .. } | Event::StartFailed { job, .. }
                if *job == self.job)
        });
        let finishes = record.events.iter().find_map(|event| match event {
            Event::Finished { job, outcome, .. } if *job == self.job => Some(*outcome),
            _ => None,
        });
        let comes_back = |event: &Event| matches!(event, Event::Resumed { job } if *job == self.job && self.early.is_some());
        if record.events.iter().any(comes_back) {
            (self.ended, self.early) = (None, None);
        }
        let early = record.step.early.iter().find(|(job, _)| *job == self.job);
        self.early = early.map(|(_, early)| *early).or(self.early);
        let ends = record.step.ended.iter().find(|(job, _)| *job == self.job).map(|(_, outcome)| *outcome);
        if let Some(outcome) = ends.or(finishes).filter(|_| self.ended.is_none()) {
            self.ended = Some((record.at, outcome));
        }
        let starts = record
            .step
            .actions
            .iter()
            .any(|action| matches!(action, Action::Start { job, .. } if *job == self.job));
        self.holds = starts || (self.holds && !gives_up);
        if starts {
            self.started.get_or_insert(record.at);
        }
        if self.ended.is_none() {
            self.note_wait(record.at);
        }
    }

    /// Keeps the last moment that ended with a wait. A wait that is over within its moment was none.
    fn note_wait(&mut self, at: Time) {
        let is_noted = self.waited_last == Some(at);
        match self.holds {
            true if is_noted => self.waited_last = self.waited_before,
            false if !is_noted => {
                self.waited_before = self.waited_last;
                self.waited_last = Some(at);
            }
            true | false => {}
        }
    }

    /// The moment that is shown when nobody says one: the last at which it waited, or, if it never did, its arrival.
    fn usual_moment(&self) -> Time {
        self.waited_last.unwrap_or(self.arrived)
    }
}

/// The most similar names, as a part of a sentence.
fn hint(name: &str, names: &[Arc<str>]) -> String {
    let mut near: Vec<(f64, &Arc<str>)> =
        names.iter().map(|known| (strsim::jaro_winkler(name, known), known)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.dedup_by(|a, b| a.1 == b.1);
    let shown: Vec<String> = near
        .iter()
        .take(MOST_NAMES)
        .filter(|(like, _)| *like > 0.6)
        .map(|(_, known)| format!("`{known}`"))
        .collect();
    if shown.is_empty() { String::new() } else { format!("; similar are {}", shown.join(", ")) }
}

/// The run, told again up to a moment.
struct Retold {
    moment: Moment,
    past: Past,
    policy: (String, toml::Table),
    /// Since when the verdict on the job has been of the same kind.
    verdict: (Option<Verdict>, Time),
    /// What jobs were called that have ended meanwhile.
    names: Called,
}

impl Retold {
    fn until(given: &Recorded<'_>, job: JobId, at: Time) -> Result<Self, Failure> {
        let mut run = Recording::open(given.run)?;
        let head = run.head.clone();
        let policy = policies::build(&head.policy, &head.parameters)?;
        let settings = Settings { seed: head.seed, abilities: head.abilities, strict: false };
        let tenants = head.tenants.iter().map(|(_, tenant)| Arc::clone(&tenant.name)).collect();
        let mut core = Core::new(head.cluster, head.tenants, policy, settings);
        let mut past = Past::default();
        let mut verdict: (Option<Verdict>, Time) = (None, Time::ZERO);
        while let Some(record) = run.record()?.filter(|record| record.at <= at) {
            let batch = Batch { at: record.at, events: record.events };
            run.sound(&batch, || {
                past.observe(core.state(), &batch);
                core.step(&batch)
            })?;
            let now = core.state().job(job).map(|_| core.state().verdict(job));
            let kind = |verdict: Option<Verdict>| verdict.map(|verdict| verdict.reason().kind());
            if kind(now) != kind(verdict.0) {
                verdict = (now, record.at);
            }
        }
        let jobs = past.arrivals().iter().map(|job| Arc::clone(&job.name)).collect();
        let policy = (head.policy, head.parameters);
        Ok(Self { moment: core.moment(at), past, policy, verdict, names: Called::new(jobs, tenants) })
    }

    fn answer(&self, life: &Life, is_usual: bool) -> Answer {
        let make = || policies::build(&self.policy.0, &self.policy.1).expect("it was built before");
        let inquiry = Inquiry {
            moment: &self.moment,
            past: &self.past,
            policy: &self.policy.0,
            make: &make,
            names: self.names.clone(),
            job: life.job,
            name: Arc::clone(&life.name),
            arrived: life.arrived,
            started: life.started,
            ended: life.ended,
            early: life.early,
            verdict: self.verdict,
            is_usual,
            run_ends: life.run_ends,
            sees_only: None,
        };
        inquiry.answer()
    }
}
