//! A check on drawn instances as a row.

use trainyard_sched::decide::Checked;

use crate::reproduce::{Figures, Gate, Row};

/// One figure of a check, which passes only if nothing was wrong on any instance.
pub(in crate::reproduce) fn row_of(
    check: &'static str,
    what: &str,
    (figure, gate): (&str, Gate),
    figures: Figures,
    checked: &Checked,
) -> Row {
    let row = Row::single(check, what, figures, gate, Some(checked.figure(figure)));
    let told = match &checked.faults[..] {
        [] => format!("nothing was wrong on {} instances", checked.instances),
        [first, ..] => {
            format!("{} faults on {} instances, the first: {first}", checked.faults.len(), checked.instances)
        }
    };
    row.and(checked.faults.is_empty(), &told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_on_one_instance_is_a_miss() {
        let figures = vec![("worst", 0.5)];
        let mut checked = Checked { instances: 9, figures, ..Checked::default() };
        let row = |checked: &Checked| {
            row_of("X-1", "the worst", ("worst", Gate::AtMost(1.0)), Figures::default(), checked)
        };
        assert!(row(&checked).pass && row(&checked).verdict.contains("9 instances"));
        checked.faults.push("3: odd".to_owned());
        assert!(!row(&checked).pass && row(&checked).verdict.contains("3: odd"), "{:?}", row(&checked));
    }
}
