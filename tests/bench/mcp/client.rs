//! A minimal client that writes and reads lines, over any pair of streams.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream, Lines,
};
use tokio::process::{Child, Command};

/// A client after the handshake.
pub struct Client {
    to: Box<dyn AsyncWrite + Unpin>,
    from: Lines<BufReader<Box<dyn AsyncRead + Unpin>>>,
    /// The server, if it is a process. It ends with its client.
    _server: Option<Child>,
}

impl Client {
    /// Creates a client of a server in this process.
    pub async fn of(stream: DuplexStream) -> Self {
        let (from, to) = tokio::io::split(stream);
        Self::begun(Box::new(from), Box::new(to), None).await
    }

    /// Starts a server and creates its client.
    pub async fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let (to, from) = (server.stdin.take(), server.stdout.take());
        Self::begun(Box::new(from.unwrap()), Box::new(to.unwrap()), Some(server)).await
    }

    async fn begun(
        from: Box<dyn AsyncRead + Unpin>,
        to: Box<dyn AsyncWrite + Unpin>,
        server: Option<Child>,
    ) -> Self {
        let mut client = Self {
            to,
            from: BufReader::new(from).lines(),
            _server: server,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}});
        client.request("initialize", hello).await;
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.say(&begun).await;
        client
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.to.write_all(line.as_bytes()).await.unwrap();
        self.to.flush().await.unwrap();
    }

    /// Sends a request and returns the line with the response, which must be a result.
    pub async fn request(&mut self, method: &str, params: Value) -> String {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.say(&request).await;
        loop {
            let line = self.from.next_line().await.unwrap().unwrap();
            // A server may send a notification that its list has changed.
            if line.contains("\"result\"") {
                return line;
            }
            assert!(line.contains("notifications/"), "{line}");
        }
    }

    /// Calls `tool`, which echoes its arguments.
    pub async fn echo(&mut self, tool: &str, part: &str) {
        let params = json!({"name": tool, "arguments": {"text": part}});
        let answer = self.request("tools/call", params).await;
        assert!(
            answer.contains(part) && !answer.contains("\"isError\":true"),
            "{answer}"
        );
    }
}
