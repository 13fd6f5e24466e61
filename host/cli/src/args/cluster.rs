//! Options of the commands that connect to a cluster.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use mimir_cluster::ConnectionOptions;

use crate::exit::{CommandFailure, CommandResult};

/// Environment variable with the addresses of the NATS servers.
pub const NATS_VARIABLE: &str = "MIMIR_NATS";

/// Environment variable with the path of the key file.
const NATS_KEY_VARIABLE: &str = "MIMIR_NATS_KEY";

/// Environment variable with the path of the file with the authority's certificates.
const NATS_CA_VARIABLE: &str = "MIMIR_NATS_CA";

/// Options of the connection to a cluster. Each also has an environment variable, which the option overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ClusterOptions {
    /// NATS servers of the cluster, separated by commas: nats://HOST:PORT or tls://HOST:PORT [env: MIMIR_NATS]
    #[arg(long = "nats", value_name = "URL")]
    pub servers: Option<String>,
    /// File with the key of this process, as `mimir cluster init` writes it; not needed for servers on this machine
    /// [env: MIMIR_NATS_KEY]
    #[arg(long = "nats-key", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// File with the certificates of the authority of the servers [default: the authorities of the system]
    /// [env: MIMIR_NATS_CA]
    #[arg(long = "nats-ca", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,
}

/// The cluster and the workspace that a command is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ClusterScope {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Name of the workspace in the cluster [default: the name of its folder]
    #[arg(long, value_name = "NAME")]
    pub workspace_name: Option<String>,
}

impl ClusterOptions {
    /// Returns the options of the connection, or `None` if neither an option nor the environment names servers.
    pub fn connection(&self) -> CommandResult<Option<ConnectionOptions>> {
        self.connection_with(|name| std::env::var_os(name))
    }

    /// Returns the options of the connection, or a usage error if no servers are named.
    pub fn require_connection(&self) -> CommandResult<ConnectionOptions> {
        self.connection()?.ok_or_else(|| {
            CommandFailure::usage(format!(
                "the servers of the cluster are not known: name them with --nats URL, or set {NATS_VARIABLE}"
            ))
        })
    }

    /// Returns the options of the connection, with the variables that `variable` returns.
    fn connection_with(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> CommandResult<Option<ConnectionOptions>> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let servers = match (&self.servers, variable(NATS_VARIABLE)) {
            (Some(servers), _) => Some(servers.clone()),
            (None, Some(servers)) => Some(servers.into_string().map_err(|_| {
                CommandFailure::usage(format!(
                    "{NATS_VARIABLE} is not UTF-8: expected nats://HOST:PORT"
                ))
            })?),
            (None, None) => None,
        };
        let Some(servers) = servers else {
            // The variables alone connect to nothing, because other commands may need them.
            let option = match (&self.key_file, &self.ca_file) {
                (Some(_), _) => "--nats-key",
                (None, Some(_)) => "--nats-ca",
                (None, None) => return Ok(None),
            };
            return Err(CommandFailure::usage(format!(
                "{option} has no effect without servers: name them with --nats URL, or set {NATS_VARIABLE}"
            )));
        };
        let path = |option: &Option<PathBuf>, name: &str| {
            option.clone().or_else(|| variable(name).map(PathBuf::from))
        };
        Ok(Some(ConnectionOptions {
            servers,
            key_file: path(&self.key_file, NATS_KEY_VARIABLE),
            ca_file: path(&self.ca_file, NATS_CA_VARIABLE),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_options_override_their_variables() {
        let variables = |name: &str| match name {
            NATS_VARIABLE => Some(OsString::from("nats://127.0.0.1:1")),
            NATS_KEY_VARIABLE => Some(OsString::from("a.nk")),
            _ => Some(OsString::new()),
        };
        let read = |options: ClusterOptions| options.connection_with(variables).unwrap().unwrap();
        let connection = read(ClusterOptions::default());
        assert_eq!(connection.servers, "nats://127.0.0.1:1");
        assert_eq!(connection.key_file, Some("a.nk".into()));
        assert_eq!(connection.ca_file, None, "an empty variable is not set");
        let connection = read(ClusterOptions {
            servers: Some("tls://h:2".to_owned()),
            key_file: Some("b.nk".into()),
            ca_file: None,
        });
        assert_eq!(connection.servers, "tls://h:2");
        assert_eq!(connection.key_file, Some("b.nk".into()));
    }

    #[test]
    fn cluster_options_without_servers_are_an_error_or_none() {
        let none = |_: &str| None;
        let empty = ClusterOptions::default();
        assert!(empty.connection_with(none).unwrap().is_none());
        let key_only = ClusterOptions {
            key_file: Some("a".into()),
            ..ClusterOptions::default()
        };
        let message = key_only.connection_with(none).unwrap_err().to_string();
        assert!(
            message.contains("--nats-key") && message.contains("--nats URL"),
            "{message}"
        );
    }
}
