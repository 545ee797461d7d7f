//! Linear programs by the crate `clarabel` (Goulart and Chen, 2024): an interior-point method for any rows.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, SupportedConeT, ZeroConeT,
};

use super::Unsolved;
use super::linear::{LinearProgram, Optimum, Sense, Solver};

/// The method as `clarabel` has it, in one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interior;

/// Rows as `clarabel` wants them: equations first, then rows that are at most something, with the signs of variables last.
struct Standard {
    /// The place of each row of the program, and whether its sign was changed.
    places: Vec<(usize, bool)>,
    matrix: CscMatrix<f64>,
    right: Vec<f64>,
    cones: [SupportedConeT<f64>; 2],
}

fn standard(program: &LinearProgram) -> Standard {
    let equations = program.rows.iter().filter(|row| row.sense == Sense::Equal).count();
    let signs: Vec<usize> =
        program.is_free.iter().enumerate().filter(|(_, is_free)| !**is_free).map(|(i, _)| i).collect();
    let height = program.rows.len() + signs.len();
    let (mut next_equation, mut next) = (0, equations);
    let mut places = Vec::with_capacity(program.rows.len());
    let mut right = vec![0.0; height];
    let (mut at_row, mut at_column, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for row in &program.rows {
        let counter = if row.sense == Sense::Equal { &mut next_equation } else { &mut next };
        let place = *counter;
        *counter += 1;
        let is_turned = row.sense == Sense::AtLeast;
        let sign = if is_turned { -1.0 } else { 1.0 };
        places.push((place, is_turned));
        right[place] = sign * row.right;
        for (variable, value) in &row.entries {
            at_row.push(place);
            at_column.push(*variable);
            values.push(sign * value);
        }
    }
    for (i, variable) in signs.into_iter().enumerate() {
        at_row.push(program.rows.len() + i);
        at_column.push(variable);
        values.push(-1.0);
    }
    let matrix = CscMatrix::new_from_triplets(height, program.gains.len(), at_row, at_column, values);
    let cones = [ZeroConeT(equations), NonnegativeConeT(height - equations)];
    Standard { places, matrix, right, cones }
}

impl Solver for Interior {
    fn solve(&self, program: &LinearProgram) -> Result<Optimum, Unsolved> {
        let Standard { places, matrix, right, cones } = standard(program);
        let costs: Vec<f64> = program.gains.iter().map(|gain| -gain).collect();
        let nothing = CscMatrix::zeros((costs.len(), costs.len()));
        let settings = DefaultSettings {
            verbose: false,
            max_threads: 1,
            tol_gap_abs: 1e-9,
            tol_gap_rel: 1e-9,
            tol_feas: 1e-9,
            ..DefaultSettings::default()
        };
        let refused = |_| Unsolved::Failed { iterations: 0, gap: f64::INFINITY };
        let mut solver =
            DefaultSolver::new(&nothing, &costs, &matrix, &right, &cones, settings).map_err(refused)?;
        solver.solve();
        let found = &solver.solution;
        match found.status {
            SolverStatus::Solved | SolverStatus::AlmostSolved => {}
            SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => {
                return Err(Unsolved::Infeasible);
            }
            SolverStatus::DualInfeasible | SolverStatus::AlmostDualInfeasible => {
                return Err(Unsolved::Unbounded);
            }
            _ => return Err(Unsolved::Failed { iterations: found.iterations, gap: f64::INFINITY }),
        }
        let dual = |(place, is_turned): &(usize, bool)| {
            if *is_turned { -found.z[*place] } else { found.z[*place] }
        };
        let duals = places.iter().map(dual).collect();
        let optimum = Optimum { objective: program.objective(&found.x), x: found.x.clone(), duals };
        program.check(&optimum)?;
        Ok(optimum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_program_is_solved_with_its_duals() {
        // Maximise 3x + 2y + z with x + y <= 4, x + 3y >= 6, x - z = 1, z free: x = 3, y = 1, z = 2.
        let mut program = LinearProgram::default();
        let (x, y, z) = (program.variable(3.0), program.variable(2.0), program.free_variable(1.0));
        program.row(vec![(x, 1.0), (y, 1.0)], Sense::AtMost, 4.0);
        program.row(vec![(x, 1.0), (y, 3.0)], Sense::AtLeast, 6.0);
        program.row(vec![(x, 1.0), (z, -1.0)], Sense::Equal, 1.0);
        let optimum = Interior.solve(&program).expect("it has an answer");
        for (found, expected) in optimum.x.iter().zip([3.0, 1.0, 2.0]) {
            assert!((found - expected).abs() < 1e-6, "{optimum:?}");
        }
        for (found, expected) in optimum.duals.iter().zip([5.0, -1.0, -1.0]) {
            assert!((found - expected).abs() < 1e-6, "{optimum:?}");
        }
    }

    #[test]
    fn what_has_no_answer_says_why() {
        let mut program = LinearProgram::default();
        let x = program.variable(1.0);
        assert_eq!(Interior.solve(&program).err(), Some(Unsolved::Unbounded));
        program.row(vec![(x, 1.0)], Sense::AtMost, 1.0);
        program.row(vec![(x, 1.0)], Sense::AtLeast, 2.0);
        assert_eq!(Interior.solve(&program).err(), Some(Unsolved::Infeasible));
    }
}
