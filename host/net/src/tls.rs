//! TLS: trusted roots, and classification of certificate errors.
//!
//! The roots are the platform's, read as certificates and evaluated by rustls. The platform's own verifier is not used:
//! on Windows and macOS, it fetches missing certificates from URLs in the certificate, which would bypass every rule of
//! this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use mimir_core::network::{NetworkHost, RequestTarget};

use crate::error::Error;
use crate::stream::H2;

/// Length of a PEM line in characters (RFC 7468 section 2).
const PEM_LINE: usize = 64;

/// Trusted root certificates, read once and shared by all clients.
#[derive(Debug, Clone, Default)]
pub struct TlsRoots {
    extra: Vec<CertificateDer<'static>>,
    /// Reason why the roots are unavailable. Reported only when a TLS connection is made, since unencrypted connections
    /// need no roots.
    read_error: Option<Error>,
}

/// The platform's roots, read when the first TLS connection is made: parsing them takes milliseconds.
static PLATFORM_ROOTS: LazyLock<Vec<CertificateDer<'static>>> = LazyLock::new(|| {
    let platform = rustls_native_certs::load_native_certs();
    for error in &platform.errors {
        tracing::warn!(%error, "cannot read a root certificate of the platform");
    }
    platform.certs
});

impl TlsRoots {
    /// Reads the files listed in `network.extraRoots`, with paths relative to `folder`.
    pub fn from_folder(folder: &Path, files: &[String]) -> Result<Self, Error> {
        let files: Vec<PathBuf> = files.iter().map(|file| folder.join(file)).collect();
        Self::with_extra(&files)
    }

    /// Returns the platform's roots and the certificates of these PEM files. Fails if a file cannot be read, or
    /// contains no certificate or one that cannot be used.
    pub fn with_extra(files: &[PathBuf]) -> Result<Self, Error> {
        let mut extra = Vec::new();
        for file in files {
            let roots_error = |why: String| Error::Roots {
                path: mimir_core::text::visible(&file.display().to_string()),
                why,
            };
            let count_before = extra.len();
            let read = CertificateDer::pem_file_iter(file);
            for certificate in read.map_err(|e| roots_error(format!("cannot be read: {e}")))? {
                let certificate = certificate
                    .map_err(|e| roots_error(format!("is not a valid PEM file: {e}")))?;
                let usable = RootCertStore::empty().add(certificate.clone());
                usable.map_err(|e| {
                    roots_error(format!("has a certificate that cannot be used: {e}"))
                })?;
                extra.push(certificate);
            }
            if extra.len() == count_before {
                return Err(roots_error("contains no certificate".to_owned()));
            }
        }
        Ok(Self {
            extra,
            read_error: None,
        })
    }

    /// Returns unavailable roots: every TLS connection fails with this error; unencrypted connections work as usual.
    pub fn unavailable(error: Error) -> Self {
        Self {
            extra: Vec::new(),
            read_error: Some(error),
        }
    }

    /// Returns true if the roots could not be read.
    pub fn is_unavailable(&self) -> bool {
        self.read_error.is_some()
    }

    /// Returns all roots as PEM text, for the certificate files of programs.
    pub fn pem(&self) -> String {
        let mut text = String::new();
        for certificate in PLATFORM_ROOTS.iter().chain(&self.extra) {
            let encoded = STANDARD.encode(certificate);
            text.push_str("-----BEGIN CERTIFICATE-----\n");
            let mut rest = encoded.as_str();
            while !rest.is_empty() {
                let (line, more) = rest.split_at(rest.len().min(PEM_LINE));
                text.push_str(line);
                text.push('\n');
                rest = more;
            }
            text.push_str("-----END CERTIFICATE-----\n");
        }
        text
    }

    fn client_config(&self) -> Result<ClientConfig, rustls::Error> {
        let mut store = RootCertStore::empty();
        // Platforms include some old roots that current rules reject; those are skipped.
        store.add_parsable_certificates(PLATFORM_ROOTS.iter().cloned());
        store.add_parsable_certificates(self.extra.iter().cloned());
        config_with_roots(store)
    }
}

/// Creates a configuration that trusts no server, for a client without TLS connections.
pub(crate) fn config_without_roots() -> Result<ClientConfig, rustls::Error> {
    config_with_roots(RootCertStore::empty())
}

fn config_with_roots(store: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// TLS configuration of one client. Its TLS sessions are not shared with other clients.
pub(crate) struct TlsClient {
    roots: TlsRoots,
    config: OnceCell<Arc<ClientConfig>>,
}

impl TlsClient {
    pub(crate) fn new(roots: TlsRoots) -> Self {
        Self {
            roots,
            config: OnceCell::new(),
        }
    }

    /// Returns the configuration for connections to this host.
    pub(crate) async fn config(&self, target: &RequestTarget) -> Result<Arc<ClientConfig>, Error> {
        if let Some(error) = &self.roots.read_error {
            return Err(error.clone());
        }
        let config = self.config.get_or_try_init(|| async {
            let roots = self.roots.clone();
            let config = tokio::task::spawn_blocking(move || roots.client_config()).await;
            let config = config.map_err(|e| handshake_error(target, e.to_string()))?;
            config
                .map(Arc::new)
                .map_err(|e| handshake_error(target, e.to_string()))
        });
        Ok(Arc::clone(config.await?))
    }

    /// Performs the TLS handshake with the host that the URL names, regardless of its address.
    pub(crate) async fn connect(
        &self,
        target: &RequestTarget,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let connector = TlsConnector::from(self.config(target).await?);
        let name = match target.host() {
            NetworkHost::Ip(address) => ServerName::from(*address),
            NetworkHost::Name(name) => ServerName::try_from(name.to_string()).map_err(|_| {
                let why = "its name is not a valid TLS server name".to_owned();
                handshake_error(target, why)
            })?,
        };
        let connected = connector.connect(name, stream).await;
        connected.map_err(|error| tls_error(&target.host().to_string(), &error))
    }
}

fn handshake_error(target: &RequestTarget, why: String) -> Error {
    Error::Tls {
        host: target.host().to_string(),
        why,
    }
}

/// Classifies a TLS error: wrong name, untrusted certificate, or another failure.
pub(crate) fn tls_error(host: &str, error: &io::Error) -> Error {
    let host = host.to_owned();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(cause)) => match cause {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                return Error::CertificateName { host };
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "it has expired; check the clock of this machine, or ask the operator of the server to renew it"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "it is not valid yet; check the clock of this machine"
            }
            CertificateError::UnknownIssuer => {
                "it is not signed by a trusted CA; add the CA to `network.extraRoots` if you trust it"
            }
            CertificateError::BadSignature => {
                "its signature does not match its CA; this may be another server"
            }
            CertificateError::Revoked => "it was revoked; do not use this server",
            CertificateError::BadEncoding => {
                "it is not a valid certificate; check which server listens there"
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "it is not issued for servers; ask the operator of the server to replace it"
            }
            CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                "it is the certificate of a CA, not of a server; ask the operator of the server to replace it"
            }
            other => {
                let why = format!(
                    "it is not valid ({other}); ask the operator of the server to replace it"
                );
                return Error::Certificate { host, why };
            }
        },
        Some(other) => {
            let why = other.to_string();
            return Error::Tls { host, why };
        }
        None => {
            let why = error.to_string();
            return Error::Tls { host, why };
        }
    };
    Error::Certificate {
        host,
        why: why.to_owned(),
    }
}
