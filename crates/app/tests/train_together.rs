//! Jobs of several processes on loopback, through the binary: ranks, coordinators, workers and servers are started, ordered, stopped and
//! killed. Losses are those of one process whatever happens, and when somebody is lost, all end soon and say who it was.

mod member;
mod program;

use std::io::{Read, Write};
use std::net::TcpStream;

use member::{Member, losses, until};
use program::{ends_with, scratch};
use serde_json::Value;
use tempfile::TempDir;

const JOB: [&str; 5] = ["train-job", "mlp", "--generate", "rows=500", "--set=hidden=20,batch=64"];

/// A job with servers.
struct Job {
    place: TempDir,
    coordinator: Member,
    workers: Vec<Member>,
    servers: Vec<Member>,
}

impl Job {
    fn start(workers: usize, servers: usize, more: &[&str]) -> Self {
        Self::start_in(scratch(&[]), workers, servers, more)
    }

    fn start_in(place: TempDir, workers: usize, servers: usize, more: &[&str]) -> Self {
        let (count_workers, count_servers) = (workers.to_string(), servers.to_string());
        let role = ["--role", "coordinator", "--address", "a", "--report", "r", "--output", "json"];
        let count = ["--workers", count_workers.as_str(), "--servers", count_servers.as_str()];
        let coordinator = [&JOB[..], &role, &count, more].concat();
        let coordinator = Member::start(place.path(), "coordinator", &coordinator, &[]);
        let mut job = Self { place, coordinator, workers: Vec::new(), servers: Vec::new() };
        job.add(workers, servers);
        job
    }

    fn add(&mut self, workers: usize, servers: usize) {
        let join = ["--join", "a", "--patience", "3"];
        for _ in 0..workers {
            let name = format!("worker{}", self.workers.len());
            let arguments = [&JOB[..], &["--role", "worker"], &join].concat();
            self.workers.push(Member::start(self.place.path(), &name, &arguments, &[]));
        }
        for _ in 0..servers {
            let name = format!("server{}", self.servers.len());
            let arguments = [&["train-job", "mlp", "--role", "server"], &join[..]].concat();
            self.servers.push(Member::start(self.place.path(), &name, &arguments, &[]));
        }
    }

    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.workers.iter_mut().chain(&mut self.servers)
    }

    fn report(&self) -> Vec<(u64, f64)> {
        losses(&std::fs::read_to_string(self.place.path().join("r")).unwrap_or_default())
    }

    #[track_caller]
    fn until_it_trains(&self, iterations: usize) {
        let report = self.place.path().join("r");
        let lines = || std::fs::read_to_string(&report).map_or(0, |text| text.lines().count());
        until("it trains", || lines() >= iterations);
    }

    fn order(&self, text: &str) {
        std::fs::write(self.place.path().join("new"), text).unwrap();
        std::fs::rename(self.place.path().join("new"), self.place.path().join("control")).unwrap();
    }
}

/// Endless, with state that is saved.
const ENDLESS: [&str; 8] =
    ["--iterations", "100000000", "--checkpoint", "s", "--every", "5", "--patience", "3"];

#[test]
fn ranks_as_torchrun_starts_them_train_as_one_process_does() {
    let place = scratch(&[]);
    for job in [
        &["train-job", "logistic", "--generate", "rows=2000", "--set=method=lbfgs", "--iterations", "30"][..],
        &[&JOB[..], &["--iterations", "5"]].concat(),
    ] {
        let (alone, _) = ends_with(place.path(), 0, &[job, &["--checkpoint", "s"]].concat(), b"");
        let ranks = ["0", "1", "2"];
        let peer = [job, &["--role", "peer", "--address", "a", "--checkpoint", "t"]].concat();
        let mut members: Vec<Member> = ranks
            .iter()
            .map(|rank| {
                let environment = [("RANK", *rank), ("WORLD_SIZE", "3"), ("MASTER_PORT", "0")];
                Member::start(place.path(), rank, &peer, &environment)
            })
            .collect();
        members.iter_mut().for_each(Member::ends_well);
        assert_eq!(losses(&members[0].printed()), losses(&alone));
        assert_eq!(members[1].printed(), "", "rank 0 reports");
        assert!(members[2].said().contains("by 3 processes"), "{}", members[2].said());
        let bytes = |name: &str| std::fs::read(place.path().join(name)).unwrap();
        assert!(bytes("s") == bytes("t"), "and it saves the same state");
        std::fs::remove_file(place.path().join("a")).unwrap();
    }
}

#[test]
fn a_killed_rank_ends_all_ranks_and_they_go_on_from_the_checkpoint() {
    let place = scratch(&[]);
    let peer = [&JOB[..], &["--role", "peer", "--address", "a", "--report", "r", "--resume"]].concat();
    let start = |world: usize, more: &[&'static str]| -> Vec<Member> {
        let _ = std::fs::remove_file(place.path().join("a"));
        let world_size = world.to_string();
        (0..world)
            .map(|rank| {
                let rank = rank.to_string();
                let environment =
                    [("RANK", rank.as_str()), ("WORLD_SIZE", &world_size), ("MASTER_PORT", "0")];
                Member::start(place.path(), &rank, &[&peer[..], more].concat(), &environment)
            })
            .collect()
    };
    let lines = || std::fs::read_to_string(place.path().join("r")).map_or(0, |text| text.lines().count());
    for signal in ["-KILL", "-STOP"] {
        let mut members = start(3, &ENDLESS);
        let before = lines();
        until("it trains", || lines() > before.max(6));
        members[1].signal(signal);
        members[2].ends_badly(if signal == "-KILL" {
            "without rank 1: it closed the connection"
        } else {
            "without rank 1: it was silent for too long"
        });
        members[0].ends_badly("rank");
        assert!(members[0].said().contains("--resume"), "{}", members[0].said());
    }
    let mut members = start(2, &["--iterations", "40", "--checkpoint", "s"]);
    members.iter_mut().for_each(Member::ends_well);
    let (alone, _) = ends_with(place.path(), 0, &[&JOB[..], &["--iterations", "40"]].concat(), b"");
    let together = losses(&std::fs::read_to_string(place.path().join("r")).unwrap());
    let common = together.len().min(40);
    assert_eq!(together[..common], losses(&alone)[..common]);
}

#[test]
fn a_job_at_work_is_scaled_by_its_control_file_and_no_loss_is_another() {
    let place = scratch(&[("control", "workers=1 servers=1\n")]);
    let mut job = Job::start_in(place, 1, 1, &[&ENDLESS[..], &["--control", "control"]].concat());
    job.until_it_trains(3);
    job.order("workers=3 servers=3\n");
    until("it waits for others", || job.coordinator.said().contains("2 more workers and 2 more servers"));
    job.add(2, 2);
    until("it grows", || job.coordinator.said().contains("workers went from 1 to 3 and servers from 1 to 3"));
    job.order("{\"workers\": 2, \"server\": 1}");
    until("nonsense is told", || job.coordinator.said().contains("unknown field `server`"));
    job.order("{\"workers\": 2, \"servers\": 1}");
    until("it shrinks", || {
        job.coordinator.said().contains("workers went from 3 to 2 and servers from 3 to 1")
    });
    until("the released end", || {
        let over = |member: &mut Member| usize::from(member.child.try_wait().unwrap().is_some());
        assert!(job.coordinator.child.try_wait().unwrap().is_none(), "{}", job.coordinator.said());
        job.members().map(over).sum::<usize>() == 3
    });
    // A signal to a worker ends the job after the iteration, with its state.
    let alive = job
        .workers
        .iter_mut()
        .find_map(|worker| worker.child.try_wait().unwrap().is_none().then_some(worker));
    let alive = alive.expect("two workers stay");
    alive.signal("-TERM");
    job.coordinator.ends_well();
    job.members().for_each(Member::ends_well);
    let summary: Value = serde_json::from_str(&job.coordinator.printed()).unwrap();
    assert_eq!((summary["ended"].as_str(), summary["scaled"].as_array().unwrap().len()), (Some("asked"), 2));
    assert!(summary["scaled"][0]["pause_seconds"].as_f64().unwrap() > 0.0, "{summary}");
    let together = job.report();
    let count = together.len().to_string();
    let alone = [&JOB[..], &["--iterations", &count, "--checkpoint", "alone"]].concat();
    let (alone, _) = ends_with(job.place.path(), 0, &alone, b"");
    assert_eq!(together, losses(&alone));
    let bytes = |name: &str| std::fs::read(job.place.path().join(name)).unwrap();
    assert!(bytes("s") == bytes("alone"), "the state is the same");
}

#[test]
fn whoever_is_killed_or_hangs_ends_the_job_soon_and_is_named_and_it_goes_on_from_the_checkpoint() {
    let mut place = scratch(&[]);
    for (role, signal) in [("worker", "-KILL"), ("server", "-KILL"), ("server", "-STOP")] {
        let mut job = Job::start_in(place, 2, 2, &[&ENDLESS[..], &["--resume"]].concat());
        job.until_it_trains(job.report().len() + 7);
        let victim = if role == "worker" { &job.workers[1] } else { &job.servers[1] };
        let process = victim.child.id();
        victim.signal(signal);
        let named = format!("without {role} ");
        job.coordinator.ends_badly(&named);
        let said = job.coordinator.said();
        assert!(said.contains(&format!("(process {process})")) && said.contains("--resume"), "{said}");
        for member in job.members().filter(|member| member.child.id() != process) {
            member.ends_badly(&format!("(process {process})"));
        }
        place = std::mem::replace(&mut job.place, scratch(&[]));
        std::fs::remove_file(place.path().join("a")).unwrap();
    }
    let mut job = Job::start_in(place, 1, 1, &["--resume", "--checkpoint", "s", "--iterations", "60"]);
    job.coordinator.ends_well();
    let together = job.report();
    let count = together.len().to_string();
    let (alone, _) = ends_with(job.place.path(), 0, &[&JOB[..], &["--iterations", &count]].concat(), b"");
    assert_eq!(together, losses(&alone));
}

#[test]
fn a_job_without_its_coordinator_ends_too() {
    let mut job = Job::start(1, 1, &ENDLESS);
    job.until_it_trains(3);
    job.coordinator.signal("-KILL");
    job.members().for_each(|member| member.ends_badly("without the coordinator"));
}

#[test]
fn strangers_and_garbage_change_nothing() {
    let mut job = Job::start(1, 1, &ENDLESS);
    job.until_it_trains(2);
    let address = std::fs::read_to_string(job.place.path().join("a")).unwrap();
    let mut open = Vec::new();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 300], b"trnyard1 and then nothing", b""] {
        let mut stream = TcpStream::connect(address.trim()).unwrap();
        let _ = stream.write_all(garbage);
        open.push(stream);
    }
    for (token, wanted, code) in [
        ("another secret than that", "does not know this job's secret", 1),
        ("short", "a secret of at least 16 bytes", 2),
    ] {
        let arguments = [&JOB[..], &["--role", "worker", "--join", address.trim()]].concat();
        let mut stranger =
            Member::start(job.place.path(), "stranger", &arguments, &[("TRAINYARD_JOB_TOKEN", token)]);
        assert_eq!(stranger.ends(), Some(code));
        assert!(stranger.said().contains(wanted), "{}", stranger.said());
        assert!(!stranger.said().contains(token) || token == "short", "secrets are not shown");
    }
    let arguments = ["train-job", "mlp", "--role", "worker", "--join", "a", "--seed", "7"];
    let mut other = Member::start(job.place.path(), "other", &arguments, &[]);
    other.ends_badly("the coordinator refuses: its list of parameters");
    job.until_it_trains(job.report().len() + 3);
    job.coordinator.signal("-TERM");
    job.coordinator.ends_well();
    job.members().for_each(Member::ends_well);
    for mut stream in open {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 72, "a stranger learns nothing");
    }
}

#[test]
fn arguments_that_do_not_go_together_are_told() {
    let place = scratch(&[]);
    let with = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut member = Member::start(place.path(), "one", arguments, environment);
        (member.ends(), member.said())
    };
    for (arguments, wanted) in [
        (&["mlp", "--role", "worker"][..], "needs --join"),
        (&["mlp", "--role", "server", "--join", "a", "--set", "hidden=3"], "--set says nothing to a server"),
        (
            &["mlp", "--role", "worker", "--join", "a", "--checkpoint", "s"],
            "give it to a peer or coordinator",
        ),
        (&["mlp", "--role", "peer"], "the environment variable WORLD_SIZE"),
        (&["svm", "--role", "coordinator"], "svm cannot train with parameter servers"),
        (&["mlp", "--role", "boss"], "coordinator"),
        (&["mlp", "--workers", "3"], "--role"),
    ] {
        let (code, said) = with(&[&["train-job"], arguments].concat(), &[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    let peer = ["train-job", "mlp", "--role", "peer"];
    let (code, said) = with(&peer, &[("RANK", "2"), ("WORLD_SIZE", "2")]);
    assert!(code == Some(2) && said.contains("variable RANK is `2`"), "{said}");
    let (code, said) = with(&peer, &[("RANK", "1"), ("WORLD_SIZE", "2")]);
    assert!(code == Some(2) && said.contains("MASTER_PORT"), "{said}");
    let (code, said) = with(&[&JOB[..], &["--role", "coordinator", "--patience", "1"]].concat(), &[]);
    assert!(code == Some(1) && said.contains("1 workers and 1 servers are missing"), "{said}");
}
