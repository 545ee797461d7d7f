//! A run of the loop over a real cluster, from the folder where it keeps everything: it begins there or goes on from there.
//!
//! One thread decides and writes. A step's events and decision are on disk before any of its actions is performed and
//! before anybody is answered; so a daemon that dies at any moment finds, when it comes back, either everything of a step
//! or nothing, and asks the executor what became of the actions.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use trainyard_sched::control::{Core, Head, JOURNAL_VERSION, Moment, Outcome, Record, run};
use trainyard_sched::model::{Cluster, Job, JobId, NodeId, NodeState, Parallelism, Seed, Tenants, Time};
use trainyard_sched::place::largest_gang;
use trainyard_sched::view::JobView;

use crate::board::{Board, Touched, stands};
use crate::bridge::{Bridge, Known, Message};
use crate::clock::{Clock, Wall};
use crate::executor::{Executor, Reporter};
use crate::guard::Fresh;
use crate::recover::{Recovered, desk_of};
use crate::store::{Store, StoreError};
use crate::work::Work;
use crate::writer::Writer;

/// The file with the journal.
const JOURNAL: &str = "journal.sqlite";
/// Held by the daemon that owns the folder.
const LOCK: &str = "lock";
/// How long somebody who asks waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes fresh instances of a policy of this name with these parameters, or says why not.
pub type Policies = Arc<dyn Fn(&str, &toml::Table) -> Result<Fresh, String> + Send + Sync>;

/// Called with each step that was written down, in order.
pub type Follower = Box<dyn Fn(&Told) + Send>;

/// What a daemon is made of.
pub struct Settings {
    /// Where it keeps everything.
    pub folder: PathBuf,
    /// The machines. A folder that was used before must be of the same.
    pub cluster: Cluster,
    /// The tenants.
    pub tenants: Tenants,
    /// The policy of a new run; a run that goes on keeps the one it had.
    pub policy: (String, toml::Table),
    /// Where policies come from.
    pub policies: Policies,
    /// The seed of a new run.
    pub seed: Seed,
    /// How long requests are gathered once one has come.
    pub settle: Duration,
    /// How long a policy may think.
    pub budget: Duration,
    /// After how many records the state is kept, so that they need not be told again at the next start. A large state is kept
    /// less often.
    pub keep_every: u64,
}

impl Settings {
    /// The usual [`Settings::keep_every`].
    pub const KEEP_EVERY: u64 = 2_000;
}

/// Why a daemon cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The folder cannot be used.
    #[error("{}: {source}; choose another folder, or make this one writable", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another daemon is at work there.
    #[error("{}: another daemon uses this folder; stop it, or choose another folder", .path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder belongs to another cluster.
    #[error("{}: its journal is of a cluster with {kept}, and this one has {given}; choose another folder for another cluster", .path.display())]
    OtherCluster {
        /// The folder.
        path: PathBuf,
        /// The journal's cluster.
        kept: String,
        /// The one that was given.
        given: String,
    },
    /// The folder belongs to other tenants. Jobs know theirs by its place in the list.
    #[error("{}: its journal has the tenants {kept}, and these are {given}, or differ in weight or quota; give the same, or choose another folder", .path.display())]
    OtherTenants {
        /// The folder.
        path: PathBuf,
        /// The journal's tenants.
        kept: String,
        /// Those that were given.
        given: String,
    },
    /// The policy cannot be made.
    #[error(
        "policy {name}: {why}; use the program that this journal was written by, or choose another folder"
    )]
    Policy {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

/// A job that somebody wants to run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What it needs; its number and its time are given to it.
    pub job: Job,
    /// The name of its tenant.
    pub tenant_name: Arc<str>,
    /// What it runs.
    pub work: Work,
    /// What its owner calls this request: the same request again is the same job.
    pub key: Option<Arc<str>>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It can never run here.
    #[error(
        "this job can never run on this cluster: it needs at least {least} workers, and at most {most} fit when everything is idle"
    )]
    NeverFits {
        /// What it needs.
        least: u32,
        /// What would fit.
        most: u32,
    },
    /// The same of a job of tasks.
    #[error(
        "this job can never run on this cluster: its {tasks} tasks do not fit side by side when everything is idle"
    )]
    TasksNeverFit {
        /// How many it has.
        tasks: usize,
    },
    /// What it runs, or how it is followed, makes no sense.
    #[error("{0}")]
    Work(String),
    /// The daemon did not answer in time; it may be that the journal cannot be written.
    #[error("the scheduler did not answer in time{0}; the request may be sent again with the same key")]
    Silent(String),
    /// It has left.
    #[error("the scheduler is stopping")]
    Leaving,
    /// The policy cannot be had.
    #[error("{0}")]
    Policy(String),
    /// Only a job that was cut short can be taken up again.
    #[error("{job} {}; only a job that its stop rule has cut short can be taken up again", stands(*is_there, *how))]
    NotCutShort {
        /// The job.
        job: JobId,
        /// Whether it has not ended.
        is_there: bool,
        /// How it ended.
        how: Option<Outcome>,
    },
}

/// One step that was written down.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its number in the journal.
    pub number: u64,
    /// When, on the wall.
    pub wall: Wall,
    /// What happened and was decided.
    pub record: Arc<Record>,
    /// From when its messages had come until it was on disk.
    pub took: Duration,
}

/// A daemon at work. Dropping it does not stop it; [`Daemon::leave`] does.
pub struct Daemon {
    handle: Handle,
    thread: std::thread::JoinHandle<()>,
    /// Set before it is told to leave, for when it waits for the disk.
    leaves: Arc<AtomicBool>,
}

/// Asks a daemon for things. It may be cloned and sent to other threads.
#[derive(Clone)]
pub struct Handle {
    messages: Sender<Message>,
    board: Arc<RwLock<Board>>,
    cluster: Arc<Cluster>,
    tenants: Arc<Tenants>,
    policies: Policies,
    began: Wall,
}

impl Daemon {
    /// Begins, or goes on with what is in the folder.
    pub fn begin(
        settings: Settings,
        executor: Box<dyn Executor>,
        follower: Follower,
    ) -> Result<Self, DaemonError> {
        let (messages, inbox) = channel();
        let board = Arc::new(RwLock::new(Board::default()));
        let (ready, is_ready) = sync_channel(1);
        let (sender, shown) = (messages.clone(), Arc::clone(&board));
        let (cluster, tenants) = (Arc::new(settings.cluster.clone()), Arc::new(settings.tenants.clone()));
        let policies = Arc::clone(&settings.policies);
        let leaves = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&leaves);
        let thread = std::thread::Builder::new()
            .name("loop".to_owned())
            .spawn(move || {
                let desk = Loop::begin(settings, executor, follower, (sender, inbox), shown, ends);
                match desk {
                    Ok((mut all, began)) => {
                        let _ = ready.send(Ok(began));
                        all.turn();
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            })
            .expect("a thread can be made");
        let began = is_ready.recv().expect("the loop says whether it began")?;
        let handle = Handle { messages, board, cluster, tenants, policies, began };
        Ok(Self { handle, thread, leaves })
    }

    /// Asks it for things.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends it. What runs goes on running and is found again at the next start.
    pub fn leave(self) {
        self.leaves.store(true, Ordering::SeqCst);
        let _ = self.handle.messages.send(Message::Leave);
        let _ = self.thread.join();
    }
}

impl Handle {
    /// Submits a job; the answer is its number, and whether this request is new. When it comes, the job is on disk.
    pub fn submit(&self, submission: Submission) -> Result<(JobId, bool), Refusal> {
        submission.work.check().map_err(Refusal::Work)?;
        let job = &submission.job;
        let least = job.shape.data_parallel().map_or(1, |shape| shape.workers.min);
        let most = largest_gang(&self.cluster, &job.shape, &job.wanted);
        if most < least {
            return Err(match &job.shape {
                Parallelism::TaskGraph(graph) => Refusal::TasksNeverFit { tasks: graph.tasks().len() },
                Parallelism::DataParallel(_) => Refusal::NeverFits { least, most },
            });
        }
        self.ask(|reply| Message::Submit(Box::new(submission), reply))
    }

    /// Takes a job back.
    pub fn withdraw(&self, job: JobId) -> Result<(), Refusal> {
        self.ask(|reply| Message::Withdraw(job, reply))
    }

    /// Takes a job up again that was cut short by a stop rule. It goes on from what it saved, to its own end. One that was
    /// taken up already stays as it is.
    pub fn resume(&self, job: JobId) -> Result<(), Refusal> {
        let (parted, resumed) = self.look(move |core, _| {
            let state = core.state();
            let known = |view: &JobView| (Arc::clone(&view.job), view.done.saved, view.attempt);
            (state.parted(job).map(known), state.job(job).map(|view| view.resumed))
        })?;
        let card = self.board().jobs.get(&job).map(|card| (Arc::clone(&card.work), card.outcome));
        match (parted, card) {
            (Some((job, saved, attempt)), Some((work, _))) => {
                let known = Known { job, work, saved, attempt, is_stopping: false, is_over: false };
                self.ask(|reply| Message::Resume(Box::new(known), reply))
            }
            _ if resumed == Some(true) => Ok(()),
            (_, card) => {
                let how = card.and_then(|(_, outcome)| outcome);
                Err(Refusal::NotCutShort { job, is_there: resumed.is_some(), how })
            }
        }
    }

    /// Lets another policy decide from now on. That it was refused is in the journal too.
    pub fn choose(&self, policy: &str, parameters: &toml::Table) -> Result<(), Refusal> {
        let (policy, parameters) = (policy.to_owned(), parameters.clone());
        self.ask(|reply| Message::Choose(policy, parameters, reply))?.map_err(Refusal::Policy)
    }

    /// Changes a node by command.
    pub fn set_node(&self, node: NodeId, state: NodeState) -> Result<(), Refusal> {
        self.ask(|reply| Message::Node(node, state, reply))
    }

    /// Looks at the loop between two steps.
    pub fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Core, Time) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        self.ask(|reply| Message::Look(Box::new(move |core, at| drop(reply.send(look(core, at))))))
    }

    /// The run as it stands, to be gone on with.
    pub fn moment(&self) -> Result<Moment, Refusal> {
        self.look(Core::moment)
    }

    /// The jobs as they are shown.
    pub fn board(&self) -> RwLockReadGuard<'_, Board> {
        self.board.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The machines as they were at the beginning.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The tenants.
    pub fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Where policies come from.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// When the run began, on the wall.
    pub const fn began(&self) -> Wall {
        self.began
    }

    fn ask<R>(&self, message: impl FnOnce(std::sync::mpsc::SyncSender<R>) -> Message) -> Result<R, Refusal> {
        let (reply, answer) = sync_channel(1);
        self.messages.send(message(reply)).map_err(|_| Refusal::Leaving)?;
        answer.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => Refusal::Leaving,
            RecvTimeoutError::Timeout => {
                let why = self.board().stalled.clone();
                Refusal::Silent(why.map(|why| format!(" ({why})")).unwrap_or_default())
            }
        })
    }
}

/// Everything of the loop's own thread.
struct Loop {
    core: Core,
    bridge: Bridge,
    writer: Writer,
    /// Keeps other daemons out for as long as it is open.
    _lock: std::fs::File,
}

impl Loop {
    fn begin(
        settings: Settings,
        mut executor: Box<dyn Executor>,
        follower: Follower,
        (sender, messages): (Sender<Message>, Receiver<Message>),
        board: Arc<RwLock<Board>>,
        leaves: Arc<AtomicBool>,
    ) -> Result<(Self, Wall), DaemonError> {
        let lock = take_folder(&settings.folder)?;
        let abilities = executor.abilities();
        let head = || Head {
            version: JOURNAL_VERSION,
            seed: settings.seed,
            policy: settings.policy.0.clone(),
            parameters: settings.policy.1.clone(),
            abilities,
            cluster: settings.cluster.clone(),
            tenants: settings.tenants.clone(),
        };
        let (store, contents) = Store::open(&settings.folder.join(JOURNAL), head)?;
        settings.belongs_to(&contents.head)?;
        let clock = contents.last.map_or_else(Clock::begin, |(at, wall)| Clock::resume(at, wall));
        let (recovered, began) = (Recovered::from(&settings, &contents, abilities)?, contents.began);
        let since_kept = contents.tail.len() as u64;
        let remark = contents.kept_is_broken.then(|| {
            format!("the state that was kept cannot be read, so all {since_kept} steps were told again; nothing is lost")
        });
        let (core, policy) = (recovered.core, recovered.policy);
        let mut desk = desk_of(contents, &core);
        let reporter = Reporter(sender);
        executor.adopt(desk.held(&core), &reporter);
        desk.cluster = core.state().cluster().clone();
        {
            let mut shown = board.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            *shown = recovered.board;
            shown.remark = remark;
            shown
                .renew(&core, &Touched { jobs: core.state().jobs().map(JobView::id).collect(), nodes: true });
        }
        let desk = Rc::new(RefCell::new(desk));
        let at = clock.now();
        let writer = Writer {
            store,
            desk: Rc::clone(&desk),
            board,
            follower,
            policy,
            touched: None,
            at,
            since_kept,
            keep_every: settings.keep_every,
            keeping: None,
            keep_not_before: Instant::now(),
            leaves,
        };
        let bridge = Bridge {
            desk,
            messages,
            reporter,
            executor,
            clock,
            settle: settings.settle,
            leaving: false,
            last: Time::ZERO,
        };
        Ok((Self { core, bridge, writer, _lock: lock }, began))
    }

    fn turn(&mut self) {
        run(&mut self.bridge, &mut self.core, &mut self.writer);
        self.bridge.executor.leave();
        let abandoned = self.bridge.desk.borrow().abandoned;
        if !abandoned {
            self.writer.keep(&self.core);
        }
    }
}

impl Settings {
    /// A folder is of one cluster and its tenants.
    fn belongs_to(&self, head: &Head) -> Result<(), DaemonError> {
        if head.cluster != self.cluster {
            return Err(DaemonError::OtherCluster {
                path: self.folder.clone(),
                kept: head.cluster.to_string(),
                given: self.cluster.to_string(),
            });
        }
        if head.tenants != self.tenants {
            return Err(DaemonError::OtherTenants {
                path: self.folder.clone(),
                kept: names(&head.tenants),
                given: names(&self.tenants),
            });
        }
        Ok(())
    }
}

/// The names of tenants, for people.
fn names(tenants: &Tenants) -> String {
    tenants.iter().map(|(_, tenant)| &*tenant.name).collect::<Vec<_>>().join(", ")
}

fn take_folder(folder: &Path) -> Result<std::fs::File, DaemonError> {
    let fail = |source| DaemonError::Folder { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))
        .map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(DaemonError::Taken { path: folder.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(fail(source)),
    }
}
