//! How fast machines talk to each other.

use serde::{Deserialize, Serialize};

use super::{Node, Span};

/// One kind of connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes a second in one direction.
    pub bytes_per_s: u64,
    /// One-way delay.
    #[serde(default)]
    pub delay: Span,
}

impl Link {
    /// A link that costs nothing.
    pub const FREE: Self = Self { bytes_per_s: super::UNLIMITED, delay: Span::ZERO };

    /// Seconds that `bytes` take.
    pub fn transfer_s(&self, bytes: f64) -> f64 {
        let moving = if self.bytes_per_s == super::UNLIMITED { 0.0 } else { bytes / self.bytes_per_s as f64 };
        moving + self.delay.as_secs_f64()
    }
}

/// Connections by distance: inside a node, inside a rack, across racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// Between devices of one node.
    pub node: Link,
    /// Between nodes of one rack.
    pub rack: Link,
    /// Between racks.
    pub cluster: Link,
}

impl Default for Links {
    fn default() -> Self {
        Self { node: Link::FREE, rack: Link::FREE, cluster: Link::FREE }
    }
}

impl Links {
    /// The link between two machines.
    pub fn between(&self, a: &Node, b: &Node) -> Link {
        if a.id == b.id {
            self.node
        } else if a.rack == b.rack {
            self.rack
        } else {
            self.cluster
        }
    }
}
