//! HadarE inside a slot: nodes that come free, jobs that are not copy by copy, and jobs that are to stop early.

mod common;

use common::plain_job;
use trainyard_sched::control::{Action, Batch, Core, Event, Outcome, Settings};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{
    Attempt, Cluster, Declared, Goals, GpuTypeId, Job, JobId, Rate, Rates, Seed, Span, StopRule, Tenants,
    Time,
};
use trainyard_sched::policies;

/// A job with a known speed on the first GPU type.
fn job(id: u32, workers: u32, copies: u16, per_s: f64) -> Job {
    let rate = Rate { gpu_type: GpuTypeId(0), workers, spread: false, iterations_per_s: per_s };
    let declared = Declared {
        iterations: Some(1e6),
        rates: Some(Rates::new(vec![rate], Vec::new()).into()),
        ..Declared::default()
    };
    let goals = Goals { copies, ..Goals::default() };
    Job { goals, declared, ..plain_job(id, Time::ZERO, workers) }
}

struct Loop(Core);

impl Loop {
    fn new(cluster: Cluster, parameters: &str) -> Self {
        let policy = policies::build("hadare", &parameters.parse().expect("TOML")).expect("it exists");
        let settings = Settings { seed: Seed(0), abilities: Abilities::ALL, strict: true };
        Self(Core::new(cluster, Tenants::default(), policy, settings))
    }

    fn tell(&mut self, at_s: u64, events: Vec<Event>) -> Vec<Action> {
        let actions = self.0.step(&Batch { at: Time::from_secs(at_s), events }).actions;
        self.0.state().assert_consistent();
        actions
    }

    fn copies_of(&self, id: u32) -> usize {
        self.0.state().job(JobId(id)).expect("it is there").target.copies()
    }
}

fn started(id: u32) -> Event {
    Event::Started { job: JobId(id), attempt: Attempt(1), iterations: 0.0, speed: 1.0 }
}

fn finished(id: u32) -> Event {
    Event::Finished { job: JobId(id), attempt: Attempt(1), outcome: Outcome::Completed }
}

fn arrived(job: Job) -> Event {
    Event::Arrived { job: job.into() }
}

/// Two nodes of one GPU and one of two.
fn three_nodes() -> Cluster {
    let mut cluster = Cluster::uniform(2, 1, "v100");
    cluster.add(1, 2, "v100");
    cluster
}

#[test]
fn a_job_that_has_a_target_gets_no_copy_on_top_inside_a_slot() {
    for most in [1, 3] {
        let mut ours = Loop::new(three_nodes(), "backfill = true");
        let jobs = [job(0, 2, most, 1.0), job(1, 2, most, 1.0)];
        ours.tell(0, jobs.map(arrived).into());
        let nodes =
            |ours: &Loop, id| ours.0.state().job(JobId(id)).expect("it is there").target.nodes().len();
        // One has the node of two GPUs, the other one both of the others.
        let spread = if nodes(&ours, 0) == 2 { 0 } else { 1 };
        assert_eq!((nodes(&ours, spread), nodes(&ours, 1 - spread)), (2, 1));
        ours.tell(1, vec![started(spread), started(1 - spread)]);
        ours.tell(100, vec![finished(1 - spread)]);
        assert_eq!((ours.copies_of(spread), nodes(&ours, spread)), (1, 2));
    }
}

#[test]
fn a_job_that_has_not_begun_yet_has_its_copies_all_the_same() {
    let mut ours = Loop::new(Cluster::uniform(2, 1, "v100"), "backfill = true");
    ours.tell(0, vec![arrived(job(0, 1, 1, 1.0))]);
    ours.tell(1, vec![started(0)]);
    ours.tell(100, vec![arrived(job(1, 1, 1, 1.0))]);
    // It waits for its start while others come and go.
    ours.tell(110, vec![arrived(job(2, 1, 1, 1.0))]);
    ours.tell(120, vec![finished(0)]);
    assert_eq!((ours.copies_of(1), ours.copies_of(2)), (1, 1));
}

#[test]
fn quotas_end_where_a_job_is_to_stop() {
    let mut ours = Loop::new(Cluster::uniform(2, 1, "v100"), "");
    let mut stops = job(0, 1, 2, 10.0);
    stops.goals.stop = StopRule::Iterations(1000);
    let actions = ours.tell(0, vec![arrived(stops)]);
    let [Action::Start { quotas, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(quotas.sum(), 1000);
    assert_eq!(ours.0.state().job(JobId(0)).expect("it is there").job.goal(), Some(1000.0));
}

#[test]
fn no_copy_comes_beside_others_that_ends_no_iteration_in_a_slot() {
    for (per_s, copies) in [(1.0 / 400.0, 1), (1.0 / 300.0, 2)] {
        let mut ours = Loop::new(Cluster::uniform(2, 1, "v100"), "");
        let mut slow = job(0, 1, 2, per_s);
        slow.move_cost.merge = Span::from_secs(10);
        ours.tell(0, vec![arrived(slow)]);
        assert_eq!(ours.copies_of(0), copies, "{per_s}");
    }
}

#[test]
fn a_job_that_is_always_passed_over_goes_first_in_the_end() {
    for parameters in ["weights = 'payoff'", "srpt_first = true"] {
        for (age_h, runs) in [(0, false), (1, true)] {
            let mut ours =
                Loop::new(Cluster::uniform(1, 1, "v100"), &format!("{parameters}\nage_h = {age_h}"));
            let mut long = job(0, 1, 1, 1.0);
            long.declared.iterations = Some(1e9);
            ours.tell(0, vec![arrived(long), arrived(job(1, 1, 1, 1.0))]);
            assert_eq!((ours.copies_of(0), ours.copies_of(1)), (0, 1), "{parameters}: the short one first");
            ours.tell(1, vec![started(1)]);
            for at_s in (360..3600).step_by(360) {
                ours.tell(at_s, Vec::new());
                assert_eq!(ours.copies_of(0), 0, "{parameters}: {at_s} s are not too long");
            }
            ours.tell(3960, Vec::new());
            assert_eq!(ours.copies_of(0) == 1, runs, "{parameters}, age_h = {age_h}");
        }
    }
}
