//! Who gets the next worker or server: the marginal gains of Optimus (section 4.1).

use std::collections::BTreeMap;

use crate::decide::{Given, Line, MOST_UNITS, Misfit, Slate, Unit, most_of};
use crate::estimate::{Expected, Milestone};
use crate::model::{DataParallel, JobId, Resources, SERVER_TASK, SpeedFunction};
use crate::rank::{Offer, hand_out};
use crate::view::{JobView, Phase, Snapshot};

use super::Parameters;
use super::speeds::{Known, Speeds};

/// An end of training that is farther off than so many times what was done is not believed.
const FARTHEST: f64 = 100.0;
/// What is left of a job that is past its end, as a part of what was done: it still runs, so something is.
const OVERDUE: f64 = 0.01;

/// What was handed out.
pub(super) struct Handed<'a> {
    /// Each unit where it went first.
    pub(super) slate: Slate<'a>,
    /// Positions in the order of arrival, higher classes first.
    pub(super) order: Vec<usize>,
    /// The jobs of which it is known what more or fewer units would mean; by position on the slate.
    pub(super) candidates: BTreeMap<usize, Candidate>,
}

/// A job that could have more.
pub(super) struct Candidate {
    /// Its position on the slate.
    line: usize,
    /// Iterations that it has still to do.
    left: f64,
    speed: SpeedFunction,
    /// What its gains are multiplied by.
    trust: f64,
    /// Worker and server as parts of the cluster.
    shares: [f64; 2],
    /// Its size is settled: what it was offered beyond that was not worth the move.
    is_settled: bool,
}

struct State<'a> {
    slate: Slate<'a>,
    candidates: Vec<Candidate>,
}

pub(super) fn hand_out_units<'a>(seen: &'a Snapshot, given: &Parameters, speeds: &mut Speeds) -> Handed<'a> {
    let as_coded = given.mode.is_coded();
    let mut slate = Slate::new(seen, if as_coded { Misfit::Stop } else { Misfit::Skip });
    let order = slate.in_order(|_, view| view.job.submitted);
    for i in order.iter().copied() {
        if as_coded { start_apart(&mut slate, i) } else { _ = slate.give(i, Unit::Bundle) }
    }
    let candidates = find_candidates(seen, given, speeds, &mut slate, &order);
    let mut state = State { slate, candidates };
    state.hand_out_by_class(as_coded);
    // What is taken back goes to others, which may be worth it for them.
    while !as_coded && state.take_back(seen, given.restart_gain) {
        state.hand_out_by_class(as_coded);
    }
    let State { mut slate, candidates } = state;
    if as_coded {
        // A worker without a server does nothing; the code lets it hold its place until the slot is over.
        for i in 0..slate.lines().len() {
            let line = &slate.lines()[i];
            let lacks = line.elastic().is_some_and(|shape| shape.server.is_some() && shape.servers.max > 0)
                && line.servers == 0;
            if lacks && line.runs() {
                slate.wipe(i);
            }
        }
    }
    let candidates = candidates.into_iter().map(|candidate| (candidate.line, candidate)).collect();
    Handed { slate, order, candidates }
}

/// The jobs that run and of which enough is known; of the others, each is brought to a size at which it shall be measured.
fn find_candidates(
    seen: &Snapshot,
    given: &Parameters,
    speeds: &mut Speeds,
    slate: &mut Slate<'_>,
    order: &[usize],
) -> Vec<Candidate> {
    let total = seen.cluster.total();
    let ids: Vec<JobId> = slate.lines().iter().map(|line| line.job.id).collect();
    speeds.look_at(seen, !given.mode.is_coded());
    let mut candidates = Vec::new();
    for i in order.iter().copied() {
        let view = seen.job(ids[i]).expect("the slate has the jobs of the snapshot");
        let Some(shape) = slate.lines()[i].elastic().filter(|_| slate.lines()[i].runs()).copied() else {
            continue;
        };
        let speed = match speeds.of(view, &shape, given.knowledge()) {
            Known::Explore { sizes, .. } if explore(slate, i, &sizes) => continue,
            Known::Explore { meanwhile, .. } => meanwhile,
            Known::Function(speed) => speed,
        };
        let shares = if given.mode.is_coded() { [1.0; 2] } else { shares(&shape, &total) };
        candidates.push(Candidate::new(seen, view, i, shares, speed, given));
    }
    candidates
}

/// As coded, a first worker and a first server each go to the least loaded node.
fn start_apart(slate: &mut Slate<'_>, i: usize) {
    if !slate.lines()[i].starts_with_a_bundle() {
        slate.give(i, Unit::Bundle);
    } else if slate.give_apart(i, Unit::Worker) == Given::Yes {
        slate.give_apart(i, Unit::Server);
    }
}

/// Brings a job to the first of some sizes, workers and servers, for which there is room. If there is room for none it
/// keeps what it has.
fn explore(slate: &mut Slate<'_>, i: usize, sizes: &[(u32, u32)]) -> bool {
    let (least, had) = (size(&slate.lines()[i]), slate.lines()[i].target());
    sizes.iter().any(|wanted| {
        let fits = wanted.0 >= least.0 && wanted.1 >= least.1 && grow(slate, i, *wanted);
        if !fits && size(&slate.lines()[i]) != least {
            slate.restore(i, &had);
        }
        fits
    })
}

/// Workers and servers.
pub(super) const fn size(line: &Line) -> (u32, u32) {
    (line.workers, line.servers)
}

/// Gives a job units up to a size, as far as there is room; whether it has that size then.
fn grow(slate: &mut Slate<'_>, i: usize, (workers, servers): (u32, u32)) -> bool {
    while slate.lines()[i].servers < servers && slate.give(i, Unit::Server) == Given::Yes {}
    let has_servers = slate.lines()[i].servers >= servers;
    while has_servers && slate.lines()[i].workers < workers && slate.give(i, Unit::Worker) == Given::Yes {}
    size(&slate.lines()[i]) == (workers, servers)
}

/// A worker and a server as parts of the cluster.
fn shares(shape: &DataParallel, total: &Resources) -> [f64; 2] {
    // What takes nothing that is kept count of is as if a cluster held the most that a job is given. So its gains stay
    // numbers, and it does not go before everyone.
    let of = |demand: Resources| match demand.dominant_share(total) {
        share if share > 0.0 => share,
        _ => 1.0 / f64::from(MOST_UNITS),
    };
    [of(shape.worker), of(shape.server.unwrap_or_default())]
}

impl Candidate {
    fn new(
        seen: &Snapshot,
        view: &JobView,
        line: usize,
        shares: [f64; 2],
        speed: SpeedFunction,
        given: &Parameters,
    ) -> Self {
        let done = view.iterations(seen.at);
        let (left, total) = remaining(view, done, given);
        let is_young = !given.mode.is_coded() && done < given.young * total;
        let trust = if is_young { given.young_factor } else { 1.0 };
        Self { line, left, speed, trust, shares, is_settled: false }
    }

    /// Seconds still to go with so many workers and servers.
    pub(super) fn time_s(&self, (workers, servers): (u32, u32)) -> f64 {
        self.left / self.speed.iterations_per_s(workers, servers)
    }

    /// The size that a running job should rather keep: where the new one does not save so many times what the move costs.
    fn rather(&self, view: &JobView, new: (u32, u32), times: f64) -> Option<(u32, u32)> {
        let old = (view.target.workers(), view.target.count_of(SERVER_TASK));
        let cost_s = move_cost_s(view) * times;
        let is_running = view.phase == Phase::Running && view.target.is_some();
        let saved_s = self.time_s(old) - self.time_s(new);
        (is_running && new != old && cost_s > 0.0 && saved_s <= cost_s).then_some(old)
    }
}

/// Seconds that a job loses when it is moved or its size is changed.
pub(super) fn move_cost_s(view: &JobView) -> f64 {
    (view.job.move_cost.save + view.job.move_cost.load).as_secs_f64()
}

/// Iterations still to do and in all: as declared; else, or past that, until the fitted loss falls no more (section 3.1);
/// else as many as were done, which is the guess of somebody who knows nothing. A job past its end has a little left.
fn remaining(view: &JobView, done: f64, given: &Parameters) -> (f64, f64) {
    let declared = view.job.declared.iterations;
    if let Some(total) = declared.filter(|total| *total > done) {
        return (total - done, total);
    }
    let as_many = done.max(1.0);
    let slow = Milestone::Slow { fall: given.loss_fall * view.losses.largest(), over: given.loss_over };
    let fitted = view.losses.fit().map(|fit| Expected::from(*fit));
    let end = fitted.and_then(|expected| expected.reaches(slow, done, FARTHEST * as_many));
    let left = match end.map(|end| end - done) {
        Some(left) if left > 0.0 => left,
        None if declared.is_none() => as_many,
        // Past what was declared, or past where the loss was to fall no more.
        _ => OVERDUE * as_many,
    };
    (left, done + left)
}

impl State<'_> {
    /// All that a class gains by before the next lower one gets anything; the candidates stand by class.
    fn hand_out_by_class(&mut self, as_coded: bool) {
        let class = |state: &Self, i: usize| state.slate.lines()[state.candidates[i].line].job.goals.class;
        let mut first = 0;
        while first < self.candidates.len() {
            let count =
                (first..self.candidates.len()).take_while(|i| class(self, *i) == class(self, first)).count();
            hand_out(
                self,
                count,
                0.0,
                |state, i| state.best(first + i, as_coded).map(|(_, gain)| gain),
                |state, i| state.give(first + i, as_coded),
            );
            first += count;
        }
    }

    /// Brings running jobs back to the size that they had, where the new one is not worth the move and there is room for
    /// the old one; whether there were any. A job that has to give, gives.
    fn take_back(&mut self, seen: &Snapshot, times: f64) -> bool {
        let mut any = false;
        for candidate in self.candidates.iter_mut().filter(|candidate| !candidate.is_settled) {
            let i = candidate.line;
            let new = size(&self.slate.lines()[i]);
            let view =
                seen.job(self.slate.lines()[i].job.id).expect("the slate has the jobs of the snapshot");
            let Some(old) = candidate.rather(view, new, times) else { continue };
            let given = self.slate.lines()[i].target();
            self.slate.cut(i, (old.0.min(new.0), old.1.min(new.1)));
            if grow(&mut self.slate, i, old) {
                (candidate.is_settled, any) = (true, true);
            } else {
                self.slate.restore(i, &given);
            }
        }
        any
    }

    /// The better of one more worker and one more server, and its gain.
    fn best(&self, i: usize, as_coded: bool) -> Option<(Unit, f64)> {
        let [worker, server] = self.gains(i, as_coded);
        // As coded, a server goes before a worker of the same gain.
        match (worker, server) {
            (Some(worker), Some(server)) if server >= worker => Some((Unit::Server, server)),
            (Some(worker), _) => Some((Unit::Worker, worker)),
            (None, server) => server.map(|server| (Unit::Server, server)),
        }
    }

    /// What a worker and a server more would gain; `None` for what the job cannot use. As coded, limits are not looked at.
    fn gains(&self, i: usize, as_coded: bool) -> [Option<f64>; 2] {
        let candidate = &self.candidates[i];
        let line = &self.slate.lines()[candidate.line];
        let Some(shape) = line.elastic().filter(|_| !candidate.is_settled) else { return [None; 2] };
        let (w, p) = (line.workers, line.servers);
        let now_s = candidate.time_s((w, p));
        let [of_worker, of_server] = candidate.shares;
        let gain = |then_s: f64, share: f64| candidate.trust * (now_s - then_s) / share;
        let worker = as_coded || w < most_of(shape.workers);
        let server = shape.server.is_some() && (as_coded || p < most_of(shape.servers));
        [
            worker.then(|| gain(candidate.time_s((w.saturating_add(1), p)), of_worker)),
            server.then(|| gain(candidate.time_s((w, p.saturating_add(1))), of_server)),
        ]
        // From no speed to no speed is no gain, and must not hide that of the other unit.
        .map(|gain| gain.filter(|gain| !gain.is_nan()))
    }

    fn give(&mut self, i: usize, as_coded: bool) -> Offer {
        let Some((unit, _)) = self.best(i, as_coded) else { return Offer::NoRoom };
        let line = self.candidates[i].line;
        let offer = match self.slate.give(line, unit) {
            Given::Yes => Offer::Taken,
            Given::No => Offer::NoRoom,
            Given::Over => Offer::Exhausted,
        };
        if as_coded || offer != Offer::NoRoom {
            return offer;
        }
        // The other one may still fit and help.
        let [worker, server] = self.gains(i, as_coded);
        let (other, gain) =
            if unit == Unit::Worker { (Unit::Server, server) } else { (Unit::Worker, worker) };
        let helps = gain.is_some_and(|gain| gain > 0.0);
        if helps && self.slate.give(line, other) == Given::Yes { Offer::Taken } else { Offer::NoRoom }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Fitting;
    use crate::model::{
        Convergence, Curve, Declared, DeclaredLoss, Goals, Job, LossPoint, MoveCost, Parallelism, Span,
        TenantId, Time, Wanted,
    };
    use std::sync::Arc;

    fn view(declared: Declared) -> JobView {
        let job = Job {
            id: JobId(0),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(1),
            wanted: Wanted::default(),
            goals: Goals::default(),
            declared,
            move_cost: MoveCost {
                save: Span::from_secs(10),
                load: Span::from_secs(50),
                ..MoveCost::default()
            },
        };
        JobView::new(Arc::new(job), Time::ZERO)
    }

    #[test]
    fn what_is_left_is_declared_or_read_off_the_loss_or_guessed() {
        let given = Parameters { loss_fall: 0.01, loss_over: 10.0, ..Parameters::default() };
        let declared = Declared { iterations: Some(100.0), ..Declared::default() };
        assert_eq!(remaining(&view(declared.clone()), 30.0, &given), (70.0, 100.0));
        assert_eq!(remaining(&view(Declared::default()), 30.0, &given), (30.0, 60.0));
        assert_eq!(remaining(&view(declared), 300.0, &given), (3.0, 303.0), "past its end a little is left");
        // The largest loss is 2.5, so it has to fall by 0.025: 2 * 0.9^k (0.9^-10 - 1) = 0.025, that is at k = 51.7.
        let curve = Curve::Geometric { amplitude: 2.0, mu: 0.9, c: 0.5 };
        let (left, total) = remaining(&reported(curve, 1.0, &Fitting::default()), 29.0, &given);
        let expected = (80.0 * (0.9_f64.powi(-10) - 1.0)).ln() / -(0.9_f64.ln());
        assert!((total - expected).abs() < 1.0 && (left + 29.0 - total).abs() < 1e-9, "{total} {expected}");
    }

    /// A job that reported 30 losses by a curve, in some unit.
    fn reported(curve: Curve, unit: f64, fitting: &Fitting) -> JobView {
        let mut known = view(Declared::default());
        let convergence = Some(match curve {
            Curve::Geometric { .. } => Convergence::Linear,
            Curve::Sublinear { .. } => Convergence::Sublinear,
        });
        let of_kind = DeclaredLoss { convergence, ..DeclaredLoss::default() };
        for k in (0..30).map(f64::from) {
            let point = LossPoint { iteration: k, loss: unit * curve.loss(k), accuracy: None };
            Arc::make_mut(&mut known.losses).report(&[point], &of_kind, Some(fitting));
        }
        known
    }

    #[test]
    fn the_unit_of_a_loss_changes_nothing_and_its_own_curve_says_when_it_is_slow() {
        let given = Parameters { loss_fall: 0.01, loss_over: 10.0, ..Parameters::default() };
        // 1 / (0.2 k + 0.5) + 0.25 begins at 2.25, so it has to fall by 0.0225 over ten iterations.
        let curve = Curve::Sublinear { a: 0.0, b: 0.2, c: 0.5, d: 0.25 };
        let stop = Milestone::Slow { fall: 0.0225, over: 10.0 };
        let truth = Expected::Curve(curve).reaches(stop, 29.0, 1e4).expect("it flattens");
        for unit in [1e-6, 1.0, 1e6] {
            for fitting in [Fitting::Inverse, Fitting::default()] {
                let (_, total) = remaining(&reported(curve, unit, &fitting), 29.0, &given);
                assert!((total / truth - 1.0).abs() < 0.01, "{unit} {fitting:?}: {total} {truth}");
            }
        }
        assert!(truth > 40.0, "it is not slow at the start already: {truth}");
        let by_own = reported(curve, 1.0, &Fitting::Inverse);
        assert_eq!(by_own.losses.fit().copied(), crate::estimate::fit_inverse(by_own.losses.points()));
    }

    #[test]
    fn what_takes_nothing_that_is_counted_has_a_share_like_any_other() {
        let range = crate::model::WorkerRange { min: 1, max: 4 };
        let (worker, server) = (Resources::cpus(2), Some(Resources::gpus(1)));
        let shape = DataParallel { worker, workers: range, server, servers: range };
        let total = Resources { cpu_milli: crate::model::UNLIMITED, ..Resources::gpus(8) };
        assert_eq!(shares(&shape, &total), [1.0 / f64::from(MOST_UNITS), 0.125]);
    }

    #[test]
    fn a_running_job_changes_only_if_that_pays_for_the_move() {
        let mut running = view(Declared::default());
        running.phase = Phase::Running;
        running.target = crate::model::Allocation::new(vec![crate::model::Placement {
            copy: crate::model::CopyId(0),
            task: crate::model::WORKER_TASK,
            node: crate::model::NodeId(0),
            count: 2,
            gpus: crate::model::GpuSet::whole(3),
        }]);
        let speed = SpeedFunction::Linear { iteration_s: 1.0, reference: 1 };
        let of = |left| {
            let (trust, shares, is_settled) = (1.0, [1.0; 2], false);
            Candidate { line: 0, left, speed: speed.clone(), trust, shares, is_settled }
        };
        // From 2 to 4 workers saves a quarter of the iterations; moving costs 60 seconds.
        assert_eq!(of(239.0).rather(&running, (4, 0), 1.0), Some((2, 0)));
        assert_eq!(of(241.0).rather(&running, (4, 0), 1.0), None);
        assert_eq!(of(241.0).rather(&running, (4, 0), 2.0), Some((2, 0)));
        assert_eq!(of(1.0).rather(&running, (1, 0), 1.0), Some((2, 0)), "to get slower is worth nothing");
        running.phase = Phase::Waiting;
        assert_eq!(of(1.0).rather(&running, (4, 0), 1.0), None);
    }
}
