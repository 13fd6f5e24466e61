//! An agent that has started `mimir serve` and communicates with it line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::mimir;

/// The agent's side. Dropping it stops the server.
pub struct Agent {
    pub child: Child,
    pub to: Option<ChildStdin>,
    from: Receiver<String>,
    next: u64,
    /// Messages that arrived while waiting for another one.
    pub received: Vec<Value>,
}

/// Longer than any successful step; the first call of a tool compiles it.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Agent {
    /// Starts a server in the workspace `home`. Each line on its stdout must be JSON.
    pub fn start(home: &Path) -> Self {
        let mut command = mimir(home, &["serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::attach(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    pub fn attach(mut child: Child) -> Self {
        let (to, from) = (child.stdin.take(), child.stdout.take().unwrap());
        let (received, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if received.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            to,
            from: lines,
            next: 0,
            received: Vec::new(),
        }
    }

    /// Writes a line as it is.
    pub fn line(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{line}").unwrap();
        to.flush().unwrap();
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.line(&request.to_string());
        self.next
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Answers a request of the server.
    pub fn answer(&mut self, request: &Value, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.line(&answer.to_string());
    }

    /// Waits for the next message that matches; earlier ones are stored.
    pub fn wait_for(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.received.iter().position(&matches) {
            return self.received.remove(at);
        }
        let end = Instant::now() + TIMEOUT;
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let line = self.from.recv_timeout(remaining).unwrap();
            let message = serde_json::from_str::<Value>(&line).unwrap();
            if matches(&message) {
                return message;
            }
            self.received.push(message);
        }
    }

    /// Waits for the response to a request.
    pub fn response_to(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for the next message with this method.
    pub fn next_with_method(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    /// Sends a request and returns the whole response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response_to(id)
    }

    /// Calls a tool and returns the result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let mut answer = self.request("tools/call", params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// Performs the initialisation handshake.
    pub fn hello(&mut self, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
        let hello = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        hello
    }

    /// Waits for the server to exit and returns its exit code and stderr.
    pub fn wait_for_exit(&mut self) -> (Option<i32>, String) {
        self.to = None;
        let end = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut output = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut output).unwrap();
        }
        (status.code(), output)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
