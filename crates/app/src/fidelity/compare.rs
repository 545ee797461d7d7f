//! The real course against the simulated one, job by job.

use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::metrics::{JobRow, percentile};
use trainyard_sched::model::JobId;
use trainyard_sim::observed::Observed;
use trainyard_sim::workload::Finding;

use super::LiveJournal;
use super::course::{Course, real, simulated};
use crate::config::PolicyChoice;
use crate::failure::Failure;
use crate::render::{Compared, FidelityAnswer, Figures, LeftOut, OtherPolicy, Rests};

/// The version of the shape of the answer.
const SCHEMA: &str = "trainyard.fidelity/1";

/// Simulates what the journal shows, under the policy that really decided and under some others.
pub(crate) fn fidelity(
    journal: &LiveJournal,
    folder: &str,
    others: &[PolicyChoice],
) -> Result<FidelityAnswer, Failure> {
    let head = &journal.head;
    let observed = journal.observe()?;
    let policy = PolicyChoice::new(&head.policy, head.parameters.clone())?;
    let real = real(journal);
    let again = simulated(journal, &observed, &policy, true)?;
    let (jobs, left_out) = compared(&observed, &real, &again);
    let ids: Vec<JobId> = jobs.iter().map(|job| job.job).collect();
    let errors = sorted(jobs.iter().map(|job| job.error.abs()));
    let (of_real, of_again) = (figures(&real, &real, &ids), figures(&real, &again, &ids));
    let mean_error = of_real.mean_jct_s.zip(of_again.mean_jct_s).map(|(real, again)| again / real - 1.0);
    let others = others
        .iter()
        .map(|policy| {
            let course = simulated(journal, &observed, policy, false)?;
            let ids: Vec<JobId> =
                ids.iter().copied().filter(|id| jct_s(&real, &course, *id).is_some()).collect();
            Ok(OtherPolicy {
                policy: policy.label(),
                jobs: ids.len(),
                figures: figures(&real, &course, &ids),
                interpolated: course.orders.interpolated,
            })
        })
        .collect::<Result<Vec<OtherPolicy>, Failure>>()?;
    Ok(FidelityAnswer {
        schema: SCHEMA,
        folder: folder.to_owned(),
        policy: policies(&policy, &observed),
        cluster: head.cluster.to_string(),
        arrived: observed.workload.jobs.len(),
        recorded_s: observed.last.as_secs_f64(),
        mean_jct_error: mean_error,
        job_error_p50: percentile(&errors, 50.0),
        job_error_p90: percentile(&errors, 90.0),
        real: of_real,
        simulated: of_again,
        rests: rests(&again),
        left_out,
        assumptions: observed.workload.report.findings.iter().map(said).collect(),
        jobs,
        others,
    })
}

/// Who decided, and since when.
fn policies(first: &PolicyChoice, observed: &Observed) -> String {
    let mut text = first.label();
    for (at, event) in &observed.policy_changes {
        if let Event::PolicyChanged { policy, parameters } = event {
            let label = PolicyChoice::new(policy, parameters.clone()).map(|choice| choice.label());
            text.push_str(&format!(", from {at} on {}", label.unwrap_or_else(|_| policy.clone())));
        }
    }
    text
}

fn rests(again: &Course) -> Rests {
    let orders = &again.orders;
    Rests {
        decisions: orders.decisions,
        decisions_on_interpolated: orders.decisions_on_interpolated,
        orders: orders.starts + orders.resizes,
        orders_on_interpolated: orders.interpolated,
        jobs_on_interpolated: orders.on_interpolated.len(),
        stops: orders.stops,
        stops_assumed: orders.stops_assumed,
    }
}

fn said(finding: &Finding) -> String {
    let example = finding.examples.first().map_or_else(String::new, |name| format!(" (such as {name})"));
    format!("{} times: {}{example}", finding.count, finding.what)
}

fn row(course: &Course, job: JobId) -> Option<&JobRow> {
    course.metrics.rows().find(|row| row.id == job)
}

/// From when a job really came until it ended in this course.
fn jct_s(real: &Course, course: &Course, job: JobId) -> Option<f64> {
    let came = row(real, job)?.submitted;
    Some(row(course, job)?.ended?.as_secs_f64() - came.as_secs_f64())
}

/// The jobs that can be compared, and why the others cannot.
fn compared(observed: &Observed, real: &Course, again: &Course) -> (Vec<Compared>, Vec<LeftOut>) {
    let (mut jobs, mut left_out) = (Vec::new(), Vec::new());
    for ((job, _), end) in observed.workload.jobs.iter().zip(&observed.ends) {
        let mut leave = |why: &'static str| {
            left_out.push(LeftOut { job: job.id, name: job.name.to_string(), why });
        };
        match end.ended {
            None => leave("it had not ended when the journal did"),
            Some((_, Outcome::Withdrawn)) => leave("its owner took it back, so when it ended says nothing"),
            Some((_, Outcome::Rejected)) => leave("it could never run"),
            Some((_, outcome)) => {
                let both = jct_s(real, real, job.id).zip(jct_s(real, again, job.id));
                let Some((real_jct_s, simulated_jct_s)) = both.filter(|(real, _)| *real > 0.0) else {
                    leave("it did not end in the simulation");
                    continue;
                };
                let wait_s = |course| row(course, job.id).map_or(0.0, JobRow::wait_s);
                let simulated_outcome = row(again, job.id).and_then(|row| row.outcome);
                jobs.push(Compared {
                    job: job.id,
                    name: job.name.to_string(),
                    real_jct_s,
                    simulated_jct_s,
                    error: simulated_jct_s / real_jct_s - 1.0,
                    real_wait_s: wait_s(real),
                    simulated_wait_s: wait_s(again),
                    same_end: simulated_outcome == Some(outcome),
                    failures: end.failures,
                });
            }
        }
    }
    (jobs, left_out)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The figures of a course, over these jobs. Orders are of all jobs.
fn figures(real: &Course, course: &Course, jobs: &[JobId]) -> Figures {
    let rows: Vec<&JobRow> = jobs.iter().filter_map(|job| row(course, *job)).collect();
    let jcts = sorted(jobs.iter().filter_map(|job| jct_s(real, course, *job)));
    let begin = rows.iter().map(|row| row.submitted).min();
    let end = rows.iter().filter_map(|row| row.ended).max();
    let summary = course.metrics.summary(course.ended);
    Figures {
        mean_jct_s: (!jcts.is_empty()).then(|| jcts.iter().sum::<f64>() / jcts.len() as f64),
        p50_jct_s: percentile(&jcts, 50.0),
        p90_jct_s: percentile(&jcts, 90.0),
        makespan_s: begin.zip(end).map(|(begin, end)| end.since(begin).as_secs_f64()),
        starts: course.orders.starts,
        preemptions: summary.preemptions,
        resizes: course.orders.resizes,
        decisions: course.orders.decisions,
    }
}
