//! Where a browser brings an answer: a port of this machine's own, for as long as one login waits.
//!
//! Never here: whether an answer is one.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use mimir_core::{Code, ToolError};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The path that answers come to.
const PATH: &str = "/callback";

/// Answers that wait to be looked at.
const WAITING: usize = 4;

/// What a browser has brought, and where it hears what came of it.
pub struct Brought {
    /// Path and query.
    pub answer: String,
    /// What the person reads in the browser.
    pub reply: oneshot::Sender<Page>,
}

/// What a person reads in the browser.
#[derive(Debug, Clone, Copy)]
pub enum Page {
    /// It is done.
    LoggedIn,
    /// It has failed.
    Failed,
    /// It is no answer to what is waited for.
    Stray,
}

/// A port that waits for a browser. It is closed when this is dropped.
pub struct Redirect {
    /// The address that answers come to.
    pub uri: String,
    /// What comes.
    pub brought: mpsc::Receiver<Brought>,
    serving: JoinHandle<()>,
}

impl Redirect {
    /// A port of 127.0.0.1: this one, or one that is free.
    pub async fn open(port: Option<u16>) -> Result<Self, ToolError> {
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
        let unavailable = |error: std::io::Error| {
            let message = format!("cannot wait for the browser at {wanted}: {error}");
            ToolError::new(Code::Unavailable, message)
        };
        let listener = TcpListener::bind(wanted).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        let (bring, brought) = mpsc::channel(WAITING);
        let router = Router::new().fallback(move |request: Request| {
            let bring = bring.clone();
            let (asked, _) = request.into_parts();
            async move { answered(&asked.method, &asked.uri, &bring).await }
        });
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "no browser is waited for any more");
            }
        });
        Ok(Self {
            uri: format!("http://{address}{PATH}"),
            brought,
            serving,
        })
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answered(method: &Method, uri: &Uri, bring: &mpsc::Sender<Brought>) -> Response {
    if method != Method::GET || uri.path() != PATH {
        return StatusCode::NOT_FOUND.into_response();
    }
    let answer = uri.path_and_query().map(ToString::to_string);
    let answer = answer.unwrap_or_default();
    let (reply, replied) = oneshot::channel();
    let page = match bring.send(Brought { answer, reply }).await {
        Ok(()) => replied.await.unwrap_or(Page::Stray),
        Err(_) => Page::Stray,
    };
    page.response()
}

impl Page {
    fn response(self) -> Response {
        let (status, words) = match self {
            Self::LoggedIn => (
                StatusCode::OK,
                "You are logged in. You can close this window and go on in the terminal.",
            ),
            Self::Failed => (
                StatusCode::BAD_REQUEST,
                "The login did not work. The terminal says why; you can close this window.",
            ),
            Self::Stray => (
                StatusCode::BAD_REQUEST,
                "This is no answer to a login that waits for one. You can close this window.",
            ),
        };
        // Nothing that the browser brought is on the page, and what the address holds goes nowhere from here.
        let page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>mimir</title><p>{words}</p></html>\n"
        );
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; frame-ancestors 'none'",
            ),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
        ];
        let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
        (status, headers, page).into_response()
    }
}
