//! Training DL2, from top to bottom: first it imitates a scheduler, then it improves by the progress that its own decisions
//! bring (Peng et al., arXiv 1909.06040, section 4; specification B4).
//!
//! # What is learned
//! The reward of a slot is the sum over jobs of the part of their work that was done in it. A critic learns what a slot is
//! worth from there on, `y = r + gamma V(next)`. The policy follows `log pi(a|s) (y - V(s))`, weighed by how much it has
//! become likelier or less likely since the action was drawn, at most twice, and some entropy. Both learn from a memory of
//! many slots.
//!
//! # Where we differ
//! The public code feeds immediate rewards to the critic, without `gamma`; `gamma = 0` does the same here. It puts the
//! probabilities of exploration in the place of the network's; here they are worked out anew under the stored mask. Entropy
//! is a sum over actions. With several clusters (`clusters`), gradients are averaged in the order of the clusters before
//! each step, so that the same seed gives the same weights on any number of threads; the paper applies each as it arrives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use rayon::prelude::*;
use serde::Serialize;
use trainyard_sched::model::{JobId, Seed};
use trainyard_sched::nets::{Mlp, Scratch, Weights};
use trainyard_sched::policies::dl2::Rules;

use crate::LearnError;
use crate::actor::{Actor, Exploring, Shared, Slot, Taken};
use crate::gradients::{Batch, better, worth};
use crate::gym::{Gym, Traces};
use crate::imitate::{Lessons, learn, watch};
use crate::network::{Adam, Network};
use crate::replay::{Outcome, Replay, Sample};
use crate::shuffle::Shuffle;

pub use crate::settings::{Falling, Practice, Schooling};

/// All that training needs to know besides traces and teacher.
#[derive(Clone, Debug)]
pub struct Course {
    /// How slots go, and what is seen.
    pub rules: Rules,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// What it learns from another one; nothing to begin without.
    pub schooling: Option<Schooling>,
    /// What it learns by itself; nothing to stop after school.
    pub practice: Option<Practice>,
    /// Traces to practise on, again and again.
    pub traces: usize,
    /// The seed of everything.
    pub seed: Seed,
}

/// How far training is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Told {
    /// `school` or `practice`.
    pub phase: &'static str,
    /// The step, from 1.
    pub update: usize,
    /// The loss: cross-entropy in school, that of the critic in practice.
    pub loss: f32,
    /// The reward of a slot, a mean over the clusters; absent in school.
    pub reward: Option<f64>,
    /// The entropy of what is done; absent in school.
    pub entropy: Option<f32>,
}

/// What comes of it.
pub struct Learned {
    /// What decides.
    pub policy: Network,
    /// What a slot is worth.
    pub value: Network,
}

impl Learned {
    /// As weights, with how they came to be.
    pub fn weights(&self, rules: &Rules, made: BTreeMap<String, String>) -> Weights {
        Weights {
            schema: rules.schema.name(),
            made,
            policy: self.policy.mlp(),
            value: Some(self.value.mlp()),
        }
    }
}

fn random(seed: Seed, what: &str) -> Pcg64 {
    Pcg64::seed_from_u64(seed.branch(what).0)
}

/// Makes the teacher.
pub type Teacher<'a> = &'a dyn Fn() -> Result<Box<dyn trainyard_sched::decide::Policy>, LearnError>;

/// Trains from nothing.
///
/// # Errors
/// If a run cannot begin, or there is nothing to learn from.
pub fn train(
    course: &Course,
    teacher: Teacher<'_>,
    traces: Traces<'_>,
    tell: &mut dyn FnMut(&Told, &Network),
) -> Result<Learned, LearnError> {
    let schema = course.rules.schema;
    let widths = |outputs: usize| -> Vec<usize> {
        std::iter::once(schema.inputs()).chain(course.hidden.iter().copied()).chain([outputs]).collect()
    };
    let mut learned = Learned {
        policy: Network::new(&widths(schema.actions()), &mut random(course.seed, "policy")),
        value: Network::new(&widths(1), &mut random(course.seed, "value")),
    };
    if let Some(school) = &course.schooling {
        let watching = random(course.seed, "watching");
        let labels = watch(teacher, &course.rules, traces, school.traces, school.labels, watching)?;
        let Schooling { updates, batch, rate, smoothing, .. } = *school;
        let lessons = Lessons { updates, batch, rate, smoothing };
        let mut random = random(course.seed, "lessons");
        let losses = learn(&mut learned.policy, schema, &labels, &lessons, &mut random);
        for (i, loss) in losses.into_iter().enumerate() {
            let told = Told { phase: "school", update: i + 1, loss, reward: None, entropy: None };
            tell(&told, &learned.policy);
        }
    }
    if let Some(practice) = &course.practice {
        practise(&mut learned, course, practice, traces, tell)?;
    }
    Ok(learned)
}

/// Improves what was learned by its own progress.
///
/// # Errors
/// If a run cannot begin.
pub fn practise(
    learned: &mut Learned,
    course: &Course,
    practice: &Practice,
    traces: Traces<'_>,
    tell: &mut dyn FnMut(&Told, &Network),
) -> Result<(), LearnError> {
    let mut clusters: Vec<Cluster> =
        (0..practice.clusters.max(1)).map(|i| Cluster::new(i, course, practice)).collect();
    let mut actor = Adam::new(0.0, learned.policy.values().len());
    let mut critic = Adam::new(0.0, learned.value.values().len());
    let (mut update, mut empty) = (0, 0);
    while update < practice.updates {
        let part = update as f64 / practice.updates.max(1) as f64;
        let now = Now {
            learned,
            policy: Arc::new(learned.policy.mlp()),
            value: Arc::new(learned.value.mlp()),
            part,
            batch: practice.batch.div_ceil(clusters.len()),
        };
        let steps: Vec<Result<Option<Step>, LearnError>> =
            clusters.par_iter_mut().map(|cluster| cluster.slot(&now, course, practice, traces)).collect();
        let steps: Vec<Option<Step>> = steps.into_iter().collect::<Result<_, _>>()?;
        // All or none, so that the number of steps does not depend on which cluster was full first.
        let Some(steps) = steps.into_iter().collect::<Option<Vec<Step>>>() else {
            empty += 1;
            if empty > 1_000_000 {
                return Err(LearnError::Nothing(
                    "no slot had anything to choose; give other traces".to_owned(),
                ));
            }
            continue;
        };
        update += 1;
        let mean = mean_of(&steps);
        actor.rate = practice.rate.at(part) as f32;
        critic.rate = practice.critic_rate.at(part) as f32;
        actor.step(learned.policy.values_mut(), &mean.actor, practice.longest);
        if practice.critic {
            critic.step(learned.value.values_mut(), &mean.critic, practice.longest);
        }
        let told = Told {
            phase: "practice",
            update,
            loss: mean.loss,
            reward: Some(mean.reward),
            entropy: Some(mean.entropy),
        };
        tell(&told, &learned.policy);
    }
    Ok(())
}

/// What all clusters go by in one step.
struct Now<'a> {
    learned: &'a Learned,
    policy: Arc<Mlp>,
    value: Arc<Mlp>,
    part: f64,
    batch: usize,
}

/// The gradients of one cluster.
struct Step {
    actor: Vec<f32>,
    critic: Vec<f32>,
    loss: f32,
    reward: f64,
    entropy: f32,
}

fn mean_of(steps: &[Step]) -> Step {
    let count = steps.len() as f32;
    let mean = |of: &dyn Fn(&Step) -> &Vec<f32>| {
        let mut sum = vec![0.0_f32; of(&steps[0]).len()];
        for step in steps {
            sum.iter_mut().zip(of(step)).for_each(|(sum, x)| *sum += x / count);
        }
        sum
    };
    Step {
        actor: mean(&|step| &step.actor),
        critic: mean(&|step| &step.critic),
        loss: steps.iter().map(|step| step.loss).sum::<f32>() / count,
        reward: steps.iter().map(|step| step.reward).sum::<f64>() / f64::from(count),
        entropy: steps.iter().map(|step| step.entropy).sum::<f32>() / count,
    }
}

/// A slot whose outcome is not known yet.
struct Pending {
    number: u64,
    taken: Vec<Taken>,
    /// What each job did in the slot itself.
    own: Option<BTreeMap<JobId, f64>>,
    reward: f32,
    discount: f32,
}

/// One cluster with its own traces and its own memory.
struct Cluster {
    number: usize,
    shared: Arc<Mutex<Shared>>,
    gym: Option<Gym>,
    replay: Replay,
    pending: Option<Pending>,
    /// Slots so far.
    slots: u64,
    /// Traces so far.
    begun: usize,
    random: Pcg64,
    correction: f64,
    /// Moving averages of rewards: what is told, and what stands in for a critic.
    reward: f64,
}

/// A step of how much rare samples are corrected for.
const CORRECTION_STEP: f64 = 1e-4;
/// How much a new reward counts in a moving average.
const NEW: f64 = 0.02;

impl Cluster {
    fn new(number: usize, course: &Course, practice: &Practice) -> Self {
        let seed = course.seed.branch("cluster").numbered(number as u64);
        let nobody = Arc::new(Network::new(&[1, 1], &mut random(seed, "nobody")).mlp());
        let exploring = Exploring { chance: 0.0, aims: 0.0, ratio: practice.ratio };
        Self {
            number,
            shared: Shared::new(nobody, exploring, random(seed, "acting")),
            gym: None,
            replay: Replay::new(practice.memory),
            pending: None,
            slots: 0,
            begun: 0,
            random: random(seed, "drawing"),
            correction: 0.1,
            reward: 0.0,
        }
    }

    /// One more slot, and what follows from all that is remembered; nothing while that is too little.
    fn slot(
        &mut self,
        now: &Now<'_>,
        course: &Course,
        practice: &Practice,
        traces: Traces<'_>,
    ) -> Result<Option<Step>, LearnError> {
        let mut gym = match self.gym.take() {
            Some(gym) => gym,
            None => {
                let trace = (self.begun * practice.clusters.max(1) + self.number) % course.traces.max(1);
                self.begun += 1;
                Gym::new(traces(trace), Box::new(Actor::new(course.rules, Arc::clone(&self.shared))))?
            }
        };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.policy = Arc::clone(&now.policy);
        shared.exploring.chance = practice.exploring.at(now.part);
        shared.exploring.aims = practice.aims.at(now.part);
        drop(shared);
        let goes_on = gym.slot();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = if goes_on {
            std::mem::take(&mut shared.slot)
        } else {
            Slot { progress: shared.close(), ..Slot::default() }
        };
        drop(shared);
        if goes_on {
            self.gym = Some(gym);
        }
        self.take_in(slot, goes_on, practice);
        let enough = if practice.remembers { practice.begin_at } else { 1 };
        if self.replay.len() < enough {
            return Ok(None);
        }
        Ok(Some(self.step(now, course, practice)))
    }

    /// Books the progress that the slot before made, and begins a new one.
    fn take_in(&mut self, slot: Slot, goes_on: bool, practice: &Practice) {
        let progress: f64 = slot.progress.values().sum();
        self.slots += 1;
        if let Some(pending) = &mut self.pending {
            pending.reward += pending.discount * progress as f32;
            pending.discount *= practice.gamma;
            pending.own.get_or_insert(slot.progress);
            self.reward += NEW * (progress - self.reward);
        }
        let is_over = !goes_on || slot.first.is_some();
        if let Some(pending) = self.pending.take_if(|_| is_over) {
            let next = slot.first.clone().map(|first| (first, pending.discount));
            if !practice.remembers {
                self.replay.clear();
            }
            let own = pending.own.unwrap_or_default();
            let of = |taken: &Taken| taken.job.and_then(|job| own.get(&job)).map_or(0.0, |done| *done as f32);
            let number = pending.number;
            let states: Vec<Arc<[f32]>> =
                pending.taken.iter().map(|taken| Arc::clone(&taken.state)).collect();
            let sample = |(i, taken): (usize, Taken)| Sample {
                reward: practice.own_reward.then(|| of(&taken)),
                after: states.get(i + 1).cloned(),
                state: taken.state,
                open: taken.open,
                action: taken.action as u32,
                likely: taken.likely,
                slot: number,
            };
            let samples: Vec<Sample> = pending.taken.into_iter().enumerate().map(sample).collect();
            if !samples.is_empty() {
                self.replay.add(number, samples, Outcome { reward: pending.reward, next });
            }
        }
        if slot.first.is_some() {
            let (number, taken) = (self.slots, slot.taken);
            self.pending = Some(Pending { number, taken, own: None, reward: 0.0, discount: 1.0 });
        }
    }

    /// The gradients of a batch.
    fn step(&mut self, now: &Now<'_>, course: &Course, practice: &Practice) -> Step {
        self.correction = (self.correction + CORRECTION_STEP).min(1.0);
        let drawn = self.replay.draw(now.batch, self.correction, &mut self.random);
        let samples: Vec<&Sample> = drawn.iter().map(|drawn| self.replay.sample(drawn.at)).collect();
        let mut batch = Batch::new(course.rules.schema);
        for sample in &samples {
            let shuffle = if practice.shuffles {
                Shuffle::any(course.rules.schema, &mut self.random)
            } else {
                Shuffle::none(course.rules.schema)
            };
            batch.add(sample, &shuffle);
        }
        let aims = self.aims(&samples, &now.value, practice);
        let (loss, critic, worth) = if practice.critic {
            worth(&now.learned.value, &batch.states, &aims, &drawn)
        } else {
            (0.0, Vec::new(), vec![self.reward as f32; samples.len()])
        };
        let mut gains: Vec<f32> = aims.iter().zip(&worth).map(|(aim, worth)| aim - worth).collect();
        let surprises = gains.clone();
        if practice.critic && practice.whole < 1.0 {
            let next = now.learned.value.forward(&batch.after);
            for (i, _) in samples.iter().enumerate().filter(|(_, sample)| sample.after.is_some()) {
                gains[i] = practice.whole * gains[i] + (1.0 - practice.whole) * (next[i] - worth[i]);
            }
        }
        let mut shown = gains.clone();
        if practice.normalised {
            let spread = (gains.iter().map(|gain| gain * gain).sum::<f32>() / gains.len() as f32).sqrt();
            shown.iter_mut().for_each(|gain| *gain /= spread.max(1e-6));
        }
        let entropy_weight = practice.entropy.at(now.part) as f32;
        let (entropy, actor) = better(&now.learned.policy, &batch, &shown, &drawn, entropy_weight);
        for (drawn, surprise) in drawn.iter().zip(&surprises) {
            self.replay.surprise(drawn.at, *surprise);
        }
        Step { actor, critic, loss, reward: self.reward, entropy }
    }

    /// What each sample turned out to be worth.
    fn aims(&self, samples: &[&Sample], value: &Mlp, practice: &Practice) -> Vec<f32> {
        let mut known: BTreeMap<u64, f32> = BTreeMap::new();
        let mut scratch = Scratch::default();
        let mut aim = |sample: &&Sample| {
            let outcome = self.replay.outcome(sample.slot);
            let later = *known.entry(sample.slot).or_insert_with(|| match &outcome.next {
                Some((state, discount)) if practice.critic => {
                    discount * value.forward(state, &mut scratch)[0]
                }
                _ => 0.0,
            });
            sample.reward.unwrap_or(outcome.reward) + later
        };
        samples.iter().map(&mut aim).collect()
    }
}

/// What a new network without any training is.
pub fn untrained(course: &Course) -> Result<Learned, LearnError> {
    let none = Course { schooling: None, practice: None, ..course.clone() };
    let nobody: Teacher<'_> = &|| Err(LearnError::Nothing("nobody teaches".to_owned()));
    train(&none, nobody, &|_| unreachable!("nothing is run"), &mut |_, _| {})
}
