//! What a daemon knows when it comes back: everything that its journal says, told again.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_sched::control::{Batch, Core, Event, Maker, Settings as LoopSettings};
use trainyard_sched::decide::{Abilities, Policy};
use trainyard_sched::model::JobId;
use trainyard_sched::view::Phase;

use crate::board::{Board, Card, Touched};
use crate::bridge::{Desk, Known};
use crate::daemon::{DaemonError, Settings};
use crate::executor::{Held, Pending};
use crate::guard::Guarded;
use crate::store::Contents;
use crate::work::Work;

/// What the journal says, told again.
pub(crate) struct Recovered {
    pub(crate) core: Core,
    pub(crate) board: Board,
    pub(crate) policy: (String, toml::Table),
}

impl Recovered {
    /// Tells it again. A policy is not asked: what it decided then stands.
    pub(crate) fn from(
        settings: &Settings,
        contents: &Contents,
        abilities: Abilities,
    ) -> Result<Self, DaemonError> {
        let head = &contents.head;
        let (name, parameters) = match &contents.kept {
            Some(kept) => (kept.policy.clone(), kept.parameters.clone()),
            None => (head.policy.clone(), head.parameters.clone()),
        };
        let (policies, budget) = (Arc::clone(&settings.policies), settings.budget);
        let maker: Maker = Box::new(move |name, parameters| {
            policies(name, parameters).map(|fresh| Box::new(Guarded::new(fresh, budget)) as Box<dyn Policy>)
        });
        let policy =
            maker(&name, &parameters).map_err(|why| DaemonError::Policy { name: name.clone(), why })?;
        let loop_settings = LoopSettings { seed: head.seed, abilities, strict: false };
        let mut core = match &contents.kept {
            Some(kept) => {
                // What the executor can do may have changed since.
                let mut moment = kept.moment.clone();
                moment.settings = loop_settings;
                moment.resume(policy)
            }
            None => Core::new(head.cluster.clone(), head.tenants.clone(), policy, loop_settings),
        }
        .with_maker(maker);
        let mut board = Board::default();
        (board.policy, board.parameters) = (name, parameters);
        board.tenants = head.tenants.iter().map(|(_, tenant)| Arc::clone(&tenant.name)).collect();
        let works: BTreeMap<JobId, Arc<Work>> =
            contents.works.iter().map(|kept| (kept.job, Arc::clone(&kept.work))).collect();
        board.restore(&core, &works, contents.began);
        // Those that come back are shown with what they were before.
        let comes_back = |job: JobId| {
            let mut events = contents.tail.iter().flat_map(|(record, _)| &record.events);
            events.any(|event| matches!(event, Event::Resumed { job: back } if *back == job))
        };
        let returning = contents.ended.iter().filter(|card| comes_back(card.job));
        for card in returning.filter(|card| !core.state().jobs().any(|view| view.id() == card.job)) {
            board.jobs.entry(card.job).or_insert_with(|| card.clone());
        }
        for (record, wall) in &contents.tail {
            let batch = Batch { at: record.at, events: record.events.clone() };
            core.retell(&batch, &record.step)
                .map_err(|why| DaemonError::Policy { name: changed_to(&batch), why })?;
            board.note(&batch, *wall, &record.step, &works);
            board.renew(&core, &Touched::by(&batch, &record.step));
        }
        // Those that have ended are shown as they were at their end.
        let is_over = |card: &&Card| core.state().job(card.job).is_none();
        board.jobs.extend(contents.ended.iter().filter(is_over).map(|card| (card.job, card.clone())));
        let policy = (board.policy.clone(), board.parameters.clone());
        Ok(Self { core, board, policy })
    }
}

/// The policy that a batch changed to.
fn changed_to(batch: &Batch) -> String {
    let to = batch.events.iter().find_map(|event| match event {
        Event::PolicyChanged { policy, .. } => Some(policy.clone()),
        _ => None,
    });
    to.unwrap_or_default()
}

/// What is known of the jobs that have not ended, and of requests.
pub(crate) fn desk_of(contents: Contents, core: &Core) -> Desk {
    let mut desk = Desk::default();
    for kept in contents.works {
        desk.next = desk.next.max(kept.job.0 + 1);
        if let Some(key) = &kept.key {
            desk.keys.insert((Arc::clone(&kept.tenant), Arc::clone(key)), kept.job);
        }
        if let Some(view) = core.state().job(kept.job) {
            let known = Known {
                job: Arc::clone(&view.job),
                work: kept.work,
                saved: view.done.saved,
                attempt: view.attempt,
                is_stopping: view.phase == Phase::Stopping,
                is_over: false,
            };
            desk.jobs.insert(kept.job, known);
        }
    }
    desk
}

impl Desk {
    /// What holds something, as far as is believed.
    pub(crate) fn held(&self, core: &Core) -> Vec<Held> {
        let held = core.state().jobs().filter(|view| view.held.is_some());
        held.filter_map(|view| {
            let known = self.jobs.get(&view.id())?;
            Some(Held {
                job: Arc::clone(&known.job),
                work: Arc::clone(&known.work),
                attempt: view.attempt,
                allocation: view.held.clone(),
                iterations: known.saved,
                quotas: core.state().quotas_of(view.id()),
                pending: match core.state().moves_to(view.id()) {
                    _ if view.phase == Phase::Stopping => Some(Pending::Stop),
                    Some(to) => Some(Pending::Resize(to.clone(), core.state().quotas_after_move(view.id()))),
                    None => None,
                },
            })
        })
        .collect()
    }
}
