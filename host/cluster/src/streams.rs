//! The streams of a cluster: their configuration, and how they come into being.

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use mimir_core::shared_state::StateArea;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

use crate::connection::{ACCESS_TIMEOUT, ClusterConnection, ClusterError};
use crate::names;
use crate::request::{RequestError, code};

/// Number of replicas of a stream if the cluster has that many servers.
pub(crate) const REPLICAS: usize = 3;

/// Time for which JetStream reports the end of a value's lifetime. Also the shortest lifetime.
const MARKER_LIFETIME: Duration = Duration::from_secs(1);

/// Time after which a slow start is reported, and the pause between two attempts.
const DELAY_NOTICE: Duration = Duration::from_secs(3);
const READY_RETRY: Duration = Duration::from_millis(250);

const MIB: i64 = 1024 * 1024;

/// Maximum size of the audit log in bytes, unless an administrator sets another one.
const AUDIT_BYTES: i64 = 2048 * MIB;

/// Returns the stream of an area's values.
pub(crate) fn area_stream(area: StateArea) -> Config {
    let megabytes = match area {
        StateArea::Control | StateArea::Keys => 4,
        StateArea::Nodes => 16,
        StateArea::Approvals | StateArea::Questions | StateArea::Deployment | StateArea::Limits => {
            64
        }
        StateArea::Sessions | StateArea::Jobs => 256,
    };
    Config {
        name: names::bucket_stream(area),
        description: Some(format!("mimir: {area}")),
        subjects: vec![names::state_subject(area, ">")],
        max_messages_per_subject: 1,
        max_bytes: megabytes * MIB,
        max_messages: -1,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        allow_rollup: true,
        deny_delete: true,
        // Reads from followers may be stale.
        allow_direct: false,
        allow_message_ttl: true,
        subject_delete_marker_ttl: Some(MARKER_LIFETIME),
        ..Config::default()
    }
}

/// Returns the stream of objects. A chunk that is stored cannot be replaced.
pub(crate) fn object_stream() -> Config {
    Config {
        name: names::OBJECT_STREAM.to_owned(),
        description: Some("mimir: components and other objects by their SHA-256".to_owned()),
        subjects: vec![names::OBJECT_SUBJECTS.to_owned()],
        max_messages_per_subject: 1,
        discard_new_per_subject: true,
        max_messages: -1,
        max_bytes: 2048 * MIB,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        allow_message_ttl: true,
        ..Config::default()
    }
}

/// Returns the stream of the audit log. Lines cannot be changed, and a full stream refuses new ones. Only the key of an
/// administrator may remove lines.
pub(crate) fn audit_stream() -> Config {
    Config {
        name: names::AUDIT_STREAM.to_owned(),
        description: Some("mimir: audit log, one subject for each writer".to_owned()),
        subjects: vec![
            names::AUDIT_SUBJECTS.to_owned(),
            names::AUDIT_RETENTION.to_owned(),
        ],
        max_messages: -1,
        max_bytes: AUDIT_BYTES,
        max_messages_per_subject: -1,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        deny_delete: true,
        ..Config::default()
    }
}

/// Returns all streams of a cluster.
pub(crate) fn all_streams() -> Vec<Config> {
    let areas = StateArea::ALL.into_iter().map(area_stream);
    areas.chain([object_stream(), audit_stream()]).collect()
}

/// Returns the disk space that the streams reserve at a server with a replica of each.
fn reserved_bytes() -> i64 {
    let streams = all_streams().into_iter();
    let on_disk = streams.filter(|stream| stream.storage == StorageType::File);
    on_disk.map(|stream| stream.max_bytes).sum()
}

/// Returns true if the servers cannot reserve the space of a stream.
fn is_out_of_space(error: &RequestError) -> bool {
    let code = error.code();
    matches!(
        code,
        Some(code::STORAGE_EXCEEDED | code::INSUFFICIENT_RESOURCES | code::ACCOUNT_RESOURCES)
    )
}

/// A failed attempt to create the streams.
struct StreamFailure {
    error: ClusterError,
    /// True if the servers may have just started.
    is_temporary: bool,
}

/// Returns true for errors of servers that have just started: they have no leader yet, or do not know each other.
fn may_be_temporary(error: &RequestError) -> bool {
    error.is_transient()
        || matches!(error, RequestError::Timeout)
        || error.code() == Some(code::INSUFFICIENT_PEERS)
}

/// A stream after [`ClusterConnection::create_streams`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedStream {
    /// The name.
    pub name: String,
    /// Number of its replicas.
    pub replicas: usize,
    /// True if it existed before.
    pub existed: bool,
}

impl ClusterConnection {
    /// Creates the streams of a cluster that do not exist yet, and sets the replicas of those that do. Without a number,
    /// three replicas in a cluster of servers, and one at a server that runs alone.
    pub async fn create_streams(
        &self,
        replicas: Option<usize>,
    ) -> Result<Vec<CreatedStream>, ClusterError> {
        let created = self.try_create_streams(replicas).await;
        created.map_err(|failure| failure.error)
    }

    /// Creates streams like [`Self::create_streams`], and waits at most `timeout` for servers that have just started.
    /// `on_delay` is called once if that takes long.
    pub async fn create_streams_when_started(
        &self,
        replicas: Option<usize>,
        timeout: Duration,
        on_delay: impl FnOnce(),
    ) -> Result<Vec<CreatedStream>, ClusterError> {
        let began = Instant::now();
        let mut on_delay = Some(on_delay);
        loop {
            match self.try_create_streams(replicas).await {
                Err(failure) if failure.is_temporary && began.elapsed() < timeout => {}
                result => return result.map_err(|failure| failure.error),
            }
            if let Some(on_delay) = on_delay.take_if(|_| began.elapsed() >= DELAY_NOTICE) {
                on_delay();
            }
            tokio::time::sleep(READY_RETRY).await;
        }
    }

    async fn try_create_streams(
        &self,
        replicas: Option<usize>,
    ) -> Result<Vec<CreatedStream>, StreamFailure> {
        let mut created = Vec::new();
        for config in all_streams() {
            created.push(self.create_or_scale_stream(config, replicas).await?);
        }
        Ok(created)
    }

    async fn create_or_scale_stream(
        &self,
        mut config: Config,
        replicas: Option<usize>,
    ) -> Result<CreatedStream, StreamFailure> {
        let name = config.name.clone();
        let deadline = Instant::now() + ACCESS_TIMEOUT * 3;
        let info = self
            .api(&format!("STREAM.INFO.{name}"), &Value::Null, deadline)
            .await;
        let existing: Option<StreamAnswer> = match info {
            Ok(info) => Some(info),
            Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => None,
            Err(error) => {
                return Err(StreamFailure {
                    is_temporary: may_be_temporary(&error),
                    error: self.error(error),
                });
            }
        };
        let action = if existing.is_some() {
            "UPDATE"
        } else {
            "CREATE"
        };
        // A higher maximum is an administrator's choice.
        if let Some(existing) = &existing {
            config.max_bytes = config.max_bytes.max(existing.config.max_bytes);
            // The servers refuse to withdraw it.
            config.deny_purge = existing.config.deny_purge;
            // The servers refuse to change it. Older versions have created one stream in memory, which is created on the
            // disk when it is missing after a restart of all servers.
            config.storage = existing.config.storage;
        }
        config.num_replicas = replicas.unwrap_or(REPLICAS);
        let result = match self.put_stream(action, &config).await {
            Err(error) if replicas.is_none() && error.code() == Some(code::NOT_SUPPORTED_ALONE) => {
                config.num_replicas = 1;
                self.put_stream(action, &config).await
            }
            result => result,
        };
        result.map_err(|error| {
            let is_temporary = may_be_temporary(&error);
            if is_out_of_space(&error) {
                return StreamFailure {
                    error: self.out_of_space(&config, &error),
                    is_temporary,
                };
            }
            if let RequestError::Forbidden(_) = error {
                return StreamFailure {
                    error: self.error(error),
                    is_temporary,
                };
            }
            let text = match error.code() {
                Some(code::INSUFFICIENT_PEERS) => format!(
                    "stream {name} needs {} servers that run: start them, or give the number of replicas",
                    config.num_replicas
                ),
                _ => format!("cannot create stream {name}: {error}"),
            };
            let error = ClusterError::Failed {
                servers: self.servers().to_owned(),
                text,
            };
            StreamFailure {
                error,
                is_temporary,
            }
        })?;
        Ok(CreatedStream {
            name,
            replicas: config.num_replicas,
            existed: existing.is_some(),
        })
    }

    /// Sets the maximum size of the audit log in bytes, which can only grow. Returns the previous maximum.
    pub async fn enlarge_audit_log(&self, bytes: u64) -> Result<u64, ClusterError> {
        let mut config = audit_stream();
        let failed = |text: String| ClusterError::Failed {
            servers: self.servers().to_owned(),
            text,
        };
        let deadline = Instant::now() + ACCESS_TIMEOUT * 3;
        let info = format!("STREAM.INFO.{}", config.name);
        let existing: StreamAnswer = self
            .api(&info, &Value::Null, deadline)
            .await
            .map_err(|error| self.error(error))?;
        let previous = u64::try_from(existing.config.max_bytes).unwrap_or(0);
        if bytes < previous {
            return Err(failed(format!(
                "the audit log can only grow: its maximum is {previous} bytes already, expected at least that instead \
                 of {bytes}"
            )));
        }
        config.num_replicas = existing.config.num_replicas;
        config.deny_purge = existing.config.deny_purge;
        config.max_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let result = self.put_stream("UPDATE", &config).await;
        result.map_err(|error| {
            failed(format!(
                "cannot enlarge the audit log: {error}; the NATS servers reserve at most max_file_store of their \
                 configuration for all streams"
            ))
        })?;
        Ok(previous)
    }

    /// Returns the error of a stream that the servers have no space for.
    fn out_of_space(&self, config: &Config, error: &RequestError) -> ClusterError {
        let (own, all) = (config.max_bytes, reserved_bytes());
        ClusterError::Failed {
            servers: self.servers().to_owned(),
            text: format!(
                "the servers have no space for stream {}: {}; it reserves {} MiB, and all streams of mimir {} MiB. Set \
                 max_file_store of each NATS server to at least {} GB, as in the configuration that `mimir cluster init` \
                 writes, and try again",
                config.name,
                error.cause(),
                own / MIB,
                all / MIB,
                // With space for what is not counted.
                all / 1_000_000_000 + 1
            ),
        }
    }

    async fn put_stream(
        &self,
        action: &str,
        config: &Config,
    ) -> Result<StreamAnswer, RequestError> {
        let body = serde_json::to_value(config);
        let body = body.map_err(|error| RequestError::Connection(error.to_string()))?;
        let deadline = Instant::now() + ACCESS_TIMEOUT * 3;
        let name = format!("STREAM.{action}.{}", config.name);
        self.api(&name, &body, deadline).await
    }

    /// Creates a stream if it does not exist, for processes that use it first. Keys of `mimir cluster init` may not:
    /// there an administrator has created all streams.
    pub(crate) async fn ensure_stream(&self, mut config: Config) -> Result<(), RequestError> {
        let name = config.name.clone();
        // Without this, a key that may not create streams would cause a warning of the servers each time.
        if self
            .stream_exists(&name, Instant::now() + ACCESS_TIMEOUT)
            .await?
        {
            return Ok(());
        }
        for replicas in [REPLICAS, 1] {
            config.num_replicas = replicas;
            let error = match self.put_stream("CREATE", &config).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match (&error, error.code()) {
                (RequestError::Forbidden(_), _) => {
                    return Err(RequestError::NoStream(name));
                }
                // Another configuration of this name is an administrator's choice.
                (_, Some(code::STREAM_EXISTS)) => return Ok(()),
                (_, Some(code::NOT_SUPPORTED_ALONE | code::INSUFFICIENT_PEERS)) if replicas > 1 => {
                }
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the streams exist and can be used, and creates them if the key may do so: after a start of the servers,
    /// streams have no leader for some seconds. `on_delay` is called once if that takes long. Fails after `timeout`.
    pub async fn wait_for_streams(
        &self,
        timeout: Duration,
        on_delay: impl FnOnce(),
    ) -> Result<(), ClusterError> {
        let began = Instant::now();
        let mut on_delay = Some(on_delay);
        // The others are created when they are first used. Workers have no access to the keys.
        let areas = StateArea::ALL.into_iter();
        let areas = areas.filter(|area| *area != StateArea::Keys);
        for config in areas.map(area_stream).chain([audit_stream()]) {
            loop {
                let error = match self.prepare_stream(&config).await {
                    // Keys have access to the streams of their role only.
                    Ok(()) | Err(RequestError::Forbidden(_)) => break,
                    Err(error) => error,
                };
                let is_temporary = error.is_transient() || matches!(error, RequestError::Timeout);
                if is_out_of_space(&error) {
                    return Err(self.out_of_space(&config, &error));
                }
                if !is_temporary {
                    return Err(self.error(error));
                }
                if began.elapsed() >= timeout {
                    return Err(ClusterError::Failed {
                        servers: self.servers().to_owned(),
                        text: format!(
                            "stream {} cannot be used after {} s: {error}; check that most of the NATS servers run and \
                             reach each other",
                            config.name,
                            timeout.as_secs()
                        ),
                    });
                }
                if began.elapsed() >= DELAY_NOTICE
                    && let Some(on_delay) = on_delay.take()
                {
                    on_delay();
                }
                tokio::time::sleep(READY_RETRY).await;
            }
        }
        Ok(())
    }

    /// Creates a stream if it does not exist. Fails while it has no leader.
    async fn prepare_stream(&self, config: &Config) -> Result<(), RequestError> {
        let info = format!("STREAM.INFO.{}", config.name);
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let answer: StreamAnswer = match self.api(&info, &Value::Null, deadline).await {
            Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => {
                return self.ensure_stream(config.clone()).await;
            }
            answer => answer?,
        };
        match answer.cluster {
            Some(peers) if peers.leader.is_none() => Err(RequestError::NotDelivered),
            _ => Ok(()),
        }
    }

    /// Fails if the bucket of an area does not exist, for commands whose output would look like an empty bucket.
    pub async fn require_area(&self, area: StateArea) -> Result<(), ClusterError> {
        self.require_stream(names::bucket_stream(area)).await
    }

    /// Fails if the stream of the audit log does not exist.
    pub async fn require_audit_log(&self) -> Result<(), ClusterError> {
        self.require_stream(names::AUDIT_STREAM.to_owned()).await
    }

    async fn require_stream(&self, name: String) -> Result<(), ClusterError> {
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        match self.stream_exists(&name, deadline).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.error(RequestError::NoStream(name))),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Returns true if a stream exists.
    pub(crate) async fn stream_exists(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<bool, RequestError> {
        let name = format!("STREAM.INFO.{name}");
        match self
            .api::<StreamAnswer>(&name, &Value::Null, deadline)
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(code::STREAM_NOT_FOUND) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The part of the answer about a stream that is used.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct StreamAnswer {
    pub(crate) state: StreamUsage,
    #[serde(default)]
    pub(crate) config: StreamLimits,
    #[serde(default)]
    pub(crate) cluster: Option<StreamPeers>,
}

/// The part of a stream's configuration that administrators may change.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct StreamLimits {
    pub(crate) max_bytes: i64,
    pub(crate) num_replicas: usize,
    pub(crate) deny_purge: bool,
    pub(crate) storage: StorageType,
}

/// The usage of a stream.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct StreamUsage {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Number of messages by subject, if asked for.
    #[serde(default)]
    pub(crate) subjects: Option<std::collections::BTreeMap<String, u64>>,
}

/// The servers with replicas of a stream.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct StreamPeers {
    #[serde(default)]
    pub(crate) leader: Option<String>,
    #[serde(default)]
    pub(crate) replicas: Vec<StreamPeer>,
}

/// A follower of a stream.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct StreamPeer {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) current: bool,
    #[serde(default)]
    pub(crate) offline: bool,
}
