//! A model in partitions, through the binary: each is a process that is moved, told to end, or killed, while those of the others stay.
//! Losses are those of one process whatever happens.

mod member;
mod program;

use std::path::PathBuf;

use member::{Member, losses, until};
use program::{ends_with, scratch};
use serde_json::Value;
use tempfile::TempDir;

/// Three layers of weights.
const JOB: [&str; 5] = ["train-job", "mlp", "--generate", "rows=500", "--set=layers=2,hidden=20,batch=64"];

struct Job {
    place: TempDir,
    iterations: String,
    members: Vec<Member>,
    moves: usize,
}

impl Job {
    fn start(count: usize, iterations: &str) -> Self {
        let mut job =
            Self { place: scratch(&[]), iterations: iterations.to_owned(), members: Vec::new(), moves: 0 };
        for number in 0..count {
            let member = job.member(number, count);
            job.members.push(member);
        }
        job
    }

    fn member(&self, number: usize, count: usize) -> Member {
        let (text, of) = (number.to_string(), count.to_string());
        let folder = self.place.path().join(&text);
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (checkpoint, report) = (path("state.safetensors"), path("report"));
        let cut = ["--partitions", &of, "--partition", &text, "--meet", "meet", "--output", "json"];
        let files = ["--checkpoint", &checkpoint, "--every", "5", "--resume", "--report", &report];
        let stop = ["--iterations", &self.iterations, "--patience", "3"];
        let name = format!("{number}-{}", self.moves);
        Member::start(self.place.path(), &name, &[&JOB[..], &cut, &files, &stop].concat(), &[])
    }

    /// Starts one again that has ended.
    fn again(&mut self, number: usize) {
        self.moves += 1;
        self.members[number] = self.member(number, self.members.len());
    }

    fn report(&self, number: usize) -> Vec<(u64, f64)> {
        let path: PathBuf = self.place.path().join(number.to_string()).join("report");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        losses(&text[..text.rfind('\n').map_or(0, |end| end + 1)])
    }

    fn told(&self) -> usize {
        self.report(self.members.len() - 1).len()
    }

    #[track_caller]
    fn trains_on(&self) {
        let told = self.told();
        until("it trains on", || self.told() > told + 2);
    }

    #[track_caller]
    fn agrees_with_one_process(&self) {
        let together = self.report(self.members.len() - 1);
        let count = together.len().to_string();
        let (alone, _) =
            ends_with(self.place.path(), 0, &[&JOB[..], &["--iterations", &count]].concat(), b"");
        assert_eq!(together, losses(&alone));
    }
}

#[test]
fn partitions_train_as_one_process_does() {
    for count in [1, 2, 3] {
        let mut job = Job::start(count, "12");
        job.members.iter_mut().for_each(Member::ends_well);
        assert_eq!(job.told(), 12);
        job.agrees_with_one_process();
        let summary: Value = serde_json::from_str(&job.members[count - 1].printed()).unwrap();
        assert_eq!(
            (summary["ended"].as_str(), summary["iterations"].as_u64()),
            (Some("iterations"), Some(12))
        );
        assert_eq!(summary["workers"].as_u64(), (count > 1).then_some(count as u64));
    }
}

#[test]
fn each_partition_is_moved_and_killed_and_the_others_stay() {
    let mut job = Job::start(3, "100000000");
    job.trains_on();
    for number in 0..3 {
        job.members[number].signal("-TERM");
        job.members[number].ends_well();
        assert!(job.members[number].said().contains("State is saved after iteration"));
        job.again(number);
        job.trains_on();
    }
    for number in 0..3 {
        job.members[number].signal("-KILL");
        assert_eq!(job.members[number].ends(), None, "a signal");
        job.again(number);
        job.trains_on();
    }
    // One that hangs is lost, too, and when it wakes its place is taken.
    job.members[1].signal("-STOP");
    let lost = "waits for partition 1: it was silent for too long";
    until("it is missed", || job.members[0].said().contains(lost));
    job.moves += 1;
    let new = job.member(1, 3);
    let mut hung = std::mem::replace(&mut job.members[1], new);
    job.trains_on();
    hung.signal("-CONT");
    job.trains_on();
    hung.signal("-TERM");
    hung.ends_well();
    job.trains_on();
    let same = |number: usize| job.members[number].said().matches("learns from").count();
    assert_eq!([0, 1, 2].map(same), [1; 3]);
    // All of them, and all again.
    let told = job.told();
    job.members.iter().for_each(|member| member.signal("-TERM"));
    job.members.iter_mut().for_each(Member::ends_well);
    job.iterations = (told + 20).to_string();
    (0..3).for_each(|number| job.again(number));
    job.members.iter_mut().for_each(Member::ends_well);
    assert_eq!(job.told(), told + 20);
    job.agrees_with_one_process();
}

#[test]
fn what_cannot_be_is_told() {
    let mut job = Job::start(2, "100000000");
    job.trains_on();
    job.members[0].signal("-TERM");
    job.members[0].ends_well();
    // The one after it does not take part in another training.
    let cut = ["--partitions", "2", "--partition", "0", "--meet", "meet", "--seed", "7"];
    let cut = [&cut[..], &["--iterations", "100000000"]].concat();
    let mut other = Member::start(job.place.path(), "other", &[&JOB[..], &cut].concat(), &[]);
    job.members[1].ends_badly("without partition 0: it refuses: its seed is");
    other.signal("-TERM");
    other.ends_well();
    let with = |arguments: &[&str]| {
        let mut member = Member::start(job.place.path(), "one", &[&JOB[..], arguments].concat(), &[]);
        (member.ends(), member.said())
    };
    for (arguments, wanted) in [
        (&["--partitions", "3"][..], "--partition"),
        (&["--partitions", "3", "--partition", "3", "--meet", "m"], "there is no partition 3 of 3"),
        (&["--partitions", "4", "--partition", "0", "--meet", "m"], "mlp has 3 layers to be cut"),
        (&["--partitions", "0", "--partition", "0", "--meet", "m"], "0"),
        (&["--partitions", "2", "--partition", "0", "--meet", "m", "--role", "peer"], "--role"),
        (&["--partition", "0"], "--partitions"),
    ] {
        let (code, said) = with(arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
