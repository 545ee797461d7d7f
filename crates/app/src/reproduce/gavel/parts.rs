//! Gavel's parts: limits of shares, fairness on two levels, shares received in rounds, how long rounds may be, deadlines and money.

use trainyard_sched::model::Seed;
use trainyard_sched::policies::gavel::checks::{hierarchy, limits, received};

use crate::failure::Failure;
use crate::reproduce::typed::{Case, Follow, Seen, contender, perform, perform_all, row_of};
use crate::reproduce::{Effort, Figures, Gate, Progress, Row};

const NONE: Figures = Figures { published: None, reference: Some(0.0) };

/// G-3, G-9 and G-11.
pub(super) fn rows(effort: &Effort) -> Vec<Row> {
    let limits = limits(if effort.quick { 50 } else { 200 });
    vec![
        row_of(
            "G-3",
            "18 objectives on drawn jobs: most by which shares are beyond time or GPUs",
            ("largest excess", Gate::AtMost(1e-7)),
            NONE,
            &limits,
        ),
        row_of(
            "G-3",
            "agnostic max-min fairness with one type: largest difference from equal parts",
            ("largest difference from equal parts", Gate::AtMost(1e-7)),
            NONE,
            &limits,
        ),
        row_of(
            "G-9",
            "fairness on two levels, 12 and 18 jobs: largest difference from the public code, as a part",
            ("largest difference", Gate::AtMost(0.01)),
            NONE,
            &hierarchy(),
        ),
        row_of(
            "G-11",
            "shares received in 50 rounds: largest difference from what is owed",
            ("largest difference", Gate::AtMost(0.03)),
            NONE,
            &received(),
        ),
    ]
}

/// G-12: rounds of other lengths.
pub(super) fn lengths_of_rounds(progress: &Progress<'_>) -> Result<Vec<Row>, Failure> {
    let case = Case { options: "jobs_per_h = 4.4".to_owned(), jobs: Some(200), ..Case::of("gavel", Seed(0)) };
    let task = |round_s: u32| (case.clone(), contender("LAS", "gavel", &format!("round_s = {round_s}.0")));
    let seen = perform_all(&[20, 360, 1440].map(task), progress)?;
    let over = |i: usize, j: usize| seen[i].jct_h.zip(seen[j].jct_h).map(|(one, other)| one / other);
    let row = |what: &str, gate, ours| Row::single("G-12", what, Figures::default(), gate, ours);
    Ok(vec![
        row(
            "200 jobs at 4.4 jobs/h: mean JCT in rounds of 360 s over that of 20 s, which stand for ideal shares",
            Gate::Near { of: 1.0, by: 0.05 },
            over(1, 0),
        ),
        row("the same in rounds of 1,440 s over that of 360 s", Gate::AtMost(1.10), over(2, 1)),
    ])
}

/// Of a run with deadlines: how many jobs ended later than that, a round being allowed.
fn late(case: &Case, seen: &Seen, round_s: f64) -> Result<f64, Failure> {
    let jobs = case.jobs()?;
    let is_late = |((job, _), ended_s): (&(std::sync::Arc<trainyard_sched::model::Job>, _), &Option<f64>)| {
        let by_s = job.goals.deadline.map_or(f64::INFINITY, |by| by.as_secs_f64() + round_s);
        ended_s.is_none_or(|ended_s| ended_s > by_s)
    };
    Ok(jobs.jobs.iter().zip(&seen.extra.ended_s).filter(|pair| is_late(*pair)).count() as f64)
}

/// G-13: deadlines that can be kept, and what it costs to keep them.
pub(super) fn money(progress: &Progress<'_>) -> Result<Vec<Row>, Failure> {
    const ROUND_S: f64 = 20.0;
    // Few enough jobs that all deadlines can be kept.
    let options = "jobs_per_h = 1.0\nobjectives = true".to_owned();
    let case = Case { options, jobs: Some(60), ..Case::of("gavel", Seed(0)) };
    (progress.expect)(3);
    let mut seen = Vec::new();
    for (objective, deadlines) in [("cost", true), ("cost", false), ("throughput", false)] {
        let parameters = format!("objective = '{objective}'\ndeadlines = {deadlines}\nround_s = {ROUND_S:?}");
        let follow = Follow { spending: true, ..Follow::default() };
        seen.push(perform(&case, &contender("Gavel", "gavel", &parameters), follow)?);
        (progress.done)();
    }
    let spent = |i: usize| seen[i].extra.spent;
    let over = |i: usize, j: usize| spent(i).zip(spent(j)).map(|(one, other)| one / other);
    let longest_h = seen.iter().map(|seen| seen.makespan_h).fold(0.0, f64::max);
    let told = format!("60 jobs over at most {longest_h:.0} h; rounds of 20 s stand for ideal shares");
    let row = |what: &str, figures, gate, ours| Row::single("G-13", what, figures, gate, ours);
    Ok(vec![
        row(
            "least cost with deadlines that can be kept: jobs that are late",
            NONE,
            Gate::AtMost(0.0),
            Some(late(&case, &seen[0], ROUND_S)?),
        )
        .beside(&told),
        row(
            "what the GPUs cost under least cost, over that under the greatest throughput",
            Figures::default(),
            Gate::AtMost(1.0),
            over(1, 2),
        ),
        row(
            "the same where deadlines are kept",
            Figures { published: Some(1.0 / 1.4), reference: None },
            Gate::Told,
            over(0, 2),
        )
        .beside("published are 1.4 times on prices of spot GPUs that are not public"),
    ])
}
