//! Amounts as Kubernetes writes them, in nodes as in pods. Does not know what they are amounts of.

/// Suffixes with their factors; those of two letters come first, since some of one letter end them.
const UNITS: [(&str, f64); 15] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];
/// The largest amount that is read. Sums of a few still fit 64 bits.
const MOST: f64 = 1e18;

/// The amount in whole units: `500m`, `2`, `0.5`, `2Gi`, `128M`, `1e3`. None if it is none, negative, or above 1e18.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let unit = UNITS.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (digits, factor) = unit.unwrap_or((text, 1.0));
    bounded(digits.parse::<f64>().ok()? * factor)
}

/// An amount that is written as a number, if it is one that may be.
pub(crate) fn bounded(amount: f64) -> Option<f64> {
    (0.0..=MOST).contains(&amount).then_some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_decimal_and_binary_units() {
        let cases = [
            ("500m", 0.5),
            ("250000u", 0.25),
            ("2", 2.0),
            ("0.5", 0.5),
            ("2Gi", 2_147_483_648.0),
            ("1Pi", 1_125_899_906_842_624.0),
            ("128M", 128e6),
            ("100Ki", 102_400.0),
            ("1e3", 1000.0),
            ("1E", 1e18),
        ];
        for (text, value) in cases {
            assert_eq!(quantity(text), Some(value), "{text}");
        }
        for text in ["", "Gi", "two", "1 G", "-1", "NaN", "inf", "2E", "1Ei", "9223372036854775807"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
