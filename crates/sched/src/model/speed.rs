//! Speed functions: how fast a job goes with so many workers and parameter servers, as a formula or as a table.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Iterations a second as a function of workers `w` and parameter servers `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedFunction {
    /// `w / (reference * iteration_s)`: work divides perfectly.
    Linear {
        /// Seconds of one iteration with `reference` workers.
        iteration_s: f64,
        /// The number of workers to which `iteration_s` belongs.
        reference: u32,
    },
    /// `1 / (work_s / w + fixed_s)`: a part that divides and one that does not (SLAQ, A2.3).
    WithFixedPart {
        /// Worker-seconds of one iteration that divide.
        work_s: f64,
        /// Seconds of one iteration that do not.
        fixed_s: f64,
    },
    /// `w / (t0 + t1 w / p + t2 w + t3 p)`: asynchronous parameter servers (Optimus, EuroSys 2018).
    AsynchronousServers {
        /// The coefficients `t0` to `t3`, in seconds.
        theta: [f64; 4],
    },
    /// `1 / (t0 m / w + t1 + t2 w / p + t3 w + t4 p)`: synchronous parameter servers with a total
    /// batch of `m` samples (Optimus, EuroSys 2018).
    SynchronousServers {
        /// Samples of one iteration over all workers.
        batch: f64,
        /// The coefficients `t0` to `t4`, in seconds.
        theta: [f64; 5],
    },
    /// `1 / (t0 / w + t1 + t2 (w - 1))`: workers alone that bring gradients together in a ring. What a ring moves is
    /// nearly the same for any number of workers and lies in `t1`; its steps are `2 (w - 1)` and lie in `t2`.
    AllReduce {
        /// The coefficients `t0` to `t2`, in seconds.
        theta: [f64; 3],
    },
    /// As measured.
    Measured(Arc<SpeedTable>),
}

/// Iterations a second for every whole number of workers and servers up to the largest known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct SpeedTable {
    workers: u32,
    /// Row after row by the number of servers, the row of one server first.
    iterations_per_s: Vec<f64>,
}

/// A table as it is written down, before it is checked.
#[derive(Deserialize)]
struct Written {
    workers: u32,
    iterations_per_s: Vec<f64>,
}

impl TryFrom<Written> for SpeedTable {
    type Error = String;

    fn try_from(Written { workers, iterations_per_s }: Written) -> Result<Self, String> {
        let count = iterations_per_s.len();
        if workers == 0 {
            return Err("speed table: workers = 0; give at least 1, the length of a row".to_owned());
        }
        if count == 0 || !count.is_multiple_of(workers as usize) {
            return Err(format!(
                "speed table: iterations_per_s has {count} numbers; give whole rows of workers = {workers}, at least one"
            ));
        }
        match iterations_per_s.iter().position(|speed| !(speed.is_finite() && *speed >= 0.0)) {
            Some(i) => Err(format!(
                "speed table: iterations_per_s[{i}] = {}; give a finite number from 0 on",
                iterations_per_s[i]
            )),
            None => Ok(Self { workers, iterations_per_s }),
        }
    }
}

impl SpeedTable {
    /// A table of what `speed(workers, servers)` says up to so many of each. What is no speed counts as none.
    ///
    /// # Panics
    /// If there is not at least one of each.
    pub fn new(workers: u32, servers: u32, speed: impl Fn(u32, u32) -> f64) -> Self {
        assert!(workers > 0 && servers > 0, "a table has a row and a column");
        let sizes = (1..=servers).flat_map(|servers| (1..=workers).map(move |workers| (workers, servers)));
        let known = |speed: f64| if speed.is_finite() { speed.max(0.0) } else { 0.0 };
        Self { workers, iterations_per_s: sizes.map(|(w, p)| known(speed(w, p))).collect() }
    }

    /// The most workers and servers that the table knows.
    pub const fn largest(&self) -> (u32, u32) {
        (self.workers, self.iterations_per_s.len() as u32 / self.workers)
    }

    /// Iterations a second; beyond the largest size as at the edge.
    fn iterations_per_s(&self, workers: u32, servers: u32) -> f64 {
        let (most_workers, most_servers) = self.largest();
        let (w, p) = (workers.min(most_workers) - 1, servers.min(most_servers) - 1);
        self.iterations_per_s[(p * most_workers + w) as usize]
    }
}

impl SpeedFunction {
    /// Iterations a second; zero without workers, or without servers where the function needs them.
    pub fn iterations_per_s(&self, workers: u32, servers: u32) -> f64 {
        if workers == 0 {
            return 0.0;
        }
        let (w, p) = (f64::from(workers), f64::from(servers));
        match self {
            Self::Linear { iteration_s, reference } => w / (f64::from(*reference) * iteration_s),
            Self::WithFixedPart { work_s, fixed_s } => 1.0 / (work_s / w + fixed_s),
            Self::AllReduce { theta: [t0, t1, t2] } => 1.0 / (t0 / w + t1 + t2 * (w - 1.0)),
            _ if servers == 0 => 0.0,
            Self::AsynchronousServers { theta: [t0, t1, t2, t3] } => w / (t0 + t1 * w / p + t2 * w + t3 * p),
            Self::SynchronousServers { batch, theta: [t0, t1, t2, t3, t4] } => {
                1.0 / (t0 * batch / w + t1 + t2 * w / p + t3 * w + t4 * p)
            }
            Self::Measured(table) => table.iterations_per_s(workers, servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_functions_match_hand_computed_values() {
        let linear = SpeedFunction::Linear { iteration_s: 2.0, reference: 4 };
        assert_eq!(linear.iterations_per_s(4, 0), 0.5);
        assert_eq!(linear.iterations_per_s(8, 0), 1.0);
        let fixed = SpeedFunction::WithFixedPart { work_s: 8.0, fixed_s: 1.0 };
        assert_eq!(fixed.iterations_per_s(4, 0), 1.0 / 3.0);
        let servers = SpeedFunction::AsynchronousServers { theta: [1.0, 0.5, 0.25, 0.0] };
        assert_eq!(servers.iterations_per_s(4, 2), 4.0 / 3.0);
        assert_eq!(servers.iterations_per_s(4, 0), 0.0);
        // Fitted ResNet-50 of the strong profile at p = 5, w = 2 (specification of DL2, part E).
        let theta = [0.003_745_8, 0.420_27, 0.418_7, 0.007_483_4, 0.0];
        let resnet = SpeedFunction::SynchronousServers { batch: 32.0, theta };
        let step_s = 0.003_745_8 * 16.0 + 0.420_27 + 0.418_7 * 0.4 + 0.014_966_8;
        assert!((resnet.iterations_per_s(2, 5) * step_s - 1.0).abs() < 1e-12);
        let ring = SpeedFunction::AllReduce { theta: [8.0, 1.0, 0.5] };
        assert_eq!(ring.iterations_per_s(4, 0), 1.0 / 4.5);
    }

    #[test]
    fn a_table_is_read_by_workers_and_servers_and_goes_on_as_at_its_edge() {
        let table = SpeedTable::new(3, 2, |w, p| f64::from(10 * p + w));
        assert_eq!(table.largest(), (3, 2));
        let speed = SpeedFunction::Measured(Arc::new(table));
        let cases =
            [((1, 1), 11.0), ((3, 1), 13.0), ((2, 2), 22.0), ((9, 9), 23.0), ((2, 0), 0.0), ((0, 2), 0.0)];
        for ((workers, servers), expected) in cases {
            assert_eq!(speed.iterations_per_s(workers, servers), expected, "{workers} {servers}");
        }
        let text =
            |workers: u32, speeds: &str| format!(r#"{{"workers":{workers},"iterations_per_s":[{speeds}]}}"#);
        let read =
            |text: String| serde_json::from_str::<SpeedTable>(&text).map_err(|error| error.to_string());
        assert_eq!(read(text(2, "1.0,2.0")), Ok(SpeedTable::new(2, 1, |w, _| f64::from(w))));
        for (bad, why) in [
            (text(0, "1.0"), "workers = 0"),
            (text(2, ""), "has 0 numbers"),
            (text(2, "1.0,2.0,3.0"), "has 3 numbers"),
            (text(1, "-1.0"), "iterations_per_s[0] = -1"),
        ] {
            let error = read(bad).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let odd = SpeedTable::new(1, 1, |_, _| f64::NAN);
        assert_eq!(SpeedFunction::Measured(Arc::new(odd)).iterations_per_s(1, 1), 0.0);
    }
}
