//! Servers on loopback.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A server that stops with the test.
pub struct Site {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    request_heads: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Returns a response with this text.
pub fn text(body: &'static str) -> Answer {
    Response::new(Full::from(body).boxed_unsync())
}

/// Returns a plain response as text, optionally with further header lines, each ending with CRLF.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

impl Drop for Site {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Site {
    /// Starts a server that handles each connection with the function of the test.
    pub async fn of<F: Future<Output = ()> + Send + 'static>(
        handle: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        Self::with_log(move |stream, _| handle(stream)).await
    }

    async fn with_log<F: Future<Output = ()> + Send + 'static>(
        handle: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let request_heads = Arc::new(Mutex::new(Vec::new()));
        let (count, log) = (Arc::clone(&connections), Arc::clone(&request_heads));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(handle(stream, Arc::clone(&log)));
            }
        });
        Self {
            address,
            connections,
            request_heads,
            accepting,
        }
    }

    /// Starts a server that answers each request with the text that `answer` returns for its head. Requests must have a
    /// short body or none.
    pub async fn respond_with(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::with_log(move |mut stream, log| {
            let answer = Arc::clone(&answer);
            async move {
                while let Some(head) = head(&mut stream).await {
                    log.lock().push(head.clone());
                    if stream.write_all(answer(&head).as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Starts a hyper server without TLS.
    pub async fn http<F: Future<Output = Answer> + Send + 'static>(
        handle: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    ) -> Self {
        Self::of(move |stream| {
            let handle = handle.clone();
            async move {
                let service = service_fn(move |request| {
                    let answering = handle(request);
                    async move { Ok::<_, Infallible>(answering.await) }
                });
                let serving = hyper::server::conn::http1::Builder::new();
                let _ = serving
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        })
        .await
    }

    /// Starts a hyper server over TLS, which uses the negotiated protocol.
    pub async fn https<F: Future<Output = Answer> + Send + 'static>(
        config: Arc<ServerConfig>,
        handle: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let acceptor = TlsAcceptor::from(config);
        Self::of(move |stream| {
            let (handle, acceptor) = (handle.clone(), acceptor.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(move |request| {
                    let answering = handle(request);
                    async move { Ok::<_, Infallible>(answering.await) }
                });
                let stream = TokioIo::new(stream);
                if h2 {
                    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = serving.serve_connection(stream, service).await;
                } else {
                    let serving = hyper::server::conn::http1::Builder::new();
                    let _ = serving.serve_connection(stream, service).await;
                }
            }
        })
        .await
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the heads of all requests, if the server records them.
    pub fn request_heads(&self) -> Vec<String> {
        self.request_heads.lock().clone()
    }

    /// Returns a URL of this server with its address.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns a URL of this server with another scheme and name.
    pub fn named(&self, origin: &str, path: &str) -> String {
        format!("{origin}:{}{path}", self.address.port())
    }
}

/// Reads the next request of a connection: its head, and a short body if there is one.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream
            .read(&mut buffer)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return Some(text);
        }
    }
}
