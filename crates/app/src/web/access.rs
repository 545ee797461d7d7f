//! Who may do what. A token is 32 random bytes; only its SHA-256 is kept, and compared in constant time. What a request may
//! see is asked of its [`Caller`] and nowhere else.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use trainyard_sched::model::{TenantId, Tenants};
use utoipa::ToSchema;

use super::office::Office;
use super::problem::{Kind, Problem};
use crate::failure::Failure;

/// The file with the administrator's token, as it is sent.
pub(crate) const ADMIN_TOKEN: &str = "admin-token";
/// The file with everybody else's, as hashes.
const TOKENS: &str = "tokens.json";
/// What tokens begin with, so that scanners for secrets find them.
const PREFIX: &str = "trainyard_";

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// May do everything.
    Admin,
    /// May submit, look at and cancel jobs of its tenant.
    User,
    /// May look, at its tenant's jobs or at all.
    Viewer,
}

/// A token as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeptToken {
    /// What it is called when it is taken back.
    pub(crate) id: String,
    /// What it is for.
    pub(crate) role: Role,
    /// Whose it is; nobody's in particular if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The SHA-256 of the token, in hexadecimal digits.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) sha256: String,
}

/// The tokens of a folder.
pub(crate) struct Access {
    path: PathBuf,
    kept: RwLock<Vec<KeptToken>>,
    admin: [u8; 32],
    /// Changes whenever a token is taken back.
    removed: watch::Sender<()>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    role: Role,
    tenant: Option<TenantId>,
    /// The id of its token; the first administrator's has none.
    token: Option<String>,
}

impl Caller {
    /// Whether it may see what belongs to this tenant.
    pub(crate) fn sees(&self, tenant: TenantId) -> bool {
        match self.tenant {
            Some(own) => own == tenant,
            None => self.role != Role::User,
        }
    }

    /// What it may do.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The tenant whose jobs it may see; `None` for all.
    pub(crate) fn sees_only(&self) -> Option<TenantId> {
        self.tenant
    }

    /// Whether it may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Refuses all but administrators.
    pub(crate) fn must_be_admin(&self) -> Result<(), Problem> {
        if self.is_admin() {
            return Ok(());
        }
        Err(Problem::new(Kind::Forbidden, "only an administrator may do this"))
    }

    /// Refuses those who may only look.
    pub(crate) fn must_write(&self) -> Result<(), Problem> {
        match self.role {
            Role::Admin | Role::User => Ok(()),
            Role::Viewer => Err(Problem::new(Kind::Forbidden, "this token may only look")),
        }
    }
}

/// The token that a request was sent with.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let refuse = |why: &str| Problem::new(Kind::Unauthorized, why);
    let header = headers.get(AUTHORIZATION).ok_or_else(|| refuse("there is no `Authorization` header"))?;
    let token = header.to_str().ok().and_then(|text| text.split_once(' '));
    let token =
        token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    token.ok_or_else(|| refuse("the `Authorization` header is not `Bearer TOKEN`"))
}

impl FromRequestParts<Arc<Office>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, office: &Arc<Office>) -> Result<Self, Problem> {
        let token = bearer(&parts.headers)?;
        let unknown = || Problem::new(Kind::Unauthorized, "this token is not known");
        office.access.caller(token, office.handle.tenants()).ok_or_else(unknown)
    }
}

impl Access {
    /// The tokens of a folder; at the first start the administrator's is made.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let admin_path = folder.join(ADMIN_TOKEN);
        let token = match std::fs::read_to_string(&admin_path) {
            Ok(token) if !token.trim().is_empty() => token.trim().to_owned(),
            Ok(_) => make_admin(&admin_path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make_admin(&admin_path)?,
            Err(error) => return Err(Failure::file("read", &admin_path)(error)),
        };
        let path = folder.join(TOKENS);
        let kept = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Failure::file("read", &path)(std::io::Error::from(error)))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Failure::file("read", &path)(error)),
        };
        Ok(Self {
            path,
            kept: RwLock::new(kept),
            admin: Sha256::digest(token.as_bytes()).into(),
            removed: watch::Sender::new(()),
        })
    }

    /// Who sends this token. Every kept hash is looked at, so that the time says nothing.
    fn caller(&self, token: &str, tenants: &Tenants) -> Option<Caller> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let given = hexadecimal(&hash);
        let is_admin = bool::from(hash.ct_eq(&self.admin));
        let mut found = None;
        for kept in &*self.kept.read().unwrap_or_else(PoisonError::into_inner) {
            if bool::from(kept.sha256.as_bytes().ct_eq(given.as_bytes())) {
                found = Some(kept.clone());
            }
        }
        if is_admin {
            return Some(Caller { role: Role::Admin, tenant: None, token: None });
        }
        let kept = found?;
        let tenant = match kept.tenant {
            Some(name) => Some(tenants.find(&name)?),
            None if kept.role == Role::User => return None,
            None => None,
        };
        Some(Caller { role: kept.role, tenant, token: Some(kept.id) })
    }

    /// Whether the token of one who asked some time ago is still good.
    pub(crate) fn knows(&self, caller: &Caller) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        caller.token.as_ref().is_none_or(|id| kept.iter().any(|kept| kept.id == *id))
    }

    /// Changes whenever a token is taken back.
    pub(crate) fn removed(&self) -> watch::Receiver<()> {
        self.removed.subscribe()
    }

    /// Makes a token. It is told once and cannot be had again.
    pub(crate) fn add(&self, role: Role, tenant: Option<String>) -> std::io::Result<(KeptToken, String)> {
        let token = new_token()?;
        let sha256 = hexadecimal(&Sha256::digest(token.as_bytes()));
        let kept = KeptToken { id: sha256[..12].to_owned(), role, tenant, sha256 };
        let mut all = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        all.push(kept.clone());
        if let Err(error) = self.write(&all) {
            all.pop();
            return Err(error);
        }
        Ok((kept, token))
    }

    /// Takes a token back; whether there was one of this id.
    pub(crate) fn remove(&self, id: &str) -> std::io::Result<bool> {
        let mut all = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        let left: Vec<KeptToken> = all.iter().filter(|kept| kept.id != id).cloned().collect();
        let was_there = left.len() < all.len();
        if was_there {
            self.write(&left)?;
            *all = left;
            self.removed.send_replace(());
        }
        Ok(was_there)
    }

    /// All of them, without their hashes.
    pub(crate) fn all(&self) -> Vec<KeptToken> {
        let all = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|kept| KeptToken { sha256: String::new(), ..kept.clone() }).collect()
    }

    fn write(&self, all: &[KeptToken]) -> std::io::Result<()> {
        let text = serde_json::to_string_pretty(all)? + "\n";
        let new = self.path.with_extension("json.new");
        write_secret(&new, &text)?;
        std::fs::rename(&new, &self.path)
    }
}

fn make_admin(path: &Path) -> Result<String, Failure> {
    let token = new_token().map_err(Failure::file("make a token for", path))?;
    write_secret(path, &format!("{token}\n")).map_err(Failure::file("write", path))?;
    Ok(token)
}

/// Writes a file that nobody else may read, whole and on disk.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let _ = std::fs::remove_file(path);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn new_token() -> std::io::Result<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{PREFIX}{}", hexadecimal(&bytes)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
