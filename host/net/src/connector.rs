//! Connector for requests: name lookup, address checks, TCP, TLS.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use mimir_core::backend::BoxFuture;
use mimir_core::network::{NetworkPolicy, RequestTarget, UrlScheme};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use crate::dial::dial;
use crate::error::{Error, RequestStage};
use crate::resolver::{self, Resolver};
use crate::stream::ConnectionStream;
use crate::tls::TlsClient;

/// Makes connections under one policy. hyper calls it whenever the pool has no connection for an origin. Every socket
/// of a request is opened here, so every address is checked, including IP addresses in URLs.
#[derive(Clone)]
pub(crate) struct PolicyConnector {
    pub(crate) policy: Arc<NetworkPolicy>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) tls: Arc<TlsClient>,
    pub(crate) servers: Option<Arc<dyn SessionServerDialer>>,
    pub(crate) limit: Duration,
}

/// Connects to the servers of a session, in a network namespace that this process does not share.
pub trait SessionServerDialer: Send + Sync {
    /// Connects to the server at this port of the session's `localhost`.
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<std::net::TcpStream>>;
}

impl PolicyConnector {
    async fn connect(self, uri: Uri) -> Result<ConnectionStream, Error> {
        let target = RequestTarget::parse(&uri.to_string())?;
        let deadline = Instant::now() + self.limit;
        let timeout_error = |stage| Error::Timeout {
            stage,
            after: self.limit,
        };
        let connecting = async {
            let stream = match &self.servers {
                Some(servers) if self.policy.serves(&target) => {
                    let stream = servers.connect(target.port()).await;
                    stream.and_then(TcpStream::from_std)
                }
                _ => {
                    let (resolver, policy) = (&*self.resolver, &*self.policy);
                    dial(&resolver::resolve_checked(resolver, policy, &target, self.limit).await?)
                        .await
                }
            };
            stream.map_err(|error| unreachable(&target, &error))
        };
        let stream = timeout_at(deadline, connecting).await;
        let stream = stream.map_err(|_| timeout_error(RequestStage::Connect))??;
        match target.scheme() {
            UrlScheme::Http => Ok(ConnectionStream::Plain(TokioIo::new(stream))),
            UrlScheme::Https => {
                let stream = timeout_at(deadline, self.tls.connect(&target, stream)).await;
                let stream = stream.map_err(|_| timeout_error(RequestStage::Tls))??;
                Ok(ConnectionStream::Tls(Box::new(TokioIo::new(stream))))
            }
        }
    }
}

pub(crate) fn unreachable(target: &RequestTarget, error: &io::Error) -> Error {
    let origin = target.origin().to_string();
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::Refused { origin },
        _ => Error::Unreachable {
            origin,
            why: error.to_string(),
        },
    }
}

impl Service<Uri> for PolicyConnector {
    type Response = ConnectionStream;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<ConnectionStream, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
