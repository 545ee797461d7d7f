//! A set of nodes as bits, iterated in ascending order.

use crate::model::NodeId;

/// A set of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
    len: u32,
}

impl NodeSet {
    /// An empty set with room for `nodes` nodes.
    pub fn with_room(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)], len: 0 }
    }

    /// How many nodes are in it.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a node; adding it twice changes nothing.
    pub fn insert(&mut self, node: NodeId) {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        self.len += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Removes a node; removing it twice changes nothing.
    pub fn remove(&mut self, node: NodeId) {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        self.len -= u32::from(self.words[word] & bit != 0);
        self.words[word] &= !bit;
    }

    /// Whether a node is in it.
    pub fn has(&self, node: NodeId) -> bool {
        self.words[node.index() / 64] >> (node.index() % 64) & 1 == 1
    }

    /// The nodes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        // An empty set is the common case in the capacity index: do not walk its words.
        let words = if self.is_empty() { &[][..] } else { &self.words[..] };
        words.iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(NodeId(i as u32 * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_back_in_order_and_once() {
        let mut set = NodeSet::with_room(200);
        for node in [130, 5, 64, 5] {
            set.insert(NodeId(node));
        }
        set.remove(NodeId(64));
        set.remove(NodeId(64));
        assert_eq!(set.iter().collect::<Vec<_>>(), [NodeId(5), NodeId(130)]);
        assert_eq!(set.len(), 2);
        assert!(set.has(NodeId(5)) && !set.has(NodeId(64)));
    }
}
