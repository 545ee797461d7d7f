//! Answers by hand, and what every schedule keeps.

use super::*;
use crate::model::{Edge, Resources, Seed, Task};

fn graph(lasts_s: &[f64], edges: &[(u32, u32)]) -> TaskGraph {
    let task = |compute_s: &f64| Task {
        demand: Resources::NONE,
        parameters: 0,
        replica: Some(0),
        compute_s: *compute_s,
        state_bytes: 0,
    };
    let edge = |(from, to): &(u32, u32)| Edge { from: TaskId(*from), to: TaskId(*to), bytes: 0 };
    let (tasks, edges) = (lasts_s.iter().map(task).collect(), edges.iter().map(edge).collect());
    TaskGraph::new(tasks, edges, None, false).expect("a graph")
}

fn gpus(parts: &[f64]) -> Vec<Parts> {
    parts.iter().map(|part| [*part, 0.0, 0.0, 0.0]).collect()
}

#[test]
fn hard_tasks_are_long_or_pack_badly_and_what_lies_between_them() {
    // 0 -> 1 -> 2 and 3 alone; 0 and 2 are long, 3 takes .6: one fits, .6 of the server is used.
    let graph = graph(&[10.0, 1.0, 10.0, 2.0], &[(0, 1), (1, 2)]);
    let work = Work::new(&graph, &gpus(&[0.5, 0.25, 0.5, 0.6]));
    assert_eq!(work.long_scores(), [1.0, 0.1, 1.0, 0.2]);
    let frag = |part| Work::frag_score(&[part, 0.1, 0.0, 0.0]);
    assert_eq!([0.5, 0.25, 0.6, 1.0].map(frag), [1.0, 1.0, 0.6, 1.0]);
    assert!((frag(0.3) - 0.9).abs() < 1e-12 && Work::frag_score(&[0.0; 4]) == 1.0);
    assert_eq!(work.closed(0b0101), 0b0111, "1 lies between 0 and 2");
    let sets = work.hard_sets();
    assert!(sets.contains(&0b0111) && sets.contains(&0b1000) && sets.contains(&0b1111), "{sets:?}");
    assert!(sets.iter().all(|set| work.closed(*set) == *set));
}

#[test]
fn ancestors_come_before_the_hard_tasks_and_descendants_after_them() {
    // 0 -> 1 -> 2; 3 is alone.
    let graph = graph(&[1.0, 5.0, 1.0, 1.0], &[(0, 1), (1, 2)]);
    let work = Work::new(&graph, &gpus(&[0.2; 4]));
    let orders = work.orders(0b0010);
    assert_eq!(orders.len(), 6, "O first in two directions and two orders, and between in two");
    for order in &orders {
        let of = |side| order.iter().filter(|(_, own)| *own == side).fold(0, |set, (own, _)| set | own);
        assert_eq!(order[0], (0b0010, Side::Forward));
        assert_eq!((of(Side::Forward) | of(Side::Backward), of(Side::Backward) & 0b0101), (0b1111, 0b0001));
    }
    let starts = work.best_schedule();
    assert_eq!((starts[1] - starts[0], starts[2] - starts[1]), (1.0, 5.0));
}

#[test]
fn a_good_schedule_starts_what_is_hard_in_time() {
    // A long task of .6 waits for a short one; four of .5 last as long as it and can stand beside each other in pairs.
    // Short first, then the long one with nothing beside it (.6 + .5 > 1), then two pairs: 1 + 4 + 2 + 2. While the short one
    // runs, nothing else ends: but a pair and then the short and long would be 2 + 1 + 4 + 2.
    let graph = graph(&[1.0, 4.0, 2.0, 2.0, 2.0, 2.0], &[(0, 1)]);
    let parts = gpus(&[0.4, 0.6, 0.4, 0.4, 0.4, 0.4]);
    let work = Work::new(&graph, &parts);
    let starts = work.best_schedule();
    let length = (0..6).map(|i| starts[i] + work.lasts_s[i]).fold(0.0, f64::max)
        - starts.iter().copied().fold(f64::INFINITY, f64::min);
    // 0.4 beside 0.6: the four stand one after the other beside the short and the long one, 8 seconds; or two of them
    // beside each other first.
    assert!(length <= 7.0 + 1e-9, "{length} {starts:?}");
    let scores = scores(&graph, &parts, MOST_TASKS);
    assert!(scores[0] > scores[1] && scores.iter().all(|score| *score > 0.0 && *score <= 1.0), "{scores:?}");
}

#[test]
fn large_graphs_are_scored_by_their_longest_path() {
    let graph = graph(&[1.0, 2.0, 5.0, 1.0], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    let by_path = scores(&graph, &gpus(&[0.1; 4]), 3);
    for (score, expected) in by_path.iter().zip([7.0 / 7.0, 3.0 / 7.0, 6.0 / 7.0, 1.0 / 7.0]) {
        assert!((score - expected).abs() < 1e-12, "{by_path:?}");
    }
    assert_eq!(scores(&graph, &gpus(&[0.1; 4]), 4), [1.0, 0.5, 0.75, 0.25]);
}

#[test]
fn no_schedule_overfills_the_server_or_turns_a_dependence_round() {
    for seed in 0..300 {
        let mut rolls = 0;
        let mut roll = |sides: u64| {
            rolls += 1;
            Seed(seed).numbered(rolls).0 % sides
        };
        let count = 2 + roll(14) as usize;
        let lasts: Vec<f64> = (0..count).map(|_| roll(9) as f64).collect();
        let mut edges = Vec::new();
        for to in 1..count as u32 {
            edges.extend((0..to).filter(|_| roll(4) == 0).map(|from| (from, to)));
        }
        let graph = graph(&lasts, &edges);
        let parts: Vec<Parts> =
            (0..count).map(|_| [1 + roll(10), roll(5), 0, roll(3)].map(|part| part as f64 / 10.0)).collect();
        let work = Work::new(&graph, &parts);
        let (mut longest_path, mut shortest) = (0.0_f64, f64::INFINITY);
        for tail in &work.tail_s {
            longest_path = longest_path.max(*tail);
        }
        for order in work.hard_sets().into_iter().flat_map(|hard| work.orders(hard)) {
            let schedule = work.schedule(&order);
            let spans: Vec<(f64, f64)> = schedule.spans.iter().map(|span| span.expect("placed")).collect();
            for (from, to) in &edges {
                let (first, then) = (spans[*from as usize].1, spans[*to as usize].0);
                assert!(first <= then + 1e-6, "seed {seed}: {from} ends at {first}, {to} starts at {then}");
            }
            for (start, _) in &spans {
                let moment = start + LEAST_S / 2.0;
                let here = |task: &usize| spans[*task].0 <= moment && moment < spans[*task].1;
                for i in 0..4 {
                    let used: f64 = (0..count).filter(here).map(|task| work.parts[task][i]).sum();
                    assert!(used <= 1.0 + 1e-6, "seed {seed}: {used} at {start}");
                }
            }
            assert!(schedule.length() >= longest_path - 1e-6);
            shortest = shortest.min(schedule.length());
        }
        let starts = work.best_schedule();
        let end = (0..count).map(|task| starts[task] + work.lasts_s[task]).fold(f64::NEG_INFINITY, f64::max);
        let begin = starts.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((end - begin - shortest).abs() < 1e-6, "seed {seed}: the shortest is kept");
    }
}
