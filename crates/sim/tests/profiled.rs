//! Profiled jobs are those of the generators they follow, number for number.

mod shared_data;

use shared_data::public;
use trainyard_sched::model::{GpuTypeId, GpuTypeSet, MoveCost, Seed, Span, Time};
use trainyard_sim::generate::{GenerateError, PRESETS, Parameters, generate};
use trainyard_sim::physics::{Locality, gavel_throughputs};
use trainyard_sim::trace::{self, Declaring, Options};
use trainyard_sim::workload::Workload;

fn preset(name: &str) -> Parameters {
    Parameters { preset: name.to_owned(), ..Parameters::default() }
}

fn with(name: &str, options: &str) -> Parameters {
    Parameters { options: options.parse().expect("these are options"), ..preset(name) }
}

fn drawn(parameters: &Parameters) -> Workload {
    generate(parameters).expect("these can be drawn")
}

/// Model, GPUs and steps of each job.
fn kinds(workload: &Workload) -> Vec<(String, u32, f64)> {
    let kind = |(job, truth): &(std::sync::Arc<trainyard_sched::model::Job>, _)| {
        let truth: &trainyard_sim::truth::Truth = truth;
        let model = workload.models[job.model.expect("all have models").index()].clone();
        (model, (job.shape.minimum().gpu_milli / 1000) as u32, truth.iterations)
    };
    workload.jobs.iter().map(kind).collect()
}

/// The first 12 jobs of Gavel's generator with seed 0: type, GPUs of the trace with gangs, length on V100, steps with one
/// GPU, and with all of them.
const FIRST: [(&str, u32, f64, f64, f64); 12] = [
    ("ResNet-18 (batch size 64)", 8, 68_344.350_106, 1_646_636.275_842, 17_484_476.261_106),
    ("Transformer (batch size 16)", 1, 31_016.609_146, 343_170.468_642, 343_170.468_642),
    ("Recommendation (batch size 2048)", 1, 2_146.608_837, 16_034.378_194, 16_034.378_194),
    ("Recommendation (batch size 8192)", 1, 7_386.674_820, 20_989.313_058, 20_989.313_058),
    ("LM (batch size 5)", 4, 6_858.698_207, 748_740.885_163, 869_104.868_898),
    ("Transformer (batch size 64)", 1, 445_845.326_675, 3_842_187.572_961, 3_842_187.572_961),
    ("LM (batch size 20)", 1, 7_049.748_653, 456_418.006_738, 456_418.006_738),
    ("ResNet-50 (batch size 16)", 1, 4_207.801_673, 47_952.650_944, 47_952.650_944),
    ("LM (batch size 20)", 1, 11_053.174_315, 715_609.596_456, 715_609.596_456),
    ("CycleGAN", 1, 41_544.023_501, 183_877.514_829, 183_877.514_829),
    ("Transformer (batch size 64)", 1, 43_738.951_656, 376_931.743_935, 376_931.743_935),
    ("LM (batch size 5)", 2, 56_184.446_916, 6_133_466.037_829, 10_434_790.724_918),
];
/// What the arrivals of the second to the sixth were drawn from.
const UNITS: [f64; 5] =
    [0.237_964_627_092, 0.544_229_225_296, 0.369_955_166_548, 0.603_920_038_596, 0.625_720_304_108];

#[test]
fn the_first_jobs_of_gavels_generator_are_the_known_ones() {
    let single = drawn(&with("gavel", "jobs_per_h = 2"));
    let gangs = drawn(&with("gavel", "multi_gpu = true"));
    for (i, (model, gpus, duration_s, alone, together)) in FIRST.iter().enumerate() {
        let ((found, one, steps), (_, size, of_gang)) = (&kinds(&single)[i], &kinds(&gangs)[i]);
        assert_eq!((found.as_str(), *one, *size), (*model, 1, *gpus), "{i}");
        assert!((steps - alone).abs() < 2e-6 && (of_gang - together).abs() < 2e-6, "{i}: {steps} {of_gang}");
        let rates = gangs.jobs[i].0.declared.rates.as_ref().expect("they were profiled");
        let per_s = rates.per_s(GpuTypeId(0), *gpus, false).expect("on V100");
        assert!((of_gang / per_s - duration_s).abs() < 1e-6, "{i}");
    }
    let mut expected = 0.0;
    for (i, unit) in UNITS.iter().enumerate() {
        assert!((single.jobs[i].0.submitted.as_secs_f64() - expected).abs() < 1e-5, "{i}");
        expected += -(1.0 - unit).ln() * 1800.0;
    }
    assert!(drawn(&preset("gavel-c")).jobs.iter().all(|(job, _)| job.submitted == Time::ZERO));
}

#[test]
fn whole_traces_of_gavels_generator_are_drawn_anew() {
    for (file, jobs_per_h) in [("tiny_single.trace", 2), ("small_single.trace", 4)] {
        let Some(path) = public(&format!("gavel_runs/traces/{file}")) else { continue };
        let read = trace::read(&path, &Options::default()).expect("a trace of Gavel");
        let jobs = Some(read.jobs.len() as u32);
        let drawn = drawn(&Parameters { jobs, ..with("gavel", &format!("jobs_per_h = {jobs_per_h}")) });
        assert_eq!(read.jobs.len(), drawn.jobs.len());
        let whole = |(model, gpus, steps): &(String, u32, f64)| (model.clone(), *gpus, steps.floor());
        let (a, b) = (kinds(&read), kinds(&drawn));
        assert_eq!(a, b.iter().map(whole).collect::<Vec<_>>(), "traces are written with whole steps");
        for ((a, _), (b, _)) in read.jobs.iter().zip(&drawn.jobs) {
            // The trace has six digits.
            assert!(
                a.submitted.0.abs_diff(b.submitted.0) <= 1,
                "{}: {} {}",
                a.name,
                a.submitted,
                b.submitted
            );
        }
    }
}

#[test]
fn priorities_and_objectives_are_drawn_beside_what_else_is_drawn() {
    let jobs = Some(10_000);
    let plain = drawn(&Parameters { jobs, ..with("gavel-c", "") });
    let with_deadlines = drawn(&Parameters { jobs, ..with("gavel-c", "objectives = true") });
    assert_eq!(kinds(&plain), kinds(&with_deadlines), "objectives have a stream of their own");
    assert!(plain.jobs.iter().all(|(job, _)| job.goals.deadline.is_none() && job.goals.weight == 1.0));
    let mut counts = [0; 3];
    for (job, truth) in &with_deadlines.jobs {
        let gpus = (job.shape.minimum().gpu_milli / 1000) as u32;
        let rates = job.declared.rates.as_ref().expect("profiled");
        let duration_s = truth.iterations / rates.per_s(GpuTypeId(0), gpus, false).expect("on V100");
        let factor = job.goals.deadline.expect("all have one").as_secs_f64() / duration_s;
        let kind = [1.2, 2.0, 10.0].iter().position(|known| (factor - known).abs() < 1e-6);
        counts[kind.unwrap_or_else(|| panic!("{factor}"))] += 1;
    }
    for (count, share) in counts.iter().zip([0.33, 0.34, 0.33]) {
        assert!((f64::from(*count) / 1e4 - share).abs() < 0.02, "{counts:?}");
    }
    let weighted = drawn(&Parameters { jobs, ..with("gavel-c", "priorities = true") });
    assert_eq!(kinds(&plain)[0], kinds(&weighted)[0]);
    assert_ne!(kinds(&plain)[1], kinds(&weighted)[1], "priorities are drawn from the stream of jobs");
    let heavy = weighted.jobs.iter().filter(|(job, _)| job.goals.weight == 5.0).count();
    assert!((heavy as f64 / 1e4 - 0.2).abs() < 0.02, "{heavy}");
}

#[test]
fn gangs_declare_how_long_an_iteration_takes_them() {
    let table = gavel_throughputs();
    let workload = drawn(&Parameters { jobs: Some(200), ..preset("gavel-c") });
    let mut gangs = 0;
    for ((model, gpus, _), (job, _)) in kinds(&workload).iter().zip(&workload.jobs) {
        let row = table.row(model).expect("it is in the table");
        let per_s = table.per_s(row, "v100", *gpus, Locality::Node).expect("it was measured");
        assert_eq!(job.declared.iteration, Some(Span::from_secs_f64(1.0 / per_s)), "{model} on {gpus}");
        gangs += u32::from(*gpus > 1);
    }
    assert!(gangs > 30, "{gangs} are gangs");
}

#[test]
fn the_jobs_for_hadar_are_the_known_ones() {
    let workload = drawn(&preset("s-240"));
    let kinds = kinds(&workload);
    let known = [
        ("ResNet-50 (batch size 16)", 1, 3_705_399.0),
        ("ResNet-50 (batch size 128)", 1, 684_889.0),
        ("CycleGAN", 1, 88_308.0),
        ("LM (batch size 20)", 1, 11_534_859.0),
        ("ResNet-18 (batch size 128)", 1, 58_228.0),
    ];
    for (found, (model, gpus, steps)) in kinds.iter().zip(known) {
        assert_eq!((found.0.as_str(), found.1, found.2), (model, gpus, steps));
    }
    let models = ["ResNet-18", "CycleGAN", "LM", "Transformer", "ResNet-50"];
    let count = |model: &str| kinds.iter().filter(|kind| kind.0.starts_with(model)).count();
    let [small, medium, lm, transformer, largest] = models.map(count);
    assert_eq!([small, medium, lm + transformer, largest], [59, 55, 61, 65]);
    let sizes = [1, 2, 4, 8].map(|size| kinds.iter().filter(|kind| kind.1 == size).count());
    assert_eq!(sizes, [187, 23, 25, 5]);
    assert!(workload.jobs.iter().all(|(job, _)| job.wanted.mixed_gpu_types && job.submitted == Time::ZERO));
}

#[test]
fn mixes_may_be_forked_and_pay_for_a_start() {
    // random.Random(0).uniform(2, 6) and so on.
    let hours = [
        5.377_687_406_1,
        5.031_817_611_76,
        3.682_286_323_32,
        3.035_667_001_17,
        4.045_098_885_47,
        3.619_736_549_8,
    ];
    let names = [
        "ResNet-18 (batch size 128)",
        "LM (batch size 80)",
        "Transformer (batch size 128)",
        "CycleGAN",
        "ResNet-50 (batch size 64)",
    ];
    let workload = drawn(&preset("m-8"));
    for (i, ((job, truth), hours)) in workload.jobs.iter().zip(hours).enumerate() {
        let rates = job.declared.rates.as_ref().expect("profiled");
        let on_v100_s = truth.iterations / rates.per_s(GpuTypeId(0), 1, false).expect("on V100");
        assert!((on_v100_s - hours * 3600.0).abs() < 1.0, "{i}: {on_v100_s}");
        assert_eq!(truth.iterations.fract(), 0.0);
        assert_eq!(workload.models[job.model.expect("known").index()], names[i % 5]);
        let cost = &job.move_cost;
        assert_eq!((job.goals.copies, cost.save + cost.load), (5, Span::from_secs(10)));
        assert_eq!((cost.save, cost.merge), (Span::from_secs(5), Span::from_secs(5)));
    }
    for (name, jobs) in [("m-1", 1), ("m-3", 3), ("m-4", 4), ("m-5", 5), ("m-10", 10), ("m-12", 12)] {
        let other = drawn(&preset(name));
        assert_eq!(other.jobs.len(), jobs);
        assert_eq!(
            kinds(&other)[..jobs.min(8)],
            kinds(&workload)[..jobs.min(8)],
            "a mix begins like another"
        );
    }
    let alone = drawn(&with("m-5", "copies = 1\nrestart_s = 0\naggregate_s = 0"));
    assert!(
        alone.jobs.iter().all(|(job, truth)| job.goals.copies == 1 && truth.move_cost == MoveCost::default())
    );
    let said = MoveCost { load: Span::from_secs(3), ..MoveCost::default() };
    let said = drawn(&Parameters { move_cost: said, ..preset("m-5") });
    assert!(said.jobs.iter().all(|(_, truth)| truth.move_cost.load == Span::from_secs(3)));
}

#[test]
fn distance_counts_only_where_it_is_asked_for() {
    let speeds = |options: &str| {
        let (job, _) = drawn(&with("gavel-b", options)).jobs.remove(0);
        let rates = job.declared.rates.clone().expect("profiled");
        [false, true].map(|spread| rates.per_s(GpuTypeId(0), 8, spread).expect("measured"))
    };
    let [near, far] = speeds("");
    assert_eq!(near, far);
    let [near, far] = speeds("distance = true");
    assert!(far < near / 2.0, "{far} {near}");
}

#[test]
fn jobs_fit_the_types_of_the_cluster_that_is_given() {
    let gpu_types = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    let of = |names: &[&str]| Parameters {
        gpu_types: gpu_types(names),
        jobs: Some(200),
        ..with("gavel", "multi_gpu = true")
    };
    let workload = drawn(&of(&["a100", "k80", "v100"]));
    assert_eq!(&*workload.gpu_types[1], "k80");
    for ((model, gpus, _), (job, _)) in kinds(&workload).iter().zip(&workload.jobs) {
        // The largest ResNet-50 does not fit gangs of K80.
        let too_large = model == "ResNet-50 (batch size 128)" && *gpus > 1;
        let fits: &[GpuTypeId] = if too_large { &[GpuTypeId(2)] } else { &[GpuTypeId(1), GpuTypeId(2)] };
        assert_eq!(job.wanted.gpu_types, GpuTypeSet::of(fits), "{model} {gpus}");
    }
    let nowhere = generate(&of(&["a100"])).expect_err("nothing was measured on A100");
    assert!(matches!(nowhere, GenerateError::FitsNowhere { .. }), "{nowhere}");
}

#[test]
fn every_profiled_preset_belongs_to_its_cluster_and_says_what_can_be_said() {
    for preset_of in PRESETS.iter().filter(|preset| preset.profiled.is_some()) {
        let workload = drawn(&Parameters { jobs: Some(12), ..preset(preset_of.name) });
        let cluster =
            trainyard_sim::cluster::load(preset_of.cluster.expect("it has one")).expect("words").cluster;
        let types: Vec<_> = cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.clone()).collect();
        assert_eq!(workload.gpu_types, types, "{}", preset_of.name);
        let profiled = preset_of.profiled.expect("filtered");
        let names: Vec<&str> = profiled.parameters().iter().map(|parameter| parameter.name).collect();
        let mut defaults: Vec<String> = profiled.defaults().keys().cloned().collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        defaults.sort_unstable();
        assert_eq!(sorted, defaults);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_name() {
    let told = |parameters: &Parameters| generate(parameters).expect_err("it makes no sense").to_string();
    assert!(told(&with("gavel", "multi_gpus = true")).contains("did you mean `multi_gpu`"));
    assert!(told(&with("gavel", "jobs_per_h = -1")).contains("jobs_per_h"));
    assert!(told(&with("gavel", "jobs_per_h = \"many\"")).contains("gavel"));
    assert!(told(&with("m-5", "copies = 0")).contains("copies"));
    assert!(told(&with("day", "multi_gpu = true")).contains("day"));
    assert!(told(&Parameters { days: Some(2.0), ..preset("gavel") }).contains("own arrivals"));
    let mut table = trainyard_sim::physics::ThroughputTable::default();
    let row = table.intern("A3C");
    table.insert(row, "v100", 1, false, 1.0);
    let lacking = Parameters { throughputs: Some(std::sync::Arc::new(table)), ..preset("gavel") };
    assert!(told(&lacking).contains("ResNet-18 (batch size 16)"));
}

#[test]
fn gangs_without_a_figure_are_refused_and_not_made_jobs_without_work() {
    let whole = trainyard_sim::physics::gavel_throughputs();
    let mut table = trainyard_sim::physics::ThroughputTable::default();
    for name in drawn(&preset("gavel-a")).models {
        let row = table.intern(&name);
        let known = whole.row(&name).expect("it is built in");
        let place = trainyard_sim::physics::Locality::Node;
        table.insert(row, "v100", 1, false, whole.per_s(known, "v100", 1, place).expect("it runs"));
        for gpus in [1, 2, 4, 8] {
            table.insert(row, "p100", gpus, false, 1.0);
        }
    }
    let lacking =
        Parameters { throughputs: Some(std::sync::Arc::new(table)), ..with("gavel", "multi_gpu = true") };
    let told = generate(&lacking).expect_err("no length follows from nothing").to_string();
    assert!(told.contains(" x v100"), "{told}");
}

#[test]
fn more_load_is_more_jobs_in_the_same_time() {
    let plain = drawn(&Parameters { jobs: Some(4000), ..preset("gavel") });
    let more = drawn(&Parameters { jobs: Some(4000), ..preset("gavel") }.times(1.5).expect("possible"));
    assert_eq!(more.jobs.len(), 6000);
    let last_s = |workload: &Workload| workload.jobs.last().expect("some").0.submitted.as_secs_f64();
    assert!((last_s(&more) / last_s(&plain) - 1.0).abs() < 0.05);
    let at_once = drawn(&preset("gavel-a").times(2.0).expect("possible"));
    assert_eq!((at_once.jobs.len(), at_once.jobs[59].0.submitted), (60, Time::ZERO));
}

#[test]
fn seeds_differ_and_declarations_are_as_said() {
    let zero = drawn(&preset("gavel-b"));
    assert_ne!(kinds(&zero), kinds(&drawn(&Parameters { seed: Seed(1), ..preset("gavel-b") })));
    let silent = drawn(&Parameters { declared: Declaring::Absent, ..preset("gavel-b") });
    assert!(
        silent.jobs.iter().all(|(job, _)| job.declared.iterations.is_none() && job.declared.rates.is_some())
    );
    assert_eq!(kinds(&silent), kinds(&zero));
}
