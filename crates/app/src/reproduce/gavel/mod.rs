//! Gavel (OSDI 2020): the runs of its public simulator, its sweeps of load, and how long its programs take.

mod golden;
mod load;
mod parts;
mod programs;

use trainyard_sched::model::Seed;
use trainyard_sim::generate::{Parameters, generate};

use super::typed::{
    Case, Contender, Follow, Seen, contender, makespan_bound_h, over_time, perform, perform_all,
    shares_below, who_ran_where,
};
use super::{Bars, Effort, Figures, Findings, Gate, Paper, Plot, Progress, Row, Scale};
use crate::failure::Failure;
use golden::{GOLDEN, Golden, SETS};

/// Gavel.
pub(super) const PAPER: Paper = Paper {
    name: "gavel",
    title: "Gavel: shares of time on each GPU type, given out in rounds",
    source: "Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia, OSDI 2020, and its public code",
    run,
};

/// Steps of the first jobs of the public generator with seed 0, with one GPU and as gangs.
const FIRST_STEPS: [(usize, f64, f64); 12] = [
    (0, 1_646_636.275_842, 17_484_476.261_106),
    (1, 343_170.468_642, 343_170.468_642),
    (2, 16_034.378_194, 16_034.378_194),
    (3, 20_989.313_058, 20_989.313_058),
    (4, 748_740.885_163, 869_104.868_898),
    (5, 3_842_187.572_961, 3_842_187.572_961),
    (6, 456_418.006_738, 456_418.006_738),
    (7, 47_952.650_944, 47_952.650_944),
    (8, 715_609.596_456, 715_609.596_456),
    (9, 183_877.514_829, 183_877.514_829),
    (10, 376_931.743_935, 376_931.743_935),
    (11, 6_133_466.037_829, 10_434_790.724_918),
];

/// A policy of Gavel as its public simulator has it.
fn coded(label: &'static str, parameters: &str) -> Contender {
    contender(label, "gavel", &format!("compatibility = true\n{parameters}"))
}

fn run(effort: &Effort, progress: &Progress<'_>) -> Result<Findings, Failure> {
    let mut found = Findings {
        setting: "Jobs of Gavel's generator with their measured speeds, on V100, P100 and K80; rounds of 360 s, as coded in \
                  the public simulator. The reference is what that simulator said for the same jobs."
            .to_owned(),
        ..Findings::default()
    };
    found.rows.push(first_jobs()?);
    found.rows.push(programs::objectives());
    found.rows.extend(parts::rows(effort));
    let seen = sets(effort, progress)?;
    found.rows.extend(seen.iter().map(|(golden, set, seen)| golden.row(*set, seen)));
    found.rows.extend(orderings(&seen)?);
    if !effort.quick {
        found.rows.extend(parts::lengths_of_rounds(progress)?);
        found.rows.extend(parts::money(progress)?);
        found.rows.push(programs::time_of_a_program());
    }
    load::sweep(effort, progress, &mut found)?;
    if effort.nightly {
        load::nightly(effort, progress, &mut found)?;
    }
    draw(&seen, &mut found)?;
    Ok(found)
}

/// G-1: the generator.
fn first_jobs() -> Result<Row, Failure> {
    let of = |preset: &str| {
        let parameters = Parameters { preset: preset.to_owned(), jobs: Some(12), ..Parameters::default() };
        generate(&parameters)
    };
    let (single, gangs) = (of("gavel-a")?, of("gavel-b")?);
    let worst = FIRST_STEPS.iter().map(|(i, alone, together)| {
        let off = |workload: &trainyard_sim::workload::Workload, steps: f64| {
            (workload.jobs[*i].1.iterations - steps).abs()
        };
        off(&single, *alone).max(off(&gangs, *together))
    });
    let worst = worst.fold(0.0, f64::max);
    let what = "the generator's first 12 jobs: largest difference from the public code (steps)";
    let figures = Figures { published: None, reference: Some(0.0) };
    // The public figures have six digits behind the point.
    Ok(Row::single("G-1", what, figures, Gate::AtMost(1e-6), Some(worst)))
}

/// All runs of which the public simulator's answer is known.
fn sets(effort: &Effort, progress: &Progress<'_>) -> Result<Vec<(&'static Golden, usize, Seen)>, Failure> {
    let most = if effort.quick { 2 } else { SETS.len() };
    let of = |golden: &'static Golden| {
        (0..most).filter(|set| golden.sets[*set].is_some()).map(move |set| (golden, set))
    };
    let wanted: Vec<(&Golden, usize)> = GOLDEN.iter().flat_map(of).collect();
    let task = |(golden, set): &(&Golden, usize)| {
        let parameters = format!("compatibility = true\n{}", golden.parameters);
        (Case::of(SETS[*set], Seed(0)), contender(golden.label, golden.policy, &parameters))
    };
    let tasks: Vec<(Case, Contender)> = wanted.iter().map(task).collect();
    let seen = perform_all(&tasks, progress)?;
    Ok(wanted.into_iter().zip(seen).map(|((golden, set), seen)| (golden, set, seen)).collect())
}

/// G-6 and G-14: what must be better than what.
fn orderings(seen: &[(&Golden, usize, Seen)]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for (set, name) in SETS.iter().enumerate() {
        let of = |label: &str| seen.iter().find(|(golden, of, _)| *of == set && golden.label == label);
        if let (Some(aware), Some(blind)) = (of("LAS, aware"), of("LAS, agnostic")) {
            let ratio = aware.2.jct_h.zip(blind.2.jct_h).map(|(aware, blind)| aware / blind);
            let reference = [20.5353 / 26.6466, 26.9856 / 37.3654, 21.4008 / 27.2973][set];
            let figures = Figures { published: None, reference: Some(reference) };
            let what = format!("{name}: mean JCT of LAS, aware of types over agnostic");
            rows.push(Row::single("G-6", what, figures, Gate::AtMost(0.8), ratio));
        }
        if let (Some(packed), Some(aware)) = (of("LAS, packed"), of("LAS, aware")) {
            let ratio = packed.2.jct_h.zip(aware.2.jct_h).map(|(packed, aware)| packed / aware);
            let figures = Figures { published: None, reference: Some(19.0675 / 20.5353) };
            let what = format!("{name}: mean JCT of LAS with jobs in pairs over LAS");
            rows.push(Row::single("G-14", what, figures, Gate::AtMost(0.97), ratio));
        }
        if let Some((_, _, makespan)) = of("makespan, aware") {
            let here = seen.iter().filter(|(_, of, _)| *of == set);
            let best = here.map(|(_, _, seen)| seen.makespan_h).fold(f64::INFINITY, f64::min);
            let what = format!("{name}: makespan of the makespan policy over the best of all");
            let ratio = Some(makespan.makespan_h / best);
            rows.push(Row::single("G-6", what, Figures::default(), Gate::AtMost(1.01), ratio));
            let case = Case::of(name, Seed(0));
            let bound = makespan_bound_h(&case.jobs()?, &case.machines());
            let what =
                format!("{name}: makespan of the makespan policy over the least that any schedule can have");
            let reference = (set == 2).then_some(165.8267 / 165.798);
            let gate = if set == 2 { Gate::AtMost(1.01) } else { Gate::Told };
            let ratio = bound.map(|bound| makespan.makespan_h / bound);
            rows.push(Row::single("G-6", what, Figures { published: None, reference }, gate, ratio));
        }
    }
    Ok(rows)
}

/// A policy on a set: its name, our mean JCT and makespan, and those of the public simulator, in hours.
type Group = (String, Option<f64>, f64, Option<[f64; 2]>);

/// What is drawn of the sets.
fn draw(seen: &[(&Golden, usize, Seen)], found: &mut Findings) -> Result<(), Failure> {
    let last = seen.iter().map(|(_, set, _)| *set).max().unwrap_or(0);
    let here: Vec<&(&Golden, usize, Seen)> = seen.iter().filter(|(_, set, _)| *set == last).collect();
    let name = SETS[last];
    let group = |(golden, _, seen): &&(&Golden, usize, Seen)| {
        let known = golden.sets[last].map(|[jct_h, makespan_h, _]| [jct_h, makespan_h]);
        (golden.label.to_owned(), seen.jct_h, seen.makespan_h, known)
    };
    let groups: Vec<Group> = here.iter().map(group).collect();
    let bars = |title: &str, pick: fn(&Group) -> [Option<f64>; 2]| Bars {
        title: format!("{name}: {title}"),
        reading: "Ours beside the public simulator's, in hours.".to_owned(),
        alternative: "The numbers are in the table below the chart.".to_owned(),
        y: (Scale::Number, "hours"),
        series: vec!["ours".to_owned(), "public simulator".to_owned()],
        groups: groups.iter().map(|group| (group.0.clone(), pick(group).to_vec())).collect(),
    };
    found.bars.push(bars("mean time from arrival to end", |group| [group.1, group.3.map(|known| known[0])]));
    found.bars.push(bars("makespan", |group| [Some(group.2), group.3.map(|known| known[1])]));
    let case = Case::of(name, Seed(0));
    let gpus = case.machines().gpu_count() as f64;
    let shown = ["LAS, aware", "LAS, agnostic", "makespan, aware"];
    let curves = here.iter().filter(|(golden, ..)| shown.contains(&golden.label));
    found.plots.push(Plot {
        title: format!("{name}: GPUs in use over time"),
        reading: "The makespan policy keeps all busy to the end; fair shares leave a tail.".to_owned(),
        alternative: "Parts of the GPUs in use, from all of them at the beginning to none at the end."
            .to_owned(),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "GPUs in use"),
        steps: false,
        curves: curves.map(|(golden, _, seen)| over_time(golden.label, &seen.used, gpus)).collect(),
    });
    let isolated = here.iter().find(|(golden, ..)| golden.label == "isolated");
    if let Some((_, _, isolated)) = isolated {
        let of = |label: &str| here.iter().find(|(golden, ..)| golden.label == label);
        let labels = ["LAS, aware", "LAS, agnostic", "FTF, aware"];
        let curve =
            |label: &str| of(label).map(|(_, _, seen)| shares_below(label, &seen.times_as_long(isolated)));
        found.plots.push(Plot {
            title: format!(
                "{name}: times from arrival to end beside those with an equal part of the cluster"
            ),
            reading: "Left of 1 are jobs that gain by sharing.".to_owned(),
            alternative: "The distribution of the ratio over jobs, for three policies.".to_owned(),
            x: (Scale::Number, "times as long"),
            y: (Scale::Part, "jobs"),
            steps: true,
            curves: labels.into_iter().filter_map(curve).collect(),
        });
    }
    let case = Case::of("gavel-a", Seed(0));
    let aware = coded("LAS, aware", "");
    let ran = perform(&case, &aware, Follow { places: true, ..Follow::default() })?;
    let mut drawn = who_ran_where(
        &ran.extra.places,
        &case.machines(),
        &case.jobs()?,
        30,
        ran.makespan_h * super::typed::HOUR_S,
    );
    "gavel-a under LAS, aware of types: who ran where".clone_into(&mut drawn.title);
    "A row is a job, a colour the type of its GPU. Jobs are moved to where they gain most."
        .clone_into(&mut drawn.reading);
    drawn.alternative = format!("30 jobs over {:.0} hours.", ran.makespan_h);
    found.bands.push(drawn);
    Ok(())
}
