//! Who leaves an overloaded node and who stays, round by round: cool-down (A16), overloads that are over (A15), the bound itself,
//! parameter servers and jobs that may not be moved.

use trainyard_sched::control::Event;
use trainyard_sched::decide::{Reason, Verdict};
use trainyard_sched::model::{JobId, Resources, TaskId, TaskUse, Topology, Usage};

use super::{World, chain, cluster, edge, graph_job, loose, task};

fn node(world: &World, job: u32) -> Option<u32> {
    world.places(job).first().map(|place| place.1)
}

/// What the tasks of a job use of processors, in thousandths.
fn cpus(world: &World, job: u32, cpu_milli: &[u64]) -> Event {
    let view = world.core.state().job(JobId(job)).expect("it is there");
    let used = |(i, cpu_milli): (usize, &u64)| TaskUse {
        task: TaskId(i as u32),
        used: Resources { cpu_milli: *cpu_milli, gpu_milli: 100, ..Resources::NONE },
    };
    let usage = Usage::new(cpu_milli.iter().enumerate().map(used).collect());
    Event::Used { job: JobId(job), attempt: view.attempt, usage }
}

#[test]
fn a_task_that_moved_stays_for_five_rounds_and_not_for_six() {
    let mut world = World::new(cluster(2, 1), "");
    // Two nodes of one GPU, each with a job that may not be moved, and one between them that may.
    let fixed = |id: u32, share: u64| {
        let mut job = loose(id, &[share], 1);
        job.goals.movable = false;
        job
    };
    world.arrive(vec![fixed(0, 300)]);
    world.arrive(vec![fixed(1, 100)]);
    world.arrive(vec![loose(2, &[250], 1)]);
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [Some(0), Some(1), Some(1)]);
    let moved = |world: &mut World, from: u32| {
        let (crowded, calm) = if from == 0 { (0, 1) } else { (1, 0) };
        let events = vec![world.uses(crowded, &[700]), world.uses(calm, &[100]), world.uses(2, &[250])];
        world.step(60, events);
        node(world, 2) == Some(1 - from)
    };
    assert!(moved(&mut world, 1), "it leaves");
    let stayed = (1..=10).take_while(|_| !moved(&mut world, 0)).count();
    assert_eq!(stayed, 4, "in the fifth round after its move it may move again");
}

#[test]
fn the_bound_itself_is_no_overload_and_one_more_is() {
    let stays = |uses: u64| {
        let mut world = World::new(cluster(2, 1), "");
        world.arrive(vec![loose(0, &[300], 9)]);
        world.arrive(vec![loose(1, &[400], 1)]);
        world.arrive(vec![loose(2, &[300], 1)]);
        assert_eq!([0, 1, 2].map(|job| node(&world, job)), [Some(0), Some(1), Some(0)]);
        let events = vec![world.uses(0, &[500]), world.uses(1, &[100]), world.uses(2, &[uses])];
        world.step(60, events);
        node(&world, 2) == Some(0)
    };
    assert_eq!([399, 400, 401].map(stays), [true, true, false]);
    // The same of processors, of which there are 32 on a node.
    let stays = |uses: u64| {
        let mut world = World::new(cluster(2, 1), "");
        world.arrive(vec![loose(0, &[300], 9)]);
        world.arrive(vec![loose(1, &[400], 1)]);
        world.arrive(vec![loose(2, &[300], 1)]);
        let events = vec![cpus(&world, 0, &[14_400]), cpus(&world, 2, &[uses])];
        world.step(60, events);
        node(&world, 0) == Some(0) && node(&world, 2) == Some(0)
    };
    assert_eq!([14_399, 14_400, 14_401].map(stays), [true, true, false]);
}

#[test]
fn parameter_servers_and_whoever_may_not_be_moved_never_leave() {
    let mut world = World::new(cluster(2, 2), "");
    let mut fixed = loose(0, &[400, 400], 1);
    fixed.goals.movable = false;
    world.arrive(vec![fixed]);
    let mut one_node = chain(1, &[300, 300]);
    one_node.wanted.topology = Topology::SameNode;
    world.arrive(vec![one_node]);
    // A gang without a graph, and a server with its worker.
    let worker = Resources { gpu_milli: 100, cpu_milli: 100, ..Resources::NONE };
    let gang = trainyard_sched::model::Job {
        shape: trainyard_sched::model::Parallelism::rigid(1, worker),
        ..super::common::plain_job(2, trainyard_sched::model::Time::ZERO, 1)
    };
    world.arrive(vec![gang]);
    world.arrive(vec![graph_job(3, vec![task(Some(0), 100), task(None, 0)], vec![edge(0, 1)], false)]);
    let before = [0, 1, 2, 3].map(|job| world.places(job));
    assert!(before.iter().all(|places| !places.is_empty()), "{before:?}");
    let server = before[3][1].1;
    let mut workers_left = false;
    for round in 0..20 {
        let events = vec![
            world.uses(0, &[700, 700]),
            world.uses(1, &[700, 700]),
            world.uses(2, &[500]),
            cpus(&world, 3, &[1000, 31_000]),
        ];
        world.step(60, events);
        let now = [0, 1, 2].map(|job| world.places(job));
        assert_eq!(now[..], before[..3], "round {round}");
        let of_server = world.places(3).iter().find(|place| place.0 == 1).map(|place| place.1);
        // It has to wait with its job if a worker finds no other place; by itself it goes nowhere.
        assert!(of_server.is_none_or(|node| node == server), "round {round}");
        workers_left |= world.places(3) != before[3];
    }
    assert!(workers_left, "it is not for want of an overload");
}

#[test]
fn whoever_found_no_node_stays_if_the_overload_is_over_without_its_going() {
    // Two nodes of one GPU.
    let mut world = World::new(cluster(2, 1), "");
    world.arrive(vec![loose(3, &[450], 9)]);
    world.arrive(vec![loose(0, &[300], 9)]);
    assert_eq!([3, 0].map(|job| node(&world, job)), [Some(0), Some(1)]);
    world.arrive(vec![loose(1, &[300], 1), loose(2, &[300], 5)]);
    assert_eq!([1, 2].map(|job| node(&world, job)), [Some(0), Some(1)]);
    // 920 are used of the first, and job 1 comes over.
    let events =
        vec![world.uses(3, &[500]), world.uses(1, &[420]), world.uses(0, &[300]), world.uses(2, &[100])];
    world.step(60, events);
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [Some(1); 3], "job 1 left the first node");
    // A cool-down later all three are on the second node; the first has room for 400 at most.
    for _ in 0..6 {
        let events =
            vec![world.uses(3, &[450]), world.uses(0, &[300]), world.uses(1, &[300]), world.uses(2, &[300])];
        world.step(60, events);
    }
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [Some(1); 3], "nothing is overloaded");
    // 650, 150 and 450: job 1 is to leave first, which is not enough, and then job 2, which goes first and takes all the room
    // that there is. With 800 the node is not overloaded any more, though 300, which job 1 demands, would be too much.
    let events =
        vec![world.uses(3, &[450]), world.uses(0, &[650]), world.uses(1, &[150]), world.uses(2, &[450])];
    world.step(60, events);
    assert_eq!([0, 1, 2].map(|job| node(&world, job)), [Some(1), Some(1), Some(0)]);
    assert_eq!(world.reason(1), Verdict::Run(Reason::Kept));
}
