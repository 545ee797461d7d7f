//! HadarE (2025): a few jobs that are forked into copies on five nodes of one GPU, against Hadar without copies.
//!
//! What the paper's mixes hold is not public; the mixes of the presets stand for them.

use trainyard_sched::model::{Cluster, NodeId, Seed};
use trainyard_sim::physics::{gavel_throughputs, left_out};
use trainyard_sim::workload::Workload;

use super::typed::{
    Case, Contender, Follow, HOUR_S, Seen, contender, forked_bound_h, over_time, perform, perform_all,
    who_ran_where,
};
use super::{Bars, Effort, Figures, Findings, Gate, Paper, Plot, PlotCurve, Progress, Row, Scale};
use crate::failure::Failure;

/// HadarE.
pub(super) const PAPER: Paper = Paper {
    name: "hadare",
    title: "HadarE: jobs forked into copies, so that no node idles",
    source: "HadarE, arXiv 2503.10918 (its mixes are not public; M-1 to M-12 are this project's)",
    run,
};

/// A mix, and what an independent run of the same jobs saw: TTD in hours and utilisation without and with copies, and the
/// least TTD possible without and with.
struct Mix {
    preset: &'static str,
    single: [f64; 2],
    forked: [f64; 2],
    bounds: [f64; 2],
}

const MIXES: [Mix; 7] = [
    Mix { preset: "m-1", single: [5.380, 0.200], forked: [1.916, 0.985], bounds: [5.378, 1.887] },
    Mix { preset: "m-3", single: [5.867, 0.519], forked: [4.610, 0.978], bounds: [5.391, 4.443] },
    Mix { preset: "m-4", single: [8.080, 0.545], forked: [5.552, 0.984], bounds: [6.004, 5.448] },
    Mix { preset: "m-5", single: [8.350, 0.763], forked: [6.968, 0.987], bounds: [6.998, 6.787] },
    Mix { preset: "m-8", single: [12.080, 0.869], forked: [10.928, 0.968], bounds: [10.542, 10.522] },
    Mix { preset: "m-10", single: [15.180, 0.827], forked: [13.780, 0.969], bounds: [13.266, 13.251] },
    Mix { preset: "m-12", single: [17.516, 0.955], forked: [16.870, 0.970], bounds: [16.268, 16.268] },
];
/// TTD in hours of M-1 and M-5 with one, two, three and five copies.
const COPIES: [(i64, [f64; 2]); 4] =
    [(1, [5.380, 8.132]), (2, [2.729, 7.230]), (3, [2.061, 7.034]), (5, [1.916, 6.968])];
/// TTD in hours of M-1, M-5 and M-12 by the length of a slot in seconds.
const SLOTS: [(u32, [f64; 3]); 6] = [
    (60, [2.061, 7.080, 19.325]),
    (90, [2.000, 7.020, 18.210]),
    (180, [1.943, 6.957, 17.239]),
    (360, [1.916, 6.968, 16.870]),
    (720, [1.902, 7.015, 16.790]),
    (1440, [1.896, 7.186, 16.816]),
];
const SLOT_MIXES: [&str; 3] = ["m-1", "m-5", "m-12"];

fn forked() -> Contender {
    contender("HadarE", "hadare", "")
}

/// One node a job and slot, by what a job would pay.
fn single() -> Contender {
    contender("without copies", "hadare", "copies = 1\nweights = 'payoff'")
}

/// A mix that was run in both ways.
struct Both<'a> {
    mix: &'a Mix,
    workload: Workload,
    cluster: Cluster,
    single: Seen,
    forked: Seen,
    bounds: [Option<f64>; 2],
}

fn run(effort: &Effort, progress: &Progress<'_>) -> Result<Findings, Failure> {
    let mut found = Findings {
        setting: "Mixes of 1 to 12 jobs of 2 to 6 hours on a V100, on two V100, one P100 and two K80; slots of 360 s; a restart \
                  takes 10 s, and bringing copies together 5 s. The reference is an independent run of the same jobs in a small \
                  script."
            .to_owned(),
        ..Findings::default()
    };
    let tasks: Vec<(Case, Contender)> = MIXES
        .iter()
        .flat_map(|mix| [single(), forked()].map(|policy| (Case::of(mix.preset, Seed(0)), policy)))
        .collect();
    let mut seen = perform_all(&tasks, progress)?.into_iter();
    let mut all = Vec::new();
    for mix in &MIXES {
        let case = Case::of(mix.preset, Seed(0));
        let (workload, cluster) = (case.jobs()?, case.machines());
        let bounds = [false, true].map(|forked| forked_bound_h(&workload, &cluster, forked));
        let mut next = || seen.next().expect("two runs for each mix");
        let (single, forked) = (next(), next());
        all.push(Both { mix, workload, cluster, single, forked, bounds });
    }
    found.rows.extend(all.iter().map(Both::near_the_bound));
    found.rows.extend(all.iter().map(Both::busy));
    found.rows.extend(against_single(&all));
    found.rows.push(alone(&all[0]));
    found.rows.extend(copies(effort, progress, &mut found.plots)?);
    found.rows.extend(slots(effort, progress, &mut found.plots)?);
    found.rows.extend(accounts(&all, progress)?);
    found.rows.push(estimate());
    found.readings.extend(all.iter().flat_map(Both::readings));
    draw(&all, &mut found)?;
    Ok(found)
}

impl Both<'_> {
    fn name(&self) -> String {
        self.mix.preset.to_uppercase()
    }

    /// E-1.
    fn near_the_bound(&self) -> Row {
        let what = format!("{}: TTD of HadarE over the least possible with copies", self.name());
        let reference = Some(self.mix.forked[0] / self.mix.bounds[1]);
        let ratio = self.bounds[1].map(|bound| self.forked.makespan_h / bound);
        Row::single("E-1", what, Figures { published: None, reference }, Gate::AtMost(1.06), ratio)
    }

    /// E-2.
    fn busy(&self) -> Row {
        let what = format!("{}: part of the time for which nodes train under HadarE", self.name());
        let figures = Figures { published: None, reference: Some(self.mix.forked[1]) };
        Row::single("E-2", what, figures, Gate::AtLeast(0.95), Some(self.forked.trained))
    }

    fn readings(&self) -> Vec<Row> {
        let known = |figure| Figures { published: None, reference: Some(figure) };
        let row = |check, what: &str, reference, ours| {
            Row::single(check, format!("{}: {what}", self.name()), known(reference), Gate::Told, ours)
        };
        vec![
            row("E-1", "TTD of HadarE (h)", self.mix.forked[0], Some(self.forked.makespan_h)),
            row("E-1", "least TTD with copies (h)", self.mix.bounds[1], self.bounds[1]),
            row("E-3", "TTD without copies (h)", self.mix.single[0], Some(self.single.makespan_h)),
            row("E-3", "least TTD without copies (h)", self.mix.bounds[0], self.bounds[0]),
            row(
                "E-3",
                "part of the time for which nodes train without copies",
                self.mix.single[1],
                Some(self.single.trained),
            ),
        ]
    }
}

/// E-3: against the same policy without copies.
fn against_single(all: &[Both<'_>]) -> Vec<Row> {
    let mean = |ratios: &[f64]| ratios.iter().sum::<f64>() / ratios.len() as f64;
    let busier: Vec<f64> = all.iter().map(|both| both.forked.trained / both.single.trained).collect();
    let known: Vec<f64> = MIXES.iter().map(|mix| mix.forked[1] / mix.single[1]).collect();
    let shorter: Vec<f64> = all.iter().map(|both| both.forked.makespan_h / both.single.makespan_h).collect();
    let known_shorter = MIXES.iter().map(|mix| mix.forked[0] / mix.single[0]);
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let known_shorter: Vec<f64> = known_shorter.collect();
    let figures = |published, reference| Figures { published, reference: Some(reference) };
    vec![
        Row::single(
            "E-3",
            "part of the time for which nodes train, over that without copies: mean over mixes",
            figures(Some(1.45), mean(&known)),
            Gate::AtLeast(1.45),
            Some(mean(&busier)),
        ),
        Row::single(
            "E-3",
            "TTD over that without copies: least over mixes",
            figures(Some(0.5), least(&known_shorter)),
            Gate::AtMost(0.5),
            Some(least(&shorter)),
        )
        .beside("published are cuts by 50 % and 80 % on two clusters; over which of two others is not known"),
        Row::single(
            "E-3",
            "TTD over that without copies: most over mixes",
            figures(None, most(&known_shorter)),
            Gate::AtMost(1.0),
            Some(most(&shorter)),
        ),
    ]
}

/// E-4: one job on all nodes.
fn alone(both: &Both<'_>) -> Row {
    let (job, truth) = &both.workload.jobs[0];
    let rates = job.declared.rates.as_ref();
    let types = both.cluster.nodes.iter().filter_map(|node| node.gpu_type);
    let sum: f64 = types.filter_map(|gpu_type| rates.and_then(|rates| rates.per_s(gpu_type, 1, false))).sum();
    let ideal_h = truth.iterations / sum / HOUR_S;
    let what = "M-1: TTD of HadarE over that of all speeds added up";
    let figures = Figures { published: None, reference: Some(1.916 / 1.887) };
    Row::single("E-4", what, figures, Gate::AtMost(1.02), Some(both.forked.makespan_h / ideal_h))
}

/// E-7: the steps of copies, as these report them.
fn accounts(all: &[Both<'_>], progress: &Progress<'_>) -> Result<Vec<Row>, Failure> {
    (progress.expect)(all.len() as u64);
    let (mut off, mut apart, mut mismatches) = (0.0_f64, 0.0_f64, 0);
    for both in all {
        let case = Case::of(both.mix.preset, Seed(0));
        let seen = perform(&case, &forked(), Follow { copies: true, ..Follow::default() })?;
        let books = seen.extra.copies.unwrap_or_default();
        mismatches += books.mismatches;
        for (job, truth) in &both.workload.jobs {
            let done = books.sums.get(&job.id).copied().unwrap_or(0.0);
            off = off.max((done - truth.iterations).abs());
            let rates = job.declared.rates.as_ref();
            let per_s = |node: NodeId| rates?.per_s(both.cluster.node(node).gpu_type?, 1, false);
            let sooner_s = books.sooner_s(job.id);
            let slowest = sooner_s.iter().filter_map(|(node, _)| per_s(*node)).fold(f64::INFINITY, f64::min);
            for (_, sooner_s) in sooner_s {
                // Times are whole microseconds.
                apart = apart.max((sooner_s - 1e-3).max(0.0) * slowest);
            }
        }
        (progress.done)();
    }
    let row = |what: &str, most, ours| {
        Row::single("E-7", what, Figures { published: None, reference: Some(0.0) }, Gate::AtMost(most), ours)
    };
    Ok(vec![
        row("steps that copies did beside those of their job: largest difference (steps)", 1e-3, Some(off))
            .and(mismatches == 0, "each report adds up"),
        row(
            "time between the ends of the copies of a job: most, in steps on its slowest node",
            1.0,
            Some(apart),
        ),
    ])
}

/// E-8: speeds on types where a job was never seen.
fn estimate() -> Row {
    let mut off = left_out(&gavel_throughputs(), Some(1));
    off.sort_by(f64::total_cmp);
    let what =
        "speeds of jobs with one GPU, each estimated from all others: median of the part by which it is off";
    Row::single("E-8", what, Figures::default(), Gate::AtMost(0.25), off.get(off.len() / 2).copied())
}

/// E-5: more copies.
fn copies(effort: &Effort, progress: &Progress<'_>, plots: &mut Vec<Plot>) -> Result<Vec<Row>, Failure> {
    let mixes = if effort.quick { &["m-1"][..] } else { &["m-1", "m-5"] };
    let task = |mix: &'static str, copies: i64| {
        (Case::of(mix, Seed(0)), contender("HadarE", "hadare", &format!("copies = {copies}")))
    };
    let tasks: Vec<_> = mixes.iter().flat_map(|mix| COPIES.map(|(copies, _)| task(mix, copies))).collect();
    let seen = perform_all(&tasks, progress)?;
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for (m, (mix, seen)) in mixes.iter().zip(seen.chunks(COPIES.len())).enumerate() {
        let steps = seen.windows(2).map(|pair| pair[1].makespan_h / pair[0].makespan_h);
        let worst = steps.fold(0.0, f64::max);
        let known = COPIES.windows(2).map(|pair| pair[1].1[m] / pair[0].1[m]).fold(0.0, f64::max);
        let what = format!("{}: TTD with more copies over that with fewer, at most", mix.to_uppercase());
        let figures = Figures { published: None, reference: Some(known) };
        // A larger number of copies may cost a slot at the end.
        let row = Row::single("E-5", what, figures, Gate::AtMost(1.02), Some(worst));
        let busiest = seen.iter().map(|seen| seen.trained).fold(0.0, f64::max);
        let last = seen.last().map_or(0.0, |seen| seen.trained);
        rows.push(row.and(last >= busiest - 0.005, "nodes train most with one copy a node"));
        let points =
            COPIES.iter().zip(seen).map(|((copies, _), seen)| (*copies as f64, seen.makespan_h * HOUR_S));
        curves.push(PlotCurve { name: mix.to_uppercase(), points: points.collect() });
    }
    plots.push(Plot {
        title: "Total time duration by the number of copies".to_owned(),
        reading: "A job alone gains most.".to_owned(),
        alternative: "It falls with each further copy.".to_owned(),
        x: (Scale::Count, "copies of a job"),
        y: (Scale::Seconds, "TTD"),
        steps: false,
        curves,
    });
    Ok(rows)
}

/// E-6: longer and shorter slots.
fn slots(effort: &Effort, progress: &Progress<'_>, plots: &mut Vec<Plot>) -> Result<Vec<Row>, Failure> {
    let mixes = if effort.quick { &SLOT_MIXES[..1] } else { &SLOT_MIXES[..] };
    let task = |mix: &'static str, slot_s: u32| {
        (Case::of(mix, Seed(0)), contender("HadarE", "hadare", &format!("round_s = {slot_s}")))
    };
    let tasks: Vec<_> = mixes.iter().flat_map(|mix| SLOTS.map(|(slot_s, _)| task(mix, slot_s))).collect();
    let seen = perform_all(&tasks, progress)?;
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for (m, (mix, seen)) in mixes.iter().zip(seen.chunks(SLOTS.len())).enumerate() {
        let hours: Vec<f64> = seen.iter().map(|seen| seen.makespan_h).collect();
        let least = hours.iter().copied().fold(f64::INFINITY, f64::min);
        let known_least = SLOTS.iter().map(|(_, known)| known[m]).fold(f64::INFINITY, f64::min);
        let what = format!("{}: TTD with slots of 1,440 s over the least of all lengths", mix.to_uppercase());
        let figures = Figures { published: None, reference: Some(SLOTS[5].1[m] / known_least) };
        let row = Row::single("E-6", what, figures, Gate::AtMost(1.05), Some(hours[5] / least));
        rows.push(row.and(hours[0] > hours[3], "slots of 60 s take longer than those of 360 s"));
        let points = SLOTS.iter().zip(&hours).map(|((slot_s, _), hours)| (f64::from(*slot_s), hours / least));
        curves.push(PlotCurve { name: mix.to_uppercase(), points: points.collect() });
    }
    plots.push(Plot {
        title: "Total time duration by the length of a slot".to_owned(),
        reading: "Over the least of all lengths: short slots pay for merges, long ones leave nodes idle at the end.".to_owned(),
        alternative: "It falls from 60 s on, and rises again where many jobs end.".to_owned(),
        x: (Scale::Seconds, "length of a slot"),
        y: (Scale::Number, "TTD over the least"),
        steps: false,
        curves,
    });
    Ok(rows)
}

fn draw(all: &[Both<'_>], found: &mut Findings) -> Result<(), Failure> {
    let bars = |title: &str,
                y: (Scale, &'static str),
                pick: fn(&Both<'_>) -> Vec<Option<f64>>,
                series: &[&str]| Bars {
        title: title.to_owned(),
        reading: String::new(),
        alternative: "The numbers are in the table below the chart.".to_owned(),
        y,
        series: series.iter().map(|name| (*name).to_owned()).collect(),
        groups: all.iter().map(|both| (both.name(), pick(both))).collect(),
    };
    found.bars.push(bars(
        "Total time duration",
        (Scale::Number, "hours"),
        |both| vec![Some(both.single.makespan_h), Some(both.forked.makespan_h), both.bounds[1]],
        &["without copies", "HadarE", "least possible"],
    ));
    found.bars.push(bars(
        "Part of the time for which nodes train",
        (Scale::Part, "CRU"),
        |both| vec![Some(both.single.trained), Some(both.forked.trained)],
        &["without copies", "HadarE"],
    ));
    let Some(both) = all.iter().find(|both| both.mix.preset == "m-5") else { return Ok(()) };
    let nodes = both.cluster.nodes.len() as f64;
    found.plots.push(Plot {
        title: "M-5: nodes in use over time".to_owned(),
        reading: "With copies all nodes are in use until the last job is done.".to_owned(),
        alternative: "Parts of the nodes in use.".to_owned(),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "nodes in use"),
        steps: false,
        curves: vec![
            over_time("without copies", &both.single.used, nodes),
            over_time("HadarE", &both.forked.used, nodes),
        ],
    });
    let mut trained = Vec::new();
    for policy in [single(), forked()] {
        let follow = Follow { places: true, ..Follow::default() };
        let ran = perform(&Case::of("m-5", Seed(0)), &policy, follow)?;
        trained.push(over_time(policy.label, &ran.extra.trained, 1.0));
        let mut drawn =
            who_ran_where(&ran.extra.places, &both.cluster, &both.workload, 5, ran.makespan_h * HOUR_S);
        drawn.title = format!("M-5, {}: who ran where", policy.label);
        "A row is a job, a colour the type of a GPU; copies lie over each other."
            .clone_into(&mut drawn.reading);
        drawn.alternative = format!("5 jobs over {:.1} hours.", ran.makespan_h);
        found.bands.push(drawn);
    }
    found.plots.push(Plot {
        title: "M-5: CRU over time".to_owned(),
        reading: "The part of the nodes that train. Loading, bringing copies together and resting are no training, so it dips where \
                  a slot begins."
            .to_owned(),
        alternative: format!(
            "Over the whole time {:.3} without copies and {:.3} with them.",
            both.single.trained, both.forked.trained
        ),
        x: (Scale::Seconds, "time"),
        y: (Scale::Part, "CRU"),
        steps: false,
        curves: trained,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_reached_on_the_mixes() {
        let effort = Effort { seed: Seed(0), seeds: None, quick: true, nightly: false };
        let progress = Progress { expect: &|_| {}, done: &|| {} };
        let found = run(&effort, &progress).expect("the presets can be run");
        let missed: Vec<&Row> = found.rows.iter().filter(|row| !row.pass).collect();
        assert!(missed.is_empty(), "{missed:?}");
        let checks: std::collections::BTreeSet<&str> = found.rows.iter().map(|row| row.check).collect();
        assert_eq!(
            checks.into_iter().collect::<Vec<_>>(),
            ["E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-7", "E-8"]
        );
        // The same jobs in a small script; merges are timed a little differently there.
        for row in &found.readings {
            let (ours, reference) = (row.ours.expect("a figure"), row.reference.expect("a figure"));
            assert!((ours / reference - 1.0).abs() < 0.03, "{row:?}");
        }
        assert_eq!((found.bars.len(), found.bands.len()), (2, 2));
        let cru = found.plots.iter().find(|plot| plot.title.ends_with("CRU over time")).expect("it is drawn");
        let mean = |curve: &PlotCurve| {
            let sum: f64 = curve.points.iter().map(|point| point.1).sum();
            sum / curve.points.len() as f64
        };
        // M-5 has a utilisation of 0.76 without copies, and of 0.98 with them.
        let [single, forked] = &cru.curves[..] else { panic!("{cru:?}") };
        assert!((mean(single) - 0.76).abs() < 0.03 && (mean(forked) - 0.98).abs() < 0.02, "{cru:?}");
        assert!(found.bands.iter().all(|bands| bands.rows.iter().all(|(_, bands)| !bands.is_empty())));
    }
}
