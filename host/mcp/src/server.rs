//! The server: one pipeline before any number of clients.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

/// Who is asked when the client cannot ask its person, and for how long anybody is waited for.
#[derive(Clone)]
pub struct Asking {
    /// Asked after the client.
    pub next: Arc<dyn Approver>,
    /// How long a person may take; for ever if there is no end.
    pub timeout: Option<Duration>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Hears of each call that was refused, by the name of its tool: the error says what would allow it, which is for the
/// person and not for the model that reads the result.
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
    /// How often the catalogue has changed.
    revision: watch::Sender<Revision>,
    /// Told when the world has been replaced.
    replaced: watch::Sender<()>,
    /// The servers behind, whose resources and prompts are passed on.
    servers: Option<Arc<Servers>>,
    /// A channel that turns true when all components of the workspace were described.
    described: OnceLock<watch::Receiver<bool>>,
    /// How many calls are under way.
    busy: watch::Sender<usize>,
    /// Whether the server ends.
    gone: Gone,
    metrics: Metrics,
}

impl Server {
    /// A server over this pipeline.
    pub fn new(pipeline: Pipeline, asking: Asking, on_refusal: OnRefusal) -> Self {
        Self::before(pipeline, asking, on_refusal, None)
    }

    /// A server over this pipeline that passes on what these servers have beside tools.
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

    /// A server whose tools are not all known yet: a call of a tool that is not there waits until `described` is true.
    #[must_use]
    pub fn waiting_for(self, described: watch::Receiver<bool>) -> Self {
        // Set once, right after it was made.
        let _ = self.0.described.set(described);
        self
    }

    /// The world of the pipeline has been replaced: clients are told if their list is another now.
    pub fn refresh(&self) {
        self.catalogue();
        self.0.replaced.send_replace(());
    }

    /// Stops all calls. That they were stopped is recorded.
    pub(crate) fn stop(&self) {
        self.0.gone.say();
    }

    /// How many calls are under way.
    pub(crate) fn calls(&self) -> usize {
        *self.0.busy.borrow()
    }

    /// What has been done, as Prometheus reads it.
    pub(crate) fn metrics(&self, sessions: usize, others: &[Figure]) -> String {
        self.0.metrics.text(self.calls(), sessions, others)
    }

    /// Waits until no call is under way, and each is on record, but no longer than this.
    pub async fn quiet(&self, at_most: Duration) {
        let mut busy = self.0.busy.subscribe();
        let quiet = busy.wait_for(|calls| *calls == 0);
        let _ = tokio::time::timeout(at_most, quiet).await;
    }

    /// The tools as they are now.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        let shared = &self.0;
        let mut known = shared
            .catalogue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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

    /// The servers behind.
    fn servers(&self) -> Option<&Arc<Servers>> {
        self.0.servers.as_ref()
    }

    /// Changes of the catalogue from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<Revision> {
        self.0.revision.subscribe()
    }

    /// Who is asked about a call: the client's person if the client can ask, and then the others.
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

    /// Counts a call until the guard is dropped.
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
