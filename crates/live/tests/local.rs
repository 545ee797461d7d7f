//! A daemon on this machine: real programs, started, followed, stopped and found again.

mod common;

use std::time::Duration;

use common::{Yard, gang, shell};
use trainyard_live::board::Standing;
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{JobId, NodeId, NodeState};

#[test]
fn a_program_runs_and_what_it_reports_is_shown() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let job = yard.submit(
        gang(1),
        shell(
            "for i in 1 2 3; do echo \"{\\\"iteration\\\":$i,\\\"loss\\\":0.$i}\" >> $TRAINYARD_PROGRESS_FILE; sleep 0.05; done; echo done",
        ),
    );
    let card = yard.ends(job);
    assert_eq!((card.outcome, card.said.as_deref()), (Some(Outcome::Completed), Some("finished")));
    assert_eq!((card.iterations, card.loss), (3.0, Some(0.3)));
    assert_eq!(card.curve.points, [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)]);
    assert_eq!(yard.output(job, 1), "done\n");
}

#[test]
fn how_a_program_ends_is_told() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let fails = yard.submit(gang(1), shell("exit 3"));
    let mut twice = shell("exit 4");
    twice.retries = 1;
    let retried = yard.submit(gang(1), twice);
    let missing = yard.submit(gang(1), common::command(&["/no/such/program"]));
    let card = yard.ends(fails);
    assert_eq!((card.outcome, card.said.as_deref()), (Some(Outcome::Failed), Some("exit code 3")));
    let card = yard.ends(retried);
    assert_eq!((card.outcome, card.attempt, card.failures), (Some(Outcome::Failed), 2, 1));
    let card = yard.ends(missing);
    assert_eq!(card.outcome, Some(Outcome::Failed));
    assert!(yard.output(missing, 1).contains("cannot start `/no/such/program`"));
}

#[test]
fn who_waits_gets_the_room_of_who_ends() {
    let yard = Yard::begin("fifo", "1x1:cpu");
    let first = yard.submit(gang(1), shell("sleep 0.3"));
    let second = yard.submit(gang(1), shell("true"));
    yard.until(|board| board.jobs[&first].state == Standing::Running);
    assert_eq!(yard.card(second).state, Standing::Waiting);
    let (first, second) = (yard.ends(first), yard.ends(second));
    assert!(second.started >= first.ended, "{second:?} started before {first:?} ended");
}

#[test]
fn a_job_that_is_taken_back_is_told_to_stop_and_killed_if_it_does_not() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let polite = yard.submit(gang(1), shell("trap 'echo bye; exit 0' TERM; while true; do sleep 0.02; done"));
    let mut work = shell("trap '' TERM; while true; do sleep 0.02; done");
    work.grace_s = 1;
    let deaf = yard.submit(gang(1), work);
    yard.until(|board| [polite, deaf].iter().all(|job| board.jobs[job].state == Standing::Running));
    std::thread::sleep(Duration::from_millis(100));
    yard.handle().withdraw(polite).unwrap();
    yard.handle().withdraw(deaf).unwrap();
    assert_eq!(yard.ends(polite).outcome, Some(Outcome::Withdrawn));
    assert!(yard.output(polite, 1).ends_with("bye\n"));
    let card = yard.ends(deaf);
    assert_eq!(card.said.as_deref(), Some("ended by signal 9 after it was told to stop"));
}

#[test]
fn a_gang_is_several_processes_that_know_each_other_and_die_together() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let mut work = shell("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK; sleep 0.1");
    work.launch = trainyard_live::Launch::PerWorker;
    let gang_of_six = yard.submit(gang(6), work);
    assert_eq!(yard.ends(gang_of_six).outcome, Some(Outcome::Completed));
    let mut lines: Vec<String> =
        (0..6).map(|rank| yard.output_of(gang_of_six, 1, rank).trim().to_owned()).collect();
    lines.sort();
    assert_eq!(lines[0], "0/6 0/4 node 0");
    assert_eq!(lines[5], "5/6 1/2 node 1");

    let mut work = shell("if [ $RANK = 1 ]; then exit 9; fi; sleep 60");
    work.launch = trainyard_live::Launch::PerWorker;
    let broken = yard.submit(gang(3), work);
    let card = yard.ends(broken);
    assert_eq!((card.outcome, card.said.as_deref()), (Some(Outcome::Failed), Some("exit code 9")));
}

#[test]
fn a_job_that_somebody_kills_goes_on_from_what_it_saved() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let job = yard.submit(
        gang(1),
        shell(
            "echo from $TRAINYARD_RESUME_ITERATION; if [ $TRAINYARD_ATTEMPT = 1 ]; then \
             echo '{\"iteration\":7,\"saved\":5}' >> $TRAINYARD_PROGRESS_FILE; sleep 0.2; kill -9 $$; fi",
        ),
    );
    let card = yard.ends(job);
    assert_eq!((card.outcome, card.attempt, card.failures), (Some(Outcome::Completed), 2, 1));
    assert_eq!((yard.output(job, 1), yard.output(job, 2)), ("from 0\n".into(), "from 5\n".into()));
}

#[test]
fn a_node_that_goes_down_takes_its_jobs_with_it_and_they_run_elsewhere() {
    let yard = Yard::begin("fifo", "2x1:cpu");
    let job = yard.submit(gang(1), shell("[ $TRAINYARD_ATTEMPT = 2 ] || sleep 60"));
    yard.until(|board| board.jobs[&job].state == Standing::Running);
    let at = yard.card(job).nodes[0].clone();
    let down = yard.handle().cluster().nodes.iter().find(|node| node.name == at).unwrap().id;
    yard.handle().set_node(down, NodeState::Down).unwrap();
    let card = yard.ends(job);
    assert_eq!((card.outcome, card.attempt, card.failures), (Some(Outcome::Completed), 2, 1));
    assert_eq!(yard.handle().board().nodes[down.index()].state, NodeState::Down);
    assert_ne!(down, NodeId(9));
}

#[test]
fn a_daemon_that_comes_back_finds_what_runs_and_what_ended_meanwhile() {
    let mut yard = Yard::begin("fifo", "1x4:cpu");
    let long = yard.submit(gang(1), shell("sleep 1; echo long"));
    let short = yard.submit(gang(1), shell("sleep 0.2; echo short; exit 5"));
    let waits = yard.submit(gang(4), shell("true"));
    yard.until(|board| [long, short].iter().all(|job| board.jobs[job].state == Standing::Running));
    yard.restart(Duration::from_millis(500));
    let card = yard.ends(short);
    assert_eq!((card.outcome, card.attempt), (Some(Outcome::Failed), 1), "{card:?}");
    let card = yard.ends(long);
    assert_eq!((card.outcome, card.attempt), (Some(Outcome::Completed), 1), "{card:?}");
    assert_eq!(yard.ends(waits).outcome, Some(Outcome::Completed));
    assert_eq!((yard.output(long, 1), yard.output(short, 1)), ("long\n".into(), "short\n".into()));
    // Nothing is told twice, and new jobs get new numbers.
    assert_eq!(yard.submit(gang(1), shell("true")), JobId(3));
}

#[test]
fn the_same_request_is_the_same_job() {
    let mut yard = Yard::begin("fifo", "1x4:cpu");
    let first = yard.submit_as("a", gang(1), shell("true"));
    assert_eq!(yard.submit_as("a", gang(1), shell("true")), (first.0, false));
    yard.restart(Duration::ZERO);
    assert_eq!(yard.submit_as("a", gang(1), shell("true")), (first.0, false));
    assert_eq!(yard.submit_as("b", gang(1), shell("true")), (JobId(1), true));
}

#[test]
fn a_policy_is_changed_while_jobs_run_and_the_change_outlives_a_restart() {
    let mut yard = Yard::begin("fifo", "1x4:cpu");
    let job = yard.submit(gang(1), shell("sleep 0.6"));
    let nothing = toml::Table::new();
    assert!(yard.handle().choose("fifoo", &nothing).is_err());
    yard.handle().choose("srtf", &nothing).unwrap();
    assert_eq!(yard.handle().board().policy, "srtf");
    yard.restart(Duration::ZERO);
    assert_eq!(yard.handle().board().policy, "srtf");
    assert_eq!(yard.ends(job).attempt, 1);
}

#[test]
fn what_can_never_run_is_refused_with_what_could() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let refused = yard.try_submit(gang(9), shell("true")).unwrap_err();
    assert_eq!(refused, trainyard_live::Refusal::NeverFits { least: 9, most: 8 });
}

#[test]
fn two_daemons_do_not_share_a_folder() {
    let yard = Yard::begin("fifo", "1x4:cpu");
    let error = yard.second().err().expect("the folder is taken");
    assert!(error.to_string().contains("another daemon uses this folder"), "{error}");
}
