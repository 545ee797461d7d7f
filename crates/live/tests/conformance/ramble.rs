//! Random orders, sensible and not, on jobs that end by themselves; the account judges what comes. In the end whatever is
//! left must still run through.

use trainyard_sched::control::{Action, How};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Allocation, Attempt, GPU, JobId, NodeId, NodeState, Quotas, Seed, Span};

use super::account::Phase;
use super::play::Play;
use super::script::on;
use super::stage::{DEVICES, Setting, Theatre, Training};

const NODES: u32 = 3;
/// How long is listened at the most after each order.
const LISTEN_US: u64 = 80_000;
/// How long what is left may take.
const PATIENCE: Span = Span::from_secs(120);

/// A source of random choices that repeats.
struct Dice {
    seed: Seed,
    rolls: u64,
}

impl Dice {
    const fn roll(&mut self, sides: u64) -> u64 {
        self.rolls += 1;
        self.seed.numbered(self.rolls).0 % sides
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.roll(of.len() as u64) as usize]) }
    }
}

fn setting() -> Setting {
    let trainings = vec![
        Training::of(120),
        Training::of(120).workers(1, 2),
        Training::of(90).workers(2, 2),
        Training::of(150).workers(1, 3),
        Training::of(150).failing(0, 60),
    ];
    Setting { nodes: NODES, trainings }
}

/// Gives so many orders, and lets all jobs end.
pub(crate) fn ramble(seed: u64, orders: u32, theatre: Theatre<'_>) -> Result<(), String> {
    let setting = setting();
    let mut stage = theatre(&setting);
    let can_resize = stage.backend().abilities().has(Abilities::RESIZE);
    let mut ramble = Ramble {
        play: Play::new(&setting, &mut *stage),
        dice: Dice { seed: Seed(seed), rolls: 0 },
        can_resize,
    };
    let done = ramble.begin_and_wander(orders).and_then(|()| ramble.run_through());
    done.map_err(|error| ramble.play.told(&format!("a ramble with seed {seed}"), &error))
}

struct Ramble<'a> {
    play: Play<'a>,
    dice: Dice,
    can_resize: bool,
}

impl Ramble<'_> {
    fn begin_and_wander(&mut self, orders: u32) -> Result<(), String> {
        self.play.begin()?;
        for _ in 0..orders {
            match self.dice.roll(12) {
                0..=3 => self.start_one(),
                4 => self.stop_one(),
                5 | 6 if self.can_resize => self.resize_one(),
                7 | 8 => self.nonsense(),
                9 => self.change_node(),
                _ => {}
            }
            let until = self.play.now + Span(self.dice.roll(LISTEN_US));
            while self.play.now < until {
                self.play.hear(until)?;
            }
        }
        Ok(())
    }

    /// All nodes are up, and whatever is not over is started until it is.
    fn run_through(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            if self.play.account.asked[&NodeId(node)] != NodeState::Up {
                self.play.node(node, NodeState::Up);
            }
        }
        let end = self.play.now + PATIENCE;
        while self.play.account.jobs.iter().any(|record| !record.is_over) {
            if self.play.now >= end {
                return Err(format!("some jobs do not come to their end: {:#?}", self.play.account.jobs));
            }
            self.start_one();
            let until = self.play.now + Span(LISTEN_US);
            self.play.hear(until)?;
        }
        self.play.end()
    }

    /// Jobs for which something holds.
    fn jobs(&self, holds: impl Fn(&super::account::Record) -> bool) -> Vec<u32> {
        let jobs = self.play.account.jobs.iter().enumerate();
        jobs.filter(|(_, record)| holds(record)).map(|(i, _)| i as u32).collect()
    }

    /// Some place for a job, with room.
    fn place(&mut self, number: u32) -> Option<Allocation> {
        let (min, max) = self.play.record(number).training.workers;
        let workers = min + self.dice.roll(u64::from(max - min + 1)) as u32;
        // Now and then a node that is down is tried all the same.
        let daring = self.dice.roll(10) == 0;
        let account = &self.play.account;
        let fit = |node: &u32| daring || account.asked[&NodeId(*node)] == NodeState::Up;
        let devices = (0..NODES).filter(fit).flat_map(|node| (0..DEVICES).map(move |device| (node, device)));
        let mut free: Vec<(u32, u32)> = devices
            .filter(|(node, device)| account.free_milli(NodeId(*node), *device, Some(JobId(number))) == GPU)
            .collect();
        if free.len() < workers as usize {
            return None;
        }
        while free.len() > workers as usize {
            let i = self.dice.roll(free.len() as u64) as usize;
            free.remove(i);
        }
        let bits = |node: u32| {
            let own = free.iter().filter(|(at, _)| *at == node);
            (node, own.map(|(_, device)| 1 << device).sum::<u64>())
        };
        Some(on((0..NODES).map(bits).filter(|(_, bits)| *bits != 0)))
    }

    fn start_one(&mut self) {
        let idle = self.jobs(|record| record.phase == Phase::Idle && !record.is_over);
        let Some(number) = self.dice.pick(&idle) else { return };
        if let Some(allocation) = self.place(number) {
            self.play.start(number, &allocation);
        }
    }

    fn stop_one(&mut self) {
        let held = self.jobs(|record| record.phase != Phase::Idle);
        let Some(number) = self.dice.pick(&held) else { return };
        let how = if self.dice.roll(8) == 0 { How::Finish } else { How::Save };
        self.play.stop(number, how);
    }

    fn resize_one(&mut self) {
        // The loop waits for what it ordered before.
        let able = |record: &super::account::Record| {
            record.phase == Phase::Running && record.stopping.is_none() && record.moving.is_none()
        };
        let able = self.jobs(able);
        let Some(number) = self.dice.pick(&able) else { return };
        if let Some(allocation) = self.place(number)
            && allocation != self.play.record(number).held
        {
            self.play.resize(number, &allocation);
        }
    }

    /// An order that is to have no effect.
    fn nonsense(&mut self) {
        let number = self.dice.roll(self.play.account.jobs.len() as u64) as u32;
        let (job, latest) = (JobId(number), self.play.record(number).attempt);
        let attempt = if self.dice.roll(4) == 0 { Attempt(99) } else { Attempt(latest.0.saturating_sub(1)) };
        let allocation = on([(0, 1)]);
        let action = match self.dice.roll(5) {
            0 => Action::Stop { job, attempt, how: How::Save },
            1 => Action::Resize { job, attempt, allocation, quotas: Quotas::NONE },
            2 => Action::Merge { job, attempt, number: 9, quotas: Quotas::NONE },
            3 => Action::Start { job, attempt: latest, allocation, quotas: Quotas::NONE },
            _ => match self.play.last.clone() {
                Some(action) => action,
                None => return,
            },
        };
        self.play.order(action);
    }

    fn change_node(&mut self) {
        let node = self.dice.roll(u64::from(NODES)) as u32;
        let state =
            [NodeState::Up, NodeState::Up, NodeState::Down, NodeState::Draining][self.dice.roll(4) as usize];
        if self.play.account.asked[&NodeId(node)] != state {
            self.play.node(node, state);
        }
    }
}
