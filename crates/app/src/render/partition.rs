//! A model that was cut, in small tables.

use std::fmt::Write as _;

use super::words::count;
use super::{Align, plain_table};
use crate::commands::Partitioned;

/// Parts and cuts beyond these are only counted.
const MOST_ROWS: usize = 64;

/// The text of a model that was cut.
pub(crate) fn partition_text(cut: &Partitioned) -> String {
    let whole: f64 = cut.parts.iter().map(|part| part.parameters as f64).sum();
    let percent = |parameters: u64| {
        if whole > 0.0 { format!("{:.1}", 100.0 * parameters as f64 / whole) } else { "-".to_owned() }
    };
    let mut text = format!(
        "{}: {} parts, {} tasks; an iteration takes {:.4} s on an idle node\n\n",
        cut.model,
        count(cut.parts.len() as u64),
        count(cut.tasks as u64),
        cut.iteration_s
    );
    let parts = cut.parts.iter().take(MOST_ROWS).map(|part| {
        let (piece, pieces) = part.piece;
        vec![
            part.part.to_string(),
            part.layers.clone(),
            if pieces > 1 { format!("{piece} of {pieces}") } else { "-".to_owned() },
            count(part.parameters),
            percent(part.parameters),
            format!("{:.4}", part.compute_s),
        ]
    });
    let columns = [
        ("part", Align::Right),
        ("layers", Align::Left),
        ("piece", Align::Right),
        ("parameters", Align::Right),
        ("%", Align::Right),
        ("compute s", Align::Right),
    ];
    let _ = writeln!(text, "{}", plain_table(&columns, parts.collect()));
    more(&mut text, cut.parts.len(), "parts");
    let cuts = cut.cuts.iter().take(MOST_ROWS).map(|flow| {
        let to = flow.to.map_or_else(|| "server".to_owned(), |to| to.to_string());
        vec![flow.from.to_string(), to, format!("{:.3}", flow.bytes as f64 / 1e6)]
    });
    if !cut.cuts.is_empty() {
        let columns = [("from", Align::Right), ("to", Align::Right), ("MB an iteration", Align::Right)];
        let _ = write!(text, "\n{}\n", plain_table(&columns, cuts.collect()));
        more(&mut text, cut.cuts.len(), "cuts");
    }
    let _ = writeln!(text, "\nby {} the largest part is {:.3} times the mean", cut.by, cut.balance);
    text
}

fn more(text: &mut String, all: usize, what: &str) {
    if all > MOST_ROWS {
        let _ = writeln!(text, "and {} more {what}", count((all - MOST_ROWS) as u64));
    }
}
