//! The MCP server: one pipeline for any number of clients.

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mimir_core::approval::Chain;
use mimir_core::{Approver, Clock, Pipeline, ToolError};
use tokio::sync::watch;

use crate::ask::Parking;
use crate::catalogue::{Catalogue, Revision};
use crate::client::Servers;
use crate::metrics::{Figure, Metrics};
use crate::progress::Client;

mod calling;
mod handler;
mod library;
mod seeking;
mod session;
mod watching;
mod wrong;

pub(crate) use session::{Gone, Session};
pub(crate) use wrong::wrong_params;

/// Approval settings: the approver for clients that cannot ask their person, and the timeout of an answer.
#[derive(Clone)]
pub struct Asking {
    /// Approver that is asked after the client.
    pub next: Arc<dyn Approver>,
    /// Time limit for a person's answer; none to wait forever.
    pub timeout: Option<Duration>,
    /// Clock for the timeout.
    pub clock: Arc<dyn Clock>,
}

/// Called for each denied call with the name of its tool: the error has the hints on how to allow it, which are meant
/// for the person and not for the model that reads the result.
pub type OnRefusal = Arc<dyn Fn(&str, &ToolError) + Send + Sync>;

/// Serves the tools of one pipeline. Clones share it.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    pipeline: Pipeline,
    asking: Asking,
    on_refusal: OnRefusal,
    parking: Parking,
    catalogue: Mutex<Arc<Catalogue>>,
    /// Counts the changes of the catalogue.
    revision: watch::Sender<Revision>,
    /// Notified when the snapshot has been replaced.
    replaced: watch::Sender<()>,
    /// The MCP servers behind this one, whose resources and prompts are passed on.
    servers: Option<Arc<Servers>>,
    /// Channel that becomes true when all components of the workspace have been described.
    described: OnceLock<watch::Receiver<bool>>,
    /// Number of calls in progress.
    busy: watch::Sender<usize>,
    /// Signals that the server shuts down.
    gone: Gone,
    metrics: Metrics,
}

impl Server {
    /// Creates a server for this pipeline.
    pub fn new(pipeline: Pipeline, asking: Asking, on_refusal: OnRefusal) -> Self {
        Self::before(pipeline, asking, on_refusal, None)
    }

    /// Creates a server for this pipeline that also passes on resources and prompts of these MCP servers.
    pub fn before(
        pipeline: Pipeline,
        asking: Asking,
        on_refusal: OnRefusal,
        servers: Option<Arc<Servers>>,
    ) -> Self {
        let catalogue = Catalogue::of(pipeline.world(), servers.as_deref());
        let catalogue = Mutex::new(Arc::new(catalogue));
        Self(Arc::new(Shared {
            pipeline,
            asking,
            on_refusal,
            parking: Parking::default(),
            catalogue,
            revision: watch::Sender::default(),
            replaced: watch::Sender::default(),
            servers,
            described: OnceLock::new(),
            busy: watch::Sender::default(),
            gone: Gone::default(),
            metrics: Metrics::default(),
        }))
    }

    /// Makes calls of unknown tools wait until `described` is true, because not all tools are known yet.
    #[must_use]
    pub fn waiting_for(self, described: watch::Receiver<bool>) -> Self {
        // Called once, right after creation, so it cannot be set already.
        let _ = self.0.described.set(described);
        self
    }

    /// Notifies clients if their tool list changed because the pipeline's snapshot has been replaced.
    pub fn refresh(&self) {
        self.catalogue();
        self.0.replaced.send_replace(());
    }

    /// Stops all calls. They are recorded as stopped.
    pub(crate) fn stop(&self) {
        self.0.gone.say();
    }

    /// Returns the number of calls in progress.
    pub(crate) fn calls(&self) -> usize {
        *self.0.busy.borrow()
    }

    /// Returns the metrics in the Prometheus text format.
    pub(crate) fn metrics(&self, sessions: usize, others: &[Figure]) -> String {
        self.0.metrics.text(self.calls(), sessions, others)
    }

    /// Waits until no call is in progress and each is in the audit log, for at most the given time.
    pub async fn quiet(&self, at_most: Duration) {
        let mut busy = self.0.busy.subscribe();
        let quiet = busy.wait_for(|calls| *calls == 0);
        let _ = tokio::time::timeout(at_most, quiet).await;
    }

    /// Returns the current tool catalogue.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let shared = &self.0;
        let mut known = shared.catalogue.lock();
        let world = shared.pipeline.world();
        if !known.is_of(&world) {
            let now = Arc::new(Catalogue::of(world, shared.servers.as_deref()));
            let before = std::mem::replace(&mut *known, now);
            shared
                .revision
                .send_if_modified(|revision| known.count(&before, revision));
        }
        Arc::clone(&known)
    }

    /// Returns the MCP servers behind this one.
    fn servers(&self) -> Option<&Arc<Servers>> {
        self.0.servers.as_ref()
    }

    /// Returns a receiver of catalogue changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Revision> {
        self.0.revision.subscribe()
    }

    /// Returns the approver of a call: the client's person if the client supports it, then the next one.
    fn person(&self, client: Option<Client>) -> Box<dyn Approver> {
        let asking = &self.0.asking;
        let client = client.map(|client| Arc::new(client) as Arc<dyn Approver>);
        let all = client.into_iter().chain([Arc::clone(&asking.next)]);
        Box::new(Chain::new(
            all.collect(),
            asking.timeout,
            Arc::clone(&asking.clock),
        ))
    }

    /// Counts a call as in progress until the guard is dropped.
    fn busy(&self) -> Busy {
        self.0.busy.send_modify(|calls| *calls += 1);
        Busy(self.clone())
    }
}

struct Busy(Server);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.busy.send_modify(|calls| *calls -= 1);
    }
}
