//! How programs call what they report, and which numbers are taken.

use super::Report;

/// The largest count of iterations; above it not every whole number has a `f64` of its own.
const MOST_ITERATIONS: f64 = 9_007_199_254_740_992.0;

/// What a report can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Iteration,
    Epoch,
    Loss,
    Accuracy,
    Saved,
}

impl Field {
    pub(super) const ALL: [Self; 5] = [Self::Iteration, Self::Epoch, Self::Loss, Self::Accuracy, Self::Saved];

    /// What it is called, the surest first. The size of letters does not matter.
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Iteration => &["iteration", "iterations", "iter", "step", "global_step"],
            Self::Epoch => &["epoch"],
            Self::Loss => &["loss", "train_loss", "training_loss", "train/loss", "lm loss"],
            Self::Accuracy => {
                &["accuracy", "val_accuracy", "validation_accuracy", "eval_accuracy", "acc", "val_acc"]
            }
            Self::Saved => &["saved"],
        }
    }

    /// The place of a name among the names of this field.
    pub(super) fn rank(self, name: &str) -> Option<usize> {
        self.names().iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// What is called so.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.rank(name).is_some())
    }
}

/// All names, for people.
pub(super) fn known() -> String {
    Field::ALL.map(|field| field.names().join(", ")).join("; ")
}

/// What one line says, before it is known what its epochs mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) iteration: Option<f64>,
    pub(super) epoch: Option<f64>,
    pub(super) loss: Option<f64>,
    pub(super) accuracy: Option<f64>,
    pub(super) saved: Option<f64>,
}

/// A number that cannot be what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Impossible;

impl Reading {
    /// Takes a number; `None` stands for one that was said to be none (`null`).
    ///
    /// A loss that is not finite becomes NaN, an accuracy that is not is left out, and iterations must be possible: these
    /// decide what is done, and a line that is wrong about them is better not believed at all.
    pub(super) fn take(&mut self, field: Field, value: Option<f64>) -> Result<(), Impossible> {
        let counted = |value: Option<f64>| match value {
            Some(count) if (0.0..=MOST_ITERATIONS).contains(&count) => Ok(value),
            Some(_) => Err(Impossible),
            None => Ok(None),
        };
        match field {
            Field::Iteration => self.iteration = counted(value)?,
            Field::Epoch => self.epoch = counted(value)?,
            Field::Saved => self.saved = counted(value)?,
            Field::Loss => self.loss = Some(value.filter(|loss| loss.is_finite()).unwrap_or(f64::NAN)),
            Field::Accuracy => self.accuracy = value.filter(|accuracy| accuracy.is_finite()),
        }
        Ok(())
    }

    /// As a report, once its iteration is settled.
    pub(super) fn report(&self, iteration: Option<f64>) -> Report {
        Report { iteration, loss: self.loss, accuracy: self.accuracy, saved: self.saved }
    }
}

/// A number as programs write it: with blanks around, `nan` and `inf` in any size of letters.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_the_size_of_their_letters_and_are_of_one_field_only() {
        assert_eq!(Field::of("Global_Step"), Some(Field::Iteration));
        assert_eq!(Field::of("TRAIN/LOSS"), Some(Field::Loss));
        assert_eq!(Field::of("losses"), None);
        for field in Field::ALL {
            for name in field.names() {
                assert_eq!(Field::of(name), Some(field), "{name}");
                assert!(known().contains(name));
            }
        }
    }

    #[test]
    fn the_contract_lists_all_names_and_no_others() {
        let contract = include_str!("../../../../docs/job-contract.md");
        for field in Field::ALL {
            let row = format!("| `{}` | ", field.names()[0]);
            let line = contract.lines().find(|line| line.starts_with(&row)).expect("a row of the table");
            let cells = line.split('|').take(3).flat_map(|cell| cell.split('`').skip(1).step_by(2));
            assert_eq!(cells.collect::<Vec<_>>(), field.names());
        }
    }

    #[test]
    fn impossible_iterations_are_refused_and_odd_losses_are_passed_on() {
        let mut reading = Reading::default();
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            for field in [Field::Iteration, Field::Epoch, Field::Saved] {
                assert_eq!(reading.take(field, Some(wrong)), Err(Impossible), "{field:?} {wrong}");
            }
        }
        assert_eq!(reading, Reading::default());
        for odd in [None, Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(f64::NAN)] {
            reading.loss = None;
            assert_eq!(reading.take(Field::Loss, odd), Ok(()));
            assert!(reading.loss.is_some_and(f64::is_nan), "{odd:?}");
        }
        assert_eq!(reading.take(Field::Accuracy, Some(f64::NAN)), Ok(()));
        assert_eq!(reading.accuracy, None);
    }
}
