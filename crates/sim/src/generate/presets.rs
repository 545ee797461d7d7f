//! The presets: figures that describe a kind of workload. Nothing is drawn here.
//!
//! Quantiles of `philly` were taken from the 82,247 rows of the list of Philly jobs in Sia's artifact
//! (SOSP 2023), which has the jobs with a known run time of the trace published with Jeon et al., ATC 2019.

use super::graphs::GraphMix;
use super::learning::Learning;
use super::profiled::Profiled;
use super::rhythm::Rhythm;
use super::servers::ServerMix;

/// A kind of workload.
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is like.
    pub title: &'static str,
    /// Where its figures come from.
    pub source: &'static str,
    /// How many jobs, if nobody says.
    pub jobs: u32,
    /// Over how many days, if nobody says.
    pub days: f64,
    /// The load that it was made for and the GPUs of that cluster, if there is one.
    pub load: Option<(f64, u64)>,
    /// The cluster that it was made for, in words, if there is one.
    pub cluster: Option<&'static str>,
    /// How often its jobs report their losses, in seconds; `None` for jobs that report none.
    pub report_every_s: Option<f64>,
    /// What its jobs are like, if they learn. The figures below are not used then.
    pub(crate) learning: Option<fn() -> Learning>,
    /// How its jobs are mixed, if they use parameter servers. The figures below are not used then.
    pub servers: Option<ServerMix>,
    /// How its jobs are drawn, if they are profiled on several types of GPUs. The figures below are not used then.
    pub profiled: Option<Profiled>,
    /// How its jobs are drawn, if they are graphs of tasks. The figures below but for the rhythm are not used then.
    pub graphs: Option<GraphMix>,
    pub(crate) classes: &'static [SizeClass],
    /// Tenants and their shares of the jobs.
    pub(crate) tenants: &'static [(&'static str, f64)],
    pub(crate) rhythm: Rhythm,
    /// Shares of jobs that complete, fail and are killed.
    pub(crate) endings: [f64; 3],
}

/// Jobs of similar size.
pub(crate) struct SizeClass {
    /// Numbers of GPUs and how many of the jobs have them.
    pub(crate) sizes: &'static [(u32, f64)],
    /// Run times in seconds by the share of jobs that run no longer.
    pub(crate) durations_s: &'static [(f64, f64)],
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    DAY,
    PHILLY,
    SLAQ_W,
    SLAQ_W_DIVIDING,
    C96,
    C96U,
    C12,
    C12U,
    GAVEL,
    GAVEL_A,
    GAVEL_B,
    GAVEL_C,
    S_240,
    mix("m-1", 1),
    mix("m-3", 3),
    mix("m-4", 4),
    mix("m-5", 5),
    mix("m-8", 8),
    mix("m-10", 10),
    mix("m-12", 12),
    MLFS,
    MLFS_LARGE,
    MLFS_SMALL,
];

/// MLFS's testbed at its highest load.
const MLFS: Preset = Preset {
    name: "mlfs",
    title: "1860 jobs that are graphs of 1 to 33 tasks, arriving over 36 hours, on 20 nodes of 4 GPUs",
    source: "after MLFS (CoNEXT 2020), whose workload is not public; most figures are of this project, the rhythm is Philly's",
    jobs: 1860,
    days: 1.5,
    cluster: Some("20x4:v100+32cpu+244gb+10gbit"),
    graphs: Some(GraphMix { rhythm_days: 7 }),
    ..PHILLY
};

/// MLFS's simulation.
const MLFS_LARGE: Preset = Preset {
    name: "mlfs-large",
    title: "117325 jobs that are graphs of 1 to 33 tasks, arriving over 7.5 days, on 550 nodes and 2474 GPUs",
    jobs: 117_325,
    days: 7.5,
    cluster: Some("229x8:v100+64cpu+488gb+10gbit,321x2:v100+16cpu+122gb+10gbit"),
    graphs: Some(GraphMix { rhythm_days: 75 }),
    ..MLFS
};

/// A quarter of the testbed.
const MLFS_SMALL: Preset = Preset {
    name: "mlfs-small",
    title: "465 jobs that are graphs of 1 to 33 tasks, arriving over 36 hours, on 5 nodes of 4 GPUs",
    jobs: 465,
    cluster: Some("5x4:v100+32cpu+244gb+10gbit"),
    ..MLFS
};

/// Gavel's generator of traces and the cluster of its simulations. The public code takes each GPU for a server.
const GAVEL: Preset = Preset {
    name: "gavel",
    title: "jobs of Gavel's generator that arrive at random, on 36 GPUs each of three types",
    source: "Gavel (OSDI 2020): the generator of its public code, number for number",
    jobs: 6000,
    days: 6000.0 / 4.8 / 24.0,
    load: None,
    cluster: Some("36x1:v100,36x1:p100,36x1:k80"),
    report_every_s: None,
    learning: None,
    servers: None,
    profiled: Some(Profiled::Gavel { multi_gpu: false, jobs_per_h: 4.8 }),
    graphs: None,
    classes: &[],
    tenants: &[],
    rhythm: Rhythm { hours: [1.0; 24], weekdays: [1.0; 7] },
    endings: [1.0, 0.0, 0.0],
};

/// The smallest of three sets for which results of Gavel's own simulator are known.
const GAVEL_A: Preset = Preset {
    name: "gavel-a",
    title: "30 jobs of Gavel's generator with one GPU each, all at once, on 4 GPUs each of three types",
    jobs: 30,
    cluster: Some("4x1:v100,4x1:p100,4x1:k80"),
    profiled: Some(Profiled::Gavel { multi_gpu: false, jobs_per_h: 0.0 }),
    ..GAVEL
};

/// The same with gangs.
const GAVEL_B: Preset = Preset {
    name: "gavel-b",
    title: "30 jobs of Gavel's generator with 1 to 8 GPUs, all at once, on 8 GPUs each of three types",
    cluster: Some("8x1:v100,8x1:p100,8x1:k80"),
    profiled: Some(Profiled::Gavel { multi_gpu: true, jobs_per_h: 0.0 }),
    ..GAVEL_A
};

/// A larger one with gangs.
const GAVEL_C: Preset = Preset {
    name: "gavel-c",
    title: "120 jobs of Gavel's generator with 1 to 8 GPUs, all at once, on 20 GPUs each of three types",
    jobs: 120,
    cluster: Some("20x1:v100,20x1:p100,20x1:k80"),
    ..GAVEL_B
};

/// Jobs for Hadar. Its categories of GPU-hours, models and cluster are as they are told of; nobody published the trace.
const S_240: Preset = Preset {
    name: "s-240",
    title: "240 jobs from minutes to 100 GPU-hours, all at once, on 15 nodes of 4 GPUs of three types",
    source: "after Hadar (2025), whose own trace is not public; speeds are Gavel's",
    jobs: 240,
    cluster: Some("5x4:v100,5x4:p100,5x4:k80"),
    profiled: Some(Profiled::Categories),
    ..GAVEL
};

/// A few jobs that may be forked, for HadarE; the number is that of the jobs. What the paper's own mixes hold is not public.
const fn mix(name: &'static str, jobs: u32) -> Preset {
    Preset {
        name,
        title: "jobs of 2 to 6 hours on a V100 that may be forked, all at once, on 5 nodes of one GPU",
        source: "after HadarE (2025), whose own mixes are not public; speeds are Gavel's",
        jobs,
        cluster: Some("2x1:v100,1x1:p100,2x1:k80"),
        profiled: Some(Profiled::Mix),
        ..GAVEL
    }
}

/// The workload on which DL2 is compared with Optimus and DRF, as far as it can be known; see [`ServerMix`].
const C96: Preset = Preset {
    name: "c96",
    title: "60 jobs with parameter servers on 96 nodes; each model has jobs of its own length",
    source: "after DL2 (2019) and its public code; arrivals and lengths are figures of this project",
    jobs: 60,
    days: 1.0,
    load: None,
    cluster: Some("96x8:slot+8cpu"),
    report_every_s: Some(1200.0),
    learning: None,
    servers: Some(ServerMix { most_arrivals: 3, model_by_length: true }),
    profiled: None,
    graphs: None,
    classes: &[],
    tenants: &[],
    rhythm: Rhythm { hours: [1.0; 24], weekdays: [1.0; 7] },
    endings: [1.0, 0.0, 0.0],
};

/// The same with models that do not tell how long a job is.
const C96U: Preset = Preset {
    name: "c96u",
    title: "60 jobs with parameter servers on 96 nodes; models and lengths drawn apart",
    servers: Some(ServerMix { most_arrivals: 3, model_by_length: false }),
    ..C96
};

/// Far too few nodes for them.
const C12: Preset = Preset {
    name: "c12",
    title: "60 jobs with parameter servers on 12 nodes; each model has jobs of its own length",
    cluster: Some("12x8:slot+8cpu"),
    ..C96
};

/// Far too few nodes, and models that do not tell how long a job is.
const C12U: Preset = Preset {
    name: "c12u",
    title: "60 jobs with parameter servers on 12 nodes; models and lengths drawn apart",
    cluster: Some("12x8:slot+8cpu"),
    ..C96U
};

/// SLAQ's workload, as far as it can be known; see [`Learning`].
const SLAQ_W: Preset = Preset {
    name: "slaq-w",
    title: "160 elastic jobs on 640 CPU cores whose losses fall by known curves",
    source: "after SLAQ (SoCC 2017); figures of this project, chosen so that fair shares give its times",
    jobs: 160,
    days: 160.0 * 15.0 / 86_400.0,
    load: None,
    cluster: Some("20x32:cpu"),
    report_every_s: Some(3.0),
    learning: Some(Learning::default),
    servers: None,
    profiled: None,
    graphs: None,
    classes: &[],
    tenants: &[],
    rhythm: Rhythm { hours: [1.0; 24], weekdays: [1.0; 7] },
    endings: [1.0, 0.0, 0.0],
};

/// The same with iterations that divide perfectly.
const SLAQ_W_DIVIDING: Preset = Preset {
    name: "slaq-w-dividing",
    title: "like slaq-w, with iterations that divide perfectly among cores",
    learning: Some(Learning::without_fixed_part),
    ..SLAQ_W
};

/// A made-up busy day; its figures are chosen, not measured, so that a run of a minute shows queues, preemption
/// and fragmentation. Sizes follow the usual powers of two.
const DAY: Preset = Preset {
    name: "day",
    title: "one busy day on 64 nodes of 8 GPUs",
    source: "chosen for demonstration, not measured",
    jobs: 600,
    days: 1.0,
    load: Some((0.9, 512)),
    cluster: Some("64x8:v100"),
    report_every_s: None,
    learning: None,
    servers: None,
    profiled: None,
    graphs: None,
    classes: &[
        SizeClass {
            sizes: &[(1, 38.0), (2, 16.0)],
            durations_s: &[(0.0, 120.0), (0.3, 1200.0), (0.6, 7200.0), (0.9, 28_800.0), (1.0, 72_000.0)],
        },
        SizeClass {
            sizes: &[(4, 16.0), (8, 20.0)],
            durations_s: &[(0.0, 180.0), (0.3, 2400.0), (0.6, 10_800.0), (0.9, 32_400.0), (1.0, 72_000.0)],
        },
        SizeClass {
            sizes: &[(16, 6.0), (32, 3.0), (64, 1.0)],
            durations_s: &[(0.0, 300.0), (0.3, 3600.0), (0.6, 10_800.0), (0.9, 28_800.0), (1.0, 57_600.0)],
        },
    ],
    tenants: &[("vision", 35.0), ("language", 30.0), ("speech", 15.0), ("ranking", 12.0), ("robotics", 8.0)],
    rhythm: Rhythm {
        hours: [
            0.4, 0.3, 0.3, 0.3, 0.3, 0.4, 0.6, 0.9, 1.4, 1.8, 2.0, 1.9, 1.5, 1.6, 1.9, 1.9, 1.8, 1.5, 1.1,
            0.9, 0.8, 0.7, 0.6, 0.5,
        ],
        weekdays: [1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5],
    },
    endings: [0.85, 0.08, 0.07],
};

/// Philly. The shares of endings are those of Jeon et al., ATC 2019, Table 6 (passed, unsuccessful, killed); the
/// number of jobs and days are the published ones (section 2.4). An ending does not depend on the run time here,
/// while really killed jobs run longer.
const PHILLY: Preset = Preset {
    name: "philly",
    title: "a Microsoft cluster of 2017: many small jobs, few very long ones",
    source: "sizes, run times, tenants and rhythm: Sia's list of Philly jobs; endings: Jeon et al., ATC 2019",
    jobs: 117_325,
    days: 75.0,
    load: None,
    cluster: None,
    report_every_s: None,
    learning: None,
    servers: None,
    profiled: None,
    graphs: None,
    classes: &[
        SizeClass {
            sizes: &[(1, 76_627.0)],
            durations_s: &[
                (0.0, 1.0),
                (0.01, 30.0),
                (0.05, 52.0),
                (0.1, 62.0),
                (0.2, 76.0),
                (0.3, 215.0),
                (0.4, 600.0),
                (0.5, 1117.0),
                (0.6, 1728.0),
                (0.7, 2464.0),
                (0.8, 3754.0),
                (0.9, 8512.0),
                (0.95, 19_137.0),
                (0.99, 135_404.0),
                (0.999, 868_927.0),
                (1.0, 3_256_045.0),
            ],
        },
        SizeClass {
            sizes: &[(2, 1818.0)],
            durations_s: &[
                (0.0, 2.0),
                (0.01, 5.0),
                (0.1, 11.0),
                (0.3, 17.0),
                (0.5, 21.0),
                (0.6, 25.0),
                (0.7, 33.0),
                (0.8, 150.0),
                (0.9, 73_625.0),
                (0.95, 197_392.0),
                (0.99, 526_030.0),
                (1.0, 2_582_803.0),
            ],
        },
        SizeClass {
            sizes: &[(4, 1870.0)],
            durations_s: &[
                (0.0, 3.0),
                (0.01, 35.0),
                (0.05, 75.0),
                (0.1, 138.0),
                (0.2, 406.0),
                (0.3, 1696.0),
                (0.4, 7475.0),
                (0.5, 17_431.0),
                (0.6, 36_341.0),
                (0.7, 78_716.0),
                (0.8, 106_319.0),
                (0.9, 184_519.0),
                (0.95, 274_339.0),
                (0.99, 908_661.0),
                (1.0, 2_750_674.0),
            ],
        },
        SizeClass {
            sizes: &[(8, 1643.0)],
            durations_s: &[
                (0.0, 1.0),
                (0.01, 33.0),
                (0.05, 125.0),
                (0.1, 216.0),
                (0.2, 783.0),
                (0.3, 3940.0),
                (0.4, 12_390.0),
                (0.5, 23_683.0),
                (0.6, 64_753.0),
                (0.7, 140_815.0),
                (0.8, 203_140.0),
                (0.9, 352_409.0),
                (0.95, 525_631.0),
                (0.99, 1_066_894.0),
                (1.0, 4_628_226.0),
            ],
        },
        SizeClass {
            sizes: &[(12, 7.0), (16, 199.0)],
            durations_s: &[
                (0.0, 2.0),
                (0.05, 40.0),
                (0.1, 55.0),
                (0.2, 277.0),
                (0.3, 614.0),
                (0.4, 7921.0),
                (0.5, 41_713.0),
                (0.6, 72_685.0),
                (0.7, 141_622.0),
                (0.8, 184_816.0),
                (0.9, 340_881.0),
                (0.95, 505_681.0),
                (1.0, 1_710_643.0),
            ],
        },
        SizeClass {
            sizes: &[(24, 7.0), (32, 67.0), (64, 6.0), (128, 3.0)],
            durations_s: &[
                (0.0, 1.0),
                (0.1, 326.0),
                (0.2, 812.0),
                (0.3, 990.0),
                (0.4, 1738.0),
                (0.5, 3718.0),
                (0.6, 28_475.0),
                (0.7, 47_708.0),
                (0.8, 53_862.0),
                (0.9, 59_941.0),
                (0.95, 78_004.0),
                (1.0, 213_302.0),
            ],
        },
    ],
    tenants: &[
        ("6214e9", 41_226.0),
        ("11cb48", 16_091.0),
        ("6c71a0", 9953.0),
        ("b436b2", 7423.0),
        ("103959", 1934.0),
        ("ee9e8c", 1511.0),
        ("0e4a51", 1435.0),
        ("ed69ec", 1137.0),
        ("7f04ca", 723.0),
        ("2869ce", 422.0),
        ("e13805", 374.0),
        ("23dbec", 8.0),
        ("51b7ef", 4.0),
        ("925e2b", 3.0),
        ("795a4c", 3.0),
    ],
    rhythm: Rhythm {
        hours: [
            1.274, 0.985, 1.119, 1.103, 0.7, 1.153, 1.673, 2.089, 1.109, 1.006, 1.024, 0.869, 0.749, 0.705,
            0.638, 0.649, 0.882, 0.668, 0.801, 0.728, 1.016, 0.917, 1.134, 1.01,
        ],
        weekdays: [0.863, 1.066, 1.138, 1.286, 1.443, 0.609, 0.595],
    },
    endings: [0.693, 0.172, 0.135],
};
