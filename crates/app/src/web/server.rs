//! Listens, with or without TLS, until it is told to leave.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::{SignalKind, signal};

use super::office::Office;
use super::routes::service;
use crate::failure::Failure;

/// The file with the address at which a daemon listens.
pub(crate) const ADDRESS: &str = "address";
/// How long requests may take to end when the daemon leaves.
const LEAVING: Duration = Duration::from_secs(3);

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// The file with the certificate and those above it.
    pub(crate) certificate: PathBuf,
    /// The file with its private key.
    pub(crate) key: PathBuf,
}

/// A service that listens already.
pub(crate) struct Server {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Begins to listen; nobody is answered yet.
    pub(crate) fn listen(address: SocketAddr, tls: Option<&Tls>) -> Result<Self, Failure> {
        let tls = tls.map(Tls::load).transpose()?;
        let refuse = |source| Failure::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refuse)?;
        listener.set_nonblocking(true).map_err(refuse)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Ok(Self { listener, tls, runtime: runtime.map_err(refuse)? })
    }

    /// Where it listens, as the beginning of a URL.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.listener.local_addr().map_or_else(|_| String::new(), |address| format!("{scheme}://{address}"))
    }

    /// Answers until the process is told to end (SIGTERM or SIGINT).
    pub(crate) fn serve(self, office: Arc<Office>) -> Result<(), Failure> {
        let address = self.listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 0)));
        let refuse = |source| Failure::Listen { address, source };
        let Self { listener, tls, runtime } = self;
        runtime.block_on(async move {
            let handle = Handle::new();
            let (mut term, mut int) = (
                signal(SignalKind::terminate()).map_err(refuse)?,
                signal(SignalKind::interrupt()).map_err(refuse)?,
            );
            let (stop, closes) = (handle.clone(), Arc::clone(&office));
            tokio::spawn(async move {
                tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
                closes.close();
                stop.graceful_shutdown(Some(LEAVING));
            });
            let service = service(office).into_make_service();
            match tls {
                Some(config) => {
                    let server = axum_server::from_tcp_rustls(listener, RustlsConfig::from_config(config));
                    server.map_err(refuse)?.handle(handle).serve(service).await
                }
                None => axum_server::from_tcp(listener).map_err(refuse)?.handle(handle).serve(service).await,
            }
            .map_err(refuse)
        })
    }
}

impl Tls {
    fn load(&self) -> Result<Arc<rustls::ServerConfig>, Failure> {
        let bad = |path: &Path, why: String| Failure::file("use", path)(std::io::Error::other(why));
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| bad(&self.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(bad(&self.certificate, "there is no certificate in it".to_owned()));
        }
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| bad(&self.key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| bad(&self.certificate, error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
