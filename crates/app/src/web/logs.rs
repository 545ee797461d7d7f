//! What a job's program wrote: the end of it, or all that comes.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as Sent, Bytes};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
use tokio::sync::watch;
use trainyard_live::board::Standing;
use trainyard_live::mailbox::folder_of;
use trainyard_sched::model::{Attempt, JobId};
use utoipa::IntoParams;

use super::access::Caller;
use super::office::Office;
use super::parts::Query;
use super::problem::{Kind, Problem};

/// The file with what a program wrote, in the folder of an attempt.
const OUTPUT: &str = "output.log";
/// So many lines are shown when nobody says.
const LINES: usize = 100;
/// No more than this is looked at for the last lines.
const MOST_BYTES: u64 = 4 << 20;
/// How often is looked whether there is more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Which part of the output.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The last so many lines; 100 by default.
    tail: Option<usize>,
    /// Whether to go on with what comes, until the job ends.
    follow: Option<bool>,
    /// Of which start; by default the latest.
    attempt: Option<u32>,
}

/// What a job's program wrote, as it is.
#[utoipa::path(get, path = "/v1/jobs/{job}/logs", tag = "jobs",
    params(("job" = String, Path, description = "Number or name"), Which),
    responses((status = 200, description = "The output", content_type = "text/plain", body = String)))]
pub(crate) async fn logs(
    State(office): State<Arc<Office>>,
    caller: Caller,
    Path(job): Path<String>,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let card = office.find(&caller, &job)?;
    let attempt = which.attempt.unwrap_or(card.attempt);
    if attempt == 0 || attempt > card.attempt {
        let detail = match card.attempt {
            0 => format!("job {} has not been started yet", card.name),
            last => format!("job {} has attempts 1 to {last}", card.name),
        };
        return Err(
            Problem::new(Kind::NotFound, detail).with_remedy("ask why it waits, or name another attempt")
        );
    }
    let path = folder_of(&office.jobs(), card.job, Attempt(attempt)).join(OUTPUT);
    let follows = which.follow.unwrap_or(false);
    let (text, end) = match tail(&path, which.tail.unwrap_or(LINES)).await {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && follows => (Vec::new(), 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let detail = format!("there is no output of attempt {attempt} of job {}", card.name);
            return Err(Problem::new(Kind::NotFound, detail));
        }
        Err(error) => return Err(Problem::new(Kind::Internal, format!("cannot read the output: {error}"))),
    };
    let body = if follows {
        let (closing, job) = (office.closing(), card.job);
        let follower = Follower { closing, office, caller, job, attempt, path, end, first: text };
        Sent::from_stream(unfold(follower, |mut follower| async move {
            follower.next().await.map(|bytes| (Ok::<_, std::io::Error>(bytes), follower))
        }))
    } else {
        Sent::from(text)
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// The last lines of a file, and where it ended.
async fn tail(path: &FilePath, lines: usize) -> std::io::Result<(Vec<u8>, u64)> {
    let mut file = tokio::fs::File::open(path).await?;
    let end = file.metadata().await?.len();
    let begin = end.saturating_sub(MOST_BYTES);
    file.seek(SeekFrom::Start(begin)).await?;
    let mut text = Vec::new();
    file.take(end - begin).read_to_end(&mut text).await?;
    let whole = text.len() - usize::from(text.last() == Some(&b'\n'));
    let breaks = text[..whole].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let from = if lines == 0 { text.len() } else { breaks.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0) };
    Ok((text.split_off(from), end))
}

struct Follower {
    office: Arc<Office>,
    caller: Caller,
    closing: watch::Receiver<bool>,
    job: JobId,
    attempt: u32,
    path: PathBuf,
    end: u64,
    first: Vec<u8>,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first).into());
        }
        loop {
            // Asked before reading, so that what was written before the end is read.
            let is_over = self.is_over();
            if let Ok(more) = self.more().await
                && !more.is_empty()
            {
                self.end += more.len() as u64;
                return Some(more.into());
            }
            if is_over || *self.closing.borrow() || !self.office.access.knows(&self.caller) {
                return None;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = self.closing.changed() => return None,
            }
        }
    }

    fn is_over(&self) -> bool {
        let board = self.office.board();
        board
            .jobs
            .get(&self.job)
            .is_none_or(|card| card.state == Standing::Ended || card.attempt > self.attempt)
    }

    async fn more(&self) -> std::io::Result<Vec<u8>> {
        let mut file = tokio::fs::File::open(&self.path).await?;
        file.seek(SeekFrom::Start(self.end)).await?;
        let mut more = Vec::new();
        file.take(1 << 16).read_to_end(&mut more).await?;
        Ok(more)
    }
}
