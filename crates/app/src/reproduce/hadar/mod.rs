//! Hadar (2025): S-240, which stands for its workload, under Hadar, Gavel and policies that know nothing of types.
//!
//! Nobody has published the trace, so published factors are told beside ours, and a bound that no schedule can beat says which
//! of them are possible at all.

mod parts;

use std::time::Instant;

use trainyard_sched::model::Seed;

use super::typed::{
    Case, Contender, Follow, HOUR_S, Seen, contender, makespan_bound_h, over_time, perform, perform_all,
    prices_over_time, shares_below, who_ran_where,
};
use super::{Bars, Effort, Figures, Findings, Gate, Paper, Plot, Progress, Row, Scale};
use crate::failure::Failure;

/// Hadar.
pub(super) const PAPER: Paper = Paper {
    name: "hadar",
    title: "Hadar: GPUs of several types by price",
    source: "Hadar, IPDPS 2024 and arXiv 2503.10918 (its trace is not public; S-240 is this project's)",
    run,
};

/// Everything that is run on S-240, in the order of [`Who`].
fn contenders() -> Vec<Contender> {
    let gavel =
        |label, parameters: &str| contender(label, "gavel", &format!("compatibility = true\n{parameters}"));
    vec![
        contender("Hadar, JCT", "hadar", ""),
        contender("Hadar, TTD", "hadar", "objective = 'makespan'"),
        contender("Hadar, FTF", "hadar", "objective = 'ftf'"),
        contender("Hadar, JCT, each in turn", "hadar", "beam = 1"),
        contender("Hadar, TTD, longest first", "hadar", "objective = 'makespan'\nmakespan_by = 'longest'"),
        gavel("Gavel LAS, aware", ""),
        gavel("Gavel makespan, aware", "objective = 'makespan'"),
        gavel("Gavel FTF, aware", "objective = 'finish_time_fairness'"),
        gavel("Gavel LAS, agnostic", "aware = false"),
        gavel("Gavel FIFO, aware", "objective = 'fifo'"),
        gavel("isolated", "objective = 'isolated'"),
        contender("Tiresias", "tiresias", ""),
        contender("YARN-CS", "yarn-cs", ""),
    ]
}

/// Positions among the contenders.
#[derive(Clone, Copy)]
enum Who {
    Jct,
    Ttd,
    Ftf,
    GavelLas = 5,
    GavelMakespan,
    GavelFtf,
    Isolated = 10,
    Tiresias,
    Yarn,
}

/// Mean JCT and makespan in hours and utilisation of an independent run of the same jobs, where there is one.
const REFERENCE: [Option<[f64; 3]>; 13] = [
    None,
    None,
    None,
    Some([57.88, 209.5, 0.855]),
    Some([184.4, 184.7, 0.999]),
    Some([70.85, 188.67, 0.881]),
    Some([165.95, 169.95, 0.998]),
    Some([71.47, 190.12, 0.874]),
    Some([80.67, 232.98, 0.811]),
    Some([87.72, 249.45, 0.689]),
    None,
    Some([96.2, 775.0, 0.315]),
    Some([116.6, 733.0, 0.349]),
];
/// The least makespan of S-240 in hours.
const BOUND_H: f64 = 168.91;

fn run(effort: &Effort, progress: &Progress<'_>) -> Result<Findings, Failure> {
    let mut found = Findings {
        setting: "S-240: 240 jobs from minutes to 100 GPU-hours, all there at the beginning, on 15 nodes of 4 GPUs of three \
                  types; rounds of 360 s, no price on moving. The reference is an independent run of the same jobs, Gavel's \
                  lines by its public code."
            .to_owned(),
        ..Findings::default()
    };
    found.rows.extend(parts::rows(effort));
    let all = contenders();
    let seeds = if effort.nightly || effort.seeds.is_some() { effort.count(5, 1) } else { 1 };
    // What is known beforehand is known of the first seed of all.
    let cases: Vec<Case> =
        (0..seeds).map(|i| Case::of("s-240", if i == 0 { Seed(0) } else { effort.seed_of(i) })).collect();
    let tasks: Vec<(Case, Contender)> =
        cases.iter().flat_map(|case| all.iter().map(|policy| (case.clone(), policy.clone()))).collect();
    let runs = perform_all(&tasks, progress)?;
    let mut measures = Vec::new();
    for (case, seen) in cases.iter().zip(runs.chunks(all.len())) {
        let bound_h = makespan_bound_h(&case.jobs()?, &case.machines());
        measures.push((checks(seen, bound_h), bound_h));
    }
    let (case, seen, bound_h) = (&cases[0], &runs[..all.len()], measures[0].1);
    found.rows.extend(Measure::rows(measures.into_iter().map(|(each, _)| each).collect(), effort.seed));
    found.rows.extend(restarts(effort, progress, seen)?);
    if !effort.quick {
        found.rows.extend(times_of_a_round(effort)?);
    }
    found.readings.extend(readings(&all, seen, bound_h));
    draw(case, &all, seen, bound_h, &mut found)?;
    draw_prices(case, &all[Who::Jct as usize], &mut found)?;
    Ok(found)
}

fn of(seen: &[Seen], who: Who) -> &Seen {
    &seen[who as usize]
}

/// Whether the published factor can be had on these jobs, in words.
fn what_is_possible(possible: Option<f64>, bound_h: Option<f64>) -> String {
    match possible {
        Some(most) if most < 1.2 => format!(
            "published are 1.20 times; no schedule can be more than {most:.3} times as good on these jobs (bound {:.2} h)",
            bound_h.unwrap_or(f64::NAN)
        ),
        Some(most) => format!("published are 1.20 times; up to {most:.3} times are possible on these jobs"),
        None => "the bound could not be worked out".to_owned(),
    }
}

/// A figure of one workload, before it is put together with those of others.
struct Measure {
    check: &'static str,
    what: String,
    figures: Figures,
    gate: Gate,
    value: Option<f64>,
    /// What is told beside it.
    told: String,
    /// Whether it is only known of the first workload what it must be.
    is_first_only: bool,
}

impl Measure {
    fn new(
        check: &'static str,
        what: impl Into<String>,
        figures: Figures,
        gate: Gate,
        value: Option<f64>,
    ) -> Self {
        Self { check, what: what.into(), figures, gate, value, told: String::new(), is_first_only: false }
    }

    /// A row for each measure, over all workloads.
    fn rows(all: Vec<Vec<Self>>, seed: Seed) -> Vec<Row> {
        let values: Vec<Vec<Option<f64>>> =
            all.iter().map(|each| each.iter().map(|measure| measure.value).collect()).collect();
        let row = |(i, measure): (usize, Self)| {
            let Self { check, what, figures, gate, value, told, is_first_only } = measure;
            let row = if values.len() == 1 || is_first_only {
                Row::single(check, what, figures, gate, value)
            } else {
                let values: Vec<Option<f64>> = values.iter().map(|each| each[i]).collect();
                Row::over(check, what, figures, gate, &values, seed)
                    .beside(&format!("{:.3} on the first workload", value.unwrap_or(f64::NAN)))
            };
            if told.is_empty() { row } else { row.beside(&told) }
        };
        all.into_iter().next().into_iter().flatten().enumerate().map(row).collect()
    }
}

/// H-5 to H-9.
fn checks(seen: &[Seen], bound_h: Option<f64>) -> Vec<Measure> {
    let jct = |who| of(seen, who).jct_h;
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b);
    let known = |published: Option<f64>, reference: f64| Figures { published, reference: Some(reference) };
    let h5 = |other: Who, name: &str, published, reference, most| {
        let what = format!("mean JCT of Hadar over {name}");
        Measure::new(
            "H-5",
            what,
            known(published, reference),
            Gate::AtMost(most),
            over(jct(Who::Jct), jct(other)),
        )
    };
    let ttd = |who| Some(of(seen, who).makespan_h);
    let possible = over(ttd(Who::GavelLas), bound_h);
    let told = what_is_possible(possible, bound_h);
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let rho = |who| mean(&of(seen, who).times_as_long(of(seen, Who::Isolated)));
    let fair = |name: &str, who, published| {
        let what = format!("mean of times beside those with an equal part: {name} over Gavel FTF, aware");
        let figures = Figures { published, reference: None };
        Measure::new("H-8", what, figures, Gate::AtMost(1.02), over(rho(who), rho(Who::GavelFtf)))
    };
    let wait = |who| Some(of(seen, who).wait_h).filter(|hours| hours.is_finite());
    let h6 = |what: &str, figures, gate, value| Measure::new("H-6", what, figures, gate, value);
    let ratio = h6(
        "TTD of Hadar in its mode for TTD over Gavel LAS, aware",
        known(Some(1.0 / 1.2), 184.7 / 188.67),
        Gate::AtMost(0.98),
        over(ttd(Who::Ttd), ttd(Who::GavelLas)),
    );
    let bound =
        h6("the least possible TTD (h)", known(None, BOUND_H), Gate::Near { of: BOUND_H, by: 1e-3 }, bound_h);
    vec![
        h5(Who::GavelLas, "Gavel LAS, aware", Some(1.0 / 2.5), 57.88 / 70.85, 0.85),
        h5(Who::Tiresias, "Tiresias", None, 57.88 / 96.2, 0.70),
        h5(Who::Yarn, "YARN-CS", Some(1.0 / 3.0), 57.88 / 116.6, 0.60),
        Measure { told, ..ratio },
        h6(
            "TTD of Hadar in its mode for TTD over the least possible",
            known(None, 184.7 / BOUND_H),
            Gate::AtMost(1.10),
            over(ttd(Who::Ttd), bound_h),
        ),
        Measure { is_first_only: true, ..bound },
        Measure::new(
            "H-7",
            "utilisation of Hadar in its mode for TTD over Gavel LAS, aware",
            known(None, 0.999 / 0.881),
            Gate::AtLeast(1.0),
            over(Some(of(seen, Who::Ttd).utilization), Some(of(seen, Who::GavelLas).utilization)),
        ),
        fair("Hadar for fairness", Who::Ftf, Some(1.0 / 1.015)),
        fair("Hadar for JCT", Who::Jct, None),
        Measure::new(
            "H-9",
            "mean time without GPUs of Hadar over Gavel LAS, aware",
            Figures { published: Some(0.87), reference: None },
            Gate::AtMost(0.9),
            over(wait(Who::Jct), wait(Who::GavelLas)),
        ),
    ]
}

/// H-10: what a price on moving does.
fn restarts(effort: &Effort, progress: &Progress<'_>, seen: &[Seen]) -> Result<Vec<Row>, Failure> {
    let prices: &[(f64, f64)] = if effort.quick { &[(10.0, 1.01)] } else { &[(10.0, 1.01), (60.0, 1.06)] };
    let task = |(restart_s, _): &(f64, f64)| {
        (Case { restart_s: *restart_s, ..Case::of("s-240", Seed(0)) }, contender("Hadar, JCT", "hadar", ""))
    };
    let priced = perform_all(&prices.iter().map(task).collect::<Vec<_>>(), progress)?;
    let free = of(seen, Who::Jct).jct_h;
    let row = |((restart_s, most), priced): (&(f64, f64), &Seen)| {
        let what = format!("mean JCT of Hadar where a restart takes {restart_s} s, over the same with none");
        let ratio = priced.jct_h.zip(free).map(|(priced, free)| priced / free);
        Row::single("H-10", what, Figures::default(), Gate::AtMost(*most), ratio)
    };
    Ok(prices.iter().zip(&priced).map(row).collect())
}

/// P-1: how long a round takes with many jobs: the longest decision while none has ended, on this machine.
fn times_of_a_round(effort: &Effort) -> Result<Vec<Row>, Failure> {
    let sizes: [(u32, &'static str); 3] = [
        (512, "11x4:v100,11x4:p100,11x4:k80"),
        (1024, "22x4:v100,22x4:p100,22x4:k80"),
        (2048, "43x4:v100,43x4:p100,43x4:k80"),
    ];
    let mut took = Vec::new();
    for (jobs, cluster) in sizes {
        let case = Case { jobs: Some(jobs), cluster: Some(cluster), ..Case::of("s-240", effort.seed) };
        took.push(first_decision_s(&case)?);
    }
    let growth = (took[2] / took[0]).ln() / 4.0_f64.ln();
    Ok(vec![
        Row::single(
            "P-1",
            "one round of Hadar with 2,048 jobs on 516 GPUs, each job in turn (s)",
            Figures::default(),
            Gate::AtMost(60.0),
            Some(took[2]),
        ),
        Row::single(
            "P-1",
            "the power of the number of jobs with which it grows, from 512 to 2,048",
            Figures::default(),
            Gate::AtMost(2.0),
            Some(growth),
        ),
    ])
}

/// Wall seconds of the first round.
fn first_decision_s(case: &Case) -> Result<f64, Failure> {
    use trainyard_sched::control::{Batch, Log, Step};
    /// The longest time between two steps.
    struct Longest(Instant, f64);
    impl Log for Longest {
        fn step(&mut self, _: &Batch, _: &Step) {
            self.1 = self.1.max(self.0.elapsed().as_secs_f64());
            self.0 = Instant::now();
        }
    }
    let policy = crate::config::PolicyChoice::new("hadar", "beam = 1".parse().expect("TOML"))?;
    let (cluster, workload) = (case.machines(), case.jobs()?);
    let setup = trainyard_sim::simulate::Setup {
        cluster,
        tenants: workload.tenants.clone(),
        workload,
        physics: trainyard_sim::physics::Physics::default(),
        options: trainyard_sim::backend::Options {
            horizon: trainyard_sched::model::Time::from_secs(361),
            ..trainyard_sim::backend::Options::default()
        },
        seed: case.seed,
    };
    let mut longest = Longest(Instant::now(), 0.0);
    trainyard_sim::simulate::simulate(setup, policy.build()?, &mut longest, |_, _| {})
        .map_err(|source| Failure::Setup { policy: policy.label(), source })?;
    Ok(longest.1)
}

/// All contenders beside their references.
fn readings(all: &[Contender], seen: &[Seen], bound_h: Option<f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((policy, seen), reference) in all.iter().zip(seen).zip(REFERENCE) {
        let known = |i: usize| Figures { published: None, reference: reference.map(|known| known[i]) };
        let what = |what: &str| format!("{}: {what}", policy.label);
        rows.push(Row::single("H-5", what("mean JCT (h)"), known(0), Gate::Told, seen.jct_h));
        let ratio = bound_h.map(|bound| seen.makespan_h / bound);
        let row = Row::single("H-6", what("TTD (h)"), known(1), Gate::Told, Some(seen.makespan_h));
        rows.push(row.beside(&format!("{:.3} times the least possible", ratio.unwrap_or(f64::NAN))));
        rows.push(Row::single("H-7", what("utilisation"), known(2), Gate::Told, Some(seen.utilization)));
    }
    rows
}

fn draw(
    case: &Case,
    all: &[Contender],
    seen: &[Seen],
    bound_h: Option<f64>,
    found: &mut Findings,
) -> Result<(), Failure> {
    let bars = |title: &str, reading: String, pick: fn(&Seen) -> Option<f64>, known: usize| Bars {
        title: title.to_owned(),
        reading,
        alternative: "The numbers are in the table below the chart.".to_owned(),
        y: (Scale::Number, "hours"),
        series: vec!["ours".to_owned(), "reference".to_owned()],
        groups: all
            .iter()
            .zip(seen)
            .zip(REFERENCE)
            .map(|((policy, seen), reference)| {
                (policy.label.to_owned(), vec![pick(seen), reference.map(|figures| figures[known])])
            })
            .collect(),
    };
    found.bars.push(bars("Mean time from arrival to end", String::new(), |seen| seen.jct_h, 0));
    let least =
        bound_h.map_or_else(String::new, |bound| format!("No schedule can be done before {bound:.1} h."));
    found.bars.push(bars("Total time duration", least, |seen| Some(seen.makespan_h), 1));
    let gpus = case.machines().gpu_count() as f64;
    let shown = [Who::Jct, Who::Ttd, Who::GavelLas, Who::GavelMakespan, Who::Tiresias, Who::Yarn];
    found.plots.push(Plot {
        title: "GPUs in use over time".to_owned(),
        reading: "Who serves short jobs first leaves a tail of long ones.".to_owned(),
        alternative: "Parts of the GPUs in use over time, for six policies.".to_owned(),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "GPUs in use"),
        steps: false,
        curves: shown.map(|who| over_time(all[who as usize].label, &of(seen, who).used, gpus)).to_vec(),
    });
    let isolated = of(seen, Who::Isolated);
    let fair = [Who::Jct, Who::Ftf, Who::GavelLas, Who::GavelFtf];
    found.plots.push(Plot {
        title: "Times from arrival to end beside those with an equal part of the cluster".to_owned(),
        reading: "Left of 1 are jobs that gain by sharing.".to_owned(),
        alternative: "The distribution of the ratio over jobs, for four policies.".to_owned(),
        x: (Scale::Number, "times as long"),
        y: (Scale::Part, "jobs"),
        steps: true,
        curves: fair
            .map(|who| shares_below(all[who as usize].label, &of(seen, who).times_as_long(isolated)))
            .to_vec(),
    });
    for who in [Who::Jct, Who::GavelLas] {
        let policy = &all[who as usize];
        let ran = perform(case, policy, Follow { places: true, ..Follow::default() })?;
        let mut drawn =
            who_ran_where(&ran.extra.places, &case.machines(), &case.jobs()?, 60, ran.makespan_h * HOUR_S);
        drawn.title = format!("{}: who ran where, the first 60 jobs", policy.label);
        "A row is a job, a colour the type of its GPUs.".clone_into(&mut drawn.reading);
        drawn.alternative = format!("60 of 240 jobs over {:.0} hours.", ran.makespan_h);
        found.bands.push(drawn);
    }
    Ok(())
}

/// How prices went, by GPU type.
fn draw_prices(case: &Case, policy: &Contender, found: &mut Findings) -> Result<(), Failure> {
    let ran = perform(case, policy, Follow { prices: true, ..Follow::default() })?;
    let mut drawn = prices_over_time(&ran.extra.prices, &case.machines(), ran.makespan_h * HOUR_S);
    drawn.title = format!("{}: prices by GPU type over rounds", policy.label);
    drawn.reading = format!(
        "The stronger the colour, the dearer a GPU of the type once all of a round was given away; equal steps are equal factors. \
         A type of which GPUs stay free is cheap. {} They are in utility for a GPU and round.",
        drawn.alternative
    );
    found.bands.push(drawn);
    Ok(())
}
