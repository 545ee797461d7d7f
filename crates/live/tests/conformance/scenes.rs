//! The script: what every backend must do, scene by scene.

use trainyard_sched::control::{Action, How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Attempt, NodeState, Quotas};

use super::copied::copied;
use super::script::{Line, Scene, What, all, either, expect, job, on, part, scene};
use super::stage::Training;
use super::tasked::tasked;
use Line::{
    Again, Gone, Idle, Node, Order, Over, Quiet, Reach, Resize, Restart, Start, Stop, Whole, Withdraw,
};
use What::{
    Finished, Losses, Lost, NodeChanged, Progress, Resized, Saved, StartFailed, Started, Stopped, Withdrawn,
};

/// Long enough not to end while anything is tried with it.
pub(crate) const LONG: u32 = 100_000;

/// All scenes.
pub(crate) fn script() -> Vec<Scene> {
    let orders = [ends(), stops(), stops_at_odd_times(), gangs(), sizes(), sizes_of_stopping()].concat();
    let rest = [
        nodes(),
        nodes_at_odd_times(),
        vec![older_attempts(), no_such_job()],
        twice(),
        moments(),
        copied(),
        tasked(),
    ];
    [orders, rest.concat()].concat()
}

fn ends() -> Vec<Scene> {
    vec![
        scene(
            "a job runs, reports, and ends by itself",
            1,
            vec![Training::of(150)],
            [
                Gone(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
                expect(Saved(0)),
                expect(Finished(0, Outcome::Completed)),
                Gone(0),
                Quiet(0),
            ],
        ),
        scene(
            "losses are reported",
            1,
            vec![Training::of(40)],
            [Start(0, on([(0, 1)])), expect(Started(0)), expect(Losses(0)), expect(Losses(0)), Over(0)],
        )
        .needing(Abilities::LOSS),
        scene(
            "a program that fails has failed",
            1,
            vec![Training::of(LONG).failing(0, 20), Training::of(20)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Finished(0, Outcome::Failed)),
                Gone(0),
                Start(1, on([(0, 1)])),
                expect(Started(1)),
                expect(Finished(1, Outcome::Completed)),
            ],
        ),
        scene(
            "jobs run side by side, each on its device",
            2,
            vec![Training::of(30), Training::of(30), Training::of(30)],
            [
                Start(0, on([(0, 1)])),
                Start(1, on([(0, 2)])),
                Start(2, on([(1, 2)])),
                all([Started(0), Started(1), Started(2)]),
                all([
                    Finished(0, Outcome::Completed),
                    Finished(1, Outcome::Completed),
                    Finished(2, Outcome::Completed),
                ]),
            ],
        ),
        scene(
            "two jobs share a device",
            1,
            vec![Training::of(30).sharing(500), Training::of(30).sharing(500)],
            [
                Start(0, part(0, 1, 500)),
                Start(1, part(0, 1, 500)),
                all([Started(0), Started(1)]),
                all([Finished(0, Outcome::Completed), Finished(1, Outcome::Completed)]),
            ],
        )
        .needing(Abilities::SHARED_GPUS),
    ]
}

fn stops() -> Vec<Scene> {
    vec![
        scene(
            "a stop saves, and the next start goes on from there",
            1,
            vec![Training::of(LONG)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Reach(0, 12),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Gone(0),
                Quiet(0),
                Start(0, on([(0, 2)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
                expect(Saved(0)),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Start(0, on([(0, 3)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        ),
        scene(
            "a stop for good frees the device",
            1,
            vec![Training::of(LONG), Training::of(20)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
                Stop(0, How::Finish),
                expect(Stopped(0)),
                Gone(0),
                Start(1, on([(0, 1)])),
                expect(Started(1)),
                Over(1),
                Quiet(0),
            ],
        ),
        scene(
            "a job that its owner takes back is stopped for good",
            1,
            vec![Training::of(LONG), Training::of(20)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Withdraw(0),
                expect(Withdrawn(0)),
                Stop(0, How::Finish),
                expect(Stopped(0)),
                Gone(0),
                Quiet(0),
                Withdraw(1),
                expect(Withdrawn(1)),
                Quiet(1),
            ],
        ),
    ]
}

fn stops_at_odd_times() -> Vec<Scene> {
    vec![
        scene(
            "a job is stopped while it starts",
            1,
            vec![Training::of(LONG)],
            [
                Start(0, on([(0, 1)])),
                Stop(0, How::Save),
                Idle(0),
                Gone(0),
                Quiet(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Reach(0, 10),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Start(0, on([(0, 1)])),
                Stop(0, How::Save),
                Idle(0),
                Gone(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        ),
        scene(
            "a job with nothing left to do ends by itself",
            1,
            vec![Training::of(40)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Reach(0, 38),
                Stop(0, How::Save),
                // Whatever came first: that it ended, or that it was stopped with little or nothing left.
                Idle(0),
                Gone(0),
                Restart(0, on([(0, 1)])),
                Over(0),
                Quiet(0),
            ],
        ),
    ]
}

fn gangs() -> Vec<Scene> {
    vec![
        scene(
            "a gang over two nodes starts whole, and ends whole",
            2,
            vec![Training::of(200).workers(4, 4)],
            [
                Start(0, on([(0, 3), (1, 3)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
                Over(0),
                Gone(0),
            ],
        ),
        scene(
            "a gang is stopped whole, and goes on elsewhere",
            3,
            vec![Training::of(LONG).workers(2, 2)],
            [
                Start(0, on([(0, 1), (1, 1)])),
                expect(Started(0)),
                expect(Saved(0)),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Gone(0),
                Start(0, on([(1, 2), (2, 1)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
            ],
        ),
        scene(
            "a gang with a node that goes down is lost whole, and goes on elsewhere",
            3,
            vec![Training::of(LONG).workers(2, 2), Training::of(LONG)],
            [
                Start(0, on([(0, 1), (1, 1)])),
                Start(1, on([(0, 2)])),
                all([Started(0), Started(1)]),
                expect(Saved(0)),
                Node(1, NodeState::Down),
                all([NodeChanged(1, NodeState::Down), Lost(0, 1)]),
                Gone(0),
                Start(0, on([(0, 1), (2, 1)])),
                expect(Started(0)),
                Whole(0),
                all([Progress(0), Progress(1)]),
            ],
        ),
        scene(
            "a gang of which one fails has failed whole",
            2,
            vec![Training::of(LONG).workers(2, 2).failing(1, 10)],
            [
                Start(0, on([(0, 1), (1, 1)])),
                expect(Started(0)),
                expect(Finished(0, Outcome::Failed)),
                Gone(0),
                Quiet(0),
            ],
        ),
    ]
}

/// What a change of size comes to: either it is made, or the job stops and is started with it.
fn changes(number: u32) -> Line {
    either([Resized(number), Stopped(number)])
}

fn sizes() -> Vec<Scene> {
    let grow = on([(0, 3)]);
    let move_over = on([(1, 3)]);
    let spread = on([(0, 1), (1, 1)]);
    let shrink = on([(0, 1)]);
    let mut lines = vec![Start(0, on([(0, 1)])), expect(Started(0)), expect(Saved(0))];
    for to in [&grow, &move_over, &spread, &shrink] {
        lines.extend([
            Resize(0, to.clone()),
            changes(0),
            Restart(0, to.clone()),
            Whole(0),
            expect(Progress(0)),
        ]);
    }
    let everywhere = scene(
        "a job grows, moves, spreads over nodes and shrinks, and loses nothing",
        2,
        vec![Training::of(LONG).workers(1, 2)],
        lines,
    );
    let frees = scene(
        "what a job gives up may be given to another",
        1,
        vec![Training::of(LONG).workers(1, 2), Training::of(20)],
        [
            Start(0, on([(0, 3)])),
            expect(Started(0)),
            expect(Progress(0)),
            Resize(0, on([(0, 1)])),
            changes(0),
            Restart(0, on([(0, 1)])),
            Start(1, on([(0, 2)])),
            expect(Started(1)),
            all([Finished(1, Outcome::Completed)]),
            expect(Progress(0)),
        ],
    );
    [everywhere, frees].map(|scene| scene.needing(Abilities::RESIZE)).into()
}

fn sizes_of_stopping() -> Vec<Scene> {
    let while_stopping = scene(
        "a job that was told to stop is not resized",
        1,
        vec![Training::of(LONG).workers(1, 2)],
        [
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Saved(0)),
            Stop(0, How::Save),
            Resize(0, on([(0, 3)])),
            expect(Stopped(0)),
            Quiet(0),
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Progress(0)),
        ],
    );
    let stopped_while_moving = scene(
        "a job that is being resized can be stopped",
        1,
        vec![Training::of(LONG).workers(1, 2)],
        [
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Saved(0)),
            Resize(0, on([(0, 3)])),
            Stop(0, How::Save),
            Idle(0),
            Gone(0),
            Quiet(0),
            Start(0, on([(0, 2)])),
            expect(Started(0)),
            expect(Progress(0)),
        ],
    );
    [while_stopping, stopped_while_moving].map(|scene| scene.needing(Abilities::RESIZE)).into()
}

fn nodes() -> Vec<Scene> {
    vec![
        scene(
            "a node goes down, and its job goes on elsewhere from what it saved",
            2,
            vec![Training::of(LONG)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Saved(0)),
                expect(Progress(0)),
                Node(0, NodeState::Down),
                all([NodeChanged(0, NodeState::Down), Lost(0, 0)]),
                Gone(0),
                Quiet(0),
                Start(0, on([(1, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        ),
        scene(
            "nothing starts on a node that is down, and when it is back it is as good as any",
            1,
            vec![Training::of(20)],
            [
                Node(0, NodeState::Down),
                expect(NodeChanged(0, NodeState::Down)),
                Start(0, on([(0, 1)])),
                either([StartFailed(0), Lost(0, 0)]),
                Gone(0),
                Quiet(0),
                Node(0, NodeState::Up),
                expect(NodeChanged(0, NodeState::Up)),
                Quiet(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Over(0),
            ],
        ),
        scene(
            "a node that drains keeps what runs there",
            1,
            vec![Training::of(200)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Node(0, NodeState::Draining),
                expect(NodeChanged(0, NodeState::Draining)),
                expect(Progress(0)),
                Over(0),
            ],
        ),
    ]
}

fn nodes_at_odd_times() -> Vec<Scene> {
    vec![
        scene(
            "a node goes down under a job that starts, and under one that stops",
            2,
            vec![Training::of(LONG), Training::of(LONG)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Saved(0)),
                Stop(0, How::Save),
                Start(1, on([(0, 2)])),
                Node(0, NodeState::Down),
                Idle(0),
                Idle(1),
                Gone(0),
                Gone(1),
                Start(0, on([(1, 1)])),
                Start(1, on([(1, 2)])),
                all([Started(0), Started(1)]),
                all([Progress(0), Progress(1)]),
            ],
        ),
        scene(
            "no job moves onto a node that is down",
            2,
            vec![Training::of(LONG)],
            [
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Node(1, NodeState::Down),
                expect(NodeChanged(1, NodeState::Down)),
                Resize(0, on([(1, 1)])),
                either([Progress(0), Stopped(0), Lost(0, 1)]),
                // The loop would stop it, since it knows of the node.
                Stop(0, How::Save),
                Idle(0),
                Gone(0),
                Start(0, on([(0, 2)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        )
        .needing(Abilities::RESIZE),
    ]
}

const fn stop_of(number: u32, attempt: u32) -> Line {
    Order(Action::Stop { job: job(number), attempt: Attempt(attempt), how: How::Save })
}

fn merge_of(number: u32, attempt: u32) -> Line {
    let quotas = Quotas::NONE;
    Order(Action::Merge { job: job(number), attempt: Attempt(attempt), number: 1, quotas })
}

fn resize_of(number: u32, attempt: u32) -> Line {
    let (attempt, quotas) = (Attempt(attempt), Quotas::NONE);
    Order(Action::Resize { job: job(number), attempt, allocation: on([(0, 2)]), quotas })
}

fn start_of(number: u32, attempt: u32) -> Line {
    let (attempt, quotas) = (Attempt(attempt), Quotas::NONE);
    Order(Action::Start { job: job(number), attempt, allocation: on([(0, 2)]), quotas })
}

fn older_attempts() -> Scene {
    scene(
        "orders of an older attempt, or of one that never was, change nothing",
        1,
        vec![Training::of(200)],
        [
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Saved(0)),
            Stop(0, How::Save),
            expect(Stopped(0)),
            stop_of(0, 1),
            merge_of(0, 1),
            resize_of(0, 1),
            start_of(0, 1),
            Quiet(0),
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            stop_of(0, 1),
            merge_of(0, 1),
            resize_of(0, 1),
            start_of(0, 1),
            stop_of(0, 9),
            resize_of(0, 9),
            expect(Progress(0)),
            Whole(0),
            Over(0),
            Gone(0),
        ],
    )
}

fn no_such_job() -> Scene {
    scene(
        "orders of a job that has ended, or that nobody knows, change nothing",
        1,
        vec![Training::of(10), Training::of(40)],
        [
            Start(0, on([(0, 2)])),
            expect(Started(0)),
            Over(0),
            stop_of(0, 1),
            merge_of(0, 1),
            resize_of(0, 1),
            start_of(0, 1),
            Quiet(0),
            stop_of(7, 1),
            merge_of(7, 1),
            resize_of(7, 1),
            Quiet(7),
            // What cannot be started fails, for all that is known.
            start_of(7, 1),
            Start(1, on([(0, 1)])),
            all([StartFailed(7), Started(1)]),
            Over(1),
            Gone(0),
            Gone(7),
        ],
    )
}

fn twice() -> Vec<Scene> {
    let all = scene(
        "the same order twice has one effect",
        1,
        vec![Training::of(LONG).workers(1, 2)],
        [
            Start(0, on([(0, 1)])),
            Again,
            expect(Started(0)),
            Again,
            Whole(0),
            expect(Saved(0)),
            Stop(0, How::Save),
            Again,
            expect(Stopped(0)),
            Again,
            Quiet(0),
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Progress(0)),
            Stop(0, How::Finish),
            Again,
            expect(Stopped(0)),
            Again,
            Quiet(0),
        ],
    );
    let resized = scene(
        "the same size twice is one change",
        1,
        vec![Training::of(LONG).workers(1, 2)],
        [
            Start(0, on([(0, 1)])),
            expect(Started(0)),
            expect(Progress(0)),
            Resize(0, on([(0, 3)])),
            Again,
            changes(0),
            Restart(0, on([(0, 3)])),
            expect(Progress(0)),
            Whole(0),
        ],
    );
    vec![all, resized.needing(Abilities::RESIZE)]
}

/// Orders at about the moment at which a job ends: it stops or it ends, and whatever comes first is all that comes.
fn moments() -> Vec<Scene> {
    let trainings = vec![Training::of(40); 6];
    let places = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)];
    let mut stops = Vec::new();
    for (number, place) in (0..).zip(places) {
        stops.extend([Start(number, on([place])), expect(Started(number)), Reach(number, 35 + number)]);
        stops.extend([Stop(number, How::Save), Idle(number), Gone(number), Quiet(number)]);
        stops.extend([Restart(number, on([place])), Over(number)]);
    }
    let mut goes_down = Vec::new();
    for number in 0..3 {
        goes_down.extend([Start(number, on([(0, 1)])), expect(Started(number)), Reach(number, 37 + number)]);
        goes_down.extend([Node(0, NodeState::Down), Idle(number), Gone(number), Node(0, NodeState::Up)]);
        goes_down.extend([Quiet(number), Restart(number, on([(0, 1)])), Over(number)]);
    }
    vec![
        scene("a job that is stopped as it ends does one of both", 3, trainings.clone(), stops),
        scene(
            "a job whose node goes down as it ends does one of both",
            1,
            trainings[..3].to_vec(),
            goes_down,
        ),
    ]
}
