//! What the numbers of a tensor are, and what several copies of them come to.

use half::{bf16, f16};
use safetensors::Dtype;

/// What a type of numbers is, as far as merging goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has a mean.
    Real(Real),
    /// Counts, perhaps.
    Integer(Integer),
    /// Truth values and bytes.
    Small,
    /// A code of something larger.
    Code,
}

/// Floating-point numbers with a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Real {
    F64,
    F32,
    F16,
    Bf16,
}

impl Real {
    const fn width(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    fn read(self, bytes: &[u8]) -> f64 {
        match self {
            Self::F64 => f64::from_le_bytes(of(bytes)),
            Self::F32 => f32::from_le_bytes(of(bytes)).into(),
            Self::F16 => f16::from_le_bytes(of(bytes)).to_f64(),
            Self::Bf16 => bf16::from_le_bytes(of(bytes)).to_f64(),
        }
    }

    fn write(self, value: f64, to: &mut Vec<u8>) {
        match self {
            Self::F64 => to.extend(value.to_le_bytes()),
            Self::F32 => to.extend((value as f32).to_le_bytes()),
            // These round once on every processor; others go by way of 32 bits on some.
            Self::F16 => to.extend(f16::from_f64_const(value).to_le_bytes()),
            Self::Bf16 => to.extend(bf16::from_f64_const(value).to_le_bytes()),
        }
    }

    /// The weighted means of numbers in the same places. Numbers that are equal stay as they are.
    pub(super) fn mean(self, pieces: &[Vec<u8>], weights: &[f64]) -> Vec<u8> {
        let width = self.width();
        let mut means = Vec::with_capacity(pieces[0].len());
        for at in (0..pieces[0].len()).step_by(width) {
            let number = |piece: &Vec<u8>| -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..width].copy_from_slice(&piece[at..at + width]);
                bytes
            };
            let first = number(&pieces[0]);
            if pieces.iter().all(|piece| number(piece) == first) {
                means.extend(&first[..width]);
                continue;
            }
            let sum = pieces
                .iter()
                .zip(weights)
                .map(|(piece, weight)| weight * self.read(&number(piece)[..width]))
                .sum();
            self.write(sum, &mut means);
        }
        means
    }
}

/// Whole numbers that may be counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    /// Bytes of each.
    pub(super) width: usize,
    is_signed: bool,
}

impl Integer {
    fn read(self, bytes: &[u8]) -> i128 {
        let is_below = self.is_signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut all = [if is_below { 0xff } else { 0 }; 16];
        all[..self.width].copy_from_slice(bytes);
        i128::from_le_bytes(all)
    }

    /// What a counter has come to that was `before` when the copies were equal. None if one of them has gone back: then it is no
    /// counter.
    pub(super) fn counted(self, values: &[Vec<u8>], before: Option<&[u8]>) -> Option<i128> {
        let before = before.map_or(0, |bytes| self.read(bytes));
        let added: Vec<i128> = values.iter().map(|value| self.read(value) - before).collect();
        added.iter().all(|added| *added >= 0).then(|| before + added.iter().sum::<i128>())
    }

    /// A value in its own bytes, if it has enough of them.
    pub(super) fn bytes(self, value: i128) -> Option<Vec<u8>> {
        let bytes = value.to_le_bytes()[..self.width].to_vec();
        (self.read(&bytes) == value).then_some(bytes)
    }
}

impl Kind {
    pub(super) fn of(dtype: Dtype) -> Self {
        let integer = |width, is_signed| Self::Integer(Integer { width, is_signed });
        match dtype {
            Dtype::F64 => Self::Real(Real::F64),
            // The parts of a complex number are numbers side by side.
            Dtype::F32 | Dtype::C64 => Self::Real(Real::F32),
            Dtype::F16 => Self::Real(Real::F16),
            Dtype::BF16 => Self::Real(Real::Bf16),
            Dtype::I64 => integer(8, true),
            Dtype::U64 => integer(8, false),
            Dtype::I32 => integer(4, true),
            Dtype::U32 => integer(4, false),
            Dtype::I16 => integer(2, true),
            Dtype::U16 => integer(2, false),
            Dtype::I8 | Dtype::U8 | Dtype::BOOL => Self::Small,
            _ => Self::Code,
        }
    }
}

fn of<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("a number has as many bytes as its type")
}
