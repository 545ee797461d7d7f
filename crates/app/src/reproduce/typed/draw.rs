//! What is drawn of runs: curves over time, distributions, and what ran where.

use trainyard_sched::model::{Cluster, GpuTypeId, JobId, Time};
use trainyard_sched::policies::hadar::Price;
use trainyard_sim::workload::Workload;

use crate::reproduce::{Band, Bands, PlotCurve};

/// Points of a curve; more than a chart has pixels to tell apart.
const MOST_POINTS: usize = 240;
/// Stretches shorter than this part of a run are drawn together.
const GRAINS: f64 = 400.0;

/// A curve over time, thinned to means over equal stretches.
pub(in crate::reproduce) fn over_time(name: &str, means: &[(f64, f64)], of: f64) -> PlotCurve {
    let each = means.len().div_ceil(MOST_POINTS).max(1);
    let mean = |some: &[(f64, f64)]| {
        let count = some.len() as f64;
        (some[0].0, some.iter().map(|point| point.1).sum::<f64>() / count / of)
    };
    PlotCurve { name: name.to_owned(), points: means.chunks(each).map(mean).collect() }
}

/// For each value, which part of all is no larger.
pub(in crate::reproduce) fn shares_below(name: &str, values: &[f64]) -> PlotCurve {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let each = sorted.len().div_ceil(MOST_POINTS).max(1);
    let chosen = |i: &usize| i.is_multiple_of(each) || i + 1 == sorted.len();
    let points = (0..sorted.len()).filter(chosen).map(|i| (sorted[i], (i + 1) as f64 / count)).collect();
    PlotCurve { name: name.to_owned(), points }
}

/// Which job was on GPUs of which type, and when; the first jobs only.
pub(in crate::reproduce) fn who_ran_where(
    places: &[(JobId, GpuTypeId, Time, Time)],
    cluster: &Cluster,
    workload: &Workload,
    most_jobs: usize,
    ended_s: f64,
) -> Bands {
    let jobs = workload.jobs.len().min(most_jobs);
    let mut rows: Vec<(String, Vec<Band>)> =
        workload.jobs[..jobs].iter().map(|(job, _)| (job.name.to_string(), Vec::new())).collect();
    for (job, gpu_type, from, to) in places {
        let Some((_, bands)) = rows.get_mut(job.index()) else { continue };
        let (from_s, to_s) = (from.as_secs_f64(), to.as_secs_f64());
        bands.push(Band { from_s, to_s, series: gpu_type.index(), strength: 1.0 });
    }
    rows.iter_mut().for_each(|(_, bands)| *bands = joined(std::mem::take(bands), ended_s / GRAINS));
    let series = cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.to_string()).collect();
    Bands {
        title: String::new(),
        reading: String::new(),
        alternative: String::new(),
        series,
        rows,
        to_s: ended_s,
    }
}

/// The same stretches, where those on one type that are less than a grain apart are one.
fn joined(mut bands: Vec<Band>, grain_s: f64) -> Vec<Band> {
    bands.sort_by(|a, b| a.series.cmp(&b.series).then(a.from_s.total_cmp(&b.from_s)));
    let mut kept: Vec<Band> = Vec::new();
    for band in bands {
        match kept.last_mut() {
            Some(last) if last.series == band.series && band.from_s - last.to_s < grain_s => {
                last.to_s = last.to_s.max(band.to_s);
            }
            _ => kept.push(band),
        }
    }
    kept
}

/// How dear a GPU of each type was over time: the stronger the colour, the dearer, by factors.
pub(in crate::reproduce) fn prices_over_time(
    prices: &[(f64, Vec<Price>)],
    cluster: &Cluster,
    ended_s: f64,
) -> Bands {
    let all = || prices.iter().flat_map(|(_, prices)| prices).map(|price| price.after.ln());
    let all = || all().filter(|log| log.is_finite());
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    // The least has a shade of its own, so that it can be told from nothing.
    let strength = |price: f64| 0.1 + 0.9 * (price.ln() - least) / (most - least).max(f64::MIN_POSITIVE);
    let ends = prices.iter().skip(1).map(|(from_s, _)| *from_s).chain([ended_s]);
    let rounds: Vec<(f64, f64, &[Price])> =
        prices.iter().zip(ends).map(|((from_s, prices), to_s)| (*from_s, to_s, &prices[..])).collect();
    let rows = cluster.gpu_types.iter().enumerate().map(|(i, gpu_type)| {
        let mut bands: Vec<Band> = Vec::new();
        for (from_s, to_s, prices) in &rounds {
            let Some(price) = prices.get(i).filter(|price| price.after > 0.0) else { continue };
            let strength = strength(price.after);
            match bands.last_mut() {
                // What is less wide than a grain is drawn with what is before it, at the larger of the two.
                Some(last) if last.to_s == *from_s && last.to_s - last.from_s < ended_s / GRAINS => {
                    (last.to_s, last.strength) = (*to_s, last.strength.max(strength));
                }
                _ => bands.push(Band { from_s: *from_s, to_s: *to_s, series: i, strength }),
            }
        }
        (gpu_type.name.to_string(), bands)
    });
    Bands {
        title: String::new(),
        reading: String::new(),
        alternative: format!("Prices from {:.1e} to {:.1e}.", least.exp(), most.exp()),
        series: cluster.gpu_types.iter().map(|gpu_type| gpu_type.name.to_string()).collect(),
        rows: rows.collect(),
        to_s: ended_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stretches_of_a_job_are_joined_by_type() {
        let band = |from_s, to_s, series| Band { from_s, to_s, series, strength: 1.0 };
        let bands = vec![band(0.0, 6.0, 0), band(6.0, 7.0, 1), band(7.0, 9.0, 0), band(30.0, 40.0, 0)];
        assert_eq!(joined(bands, 5.0), [band(0.0, 9.0, 0), band(30.0, 40.0, 0), band(6.0, 7.0, 1)]);
    }

    #[test]
    fn the_dearest_round_is_the_strongest_and_none_is_without_colour() {
        let cluster = trainyard_sim::cluster::parse_words("1x1:v100,1x1:k80").expect("these are words");
        let price = |after| Price { least: 1e-6, most: 1e-2, after };
        let prices = vec![(0.0, vec![price(1e-2), price(1e-4)]), (360.0, vec![price(1e-4), price(1e-6)])];
        let drawn = prices_over_time(&prices, &cluster, 720.0);
        let of = |row: usize, band: usize| drawn.rows[row].1[band];
        assert_eq!((drawn.rows[0].0.as_str(), drawn.rows[0].1.len(), drawn.rows[1].1.len()), ("v100", 2, 2));
        assert_eq!((of(0, 0).from_s, of(0, 0).to_s, of(0, 1).to_s), (0.0, 360.0, 720.0));
        assert!((of(0, 0).strength - 1.0).abs() < 1e-12 && (of(1, 1).strength - 0.1).abs() < 1e-12);
        // Half of the way by factors.
        assert!((of(1, 0).strength - 0.55).abs() < 1e-12 && of(0, 1).strength == of(1, 0).strength);
        assert!(drawn.alternative.contains("1.0e-6 to 1.0e-2"), "{}", drawn.alternative);
    }
}
