//! An HTTP client that sends what it is told, right or wrong.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time after which a test fails instead of waiting for ever.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    /// Returns the only value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next();
        assert!(found.next().is_none(), "{name} is repeated");
        value.map(|(_, value)| value.as_str())
    }

    /// Returns the code of an error.
    pub fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.and_then(|status| status.parse().ok()).unwrap_or(0),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        }
    }
}

/// Headers of the console's own page for changes.
pub fn own_headers(address: SocketAddr) -> Vec<String> {
    vec![
        format!("Host: {address}"),
        format!("Origin: http://{address}"),
        "Content-Type: application/json".to_owned(),
        "X-Mimir-Console: 1".to_owned(),
        "Sec-Fetch-Site: same-origin".to_owned(),
    ]
}

/// Headers of the console's own page for changes, with a cookie.
pub fn with_cookie(address: SocketAddr, cookie: &str) -> Vec<String> {
    let mut headers = own_headers(address);
    headers.push(format!("Cookie: {cookie}"));
    headers
}

/// Sends a request and reads the response until the connection closes.
pub async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[String],
    body: &str,
) -> Reply {
    let mut stream = send(address, method, path, headers, body).await;
    let mut text = Vec::new();
    timeout(TEST_TIMEOUT, stream.read_to_end(&mut text))
        .await
        .expect("the connection stays open")
        .unwrap_or_default();
    Reply::parse(&String::from_utf8_lossy(&text))
}

/// Sends a request.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[String],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if method == "POST" {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    // The server may have answered and closed before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    stream
}

/// Reads from a stream until it contains a text.
pub async fn read_until(stream: &mut TcpStream, read: &mut String, text: &str) {
    let reading = async {
        while !read.contains(text) {
            let mut chunk = [0; 64 << 10];
            let count = stream.read(&mut chunk).await.unwrap();
            assert!(count > 0, "the stream ends before {text}: {read}");
            read.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    };
    timeout(TEST_TIMEOUT, reading)
        .await
        .unwrap_or_else(|_| panic!("{text} does not arrive"));
}
