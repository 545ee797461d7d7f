//! What part a process has in a job of several: a rank of a ring, or coordinator, worker or server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use trainyard_train::{
    Coordinating, Joining, Meeting, Order, Partitioning, Place, Scaled, Token, TrainError,
};

use super::TrainJobArguments;
use crate::config::ArgumentError;
use crate::failure::Failure;

/// Where a coordinator or a server listens unless told: this machine alone can connect.
const LOOPBACK: &str = "127.0.0.1:0";

/// What a process is told of the others.
#[derive(Args, Clone, Debug)]
pub(super) struct TogetherArguments {
    /// Train together with other processes, in this part; all share the secret in TRAINYARD_JOB_TOKEN.
    #[arg(long, value_name = "ROLE", group = "together", help_heading = "Several processes")]
    role: Option<Role>,
    /// Where the coordinator is: HOST:PORT, or the file to which it writes that.
    #[arg(long, value_name = "ADDRESS", requires = "role", help_heading = "Several processes")]
    join: Option<String>,
    /// Where a coordinator, a server or a partition listens; port 0 takes any [default: 127.0.0.1:0].
    #[arg(long, value_name = "HOST:PORT", requires = "together", help_heading = "Several processes")]
    listen: Option<String>,
    /// A file to which a coordinator writes its address; for peers, where that of rank 0 stands if MASTER_PORT is 0.
    #[arg(long, value_name = "FILE", requires = "role", help_heading = "Several processes")]
    address: Option<PathBuf>,
    /// With how many workers a coordinator begins [default: 1].
    #[arg(long, value_name = "WORKERS", requires = "role", help_heading = "Several processes",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,
    /// With how many servers a coordinator begins [default: 1].
    #[arg(long, value_name = "SERVERS", requires = "role", help_heading = "Several processes",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: Option<u16>,
    /// Cut the layers into so many partitions, of which this process trains one; they share a secret, too.
    #[arg(long, value_name = "PARTITIONS", group = "together", help_heading = "Several processes",
        requires_all = ["partition", "meet"], value_parser = clap::value_parser!(u16).range(1..=1000))]
    partitions: Option<u16>,
    /// Which partition this process trains, from 0. The last one reports.
    #[arg(long, value_name = "NUMBER", requires = "partitions", help_heading = "Several processes")]
    partition: Option<u16>,
    /// A folder where the partitions find each other.
    #[arg(long, value_name = "FOLDER", requires = "partitions", help_heading = "Several processes")]
    meet: Option<PathBuf>,
    /// How long to wait for others, and how long they may be silent. A partition that is missing is waited for without end.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = "Several processes",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    patience: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// One of a fixed number, as RANK and WORLD_SIZE say; rank 0 reports and saves.
    Peer,
    /// Takes workers and servers in, reports and saves.
    Coordinator,
    /// Computes gradients.
    Worker,
    /// Holds parameters.
    Server,
}

impl TogetherArguments {
    /// Whether a process with this role may be the one that reports and saves.
    pub(super) const fn may_report(&self) -> bool {
        !matches!(self.role, Some(Role::Worker | Role::Server))
    }

    /// Takes part as one of several tasks, if the environment says so and nothing else was said.
    pub(super) fn as_task(&mut self) -> Result<(), TrainError> {
        let tasks = std::env::var("TRAINYARD_TASKS").ok();
        let Some(tasks) = tasks.filter(|_| self.role.is_none() && self.partitions.is_none()) else {
            return Ok(());
        };
        let number = |name, value: String| {
            let wanted = "a whole number below 1000 is needed";
            value.parse::<u16>().map_err(|_| TrainError::Environment { name, value, wanted })
        };
        self.partitions = Some(number("TRAINYARD_TASKS", tasks)?);
        let task = std::env::var("TRAINYARD_TASK").unwrap_or_default();
        self.partition = Some(number("TRAINYARD_TASK", task)?);
        self.meet = std::env::var_os("TRAINYARD_MEETING_DIR").map(PathBuf::from);
        Ok(())
    }

    fn partitioning(&self, resume: bool) -> Result<Option<Partitioning>, Failure> {
        let Some(count) = self.partitions.map(usize::from) else { return Ok(None) };
        let number = self.partition.map_or(0, usize::from);
        if number >= count {
            return Err(ArgumentError::NoPartition { number, count }.into());
        }
        let meet = self.meet.clone().ok_or_else(|| TrainError::Environment {
            name: "TRAINYARD_MEETING_DIR",
            value: String::new(),
            wanted: "a folder is needed where the tasks of the job find each other",
        })?;
        let listen = self.listen.clone().unwrap_or_else(|| LOOPBACK.to_owned());
        let (token, patience) = (Token::from_environment()?, Duration::from_secs(self.patience.into()));
        Ok(Some(Partitioning { number, count, meet, listen, token, patience, resume }))
    }
}

/// The part of a process.
pub(super) enum Part {
    /// It trains alone.
    Alone,
    Peer(Meeting),
    Coordinator(Coordinating),
    Worker(Joining),
    Server(Joining),
    Partition(Partitioning),
}

impl Part {
    /// The part that the arguments say.
    pub(super) fn of(given: &TrainJobArguments) -> Result<Self, Failure> {
        if let Some(partitioning) = given.together.partitioning(given.resume)? {
            return Ok(Self::Partition(partitioning));
        }
        let Some(role) = given.together.role else { return Ok(Self::Alone) };
        strangers(role, given)?;
        let token = Token::from_environment()?;
        let together = &given.together;
        let patience = Duration::from_secs(together.patience.into());
        let listen = together.listen.clone().unwrap_or_else(|| LOOPBACK.to_owned());
        if role == Role::Peer {
            let (place, address) = (Place::from_environment()?, together.address.clone());
            return Ok(Self::Peer(Meeting { place, address, token, patience }));
        }
        if role == Role::Coordinator {
            let number = |said: Option<u16>| usize::from(said.unwrap_or(1));
            let order = Order { workers: number(together.workers), servers: number(together.servers) };
            let (address, control) = (together.address.clone(), given.control.clone());
            return Ok(Self::Coordinator(Coordinating { listen, address, order, control, token, patience }));
        }
        let coordinator = together.join.clone().ok_or(ArgumentError::NobodyToJoin)?;
        let joining = Joining { coordinator, listen, token, patience };
        Ok(if role == Role::Worker { Self::Worker(joining) } else { Self::Server(joining) })
    }

    /// Whether this process speaks for all: it reports, and saves all state or its own.
    pub(super) fn is_first(&self) -> bool {
        match self {
            Self::Alone | Self::Coordinator(_) => true,
            Self::Peer(meeting) => meeting.place.rank == 0,
            Self::Worker(_) | Self::Server(_) => false,
            Self::Partition(partitioning) => partitioning.number + 1 == partitioning.count,
        }
    }
}

/// An error if an argument is given that says nothing to this role.
fn strangers(role: Role, given: &TrainJobArguments) -> Result<(), ArgumentError> {
    use Role::{Coordinator, Peer, Server, Worker};
    let together = &given.together;
    let arguments: [(&'static str, bool, &[Role]); 14] = [
        ("--join", together.join.is_some(), &[Worker, Server]),
        ("--listen", together.listen.is_some(), &[Coordinator, Server]),
        ("--address", together.address.is_some(), &[Coordinator, Peer]),
        ("--workers", together.workers.is_some(), &[Coordinator]),
        ("--servers", together.servers.is_some(), &[Coordinator]),
        ("--set", !given.set.is_empty(), &[Peer, Coordinator, Worker]),
        ("--data", given.data.is_some(), &[Peer, Coordinator, Worker]),
        ("--generate", given.generate.is_some(), &[Peer, Coordinator, Worker]),
        ("--standardise", given.standardise, &[Peer, Coordinator, Worker]),
        ("--control", given.control.is_some(), &[Peer, Coordinator]),
        ("--report", given.report.is_some(), &[Peer, Coordinator]),
        ("--checkpoint", given.checkpoint.is_some(), &[Peer, Coordinator]),
        ("--until-loss", given.until_loss.is_some(), &[Peer, Coordinator]),
        ("--until-change", given.until_change.is_some(), &[Peer, Coordinator]),
    ];
    let word = |role: &Role| format!("{role:?}").to_lowercase();
    match arguments.iter().find(|(_, said, roles)| *said && !roles.contains(&role)) {
        None => Ok(()),
        Some((argument, _, roles)) => Err(ArgumentError::NotForRole {
            argument,
            role: word(&role),
            roles: roles.iter().map(word).collect::<Vec<_>>().join(" or "),
        }),
    }
}

/// A change of workers and servers in a sentence.
pub(super) fn words(scaled: &Scaled) -> String {
    let milliseconds = |seconds: f64| format!("{:.1} ms", 1000.0 * seconds);
    format!(
        "At version {} workers went from {} to {} and servers from {} to {}: training stood still for {} (register {}, assign {}, \
         migrate {} for {} numbers, update {}).",
        scaled.version,
        scaled.workers.from,
        scaled.workers.to,
        scaled.servers.from,
        scaled.servers.to,
        milliseconds(scaled.pause_seconds),
        milliseconds(scaled.register_seconds),
        milliseconds(scaled.assign_seconds),
        milliseconds(scaled.migrate_seconds),
        scaled.moved,
        milliseconds(scaled.update_seconds),
    )
}
