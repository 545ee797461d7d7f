//! The durable journal: one SQLite file in write-ahead mode with full synchronisation. What one step brought about is one
//! transaction, so all requests that came within a step share one flush to disk, and a step is there wholly or not at all.
//!
//! A snapshot of the state is kept now and then; what came after it is told again at the next start. The file carries a
//! version, and each record a checksum, so that a broken one is found and named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use trainyard_sched::control::{Head, JOURNAL_VERSION, Moment, Record};
use trainyard_sched::model::{JobId, Time};

use crate::board::Card;
use crate::clock::Wall;
use crate::fault;
use crate::work::Work;

/// The version of the file. Readers refuse what they do not know.
const STORE_VERSION: i64 = 1;

/// Fast rather than small.
const PACKING_LEVEL: i32 = 1;

const TABLES: &str = "
    CREATE TABLE head (body TEXT NOT NULL, began_wall_us INTEGER NOT NULL);
    CREATE TABLE records (
        number INTEGER PRIMARY KEY, wall_us INTEGER NOT NULL, body TEXT NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE works (job INTEGER PRIMARY KEY, tenant TEXT NOT NULL, key TEXT, body TEXT NOT NULL);
    CREATE UNIQUE INDEX works_by_key ON works (tenant, key) WHERE key IS NOT NULL;
    CREATE TABLE ended (job INTEGER PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE snapshots (number INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum INTEGER NOT NULL);
";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says so.
    #[error("{}: {act}: {source}", .path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// What was tried.
        act: &'static str,
        /// Why not.
        source: rusqlite::Error,
    },
    /// A newer program wrote it.
    #[error("{}: this journal has version {found}, and this program knows {known}; use the program that wrote it, or a newer one", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that is understood.
        known: i64,
    },
    /// A part of it is not what was written.
    #[error("{}: {what} {number} is damaged ({why}); restore the file from a copy, or begin with an empty folder", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What kind of part.
        what: &'static str,
        /// Its number.
        number: u64,
        /// What is wrong.
        why: String,
    },
}

/// The journal, open for writing.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    /// The number of the next record.
    next: u64,
}

/// A job's program as it is kept.
#[derive(Clone, Debug)]
pub struct KeptWork {
    /// The job.
    pub job: JobId,
    /// Its tenant's name.
    pub tenant: Arc<str>,
    /// What its owner calls the request, so that it may be sent twice.
    pub key: Option<Arc<str>>,
    /// The program.
    pub work: Arc<Work>,
}

/// What one step brings about.
#[derive(Debug)]
pub struct Entry<'a> {
    /// What happened and was decided.
    pub record: &'a Record,
    /// When, on the wall.
    pub wall: Wall,
    /// Programs of jobs that arrived.
    pub works: &'a [KeptWork],
    /// Jobs that ended, as they are shown from now on.
    pub ended: &'a [Card],
}

/// A state that was kept.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The run as it stood.
    pub moment: Moment,
    /// Who decided.
    pub policy: String,
    /// With which parameters.
    pub parameters: toml::Table,
}

impl Kept {
    /// How it is written: packed, since jobs are much alike and whoever writes many bytes holds up the loop.
    pub fn bytes(&self) -> Vec<u8> {
        let plain = rmp_serde::to_vec_named(self).expect("a state can be written");
        zstd::bulk::compress(&plain, PACKING_LEVEL).expect("bytes can be packed")
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(&zstd::decode_all(bytes).ok()?).ok()
    }
}

/// The state that was kept last.
enum Latest {
    /// There is none yet.
    None,
    /// The state after a record.
    Sound(u64, Box<Kept>),
    /// It is damaged, or another version of the program wrote it.
    Broken,
}

/// All that a journal holds, as it is read at the start.
#[derive(Debug)]
pub struct Contents {
    /// The beginning.
    pub head: Head,
    /// When that was, on the wall.
    pub began: Wall,
    /// The latest state that was kept.
    pub kept: Option<Kept>,
    /// Whether a state was kept that cannot be read. Nothing is lost by that, but all is told from the beginning.
    pub kept_is_broken: bool,
    /// What came after it.
    pub tail: Vec<(Record, Wall)>,
    /// When the last record was written.
    pub last: Option<(Time, Wall)>,
    /// The programs of all jobs.
    pub works: Vec<KeptWork>,
    /// Jobs that have ended.
    pub ended: Vec<Card>,
}

impl Store {
    /// Opens a journal, or begins one with this head.
    pub fn open(path: &Path, head: impl FnOnce() -> Head) -> Result<(Self, Contents), StoreError> {
        let at = Sayer { path };
        let connection = at.say("open", Connection::open(path))?;
        // Before anything is changed: a newer program's file stays as it is.
        let version = at.version(&connection)?;
        if !(0..=STORE_VERSION).contains(&version) {
            return Err(at.version_error(version, STORE_VERSION));
        }
        at.say("set up", connection.pragma_update(None, "journal_mode", "WAL"))?;
        at.say("set up", connection.pragma_update(None, "synchronous", "FULL"))?;
        if version == 0 {
            at.begin(&connection, &head())?;
        }
        let contents = at.read(&connection)?;
        let next: i64 = at.say(
            "read",
            connection.query_row("SELECT COALESCE(MAX(number), 0) + 1 FROM records", [], |row| row.get(0)),
        )?;
        Ok((Self { path: path.to_owned(), connection, next: next as u64 }, contents))
    }

    /// Reads a journal without writing to it, from its very beginning, whatever was kept since.
    pub fn read(path: &Path) -> Result<Contents, StoreError> {
        let at = Sayer { path };
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = at.say("open", Connection::open_with_flags(path, flags))?;
        let version = at.version(&connection)?;
        if version != STORE_VERSION {
            return Err(at.version_error(version, STORE_VERSION));
        }
        let mut contents = at.read(&connection)?;
        contents.kept = None;
        contents.tail = at.records(&connection, 0, usize::MAX)?;
        Ok(contents)
    }

    /// Reads up to `most` records after the one of this number from a journal that may be in use, with their numbers.
    pub fn read_after(path: &Path, after: u64, most: usize) -> Result<Vec<(u64, Record, Wall)>, StoreError> {
        let at = Sayer { path };
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = at.say("open", Connection::open_with_flags(path, flags))?;
        let records = at.records(&connection, after, most)?;
        Ok((after + 1..).zip(records).map(|(number, (record, wall))| (number, record, wall)).collect())
    }

    /// The number of the last record of a journal that may be in use; 0 if it has none.
    pub fn last_number(path: &Path) -> Result<u64, StoreError> {
        let at = Sayer { path };
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = at.say("open", Connection::open_with_flags(path, flags))?;
        let query = "SELECT COALESCE(MAX(number), 0) FROM records";
        let last: i64 = at.say("read", connection.query_row(query, [], |row| row.get(0)))?;
        Ok(last as u64)
    }

    /// Writes down a step. When this returns it is on disk.
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<u64, StoreError> {
        let at = Sayer { path: &self.path };
        let number = self.next;
        let body = serde_json::to_string(entry.record).expect("a record can be written");
        let write = |connection: &mut Connection| -> rusqlite::Result<()> {
            let all = connection.transaction()?;
            all.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3, ?4)")?.execute(params![
                number as i64,
                entry.wall.0 as i64,
                body,
                i64::from(crc32fast::hash(body.as_bytes()))
            ])?;
            for kept in entry.works {
                let text = serde_json::to_string(&*kept.work).expect("a program can be written");
                all.prepare_cached("INSERT INTO works VALUES (?1, ?2, ?3, ?4)")?.execute(params![
                    kept.job.0,
                    &*kept.tenant,
                    kept.key.as_deref(),
                    text
                ])?;
            }
            for card in entry.ended {
                let text = serde_json::to_string(card).expect("a card can be written");
                all.prepare_cached("INSERT OR REPLACE INTO ended VALUES (?1, ?2)")?
                    .execute(params![card.job.0, text])?;
            }
            fault::point();
            all.commit()?;
            fault::point();
            Ok(())
        };
        at.say("write", write(&mut self.connection))?;
        self.next += 1;
        Ok(number)
    }

    /// The number of the last record; 0 if there is none.
    pub const fn last(&self) -> u64 {
        self.next - 1
    }

    /// Keeps a state, as [`Kept::bytes`] has it, in place of the one before. It is the state after this record.
    pub fn keep(&mut self, after: u64, body: &[u8]) -> Result<(), StoreError> {
        let at = Sayer { path: &self.path };
        let write = |connection: &mut Connection| -> rusqlite::Result<()> {
            let all = connection.transaction()?;
            all.execute("DELETE FROM snapshots", [])?;
            all.execute(
                "INSERT INTO snapshots VALUES (?1, ?2, ?3)",
                params![after as i64, body, i64::from(crc32fast::hash(body))],
            )?;
            fault::point();
            all.commit()?;
            fault::point();
            Ok(())
        };
        at.say("write", write(&mut self.connection))
    }
}

/// What every head has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Says what failed, and in which file.
struct Sayer<'a> {
    path: &'a Path,
}

impl Sayer<'_> {
    fn say<T>(&self, act: &'static str, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::Sql { path: self.path.to_owned(), act, source })
    }

    fn damaged(&self, what: &'static str, number: u64, why: impl ToString) -> StoreError {
        StoreError::Damaged { path: self.path.to_owned(), what, number, why: why.to_string() }
    }

    fn version(&self, connection: &Connection) -> Result<i64, StoreError> {
        self.say("read", connection.pragma_query_value(None, "user_version", |row| row.get(0)))
    }

    fn version_error(&self, found: i64, known: i64) -> StoreError {
        StoreError::Version { path: self.path.to_owned(), found, known }
    }

    fn begin(&self, connection: &Connection, head: &Head) -> Result<(), StoreError> {
        let write = || -> rusqlite::Result<()> {
            let all = connection.unchecked_transaction()?;
            all.execute_batch(TABLES)?;
            let body = serde_json::to_string(head).expect("a head can be written");
            all.execute("INSERT INTO head VALUES (?1, ?2)", params![body, Wall::now().0 as i64])?;
            all.pragma_update(None, "user_version", STORE_VERSION)?;
            fault::point();
            all.commit()?;
            fault::point();
            Ok(())
        };
        self.say("begin", write())
    }

    fn read(&self, connection: &Connection) -> Result<Contents, StoreError> {
        let (head, began): (String, i64) = self.say(
            "read",
            connection
                .query_row("SELECT body, began_wall_us FROM head", [], |row| Ok((row.get(0)?, row.get(1)?))),
        )?;
        // A newer head may have what this program cannot read, so its version is looked at alone.
        let Version { version } = serde_json::from_str(&head).map_err(|why| self.damaged("head", 0, why))?;
        if version != JOURNAL_VERSION {
            return Err(self.version_error(version.into(), JOURNAL_VERSION.into()));
        }
        let head: Head = serde_json::from_str(&head).map_err(|why| self.damaged("head", 0, why))?;
        let latest = self.kept(connection)?;
        let kept_is_broken = matches!(latest, Latest::Broken);
        let (after, kept) = match latest {
            Latest::Sound(after, kept) => (after, Some(*kept)),
            Latest::None | Latest::Broken => (0, None),
        };
        let tail = self.records(connection, after, usize::MAX)?;
        let last = match tail.last() {
            Some((record, wall)) => Some((record.at, *wall)),
            None => {
                self.records(connection, after.saturating_sub(1), usize::MAX)?.last().map(|(r, w)| (r.at, *w))
            }
        };
        Ok(Contents {
            head,
            began: Wall(began as u64),
            kept,
            kept_is_broken,
            tail,
            last,
            works: self.works(connection)?,
            ended: self.ended(connection)?,
        })
    }

    fn kept(&self, connection: &Connection) -> Result<Latest, StoreError> {
        let row: Option<(i64, Vec<u8>, i64)> = self.say(
            "read",
            connection
                .query_row("SELECT number, body, checksum FROM snapshots", [], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional(),
        )?;
        let Some((number, body, checksum)) = row else { return Ok(Latest::None) };
        let sound = i64::from(crc32fast::hash(&body)) == checksum;
        Ok(Kept::read(&body)
            .filter(|_| sound)
            .map_or(Latest::Broken, |kept| Latest::Sound(number as u64, Box::new(kept))))
    }

    fn records(
        &self,
        connection: &Connection,
        after: u64,
        most: usize,
    ) -> Result<Vec<(Record, Wall)>, StoreError> {
        let mut query = self.say(
            "read",
            connection.prepare(
                "SELECT number, wall_us, body, checksum FROM records WHERE number > ?1 ORDER BY number LIMIT ?2",
            ),
        )?;
        let mut rows =
            self.say("read", query.query([after as i64, i64::try_from(most).unwrap_or(i64::MAX)]))?;
        let mut all = Vec::new();
        while let Some(row) = self.say("read", rows.next())? {
            let read = || -> rusqlite::Result<(i64, i64, String, i64)> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            };
            let (number, wall, body, checksum) = self.say("read", read())?;
            let number = number as u64;
            if i64::from(crc32fast::hash(body.as_bytes())) != checksum {
                return Err(self.damaged("record", number, "its checksum is wrong"));
            }
            if number != after + 1 + all.len() as u64 {
                return Err(self.damaged("record", number, "one before it is missing"));
            }
            let record = serde_json::from_str(&body).map_err(|why| self.damaged("record", number, why))?;
            all.push((record, Wall(wall as u64)));
        }
        Ok(all)
    }

    fn works(&self, connection: &Connection) -> Result<Vec<KeptWork>, StoreError> {
        let mut query =
            self.say("read", connection.prepare("SELECT job, tenant, key, body FROM works ORDER BY job"))?;
        let mut rows = self.say("read", query.query([]))?;
        let mut all = Vec::new();
        while let Some(row) = self.say("read", rows.next())? {
            let read = || -> rusqlite::Result<(u32, String, Option<String>, String)> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            };
            let (job, tenant, key, body) = self.say("read", read())?;
            let work = serde_json::from_str(&body).map_err(|why| self.damaged("job", u64::from(job), why))?;
            all.push(KeptWork {
                job: JobId(job),
                tenant: tenant.into(),
                key: key.map(Arc::from),
                work: Arc::new(work),
            });
        }
        Ok(all)
    }

    fn ended(&self, connection: &Connection) -> Result<Vec<Card>, StoreError> {
        let mut query = self.say("read", connection.prepare("SELECT job, body FROM ended ORDER BY job"))?;
        let mut rows = self.say("read", query.query([]))?;
        let mut all = Vec::new();
        while let Some(row) = self.say("read", rows.next())? {
            let read = || -> rusqlite::Result<(u32, String)> { Ok((row.get(0)?, row.get(1)?)) };
            let (job, body) = self.say("read", read())?;
            all.push(serde_json::from_str(&body).map_err(|why| self.damaged("job", u64::from(job), why))?);
        }
        Ok(all)
    }
}
