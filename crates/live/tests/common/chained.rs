//! A training program of several tasks that only counts: each task makes an iteration when all have made the one before, which they see
//! in the folder where they meet. It saves now and then and when told to, and goes on from what it saved.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a program that fails leaves.
const FAILED: u8 = 3;

/// The whole life of one task: `TOTAL EACH_MS SAVE_EVERY [TASK AFTER]`.
pub(crate) fn chain(words: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let [total, each_ms, save_every, fails @ ..] = words else { return Err("too few words".into()) };
    let (total, save_every): (u32, u32) = (total.parse()?, save_every.parse()?);
    let each = Duration::from_millis(each_ms.parse()?);
    let fails: Option<(u32, u32)> = match fails {
        [task, after] => Some((task.parse()?, after.parse()?)),
        _ => None,
    };
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
    let told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&told))?;
    let number = |name: &str| -> Result<u32, Box<dyn Error>> { Ok(std::env::var(name)?.parse()?) };
    let (task, tasks) = (number("TRAINYARD_TASK")?, number("TRAINYARD_TASKS")?);
    if std::env::var("TRAINYARD_JOB_TOKEN")?.len() < 16 {
        return Err("there is no secret".into());
    }
    let (meeting, saved) = (path("TRAINYARD_MEETING_DIR")?, path("TRAINYARD_CHECKPOINT_DIR")?.join("state"));
    let report = |line: &str| -> Result<(), Box<dyn Error>> {
        let file = path("TRAINYARD_PROGRESS_FILE")?;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    };
    let save = |done: u32| -> Result<(), Box<dyn Error>> {
        replace(&saved, done)?;
        report(&format!("{{\"iteration\":{done},\"saved\":{done}}}"))
    };
    let mut done = read(&saved).unwrap_or(0);
    replace(&meeting.join(task.to_string()), done)?;
    while done < total {
        if told.load(Ordering::SeqCst) {
            save(done)?;
            return Ok(ExitCode::SUCCESS);
        }
        if (0..tasks).any(|other| read(&meeting.join(other.to_string())).is_none_or(|at| at < done)) {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        std::thread::sleep(each);
        done += 1;
        report(&format!("{{\"iteration\":{done},\"loss\":{}}}", 0.1 + 1.0 / (1.0 + f64::from(done))))?;
        if done.is_multiple_of(save_every) {
            save(done)?;
        }
        replace(&meeting.join(task.to_string()), done)?;
        if fails.is_some_and(|(which, after)| which == task && done >= after) {
            return Ok(ExitCode::from(FAILED));
        }
    }
    save(done)?;
    Ok(ExitCode::SUCCESS)
}

/// What stands in a file, if anything does.
fn read(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Puts a number in place of what was there.
fn replace(path: &Path, number: u32) -> Result<(), Box<dyn Error>> {
    let beside = path.with_extension("new");
    fs::write(&beside, number.to_string())?;
    Ok(fs::rename(beside, path)?)
}
