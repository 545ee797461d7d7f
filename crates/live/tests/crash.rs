//! A daemon that is killed at each place where it writes something down or gives an order, and comes back. Whatever it had
//! answered is so, and every job runs as if nothing had been.

#![allow(dead_code, reason = "what tests share is not all used here")]

#[path = "common/mortal.rs"]
mod mortal;
#[path = "common/place.rs"]
mod place;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mortal::{Mortal, at_each_place};
use trainyard_live::store::Store;
use trainyard_sched::control::{Batch, Core, Maker, Moment, Settings};
use trainyard_sched::policies;

/// After so many records the state is kept, so that a run has several snapshots and tails of every length.
const KEEP_EVERY: u64 = 5;
/// More places than this nobody has; a run that dies so late never ends.
const MOST_PLACES: u64 = 2_000;

/// What is asked of the daemon, in order: lines for `yard serve`. Jobs are called by their keys. `$L` is for
/// what [`noting`] does.
///
/// `d` runs when it is withdrawn, so it has to be stopped; `g` ends when it is told that it has one worker, so it has to be
/// resized at work: nothing else ends them in time. `h` is cut short at what it reports, and ends by itself only where it goes
/// on from what it saved.
const STORY: [&str; 19] = [
    "submit a 1 1 $L; sleep 0.1",
    "submit b 1 4 $L; sleep 0.5",
    "submit c 2 2 $L; exit 3",
    "policy srtf",
    "submit d 1 1 $L; sleep 600",
    "node 1 down",
    "submit e 1 1 $L; sleep 0.1",
    "submit e 1 1 $L; sleep 0.1",
    "node 1 up",
    "running d",
    "withdraw d",
    "policy fair",
    "wait",
    "submit g 1 2 $L; until grep -q '\"workers\":1,' $TRAINYARD_CONTROL_FILE; do sleep 0.02; done",
    "running g",
    "submit f 3 3 $L; (sleep 600) & exit 0",
    "enough h 1 1 $L; [ $TRAINYARD_RESUME_ITERATION = 0 ] || exit 0; \
     echo '{\"iteration\":3,\"saved\":3,\"accuracy\":0.6}' >> $TRAINYARD_PROGRESS_FILE; sleep 600",
    "cut h",
    "resume h",
];

/// How each job ends.
const ENDS: [(&str, &str); 8] = [
    ("a", "Completed"),
    ("b", "Completed"),
    ("c", "Failed"),
    ("d", "Withdrawn"),
    ("e", "Completed"),
    ("g", "Completed"),
    ("f", "Completed"),
    ("h", "Completed"),
];

/// A daemon that may die, and what it has promised.
struct Story {
    daemon: Mortal,
    numbers: BTreeMap<String, u32>,
    /// Microseconds that each job has waited and run, as told last.
    served: BTreeMap<u32, (u64, u64)>,
}

impl Story {
    fn begin(folder: PathBuf, crashes: Vec<u64>) -> Self {
        let daemon = Mortal::new(folder, crashes, "fair", KEEP_EVERY);
        Self { daemon, numbers: BTreeMap::new(), served: BTreeMap::new() }
    }

    fn tell(&mut self, line: &str) {
        let line = line.replace("$L", &noting(&self.daemon.folder.join("log")));
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["submit" | "enough", key, ..] => {
                let answer = self.daemon.ask(&line);
                let number = answer.split(' ').next().and_then(|number| number.parse().ok());
                let number: u32 = number.unwrap_or_else(|| panic!("{answer}"));
                let before = self.numbers.insert(key.to_owned(), number);
                assert!(before.is_none_or(|before| before == number), "{key} was {before:?}, is {number}");
            }
            ["withdraw", key] => {
                let number = self.numbers[key];
                assert_eq!(self.daemon.ask(&format!("withdraw {number}")), "withdrawn");
            }
            [what @ ("running" | "cut" | "resume"), key] => {
                let number = self.numbers[key];
                let answer = if what == "resume" { "resumed" } else { what };
                assert_eq!(self.daemon.ask(&format!("{what} {number}")), answer);
            }
            ["wait"] => drop(self.daemon.ask("wait")),
            ["policy", ..] => assert_eq!(self.daemon.ask(&line), "chosen"),
            _ => assert_eq!(self.daemon.ask(&line), "changed"),
        }
        self.look_at_served();
    }

    /// Time that a job has had is not taken from it.
    fn look_at_served(&mut self) {
        let told = self.daemon.ask("served");
        for job in told.split(' ').filter(|job| !job.is_empty()) {
            let parts: Vec<u64> = job.split(':').map(|part| part.parse().expect("a number")).collect();
            let now = (parts[1], parts[2]);
            let before = self.served.insert(parts[0] as u32, now).unwrap_or_default();
            assert!(now.0 >= before.0 && now.1 >= before.1, "job {}: {before:?}, then {now:?}", parts[0]);
        }
    }

    fn run(mut self) -> usize {
        fs::create_dir_all(self.daemon.folder.join("log")).expect("a folder");
        STORY.iter().for_each(|line| self.tell(line));
        let ended = self.daemon.ask("wait");
        // Asked again, everything is as it was answered.
        assert_eq!(self.daemon.ask("who"), "fair Up Up");
        for (place, (key, _)) in ENDS.iter().enumerate() {
            assert_eq!(self.numbers[*key] as usize, place, "{key}: in the order of the requests");
            assert_eq!(self.daemon.ask(&format!("submit {key} 1 1 true")), format!("{place} false"));
        }
        let expected: Vec<String> =
            ENDS.iter().enumerate().map(|(n, (_, outcome))| format!("{n}:Some({outcome})")).collect();
        let told: Vec<&str> =
            ended.split(' ').map(|job| job.rsplit_once(':').map_or(job, |(job, _)| job)).collect();
        assert_eq!(told, expected, "{ended}");
        self.look_at_starts(&ended);
        let deaths = self.daemon.leave();
        nothing_is_left(&self.daemon.folder);
        the_journal_says_what_was_kept(&self.daemon.folder.join("journal.sqlite"));
        deaths
    }

    /// No attempt began twice, and no two of one job were there at the same time.
    fn look_at_starts(&self, ended: &str) {
        for job in ended.split(' ') {
            let parts: Vec<&str> = job.split(':').collect();
            let log = fs::read_to_string(self.daemon.folder.join("log").join(parts[0])).unwrap_or_default();
            let mut starts: Vec<&str> = log.lines().collect();
            assert!(!starts.contains(&"twice"), "job {} ran twice at a time: {starts:?}", parts[0]);
            let all = starts.len();
            starts.dedup();
            assert_eq!(starts.len(), all, "an attempt of job {} began twice: {log}", parts[0]);
            let begun = parts[1] == "Some(Withdrawn)" || starts.last() == Some(&parts[2]);
            assert!(begun, "job {}: the last of {starts:?} should be {}", parts[0], parts[2]);
        }
    }
}

/// A script's beginning: each program holds a lock of its own for as long as it or a child of it lives. If another is there
/// with the same lock, or one of another attempt, that is written down; and the first one writes down the attempt.
fn noting(log: &Path) -> String {
    let log = log.display();
    format!(
        "B={log}/$TRAINYARD_JOB; A=$B-$TRAINYARD_ATTEMPT; exec 9>>$A-$RANK.lock; flock -n 9 || echo twice >> $B; \
         for F in $B-*.lock; do case $F in $A-*) ;; *) flock -ns $F true || echo twice >> $B ;; esac; done; \
         [ $RANK != 0 ] || echo $TRAINYARD_ATTEMPT >> $B"
    )
}

/// No process and no group of the kernel outlives the jobs.
fn nothing_is_left(folder: &Path) {
    let mark = folder.join("jobs").display().to_string();
    let processes = fs::read_dir("/proc").expect("there is /proc").flatten();
    let left: Vec<PathBuf> = processes
        .map(|entry| entry.path())
        .filter(|path| {
            let is_marked = |name: &str| {
                fs::read(path.join(name)).is_ok_and(|all| String::from_utf8_lossy(&all).contains(&mark))
            };
            is_marked("environ") || is_marked("cmdline")
        })
        .collect();
    assert!(left.is_empty(), "{left:?} run on");
    let name = format!("yard-{}", folder.file_name().expect("a name").to_string_lossy());
    for controller in ["", "cpu", "memory"] {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for path in own.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
            let group = Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'));
            assert!(!group.join(&name).exists(), "{} is left", group.join(&name).display());
        }
    }
}

/// The state as it was kept is, byte by byte, the state that the whole journal tells.
fn the_journal_says_what_was_kept(journal: &Path) {
    let (_, contents) = Store::open(journal, || unreachable!("it is there")).expect("it can be read");
    assert!(contents.tail.is_empty(), "leaving keeps the state");
    let kept = contents.kept.expect("a state was kept");
    let whole = Store::read(journal).expect("it can be read");
    let policy = policies::build(&whole.head.policy, &whole.head.parameters).expect("a policy");
    let settings = Settings { seed: whole.head.seed, abilities: whole.head.abilities, strict: false };
    let maker: Maker =
        Box::new(|name, parameters| policies::build(name, parameters).map_err(|error| error.to_string()));
    let mut core = Core::new(whole.head.cluster, whole.head.tenants, policy, settings).with_maker(maker);
    for (record, _) in &whole.tail {
        let batch = Batch { at: record.at, events: record.events.clone() };
        core.retell(&batch, &record.step).expect("it can be told again");
    }
    let bytes = |moment: &Moment| serde_json::to_string(moment).expect("it can be written");
    assert_eq!(bytes(&kept.moment), bytes(&core.moment(kept.moment.at)));
}

#[test]
fn a_daemon_that_dies_anywhere_comes_back_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().expect("a folder");
    at_each_place(folder.path(), MOST_PLACES, |folder, crashes| Story::begin(folder, crashes).run());
}
