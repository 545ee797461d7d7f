//! Linear programs in general, as data, and what every solver of them must do: answer with duals, and stand by it.

use super::Unsolved;

/// What a row adds up to, compared with its right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// No more.
    AtMost,
    /// No less.
    AtLeast,
    /// The same.
    Equal,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Variables and what they are multiplied by.
    pub entries: Vec<(usize, f64)>,
    /// How the sum compares with the right side.
    pub sense: Sense,
    /// The right side.
    pub right: f64,
}

/// Maximise a sum over variables that are not negative, or may be anything, within rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinearProgram {
    /// What each variable adds to the objective.
    pub gains: Vec<f64>,
    /// Whether a variable may be negative.
    pub is_free: Vec<bool>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// An answer with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The variables.
    pub x: Vec<f64>,
    /// What each row is worth: by how much the objective grows when its right side does.
    pub duals: Vec<f64>,
    /// The objective.
    pub objective: f64,
}

/// Something that solves linear programs.
pub trait Solver {
    /// The best point, or why there is none. An answer has passed [`LinearProgram::check`].
    fn solve(&self, program: &LinearProgram) -> Result<Optimum, Unsolved>;
}

/// How much an answer may be off, relative to the sizes of what is compared.
pub const TOLERANCE: f64 = 1e-6;

impl LinearProgram {
    /// Adds a variable that is not negative and returns its number.
    pub fn variable(&mut self, gain: f64) -> usize {
        self.gains.push(gain);
        self.is_free.push(false);
        self.gains.len() - 1
    }

    /// Adds a variable that may be anything and returns its number.
    pub fn free_variable(&mut self, gain: f64) -> usize {
        let variable = self.variable(gain);
        self.is_free[variable] = true;
        variable
    }

    /// Adds a row.
    pub fn row(&mut self, entries: Vec<(usize, f64)>, sense: Sense, right: f64) {
        self.rows.push(Row { entries, sense, right });
    }

    /// The value of a point.
    pub fn objective(&self, x: &[f64]) -> f64 {
        self.gains.iter().zip(x).map(|(gain, x)| gain * x).sum()
    }

    /// Puts an answer into the program: it must satisfy the rows, its duals must have the right signs and prove that nothing
    /// is better.
    pub fn check(&self, optimum: &Optimum) -> Result<(), Unsolved> {
        let mut worst = 0.0_f64;
        for (x, is_free) in optimum.x.iter().zip(&self.is_free) {
            worst = worst.max(if *is_free { 0.0 } else { -x });
        }
        let mut worth = self.gains.clone();
        let mut sizes: Vec<f64> = self.gains.iter().map(|gain| 1.0 + gain.abs()).collect();
        let mut bound = 0.0;
        for (row, dual) in self.rows.iter().zip(&optimum.duals) {
            let terms = row.entries.iter().map(|(variable, value)| value * optimum.x[*variable]);
            let size = 1.0 + row.right.abs() + terms.clone().map(f64::abs).sum::<f64>();
            let over = terms.sum::<f64>() - row.right;
            let (lack, sign) = match row.sense {
                Sense::AtMost => (over, -dual),
                Sense::AtLeast => (-over, *dual),
                Sense::Equal => (over.abs(), 0.0),
            };
            worst = worst.max(lack / size).max(sign / (1.0 + optimum.objective.abs()));
            bound += row.right * dual;
            for (variable, value) in &row.entries {
                worth[*variable] -= dual * value;
                sizes[*variable] += (dual * value).abs();
            }
        }
        for ((worth, size), is_free) in worth.iter().zip(&sizes).zip(&self.is_free) {
            worst = worst.max(if *is_free { worth.abs() } else { *worth } / size);
        }
        let objective = self.objective(&optimum.x);
        let size = 1.0 + objective.abs();
        worst = worst.max((bound - objective).abs() / size).max((objective - optimum.objective).abs() / size);
        if worst <= TOLERANCE { Ok(()) } else { Err(Unsolved::Failed { iterations: 0, gap: worst }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximise 3x + 2y with x + y <= 4, x + 3y <= 6, x <= 3, x + y <= 10: the best is x = 3, y = 1, worth 11.
    fn example() -> (LinearProgram, Optimum) {
        let mut program = LinearProgram::default();
        let (x, y) = (program.variable(3.0), program.variable(2.0));
        program.row(vec![(x, 1.0), (y, 1.0)], Sense::AtMost, 4.0);
        program.row(vec![(x, 1.0), (y, 3.0)], Sense::AtMost, 6.0);
        program.row(vec![(x, 1.0)], Sense::AtMost, 3.0);
        program.row(vec![(x, 1.0), (y, 1.0)], Sense::AtMost, 10.0);
        (program, Optimum { x: vec![3.0, 1.0], duals: vec![2.0, 0.0, 1.0, 0.0], objective: 11.0 })
    }

    #[test]
    fn an_answer_is_believed_only_with_its_proof() {
        let (program, right) = example();
        assert_eq!(program.check(&right), Ok(()));
        let wrong = [
            // Not the best, or not what it says.
            Optimum { x: vec![3.0, 0.0], objective: 9.0, ..right.clone() },
            Optimum { objective: 11.1, ..right.clone() },
            // Each breaks one thing alone: a row, duals that prove less, duals that leave something to gain, and the sign of a
            // dual.
            Optimum { x: vec![11.0 / 3.0, 0.0], ..right.clone() },
            Optimum { x: vec![3.0, 1.0 - 1e-3], objective: 11.0 - 2e-3, ..right.clone() },
            Optimum { duals: vec![2.75, 0.0, 0.0, 0.0], ..right.clone() },
            Optimum { x: vec![3.0, 0.0], duals: vec![7.0 / 3.0, 0.0, 1.0, -1.0 / 3.0], objective: 9.0 },
        ];
        for wrong in wrong {
            assert!(program.check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
