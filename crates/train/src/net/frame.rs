//! Frames: a length, a kind, and a beat, a text (JSON), a block of numbers or raw bytes. Whatever arrives, reading one is a frame or an
//! error.

use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most numbers of a frame.
pub(crate) const MOST_VALUES_IN_FRAME: usize = 32 << 10;
/// The most bytes of a frame after its length.
const MOST_BYTES: usize = 8 * MOST_VALUES_IN_FRAME + 64;

/// What numbers are of, and where they belong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// The version of the parameters, or the number of the sum.
    pub(crate) version: u64,
    /// Which part of all numbers.
    pub(crate) block: u32,
    /// The first shard that they are the sum of.
    pub(crate) first: u32,
    /// The level in the tree of shards.
    pub(crate) level: u32,
    /// How many shards there are.
    pub(crate) count: u32,
    pub(crate) values: Vec<f64>,
}

/// What is sent at a time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// A sign of life.
    Beat,
    /// A message as JSON.
    Text(Vec<u8>),
    /// Numbers.
    Numbers(Numbers),
    /// A part of a file.
    Bytes(Vec<u8>),
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// It is longer than any frame, or too short to be one.
    #[error("a frame says that it has {0} bytes, which no frame has")]
    Length(u32),
    /// Its kind is unknown, or what follows is not of that kind.
    #[error("a frame of kind {0} is not understood")]
    Kind(u8),
    /// A message that is not understood.
    #[error("a message is not understood ({0}); do all processes have the same version?")]
    Text(serde_json::Error),
    /// It was silent for too long.
    #[error("it was silent for too long")]
    Silent,
    /// It is gone.
    #[error("it closed the connection")]
    Closed,
    /// Anything else.
    #[error("the connection broke ({0})")]
    Broken(std::io::Error),
}

impl From<std::io::Error> for FrameError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
        match error.kind() {
            WouldBlock | TimedOut => Self::Silent,
            UnexpectedEof | ConnectionReset | BrokenPipe => Self::Closed,
            _ => Self::Broken(error),
        }
    }
}

impl Frame {
    /// A message.
    pub(crate) fn text(message: &impl Serialize) -> Self {
        Self::Text(serde_json::to_vec(message).expect("messages have no keys but strings"))
    }

    /// The message of a text.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        match self {
            Self::Text(text) => serde_json::from_slice(text).map_err(FrameError::Text),
            other => Err(FrameError::Kind(other.kind())),
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Beat => 0,
            Self::Text(_) => 1,
            Self::Numbers(_) => 2,
            Self::Bytes(_) => 3,
        }
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let length = 1 + match self {
            Self::Beat => 0,
            Self::Text(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::Numbers(numbers) => HEAD + 8 * numbers.values.len(),
        };
        assert!(length <= MOST_BYTES, "frames are cut to size by whoever sends them");
        to.write_all(&(length as u32).to_le_bytes())?;
        to.write_all(&[self.kind()])?;
        match self {
            Self::Beat => Ok(()),
            Self::Text(bytes) | Self::Bytes(bytes) => to.write_all(bytes),
            Self::Numbers(numbers) => {
                to.write_all(&numbers.version.to_le_bytes())?;
                for field in [numbers.block, numbers.first, numbers.level, numbers.count] {
                    to.write_all(&field.to_le_bytes())?;
                }
                let mut bytes = vec![0; 8 * numbers.values.len()];
                let (places, _) = bytes.as_chunks_mut::<8>();
                places
                    .iter_mut()
                    .zip(&numbers.values)
                    .for_each(|(place, value)| *place = value.to_le_bytes());
                to.write_all(&bytes)
            }
        }
    }

    pub(crate) fn read(from: &mut impl Read) -> Result<Self, FrameError> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length == 0 || length as usize > MOST_BYTES {
            return Err(FrameError::Length(length));
        }
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        let mut bytes = vec![0; length as usize - 1];
        from.read_exact(&mut bytes)?;
        let frame = match kind[0] {
            0 if bytes.is_empty() => Some(Self::Beat),
            1 => Some(Self::Text(bytes)),
            2 => Numbers::parse(&bytes).map(Self::Numbers),
            3 => Some(Self::Bytes(bytes)),
            _ => None,
        };
        frame.ok_or(FrameError::Kind(kind[0]))
    }
}

/// The bytes of numbers before the values.
const HEAD: usize = 8 + 4 * 4;

impl Numbers {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk::<8>()?;
        let (head, values) = rest.split_at_checked(HEAD - 8)?;
        let (fields, _) = head.as_chunks::<4>();
        let field = |i: usize| u32::from_le_bytes(fields[i]);
        let (values, rest) = values.as_chunks::<8>();
        rest.is_empty().then(|| Self {
            version: u64::from_le_bytes(*version),
            block: field(0),
            first: field(1),
            level: field(2),
            count: field(3),
            values: values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Frame> {
        let values = vec![0.1, -0.0, f64::MIN_POSITIVE, f64::INFINITY];
        vec![
            Frame::Beat,
            Frame::text(&("a", 1)),
            Frame::Numbers(Numbers { version: 7 << 40, block: 3, first: 5, level: 2, count: 64, values }),
            Frame::Bytes(vec![1, 2, 3]),
        ]
    }

    #[test]
    fn frames_come_as_they_were_sent() {
        let mut bytes = Vec::new();
        some().iter().for_each(|frame| frame.write(&mut bytes).unwrap());
        let mut from = bytes.as_slice();
        for frame in some() {
            assert_eq!(Frame::read(&mut from).unwrap(), frame);
        }
        assert!(matches!(Frame::read(&mut from), Err(FrameError::Closed)));
        assert_eq!(some()[1].parse::<(String, u32)>().unwrap(), ("a".to_owned(), 1));
        assert!(matches!(some()[1].parse::<u32>(), Err(FrameError::Text(_))));
        assert!(matches!(some()[2].parse::<u32>(), Err(FrameError::Kind(2))));
    }

    #[test]
    fn no_bytes_are_a_panic_or_a_large_allocation() {
        for (bytes, wanted) in [
            (&[0, 0, 0, 0][..], "0 bytes, which no frame has"),
            (&[255, 255, 255, 255, 1], "4294967295 bytes, which no frame has"),
            (b"GET / HTTP/1.1\r\n\r\n", "bytes, which no frame has"),
            (&[1, 0, 0, 0, 9], "kind 9"),
            (&[2, 0, 0, 0, 0, 1], "kind 0"),
            (&[3, 0, 0, 0, 2, 1, 1], "kind 2"),
            (&[9, 0, 0, 0, 2, 1], "closed"),
        ] {
            let error = Frame::read(&mut &*bytes).unwrap_err().to_string();
            assert!(error.contains(wanted), "{bytes:?}: {error}");
        }
        let mut whole = Vec::new();
        some().iter().for_each(|frame| frame.write(&mut whole).unwrap());
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut broken = whole.clone();
                broken[at] ^= flip;
                let mut from = broken.as_slice();
                while let Ok(frame) = Frame::read(&mut from) {
                    let _ = frame.parse::<(String, u32)>();
                }
            }
        }
    }
}
