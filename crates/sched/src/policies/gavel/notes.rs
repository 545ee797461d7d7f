//! What is remembered from decision to decision, as integers in the notes of jobs and of the run. All else is worked out
//! from the snapshot, so whoever is shown the same snapshot goes on alike.

use smallvec::SmallVec;

use crate::model::{JobId, Span, Time};
use crate::view::Note;

/// A number for each column of the table of shares: a GPU type, or a type with its gangs close together or spread.
pub(super) type Row = SmallVec<[f64; 4]>;

/// What one job is owed and had, alone or beside one partner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Account {
    /// Who shares its GPUs; `None` where it has them to itself. A pair is kept by the job that came first.
    pub(super) partner: Option<JobId>,
    /// The shares of time that it is owed.
    pub(super) shares: Row,
    /// Seconds that it was owed and did not get in times past, by column.
    pub(super) deficits: Row,
    /// Seconds that it had since the shares were worked out, by column, up to [`Remembered::executed`].
    pub(super) had_s: Row,
}

/// What is remembered of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Remembered {
    /// How long it had held devices when this was written.
    pub(super) executed: Span,
    /// For which account and on which column it has run since then.
    pub(super) on: Option<(usize, usize)>,
    /// Seconds that its work so far would have taken with an equal part of the cluster: `C` of finish-time fairness.
    pub(super) isolated_s: f64,
    /// Its iterations when that was worked out.
    pub(super) iterations: f64,
    /// How fast it would have gone with an equal part of the cluster, from then on.
    pub(super) isolated_per_s: f64,
    /// Its accounts, the one alone first; none before shares were worked out for it.
    pub(super) accounts: SmallVec<[Account; 1]>,
}

/// What is remembered of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Round {
    /// When the round began; before the first there is none.
    pub(super) began: Option<Time>,
    /// When it ends; never, if nobody was given anything in it.
    pub(super) ends: Time,
    /// When shares were worked out last; 0 before.
    pub(super) reset: Time,
    /// For how many jobs.
    pub(super) owed: u32,
    /// A fingerprint of the GPUs that there were to share out.
    pub(super) pools: u64,
    /// Whether these shares are equal parts because their program could not be solved.
    pub(super) unsolved: bool,
}

fn bits(number: f64) -> i64 {
    number.to_bits() as i64
}

fn number(bits: i64) -> f64 {
    f64::from_bits(bits as u64)
}

impl Account {
    /// Nothing is owed and nothing was had.
    pub(super) fn new(partner: Option<JobId>, shares: Row) -> Self {
        let nothing = || Row::from_elem(0.0, shares.len());
        Self { partner, deficits: nothing(), had_s: nothing(), shares }
    }
}

impl Remembered {
    pub(super) fn to_note(&self, columns: usize) -> Note {
        let (account, column) = self.on.map_or((-1, -1), |(account, column)| (account as i64, column as i64));
        let mut all: SmallVec<[i64; 4]> =
            SmallVec::with_capacity(6 + self.accounts.len() * (1 + 3 * columns));
        all.extend([
            self.executed.0 as i64,
            account,
            column,
            bits(self.isolated_s),
            bits(self.iterations),
            bits(self.isolated_per_s),
        ]);
        for account in &self.accounts {
            all.push(account.partner.map_or(-1, |partner| i64::from(partner.0)));
            let rows = [&account.shares, &account.deficits, &account.had_s];
            all.extend(rows.into_iter().flatten().map(|value| bits(*value)));
        }
        Note(all)
    }

    /// `None` if the note is empty or was written by somebody else.
    pub(super) fn of_note(note: &Note, columns: usize) -> Option<Self> {
        let (head, rest) = note.0.split_at_checked(6)?;
        let each = 1 + 3 * columns;
        if !rest.len().is_multiple_of(each) {
            return None;
        }
        let row = |part: &[i64], i: usize| -> Row {
            part[1 + i * columns..][..columns].iter().map(|bits| number(*bits)).collect()
        };
        let account = |part: &[i64]| Account {
            partner: u32::try_from(part[0]).ok().map(JobId),
            shares: row(part, 0),
            deficits: row(part, 1),
            had_s: row(part, 2),
        };
        let accounts: SmallVec<[Account; 1]> = rest.chunks_exact(each).map(account).collect();
        let on = usize::try_from(head[1]).ok().zip(usize::try_from(head[2]).ok());
        Some(Self {
            executed: Span(u64::try_from(head[0]).ok()?),
            on: on.filter(|(account, column)| *account < accounts.len() && *column < columns),
            isolated_s: number(head[3]),
            iterations: number(head[4]),
            isolated_per_s: number(head[5]),
            accounts,
        })
    }

    /// Seconds that an account had on a column since shares were worked out, when the job has executed so long.
    pub(super) fn had_s(&self, account: usize, column: usize, executed: Span) -> f64 {
        let now = if self.on == Some((account, column)) {
            executed.saturating_sub(self.executed).as_secs_f64()
        } else {
            0.0
        };
        self.accounts[account].had_s[column] + now
    }

    /// Books what it had up to now, and on what it runs from now on.
    pub(super) fn book(&mut self, executed: Span, on: Option<(usize, usize)>) {
        if let Some((account, column)) = self.on {
            self.accounts[account].had_s[column] = self.had_s(account, column, executed);
        }
        self.executed = executed;
        self.on = on;
    }
}

impl Round {
    pub(super) fn to_note(self) -> Note {
        let began = self.began.map_or(-1, |began| began.0 as i64);
        let (ends, reset) = (self.ends.0 as i64, self.reset.0 as i64);
        let (owed, unsolved) = (i64::from(self.owed), i64::from(self.unsolved));
        let all = [began, ends, reset, owed, self.pools as i64, unsolved];
        Note(all.into_iter().collect())
    }

    /// Of a note that is empty or of somebody else, nothing.
    pub(super) fn of_note(note: &Note) -> Self {
        let &[began, ends, reset, owed, pools, unsolved] = &note.0[..] else { return Self::default() };
        Self {
            began: u64::try_from(began).ok().map(Time),
            ends: Time(ends as u64),
            reset: Time(reset as u64),
            owed: owed as u32,
            pools: pools as u64,
            unsolved: unsolved != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(numbers: [f64; 2]) -> Row {
        numbers.into_iter().collect()
    }

    #[test]
    fn what_was_written_is_read_back_to_the_last_bit() {
        let mut alone = Account::new(None, row([0.1 + 0.2, 0.0]));
        alone.had_s = row([1.0 / 3.0, -0.0]);
        let pair = Account::new(Some(JobId(7)), row([0.5, f64::MIN_POSITIVE]));
        let written = Remembered {
            executed: Span(12),
            on: Some((1, 0)),
            isolated_s: 1e300,
            iterations: 5.5,
            isolated_per_s: 0.0,
            accounts: [alone, pair].into_iter().collect(),
        };
        let note = written.to_note(2);
        assert_eq!(Remembered::of_note(&note, 2), Some(written));
        assert_eq!(Remembered::of_note(&note, 3), None, "written for other columns");
        assert_eq!(Remembered::of_note(&Note::default(), 2), None);
        let began = Some(Time(3));
        let round =
            Round { began, ends: Time::NEVER, reset: Time(5), owed: 9, pools: u64::MAX, unsolved: true };
        assert_eq!(Round::of_note(&round.to_note()), round);
        assert_eq!(Round::of_note(&Note::default()), Round::default());
    }

    #[test]
    fn time_is_booked_where_it_was_spent() {
        let mut job = Remembered {
            accounts: std::iter::once(Account::new(None, row([0.5, 0.5]))).collect(),
            ..Remembered::default()
        };
        job.book(Span::from_secs(0), Some((0, 1)));
        assert_eq!(job.had_s(0, 1, Span::from_secs(30)), 30.0);
        job.book(Span::from_secs(30), Some((0, 0)));
        job.book(Span::from_secs(35), None);
        assert_eq!([0, 1].map(|column| job.had_s(0, column, Span::from_secs(99))), [5.0, 30.0]);
    }
}
