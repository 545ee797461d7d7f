//! One slot: unit after unit, until whoever chooses has enough or nothing is left (DL2, section 4.1; specification B2.4).

use crate::decide::{Given, Line, Misfit, Slate};
use crate::model::JobId;
use crate::view::Snapshot;

use super::schema::{Act, Moment, Schema, State, UNITS_OF_A_JOB, can_have, unit_number};

/// How slots go.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What goes in and out.
    pub schema: Schema,
    /// The length of a slot, seconds.
    pub slot_s: f64,
    /// Whether every job gets its smallest gang before anybody chooses.
    pub starts_all: bool,
    /// Whether units are tried on the least loaded node only, and the first that does not fit there ends the slot.
    pub stops_at_misfit: bool,
    /// After so many choices the slot is over.
    pub most_choices: usize,
}

/// A moment at which something is to be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What goes into a network.
    pub input: &'a [f32],
    /// Which actions may be taken; stopping always may.
    pub open: &'a [bool],
    /// The jobs of the window, in its order; as many as there are.
    pub jobs: &'a [JobId],
    /// Workers and servers of the jobs of the window, in its order.
    pub given: &'a [(u32, u32)],
    /// Whether the jobs of the window use parameter servers.
    pub serves: &'a [bool],
}

/// Whoever chooses.
pub trait Chooser {
    /// The next action, one that is open; nothing to give up, which leaves the whole slot to somebody else.
    fn choose(&mut self, asked: &Question<'_>) -> Option<usize>;

    /// Whether the action that was chosen last could be done. What could not ends the slot or is closed from then on.
    fn done(&mut self, could: bool);
}

/// Why a slot was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// Whoever chooses had no answer.
    NoAnswer,
    /// There were more choices than may be.
    TooMany,
}

/// Fills a slate anew.
///
/// # Errors
/// If whoever chooses gives up, or takes too long.
pub fn fill<'a>(seen: &'a Snapshot, rules: &Rules, chooser: &mut dyn Chooser) -> Result<Slate<'a>, GivenUp> {
    let misfit = if rules.stops_at_misfit { Misfit::Stop } else { Misfit::Skip };
    let mut slate = Slate::new(seen, misfit);
    let order = slate.in_order(|_, view| view.job.submitted);
    if rules.starts_all {
        order.iter().for_each(|i| slate.start_if_it_fits(*i));
    }
    let moment = Moment { now: seen.at, slot_s: rules.slot_s, total: seen.cluster.total() };
    let mut window = Window::new(seen, &slate, rules.schema, order, &moment);
    let mut left = rules.most_choices;
    while window.state.has_choice() {
        left = left.checked_sub(1).ok_or(GivenUp::TooMany)?;
        let action = chooser.choose(&window.question()).ok_or(GivenUp::NoAnswer)?;
        assert!(window.state.open[action], "what is closed was chosen");
        let Act::Give(place, unit) = rules.schema.act(action) else {
            chooser.done(true);
            window.dismiss(seen, &slate, &moment);
            continue;
        };
        let i = window.waiting[place];
        let given = slate.give(i, unit);
        chooser.done(given == Given::Yes);
        match given {
            Given::Over => break,
            Given::Yes => {}
            Given::No => window.closed[i][unit_number(unit)] = true,
        }
        window.look(place, seen, &slate, &moment);
    }
    Ok(slate)
}

/// The first jobs of those that can have more.
struct Window {
    state: State,
    jobs: usize,
    /// Positions on the slate of all that can have more, the first first.
    waiting: Vec<usize>,
    /// What does not fit any more, by position on the slate.
    closed: Vec<[bool; 3]>,
    ids: Vec<JobId>,
    given: Vec<(u32, u32)>,
    serves: Vec<bool>,
}

impl Window {
    fn new(seen: &Snapshot, slate: &Slate<'_>, schema: Schema, order: Vec<usize>, moment: &Moment) -> Self {
        let mut window = Self {
            state: State::new(schema),
            jobs: schema.jobs,
            waiting: order,
            closed: vec![[false; 3]; slate.lines().len()],
            ids: Vec::new(),
            given: vec![(0, 0); schema.jobs],
            serves: vec![false; schema.jobs],
        };
        window.waiting.retain(|i| wants_more(&slate.lines()[*i], [false; 3]));
        window.enter(0, seen, slate, moment);
        window
    }

    /// Writes the rows from one place on anew.
    fn enter(&mut self, from: usize, seen: &Snapshot, slate: &Slate<'_>, moment: &Moment) {
        let shown = self.waiting.iter().take(self.jobs);
        self.ids.clear();
        self.ids.extend(shown.map(|i| slate.lines()[*i].job.id));
        for place in from..self.jobs {
            let line = self.waiting.get(place).map(|i| (&slate.lines()[*i], self.closed[*i]));
            let job = line.and_then(|(line, closed)| Some((seen.job(line.job.id)?, line, closed)));
            self.state.set(place, job, moment);
            self.given[place] = line.map_or((0, 0), |(line, _)| (line.workers, line.servers));
            let serves = |line: &Line| line.elastic().is_some_and(|shape| shape.server.is_some());
            self.serves[place] = line.is_some_and(|(line, _)| serves(line));
        }
    }

    /// Looks at a job again that was given something or could not have it. Whoever can have no more makes room for the next.
    fn look(&mut self, place: usize, seen: &Snapshot, slate: &Slate<'_>, moment: &Moment) {
        let i = self.waiting[place];
        let (line, closed) = (&slate.lines()[i], self.closed[i]);
        if wants_more(line, closed) {
            self.given[place] = (line.workers, line.servers);
            self.state.update(place, line, closed, moment);
        } else {
            self.waiting.remove(place);
            self.enter(place, seen, slate, moment);
        }
    }

    /// Nobody of the window gets more; the next ones are looked at.
    fn dismiss(&mut self, seen: &Snapshot, slate: &Slate<'_>, moment: &Moment) {
        self.waiting.drain(..self.jobs.min(self.waiting.len()));
        self.enter(0, seen, slate, moment);
    }

    fn question(&self) -> Question<'_> {
        Question {
            input: &self.state.input,
            open: &self.state.open,
            jobs: &self.ids,
            given: &self.given,
            serves: &self.serves,
        }
    }
}

/// Whether a job can have any unit that is not closed.
fn wants_more(line: &Line, closed: [bool; 3]) -> bool {
    UNITS_OF_A_JOB.into_iter().zip(closed).any(|(unit, closed)| !closed && can_have(line, unit))
}

/// Workers and servers of all jobs that have any, by number.
pub fn counts(slate: &Slate<'_>) -> Vec<(JobId, (u32, u32))> {
    let of = |line: &Line| (line.job.id, (line.workers, line.servers));
    slate.lines().iter().filter(|line| line.runs()).map(of).collect()
}
