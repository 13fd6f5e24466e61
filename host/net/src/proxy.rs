//! HTTP/1.1 proxy that gives the programs of one command access to the network.
//!
//! Plain HTTP requests are sent through [`HttpClient`], so the policy sees their method and full URL. `CONNECT` is
//! checked by host and port; the TLS server name (SNI) inside must be that host, and other protocols are refused. Each
//! request is checked separately, and the response explains a refusal, so that the program shows the explanation to its
//! user.
//!
//! The commands of a session share one network, so each can connect to the proxies of the others. A proxy therefore has
//! its own [`Credential`], known only to its command, and refuses requests without it.
//!
//! Out of scope: the listening socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use mimir_core::ToolErrorCode;
use mimir_core::backend::BoxFuture;
use mimir_core::network::RequestTarget;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::client::{HttpClient, Tunnel};
use crate::error::Error;
use credential::Credential;

mod credential;

/// Reports refused requests that never reached the authorizer: blocked by host name or resolved address, or a tunnel
/// that does not carry TLS to its target.
pub trait ProxyRefusalHandler: Send + Sync {
    /// Handles the refusal of a request to `target`, and returns the error for the program.
    fn handle_refusal<'a>(
        &'a self,
        target: &'a RequestTarget,
        method: &'a Method,
        error: Error,
    ) -> BoxFuture<'a, Error>;
}

/// Proxy for the connections of one command.
#[derive(Clone)]
pub struct Proxy {
    client: HttpClient,
    refusals: Arc<dyn ProxyRefusalHandler>,
    credential: Credential,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxy")
    }
}

/// Time limit for the head of a request. Generous, because the program runs on the same machine.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Headers that belong to one connection and not to the request (RFC 9110 section 7.6.1), in addition to those listed
/// in `Connection`.
const CONNECTION_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type ProxyBody = UnsyncBoxBody<Bytes, Error>;

/// An authorized tunnel, its target, and the program's connection to relay.
type OpenedTunnel = (Tunnel, RequestTarget, upgrade::OnUpgrade);

impl Proxy {
    /// Creates a proxy with a new credential. The authorizer of `client` is called for each request.
    pub fn new(client: HttpClient, refusals: Arc<dyn ProxyRefusalHandler>) -> Self {
        Self {
            client,
            refusals,
            credential: Credential::new(),
        }
    }

    /// Returns the URL of this proxy at a port of 127.0.0.1. The URL contains the credential: give it only to the
    /// command.
    pub fn url(&self, port: u16) -> String {
        let userinfo = self.credential.userinfo();
        format!("http://{userinfo}@127.0.0.1:{port}")
    }

    /// Serves one connection until it ends. Dropping the future closes the connection and its tunnel.
    pub async fn serve(&self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let (tunnel_sender, mut tunnel_queue) = mpsc::unbounded_channel::<OpenedTunnel>();
        let service = service_fn(move |request| {
            let (proxy, tunnels) = (self.clone(), tunnel_sender.clone());
            async move { Ok::<_, Infallible>(proxy.handle_request(request, &tunnels).await) }
        });
        let mut server = http1::Builder::new();
        server
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .preserve_header_case(true);
        let serving = server
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        // A tunnel begins once the connection has switched from HTTP.
        let tunnels = async {
            while let Some((tunnel, target, upgrade)) = tunnel_queue.recv().await {
                let Ok(client_io) = upgrade.await else {
                    continue;
                };
                let result = self
                    .relay_tunnel(tunnel, &target, TokioIo::new(client_io))
                    .await;
                if let Err(error) = result {
                    tracing::debug!(%error, "closed a tunnel of a command");
                }
            }
        };
        let (served, ()) = tokio::join!(serving, tunnels);
        if let Err(error) = served {
            tracing::debug!(%error, "closed a connection of a command to its proxy");
        }
    }

    /// Relays a tunnel. A program that does not speak TLS receives an unencrypted HTTP response that explains the
    /// refusal. A program that asks for another host or stops speaking TLS receives a TLS alert.
    async fn relay_tunnel(
        &self,
        tunnel: Tunnel,
        target: &RequestTarget,
        mut client_io: impl AsyncRead + AsyncWrite + Send + Unpin,
    ) -> Result<(), Error> {
        let result = match tunnel.read_client_hello(&mut client_io).await {
            Ok(start) => tunnel.relay(start, &mut client_io).await,
            Err(error) => Err(error),
        };
        let error = match result {
            Err(
                error @ (Error::ClearTunnel(_) | Error::TunnelName { .. } | Error::NotTls { .. }),
            ) => error,
            other => return other,
        };
        let error = self
            .refusals
            .handle_refusal(target, &Method::CONNECT, error)
            .await;
        let response = match error {
            Error::TunnelName { .. } => alert_record(UNRECOGNIZED_NAME),
            Error::NotTls { .. } => alert_record(UNEXPECTED_MESSAGE),
            _ => {
                let (status, text) = (status_code(&error), error_text(&error));
                let length = text.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: {PLAIN_TEXT}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                (head + &text).into_bytes()
            }
        };
        // A failed write only means that the program no longer reads.
        let _ = client_io.write_all(&response).await;
        let _ = client_io.shutdown().await;
        Err(error)
    }

    /// Handles one request of the program. Reports refusals that never reached the authorizer.
    async fn handle_request(
        &self,
        request: Request<Incoming>,
        tunnels: &mpsc::UnboundedSender<OpenedTunnel>,
    ) -> Response<ProxyBody> {
        if !self.credential.is_in(request.headers()) {
            return unauthorized();
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = if method == Method::CONNECT {
            self.connect(request, tunnels).await
        } else {
            self.forward(request).await
        };
        let error = match response {
            Ok(response) => return response,
            Err(error) => error,
        };
        let is_blocked = matches!(error, Error::Blocked(_) | Error::BlockedAddress(_));
        match parse_target(&method, &uri) {
            Ok(target) if is_blocked => {
                refusal_response(&self.refusals.handle_refusal(&target, &method, error).await)
            }
            _ => refusal_response(&error),
        }
    }

    /// Opens the tunnel of a `CONNECT` request. The relay starts after the response.
    async fn connect(
        &self,
        request: Request<Incoming>,
        tunnels: &mpsc::UnboundedSender<OpenedTunnel>,
    ) -> Result<Response<ProxyBody>, Error> {
        let target = parse_target(request.method(), request.uri())?;
        let tunnel = self.client.tunnel(target.clone()).await?;
        // Cannot fail: the receiver outlives this connection.
        let _ = tunnels.send((tunnel, target, upgrade::on(request)));
        Ok(Response::new(empty_body()))
    }

    /// Sends a plain HTTP request to its target.
    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<ProxyBody>, Error> {
        let target = parse_target(request.method(), request.uri())?;
        *request.uri_mut() = crate::uri(&target.to_string())?;
        strip_connection_headers(request.headers_mut());
        // The client sets `Host` from the real target of the request.
        request.headers_mut().remove(header::HOST);
        let mut response = self.client.send(request).await?;
        strip_connection_headers(response.headers_mut());
        Ok(response.map(BodyExt::boxed_unsync))
    }
}

/// Returns the target of a request sent to the proxy.
fn parse_target(method: &Method, uri: &Uri) -> Result<RequestTarget, Error> {
    if *method == Method::CONNECT {
        let authority = uri
            .authority()
            .filter(|authority| authority.port().is_some());
        let authority = authority.ok_or_else(|| {
            Error::InvalidRequest(
                "a tunnel needs a host and a port: use CONNECT HOST:PORT".to_owned(),
            )
        })?;
        return Ok(RequestTarget::parse(&format!("https://{authority}/"))?);
    }
    if uri.authority().is_none() {
        let message = "this is a proxy, but the request names no host; configure it as a proxy in the program's settings";
        return Err(Error::InvalidRequest(message.to_owned()));
    }
    Ok(RequestTarget::parse(&uri.to_string())?)
}

/// Removes headers that apply only to the connection between the program and this proxy.
fn strip_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&CONNECTION_HEADERS) {
        headers.remove(name);
    }
}

fn empty_body() -> ProxyBody {
    Empty::new()
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// TLS alerts (RFC 8446 section 6.2).
const UNEXPECTED_MESSAGE: u8 = 10;
const UNRECOGNIZED_NAME: u8 = 112;

/// Returns a TLS record with a fatal alert.
fn alert_record(description: u8) -> Vec<u8> {
    // Content type alert (21), TLS 1.2 record version (3, 3), length 2, level fatal (2).
    vec![21, 3, 3, 0, 2, 2, description]
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

fn status_code(error: &Error) -> StatusCode {
    match error.code() {
        ToolErrorCode::PolicyDenied
        | ToolErrorCode::ApprovalDenied
        | ToolErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ToolErrorCode::InvalidInput => StatusCode::BAD_REQUEST,
        ToolErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ToolErrorCode::LimitExceeded => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Formats an error for the output of the program.
fn error_text(error: &Error) -> String {
    let text = mimir_core::text::visible(&error.to_string());
    format!("mimir: {}: {text}\n", error.code())
}

/// Builds the response to a request without the credential. Some programs send the credential only after such a
/// response.
fn unauthorized() -> Response<ProxyBody> {
    let text = "mimir: PERMISSION_DENIED: the proxy credential is missing or wrong: use the user and password from the \
                command's own `http_proxy` variable\n";
    let mut response = text_response(StatusCode::PROXY_AUTHENTICATION_REQUIRED, text.to_owned());
    let challenge = HeaderValue::from_static("Basic realm=\"mimir\"");
    response
        .headers_mut()
        .insert(header::PROXY_AUTHENTICATE, challenge);
    response
}

/// Builds the response that explains a refusal to the program and its user.
fn refusal_response(error: &Error) -> Response<ProxyBody> {
    text_response(status_code(error), error_text(error))
}

fn text_response(status: StatusCode, text: String) -> Response<ProxyBody> {
    let body = Full::from(text).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(PLAIN_TEXT);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_read_from_method_and_uri() {
        let target_of = |method: &Method, uri: &str| parse_target(method, &uri.parse().unwrap());
        let tunnel = target_of(&Method::CONNECT, "a.example:8443").unwrap();
        assert_eq!(
            (tunnel.host().to_string(), tunnel.port()),
            ("a.example".to_owned(), 8443)
        );
        assert_eq!(
            target_of(&Method::CONNECT, "0x7f.1:80")
                .unwrap()
                .host()
                .to_string(),
            "127.0.0.1"
        );
        assert!(target_of(&Method::CONNECT, "a.example").is_err());
        assert!(target_of(&Method::GET, "/path").is_err());
        assert!(target_of(&Method::GET, "http://user@a.example/").is_err());
        let plain = target_of(&Method::GET, "http://a.example/x?y").unwrap();
        assert_eq!(plain.to_string(), "http://a.example/x?y");
    }

    #[test]
    fn strip_removes_connection_headers() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip"),
            ("accept", "*/*"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        strip_connection_headers(&mut headers);
        assert_eq!(headers.len(), 1, "{headers:?}");
    }
}
