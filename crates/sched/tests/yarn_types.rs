//! YARN-CS where there are several GPU types, which the public code does not know.

use trainyard_sched::model::{Cluster, NodeId, Parallelism, Wanted};
use trainyard_sched::place::{Ask, FreeCapacity, Rule};

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for gpu_type in ["v100", "p100", "k80"] {
        cluster.add(2, 4, gpu_type);
    }
    cluster
}

#[test]
fn nodes_are_looked_at_in_turn_whatever_their_type() {
    let mut free = FreeCapacity::new(&cluster());
    let (shape, wanted) = (Parallelism::gang(4), Wanted::default());
    let mut places = Vec::new();
    while let Some(placed) = free.place(Rule::Yarn, &Ask::minimum(&shape, &wanted)) {
        places.extend(placed.nodes());
    }
    assert_eq!(places, [0, 2, 4, 1, 3, 5].map(NodeId));
    let mut packed = FreeCapacity::new(&cluster());
    let first_two: Vec<NodeId> = (0..2)
        .flat_map(|_| packed.place(Rule::FirstFit, &Ask::minimum(&shape, &wanted)).expect("it fits").nodes())
        .collect();
    assert_eq!(first_two, [0, 1].map(NodeId), "other rules take one type after the other");
}

#[test]
fn a_gang_is_on_one_type_though_it_might_mix() {
    let mut free = FreeCapacity::new(&cluster());
    let wanted = Wanted { mixed_gpu_types: true, ..Wanted::default() };
    let small = Parallelism::gang(1);
    free.place(Rule::Yarn, &Ask::minimum(&small, &wanted)).expect("it fits");
    let wide = Parallelism::gang(8);
    let placed = free.place(Rule::Yarn, &Ask::minimum(&wide, &wanted)).expect("the second type is idle");
    assert_eq!(placed.nodes(), [2, 3].map(NodeId));
    let wider = Parallelism::gang(9);
    assert!(free.place(Rule::Yarn, &Ask::minimum(&wider, &wanted)).is_none());
    assert!(free.place(Rule::Pack, &Ask::minimum(&wider, &wanted)).is_some(), "others mix");
}
