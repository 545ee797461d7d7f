//! The script for jobs of tasks: one task moves and the others stay, tasks come and go, and what is lost is lost for all.

use trainyard_sched::control::{How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::NodeState;

use super::scenes::LONG;
use super::script::{Line, Scene, What, all, either, expect, scene, tasks};
use super::stage::Training;
use Line::{Again, Gone, Idle, Node, Quiet, Reach, Resize, Restart, Start, Stop, Whole, Withdraw};
use What::{Finished, Losses, Lost, NodeChanged, Progress, Resized, Saved, Started, Stopped, Withdrawn};

/// All scenes with tasks.
pub(crate) fn tasked() -> Vec<Scene> {
    [whole(), moved(), partly(), lost()]
        .concat()
        .into_iter()
        .map(|scene| scene.needing(Abilities::TASKS))
        .collect()
}

fn whole() -> Vec<Scene> {
    vec![
        scene(
            "a job of tasks runs, reports, and ends by itself",
            2,
            vec![Training::of(60).tasks(3)],
            [
                Gone(0),
                Start(0, tasks([(0, 1), (1, 1), (0, 2)])),
                expect(Started(0)),
                Whole(0),
                expect(Losses(0)),
                expect(Saved(0)),
                expect(Finished(0, Outcome::Completed)),
                Gone(0),
                Quiet(0),
            ],
        ),
        scene(
            "tasks are stopped and go on elsewhere",
            2,
            vec![Training::of(LONG).tasks(2)],
            [
                Start(0, tasks([(0, 1), (0, 2)])),
                expect(Started(0)),
                Reach(0, 12),
                Stop(0, How::Save),
                Again,
                expect(Stopped(0)),
                Gone(0),
                Start(0, tasks([(1, 1), (0, 1)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
                Withdraw(0),
                expect(Withdrawn(0)),
                Stop(0, How::Finish),
                expect(Stopped(0)),
            ],
        ),
        scene(
            "a task that fails has failed for all",
            2,
            vec![Training::of(LONG).tasks(3).failing(1, 20)],
            [
                Start(0, tasks([(0, 1), (1, 1), (0, 2)])),
                expect(Started(0)),
                expect(Finished(0, Outcome::Failed)),
                Gone(0),
            ],
        ),
    ]
}

fn moved() -> Vec<Scene> {
    vec![
        scene(
            "each task moves in its turn, and the job goes on",
            3,
            vec![Training::of(LONG).tasks(3)],
            [
                Start(0, tasks([(0, 1), (1, 1), (0, 2)])),
                expect(Started(0)),
                Reach(0, 10),
                Resize(0, tasks([(2, 1), (1, 1), (0, 2)])),
                expect(Resized(0)),
                Whole(0),
                expect(Progress(0)),
                Resize(0, tasks([(2, 1), (2, 2), (0, 2)])),
                Again,
                expect(Resized(0)),
                expect(Progress(0)),
                Resize(0, tasks([(2, 1), (2, 2), (1, 2)])),
                expect(Resized(0)),
                expect(Losses(0)),
                Whole(0),
                // Two change places.
                Resize(0, tasks([(1, 1), (0, 2), (1, 2)])),
                expect(Resized(0)),
                expect(Progress(0)),
                Whole(0),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Gone(0),
            ],
        ),
        scene(
            "a job is stopped while a task moves",
            2,
            vec![Training::of(LONG).tasks(2)],
            [
                Start(0, tasks([(0, 1), (0, 2)])),
                expect(Started(0)),
                Reach(0, 10),
                Resize(0, tasks([(0, 1), (1, 2)])),
                Stop(0, How::Save),
                either([Stopped(0), Resized(0)]),
                Idle(0),
                Gone(0),
                Restart(0, tasks([(1, 1), (0, 1)])),
                Whole(0),
                expect(Progress(0)),
            ],
        ),
        scene(
            "a task is sent elsewhere before it has come where it was sent",
            3,
            vec![Training::of(LONG).tasks(2)],
            [
                Start(0, tasks([(0, 1), (0, 2)])),
                expect(Started(0)),
                Resize(0, tasks([(0, 1), (1, 2)])),
                expect(Resized(0)),
                Resize(0, tasks([(2, 1), (1, 2)])),
                expect(Resized(0)),
                Reach(0, 10),
                Whole(0),
            ],
        ),
    ]
}

fn partly() -> Vec<Scene> {
    vec![scene(
        "tasks are added and taken away",
        2,
        vec![Training::of(LONG).tasks(3)],
        [
            Start(0, tasks([(0, 1), (0, 2)])),
            expect(Started(0)),
            Whole(0),
            Resize(0, tasks([(0, 1), (0, 2), (1, 1)])),
            expect(Resized(0)),
            Whole(0),
            Reach(0, 10),
            Resize(0, tasks([(0, 1)])),
            expect(Resized(0)),
            Whole(0),
            Resize(0, tasks([(0, 1), (1, 1), (1, 2)])),
            expect(Resized(0)),
            Whole(0),
            expect(Progress(0)),
            Stop(0, How::Finish),
            expect(Stopped(0)),
            Gone(0),
        ],
    )]
}

fn lost() -> Vec<Scene> {
    vec![
        scene(
            "a node goes down under one task, and all are lost and start again",
            2,
            vec![Training::of(LONG).tasks(3)],
            [
                Start(0, tasks([(0, 1), (1, 1), (0, 2)])),
                expect(Started(0)),
                Reach(0, 20),
                Node(1, NodeState::Down),
                all([NodeChanged(1, NodeState::Down), Lost(0, 1)]),
                Gone(0),
                Quiet(0),
                Node(1, NodeState::Up),
                expect(NodeChanged(1, NodeState::Up)),
                Start(0, tasks([(1, 1), (0, 1), (0, 2)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
            ],
        ),
        scene(
            "the node to which a task moves goes down",
            2,
            vec![Training::of(LONG).tasks(2)],
            [
                Start(0, tasks([(0, 1), (0, 2)])),
                expect(Started(0)),
                Reach(0, 10),
                Resize(0, tasks([(0, 1), (1, 2)])),
                Node(1, NodeState::Down),
                Idle(0),
                Gone(0),
                Restart(0, tasks([(0, 1), (0, 2)])),
                expect(Progress(0)),
            ],
        ),
    ]
}
