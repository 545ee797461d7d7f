//! What one attempt says of its progress, as the decision loop wants to hear it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use trainyard_sched::model::LossPoint;

use super::{Form, Report, Speedometer, Tail, Thinner};

/// So many losses of a job go further in a second.
const LOSSES_A_SECOND: NonZeroU32 = NonZeroU32::new(20).expect("it is more than nought");

/// Listens to an attempt: to what it writes, and to what it sends over HTTP, which is written too.
#[derive(Debug)]
pub struct Listener {
    tail: Tail,
    sent: Tail,
    meter: Speedometer,
    thinner: Thinner,
    iterations: f64,
    saved: f64,
    loss: Option<f64>,
    has_news: bool,
}

/// What is new of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// Iterations done.
    pub iterations: f64,
    /// How fast it is, once that is known; nothing is known yet after a start and after a change of size.
    pub iterations_per_s: Option<f64>,
    /// Iterations that are saved.
    pub saved: f64,
    /// Losses, by ascending iteration. If iterations went back, only those since then.
    pub losses: Vec<LossPoint>,
}

impl Listener {
    /// Listens to an attempt that began from so many iterations, all of them saved. Where it speaks is for the caller to say:
    /// patterns are looked for in what it prints, and other forms are those of its progress file. What was sent is in the other
    /// file, in lines of JSON whatever the form.
    pub fn new(path: impl Into<PathBuf>, form: Form, sent: impl Into<PathBuf>, begun_from: f64) -> Self {
        Self {
            tail: Tail::new(path, form, begun_from),
            sent: Tail::new(sent, Form::JsonLines, begun_from),
            meter: Speedometer::default(),
            thinner: Thinner::new(LOSSES_A_SECOND),
            iterations: begun_from,
            saved: begun_from,
            loss: None,
            has_news: false,
        }
    }

    /// Looks for news. The time is since any moment, on a clock that does not run backwards.
    pub fn listen(&mut self, now: Duration) -> std::io::Result<Option<News>> {
        let mut reports = self.tail.poll()?;
        reports.extend(self.sent.poll()?);
        self.take(&reports, now);
        let passed = self.thinner.drain(now);
        Ok(self.news(passed, now))
    }

    /// The last news, when all processes are over and nothing more is written.
    pub fn finish(&mut self, now: Duration) -> std::io::Result<Option<News>> {
        let mut reports = self.tail.finish()?;
        reports.extend(self.sent.finish()?);
        self.take(&reports, now);
        let passed = self.thinner.finish();
        Ok(self.news(passed, now))
    }

    /// The attempt has another size now, so what is known of its speed is void.
    pub fn resized(&mut self) {
        self.meter.start_anew();
    }

    /// The file, and what was met in it so far. For people who wonder why nothing is known of a job.
    pub const fn source(&self) -> &Tail {
        &self.tail
    }

    fn take(&mut self, reports: &[Report], now: Duration) {
        for report in reports {
            self.has_news = true;
            if let Some(iteration) = report.iteration {
                self.iterations = iteration;
                self.meter.tell(iteration, now);
            }
            self.saved = report.saved.unwrap_or(self.saved);
            // An accuracy by itself belongs to the loss that was told before it.
            self.loss = report.loss.or(self.loss);
            if report.iteration.is_some() && (report.loss.is_some() || report.accuracy.is_some()) {
                self.thinner.push(Report { loss: self.loss, saved: None, ..*report });
            }
        }
    }

    fn news(&mut self, passed: Vec<Report>, now: Duration) -> Option<News> {
        if !std::mem::take(&mut self.has_news) && passed.is_empty() {
            return None;
        }
        let point = |report: Report| {
            let loss = report.loss.unwrap_or(f64::NAN);
            Some(LossPoint { iteration: report.iteration?, loss, accuracy: report.accuracy })
        };
        let mut losses: Vec<LossPoint> = passed.into_iter().filter_map(point).collect();
        let back = losses.windows(2).rposition(|pair| pair[1].iteration < pair[0].iteration);
        losses.drain(..back.map_or(0, |at| at + 1));
        let iterations_per_s = self.meter.speed(now);
        Some(News { iterations: self.iterations, iterations_per_s, saved: self.saved, losses })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    struct Job {
        folder: tempfile::TempDir,
        listener: Listener,
        now: Duration,
    }

    impl Job {
        fn new(spec: &str) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let form = spec.parse().expect(spec);
            let listener = Listener::new(folder.path().join("said"), form, folder.path().join("sent"), 10.0);
            Self { listener, folder, now: Duration::ZERO }
        }

        /// The job writes something; a second later it is listened to.
        fn writes(&mut self, text: &str) -> Option<News> {
            let path = self.folder.path().join("said");
            let mut file = OpenOptions::new().create(true).append(true).open(path).expect("it opens");
            file.write_all(text.as_bytes()).expect("it is written");
            self.now += Duration::from_secs(1);
            self.listener.listen(self.now).expect("it can be read")
        }
    }

    fn iterations(news: &News) -> Vec<f64> {
        news.losses.iter().map(|point| point.iteration).collect()
    }

    #[test]
    fn news_are_what_the_loop_wants_to_hear() {
        let mut job = Job::new("jsonl");
        assert_eq!(job.writes("hello\n"), None);
        let first = job.writes("{\"step\":11,\"loss\":4}\n").expect("news");
        assert_eq!((first.iterations, first.iterations_per_s, first.saved), (11.0, None, 10.0));
        let second = job.writes("{\"saved\":13}\n{\"step\":13,\"loss\":2}\n{\"acc\":0.5}\n").expect("news");
        assert_eq!((second.iterations, second.iterations_per_s, second.saved), (13.0, Some(2.0), 13.0));
        let point = |loss, accuracy| LossPoint { iteration: 13.0, loss, accuracy };
        assert_eq!(second.losses, [point(2.0, None), point(2.0, Some(0.5))]);
        assert_eq!(job.writes("x\n"), None);
        job.listener.resized();
        let third = job.writes("{\"step\":15}\n").expect("news");
        assert_eq!((third.iterations_per_s, third.losses), (None, Vec::new()));
    }

    #[test]
    fn what_is_sent_counts_like_what_is_written() {
        let mut job = Job::new(r"pattern:step (?P<step>\d+) loss (?P<loss>\S+)");
        assert_eq!(iterations(&job.writes("step 11 loss nan\n").expect("news")), [11.0]);
        fs::write(job.folder.path().join("sent"), "\n{\"step\":12,\"loss\":1}\n").expect("it is kept");
        let news = job.writes("nothing\n").expect("what was sent");
        assert_eq!((news.iterations, iterations(&news)), (12.0, vec![12.0]));
        assert_eq!(job.writes("nothing\n"), None);
        assert_eq!(job.listener.source().counts().reports, 1);
    }

    #[test]
    fn the_last_line_that_is_printed_needs_no_end() {
        let mut job = Job::new(r"pattern:loss (?P<loss>\S+)");
        assert_eq!(job.writes("loss 3"), None);
        let news = job.listener.finish(job.now).expect("it can be read").expect("news");
        assert_eq!((news.iterations, iterations(&news)), (11.0, vec![11.0]));
    }

    #[test]
    fn many_losses_are_thinned_and_the_last_ones_come_at_the_end() {
        let mut job = Job::new("jsonl");
        let lines = |from: u32, to: u32| {
            (from..to).map(|i| format!("{{\"step\":{i},\"loss\":1}}\n")).collect::<String>()
        };
        let news = job.writes(&lines(11, 1000)).expect("news");
        assert_eq!((news.losses.len(), news.iterations), (20, 999.0));
        fs::write(job.folder.path().join("said"), lines(1, 4).trim_end()).expect("it is written anew");
        let news = job.listener.finish(job.now).expect("it can be read").expect("news");
        assert_eq!((news.iterations, iterations(&news)), (3.0, vec![1.0, 2.0, 3.0]));
        assert_eq!(job.listener.finish(job.now).expect("it can be read"), None);
    }

    #[test]
    fn losses_from_before_a_counter_began_anew_are_not_mixed_with_those_after() {
        let mut job = Job::new("jsonl");
        let text = "{\"step\":11,\"loss\":1}\n{\"step\":12,\"loss\":1}\n{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n";
        let news = job.writes(text).expect("news");
        assert_eq!((news.iterations, iterations(&news)), (2.0, vec![1.0, 2.0]));
    }
}
