//! Reports that are sent over HTTP, by programs that share no file with us. Each attempt has a secret of its own; what comes
//! with it is checked and appended to a file in the attempt's folder, where whoever follows the attempt finds it. So a report
//! that was taken is not lost with a daemon, and nothing here has to be kept in step with what runs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;
use trainyard_sched::model::{Attempt, CopyId, JobId, TaskId};

use crate::report::{BodyError, Sent};

/// What tokens of jobs begin with, so that they are told from those of people.
const PREFIX: &str = "trainyard-job";
/// The file with the secret.
const SECRET: &str = "secret";
/// How long a secret is: 32 random bytes.
const SECRET_DIGITS: usize = 64;
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

/// The folder of a copy in that of its attempt.
pub fn folder_of_copy(attempt: &Path, copy: CopyId) -> PathBuf {
    attempt.join(format!("copy-{}", copy.0))
}

/// The folder of a start of a task in that of its attempt.
pub fn folder_of_task(attempt: &Path, (task, start): (TaskId, u32)) -> PathBuf {
    attempt.join(format!("task-{}-{start}", task.0))
}

/// Who sends: an attempt, one of its copies, or one of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The job.
    pub job: JobId,
    /// Which start of it.
    pub attempt: Attempt,
    /// Which copy, if there are several.
    pub copy: Option<CopyId>,
    /// Which task, and which start of it, if its job is a graph of tasks.
    pub task: Option<(TaskId, u32)>,
}

impl Sender {
    /// Its folder, below the one where all jobs are.
    pub fn folder(&self, jobs: &Path) -> PathBuf {
        let attempt = folder_of(jobs, self.job, self.attempt);
        match (self.copy, self.task) {
            (Some(copy), _) => folder_of_copy(&attempt, copy),
            (None, Some(task)) => folder_of_task(&attempt, task),
            (None, None) => attempt,
        }
    }
}

/// Where what was sent for the attempt of this folder is.
pub fn sent(folder: &Path) -> PathBuf {
    folder.join(SENT)
}

/// Opens the mailbox of a sender, whose folder is there. The answer is the token by which reports are known to be its own.
pub fn open(jobs: &Path, sender: Sender) -> io::Result<String> {
    let mut bytes = [0_u8; SECRET_DIGITS / 2];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = sender.folder(jobs).join(SECRET);
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(secret.as_bytes())?;
    let member = match (sender.copy, sender.task) {
        (Some(copy), _) => format!(".{}", copy.0),
        (None, Some((task, start))) => format!(".{}.{start}", task.0),
        (None, None) => String::new(),
    };
    Ok(format!("{PREFIX}-{}-{}{member}-{secret}", sender.job.0, sender.attempt.0))
}

/// No report is taken any more for the attempt of this folder.
pub fn close(folder: &Path) {
    // Where it cannot be removed, what comes is kept and nobody reads it.
    let _ = fs::remove_file(folder.join(SECRET));
}

/// Takes reports that were sent with a token; says how many.
pub fn deliver(jobs: &Path, token: &str, body: &[u8]) -> Result<usize, Undelivered> {
    let (sender, secret) = parts(token).ok_or(Undelivered::Stranger)?;
    let folder = sender.folder(jobs);
    if !folder.is_dir() {
        return Err(Undelivered::Stranger);
    }
    match fs::read(folder.join(SECRET)) {
        // One that was only begun, as on a full disk, is nobody's.
        Ok(own) if own.len() == SECRET_DIGITS && bool::from(own.as_slice().ct_eq(secret.as_bytes())) => {}
        Ok(_) => return Err(Undelivered::Stranger),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Undelivered::Over(sender.job, sender.attempt));
        }
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

fn parts(token: &str) -> Option<(Sender, &str)> {
    let mut parts = token.strip_prefix(PREFIX)?.strip_prefix('-')?.splitn(3, '-');
    let (job, attempt, secret) = (parts.next()?, parts.next()?, parts.next()?);
    // An attempt, its copy, or its task and which start of it.
    let mut numbers = attempt.splitn(3, '.');
    let attempt = Attempt(numbers.next()?.parse().ok()?);
    let (copy, task) = match (numbers.next(), numbers.next()) {
        (Some(task), Some(start)) => (None, Some((TaskId(task.parse().ok()?), start.parse().ok()?))),
        (Some(copy), None) => (Some(CopyId(copy.parse().ok()?)), None),
        _ => (None, None),
    };
    Some((Sender { job: JobId(job.parse().ok()?), attempt, copy, task }, secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_with_the_token_of_their_attempt_and_no_other() {
        let jobs = tempfile::tempdir().unwrap();
        let task = Some((TaskId(1), 4));
        let senders = [(1, None, None), (2, None, None), (2, Some(CopyId(1)), None), (2, None, task)];
        let opened = senders.map(|(attempt, copy, task)| {
            let sender = Sender { job: JobId(3), attempt: Attempt(attempt), copy, task };
            fs::create_dir_all(sender.folder(jobs.path())).unwrap();
            (open(jobs.path(), sender).unwrap(), sender.folder(jobs.path()))
        });
        let [(token, folder), (other, _), (copy, of_copy), (task, of_task)] = &opened;
        assert_ne!(token, other);
        assert_eq!(deliver(jobs.path(), copy, b"{\"step\": 9}").unwrap(), 1);
        assert_eq!(fs::read_to_string(sent(of_copy)).unwrap(), "\n{\"iteration\":9.0}\n");
        assert_eq!(deliver(jobs.path(), task, b"{\"step\": 7}").unwrap(), 1);
        assert_eq!(fs::read_to_string(sent(of_task)).unwrap(), "\n{\"iteration\":7.0}\n");
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
        fs::write(folder.join(SECRET), "").unwrap();
        let empty = deliver(jobs.path(), "trainyard-job-3-1-", b"{\"step\": 5}");
        assert!(
            matches!(empty, Err(Undelivered::Stranger)),
            "a secret that was only begun lets nobody in: {empty:?}"
        );
        close(folder);
        assert!(matches!(deliver(jobs.path(), token, b"{\"step\": 5}"), Err(Undelivered::Over(..))));
        assert_eq!(deliver(jobs.path(), other, b"{\"step\": 5}").unwrap(), 1);
    }
}
