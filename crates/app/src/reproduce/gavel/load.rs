//! Times from arrival to end against load: on a third of Gavel's cluster in minutes, on the whole of it in a night.

use trainyard_sched::model::Seed;

use super::coded;
use crate::failure::Failure;
use crate::reproduce::typed::{Case, Contender, HOUR_S, Seen, contender, makespan_bound_h, perform_all};
use crate::reproduce::{Effort, Figures, Findings, Gate, Plot, PlotCurve, Progress, Row, Scale};

/// Arrivals in an hour on 36 GPUs of each type at which Gavel's notebooks tell mean JCTs of jobs with one GPU.
const RATES: [f64; 9] = [0.4, 2.0, 3.2, 4.0, 4.4, 4.8, 5.2, 5.6, 6.0];
/// A policy and these mean JCTs in hours.
struct Curve {
    label: &'static str,
    parameters: &'static str,
    printed_h: [Option<f64>; 9],
}

const CURVES: [Curve; 3] = [
    Curve {
        label: "LAS, aware",
        parameters: "",
        printed_h: [
            Some(17.58),
            Some(16.95),
            Some(16.08),
            Some(16.82),
            Some(17.48),
            Some(18.97),
            Some(22.02),
            Some(28.96),
            Some(41.23),
        ],
    },
    Curve {
        label: "LAS, agnostic",
        parameters: "aware = false",
        printed_h: [
            Some(23.26),
            Some(23.47),
            Some(23.59),
            Some(23.49),
            Some(23.81),
            Some(35.79),
            Some(63.78),
            Some(95.99),
            None,
        ],
    },
    Curve {
        label: "FIFO, aware",
        parameters: "objective = 'fifo'",
        printed_h: [
            Some(15.31),
            Some(15.45),
            Some(15.95),
            Some(17.08),
            Some(18.19),
            Some(22.24),
            Some(56.69),
            Some(104.12),
            Some(150.04),
        ],
    },
];
/// The part of the cluster for the sweep, and its jobs: those that are measured stand in the middle.
const PART: f64 = 1.0 / 3.0;
const THIRD: &str = "12x1:v100,12x1:p100,12x1:k80";
const JOBS: u32 = 1500;
const MEASURED: (usize, usize) = (500, 800);
/// The jobs of the notebooks, and those after them: arrivals must go on for as long as measured jobs run. Where speeds are not
/// known and 5.6 jobs arrive in an hour, the last of them takes 1,000 hours; with 5,600 jobs in all the mean would be 69 h instead
/// of 95 h, and with 12,000 it is 98 h.
const ALL_JOBS: u32 = 9000;
const ALL_MEASURED: (usize, usize) = (4000, 5000);

fn case(rate: f64, seed: Seed, whole: bool) -> Case {
    let (part, cluster, jobs, measured) =
        if whole { (1.0, None, ALL_JOBS, ALL_MEASURED) } else { (PART, Some(THIRD), JOBS, MEASURED) };
    let options = format!("jobs_per_h = {:?}", rate * part);
    Case { options, cluster, jobs: Some(jobs), measured: Some(measured), ..Case::of("gavel", seed) }
}

/// The curves on a third of the cluster, beside those that were printed.
pub(super) fn sweep(effort: &Effort, progress: &Progress<'_>, found: &mut Findings) -> Result<(), Failure> {
    let rates: Vec<usize> = if effort.quick { vec![3] } else { vec![1, 3, 5, 7] };
    let policies = || CURVES.iter().map(|curve| coded(curve.label, curve.parameters));
    let tasks: Vec<(Case, Contender)> = rates
        .iter()
        .flat_map(|rate| policies().map(|policy| (case(RATES[*rate], Seed(0), false), policy)))
        .collect();
    let seen = perform_all(&tasks, progress)?;
    let of = |rate: usize, curve: usize| seen[rate * CURVES.len() + curve].jct_h;
    let mut curves = Vec::new();
    for (c, curve) in CURVES.iter().enumerate() {
        let ours = rates.iter().enumerate().filter_map(|(i, rate)| Some((RATES[*rate], of(i, c)? * HOUR_S)));
        let printed =
            RATES.iter().zip(curve.printed_h).filter_map(|(rate, jct_h)| Some((*rate, jct_h? * HOUR_S)));
        curves.push(PlotCurve { name: format!("{}, ours", curve.label), points: ours.collect() });
        curves.push(PlotCurve { name: format!("{}, printed", curve.label), points: printed.collect() });
    }
    found.plots.push(Plot {
        title: "Mean time from arrival to end against load, jobs with one GPU".to_owned(),
        reading: "Arrivals in an hour for 36 GPUs of each type; ours on 12 of each with a third of the arrivals, where queues \
                  begin earlier. Printed are the notebooks of Gavel's authors."
            .to_owned(),
        alternative: "Agnostic fairness leaves the ground at 4.8 jobs an hour, aware fairness at 5.6.".to_owned(),
        x: (Scale::Number, "jobs an hour"),
        y: (Scale::Seconds, "mean JCT"),
        steps: false,
        curves,
    });
    for (i, rate) in rates.iter().enumerate() {
        let ratio = of(i, 1).zip(of(i, 0)).map(|(blind, aware)| blind / aware);
        let printed = CURVES[1].printed_h[*rate].zip(CURVES[0].printed_h[*rate]);
        let figures = Figures { published: printed.map(|(blind, aware)| blind / aware), reference: None };
        let what =
            format!("a third of the cluster, {} jobs/h: mean JCT of agnostic LAS over aware", RATES[*rate]);
        found.readings.push(Row::single("G-8", what, figures, Gate::Told, ratio));
    }
    Ok(())
}

/// The experiments of hours: G-7, G-8, G-8b, G-10.
pub(super) fn nightly(effort: &Effort, progress: &Progress<'_>, found: &mut Findings) -> Result<(), Failure> {
    let seeds = effort.count(3, 1);
    let ftf = "objective = 'finish_time_fairness'";
    let policies = [
        ("LAS, aware", String::new()),
        ("LAS, agnostic", "aware = false".to_owned()),
        ("FTF, aware", ftf.to_owned()),
        ("FTF, agnostic", format!("{ftf}\naware = false")),
        ("isolated", "objective = 'isolated'".to_owned()),
    ];
    let rates = [3.2, 4.8, 5.6];
    let wanted = [(0, 0), (0, 1), (0, 2), (0, 4), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)];
    let task = |(rate, policy): (usize, usize)| {
        let (label, parameters) = &policies[policy];
        let of = |i| (case(rates[rate], effort.seed_of(i), true), coded(label, parameters));
        (0..seeds).map(of).collect::<Vec<_>>()
    };
    let tasks: Vec<(Case, Contender)> = wanted.into_iter().flat_map(task).collect();
    let seen = perform_all(&tasks, progress)?;
    let of = |rate: usize, policy: usize| {
        let at = wanted.iter().position(|known| *known == (rate, policy)).expect("it was run");
        &seen[at * seeds..][..seeds]
    };
    let jct = |rate, policy| -> Vec<Option<f64>> { of(rate, policy).iter().map(|seen| seen.jct_h).collect() };
    let printed = [
        (1, 0, 18.97, 19.0, 0.08),
        (1, 1, 35.79, 36.0, 0.25),
        (2, 0, 28.96, 29.0, 0.15),
        (2, 1, 95.99, 96.0, 0.15),
    ];
    for (rate, policy, published, near, by) in printed {
        let what = format!("{} jobs/h, {}: mean JCT (h)", rates[rate], policies[policy].0);
        let figures = Figures { published: Some(published), reference: None };
        let gate = Gate::Near { of: near, by };
        found.rows.push(Row::over("G-7", what, figures, gate, &jct(rate, policy), effort.seed));
    }
    for (aware, blind, published, least) in [(0, 1, 95.99 / 28.96, 3.0), (2, 3, 85.54 / 30.47, 2.5)] {
        let ratios: Vec<Option<f64>> = jct(2, blind)
            .into_iter()
            .zip(jct(2, aware))
            .map(|(blind, aware)| Some(blind? / aware?))
            .collect();
        let what = format!("5.6 jobs/h: mean JCT of {} over {}", policies[blind].0, policies[aware].0);
        let figures = Figures { published: Some(published), reference: None };
        found.rows.push(Row::over("G-8", what, figures, Gate::AtLeast(least), &ratios, effort.seed));
    }
    found.rows.push(sustained(&jct(1, 1), progress)?);
    for (policy, published, within) in [(0, 0.72, 0.05), (2, 0.73, 0.05), (1, 1.0, 0.03)] {
        let ratio = |seen: &Seen, isolated: &Seen| {
            let (from, to) = ALL_MEASURED;
            let only = |seen: &Seen| Seen { jct_s: seen.jct_s[from..to].to_vec(), ..seen.clone() };
            let ratios = only(seen).times_as_long(&only(isolated));
            (ratios.len() == to - from).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
        };
        let ratios: Vec<Option<f64>> =
            of(0, policy).iter().zip(of(0, 4)).map(|(seen, isolated)| ratio(seen, isolated)).collect();
        let what =
            format!("3.2 jobs/h, {}: mean of times beside those with an equal part", policies[policy].0);
        let figures = Figures { published: Some(published), reference: None };
        let gate = Gate::Near { of: published, by: within / published };
        found.rows.push(Row::over("G-10", what, figures, gate, &ratios, effort.seed));
    }
    makespans(effort, progress, found)
}

/// G-8b: makespans of many gangs at once.
fn makespans(effort: &Effort, progress: &Progress<'_>, found: &mut Findings) -> Result<(), Failure> {
    let seeds = effort.count(3, 1);
    let gandiva = contender("Gandiva", "gandiva", "compatibility = true");
    let policies = [
        coded("makespan, aware", "objective = 'makespan'"),
        coded("FIFO, agnostic", "objective = 'fifo'\naware = false"),
        gandiva,
        coded("FIFO, aware", "objective = 'fifo'"),
    ];
    let sizes = [(100, 161.2), (300, 161.2), (500, 169.4)];
    let mut tasks = Vec::new();
    for (jobs, _) in sizes {
        for policy in &policies {
            tasks.extend((0..seeds).map(|i| (gangs(jobs, effort.seed_of(i)), policy.clone())));
        }
    }
    let seen = perform_all(&tasks, progress)?;
    for (s, (jobs, published)) in sizes.iter().enumerate() {
        let of = |policy: usize| &seen[(s * policies.len() + policy) * seeds..][..seeds];
        let (mut over, mut worst) = (Vec::new(), 0.0_f64);
        for (i, own) in of(0).iter().enumerate() {
            let case = gangs(*jobs, effort.seed_of(i));
            over.push(Some(own.makespan_h / longest_h(&case)?));
            let bound_h = makespan_bound_h(&case.jobs()?, &case.machines()).unwrap_or(f64::NAN);
            worst = worst.max(own.makespan_h / bound_h);
        }
        let what = format!(
            "{jobs} gangs at once: makespan of the makespan policy over the time of the longest gang"
        );
        let row = Row::over("G-8b", what, Figures::default(), Gate::AtMost(1.06), &over, effort.seed);
        let mean_h = of(0).iter().map(|own| own.makespan_h).sum::<f64>() / seeds as f64;
        found.rows.push(row.beside(&format!(
            "{mean_h:.1} h, printed are {published} h; at most {worst:.3} times the least that any schedule can have"
        )));
        if *jobs < 500 {
            continue;
        }
        let ratios = |policy: usize| -> Vec<Option<f64>> {
            of(policy).iter().zip(of(0)).map(|(other, own)| Some(other.makespan_h / own.makespan_h)).collect()
        };
        let what = |name| format!("500 gangs at once: makespan of {name} over that of the makespan policy");
        let printed = |hours: f64| Figures { published: Some(hours / 169.4), reference: None };
        let row = |policy: usize, hours, gate| {
            Row::over(
                "G-8b",
                what(policies[policy].label),
                printed(hours),
                gate,
                &ratios(policy),
                effort.seed,
            )
        };
        found.rows.push(row(1, 426.6, Gate::AtLeast(2.0)));
        found.rows.push(row(2, 263.9, Gate::AtLeast(1.3)));
        let aware = row(3, 426.6, Gate::Told);
        found.readings.push(aware.beside("the printed one does not look at types"));
    }
    Ok(())
}

/// So many gangs that are all there at the beginning.
fn gangs(jobs: u32, seed: Seed) -> Case {
    let options = "multi_gpu = true\njobs_per_h = 0".to_owned();
    Case { options, jobs: Some(jobs), ..Case::of("gavel", seed) }
}

/// How long the longest of the jobs takes on the type on which it is fastest, in hours: no schedule is done before.
fn longest_h(case: &Case) -> Result<f64, Failure> {
    let jobs = case.jobs()?;
    let alone_h = jobs.jobs.iter().filter_map(|(job, truth)| {
        let rates = job.declared.rates.as_ref()?;
        let workers = job.shape.data_parallel()?.workers.min;
        let known = rates.alone().iter().filter(|rate| rate.workers == workers);
        let fastest = known.map(|rate| rate.iterations_per_s).fold(0.0, f64::max);
        Some(truth.iterations / fastest / HOUR_S)
    });
    Ok(alone_h.fold(0.0, f64::max))
}

/// G-8: the load at which a mean JCT of 40 h is reached, with speeds known over without. Mean JCTs of the agnostic policy at 4.8
/// jobs an hour are known already.
fn sustained(blind_h: &[Option<f64>], progress: &Progress<'_>) -> Result<Row, Failure> {
    let aware = || coded("LAS, aware", "");
    let tasks = [(5.6, aware()), (6.0, aware()), (5.2, coded("LAS, agnostic", "aware = false"))];
    let tasks = tasks.map(|(rate, policy)| (case(rate, Seed(0), true), policy));
    let seen = perform_all(&tasks, progress)?;
    let at_40_h = |low: (f64, Option<f64>), high: (f64, Option<f64>)| {
        let (below, above) = (low.1?, high.1?);
        Some(low.0 + (high.0 - low.0) * (40.0 - below) / (above - below))
    };
    let aware = at_40_h((5.6, seen[0].jct_h), (6.0, seen[1].jct_h));
    let blind = at_40_h((4.8, blind_h.first().copied().flatten()), (5.2, seen[2].jct_h));
    let ratio = aware.zip(blind).map(|(aware, blind)| aware / blind);
    let what = "the load at which the mean JCT is 40 h: LAS, aware, over agnostic";
    // Between the printed points on both sides of 40 h.
    let printed =
        (5.6 + 0.4 * (40.0 - 28.96) / (41.23 - 28.96)) / (4.8 + 0.4 * (40.0 - 35.79) / (63.78 - 35.79));
    let figures = Figures { published: Some(printed), reference: None };
    let row = Row::single("G-8", what, figures, Gate::AtLeast(1.2), ratio);
    Ok(row.beside(&format!("{:.2} and {:.2} jobs/h", aware.unwrap_or(f64::NAN), blind.unwrap_or(f64::NAN))))
}
