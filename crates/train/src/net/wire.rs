//! One connection: it is opened with the handshake, and split into a side that is read and one that is written.

use std::io::{BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::frame::{Frame, FrameError};
use super::token::Token;
use crate::error::TrainError;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long to wait for an answer where perhaps nobody listens.
const KNOCK: Duration = Duration::from_secs(1);
/// The longest time between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// How long to wait before another attempt to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// What can be read from.
pub(crate) type Reader = BufReader<TcpStream>;

/// What can be written to, by several threads.
pub(crate) struct Writer {
    stream: Mutex<BufWriter<TcpStream>>,
}

/// An open connection.
pub(crate) struct Wire {
    pub(crate) reader: Reader,
    pub(crate) writer: Arc<Writer>,
    pub(crate) local: SocketAddr,
}

impl Writer {
    /// Sends frames. They leave together.
    pub(crate) fn send(&self, frames: &[Frame]) -> Result<(), FrameError> {
        let mut stream = self.stream.lock().expect("nobody panicked while holding it");
        frames.iter().try_for_each(|frame| frame.write(&mut *stream))?;
        Ok(stream.flush()?)
    }

    /// A sign of life, unless something is being sent anyway.
    fn beat(&self) -> std::io::Result<()> {
        match self.stream.try_lock() {
            Ok(mut stream) => Frame::Beat.write(&mut *stream).and_then(|()| stream.flush()),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Poisoned(_)) => Err(std::io::ErrorKind::Other.into()),
        }
    }
}

impl Drop for Writer {
    /// The other side learns that nothing more comes once it has all that was sent; then it closes, and so the reading side ends.
    fn drop(&mut self) {
        if let Ok(stream) = self.stream.get_mut() {
            let _ = stream.flush();
            let _ = stream.get_ref().shutdown(std::net::Shutdown::Write);
        }
    }
}

/// Listens. Port 0 takes any that is free.
pub(crate) fn listen(address: &str) -> Result<TcpListener, TrainError> {
    let refuse = |source| TrainError::Network { act: "listen on", address: address.to_owned(), source };
    TcpListener::bind(resolve(address).map_err(refuse)?.as_slice()).map_err(refuse)
}

/// Connects; whoever does not listen yet is tried again until `patience` is over.
pub(crate) fn connect(address: &str, token: &Token, patience: Duration) -> Result<Wire, TrainError> {
    let refuse = |source| TrainError::Network { act: "connect to", address: address.to_owned(), source };
    let addresses = resolve(address).map_err(refuse)?;
    let until = Instant::now() + patience;
    let stream = loop {
        match TcpStream::connect(addresses.as_slice()) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() + AGAIN > until => return Err(refuse(error)),
            Err(_) => std::thread::sleep(AGAIN),
        }
    };
    greet(stream, token, patience).map_err(refuse)
}

/// Connects if somebody listens there now.
pub(crate) fn reach(address: &str, token: &Token, patience: Duration) -> Result<Wire, TrainError> {
    let refuse = |source| TrainError::Network { act: "connect to", address: address.to_owned(), source };
    let nobody = || std::io::Error::new(std::io::ErrorKind::NotFound, "it is no address");
    let address = resolve(address).and_then(|all| all.first().copied().ok_or_else(nobody)).map_err(refuse)?;
    let stream = TcpStream::connect_timeout(&address, KNOCK).map_err(refuse)?;
    greet(stream, token, patience).map_err(refuse)
}

/// Shows the other side that this one knows the secret, and has it shown.
fn greet(stream: TcpStream, token: &Token, patience: Duration) -> std::io::Result<Wire> {
    prepare(&stream, HANDSHAKE)?;
    if !token.greet(&stream)? {
        let reason = "the other side does not know this job's secret";
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason));
    }
    open(stream, patience)
}

/// Opens a connection that came in, if it knows the secret.
pub(crate) fn accept(stream: TcpStream, token: &Token, patience: Duration) -> std::io::Result<Option<Wire>> {
    prepare(&stream, HANDSHAKE)?;
    if !token.challenge(&stream)? {
        return Ok(None);
    }
    open(stream, patience).map(Some)
}

fn resolve(address: &str) -> std::io::Result<Vec<SocketAddr>> {
    Ok(address.to_socket_addrs()?.collect())
}

fn prepare(stream: &TcpStream, patience: Duration) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))
}

fn open(stream: TcpStream, patience: Duration) -> std::io::Result<Wire> {
    prepare(&stream, patience)?;
    let local = stream.local_addr()?;
    let reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    let writer = Arc::new(Writer { stream: Mutex::new(BufWriter::with_capacity(64 << 10, stream)) });
    let weak = Arc::downgrade(&writer);
    std::thread::spawn(move || {
        // Often enough that a peer's patience does not end, and that the thread is soon over when the connection is.
        loop {
            std::thread::sleep((patience / 5).min(BEAT));
            let Some(writer) = weak.upgrade() else { break };
            if writer.beat().is_err() {
                break;
            }
        }
    });
    Ok(Wire { reader, writer, local })
}
