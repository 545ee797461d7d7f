//! The keeper of one attempt: a small process between the daemon and the programs. It starts them, waits for them, and
//! writes down how they ended, whether or not a daemon is there. Told to stop by SIGTERM, it tells the programs, and kills
//! those that do not leave in time. A gang lives and dies together: when one of its programs fails, the others are stopped.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::attempt::{Ended, Folder, MARK, Order, Program, Reserved, Running};
use super::confine::empty;
use super::process::{Identity, signal_group};

/// How often it looks whether it was told to stop.
const LOOK: Duration = Duration::from_millis(25);
/// What a shell would say of a program that cannot be started.
const NOT_STARTED: i32 = 127;

/// Keeps an attempt: the whole life of a keeper process. `exe` is this program.
pub fn keep(folder: &Path, exe: &Path) -> ExitCode {
    let folder = Folder(folder.to_owned());
    match keep_attempt(&folder, exe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", folder.0.display());
            ExitCode::FAILURE
        }
    }
}

/// Becomes one of an attempt's programs. It only returns if that fails, and says why.
pub fn become_program(folder: &Path, number: usize) -> String {
    let folder = Folder(folder.to_owned());
    let program = match folder.order().map(|order| order.programs.into_iter().nth(number)) {
        Ok(Some(program)) => program,
        Ok(None) => return format!("the order has no program {number}"),
        Err(error) => return format!("cannot read the order: {error}"),
    };
    if let Err(error) = confine(&program, &folder) {
        return error;
    }
    let Some((name, arguments)) = program.command.split_first() else { return "no command".to_owned() };
    let mut command = Command::new(name);
    // What the daemon was told by its environment is nobody else's business, its token least of all.
    let ours = std::env::vars_os().map(|(name, _)| name);
    ours.filter(|name| name.to_string_lossy().starts_with("TRAINYARD_")).for_each(|name| {
        command.env_remove(name);
    });
    command.args(arguments).current_dir(&program.directory).envs(&program.environment);
    let error = command.exec();
    format!("cannot start `{name}` in {}: {error}", program.directory.display())
}

/// Applies to this very process what its program is confined to.
fn confine(program: &Program, folder: &Folder) -> Result<(), String> {
    // Should the keeper be killed, its programs do not run on unseen.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| error.to_string())?;
    // If it was killed before that, there was no signal.
    let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
    let keeper = folder.claimed().flatten();
    if keeper.is_none_or(|keeper| parent.is_none_or(|parent| parent.get() != keeper.pid)) {
        return Err("its keeper is gone".to_owned());
    }
    for group in &program.groups {
        std::fs::write(group.join("cgroup.procs"), "0")
            .map_err(|error| format!("cannot join {}: {error}", group.display()))?;
    }
    if let Some(nice) = program.nice {
        let _ = rustix::process::setpriority_process(None, nice);
    }
    if let Some(count) = program.processors {
        let mut set = rustix::thread::CpuSet::new();
        (0..count).for_each(|processor| set.set(processor));
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    if let Some(bytes) = program.address_space {
        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::setrlimit(rustix::process::Resource::As, limit)
            .map_err(|error| format!("cannot limit its memory: {error}"))?;
    }
    Ok(())
}

fn keep_attempt(folder: &Folder, exe: &Path) -> io::Result<()> {
    if !folder.claim(Some(Identity::mine()))? {
        return Ok(());
    }
    let told = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&told))?;
    }
    let reserved = folder.reserve_ended()?;
    let order = folder.order()?;
    let mut keeper = Keeper { told, order, leaders: Vec::new(), deadline: None, first: None };
    let started = keeper.start(folder, exe).and_then(|exits| {
        folder.write_running(&Running { programs: keeper.leaders.clone() })?;
        Ok(exits)
    });
    match started {
        Ok(exits) => keeper.wait(&exits),
        Err(error) => {
            keeper.signal(Signal::KILL);
            let refused = Some(error.to_string());
            keeper.first = Some(Ended { code: Some(NOT_STARTED), signal: None, told: false, refused });
        }
    }
    keeper.finish(folder, reserved)
}

struct Keeper {
    told: Arc<AtomicBool>,
    order: Order,
    leaders: Vec<Identity>,
    /// When those that are left are killed.
    deadline: Option<Instant>,
    /// How the first one ended that did not end well, or else any.
    first: Option<Ended>,
}

impl Keeper {
    fn start(&mut self, folder: &Folder, exe: &Path) -> io::Result<Receiver<(usize, ExitStatus)>> {
        let (exited, exits) = channel();
        for (number, program) in self.order.programs.iter().enumerate() {
            let mut child = start_one(exe, folder, number, &program.output)?;
            let pid = child.id() as i32;
            self.leaders.push(Identity::of(pid).unwrap_or(Identity { pid, began: 0 }));
            let exited = exited.clone();
            std::thread::spawn(move || {
                let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(NOT_STARTED << 8));
                let _ = exited.send((number, status));
            });
        }
        Ok(exits)
    }

    fn wait(&mut self, exits: &Receiver<(usize, ExitStatus)>) {
        let mut left = self.leaders.len();
        while left > 0 {
            match exits.recv_timeout(LOOK) {
                Ok((_, status)) => {
                    left -= 1;
                    self.ended(status);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.told.load(Ordering::SeqCst) && self.deadline.is_none() {
                self.stop();
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.signal(Signal::KILL);
            }
        }
    }

    fn ended(&mut self, status: ExitStatus) {
        let ended = Ended {
            code: status.code(),
            signal: status.signal(),
            told: self.deadline.is_some(),
            refused: None,
        };
        let failed = !status.success();
        if failed && self.deadline.is_none() {
            self.stop();
        }
        let was_good = self.first.as_ref().is_none_or(|first| first.code == Some(0));
        if was_good && (failed || self.first.is_none()) {
            self.first = Some(ended);
        }
    }

    /// Tells all programs to save and leave.
    fn stop(&mut self) {
        self.deadline = Some(Instant::now() + Duration::from_secs(self.order.grace_s.into()));
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        for leader in &self.leaders {
            signal_group(leader.pid, signal);
        }
    }

    /// Nothing of the attempt is left when this is written.
    fn finish(self, folder: &Folder, reserved: Reserved) -> io::Result<()> {
        self.signal(Signal::KILL);
        folder.kill_programs();
        for program in &self.order.programs {
            empty(&program.groups);
        }
        let none = Ended { code: Some(0), signal: None, told: false, refused: None };
        reserved.write(&self.first.unwrap_or(none))
    }
}

fn start_one(exe: &Path, folder: &Folder, number: usize, output: &PathBuf) -> io::Result<Child> {
    let open = || -> io::Result<File> { OpenOptions::new().create(true).append(true).open(output) };
    Command::new(exe)
        .arg("keep")
        .arg(&folder.0)
        .arg("--program")
        .arg(number.to_string())
        .env(MARK, &folder.0)
        .stdin(Stdio::null())
        .stdout(open()?)
        .stderr(open()?)
        .process_group(0)
        .spawn()
}
