//! `serve`: the daemon with its web service, until it is told to leave; and `config`, its settings without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use trainyard_live::daemon::DaemonError;
use trainyard_live::local::{Confinement, LocalExecutor, Options};
use trainyard_live::{Daemon, Executor, Settings};
use trainyard_sched::model::{Cluster, Node, Seed};
use trainyard_sim::cluster::ClusterFile;
use trainyard_sim::physics::Physics;

use super::{Ending, Output, print, say};
use crate::config::{Explained, Hardware, Service, ServiceLayer, hardware, parse_policy};
use crate::demo::policies;
use crate::experiment::{make_folder, write_text};
use crate::failure::Failure;
use crate::render::{Align, plain_table};
use crate::web::{ADDRESS, ADMIN_TOKEN, Access, History, Office, Server, Tls, jobs_in};

/// The journal in the folder.
const JOURNAL: &str = "journal.sqlite";
/// The tenant of a cluster that names none.
const TENANT: &str = "default";

/// What `serve` is told.
#[derive(Args, Debug)]
pub(super) struct ServeArguments {
    /// A file with settings, named like the flags; the environment (TRAINYARD_...) goes over it, and flags over that.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    layer: ServiceLayer,
    /// Die at the so-manyth place where a crash could hurt, for tests.
    #[arg(long, hide = true)]
    crash_at: Option<u64>,
}

/// What `config` does.
#[derive(Subcommand, Debug)]
pub(super) enum ConfigCommand {
    /// Say whether the settings can be used, without starting anything.
    Check(ConfigArguments),
    /// List all settings with their values and where those come from.
    Explain(ConfigArguments),
}

/// What is looked at.
#[derive(Args, Debug)]
pub(super) struct ConfigArguments {
    /// The file, as for `serve --config`.
    file: Option<PathBuf>,
    #[command(flatten)]
    layer: ServiceLayer,
}

/// Looks at settings.
pub(super) fn config(command: &ConfigCommand, output: Output) -> Result<Ending, Failure> {
    let (ConfigCommand::Check(given) | ConfigCommand::Explain(given)) = command;
    let service = Service::resolve(given.file.as_deref(), &given.layer)?;
    let hardware = hardware_and_tenants(&service)?;
    parse_policy(&service.policy)?;
    match command {
        ConfigCommand::Check(_) => say(&format!("all settings can be used: {}", hardware.file.cluster)),
        ConfigCommand::Explain(_) => print(output, &service.explained, |all| explained_text(all))?,
    }
    Ok(Ending::Done)
}

fn explained_text(all: &[Explained]) -> String {
    let rows = all.iter().map(|one| {
        let value = one.value.clone().unwrap_or_else(|| "-".to_owned());
        vec![one.key.clone(), value, one.from.clone()]
    });
    plain_table(&[("key", Align::Left), ("value", Align::Left), ("from", Align::Left)], rows.collect())
}

/// The machines and tenants.
fn hardware_and_tenants(service: &Service) -> Result<Hardware, Failure> {
    let mut hardware = hardware(service)?;
    if hardware.file.tenants.is_empty() {
        hardware.file.tenants.intern(TENANT);
    }
    Ok(hardware)
}

/// Serves.
pub(super) fn perform(given: &ServeArguments) -> Result<Ending, Failure> {
    let service = Service::resolve(given.config.as_deref(), &given.layer)?;
    let hardware = hardware_and_tenants(&service)?;
    let policy = parse_policy(&service.policy)?;
    super::compare::say_cautions(std::slice::from_ref(&policy));
    make_folder(&service.folder)?;
    hardware.keep(&service.folder)?;
    let Hardware { file, gpu_indices, remarks } = hardware;
    let ClusterFile { cluster, tenants, physics, .. } = file;
    let tls = service.tls.clone().map(|(certificate, key)| Tls { certificate, key });
    let server = Server::listen(service.listen, tls.as_ref())?;
    if let Some(number) = given.crash_at {
        trainyard_live::fault::die_at(number);
    }
    let history = Arc::new(History::new(service.folder.join(JOURNAL)));
    let executor = executor(&service.folder, &cluster, &physics, gpu_indices, server.url())?;
    let described = executor.describe();
    let settings = Settings {
        folder: service.folder.clone(),
        cluster,
        tenants,
        policy: (policy.name().to_owned(), policy.given().clone()),
        policies: policies(),
        seed: Seed(service.seed),
        settle: service.settle,
        budget: service.budget,
        keep_every: Settings::KEEP_EVERY,
    };
    let daemon = Daemon::begin(settings, executor, Arc::clone(&history).follower())?;
    history.resume().map_err(DaemonError::from)?;
    let access = Access::open(&service.folder)?;
    let office = Office::new(daemon.handle(), service.folder.clone(), access, history, service.drain);
    announce(&office, &server, &service, &described)?;
    remarks.iter().for_each(|remark| say(remark));
    let served = server.serve(Arc::new(office));
    let _ = std::fs::remove_file(service.folder.join(ADDRESS));
    daemon.leave();
    served?;
    say("left; what runs goes on and is found again at the next start");
    Ok(Ending::Done)
}

/// Runs jobs on this machine. Where GPUs are virtual, a core of the machine stands for each.
fn executor(
    folder: &Path,
    cluster: &Cluster,
    physics: &Physics,
    gpu_indices: Vec<Vec<u32>>,
    url: String,
) -> Result<Box<dyn Executor>, Failure> {
    let folder = std::path::absolute(folder).map_err(Failure::file("find", folder))?;
    let speed = |node: &Node| {
        let name = node.gpu_type.map(|kind| &*cluster.gpu_types[kind.index()].name);
        name.and_then(|name| physics.gpu_speed.get(name).copied()).unwrap_or(1.0)
    };
    let options = Options {
        jobs: jobs_in(&folder),
        exe: std::env::current_exe().map_err(Failure::file("find", "this program".as_ref()))?,
        // Two daemons on one machine have groups of their own.
        confinement: Confinement::find(&format!("trainyard-{:08x}", name_hash(&folder))),
        speeds: cluster.nodes.iter().map(speed).collect(),
        cpus_per_gpu: (cluster.gpu_count() > 0 && gpu_indices.is_empty()).then_some(1.0),
        gpu_indices,
        url: Some(url),
    };
    Ok(Box::new(LocalExecutor::new(options, cluster.clone())))
}

/// A short name for a folder.
fn name_hash(folder: &Path) -> u32 {
    u32::try_from(Seed(0).branch(&folder.display().to_string()).0 >> 32).unwrap_or_default()
}

/// Says where it listens, to people and in a file.
fn announce(office: &Office, server: &Server, service: &Service, executor: &str) -> Result<(), Failure> {
    let url = server.url();
    write_text(&service.folder.join(ADDRESS), &format!("{url}\n"))?;
    let jobs = {
        let board = office.board();
        format!("{} jobs, policy {}", board.jobs.len(), board.policy)
    };
    say(&format!("serving {} at {url}: {jobs}; {executor}", office.handle.cluster()));
    if let Some(remark) = office.board().remark.clone() {
        say(&remark);
    }
    say(&format!("the live page is at {url}/; it asks for a token"));
    say(&format!("the administrator's token is in {}", service.folder.join(ADMIN_TOKEN).display()));
    Ok(())
}
