//! `why JOB`: asks the daemon why a job waits.

use serde_json::Value;

use super::connection::{Place, escaped};
use crate::commands::{Ending, Output, print};
use crate::failure::Failure;

/// Asks, and shows the answer. Its text is made by the daemon, which knows what may be named.
pub(crate) fn ask_why(place: &Place, job: &str, output: Output) -> Result<Ending, Failure> {
    let connection = place.connect()?;
    let path = format!("/v1/jobs/{}/why", escaped(job));
    match output {
        Output::Table => {
            let text = connection.text(&path)?;
            print(output, &(), |()| text)?;
        }
        Output::Json => print(output, &connection.get::<Value>(&path)?, |_| String::new())?,
    }
    Ok(Ending::Done)
}
