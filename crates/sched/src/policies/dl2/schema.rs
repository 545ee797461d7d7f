//! What goes into the network and what comes out: a window of jobs, each with its own numbers, and actions on them
//! (DL2, sections 4.1 and 4.2; specification B2).

use crate::decide::{Line, Unit, most_of};
use crate::model::{Resources, Time};
use crate::view::JobView;

/// Shapes of input and output. Weights are good for one of these only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Jobs in the window (J).
    pub jobs: usize,
    /// Kinds of jobs that are told apart (L); all others are one more kind.
    pub kinds: usize,
}

/// Numbers of a job besides its kind: slots since it came, what remains, its share, its workers, its servers.
const OTHERS: usize = 5;
/// Hundreds of slots are a long time.
const SLOTS: f64 = 100.0;
/// As many workers, or servers, count as one.
const UNITS: f64 = 16.0;
/// Actions for each job of the window: a worker, a server, one of each.
pub const UNITS_OF_A_JOB: [Unit; 3] = [Unit::Worker, Unit::Server, Unit::Bundle];

/// Where a unit stands in [`UNITS_OF_A_JOB`].
pub(super) const fn unit_number(unit: Unit) -> usize {
    match unit {
        Unit::Worker => 0,
        Unit::Server => 1,
        Unit::Bundle => 2,
    }
}

/// What may be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One more unit for a job, by its position in the window.
    Give(usize, Unit),
    /// Nobody of the window gets more in this slot.
    Void,
}

impl Schema {
    /// What weights for it are called; the number in front changes with the meaning of any input.
    pub fn name(&self) -> String {
        format!("dl2 1, {} jobs, {} kinds", self.jobs, self.kinds)
    }

    const fn row(&self) -> usize {
        self.kinds + 1 + OTHERS
    }

    /// How many numbers go in: `jobs` rows of `kinds + 1` for the kind and 5 others.
    pub const fn inputs(&self) -> usize {
        self.jobs * self.row()
    }

    /// How many scores come out: three for each job, and one for stopping.
    pub const fn actions(&self) -> usize {
        3 * self.jobs + 1
    }

    /// What an output stands for.
    pub fn act(&self, action: usize) -> Act {
        if action >= 3 * self.jobs { Act::Void } else { Act::Give(action / 3, UNITS_OF_A_JOB[action % 3]) }
    }

    /// The output that stands for it.
    pub fn action(&self, act: Act) -> usize {
        match act {
            Act::Give(job, unit) => 3 * job + unit_number(unit),
            Act::Void => 3 * self.jobs,
        }
    }

    /// Writes the numbers of a job that do not change within a slot, and zeros for the others, into a row.
    fn begin_row(&self, view: &JobView, now: Time, slot_s: f64, row: &mut [f32]) {
        row.fill(0.0);
        let kind = view.job.model.map_or(self.kinds, |model| (model.0 as usize).min(self.kinds));
        row[kind] = 1.0;
        let waited = now.since(view.job.submitted).as_secs_f64() / slot_s / SLOTS;
        let others = &mut row[self.kinds + 1..];
        others[0] = waited.min(1e3) as f32;
        others[1] = remaining(view, now) as f32;
    }

    /// Writes what a job was given in this slot into a row.
    fn fill_row(&self, line: &Line, total: &Resources, row: &mut [f32]) {
        let share = line.resources().dominant_share(total);
        let others = &mut row[self.kinds + 1..];
        others[2] = share.min(1e3) as f32;
        others[3] = (f64::from(line.workers) / UNITS) as f32;
        others[4] = (f64::from(line.servers) / UNITS) as f32;
    }
}

/// The part of its iterations that a job still has before it; 1 if it declares none.
pub fn remaining(view: &JobView, now: Time) -> f64 {
    let left = |all: f64| (1.0 - view.iterations(now) / all).clamp(0.0, 1.0);
    view.job.declared.iterations.filter(|all| *all > 0.0).map_or(1.0, left)
}

/// The numbers that go in, kept up to date from one unit to the next.
#[derive(Clone, Debug)]
pub(super) struct State {
    schema: Schema,
    pub(super) input: Vec<f32>,
    /// Which actions may be taken.
    pub(super) open: Vec<bool>,
}

impl State {
    pub(super) fn new(schema: Schema) -> Self {
        let mut open = vec![false; schema.actions()];
        open[schema.action(Act::Void)] = true;
        Self { schema, input: vec![0.0; schema.inputs()], open }
    }

    /// Puts a job into the window, or nobody.
    pub(super) fn set(&mut self, place: usize, job: Option<(&JobView, &Line, [bool; 3])>, moment: &Moment) {
        let (from, to) = (place * self.schema.row(), (place + 1) * self.schema.row());
        let row = &mut self.input[from..to];
        match job {
            None => row.fill(0.0),
            Some((view, line, _)) => {
                self.schema.begin_row(view, moment.now, moment.slot_s, row);
                self.schema.fill_row(line, &moment.total, row);
            }
        }
        for (i, unit) in UNITS_OF_A_JOB.into_iter().enumerate() {
            let can = job.is_some_and(|(_, line, closed)| !closed[i] && can_have(line, unit));
            self.open[self.schema.action(Act::Give(place, unit))] = can;
        }
    }

    /// A job of the window was given something, or cannot have it.
    pub(super) fn update(&mut self, place: usize, line: &Line, closed: [bool; 3], moment: &Moment) {
        let (from, to) = (place * self.schema.row(), (place + 1) * self.schema.row());
        self.schema.fill_row(line, &moment.total, &mut self.input[from..to]);
        for (unit, closed) in UNITS_OF_A_JOB.into_iter().zip(closed) {
            self.open[self.schema.action(Act::Give(place, unit))] = !closed && can_have(line, unit);
        }
    }

    /// Whether anything but stopping may be done.
    pub(super) fn has_choice(&self) -> bool {
        self.open[..3 * self.schema.jobs].contains(&true)
    }
}

/// What all jobs of a slot have in common.
pub(super) struct Moment {
    pub(super) now: Time,
    pub(super) slot_s: f64,
    pub(super) total: Resources,
}

/// Whether a job may be given a unit as far as its own limits go. One that has nothing gets its smallest gang, whatever the
/// unit is called, so that this counts as a bundle.
pub(super) fn can_have(line: &Line, unit: Unit) -> bool {
    let Some(shape) = line.elastic() else { return unit == Unit::Bundle && !line.runs() };
    if !line.runs() {
        return unit == Unit::Bundle;
    }
    let worker = line.workers < most_of(shape.workers);
    let server = shape.server.is_some() && line.servers < most_of(shape.servers);
    match unit {
        Unit::Worker => worker,
        Unit::Server => server,
        Unit::Bundle => worker && (server || shape.server.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_stands_for_one_action() {
        let schema = Schema { jobs: 20, kinds: 8 };
        assert_eq!((schema.inputs(), schema.actions()), (280, 61));
        for action in 0..schema.actions() {
            assert_eq!(schema.action(schema.act(action)), action);
        }
        assert_eq!(schema.act(60), Act::Void);
        assert_eq!(schema.act(5), Act::Give(1, Unit::Bundle));
        assert_ne!(schema.name(), Schema { jobs: 20, kinds: 9 }.name());
    }
}
