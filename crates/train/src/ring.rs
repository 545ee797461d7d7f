//! Sums among a fixed number of processes in a ring: an all-reduce whose result is the same bits for any number of them.
//!
//! Source: the ring of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (JPDC 69, 2009). We
//! differ in the order: each rank merges its shards into what came from the rank before, along the tree of `merge`, and the last one
//! sends the total round. Both ways are pipelined in chunks, so a link carries the vector about twice, as there. What comes before a
//! rank is up to six pieces of the tree where the number of ranks is no power of two, which is the price of equal bits.
//!
//! Ranks find each other as programs under `torchrun` do, by what stands in the environment.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::checkpoint::Identity;
use crate::error::TrainError;
use crate::merge::{Merge, Piece, cut, share};
use crate::net::{
    Frame, FrameError, MOST_VALUES_IN_FRAME, Numbers, Reader, Token, Wire, Writer, accept, connect, listen,
};

/// Numbers of a chunk.
const CHUNK: usize = MOST_VALUES_IN_FRAME / 2;
/// The most processes.
const MOST_RANKS: usize = 512;
/// The most bytes of a state that is sent to the others.
const MOST_STATE: usize = 1 << 31;

/// Which of how many processes this is, and where rank 0 is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which one, from 0.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
    /// Which one on its machine; it changes no result.
    pub local_rank: usize,
    /// How many there are on its machine.
    pub local_world: usize,
    /// Where rank 0 listens: host and port.
    pub master: (String, u16),
}

impl Place {
    /// From what `torchrun` and others like it set: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`.
    pub fn from_environment() -> Result<Self, TrainError> {
        Self::from(&|name| std::env::var(name).ok())
    }

    fn from(value: &dyn Fn(&str) -> Option<String>) -> Result<Self, TrainError> {
        let number = |name, least: usize, most: usize, usual: Option<usize>, wanted| {
            let Some(said) = value(name) else {
                let missing = TrainError::Environment { name, value: String::new(), wanted };
                return usual.ok_or(missing);
            };
            let number = said.trim().parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or(TrainError::Environment { name, value: said, wanted })
        };
        let world = number("WORLD_SIZE", 1, MOST_RANKS, None, "the number of processes, from 1 to 512")?;
        let rank = number("RANK", 0, world - 1, None, "a number from 0 that is less than WORLD_SIZE")?;
        let wanted = "the number of processes on this machine, at most WORLD_SIZE";
        let local_world = number("LOCAL_WORLD_SIZE", 1, world, Some(world), wanted)?;
        let wanted = "a number from 0 that is less than LOCAL_WORLD_SIZE";
        let local_rank = number("LOCAL_RANK", 0, local_world - 1, Some(rank % local_world), wanted)?;
        let port = number("MASTER_PORT", 0, usize::from(u16::MAX), Some(0), "a port")? as u16;
        // `torchrun` itself listens on its port then, and rank 0 must take another one.
        let taken = value("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
        let port = if taken { 0 } else { port };
        let host = value("MASTER_ADDR").unwrap_or_else(|| "127.0.0.1".to_owned());
        Ok(Self { rank, world, local_rank, local_world, master: (host, port) })
    }
}

/// How the processes of a ring meet.
pub struct Meeting {
    /// Which of them this is.
    pub place: Place,
    /// Where the port stands if `MASTER_PORT` is 0 and rank 0 takes any.
    pub address: Option<PathBuf>,
    /// What they share.
    pub token: Token,
    /// How long one waits for another, and how long another may be silent.
    pub patience: Duration,
}

/// Whom the ranks hear of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
enum Message {
    /// To rank 0.
    Here { rank: usize, world: usize, identity: Identity, address: SocketAddr },
    /// From rank 0: where all are, and how long the state is that follows.
    All { addresses: Vec<SocketAddr>, state: usize },
    /// To the next one.
    Next { rank: usize },
    /// It is over.
    Abort { reason: String },
}

/// The neighbours in the ring.
struct Neighbours {
    before: Reader,
    /// Keeps the side that is only read from alive.
    _before: Arc<Writer>,
    after: Arc<Writer>,
}

/// A place in the ring.
pub(crate) struct Ring {
    rank: usize,
    size: usize,
    /// None if there is only one rank.
    neighbours: Option<Neighbours>,
    /// How many sums were made; all ranks make the same ones.
    sums: u64,
}

impl Ring {
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The total of what all ranks have; each has its share of the shards.
    pub(crate) fn all_reduce(&mut self, own: Merge, width: usize) -> Result<Vec<f64>, TrainError> {
        let Some(neighbours) = &mut self.neighbours else { return Ok(own.total()) };
        self.sums += 1;
        let mut pass = Pass { neighbours, rank: self.rank, size: self.size, sum: self.sums };
        let error = match pass.reduce(own, width) {
            Ok(total) => return Ok(total),
            Err(error) => error,
        };
        let by = |steps: usize| format!("rank {}", (self.rank + steps) % self.size);
        let reason = error.to_string();
        let (who, told) = match error {
            PassError::Told(_) => ("another rank".to_owned(), reason.clone()),
            PassError::After(_) => (by(1), format!("rank {} lost {}: {reason}", self.rank, by(1))),
            _ => {
                let before = by(self.size - 1);
                let told = format!("rank {} lost {before}: {reason}", self.rank);
                (before, told)
            }
        };
        // Those further on do not know who was lost.
        let _ = neighbours.after.send(&[Frame::text(&Message::Abort { reason: told })]);
        Err(TrainError::Lost { who, reason })
    }
}

/// One sum under way.
struct Pass<'a> {
    neighbours: &'a mut Neighbours,
    rank: usize,
    size: usize,
    sum: u64,
}

/// Why a sum came to nothing.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Before(FrameError),
    #[error(transparent)]
    After(FrameError),
    #[error("{0}")]
    Told(String),
    #[error("it sent something else than what is due; do all processes have the same version?")]
    Strange,
}

impl Pass<'_> {
    fn reduce(&mut self, own: Merge, width: usize) -> Result<Vec<f64>, PassError> {
        let count = own.count();
        let before = cut(0..share(count, self.rank, self.size).start);
        let own = own.into_pieces();
        let mut total = vec![0.0; width];
        for (chunk, into) in total.chunks_mut(CHUNK).enumerate() {
            let mut merge = Merge::of(count);
            for (first, level) in &before {
                let values = self.receive(chunk, *first, *level, into.len())?;
                let piece = Piece { first: *first, level: *level, values };
                merge.insert(piece).map_err(|_| PassError::Strange)?;
            }
            for piece in &own {
                let values = piece.values[chunk * CHUNK..][..into.len()].to_vec();
                merge.insert(Piece { values, ..*piece }).map_err(|_| PassError::Strange)?;
            }
            if self.rank + 1 == self.size {
                into.copy_from_slice(&merge.total());
            } else {
                let frame = |piece: Piece| self.frame(chunk, piece.first, piece.level, piece.values);
                let frames: Vec<Frame> = merge.into_pieces().into_iter().map(frame).collect();
                self.neighbours.after.send(&frames).map_err(PassError::After)?;
            }
        }
        // Only now the total goes round: before, everybody may be busy sending, and nobody would receive it.
        let last = self.rank + 1 == self.size;
        for (chunk, into) in total.chunks_mut(CHUNK).enumerate() {
            if !last {
                into.copy_from_slice(&self.receive(chunk, 0, u32::MAX, into.len())?);
            }
            if self.rank + 2 != self.size {
                let frame = self.frame(chunk, 0, u32::MAX, into.to_vec());
                self.neighbours.after.send(&[frame]).map_err(PassError::After)?;
            }
        }
        Ok(total)
    }

    fn frame(&self, chunk: usize, first: usize, level: u32, values: Vec<f64>) -> Frame {
        let (block, first, count) = (chunk as u32, first as u32, self.size as u32);
        Frame::Numbers(Numbers { version: self.sum, block, first, level, count, values })
    }

    fn receive(
        &mut self,
        chunk: usize,
        first: usize,
        level: u32,
        width: usize,
    ) -> Result<Vec<f64>, PassError> {
        let frame = hear(&mut self.neighbours.before).map_err(PassError::Before)?;
        if let Ok(Message::Abort { reason }) = frame.parse() {
            return Err(PassError::Told(reason));
        }
        match frame {
            Frame::Numbers(numbers)
                if numbers.version == self.sum
                    && numbers.block as usize == chunk
                    && (numbers.first as usize, numbers.level) == (first, level)
                    && numbers.values.len() == width =>
            {
                Ok(numbers.values)
            }
            _ => Err(PassError::Strange),
        }
    }
}

/// The next frame that is no beat.
fn hear(from: &mut Reader) -> Result<Frame, FrameError> {
    loop {
        match Frame::read(from)? {
            Frame::Beat => {}
            frame => return Ok(frame),
        }
    }
}

fn lost(who: impl Into<String>) -> impl FnOnce(FrameError) -> TrainError {
    move |error| TrainError::Lost { who: who.into(), reason: error.to_string() }
}

/// Meets the other processes. `state` is what rank 0 goes on from; the answer is the ring, and that state for the others.
pub(crate) fn meet(
    meeting: &Meeting,
    identity: &Identity,
    state: Vec<u8>,
) -> Result<(Ring, Vec<u8>), TrainError> {
    let Place { rank, world, master, .. } = &meeting.place;
    let (rank, size) = (*rank, *world);
    if size == 1 {
        return Ok((Ring { rank, size, neighbours: None, sums: 0 }, state));
    }
    if master.1 == 0 && meeting.address.is_none() {
        let wanted =
            "a free port on the machine of rank 0; or name a file with --address, and rank 0 takes any port";
        return Err(TrainError::Environment { name: "MASTER_PORT", value: "0".to_owned(), wanted });
    }
    let (listener, addresses, state) = if rank == 0 {
        let listener = listen(&format!("{}:{}", master.0, master.1))?;
        let addresses = meeting.gather(&listener, identity, &state)?;
        (listener, addresses, state)
    } else {
        meeting.report(identity)?
    };
    let next = || meeting.connect(rank, &addresses);
    let before = || meeting.accept(rank, &listener);
    // Were all to connect first, each would wait for the next one to accept.
    let (after, before) = if rank == 0 {
        let after = next()?;
        (after, before()?)
    } else {
        let before = before()?;
        (next()?, before)
    };
    let neighbours = Neighbours { before: before.reader, _before: before.writer, after: after.writer };
    Ok((Ring { rank, size, neighbours: Some(neighbours), sums: 0 }, state))
}

impl Meeting {
    /// The next connection of somebody who knows the secret.
    fn admit(&self, listener: &TcpListener, until: Instant, whom: &str) -> Result<Wire, TrainError> {
        let waiting =
            |source| TrainError::Network { act: "wait for others at", address: self.master(), source };
        listener.set_nonblocking(true).map_err(waiting)?;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(Some(wire)) = accept(stream, &self.token, self.patience) {
                        return Ok(wire);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(waiting(error)),
            }
            if Instant::now() > until {
                let seconds = self.patience.as_secs_f64();
                let reason = format!("it did not come within {seconds} s; are all ranks started?");
                return Err(TrainError::Lost { who: whom.to_owned(), reason });
            }
        }
    }

    /// Connects to the next rank.
    fn connect(&self, rank: usize, addresses: &[SocketAddr]) -> Result<Wire, TrainError> {
        let next = (rank + 1) % addresses.len();
        let wire = connect(&addresses[next].to_string(), &self.token, self.patience)?;
        wire.writer.send(&[Frame::text(&Message::Next { rank })]).map_err(lost(format!("rank {next}")))?;
        Ok(wire)
    }

    /// Waits for the rank before.
    fn accept(&self, rank: usize, listener: &TcpListener) -> Result<Wire, TrainError> {
        let before = (rank + self.place.world - 1) % self.place.world;
        let until = Instant::now() + self.patience;
        loop {
            let mut wire = self.admit(listener, until, &format!("rank {before}"))?;
            match hear(&mut wire.reader).and_then(|frame| frame.parse()) {
                Ok(Message::Next { rank }) if rank == before => return Ok(wire),
                // Somebody of another job with the same secret, or of an attempt that is over.
                _ => drop(wire),
            }
        }
    }

    fn master(&self) -> String {
        format!("{}:{}", self.place.master.0, self.place.master.1)
    }

    /// Rank 0: waits for all, and tells them of each other.
    fn gather(
        &self,
        listener: &TcpListener,
        identity: &Identity,
        state: &[u8],
    ) -> Result<Vec<SocketAddr>, TrainError> {
        let own = listener.local_addr();
        let own =
            own.map_err(|source| TrainError::Network { act: "listen on", address: self.master(), source })?;
        if let Some(path) = &self.address {
            crate::address::write(path, own)?;
        }
        let mut members: Vec<Option<(Wire, SocketAddr)>> = (0..self.place.world).map(|_| None).collect();
        let until = Instant::now() + self.patience;
        while let Some(missing) = (1..members.len()).find(|rank| members[*rank].is_none()) {
            let mut wire = self.admit(listener, until, &format!("rank {missing}"))?;
            let Ok(Message::Here { rank, world, identity: other, address }) =
                hear(&mut wire.reader).and_then(|frame| frame.parse())
            else {
                continue;
            };
            let taken = members.get(rank).is_none_or(|member| rank == 0 || member.is_some());
            let wrong = if world != members.len() {
                Some(format!("its WORLD_SIZE is {world}, and that of rank 0 is {}", members.len()))
            } else if taken {
                Some(format!("there is a rank {rank} already, or none such"))
            } else {
                other.differs(identity, "rank 0")
            };
            if let Some(reason) = wrong {
                let reason_told = format!("rank {rank} cannot join: {reason}");
                let told = [Frame::text(&Message::Abort { reason: reason_told })];
                let _ = wire.writer.send(&told);
                members.iter().flatten().for_each(|(wire, _)| drop(wire.writer.send(&told)));
                return Err(TrainError::Lost { who: format!("rank {rank}"), reason });
            }
            members[rank] = Some((wire, address));
        }
        let others = members.iter().flatten().map(|(_, address)| *address);
        let addresses: Vec<SocketAddr> = std::iter::once(own).chain(others).collect();
        let mut frames =
            vec![Frame::text(&Message::All { addresses: addresses.clone(), state: state.len() })];
        frames.extend(state.chunks(4 * MOST_VALUES_IN_FRAME).map(|bytes| Frame::Bytes(bytes.to_vec())));
        for (rank, member) in members.iter().enumerate() {
            if let Some((wire, _)) = member {
                wire.writer.send(&frames).map_err(lost(format!("rank {rank}")))?;
            }
        }
        Ok(addresses)
    }

    /// Another rank: tells rank 0 that it is here, and waits for the word that all are.
    fn report(&self, identity: &Identity) -> Result<(TcpListener, Vec<SocketAddr>, Vec<u8>), TrainError> {
        let master = match &self.address {
            Some(path) if self.place.master.1 == 0 => crate::address::wait(path, self.patience)?,
            _ => self.master(),
        };
        let mut wire = connect(&master, &self.token, self.patience)?;
        let listener = listen(&SocketAddr::new(wire.local.ip(), 0).to_string())?;
        let address = listener.local_addr().expect("it listens");
        let Place { rank, world, .. } = self.place;
        let here = Message::Here { rank, world, identity: identity.clone(), address };
        wire.writer.send(&[Frame::text(&here)]).map_err(lost("rank 0"))?;
        let frame = hear(&mut wire.reader).map_err(lost("rank 0"))?;
        let strange = |reason: &str| TrainError::Lost { who: "rank 0".to_owned(), reason: reason.to_owned() };
        let (addresses, length) = match frame.parse().map_err(lost("rank 0"))? {
            Message::All { addresses, state } if addresses.len() == world && state <= MOST_STATE => {
                (addresses, state)
            }
            Message::Abort { reason } => return Err(strange(&format!("it tells that {reason}"))),
            _ => return Err(strange("it sent something else than the list of all ranks")),
        };
        let mut state = Vec::new();
        while state.len() < length {
            match hear(&mut wire.reader).map_err(lost("rank 0"))? {
                Frame::Bytes(bytes) if !bytes.is_empty() && state.len() + bytes.len() <= length => {
                    state.extend(bytes);
                }
                _ => return Err(strange("it sent something else than its state")),
            }
        }
        Ok((listener, addresses, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_checked_with_its_names() {
        let place = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
            Place::from(&find)
        };
        let all = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "10.0.0.7"), ("MASTER_PORT", "29500")];
        let wanted = Place {
            rank: 1,
            world: 4,
            local_rank: 1,
            local_world: 4,
            master: ("10.0.0.7".to_owned(), 29500),
        };
        assert_eq!(place(&all).unwrap(), wanted);
        let agent = [&all[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(place(&agent).unwrap().master.1, 0, "the port is that of the agent");
        let two = [&all[..], &[("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")]].concat();
        assert_eq!(place(&two).unwrap(), Place { local_rank: 0, local_world: 2, ..wanted });
        for (wrong, name) in [
            (&[("RANK", "4"), ("WORLD_SIZE", "4")][..], "RANK"),
            (&[("RANK", "0")], "WORLD_SIZE"),
            (&[("WORLD_SIZE", "2")], "RANK"),
            (&[("RANK", "0"), ("WORLD_SIZE", "0")], "WORLD_SIZE"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "70000")], "MASTER_PORT"),
            (&[("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "2")], "LOCAL_RANK"),
        ] {
            let told = place(wrong).unwrap_err();
            assert!(matches!(told, TrainError::Environment { name: told, .. } if told == name), "{told}");
        }
    }
}
