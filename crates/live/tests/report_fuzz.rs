//! Changes what programs may write at random places, and holds the readers of reports to what they promise: they never fail,
//! it does not matter in which parts bytes come, all that is met is counted, numbers are possible ones, and a good line is
//! understood whatever stood before it.

use std::num::NonZeroU32;
use std::time::Duration;

use trainyard_live::report::{Follower, Form, Report, Sent, Speedometer, Thinner};

const ROUNDS: u64 = 6_000;

const JSON: &str = "{\"iteration\":1,\"loss\":2.5,\"accuracy\":0.25,\"lr\":[1,{\"a\":null}],\"note\":\"a, \\\"b\\\" NaN\"}\n\
    {\"step\":2,\"loss\":NaN}\r\n{\"epoch\":1.5,\"train_loss\":\"-inf\"}\n{\"saved\":2}\n\n{\"global_step\":3,\"loss\":null}\n";
const TABLE: &str = "step,loss,accuracy,note\n1,2.5,0.25,\"a, b\"\n2,nan,,x\r\n3,1e-3,0.5,\n";
const TEXT: &str = "begin\nstep 1 loss 2.5\n[x] step 2 loss nan done\rstep 3 loss -1e-3\n";
const PATTERN: &str = r"pattern:step (?P<iteration>\d+) loss (?P<loss>[-+.\deE]+|nan|inf)";

/// What files of programs that went wrong are full of.
const ODD: [&[u8]; 14] = [
    b"\0\0\0\0",
    b"\n",
    b"\r",
    b"\"",
    b"{",
    b"}",
    b"\xff\xfe",
    b"1e999",
    b"-",
    b"NaN",
    b",",
    b"\xEF\xBB\xBF",
    b"\\",
    b"9007199254740993",
];

/// A generator by G. Marsaglia (Xorshift RNGs, 2003), good enough to choose places.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most.max(1)
    }

    fn change(&mut self, text: &mut Vec<u8>) {
        let (a, b) = (self.below(text.len() + 1), self.below(text.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        match self.below(6) {
            0 => drop(text.drain(a..b)),
            1 => drop(text.splice(b..b, text[a..b].to_vec())),
            2 => drop(text.splice(a..a, ODD[self.below(ODD.len())].iter().copied())),
            3 if a < text.len() => text[a] = self.below(256) as u8,
            4 if a < text.len() => text[a] ^= 1 << self.below(8),
            5 if self.below(20) == 0 => drop(text.splice(a..a, vec![b'7'; 66_000])),
            _ => text.truncate(b),
        }
    }

    /// The same bytes in parts.
    fn parts<'a>(&mut self, mut text: &'a [u8]) -> Vec<&'a [u8]> {
        let mut parts = Vec::new();
        while !text.is_empty() {
            let cut = 1 + self.below(text.len().min(40_000));
            parts.push(&text[..cut]);
            text = &text[cut..];
        }
        parts
    }
}

fn told(form: &Form, parts: &[&[u8]]) -> (Vec<Report>, Follower) {
    let mut follower = Follower::new(form.clone(), 0.0);
    let mut reports: Vec<Report> = parts.iter().flat_map(|part| follower.feed(part)).collect();
    reports.extend(follower.finish());
    (reports, follower)
}

/// Reports so that NaN equals itself.
fn bits(reports: &[Report]) -> Vec<[Option<u64>; 4]> {
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    reports.iter().map(|r| [bits(r.iteration), bits(r.loss), bits(r.accuracy), bits(r.saved)]).collect()
}

/// What is wrong with them, if anything is.
fn fault(reports: &[Report]) -> Option<String> {
    let is_count = |number: Option<f64>| number.is_none_or(|n| (0.0..=9_007_199_254_740_992.0).contains(&n));
    let is_sane = |report: &Report| {
        is_count(report.iteration)
            && is_count(report.saved)
            && report.accuracy.is_none_or(f64::is_finite)
            && report.loss.is_none_or(|loss| !loss.is_infinite())
            && *report != Report::default()
            && (report.iteration.is_some() || (report.loss.is_none() && report.accuracy.is_none()))
    };
    reports.iter().find(|report| !is_sane(report)).map(|report| format!("{report:?}"))
}

#[test]
fn whatever_programs_write_is_read_as_promised() {
    let forms = [
        ("jsonl", JSON, "{\"step\":77,\"loss\":0.5}"),
        ("csv", TABLE, "step,loss\n77,0.5"),
        (PATTERN, TEXT, "step 77 loss 0.5"),
    ];
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let mut seen = [0_u64; 3];
    for round in 0..ROUNDS {
        let (spec, text, good) = forms[dice.below(forms.len())];
        let form: Form = spec.parse().expect("the form is known");
        let mut text = text.as_bytes().to_vec();
        for _ in 0..=dice.below(8) {
            dice.change(&mut text);
        }
        let whole = [text.as_slice(), b"\n", good.as_bytes(), b"\n"].concat();
        let context = || format!("round {round}, {spec}: {:?}", String::from_utf8_lossy(&whole));

        let (reports, follower) = told(&form, &[&whole]);
        let (in_parts, other) = told(&form, &dice.parts(&whole));
        assert_eq!(bits(&reports), bits(&in_parts), "{}", context());
        let counts = follower.counts();
        assert_eq!(counts, other.counts(), "{}", context());
        assert_eq!(
            counts.lines,
            counts.reports + counts.silent + counts.unclear + counts.too_long,
            "{}",
            context()
        );
        assert_eq!(counts.reports, reports.len() as u64, "{}", context());
        assert_eq!(counts.unclear > 0, follower.first_unclear().is_some(), "{}", context());
        assert_eq!(fault(&reports), None, "{}", context());
        let last = reports.last().unwrap_or_else(|| panic!("a good line was lost: {}", context()));
        assert_eq!((last.iteration, last.loss), (Some(77.0), Some(0.5)), "{}", context());
        drive(&reports, &mut dice, &context());
        seen = [seen[0] + counts.reports, seen[1] + counts.unclear, seen[2] + counts.too_long];
    }
    assert!(seen.iter().all(|count| *count > 50), "each kind was met: {seen:?}");
    let planted = Report { loss: Some(f64::INFINITY), iteration: Some(1.0), ..Report::default() };
    assert!(fault(&[planted]).is_some());
}

/// Lets the speed be measured and the reports be thinned, at random times.
fn drive(reports: &[Report], dice: &mut Dice, context: &str) {
    let mut meter = Speedometer::default();
    let mut thinner = Thinner::new(NonZeroU32::new(3).expect("some"));
    let mut now = Duration::ZERO;
    let mut passed = Vec::new();
    for report in reports {
        now += Duration::from_millis(dice.below(400) as u64);
        if let Some(iteration) = report.iteration {
            meter.tell(iteration, now);
        }
        assert!(meter.speed(now).is_none_or(|speed| speed.is_finite() && speed >= 0.0), "{context}");
        thinner.push(*report);
        passed.extend(thinner.drain(now));
    }
    assert!(passed.len() as f64 <= 3.0 + 3.0 * now.as_secs_f64() + 1e-3, "{context}");
    passed.extend(thinner.finish());
    assert_eq!(passed.len() as u64 + thinner.dropped(), reports.len() as u64, "{context}");
    let iteration = |reports: &[Report]| reports.iter().rev().find_map(|report| report.iteration);
    let saved = |reports: &[Report]| reports.iter().rev().find_map(|report| report.saved);
    assert_eq!((iteration(&passed), saved(&passed)), (iteration(reports), saved(reports)), "{context}");
}

#[test]
fn bodies_of_requests_are_answered_and_never_a_crash() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let mut body = b"[{\"iteration\":1,\"loss\":NaN},\n{\"iteration\":2,\"saved\":1}]".to_vec();
        for _ in 0..dice.below(3) {
            dice.change(&mut body);
        }
        match Sent::read(&body) {
            Ok(sent) => {
                taken += 1;
                let mut follower = Follower::new(Form::JsonLines, 0.0);
                assert_eq!(fault(&follower.feed(sent.lines.as_bytes())), None);
                let counts = follower.counts();
                assert_eq!((counts.lines, counts.unclear), (sent.reports as u64, 0));
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(taken > 500 && refused > 500, "{taken} {refused}");
}
