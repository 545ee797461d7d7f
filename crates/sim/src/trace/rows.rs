//! Rows of comma-separated values below a header. A reader declares its columns once, with [`columns!`], and says
//! what one row means; finding the columns, splitting, counting and naming what is wrong is the same for all.

use trainyard_sched::model::{Span, Time};

use super::error::TraceError;
use super::fields::{Header, Problem, Record, Remark, Splitter};
use super::import::{Draft, Import};
use super::lines::{Head, Lines};
use super::{Column, Repairs, header_has};

/// Declares the columns of a format: `Key` is their positions, and `TABLE` their names and meanings. Those under
/// `need` must be in the header, those under `may` need not, and those under `unread` are known and passed over.
macro_rules! columns {
    (need { $($need:ident $need_name:literal $need_meaning:literal;)* }
     may { $($may:ident $may_name:literal $may_meaning:literal;)* }
     unread { $($name:literal $meaning:literal;)* }) => {
        /// Positions in the columns of [`TABLE`].
        #[derive(Clone, Copy)]
        enum Key { $($need,)* $($may,)* }

        impl From<Key> for usize {
            fn from(key: Key) -> Self {
                key as Self
            }
        }

        /// The columns.
        const TABLE: $crate::trace::rows::Table = $crate::trace::rows::Table {
            columns: &[
                $($crate::trace::Column { name: $need_name, meaning: $need_meaning },)*
                $($crate::trace::Column { name: $may_name, meaning: $may_meaning },)*
                $($crate::trace::Column { name: $name, meaning: concat!($meaning, "; not read") },)*
            ],
            needed: &[$($need_name),*],
        };
    };
}
pub(crate) use columns;

/// The columns of a format.
pub(crate) struct Table {
    /// All that are known; those that must be there come first.
    pub(crate) columns: &'static [Column],
    /// Those that must be there.
    pub(crate) needed: &'static [&'static str],
}

/// One row, whose fields are asked for by the key of their column.
pub(crate) struct Row<'a, 'h> {
    record: Record<'a>,
    columns: &'static [Column],
    places: &'h [Option<usize>],
    /// What is mended instead of being left out.
    pub(crate) repairs: Repairs,
}

impl Table {
    /// Whether a file that begins with this line has all columns that must be there.
    pub(crate) fn fits(&self, head: &Head<'_>) -> bool {
        header_has(head.line, self.needed)
    }

    /// Reads the header and then every row. A column that nobody knows is said and passed over.
    pub(crate) fn read(
        &'static self,
        lines: &mut Lines<'_>,
        import: &mut Import<'_>,
        draft: impl for<'a> FnMut(&Row<'a, '_>) -> Result<Draft<'a>, Problem>,
    ) -> Result<(), TraceError> {
        let header = Header::read(lines)?;
        for column in self.needed {
            header.need(lines, column)?;
        }
        let is_known = |name: &str| self.columns.iter().any(|column| column.name == name);
        for name in header.names().iter().filter(|name| !is_known(name)) {
            import.note(&format!("the column `{name}` is unknown and was not read"));
        }
        let places: Vec<Option<usize>> = self.columns.iter().map(|column| header.find(column.name)).collect();
        self.read_rows(lines, import, &places, header.len(), draft)
    }

    /// Reads rows that no header stands above; their fields are in the order of the columns.
    pub(crate) fn read_bare(
        &'static self,
        lines: &mut Lines<'_>,
        import: &mut Import<'_>,
        draft: impl for<'a> FnMut(&Row<'a, '_>) -> Result<Draft<'a>, Problem>,
    ) -> Result<(), TraceError> {
        let places: Vec<Option<usize>> = (0..self.columns.len()).map(Some).collect();
        self.read_rows(lines, import, &places, places.len(), draft)
    }

    fn read_rows(
        &'static self,
        lines: &mut Lines<'_>,
        import: &mut Import<'_>,
        places: &[Option<usize>],
        width: usize,
        mut draft: impl for<'a> FnMut(&Row<'a, '_>) -> Result<Draft<'a>, Problem>,
    ) -> Result<(), TraceError> {
        let (columns, repairs) = (self.columns, import.options.repairs);
        let mut splitter = Splitter::default();
        while let Some(line) = lines.next()? {
            let row = line.text().and_then(|text| splitter.split(text, b','));
            let mut read = row.and_then(|record| {
                record.expect(width)?;
                draft(&Row { record, columns, places, repairs })
            });
            if let Ok(draft) = &mut read
                && !draft.gpu_types.is_empty()
            {
                draft.wanted.gpu_types = import.gpu_types(line.number, draft.gpu_types)?;
            }
            import.row(line.number, line.bytes, read);
        }
        Ok(())
    }
}

impl<'a> Row<'a, '_> {
    /// The text of a field; empty where the header does not have the column.
    pub(crate) fn text(&self, key: impl Into<usize>) -> &'a str {
        self.places[key.into()].map_or("", |place| self.record.get(place))
    }

    /// Name and text of a field, for what is said about it.
    fn field(&self, key: impl Into<usize>) -> (&'static str, &'a str) {
        let index = key.into();
        let text = self.text(index);
        (self.columns[index].name, if text.is_empty() { "(empty)" } else { text })
    }

    /// A value that must be there.
    pub(crate) fn read<T>(
        &self,
        key: impl Into<usize>,
        read: impl FnOnce(&str, &str) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let index = key.into();
        read(self.columns[index].name, self.text(index))
    }

    /// A value, if something is written there.
    pub(crate) fn maybe<T>(
        &self,
        key: impl Into<usize>,
        read: impl FnOnce(&str, &str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let index = key.into();
        if self.text(index).is_empty() { Ok(None) } else { self.read(index, read).map(Some) }
    }

    /// A text that must not be empty.
    pub(crate) fn filled(&self, key: impl Into<usize>) -> Result<&'a str, Problem> {
        let index = key.into();
        let (name, text) = (self.columns[index].name, self.text(index));
        if text.is_empty() { Err(self.problem(index, format!("{name} is missing"))) } else { Ok(text) }
    }

    /// A run time above zero in the unit that `read` reads; one that is not may be mended.
    pub(crate) fn duration(
        &self,
        key: impl Into<usize>,
        read: impl Fn(&str, &str) -> Result<Span, Problem>,
        remarks: &mut Vec<Remark>,
    ) -> Result<Span, Problem> {
        self.read(key, |name, text| self.repairs.duration(name, text, &read, remarks))
    }

    /// The run time from a start to an end, which stands in the field; one that is not above zero may be mended.
    pub(crate) fn length(
        &self,
        start: Time,
        (end, key): (Time, impl Into<usize>),
        remarks: &mut Vec<Remark>,
    ) -> Result<Span, Problem> {
        self.repairs.length(start, end, self.field(key), remarks)
    }

    /// Refuses or mends a job that started before it was submitted; the start stands in the field.
    pub(crate) fn wait(
        &self,
        submitted: Time,
        (start, key): (Time, impl Into<usize>),
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Problem> {
        self.repairs.wait(submitted, start, self.field(key), remarks)
    }

    /// Something that is wrong with a field.
    pub(crate) fn problem(&self, key: impl Into<usize>, what: impl Into<String>) -> Problem {
        let (name, text) = self.field(key);
        Problem::new(what, name, text)
    }

    /// Something that had to be assumed because of a field.
    pub(crate) fn assumed(&self, key: impl Into<usize>, what: impl Into<String>) -> Remark {
        let (name, text) = self.field(key);
        Remark::assumed(what, name, text)
    }
}
