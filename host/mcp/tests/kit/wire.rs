//! A client that implements the protocol line by line.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// The client's end of a connection.
pub struct Wire {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next: u64,
    /// Messages received while another one was awaited.
    pub received: Vec<Value>,
}

/// Time limit for everything; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

impl Wire {
    /// Wraps the client's end of a stream.
    pub fn new(stream: DuplexStream) -> Self {
        let (from, to) = tokio::io::split(stream);
        Self {
            to,
            from: BufReader::new(from).lines(),
            next: 0,
            received: Vec::new(),
        }
    }

    /// Writes a line unchanged.
    pub async fn line(&mut self, line: &str) {
        self.part(&format!("{line}\n")).await;
    }

    /// Writes a part of a line.
    pub async fn part(&mut self, part: &str) {
        self.to.write_all(part.as_bytes()).await.unwrap();
    }

    /// Returns the next message of any kind.
    pub async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.from.next_line());
        let line = line.await.unwrap().unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    /// Sends a request, and returns its id.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.line(&request.to_string()).await;
        self.next
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(&request.to_string()).await;
    }

    /// Responds to a request of the server.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.line(&answer.to_string()).await;
    }

    /// Waits for the response to a request; earlier messages are stored.
    pub async fn response_to(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
            .await
    }

    /// Waits for the next message with this method; earlier messages are stored.
    pub async fn next_with_method(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method).await
    }

    async fn wait_for(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.received.iter().position(&matches) {
            return self.received.remove(at);
        }
        loop {
            let message = self.next().await;
            if matches(&message) {
                return message;
            }
            self.received.push(message);
        }
    }

    /// Sends a request, and returns the whole response.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.response_to(id).await
    }

    /// Calls a tool, and returns the result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", params).await["result"].take()
    }

    /// Performs the handshake with this protocol version; returns the server's description.
    pub async fn handshake(&mut self, version: &str, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        let mut handshake = self.request("initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        handshake["result"].take()
    }
}
