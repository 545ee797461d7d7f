//! Where a task goes, and which one leaves: the nearest to an ideal that need not exist (MLFS, sections 3.3.2 and 3.3.3, with
//! the method of RIAL, INFOCOM 2014).
//!
//! Where we differ: data volumes and what a move costs are parts of the largest among the nodes or tasks that are compared,
//! since in bytes they would be all that counts.

/// Utilisation of the four resources, in the order GPU, CPU, memory, network.
pub(super) type Vector = [f64; 4];

/// A node, as a task sees it that may go there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Host {
    /// Its utilisation.
    pub(super) utilisation: Vector,
    /// Bytes in one iteration between the task and those that are there.
    pub(super) bytes: f64,
    /// What it costs the task to be moved there.
    pub(super) moving: f64,
}

/// The node that would be best: as little used as the least used one of each resource, with as much of what the task talks to
/// as any node has, and nothing to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IdealHost {
    least: Vector,
    most_bytes: f64,
    most_moving: f64,
}

impl IdealHost {
    /// Of no node yet.
    pub(super) const NONE: Self = Self { least: [f64::INFINITY; 4], most_bytes: 0.0, most_moving: 0.0 };

    /// Takes another node in.
    pub(super) fn add(&mut self, host: &Host) {
        for (least, here) in self.least.iter_mut().zip(host.utilisation) {
            *least = least.min(here);
        }
        self.most_bytes = self.most_bytes.max(host.bytes);
        self.most_moving = self.most_moving.max(host.moving);
    }

    /// The square of the distance of a node from the ideal.
    pub(super) fn distance_squared(&self, host: &Host) -> f64 {
        let part = |amount: f64, most: f64| if most > 0.0 { amount / most } else { 0.0 };
        let bytes = if self.most_bytes > 0.0 { 1.0 - host.bytes / self.most_bytes } else { 0.0 };
        let moving = part(host.moving, self.most_moving);
        let utilisation = host.utilisation.iter().zip(self.least).map(|(here, least)| (here - least).powi(2));
        utilisation.sum::<f64>() + bytes * bytes + moving * moving
    }
}

/// A task that may leave an overloaded node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Leaver {
    /// What it uses of the node.
    pub(super) utilisation: Vector,
    /// Bytes in one iteration between it and the other tasks there.
    pub(super) bytes: f64,
}

/// The task that would best leave: it uses most of what is overloaded and least of everything else, and talks to nobody there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IdealLeaver {
    aim: Vector,
    most_bytes: f64,
}

impl IdealLeaver {
    /// Among the tasks of a node, given which resources are overloaded.
    pub(super) fn of<'a>(overloaded: [bool; 4], tasks: impl Iterator<Item = &'a Leaver>) -> Self {
        let mut ideal =
            Self { aim: overloaded.map(|over| if over { 0.0 } else { f64::INFINITY }), most_bytes: 0.0 };
        for task in tasks {
            for ((aim, here), over) in ideal.aim.iter_mut().zip(task.utilisation).zip(overloaded) {
                *aim = if over { aim.max(here) } else { aim.min(here) };
            }
            ideal.most_bytes = ideal.most_bytes.max(task.bytes);
        }
        ideal
    }

    /// The square of the distance of a task from the ideal.
    pub(super) fn distance_squared(&self, task: &Leaver) -> f64 {
        let bytes = if self.most_bytes > 0.0 { task.bytes / self.most_bytes } else { 0.0 };
        let utilisation = task.utilisation.iter().zip(self.aim).map(|(here, aim)| (here - aim).powi(2));
        utilisation.sum::<f64>() + bytes * bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(squared: f64, distance: f64) -> bool {
        (squared.sqrt() - distance).abs() < 5e-5
    }

    #[test]
    fn the_worked_example_of_placement_comes_out() {
        let host = |utilisation, bytes| Host { utilisation, bytes, moving: 0.0 };
        let hosts = [
            host([0.5, 0.4, 0.3, 0.2], 0.0),
            host([0.3, 0.2, 0.2, 0.5], 80e6),
            host([0.7, 0.6, 0.5, 0.4], 160e6),
        ];
        let mut ideal = IdealHost::NONE;
        hosts.iter().for_each(|host| ideal.add(host));
        assert_eq!(ideal.least, [0.3, 0.2, 0.2, 0.2]);
        let distances = hosts.map(|host| ideal.distance_squared(&host));
        assert!(close(distances[0], 1.0440), "{distances:?}");
        assert!(close(distances[1], 0.5831), "{distances:?}");
        assert!(close(distances[2], 0.6708), "{distances:?}");
    }

    #[test]
    fn where_nobody_talks_and_nothing_moves_only_use_counts() {
        let hosts = [Host { utilisation: [0.5; 4], ..Host::default() }, Host::default()];
        let mut ideal = IdealHost::NONE;
        hosts.iter().for_each(|host| ideal.add(host));
        assert_eq!(hosts.map(|host| ideal.distance_squared(&host)), [1.0, 0.0]);
        let moved = Host { moving: 3.0, ..hosts[0] };
        ideal.add(&moved);
        assert_eq!(ideal.distance_squared(&moved), 2.0, "the dearest move counts one");
    }

    #[test]
    fn the_worked_example_of_relief_comes_out() {
        let task = |utilisation, bytes| Leaver { utilisation, bytes };
        let tasks = [
            task([0.4, 0.1, 0.1, 0.05], 120e6),
            task([0.3, 0.2, 0.05, 0.05], 0.0),
            task([0.25, 0.05, 0.2, 0.3], 60e6),
        ];
        let ideal = IdealLeaver::of([true, false, false, false], tasks.iter());
        assert_eq!(ideal.aim, [0.4, 0.05, 0.05, 0.05]);
        let distances = tasks.map(|task| ideal.distance_squared(&task));
        assert!(close(distances[0], 1.0025), "{distances:?}");
        assert!(close(distances[1], 0.1803), "{distances:?}");
        assert!(close(distances[2], 0.5979), "{distances:?}");
    }
}
