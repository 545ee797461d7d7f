//! How fast, how long, how good? Formulas that policies and the simulator's physics share.

mod iteration;
mod loss;
mod speed;

pub use iteration::{graph_iteration_s, ring_all_reduce_s};
pub use loss::{Expected, Fit, Fitting, LossHistory, MAX_LOSS_POINTS};
pub use speed::{
    Family, MAX_SPEED_POINTS, NormalEquations, OUTLIER, PROFILE_SIZES, SpeedFit, SpeedHistory, SpeedPoint,
    fit_fixed_part, fit_speed,
};
