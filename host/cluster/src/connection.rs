//! The connection of a process to NATS.

use std::path::PathBuf;
use std::sync::Arc;

use async_nats::jetstream;

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

/// Error of the connection to the cluster.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    /// The servers cannot be reached, or refuse the key.
    #[error("cannot connect to {servers}: {text}")]
    Connect {
        /// The addresses.
        servers: String,
        /// The cause.
        text: String,
    },
    /// An option is not valid.
    #[error("{0}")]
    Options(String),
}

/// A connection that all clones share. Its input and output run on a thread of their own, so that callers may block.
#[derive(Clone)]
pub struct ClusterConnection(Arc<ConnectionParts>);

struct ConnectionParts {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    servers: String,
    runtime: tokio::runtime::Handle,
    /// Ends the thread of the runtime when the last clone is dropped.
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl ClusterConnection {
    /// Connects to the cluster.
    pub async fn connect(options: ConnectionOptions) -> Result<Self, ClusterError> {
        let (started, is_started) = tokio::sync::oneshot::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let servers = options.servers.clone();
        let failed = |text: String| ClusterError::Connect {
            servers: servers.clone(),
            text,
        };
        let spawned = std::thread::Builder::new()
            .name("mimir-cluster".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(started.send(Err(error.to_string()))),
                };
                runtime.block_on(async {
                    let client = connect_client(&options).await;
                    let handle = tokio::runtime::Handle::current();
                    let _ = started.send(client.map(|client| (client, handle)));
                    let _ = stopped.await;
                });
            });
        spawned.map_err(|error| failed(error.to_string()))?;
        let connected = is_started.await;
        let connected = connected.map_err(|_| failed("the connection was closed".to_owned()))?;
        let (client, runtime) = connected.map_err(failed)?;
        Ok(Self(Arc::new(ConnectionParts {
            jetstream: jetstream::new(client.clone()),
            client,
            servers,
            runtime,
            _stop: stop,
        })))
    }

    /// Returns the client for plain messages.
    pub(crate) fn client(&self) -> &async_nats::Client {
        &self.0.client
    }

    /// Returns the client for streams and stores.
    pub(crate) fn jetstream(&self) -> &jetstream::Context {
        &self.0.jetstream
    }

    /// Returns the runtime of the connection, for tasks that must go on while callers block.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.0.runtime
    }

    /// Returns the addresses of the servers, for messages.
    pub fn servers(&self) -> &str {
        &self.0.servers
    }
}

async fn connect_client(options: &ConnectionOptions) -> Result<async_nats::Client, String> {
    let mut nats = async_nats::ConnectOptions::new();
    if let Some(file) = &options.key_file {
        let seed = tokio::fs::read_to_string(file).await;
        let seed = seed.map_err(|error| format!("{}: {error}", file.display()))?;
        nats = nats.nkey(seed.trim().to_owned());
    }
    if let Some(file) = &options.ca_file {
        nats = nats.add_root_certificates(file.clone()).require_tls(true);
    }
    nats.connect(options.servers.as_str())
        .await
        .map_err(|error| error.to_string())
}
