//! `mimir serve --http`: access control, both protocol generations, and shutdown.

use crate::kit;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::kit::{mimir, run};
use serde_json::{Value, json};

/// A running server. Dropping it stops it.
pub struct Serving {
    child: Child,
    pub address: SocketAddr,
    /// Its stderr before it listened.
    pub said: String,
    console: Option<String>,
    /// Collects its later output.
    #[cfg_attr(not(unix), expect(dead_code, reason = "Windows has no SIGTERM"))]
    stderr: Option<std::thread::JoinHandle<String>>,
}

impl Serving {
    pub fn start(home: &Path, args: &[&str]) -> Self {
        let all = [&["serve", "--http", "127.0.0.1:0"], args].concat();
        let mut command = mimir(home, &all);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        drop(command);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended: {said}");
            if let Some(url) = line.strip_prefix("mimir serves MCP at http://") {
                break url.trim().strip_suffix("/mcp").unwrap().parse().unwrap();
            }
            said.push_str(&line);
        };
        let mut console = None;
        let has_local_console = args.contains(&"--console") && !args.contains(&"--issuer");
        while has_local_console && console.is_none() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "no link");
            let link = line.split_once("the console is at ");
            console = link.and_then(|(_, rest)| Some(rest.split(';').next()?.trim().to_owned()));
        }
        let stderr = std::thread::spawn(move || {
            let mut later = Vec::new();
            let _ = stderr.read_to_end(&mut later);
            String::from_utf8_lossy(&later).into_owned()
        });
        Self {
            child,
            address,
            said,
            console,
            stderr: Some(stderr),
        }
    }

    /// Sends SIGTERM.
    #[cfg(unix)]
    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits until the process has ended. Returns its exit code and its output since it listened.
    #[cfg(unix)]
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let stderr = self.stderr.take().unwrap();
        (code, stderr.join().unwrap())
    }

    /// Returns the one-time link of its console.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "tests of the console run on Linux")
    )]
    pub fn console_link(&self) -> &str {
        self.console.as_deref().unwrap()
    }

    /// Sends a request and returns the stream with the response.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        let named = headers.iter().any(|(name, _)| *name == "host");
        if !named {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        // A server that has already responded may have closed the connection.
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        stream
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = Vec::new();
        let mut stream = self.send(method, path, headers, body);
        let _ = stream.read_to_end(&mut all);
        Answer(String::from_utf8_lossy(&all).into_owned())
    }

    /// Returns the response to a GET request, with its head.
    pub fn get(&self, path: &str) -> String {
        self.request("GET", path, &[], "").0
    }

    /// Posts a protocol message.
    pub fn post(&self, more: &[(&str, &str)], message: &Value) -> Answer {
        let headers = [&PROTOCOL[..], more].concat();
        self.request("POST", "/mcp", &headers, &message.to_string())
    }

    /// Performs the handshake and returns the session id.
    pub fn hello(&self, capabilities: Value) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let hello = self.post(&[], &message(1, "initialize", params));
        assert_eq!(hello.status(), 200, "{}", hello.0);
        hello.header("mcp-session-id").unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Headers of every request.
const PROTOCOL: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
];

pub fn message(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Calls a tool in the protocol without sessions.
pub fn call_without_session(serving: &Serving, mut params: Value) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap().to_owned();
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", &name),
    ];
    serving.post(&headers, &message(1, "tools/call", params))
}

/// A raw HTTP response.
pub struct Answer(pub String);

impl Answer {
    pub fn status(&self) -> u16 {
        self.0.split(' ').nth(1).unwrap_or("0").parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let head = self.0.split("\r\n\r\n").next()?;
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.to_owned())
    }

    /// The message with this id, from JSON or an event stream.
    pub fn message(&self, id: u64) -> Value {
        let lines = self
            .0
            .lines()
            .map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = messages.find(|message| message["id"] == id);
        found.unwrap_or_else(|| panic!("no message {id} in {}", self.0))
    }
}

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    home
}

/// A request of the protocol since 2026-07-28.
fn modern(id: u64, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    message(id, "tools/call", params)
}

#[test]
fn serve_http_supports_both_protocol_generations() {
    let home = workspace();
    let serving = Serving::start(home.path(), &[]);
    let session = serving.hello(json!({}));
    let of = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let listed = serving
        .post(&of, &message(2, "tools/list", json!({})))
        .message(2);
    assert!(listed["result"]["tools"].to_string().contains("read_file"));
    let read = json!({"name": "read_file", "arguments": {"path": "notes.md"}});
    let done = serving
        .post(&of, &message(3, "tools/call", read.clone()))
        .message(3);
    assert!(
        done["result"]["content"].to_string().contains("the milk"),
        "{done}"
    );

    let era = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "read_file"),
    ];
    let answer = serving.post(&era, &modern(4, read));
    let done = answer.message(4);
    assert_eq!(done["result"]["resultType"], "complete", "{}", answer.0);
    assert!(answer.header("mcp-session-id").is_none());

    let metrics = serving.request("GET", "/metrics", &[], "").0;
    for line in [
        "mimir_calls_total{tool=\"read_file\",code=\"OK\"} 2",
        "mimir_call_seconds_count{tool=\"read_file\"} 2",
        "mimir_sessions 1",
        "mimir_calls_under_way 0",
        // A bundled plugin was looked up once, as a hit or a miss, and is cached now.
        "# TYPE mimir_code_cache_lookups_total counter",
        "mimir_code_cache_lookups_total{result=\"mapped\"}",
        "mimir_code_cache_lookups_total{result=\"read\"}",
        "mimir_code_cache_lookups_total{result=\"missed\"}",
        "mimir_code_cache_loaded_bytes_total",
        "mimir_compile_seconds_total",
        "# TYPE mimir_cache_bytes gauge",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let figure = |name: &str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or_default().trim().parse::<f64>().unwrap()
    };
    let found = ["mapped", "read"].map(|result| {
        figure(&format!(
            "mimir_code_cache_lookups_total{{result=\"{result}\"}}"
        ))
    });
    let hits: f64 = found.iter().sum();
    assert!(
        hits + figure("mimir_compilations_total") >= 1.0,
        "{metrics}"
    );
    assert_eq!(
        hits > 0.0,
        figure("mimir_code_cache_loaded_bytes_total") > 0.0
    );
    assert!(figure("mimir_cache_entries") >= 1.0, "{metrics}");
    let ended = serving.request("DELETE", "/mcp", &of, "");
    assert!(ended.status() < 300, "{}", ended.0);
    let gone = serving.post(&of, &message(5, "tools/list", json!({})));
    assert_eq!(gone.status(), 404, "{}", gone.0);
}

#[test]
fn serve_http_asks_for_approval_in_both_protocol_generations() {
    let home = workspace();
    let serving = Serving::start(home.path(), &[]);
    let delete = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let era = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "delete_file"),
    ];
    let asked = serving.post(&era, &modern(1, delete.clone())).message(1);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut no = delete.clone();
    no["requestState"] = asked["result"]["requestState"].clone();
    no["inputResponses"] = json!({"approval": {"action": "accept", "content": {"answer": "no"}}});
    let refused = serving.post(&era, &modern(2, no)).message(2);
    assert!(refused.to_string().contains("APPROVAL_DENIED"), "{refused}");

    let session = serving.hello(json!({"elicitation": {}}));
    let of = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let headers = [&PROTOCOL[..], &of].concat();
    let call = message(3, "tools/call", delete).to_string();
    let stream = serving.send("POST", "/mcp", &headers, &call);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let question = lines
        .find(|line| line.contains("elicitation/create"))
        .unwrap();
    let question: Value = serde_json::from_str(question.strip_prefix("data: ").unwrap()).unwrap();
    let yes = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"answer": "once"}}});
    assert_eq!(serving.post(&of, &yes).status(), 202);
    assert!(lines.any(|line| line.contains("\"isError\":false")));
    assert!(!home.path().join("notes.md").exists());
    let metrics = serving.request("GET", "/metrics", &[], "").0;
    for line in [
        "mimir_approvals_total{answer=\"no\"} 1",
        "mimir_approvals_total{answer=\"once\"} 1",
        "mimir_calls_total{tool=\"delete_file\",code=\"APPROVAL_DENIED\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn serve_http_refuses_foreign_hosts_and_origins() {
    let home = workspace();
    let serving = Serving::start(home.path(), &["--origin", "https://app.example:443"]);
    let list = message(1, "tools/list", json!({})).to_string();
    for path in ["/mcp", "/metrics", "/healthz", "/"] {
        for (name, value) in [
            ("host", "evil.example"),
            ("host", ""),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let headers = [&PROTOCOL[..], &[(name, value)]].concat();
            let answer = serving.request("POST", path, &headers, &list);
            assert!(
                matches!(answer.status(), 400 | 403),
                "{path} {name}: {value}: {}",
                answer.0
            );
        }
    }
    assert_eq!(serving.request("GET", "/healthz", &[], "").status(), 200);
    assert_eq!(serving.request("GET", "/nothing", &[], "").status(), 404);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let hello = message(1, "initialize", params);
    let allowed = serving.post(&[("origin", "https://app.example:443")], &hello);
    assert_eq!(allowed.status(), 200, "{}", allowed.0);
}

#[test]
fn serve_http_token_is_created_once_private_and_required() {
    let home = workspace();
    let first = Serving::start(home.path(), &["--token"]);
    let shown = first.said.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(shown.len(), 32, "{}", first.said);
    let file = kit::config(home.path()).join("serve.token");
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), shown);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    drop(first);
    let serving = Serving::start(home.path(), &["--token"]);
    assert!(!serving.said.contains(&shown), "{}", serving.said);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    let hello = message(1, "initialize", params);
    for headers in [
        &[][..],
        &[("authorization", "Bearer no")],
        &[("authorization", "Basic eA==")],
    ] {
        let answer = serving.post(headers, &hello);
        assert_eq!(answer.status(), 401, "{}", answer.0);
        assert!(
            answer
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
        assert_eq!(
            serving.request("GET", "/metrics", headers, "").status(),
            401
        );
    }
    let bearer = format!("Bearer {shown}");
    let answer = serving.post(&[("authorization", &bearer)], &hello);
    assert_eq!(answer.status(), 200, "{}", answer.0);
    assert_eq!(serving.request("GET", "/healthz", &[], "").status(), 200);
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}

#[test]
fn serve_http_answers_bad_requests_and_keeps_running() {
    let home = workspace();
    let serving = Serving::start(home.path(), &[]);
    let session = serving.hello(json!({}));
    let invented = [("mcp-session-id", "00000000-0000-0000-0000-000000000000")];
    let list = message(1, "tools/list", json!({}));
    assert_eq!(serving.post(&invented, &list).status(), 404);
    let of = [("mcp-session-id", session.as_str())];
    let huge = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "x".repeat(17 << 20)});
    assert_eq!(serving.post(&of, &huge).status(), 413);
    for body in ["", "garbage", "[]", "{\"jsonrpc\":\"2.0\"}"] {
        let answer = serving.request("POST", "/mcp", &[&PROTOCOL[..], &of].concat(), body);
        assert!(
            (400..500).contains(&answer.status()),
            "{body}: {}",
            answer.0
        );
    }
    let plain = serving.request("POST", "/mcp", &[("accept", "*/*")], "{}");
    assert!(
        (400..500).contains(&plain.status()),
        "a page's form: {}",
        plain.0
    );
    let listed = serving
        .post(&of, &message(9, "tools/list", json!({})))
        .message(9);
    assert!(listed["result"].is_object());
}

// Windows has no SIGTERM.
#[cfg(unix)]
#[test]
fn serve_http_records_pending_calls_on_sigterm() {
    let home = workspace();
    let mut serving = Serving::start(home.path(), &["--drain-timeout", "0"]);
    let session = serving.hello(json!({"elicitation": {}}));
    let of = [("mcp-session-id", session.as_str())];
    let delete = json!({"name": "delete_file", "arguments": {"path": "notes.md"}});
    let call = message(2, "tools/call", delete).to_string();
    let stream = serving.send("POST", "/mcp", &[&PROTOCOL[..], &of].concat(), &call);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("elicitation/create")));
    serving.terminate();
    assert!(lines.any(|line| line.contains("UNAVAILABLE")));
    assert_eq!(serving.wait().0, Some(0));
    let (_, shown, _) = run(home.path(), &["audit", "show", "--json"]);
    assert!(shown.contains("CANCELLED"), "{shown}");
    assert_eq!(run(home.path(), &["audit", "verify"]).0, 0);
}

#[test]
fn serve_http_explains_addresses_it_cannot_use() {
    let home = workspace();
    let (code, _, output) = run(home.path(), &["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(code, 2);
    assert!(output.contains("--host"), "{output}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _, output) = run(home.path(), &["serve", "--http", &address]);
    assert_eq!(code, 1);
    assert!(output.contains("cannot listen"), "{output}");
}

/// Without sessions, all clients with one token are one client for mimir, so a skill that one of them loads answers no
/// question of another.
#[test]
fn serve_http_applies_permissions_of_skills_in_sessions_only() {
    let home = workspace();
    let folder = home.path().join("source/forms");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: forms\ndescription: Fills forms.\nallowed-tools: Write\n---\nDo it.\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
    let (code, out, output) = run(home.path(), &["skills", "add", "source/forms", "--json"]);
    assert_eq!(code, 0, "{output}");
    let added: Value = serde_json::from_str(&out).unwrap();
    let digest = added["digest"].as_str().unwrap();
    let trust = ["skills", "trust", "forms", "--digest", digest];
    assert_eq!(run(home.path(), &trust).0, 0);
    let serving = Serving::start(home.path(), &[]);
    let load = json!({"name": "load_skill", "arguments": {"skill": "forms"}});
    let write = json!({"name": "write_file", "arguments": {"path": "notes.md", "content": "x"}});
    let modern_call = |id: u64, params: &Value| {
        let era = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", params["name"].as_str().unwrap()),
        ];
        let answer = serving.post(&era, &modern(id, params.clone()));
        answer.message(id)
    };
    let loaded = modern_call(1, &load);
    assert!(loaded.to_string().contains("Do it."), "{loaded}");
    let asked = modern_call(2, &write);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let notes = || fs::read_to_string(home.path().join("notes.md")).unwrap();
    assert_eq!(notes(), "remember the milk\n");
    // A session of its own has them.
    let session = serving.hello(json!({}));
    let of = [
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let call = |id: u64, params: &Value| {
        let message = message(id, "tools/call", params.clone());
        serving.post(&of, &message).message(id)
    };
    let loaded = call(3, &load);
    assert!(loaded.to_string().contains("Do it."), "{loaded}");
    let written = call(4, &write);
    assert_eq!(written["result"]["isError"], false, "{written}");
    assert_eq!(notes(), "x");
}
