//! How fast, how long, how good? Formulas that policies and the simulator's physics share.

mod accuracy;
mod iteration;
mod least_squares;
mod loss;
mod speed;
mod throughput;
mod traffic;

pub use accuracy::AccuracyForecast;
pub use iteration::{graph_iteration_s, ring_all_reduce_s, tails_s};
pub use loss::{
    Expected, Family, Fit, Fitting, LossHealth, LossHistory, LossTrend, MAX_LOSS_POINTS, Milestone, Reached,
    Recency, fit_inverse,
};
pub use speed::{
    MAX_SPEED_POINTS, MeasuredRate, MeasuredRates, NormalEquations, OUTLIER, PROFILE_SIZES, SpeedFamily,
    SpeedFit, SpeedHistory, SpeedPoint, fit_fixed_part, fit_speed,
};
pub use throughput::{Library, Profile, References, Unseen, complete, pair_table, unseen_per_s};
pub use traffic::traffic_bytes;
