//! Requests at a listener: address, session, role and limits are checked before the backend sees them.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_DISPOSITION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use mimir_core::{ToolError, ToolErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::address::AddressCheck;
use crate::exports::export_body;
use crate::login_budget::LoginOrigin;
use crate::login_record::{ConsoleLoginKind, ConsoleLoginRecord, LoginClient};
use crate::page::page_file;
use crate::request::{ConsoleRequest, RecordFilter};
use crate::response::{
    ConsoleRequestError, add_cookie, content_response, empty_response, json_response,
    redirect_response,
};
use crate::routes::{ApiRoute, BackendRoute, parse_route};
use crate::server::{ConsoleResult, ConsoleServer, ListenerKind, milliseconds};
use crate::sessions::{BrowserSession, SessionOwner};
use crate::user::{ConsoleRole, ConsoleUser};

/// Name of the session cookie, after a prefix.
const COOKIE: &str = "mimir_console";

/// A listener of the console.
pub(crate) struct ConsoleListener {
    pub(crate) server: ConsoleServer,
    pub(crate) kind: ListenerKind,
    check: AddressCheck,
    /// Path at which the console begins, with a slash at both ends.
    pub(crate) base: String,
    /// That path as browsers see it. A reverse proxy may have removed its beginning.
    pub(crate) public_base: String,
    /// True if browsers reach this listener over https.
    pub(crate) is_secure: bool,
}

/// Body of a login with a one-time link.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkLogin {
    key: String,
}

impl ConsoleListener {
    pub(crate) fn new(
        server: ConsoleServer,
        kind: ListenerKind,
        check: AddressCheck,
        base: String,
        public_base: String,
        is_secure: bool,
    ) -> Self {
        Self {
            server,
            kind,
            check,
            base,
            public_base,
            is_secure,
        }
    }

    /// Answers a request.
    pub(crate) async fn handle(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let answered = self.answer(&parts, body).await;
        answered.unwrap_or_else(ConsoleRequestError::into_response)
    }

    async fn answer(&self, parts: &Parts, body: Body) -> ConsoleResult {
        self.check.check_host(&parts.uri, &parts.headers)?;
        let path = parts.uri.path();
        let Some(rest) = path.strip_prefix(self.base.as_str()) else {
            // The page's addresses are relative to its folder.
            return redirect_response(&self.public_base).ok_or_else(ConsoleRequestError::not_found);
        };
        if let Some(api) = rest.strip_prefix("api/") {
            return self.answer_api(api, parts, body).await;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(method_not_allowed());
        }
        if self.kind == ListenerKind::Team && matches!(rest, "login" | "login/callback") {
            return self.answer_login(rest, parts).await;
        }
        let file = page_file(rest).ok_or_else(ConsoleRequestError::not_found)?;
        Ok(content_response(file.kind, file.content))
    }

    async fn answer_api(&self, path: &str, parts: &Parts, body: Body) -> ConsoleResult {
        let route = parse_route(&parts.method, path, parts.uri.query().unwrap_or_default())?;
        match parts.method {
            Method::POST => self.check.check_writer(&parts.headers)?,
            _ => self.check.check_reader(&parts.headers)?,
        }
        if let ApiRoute::Login = route {
            return self.log_in(parts, body).await;
        }
        let sessions = &self.server.0.sessions;
        let session = sessions.find(&self.cookie_name(), &parts.headers);
        let session = session.filter(|session| self.serves(&session.owner));
        let session = session.ok_or_else(|| self.login_required())?;
        if !session.take_request() {
            return Err(ConsoleRequestError::too_many(
                "this page sends too many requests: wait a second",
            ));
        }
        let user = self.user_of(&session.owner).ok_or_else(|| {
            ConsoleRequestError::forbidden("your account has no role at this console any more")
        })?;
        match route {
            // Answered above.
            ApiRoute::Login => Err(ConsoleRequestError::not_found()),
            ApiRoute::Logout => {
                sessions.end(&self.cookie_name(), &parts.headers);
                let mut response = empty_response(StatusCode::NO_CONTENT);
                add_cookie(&mut response, &self.cookie("", 0));
                Ok(response)
            }
            ApiRoute::Events => self.open_events(session, &parts.headers),
            ApiRoute::Pair => self.pair(&user, parts),
            ApiRoute::Export(filter) => self.export(&session.owner, *filter),
            ApiRoute::Backend(route) => {
                let body = (parts.method == Method::POST).then_some(body);
                let person = session.owner.key();
                self.answer_with_backend(person, user, route, body).await
            }
        }
    }

    /// Begins a session with the secret of a one-time link.
    async fn log_in(&self, parts: &Parts, body: Body) -> ConsoleResult {
        let shared = &self.server.0;
        let client = LoginClient::of_request(parts);
        if !shared.logins.take(LoginOrigin::of_client(&client)) {
            return Err(ConsoleRequestError::too_many(
                "too many attempts to log in: wait a second",
            ));
        }
        let body = self.read_body(body, self.deadline()).await?;
        let login: LinkLogin = serde_json::from_slice(&body).map_err(|_| {
            ConsoleRequestError::bad_request("expected an object with the text `key`")
        })?;
        let secret = shared
            .sessions
            .use_link(&login.key, |owner| self.serves(owner))
            .map_err(|error| ConsoleRequestError::of_backend(&error, false))?;
        let (kind, owner) = match self.kind {
            ListenerKind::Lan => (ConsoleLoginKind::Pairing, SessionOwner::Paired),
            _ => (ConsoleLoginKind::Link, SessionOwner::Local),
        };
        let user = secret.as_ref().and_then(|_| self.user_of(&owner));
        self.server.record_login(ConsoleLoginRecord {
            outcome: user
                .as_ref()
                .map(|user| user.role)
                .ok_or(ToolErrorCode::PermissionDenied),
            name: user.map(|user| user.name),
            kind,
            client,
        });
        let secret = secret.ok_or_else(|| {
            let hint = self.new_link_hint();
            let message = format!("This link was used or has expired. {hint}");
            ConsoleRequestError::login_required(message, None)
        })?;
        if owner == SessionOwner::Local {
            shared.local_logins.send_modify(|count| *count += 1);
        }
        shared.sessions.end(&self.cookie_name(), &parts.headers);
        let mut response = empty_response(StatusCode::NO_CONTENT);
        add_cookie(&mut response, &self.session_cookie(&secret));
        Ok(response)
    }

    fn open_events(&self, session: Arc<BrowserSession>, headers: &HeaderMap) -> ConsoleResult {
        let last_id = headers.get("last-event-id");
        let last_id = last_id.map(|id| id.to_str().unwrap_or_default());
        let server = self.server.clone();
        let owner = session.owner.clone();
        let may_read = move || role_of(&server, &owner).is_some();
        let body = self.server.0.hub.connect(session, last_id, may_read);
        let body = body.ok_or_else(|| {
            ConsoleRequestError::too_many("too many pages are open: close one of them")
        })?;
        Ok(content_response("text/event-stream", body))
    }

    fn pair(&self, user: &ConsoleUser, parts: &Parts) -> ConsoleResult {
        if !user.local || user.role < ConsoleRole::Admin {
            return Err(ConsoleRequestError::forbidden(
                "devices are paired at the machine on which mimir runs",
            ));
        }
        let (link, code) = self
            .server
            .pairing_link()
            .map_err(|error| ConsoleRequestError::of_backend(&error, false))?;
        self.server.record_login(ConsoleLoginRecord {
            name: Some(user.name.clone()),
            kind: ConsoleLoginKind::PairingCode,
            outcome: Ok(user.role),
            client: LoginClient::of_request(parts),
        });
        let rows = code.rows().iter();
        let rows: Vec<Vec<u8>> = rows
            .map(|row| row.iter().map(|dark| u8::from(*dark)).collect())
            .collect();
        let expires_at = link.expires_at_ms();
        Ok(json_response(
            json!({"url": link.url, "qr": rows, "expiresAt": expires_at}),
        ))
    }

    fn export(&self, owner: &SessionOwner, filter: RecordFilter) -> ConsoleResult {
        let shared = &self.server.0;
        let limits = &shared.options.limits;
        let permit = shared.exports.begin(owner.key(), limits)?;
        let lines = shared.backend.export_record(filter);
        let lines = lines.map_err(|error| ConsoleRequestError::of_backend(&error, false))?;
        let body = export_body(lines, permit, limits.export_stalled);
        let mut response = content_response("application/x-ndjson", body);
        let name = HeaderValue::from_static("attachment; filename=\"mimir-record.ndjson\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
        Ok(response)
    }

    async fn answer_with_backend(
        &self,
        person: &str,
        user: ConsoleUser,
        route: BackendRoute,
        body: Option<Body>,
    ) -> ConsoleResult {
        let server = Arc::clone(&self.server.0);
        let deadline = self.deadline();
        let busy = |_| ConsoleRequestError::busy();
        // An order to stop calls, or to allow them again, never waits for other requests.
        let waiting = if route.is_order() {
            None
        } else {
            Some(server.requests.enter(person, &server.options.limits)?)
        };
        // Before the request waits, because the server does not see that a client has left while its body is unread.
        let body = match body {
            Some(body) => self.read_body(body, deadline).await?,
            None => Bytes::new(),
        };
        let slot = match waiting {
            Some(waiting) => Some(timeout_at(deadline, waiting.start()).await.map_err(busy)?),
            None => None,
        };
        let is_evaluation = route.is_evaluation();
        let request = route.with_body(&body)?;
        drop(body);
        let needed = request.required_role();
        if user.role < needed {
            return Err(ConsoleRequestError::forbidden(format!(
                "this needs the role {}, and yours is {}",
                needed.as_str(),
                user.role.as_str()
            )));
        }
        let state = (request == ConsoleRequest::State).then(|| self.state(&user));
        let is_answer = request.is_answer();
        let slot = match slot {
            Some(slot) => {
                let running = timeout_at(deadline, slot.run(is_evaluation)).await;
                Some(running.map_err(busy)?)
            }
            None => None,
        };
        // In a task of its own, so that a page that disconnects does not end a change halfway. A page that disconnects
        // before leaves nothing behind.
        let handled = tokio::spawn(async move {
            let _slot = slot;
            server.backend.handle(&user, request).await
        });
        let handled = match timeout_at(deadline, handled).await {
            Ok(Ok(handled)) => handled,
            Ok(Err(error)) => {
                tracing::error!(%error, "a request of the console has failed");
                Err(ToolError::internal("the request has failed"))
            }
            Err(_) => Err(ToolError::new(
                ToolErrorCode::Timeout,
                "the request takes too long; it may still be carried out",
            )),
        };
        let mut value =
            handled.map_err(|error| ConsoleRequestError::of_backend(&error, is_answer))?;
        if let (Value::Object(value), Some(state)) = (&mut value, state) {
            value.extend(state);
        }
        Ok(json_response(value))
    }

    /// Returns the part of the state that the backend does not know.
    fn state(&self, user: &ConsoleUser) -> serde_json::Map<String, Value> {
        let fields = [
            ("version", json!(self.server.0.options.version)),
            ("user", json!(user.name)),
            ("role", json!(user.role)),
            ("local", json!(user.local)),
            // True if devices of the local network can be paired.
            ("lan", json!(self.server.0.lan.get().is_some())),
            ("now", json!(milliseconds(SystemTime::now()))),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    /// Returns the time until which a request that begins now must be answered.
    fn deadline(&self) -> Instant {
        Instant::now() + self.server.0.options.limits.request_time
    }

    async fn read_body(&self, body: Body, deadline: Instant) -> Result<Bytes, ConsoleRequestError> {
        let limits = &self.server.0.options.limits;
        let read = axum::body::to_bytes(body, limits.body);
        let read = timeout_at(deadline, read).await;
        let read = read.map_err(|_| {
            let message = "the body did not arrive in time";
            ConsoleRequestError::new(StatusCode::REQUEST_TIMEOUT, ToolErrorCode::Timeout, message)
        })?;
        read.map_err(|error| {
            let is_large = std::error::Error::source(&error)
                .is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>());
            if is_large {
                let message = format!("the body is larger than {} bytes", limits.body);
                ConsoleRequestError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    ToolErrorCode::LimitExceeded,
                    message,
                )
            } else {
                ConsoleRequestError::bad_request("the body is incomplete")
            }
        })
    }

    fn login_required(&self) -> ConsoleRequestError {
        match self.kind {
            ListenerKind::Team => {
                ConsoleRequestError::login_required("log in to see this console", Some("login"))
            }
            ListenerKind::Local => {
                let hint = self.new_link_hint();
                let message = format!("This browser is not logged in. {hint}");
                ConsoleRequestError::login_required(message, None)
            }
            ListenerKind::Lan => ConsoleRequestError::login_required(
                "this device is not paired: scan a new code, which mimir shows where it runs",
                None,
            ),
        }
    }

    fn new_link_hint(&self) -> &'static str {
        match self.kind {
            ListenerKind::Lan => {
                "For a new code, press p in the terminal in which `mimir console` runs."
            }
            ListenerKind::Local | ListenerKind::Team => self.server.new_link_hint(),
        }
    }

    /// Returns true if sessions of this owner are used at this listener.
    fn serves(&self, owner: &SessionOwner) -> bool {
        matches!(
            (self.kind, owner),
            (ListenerKind::Local, SessionOwner::Local)
                | (ListenerKind::Lan, SessionOwner::Paired)
                | (ListenerKind::Team, SessionOwner::Person(_))
        )
    }

    fn user_of(&self, owner: &SessionOwner) -> Option<ConsoleUser> {
        let role = role_of(&self.server, owner)?;
        let user = &self.server.0.options.user;
        let (name, local) = match owner {
            SessionOwner::Local => (user.clone(), true),
            SessionOwner::Paired => (format!("{user} (paired device)"), false),
            SessionOwner::Person(person) => (person.name().to_owned(), false),
        };
        Some(ConsoleUser { name, role, local })
    }

    fn cookie_name(&self) -> String {
        format!("{}{COOKIE}", self.cookie_prefix())
    }

    /// Returns the beginning of the names of cookies. It keeps other hosts of the domain, or plain connections, from
    /// setting them.
    pub(crate) fn cookie_prefix(&self) -> &'static str {
        match self.is_secure {
            true if self.has_own_host() => "__Host-",
            true => "__Secure-",
            false => "",
        }
    }

    /// Returns the attributes of cookies that say where they are sent.
    pub(crate) fn cookie_scope(&self) -> String {
        // `__Host-` needs the path of all.
        let path = match self.is_secure && self.has_own_host() {
            true => "/",
            false => &self.public_base,
        };
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("Path={path}{secure}")
    }

    /// Returns false if the host also has other servers, at other paths. They must not get the cookies.
    fn has_own_host(&self) -> bool {
        self.public_base == self.base
    }

    /// Returns the cookie of a new session.
    pub(crate) fn session_cookie(&self, secret: &str) -> String {
        self.cookie(secret, self.server.0.options.limits.lifetime.as_secs())
    }

    fn cookie(&self, secret: &str, seconds: u64) -> String {
        let (name, scope) = (self.cookie_name(), self.cookie_scope());
        format!("{name}={secret}; {scope}; Max-Age={seconds}; HttpOnly; SameSite=Strict")
    }
}

/// Returns the role of a session's owner at this time.
fn role_of(server: &ConsoleServer, owner: &SessionOwner) -> Option<ConsoleRole> {
    match owner {
        SessionOwner::Local => Some(ConsoleRole::Admin),
        SessionOwner::Paired => Some(ConsoleRole::Approver),
        SessionOwner::Person(person) => server.0.options.login.as_ref()?.role_of(person),
    }
}

/// Returns the refusal of a method.
pub(crate) fn method_not_allowed() -> ConsoleRequestError {
    let message = "this address does not support this method";
    ConsoleRequestError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ToolErrorCode::InvalidInput,
        message,
    )
}
