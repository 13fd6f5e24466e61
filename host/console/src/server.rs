//! The console as a server: listeners, one-time links and shared state.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use mimir_core::ToolError;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::address::AddressCheck;
use crate::backend::ConsoleBackend;
use crate::exports::RunningExports;
use crate::handler::ConsoleListener;
use crate::limits::ConsoleLimits;
use crate::login::BrowserLogin;
use crate::login_budget::LoginBudgets;
use crate::login_pages::LoginSteps;
use crate::login_record::{ConsoleLoginRecord, ConsoleLoginRecorder};
use crate::pairing::QrMatrix;
use crate::rate::RequestBudget;
use crate::request_slots::RequestSlots;
use crate::response::text_response;
use crate::sessions::{SessionOwner, SessionStore, random_secret};
use crate::stream::EventHub;

/// Settings of a console.
pub struct ConsoleOptions {
    /// Version of mimir.
    pub version: String,
    /// Name of the user who started the console.
    pub user: String,
    /// Path at which the console begins, with a slash at both ends.
    pub base: String,
    /// Login of other people. Without it, only one-time links begin sessions.
    pub login: Option<Arc<dyn BrowserLogin>>,
    /// Record of the logins.
    pub recorder: Option<Arc<dyn ConsoleLoginRecorder>>,
    /// Limits.
    pub limits: ConsoleLimits,
}

/// The HTTP side of a console. Clones share sessions and event stream.
#[derive(Clone)]
pub struct ConsoleServer(pub(crate) Arc<SharedConsole>);

pub(crate) struct SharedConsole {
    pub(crate) backend: Arc<dyn ConsoleBackend>,
    pub(crate) options: ConsoleOptions,
    pub(crate) sessions: SessionStore,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) logins: LoginBudgets,
    pub(crate) login_steps: LoginSteps,
    pub(crate) requests: Arc<RequestSlots>,
    pub(crate) exports: Arc<RunningExports>,
    /// Number of sessions that one-time links on this machine have begun.
    pub(crate) local_logins: watch::Sender<u64>,
    recorded_refusals: Mutex<RequestBudget>,
    /// Page for one-time links on this machine, that for paired devices, and the origin for people who log in.
    local: OnceLock<String>,
    origin: OnceLock<String>,
    pub(crate) lan: OnceLock<String>,
}

/// A link that begins one session, for a short time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneTimeLink {
    /// URL with the secret in its fragment, which browsers do not send.
    pub url: String,
    /// Time from which the link is not valid any more.
    pub expires_at: SystemTime,
}

/// Kind of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// Reached from this machine only.
    Local,
    /// Reached from the local network, for paired devices.
    Lan,
    /// Reached by people who log in.
    Team,
}

/// Public address of a console behind a login.
#[derive(Debug, Clone)]
pub struct TeamAddress {
    /// Origin that browsers show, such as `https://mimir.example.com`.
    pub origin: String,
    /// Path that a reverse proxy removes from the requests, such as `/mimir`. Empty if it removes nothing.
    pub prefix: String,
    /// Further names that a reverse proxy may send as `Host`.
    pub names: Vec<String>,
}

impl ConsoleServer {
    /// Creates a console. Fails if the system has no random numbers.
    pub fn new(
        backend: Arc<dyn ConsoleBackend>,
        options: ConsoleOptions,
    ) -> Result<Self, ToolError> {
        let limits = &options.limits;
        Ok(Self(Arc::new(SharedConsole {
            sessions: SessionStore::new(limits.clone()),
            hub: EventHub::new(Arc::clone(&backend), limits.clone())?,
            logins: LoginBudgets::new(limits),
            login_steps: LoginSteps::default(),
            requests: Arc::new(RequestSlots::new(limits)),
            exports: Arc::default(),
            local_logins: watch::Sender::new(0),
            recorded_refusals: Mutex::new(RequestBudget::new(
                limits.recorded_refusals_per_second,
                limits.recorded_refusals_per_second.saturating_mul(20),
            )),
            backend,
            options,
            local: OnceLock::new(),
            origin: OnceLock::new(),
            lan: OnceLock::new(),
        })))
    }

    /// Returns the routes for a listener on a loopback address. Called once.
    pub fn local_router(&self, address: SocketAddr) -> Result<Router, ToolError> {
        let base = self.secret_base()?;
        let _ = self.0.local.set(format!("http://{address}{base}"));
        let check = AddressCheck::loopback(address.port());
        let router = self.router(ListenerKind::Local, check, base.clone(), base, false);
        Ok(if self.is_own_program() {
            router
        } else {
            self.explain_links(router)
        })
    }

    /// Adds a response for the addresses at which a person looks for the console of a server without its link.
    fn explain_links(&self, router: Router) -> Router {
        let text = format!(
            "This is a console of mimir. Open the link that mimir printed when it started: it works once, for 10 minutes. {}",
            self.new_link_hint()
        );
        let explain = axum::routing::any(move || {
            let text = text.clone();
            async move { text_response(StatusCode::NOT_FOUND, &text) }
        });
        let base = &self.0.options.base;
        router
            .route(base.trim_end_matches('/'), explain.clone())
            .route(base, explain.clone())
            .route(&format!("{base}{{*rest}}"), explain)
    }

    /// Returns true for `mimir console`, which serves nothing else.
    fn is_own_program(&self) -> bool {
        self.0.options.base == "/"
    }

    /// Returns a sentence about how to get a new one-time link on this machine.
    pub(crate) fn new_link_hint(&self) -> &'static str {
        if self.is_own_program() {
            "For a new link, press Enter in the terminal in which `mimir console` runs, or start it again."
        } else {
            "For a new link, restart `mimir serve`, or run `mimir console` in the same workspace."
        }
    }

    /// Returns the routes for a listener on an address of the local network, and lets people pair devices. Called once.
    pub fn lan_router(&self, address: SocketAddr) -> Result<Router, ToolError> {
        let base = self.secret_base()?;
        let _ = self.0.lan.set(format!("http://{address}{base}"));
        let check = AddressCheck::address(address);
        Ok(self.router(ListenerKind::Lan, check, base.clone(), base, false))
    }

    /// Returns the routes for people who log in.
    pub fn team_router(&self, address: &TeamAddress) -> Router {
        let check = AddressCheck::public(&address.origin, &address.names);
        let is_secure = address.origin.starts_with("https:");
        let base = self.0.options.base.clone();
        let origin = address.origin.trim_end_matches('/').to_owned();
        let _ = self.0.origin.set(origin);
        let public_base = format!("{}{base}", address.prefix);
        self.router(ListenerKind::Team, check, base, public_base, is_secure)
    }

    /// Returns the response for addresses outside of the console, for a listener that has nothing else.
    pub fn fallback(router: Router) -> Router {
        router.fallback(|_: Request| async {
            text_response(
                StatusCode::NOT_FOUND,
                "This is a console of mimir. Open the link that mimir printed: it works once, for 10 minutes. For a new one, press Enter in the terminal in which it runs.",
            )
        })
    }

    /// Creates a one-time link for the user who started the console.
    pub fn local_link(&self) -> Result<OneTimeLink, ToolError> {
        self.link(&self.0.local, SessionOwner::Local)
    }

    /// Creates a one-time link for a device on the local network, with its QR code.
    pub fn pairing_link(&self) -> Result<(OneTimeLink, QrMatrix), ToolError> {
        let link = self.link(&self.0.lan, SessionOwner::Paired)?;
        let code = QrMatrix::new(&link.url)?;
        Ok((link, code))
    }

    /// Returns a future that ends when a one-time link on this machine is used, from now on.
    pub fn next_local_login(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut logins = self.0.local_logins.subscribe();
        async move {
            let _ = logins.changed().await;
        }
    }

    /// Records a login. Of refused attempts, which anyone can make, only some.
    pub(crate) fn record_login(&self, login: ConsoleLoginRecord) {
        let is_recorded = login.outcome.is_ok() || self.0.recorded_refusals.lock().take();
        if let Some(recorder) = self.0.options.recorder.as_ref().filter(|_| is_recorded) {
            recorder.record(&login);
        }
    }

    /// Ends all sessions and event streams.
    pub fn end_sessions(&self) {
        self.0.sessions.end_all();
    }

    /// Returns the URL to which the identity provider sends a browser back.
    pub(crate) fn callback_url(&self, base: &str) -> String {
        let origin = self.0.origin.get().map_or("", String::as_str);
        format!("{origin}{base}login/callback")
    }

    fn link(&self, page: &OnceLock<String>, owner: SessionOwner) -> Result<OneTimeLink, ToolError> {
        let page = page.get().ok_or_else(|| {
            ToolError::unavailable(
                "the console does not listen on the local network: start it with `mimir console --lan`",
            )
        })?;
        let secret = self.0.sessions.add_link(owner)?;
        // The fraction of a second is not shown anywhere.
        let expires_at = SystemTime::now() + self.0.options.limits.link_lifetime;
        Ok(OneTimeLink {
            url: format!("{page}#key={secret}"),
            expires_at,
        })
    }

    /// Returns a base that other servers on this machine do not know. Browsers send cookies to all ports of a host, so
    /// that a development server of the user would get the cookie if the path were the same.
    fn secret_base(&self) -> Result<String, ToolError> {
        let mut secret = random_secret()?;
        secret.truncate(22);
        Ok(format!("{}{secret}/", self.0.options.base))
    }

    fn router(
        &self,
        kind: ListenerKind,
        check: AddressCheck,
        base: String,
        public_base: String,
        is_secure: bool,
    ) -> Router {
        let listener = Arc::new(ConsoleListener::new(
            self.clone(),
            kind,
            check,
            base.clone(),
            public_base,
            is_secure,
        ));
        let handle = move |request: Request| {
            let listener = Arc::clone(&listener);
            async move { listener.handle(request).await }
        };
        let service = axum::routing::any(handle);
        let bare = base.trim_end_matches('/');
        let mut router = Router::new()
            .route(&base, service.clone())
            .route(&format!("{base}{{*rest}}"), service.clone());
        if !bare.is_empty() {
            router = router.route(bare, service);
        }
        router
    }
}

impl OneTimeLink {
    /// Returns the time until which the link is valid, in milliseconds since 1970.
    pub(crate) fn expires_at_ms(&self) -> u64 {
        milliseconds(self.expires_at)
    }
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since: Duration = since.unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A response, or the error that becomes one.
pub(crate) type ConsoleResult = Result<Response, crate::response::ConsoleRequestError>;
