//! Reports as the body of a request: one, or a list of them, in JSON whatever the form of lines is. What is taken becomes lines
//! like those that programs write themselves, so that it is followed like them, and survives a restart like them.

use serde_json::{Value, json};

use super::json::{self, Problem};
use super::names::Reading;

/// The body of a request may have no more bytes than this.
pub const LONGEST_BODY_BYTES: usize = 1 << 20;

/// Why a request is not taken; nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is too long.
    #[error("the body has {bytes} bytes; the most is {LONGEST_BODY_BYTES}: send fewer reports at a time")]
    Long {
        /// How long it is.
        bytes: usize,
    },
    /// It is no JSON.
    #[error(
        "the body is not JSON; send one report such as {{\"iteration\": 7, \"loss\": 0.5}}, or a list of them"
    )]
    NotJson,
    /// A part of it is no object.
    #[error("report {index} of the body is not an object such as {{\"iteration\": 7, \"loss\": 0.5}}")]
    NotAnObject {
        /// Which one, from 0.
        index: usize,
    },
    /// A value is not one that its name can have.
    #[error("report {index} of the body: `{name}` is no number, or one that it cannot be")]
    Value {
        /// Which one, from 0.
        index: usize,
        /// The name as it was sent.
        name: String,
    },
}

/// Reports that were sent, as lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How many reports there are.
    pub reports: usize,
    /// A line of JSON for each, each with its line break.
    pub lines: String,
}

impl Sent {
    /// Reads a body, as a whole or not at all.
    pub fn read(body: &[u8]) -> Result<Self, BodyError> {
        if body.len() > LONGEST_BODY_BYTES {
            return Err(BodyError::Long { bytes: body.len() });
        }
        let text = std::str::from_utf8(body).map_err(|_| BodyError::NotJson)?;
        let value = json::value(text).map_err(|_| BodyError::NotJson)?;
        let elements = value.as_array().map_or_else(|| std::slice::from_ref(&value), Vec::as_slice);
        let mut lines = String::new();
        for (index, element) in elements.iter().enumerate() {
            let reading = json::reading(element).map_err(|problem| match problem {
                Problem::Value { name } => BodyError::Value { index, name },
                Problem::NotJson | Problem::NotAnObject => BodyError::NotAnObject { index },
            })?;
            lines += &line(&reading);
        }
        Ok(Self { reports: elements.len(), lines })
    }
}

/// What a reading says, and nothing else of what was sent. A loss that is no number is `null`, and is read as such again.
fn line(reading: &Reading) -> String {
    let mut said = serde_json::Map::new();
    let all = [
        ("iteration", reading.iteration),
        ("epoch", reading.epoch),
        ("loss", reading.loss),
        ("accuracy", reading.accuracy),
        ("saved", reading.saved),
    ];
    for (name, value) in all {
        if let Some(value) = value {
            said.insert(name.to_owned(), json!(value));
        }
    }
    format!("{}\n", Value::Object(said))
}

#[cfg(test)]
mod tests {
    use super::super::{Follower, Form, Report};
    use super::*;

    #[test]
    fn requests_are_taken_whole_or_not_at_all() {
        let two =
            Sent::read(b"[{\"step\":1,\n\"loss\":NaN, \"lr\": 3},{\"epoch\":2,\"acc\":0.25}]").expect("two");
        assert_eq!(two.reports, 2);
        let mut follower = Follower::new(Form::JsonLines, 0.0);
        let reports = follower.feed(two.lines.as_bytes());
        assert!(reports[0].loss.is_some_and(f64::is_nan));
        let second = Report { iteration: Some(1.0), accuracy: Some(0.25), ..Report::default() };
        assert_eq!((reports[0].iteration, reports[1]), (Some(1.0), second));
        assert_eq!(Sent::read(b"{\"iteration\":3}").map(|sent| sent.reports), Ok(1));
        assert_eq!(Sent::read(b"[]"), Ok(Sent { reports: 0, lines: String::new() }));
        let one_is_wrong = Sent::read(b"[{\"iteration\":4},{\"iteration\":-4}]");
        assert_eq!(one_is_wrong, Err(BodyError::Value { index: 1, name: "iteration".to_owned() }));
        assert_eq!(Sent::read(b"[[]]"), Err(BodyError::NotAnObject { index: 0 }));
        assert_eq!(Sent::read(b"3"), Err(BodyError::NotAnObject { index: 0 }));
        assert_eq!(Sent::read(b""), Err(BodyError::NotJson));
        assert_eq!(Sent::read(b"\xff"), Err(BodyError::NotJson));
        let long = vec![b' '; LONGEST_BODY_BYTES + 1];
        assert_eq!(Sent::read(&long), Err(BodyError::Long { bytes: LONGEST_BODY_BYTES + 1 }));
    }

    #[test]
    fn numbers_come_through_as_they_were_sent() {
        let sent = Sent::read(b"{\"iteration\":9007199254740992,\"loss\":0.1,\"saved\":1e-3}").expect("one");
        let mut follower = Follower::new(Form::JsonLines, 0.0);
        let report = follower.feed(sent.lines.as_bytes())[0];
        assert_eq!(
            (report.iteration, report.loss, report.saved),
            (Some(9_007_199_254_740_992.0), Some(0.1), Some(1e-3))
        );
    }
}
