//! Numbers beside their names in lines of text: `loss: 0.31`, `loss=0.31`, `"loss": 0.31`, `step 10`.

/// The text of the number that stands after `name`, if there is one. Names are found as whole words, whatever the size of their letters.
pub(super) fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = find(&line[from..], name) {
        let (begin, end) = (from + at, from + at + name.len());
        let is_whole = !line[..begin].chars().next_back().is_some_and(is_word)
            && !line[end..].chars().next().is_some_and(is_word);
        if is_whole && let Some(value) = number_after(&line[end..]) {
            return Some(value);
        }
        from = end;
    }
    None
}

/// Where a name stands first. Only letters of the English alphabet have two sizes here.
fn find(line: &str, name: &str) -> Option<usize> {
    if name.is_empty() {
        return None;
    }
    let (line, name) = (line.as_bytes(), name.as_bytes());
    line.windows(name.len()).position(|part| part.eq_ignore_ascii_case(name))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A number behind a quotation mark, blanks, and a colon or an equals sign, each of which may be missing.
fn number_after(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix([':', '=']).unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
    // A full stop or a comma after a number ends the sentence.
    let word = word.trim_end_matches('.');
    word.parse::<f64>().ok().map(|_| word)
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn numbers_are_found_beside_their_names() {
        let cases = [
            ("epoch 3: loss = 0.25, acc 0.9", "loss", Some("0.25")),
            ("epoch 3: loss = 0.25, acc 0.9", "epoch", Some("3")),
            ("epoch 3: loss = 0.25, acc 0.9", "acc", Some("0.9")),
            ("{\"step\": 10, \"loss\": 1e-3}", "loss", Some("1e-3")),
            ("{\"step\": \"10\", \"loss\": -2}", "step", Some("10")),
            ("lm loss: 1.049724E+01 , sop loss: 7.1E-01 ,", "lm loss", Some("1.049724E+01")),
            ("lm loss: 1.05 , sop loss: 0.71 ,", "loss", Some("1.05")),
            ("val_loss: 3, loss: 2", "loss", Some("2")),
            ("losses: 3", "loss", None),
            ("the loss is large", "loss", None),
            ("the loss is large, loss: 4", "loss", Some("4")),
            ("Loss=nan", "loss", Some("nan")),
            ("loss inf", "loss", Some("inf")),
            ("the loss is now 0.3.", "now", Some("0.3")),
            ("", "loss", None),
            ("loss", "loss", None),
            ("größe loss: 1", "loss", Some("1")),
        ];
        for (line, name, expected) in cases {
            assert_eq!(value_of(line, name), expected, "{name} in {line}");
        }
        assert_eq!(value_of("loss: 1", ""), None);
    }
}
