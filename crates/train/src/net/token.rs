//! The secret that the processes of a job share, and the handshake by which two of them show each other that they know it.
//!
//! Each side sends a nonce and answers the other's by HMAC-SHA-256 (RFC 2104), so the secret itself is never sent and an old answer
//! is of no use. A side that does not answer rightly is left before anything else of it is read.

use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::TrainError;

/// The environment variable that holds the secret.
const VARIABLE: &str = "TRAINYARD_JOB_TOKEN";
/// A shorter secret could be guessed.
const LEAST_BYTES: usize = 16;
/// What a connection begins with: a name and the version of the protocol.
const MAGIC: [u8; 8] = *b"trnyard1";

type Nonce = [u8; 32];

/// The secret of a job.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// The secret in the environment.
    pub fn from_environment() -> Result<Self, TrainError> {
        Self::new(&std::env::var(VARIABLE).unwrap_or_default())
    }

    /// A secret.
    pub fn new(secret: &str) -> Result<Self, TrainError> {
        if secret.len() < LEAST_BYTES {
            return Err(TrainError::Environment {
                name: VARIABLE,
                value: "*".repeat(secret.len()),
                wanted: "a secret of at least 16 bytes that all processes of the job share",
            });
        }
        Ok(Self(secret.as_bytes().to_vec()))
    }

    fn answer(&self, side: &[u8], to: &Nonce, own: &Nonce) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.chain_update(MAGIC).chain_update(side).chain_update(to).chain_update(own)
    }

    /// The handshake of the side that connects; false if the other side does not know the secret.
    pub(super) fn greet(&self, mut stream: impl Read + Write) -> std::io::Result<bool> {
        let own = nonce();
        stream.write_all(&[&MAGIC[..], &own].concat())?;
        let Some(theirs) = opening(&mut stream)? else { return Ok(false) };
        if !self.check(&mut stream, b"accepts", &own, &theirs)? {
            return Ok(false);
        }
        stream.write_all(&self.answer(b"connects", &theirs, &own).finalize().into_bytes())?;
        Ok(true)
    }

    /// The handshake of the side that was connected to.
    pub(super) fn challenge(&self, mut stream: impl Read + Write) -> std::io::Result<bool> {
        let Some(theirs) = opening(&mut stream)? else { return Ok(false) };
        let own = nonce();
        let answer = self.answer(b"accepts", &theirs, &own).finalize().into_bytes();
        stream.write_all(&[&MAGIC[..], &own, &answer].concat())?;
        self.check(&mut stream, b"connects", &own, &theirs)
    }

    /// Reads an answer. The comparison takes the same time wherever they differ.
    fn check(&self, from: &mut impl Read, side: &[u8], to: &Nonce, own: &Nonce) -> std::io::Result<bool> {
        let mut answer = [0; 32];
        from.read_exact(&mut answer)?;
        Ok(self.answer(side, to, own).verify_slice(&answer).is_ok())
    }
}

/// Reads the nonce of the other side, if it speaks this protocol.
fn opening(from: &mut impl Read) -> std::io::Result<Option<Nonce>> {
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Ok(None);
    }
    let mut nonce = [0; 32];
    from.read_exact(&mut nonce)?;
    Ok(Some(nonce))
}

/// Bytes that nobody foresees: the standard library seeds its hashers from the system's source of randomness.
fn nonce() -> Nonce {
    let mut hash = Sha256::new();
    for _ in 0..4 {
        hash.update(std::hash::RandomState::new().build_hasher().finish().to_le_bytes());
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    hash.update(now.map_or(0, |now| now.as_nanos()).to_le_bytes());
    hash.update(std::process::id().to_le_bytes());
    hash.finalize().into()
}
