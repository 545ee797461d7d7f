//! `cancel` and `resume`: takes jobs back, and takes jobs up again that were cut short.

use clap::Args;

use super::connection::{Connection, Place, escaped};
use super::jobs::jobs_text;
use crate::commands::{Ending, Output, print};
use crate::failure::Failure;
use crate::web::JobShown;

/// What `cancel` and `resume` are told.
#[derive(Args, Debug)]
pub(crate) struct CancelArguments {
    /// Their numbers or names.
    #[arg(required = true)]
    jobs: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Takes them back, one after another.
pub(crate) fn cancel(given: &CancelArguments, output: Output) -> Result<Ending, Failure> {
    each(given, output, |connection, job| connection.delete(&format!("/v1/jobs/{job}")))
}

/// Takes jobs up again, one after another.
pub(crate) fn resume(given: &CancelArguments, output: Output) -> Result<Ending, Failure> {
    each(given, output, |connection, job| connection.post_nothing(&format!("/v1/jobs/{job}/resume")))
}

fn each(
    given: &CancelArguments,
    output: Output,
    ask: impl Fn(&Connection, &str) -> Result<JobShown, Failure>,
) -> Result<Ending, Failure> {
    let connection = given.place.connect()?;
    let one = |job: &String| ask(&connection, &escaped(job));
    let all: Vec<JobShown> = given.jobs.iter().map(one).collect::<Result<_, _>>()?;
    print(output, &all, |all| jobs_text(all))?;
    Ok(Ending::Done)
}
