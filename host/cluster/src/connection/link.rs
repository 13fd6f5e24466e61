//! One network connection to NATS, with the events that async-nats reports to a callback only.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Event, ServerError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::Instant;

use super::{ACCESS_TIMEOUT, CONNECT_TIMEOUT, LOST_AFTER};
use crate::names;
use crate::options::CheckedOptions;

/// Interval of pings. Two that are not answered end a connection to a server that hangs.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Longest pause between attempts to connect again.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

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

/// The subjects that the server has refused, on all connections of the process.
#[derive(Clone)]
pub(super) struct ViolationLog {
    pub(super) found: broadcast::Sender<PermissionViolation>,
    /// The violations that were logged.
    reported: Arc<Mutex<HashSet<PermissionViolation>>>,
}

impl ViolationLog {
    pub(super) fn new() -> Self {
        Self {
            found: broadcast::Sender::new(256),
            reported: Arc::default(),
        }
    }

    fn report(&self, violation: PermissionViolation) {
        let is_new = self.reported.lock().insert(violation.clone());
        // Each subject once, since what is refused is often tried again.
        if is_new {
            tracing::warn!(
                "cluster: this process may not {} {:?}",
                violation.action,
                violation.subject
            );
        }
        let _ = self.found.send(violation);
    }
}

/// A network connection, and the runtime of its input and output.
pub(super) struct NatsLink {
    pub(super) client: async_nats::Client,
    pub(super) runtime: Handle,
    events: LinkEvents,
    /// Ends the thread of the runtime, if it has one of its own, when the link is dropped.
    _stop: Option<oneshot::Sender<()>>,
}

#[derive(Clone)]
struct LinkEvents {
    /// Name of the connection in messages.
    name: &'static str,
    violations: ViolationLog,
    /// Number of connections so far.
    generation: watch::Sender<u64>,
    /// The time since which no server is connected.
    lost_since: watch::Sender<Option<Instant>>,
}

/// A failed attempt to connect.
pub(super) struct LinkFailure {
    pub(super) text: String,
    /// True if the servers may be about to start.
    pub(super) is_temporary: bool,
}

impl LinkFailure {
    fn lasting(text: impl ToString) -> Self {
        Self {
            text: text.to_string(),
            is_temporary: false,
        }
    }
}

impl LinkEvents {
    fn new(name: &'static str, violations: ViolationLog) -> Self {
        Self {
            name,
            violations,
            generation: watch::Sender::new(0),
            lost_since: watch::Sender::new(None),
        }
    }
}

impl NatsLink {
    /// Connects with a thread of its own, so that callers may block.
    pub(super) async fn on_own_thread(
        options: &Arc<CheckedOptions>,
        violations: &ViolationLog,
    ) -> Result<Self, LinkFailure> {
        let events = LinkEvents::new("cluster", violations.clone());
        let (started, is_started) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (options, thread_events) = (Arc::clone(options), events.clone());
        let spawned = std::thread::Builder::new()
            .name("mimir-cluster".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = match runtime {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(started.send(Err(LinkFailure::lasting(error)))),
                };
                runtime.block_on(async {
                    let client = connect_in_time(&options, thread_events).await;
                    let _ = started.send(client.map(|client| (client, Handle::current())));
                    let _ = stopped.await;
                });
            });
        spawned.map_err(LinkFailure::lasting)?;
        let connected = is_started.await;
        let connected = connected.map_err(|_| LinkFailure::lasting("the connection was closed"))?;
        let (client, runtime) = connected?;
        Ok(Self {
            client,
            runtime,
            events,
            _stop: Some(stop),
        })
    }

    /// Connects on the current runtime, so that its tasks wake no other thread.
    pub(super) async fn on_current_runtime(
        options: &CheckedOptions,
        violations: &ViolationLog,
    ) -> Result<Self, LinkFailure> {
        let events = LinkEvents::new("cluster, connection for calls", violations.clone());
        Ok(Self {
            client: connect_in_time(options, events.clone()).await?,
            runtime: Handle::current(),
            events,
            _stop: None,
        })
    }

    /// Returns true while a server is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns true if no server has been connected for some time, so that another one of the cluster is not about to be.
    pub(super) fn is_lost(&self) -> bool {
        let since = *self.events.lost_since.borrow();
        since.is_some_and(|since| since.elapsed() >= LOST_AFTER)
    }

    /// Completes when [`Self::is_lost`] is true. Needs a runtime with timers.
    pub(super) async fn lost(&self) {
        let mut lost_since = self.events.lost_since.subscribe();
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

    /// Returns the number of connections so far, to be watched.
    pub(super) fn generation(&self) -> watch::Receiver<u64> {
        self.events.generation.subscribe()
    }
}

/// Connects a client within [`CONNECT_TIMEOUT`].
async fn connect_in_time(
    options: &CheckedOptions,
    events: LinkEvents,
) -> Result<async_nats::Client, LinkFailure> {
    let client = tokio::time::timeout(CONNECT_TIMEOUT, connect_client(options, events));
    let client = client.await;
    let client = client.unwrap_or_else(|_| Err(("no answer".to_owned(), true)));
    client.map_err(|(text, is_temporary)| LinkFailure { text, is_temporary })
}

/// Connects a client. An error has a text, and whether another attempt may have success.
async fn connect_client(
    options: &CheckedOptions,
    events: LinkEvents,
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

fn note_event(events: &LinkEvents, event: &Event) {
    match event {
        Event::Connected => {
            if let Some(since) = events.lost_since.send_replace(None) {
                // As visible as the message about the loss, so that a log does not end with that.
                tracing::warn!(
                    "{}: connected again after {} s",
                    events.name,
                    since.elapsed().as_secs()
                );
            }
            events.generation.send_modify(|number| *number += 1);
        }
        Event::ServerError(ServerError::Other(text)) => match PermissionViolation::parse(text) {
            Some(violation) => {
                events.violations.report(violation);
            }
            None => tracing::warn!("{}: {text}", events.name),
        },
        Event::Disconnected => {
            events.lost_since.send_if_modified(|since| {
                let was_connected = since.is_none();
                since.get_or_insert_with(Instant::now);
                was_connected
            });
            tracing::warn!("{}: {event}", events.name);
        }
        // These are the only messages about such faults: those of async-nats itself are not shown.
        Event::ServerError(_) | Event::ClientError(_) | Event::SlowConsumer(_) => {
            tracing::warn!("{}: {event}", events.name);
        }
        other => tracing::debug!("{}: {other}", events.name),
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
