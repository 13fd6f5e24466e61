//! Options of a connection, checked before it is made.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use nkeys::{KeyPair, KeyPairType};
use url::{Host, Url};

use crate::connection::ClusterError;

/// Address of the cluster, and the key of this process.
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    /// Addresses of NATS servers, separated by commas: `nats://HOST:PORT` or `tls://HOST:PORT`.
    pub servers: String,
    /// File with the seed of the process's nkey. `None` connects without a key, to a server on this machine only.
    pub key_file: Option<PathBuf>,
    /// File with the certificates of the authority that has signed the servers' certificates. `None` uses the system's.
    pub ca_file: Option<PathBuf>,
}

/// Options that are valid.
pub(crate) struct CheckedOptions {
    pub(crate) servers: Vec<String>,
    /// The seed, and the public key.
    pub(crate) key: Option<(String, String)>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) tls: bool,
}

impl ConnectionOptions {
    /// Checks addresses and reads files.
    pub(crate) fn check(&self) -> Result<CheckedOptions, ClusterError> {
        let mut servers = Vec::new();
        let mut tls = self.ca_file.is_some();
        let mut remote = None;
        for text in self.servers.split(',').map(str::trim) {
            if text.is_empty() {
                continue;
            }
            let server = check_server(text)?;
            tls |= server.scheme() == "tls";
            if !is_loopback(&server) {
                remote = Some(server.clone());
            }
            servers.push(server.to_string());
        }
        if servers.is_empty() {
            return Err(ClusterError::Options(
                "no server is named: expected nats://HOST:PORT or tls://HOST:PORT".to_owned(),
            ));
        }
        if let Some(server) = remote {
            if self.key_file.is_none() {
                return Err(ClusterError::Options(format!(
                    "{server} is another machine, which needs a key: name its file with --nats-key (`mimir cluster \
                     init` writes one for each role)"
                )));
            }
            if !tls {
                return Err(ClusterError::Options(format!(
                    "{server} is another machine, which needs TLS: use tls:// and name the certificate of its \
                     authority with --nats-ca (`mimir cluster init` writes one)"
                )));
            }
        }
        if let Some(file) = &self.ca_file {
            read_text(file, "certificate file")?;
        }
        Ok(CheckedOptions {
            servers,
            key: self.key_file.as_deref().map(read_key).transpose()?,
            ca_file: self.ca_file.clone(),
            tls,
        })
    }
}

fn check_server(text: &str) -> Result<Url, ClusterError> {
    let invalid = |cause: &str| {
        ClusterError::Options(format!(
            "{text:?} is not the address of a NATS server: {cause}; expected nats://HOST:PORT or tls://HOST:PORT"
        ))
    };
    let server = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("nats://{text}"))
    };
    let mut server = server.map_err(|error| invalid(&error.to_string()))?;
    if !matches!(server.scheme(), "nats" | "tls") {
        return Err(invalid("the scheme is not supported"));
    }
    if !server.username().is_empty() || server.password().is_some() {
        // The text is not repeated, since it has a password.
        return Err(ClusterError::Options(
            "passwords in the address of a NATS server are not supported: use a key file (--nats-key)".to_owned(),
        ));
    }
    if server.host_str().is_none_or(str::is_empty) {
        return Err(invalid("the host is missing"));
    }
    if !matches!(server.path(), "" | "/") || server.query().is_some() || server.fragment().is_some()
    {
        return Err(invalid("a path is not supported"));
    }
    server.set_path("");
    Ok(server)
}

/// Returns true for addresses of this machine. Hosts of schemes like `nats` are not parsed as addresses by the library.
fn is_loopback(server: &Url) -> bool {
    match server.host() {
        Some(Host::Domain(name)) => {
            name.eq_ignore_ascii_case("localhost")
                || name
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn read_key(file: &Path) -> Result<(String, String), ClusterError> {
    let text = read_text(file, "key file")?;
    warn_of_other_readers(file);
    let seed = text.trim();
    let invalid = |cause: &str| {
        ClusterError::Options(format!(
            "{} is not a valid key file: {cause}; expected the seed of a user (\"SU…\"), as `mimir cluster init` \
             writes it",
            file.display()
        ))
    };
    let key = KeyPair::from_seed(seed).map_err(|_| invalid("it has no seed"))?;
    if key.key_pair_type() != KeyPairType::User {
        return Err(invalid("the seed is not that of a user"));
    }
    Ok((seed.to_owned(), key.public_key()))
}

/// Warns of a key file that all users of the machine can read.
#[cfg(unix)]
fn warn_of_other_readers(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0) {
        let file = mimir_core::text::visible(&file.display().to_string());
        tracing::warn!(
            "all users of this machine can read the key file {file}: run `chmod 600` on it, and write new keys if others \
             may have read it"
        );
    }
}

#[cfg(not(unix))]
fn warn_of_other_readers(_: &Path) {}

fn read_text(file: &Path, purpose: &str) -> Result<String, ClusterError> {
    let text = std::fs::read_to_string(file);
    text.map_err(|error| {
        ClusterError::Options(format!(
            "cannot read the {purpose} {}: {error}",
            file.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(servers: &str, key: Option<&Path>) -> Result<CheckedOptions, String> {
        let options = ConnectionOptions {
            servers: servers.to_owned(),
            key_file: key.map(Path::to_owned),
            ca_file: None,
        };
        options.check().map_err(|error| error.to_string())
    }

    #[test]
    fn options_accept_servers_of_this_machine_without_a_key() {
        for servers in [
            "nats://127.0.0.1:4222",
            "localhost:4222",
            "nats://[::1]:4222, nats://127.0.0.2",
            "tls://localhost",
        ] {
            let checked = check(servers, None).unwrap_or_else(|error| panic!("{servers}: {error}"));
            assert_eq!(checked.servers.len(), servers.split(',').count());
        }
    }

    #[test]
    fn options_refuse_bad_servers_and_say_what_is_expected() {
        for (servers, part) in [
            ("", "no server is named"),
            (" , ", "no server is named"),
            ("http://127.0.0.1:80", "scheme"),
            ("nats://a:b@127.0.0.1", "--nats-key"),
            ("nats://127.0.0.1/x", "path"),
            ("nats://", "expected nats://"),
            ("nats://127.0.0.1:99999", "port"),
            ("nats://10.0.0.1", "--nats-key"),
            ("nats://127.0.0.1,tls://nats.example.org", "--nats-key"),
            ("nats://127.0.0.1.example.org", "--nats-key"),
            ("nats://localhost.example.org", "--nats-key"),
            ("nats://0.0.0.0:4222", "--nats-key"),
        ] {
            let message = check(servers, None).err().expect(servers);
            assert!(message.contains(part), "{servers}: {message}");
            assert!(!message.contains("a:b"), "{message}");
        }
    }

    #[test]
    fn options_need_a_valid_key_and_tls_for_other_machines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        for (text, part) in [
            ("", "no seed"),
            ("hello", "no seed"),
            (&KeyPair::new_account().seed().unwrap(), "that of a user"),
        ] {
            write(text);
            let message = check("nats://127.0.0.1", Some(&file)).err().unwrap();
            assert!(message.contains(part), "{message}");
            assert!(text.is_empty() || !message.contains(text), "{message}");
        }
        let key = KeyPair::new_user();
        write(&format!("{}\n", key.seed().unwrap()));
        let message = check("nats://10.0.0.1", Some(&file)).err().unwrap();
        assert!(message.contains("TLS"), "{message}");
        let checked = check("tls://10.0.0.1", Some(&file)).unwrap();
        assert_eq!(checked.key.unwrap().1, key.public_key());
        let missing = check("nats://127.0.0.1", Some(&folder.path().join("none")));
        assert!(missing.err().unwrap().contains("cannot read the key file"));
    }
}
