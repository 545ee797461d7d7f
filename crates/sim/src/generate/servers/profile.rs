//! Eight models that train with parameter servers, and how fast they were measured to go. Figures only.
//!
//! They are those of the public code of DL2 (Peng et al., arXiv 1909.06040; repository pengyanghua/DL2, commit 2e54920), as
//! the specification of DL2 has them, sections 5.1 and 5.2. `measured` and `strong` belong to one table, in which the total
//! batch is the same for any number of workers; `weak` are fits of an older table with a batch for each worker. In the
//! first table speed falls with many workers, in the second it grows.

use trainyard_sched::model::{SpeedFunction, SpeedTable};

/// Numbers of servers and workers at which there are figures in [`ServerModel::measured`].
const SERVERS: [u32; 5] = [1, 3, 5, 9, 13];
const WORKERS: [u32; 6] = [1, 3, 5, 7, 9, 11];

/// A run that failed.
const FAILED: f64 = 0.0;

/// One model.
pub(super) struct ServerModel {
    /// Its name.
    pub(super) name: &'static str,
    /// Samples in one unit of work. The code counts samples a second against batches an epoch, so its "epoch" is this
    /// many samples; times of jobs are not touched by that.
    pub(super) samples: f64,
    /// Whether a worker takes GPU slots.
    pub(super) needs_gpu: bool,
    batch: f64,
    /// Samples a second by servers, then by workers.
    measured: [[f64; 6]; 5],
    /// Seconds of a step: `t0 batch / w + t1 + t2 w / p + t3 w + t4 p`.
    strong: [f64; 5],
    weak_batch: f64,
    /// Seconds of a step of a worker: `t0 + t1 w / p + t2 w + t3 p`.
    weak: [f64; 4],
}

/// The models, in the order of the code's types.
pub(super) const MODELS: [ServerModel; 8] = [
    ServerModel {
        name: "resnet-50",
        samples: 115.0,
        needs_gpu: true,
        batch: 32.0,
        measured: [
            [15.8, 13.9, 10.9, 9.0, 7.3, 6.8],
            [46.7, 35.1, 28.8, 25.5, 21.1, 20.1],
            [47.3, 46.6, 38.6, 32.3, 31.3, 28.2],
            [53.1, 46.2, 44.6, 36.0, 31.5, 28.3],
            [59.0, 57.6, 47.9, 45.2, 38.9, 36.6],
        ],
        strong: [0.003_745_8, 0.420_27, 0.418_7, 0.007_483_4, 0.0],
        weak_batch: 32.0,
        weak: [1.003_06, 0.215_82, 0.0, 3e-5],
    },
    ServerModel {
        name: "vgg-16",
        samples: 115.0,
        needs_gpu: true,
        batch: 32.0,
        measured: [
            [9.6, 7.4, 5.7, 5.1, 4.1, FAILED],
            [17.5, 13.4, 11.5, 9.6, 8.1, 6.5],
            [17.8, 18.6, 15.1, 12.1, 11.0, 7.1],
            [25.8, 20.7, 18.7, 14.1, 12.2, FAILED],
            [28.4, 23.9, 21.0, FAILED, 12.6, 11.2],
        ],
        strong: [0.016_514, 0.586_69, 0.793_3, 0.136_82, 0.0],
        weak_batch: 32.0,
        weak: [1.339_63, 0.820_9, 0.0, 0.0],
    },
    ServerModel {
        name: "resnext-110",
        samples: 390.0,
        needs_gpu: true,
        batch: 128.0,
        measured: [
            [383.0, 204.0, 151.0, 111.0, 96.5, 83.8],
            [484.0, 400.0, 270.0, 224.0, 196.0, 159.0],
            [507.0, 478.0, 389.0, 312.0, 247.0, 210.0],
            [457.0, 406.0, 321.0, 279.0, 255.0, 222.0],
            [433.0, 433.0, 387.0, 333.0, 298.0, 275.0],
        ],
        strong: [0.000_539_29, 0.156_12, 0.110_42, 0.019_913, 0.001_166_3],
        weak_batch: 128.0,
        weak: [0.203_45, 0.089_71, 0.0, 0.003_62],
    },
    ServerModel {
        name: "inception-bn",
        samples: 120.0,
        needs_gpu: true,
        batch: 128.0,
        measured: [
            [170.0, 135.0, FAILED, 79.0, 65.5, 57.3],
            [216.0, 268.0, 216.0, 185.0, 152.0, 137.0],
            [213.0, 305.0, 268.0, 233.0, 196.0, 173.0],
            [209.0, 293.0, 273.0, 232.0, 214.0, 185.0],
            [207.0, 289.0, 295.0, 266.0, 247.0, 221.0],
        ],
        strong: [0.003_105_4, 0.154_08, 0.166_43, 0.019_408, 0.002_812_6],
        weak_batch: 128.0,
        weak: [0.839_75, 0.127_41, 0.0, 0.0],
    },
    ServerModel {
        name: "seq2seq",
        samples: 780.0,
        needs_gpu: true,
        batch: 64.0,
        measured: [
            [277.0, 251.0, 235.0, 201.0, 172.0, 152.0],
            [378.0, 383.0, 329.0, 268.0, 218.0, 196.0],
            [486.0, 530.0, 466.0, 430.0, 334.0, 269.0],
            [449.0, 488.0, 450.0, 349.0, 269.0, 253.0],
            [454.0, 516.0, 484.0, 352.0, 294.0, 263.0],
        ],
        strong: [0.001_037_9, 0.054_084, 0.024_24, 0.013_146, 0.0],
        weak_batch: 64.0,
        // 45.5 samples a second for each worker.
        weak: [64.0 / 45.5, 0.0, 0.0, 0.0],
    },
    ServerModel {
        name: "cnn-text-classification",
        samples: 193.0,
        needs_gpu: false,
        batch: 50.0,
        measured: [
            [61.9, 75.0, 72.9, 69.3, 62.8, 59.9],
            [68.6, 90.7, 97.8, 86.3, 82.3, 74.8],
            [71.9, 93.2, 100.0, 93.2, 86.1, 83.7],
            [67.3, 95.5, 96.7, 94.6, 86.3, 84.7],
            [65.9, 91.1, 99.5, 96.1, 90.3, 86.3],
        ],
        strong: [0.007_464, 0.344_55, 0.023_749, 0.016_938, 0.0],
        weak_batch: 50.0,
        weak: [0.606_97, 0.079_59, 0.007_12, 0.002_59],
    },
    ServerModel {
        name: "dssm",
        samples: 349.0,
        needs_gpu: false,
        batch: 256.0,
        measured: [
            [462.0, 991.0, 1188.0, 1089.0, 1034.0, 1030.0],
            [437.0, 986.0, 1163.0, 1105.0, 1043.0, 1033.0],
            [506.0, 994.0, 1125.0, 1019.0, 1028.0, 1016.0],
            [464.0, 1015.0, 1130.0, 1085.0, 1039.0, 1006.0],
            [491.0, 998.0, 1149.0, 1088.0, 1054.0, 1043.0],
        ],
        strong: [0.001_550_1, 0.117_72, 0.0, 0.007_300_5, 0.000_225_35],
        weak_batch: 256.0,
        weak: [0.544_71, 0.026_98, 0.010_24, 0.0],
    },
    ServerModel {
        name: "wlm",
        samples: 165.0,
        needs_gpu: true,
        batch: 160.0,
        measured: [
            [162.0, 144.0, 106.0, 88.6, 90.4, 82.3],
            [310.0, 268.0, 238.0, 171.0, 166.0, 147.0],
            [498.0, 361.0, 290.0, 264.0, 219.0, 182.0],
            [407.0, 391.0, 333.0, 251.0, 209.0, 202.0],
            [427.0, 403.0, 358.0, 248.0, 219.0, 205.0],
        ],
        strong: [0.000_534_85, 0.234_3, 0.156_01, 0.031_253, 0.000_549_56],
        weak_batch: 160.0,
        weak: [0.548_38, 0.393_13, 0.018_8, 0.0],
    },
];

impl ServerModel {
    /// Units of work a second, bilinear between the measured sizes and beyond them as at the edge.
    pub(super) fn as_measured(&self) -> SpeedTable {
        SpeedTable::new(WORKERS[5], SERVERS[4], |workers, servers| {
            let (i, part) = between(&SERVERS, servers);
            let row = |i: usize| along(&self.measured[i], workers);
            (row(i) * (1.0 - part) + row(i + 1) * part) / self.samples
        })
    }

    /// The function fitted to the table with one total batch.
    pub(super) fn as_fitted(&self) -> SpeedFunction {
        let theta = self.strong.map(|value| value * self.samples / self.batch);
        SpeedFunction::SynchronousServers { batch: self.batch, theta }
    }

    /// The function fitted to the table with a batch for each worker.
    pub(super) fn as_weak(&self) -> SpeedFunction {
        let theta = self.weak.map(|value| value * self.samples / self.weak_batch);
        SpeedFunction::AsynchronousServers { theta }
    }
}

/// The known number below and how far the way is to the next one.
fn between<const N: usize>(known: &[u32; N], at: u32) -> (usize, f64) {
    let upper = known.partition_point(|known| *known <= at).clamp(1, N - 1);
    let (low, high) = (known[upper - 1], known[upper]);
    let part = (f64::from(at) - f64::from(low)) / f64::from(high - low);
    (upper - 1, part.clamp(0.0, 1.0))
}

/// A row at a number of workers; runs that failed are left out.
fn along(row: &[f64; 6], workers: u32) -> f64 {
    let known: Vec<(f64, f64)> = WORKERS
        .iter()
        .zip(row)
        .filter(|(_, speed)| **speed != FAILED)
        .map(|(w, s)| (f64::from(*w), *s))
        .collect();
    let at = f64::from(workers);
    let upper = known.partition_point(|(w, _)| *w <= at).clamp(1, known.len() - 1);
    let ((w0, low), (w1, high)) = (known[upper - 1], known[upper]);
    low + (high - low) * ((at - w0) / (w1 - w0)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn samples_per_s(model: usize, workers: u32, servers: u32) -> f64 {
        let model = &MODELS[model];
        let speed = SpeedFunction::Measured(Arc::new(model.as_measured()));
        speed.iterations_per_s(workers, servers) * model.samples
    }

    #[test]
    fn measured_speeds_are_met_and_interpolated_by_hand() {
        let cases = [
            ((0, 1, 1), 15.8),
            ((0, 2, 1), 14.85),
            ((0, 3, 4), 40.85),
            ((0, 2, 4), (46.7 + 35.1 + 47.3 + 46.6) / 4.0),
            ((0, 16, 16), 36.6),
            ((1, 11, 1), 4.1),
            ((1, 7, 13), (21.0 + 12.6) / 2.0),
            ((3, 5, 1), (135.0 + 79.0) / 2.0),
        ];
        for ((model, workers, servers), expected) in cases {
            let found = samples_per_s(model, workers, servers);
            assert!((found - expected).abs() < 1e-9, "{} {workers} {servers}: {found}", MODELS[model].name);
        }
    }

    #[test]
    fn fits_are_as_close_to_the_measured_speeds_as_said() {
        // The mean absolute errors of the specification, section 5.1, over all measured sizes; ours are over the grid.
        let said = [0.097, 0.113, 0.068, 0.048, 0.097, 0.031, 0.049, 0.091];
        for (model, said) in MODELS.iter().zip(said) {
            let fitted = model.as_fitted();
            let mut errors = Vec::new();
            for (row, servers) in model.measured.iter().zip(SERVERS) {
                for (speed, workers) in row.iter().zip(WORKERS).filter(|(speed, _)| **speed != FAILED) {
                    let ours = fitted.iterations_per_s(workers, servers) * model.samples;
                    errors.push((ours / speed - 1.0).abs());
                }
            }
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            assert!((mean - said).abs() < 0.05, "{}: {mean} against {said}", model.name);
        }
    }

    #[test]
    fn weak_speeds_grow_with_equal_workers_and_servers() {
        for model in &MODELS {
            let weak = model.as_weak();
            let per_s = |n: u32| weak.iterations_per_s(n, n) * model.samples;
            assert!(per_s(12) > 5.0 * per_s(1), "{}", model.name);
        }
        let resnet = MODELS[0].as_weak().iterations_per_s(1, 1) * MODELS[0].samples;
        assert!((resnet - 32.0 / (1.003_06 + 0.215_82 + 3e-5)).abs() < 1e-9, "{resnet}");
    }
}
