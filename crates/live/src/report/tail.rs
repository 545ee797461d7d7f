//! Follows a file that a program appends to, that may not be there yet, and that may be cut to nothing or replaced.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Counts, Follower, Form, Report, Unclear};

/// So much is read at one poll, so that a program that writes without end does not hold up others.
const MOST_BYTES_A_POLL: usize = 256 << 10;
const CHUNK_BYTES: usize = 64 << 10;

/// A file and how far it was read.
///
/// That a file began anew is seen by another file of its name, or by a length below what was read. A file that was cut and
/// had grown beyond that length before the next poll looks like one that was appended to.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    follower: Follower,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    read_bytes: u64,
}

impl Tail {
    /// Follows the file from its beginning, in this form. See [`Follower::new`] for `begun_from`.
    pub fn new(path: impl Into<PathBuf>, form: Form, begun_from: f64) -> Self {
        Self { path: path.into(), follower: Follower::new(form, begun_from), open: None }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what was written since, up to a quarter of a megabyte. A file that is not there has nothing new.
    pub fn poll(&mut self) -> std::io::Result<Vec<Report>> {
        self.read(MOST_BYTES_A_POLL)
    }

    /// Reads all that is left, when the program is over, with a last line that no line break ends.
    pub fn finish(&mut self) -> std::io::Result<Vec<Report>> {
        let mut reports = self.read(usize::MAX)?;
        reports.extend(self.follower.finish());
        Ok(reports)
    }

    /// What was met so far.
    pub const fn counts(&self) -> Counts {
        self.follower.counts()
    }

    /// The first line that was not understood.
    pub const fn first_unclear(&self) -> Option<&Unclear> {
        self.follower.first_unclear()
    }

    fn read(&mut self, most_bytes: usize) -> std::io::Result<Vec<Report>> {
        let mut reports = Vec::new();
        let mut left = most_bytes;
        // What was appended before the file was replaced is read first; the new one is looked at once in a poll.
        self.read_open(&mut left, &mut reports)?;
        if left > 0 && self.begins_anew()? {
            self.read_open(&mut left, &mut reports)?;
        }
        Ok(reports)
    }

    /// Opens the file of this name if it is not the one that is open, or is shorter than what was read.
    fn begins_anew(&mut self) -> std::io::Result<bool> {
        let file = match open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let new = file.metadata()?;
        if let Some(open) = &self.open {
            let old = open.file.metadata()?;
            let is_same = (old.dev(), old.ino()) == (new.dev(), new.ino());
            if is_same && new.len() >= open.read_bytes {
                return Ok(false);
            }
            self.follower.start_anew();
        }
        self.open = Some(Open { file, read_bytes: 0 });
        Ok(true)
    }

    fn read_open(&mut self, left: &mut usize, reports: &mut Vec<Report>) -> std::io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut chunk = vec![0; CHUNK_BYTES];
        while *left > 0 {
            let most = chunk.len().min(*left);
            match open.file.read(&mut chunk[..most]) {
                Ok(0) => break,
                Ok(bytes) => {
                    *left -= bytes;
                    open.read_bytes += bytes as u64;
                    reports.extend(self.follower.feed(&chunk[..bytes]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens an ordinary file. A program may put anything in its place, and a pipe or a device must not hold the reader up.
fn open(path: &Path) -> std::io::Result<File> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::new(ErrorKind::InvalidInput, "it is not an ordinary file"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("it opens");
        file.write_all(text.as_bytes()).expect("it is written");
    }

    fn iterations(reports: &[Report]) -> Vec<f64> {
        reports.iter().filter_map(|report| report.iteration).collect()
    }

    #[test]
    fn a_file_is_followed_from_before_it_exists_through_cuts_and_replacements() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress.jsonl");
        let mut tail = Tail::new(&path, Form::JsonLines, 0.0);
        assert!(tail.poll().expect("nothing yet").is_empty());
        append(&path, "{\"step\":1}\n{\"step\":2}\n{\"st");
        assert_eq!(iterations(&tail.poll().expect("it reads")), [1.0, 2.0]);
        append(&path, "ep\":3}\n");
        assert_eq!(iterations(&tail.poll().expect("it reads")), [3.0]);
        assert!(tail.poll().expect("nothing new").is_empty());

        // Replaced, after something was appended to the old one.
        append(&path, "{\"step\":4}\n{\"half");
        fs::rename(&path, folder.path().join("old")).expect("it moves");
        assert_eq!(iterations(&tail.poll().expect("the old one is still read")), [4.0]);
        append(&path, "{\"step\":1}\n");
        assert_eq!(iterations(&tail.poll().expect("it reads")), [1.0]);
        assert_eq!(tail.counts().restarts, 1);

        // Cut to nothing and written again, shorter.
        fs::write(&path, "{\"a\":1}\n").expect("it is cut");
        assert!(tail.poll().expect("it reads").is_empty());
        append(&path, "{\"step\":9}");
        assert!(tail.poll().expect("the line is not whole").is_empty());
        assert_eq!(iterations(&tail.finish().expect("it ends")), [9.0]);
        let counts = tail.counts();
        assert_eq!((counts.restarts, counts.reports, counts.unclear, counts.silent), (2, 6, 0, 1));
        assert_eq!(counts.resets, 1);
    }

    #[test]
    fn much_is_read_in_parts_and_nothing_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let line = format!("{{\"step\":1,\"note\":\"{}\"}}\n", "x".repeat(60_000));
        append(&path, &line.repeat(150));
        let mut tail = Tail::new(&path, Form::JsonLines, 0.0);
        let first = tail.poll().expect("it reads").len();
        assert!(first < 10 && first > 2, "{first}");
        let rest = tail.finish().expect("it reads").len();
        assert_eq!(first + rest, 150);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_silence() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        for path in [folder.path(), &pipe, Path::new("/dev/zero")] {
            let mut tail = Tail::new(path, Form::JsonLines, 0.0);
            assert!(tail.poll().is_err(), "{} is no file of lines", path.display());
        }
    }
}
