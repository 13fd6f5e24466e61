//! The files of a new cluster: keys, certificates, and the configuration of NATS and of the processes.

use std::path::Path;
use std::time::SystemTime;

use nkeys::KeyPair;

use crate::connection::ClusterError;
use crate::ids::random_hex;
use crate::node::NodeRole;
use crate::permissions::role_permissions;

mod certificates;
mod deployment_files;
mod server_config;

use certificates::ClusterAuthority;
use server_config::ServerAddress;

/// Supported numbers of NATS servers. Two stop when one of them does, and more than three make a cluster slower.
const SERVER_COUNTS: [usize; 2] = [1, 3];

/// First port of clients of NATS. Routes between servers and monitoring have ports of their own.
pub(crate) const CLIENT_PORT: u16 = 4222;

/// The choices of `mimir cluster init`.
#[derive(Debug, Clone)]
pub struct InitOptions {
    /// Number of NATS servers.
    pub servers: usize,
    /// The host of each server, or one host for all. Empty for the names of the compose file: `nats-0`, `nats-1`, ….
    pub hosts: Vec<String>,
    /// First port of clients of NATS.
    pub port: u16,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            servers: 3,
            hosts: Vec::new(),
            port: CLIENT_PORT,
        }
    }
}

/// A file of a new cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterFile {
    /// Path below the folder, with `/`.
    pub path: String,
    /// The content.
    pub content: String,
    /// True if only its owner may read it.
    pub is_secret: bool,
}

impl std::fmt::Debug for ClusterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl ClusterFile {
    fn public(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: content.into(),
            is_secret: false,
        }
    }

    fn secret(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            is_secret: true,
            ..Self::public(path, content)
        }
    }
}

/// The key of a role.
struct RoleKey {
    role: NodeRole,
    seed: String,
    public: String,
}

/// Returns the files of a new cluster, with new keys and certificates. `folder` is the absolute path at which they will
/// be, for the environment files.
pub fn cluster_files(
    options: &InitOptions,
    folder: &Path,
) -> Result<Vec<ClusterFile>, ClusterError> {
    let servers = server_config::addresses(options)?;
    let failed = |text: String| ClusterError::Options(format!("cannot create keys: {text}"));
    let mut keys = Vec::new();
    for role in [NodeRole::Front, NodeRole::Worker, NodeRole::Admin] {
        let key = KeyPair::new_user();
        keys.push(RoleKey {
            role,
            seed: key.seed().map_err(|error| failed(error.to_string()))?,
            public: key.public_key(),
        });
    }
    let mut files = vec![ClusterFile::public(
        ".gitignore",
        "/keys/\n/tls/*.key\n/data/\n",
    )];
    for key in &keys {
        files.push(ClusterFile::secret(
            format!("keys/{}.nk", key.role),
            format!("{}\n", key.seed),
        ));
    }
    files.push(ClusterFile::secret(
        "keys/serve.token",
        format!(
            "{}\n",
            random_hex::<24>().map_err(|error| failed(error.to_string()))?
        ),
    ));
    files.extend(certificate_files(&servers).map_err(|error| failed(error.to_string()))?);
    let permissions = server_config::permissions_file(&keys);
    for server in &servers {
        files.push(ClusterFile::public(
            format!("nats/{}.conf", server.name),
            server_config::server_file(server, &servers),
        ));
    }
    files.push(ClusterFile::public(
        "nats/permissions.conf",
        permissions.clone(),
    ));
    files.extend(deployment_files::files(&servers, folder, &permissions));
    Ok(files)
}

fn certificate_files(servers: &[ServerAddress]) -> Result<Vec<ClusterFile>, rcgen::Error> {
    let year = current_year();
    let authority = ClusterAuthority::new(year)?;
    let mut files = vec![ClusterFile::public(
        "tls/ca.pem",
        authority.certificate.clone(),
    )];
    for server in servers {
        let signed = authority.sign(&server.certificate_names(), year)?;
        files.push(ClusterFile::public(
            format!("tls/{}.pem", server.name),
            signed.certificate,
        ));
        files.push(ClusterFile::secret(
            format!("tls/{}.key", server.name),
            signed.key,
        ));
    }
    Ok(files)
}

fn current_year() -> i32 {
    const YEAR_SECONDS: u64 = 31_556_952;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let years = since.map_or(0, |since| since.as_secs() / YEAR_SECONDS);
    1970 + i32::try_from(years).unwrap_or(0)
}

#[cfg(test)]
mod tests;
