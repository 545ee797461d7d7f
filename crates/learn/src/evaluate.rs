//! What a policy is worth: mean completion times on traces that nobody learned from.

use rayon::prelude::*;
use trainyard_sched::control::Nothing;
use trainyard_sched::decide::Policy;
use trainyard_sched::nets::Weights;
use trainyard_sim::simulate::simulate;

use crate::LearnError;
use crate::gym::Traces;

/// Makes a policy.
pub type Making<'a> = &'a (dyn Fn() -> Result<Box<dyn Policy>, LearnError> + Sync);

/// The mean completion time of each of these traces in seconds; a job that does not end counts until the end of the run.
///
/// # Errors
/// If a policy cannot be made, or a run cannot begin.
pub fn mean_jcts_s(
    making: Making<'_>,
    traces: Traces<'_>,
    which: std::ops::Range<usize>,
) -> Result<Vec<f64>, LearnError> {
    which.into_par_iter().map(|i| mean_jct_s(making, traces, i)).collect()
}

fn mean_jct_s(making: Making<'_>, traces: Traces<'_>, i: usize) -> Result<f64, LearnError> {
    let run = simulate(traces(i), making()?, &mut Nothing, |_, _| {});
    let run = run.map_err(|source| LearnError::Setup { what: format!("trace {i}"), source })?;
    let taken =
        run.metrics.rows().map(|row| row.ended.unwrap_or(run.ended).since(row.submitted).as_secs_f64());
    let (sum, count) = taken.fold((0.0, 0_u32), |(sum, count), taken| (sum + taken, count + 1));
    Ok(sum / f64::from(count.max(1)))
}

/// Makes `dl2` with these weights and other parameters.
///
/// # Errors
/// If they do not fit each other.
pub fn dl2(weights: &Weights, others: &toml::Table) -> Result<Box<dyn Policy>, LearnError> {
    let mut given = others.clone();
    given.insert("weights".to_owned(), weights.to_text().into());
    Ok(trainyard_sched::policies::build("dl2", &given)?)
}
