//! The connection of a process to NATS.
//!
//! A process that takes part in calls has two network connections. The input and output of the first run on a thread of
//! their own: leases, watches and the control of calls go on while a pipeline keeps all threads of its runtime busy.
//! Those of the second run on that runtime, so that a call wakes no other thread for each of its messages. Nothing relies
//! on the order of messages of different connections. The loss of either refuses calls.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::options::ConnectionOptions;

mod link;

pub(crate) use link::PermissionViolation;

use link::{LinkFailure, NatsLink, ViolationLog};

/// Maximum time of one access. A server that does not answer within it counts as unreachable.
pub(crate) const ACCESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time until the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a connection after which calls are refused at once. Another server of the cluster is connected before.
const LOST_AFTER: Duration = Duration::from_secs(2);

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
    #[error(
        "the key of this process may not {action} {subject:?}: name the key file of the role with --nats-key; commands \
         need keys/admin.nk, servers keys/front.nk, workers keys/worker.nk"
    )]
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

/// The connection of a process. Clones share it.
#[derive(Clone)]
pub struct ClusterConnection {
    parts: Arc<ConnectionParts>,
    /// True for the view of [`Self::for_calls`].
    is_for_calls: bool,
}

struct ConnectionParts {
    main: NatsLink,
    /// The connection on the runtime of calls.
    calls: Option<NatsLink>,
    jetstream: jetstream::Context,
    servers: String,
    violations: ViolationLog,
}

/// A failed attempt to connect.
struct ConnectFailure {
    error: ClusterError,
    /// True if the servers may be about to start.
    is_temporary: bool,
}

impl ClusterConnection {
    /// Connects to the cluster. Once connected, a lost connection is made again for as long as the process runs.
    pub async fn connect(options: ConnectionOptions) -> Result<Self, ClusterError> {
        Self::try_connect(options, false)
            .await
            .map_err(|failure| failure.error)
    }

    /// Connects a process that takes part in calls, which run on the current runtime. If it has several threads, the
    /// messages of calls have a network connection of their own.
    pub async fn connect_node(options: ConnectionOptions) -> Result<Self, ClusterError> {
        let has_threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        Self::try_connect(options, has_threads)
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
            match Self::try_connect(options.clone(), false).await {
                Err(failure) if failure.is_temporary && began.elapsed() < timeout => {}
                result => return result.map_err(|failure| failure.error),
            }
            if let Some(on_delay) = on_delay.take_if(|_| began.elapsed() >= DELAY_NOTICE) {
                on_delay();
            }
            tokio::time::sleep(CONNECT_RETRY).await;
        }
    }

    async fn try_connect(
        options: ConnectionOptions,
        has_call_link: bool,
    ) -> Result<Self, ConnectFailure> {
        let checked = options.check().map_err(|error| ConnectFailure {
            error,
            is_temporary: false,
        })?;
        let checked = Arc::new(checked);
        let servers = checked.servers.join(",");
        let failed = |failure: LinkFailure| ConnectFailure {
            error: ClusterError::Connect {
                servers: servers.clone(),
                text: failure.text,
            },
            is_temporary: failure.is_temporary,
        };
        let violations = ViolationLog::new();
        let main = NatsLink::on_own_thread(&checked, &violations).await;
        let main = main.map_err(failed)?;
        let calls = if has_call_link {
            let link = NatsLink::on_current_runtime(&checked, &violations).await;
            Some(link.map_err(failed)?)
        } else {
            None
        };
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(ACCESS_TIMEOUT)
            .ack_timeout(ACCESS_TIMEOUT)
            .build(main.client.clone());
        let parts = Arc::new(ConnectionParts {
            main,
            calls,
            jetstream,
            servers,
            violations,
        });
        Ok(Self {
            parts,
            is_for_calls: false,
        })
    }

    /// Returns a view whose messages use the connection on the runtime of calls, if there is one. It is not for tasks that
    /// must go on while calls block the threads of that runtime.
    pub(crate) fn for_calls(&self) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            is_for_calls: true,
        }
    }

    /// Returns true if the current task runs on the runtime of calls, and calls have a connection of their own.
    pub(crate) fn is_on_call_runtime(&self) -> bool {
        let calls = self.parts.calls.as_ref();
        calls.is_some_and(|calls| {
            Handle::try_current().is_ok_and(|current| current.id() == calls.runtime.id())
        })
    }

    fn links(&self) -> impl Iterator<Item = &NatsLink> {
        std::iter::once(&self.parts.main).chain(&self.parts.calls)
    }

    /// Returns the network connection of this view.
    fn link(&self) -> &NatsLink {
        let calls = self.parts.calls.as_ref().filter(|_| self.is_for_calls);
        calls.unwrap_or(&self.parts.main)
    }

    /// Returns true while the process is connected.
    pub fn is_connected(&self) -> bool {
        self.links().all(NatsLink::is_connected)
    }

    /// Returns true if no server has been connected for some time, so that another one of the cluster is not about to be.
    pub(crate) fn is_lost(&self) -> bool {
        self.links().any(NatsLink::is_lost)
    }

    /// Returns true if the network connection of this view is lost, like [`Self::is_lost`] for all of them.
    pub(crate) fn is_link_lost(&self) -> bool {
        self.link().is_lost()
    }

    /// Completes when [`Self::is_lost`] is true. Needs a runtime with timers.
    pub(crate) async fn lost(&self) {
        let calls_lost = async {
            match &self.parts.calls {
                Some(calls) => calls.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.parts.main.lost() => {}
            () = calls_lost => {}
        }
    }

    /// Waits for a connection. Returns false if it is lost.
    pub(crate) async fn wait_until_connected(&self) -> bool {
        for link in self.links() {
            let mut generation = link.generation();
            while !link.is_connected() {
                tokio::select! {
                    () = self.lost() => return self.is_connected(),
                    changed = generation.changed() => if changed.is_err() { return false },
                }
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
            servers: self.parts.servers.clone(),
            text,
        };
        let published = self.client().publish(subject, Bytes::new()).await;
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
        &self.link().client
    }

    /// Returns the client for streams and stores.
    pub(crate) fn jetstream(&self) -> &jetstream::Context {
        &self.parts.jetstream
    }

    /// Returns the runtime of the connection, for tasks that must go on while callers block.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.link().runtime
    }

    /// Returns a receiver of the subjects that the key may not use, from now on.
    pub(crate) fn violations(&self) -> broadcast::Receiver<PermissionViolation> {
        self.parts.violations.found.subscribe()
    }

    /// Returns the number of connections so far, to be watched. A change means that messages may have been missed.
    pub(crate) fn generation(&self) -> watch::Receiver<u64> {
        self.link().generation()
    }

    /// Returns the addresses of the servers, for messages.
    pub fn servers(&self) -> &str {
        &self.parts.servers
    }
}
