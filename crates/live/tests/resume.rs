//! Jobs that are cut short by their stop rules, what is said of that, and how they go on if their owners want so, across deaths
//! and restarts of the daemon.

mod common;

use std::time::Duration;

use common::{Yard, gang, place, shell};
use trainyard_live::Refusal;
use trainyard_live::board::Standing;
use trainyard_sched::control::Outcome;
use trainyard_sched::model::{Accuracy, JobId, StopRule};

/// A program that says from where it goes on, gets better with each iteration, and has twenty of them.
const LEARNS: &str = "I=$TRAINYARD_RESUME_ITERATION; echo from $I; while [ $I -lt 20 ]; do I=$((I+1)); \
    A=$(printf '0.%02d' $((I*4))); \
    echo \"{\\\"iteration\\\":$I,\\\"saved\\\":$I,\\\"loss\\\":0.5,\\\"accuracy\\\":$A}\" >> $TRAINYARD_PROGRESS_FILE; sleep 0.1; done";

/// A job that needs an accuracy of 0.2, which it has after five iterations.
fn soon_enough(yard: &Yard) -> JobId {
    let mut submission = place::submission(gang(1), shell(LEARNS), None);
    submission.job.goals.stop = StopRule::AtAccuracy(Accuracy(0.2));
    submission.job.declared.iterations = Some(20.0);
    yard.handle().submit(submission).expect("it fits").0
}

#[test]
fn a_job_that_was_cut_short_goes_on_from_what_it_saved_and_to_its_own_end() {
    let mut yard = Yard::begin("fifo", "2x4:cpu");
    let job = soon_enough(&yard);
    let card = yard.ends(job);
    assert_eq!(card.outcome, Some(Outcome::StopRuleMet));
    let early = card.early.expect("why is said");
    assert!(
        early.to_string().starts_with("stopped at 0.2") && early.to_string().contains("of 0.200 needed"),
        "{early}"
    );
    let saved = card.saved;
    assert!((5.0..20.0).contains(&saved), "{saved}");
    assert_eq!(yard.handle().board().cut_short.get("reached"), Some(&1));
    // It is known after a restart, too.
    yard.restart(Duration::ZERO);
    assert_eq!((yard.card(job).early, yard.card(job).saved), (Some(early), saved));
    yard.handle().resume(job).expect("it was cut short");
    yard.handle().resume(job).expect("once more changes nothing");
    // And a daemon that comes back while it runs again finds it.
    yard.until(|board| board.jobs[&job].attempt == 2);
    yard.restart(Duration::ZERO);
    yard.handle().resume(job).expect("it was taken up");
    let card = yard.ends(job);
    assert_eq!((card.outcome, card.iterations, card.attempt), (Some(Outcome::Completed), 20.0, 2));
    assert_eq!(card.early, None);
    assert_eq!(yard.output(job, 2).trim(), format!("from {saved}"));
    yard.restart(Duration::ZERO);
    let card = yard.card(job);
    assert_eq!((card.outcome, card.iterations, card.early), (Some(Outcome::Completed), 20.0, None));
}

#[test]
fn only_a_job_that_was_cut_short_is_taken_up() {
    let yard = Yard::begin("fifo", "2x4:cpu");
    let refused = |job: JobId| match yard.handle().resume(job) {
        Err(refusal @ Refusal::NotCutShort { .. }) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    let done = yard.submit(gang(1), shell("true"));
    yard.ends(done);
    assert!(refused(done).contains("has come to its own end; only a job that its stop rule has cut short"));
    let runs = yard.submit(gang(1), shell("sleep 30"));
    yard.until(|board| board.jobs[&runs].state == Standing::Running);
    assert!(refused(runs).contains("has not ended"));
    yard.handle().withdraw(runs).expect("it is there");
    yard.ends(runs);
    assert!(refused(runs).contains("was taken back by its owner"));
    assert!(refused(JobId(99)).contains("has ended otherwise"));
    for job in [done, runs] {
        assert_eq!(yard.card(job).state, Standing::Ended);
    }
}
