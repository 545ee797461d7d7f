//! Cutting models into parts, against brute force and by hand.

use trainyard_sched::model::{Along, MAX_TASKS, Resources, Seed, TaskId};
use trainyard_sched::partition::{
    By, Cut, Layer, Manner, PartitionError, Together, consecutive, partition, pieces,
};

const MANNER: Manner = Manner {
    parts: 1,
    cut: Cut::Chain,
    by: By::Parameters,
    replicas: 1,
    demand: Resources { gpu_milli: 200, ..Resources::NONE },
    state_bytes_per_parameter: 4,
    together: Together::Alone,
    partial: true,
};

/// Some small weights, among them zeros and equal ones.
fn drawn(number: u64, most: u64) -> Vec<u64> {
    let seed = Seed(11).numbered(number);
    let length = 1 + seed.branch("length").0 % most;
    (0..length).map(|i| seed.numbered(i).0 % [3, 10, 1000][(number % 3) as usize]).collect()
}

fn chain(parameters: &[u64]) -> Vec<Layer> {
    let layer = |(i, parameters): (usize, &u64)| Layer {
        parameters: *parameters,
        compute_s: i as f64 + 1.0,
        output_bytes: 10 * (i as u64 + 1),
        after: if i == 0 { Vec::new() } else { vec![i - 1] },
    };
    parameters.iter().enumerate().map(layer).collect()
}

/// The smallest largest sum of consecutive parts, by trying all.
fn best_consecutive(weights: &[u64], parts: usize) -> u64 {
    if parts == 1 {
        return weights.iter().sum();
    }
    let cuts = 1..=weights.len() - (parts - 1);
    let each =
        cuts.map(|at| weights[..at].iter().sum::<u64>().max(best_consecutive(&weights[at..], parts - 1)));
    each.min().expect("there is a cut")
}

/// The smallest largest piece, by trying all ways to give pieces away.
fn best_pieces(weights: &[u64], in_all: usize) -> f64 {
    let Some((first, rest)) = weights.split_first() else {
        return if in_all == 0 { 0.0 } else { f64::INFINITY };
    };
    if in_all < weights.len() {
        return f64::INFINITY;
    }
    let own = |pieces: usize| *first as f64 / pieces as f64;
    (1..=in_all - rest.len()).map(|n| own(n).max(best_pieces(rest, in_all - n))).fold(f64::INFINITY, f64::min)
}

#[test]
fn no_consecutive_parts_have_a_smaller_largest_one() {
    for number in 0..600 {
        let weights = drawn(number, 9);
        for parts in 1..=weights.len() {
            let begins = consecutive(&weights, parts);
            assert_eq!((begins.len(), begins[0]), (parts, 0), "{weights:?}");
            assert!(begins.windows(2).all(|pair| pair[0] < pair[1]), "{weights:?} {begins:?}");
            let ends = begins.iter().skip(1).copied().chain([weights.len()]);
            let sums = begins.iter().zip(ends).map(|(begin, end)| weights[*begin..end].iter().sum::<u64>());
            assert_eq!(
                sums.max(),
                Some(best_consecutive(&weights, parts)),
                "{weights:?} in {parts}: {begins:?}"
            );
        }
    }
}

#[test]
fn no_pieces_have_a_smaller_largest_one() {
    for number in 0..300 {
        let weights = drawn(number, 5);
        for in_all in weights.len()..weights.len() + 5 {
            let found = pieces(&weights, in_all);
            assert_eq!(found.iter().sum::<u32>() as usize, in_all);
            let largest = weights.iter().zip(&found).map(|(weight, n)| *weight as f64 / f64::from(*n));
            let largest = largest.fold(0.0, f64::max);
            let best = best_pieces(&weights, in_all);
            assert!((largest - best).abs() < 1e-9, "{weights:?} in {in_all}: {found:?}, {largest} {best}");
        }
    }
}

#[test]
fn whatever_is_cut_all_of_it_is_in_the_parts() {
    for number in 0..400 {
        let weights = drawn(number, 9);
        let layers = chain(&weights);
        let parts = 1 + (Seed(number).branch("parts").0 % weights.len() as u64) as u32;
        let replicas = 1 + (number % 3) as u32;
        let width = 1 + (number % 4) as u32;
        let by = if number % 2 == 0 { By::Parameters } else { By::Compute };
        for cut in [Cut::Chain, Cut::Layers { width }] {
            let parts = if cut == Cut::Chain { parts } else { parts * 3 };
            let cut =
                partition(&layers, &Manner { parts, cut, by, replicas, ..MANNER }).expect("it can be cut");
            assert_eq!(cut.parts.len(), parts as usize);
            let parameters: u64 = cut.parts.iter().map(|part| part.parameters).sum();
            assert_eq!((parameters, cut.graph.parameters()), (weights.iter().sum(), parameters));
            let compute_s: f64 = cut.parts.iter().map(|part| part.compute_s).sum();
            assert!((compute_s - layers.iter().map(|layer| layer.compute_s).sum::<f64>()).abs() < 1e-9);
            assert_eq!(cut.graph.tasks().len(), (parts * replicas) as usize);
            assert_eq!(cut.graph.replicas().len(), replicas as usize);
            // Every layer is in one run of parts, and the runs follow each other.
            let firsts: Vec<_> = cut.parts.iter().filter(|part| part.piece == 0).collect();
            assert!(firsts.windows(2).all(|pair| pair[0].end == pair[1].first));
            assert_eq!((firsts[0].first, firsts[firsts.len() - 1].end), (0, layers.len()));
        }
    }
}

#[test]
fn a_chain_by_hand() {
    let layers = chain(&[4, 1, 1, 4, 2]);
    let cut = partition(&layers, &Manner { parts: 3, replicas: 2, ..MANNER }).expect("it can be cut");
    let parameters: Vec<u64> = cut.parts.iter().map(|part| part.parameters).collect();
    assert_eq!(parameters, [5, 5, 2]);
    let of_first = |from, to, bytes| {
        let edge = cut.graph.outputs(TaskId(from)).first().expect("an edge");
        assert_eq!((edge.to, edge.bytes), (TaskId(to), bytes), "{:?}", cut.graph);
    };
    let ends: Vec<usize> = cut.parts.iter().map(|part| part.end).collect();
    of_first(0, 1, 10 * ends[0] as u64);
    of_first(1, 2, 10 * ends[1] as u64);
    of_first(3, 4, 10 * ends[0] as u64);
    assert_eq!(cut.graph.edges().len(), 4);
    assert_eq!(cut.graph.tasks()[0].state_bytes, 4 * cut.parts[0].parameters);
    let by_time = partition(&layers, &Manner { parts: 2, by: By::Compute, ..MANNER }).expect("it can be cut");
    assert_eq!(by_time.parts[0].compute_s.max(by_time.parts[1].compute_s), 9.0);
}

#[test]
fn branches_are_sent_once_to_each_part_that_works_on_them() {
    // 0 feeds 1, 2 and 3, of which 2 and 3 are in one part.
    let mut layers = chain(&[1, 1, 1, 1]);
    layers[2].after = vec![0, 1];
    layers[3].after = vec![0, 2];
    let cut = partition(&layers, &Manner { parts: 2, ..MANNER }).expect("it can be cut");
    assert_eq!(cut.parts[0].end, 2);
    let edges: Vec<_> = cut.graph.edges().iter().map(|e| (e.from.0, e.to.0, e.bytes)).collect();
    assert_eq!(edges, [(0, 1, 10 + 20)]);
}

#[test]
fn layers_are_cut_into_pieces_and_all_pieces_hear_all_before() {
    let layers = chain(&[10, 20]);
    let cut = Cut::Layers { width: 2 };
    let server = Together::Server { demand: Resources::cpus(1), compute_s: 0.5, bytes: 31 };
    let manner = Manner { parts: 5, cut, together: server, replicas: 2, ..MANNER };
    let cut = partition(&layers, &manner).expect("it can be cut");
    let parts: Vec<_> = cut.parts.iter().map(|part| (part.first, part.pieces, part.parameters)).collect();
    assert_eq!(parts, [(0, 2, 5), (0, 2, 5), (1, 3, 7), (1, 3, 7), (1, 3, 6)]);
    let edges: Vec<_> = cut.graph.edges().iter().map(|e| (e.from.0, e.to.0, e.bytes)).collect();
    let first = [(0, 2, 5), (0, 3, 5), (0, 4, 5), (1, 2, 5), (1, 3, 5), (1, 4, 5)];
    assert_eq!(edges[..6], first);
    assert_eq!(edges[6..9], [(2, 10, 11), (3, 10, 10), (4, 10, 10)], "the last of them send to the server");
    assert_eq!(edges.len(), 18);
    assert!(cut.graph.is_server(TaskId(10)) && cut.graph.tasks()[10].state_bytes == 120);
    let ring = Together::Reduce { along: Along::Ring, bytes: 7 };
    let ring = partition(&layers, &Manner { replicas: 3, together: ring, ..MANNER }).expect("it can be cut");
    assert_eq!(ring.graph.reduce().map(|reduce| reduce.bytes), Some(7));
}

#[test]
fn what_cannot_be_cut_is_refused_with_the_reason() {
    let layers = chain(&[1, 2, 3]);
    let refused = |layers: &[Layer], manner| partition(layers, &manner).expect_err("it cannot be cut");
    assert_eq!(refused(&[], MANNER), PartitionError::NoLayer);
    assert_eq!(refused(&layers, Manner { parts: 0, ..MANNER }), PartitionError::Nothing);
    assert_eq!(refused(&layers, Manner { replicas: 0, ..MANNER }), PartitionError::Nothing);
    assert_eq!(refused(&layers, Manner { cut: Cut::Layers { width: 0 }, ..MANNER }), PartitionError::Nothing);
    let few = PartitionError::FewLayers { layers: 3, parts: 4 };
    assert_eq!(refused(&layers, Manner { parts: 4, ..MANNER }), few);
    let mut cyclic = layers.clone();
    cyclic[1].after = vec![2];
    assert_eq!(refused(&cyclic, MANNER), PartitionError::Order { layer: 1 });
    let wide = Manner { parts: 4000, cut: Cut::Layers { width: 2000 }, ..MANNER };
    assert!(matches!(refused(&layers, wide), PartitionError::Graph(_)), "four million edges");
    let many = Manner { parts: 3, replicas: MAX_TASKS as u32, ..MANNER };
    assert!(matches!(refused(&layers, many), PartitionError::Graph(_)));
}

#[test]
fn models_without_parameters_and_of_many_layers_are_cut() {
    let nothing = partition(&chain(&[0, 0, 0, 0]), &Manner { parts: 3, ..MANNER }).expect("it can be cut");
    assert_eq!(nothing.parts.len(), 3);
    let huge =
        partition(&chain(&[u64::MAX, u64::MAX, 1]), &Manner { parts: 2, ..MANNER }).expect("it can be cut");
    assert_eq!(huge.parts[1].end, 3);
    let weights: Vec<u64> = (0..20_000).map(|i| Seed(3).numbered(i).0 % 1_000_000).collect();
    let many = partition(&chain(&weights), &Manner { parts: 9_999, ..MANNER }).expect("it can be cut");
    assert_eq!(many.graph.edges().len(), 9_998);
}
