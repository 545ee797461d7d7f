//! Rows of comma-separated values below a header. A reader declares its columns once, with [`columns!`], and says
//! what one row means; finding the columns, splitting, counting and naming what is wrong is the same for all.

use super::Column;
use super::error::TraceError;
use super::fields::{Header, Problem, Record, Splitter};
use super::import::{Draft, Import};
use super::lines::Lines;

/// Declares the columns of a format: `Key` is their positions, `COLUMNS` their names and meanings. Those under
/// `need` must be in the header, those under `may` need not, and those under `unread` are known and passed over.
macro_rules! columns {
    (need { $($need:ident $need_name:literal $need_meaning:literal;)* }
     may { $($may:ident $may_name:literal $may_meaning:literal;)* }
     unread { $($name:literal $meaning:literal;)* }) => {
        /// Positions in [`COLUMNS`].
        #[derive(Clone, Copy)]
        enum Key { $($need,)* $($may,)* }

        impl From<Key> for usize {
            fn from(key: Key) -> Self {
                key as Self
            }
        }

        /// The columns; those that must be there come first.
        const COLUMNS: &[$crate::trace::Column] = &[
            $($crate::trace::Column { name: $need_name, meaning: $need_meaning },)*
            $($crate::trace::Column { name: $may_name, meaning: $may_meaning },)*
            $($crate::trace::Column { name: $name, meaning: concat!($meaning, "; not read") },)*
        ];

        /// The columns that must be in the header.
        const NEEDED: &[&str] = &[$($need_name),*];
    };
}
pub(crate) use columns;

/// One row, whose fields are asked for by the key of their column.
pub(crate) struct Row<'a, 'h> {
    record: Record<'a>,
    columns: &'static [Column],
    places: &'h [Option<usize>],
}

impl<'a> Row<'a, '_> {
    /// The text of a field; empty where the header does not have the column.
    pub(crate) fn text(&self, key: impl Into<usize>) -> &'a str {
        self.places[key.into()].map_or("", |place| self.record.get(place))
    }

    /// A value that must be there.
    pub(crate) fn read<T>(
        &self,
        key: impl Into<usize>,
        read: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let index = key.into();
        read(self.columns[index].name, self.text(index))
    }

    /// A value, if something is written there.
    pub(crate) fn maybe<T>(
        &self,
        key: impl Into<usize>,
        read: impl Fn(&str, &str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let index = key.into();
        if self.text(index).is_empty() { Ok(None) } else { self.read(index, read).map(Some) }
    }

    /// A text that must not be empty.
    pub(crate) fn filled(&self, key: impl Into<usize>) -> Result<&'a str, Problem> {
        let index = key.into();
        match self.text(index) {
            "" => {
                let name = self.columns[index].name;
                Err(Problem::new(format!("{name} is missing"), name, "(empty)"))
            }
            text => Ok(text),
        }
    }

    /// Something that is odd about a field, with the field's name and text as its place.
    pub(crate) fn problem(&self, key: impl Into<usize>, what: impl Into<String>) -> Problem {
        let index = key.into();
        let text = self.text(index);
        Problem::new(what, self.columns[index].name, if text.is_empty() { "(empty)" } else { text })
    }
}

/// Reads the header and then every row. A column that nobody knows is said and passed over.
pub(crate) fn read_rows(
    lines: &mut Lines<'_>,
    import: &mut Import<'_>,
    columns: &'static [Column],
    needed: &'static [&'static str],
    draft: impl for<'a> FnMut(&Row<'a, '_>) -> Result<Draft<'a>, Problem>,
) -> Result<(), TraceError> {
    let header = Header::read(lines)?;
    for column in needed {
        header.need(lines, column)?;
    }
    for name in header.names().iter().filter(|name| columns.iter().all(|column| column.name != **name)) {
        import.note(&format!("the column `{name}` is unknown and was not read"));
    }
    let places: Vec<Option<usize>> = columns.iter().map(|column| header.find(column.name)).collect();
    let mut draft = draft;
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next()? {
        let row = line.text().and_then(|text| splitter.split(text, b','));
        let read = row.and_then(|record| {
            record.expect(header.len())?;
            draft(&Row { record, columns, places: &places })
        });
        import.row(line.number, line.bytes, read);
    }
    Ok(())
}
