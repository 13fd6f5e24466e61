//! A third-party MCP server over HTTP, on a local port.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Recorded when a listening request is answered, among the received requests.
pub const LISTENS: &str = "(listens)";

/// Starts a server on a local port that responds to each request, with a delay for listening requests. Returns its
/// address and the requests it records.
pub fn listen() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let recorder = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let recorder = Arc::clone(&recorder);
            std::thread::spawn(move || answer(stream, &recorder));
        }
    });
    (format!("http://{address}/mcp"), requests)
}

fn answer(mut stream: std::net::TcpStream, requests: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&lower);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        requests
            .lock()
            .push(format!("{head}{}", String::from_utf8_lossy(&body)));
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"},
            }),
            Some("tools/list") => {
                json!({"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})
            }
            Some("tools/call") => json!({"content": [{"type": "text", "text": "over http"}]}),
            _ => Value::Null,
        };
        let called = message["method"] == "tools/call";
        if head.starts_with("get") {
            std::thread::sleep(Duration::from_millis(300));
            requests.lock().push(LISTENS.to_owned());
        }
        let (status, body) = match result {
            Value::Null if head.starts_with("post") => ("202 Accepted", String::new()),
            Value::Null => ("405 Method Not Allowed", String::new()),
            result => {
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                ("200 OK", body.to_string())
            }
        };
        // Both forms of a response: a call is answered with an event.
        let (kind, body) = match called {
            true => (
                "text/event-stream",
                format!("event: message\ndata: {body}\n\n"),
            ),
            false => ("application/json", body),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: abc\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
