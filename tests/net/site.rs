//! A server on loopback, with its own threads: each connection is passed to the test, or served request by request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// A received request.
#[derive(Debug, Clone, Default)]
pub struct ReceivedRequest {
    /// The request line and the headers; header names are in lower case.
    pub head: String,
    /// Length of the body in bytes, without its framing.
    pub bytes: usize,
    /// The body, if its length was announced.
    pub body: String,
    /// The trailers, as they were sent.
    pub trailers: String,
    /// Index of its connection.
    pub connection: usize,
}

impl ReceivedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then_some(value.trim())
        })
    }

    /// The path of the request line.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

type Answering = dyn Fn(&ReceivedRequest, &mut TcpStream) + Send + Sync;

/// A server that lives as long as the test process.
pub struct Site {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Site {
    /// Creates a server that calls `answer` for each request.
    pub fn new(answer: impl Fn(&ReceivedRequest, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let (all, answer) = (
            Arc::clone(&received),
            Arc::<Box<Answering>>::new(Box::new(answer)),
        );
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, connection, &all, &**answer));
            }
        });
        Self { address, received }
    }

    /// Creates a server that responds to each request with this text.
    pub fn says(text: &'static str) -> Self {
        Self::new(move |_, stream| reply(stream, "200 OK", "", text))
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().clone()
    }
}

/// Sends a whole response. Header lines end with CRLF each.
pub fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes());
}

fn serve(
    stream: TcpStream,
    connection: usize,
    all: &Mutex<Vec<ReceivedRequest>>,
    answer: &Answering,
) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(head) = lines(&mut reader) {
        if head.is_empty() {
            return;
        }
        let mut received = ReceivedRequest {
            head,
            connection,
            ..ReceivedRequest::default()
        };
        if received.header("transfer-encoding") == Some("chunked") {
            while let Some(size) = size(&mut reader) {
                if size == 0 {
                    received.trailers = lines(&mut reader).unwrap_or_default();
                    break;
                }
                let mut chunk = vec![0; size + 2];
                if reader.read_exact(&mut chunk).is_err() {
                    return;
                }
                received.bytes += size;
            }
        } else if let Some(length) = received.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            received.bytes = body.len();
            received.body = String::from_utf8_lossy(&body).into_owned();
        }
        all.lock().push(received.clone());
        answer(&received, &mut writer);
    }
}

/// Lines up to an empty one, header names in lower case; `None` if the connection was closed.
fn lines(reader: &mut impl BufRead) -> Option<String> {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Some(all);
        }
        match line.split_once(": ") {
            Some((name, value)) => all.push_str(&format!("{}: {value}\n", name.to_lowercase())),
            None => all.push_str(&format!("{line}\n")),
        }
    }
}

fn size(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    usize::from_str_radix(line.trim(), 16).ok()
}
