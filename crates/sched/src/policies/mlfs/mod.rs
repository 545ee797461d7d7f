//! MLFS: jobs are graphs of tasks, and tasks are ranked by what training has to gain from them.
//!
//! # Idea
//! MLF-H, the heuristic of MLFS. A task goes first if its job is urgent and early in its training, if its iterations still take
//! much off the loss, if it has a large part of the model, if much depends on it, if its deadline is near, little remains, or it
//! has waited long (`priority`). It goes to the node that is nearest to an ideal one: little used, close to the tasks that it
//! talks to, cheap to move to (`ideal`). Nodes and GPUs are shared by what tasks use, up to a threshold; where more is used,
//! tasks leave, those first that relieve the node most (`relief`).
//!
//! # Source
//! Wang, Liu, Shen: Job Scheduling for Large-Scale Machine Learning Clusters, CoNEXT 2020 (doi 10.1145/3386367.3432588), sections
//! 3.2 and 3.3. The public code is another system and was not used.
//!
//! # What it sees
//! Graphs, demands and what tasks were seen to use; declared and done iterations and their time; losses, urgency, deadlines.
//!
//! # Parameters
//! See `parameters`. The defaults are the paper's, in hours, which it leaves open. `urgency`, `deadline`, `bandwidth` and
//! `migration` switch off what its ablations leave out.
//!
//! `mlf-h+` is the same with other defaults, found on the preset `mlfs`: jobs are ranked by what finishing them is worth for what
//! they still take (`rank_by`), what must run together goes to one node where one has room (`together`), nodes are used up to
//! what they have (`overload` 1), and nothing moves (`migration`). As published, MLF-H moves a task whenever its node is used
//! beyond 90 % for a minute, which with uses that wander happens to most nodes most of the time when the cluster is full; each
//! move stops its job for some seconds and leaves what it talks to behind. That costs a third of the mean completion time.
//!
//! # Where we differ
//! The paper places task by task and says nothing of jobs of which only some tasks find a place. Here what makes progress only
//! together is placed together or not at all: a replica, or a job (`queue`). Besides the threshold on what is used, what is demanded
//! must be free (`servers`). What the paper leaves undefined of times and losses is said in `standing`, of parameter servers and
//! overflow in `priority`, of scales in `ideal`, of who may leave in `relief`. A gang without a graph is one task in the queue and
//! as many as it has workers on nodes; what would not even fit the idle cluster below the threshold is placed by what is free
//! alone. Higher classes are served before lower ones. Jobs that may not be moved are placed whole and left alone.

mod hopeless;
mod ideal;
mod member;
mod memory;
mod mlfc;
mod parameters;
mod patience;
mod placing;
mod priority;
mod queue;
mod relief;
mod round;
mod saying;
mod servers;
mod standing;

use crate::decide::{
    Abilities, Ahead, Cadence, Decision, Entry, Policy, Suits, Verdict, defaults, parameters as read,
};
use crate::model::{JobId, Span};
use crate::view::{Causes, Snapshot};

pub(super) use mlfc::MLF_C;
use parameters::{PARAMETERS, Parameters, Plus};
use round::Mlfs;

impl Policy for Mlfs {
    fn cadence(&self) -> Cadence {
        let round = Span::from_secs_f64(self.parameters.round_s);
        if self.parameters.at_events {
            Cadence::Both(Causes::CAPACITY, round)
        } else {
            Cadence::Rounds(round)
        }
    }

    fn needs(&self) -> Abilities {
        Abilities::NONE
    }

    fn decide(&mut self, seen: &Snapshot) -> Decision {
        self.run(seen);
        let mut decision = self.changes(seen);
        let changed = decision.targets.iter().map(|(id, _)| *id);
        let mut spoken: Vec<JobId> = self.made.news.iter().copied().chain(changed).collect();
        spoken.sort_unstable();
        spoken.dedup();
        decision.verdicts = spoken.into_iter().map(|id| (id, self.verdict(seen, id))).collect();
        decision
    }

    fn explain(&mut self, seen: &Snapshot, job: JobId) -> Verdict {
        self.run(seen);
        self.verdict(seen, job)
    }

    fn ahead(&mut self, seen: &Snapshot, job: JobId) -> Ahead {
        self.follow(seen);
        let (_, queue) = self.queue(seen, &[]);
        let waiting = queue.into_iter().map(|(key, _)| key.job);
        let mut jobs: Vec<JobId> = Vec::new();
        for id in waiting.filter(|id| self.members[id].target.is_none()) {
            if id == job {
                break;
            }
            // A job stands where its first replica does.
            if !jobs.contains(&id) {
                jobs.push(id);
            }
        }
        Ahead { jobs, is_total: true }
    }
}

/// MLF-H.
pub(super) const MLF_H: Entry = Entry {
    name: "mlf-h",
    title: "tasks of graphs by what training gains from them, on the nodes nearest to an ideal one",
    source: "Wang, Liu, Shen, MLFS, CoNEXT 2020",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Parameters>,
    build: |given| Ok(Box::new(Mlfs::new(read("mlf-h", PARAMETERS, given)?))),
};

/// MLF-H with other defaults.
pub(super) const MLF_H_PLUS: Entry = Entry {
    name: "mlf-h+",
    title: "mlf-h with bounded dependents, urgency on the whole priority, and no task that waits for want of another node",
    source: "MLFS, CoNEXT 2020, with changes of our own",
    reads_declared: true,
    suits: Suits::AnyJobs,
    parameters: PARAMETERS,
    sizes: false,
    defaults: defaults::<Plus>,
    build: |given| {
        let Plus(parameters) = read("mlf-h+", PARAMETERS, given)?;
        Ok(Box::new(Mlfs::new(parameters)))
    },
};
