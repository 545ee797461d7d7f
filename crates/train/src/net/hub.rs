//! All connections of a process in one place: a thread reads each, and what happens comes out of one queue, one event after the other.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::frame::{Frame, FrameError};
use super::token::Token;
use super::wire::{Reader, Wire, Writer, accept, connect, listen, reach};
use crate::error::TrainError;

/// The most connections at a time, strangers among them.
const MOST_CONNECTIONS: usize = 512;

/// A connection by number.
pub(crate) type Peer = usize;

/// What happened on a connection.
#[derive(Debug)]
pub(crate) enum What {
    /// Somebody who knows the secret connected.
    Joined,
    /// A frame that is no beat.
    Frame(Frame),
    /// It is over.
    Gone(FrameError),
}

enum Event {
    Joined(Peer, Arc<Writer>),
    Frame(Peer, Frame),
    Gone(Peer, FrameError),
}

/// The connections of a process.
pub(crate) struct Hub {
    token: Token,
    patience: Duration,
    events: Receiver<Event>,
    sender: Sender<Event>,
    writers: BTreeMap<Peer, Arc<Writer>>,
    numbers: Arc<AtomicUsize>,
    listening: Option<Listening>,
}

struct Listening {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, which then closes its socket.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Hub {
    pub(crate) fn new(token: Token, patience: Duration) -> Self {
        let (sender, events) = channel();
        let (writers, numbers) = (BTreeMap::new(), Arc::new(AtomicUsize::new(0)));
        Self { token, patience, events, sender, writers, numbers, listening: None }
    }

    /// Lets others connect; the answer is the address with its port.
    pub(crate) fn listen(&mut self, address: &str) -> Result<SocketAddr, TrainError> {
        let refuse = |source| TrainError::Network { act: "listen on", address: address.to_owned(), source };
        let listener = listen(address)?;
        let address = listener.local_addr().map_err(refuse)?;
        let over = Arc::new(AtomicBool::new(false));
        let door = Door {
            token: self.token.clone(),
            patience: self.patience,
            sender: self.sender.clone(),
            numbers: Arc::clone(&self.numbers),
            open: Arc::new(AtomicUsize::new(0)),
        };
        let stop = Arc::clone(&over);
        std::thread::spawn(move || door.keep(&listener, &stop));
        self.listening = Some(Listening { address, over });
        Ok(address)
    }

    /// Connects to somebody who listens, and says from which address.
    pub(crate) fn connect(&mut self, address: &str) -> Result<(Peer, SocketAddr), TrainError> {
        let wire = connect(address, &self.token, self.patience)?;
        let local = wire.local;
        Ok((self.take(wire), local))
    }

    /// Connects to somebody if he listens now.
    pub(crate) fn reach(&mut self, address: &str) -> Result<Peer, TrainError> {
        let wire = reach(address, &self.token, self.patience)?;
        Ok(self.take(wire))
    }

    fn take(&mut self, Wire { reader, writer, .. }: Wire) -> Peer {
        let peer = self.numbers.fetch_add(1, Ordering::SeqCst);
        self.writers.insert(peer, writer);
        let sender = self.sender.clone();
        std::thread::spawn(move || read(peer, reader, &sender));
        peer
    }

    /// What happened next, if anything does in this time.
    pub(crate) fn next(&mut self, time: Duration) -> Option<(Peer, What)> {
        match self.events.recv_timeout(time) {
            Ok(Event::Joined(peer, writer)) => {
                self.writers.insert(peer, writer);
                Some((peer, What::Joined))
            }
            Ok(Event::Frame(peer, frame)) => Some((peer, What::Frame(frame))),
            Ok(Event::Gone(peer, error)) => {
                self.writers.remove(&peer);
                Some((peer, What::Gone(error)))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the hub itself holds a sender"),
        }
    }

    /// Sends frames. To whom it is not possible: that comes out of the queue as well, with the reason.
    pub(crate) fn send(&mut self, peer: Peer, frames: &[Frame]) {
        let Some(writer) = self.writers.get(&peer) else { return };
        if let Err(error) = writer.send(frames) {
            self.writers.remove(&peer);
            let _ = self.sender.send(Event::Gone(peer, error));
        }
    }

    /// Ends a connection from this side.
    pub(crate) fn leave(&mut self, peer: Peer) {
        self.writers.remove(&peer);
    }

    /// All who are connected.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.writers.keys().copied().collect()
    }
}

/// What reads a connection until it is over.
fn read(peer: Peer, mut reader: Reader, sender: &Sender<Event>) {
    loop {
        let (event, last) = match Frame::read(&mut reader) {
            Ok(Frame::Beat) => continue,
            Ok(frame) => (Event::Frame(peer, frame), false),
            Err(error) => (Event::Gone(peer, error), true),
        };
        if sender.send(event).is_err() || last {
            break;
        }
    }
}

/// Where others come in.
struct Door {
    token: Token,
    patience: Duration,
    sender: Sender<Event>,
    numbers: Arc<AtomicUsize>,
    /// How many connections are open.
    open: Arc<AtomicUsize>,
}

impl Door {
    fn keep(self, listener: &TcpListener, over: &AtomicBool) {
        let door = Arc::new(self);
        loop {
            let stream = listener.accept();
            if over.load(Ordering::SeqCst) {
                break;
            }
            let Ok((stream, _)) = stream else {
                // Too many open files, say: others may close some.
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            if door.open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                door.open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let door = Arc::clone(&door);
            std::thread::spawn(move || {
                door.serve(stream);
                door.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    /// One connection. A stranger is left without a word, and nobody is told: anybody may knock.
    fn serve(&self, stream: TcpStream) {
        if let Ok(Some(Wire { reader, writer, .. })) = accept(stream, &self.token, self.patience) {
            let peer = self.numbers.fetch_add(1, Ordering::SeqCst);
            if self.sender.send(Event::Joined(peer, writer)).is_ok() {
                read(peer, reader, &self.sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn hub(secret: &str, patience: Duration) -> Hub {
        Hub::new(Token::new(secret).unwrap(), patience)
    }

    #[test]
    fn those_who_know_the_secret_come_in_and_speak() {
        let (mut one, mut two) = (hub("a secret of the job", SOON), hub("a secret of the job", SOON));
        let address = one.listen("127.0.0.1:0").unwrap();
        let (to, _) = two.connect(&address.to_string()).unwrap();
        two.send(to, &[Frame::Beat, Frame::text(&5)]);
        let Some((peer, What::Joined)) = one.next(SOON) else { panic!() };
        let Some((_, What::Frame(frame))) = one.next(SOON) else { panic!() };
        assert_eq!(frame.parse::<u32>().unwrap(), 5);
        one.send(peer, &[Frame::text(&6)]);
        let Some((_, What::Frame(frame))) = two.next(SOON) else { panic!() };
        assert_eq!(frame.parse::<u32>().unwrap(), 6);
        drop(two);
        assert!(matches!(one.next(SOON), Some((_, What::Gone(FrameError::Closed)))));
        drop(one);
        let until = std::time::Instant::now() + SOON;
        while TcpStream::connect(address).is_ok() {
            assert!(std::time::Instant::now() < until, "somebody still listens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn strangers_are_left_and_others_still_come_in() {
        let mut one = hub("a secret of the job", SOON);
        let address = one.listen("127.0.0.1:0").unwrap();
        let told = hub("another secret here", SOON).connect(&address.to_string()).err().unwrap();
        assert!(format!("{told:?}").contains("does not know this job's secret"), "{told:?}");
        for garbage in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0; 200], b"trnyard1", b""] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(garbage).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.len() <= 72, "{} bytes for {garbage:?}", rest.len());
        }
        // Right in form, and its answer is a guess.
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[&b"trnyard1"[..], &[1; 64]].concat()).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(one.next(Duration::from_millis(50)).is_none(), "nobody came in");
        let mut two = hub("a secret of the job", SOON);
        two.connect(&address.to_string()).unwrap();
        assert!(matches!(one.next(SOON), Some((_, What::Joined))));
    }

    #[test]
    fn who_is_silent_is_gone_and_who_beats_is_not() {
        let patience = Duration::from_millis(300);
        let mut one = hub("a secret of the job", patience);
        let address = one.listen("127.0.0.1:0").unwrap();
        let mut beating = hub("a secret of the job", patience);
        beating.connect(&address.to_string()).unwrap();
        assert!(matches!(one.next(SOON), Some((_, What::Joined))));
        // The same handshake by hand, and then nothing.
        let stream = TcpStream::connect(address).unwrap();
        assert!(Token::new("a secret of the job").unwrap().greet(&stream).unwrap());
        let Some((silent, What::Joined)) = one.next(SOON) else { panic!() };
        let Some((gone, What::Gone(FrameError::Silent))) = one.next(SOON) else { panic!() };
        assert_eq!(gone, silent);
        assert!(one.next(patience * 3).is_none(), "the one that beats stays");
    }
}
