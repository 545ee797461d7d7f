//! What ran where and when: for some of the nodes, the stretches of time for which jobs held each device.
//!
//! Memory is bounded: at most [`MOST_NODES`] nodes are followed, and at most [`MOST_BARS`] bars a device. When a device
//! has more, bars that are shorter than a grain of time, and no further apart, become one bar that tells how many
//! they were; the grain doubles until there is room. Time spent on that is linear in the bars there are, each time the
//! grain doubles.

use std::collections::BTreeMap;

use crate::model::{Allocation, Cluster, Job, JobId, NodeId, NodeState, Span, Time};

use super::holdings::Left;

/// The most nodes that are followed; more rows than this are no picture any more.
pub const MOST_NODES: usize = 32;
/// The most bars of a device: one for each fourth pixel of a wide screen.
const MOST_BARS: usize = 256;
/// The first grain that is tried.
const FIRST_GRAIN: Span = Span::from_secs(1);

/// What ran where.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The nodes that are followed, rack by rack and type by type.
    rows: Vec<Row>,
    /// The position of a node in the rows.
    position: BTreeMap<NodeId, usize>,
    /// Nodes with GPUs, followed or not.
    nodes: usize,
    /// What is shorter may have been merged.
    grain: Span,
}

#[derive(Clone, Debug)]
struct Row {
    node: NodeId,
    /// One list for each device, by the time at which bars ended.
    devices: Vec<Vec<Bar>>,
    /// When the node was down.
    away: Vec<Bar>,
    down_since: Option<Time>,
}

/// A stretch of time for which a job held a device, or several short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The job, or the first of several.
    pub job: JobId,
    /// Since when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// How it came to its end.
    pub left: Left,
    /// Thousandths of the device that it held.
    pub share_milli: u16,
    /// How many stretches this stands for.
    pub stretches: u32,
    /// The time held by all of them together.
    pub held: Span,
    /// The same times what was held of the device, in thousandths of a GPU times microseconds. Stretches that are
    /// told as one may have held different parts.
    pub gpu_milli_us: u64,
}

/// A bar over neighbouring devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which of the nodes that are followed.
    pub row: usize,
    /// The first of its devices.
    pub device: usize,
    /// How many devices.
    pub devices: usize,
    /// When, and whose.
    pub bar: Bar,
}

impl Bar {
    fn is_short(&self, grain: Span) -> bool {
        self.stretches > 1 || self.to.since(self.from) < grain
    }

    fn absorb(&mut self, other: &Self) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        self.stretches += other.stretches;
        self.held += other.held;
        self.gpu_milli_us += other.gpu_milli_us;
    }

    fn looks_like(&self, other: &Self) -> bool {
        let facts =
            |bar: &Self| (bar.from, bar.to, bar.stretches, bar.stretches > 1 || bar.left == other.left);
        facts(self) == facts(other) && (self.stretches > 1 || self.job == other.job)
    }
}

impl Timeline {
    /// Nothing has run yet.
    pub fn new(cluster: &Cluster) -> Self {
        let with_gpus: Vec<NodeId> =
            cluster.nodes.iter().filter(|node| node.gpu_count() > 0).map(|node| node.id).collect();
        let row = |node: &NodeId| Row {
            node: *node,
            devices: vec![Vec::new(); cluster.node(*node).gpu_count() as usize],
            away: Vec::new(),
            down_since: (cluster.node(*node).state == NodeState::Down).then_some(Time::ZERO),
        };
        let rows: Vec<Row> = chosen(cluster, &with_gpus).iter().map(row).collect();
        Self {
            position: rows.iter().enumerate().map(|(i, row)| (row.node, i)).collect(),
            rows,
            nodes: with_gpus.len(),
            grain: FIRST_GRAIN,
        }
    }

    /// The nodes that are followed, in the order of their rows.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.rows.iter().map(|row| row.node)
    }

    /// How many nodes with GPUs there are, followed or not.
    pub const fn nodes_there_are(&self) -> usize {
        self.nodes
    }

    /// When the node of a row was down.
    pub fn away(&self, row: usize) -> impl Iterator<Item = (Time, Time)> {
        self.rows[row].away.iter().map(|bar| (bar.from, bar.to))
    }

    /// All bars, with those shorter than a grain merged, by row and time.
    pub fn blocks(&self, grain: Span) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        for (row, there) in self.rows.iter().enumerate() {
            let begin = blocks.len();
            // The blocks that reach the device before, by the time at which they end, as its bars are.
            let mut before: Vec<usize> = Vec::new();
            for (device, bars) in there.devices.iter().enumerate() {
                let mut here = Vec::with_capacity(bars.len());
                for bar in merged(bars, grain.max(self.grain)) {
                    // The same job on the device before is the same block.
                    let first = before.partition_point(|i: &usize| blocks[*i].bar.to < bar.to);
                    let alike = before[first..].iter().take_while(|i| blocks[**i].bar.to == bar.to);
                    let is_above = |i: &usize| {
                        let block: &Block = &blocks[*i];
                        block.device + block.devices == device && block.bar.looks_like(&bar)
                    };
                    let above = alike.copied().find(is_above);
                    if let Some(i) = above {
                        blocks[i].devices += 1;
                        blocks[i].bar.held += bar.held;
                        blocks[i].bar.gpu_milli_us += bar.gpu_milli_us;
                    } else {
                        blocks.push(Block { row, device, devices: 1, bar });
                    }
                    here.push(above.unwrap_or(blocks.len() - 1));
                }
                before = here;
            }
            blocks[begin..].sort_by_key(|block| (block.bar.from, block.device));
        }
        blocks
    }

    pub(super) fn let_go(&mut self, at: Time, job: &Job, held: &Allocation, since: Time, left: Left) {
        for placement in held.placements() {
            let Some(&row) = self.position.get(&placement.node) else { continue };
            let share_milli = placement.gpus.share_milli;
            let bar = Bar {
                job: job.id,
                from: since,
                to: at,
                left,
                share_milli,
                stretches: 1,
                held: at.since(since),
                gpu_milli_us: at.since(since).0.saturating_mul(u64::from(share_milli)),
            };
            for (device, bars) in self.rows[row].devices.iter_mut().enumerate() {
                if placement.gpus.devices >> device & 1 == 1 {
                    bars.push(bar);
                }
            }
            self.make_room(row);
        }
    }

    pub(super) fn node_changed(&mut self, at: Time, node: NodeId, state: NodeState) {
        let Some(&i) = self.position.get(&node) else { return };
        let row = &mut self.rows[i];
        match (row.down_since, state) {
            (None, NodeState::Down) => row.down_since = Some(at),
            (Some(from), NodeState::Up | NodeState::Draining) => {
                row.down_since = None;
                row.away.push(Bar::absence(from, at));
                self.make_room(i);
            }
            (Some(_), NodeState::Down) | (None, NodeState::Up | NodeState::Draining) => {}
        }
    }

    /// Ends what has no end.
    pub(super) fn finish(&mut self, at: Time) {
        for row in &mut self.rows {
            row.away.extend(row.down_since.take().map(|from| Bar::absence(from, at)));
        }
    }

    /// Merges until no device of a row has too many bars.
    fn make_room(&mut self, row: usize) {
        let is_full = |row: &Row| row.devices.iter().chain([&row.away]).any(|bars| bars.len() > MOST_BARS);
        while is_full(&self.rows[row]) {
            self.grain = self.grain + self.grain;
            for row in &mut self.rows {
                for bars in row.devices.iter_mut().chain([&mut row.away]) {
                    *bars = merged(bars, self.grain);
                }
            }
        }
    }
}

impl Bar {
    /// A time without the node, which is nobody's.
    fn absence(from: Time, to: Time) -> Self {
        let (job, left) = (JobId(u32::MAX), Left::Lost);
        Self { job, from, to, left, share_milli: 0, stretches: 1, held: to.since(from), gpu_milli_us: 0 }
    }
}

/// The bars with short neighbours made one.
fn merged(bars: &[Bar], grain: Span) -> Vec<Bar> {
    let mut kept: Vec<Bar> = Vec::with_capacity(bars.len());
    for bar in bars {
        match kept.last_mut() {
            Some(last) if last.is_short(grain) && bar.is_short(grain) && bar.from.since(last.to) < grain => {
                last.absorb(bar);
            }
            _ => kept.push(*bar),
        }
    }
    kept
}

/// At most [`MOST_NODES`] of the nodes, sorted by rack and type; of each such group so many as is its part, but
/// at least one while there is room, evenly spaced.
fn chosen(cluster: &Cluster, nodes: &[NodeId]) -> Vec<NodeId> {
    let mut groups: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
    for id in nodes {
        let node = cluster.node(*id);
        groups.entry((node.rack, node.gpu_type)).or_default().push(*id);
    }
    let (all, most) = (nodes.len().max(1), MOST_NODES.min(nodes.len()));
    let mut left = most;
    let mut rows = Vec::new();
    for (i, group) in groups.values().enumerate() {
        let later = groups.len() - i - 1;
        let part = (group.len() * most / all).max(1);
        // The last group takes what rounding left; each later group keeps one.
        let count =
            if later == 0 { left } else { part.min(left.saturating_sub(later).max(usize::from(left > 0))) };
        let count = count.min(group.len());
        rows.extend((0..count).map(|k| group[k * group.len() / count]));
        left -= count;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{GpuTypeId, RackId, Resources};

    fn bar(job: u32, from_s: u64, to_s: u64) -> Bar {
        let (from, to) = (Time::from_secs(from_s), Time::from_secs(to_s));
        let left = Left::Stopped;
        Bar {
            job: JobId(job),
            from,
            to,
            left,
            share_milli: 1000,
            stretches: 1,
            held: to.since(from),
            gpu_milli_us: to.since(from).0 * 1000,
        }
    }

    #[test]
    fn short_neighbours_become_one_and_long_ones_stay() {
        let bars = [bar(0, 0, 2), bar(1, 3, 5), bar(2, 5, 50), bar(3, 50, 52), bar(4, 80, 81)];
        let all = merged(&bars, Span::from_secs(10));
        let facts: Vec<_> =
            all.iter().map(|bar| (bar.job.0, bar.stretches, bar.held.0 / 1_000_000)).collect();
        assert_eq!(facts, [(0, 2, 4), (2, 1, 45), (3, 1, 2), (4, 1, 1)]);
        assert_eq!((all[0].from, all[0].to), (Time::ZERO, Time::from_secs(5)));
        assert_eq!(merged(&bars, Span::ZERO), bars);
    }

    #[test]
    fn the_nodes_of_every_group_are_seen() {
        let mut cluster = Cluster::uniform(100, 8, "v100");
        cluster.add(3, 4, "a100");
        cluster.push(RackId(7), Some(GpuTypeId(0)), Resources::gpus(2), None);
        cluster.push(RackId(7), None, Resources::cpus(2), None);
        let timeline = Timeline::new(&cluster);
        let rows: Vec<u32> = timeline.nodes().map(|node| node.0).collect();
        assert_eq!((rows.len(), timeline.nodes_there_are()), (MOST_NODES, 104), "{rows:?}");
        assert!(rows.contains(&0) && rows.iter().any(|row| (100..103).contains(row)) && rows.contains(&103));
        assert!(!rows.contains(&104), "a node without GPUs has no row");
        assert_eq!(Timeline::new(&Cluster::uniform(5, 8, "v100")).nodes().count(), 5);
    }

    #[test]
    fn neighbouring_devices_of_a_job_are_one_block_and_others_are_not() {
        let mut timeline = Timeline::new(&Cluster::uniform(1, 5, "v100"));
        let of = |devices: &[usize], one: Bar, timeline: &mut Timeline| {
            devices.iter().for_each(|device| timeline.rows[0].devices[*device].push(one));
        };
        // Two end at the same time; one has a gap between its devices.
        of(&[0, 1, 2], bar(0, 0, 100), &mut timeline);
        of(&[3, 4], bar(1, 0, 100), &mut timeline);
        of(&[0, 2, 3], bar(2, 100, 300), &mut timeline);
        of(&[1], bar(3, 150, 200), &mut timeline);
        of(&[0, 1, 2, 3, 4], bar(4, 300, 400), &mut timeline);
        let facts =
            |block: &Block| (block.bar.job.0, block.device, block.devices, block.bar.held.0 / 1_000_000);
        let found: Vec<_> = timeline.blocks(Span::ZERO).iter().map(facts).collect();
        let expected =
            [(0, 0, 3, 300), (1, 3, 2, 200), (2, 0, 1, 200), (2, 2, 2, 400), (3, 1, 1, 50), (4, 0, 5, 500)];
        assert_eq!(found, expected);
    }

    #[test]
    fn no_device_ever_has_too_many_bars_and_no_time_is_lost() {
        let mut timeline = Timeline::new(&Cluster::uniform(1, 2, "v100"));
        let mut bars = &mut timeline.rows[0].devices[0];
        let mut held = Span::ZERO;
        for i in 0..5_000_u64 {
            // Every seventh is long.
            let next = bar(i as u32, i * 100, i * 100 + if i % 7 == 0 { 90 } else { 3 });
            held += next.held;
            bars.push(next);
            timeline.make_room(0);
            bars = &mut timeline.rows[0].devices[0];
            assert!(bars.len() <= MOST_BARS);
        }
        let blocks = timeline.blocks(Span::ZERO);
        assert_eq!(blocks.iter().map(|block| block.bar.stretches).sum::<u32>(), 5_000);
        assert_eq!(blocks.iter().fold(Span::ZERO, |sum, block| sum + block.bar.held), held);
    }
}
