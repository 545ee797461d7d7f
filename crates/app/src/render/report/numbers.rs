//! Tables of numbers, one row for each thing that is compared. The best of a column is marked with a sign and a word,
//! never by colour alone; with scripts a column can be sorted by.

use maud::{Markup, html};

use super::figure::caption;
use super::swatch;

/// Names with more characters are written in several lines.
const LONG_NAME: usize = 40;

/// A table.
pub(crate) struct Numbers {
    /// What it holds, as its caption says.
    pub(crate) caption: String,
    /// What the rows are, such as `policy`.
    pub(crate) of: &'static str,
    /// Its columns, without that of the names.
    pub(crate) columns: Vec<Column>,
    /// Its rows.
    pub(crate) rows: Vec<Row>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Its header.
    pub(crate) title: String,
    /// What it means, in a few words.
    pub(crate) meaning: String,
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What it is about.
    pub(crate) name: String,
    /// The series that it is in charts, if it is one.
    pub(crate) series: Option<usize>,
    /// A word of warning.
    pub(crate) tag: Option<&'static str>,
    /// Its cells, one for each column.
    pub(crate) cells: Vec<Cell>,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// What is written.
    pub(crate) text: String,
    /// What rows are sorted by; rows without it come last.
    pub(crate) value: Option<f64>,
    /// Whether it is the best of its column.
    pub(crate) best: bool,
}

impl Numbers {
    /// The table.
    pub(crate) fn draw(&self) -> Markup {
        // Where no cell has anything to sort by, rows stay as they are.
        let has_order = self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.value.is_some());
        let any_best = self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.best);
        html! {
            div.scroll tabindex="0" role="region" aria-label=(self.caption) {
                table.numbers data-sortable[has_order && self.rows.len() > 2] {
                    (caption(&self.caption))
                    thead { tr {
                        th scope="col" { (self.of) }
                        @for column in &self.columns { th.num scope="col" title=(column.meaning) { (column.title) } }
                    } }
                    tbody { @for row in &self.rows { (self.draw_row(row)) } }
                }
            }
            @if any_best { p.note { span.star aria-hidden="true" { "★" } " best of its column." } }
        }
    }

    fn draw_row(&self, row: &Row) -> Markup {
        html! {
            tr {
                th.long[row.name.chars().count() > LONG_NAME] scope="row" {
                    @if let Some(series) = row.series { (swatch(series)) }
                    (row.name)
                    @if let Some(tag) = row.tag { " " span.tag.dropped { (tag) } }
                }
                @for (i, cell) in row.cells.iter().enumerate() {
                    td.num.best[cell.best] data-value=[cell.value] style=[self.bar(i, cell)] {
                        (cell.text)
                        @if cell.best { span.star title="best of the column" { "★" } span.unseen { " best" } }
                    }
                }
            }
        }
    }

    /// How long the bar under a number is: its part of the largest of the column.
    fn bar(&self, column: usize, cell: &Cell) -> Option<String> {
        let values = self.rows.iter().filter_map(|row| row.cells.get(column)?.value);
        let largest = values.map(f64::abs).fold(0.0, f64::max);
        let value = cell.value.filter(|_| largest > 0.0 && self.rows.len() > 1)?;
        Some(format!("--part:{:.3}", value.abs() / largest))
    }
}
