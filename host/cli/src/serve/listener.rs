//! HTTP connections, with limits on their number and on the time in which a request must arrive. A client without a
//! token can connect, so the limits keep it from occupying connections for long.
//!
//! Out of scope: requests and authorization.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep};

use timed_stream::TimedStream;

mod timed_stream;

/// Limits of connections.
#[derive(Clone, Copy)]
struct ConnectionLimits {
    /// Maximum number of open connections. Further connections wait until one closes.
    connections: u32,
    /// Maximum time until the head of a request has arrived, from the previous response on.
    head: Duration,
    /// Maximum time until the body of a request has arrived.
    body: Duration,
    /// Maximum time for which a client reads nothing of a response. `None` waits for as long as it takes.
    stalled: Option<Duration>,
}

/// Limits of the server. The number of connections is twice the number of sessions, and half of the usual limit of file
/// descriptors.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 512,
    head: Duration::from_secs(30),
    body: Duration::from_secs(60),
    stalled: None,
};

/// Time after which a connection of a client that reads nothing is closed, if clients are expected to read on.
const STALLED: Duration = Duration::from_secs(60);

/// Delay after accepting a connection failed, as when file descriptors run out.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves requests until `stopped` completes. Then each connection closes after its current request.
pub async fn listen(listener: TcpListener, router: Router, stopped: impl Future<Output = ()>) {
    listen_with_limits(CONNECTION_LIMITS, listener, router, stopped).await;
}

/// Like [`listen`], and closes connections of clients that read nothing for a minute. For event streams, which have more
/// to send at any time.
pub async fn listen_to_readers(
    listener: TcpListener,
    router: Router,
    stopped: impl Future<Output = ()>,
) {
    let limits = ConnectionLimits {
        stalled: Some(STALLED),
        ..CONNECTION_LIMITS
    };
    listen_with_limits(limits, listener, router, stopped).await;
}

async fn listen_with_limits(
    limits: ConnectionLimits,
    listener: TcpListener,
    router: Router,
    stopped: impl Future<Output = ()>,
) {
    let permits = Arc::new(Semaphore::new(limits.connections as usize));
    let (end_sender, end_receiver) = watch::channel(false);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let permit = Arc::clone(&permits).acquire_owned();
        let next = async { (permit.await, listener.accept().await) };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut stopped => break,
        };
        let (Ok(permit), Ok((stream, client))) = (permit, accepted) else {
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let connection = connection(
            limits,
            (stream, client),
            router.clone(),
            end_receiver.clone(),
        );
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    drop(listener);
    let _ = end_sender.send(true);
    // All permits are available once all connections have closed.
    let _ = permits.acquire_many(limits.connections).await;
}

async fn connection(
    limits: ConnectionLimits,
    (stream, client): (TcpStream, SocketAddr),
    router: Router,
    mut end_receiver: watch::Receiver<bool>,
) {
    // A response consists of several small writes, which Nagle's algorithm would delay by 40 ms per call.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.into_service::<TimedBody>());
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(client));
        service.call(request.map(|body| TimedBody::new(body, limits.body)))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(
            TokioIo::new(TimedStream::new(stream, limits.stalled)),
            answer,
        );
    let mut served = std::pin::pin!(served);
    let done = tokio::select! {
        done = &mut served => done,
        () = wait_until_ended(&mut end_receiver) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn wait_until_ended(end_receiver: &mut watch::Receiver<bool>) {
    let _ = end_receiver.wait_for(|has_ended| *has_ended).await;
}

/// Request body that fails if it does not arrive before a deadline.
struct TimedBody {
    body: Incoming,
    deadline: Pin<Box<Sleep>>,
}

impl TimedBody {
    fn new(body: Incoming, time: Duration) -> Self {
        Self {
            body,
            deadline: Box::pin(sleep(time)),
        }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => {
                let late = io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the request body did not arrive in time",
                );
                Poll::Ready(Some(Err(late.into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// A server that returns the request body, and a handle to stop it.
    async fn serving() -> (SocketAddr, JoinHandle<()>, tokio::sync::oneshot::Sender<()>) {
        let limits = ConnectionLimits {
            connections: 2,
            head: Duration::from_secs(1),
            body: Duration::from_secs(1),
            stalled: Some(Duration::from_secs(1)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(|body: String| async { body }));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let serving = listen_with_limits(limits, listener, router, async {
            let _ = stopped.await;
        });
        (address, tokio::spawn(serving), stop)
    }

    /// Sends these bytes and reads until the connection closes.
    async fn exchange(address: SocketAddr, words: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut response)).await;
        // A reset also counts as closed.
        let _ = read.expect("the connection stays open");
        String::from_utf8_lossy(&response).into_owned()
    }

    const WHOLE: &str =
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";

    #[tokio::test]
    async fn listener_drops_incomplete_requests_and_keeps_serving() {
        let (address, serving, stop) = serving().await;
        let response = exchange(address, WHOLE).await;
        assert!(
            response.starts_with("HTTP/1.1 200") && response.ends_with("hello"),
            "{response}"
        );
        // Twice as many connections as allowed, none of which completes a request.
        let incomplete = "POST / HTTP/1.1\r\nhost: x";
        let late = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhel";
        let slow =
            [incomplete, "", late, incomplete].map(|words| tokio::spawn(exchange(address, words)));
        let response = exchange(address, WHOLE).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        for exchange in slow {
            let response = exchange.await.unwrap();
            assert!(!response.contains("200 OK"), "{response}");
        }
        stop.send(()).unwrap();
        timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn listener_drops_clients_that_read_nothing() {
        let (address, serving, stop) = serving().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        // More than the buffers of the connection hold.
        let size = 32 << 20;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut sent = stream.write_all(&vec![b'x'; size]).await;
        // The server closes while nothing is read; then the end of the response is missing.
        let mut read = 0;
        let mut chunk = vec![0; 1 << 20];
        if sent.is_ok() {
            sleep(Duration::from_secs(2)).await;
            loop {
                match timeout(TEST_TIMEOUT, stream.read(&mut chunk))
                    .await
                    .unwrap()
                {
                    Ok(0) => break,
                    Ok(count) => read += count,
                    Err(error) => {
                        sent = Err(error);
                        break;
                    }
                }
            }
        }
        assert!(sent.is_err() || read < size, "{read} bytes");
        stop.send(()).unwrap();
        timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn listener_answers_pending_requests_at_shutdown() {
        let (address, serving, stop) = serving().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let (head, rest) = WHOLE.split_at(WHOLE.len() - 2);
        stream.write_all(head.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        stop.send(()).unwrap();
        sleep(Duration::from_millis(50)).await;
        stream.write_all(rest.as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(TEST_TIMEOUT, stream.read_to_string(&mut response))
            .await
            .unwrap()
            .unwrap();
        assert!(response.ends_with("hello"), "{response}");
        timeout(TEST_TIMEOUT, serving).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
