//! The example with the hook for Python under a real daemon: it is stopped and saves; it is lost and goes on from what it saved.

mod common;

use std::process::{Command, Stdio};

use common::{Yard, command, gang};
use trainyard_live::Work;
use trainyard_live::board::Standing;
use trainyard_sched::control::Outcome;
use trainyard_sched::model::NodeState;

/// The example, with these arguments, if there is a Python to run it.
fn hooked(arguments: &[&str]) -> Option<Work> {
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: the example needs python3, which is not installed");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/jobs/hooked.py");
    let mut work = command(&[&["python3", "-B", script], arguments].concat());
    work.grace_s = 20;
    Some(work)
}

/// The number after some words in what a job printed.
fn number_after(output: &str, words: &str) -> u32 {
    let rest = output.split(words).nth(1).unwrap_or_else(|| panic!("`{words}` is not in {output}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn a_job_that_is_taken_back_saves_and_leaves_by_itself() {
    let Some(work) = hooked(&["--steps=1000000", "--seconds-a-step=0.01", "--checkpoint-every-s=1000"])
    else {
        return;
    };
    let yard = Yard::begin("fifo", "1x1:cpu");
    let job = yard.submit(gang(1), work);
    yard.until(|board| board.jobs[&job].iterations >= 5.0);
    yard.handle().withdraw(job).expect("it is there");
    let card = yard.ends(job);
    assert_eq!(card.outcome, Some(Outcome::Withdrawn));
    let output = yard.output(job, 1);
    let stopped = number_after(&output, "stops after step ");
    assert!(stopped >= 5, "{output}");
    assert_eq!(card.said.as_deref(), Some("exit code 0 after it was told to stop"));
    assert!(!output.contains("Traceback"), "{output}");
}

#[test]
fn a_job_whose_node_goes_down_goes_on_elsewhere_from_what_it_saved() {
    let Some(work) = hooked(&["--steps=400", "--seconds-a-step=0.005", "--checkpoint-every-s=0.05"]) else {
        return;
    };
    let yard = Yard::begin("fifo", "2x1:cpu");
    let job = yard.submit(gang(1), work);
    yard.until(|board| board.jobs[&job].iterations >= 30.0);
    let at = yard.card(job).nodes[0].clone();
    let down = yard.handle().cluster().nodes.iter().find(|node| node.name == at).expect("it runs there").id;
    yard.handle().set_node(down, NodeState::Down).expect("it is there");
    yard.until(|board| board.jobs[&job].state == Standing::Ended);
    let card = yard.card(job);
    assert_eq!((card.outcome, card.attempt, card.iterations), (Some(Outcome::Completed), 2, 400.0));
    let (first, second) = (yard.output(job, 1), yard.output(job, 2));
    assert_eq!(first, "begins after step 0\n");
    assert!(number_after(&second, "begins after step ") > 0, "{second}");
    assert!(second.contains("done, loss 0.0"), "{second}");
}
