//! What a job is going to gain, and what it has gained at the rungs that it has passed.

use crate::estimate::AccuracyForecast;
use crate::model::{GPU, Job, LossPoint, Time};
use crate::view::{JobView, Note};

/// Metrics are kept in notes as so many thousandths of millionths.
const FINE: f64 = 1e9;
/// More rungs than this are not looked at: milestones grow by a factor.
const MOST_RUNGS: usize = 24;

/// What is remembered of a job, in its note.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Whether it was paused and waits to go on.
    pub(super) is_paused: bool,
    /// Iterations done when it was last given more.
    pub(super) given_at: i64,
    /// What it was going to gain at each rung that it has passed; `None` where nothing could be said.
    pub(super) rungs: Vec<Option<f64>>,
}

impl Memory {
    pub(super) fn read(note: &Note) -> Self {
        let [is_paused, given_at, rungs @ ..] = &note.0[..] else { return Self::default() };
        let metric = |kept: &i64| (*kept != i64::MIN).then_some(*kept as f64 / FINE);
        Self { is_paused: *is_paused != 0, given_at: *given_at, rungs: rungs.iter().map(metric).collect() }
    }

    pub(super) fn note(&self) -> Note {
        let metric = |metric: &Option<f64>| metric.map_or(i64::MIN, |metric| (metric * FINE) as i64);
        let begin = [i64::from(self.is_paused), self.given_at];
        Note(begin.into_iter().chain(self.rungs.iter().map(metric)).collect())
    }

    /// What it was going to gain when that was last worked out.
    pub(super) fn latest(&self) -> Option<f64> {
        self.rungs.last().copied().flatten()
    }
}

/// The milestones: `grace` iterations, then always `factor` times as many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rungs {
    pub(super) grace: f64,
    pub(super) factor: f64,
}

impl Rungs {
    /// How many milestones lie behind so many iterations.
    pub(super) fn passed(&self, iterations: f64) -> usize {
        let milestones = (0..MOST_RUNGS).map(|rung| self.grace * self.factor.powi(rung as i32));
        milestones.take_while(|milestone| *milestone <= iterations).count()
    }
}

/// How far a job is going to come: seconds and iterations from now, until its deadline, or its end if that is nearer or the
/// deadline is past.
fn horizon(view: &JobView, now: Time) -> Option<(f64, f64)> {
    let speed = speed(view)?;
    let left = view.job.goal().map(|goal| (goal - view.iterations(now)).max(0.0));
    let until_deadline = view.job.goals.deadline.filter(|deadline| *deadline > now);
    let until_deadline = until_deadline.map(|deadline| deadline.since(now).as_secs_f64());
    let seconds = match (left, until_deadline) {
        (Some(left), Some(seconds)) => seconds.min(left / speed),
        (Some(left), None) => left / speed,
        (None, Some(seconds)) => seconds,
        // As much again as it did.
        (None, None) => view.iterations(now).max(1.0) / speed,
    };
    (seconds > 0.0).then_some((seconds, seconds * speed))
}

/// Iterations a second: as they are now, as declared, or as measured.
fn speed(view: &JobView) -> Option<f64> {
    let declared = || view.job.declared.iteration.map(|each| 1.0 / each.as_secs_f64());
    let measured = || view.speeds.points().last().map(|point| point.iterations_per_s);
    let now = Some(view.done.speed).filter(|speed| *speed > 0.0);
    now.or_else(declared).or_else(measured).filter(|speed| speed.is_finite() && *speed > 0.0)
}

/// What a job gains in accuracy until its deadline, in parts of what it has then, for each hour of a GPU that this takes. Jobs that
/// report no accuracies are judged by their losses, of which less is better.
pub(super) fn gain_per_gpu_hour(view: &JobView, now: Time) -> Option<f64> {
    let (seconds, iterations) = horizon(view, now)?;
    let gpus = view.target.gpu_milli().max(1) as f64 / GPU as f64;
    let gain = gain(view.losses.points(), iterations)?;
    let per_hour = gain / (gpus * seconds / 3600.0);
    per_hour.is_finite().then(|| per_hour.clamp(0.0, 1e6))
}

/// The gain over so many more iterations.
fn gain(points: &[LossPoint], more: f64) -> Option<f64> {
    let accuracies: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((point.iteration, point.accuracy?))).collect();
    let Some((last, _)) = accuracies.last().copied() else {
        let fall = |point: &LossPoint| (point.iteration, -point.loss);
        return by_logarithm(&points.iter().map(fall).collect::<Vec<_>>(), more);
    };
    let best = accuracies.iter().map(|(_, accuracy)| *accuracy).fold(f64::NEG_INFINITY, f64::max);
    let end = last + more;
    match AccuracyForecast::fit(&accuracies, end) {
        Some(forecast) => {
            let then = forecast.mean(end);
            Some((then - best).max(0.0) / then.max(f64::MIN_POSITIVE))
        }
        None => by_logarithm(&accuracies, more),
    }
}

/// Where too little is known for a forecast: each doubling of the iterations gains as much as all doublings did on average, in
/// parts of all that was gained by then. One report alone says nothing.
fn by_logarithm(scores: &[(f64, f64)], more: f64) -> Option<f64> {
    let [(begin, first), .., (end, last)] = scores[..] else { return None };
    let doublings = ((end + 1.0) / (begin + 1.0)).log2();
    let further = ((end + more + 1.0) / (end + 1.0)).log2();
    if doublings <= 0.0 {
        return None;
    }
    if last <= first {
        return Some(0.0);
    }
    Some(further / (further + doublings))
}

/// Whether giving a job so many units instead of those that it has pays, where it stands still for a while meanwhile: it comes
/// so many times as far in the time that is left.
pub(super) fn pays(view: &JobView, now: Time, (has, gets): (u32, u32), least: f64) -> bool {
    let startup = (view.job.move_cost.save + view.job.move_cost.load).as_secs_f64();
    let left = horizon(view, now).map_or(f64::INFINITY, |(seconds, _)| seconds);
    let trains = if left.is_finite() { (left - startup).max(0.0) / left } else { 1.0 };
    f64::from(gets) / f64::from(has.max(1)) * trains > least
}

/// The value below which such a part of these lies: between two of them in proportion.
pub(super) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = part * (values.len() - 1) as f64;
    let (low, high) = (values[at as usize], values[(at.ceil()) as usize]);
    low + (high - low) * at.fract()
}

/// Whether the deadline of a job is past.
pub(super) fn is_late(job: &Job, now: Time) -> bool {
    job.goals.deadline.is_some_and(|deadline| deadline <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Declared, Goals, JobId, LossPoint, MoveCost, Parallelism, Span, TenantId, Wanted};
    use std::sync::Arc;

    fn view(deadline_s: Option<u64>, iterations: f64, points: &[(f64, f64)]) -> JobView {
        let job = Job {
            id: JobId(0),
            name: "job".into(),
            tenant: TenantId(0),
            model: None,
            submitted: Time::ZERO,
            shape: Parallelism::gang(1),
            wanted: Wanted::default(),
            goals: Goals { deadline: deadline_s.map(Time::from_secs), ..Goals::default() },
            declared: Declared {
                iterations: Some(100.0),
                iteration: Some(Span::from_secs(36)),
                ..Declared::default()
            },
            move_cost: MoveCost { load: Span::from_secs(5), ..MoveCost::default() },
        };
        let mut view = JobView::new(Arc::new(job), Time::ZERO);
        view.done.iterations = iterations;
        let point = |(iteration, accuracy): &(f64, f64)| LossPoint {
            iteration: *iteration,
            loss: 1.0 - accuracy,
            accuracy: Some(*accuracy),
        };
        let points: Vec<LossPoint> = points.iter().map(point).collect();
        Arc::make_mut(&mut view.losses).report(&points, &view.job.declared.loss, None);
        view
    }

    #[test]
    fn rungs_are_powers_and_notes_keep_what_was_gained_there() {
        let rungs = Rungs { grace: 1.0, factor: 4.0 };
        assert_eq!(
            [0.5, 1.0, 3.9, 4.0, 16.0, 255.0, 256.0].map(|at| rungs.passed(at)),
            [0, 1, 1, 2, 3, 4, 5]
        );
        let memory = Memory { is_paused: true, given_at: 12, rungs: vec![None, Some(0.25)] };
        assert_eq!(Memory::read(&memory.note()), memory);
        assert_eq!((memory.latest(), Memory::read(&Note::default())), (Some(0.25), Memory::default()));
    }

    #[test]
    fn the_horizon_is_the_deadline_or_the_end() {
        let at = Time::from_secs(360);
        let seconds =
            |deadline, iterations| horizon(&view(deadline, iterations, &[]), at).map(|(s, n)| (s, n.round()));
        // 36 seconds an iteration; 10 of 100 are done.
        assert_eq!(seconds(None, 10.0), Some((3240.0, 90.0)));
        assert_eq!(seconds(Some(720), 10.0), Some((360.0, 10.0)));
        assert_eq!(seconds(Some(300), 10.0), Some((3240.0, 90.0)), "it is late, and goes on to its end");
        assert_eq!(seconds(None, 100.0), None, "nothing is left");
    }

    #[test]
    fn gain_is_counted_in_parts_and_by_gpu_hours() {
        // After 1 and 3 iterations: one doubling of (n + 1). Until 100 there are log2(101 / 4) more.
        let view = view(None, 3.0, &[(1.0, 0.2), (3.0, 0.4)]);
        let further = (101.0_f64 / 4.0).log2();
        let hours = 97.0 * 36.0 / 3600.0 * 0.001;
        let expected = further / (further + 1.0) / hours;
        let metric = gain_per_gpu_hour(&view, Time::ZERO).expect("there are two reports");
        assert!((metric - expected).abs() < 1e-6 * expected, "{metric} {expected}");
        let of = |points: &[(f64, f64)]| gain_per_gpu_hour(&self::view(None, 3.0, points), Time::ZERO);
        assert_eq!((of(&[(1.0, 0.4), (3.0, 0.4)]), of(&[(1.0, 0.4)]), of(&[])), (Some(0.0), None, None));
        // Twelve reports of a curve that has flattened gain less than of one that has not.
        let curve = |k: f64| -> Vec<(f64, f64)> {
            (1..=12).map(|i| (f64::from(i), 0.8 * (1.0 - (-f64::from(i) / k).exp()))).collect()
        };
        let (flat, steep) = (of(&curve(2.0)), of(&curve(20.0)));
        assert!(flat.is_some() && flat < steep, "{flat:?} {steep:?}");
    }

    #[test]
    fn more_units_pay_where_they_bring_more_than_a_tenth() {
        // Five seconds of a start out of 50 are a tenth.
        let view = view(Some(50), 0.0, &[]);
        assert!(!pays(&view, Time::ZERO, (10, 12), 1.1), "1.2 times .9 is 1.08");
        assert!(pays(&view, Time::ZERO, (4, 5), 1.1), "1.25 times .9 is 1.125");
    }

    #[test]
    fn a_percentile_lies_between_two() {
        assert_eq!(percentile(&mut [4.0, 1.0, 2.0, 3.0], 0.75), 3.25);
        assert_eq!((percentile(&mut [7.0], 0.75), percentile(&mut [2.0, 1.0], 1.0)), (7.0, 2.0));
    }
}
