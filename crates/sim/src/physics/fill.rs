//! What a table of throughputs does not say, from what it says: jobs alone by what is known of others like them, and jobs
//! beside others by the reference they are most like.

use std::collections::BTreeMap;

use trainyard_sched::estimate::{Profile, References, Unseen, unseen_per_s};
use trainyard_sched::model::Seed;

use super::ThroughputTable;

/// What is known of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// It was measured.
    Measured(f64),
    /// It was found not to fit.
    DoesNotFit,
    /// It follows from others; between the two it lies in about two of three cases, as far as the others disagree.
    Estimated {
        /// Iterations a second.
        per_s: f64,
        /// The lower and the upper end, where they can be told.
        between: Option<(f64, f64)>,
        /// How many figures of others it rests on.
        sources: usize,
    },
    /// Nothing can be said.
    Unknown,
}

impl Figure {
    /// Iterations a second, if anything can be said: 0 where it does not fit.
    pub const fn per_s(self) -> Option<f64> {
        match self {
            Self::Measured(per_s) | Self::Estimated { per_s, .. } => Some(per_s),
            Self::DoesNotFit => Some(0.0),
            Self::Unknown => None,
        }
    }
}

/// One figure of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The row.
    pub row: u32,
    /// GPUs of the gang.
    pub gpus: u32,
    /// The other row, for one of two jobs that share their GPUs.
    pub beside: Option<u32>,
    /// The GPU type.
    pub gpu_type: String,
    /// Whether the gang is on several nodes.
    pub spread: bool,
    /// What is known of it.
    pub figure: Figure,
}

/// The model of a row and the samples in its batch, where its name says so: `ResNet-18 (batch size 64)`.
pub fn family_and_batch(name: &str) -> (&str, Option<f64>) {
    let Some((model, rest)) = name.split_once(" (batch size ") else { return (name, None) };
    (model, rest.strip_suffix(')').and_then(|batch| batch.trim().parse().ok()))
}

/// A column: the type, and whether gangs are on several nodes.
type Place = (String, bool);
/// Measured figures by gang and row, each by its column.
type Known = BTreeMap<(u32, u32), Vec<Option<f64>>>;

/// The figures of a table as rows and columns.
struct Grid {
    places: Vec<Place>,
    families: Vec<(u32, Option<f64>)>,
    known: Known,
}

impl Grid {
    fn of(table: &ThroughputTable) -> Self {
        let mut places: Vec<Place> = Vec::new();
        let mut known = Known::new();
        for (row, gpu_type, gpus, spread, per_s) in table.figures() {
            // One GPU is never on several nodes.
            if spread && gpus == 1 {
                continue;
            }
            let of = |place: &Place| (place.0.as_str(), place.1) == (gpu_type, spread);
            let at = places.iter().position(of).unwrap_or_else(|| {
                places.push((gpu_type.to_owned(), spread));
                places.len() - 1
            });
            let figures = known.entry((gpus, row)).or_default();
            figures.resize(figures.len().max(at + 1), None);
            figures[at] = Some(per_s);
        }
        let mut names = BTreeMap::new();
        let families = (0..table.rows()).map(|row| {
            let (model, batch) = family_and_batch(table.name(row));
            let next = names.len() as u32;
            (*names.entry(model).or_insert(next), batch)
        });
        let families = families.collect();
        Self { places, families, known }
    }

    fn profile<'a>(&self, row: u32, per_s: &'a [Option<f64>]) -> Profile<'a> {
        let (family, batch) = self.families[row as usize];
        Profile { family: Some(family), batch, per_s }
    }

    /// What others say of a figure; gangs of the same size first, and any if those say nothing.
    fn estimate(&self, (gpus, row): (u32, u32), own: &[Option<f64>], place: usize) -> Option<Unseen> {
        let job = self.profile(row, own);
        let others = |same: bool| -> Vec<Profile<'_>> {
            let others = self.known.iter().filter(|((of, other), _)| *other != row && (!same || *of == gpus));
            others.map(|((_, other), figures)| self.profile(*other, figures)).collect()
        };
        unseen_per_s(&job, &others(true), place).or_else(|| unseen_per_s(&job, &others(false), place))
    }
}

/// All figures of jobs alone: those of the table, and what can be said of the others.
pub fn fill_alone(table: &ThroughputTable) -> Vec<Cell> {
    let grid = Grid::of(table);
    let mut cells = Vec::new();
    for ((gpus, row), figures) in &grid.known {
        for (place, (gpu_type, spread)) in grid.places.iter().enumerate() {
            if *spread && *gpus == 1 {
                continue;
            }
            let figure = match figures.get(place).copied().flatten() {
                Some(0.0) => Figure::DoesNotFit,
                Some(per_s) => Figure::Measured(per_s),
                None => match grid.estimate((*gpus, *row), figures, place) {
                    Some(Unseen { per_s, between, sources }) => {
                        Figure::Estimated { per_s, between: Some(between), sources }
                    }
                    None => Figure::Unknown,
                },
            };
            let (gpu_type, spread) = (gpu_type.clone(), *spread);
            cells.push(Cell { row: *row, gpus: *gpus, beside: None, gpu_type, spread, figure });
        }
    }
    cells
}

/// How well such estimates hold: each measured figure is taken away in turn and estimated from the others. For each the part
/// by which the estimate is off, as far as there is one.
pub fn left_out(table: &ThroughputTable, gpus: Option<u32>) -> Vec<f64> {
    let grid = Grid::of(table);
    let mut off = Vec::new();
    for ((of, row), figures) in grid.known.iter().filter(|((of, _), _)| gpus.is_none_or(|gpus| gpus == *of)) {
        for (place, figure) in figures.iter().enumerate() {
            let Some(truth) = figure.filter(|per_s| *per_s > 0.0) else { continue };
            let mut without = figures.clone();
            without[place] = None;
            if let Some(found) = grid.estimate((*of, *row), &without, place) {
                off.push((found.per_s / truth - 1.0).abs());
            }
        }
    }
    off
}

/// All figures of pairs on GPUs of some types. Jobs of which all pairs are known are references; one that was measured beside
/// some of them goes beside all as the reference does that it is most like. How fast it is alone must be known. Nothing is
/// said where there are no two references.
pub fn fill_pairs(table: &ThroughputTable, gpus: u32, gpu_types: &[String], seed: Seed) -> Vec<Cell> {
    let alone: Vec<Vec<Option<f64>>> = (0..table.rows())
        .map(|row| {
            let known = |gpu_type: &String| table.per_s(row, gpu_type, gpus, super::Locality::Node);
            gpu_types.iter().map(known).collect()
        })
        .collect();
    let pair = |row: u32, other: u32, kind: usize| table.pair_per_s(row, other, &gpu_types[kind], gpus);
    let relative = |row: u32, other: u32, kind: usize| -> Option<f64> {
        match (pair(row, other, kind)?, alone[row as usize][kind]) {
            (0.0, _) | (_, None) => Some(0.0),
            (per_s, Some(alone)) => Some((per_s / alone).min(1.0)),
        }
    };
    let rows: Vec<u32> =
        (0..table.rows()).filter(|row| alone[*row as usize].iter().any(Option::is_some)).collect();
    let chosen =
        references(&rows, |row, other| (0..gpu_types.len()).all(|kind| pair(row, other, kind).is_some()));
    if chosen.len() < 2 {
        return Vec::new();
    }
    let known = References::new(chosen.len(), gpu_types.len(), |row, other, kind| {
        relative(chosen[row], chosen[other], kind).unwrap_or(0.0)
    });
    let like: BTreeMap<u32, usize> = rows
        .iter()
        .filter_map(|row| {
            if let Some(own) = chosen.iter().position(|of| of == row) {
                return Some((*row, own));
            }
            let kinds = (0..gpu_types.len()).flat_map(|kind| chosen.iter().map(move |other| (kind, *other)));
            let measured: Vec<Option<f64>> = kinds.map(|(kind, other)| relative(*row, other, kind)).collect();
            // Of a job that was measured beside nobody, nothing is said.
            measured
                .iter()
                .any(Option::is_some)
                .then(|| (*row, known.like(&measured, seed.numbered(u64::from(*row)))))
        })
        .collect();
    let mut cells = Vec::new();
    for (row, own) in &like {
        for (other, their) in &like {
            for (kind, gpu_type) in gpu_types.iter().enumerate() {
                let figure = match (pair(*row, *other, kind), alone[*row as usize][kind]) {
                    (Some(0.0), _) => Figure::DoesNotFit,
                    (Some(per_s), _) => Figure::Measured(per_s),
                    (None, None) => Figure::Unknown,
                    (None, Some(alone)) => {
                        let per_s = known.beside(*own, *their, kind) * alone;
                        Figure::Estimated { per_s, between: None, sources: 1 }
                    }
                };
                let (beside, gpu_type) = (Some(*other), gpu_type.clone());
                cells.push(Cell { row: *row, gpus, beside, gpu_type, spread: false, figure });
            }
        }
    }
    cells
}

/// Rows of which each is known beside all: those with most gaps are left out one by one.
fn references(rows: &[u32], is_known: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let mut chosen = rows.to_vec();
    loop {
        let gaps = |row: &u32| {
            chosen.iter().filter(|other| !is_known(*row, **other) || !is_known(**other, *row)).count()
        };
        let worst = (0..chosen.len()).max_by_key(|i| (gaps(&chosen[*i]), *i));
        match worst {
            Some(i) if gaps(&chosen[i]) > 0 => {
                chosen.remove(i);
            }
            _ => return chosen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Locality, gavel_throughputs, parse_throughputs};
    use super::*;

    #[test]
    fn names_say_family_and_batch() {
        assert_eq!(family_and_batch("ResNet-18 (batch size 64)"), ("ResNet-18", Some(64.0)));
        assert_eq!(family_and_batch("A3C"), ("A3C", None));
        assert_eq!(family_and_batch("x (batch size many)"), ("x", None));
    }

    #[test]
    fn gaps_are_filled_and_what_is_known_stays() {
        let text = "model,gpus,a,b,b_unconsolidated\nx,1,4,2,\ny,1,8,4,\nz,1,6,,\nz,2,10,0,\nw,1,,,\n";
        let table = parse_throughputs("t.csv", text).unwrap();
        let cells = fill_alone(&table);
        let of = |model: &str, gpus: u32, gpu_type: &str| {
            let row = table.row(model).unwrap();
            let is = |cell: &&Cell| {
                (cell.row, cell.gpus, cell.gpu_type.as_str(), cell.spread) == (row, gpus, gpu_type, false)
            };
            cells.iter().find(is).map(|cell| cell.figure)
        };
        assert_eq!(of("x", 1, "a"), Some(Figure::Measured(4.0)));
        let Some(Figure::Estimated { per_s, between: Some((low, high)), sources }) = of("z", 1, "b") else {
            panic!("{cells:?}")
        };
        assert!((per_s - 3.0).abs() < 1e-9 && sources == 2 && (high - low).abs() < 1e-9);
        assert_eq!(of("z", 2, "b"), Some(Figure::DoesNotFit), "what does not fit is not estimated");
        assert_eq!(of("w", 1, "a"), None, "a row without any figure says nothing of itself");
        assert!(cells.iter().all(|cell| !(cell.spread && cell.gpus == 1)));
    }

    #[test]
    fn what_is_left_out_of_gavels_table_is_found_again_within_a_quarter() {
        let mut off = left_out(&gavel_throughputs(), Some(1));
        off.sort_by(f64::total_cmp);
        assert_eq!(off.len(), 78);
        let median = off[off.len() / 2];
        assert!(median <= 0.25, "median {median}");
    }

    #[test]
    fn pairs_follow_the_reference_that_is_most_alike() {
        let whole = gavel_throughputs();
        let types: Vec<String> = ["k80", "p100", "v100"].map(str::to_owned).to_vec();
        // One job keeps a quarter of its pairs.
        let hidden = whole.row("LM (batch size 20)").unwrap();
        let mut partial = ThroughputTable::default();
        for (row, gpu_type, gpus, spread, per_s) in whole.figures() {
            let of = partial.intern(whole.name(row));
            partial.insert(of, gpu_type, gpus, spread, per_s);
        }
        for (row, other) in (0..26).flat_map(|row| (0..26).map(move |other| (row, other))) {
            for gpu_type in &types {
                if (row != hidden && other != hidden) || (row == hidden && other % 4 == 0) {
                    let (a, b) =
                        (partial.row(whole.name(row)).unwrap(), partial.row(whole.name(other)).unwrap());
                    partial.insert_pair(
                        a,
                        b,
                        gpu_type,
                        1,
                        whole.pair_per_s(row, other, gpu_type, 1).unwrap(),
                    );
                }
            }
        }
        let cells = fill_pairs(&partial, 1, &types, Seed(0));
        assert_eq!(cells.len(), 26 * 26 * 3);
        let row = partial.row("LM (batch size 20)").unwrap();
        let mut off: Vec<f64> = Vec::new();
        for cell in cells.iter().filter(|cell| cell.row == row) {
            let other = whole.row(partial.name(cell.beside.unwrap())).unwrap();
            let truth = whole.pair_per_s(hidden, other, &cell.gpu_type, 1).unwrap();
            let alone = whole.per_s(hidden, &cell.gpu_type, 1, Locality::Node).unwrap();
            off.push((cell.figure.per_s().unwrap() - truth).abs() / alone);
        }
        off.sort_by(f64::total_cmp);
        assert!(off[off.len() / 2] < 0.15, "median {}", off[off.len() / 2]);
        assert!(fill_pairs(&partial, 2, &types, Seed(0)).is_empty(), "nothing is known of gangs");
    }
}
