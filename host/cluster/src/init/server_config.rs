//! The configuration of nats-server.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{InitOptions, RoleKey, SERVER_COUNTS, role_permissions};
use crate::connection::ClusterError;

/// Distance of the port of routes from that of clients.
const ROUTE_OFFSET: u16 = 2000;

/// Distance of the port of monitoring from that of clients.
const MONITOR_OFFSET: u16 = 4000;

/// Highest first port: all ports of all servers are valid.
const PORT_MAX: u16 = u16::MAX - MONITOR_OFFSET - 10;

/// A NATS server of a new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// The name in the cluster: `nats-0`.
    pub(super) name: String,
    /// The host at which clients and other servers reach it.
    pub(super) host: String,
    /// The port of clients.
    pub(super) port: u16,
}

impl ServerAddress {
    /// Returns the URL for clients.
    pub(super) fn url(&self) -> String {
        format!("tls://{}:{}", bracketed(&self.host), self.port)
    }

    /// Returns the address of a server that only this machine can reach.
    fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns all names under which clients may reach the server.
    pub(super) fn certificate_names(&self) -> Vec<String> {
        let mut names = vec![self.host.clone()];
        let others = [
            self.name.clone(),
            // The pod and the service in Kubernetes.
            format!("{}.nats", self.name),
            "nats".to_owned(),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
        ];
        for name in others {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// Returns the servers of a new cluster.
pub(super) fn addresses(options: &InitOptions) -> Result<Vec<ServerAddress>, ClusterError> {
    let count = options.servers;
    let invalid = |text: String| Err(ClusterError::Options(text));
    if !SERVER_COUNTS.contains(&count) {
        return invalid(format!(
            "{count} NATS servers are not supported: expected 1, or 3 to go on without one of them"
        ));
    }
    if !matches!(options.hosts.len(), 0 | 1) && options.hosts.len() != count {
        return invalid(format!(
            "{} hosts are given for {count} servers: expected one host for each server, or one for all",
            options.hosts.len()
        ));
    }
    if options.port == 0 || options.port > PORT_MAX {
        let port = options.port;
        return invalid(format!(
            "port {port} is out of range: expected 1 to {PORT_MAX}"
        ));
    }
    let mut servers: Vec<ServerAddress> = Vec::new();
    for number in 0..count {
        let name = format!("nats-{number}");
        let host = match options.hosts.as_slice() {
            [] => name.clone(),
            [host] => host.clone(),
            hosts => hosts[number].clone(),
        };
        if !is_host(&host) {
            return invalid(format!(
                "{host:?} is not a host: expected a name or an IP address without a port"
            ));
        }
        let same_host = servers.iter().filter(|server| server.host == host).count();
        let port = options.port + u16::try_from(same_host).unwrap_or(0);
        servers.push(ServerAddress { name, host, port });
    }
    Ok(servers)
}

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.parse::<IpAddr>().is_ok() || (host.len() <= 253 && host.split('.').all(is_label))
}

/// Returns the configuration of a server.
pub(super) fn server_file(server: &ServerAddress, all: &[ServerAddress]) -> String {
    let listen = if server.is_local() {
        "127.0.0.1"
    } else {
        "0.0.0.0"
    };
    let name = &server.name;
    // Several servers each have a copy of a line that is acknowledged.
    let sync = if all.len() > 1 {
        "sync_interval: \"1s\""
    } else {
        "# What is acknowledged is on the disk.\n  sync_interval: always"
    };
    let mut text = format!(
        "# Written by `mimir cluster init`. Start in the folder of the cluster: nats-server -c nats/{name}.conf\n\
         server_name: {name}\n\
         listen: \"{listen}:{}\"\n\
         # Without a password: not for other machines.\n\
         http: \"127.0.0.1:{}\"\n\
         max_payload: 1MB\n\
         # A client that does not read its messages is disconnected.\n\
         write_deadline: \"5s\"\n\
         ping_interval: \"10s\"\n\
         \n\
         jetstream {{\n  store_dir: \"data/{name}\"\n  max_file_store: 10GB\n  max_memory_store: 512MB\n\
         \x20 {sync}\n}}\n\
         \n\
         tls {{\n  cert_file: \"tls/{name}.pem\"\n  key_file: \"tls/{name}.key\"\n  timeout: 5\n}}\n",
        server.port,
        server.port + MONITOR_OFFSET,
    );
    if all.len() > 1 {
        let _ = write!(
            text,
            "\ncluster {{\n  name: mimir\n  listen: \"{listen}:{}\"\n  routes: [\n",
            server.port + ROUTE_OFFSET
        );
        for other in all {
            let _ = writeln!(
                text,
                "    \"nats-route://{}:{}\"",
                bracketed(&other.host),
                other.port + ROUTE_OFFSET
            );
        }
        let _ = write!(
            text,
            "  ]\n  # Only servers with a certificate of this cluster's authority may join.\n  tls {{\n    \
             cert_file: \"tls/{name}.pem\"\n    key_file: \"tls/{name}.key\"\n    ca_file: \"tls/ca.pem\"\n    \
             verify: true\n    timeout: 5\n  }}\n}}\n"
        );
    }
    text.push_str("\ninclude \"permissions.conf\"\n");
    text
}

/// Returns the users of the servers: the public keys of the roles, with the subjects that each may use.
pub(super) fn permissions_file(keys: &[RoleKey]) -> String {
    let mut text = "# Written by `mimir cluster init`: the public keys of the roles, and the subjects that each may use.\n\
                    authorization {\n  timeout: 5\n  users: [\n"
        .to_owned();
    for key in keys {
        let permissions = role_permissions(key.role, &key.public);
        let _ = write!(
            text,
            "    {{ # {}\n      nkey: {}\n      permissions: {{\n",
            key.role, key.public
        );
        for (name, subjects) in [
            ("publish", &permissions.publish),
            ("subscribe", &permissions.subscribe),
        ] {
            let _ = writeln!(text, "        {name}: {{ allow: [");
            for subject in subjects {
                let _ = writeln!(text, "          \"{subject}\"");
            }
            text.push_str("        ] }\n");
        }
        text.push_str("      }\n    }\n");
    }
    text.push_str("  ]\n}\n");
    text
}
