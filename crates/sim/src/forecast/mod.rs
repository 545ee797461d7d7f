//! When will a waiting job start? The real policy is rolled forward from what is believed, through many possible
//! futures; what they say is put into an interval.
//!
//! A future begins with the beliefs of the loop at one moment and a fresh instance of its policy (`Moment`). What
//! it cannot know it draws: how long jobs run (`belief`), and who will arrive (`arrivals`). It does not ask the truth
//! of any job, and it draws no failures: nodes stay as they are.
//!
//! Nothing here uses threads. A future depends on its number only, so whoever has threads may work on several at
//! once and gets the same answer.

mod arrivals;
mod belief;
mod interval;
mod survival;
mod world;

use trainyard_sched::control::{Action, Backend, Moment};
use trainyard_sched::decide::Policy;
use trainyard_sched::model::{JobId, Seed, Span};

pub use belief::Past;
pub use interval::{Estimate, Future};

use arrivals::Known;
use belief::Evidence;
use world::World;

/// No future is looked at for longer than this.
const HORIZON: Span = Span::from_secs(60 * 86_400);
/// Steps of the loop that all futures together may take, so that an answer comes within a second or so. Nobody looks
/// at a clock, or the answer would differ from machine to machine.
const MOST_STEPS: u64 = 150_000;
/// Fewer futures make no interval of 80 %, and more hardly a better one.
const FUTURES: [usize; 5] = [9, 19, 39, 59, 99];

/// A question about one waiting job at one moment.
pub struct Forecast<'a> {
    moment: &'a Moment,
    job: JobId,
    seed: Seed,
    evidence: Evidence,
    arrivals: Known<'a>,
    ends: usize,
}

impl<'a> Forecast<'a> {
    /// Prepares to ask when `job` gets devices. All randomness hangs from the seed of the run, by job and moment.
    pub fn new(moment: &'a Moment, past: &'a Past, job: JobId) -> Self {
        let seed = moment.settings.seed.branch("forecast").numbered(u64::from(job.0)).numbered(moment.at.0);
        let arrivals = Known::new(past.arrivals(), moment.at);
        let evidence = Evidence::gather(past, &arrivals, &moment.state, moment.at);
        Self { moment, job, seed, evidence, arrivals, ends: past.ends() }
    }

    /// The futures to look at next, given those already looked at; none when it is enough. First a few, which show
    /// how far it is to a start; then as many as that allows.
    pub fn next_futures(&self, seen: &[Outlook]) -> std::ops::Range<usize> {
        let steps: u64 = seen.iter().map(|outlook| outlook.steps).sum();
        let affordable = |count: &&usize| **count as u64 * steps <= MOST_STEPS * seen.len() as u64;
        let wanted = FUTURES.iter().rev().find(affordable).copied().unwrap_or(0);
        let enough = if seen.is_empty() { FUTURES[0] } else { wanted };
        let first_round = seen.len() <= FUTURES[0];
        if first_round { seen.len()..enough.max(seen.len()) } else { seen.len()..seen.len() }
    }

    /// From how many ended jobs was learnt how long jobs run.
    pub const fn ends(&self) -> usize {
        self.ends
    }

    /// How the `number`-th future comes out, decided by a fresh instance of the policy.
    pub fn one_future(&self, policy: Box<dyn Policy>, number: usize) -> Outlook {
        let seed = self.seed.numbered(number as u64);
        let belief = self.evidence.believe(seed.branch("belief"));
        let mut world = World::new(self.moment, belief, &self.arrivals, seed.branch("arrivals"));
        let mut core = self.moment.resume(policy);
        let mut wake = core.next_wake(self.moment.at);
        let horizon = self.moment.at + HORIZON;
        let most = MOST_STEPS / FUTURES[0] as u64;
        for steps in 1..=most {
            let Some(batch) = world.wait(wake).filter(|batch| batch.at <= horizon) else {
                return Outlook { future: Future::NotBefore(horizon), steps };
            };
            let step = core.step(&batch);
            let starts = |action: &Action| matches!(action, Action::Start { job, .. } if *job == self.job);
            if step.actions.iter().any(starts) {
                return Outlook { future: Future::Starts(batch.at), steps };
            }
            step.actions.iter().for_each(|action| world.perform(action));
            wake = step.wake;
        }
        Outlook { future: Future::NotBefore(world.now()), steps: most }
    }

    /// The interval that so many futures make.
    pub fn estimate(&self, seen: &[Outlook]) -> Estimate {
        let futures: Vec<Future> = seen.iter().map(|outlook| outlook.future).collect();
        Estimate::new(self.moment.at, &futures)
    }
}

/// One future that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// How it came out.
    pub future: Future,
    /// How many steps of the loop it took to see that.
    pub steps: u64,
}

/// The assumptions behind a forecast, in words, for people.
pub const ASSUMPTIONS: [&str; 4] = [
    "the policy stays as it is",
    "jobs run as long as they declare, times an error as seen in this run; those that declare nothing run like \
     others of their size",
    "jobs arrive as they did in this run before",
    "nodes stay as they are",
];
