//! G-11: over many rounds jobs get the shares that they are owed, whatever these are.

use std::sync::Arc;

use crate::decide::{Checked, Policy};
use crate::model::{
    Cluster, Declared, GPU, Goals, GpuTypeId, Job, JobId, MoveCost, Parallelism, Seed, Span, TenantId,
    Tenants, Time, Wanted,
};
use crate::view::{Causes, Changed, JobView, Note, Phase, Snapshot};

use super::super::notes::{Account, Remembered, Round};
use super::super::parameters::{Order, Parameters, Rounds};
use super::super::shares::fingerprint;
use super::super::{Gavel, Goal};

const SHARES: [[f64; 3]; 3] = [[0.6, 0.4, 0.0], [0.2, 0.6, 0.2], [0.2, 0.0, 0.8]];
const ROUNDS: u64 = 50;

/// A job that is owed a row of the shares, and has not run.
fn view(id: u32) -> JobView {
    let job = Job {
        id: JobId(id),
        name: format!("job-{id}").into(),
        tenant: TenantId(0),
        model: None,
        submitted: Time::ZERO,
        shape: Parallelism::gang(1),
        wanted: Wanted::default(),
        goals: Goals::default(),
        declared: Declared {
            iterations: Some(1e9),
            iteration: Some(Span::from_secs(1)),
            ..Declared::default()
        },
        move_cost: MoveCost::default(),
    };
    let mut view = JobView::new(Arc::new(job), Time::ZERO);
    let owed = Account::new(None, SHARES[id as usize].into_iter().collect());
    let memory = Remembered { accounts: std::iter::once(owed).collect(), ..Remembered::default() };
    view.note = memory.to_note(3);
    view
}

/// A second after the beginning, with three jobs and a GPU of each of these types.
fn beginning(gpu_types: &[&str], note: Note, view: impl Fn(u32) -> JobView) -> Snapshot {
    let mut cluster = Cluster::default();
    gpu_types.iter().for_each(|gpu_type| cluster.add(1, 1, gpu_type));
    Snapshot {
        at: Time::from_secs(1),
        cause: Causes::ALARM,
        seed: Seed(0),
        number: 0,
        cluster: Arc::new(cluster),
        tenants: Arc::new(Tenants::default()),
        note,
        jobs: (0..3).map(|id| (JobId(id), Arc::new(view(id)))).collect(),
        changed: Arc::new(Changed::default()),
    }
}

/// What part of the time each job had on each type, after rounds that begin with one second of time already gone.
fn after(rounds: Rounds) -> [[f64; 3]; 3] {
    let note = Round { reset: Time(1), owed: 3, pools: fingerprint(&[GPU; 3]), ..Round::default() }.to_note();
    let mut seen = beginning(&["v100", "p100", "k80"], note, view);
    let mut policy = Gavel::new(Goal::Objective(Parameters::default()), rounds);
    let length = Span::from_secs(360);
    let mut had = [[0.0; 3]; 3];
    for _ in 0..ROUNDS {
        let decision = policy.decide(&seen);
        for (id, target) in decision.targets {
            let view = Arc::make_mut(seen.jobs.get_mut(&id).expect("it is there"));
            (view.held, view.target) = (target.clone(), target);
            view.phase = Phase::Running;
        }
        for (id, note) in decision.notes {
            Arc::make_mut(seen.jobs.get_mut(&id).expect("it is there")).note = note;
        }
        seen.note = decision.note.unwrap_or(seen.note);
        seen.at = seen.at + length;
        for id in 0..3 {
            let view = Arc::make_mut(seen.jobs.get_mut(&JobId(id)).expect("it is there"));
            let node = view.target.placements().first().map(|p| p.node);
            if let Some(GpuTypeId(gpu_type)) = node.and_then(|node| seen.cluster.node(node).gpu_type) {
                had[id as usize][usize::from(gpu_type)] += 1.0 / ROUNDS as f64;
                view.served.executed += length;
            }
            view.served.changed = seen.at;
        }
        // Whoever decides remembers nothing but what it wrote down.
        seen.number += 2;
    }
    had
}

/// By both orders in which types can be filled: what part of the time each job had on each type after fifty rounds, against
/// what it is owed.
pub fn received() -> Checked {
    let orders = [Rounds::default().order, Order::ByType];
    let mut checked = Checked { instances: orders.len() as u64, ..Checked::default() };
    let mut worst = 0.0_f64;
    for order in orders {
        let had = after(Rounds { order, recompute_s: 1e6, ..Rounds::default() });
        for (owed, had) in SHARES.iter().flatten().zip(had.iter().flatten()) {
            checked.hold((owed - had).abs() <= 0.03, || format!("{order:?}: owed {owed}, had {had}"));
            worst = worst.max((owed - had).abs());
        }
    }
    checked.figures = vec![("largest difference", worst)];
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Reason;
    use crate::solve::Unsolved;

    #[test]
    fn whoever_cannot_work_out_shares_says_so_and_shares_equally() {
        let new = |id: u32| JobView { note: Note::default(), ..view(id) };
        let seen = beginning(&["v100", "p100"], Note::default(), new);
        let mut policy = Gavel::new(Goal::Objective(Parameters::default()), Rounds::default());
        let said = |policy: &mut Gavel, id: u32| match policy.explain(&seen, JobId(id)).reason() {
            Reason::OwedTime { share, unsolved, .. } | Reason::TimeHad { share, unsolved, .. } => {
                (*share, *unsolved)
            }
            other => panic!("{other:?}"),
        };
        policy.work_out = |_, _, _, _, _| Err(Unsolved::Failed { iterations: 1, gap: 1.0 });
        // Each has a third of two GPUs, and two of them run.
        assert_eq!([0, 1, 2].map(|id| said(&mut policy, id)), [(2.0 / 3.0, true); 3]);
        let decision = policy.decide(&seen);
        assert_eq!(decision.targets.iter().filter(|(_, target)| target.is_some()).count(), 2);
        assert!(
            Round::of_note(&decision.note.expect("a round began")).unsolved,
            "what is said later says so, too"
        );
        policy.work_out = Gavel::work_out;
        assert!(!said(&mut policy, 0).1, "once it is solved nobody says so any more");
    }

    #[test]
    fn over_fifty_rounds_jobs_get_the_shares_that_they_are_owed() {
        let checked = received();
        assert!(checked.faults.is_empty(), "{:#?}", checked.faults);
        assert!(checked.figure("largest difference") <= 0.03);
    }
}
