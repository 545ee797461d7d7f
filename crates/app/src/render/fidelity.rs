//! A real run against its simulation, as people read it: a table, and a page with two curves.

use maud::html;
use serde::Serialize;
use trainyard_sched::model::JobId;

use super::axis::Axis;
use super::report::{Curve, Figure, Page, legend, lines};
use super::table::{Align, plain_table};

/// What is shown of the jobs that are off by most.
const SHOWN_JOBS: usize = 10;
/// The two courses, as curves are called.
const NAMES: [&str; 2] = ["real", "simulated"];

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FidelityAnswer {
    /// The version of this shape.
    pub(crate) schema: &'static str,
    /// The folder of the daemon.
    pub(crate) folder: String,
    /// Who decided.
    pub(crate) policy: String,
    /// The machines.
    pub(crate) cluster: String,
    /// Jobs that came.
    pub(crate) arrived: usize,
    /// How long the journal is.
    pub(crate) recorded_s: f64,
    /// By which part the simulated mean completion time is more than the real one.
    pub(crate) mean_jct_error: Option<f64>,
    /// Half of the jobs are off by no more than this part.
    pub(crate) job_error_p50: Option<f64>,
    /// Nine in ten are off by no more than this part.
    pub(crate) job_error_p90: Option<f64>,
    /// The real course.
    pub(crate) real: Figures,
    /// The simulated course.
    pub(crate) simulated: Figures,
    /// What the simulation rests on beyond measurements.
    pub(crate) rests: Rests,
    /// Jobs that are in no figure of completion times.
    pub(crate) left_out: Vec<LeftOut>,
    /// What had to be assumed, and what is not simulated.
    pub(crate) assumptions: Vec<String>,
    /// Job by job.
    pub(crate) jobs: Vec<Compared>,
    /// What other policies would have made of the same work.
    pub(crate) others: Vec<OtherPolicy>,
}

/// The figures of a course. Times are over the jobs that ended in both.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Mean completion time.
    pub(crate) mean_jct_s: Option<f64>,
    /// Its median.
    pub(crate) p50_jct_s: Option<f64>,
    /// Its 90th percentile.
    pub(crate) p90_jct_s: Option<f64>,
    /// From the first arrival to the last end.
    pub(crate) makespan_s: Option<f64>,
    /// Orders to start, of all jobs.
    pub(crate) starts: u64,
    /// How often a job was stopped against its will.
    pub(crate) preemptions: u64,
    /// Orders to hold something else.
    pub(crate) resizes: u64,
    /// Decisions.
    pub(crate) decisions: u64,
}

/// What the simulation rests on beyond measurements.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Rests {
    /// Decisions.
    pub(crate) decisions: u64,
    /// Those that gave a job a size or a place at which it was never measured.
    pub(crate) decisions_on_interpolated: u64,
    /// Starts and resizes.
    pub(crate) orders: u64,
    /// Those to a size or a place at which the job was never measured.
    pub(crate) orders_on_interpolated: u64,
    /// The jobs of these.
    pub(crate) jobs_on_interpolated: usize,
    /// Stops with saving.
    pub(crate) stops: u64,
    /// Those of jobs that were never stopped in the real run, so that the cost is that of others.
    pub(crate) stops_assumed: u64,
}

/// A job that cannot be compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    /// Its number.
    pub(crate) job: JobId,
    /// What it is called.
    pub(crate) name: String,
    /// Why.
    pub(crate) why: &'static str,
}

/// One job in both courses.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Compared {
    /// Its number.
    pub(crate) job: JobId,
    /// What it is called.
    pub(crate) name: String,
    /// Its real completion time.
    pub(crate) real_jct_s: f64,
    /// The simulated one.
    pub(crate) simulated_jct_s: f64,
    /// By which part that is more.
    pub(crate) error: f64,
    /// Time without devices.
    pub(crate) real_wait_s: f64,
    /// The same in the simulation.
    pub(crate) simulated_wait_s: f64,
    /// Whether it ended in the same way.
    pub(crate) same_end: bool,
    /// How often it really failed by itself, which is not simulated.
    pub(crate) failures: u32,
}

/// Another policy on the same work.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OtherPolicy {
    /// It.
    pub(crate) policy: String,
    /// The jobs that are in its completion times.
    pub(crate) jobs: usize,
    /// Its figures.
    pub(crate) figures: Figures,
    /// Starts and resizes to sizes or places at which the job was never measured.
    pub(crate) interpolated: u64,
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn signed(part: f64) -> String {
    format!("{:+.1} %", part * 100.0)
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

/// The answer in one sentence.
fn in_short(answer: &FidelityAnswer) -> String {
    match answer.mean_jct_error {
        Some(error) => format!(
            "The simulated mean completion time is {} off the real one, over {} of {} jobs; half of them are off by at \
             most {}, nine in ten by at most {}.",
            signed(error),
            answer.jobs.len(),
            answer.arrived,
            percent(answer.job_error_p50),
            percent(answer.job_error_p90),
        ),
        None => format!("None of the {} jobs can be compared.", answer.arrived),
    }
}

fn figures_table(answer: &FidelityAnswer) -> String {
    let (real, again) = (&answer.real, &answer.simulated);
    let time = |what: &str, of: fn(&Figures) -> Option<f64>| {
        let error = of(real).zip(of(again)).map(|(real, again)| signed(again / real - 1.0));
        vec![what.to_owned(), number(of(real)), number(of(again)), error.unwrap_or_else(|| "-".to_owned())]
    };
    let many = |what: &str, of: fn(&Figures) -> u64| {
        vec![what.to_owned(), of(real).to_string(), of(again).to_string(), String::new()]
    };
    let rows = vec![
        time("JCT mean, s", |f| f.mean_jct_s),
        time("JCT p50, s", |f| f.p50_jct_s),
        time("JCT p90, s", |f| f.p90_jct_s),
        time("makespan, s", |f| f.makespan_s),
        many("starts", |f| f.starts),
        many("preemptions", |f| f.preemptions),
        many("resizes", |f| f.resizes),
        many("decisions", |f| f.decisions),
    ];
    let headers =
        [("", Align::Left), (NAMES[0], Align::Right), (NAMES[1], Align::Right), ("error", Align::Right)];
    plain_table(&headers, rows)
}

fn jobs_table(answer: &FidelityAnswer, most: usize) -> String {
    let mut worst: Vec<&Compared> = answer.jobs.iter().collect();
    worst.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    let rows = worst.into_iter().take(most).map(|job| {
        vec![
            job.name.clone(),
            number(Some(job.real_jct_s)),
            number(Some(job.simulated_jct_s)),
            signed(job.error),
            number(Some(job.real_wait_s)),
            number(Some(job.simulated_wait_s)),
        ]
    });
    let headers = [
        ("job", Align::Left),
        ("real JCT, s", Align::Right),
        ("simulated", Align::Right),
        ("error", Align::Right),
        ("real wait, s", Align::Right),
        ("simulated", Align::Right),
    ];
    plain_table(&headers, rows.collect())
}

fn others_table(answer: &FidelityAnswer) -> String {
    let row = |policy: String, jobs: usize, figures: &Figures, interpolated: u64| {
        vec![
            policy,
            number(figures.mean_jct_s),
            number(figures.p90_jct_s),
            number(figures.makespan_s),
            figures.preemptions.to_string(),
            interpolated.to_string(),
            jobs.to_string(),
        ]
    };
    let own = format!("{} (as it was)", answer.policy);
    let mut rows = vec![row(own, answer.jobs.len(), &answer.simulated, answer.rests.orders_on_interpolated)];
    rows.extend(
        answer
            .others
            .iter()
            .map(|other| row(other.policy.clone(), other.jobs, &other.figures, other.interpolated)),
    );
    let headers = [
        ("simulated policy", Align::Left),
        ("JCT mean, s", Align::Right),
        ("JCT p90, s", Align::Right),
        ("makespan, s", Align::Right),
        ("preemptions", Align::Right),
        ("unmeasured sizes", Align::Right),
        ("jobs", Align::Right),
    ];
    plain_table(&headers, rows)
}

/// What the figures rest on, and what is not in them, a sentence each.
fn remarks(answer: &FidelityAnswer) -> Vec<String> {
    let rests = &answer.rests;
    let mut all = vec![format!(
        "{} of {} decisions gave a job a size or a place at which it was never measured ({} of {} starts and resizes, {} \
         jobs); speeds there are interpolated.",
        rests.decisions_on_interpolated,
        rests.decisions,
        rests.orders_on_interpolated,
        rests.orders,
        rests.jobs_on_interpolated
    )];
    if rests.stops_assumed > 0 {
        all.push(format!(
            "{} of {} stops were of jobs that were never stopped in the real run; they are taken to cost what stops cost \
             others.",
            rests.stops_assumed, rests.stops
        ));
    }
    let otherwise = answer.jobs.iter().filter(|job| !job.same_end).count();
    if otherwise > 0 {
        all.push(format!("{otherwise} jobs ended in another way than in the real run."));
    }
    all.extend(answer.assumptions.iter().cloned());
    let mut reasons: Vec<&str> = answer.left_out.iter().map(|job| job.why).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let names: Vec<&str> =
            answer.left_out.iter().filter(|job| job.why == why).map(|job| job.name.as_str()).collect();
        let shown = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if names.len() > 3 { ", ..." } else { "" };
        all.push(format!("Left out: {} ({shown}{more}): {why}.", names.len()));
    }
    all
}

/// The tables.
pub(crate) fn fidelity_text(answer: &FidelityAnswer) -> String {
    let mut text = format!("{}, {}\n\n{}\n", answer.policy, answer.cluster, figures_table(answer));
    if !answer.jobs.is_empty() {
        text.push_str(&format!("\nThe jobs that are off by most:\n{}\n", jobs_table(answer, SHOWN_JOBS)));
    }
    if !answer.others.is_empty() {
        text.push_str(&format!("\nOther policies on the same work:\n{}\n", others_table(answer)));
    }
    for remark in remarks(answer) {
        text.push_str(&format!("\n{remark}"));
    }
    text.push_str(&format!("\n{}", in_short(answer)));
    text
}

/// The page.
pub(crate) fn fidelity_page(answer: &FidelityAnswer) -> String {
    let times = |of: fn(&Compared) -> f64| {
        let mut all: Vec<f64> = answer.jobs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let distribution = |values: Vec<f64>| {
        let count = values.len().max(1) as f64;
        values.into_iter().enumerate().map(|(i, value)| (value, (i + 1) as f64 / count)).collect::<Vec<_>>()
    };
    let jcts = [distribution(times(|job| job.real_jct_s)), distribution(times(|job| job.simulated_jct_s))];
    let errors = [distribution(times(|job| job.error.abs()))];
    let draw = |title: &str, reading: &str, x: &Axis, points: &[Vec<(f64, f64)>], names: &[&str]| {
        let curves: Vec<Curve<'_>> = points
            .iter()
            .zip(names)
            .enumerate()
            .map(|(series, (points, name))| Curve { name, series, points, steps: true })
            .collect();
        let figure = Figure { title, reading, alternative: in_short(answer) };
        lines(&figure, x, &Axis::parts(1.0, "part of the jobs"), &curves)
    };
    let longest = jcts.iter().flatten().map(|point| point.0).fold(1.0, f64::max);
    let most = errors.iter().flatten().map(|point| point.0).fold(0.1, f64::max);
    let both = draw(
        "Jobs that have ended, by time since they came",
        "Where the two curves lie on each other, the simulation has the distribution right.",
        &Axis::time(longest, "completion time"),
        &jcts,
        &NAMES,
    );
    let apart = draw(
        "By how much single jobs are off",
        "Further left is better.",
        &Axis::parts(most, "error of the completion time"),
        &errors,
        &["error"],
    );
    let mut page = Page::new(format!("a real run under {}, simulated", answer.policy), in_short(answer))
        .with("figures", "Figures", html! { pre { (figures_table(answer)) } })
        .with("times", "Completion times", html! { (legend(&NAMES.map(str::to_owned))) (both) })
        .with("errors", "Errors", apart)
        .with("jobs", "Job by job", html! { pre { (jobs_table(answer, usize::MAX)) } });
    if !answer.others.is_empty() {
        page = page.with("others", "Other policies", html! { pre { (others_table(answer)) } });
    }
    let list = html! { ul { @for remark in remarks(answer) { li { (remark) } } } };
    page.with("rests", "What it rests on", list).into_html()
}
