//! A small HTTP/1.1 client for MCP: kept connections, responses with a length, in chunks, or as events.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Maximum size of a response: the largest of the test is a file of some KB.
const BODY_MAX: usize = 16 << 20;

/// Maximum time of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Address and headers of a server.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    /// Host and port.
    pub address: String,
    /// Headers of each request, each with its line end.
    pub headers: String,
}

/// A kept connection.
pub struct HttpConnection {
    stream: BufReader<TcpStream>,
}

/// The head of a response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The headers: names in lower case, and values.
    headers: Vec<(String, String)>,
}

impl ResponseHead {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns true if the body is a stream of events.
    pub fn is_event_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    fn has_body(&self) -> bool {
        self.status != 204 && self.status != 304 && self.status >= 200
    }
}

/// The body of a response, read in pieces.
pub struct ResponseBody<'a> {
    connection: &'a mut HttpConnection,
    framing: BodyFraming,
    /// Bytes of the current event.
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyFraming {
    /// Number of bytes that follow.
    Length(usize),
    Chunks,
    /// Everything until the server closes the connection.
    UntilClosed,
    Ended,
}

impl HttpConnection {
    /// Connects to a server.
    pub async fn connect(target: &HttpTarget) -> Result<Self, String> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&target.address));
        let stream = connected
            .await
            .map_err(|_| format!("no connection to {} in time", target.address))?
            .map_err(|error| format!("cannot connect to {}: {error}", target.address))?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request, and reads the head of the response.
    pub async fn request(
        &mut self,
        target: &HttpTarget,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Result<(ResponseHead, ResponseBody<'_>), String> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{}{headers}content-length: {}\r\n\r\n{body}",
            target.address,
            target.headers,
            body.len()
        );
        let written = self.stream.get_mut().write_all(request.as_bytes()).await;
        written.map_err(|error| format!("cannot send: {error}"))?;
        let head = loop {
            let head = self.read_head().await?;
            if head.status >= 200 {
                break head;
            }
        };
        let length = head.header("content-length").map(str::parse::<usize>);
        let framing = match length {
            _ if !head.has_body() => BodyFraming::Ended,
            Some(Ok(length)) if length <= BODY_MAX => BodyFraming::Length(length),
            Some(_) => return Err("the length of the response is not valid".to_owned()),
            None if head.header("transfer-encoding").is_some() => BodyFraming::Chunks,
            None => BodyFraming::UntilClosed,
        };
        let body = ResponseBody {
            connection: self,
            framing,
            buffer: Vec::new(),
        };
        Ok((head, body))
    }

    async fn read_head(&mut self) -> Result<ResponseHead, String> {
        let status = self.read_line().await?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or("the response has no status")?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line().await?;
            if line.is_empty() {
                return Ok(ResponseHead { status, headers });
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }

    async fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await;
        match read.map_err(|error| format!("cannot read: {error}"))? {
            0 => Err("the connection was closed".to_owned()),
            _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    async fn read_bytes(&mut self, count: usize, to: &mut Vec<u8>) -> Result<(), String> {
        let from = to.len();
        to.resize(from + count, 0);
        let read = self.stream.read_exact(&mut to[from..]).await;
        read.map(drop)
            .map_err(|error| format!("cannot read: {error}"))
    }
}

impl ResponseBody<'_> {
    /// Reads the next piece. Returns false at the end.
    async fn read_piece(&mut self) -> Result<bool, String> {
        match self.framing {
            BodyFraming::Ended => Ok(false),
            BodyFraming::Length(length) => {
                self.framing = BodyFraming::Ended;
                self.connection.read_bytes(length, &mut self.buffer).await?;
                Ok(length > 0)
            }
            BodyFraming::Chunks => {
                let line = self.connection.read_line().await?;
                let size = line.split(';').next().unwrap_or_default();
                let size = usize::from_str_radix(size.trim(), 16);
                let size = size.map_err(|_| format!("the size of a chunk is not valid: {line}"))?;
                if size > BODY_MAX {
                    return Err("a chunk is too large".to_owned());
                }
                self.connection.read_bytes(size, &mut self.buffer).await?;
                self.connection.read_line().await?;
                if size == 0 {
                    self.framing = BodyFraming::Ended;
                }
                Ok(size > 0)
            }
            BodyFraming::UntilClosed => {
                let mut buffer = [0; 8192];
                let read = self.connection.stream.read(&mut buffer).await;
                let read = read.map_err(|error| format!("cannot read: {error}"))?;
                self.buffer.extend_from_slice(&buffer[..read]);
                if read == 0 {
                    self.framing = BodyFraming::Ended;
                }
                Ok(read > 0)
            }
        }
    }

    /// Reads the whole body.
    pub async fn text(mut self) -> Result<String, String> {
        while self.read_piece().await? {
            if self.buffer.len() > BODY_MAX {
                return Err("the response is too large".to_owned());
            }
        }
        String::from_utf8(self.buffer).map_err(|_| "the response is not UTF-8".to_owned())
    }

    /// Reads the data of the next event. `None` at the end.
    pub async fn next_event(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(end) = event_end(&self.buffer) {
                let event: Vec<u8> = self.buffer.drain(..end).collect();
                let event = String::from_utf8_lossy(&event).into_owned();
                let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
                let data = data.map(|line| line.strip_prefix(' ').unwrap_or(line));
                let data = data.collect::<Vec<_>>().join("\n");
                if !data.trim().is_empty() {
                    return Ok(Some(data));
                }
            } else if !self.read_piece().await? {
                return Ok(None);
            } else if self.buffer.len() > BODY_MAX {
                return Err("an event is too large".to_owned());
            }
        }
    }
}

/// Returns the end of the first event: after an empty line.
fn event_end(buffer: &[u8]) -> Option<usize> {
    let newline = buffer.windows(2).position(|pair| pair == b"\n\n");
    let carriage = buffer.windows(4).position(|four| four == b"\r\n\r\n");
    match (newline.map(|at| at + 2), carriage.map(|at| at + 4)) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answered_with(response: &'static str) -> (HttpTarget, HttpConnection) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
        });
        let target = HttpTarget {
            address,
            headers: String::new(),
        };
        let connection = HttpConnection::connect(&target).await.unwrap();
        (target, connection)
    }

    #[tokio::test]
    async fn http_body_with_length_and_in_chunks_is_read() {
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
        ] {
            let (target, mut connection) = answered_with(response).await;
            let (head, body) = connection
                .request(&target, "POST", "/", "", "")
                .await
                .unwrap();
            assert_eq!(head.status, 200);
            assert_eq!(body.text().await.unwrap(), "hello");
        }
    }

    #[tokio::test]
    async fn http_events_are_split_at_empty_lines() {
        let response = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: note\n\ndata: 1\n\nid: 2\ndata: 2\n\n";
        let (target, mut connection) = answered_with(response).await;
        let (head, mut body) = connection
            .request(&target, "POST", "/", "", "")
            .await
            .unwrap();
        assert!(head.is_event_stream());
        assert_eq!(body.next_event().await.unwrap().as_deref(), Some("1"));
        assert_eq!(body.next_event().await.unwrap().as_deref(), Some("2"));
        assert_eq!(body.next_event().await.unwrap(), None);
    }

    #[tokio::test]
    async fn http_connection_that_ends_in_a_body_is_an_error() {
        let (target, mut connection) =
            answered_with("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello").await;
        let (_, body) = connection
            .request(&target, "POST", "/", "", "")
            .await
            .unwrap();
        assert!(body.text().await.is_err());
    }
}
