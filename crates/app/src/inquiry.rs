//! What is answered about one job at one moment, whether the run is recorded or goes on: why it waits, who is ahead, and
//! when it will start. Where the moment comes from is not asked here.

use std::sync::Arc;

use rayon::prelude::*;
use trainyard_sched::control::{Moment, Outcome};
use trainyard_sched::decide::{EarlyEnd, Policy, Verdict};
use trainyard_sched::model::{Better, JobId, TenantId, Time};
use trainyard_sched::why::{Other, Waits, why_waits};
use trainyard_sim::forecast::{Forecast, Outlook, Past};

use crate::render::{Answer, Called, Losses, OTHERS, Outlooked, Said, Stands, WHY_SCHEMA, node_name};

/// Makes fresh instances of the policy that decides.
pub(crate) type Make<'a> = dyn Fn() -> Box<dyn Policy> + Sync + 'a;

/// A question about one job.
pub(crate) struct Inquiry<'a> {
    /// The run as it stands.
    pub(crate) moment: &'a Moment,
    /// What happened before.
    pub(crate) past: &'a Past,
    /// Who decides, by name.
    pub(crate) policy: &'a str,
    /// Makes it.
    pub(crate) make: &'a Make<'a>,
    /// What jobs and tenants are called.
    pub(crate) names: Called,
    /// The job.
    pub(crate) job: JobId,
    /// What it is called.
    pub(crate) name: Arc<str>,
    /// When it arrived.
    pub(crate) arrived: Time,
    /// When it first got devices.
    pub(crate) started: Option<Time>,
    /// When and how it ended.
    pub(crate) ended: Option<(Time, Outcome)>,
    /// Why it was cut short, if it was.
    pub(crate) early: Option<EarlyEnd>,
    /// Since when the verdict on the job has been of the same kind, where that is known.
    pub(crate) verdict: (Option<Verdict>, Time),
    /// Whether the moment is the usual one, because nobody said another.
    pub(crate) is_usual: bool,
    /// The end of the run, or now.
    pub(crate) run_ends: Time,
    /// The tenant whose jobs the one who asks may see; `None` for all.
    pub(crate) sees_only: Option<TenantId>,
}

impl Inquiry<'_> {
    /// The answer.
    pub(crate) fn answer(&self) -> Answer {
        let mut waits = why_waits(self.moment, &|| (self.make)(), self.job);
        if let Some(waits) = &mut waits {
            self.hide_others(waits);
        }
        let since = |kind: &str| {
            let (verdict, since) = self.verdict;
            verdict.filter(|verdict| verdict.reason().kind() == kind).map(|_| since)
        };
        let said = waits.iter().flat_map(|waits| &waits.reasons).map(|reason| Said {
            reason: *reason,
            since: since(reason.kind()),
            sentence: reason.told(&self.names),
            remedy: reason.remedy(),
        });
        let asked = self.past.arrivals().get(self.job.index());
        Answer {
            schema: WHY_SCHEMA,
            policy: self.policy.to_owned(),
            job: self.job,
            name: Arc::clone(&self.name),
            tenant: asked.and_then(|job| {
                let tenant = self.moment.state.tenants().get(job.tenant)?;
                Some(Arc::clone(&tenant.name))
            }),
            gpus: asked.map(|job| job.shape.minimum().gpu_milli as f64 / 1e3),
            cpus: asked.map(|job| job.shape.minimum().cpu_milli as f64 / 1e3),
            at: self.moment.at,
            is_last_wait: self.is_usual && waits.is_some(),
            run_ends: self.run_ends,
            state: self.stands(),
            losses: self.losses(),
            reasons: said.collect(),
            forecast: waits.as_ref().map(|_| self.forecast()),
            names: self.names.clone(),
            waits,
        }
    }

    /// Takes the names of other tenants and of their jobs away.
    fn hide_others(&self, waits: &mut Waits) {
        let Some(own) = self.sees_only.and_then(|own| self.moment.state.tenants().get(own)) else { return };
        let hide = |other: &mut Other| {
            if other.tenant != own.name {
                (other.name, other.tenant) = ("a job".into(), OTHERS.into());
            }
        };
        waits.place.ahead.iter_mut().chain(&mut waits.holders).for_each(hide);
    }

    /// How its losses look; nothing before it reports any.
    fn losses(&self) -> Option<Losses> {
        let view = self.moment.state.job(self.job)?;
        let latest = view.losses.latest()?;
        let is_score = view.job.declared.loss.better == Better::Higher;
        Some(Losses {
            reports: view.losses.points().len(),
            iteration: latest.iteration,
            latest: if is_score { -latest.loss } else { latest.loss },
            health: view.losses.health(),
            matters: (self.make)().fitting().is_some(),
        })
    }

    fn stands(&self) -> Stands {
        let at = self.moment.at;
        if self.arrived > at {
            return Stands::NotArrived { arrives: self.arrived };
        }
        let Some(view) = self.moment.state.job(self.job) else {
            let (ended, outcome) = self.ended.unwrap_or((at, Outcome::Withdrawn));
            let (arrived, started) = (self.arrived, self.started);
            let early = self.early.as_ref().map(ToString::to_string);
            return Stands::Ended { ended, outcome, early, arrived, started };
        };
        let (arrived, attempts, waited) = (self.arrived, view.attempt.0, view.waited(at));
        if view.held.is_none() {
            return Stands::Waits { arrived, since: view.served.changed, waited, attempts };
        }
        let (nodes, cluster) = (view.held.nodes(), self.moment.state.cluster());
        Stands::Runs {
            arrived,
            since: view.served.changed,
            phase: view.phase,
            node_names: nodes.iter().map(|node| node_name(cluster.node(*node))).collect(),
            nodes: nodes.iter().map(|node| node.0).collect(),
            gpus: view.held.gpu_milli() as f64 / 1e3,
            cpus: view.held.resources(&view.job.shape).cpu_milli as f64 / 1e3,
            waited,
            attempts,
            left: view.declared_remaining(at),
            verdict: self.moment.state.verdict(self.job),
        }
    }

    /// Looks at as many futures as the question deserves, side by side. Each depends on its number only.
    pub(crate) fn forecast(&self) -> Outlooked {
        let forecast = Forecast::new(self.moment, self.past, self.job);
        let mut seen: Vec<Outlook> = Vec::new();
        loop {
            let next = forecast.next_futures(&seen);
            if next.is_empty() {
                break;
            }
            let more: Vec<Outlook> =
                next.into_par_iter().map(|number| forecast.one_future((self.make)(), number)).collect();
            seen.extend(more);
        }
        Outlooked { estimate: forecast.estimate(&seen), learnt_from: forecast.ends() as u64 }
    }
}
