//! One server through its life: started when it is needed, started again after it fell, stopped when nobody asks.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError, Weak};
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

/// What servers need from outside.
#[derive(Clone)]
pub struct Deps {
    /// Starts programs in the sandbox.
    pub launcher: Arc<dyn Launcher>,
    /// Has the secrets that servers are given.
    pub vault: Arc<dyn Vault>,
    /// Keeps what servers have said.
    pub store: Arc<dyn Store>,
    /// A client that reaches this URL and no other, or why it may not be reached.
    pub client: Arc<Clients>,
    /// Keeps the logins at servers.
    pub logins: Arc<dyn Logins>,
    /// The workspace: the root that a server is told if it is told one.
    pub root: Arc<Path>,
}

/// Gives the client that reaches a URL.
pub type Clients = dyn Fn(&str) -> Result<Client, ToolError> + Send + Sync;

/// The longest time between two tries to start a server that fails.
const BACKOFF_MOST: Duration = Duration::from_secs(60);

/// The first of these times; each is twice the one before.
const BACKOFF: Duration = Duration::from_secs(1);

/// A server that ends sooner after its start has failed to start.
const STEADY: Duration = Duration::from_secs(10);

/// A server's tools are asked for at most this often, however often it says that they have changed.
const RELIST: Duration = Duration::from_secs(1);

/// A server that is used.
pub(super) struct Server {
    pub(super) spec: ServerSpec,
    deps: Deps,
    state: Mutex<State>,
    /// What it said last, and what each of its tools is by that.
    said: Lock<Option<Said>>,
    /// Why it could not be started, or reached, the last time.
    fault: Lock<Option<ToolError>>,
    /// The end of the start that was tried last: it has the last lines of the server's stderr.
    last_end: Lock<Option<Arc<End>>>,
    calls: AtomicUsize,
    used: Lock<Instant>,
    /// Counts how often its tools were others than before.
    pub(super) changes: Arc<AtomicUsize>,
    news: Arc<Notify>,
    updates: Updates,
    /// How many watch each of its resources: it is not idle meanwhile.
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
    /// That somebody has to log in, as of this version of what is kept.
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

    /// What it needs from outside.
    pub(super) fn deps(&self) -> &Deps {
        &self.deps
    }

    /// The workspace.
    pub(super) fn root(&self) -> Arc<Path> {
        Arc::clone(&self.deps.root)
    }

    /// The name under which it is kept what it said. The same command line is another program in another workspace.
    fn kept_under(&self) -> String {
        match &self.spec.way {
            Way::Program(_) => self.spec.key_in(&self.deps.root),
            Way::Web { .. } => self.spec.key(),
        }
    }

    /// What it said last, now or in an earlier run.
    pub(super) fn known(&self) -> Option<Arc<Described>> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none() {
            let kept = self.deps.store.read(&self.kept_under());
            let described = kept.as_deref().and_then(Described::read);
            *said = described.map(|described| self.said(described));
        }
        said.as_ref().map(|said| Arc::clone(&said.described))
    }

    /// What it says now.
    pub(super) async fn describe(self: &Arc<Self>) -> Result<Arc<Described>, ToolError> {
        let link = self.link().await?;
        self.follow(&link).await?;
        self.known()
            .ok_or_else(|| ToolError::new(Code::Internal, "what a server has said is not there"))
    }

    /// The same for those who only look: one that failed a moment ago is left alone.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Arc<Described>, ToolError> {
        match self.kept_fault() {
            Some(fault) => Err(fault),
            None => self.describe().await,
        }
    }

    /// Calls a tool, if it is still the one that was approved; reads what is asked for where nothing was.
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

    /// Whether a tool is what it was when it was approved.
    fn still_is(&self, theirs: &str, approved: &str) -> Result<(), ToolError> {
        let said = self
            .said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let now = said.as_ref().and_then(|said| said.prints.get(theirs));
        match now {
            Some(now) if now == approved => Ok(()),
            Some(_) => {
                let message = format!(
                    "the server `{}` says something else of this tool than it did; it cannot be called before a person has seen the difference",
                    self.spec.name
                );
                let way_out = "`mimir tools list` shows its tools as they are now; `mimir tools trust NAME` shows the difference";
                Err(ToolError::new(Code::PermissionDenied, message)
                    .with_way_out([way_out.to_owned()]))
            }
            None => {
                let message = format!(
                    "the server `{}` does not have this tool any more",
                    self.spec.name
                );
                Err(ToolError::new(Code::Unavailable, message))
            }
        }
    }

    /// A connection, made if there is none.
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
                // Somebody may have logged in.
                false => state.again(),
            }
        }
        if let Some(until) = state.not_before
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            let message = format!(
                "the server `{}` has failed {}; it is not started again for another {:.1} s",
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
                *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                tokio::spawn(watch(Arc::downgrade(self), Arc::downgrade(&link)));
                Ok(link)
            }
            Err(error) => {
                state.failed();
                if oauth::is_wanted(&error) {
                    // As it is now: what was renewed meanwhile is no login.
                    state.wanted = Some((self.deps.logins.version(), error.clone()));
                }
                self.is_ill(&error).await;
                Err(error)
            }
        }
    }

    /// Starts it, or reaches it, and asks for its tools.
    async fn begin(&self, state: &mut State) -> Result<Link, ToolError> {
        // Over HTTP the newer era is asked for first, as it wants it: that costs an older server one request. A program
        // of the older era may not survive a request that it does not know.
        let first = self.spec.era.or(state.era).unwrap_or(match self.spec.way {
            Way::Program(_) => Era::Handshake,
            Way::Web { .. } => Era::Discovery,
        });
        let link = match self.begin_as(first).await {
            Ok(link) => link,
            Err(Unbegun::Failed(error)) => return Err(error),
            // The settings say which, and no other is tried.
            Err(Unbegun::Refused(error)) if self.spec.era.is_some() => {
                let key = format!("mcp.servers.{}.protocol", self.spec.name);
                let way_out = format!(
                    "without `{key}` in the settings, mimir tries both protocol generations"
                );
                return Err(error.with_way_out([way_out]));
            }
            // It answered, and does not know how: it may be of the other era.
            Err(Unbegun::Refused(error)) => match self.begin_as(first.other()).await {
                Ok(link) => {
                    state.era = Some(first.other());
                    link
                }
                // Most servers are of the older one: what they say of it tells more.
                Err(Unbegun::Failed(other) | Unbegun::Refused(other)) => {
                    return Err(match first {
                        Era::Handshake => error,
                        Era::Discovery => other,
                    });
                }
            },
        };
        // What it is now is what counts from here on.
        link.take_stale();
        self.look_again(&link).await?;
        self.watch_again(&link).await;
        Ok(link)
    }

    async fn begin_as(&self, era: Era) -> Result<Link, Unbegun> {
        let vault = &self.deps.vault;
        // Who cannot be kept from telling secrets is not started.
        let redactor = vault.redactor().map_err(|error| {
            Unbegun::Failed(ToolError::new(Code::Unavailable, error.to_string()))
        })?;
        let ears = Ears::new(&self.spec, &self.updates, redactor.clone());
        let end = End::new(&self.spec.name, redactor);
        *self.last_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&end));
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

    /// Asks again what its tools are, if it has said that they have changed. Where that is being asked already, the
    /// answer is waited for: a call is judged by what its tool is now.
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

    /// Whether it runs, or is reached, at the moment.
    pub(super) async fn runs(&self) -> bool {
        let state = self.state.lock().await;
        state
            .link
            .as_ref()
            .is_some_and(|(link, _)| !link.is_closed())
    }

    /// Stops it, unless it is in the middle of a call.
    async fn rest(&self) {
        let mut state = self.state.lock().await;
        if self.is_idle() {
            state.link = None;
        }
    }

    fn is_idle(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.load(Ordering::Acquire) == 0
            && watched.is_empty()
            && used.elapsed() >= self.spec.idle
    }
}

impl State {
    /// It may be tried again at once.
    fn again(&mut self) {
        (self.failures, self.not_before, self.wanted) = (0, None, None);
    }

    fn failed(&mut self) {
        let doubled = BACKOFF.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + doubled.min(BACKOFF_MOST));
    }
}

/// A question that was not answered yet: if it never is, it has to be asked again.
struct Asking<'a>(Option<&'a Link>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.ears.still_stale();
        }
    }
}

/// A call that is under way.
struct Call<'a>(&'a Server);

impl<'a> Call<'a> {
    fn begin(server: &'a Server) -> Self {
        server.calls.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Looks after a connection: asks again when the tools have changed, and ends it when nobody uses it.
async fn watch(server: Weak<Server>, link: Weak<Link>) {
    let Some(idle) = server.upgrade().map(|server| server.spec.idle) else {
        return;
    };
    // Often enough that nobody waits twice as long as was set, and not so often that it costs anything.
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
                tracing::warn!(server = server.spec.name, %error, "it is not known what its tools are now");
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
