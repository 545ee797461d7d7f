//! What brings a job or a replica to the front of the queue, each thing by itself and as far as it counts (checks S2 and S9).

use trainyard_sched::control::{Event, Outcome};
use trainyard_sched::decide::{Reason, Verdict};
use trainyard_sched::model::{
    Job, JobId, LossPoint, NodeId, NodeState, Parallelism, Resources, TaskGraph, TaskId,
};

use super::{World, cluster, edge, graph_job, loose, task};

/// How much each of the first two jobs holds.
fn placed(world: &World) -> [usize; 2] {
    [0, 1].map(|job| world.places(job).len())
}

fn attempt(world: &World, job: u32) -> trainyard_sched::model::Attempt {
    world.core.state().job(JobId(job)).expect("it is there").attempt
}

/// Two jobs come at once, and there is room for one.
fn first_of(parameters: &str, jobs: [Job; 2]) -> usize {
    let mut world = World::new(cluster(1, 1), parameters);
    world.arrive(jobs.into());
    let placed = placed(&world);
    assert_eq!(placed.iter().filter(|count| **count > 0).count(), 1, "{placed:?}");
    usize::from(placed[1] > 0)
}

#[test]
fn a_large_part_of_the_model_goes_first() {
    let first = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        let mut tasks = vec![task(Some(0), 600), task(Some(1), 600)];
        tasks[1].parameters = 11;
        world.arrive(vec![graph_job(0, tasks, Vec::new(), true)]);
        world.places(0)[0].0
    };
    assert_eq!([first(""), first("alpha = 0.0"), first("alpha = 1.0")], [1, 0, 1]);
}

#[test]
fn whoever_has_waited_longer_goes_first() {
    let first = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        world.arrive(vec![loose(2, &[600], 9)]);
        world.arrive(vec![loose(1, &[600], 1)]);
        world.step(600, vec![Event::Arrived { job: loose(0, &[600], 1).into() }]);
        assert_eq!(placed(&world), [0, 0]);
        let (job, attempt) = (JobId(2), attempt(&world, 2));
        world.step(600, vec![Event::Finished { job, attempt, outcome: Outcome::Completed }]);
        placed(&world)
    };
    // Of equal ones, too, whatever waiting weighs.
    assert_eq!(["", "weight_waiting = 0.0", "alpha = 1.0"].map(first), [[0, 1]; 3]);
    // A job with little left to do goes first where waiting weighs nothing, and not where it weighs much.
    let beside_short = |parameters: &str| {
        let mut world = World::new(cluster(1, 1), parameters);
        world.arrive(vec![loose(2, &[600], 9)]);
        world.arrive(vec![loose(1, &[600], 1)]);
        let mut short = loose(0, &[600], 1);
        short.declared.iterations = Some(900.0);
        world.step(600, vec![Event::Arrived { job: short.into() }]);
        let (job, attempt) = (JobId(2), attempt(&world, 2));
        world.step(600, vec![Event::Finished { job, attempt, outcome: Outcome::Completed }]);
        placed(&world)
    };
    assert_eq!(beside_short(""), [0, 1]);
    assert_eq!(beside_short("weight_waiting = 0.0"), [1, 0]);
}

/// Both jobs ran for a while, each on a node of its own, and lost it; then one of the nodes is back. `losses` and `iterations`
/// are what they had reported.
fn after_a_loss(parameters: &str, losses: [&[f64]; 2], iterations: [f64; 2]) -> [usize; 2] {
    let mut world = World::new(cluster(2, 1), parameters);
    world.arrive(vec![loose(0, &[600], 1), loose(1, &[600], 1)]);
    assert_eq!(placed(&world), [1, 1]);
    let told = |(job, done): (usize, f64)| {
        let point =
            |(i, loss): (usize, &f64)| LossPoint { iteration: (i + 1) as f64, loss: *loss, accuracy: None };
        Event::Progress {
            job: JobId(job as u32),
            attempt: attempt(&world, job as u32),
            iterations: done,
            speed: 0.0,
            saved: done,
            losses: losses[job].iter().enumerate().map(point).collect(),
            copies: Vec::new(),
        }
    };
    let events = iterations.into_iter().enumerate().map(told).collect();
    world.step(10, events);
    let lost = |job: u32| Event::Lost {
        job: JobId(job),
        attempt: attempt(&world, job),
        iterations: iterations[job as usize],
        node: None,
    };
    let down = |node| Event::NodeChanged { node: NodeId(node), state: NodeState::Down };
    let events = vec![lost(0), lost(1), down(0), down(1)];
    world.step(50, events);
    assert_eq!(placed(&world), [0, 0]);
    world.step(60, vec![Event::NodeChanged { node: NodeId(0), state: NodeState::Up }]);
    placed(&world)
}

#[test]
fn whoever_still_takes_much_off_the_loss_goes_first() {
    // The latest iteration had a tenth of all that was taken off, and a half.
    let (little, much): (&[f64], &[f64]) = (&[2.0, 1.1, 1.0], &[2.0, 1.5, 1.0]);
    let first = |parameters| after_a_loss(parameters, [little, much], [3.0, 3.0]);
    assert_eq!(first(""), [0, 1]);
    assert_eq!(first("alpha = 0.0"), [1, 0]);
    assert_eq!(after_a_loss("", [much, little], [3.0, 3.0]), [1, 0]);
    // Up to the second iteration nothing can be said.
    assert_eq!(after_a_loss("", [little, much], [1.0, 1.0]), [1, 0]);
}

#[test]
fn early_iterations_go_first() {
    let no_losses: [&[f64]; 2] = [&[], &[]];
    // What remains speaks for the other one.
    assert_eq!(after_a_loss("weight_remaining = 0.0", no_losses, [50.0, 5.0]), [0, 1]);
    assert_eq!(after_a_loss("weight_remaining = 0.0\nalpha = 0.0", no_losses, [50.0, 5.0]), [1, 0]);
    assert_eq!(after_a_loss("alpha = 0.0", no_losses, [5.0, 50.0]), [0, 1], "less remains of the second");
    assert_eq!(after_a_loss("alpha = 0.0\nweight_remaining = 0.0", no_losses, [5.0, 50.0]), [1, 0]);
}

#[test]
fn whoever_has_more_dependents_goes_first_as_far_as_they_count() {
    // A task of 600, alone or with some that wait for what it makes; learning does not count, for the parts are not equal.
    let with = |id: u32, dependents: u32| {
        let mut tasks = vec![task(Some(0), 600)];
        tasks.extend((0..dependents).map(|_| task(Some(0), 50)));
        graph_job(id, tasks, (1..=dependents).map(|to| edge(0, to)).collect(), false)
    };
    let first = |parameters: &str, dependents: [u32; 2]| {
        first_of(&format!("alpha = 0.0\n{parameters}"), [with(0, dependents[0]), with(1, dependents[1])])
    };
    for dependents in [[0, 1], [1, 2], [2, 4]] {
        assert_eq!(first("", dependents), 1, "{dependents:?}");
        assert_eq!(first("gamma = 0.0", dependents), 0, "{dependents:?}: none count");
    }
    // By their mean one is as good as many.
    assert_eq!(first("dep_mode = 'mean'", [0, 1]), 1);
    assert_eq!(first("dep_mode = 'mean'", [1, 4]), 0);
}

#[test]
fn near_deadlines_and_little_work_go_first() {
    let due = |id: u32, hours: u64| {
        let mut job = loose(id, &[600], 1);
        job.goals.deadline = Some(trainyard_sched::model::Time::from_secs(hours * 3600));
        job
    };
    for (near, far) in [(4, 5), (5, 20), (20, 400)] {
        assert_eq!(first_of("", [due(0, far), due(1, near)]), 1, "{near} before {far}");
        assert_eq!(first_of("weight_deadline = 0.0", [due(0, far), due(1, near)]), 0);
        assert_eq!(first_of("alpha = 1.0", [due(0, far), due(1, near)]), 0);
    }
    // The deadline of a task is earlier by what the job still does after it: 100 iterations of ten seconds more.
    let long = |id: u32, hours: u64, iterations: f64| {
        let mut job = due(id, hours);
        job.declared.iterations = Some(iterations);
        job
    };
    let parameters = "weight_remaining = 0.0";
    assert_eq!(first_of(parameters, [long(0, 6, 1000.0), long(1, 6, 1100.0)]), 1);
    assert_eq!(first_of("", [long(0, 400, 1100.0), long(1, 400, 1000.0)]), 1, "less remains");
    assert_eq!(first_of(parameters, [long(0, 400, 1100.0), long(1, 400, 1000.0)]), 0);
    // So close that less than a round is left counts as a round, and no more.
    assert_eq!(first_of(parameters, [due(0, 2), due(1, 1)]), 0, "neither can be kept");
}

#[test]
fn times_below_a_round_count_as_a_round() {
    // 999 iterations of ten seconds after the first, and so many seconds more until the deadline.
    let due = |id: u32, slack_s: u64| {
        let mut job = loose(id, &[600], 1);
        job.goals.deadline = Some(trainyard_sched::model::Time::from_secs(9_990 + slack_s));
        job
    };
    let lasting = |id: u32, iterations: f64| {
        let mut job = loose(id, &[600], 1);
        job.declared.iterations = Some(iterations);
        job
    };
    for (near, far, first) in [(61, 90, 1), (60, 61, 1), (40, 60, 0), (1, 50, 0)] {
        assert_eq!(first_of("", [due(0, far), due(1, near)]), first, "{near} s and {far} s");
    }
    for (less, more, first) in [(7.0, 9.0, 1), (6.0, 6.1, 1), (4.0, 6.0, 0), (0.5, 5.0, 0)] {
        assert_eq!(first_of("", [lasting(0, more), lasting(1, less)]), first, "{less} and {more}");
    }
    let round = "round_s = 10.0";
    assert_eq!([first_of(round, [due(0, 60), due(1, 40)]), first_of(round, [due(0, 9), due(1, 8)])], [1, 0]);
}

#[test]
fn servers_look_for_a_node_before_the_workers_of_their_job() {
    let mut world = World::new(cluster(1, 1), "");
    // Neither finds a node, so whoever looks first is named.
    let large = Resources { cpu_milli: 40_000, ..Resources::NONE };
    let mut tasks = vec![task(Some(0), 600), task(Some(0), 600), task(None, 0)];
    let fits = graph_job(1, vec![task(Some(0), 600), task(None, 0)], vec![edge(0, 1)], false);
    tasks[2].demand = large;
    world.arrive(vec![graph_job(0, tasks, vec![edge(0, 2), edge(1, 2)], false)]);
    assert_eq!(world.places(0), []);
    let Parallelism::TaskGraph(graph) = &fits.shape else { unreachable!("it is one") };
    assert!(TaskGraph::is_server(graph, TaskId(1)));
    world.arrive(vec![fits]);
    assert_eq!(world.places(1).len(), 2);
    // With all processors taken but a few, a server finds none where its worker would.
    let busy = Resources { gpu_milli: 100, cpu_milli: 28_500, ..Resources::NONE };
    let mut world = World::new(cluster(1, 1), "");
    let mut hog = task(Some(0), 100);
    hog.demand = busy;
    world.arrive(vec![graph_job(2, vec![hog], Vec::new(), false)]);
    let mut tasks = vec![task(Some(0), 200), task(Some(0), 200), task(None, 0)];
    tasks[2].demand = Resources { cpu_milli: 2_000, ..Resources::NONE };
    world.arrive(vec![graph_job(0, tasks, vec![edge(0, 2), edge(1, 2)], false)]);
    assert_eq!(world.reason(0), Verdict::Wait(Reason::NoHost { task: TaskId(2), found: 0, tasks: 3 }));
}
