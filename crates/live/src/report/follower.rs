//! Follows what a program writes: bytes in, reports out. It never fails; what is odd is counted.

use super::Report;
use super::form::{Form, shortened};
use super::json::{self, Problem};
use super::line::{Cutter, Line};
use super::names::Reading;
use super::table::Header;

/// What was met so far, over all times that the file began anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that are not empty. Each is a report, silent, unclear or too long; a header of CSV is
    /// silent.
    pub lines: u64,
    /// Those that were reports.
    pub reports: u64,
    /// Those that were understood and say nothing of progress.
    pub silent: u64,
    /// Those that were not understood.
    pub unclear: u64,
    /// Lines above 64 KiB.
    pub too_long: u64,
    /// How often the file began anew.
    pub restarts: u64,
    /// How often iterations went back.
    pub resets: u64,
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// Its number among the lines that are not empty, from 1, over all times that the file began anew.
    pub line: u64,
    /// How it begins.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// What iterations are counted in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Nothing was said of them yet, so reports are counted; so many are done.
    Reports(f64),
    /// Epochs, the last of which was this.
    Epochs(f64),
    /// Iterations, the last of which was this.
    Iterations(f64),
}

/// Turns bytes into reports as they come.
#[derive(Clone, Debug)]
pub struct Follower {
    form: Form,
    cutter: Cutter,
    header: Option<Header>,
    begun_from: f64,
    unit: Unit,
    last: Option<f64>,
    counts: Counts,
    first_unclear: Option<Unclear>,
}

impl Follower {
    /// A follower of lines of this form. If they do not say iterations, reports are counted, from `begun_from` on: the
    /// iterations that the attempt began from.
    pub fn new(form: Form, begun_from: f64) -> Self {
        Self {
            form,
            cutter: Cutter::default(),
            header: None,
            begun_from,
            unit: Unit::Reports(begun_from),
            last: None,
            counts: Counts::default(),
            first_unclear: None,
        }
    }

    /// Takes more bytes; they may end anywhere.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Report> {
        self.cut(|cutter, tell| cutter.feed(bytes, tell))
    }

    /// Takes the last line if no line break ended it, when nothing more will be written.
    pub fn finish(&mut self) -> Vec<Report> {
        self.cut(|cutter, tell| cutter.end(tell))
    }

    /// The file was cut to nothing, or replaced: what was half read is forgotten, and a header must come again.
    pub fn start_anew(&mut self) {
        self.cutter.clear();
        self.header = None;
        self.unit = Unit::Reports(self.begun_from);
        self.counts.restarts += 1;
    }

    /// What was met so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The first line that was not understood, to be shown.
    pub const fn first_unclear(&self) -> Option<&Unclear> {
        self.first_unclear.as_ref()
    }

    /// Lets lines be cut, and reads each.
    fn cut(&mut self, cut: impl FnOnce(&mut Cutter, &mut dyn FnMut(Line<'_>))) -> Vec<Report> {
        let mut cutter = std::mem::take(&mut self.cutter);
        let mut reports = Vec::new();
        cut(&mut cutter, &mut |line| reports.extend(self.line(line)));
        self.cutter = cutter;
        reports
    }

    fn line(&mut self, line: Line<'_>) -> Option<Report> {
        self.counts.lines += 1;
        let Line::Text(bytes) = line else {
            self.counts.too_long += 1;
            return None;
        };
        let text = String::from_utf8_lossy(bytes);
        match self.read(&text) {
            Ok(reading) => self.settle(&reading),
            Err(why) => {
                self.counts.unclear += 1;
                let line = self.counts.lines;
                self.first_unclear.get_or_insert_with(|| Unclear { line, text: shortened(&text), why });
                None
            }
        }
    }

    fn read(&mut self, text: &str) -> Result<Reading, String> {
        match &self.form {
            Form::JsonLines => {
                json::value(text).and_then(|value| json::reading(&value)).map_err(|problem| match problem {
                    Problem::NotJson => "it is not JSON".to_owned(),
                    Problem::NotAnObject => "it is JSON, but not an object".to_owned(),
                    Problem::Value { name } => format!("`{name}` is no number, or one that it cannot be"),
                })
            }
            Form::Pattern(pattern) => pattern.read(text),
            Form::Csv => match &self.header {
                // A program that goes on may write its header again.
                Some(header) => header.row(text).or_else(|why| self.renew_header(text).map_err(|_| why)),
                None => self.renew_header(text),
            },
        }
    }

    fn renew_header(&mut self, text: &str) -> Result<Reading, String> {
        self.header = Some(Header::read(text)?);
        Ok(Reading::default())
    }

    /// Makes a report of what was read, if it says anything.
    fn settle(&mut self, reading: &Reading) -> Option<Report> {
        let report = reading.report(self.iteration(reading));
        if report == Report::default() {
            self.counts.silent += 1;
            return None;
        }
        if let Some(now) = report.iteration {
            self.counts.resets += u64::from(self.last.is_some_and(|last| now < last));
            self.last = report.iteration;
        }
        self.counts.reports += 1;
        Some(report)
    }

    /// The iteration that a line speaks of. An epoch is one as long as nothing finer was ever said; a result without either
    /// is of the iteration that was said last, or one more if none ever was.
    fn iteration(&mut self, reading: &Reading) -> Option<f64> {
        if let Some(iteration) = reading.iteration {
            self.unit = Unit::Iterations(iteration);
            return Some(iteration);
        }
        if let (Some(epoch), Unit::Reports(_) | Unit::Epochs(_)) = (reading.epoch, self.unit) {
            self.unit = Unit::Epochs(epoch);
            return Some(epoch);
        }
        if reading.loss.is_none() && reading.accuracy.is_none() {
            return None;
        }
        if let Unit::Reports(done) = &mut self.unit {
            *done += 1.0;
        }
        let (Unit::Reports(now) | Unit::Epochs(now) | Unit::Iterations(now)) = self.unit;
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follower(spec: &str) -> Follower {
        Follower::new(spec.parse().expect(spec), 0.0)
    }

    fn pairs(reports: &[Report]) -> Vec<(Option<f64>, Option<f64>)> {
        reports.iter().map(|report| (report.iteration, report.loss)).collect()
    }

    #[test]
    fn reports_are_the_same_however_the_bytes_come() {
        let text = "{\"step\":1,\"loss\":4}\r\nnoise\n\n{\"step\":2,\"loss\":2}\n{\"saved\":2}\n{\"step\":3,\"loss\":1}";
        let expected = [(Some(1.0), Some(4.0)), (Some(2.0), Some(2.0)), (None, None), (Some(3.0), Some(1.0))];
        for cut in 0..=text.len() {
            let mut follower = follower("jsonl");
            let mut reports = follower.feed(&text.as_bytes()[..cut]);
            reports.extend(follower.feed(&text.as_bytes()[cut..]));
            reports.extend(follower.finish());
            assert_eq!(pairs(&reports), expected, "cut at {cut}");
            assert_eq!(reports[2].saved, Some(2.0));
            let counts = follower.counts();
            assert_eq!((counts.lines, counts.reports, counts.unclear, counts.silent), (5, 4, 1, 0));
            let unclear = follower.first_unclear().expect("one was");
            assert_eq!(
                (unclear.line, unclear.text.as_str(), unclear.why.as_str()),
                (2, "noise", "it is not JSON")
            );
        }
    }

    #[test]
    fn reports_without_iterations_are_counted_from_where_the_attempt_began() {
        let mut follower = Follower::new(Form::JsonLines, 40.0);
        let reports = follower.feed(b"{\"loss\":3}\n{\"saved\":40}\n{\"loss\":2}\n{\"accuracy\":0.5}\n");
        let iterations: Vec<Option<f64>> = reports.iter().map(|report| report.iteration).collect();
        assert_eq!(iterations, [Some(41.0), None, Some(42.0), Some(43.0)]);
        follower.start_anew();
        assert_eq!(pairs(&follower.feed(b"{\"loss\":3}\n")), [(Some(41.0), Some(3.0))]);
        assert_eq!((follower.counts().restarts, follower.counts().resets), (1, 1));
    }

    #[test]
    fn epochs_are_iterations_only_as_long_as_nothing_finer_was_said() {
        let mut follower = follower("jsonl");
        let text = b"{\"epoch\":0.5,\"loss\":5}\n{\"loss\":4}\n{\"epoch\":1,\"step\":10,\"loss\":3}\n{\"epoch\":1,\"acc\":0.5}\n";
        let reports = follower.feed(text);
        let iterations: Vec<Option<f64>> = reports.iter().map(|report| report.iteration).collect();
        assert_eq!(iterations, [Some(0.5), Some(0.5), Some(10.0), Some(10.0)]);
        assert!(follower.feed(b"{\"epoch\":7}\n").is_empty());
        assert_eq!((follower.counts().silent, follower.counts().resets), (1, 0));
        follower.feed(b"{\"step\":2}\n");
        assert_eq!(follower.counts().resets, 1, "a counter may begin anew, and it is seen");
    }

    #[test]
    fn a_loss_that_is_no_number_is_passed_on_in_every_form() {
        let lines = ["{\"step\":1,\"loss\":NaN}\n", "step,loss\n1,-inf\n", "step 1 loss inf\n"];
        let specs = ["jsonl", "csv", r"pattern:step (?P<step>\d+) loss (?P<loss>\S+)"];
        for (spec, line) in specs.into_iter().zip(lines) {
            let reports = follower(spec).feed(line.as_bytes());
            assert_eq!(reports.len(), 1, "{spec}");
            assert!(reports[0].loss.is_some_and(f64::is_nan), "{spec}");
        }
    }

    #[test]
    fn rows_need_a_header_which_may_come_late_or_twice() {
        let mut follower = follower("csv");
        assert!(follower.feed(b"loading\n1,2\n").is_empty());
        let why = &follower.first_unclear().expect("it was told").why;
        assert!(why.contains("known are iteration"), "{why}");
        assert_eq!(follower.feed(b"loss,step\n2,1\n").len(), 1);
        let renewed = follower.feed(b"step,loss\n2,1.5\n3\n");
        assert_eq!(pairs(&renewed), [(Some(2.0), Some(1.5))]);
        let counts = follower.counts();
        assert_eq!((counts.unclear, counts.silent, counts.reports), (3, 2, 2));
        follower.start_anew();
        assert!(follower.feed(b"3,1\n").is_empty(), "the new file has no header yet");
    }

    #[test]
    fn bytes_that_are_no_text_spoil_their_own_line_only() {
        let mut follower = follower("jsonl");
        let reports = follower.feed(b"\xff\xfe\x00{\n{\"step\":1,\"name\":\"\xff\"}\n{\"step\":2}\n");
        assert_eq!(reports.len(), 2);
        assert_eq!(follower.counts().unclear, 1);
        let long = [b"{\"x\":\"".as_slice(), &[b'y'; 70_000], b"\"}\n{\"step\":3}\n"].concat();
        assert_eq!(follower.feed(&long).len(), 1);
        assert_eq!(follower.counts().too_long, 1);
    }
}
