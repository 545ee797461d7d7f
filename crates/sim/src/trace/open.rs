//! What a trace is packed in: gzip, zstd, tar and zip, recognised by content and unpacked as a stream. Knows nothing
//! of lines and columns.
//!
//! Of an archive one member is read: the one that was named, or the only one that holds a known job list. A zip
//! archive has its list of members at its end, so it needs a file and not a pipe.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::error::{LONGEST_LIST, TraceError, nearest, shortened};

/// How much of a file its format is recognised by.
pub(crate) const HEAD_BYTES: usize = 1 << 16;
const BUFFER_BYTES: usize = 1 << 16;
/// A file may be packed in another packed file, but nobody packs more often.
const MOST_LAYERS: usize = 3;
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The first entry of a zip archive, or the end of an empty one.
const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Where a tar archive says that it is one.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// Members that an error message names.
const MOST_NAMED: usize = 12;

/// A stream of bytes.
pub(crate) type Bytes<'a> = Box<dyn Read + 'a>;

/// A stream whose beginning has been looked at and is still to be read.
pub(crate) struct Peeked<'a> {
    head: Vec<u8>,
    read: usize,
    /// Why the head is no longer; comes up once the head has been read.
    broken: Option<io::Error>,
    rest: Bytes<'a>,
}

impl<'a> Peeked<'a> {
    /// Looks at the first `limit` bytes.
    pub(crate) fn new(mut rest: Bytes<'a>, limit: usize) -> Self {
        let mut head = Vec::new();
        let broken = rest.by_ref().take(limit as u64).read_to_end(&mut head).err();
        Self { head, read: 0, broken, rest }
    }

    /// The beginning.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }
}

impl Read for Peeked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = &self.head[self.read..];
        if !left.is_empty() {
            let count = left.len().min(buffer.len());
            buffer[..count].copy_from_slice(&left[..count]);
            self.read += count;
            return Ok(count);
        }
        match self.broken.take() {
            Some(error) => Err(error),
            None => self.rest.read(buffer),
        }
    }
}

/// Asks for little at a time: of a request that fails halfway a decoder gives out nothing, and the rows before
/// the fault shall be counted.
struct Sips<R> {
    inner: R,
    bytes: usize,
}

impl<R: Read> Read for Sips<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = if self.bytes < HEAD_BYTES { 256 } else { 8192 };
        let most = buffer.len().min(most);
        let count = self.inner.read(&mut buffer[..most])?;
        self.bytes = self.bytes.saturating_add(count);
        Ok(count)
    }
}

/// The stream without gzip and zstd around it.
pub(crate) fn unpacked<'a>(source: impl Read + 'a) -> Bytes<'a> {
    let mut bytes: Bytes<'a> = Box::new(source);
    for _ in 0..MOST_LAYERS {
        let peeked = Peeked::new(bytes, ZSTD.len());
        let (is_gzip, is_zstd) = (peeked.head().starts_with(GZIP), peeked.head().starts_with(ZSTD));
        let packed = BufReader::with_capacity(BUFFER_BYTES, peeked);
        if is_gzip {
            bytes = Box::new(Sips { inner: MultiGzDecoder::new(packed), bytes: 0 });
        } else if is_zstd {
            match zstd::Decoder::with_buffer(packed) {
                Ok(decoder) => bytes = Box::new(Sips { inner: decoder, bytes: 0 }),
                Err(error) => return Box::new(Broken(Some(error))),
            }
        } else {
            return Box::new(packed);
        }
    }
    bytes
}

/// A stream that gives an error and nothing else.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Opens a file, and tells a folder from one.
pub(crate) fn open_file(path: &Path) -> Result<File, TraceError> {
    File::open(path)
        .and_then(|file| {
            // A directory opens like a file and only fails when it is read.
            let is_directory = file.metadata()?.is_dir();
            if is_directory { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
        })
        .map_err(|source| TraceError::Open { path: path.to_owned(), source })
}

/// The last part of a path, which is what errors and findings call a file.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Which member of an archive is wanted, and what a job list looks like.
pub(crate) struct Wish<'w> {
    /// The name that was given.
    pub(crate) member: Option<&'w str>,
    /// Whether a file that begins like this holds jobs.
    pub(crate) is_known: &'w dyn Fn(&[u8]) -> bool,
}

/// Hands the text of a file to `read`, with what it is called.
pub(crate) fn with_file<T>(
    path: &Path,
    wish: &Wish<'_>,
    read: impl FnMut(&str, Bytes<'_>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let name = file_name(path);
    let mut start = Vec::new();
    let file = open_file(path)?;
    let looked = file.take(ZIP[0].len() as u64).read_to_end(&mut start);
    if looked.is_ok() && ZIP.contains(&start.as_slice()) {
        return with_zip(&name, open_file(path)?, wish, read);
    }
    with_stream(&name, open_file(path)?, wish, read)
}

/// Hands the text of a stream to `read`, with what it is called.
pub(crate) fn with_stream<T>(
    name: &str,
    source: impl Read,
    wish: &Wish<'_>,
    mut read: impl FnMut(&str, Bytes<'_>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let text = Peeked::new(unpacked(source), TAR.0 + TAR.1.len());
    let head = text.head();
    if ZIP.iter().any(|magic| head.starts_with(magic)) {
        return Err(TraceError::ZipFromPipe { file: name.to_owned() });
    }
    if head.get(TAR.0..).is_some_and(|end| end == TAR.1) {
        return with_tar(name, Box::new(text), wish, read);
    }
    match wish.member {
        None => read(name, Box::new(text)),
        Some(member) => Err(TraceError::NoArchive { file: name.to_owned(), member: member.to_owned() }),
    }
}

fn with_tar<T>(
    name: &str,
    text: Bytes<'_>,
    wish: &Wish<'_>,
    read: impl FnMut(&str, Bytes<'_>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let broken = |source| TraceError::Archive { file: name.to_owned(), source };
    let mut archive = tar::Archive::new(text);
    let mut choice = Choice::new(name, wish, read);
    for entry in archive.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        if entry.header().entry_type().is_file() {
            let member = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            choice.offer(&member, entry);
        }
    }
    choice.made()
}

fn with_zip<T>(
    name: &str,
    file: File,
    wish: &Wish<'_>,
    read: impl FnMut(&str, Bytes<'_>) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let broken = |error: zip::result::ZipError| TraceError::Archive {
        file: name.to_owned(),
        source: io::Error::other(error),
    };
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(broken)?;
    let mut choice = Choice::new(name, wish, read);
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(broken)?;
        if entry.is_file() {
            let member = entry.name().map_err(broken)?.into_owned();
            choice.offer(&member, entry);
        }
    }
    choice.made()
}

/// Finds the one member that is to be read. The first that may be it is read on the way, because a stream cannot
/// be wound back; if another one comes, both are named and nothing is chosen.
struct Choice<'c, T, F> {
    file: &'c str,
    wish: &'c Wish<'c>,
    read: F,
    /// Some of the members.
    members: VecDeque<String>,
    /// Those that fit.
    fitting: Vec<String>,
    result: Option<Result<T, TraceError>>,
}

impl<'c, T, F: FnMut(&str, Bytes<'_>) -> Result<T, TraceError>> Choice<'c, T, F> {
    fn new(file: &'c str, wish: &'c Wish<'c>, read: F) -> Self {
        Self { file, wish, read, members: VecDeque::new(), fitting: Vec::new(), result: None }
    }

    fn offer(&mut self, member: &str, content: impl Read) {
        self.members.push_back(member.to_owned());
        if self.members.len() > MOST_NAMED {
            self.members.pop_front();
        }
        let fits = match self.wish.member {
            Some(wanted) => wanted == member,
            None => self.fitting.len() < MOST_NAMED,
        };
        if !fits {
            return;
        }
        let text = Peeked::new(unpacked(content), HEAD_BYTES);
        if self.wish.member.is_none() && !(self.wish.is_known)(text.head()) {
            return;
        }
        self.fitting.push(member.to_owned());
        if self.result.is_none() {
            self.result = Some((self.read)(&format!("{}!{member}", self.file), Box::new(text)));
        }
    }

    fn made(self) -> Result<T, TraceError> {
        let file = self.file.to_owned();
        if self.fitting.len() > 1 {
            return Err(TraceError::SeveralMembers {
                file,
                members: shortened(&self.fitting.join(", "), LONGEST_LIST),
            });
        }
        self.result.unwrap_or_else(|| {
            let names = self.members.iter().map(String::as_str);
            Err(match self.wish.member {
                Some(member) => {
                    let hint = nearest(member, names);
                    TraceError::NoSuchMember { file, member: member.to_owned(), hint }
                }
                None => TraceError::NoJobList {
                    file,
                    members: shortened(&names.collect::<Vec<_>>().join(", "), LONGEST_LIST),
                },
            })
        })
    }
}
