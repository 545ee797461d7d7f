//! The script for copies: they train side by side, are brought together, and are one job.

use trainyard_sched::control::{Action, How, Outcome};
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{Attempt, NodeState, Quotas};

use super::scenes::LONG;
use super::script::{Line, Scene, What, all, copies, expect, job, on, scene};
use super::stage::Training;
use Line::{Again, Gone, Left, Merge, MergeWith, Node, Order, Reach, Rest, Start, StartWith, Stop, Whole};
use What::{Copies, Finished, Lost, Merged, NodeChanged, Progress, Started, Stopped};

/// All scenes with copies.
pub(crate) fn copied() -> Vec<Scene> {
    [merged(), limited(), lost()].concat()
}

/// Brought together they are one job with the iterations of both.
fn merged() -> Vec<Scene> {
    vec![
        scene(
            "copies are brought together and go on as one, with what both have done",
            2,
            vec![Training::of(LONG).copied()],
            [
                Start(0, copies([(0, 1), (1, 1)])),
                expect(Started(0)),
                Whole(0),
                Reach(0, 20),
                Merge(0),
                expect(Merged(0)),
                Stop(0, How::Save),
                expect(Stopped(0)),
                Gone(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                Whole(0),
                expect(Progress(0)),
            ],
        )
        .needing(Abilities::COPIES),
        scene(
            "copies that are brought together again and again go on each time",
            2,
            vec![Training::of(LONG).copied()],
            [
                Start(0, copies([(0, 1), (1, 1)])),
                expect(Started(0)),
                expect(Copies(0)),
                Merge(0),
                expect(Merged(0)),
                expect(Progress(0)),
                Merge(0),
                expect(Merged(0)),
                Again,
                expect(Progress(0)),
                Merge(0),
                expect(Merged(0)),
                Order(merge_before(0, 1)),
                expect(Progress(0)),
                Whole(0),
            ],
        )
        .needing(Abilities::COPIES),
    ]
}

/// Each does what it may, and then rests.
fn limited() -> Vec<Scene> {
    vec![
        scene(
            "each copy does what it may and rests, until all are brought together and may do more",
            2,
            vec![Training::of(LONG).copied()],
            [
                StartWith(0, copies([(0, 1), (1, 1)]), vec![30, 12]),
                expect(Started(0)),
                expect(Copies(0)),
                Rest(0),
                MergeWith(0, vec![5, 25]),
                Again,
                expect(Merged(0)),
                Rest(0),
                // One that may do nothing rests at once.
                MergeWith(0, vec![0, 8]),
                expect(Merged(0)),
                Rest(0),
                Merge(0),
                expect(Merged(0)),
                Reach(0, 120),
                Whole(0),
                Stop(0, How::Save),
                expect(Stopped(0)),
            ],
        )
        .needing(Abilities::QUOTAS),
        scene(
            "copies whose quotas come to all there is to do finish, each with its part",
            2,
            vec![Training::of(60).copied()],
            [
                StartWith(0, copies([(0, 1), (1, 1)]), vec![40, 20]),
                expect(Started(0)),
                expect(Finished(0, Outcome::Completed)),
                Gone(0),
            ],
        )
        .needing(Abilities::QUOTAS),
    ]
}

/// One is lost, and with it only what it did.
fn lost() -> Vec<Scene> {
    vec![
        scene(
            "copies lose a node, and go on from what was brought together",
            2,
            vec![Training::of(LONG).copied()],
            [
                Start(0, copies([(0, 1), (1, 1)])),
                expect(Started(0)),
                Reach(0, 20),
                Merge(0),
                expect(Merged(0)),
                expect(Progress(0)),
                Node(1, NodeState::Down),
                all([NodeChanged(1, NodeState::Down), Lost(0, 1)]),
                Gone(0),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        )
        .needing(Abilities::COPIES),
        scene(
            "a copy that is lost takes with it what it did, and nothing of what the others did",
            2,
            vec![Training::of(LONG).copied()],
            [
                StartWith(0, copies([(0, 1), (1, 1)]), vec![10, 10]),
                expect(Started(0)),
                Rest(0),
                MergeWith(0, vec![30, 15]),
                expect(Merged(0)),
                Rest(0),
                Node(1, NodeState::Down),
                all([NodeChanged(1, NodeState::Down), Lost(0, 1)]),
                Gone(0),
                Left(0, 50),
                Start(0, on([(0, 1)])),
                expect(Started(0)),
                expect(Progress(0)),
            ],
        )
        .needing(Abilities::QUOTAS),
    ]
}

/// A merge that was ordered, made and told before.
fn merge_before(number: u32, merge: u32) -> Action {
    Action::Merge { job: job(number), attempt: Attempt(1), number: merge, quotas: Quotas::NONE }
}
