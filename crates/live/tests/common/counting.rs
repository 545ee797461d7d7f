//! A training program that only counts: it reports, saves now and then and when told to, goes on from what it saved, and
//! is faster with more workers. Of several processes the first counts, and the others leave when it has.

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

/// What it is to do.
struct Counting {
    total: u32,
    /// How long an iteration takes with one worker for each process.
    each: Duration,
    save_every: u32,
    /// Which process fails, and after how many iterations.
    fails: Option<(u32, u32)>,
    rank: u32,
    processes: u32,
    told: Arc<AtomicBool>,
    saved: PathBuf,
    progress: PathBuf,
    control: PathBuf,
}

/// The whole life of the program: `TOTAL EACH_MS SAVE_EVERY [RANK AFTER]`.
pub(crate) fn count(words: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let [total, each_ms, save_every, fails @ ..] = words else { return Err("too few words".into()) };
    let fails = match fails {
        [rank, after] => Some((rank.parse()?, after.parse()?)),
        _ => None,
    };
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
    let told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&told))?;
    let counting = Counting {
        total: total.parse()?,
        each: Duration::from_millis(each_ms.parse()?),
        save_every: save_every.parse()?,
        fails,
        rank: std::env::var("RANK")?.parse()?,
        processes: std::env::var("WORLD_SIZE")?.parse()?,
        told,
        saved: path("TRAINYARD_CHECKPOINT_DIR")?.join("iterations"),
        progress: path("TRAINYARD_PROGRESS_FILE")?,
        control: path("TRAINYARD_CONTROL_FILE")?,
    };
    if counting.rank == 0 { counting.lead() } else { counting.follow() }
}

impl Counting {
    fn lead(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut done = read(&self.saved);
        while done < self.total {
            if self.is_told() {
                self.save(done)?;
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(self.each * self.processes / self.workers().max(1));
            done += 1;
            let loss = 0.1 + 1.0 / (1.0 + f64::from(done));
            self.report(&format!("{{\"iteration\":{done},\"loss\":{loss}}}"))?;
            if done.is_multiple_of(self.save_every) {
                self.save(done)?;
            }
            if self.fails(done) {
                return Ok(ExitCode::from(FAILED));
            }
        }
        self.save(done)?;
        Ok(ExitCode::SUCCESS)
    }

    fn follow(&self) -> Result<ExitCode, Box<dyn Error>> {
        loop {
            let done = read(&self.saved);
            if self.fails(done) {
                return Ok(ExitCode::from(FAILED));
            }
            if self.is_told() || done >= self.total {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(self.each);
        }
    }

    fn is_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    fn fails(&self, done: u32) -> bool {
        self.fails.is_some_and(|(rank, after)| self.rank == rank && done >= after)
    }

    /// How many workers it has now.
    fn workers(&self) -> u32 {
        let control = fs::read(&self.control).ok();
        let control = control.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        let workers = control.as_ref().and_then(|control| control["workers"].as_u64());
        workers.map_or(self.processes, |workers| workers as u32)
    }

    fn save(&self, done: u32) -> Result<(), Box<dyn Error>> {
        let new = self.saved.with_extension("new");
        fs::write(&new, done.to_string())?;
        fs::rename(&new, &self.saved)?;
        self.report(&format!("{{\"iteration\":{done},\"saved\":{done}}}"))
    }

    fn report(&self, line: &str) -> Result<(), Box<dyn Error>> {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.progress)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }
}

/// What was saved, or nought.
fn read(saved: &Path) -> u32 {
    fs::read_to_string(saved).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
