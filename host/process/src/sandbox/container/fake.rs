//! Fake container engine for tests.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Response to requests for the engine's properties.
pub(super) const PROPERTIES: (&str, &str) = ("200 OK", r#"{"ApiVersion": "1.41"}"#);

/// Listens at a socket. `answer` receives the method and the path of a request, and returns the status and the body of
/// the response; `None` closes the connection.
pub(super) fn engine(
    at: &Path,
    answer: impl Fn(&str, &str) -> Option<(&'static str, &'static str)> + Send + Sync + 'static,
) {
    let listener = UnixListener::bind(at).unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, answer) = (connection.unwrap(), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut bytes = [0; 8192];
                while let Ok(count @ 1..) = connection.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                    let mut parts = text.split(' ');
                    let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
                    let Some((status, body)) = answer(method, path) else {
                        break;
                    };
                    let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json");
                    // A response without a body has no length either.
                    if !status.starts_with("204") {
                        head.push_str(&format!("\r\nContent-Length: {}", body.len()));
                    }
                    // The client may have disconnected.
                    if write!(connection, "{head}\r\n\r\n{body}").is_err() {
                        break;
                    }
                }
            });
        }
    });
}
