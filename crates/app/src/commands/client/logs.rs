//! `logs`: what a job's program wrote.

use std::io::{Read, Write};

use clap::Args;

use super::connection::{Place, escaped};
use crate::commands::Ending;
use crate::failure::Failure;

/// What `logs` is told.
#[derive(Args, Debug)]
pub(crate) struct LogsArguments {
    /// Its number or name.
    job: String,
    /// Go on with what comes, until the job ends.
    #[arg(short, long)]
    follow: bool,
    /// The last so many lines.
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 100)]
    tail: usize,
    /// Of which start [default: the latest].
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    #[command(flatten)]
    place: Place,
}

/// Prints it as it comes.
pub(crate) fn logs(given: &LogsArguments) -> Result<Ending, Failure> {
    let attempt = given.attempt.map_or_else(String::new, |attempt| format!("&attempt={attempt}"));
    let job = escaped(&given.job);
    let path = format!("/v1/jobs/{job}/logs?tail={}&follow={}{attempt}", given.tail, given.follow);
    let connection = if given.follow { given.place.connect_for_long()? } else { given.place.connect()? };
    let mut reader = connection.stream(&path, "text/plain")?.into_body().into_reader();
    let (mut stdout, mut bytes) = (std::io::stdout().lock(), [0; 1 << 13]);
    loop {
        // A stream that breaks off has no more to tell; what came of the job is another question.
        let count = reader.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            return Ok(Ending::Done);
        }
        stdout.write_all(&bytes[..count]).and_then(|()| stdout.flush()).map_err(Failure::Output)?;
    }
}
