//! Reports that are sent over HTTP, by programs that share no file with us. Each attempt has a secret of its own; what comes
//! with it is checked and appended to a file in the attempt's folder, where whoever follows the attempt finds it. So a report
//! that was taken is not lost with a daemon, and nothing here has to be kept in step with what runs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;
use trainyard_sched::model::{Attempt, JobId};

use crate::report::{BodyError, Sent};

/// What tokens of jobs begin with, so that they are told from those of people.
const PREFIX: &str = "trainyard-job";
/// The file with the secret.
const SECRET: &str = "secret";
/// The file with what was sent.
const SENT: &str = "sent.jsonl";

/// Why nothing was taken.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// The token is of no attempt that can be.
    #[error("this is not the token of a job that runs; send what is in TRAINYARD_TOKEN")]
    Stranger,
    /// The attempt is over.
    #[error("attempt {} of job {} is over; reports of it are no longer taken", .1.0, .0.0)]
    Over(JobId, Attempt),
    /// What was sent makes no sense.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// It cannot be kept now.
    #[error("the reports could not be kept ({0}); send them again later")]
    Disk(#[from] io::Error),
}

/// The folder of an attempt below the one where all jobs are.
pub fn folder_of(jobs: &Path, job: JobId, attempt: Attempt) -> PathBuf {
    jobs.join(job.0.to_string()).join(attempt.0.to_string())
}

/// Where what was sent for the attempt of this folder is.
pub fn sent(folder: &Path) -> PathBuf {
    folder.join(SENT)
}

/// Opens the mailbox of an attempt, whose folder is there. The answer is the token by which reports are known to be its own.
pub fn open(folder: &Path, job: JobId, attempt: Attempt) -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(SECRET);
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(secret.as_bytes())?;
    Ok(format!("{PREFIX}-{}-{}-{secret}", job.0, attempt.0))
}

/// No report is taken any more for the attempt of this folder.
pub fn close(folder: &Path) {
    // Where it cannot be removed, what comes is kept and nobody reads it.
    let _ = fs::remove_file(folder.join(SECRET));
}

/// Takes reports that were sent with a token; says how many.
pub fn deliver(jobs: &Path, token: &str, body: &[u8]) -> Result<usize, Undelivered> {
    let (job, attempt, secret) = parts(token).ok_or(Undelivered::Stranger)?;
    let folder = folder_of(jobs, job, attempt);
    if !folder.is_dir() {
        return Err(Undelivered::Stranger);
    }
    match fs::read(folder.join(SECRET)) {
        Ok(own) if bool::from(own.as_slice().ct_eq(secret.as_bytes())) => {}
        Ok(_) => return Err(Undelivered::Stranger),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Undelivered::Over(job, attempt)),
        Err(error) => return Err(error.into()),
    }
    let taken = Sent::read(body)?;
    if taken.reports > 0 {
        // A line that could only be begun, as on a full disk, must not spoil the next one.
        let text = format!("\n{}", taken.lines);
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(sent(&folder))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(taken.reports)
}

fn parts(token: &str) -> Option<(JobId, Attempt, &str)> {
    let mut parts = token.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(3, '-');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let (job, attempt) = (JobId(number()?), Attempt(number()?));
    Some((job, attempt, parts.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_with_the_token_of_their_attempt_and_no_other() {
        let jobs = tempfile::tempdir().unwrap();
        let (job, first, second) = (JobId(3), Attempt(1), Attempt(2));
        let opened = [first, second].map(|attempt| {
            let folder = folder_of(jobs.path(), job, attempt);
            fs::create_dir_all(&folder).unwrap();
            (open(&folder, job, attempt).unwrap(), folder)
        });
        let [(token, folder), (other, _)] = &opened;
        assert_ne!(token, other);
        assert_eq!(deliver(jobs.path(), token, b"{\"step\": 4}").unwrap(), 1);
        assert_eq!(fs::read_to_string(sent(folder)).unwrap(), "\n{\"iteration\":4.0}\n");
        let swapped = format!("{PREFIX}-3-1-{}", other.rsplit('-').next().unwrap());
        let strangers = [
            swapped.as_str(),
            "",
            PREFIX,
            "trainyard-job-3-1-",
            "trainyard-job-9-1-ff",
            "trainyard-job-../1-1-x",
        ];
        for stranger in strangers {
            let refused = deliver(jobs.path(), stranger, b"{\"step\": 5}");
            assert!(matches!(refused, Err(Undelivered::Stranger)), "{stranger}: {refused:?}");
        }
        assert!(matches!(deliver(jobs.path(), token, b"[{\"step\": 5}, 7]"), Err(Undelivered::Body(_))));
        assert_eq!(fs::read_to_string(sent(folder)).unwrap().lines().count(), 2, "nothing of it was taken");
        close(folder);
        assert!(matches!(deliver(jobs.path(), token, b"{\"step\": 5}"), Err(Undelivered::Over(..))));
        assert_eq!(deliver(jobs.path(), other, b"{\"step\": 5}").unwrap(), 1);
    }
}
