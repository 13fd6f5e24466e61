//! The connection of a process to NATS.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::{Event, ServerError};
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::names;
use crate::options::{CheckedOptions, ConnectionOptions};

/// Maximum time of one access. A server that does not answer within it counts as unreachable.
pub(crate) const ACCESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time until the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of pings. Two that are not answered end a connection to a server that hangs.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Time without a connection after which calls are refused at once. Another server of the cluster is connected before.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Longest pause between attempts to connect again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// Time after which a slow start of the servers is reported, and the pause between two attempts to connect.
const DELAY_NOTICE: Duration = Duration::from_secs(1);
const CONNECT_RETRY: Duration = Duration::from_millis(250);

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
    /// The key has no permission for a subject.
    #[error("the key of this process may not {action} {subject:?}")]
    Forbidden {
        /// The refused action: `publish to` or `subscribe to`.
        action: &'static str,
        /// The subject.
        subject: String,
    },
    /// The cluster has refused an order, or has not answered in time.
    #[error("{servers}: {text}")]
    Failed {
        /// The addresses.
        servers: String,
        /// The cause.
        text: String,
    },
}

/// A failed attempt to connect.
struct ConnectFailure {
    error: ClusterError,
    /// True if the servers may be about to start.
    is_temporary: bool,
}

impl From<ClusterError> for ConnectFailure {
    fn from(error: ClusterError) -> Self {
        Self {
            error,
            is_temporary: false,
        }
    }
}

/// A subject that the key of this process may not use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PermissionViolation {
    pub(crate) action: &'static str,
    pub(crate) subject: String,
}

impl PermissionViolation {
    /// Parses a message of the server: `Permissions Violation for Publish to "SUBJECT"`.
    fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let rest = lower.strip_prefix("permissions violation for ")?;
        let action = if rest.starts_with("publish") {
            "publish to"
        } else {
            "subscribe to"
        };
        let subject = text.split('"').nth(1)?;
        Some(Self {
            action,
            subject: subject.to_owned(),
        })
    }
}

/// A connection that all clones share. Its input and output run on a thread of their own, so that callers may block.
#[derive(Clone)]
pub struct ClusterConnection(Arc<ConnectionParts>);

struct ConnectionParts {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    servers: String,
    runtime: tokio::runtime::Handle,
    events: ConnectionEvents,
    /// Ends the thread of the runtime when the last clone is dropped.
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Events that async-nats reports to a callback only.
#[derive(Clone)]
struct ConnectionEvents {
    violations: broadcast::Sender<PermissionViolation>,
    /// Number of connections so far.
    generation: watch::Sender<u64>,
    /// The time since which no server is connected.
    lost_since: watch::Sender<Option<Instant>>,
    /// The violations that the log has.
    reported: Arc<Mutex<HashSet<PermissionViolation>>>,
}

impl ClusterConnection {
    /// Connects to the cluster. Once connected, a lost connection is made again for as long as the process runs.
    pub async fn connect(options: ConnectionOptions) -> Result<Self, ClusterError> {
        Self::try_connect(options)
            .await
            .map_err(|failure| failure.error)
    }

    /// Connects like [`Self::connect`], and waits at most `timeout` for servers that are about to start. `on_delay` is
    /// called once if that takes long.
    pub async fn connect_when_started(
        options: ConnectionOptions,
        timeout: Duration,
        on_delay: impl FnOnce(),
    ) -> Result<Self, ClusterError> {
        let began = Instant::now();
        let mut on_delay = Some(on_delay);
        loop {
            match Self::try_connect(options.clone()).await {
                Err(failure) if failure.is_temporary && began.elapsed() < timeout => {}
                result => return result.map_err(|failure| failure.error),
            }
            if let Some(on_delay) = on_delay.take_if(|_| began.elapsed() >= DELAY_NOTICE) {
                on_delay();
            }
            tokio::time::sleep(CONNECT_RETRY).await;
        }
    }

    async fn try_connect(options: ConnectionOptions) -> Result<Self, ConnectFailure> {
        let checked = options.check()?;
        let (started, is_started) = tokio::sync::oneshot::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let servers = checked.servers.join(",");
        let failed = |text: String| ConnectFailure {
            error: ClusterError::Connect {
                servers: servers.clone(),
                text,
            },
            is_temporary: false,
        };
        let events = ConnectionEvents {
            violations: broadcast::Sender::new(256),
            generation: watch::Sender::new(0),
            lost_since: watch::Sender::new(None),
            reported: Arc::default(),
        };
        let thread_events = events.clone();
        let spawned = std::thread::Builder::new()
            .name("mimir-cluster".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(started.send(Err((error.to_string(), false)))),
                };
                runtime.block_on(async {
                    let client = connect_client(&checked, thread_events);
                    let client = tokio::time::timeout(CONNECT_TIMEOUT, client).await;
                    let client = client.unwrap_or_else(|_| Err(("no answer".to_owned(), true)));
                    let handle = tokio::runtime::Handle::current();
                    let _ = started.send(client.map(|client| (client, handle)));
                    let _ = stopped.await;
                });
            });
        spawned.map_err(|error| failed(error.to_string()))?;
        let connected = is_started.await;
        let connected = connected.map_err(|_| failed("the connection was closed".to_owned()))?;
        let (client, runtime) = connected.map_err(|(text, is_temporary)| ConnectFailure {
            is_temporary,
            ..failed(text)
        })?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(ACCESS_TIMEOUT)
            .ack_timeout(ACCESS_TIMEOUT)
            .build(client.clone());
        Ok(Self(Arc::new(ConnectionParts {
            jetstream,
            client,
            servers,
            runtime,
            events,
            _stop: stop,
        })))
    }

    /// Returns true while a server is connected.
    pub fn is_connected(&self) -> bool {
        self.0.client.connection_state() == State::Connected
    }

    /// Returns true if no server has been connected for some time, so that another one of the cluster is not about to be.
    pub(crate) fn is_lost(&self) -> bool {
        let since = *self.0.events.lost_since.borrow();
        since.is_some_and(|since| since.elapsed() >= LOST_AFTER)
    }

    /// Completes when [`Self::is_lost`] is true. Needs a runtime with timers.
    pub(crate) async fn lost(&self) {
        let mut lost_since = self.0.events.lost_since.subscribe();
        loop {
            let since = *lost_since.borrow_and_update();
            let is_lost = async {
                match since {
                    Some(since) => tokio::time::sleep_until(since + LOST_AFTER).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_lost => return,
                changed = lost_since.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Waits for a connection. Returns false if it is lost.
    pub(crate) async fn wait_until_connected(&self) -> bool {
        let mut generation = self.generation();
        while !self.is_connected() {
            tokio::select! {
                () = self.lost() => return self.is_connected(),
                changed = generation.changed() => if changed.is_err() { return false },
            }
        }
        true
    }

    /// Sends all commands that were given before, and returns when the server has carried them out: subscriptions are
    /// in force from then on. `subject` is one to which the key may subscribe and publish, received by `subscriber`.
    /// Returns messages of others that arrived meanwhile.
    pub(crate) async fn confirm_subscription(
        &self,
        subject: String,
        subscriber: &mut async_nats::Subscriber,
    ) -> Result<Vec<async_nats::Message>, ClusterError> {
        let failed = |text: String| ClusterError::Failed {
            servers: self.0.servers.clone(),
            text,
        };
        let published = self.0.client.publish(subject, Bytes::new()).await;
        published.map_err(|error| failed(error.to_string()))?;
        let mut early = Vec::new();
        let received = async {
            while let Some(message) = subscriber.next().await {
                if message.payload.is_empty() {
                    return true;
                }
                early.push(message);
            }
            false
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, received).await {
            Ok(true) => Ok(early),
            _ => Err(failed(
                "the servers do not confirm a subscription of this process".to_owned(),
            )),
        }
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

    /// Returns a receiver of the subjects that the key may not use, from now on.
    pub(crate) fn violations(&self) -> broadcast::Receiver<PermissionViolation> {
        self.0.events.violations.subscribe()
    }

    /// Returns the number of connections so far, to be watched. A change means that messages may have been missed.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.0.events.generation.subscribe()
    }

    /// Returns the addresses of the servers, for messages.
    pub fn servers(&self) -> &str {
        &self.0.servers
    }
}

/// Connects a client. An error has a text, and whether another attempt may have success.
async fn connect_client(
    options: &CheckedOptions,
    events: ConnectionEvents,
) -> Result<async_nats::Client, (String, bool)> {
    let mut nats = async_nats::ConnectOptions::new()
        .name("mimir")
        .connection_timeout(ACCESS_TIMEOUT)
        .request_timeout(Some(ACCESS_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        .max_reconnects(None)
        .reconnect_delay_callback(|attempts| {
            let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
            // The first attempt is immediate, since another server of the cluster may answer.
            Duration::from_millis(50)
                .saturating_mul(attempts.saturating_sub(1))
                .min(RECONNECT_DELAY_MAX)
        })
        .event_callback(move |event| {
            note_event(&events, &event);
            std::future::ready(())
        });
    if let Some((seed, public)) = &options.key {
        nats = nats
            .nkey(seed.clone())
            .custom_inbox_prefix(names::inbox_prefix(public));
    }
    if let Some(file) = &options.ca_file {
        nats = nats.add_root_certificates(file.clone());
    }
    if options.tls {
        nats = nats.require_tls(true);
    }
    let client = nats.connect(options.servers.clone()).await;
    let client = client.map_err(|error| {
        use async_nats::ConnectErrorKind::{Io, TimedOut};
        let text = connect_error(&error);
        let is_temporary = matches!(error.kind(), Io | TimedOut) && !text.contains("certificate");
        (text, is_temporary)
    })?;
    let server = client.server_info();
    if !client.is_server_compatible(2, 11, 0) {
        let text = format!(
            "nats-server {} is too old: expected 2.11 or newer",
            server.version
        );
        return Err((text, false));
    }
    if !server.jetstream {
        let text = "JetStream is disabled: start nats-server with -js, or with the configuration that \
                    `mimir cluster init` writes";
        return Err((text.to_owned(), false));
    }
    Ok(client)
}

fn note_event(events: &ConnectionEvents, event: &Event) {
    match event {
        Event::Connected => {
            events.lost_since.send_replace(None);
            events.generation.send_modify(|number| *number += 1);
        }
        Event::ServerError(ServerError::Other(text)) => match PermissionViolation::parse(text) {
            Some(violation) => {
                let is_new = events.reported.lock().insert(violation.clone());
                // Each subject once, since what is refused is often tried again.
                if is_new {
                    tracing::warn!(
                        "cluster: this process may not {} {:?}",
                        violation.action,
                        violation.subject
                    );
                }
                let _ = events.violations.send(violation);
            }
            None => tracing::warn!("cluster: {text}"),
        },
        Event::Disconnected => {
            events.lost_since.send_if_modified(|since| {
                let was_connected = since.is_none();
                since.get_or_insert_with(Instant::now);
                was_connected
            });
            tracing::warn!("cluster: {event}");
        }
        // These are the only messages about such faults: those of async-nats itself are not shown.
        Event::ServerError(_) | Event::ClientError(_) | Event::SlowConsumer(_) => {
            tracing::warn!("cluster: {event}");
        }
        other => tracing::debug!("cluster: {other}"),
    }
}

/// Returns the message of a failed connection with its causes and what to do.
fn connect_error(error: &async_nats::ConnectError) -> String {
    use async_nats::ConnectErrorKind;
    use std::error::Error as _;
    let mut text = match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    // Failed handshakes are reported as errors of the connection, too.
    let kind = match error.kind() {
        ConnectErrorKind::Io if text.contains("certificate") => ConnectErrorKind::Tls,
        kind => kind,
    };
    let remedy = match kind {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            "the servers do not accept the key: name the key file of this role with --nats-key"
        }
        ConnectErrorKind::Tls => {
            "name the certificate of the servers' authority with --nats-ca, and use a host name that their certificates have"
        }
        ConnectErrorKind::TimedOut => "the servers do not answer",
        ConnectErrorKind::Io => "check that the servers run and the addresses are right",
        _ => return text,
    };
    text.push_str(": ");
    text.push_str(remedy);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_violations_are_parsed() {
        let parse = |text: &str| {
            PermissionViolation::parse(text).map(|found| (found.action, found.subject))
        };
        assert_eq!(
            parse("Permissions Violation for Publish to \"mimir.Worker.x.call\""),
            Some(("publish to", "mimir.Worker.x.call".to_owned()))
        );
        assert_eq!(
            parse("Permissions Violation for Subscription to \"a.>\" using queue \"q\""),
            Some(("subscribe to", "a.>".to_owned()))
        );
        assert_eq!(parse("Authorization Violation"), None);
        assert_eq!(parse("Permissions Violation for Publish to"), None);
    }
}
