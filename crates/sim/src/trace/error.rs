//! Why a trace cannot be read at all. Rows that are merely bad are dropped and counted instead; see
//! [`crate::workload::ImportReport`].

use std::path::PathBuf;

use crate::strangers::Stranger;

/// Why a trace gives no workload.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is not there or may not be read.
    #[error("cannot open {}: check the path and its permissions", .path.display())]
    Open {
        /// The path as it was given.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Reading broke off, for example because a gzip file is cut short.
    #[error(
        "{file}:{line}: reading broke off after this line, and what follows is lost; a packed file can be tested with `gzip -t` or `zstd -t`"
    )]
    Read {
        /// The file's name.
        file: String,
        /// The last line that was read.
        line: u64,
        /// The cause.
        source: std::io::Error,
    },
    /// An archive that cannot be read.
    #[error("{file}: the archive cannot be read; test it with `tar -tf` or `unzip -t`")]
    Archive {
        /// The file's name.
        file: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A zip archive that does not come from a file.
    #[error(
        "{file}: a zip archive cannot be read from a pipe, because its list of members is at its end; give the path of the file"
    )]
    ZipFromPipe {
        /// What the stream is called.
        file: String,
    },
    /// A member was named, and the file has none.
    #[error("{file}: there is no member `{member}`, because this is no archive; leave --member out")]
    NoArchive {
        /// The file's name.
        file: String,
        /// What was asked for.
        member: String,
    },
    /// A member was named that is not there.
    #[error("{file}: the archive has no member `{member}`; {hint}")]
    NoSuchMember {
        /// The file's name.
        file: String,
        /// What was asked for.
        member: String,
        /// The nearest member, or some of them.
        hint: String,
    },
    /// No member of an archive holds jobs.
    #[error(
        "{file}: no member of the archive begins like a known trace; it has {members}. Name one with --member, and its format with --format"
    )]
    NoJobList {
        /// The file's name.
        file: String,
        /// Some of its members.
        members: String,
    },
    /// Several members of an archive hold jobs.
    #[error("{file}: several members of the archive hold jobs: {members}; choose one with --member")]
    SeveralMembers {
        /// The file's name.
        file: String,
        /// The members.
        members: String,
    },
    /// A JSON document that ends inside its list.
    #[error("{file}:{line}: the JSON document ends here, inside its list; the file is cut short")]
    CutShort {
        /// The file's name.
        file: String,
        /// The last line.
        line: u64,
    },
    /// Something else than the JSON that the format has.
    #[error(
        "{file}:{line}: `{found}` stands where `{wanted}` should be; the file is not the JSON of this format"
    )]
    NotJson {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// What stands there.
        found: char,
        /// What should.
        wanted: char,
    },
    /// An element of a JSON list that is too long to be a job.
    #[error("{file}:{line}: an object that begins here is longer than {limit_bytes} bytes")]
    LongElement {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The limit.
        limit_bytes: usize,
    },
    /// A time zone that does not exist.
    #[error(
        "there is no time zone `{name}`; {hint} (names are those of the IANA data base, such as Europe/Berlin)"
    )]
    UnknownZone {
        /// What was asked for.
        name: String,
        /// The nearest name, or some of them.
        hint: String,
    },
    /// There is not a single line with text.
    #[error("{file}: 0 jobs: the file is empty")]
    Empty {
        /// The file's name.
        file: String,
    },
    /// There is a header and nothing below it.
    #[error("{file}: 0 jobs: there is a {format} header, but no row follows it")]
    HeaderOnly {
        /// The file's name.
        file: String,
        /// The format that was recognised.
        format: &'static str,
    },
    /// No row could be used, or the window leaves none.
    #[error("{file}: 0 jobs: none of the {rows} rows can be used; the first reason is: {first}")]
    NothingKept {
        /// The file's name.
        file: String,
        /// How many rows there are.
        rows: u64,
        /// Why the first of them was left out.
        first: String,
    },
    /// The first line belongs to no known format.
    #[error(
        "{file}:{line}: `{start}` begins no known trace format; known are {known} (the native one is described in docs/trace-format.md)"
    )]
    UnknownFormat {
        /// The file's name.
        file: String,
        /// The first line with text.
        line: u64,
        /// Its beginning.
        start: String,
        /// The names of the formats.
        known: String,
    },
    /// The file is known and holds something else.
    #[error("{file} is no list of jobs: {stranger}")]
    NotJobs {
        /// The file's name.
        file: String,
        /// What it is.
        stranger: Stranger,
    },
    /// A kind of file that is no text, and is known.
    #[error("{file} is {what}, and no list of jobs")]
    Binary {
        /// The file's name.
        file: String,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// A format was asked for that does not exist.
    #[error("there is no trace format `{name}`; {hint}")]
    NoSuchFormat {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// A line that is too long to be a row.
    #[error("{file}:{line}: the line is longer than {limit_bytes} bytes; a trace has one short row a line")]
    LongLine {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The limit.
        limit_bytes: usize,
    },
    /// A header that is not text.
    #[error("{file}:{line}: the header is not UTF-8 text; convert the file with `iconv -t utf-8`")]
    HeaderNotText {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
    },
    /// A column that the format needs is not in the header.
    #[error("{file}:{line}: the column `{column}` is missing; the header has {found}")]
    MissingColumn {
        /// The file's name.
        file: String,
        /// The header's line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The columns that are there.
        found: String,
    },
    /// A column or key that the format does not have.
    #[error("{file}:{line}: unknown column `{column}`; {hint}")]
    UnknownColumn {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The column.
        column: String,
        /// The nearest column, or all of them.
        hint: String,
    },
    /// One column twice.
    #[error("{file}:{line}: the column `{column}` is there twice; rename or remove one")]
    RepeatedColumn {
        /// The file's name.
        file: String,
        /// The header's line.
        line: u64,
        /// The column.
        column: String,
    },
    /// Two different rows for one job.
    #[error(
        "{file}:{second}: job `{job}` is already at line {first}, with other values; give each job its own id, or say --on-duplicate suffix or first"
    )]
    DuplicateJob {
        /// The file's name.
        file: String,
        /// The line of the first row.
        first: u64,
        /// The line of the second row.
        second: u64,
        /// The id.
        job: String,
    },
    /// A GPU type that the cluster does not have.
    #[error(
        "{file}:{line}: gpu_types `{value}`: the cluster has no `{gpu_type}`, and no --map renames it; {hint}"
    )]
    UnknownGpuType {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The whole field.
        value: String,
        /// The unknown type.
        gpu_type: String,
        /// The nearest type, or all of them.
        hint: String,
    },
    /// More GPU types than a set can hold.
    #[error("{file}:{line}: the trace names more than {limit} GPU types")]
    TooManyGpuTypes {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// The limit.
        limit: usize,
    },
    /// A spread that is no number from 0 to 10.
    #[error("the spread of the declared durations is {spread}; give a number from 0 to 10")]
    BadSpread {
        /// What was given.
        spread: f64,
    },
}

/// A value as a message shows it: cut to `most` characters, and without any that would spoil a terminal.
pub(crate) fn shortened(value: &str, most: usize) -> String {
    let shown = value.chars().take(most).map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let rest = if value.chars().nth(most).is_some() { "..." } else { "" };
    shown.chain(rest.chars()).collect()
}

/// The most characters of a list of names in a message.
pub(crate) const LONGEST_LIST: usize = 600;

/// The longest word that is compared with what is known; comparing takes time and memory by its length.
const LONGEST_WORD_BYTES: usize = 64;

/// A sentence that names the nearest of `known` to `word`, or all of them.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let short = |name: &&str| word.len().max(name.len()) <= LONGEST_WORD_BYTES;
    let best = known
        .clone()
        .filter(short)
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .min()
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3);
    match best {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None => format!("known are {}", shortened(&known.collect::<Vec<_>>().join(", "), LONGEST_LIST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, read_from};

    #[test]
    fn words_and_headers_of_a_megabyte_are_told_in_few_words() {
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, ["job_id"].into_iter()), "known are job_id");
        assert_eq!(nearest("jobid", ["job_id"].into_iter()), "did you mean `job_id`?");
        let names: Vec<String> = (0..100_000).map(|i| format!("c{i}")).collect();
        for text in [
            format!("job_id,submit_s,{}\n", names.join(",")),
            format!("job_id,submit_s,{}\n", &long[..900_000]),
        ] {
            let told = read_from("own.csv", text.as_bytes(), &Options::default()).unwrap_err().to_string();
            assert!(told.starts_with("own.csv:1: unknown column") && told.len() < 1000, "{}", told.len());
        }
        assert_eq!(shortened("a\u{1b}b", 60), "a\u{fffd}b");
        assert_eq!(shortened("abc", 2), "ab...");
    }
}
