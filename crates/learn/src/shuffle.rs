//! The jobs of a window in another order. Which job stands where says little, and a network that sees all orders learns of
//! all places what it learns of one.

use rand::RngExt;
use rand_pcg::Pcg64;
use trainyard_sched::policies::dl2::Schema;

/// An order: for each place, where its job stood before.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    order: Vec<usize>,
    row: usize,
}

impl Shuffle {
    /// As it is.
    pub(crate) fn none(schema: Schema) -> Self {
        Self { order: (0..schema.jobs).collect(), row: schema.inputs() / schema.jobs }
    }

    /// Any order, all alike (Fisher and Yates).
    pub(crate) fn any(schema: Schema, random: &mut Pcg64) -> Self {
        let mut shuffle = Self::none(schema);
        for i in (1..shuffle.order.len()).rev() {
            shuffle.order.swap(i, random.random_range(0..=i));
        }
        shuffle
    }

    /// What is seen then.
    pub(crate) fn state(&self, state: &[f32]) -> Vec<f32> {
        self.order.iter().flat_map(|from| &state[from * self.row..(from + 1) * self.row]).copied().collect()
    }

    /// What may be done then; stopping comes last as ever.
    pub(crate) fn open(&self, open: &[bool]) -> Vec<bool> {
        let of_jobs = self.order.iter().flat_map(|from| &open[3 * from..3 * from + 3]);
        of_jobs.chain(&open[3 * self.order.len()..]).copied().collect()
    }

    /// What the same action is then.
    pub(crate) fn action(&self, action: usize) -> usize {
        let place = self.order.iter().position(|from| *from == action / 3);
        place.map_or(action, |to| 3 * to + action % 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::rand_core::SeedableRng;

    #[test]
    fn jobs_that_change_places_take_all_along() {
        let schema = Schema { jobs: 4, kinds: 2 };
        let row = schema.inputs() / schema.jobs;
        let state: Vec<f32> = (0..schema.inputs()).map(|i| i as f32).collect();
        let mut random = Pcg64::seed_from_u64(1);
        let mut moved = 0;
        for action in 0..schema.actions() {
            let open: Vec<bool> = (0..schema.actions()).map(|i| i == action).collect();
            for _ in 0..10 {
                let shuffle = Shuffle::any(schema, &mut random);
                let new = shuffle.action(action);
                assert!(shuffle.open(&open)[new] && shuffle.open(&open).iter().filter(|x| **x).count() == 1);
                if action == schema.actions() - 1 {
                    assert_eq!(new, action, "stopping is no job's");
                    continue;
                }
                moved += usize::from(new != action);
                assert_eq!(new % 3, action % 3);
                let (to, from) = (new / 3, action / 3);
                let rows = shuffle.state(&state);
                assert_eq!(rows[to * row..(to + 1) * row], state[from * row..(from + 1) * row]);
            }
        }
        assert!(moved > 50, "{moved}");
        let none = Shuffle::none(schema);
        assert_eq!((none.state(&state), none.action(7)), (state, 7));
    }
}
