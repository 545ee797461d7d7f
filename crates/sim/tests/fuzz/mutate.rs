//! Changes to a file that know a little of its structure: fields, lines, numbers, quotes, brackets.

use rand::RngExt as _;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::Seed;

/// Values that readers meet in the field and from people who mean harm.
const HOSTILE: [&str; 53] = [
    "",
    "0",
    "-0",
    "-1",
    "1",
    "0.5",
    "1e309",
    "-1e309",
    "1e-320",
    "NaN",
    "inf",
    "9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "65535",
    "1000001",
    "1e15",
    "1e9",
    "1e18",
    "1E",
    "1E\", \"memory\": \"1E",
    "1Ei",
    "1500m",
    "1000000000P",
    "9223372036854775807",
    "18446744073709551615",
    "0x10",
    "1_000",
    "+5",
    "1,5",
    "four",
    "null",
    "None",
    "true",
    "N/A",
    "\"",
    "''",
    "{}",
    "[]",
    "{\"a\": 1}",
    "|",
    "a|b|a",
    "=",
    "=cmd|' /C calc'!A0",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "\u{7f}\u{1b}[2J",
    "2017-02-30 25:61:00",
    "2017-03-12 02:30:00",
    "9999-12-31 23:59:59",
    "1969-12-31T23:59:59Z",
    "2020-04-01",
];
/// Bytes that end or join things.
const ODD: [&[u8]; 16] = [
    b"\n",
    b"\r",
    b"\r\n",
    b",",
    b"\t",
    b";",
    b"\"",
    b"\0",
    b"\xff",
    b"caf\xe9",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"{",
    b"]",
    b"\\",
    b" ",
];
const LONG: usize = 70_000;
/// Longer than the longest line that is read.
const LONGER_THAN_A_LINE: usize = (1 << 20) + 10;

/// Chance, from a seed.
pub(crate) struct Dice(Pcg64);

impl Dice {
    pub(crate) fn new(seed: Seed) -> Self {
        Self(Pcg64::seed_from_u64(seed.0))
    }

    /// A number below `most`, which is above zero.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0.random_range(0..most)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.random_range(0..=u64::MAX)
    }
}

/// The fields of a text: what stands between separators. Their ends, in order.
fn fields(text: &[u8]) -> Vec<(usize, usize)> {
    let is_separator = |byte: &u8| b",;:\t\n\r\"{}[]= |".contains(byte);
    let mut found = Vec::new();
    let mut start = 0;
    for (at, byte) in text.iter().enumerate() {
        if is_separator(byte) {
            found.push((start, at));
            start = at + 1;
        }
    }
    found.push((start, text.len()));
    found
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Changes a text in one way; `other` is a text to take parts from.
pub(crate) fn change(text: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    match dice.below(20) {
        0..=5 => field(text, other, dice),
        6..=9 => whole_lines(text, other, dice),
        10 => {
            let at = dice.below(text.len() + 1);
            text.truncate(at);
        }
        11 | 12 if !text.is_empty() => {
            let at = dice.below(text.len());
            text[at] ^= 1 << dice.below(8);
        }
        13 | 14 => insert(text, ODD[dice.below(ODD.len())], dice),
        15 => digit(text, dice),
        16 => storm(text, dice),
        17 => depth_bomb(text, dice),
        18 => line_ends(text, dice),
        _ => {
            let (from, to) = range(other.len(), dice);
            let part = other[from..to].to_vec();
            insert(text, &part, dice);
        }
    }
}

fn range(length: usize, dice: &mut Dice) -> (usize, usize) {
    let (a, b) = (dice.below(length + 1), dice.below(length + 1));
    (a.min(b), a.max(b))
}

fn insert(text: &mut Vec<u8>, part: &[u8], dice: &mut Dice) {
    let at = dice.below(text.len() + 1);
    text.splice(at..at, part.iter().copied());
}

/// One field is deleted, doubled, swapped with another, or replaced.
fn field(text: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let all = fields(text);
    let (from, to) = all[dice.below(all.len())];
    let new: Vec<u8> = match dice.below(8) {
        0 => Vec::new(),
        1 => [&text[from..to], b",", &text[from..to]].concat(),
        2 => {
            let (a, b) = all[dice.below(all.len())];
            text[a..b].to_vec()
        }
        3 => {
            let all = fields(other);
            let (a, b) = all[dice.below(all.len())];
            other[a..b].to_vec()
        }
        4 if dice.chance(10) => {
            let length = if dice.chance(10) { LONGER_THAN_A_LINE } else { LONG };
            vec![b'9'; length]
        }
        _ => HOSTILE[dice.below(HOSTILE.len())].as_bytes().to_vec(),
    };
    text.splice(from..to, new);
}

/// One line is deleted, doubled, moved, or another file's is put in.
fn whole_lines(text: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let mut all = lines(text);
    if all.is_empty() {
        return;
    }
    let at = dice.below(all.len());
    match dice.below(5) {
        0 => drop(all.remove(at)),
        1 => all.insert(at, all[at].clone()),
        2 => {
            let to = dice.below(all.len());
            all.swap(at, to);
        }
        3 => {
            let rows = lines(other);
            all.insert(at, rows.get(dice.below(rows.len().max(1))).cloned().unwrap_or_default());
        }
        // Many rows, as in a real file.
        _ => {
            let row = all[at].clone();
            let count = if row.len() < 400 { dice.below(200) } else { 1 };
            all.splice(at..at, std::iter::repeat_n(row, count));
        }
    }
    *text = all.concat();
}

/// One digit becomes another.
fn digit(text: &mut [u8], dice: &mut Dice) {
    let places: Vec<usize> = (0..text.len()).filter(|at| text[*at].is_ascii_digit()).collect();
    if !places.is_empty() {
        text[places[dice.below(places.len())]] = b'0' + dice.below(10) as u8;
    }
}

/// Many quotes or separators.
fn storm(text: &mut Vec<u8>, dice: &mut Dice) {
    let part: &[u8] = [&b"\""[..], b"\"\"", b",\"", b",,,,", b"\n\n", b"\\\""][dice.below(6)];
    let storm = part.repeat(1 + dice.below(3000));
    insert(text, &storm, dice);
}

/// Lists in lists, or objects in objects, never closed.
fn depth_bomb(text: &mut Vec<u8>, dice: &mut Dice) {
    let part: &[u8] = [&b"["[..], b"{\"a\":", b"[[", b"{\"metadata\": {"][dice.below(4)];
    let most = if dice.chance(10) { 60_000 } else { 300 };
    let bomb = part.repeat(1 + dice.below(most));
    if dice.chance(30) {
        *text = bomb;
    } else {
        insert(text, &bomb, dice);
    }
}

/// Other line ends, a mark at the beginning, another encoding.
fn line_ends(text: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(5) {
        0 => *text = text.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]),
        1 => *text = text.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r"[..]),
        2 => drop(text.splice(0..0, b"\xef\xbb\xbf".iter().copied())),
        // UTF-16 with its mark.
        3 => *text = [0xff, 0xfe].into_iter().chain(text.iter().flat_map(|byte| [*byte, 0])).collect(),
        _ => drop(text.splice(0..0, b"\n \n\r\n".iter().copied())),
    }
}
