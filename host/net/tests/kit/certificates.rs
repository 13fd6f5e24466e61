//! A test CA, and certificates signed by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_net::TlsRoots;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;

/// A CA with its certificate file.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Each CA has its own name, like real ones.
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// Returns the path of the CA certificate, a PEM file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns a folder for other files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns roots that trust this CA.
    pub fn roots(&self) -> TlsRoots {
        TlsRoots::with_extra(&[self.file()]).unwrap()
    }

    /// Returns a server's TLS configuration for `names`, offering `protocols`.
    pub fn server(&self, names: &[&str], protocols: &[&str]) -> Arc<ServerConfig> {
        self.server_of(names, protocols, |_| ())
    }

    /// Returns a configuration like [`Self::server`], with a certificate that the test can change.
    pub fn server_of(
        &self,
        names: &[&str],
        protocols: &[&str],
        change: impl Fn(&mut CertificateParams),
    ) -> Arc<ServerConfig> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Arc::new(config)
    }
}
