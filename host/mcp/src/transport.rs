//! Service for one client on a pair of streams.

use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, ProtocolVersion};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::{ToolServer, describe_invalid_params};

mod id_scanner;
mod stdio;

use stdio::StdioServerTransport;

/// Reason why a client could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Client and server have no protocol version in common, or the client violated the protocol during the handshake.
    #[error("the client did not start the protocol correctly: {0}")]
    Initialize(String),
    /// An internal error of the server.
    #[error("the server failed: {0}")]
    Broken(String),
}

impl ServeError {
    /// Returns a stable name for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "INITIALIZE",
            Self::Broken(_) => "BROKEN",
        }
    }
}

/// Time limit for stopped calls to be recorded.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

impl ToolServer {
    /// Serves one client until it closes its stream, after which calls in progress get a few seconds to finish, or
    /// until `stop` completes, which stops the calls at once. Waits until each call is in the audit log.
    pub async fn serve<R, W>(
        &self,
        reader: R,
        writer: W,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = InitializeFilter {
            inner: StdioServerTransport::new(reader, writer),
            has_selected_protocol: false,
        };
        let ended = self.serve_session(transport, stop).await;
        self.wait_until_idle(SHUTDOWN_TIMEOUT).await;
        ended
    }

    async fn serve_session(
        &self,
        transport: impl Transport<RoleServer> + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let mut stop = std::pin::pin!(stop);
        let session = self.session();
        let close_signal = session.close_signal().clone();
        let started = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            started = session.serve(transport) => started,
        };
        let running = match started {
            Ok(running) => running,
            // The client connected and disconnected without a request.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(ServeError::Initialize(error.to_string())),
        };
        let cancellation = running.cancellation_token();
        let mut ended = std::pin::pin!(running.waiting());
        let ended = tokio::select! {
            ended = &mut ended => ended,
            () = &mut stop => {
                close_signal.close();
                cancellation.cancel();
                ended.await
            }
        };
        match ended {
            Ok(_) => Ok(()),
            Err(error) => Err(ServeError::Broken(error.to_string())),
        }
    }
}

/// A transport that drops all messages except requests until a request has selected the protocol version, because rmcp
/// would end the connection at a stray notification.
struct InitializeFilter<R, W> {
    inner: StdioServerTransport<R, W>,
    has_selected_protocol: bool,
}

impl<R, W> Transport<RoleServer> for InitializeFilter<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            if self.has_selected_protocol {
                return Some(message);
            }
            let ClientJsonRpcMessage::Request(request) = &message else {
                tracing::debug!("a message before the first request was ignored");
                continue;
            };
            if let ClientRequest::CustomRequest(wrong) = &request.request
                && wrong.method == "initialize"
                && let Some(error) = describe_invalid_params(&wrong.method, wrong.params.as_ref())
            {
                self.inner.send_error(Some(request.id.clone()), error);
                continue;
            }
            self.has_selected_protocol = selects_protocol(&request.request);
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Returns true if a request selects the protocol version, by its method or by declaring a version.
fn selects_protocol(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let newest = &ProtocolVersion::V_2026_07_28;
            other.get_meta().missing_required_keys(newest).is_empty()
        }
    }
}
