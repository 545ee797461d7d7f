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
use trainyard_sched::model::{JobId, Seed, Span, Time};
use trainyard_sched::view::Phase;

pub use belief::Past;
pub use interval::{Estimate, Future};

use arrivals::Arrivals;
use belief::Evidence;
use world::World;

/// No future is looked at for longer than this.
const HORIZON: Span = Span::from_secs(60 * 86_400);
/// Steps of the loop that all futures together may take, so that an answer comes within a second or so. The number
/// of futures is chosen by it; nobody looks at a clock, or the answer would differ from machine to machine.
const MOST_STEPS: usize = 400_000;
/// Fewer futures make no interval of 80 %, and more hardly a better one.
const FUTURES: [usize; 5] = [99, 59, 39, 19, 9];

/// A question about one waiting job at one moment.
pub struct Forecast<'a> {
    moment: &'a Moment,
    past: &'a Past,
    job: JobId,
    seed: Seed,
    evidence: Evidence,
    waiting: usize,
}

impl<'a> Forecast<'a> {
    /// Prepares to ask when `job` gets devices. All randomness hangs from the seed of the run, by job and moment.
    pub fn new(moment: &'a Moment, past: &'a Past, job: JobId) -> Self {
        let seed = moment.settings.seed.branch("forecast").numbered(u64::from(job.0)).numbered(moment.at.0);
        let waiting = moment.state.jobs().filter(|view| view.phase == Phase::Waiting).count();
        let evidence = Evidence::gather(past, &moment.state, moment.at);
        Self { moment, past, job, seed, evidence, waiting }
    }

    /// How many futures to look at; fewer, the more jobs wait.
    pub fn futures(&self) -> usize {
        let affordable = |count: &&usize| **count * self.steps_expected() <= MOST_STEPS;
        FUTURES.iter().find(affordable).copied().unwrap_or(FUTURES[FUTURES.len() - 1])
    }

    /// Each waiting job arrives, starts and ends once until it is the turn of the last.
    fn steps_expected(&self) -> usize {
        500 + 3 * self.waiting
    }

    /// From how many ended jobs was learnt how long jobs run.
    pub fn ends(&self) -> usize {
        self.past.ends()
    }

    /// How the `number`-th future comes out, decided by a fresh instance of the policy.
    pub fn one_future(&self, policy: Box<dyn Policy>, number: usize) -> Future {
        let seed = self.seed.numbered(number as u64);
        let belief = self.evidence.believe(seed.branch("belief"));
        let arrivals = Arrivals::new(self.past.arrivals(), self.moment.at, seed.branch("arrivals"));
        let mut world = World::new(self.moment, belief, arrivals);
        let mut core = self.moment.resume(policy);
        let mut wake = core.next_wake(self.moment.at);
        let horizon = self.moment.at + HORIZON;
        for _ in 0..8 * self.steps_expected() {
            let Some(batch) = world.wait(wake).filter(|batch| batch.at <= horizon) else {
                return Future::NotBefore(horizon);
            };
            let step = core.step(&batch);
            let starts = |action: &Action| matches!(action, Action::Start { job, .. } if *job == self.job);
            if step.actions.iter().any(starts) {
                return Future::Starts(batch.at);
            }
            step.actions.iter().for_each(|action| world.perform(action));
            wake = step.wake;
        }
        Future::NotBefore(world.now())
    }

    /// The interval that so many futures make.
    pub fn estimate(&self, futures: &[Future]) -> Estimate {
        Estimate::new(self.moment.at, futures)
    }
}

/// The assumptions behind a forecast, in words, for people.
pub const ASSUMPTIONS: [&str; 4] = [
    "the policy stays as it is",
    "jobs run as long as they declare, times an error as seen in this run; those that declare nothing run like \
     others of their size",
    "jobs arrive as they did in this run before",
    "nodes stay as they are",
];

/// The moment seen by a forecast.
impl Forecast<'_> {
    /// When it is asked.
    pub const fn at(&self) -> Time {
        self.moment.at
    }
}
