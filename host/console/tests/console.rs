//! A console with a backend that records what reaches it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use futures::StreamExt as _;
use mimir_console::{
    BrowserLogin, ConsoleBackend, ConsoleEvent, ConsoleEventKind, ConsoleEvents, ConsoleLimits,
    ConsoleLoginRecord, ConsoleLoginRecorder, ConsoleOptions, ConsolePerson, ConsoleRequest,
    ConsoleRole, ConsoleServer, ConsoleUser, RecordFilter, RecordLines, StartedLogin, TeamAddress,
};
use mimir_core::{BoxFuture, ToolError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::client::{Reply, own_headers, request};

/// Fingerprint of the only question.
pub const FINGERPRINT: &str = "f1";

/// Backend with one question.
pub struct RecordingBackend {
    pub seen: Mutex<Vec<(ConsoleUser, ConsoleRequest)>>,
    /// True while evaluations and charts do not end.
    pub held: watch::Sender<bool>,
    answered: AtomicBool,
    events: Mutex<Option<mpsc::UnboundedReceiver<ConsoleEvent>>>,
}

impl ConsoleBackend for RecordingBackend {
    fn handle<'a>(
        &'a self,
        user: &'a ConsoleUser,
        request: ConsoleRequest,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        self.seen.lock().push((user.clone(), request.clone()));
        Box::pin(async move {
            match request {
                ConsoleRequest::State => Ok(json!({"workspace": "w\u{202e}\u{1b}[31m"})),
                ConsoleRequest::AnswerQuestion { id, .. } if id != "q1" => {
                    Err(ToolError::not_found("the question is gone"))
                }
                ConsoleRequest::AnswerQuestion { answer, .. } => {
                    if answer.fingerprint != FINGERPRINT {
                        return Err(ToolError::unavailable("the call has changed"));
                    }
                    if self.answered.swap(true, Ordering::Relaxed) {
                        return Err(ToolError::unavailable("the question was answered"));
                    }
                    Ok(json!({"counted": true}))
                }
                ConsoleRequest::ExplainCall { .. }
                | ConsoleRequest::WhatIf { .. }
                | ConsoleRequest::Charts { .. } => {
                    let mut held = self.held.subscribe();
                    let _ = held.wait_for(|held| !held).await;
                    Ok(Value::Null)
                }
                ConsoleRequest::Undo { .. } => panic!("a fault of the backend"),
                _ => Ok(Value::Null),
            }
        })
    }

    fn export_record(&self, filter: RecordFilter) -> Result<RecordLines, ToolError> {
        if filter.outcome.as_deref() == Some("great") {
            return Err(ToolError::invalid_input("`outcome` is not an outcome"));
        }
        if filter.text.as_deref() == Some("endless") {
            return Ok(futures::stream::repeat_with(|| Ok("x".repeat(10_000))).boxed());
        }
        let lines = ["{\"a\":1}", "{\"b\":2}"].map(|line| Ok(line.to_owned()));
        Ok(futures::stream::iter(lines).boxed())
    }

    fn events(&self) -> ConsoleEvents {
        let events = self.events.lock().take();
        let mut events = events.expect("the events are read twice");
        futures::stream::poll_fn(move |context| events.poll_recv(context)).boxed()
    }
}

/// The logins that a console has recorded.
#[derive(Default)]
pub struct RecordedLogins(Mutex<Vec<ConsoleLoginRecord>>);

impl ConsoleLoginRecorder for RecordedLogins {
    fn record(&self, login: &ConsoleLoginRecord) {
        self.0.lock().push(login.clone());
    }
}

impl RecordedLogins {
    /// Returns the texts of the records, each after the name of the person, and forgets them.
    pub fn take(&self) -> Vec<String> {
        let logins = std::mem::take(&mut *self.0.lock());
        let describe = |login: &ConsoleLoginRecord| {
            format!("{}: {login}", login.name.as_deref().unwrap_or("?"))
        };
        logins.iter().map(describe).collect()
    }
}

/// A console that listens.
pub struct TestConsole {
    pub server: ConsoleServer,
    pub backend: Arc<RecordingBackend>,
    pub logins: Arc<RecordedLogins>,
    pub local: SocketAddr,
    events: mpsc::UnboundedSender<ConsoleEvent>,
}

impl TestConsole {
    /// Starts a console with these limits.
    pub async fn start(change: impl FnOnce(&mut ConsoleLimits)) -> Self {
        Self::start_with(change, None).await
    }

    pub async fn start_with(
        change: impl FnOnce(&mut ConsoleLimits),
        login: Option<Arc<dyn BrowserLogin>>,
    ) -> Self {
        Self::start_behind("http", "", change, login).await
    }

    /// Starts a console without a login beside a server.
    pub async fn start_served() -> Self {
        Self::start_at("/console/", ("http", ""), |_| {}, None).await
    }

    /// Starts a console behind a reverse proxy, which has another scheme and removes a prefix.
    pub async fn start_behind(
        scheme: &str,
        prefix: &str,
        change: impl FnOnce(&mut ConsoleLimits),
        login: Option<Arc<dyn BrowserLogin>>,
    ) -> Self {
        let base = if login.is_some() { "/console/" } else { "/" };
        Self::start_at(base, (scheme, prefix), change, login).await
    }

    async fn start_at(
        base: &str,
        (scheme, prefix): (&str, &str),
        change: impl FnOnce(&mut ConsoleLimits),
        login: Option<Arc<dyn BrowserLogin>>,
    ) -> Self {
        let logins = Arc::new(RecordedLogins::default());
        let (events, receiver) = mpsc::unbounded_channel();
        let backend = Arc::new(RecordingBackend {
            seen: Mutex::default(),
            held: watch::Sender::new(false),
            answered: AtomicBool::new(false),
            events: Mutex::new(Some(receiver)),
        });
        let mut limits = ConsoleLimits::default();
        change(&mut limits);
        let is_team = login.is_some();
        let options = ConsoleOptions {
            version: "1.2.3".to_owned(),
            user: "ann".to_owned(),
            base: base.to_owned(),
            login,
            recorder: Some(Arc::clone(&logins) as _),
            limits,
        };
        let server = ConsoleServer::new(Arc::clone(&backend) as _, options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let router = if is_team {
            server.team_router(&TeamAddress {
                origin: format!("{scheme}://{local}"),
                prefix: prefix.to_owned(),
                names: Vec::new(),
            })
        } else {
            server.local_router(local).unwrap()
        };
        serve(listener, ConsoleServer::fallback(router));
        Self {
            server,
            backend,
            logins,
            local,
            events,
        }
    }

    /// Adds a listener for paired devices.
    pub async fn listen_on_lan(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.server.lan_router(address).unwrap();
        serve(listener, ConsoleServer::fallback(router));
        address
    }

    /// Lets something happen.
    pub fn emit(&self, kind: ConsoleEventKind, data: &Value) {
        let event = ConsoleEvent::new(kind, data).unwrap();
        self.events.send(event).unwrap();
    }

    /// Logs in with a new link. Returns the base path and the cookie.
    pub async fn log_in(&self) -> (String, String) {
        let link = self.server.local_link().unwrap();
        log_in_with(self.local, &link.url).await
    }

    pub fn requests(&self) -> Vec<ConsoleRequest> {
        let seen = self.backend.seen.lock();
        seen.iter().map(|(_, request)| request.clone()).collect()
    }
}

fn serve(listener: TcpListener, router: Router) {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
}

/// Splits a link into its base path and its key.
pub fn parts_of(link: &str) -> (String, String) {
    let (page, key) = link.split_once("#key=").unwrap();
    let path = page.splitn(4, '/').nth(3).unwrap();
    (format!("/{path}"), key.to_owned())
}

/// Sends the key of a link.
pub async fn send_key(address: SocketAddr, base: &str, key: &str) -> Reply {
    let body = json!({"key": key}).to_string();
    let path = format!("{base}api/login");
    request(address, "POST", &path, &own_headers(address), &body).await
}

pub async fn log_in_with(address: SocketAddr, link: &str) -> (String, String) {
    let (base, key) = parts_of(link);
    let reply = send_key(address, &base, &key).await;
    assert_eq!(reply.status, 204, "{}", reply.body);
    let cookie = reply.header("set-cookie").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    (base, cookie.to_owned())
}

/// Login whose provider knows everybody by the code of the callback.
pub struct TestLogin {
    pub roles: Mutex<Vec<(&'static str, ConsoleRole)>>,
}

struct TestStarted(String, String);

impl BrowserLogin for TestLogin {
    fn begin<'a>(
        &'a self,
        redirect: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn StartedLogin>, ToolError>> {
        static LOGINS: AtomicUsize = AtomicUsize::new(0);
        let state = format!("state-{}", LOGINS.fetch_add(1, Ordering::Relaxed));
        let url = format!("http://provider.test/?state={state}&redirect={redirect}");
        Box::pin(async move { Ok(Box::new(TestStarted(url, state)) as Box<dyn StartedLogin>) })
    }

    fn role_of(&self, person: &ConsolePerson) -> Option<ConsoleRole> {
        let roles = self.roles.lock();
        let known = roles.iter().find(|(name, _)| *name == person.subject);
        known.map(|(_, role)| *role)
    }
}

impl StartedLogin for TestStarted {
    fn url(&self) -> &str {
        &self.0
    }

    fn state(&self) -> &str {
        &self.1
    }

    fn finish(
        self: Box<Self>,
        callback: String,
    ) -> BoxFuture<'static, Result<ConsolePerson, ToolError>> {
        Box::pin(async move {
            let code = callback
                .split_once("code=")
                .map(|(_, code)| code.to_owned());
            let subject = code.ok_or_else(|| ToolError::invalid_input("no code"))?;
            Ok(ConsolePerson {
                subject,
                email: None,
                groups: Vec::new(),
            })
        })
    }
}
