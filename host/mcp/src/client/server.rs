//! Lifecycle of a server: started on demand, restarted after a failure, stopped when idle.

use parking_lot::Mutex as Lock;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mimir_core::launch::Launcher;
use mimir_core::redact::Vault;
use mimir_core::{Code, ToolError};
use mimir_net::Client;
use rmcp::model::ServerResult;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, timeout};

use super::described::{Described, Store};
use super::desk::Desk;
use super::ears::{Ears, Updates};
use super::link::{End, Era, Link, Unbegun};
use super::oauth::{self, Bearer, Logins};
use super::spec::{ServerSpec, Way};
use super::wanted::Wanted;
use super::{program, web};

mod fault;
mod looking;
mod watched;

/// External dependencies of the servers.
#[derive(Clone)]
pub struct Deps {
    /// Starts programs in the sandbox.
    pub launcher: Arc<dyn Launcher>,
    /// Holds the secrets that are passed to servers.
    pub vault: Arc<dyn Vault>,
    /// Stores descriptions of servers.
    pub store: Arc<dyn Store>,
    /// Creates a client that can reach this URL only, or the reason why the URL is not allowed.
    pub client: Arc<Clients>,
    /// Stores logins.
    pub logins: Arc<dyn Logins>,
    /// The workspace: the root for servers that may know it.
    pub root: Arc<Path>,
}

/// Creates the HTTP client for a URL.
pub type Clients = dyn Fn(&str) -> Result<Client, ToolError> + Send + Sync;

/// Maximum backoff between two attempts to start a failing server.
const BACKOFF_MOST: Duration = Duration::from_secs(60);

/// First backoff; each following one is twice as long.
const BACKOFF: Duration = Duration::from_secs(1);

/// A server that exits sooner after its start counts as failed to start.
const STEADY: Duration = Duration::from_secs(10);

/// Minimum interval between two listings of a server's tools, however often it reports changes.
const RELIST: Duration = Duration::from_secs(1);

/// A server in use.
pub(super) struct Server {
    pub(super) spec: ServerSpec,
    deps: Deps,
    state: Mutex<State>,
    /// Its last known description, with an index of its tools.
    said: Lock<Option<Said>>,
    /// The error of the last start, if it failed.
    fault: Lock<Option<ToolError>>,
    /// End of the last start attempt, which has the last lines of the server's stderr.
    last_end: Lock<Option<Arc<End>>>,
    calls: AtomicUsize,
    used: Lock<Instant>,
    /// Counts the changes of its tool list.
    pub(super) changes: Arc<AtomicUsize>,
    news: Arc<Notify>,
    updates: Updates,
    /// Number of watchers of each resource: a watched server does not become idle.
    watched: Lock<HashMap<String, usize>>,
}

#[derive(Clone)]
struct Said {
    described: Arc<Described>,
    prints: Arc<HashMap<String, String>>,
}

#[derive(Default)]
struct State {
    link: Option<(Arc<Link>, Instant)>,
    failures: u32,
    not_before: Option<Instant>,
    /// Set if a login is required, with the version of the login store at that time.
    wanted: Option<(u64, ToolError)>,
    era: Option<Era>,
}

impl Server {
    pub(super) fn new(
        spec: ServerSpec,
        deps: Deps,
        (changes, news): (Arc<AtomicUsize>, Arc<Notify>),
        updates: Updates,
    ) -> Arc<Self> {
        Arc::new(Self {
            spec,
            deps,
            state: Mutex::default(),
            said: Lock::default(),
            fault: Lock::default(),
            last_end: Lock::default(),
            calls: AtomicUsize::new(0),
            used: Lock::new(Instant::now()),
            changes,
            news,
            updates,
            watched: Lock::default(),
        })
    }

    /// Returns the external dependencies.
    pub(super) fn deps(&self) -> &Deps {
        &self.deps
    }

    /// Returns the workspace.
    pub(super) fn root(&self) -> Arc<Path> {
        Arc::clone(&self.deps.root)
    }

    /// Returns the cache key of its description. The same command line is another program in another workspace.
    fn kept_under(&self) -> String {
        match &self.spec.way {
            Way::Program(_) => self.spec.key_in(&self.deps.root),
            Way::Web { .. } => self.spec.key(),
        }
    }

    /// Returns its last known description, from this run or an earlier one.
    pub(super) fn known(&self) -> Option<Arc<Described>> {
        let mut said = self.said.lock();
        if said.is_none() {
            let kept = self.deps.store.read(&self.kept_under());
            let described = kept.as_deref().and_then(Described::read);
            *said = described.map(|described| self.said(described));
        }
        said.as_ref().map(|said| Arc::clone(&said.described))
    }

    /// Returns its current description, starting it if necessary.
    pub(super) async fn describe(self: &Arc<Self>) -> Result<Arc<Described>, ToolError> {
        let link = self.link().await?;
        self.follow(&link).await?;
        self.known().ok_or_else(|| {
            ToolError::new(Code::Internal, "the description of the server is missing")
        })
    }

    /// Like `describe`, but does not retry a server that failed a moment ago.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Arc<Described>, ToolError> {
        match self.kept_fault() {
            Some(fault) => Err(fault),
            None => self.describe().await,
        }
    }

    /// Calls a tool, if it is unchanged since its approval; or performs the given operation if there is no tool.
    pub(super) async fn call(
        self: &Arc<Self>,
        wanted: &Wanted,
        approved: Option<&str>,
        desk: &Arc<Desk>,
    ) -> Result<ServerResult, ToolError> {
        let _call = Call::begin(self);
        let link = self.link().await?;
        self.follow(&link).await?;
        if let (Wanted::Tool { name, .. }, Some(approved)) = (wanted, approved) {
            self.still_is(name, approved)?;
        }
        link.call(wanted, desk, self.spec.call).await
    }

    /// Checks that a tool is unchanged since its approval.
    fn still_is(&self, theirs: &str, approved: &str) -> Result<(), ToolError> {
        let said = self.said.lock().clone();
        let now = said.as_ref().and_then(|said| said.prints.get(theirs));
        match now {
            Some(now) if now == approved => Ok(()),
            Some(_) => {
                let message = format!(
                    "the server `{}` has changed its description of this tool: it cannot be called until a person has reviewed the difference",
                    self.spec.name
                );
                let way_out = "run `mimir tools list` to see its current tools, and `mimir tools trust NAME` to see the difference";
                Err(ToolError::new(Code::PermissionDenied, message)
                    .with_way_out([way_out.to_owned()]))
            }
            None => {
                let message = format!("the server `{}` no longer has this tool", self.spec.name);
                Err(ToolError::new(Code::Unavailable, message))
            }
        }
    }

    /// Returns the connection, and connects if there is none.
    async fn link(self: &Arc<Self>) -> Result<Arc<Link>, ToolError> {
        let mut state = self.state.lock().await;
        if let Some((link, since)) = &state.link {
            if !link.is_closed() {
                return Ok(Arc::clone(link));
            }
            let fell = since.elapsed() < STEADY;
            state.link = None;
            match fell {
                true => state.failed(),
                false => state.failures = 0,
            }
        }
        if let Some((version, error)) = &state.wanted {
            match *version == self.deps.logins.version() {
                true if state.not_before.is_some_and(|until| until > Instant::now()) => {
                    return Err(error.clone());
                }
                true => {}
                // A person may have logged in meanwhile.
                false => state.again(),
            }
        }
        if let Some(until) = state.not_before
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            let message = format!(
                "the server `{}` has failed {}: it will not be restarted for another {:.1} s",
                self.spec.name,
                match state.failures {
                    1 => "once".to_owned(),
                    times => format!("{times} times in a row"),
                },
                left.as_secs_f32()
            );
            return Err(self.unready(message));
        }
        state.wanted = None;
        let begun = match timeout(self.spec.start, self.begin(&mut state)).await {
            Ok(begun) => begun,
            Err(_) => Err(self.late()),
        };
        match begun {
            Ok(link) => {
                let link = Arc::new(link);
                state.link = Some((Arc::clone(&link), Instant::now()));
                state.not_before = None;
                self.is_well();
                drop(state);
                *self.used.lock() = Instant::now();
                tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&link)));
                Ok(link)
            }
            Err(error) => {
                state.failed();
                if oauth::is_wanted(&error) {
                    // The current version, because renewing a token changes it without a login.
                    state.wanted = Some((self.deps.logins.version(), error.clone()));
                }
                self.is_ill(&error).await;
                Err(error)
            }
        }
    }

    /// Starts the server, or connects to it, and lists its tools.
    async fn begin(&self, state: &mut State) -> Result<Link, ToolError> {
        // Over HTTP the newer generation is tried first, as the protocol requires: that costs an older server one
        // request. A program of the older generation may not survive an unknown request.
        let first = self.spec.era.or(state.era).unwrap_or(match self.spec.way {
            Way::Program(_) => Era::Handshake,
            Way::Web { .. } => Era::Discovery,
        });
        let link = match self.begin_as(first).await {
            Ok(link) => link,
            Err(Unbegun::Failed(error)) => return Err(error),
            // The settings select a generation, so no other is tried.
            Err(Unbegun::Refused(error)) if self.spec.era.is_some() => {
                let key = format!("mcp.servers.{}.protocol", self.spec.name);
                let way_out = format!(
                    "remove `{key}` from the settings to let mimir try both protocol generations"
                );
                return Err(error.with_way_out([way_out]));
            }
            // The server responded, but rejected the start: it may be of the other generation.
            Err(Unbegun::Refused(error)) => match self.begin_as(first.other()).await {
                Ok(link) => {
                    state.era = Some(first.other());
                    link
                }
                // Most servers are of the older generation, so that error tells more.
                Err(Unbegun::Failed(other) | Unbegun::Refused(other)) => {
                    return Err(match first {
                        Era::Handshake => error,
                        Era::Discovery => other,
                    });
                }
            },
        };
        // Only changes from here on matter.
        link.take_stale();
        self.look_again(&link).await?;
        self.watch_again(&link).await;
        Ok(link)
    }

    async fn begin_as(&self, era: Era) -> Result<Link, Unbegun> {
        let vault = &self.deps.vault;
        // A server is not started if its output cannot be checked for secrets.
        let redactor = vault.redactor().map_err(|error| {
            Unbegun::Failed(ToolError::new(Code::Unavailable, error.to_string()))
        })?;
        let ears = Ears::new(&self.spec, &self.updates, redactor.clone());
        let end = End::new(&self.spec.name, redactor);
        *self.last_end.lock() = Some(Arc::clone(&end));
        match &self.spec.way {
            Way::Program(launch) => program::begin(launch, era, ears, end, &self.deps).await,
            Way::Web {
                url,
                headers,
                oauth,
            } => {
                let (name, key) = (&self.spec.name, self.spec.key());
                let reached = web::Reached {
                    url,
                    headers,
                    client: (self.deps.client)(url).map_err(Unbegun::Failed)?,
                    vault: &**vault,
                    bearer: Bearer::new(name, url, headers, oauth, key, &self.deps),
                };
                web::begin(reached, era, ears, end).await
            }
        }
    }

    /// Lists the tools again if the server has reported a change. If that is in progress already, waits for it: a call
    /// is checked against the current definition of its tool.
    pub(super) async fn follow(&self, link: &Link) -> Result<(), ToolError> {
        let _turn = link.following.lock().await;
        if !link.take_stale() {
            return Ok(());
        }
        let mut asking = Asking(Some(link));
        self.look_again(link).await?;
        asking.0 = None;
        Ok(())
    }

    /// Returns true if the server is running or connected.
    pub(super) async fn runs(&self) -> bool {
        let state = self.state.lock().await;
        state
            .link
            .as_ref()
            .is_some_and(|(link, _)| !link.is_closed())
    }

    /// Stops it, unless a call is in progress.
    async fn rest(&self) {
        let mut state = self.state.lock().await;
        if self.is_idle() {
            state.link = None;
        }
    }

    fn is_idle(&self) -> bool {
        let used = *self.used.lock();
        let watched = self.watched.lock();
        self.calls.load(Ordering::Acquire) == 0
            && watched.is_empty()
            && used.elapsed() >= self.spec.idle
    }
}

impl State {
    /// Allows an immediate restart.
    fn again(&mut self) {
        (self.failures, self.not_before, self.wanted) = (0, None, None);
    }

    fn failed(&mut self) {
        let doubled = BACKOFF.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + doubled.min(BACKOFF_MOST));
    }
}

/// Marks the tools as stale again if a listing is cancelled.
struct Asking<'a>(Option<&'a Link>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.ears.still_stale();
        }
    }
}

/// Counts a call in progress.
struct Call<'a>(&'a Server);

impl<'a> Call<'a> {
    fn begin(server: &'a Server) -> Self {
        server.calls.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Monitors a connection: lists the tools again after changes, and closes it when idle.
async fn watch(server: Weak<Server>, link: Weak<Link>) {
    let Some(idle) = server.upgrade().map(|server| server.spec.idle) else {
        return;
    };
    // A quarter of the idle time: precise enough for its purpose, and rare enough to cost nothing.
    let pace = (idle / 4).clamp(Duration::from_millis(20), Duration::from_secs(10));
    loop {
        let Some(ears) = link.upgrade().map(|link| Arc::clone(&link.ears)) else {
            return;
        };
        let changed = timeout(pace, ears.changed()).await.is_ok();
        let (Some(server), Some(there)) = (server.upgrade(), link.upgrade()) else {
            return;
        };
        if there.is_closed() {
            return;
        }
        if changed {
            if let Err(error) = server.follow(&there).await {
                tracing::warn!(server = server.spec.name, %error, "cannot list the changed tools of the server");
            }
            drop((server, there));
            sleep(RELIST).await;
            continue;
        }
        if server.is_idle() {
            drop(there);
            server.rest().await;
        }
    }
}
