//! The server over HTTP: who may speak with it, and how much.
//!
//! Whoever reaches it acts as the person who started it. So a request says the name that it was sent to, which a web
//! page that has its own name point here does not know to be right; it comes from no page that was not allowed; and it
//! carries the token, where one is asked for.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use mimir_core::ToolError;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::server::{Server, Session};

mod guard;
mod identity;

pub use identity::IdentityOptions;

use guard::{Guard, Refusal};
use identity::Identity;

/// What a client gets.
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Where the protocol is spoken.
const ENDPOINT: &str = "/mcp";

/// The longest request, as on stdin.
const BODY_MAX: usize = 16 << 20;

/// Sessions at a time, and how long one lives in which nothing is said.
const SESSIONS_MAX: usize = 256;
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);

/// Calls at a time, waiting ones included.
const CALLS_MAX: usize = 1024;

/// What a session is called by.
const SESSION_ID: &str = "mcp-session-id";

/// The first version without sessions, from which on headers are held to what their message says.
const MODERN: &str = "2026-07-28";

/// How a server over HTTP is reached.
#[derive(Clone, Default)]
pub struct HttpOptions {
    /// The names and addresses by which it may be called, without ports. Those of this machine alone count in any case.
    pub hosts: Vec<String>,
    /// The web pages that may speak with it, as `scheme://host:port`.
    pub origins: Vec<String>,
    /// What every request has to carry as its bearer token; none asks for none.
    pub token: Option<String>,
    /// The identity provider whose tokens let people in, in place of one token.
    pub identity: Option<IdentityOptions>,
}

/// A server over HTTP: a tower service for whatever listens. Clones are the same server.
#[derive(Clone)]
pub struct Http(Arc<Shared>);

struct Shared {
    server: Server,
    guard: Guard,
    identity: Option<Identity>,
    sessions: Arc<LocalSessionManager>,
    inner: StreamableHttpService<Session, LocalSessionManager>,
    /// Whose a session is.
    owners: Mutex<HashMap<String, Principal>>,
    /// Completes the sessions.
    close: Box<dyn Fn() + Send + Sync>,
}

/// Who speaks: whoever has the token, or whose token it is. What they have read and what was approved for them is
/// theirs, also where the protocol knows no sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The same for all that this one sends, and for nobody else.
    pub(crate) id: String,
    /// What is put on record of them, where anything is known.
    pub(crate) user: Option<String>,
}

impl Server {
    /// This server over HTTP. Options that do not fit together are an error.
    pub fn http(&self, mut options: HttpOptions) -> Result<Http, ToolError> {
        let identity = options.identity.as_ref().map(Identity::new).transpose()?;
        options.hosts.extend(identity.as_ref().map(Identity::host));
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let sessions = Arc::new(sessions);
        let guard = Guard::new(&options);
        let config = StreamableHttpServerConfig::default()
            // The guard has judged both for every path, and before anything else.
            .with_allowed_hosts(guard.hosts().to_vec())
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_MAX);
        let end = config.cancellation_token.clone();
        let server = self.clone();
        let factory = move || Ok(server.session());
        Ok(Http(Arc::new(Shared {
            server: self.clone(),
            guard,
            identity,
            inner: StreamableHttpService::new(factory, Arc::clone(&sessions), config),
            sessions,
            owners: Mutex::default(),
            close: Box::new(move || end.cancel()),
        })))
    }
}

impl Http {
    /// Ends all sessions and the calls in them, and waits until each is on record, but no longer than this.
    pub async fn close(&self, at_most: Duration) {
        (self.0.close)();
        self.0.server.stop();
        self.0.server.quiet(at_most).await;
    }

    async fn answer<B>(&self, mut request: Request<B>) -> Answer
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let shared = &self.0;
        let path = request.uri().path().to_owned();
        if let Err(refusal) = shared.guard.address(&request) {
            return refused(refusal);
        }
        if path == "/healthz" {
            return text(StatusCode::OK, "ok\n");
        }
        let principal = match &shared.identity {
            Some(identity) => {
                if let Some(answer) = identity.described(&path) {
                    return answer;
                }
                match identity.judge(request.headers()).await {
                    Ok(principal) => principal,
                    Err(denied) => return identity.refuse(denied),
                }
            }
            None => match shared.guard.token(request.headers()) {
                Ok(principal) => principal,
                Err(refusal) => return refused(refusal),
            },
        };
        match (path.as_str(), request.method()) {
            ("/metrics", &Method::GET) => {
                let sessions = shared.sessions.sessions.read().await.len();
                text(StatusCode::OK, &shared.server.metrics(sessions))
            }
            (ENDPOINT, _) => {
                let session = session_id(request.headers());
                let posts = request.method() == Method::POST;
                let begins = may_begin(request.headers());
                if let Err(refusal) = self.room(session, posts, begins, &principal).await {
                    return refused(refusal);
                }
                request.extensions_mut().insert(principal.clone());
                let answer = shared.inner.handle(request).await;
                if let Some(id) = session_id(answer.headers()) {
                    lock(&shared.owners).insert(id, principal);
                }
                answer
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "there is nothing here; MCP is at /mcp\n",
            ),
        }
    }

    /// Whether there is room for a request, and its session is whose it says.
    async fn room(
        &self,
        session: Option<String>,
        posts: bool,
        begins: bool,
        principal: &Principal,
    ) -> Result<(), Refusal> {
        let shared = &self.0;
        if posts && shared.server.calls() >= CALLS_MAX {
            return Err(Refusal::Busy);
        }
        if let Some(id) = session {
            let owned = lock(&shared.owners).get(&id) == Some(principal);
            return if owned {
                Ok(())
            } else {
                Err(Refusal::NoSession)
            };
        }
        if !begins {
            return Ok(());
        }
        let sessions = shared.sessions.sessions.read().await;
        if sessions.len() >= SESSIONS_MAX {
            return Err(Refusal::Busy);
        }
        lock(&shared.owners).retain(|id, _| sessions.contains_key(id.as_str()));
        Ok(())
    }
}

impl<B> tower_service::Service<Request<B>> for Http
where
    B: Body + Send + 'static,
    B::Error: std::fmt::Display,
    B::Data: Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let http = self.clone();
        Box::pin(async move { Ok(http.answer(request).await) })
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION_ID)?.to_str().ok()?;
    Some(id.to_owned())
}

/// Whether a request without a session may make one. One that says that it is of the era without sessions, and which
/// other method it has, does not: from that version on a header that its message contradicts is refused.
fn may_begin(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version");
    let modern = version.is_some_and(|version| version.as_bytes() >= MODERN.as_bytes());
    let method = headers.get("mcp-method");
    !modern || method.is_none_or(|method| method == "initialize")
}

fn text(status: StatusCode, text: &str) -> Answer {
    let body = Full::new(Bytes::copy_from_slice(text.as_bytes()));
    let mut answer = Response::new(body.boxed());
    *answer.status_mut() = status;
    let plain = ::http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer
        .headers_mut()
        .insert(::http::header::CONTENT_TYPE, plain);
    answer
}

fn refused(refusal: Refusal) -> Answer {
    let mut answer = text(refusal.status(), refusal.words());
    if let Some((name, value)) = refusal.header() {
        let value = ::http::HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
