//! What goes wrong around a daemon: programs and keepers that are killed or multiply, a full disk, a clock that is set back,
//! journals that are not sound, policies that misbehave, nodes that go and come.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Yard, gang, place, shell};
use rusqlite::Connection;
use trainyard_live::board::Standing;
use trainyard_live::store::Store;
use trainyard_live::{Refusal, Settings, Work};
use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::decide::{Cadence, Decision, Policy, Verdict};
use trainyard_sched::model::{JobId, NodeId, NodeState};
use trainyard_sched::policies;
use trainyard_sched::view::Snapshot;

/// A script that has a child in its group and one in a session of its own, both deaf.
const FAMILY: &str = "trap '' TERM HUP; sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & \
     setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done' & \
     echo ready; while :; do sleep 0.1; done";

fn family() -> Work {
    Work { grace_s: 0, ..shell(FAMILY) }
}

/// The processes below a folder, by their environment.
fn processes(folder: &Path) -> Vec<i32> {
    let mark = format!("TRAINYARD_DIR={}", folder.join("jobs").display());
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| String::from_utf8_lossy(&all).contains(&mark))
    };
    numbers.filter(is_marked).collect()
}

fn begins(yard: &Yard, job: JobId, attempt: u32) {
    yard.until(|board| board.jobs[&job].state == Standing::Running && board.jobs[&job].attempt == attempt);
    let end = Instant::now() + Duration::from_secs(20);
    while yard.output(job, attempt) != "ready\n" {
        assert!(Instant::now() < end, "attempt {attempt} says `{}`", yard.output(job, attempt));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn keeper(yard: &Yard, job: JobId, attempt: u32) -> i32 {
    let claim = yard.path().join(format!("jobs/{}/{attempt}/claim", job.0));
    let claim: serde_json::Value = serde_json::from_slice(&fs::read(claim).unwrap()).unwrap();
    claim["pid"].as_i64().unwrap() as i32
}

#[test]
fn nothing_that_a_job_has_started_outlives_it() {
    let yard = Yard::begin("fifo", "1x4:cpu");
    let job = yard.submit(gang(1), family());
    begins(&yard, job, 1);
    let family = processes(yard.path());
    assert!(family.len() >= 3, "{family:?}");
    yard.handle().withdraw(job).unwrap();
    assert_eq!(yard.ends(job).outcome, Some(Outcome::Withdrawn));
    assert_eq!(processes(yard.path()), Vec::<i32>::new());
    // What is left behind by a program that ends by itself goes too.
    let left = yard.submit(gang(1), shell("setsid sleep 60 & sleep 60 & exit 0"));
    assert_eq!(yard.ends(left).outcome, Some(Outcome::Completed));
    assert_eq!(processes(yard.path()), Vec::<i32>::new());
}

#[test]
fn a_keeper_that_is_killed_takes_its_programs_with_it_before_they_start_anew() {
    let yard = Yard::begin("fifo", "1x4:cpu");
    let job = yard.submit(gang(1), family());
    begins(&yard, job, 1);
    let before = processes(yard.path());
    kill(keeper(&yard, job, 1));
    begins(&yard, job, 2);
    let after = processes(yard.path());
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} and {after:?}");
    assert_eq!(yard.card(job).failures, 1);
}

#[test]
fn keepers_and_daemon_may_die_at_the_same_time() {
    let mut yard = Yard::begin("fifo", "1x4:cpu");
    let job = yard.submit(gang(1), family());
    begins(&yard, job, 1);
    let (before, keeper) = (processes(yard.path()), keeper(&yard, job, 1));
    yard.leave();
    kill(keeper);
    yard.come_back();
    begins(&yard, job, 2);
    let after = processes(yard.path());
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} and {after:?}");
}

#[test]
fn a_start_that_fails_is_not_tried_again_at_once() {
    let yard = Yard::begin("fifo", "1x4:cpu");
    // The folder of the job cannot be made.
    fs::write(yard.path().join("jobs"), "in the way").unwrap();
    let job = yard.submit(gang(1), shell("true"));
    std::thread::sleep(Duration::from_millis(1500));
    let card = yard.card(job);
    assert!((2..=4).contains(&card.attempt), "{} attempts in 1.5 s", card.attempt);
    assert!(card.said.is_some_and(|said| said.starts_with("cannot be started")));
    fs::remove_file(yard.path().join("jobs")).unwrap();
    assert_eq!(yard.ends(job).outcome, Some(Outcome::Completed));
}

#[test]
fn a_node_that_goes_and_comes_never_leads_to_two_copies() {
    let yard = Yard::begin("fifo", "2x1:cpu");
    let log = yard.path().join("log");
    let script = format!(
        "exec 9>>{0}.lock; flock -n 9 || echo twice >> {0}; echo $TRAINYARD_ATTEMPT >> {0}; \
         trap '' TERM; while [ ! -e {0}.enough ]; do sleep 0.02; done",
        log.display()
    );
    let job = yard.submit(gang(1), shell(&script));
    // Briefly and for longer, before the keeper has its order, before the program has begun, and after.
    for round in 0_u64..24 {
        yard.until(|board| matches!(board.jobs[&job].state, Standing::Starting | Standing::Running));
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        let card = yard.card(job);
        let Some(at) = card.nodes.first() else { continue };
        let node = yard.handle().cluster().nodes.iter().find(|node| node.name == *at).unwrap().id;
        yard.handle().set_node(node, NodeState::Down).unwrap();
        if round % 3 == 0 {
            yard.until(|board| board.jobs[&job].attempt > card.attempt);
        }
        yard.handle().set_node(node, NodeState::Up).unwrap();
    }
    fs::write(yard.path().join("log.enough"), "").unwrap();
    let card = yard.ends(job);
    // However often nodes went down, that is not held against the job.
    assert_eq!(card.outcome, Some(Outcome::Completed), "{card:?}");
    let begun = fs::read_to_string(log).unwrap();
    assert!(!begun.contains("twice") && begun.lines().count() > 4, "{begun}");
}

#[test]
fn a_node_that_nobody_knows_changes_nothing() {
    let yard = Yard::begin("fifo", "1x1:cpu");
    yard.handle().set_node(NodeId(7), NodeState::Down).unwrap();
    let job = yard.submit(gang(1), shell("true"));
    assert_eq!(yard.ends(job).outcome, Some(Outcome::Completed));
}

#[test]
fn a_full_disk_makes_answers_late_and_loses_nothing() {
    let Some(mut yard) = Yard::begin_on_disk("fifo", "1x1:cpu", 1 << 20) else {
        println!("skipped: this needs to mount a small disk, which only root may");
        return;
    };
    let runs = yard.submit(gang(1), shell("sleep 0.5"));
    yard.until(|board| board.jobs[&runs].state == Standing::Running);
    let ballast = yard.path().join("ballast");
    let fill = || fs::write(&ballast, vec![1; 2 << 20]).unwrap_err();
    fill();
    let handle = yard.handle();
    let asks = std::thread::spawn(move || {
        handle.submit(place::submission(gang(1), shell("true"), Some("late".into())))
    });
    yard.until(|board| board.stalled.is_some());
    assert!(yard.handle().board().stalled.clone().unwrap().contains("full"));
    std::thread::sleep(Duration::from_secs(1));
    assert!(!asks.is_finished(), "nobody is told what is not on disk");
    fs::remove_file(&ballast).unwrap();
    let (late, new) = asks.join().unwrap().unwrap();
    assert!(new && late == JobId(1));
    assert_eq!(yard.ends(runs).outcome, Some(Outcome::Completed), "it ended while there was no room");
    assert_eq!(yard.ends(late).outcome, Some(Outcome::Completed));
    assert_eq!(yard.handle().board().stalled, None);

    // It can be stopped while the disk is full; who asked in vain is told so, and may ask again.
    fill();
    let handle = yard.handle();
    let asks = std::thread::spawn(move || {
        handle.submit(place::submission(gang(1), shell("true"), Some("vain".into())))
    });
    yard.until(|board| board.stalled.is_some());
    yard.leave();
    assert_eq!(asks.join().unwrap(), Err(Refusal::Leaving));
    fs::remove_file(&ballast).unwrap();
    yard.come_back();
    assert_eq!(yard.submit_as("late", gang(1), shell("true")), (late, false));
    assert_eq!(yard.submit_as("vain", gang(1), shell("true")), (JobId(2), true));
    assert_eq!(yard.ends(JobId(2)).outcome, Some(Outcome::Completed));
}

/// Changes the journal while nobody is there.
fn tamper(yard: &Yard, change: &str) {
    let journal = Connection::open(yard.path().join("journal.sqlite")).unwrap();
    journal.execute_batch(change).unwrap();
}

fn refusal(yard: &Yard) -> String {
    yard.second().err().expect("it cannot begin").to_string()
}

#[test]
fn a_journal_that_is_newer_or_damaged_is_refused_and_not_touched() {
    let mut yard = Yard::begin("fifo", "1x1:cpu");
    let job = yard.submit(gang(1), shell("true"));
    yard.ends(job);
    yard.leave();
    let path = yard.path().join("journal.sqlite");
    tamper(&yard, "PRAGMA user_version = 9");
    let before = fs::read(&path).unwrap();
    assert!(refusal(&yard).contains("has version 9, and this program knows 1"), "{}", refusal(&yard));
    assert_eq!(fs::read(&path).unwrap(), before);
    tamper(&yard, "PRAGMA user_version = 1; UPDATE head SET body = '{\"version\":5,\"unheard\":[]}'");
    assert!(refusal(&yard).contains("has version 5, and this program knows 1"), "{}", refusal(&yard));
    fs::write(&path, "no database at all").unwrap();
    assert!(refusal(&yard).contains("not a database"), "{}", refusal(&yard));
}

#[test]
fn a_damaged_record_is_named_and_a_damaged_snapshot_does_without() {
    let mut yard = Yard::begin("fifo", "1x1:cpu");
    let job = yard.submit(gang(1), shell("true"));
    let card = yard.ends(job);
    let another = yard.submit(gang(1), shell("true"));
    yard.ends(another);
    yard.leave();
    tamper(&yard, "UPDATE snapshots SET checksum = checksum + 1");
    yard.come_back();
    assert_eq!(yard.card(job), card);
    yard.leave();
    tamper(&yard, "DELETE FROM snapshots; UPDATE records SET body = body || ' ' WHERE number = 2");
    assert!(refusal(&yard).contains("record 2 is damaged (its checksum is wrong)"), "{}", refusal(&yard));
    tamper(&yard, "DELETE FROM records WHERE number = 2");
    assert!(refusal(&yard).contains("record 3 is damaged (one before it is missing)"), "{}", refusal(&yard));
}

#[test]
fn a_wall_clock_that_is_set_back_does_not_turn_time_back() {
    let mut yard = Yard::begin("fifo", "1x1:cpu");
    let job = yard.submit(gang(1), shell("sleep 0.1"));
    let ended = yard.ends(job).ended.unwrap();
    yard.leave();
    // As if the last records had been written tomorrow.
    tamper(&yard, "UPDATE records SET wall_us = wall_us + 86400000000");
    yard.come_back();
    let next = yard.submit(gang(1), shell("true"));
    let card = yard.ends(next);
    assert!(card.submitted > ended && card.submitted < ended + trainyard_sched::model::Span::from_secs(60));
}

#[test]
fn other_machines_or_tenants_are_another_folder() {
    let mut yard = Yard::begin("fifo", "1x1:cpu");
    yard.leave();
    yard.unusual(|settings: &mut Settings| {
        settings.tenants.intern("another");
    });
    assert!(refusal(&yard).contains("has the tenants default, and these are default, another"));
    yard.unusual(|settings: &mut Settings| settings.cluster = place::cluster((3, 1)));
    assert!(refusal(&yard).contains("choose another folder for another cluster"));
}

/// Decides first come, first served, after it has been in this mood so many times.
struct Moody {
    usual: Box<dyn Policy>,
    left: Arc<AtomicU32>,
    mood: fn(),
}

impl Policy for Moody {
    fn cadence(&self) -> Cadence {
        self.usual.cadence()
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            (self.mood)();
        }
        self.usual.decide(seen)
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.usual.explain(seen, job)
    }
}

fn moody(times: u32, mood: fn()) -> Yard {
    Yard::begin_with("fifo", "1x1:cpu", move |settings| {
        let left = Arc::new(AtomicU32::new(times));
        settings.budget = Duration::from_millis(200);
        settings.policies = Arc::new(move |name, parameters| {
            let (name, parameters, left) = (name.to_owned(), parameters.clone(), Arc::clone(&left));
            Ok(Arc::new(move || {
                let usual = policies::build(&name, &parameters).unwrap();
                Box::new(Moody { usual, left: Arc::clone(&left), mood })
            }))
        });
    })
}

#[test]
fn a_policy_that_panics_or_thinks_too_long_costs_a_cycle() {
    let moods: [(fn(), &str); 2] = [
        (|| panic!("a bad mood"), "a bad mood"),
        (|| std::thread::sleep(Duration::from_secs(2)), "did not decide within 200ms"),
    ];
    for (mood, told) in moods {
        let mut yard = moody(1, mood);
        // Nothing else happens that could make the loop ask again.
        let job = yard.submit(gang(1), shell("true"));
        assert_eq!(yard.card(job).state, Standing::Waiting);
        assert_eq!(yard.ends(job).outcome, Some(Outcome::Completed));
        assert_eq!(yard.handle().board().lost_cycles, 1);
        yard.leave();
        let contents = Store::read(&yard.path().join("journal.sqlite")).unwrap();
        let panics: Vec<&String> =
            contents.tail.iter().filter_map(|(record, _)| record.step.panic.as_ref()).collect();
        assert!(panics.len() == 1 && panics[0].contains(told), "{panics:?}");
    }
}

#[test]
fn a_daemon_that_comes_back_wakes_when_it_would_have() {
    // When it is submitted, and when the daemon leaves.
    let mut yard = moody(2, || panic!("a bad mood"));
    let job = yard.submit(gang(1), shell("true"));
    yard.restart(Duration::ZERO);
    // The question that the policy did not answer is still open, and nothing else happens.
    assert_eq!(yard.card(job).state, Standing::Waiting);
    assert_eq!(yard.ends(job).outcome, Some(Outcome::Completed));
}

#[test]
fn a_policy_with_bad_parameters_is_refused_and_the_journal_shows_it() {
    let mut yard = Yard::begin("fifo", "1x2:cpu");
    let job = yard.submit(gang(1), shell("sleep 0.5"));
    let nothing = toml::Table::new();
    yard.handle().choose("slaq", &nothing).unwrap();
    let bad: toml::Table = toml::from_str("epoch_s = -3").unwrap();
    let Err(Refusal::Policy(why)) = yard.handle().choose("slaq", &bad) else { panic!("it was taken") };
    assert!(why.contains("epoch_s"), "{why}");
    // Of several at a time each is told what came of it.
    let asked: Vec<bool> = std::thread::scope(|scope| {
        let ask = |name: &'static str| {
            let (handle, nothing) = (yard.handle(), nothing.clone());
            scope.spawn(move || handle.choose(name, &nothing).is_ok())
        };
        let threads: Vec<_> = ["srtf", "nonsense", "srtf", "nonsense"].into_iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(asked, [true, false, true, false]);
    assert_eq!(yard.handle().board().policy, "srtf");
    assert_eq!(yard.ends(job).attempt, 1);
    yard.restart(Duration::ZERO);
    assert_eq!(yard.handle().board().policy, "srtf");
    let contents = Store::read(&yard.path().join("journal.sqlite")).unwrap();
    let changes: Vec<(String, bool)> = contents
        .tail
        .iter()
        .flat_map(|(record, _)| record.events.iter().map(|event| (event, record.step.unchanged.is_none())))
        .filter_map(|(event, made)| match event {
            Event::PolicyChanged { policy, .. } => Some((policy.clone(), made)),
            _ => None,
        })
        .collect();
    assert_eq!(changes[..2], [("slaq".to_owned(), true), ("slaq".to_owned(), false)]);
    assert_eq!(changes.len(), 6);
    assert!(changes[2..].iter().all(|(policy, made)| *made == (policy == "srtf")), "{changes:?}");
}

#[test]
fn work_that_makes_no_sense_is_refused() {
    let yard = Yard::begin("fifo", "1x1:cpu");
    assert!(matches!(yard.try_submit(gang(1), Work::new(Vec::new())), Err(Refusal::Work(_))));
}
