//! A server that requires a login, and its authorization server, both on one local port.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// The token that it issues.
pub const TOKEN: &str = "at-4c9f1e7d2b8a";
pub const REFRESH: &str = "rt-90ab3c5d7e1f";

/// Recorded requests: the first line, the token and the body of each.
pub type RecordedRequests = Arc<Mutex<Vec<String>>>;

/// A server whose results contain the received token.
pub fn open() -> (String, RecordedRequests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_url = format!("http://{}", listener.local_addr().unwrap());
    let requests = RecordedRequests::default();
    let (url, recorder) = (own_url.clone(), Arc::clone(&requests));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (url, recorder) = (url.clone(), Arc::clone(&recorder));
            std::thread::spawn(move || while answer(&stream, &url, &recorder).is_some() {});
        }
    });
    (own_url, requests)
}

fn answer(mut stream: &TcpStream, own_url: &str, requests: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map(|text| text.parse());
    let mut body = vec![0; length.map_or(0, Result::unwrap)];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    let token = headers.get("authorization").cloned().unwrap_or_default();
    let line = format!("{} [{token}] {body}", first.trim());
    requests.lock().push(line);
    let path = first.split(' ').nth(1)?;
    let (status, more, answer) = match path {
        "/.well-known/oauth-protected-resource/mcp" => {
            let about =
                json!({"resource": format!("{own_url}/mcp"), "authorization_servers": [own_url]});
            (200, String::new(), about)
        }
        "/.well-known/oauth-authorization-server" => {
            let about = json!({"issuer": own_url, "authorization_endpoint": format!("{own_url}/authorize"),
                "token_endpoint": format!("{own_url}/token"), "registration_endpoint": format!("{own_url}/register"),
                "code_challenge_methods_supported": ["S256"]});
            (200, String::new(), about)
        }
        "/register" => (201, String::new(), json!({"client_id": "client-1"})),
        "/token" => {
            let tokens = json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600,
                "refresh_token": REFRESH, "scope": "read"});
            (200, String::new(), tokens)
        }
        "/mcp" if token == format!("Bearer {TOKEN}") => mcp_response(&body, &token),
        "/mcp" => {
            let more = format!(
                "www-authenticate: Bearer resource_metadata=\"{own_url}/.well-known/oauth-protected-resource/mcp\"\r\n"
            );
            (401, more, Value::Null)
        }
        _ => (404, String::new(), Value::Null),
    };
    let text = match answer {
        Value::Null => String::new(),
        answer => answer.to_string(),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all(format!("{head}{text}").as_bytes()).ok()
}

fn mcp_response(body: &str, token: &str) -> (u16, String, Value) {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}),
        Some("tools/list") => json!({"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => {
            json!({"content": [{"type": "text", "text": format!("sent by {token}")}]})
        }
        Some("server/discover") => return (400, String::new(), Value::Null),
        Some(_) => return (202, String::new(), Value::Null),
        None => return (405, String::new(), Value::Null),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    (200, String::new(), answer)
}
