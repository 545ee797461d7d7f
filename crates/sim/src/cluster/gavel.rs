//! Gavel's `cluster_specs.json`: for each trace a list of clusters as `v100:p100:k80`, numbers of GPUs.
//!
//! Gavel's simulator has one GPU a server; `?gpus=N` makes nodes of N. One of several clusters is chosen by
//! `?name=TRACE`, or `?name=TRACE/2` for the second of a trace.

use std::collections::BTreeMap;

use trainyard_sched::model::MAX_GPUS_PER_NODE;

use super::builder::{Builder, Machine};
use super::words::NODE_LIMIT;
use super::{ClusterFileError, Draft, Format};
use crate::document::{Document, printable, whole};
use crate::strangers::squeezed;
use crate::supplement::Supplement;
use crate::trace::{LONGEST_LIST, shortened};

const TYPES: [&str; 3] = ["v100", "p100", "k80"];

/// The entry of the table of formats.
pub(super) const FORMAT: Format = Format {
    name: "gavel-specs",
    title: "Gavel's cluster specifications",
    detect: |head| {
        let head = squeezed(head);
        let Some((_, list)) = head.strip_prefix("{\"").and_then(|rest| rest.split_once("\":[\"")) else {
            return false;
        };
        list.split('"').next().is_some_and(|word| counts(word).is_some())
    },
    read,
};

/// The three numbers of `a:b:c`.
fn counts(word: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = word.split(':').map_while(|part| whole(part, NODE_LIMIT).ok()).collect();
    (word.split(':').count() == 3).then(|| <[u64; 3]>::try_from(numbers).ok())?
}

fn read(document: &Document, supplement: &Supplement) -> Result<Draft, ClusterFileError> {
    let gpus = supplement.whole("gpus", 1, u64::from(MAX_GPUS_PER_NODE))?.unwrap_or(1);
    let wanted = supplement.get("name");
    let file = || document.file.clone();
    let json =
        |source| ClusterFileError::Json { file: file(), format: "Gavel's cluster specifications", source };
    let specs: BTreeMap<String, Vec<String>> = serde_json::from_str(&document.text).map_err(json)?;
    let mut all = BTreeMap::new();
    for (name, words) in &specs {
        for (index, word) in words.iter().enumerate() {
            let name = if index == 0 { name.clone() } else { format!("{name}/{}", index + 1) };
            let line = document
                .text
                .split(word.as_str())
                .next()
                .map_or(1, |before| before.matches('\n').count() + 1);
            let what = || format!("`{}` is not v100:p100:k80 in numbers of GPUs", printable(word));
            let counts = counts(word).ok_or_else(|| document.wrong(line, what()))?;
            all.insert(name, (line, counts));
        }
    }
    let found = match wanted {
        Some(name) => all.get_key_value(name),
        None if all.len() == 1 => all.first_key_value(),
        None => None,
    };
    let Some((name, (line, counts))) = found else {
        let Some((first, _)) = all.first_key_value() else {
            return Err(document.wrong(1, "no cluster is described").into());
        };
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        let names = shortened(&names.join(", "), LONGEST_LIST);
        return Err(ClusterFileError::Choose { file: file(), first: printable(first), names });
    };
    let mut builder = Builder::new(document);
    for (gpu_type, count) in TYPES.into_iter().zip(counts) {
        for at in (0..*count).step_by(gpus as usize) {
            let gpus = gpus.min(count - at);
            builder.push(*line, &Machine { gpu_type, gpus, ..Machine::default() })?;
        }
    }
    builder.assume(format!("of the clusters in the file, `{}` is meant", printable(name)));
    builder.assume(format!("a node has {gpus} GPUs (Gavel's simulator has 1), and all stand in one rack"));
    Ok(Draft::of(builder, 1))
}

#[cfg(test)]
mod tests {
    use crate::cluster::parse_with;

    #[test]
    fn one_cluster_is_taken_and_of_several_one_is_chosen() {
        let found = parse_with("s.json", "{\n  \"philly\": [\"5:0:2\"]\n}\n", "").unwrap();
        assert_eq!(found.cluster.to_string(), "7 nodes, 7 GPUs (5 v100, 2 k80)");
        let several = "{\"a\": [\"5:0:2\", \"9:0:0\"], \"b\": [\"1:1:1\"]}";
        let told = parse_with("s.json", several, "").unwrap_err().to_string();
        assert!(told.contains("s.json?name=a") && told.contains("a, a/2, b"), "{told}");
        let found = parse_with("s.json", several, "name=a/2,gpus=4").unwrap();
        assert_eq!(found.cluster.to_string(), "3 nodes, 9 GPUs (9 v100)");
        assert!(parse_with("s.json", several, "name=c").is_err());
    }

    #[test]
    fn odd_counts_are_named() {
        let told = parse_with("s.json", "{\"a\": [\"5:0:2\",\n\"5:x:2\"]}", "").unwrap_err().to_string();
        assert!(told.starts_with("s.json:2: `5:x:2`"), "{told}");
    }
}
