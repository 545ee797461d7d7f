//! What is said of the virtual world beside machines and jobs.

use trainyard_sched::control::Event;
use trainyard_sched::decide::Abilities;
use trainyard_sched::model::{NodeId, NodeState, Span, Time};

/// How the virtual world behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the backend offers.
    pub abilities: Abilities,
    /// Node failures and returns, by time.
    pub node_changes: Vec<(Time, NodeId, NodeState)>,
    /// What else comes from outside, such as owners that take jobs back, by time.
    pub outside: Vec<(Time, Event)>,
    /// When to stop looking.
    pub horizon: Time,
    /// How often running jobs report how far and how good they are; `None` means never.
    pub report_every: Option<Span>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            abilities: Abilities::ALL,
            node_changes: Vec::new(),
            outside: Vec::new(),
            horizon: Time::NEVER,
            report_every: None,
        }
    }
}
