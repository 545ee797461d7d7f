//! Several rows for one job. Equal rows count once; what happens to different ones is for whoever reads the trace to say.

use std::collections::BTreeSet;
use std::sync::Arc;

use trainyard_sched::model::Job;

use super::error::{TraceError, shortened};
use super::options::OnDuplicate;
use crate::loss::TrueLoss;
use crate::truth::Truth;
use crate::workload::{Done, ImportReport};

/// Where a job comes from, and what the trace said of it.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// A hash of the name, to find candidates.
    pub(crate) name_hash: u64,
    /// A hash of the whole row.
    pub(crate) row_hash: u64,
    /// The line.
    pub(crate) line: u64,
    /// Whether the declaration is the trace's own.
    pub(crate) declared_by_trace: bool,
}

/// FNV-1a, good enough to find candidates that are then compared.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Jobs in the order of the file, with their origins.
pub(crate) struct Rows<'r> {
    pub(crate) file: &'r str,
    pub(crate) jobs: &'r mut Vec<(Arc<Job>, Truth)>,
    pub(crate) origins: &'r mut Vec<Origin>,
    pub(crate) report: &'r mut ImportReport,
}

impl Rows<'_> {
    /// Leaves one row for each job.
    pub(crate) fn settle(&mut self, on_duplicate: OnDuplicate) -> Result<(), TraceError> {
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(self.origins.len());
        order.extend(self.origins.iter().enumerate().map(|(i, origin)| (origin.name_hash, i as u32)));
        order.sort_unstable();
        let (mut gone, mut renamed) = (Vec::new(), Vec::new());
        for group in order.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            let group: Vec<usize> = group.iter().map(|(_, index)| *index as usize).collect();
            for (position, later) in group.iter().enumerate() {
                self.compare(&group[..position], *later, on_duplicate, &mut gone, &mut renamed)?;
            }
        }
        if gone.is_empty() && renamed.is_empty() {
            return Ok(());
        }
        renamed.sort_unstable();
        self.rename(&renamed);
        self.leave_out(gone);
        Ok(())
    }

    /// Compares a row with the earlier ones that may be of the same job.
    fn compare(
        &self,
        earlier: &[usize],
        later: usize,
        on_duplicate: OnDuplicate,
        gone: &mut Vec<(usize, &'static str)>,
        renamed: &mut Vec<usize>,
    ) -> Result<(), TraceError> {
        let name = |index: usize| &self.jobs[index].0.name;
        let mut same = earlier.iter().copied().filter(|index| name(*index) == name(later)).peekable();
        let Some(first) = same.peek().copied() else { return Ok(()) };
        let equals = |index: usize| {
            let (a, b) = (&self.origins[index], &self.origins[later]);
            a.row_hash == b.row_hash && self.jobs[index] == self.jobs[later]
        };
        if same.any(equals) {
            gone.push((later, "the row repeats an earlier one word for word"));
            return Ok(());
        }
        match on_duplicate {
            OnDuplicate::Error => Err(TraceError::DuplicateJob {
                file: self.file.to_owned(),
                first: self.origins[first].line,
                second: self.origins[later].line,
                job: shortened(name(later), 60),
            }),
            OnDuplicate::Suffix => {
                renamed.push(later);
                Ok(())
            }
            OnDuplicate::First => {
                gone.push((later, "the id was there already, with other values; the first row is kept"));
                Ok(())
            }
        }
    }

    /// Gives these jobs names that nobody has.
    fn rename(&mut self, indexes: &[usize]) {
        if indexes.is_empty() {
            return;
        }
        let mut taken: BTreeSet<Arc<str>> = self.jobs.iter().map(|(job, _)| Arc::clone(&job.name)).collect();
        for index in indexes {
            let (job, truth) = &mut self.jobs[*index];
            let job = Arc::make_mut(job);
            let is_free = |name: &Arc<str>| !taken.contains(name);
            let names = (2_u64..).map(|number| Arc::from(format!("{}-{number}", job.name)));
            let name: Arc<str> = { names }.find(is_free).expect("there are more numbers than jobs");
            let place = format!("{}:{}: {name}", self.file, self.origins[*index].line);
            let what = "the id was there already, with other values; the later job has another name";
            self.report.find(Done::Repaired, what, Some(place));
            taken.insert(Arc::clone(&name));
            // Noise belongs to a name.
            if let Some(loss) = &mut truth.loss {
                loss.seed = TrueLoss::seed_of(&name);
            }
            job.name = name;
        }
    }

    fn leave_out(&mut self, mut gone: Vec<(usize, &'static str)>) {
        gone.sort_unstable();
        for (index, what) in &gone {
            let place = format!("{}:{}: {}", self.file, self.origins[*index].line, self.jobs[*index].0.name);
            self.report.find(Done::Dropped, *what, Some(place));
        }
        let stays = |index: usize| gone.binary_search_by_key(&index, |(gone, _)| *gone).is_err();
        let mut index = 0..;
        self.jobs.retain(|_| index.next().is_some_and(stays));
        let mut index = 0..;
        self.origins.retain(|_| index.next().is_some_and(stays));
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{OnDuplicate, Options, TraceError, read_from};
    use crate::workload::{Done, Workload};

    const ROWS: &str = "job_id,submit_s,duration_s,gpus\n\
        a,0,9,1\nb,1,9,1\na,0,9,1\na,0,8,1\na,0,7,1\na,0,8,1\na-2,5,5,1\n";

    fn with(on_duplicate: OnDuplicate) -> Result<Workload, TraceError> {
        read_from("own.csv", ROWS.as_bytes(), &Options { on_duplicate, ..Options::default() })
    }

    fn names(workload: &Workload) -> Vec<(&str, f64)> {
        workload.jobs.iter().map(|(job, truth)| (&*job.name, truth.iterations)).collect()
    }

    fn count(workload: &Workload, done: Done, what: &str) -> u64 {
        let fits = |f: &&crate::workload::Finding| f.done == done && f.what.contains(what);
        workload.report.findings.iter().filter(fits).map(|f| f.count).sum()
    }

    #[test]
    fn different_rows_are_an_error_with_both_lines() {
        let error = with(OnDuplicate::Error).unwrap_err();
        assert!(matches!(&error, TraceError::DuplicateJob { first: 2, second: 5, .. }), "{error}");
        assert!(error.to_string().contains("--on-duplicate"), "{error}");
    }

    #[test]
    fn different_rows_may_become_jobs_with_names_of_their_own() {
        let read = with(OnDuplicate::Suffix).unwrap();
        let expected = [("a", 9.0), ("a-3", 8.0), ("a-4", 7.0), ("b", 9.0), ("a-2", 5.0)];
        assert_eq!(names(&read), expected, "equal rows count once, and names that are taken are passed over");
        assert_eq!(count(&read, Done::Repaired, "another name"), 2);
        assert_eq!(count(&read, Done::Dropped, "word for word"), 2);
        assert_eq!((read.report.rows, read.report.kept), (7, 5));
    }

    #[test]
    fn the_first_row_may_be_kept() {
        let read = with(OnDuplicate::First).unwrap();
        assert_eq!(names(&read), [("a", 9.0), ("b", 9.0), ("a-2", 5.0)]);
        let dropped =
            (count(&read, Done::Dropped, "first row is kept"), count(&read, Done::Dropped, "word for word"));
        assert_eq!(dropped, (2, 2), "a row that repeats one that was left out is told as that");
    }

    #[test]
    fn a_job_with_another_name_has_the_noise_of_that_name() {
        let head = "job_id,submit_s,duration_s,gpus,iterations,loss,loss_noise\n";
        let row = |name: &str, gpus| format!("{name},0,9,{gpus},9,sublinear 0 1 1 0,0.1\n");
        let options = Options { on_duplicate: OnDuplicate::Suffix, ..Options::default() };
        let losses = |rows: &str| -> Vec<_> {
            let read = read_from("own.csv", format!("{head}{rows}").as_bytes(), &options).unwrap();
            read.jobs.into_iter().map(|(_, truth)| truth.loss.unwrap()).collect()
        };
        let renamed = losses(&(row("a", 1) + &row("a", 2)));
        assert_eq!(renamed, losses(&(row("a", 1) + &row("a-2", 2))));
        assert_ne!(renamed[0].seed, renamed[1].seed);
    }
}
