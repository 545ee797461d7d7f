//! Puts a text into packages: gzip, zstd, tar, zip, one in the other, cut short and broken.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::mutate::Dice;

/// One to three packages around a text, broken in one of three cases.
pub(crate) fn pack(text: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text;
    for _ in 0..=dice.below(3) {
        bytes = match dice.below(4) {
            0 => gzip(&bytes),
            1 => zstd::encode_all(&bytes[..], 1).expect("memory is enough"),
            2 => tar(&bytes, dice),
            _ => zip(&bytes, dice),
        };
    }
    match dice.below(6) {
        0 => {
            let at = dice.below(bytes.len());
            bytes.truncate(at);
        }
        1 => {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
        _ => {}
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory is enough");
    packed.finish().expect("memory is enough")
}

/// Names of members, among them such as would leave the folder.
fn name(dice: &mut Dice) -> &'static str {
    ["jobs.csv", "README", "a/b/jobs.json", "x.gz", "..", "jobs"][dice.below(6)]
}

fn tar(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut packed = tar::Builder::new(Vec::new());
    for _ in 0..=dice.below(3) {
        let content = if dice.chance(70) { bytes } else { b"nothing" };
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        // A name that the library refuses leaves the member out.
        let _ = packed.append_data(&mut header, name(dice), content);
    }
    packed.into_inner().expect("memory is enough")
}

fn zip(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut packed = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for number in 0..=dice.below(3) {
        let content = if dice.chance(70) { bytes } else { b"nothing" };
        let member = format!("{number}-{}", name(dice));
        packed.start_file(member, zip::write::SimpleFileOptions::default()).expect("names differ");
        packed.write_all(content).expect("memory is enough");
    }
    packed.finish().expect("memory is enough").into_inner()
}
