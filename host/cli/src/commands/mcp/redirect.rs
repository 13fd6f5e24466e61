//! A local HTTP listener for the browser redirect at the end of a login.
//!
//! Out of scope: validation of the answer.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use mimir_core::ToolError;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Path of the redirect URI.
const PATH: &str = "/callback";

/// Maximum number of queued requests.
const QUEUE_CAPACITY: usize = 4;

/// A redirect request from a browser, and the channel for the page that it gets.
pub struct RedirectRequest {
    /// Path and query of the request.
    pub answer: String,
    /// Channel for the page.
    pub reply: oneshot::Sender<RedirectPage>,
}

/// Page that the browser shows after the redirect.
#[derive(Debug, Clone, Copy)]
pub enum RedirectPage {
    /// The login succeeded.
    LoggedIn,
    /// The login failed.
    Failed,
    /// The request does not answer this login.
    Stray,
}

/// An HTTP listener for the redirect. Dropping it closes the port.
pub struct RedirectListener {
    /// The redirect URI.
    pub uri: String,
    /// Received requests.
    pub requests: mpsc::Receiver<RedirectRequest>,
    serving: JoinHandle<()>,
}

impl RedirectListener {
    /// Listens on 127.0.0.1, at `port` or at a free port.
    pub async fn open(port: Option<u16>) -> Result<Self, ToolError> {
        let requested = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
        let unavailable = |error: std::io::Error| {
            ToolError::unavailable(format!(
                "cannot listen for the browser at {requested}: {error}"
            ))
        };
        let listener = TcpListener::bind(requested).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        let (sender, requests) = mpsc::channel(QUEUE_CAPACITY);
        let router = Router::new().fallback(move |request: Request| {
            let sender = sender.clone();
            let (parts, _) = request.into_parts();
            async move { handle_request(&parts.method, &parts.uri, &sender).await }
        });
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "stopped waiting for the browser");
            }
        });
        Ok(Self {
            uri: format!("http://{address}{PATH}"),
            requests,
            serving,
        })
    }
}

impl Drop for RedirectListener {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn handle_request(
    method: &Method,
    uri: &Uri,
    sender: &mpsc::Sender<RedirectRequest>,
) -> Response {
    if method != Method::GET || uri.path() != PATH {
        return StatusCode::NOT_FOUND.into_response();
    }
    let answer = uri.path_and_query().map(ToString::to_string);
    let answer = answer.unwrap_or_default();
    let (reply, replied) = oneshot::channel();
    let page = match sender.send(RedirectRequest { answer, reply }).await {
        Ok(()) => replied.await.unwrap_or(RedirectPage::Stray),
        Err(_) => RedirectPage::Stray,
    };
    page.response()
}

impl RedirectPage {
    fn response(self) -> Response {
        let (status, message) = match self {
            Self::LoggedIn => (
                StatusCode::OK,
                "You are logged in. You can close this window and continue in the terminal.",
            ),
            Self::Failed => (
                StatusCode::BAD_REQUEST,
                "The login failed; see the terminal for the reason. You can close this window.",
            ),
            Self::Stray => (
                StatusCode::BAD_REQUEST,
                "This request does not belong to a pending login. You can close this window.",
            ),
        };
        // The page repeats no input from the request, and sends no referrer, which would leak the code.
        let page = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>mimir</title><p>{message}</p></html>\n"
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
