//! The full table of measured speeds, from a file, interpolated as the public code of DL2 does it: radial basis functions
//! over servers and workers with the distance itself as the basis, through every point.
//!
//! A line of the file is a tuple: model, mode, total batch, servers, workers, steps a second of each worker, and two lists
//! that are not read. The file is `config_speed.txt` of the repository pengyanghua/DL2; it is not part of this project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_sched::model::SpeedTable;

use super::profile::MODELS;

/// The largest number of workers and servers at which speeds are worked out.
const MOST: u32 = 24;

/// Why a table of speeds cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpeedsError {
    /// The file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A line that is not understood.
    #[error(
        "{}:{line}: {what}; a line is ('model', 'mode', batch, servers, workers, [steps a second of each worker], ...)",
        .path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A model without enough speeds.
    #[error("{}: `{model}` {what}", .path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The model.
        model: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}

/// Servers, workers, samples a second.
type Point = (f64, f64, f64);

/// The speeds of all models, in units of work a second. Runs that failed have a speed of zero in the file; they are kept,
/// as the public code does, or dropped.
pub(super) fn read(path: &Path, keep_failed: bool) -> Result<Vec<SpeedTable>, SpeedsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| SpeedsError::Open { path: path.to_owned(), why: error.to_string() })?;
    let mut points: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: String| SpeedsError::Line { path: path.to_owned(), line: i + 1, what };
        let (model, point) = parse(line).map_err(wrong)?;
        if keep_failed || point.2 > 0.0 {
            points.entry(model).or_default().push(point);
        }
    }
    let table = |model: &super::profile::ServerModel| {
        let wrong = |what| SpeedsError::Model { path: path.to_owned(), model: model.name, what };
        let points = points.get(model.name).ok_or_else(|| wrong("has no speeds"))?;
        let weights = weights(points).ok_or_else(|| wrong("has two speeds for one size"))?;
        Ok(SpeedTable::new(MOST, MOST, |workers, servers| {
            value(points, &weights, f64::from(servers), f64::from(workers)) / model.samples
        }))
    };
    MODELS.iter().map(table).collect()
}

fn parse(line: &str) -> Result<(&str, Point), String> {
    let (head, rest) = line.trim().split_once('[').ok_or("there is no list of speeds")?;
    let (list, _) = rest.split_once(']').ok_or("the list of speeds has no end")?;
    let fields: Vec<&str> = head.trim_start_matches('(').split(',').map(str::trim).collect();
    let [model, _, _, servers, workers, ..] = fields[..] else {
        return Err(format!("there are {} fields before the speeds, not 5", fields.len() - 1));
    };
    let number = |what: &str, text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| format!("{what} `{text}` is no number from 0 on"))
    };
    let speeds = list.split(',').filter(|text| !text.trim().is_empty());
    let speeds: Vec<f64> = speeds.map(|text| number("speed", text)).collect::<Result<_, _>>()?;
    let model = model.trim_matches(['\'', '"']);
    Ok((model, (number("servers", servers)?, number("workers", workers)?, speeds.iter().sum())))
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// The weights with which the distances to all points add up to the speed at each point.
fn weights(points: &[Point]) -> Option<Vec<f64>> {
    let n = points.len();
    let row = |a: &Point| -> Vec<f64> {
        let distances = points.iter().map(|b| distance((a.0, a.1), (b.0, b.1)));
        distances.chain([a.2]).collect()
    };
    let mut rows: Vec<Vec<f64>> = points.iter().map(row).collect();
    for k in 0..n {
        let pivot = (k..n).max_by(|a, b| rows[*a][k].abs().total_cmp(&rows[*b][k].abs()))?;
        rows.swap(k, pivot);
        if rows[k][k].abs() < 1e-9 {
            return None;
        }
        let (upper, lower) = rows.split_at_mut(k + 1);
        let top = &upper[k];
        for row in lower {
            let factor = row[k] / top[k];
            row[k..].iter_mut().zip(&top[k..]).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut weights = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| rows[k][j] * weights[j]).sum();
        weights[k] = (rows[k][n] - known) / rows[k][k];
    }
    Some(weights)
}

fn value(points: &[Point], weights: &[f64], servers: f64, workers: f64) -> f64 {
    points
        .iter()
        .zip(weights)
        .map(|(point, weight)| weight * distance((point.0, point.1), (servers, workers)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpolation_goes_through_every_point_and_is_linear_between_two() {
        let points = [(1.0, 1.0, 10.0), (3.0, 1.0, 30.0), (1.0, 4.0, 5.0)];
        let weights = weights(&points).unwrap();
        for (servers, workers, speed) in points {
            assert!((value(&points, &weights, servers, workers) - speed).abs() < 1e-9);
        }
        let line = [(1.0, 1.0, 10.0), (3.0, 1.0, 30.0)];
        let of_line = super::weights(&line).unwrap();
        assert!((value(&line, &of_line, 2.0, 1.0) - 20.0).abs() < 1e-9);
        assert_eq!(super::weights(&[(1.0, 1.0, 1.0), (1.0, 1.0, 2.0), (2.0, 2.0, 1.0)]), None);
    }

    #[test]
    fn lines_are_read_and_bad_ones_named() {
        let line = "('vgg-16', 'dist_sync', 32, 4, 2, [1.5, 2.25], [0.1], [0.2])";
        assert_eq!(parse(line), Ok(("vgg-16", (4.0, 2.0, 3.75))));
        for (line, told) in [
            ("nothing", "no list"),
            ("('a', 'b', 1, 2, 3, [1", "no end"),
            ("('a', [1]", "1 fields"),
            ("('a', 'b', 1, x, 3, [1])", "servers `x`"),
            ("('a', 'b', 1, 2, 3, [1, y])", "speed ` y`"),
        ] {
            assert!(parse(line).unwrap_err().contains(told), "{line}: {:?}", parse(line));
        }
        let missing = read(Path::new("no-such-file"), true).unwrap_err().to_string();
        assert!(missing.contains("cannot read no-such-file"), "{missing}");
    }
}
