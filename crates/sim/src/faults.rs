//! When nodes fail and return: from a file, or drawn from a seed. Changes no cluster itself.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use trainyard_sched::model::{Cluster, NodeId, NodeState, Seed, Span, Time};

use crate::trace::{Header, Lines, Splitter, TraceError, nearest, time_s};

/// A node's new state and when it takes it.
pub type Fault = (Time, NodeId, NodeState);

/// More changes than this are refused: the means are surely in the wrong unit.
const FAULT_LIMIT: usize = 10_000_000;

/// How often nodes fail and how long they stay away, both exponentially distributed and alike for all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultModel {
    /// The mean time from a return, or the start of the run, to the next failure of one node.
    pub mean_time_between_failures_per_node: Span,
    /// The mean time from a failure to the return.
    pub mean_time_to_repair: Span,
}

/// Why there are no faults to be had.
#[derive(Debug, thiserror::Error)]
pub enum FaultsError {
    /// The file cannot be read as rows at all.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A row that is not understood. Faults are few and each matters, so none is dropped.
    #[error("{file}:{line}: {what}")]
    Row {
        /// The file's name.
        file: String,
        /// The line.
        line: u64,
        /// What is wrong, with field and value.
        what: String,
    },
    /// A mean of zero.
    #[error("{name} is zero; give a mean above zero")]
    ZeroMean {
        /// Which mean.
        name: &'static str,
    },
    /// Far too many faults.
    #[error("the means give more than {FAULT_LIMIT} changes of state; check their unit")]
    TooMany,
}

/// Reads faults from a CSV file with the columns `time_s`, `node` and `state`, sorted by time.
pub fn read_faults(path: &Path, cluster: &Cluster) -> Result<Vec<Fault>, FaultsError> {
    read_lines(Lines::open(path)?, cluster)
}

/// Reads faults from anything; `file` is what errors call it.
pub fn read_faults_from(file: &str, source: impl Read, cluster: &Cluster) -> Result<Vec<Fault>, FaultsError> {
    read_lines(Lines::new(file, source), cluster)
}

fn read_lines(mut lines: Lines<'_>, cluster: &Cluster) -> Result<Vec<Fault>, FaultsError> {
    let file = lines.file().to_owned();
    let nodes: BTreeMap<&str, NodeId> = cluster.nodes.iter().map(|node| (&*node.name, node.id)).collect();
    let header = Header::read(&mut lines)?;
    let time = header.need(&lines, "time_s")?;
    let node = header.need(&lines, "node")?;
    let state = header.need(&lines, "state")?;
    let mut splitter = Splitter::default();
    let mut faults = Vec::new();
    while let Some(line) = lines.next()? {
        let wrong = |what: String| FaultsError::Row { file: file.clone(), line: line.number, what };
        let told = |problem: crate::trace::Problem| {
            wrong(format!("{} ({} {})", problem.what, problem.field, problem.value))
        };
        let record = line.text().and_then(|text| splitter.split(text, b',')).map_err(told)?;
        record.expect(header.len()).map_err(told)?;
        let at = time_s("time_s", record.get(time)).map_err(told)?;
        let name = record.get(node);
        let id = *nodes.get(name).ok_or_else(|| {
            // A long list of nodes helps nobody.
            let hint = nearest(name, nodes.keys().copied().take(1000));
            wrong(format!("the cluster has no node `{name}`; {}", hint.chars().take(200).collect::<String>()))
        })?;
        let state = match record.get(state) {
            "up" => NodeState::Up,
            "down" => NodeState::Down,
            "draining" => NodeState::Draining,
            other => return Err(wrong(format!("state `{other}` is none of up, down, draining"))),
        };
        faults.push((at, id, state));
    }
    faults.sort_by_key(|(at, ..)| *at);
    Ok(faults)
}

/// Draws failures and returns up to `until`, sorted by time and then by node. A node that is down at the end
/// stays down. Each node has its own branch of the seed.
pub fn draw_faults(
    model: FaultModel,
    cluster: &Cluster,
    until: Time,
    seed: Seed,
) -> Result<Vec<Fault>, FaultsError> {
    if model.mean_time_between_failures_per_node == Span::ZERO {
        return Err(FaultsError::ZeroMean { name: "the mean time between failures" });
    }
    if model.mean_time_to_repair == Span::ZERO {
        return Err(FaultsError::ZeroMean { name: "the mean time to repair" });
    }
    let mut faults = Vec::new();
    let seed = seed.branch("faults");
    for node in &cluster.nodes {
        let mut random = Pcg64::seed_from_u64(seed.numbered(u64::from(node.id.0)).0);
        let mut wait = |mean: Span| {
            let drawn: f64 = Exp1.sample(&mut random);
            // Never zero, so that a node is never up and down at one moment.
            mean.scaled(drawn).max(Span(1))
        };
        let mut at = Time::ZERO;
        loop {
            at = at + wait(model.mean_time_between_failures_per_node);
            if at >= until {
                break;
            }
            faults.push((at, node.id, NodeState::Down));
            at = at + wait(model.mean_time_to_repair);
            if at >= until {
                break;
            }
            faults.push((at, node.id, NodeState::Up));
            if faults.len() > FAULT_LIMIT {
                return Err(FaultsError::TooMany);
            }
        }
    }
    faults.sort_by_key(|(at, node, _)| (*at, *node));
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Span = Span::from_secs(86_400);
    const HOUR: Span = Span::from_secs(3600);
    const MODEL: FaultModel =
        FaultModel { mean_time_between_failures_per_node: DAY, mean_time_to_repair: HOUR };

    #[test]
    fn drawn_faults_have_their_means_and_alternate() {
        let cluster = Cluster::uniform(50, 8, "v100");
        let year = Time::from_secs(86_400 * 365);
        let faults = draw_faults(MODEL, &cluster, year, Seed(1)).unwrap();
        assert!(faults.is_sorted_by_key(|(at, ..)| *at));
        let downs = faults.iter().filter(|(_, _, state)| *state == NodeState::Down).count();
        // 50 nodes fail once in 25 hours on average.
        let expected = 50.0 * 365.0 * 24.0 / 25.0;
        assert!((downs as f64 / expected - 1.0).abs() < 0.03, "{downs} against {expected}");
        for node in &cluster.nodes {
            let of_node: Vec<&Fault> = faults.iter().filter(|(_, id, _)| *id == node.id).collect();
            let alternate = |(i, fault): (usize, &&Fault)| (fault.2 == NodeState::Down) == (i % 2 == 0);
            assert!(of_node.iter().enumerate().all(alternate));
        }
    }

    #[test]
    fn more_nodes_or_a_longer_run_change_no_earlier_fault() {
        let draw = |nodes, days: u64| {
            let cluster = Cluster::uniform(nodes, 8, "v100");
            draw_faults(MODEL, &cluster, Time::from_secs(86_400 * days), Seed(7)).unwrap()
        };
        let (small, large) = (draw(5, 10), draw(9, 20));
        let early = |(at, node, _): &&Fault| at.as_secs_f64() < 864_000.0 && node.0 < 5;
        let of_large: Vec<Fault> = large.iter().filter(early).copied().collect();
        assert_eq!(small, of_large);
        let first = |id| small.iter().find(|(_, node, _)| node.0 == id).map(|(at, ..)| *at);
        assert!(first(0).is_some() && first(0) != first(1), "each node has its own faults");
    }

    #[test]
    fn impossible_means_are_refused() {
        let cluster = Cluster::uniform(1, 8, "v100");
        let zero = FaultModel { mean_time_to_repair: Span::ZERO, ..MODEL };
        assert!(matches!(draw_faults(zero, &cluster, Time(1), Seed(1)), Err(FaultsError::ZeroMean { .. })));
        let tiny = FaultModel { mean_time_between_failures_per_node: Span(1), mean_time_to_repair: Span(1) };
        let drawn = draw_faults(tiny, &cluster, Time::NEVER, Seed(1));
        assert!(matches!(drawn, Err(FaultsError::TooMany)));
    }

    #[test]
    fn a_file_is_read_in_any_order() {
        let cluster = Cluster::uniform(3, 8, "v100");
        let text = "node,time_s,state\nn2,60.5,up\nn2,10,down\nn0,10,draining\n";
        let faults = read_faults_from("faults.csv", text.as_bytes(), &cluster).unwrap();
        let expected = [
            (Time::from_secs(10), NodeId(2), NodeState::Down),
            (Time::from_secs(10), NodeId(0), NodeState::Draining),
            (Time(60_500_000), NodeId(2), NodeState::Up),
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_bad_row_is_an_error_with_line_and_value() {
        let cluster = Cluster::uniform(3, 8, "v100");
        let error = |row: &str| {
            let text = format!("time_s,node,state\n{row}\n");
            read_faults_from("faults.csv", text.as_bytes(), &cluster).unwrap_err().to_string()
        };
        assert!(error("1,n7,down").starts_with("faults.csv:2: the cluster has no node `n7`; did you mean"));
        assert!(error("1,n1,gone").contains("state `gone`"));
        assert!(error("-1,n1,down").contains("time_s -1"));
        assert!(error("1,n1").contains("expected 3 fields"));
    }
}
