//! What tasks really use, which may be less or more than they demand.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Resources, TaskId};

/// What one task of a job used lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUse {
    /// The task.
    pub task: TaskId,
    /// What all its instances used together.
    pub used: Resources,
}

/// What the tasks of a job used lately, as far as anybody said, by ascending task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usage(Option<Arc<[TaskUse]>>);

impl Usage {
    /// Nothing is known.
    pub const NONE: Self = Self(None);

    /// A usage of these tasks, in any order; of two amounts for one task the latter counts.
    pub fn new(mut tasks: Vec<TaskUse>) -> Self {
        if tasks.is_empty() {
            return Self::NONE;
        }
        tasks.sort_by_key(|told| told.task);
        // Later ones overwrite: the last of equal tasks is kept.
        tasks.reverse();
        tasks.dedup_by_key(|told| told.task);
        tasks.reverse();
        Self(Some(tasks.into()))
    }

    /// What is known, by ascending task.
    pub fn tasks(&self) -> &[TaskUse] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether nothing is known.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// What a task used, if that is known.
    pub fn of(&self, task: TaskId) -> Option<Resources> {
        let tasks = self.tasks();
        tasks.binary_search_by_key(&task, |told| told.task).ok().map(|i| tasks[i].used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latter_of_two_amounts_counts() {
        let told = |task, cpus| TaskUse { task: TaskId(task), used: Resources::cpus(cpus) };
        let usage = Usage::new(vec![told(3, 1), told(1, 2), told(3, 4)]);
        assert_eq!(usage.tasks(), [told(1, 2), told(3, 4)]);
        assert_eq!(usage.of(TaskId(3)), Some(Resources::cpus(4)));
        assert_eq!(usage.of(TaskId(2)), None);
        assert!(Usage::new(Vec::new()).is_none());
    }
}
