//! Calls over persistent HTTP connections: the throughput of a server and its clients on the cores that they share.
//! The program as a person starts it is compared with rmcp alone behind the same listener.
//!
//! The clients are threads of this process that write a prepared request and read the response, and they use the same
//! cores. So the throughput is lower than a server alone would have.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bare;
use super::workspace::BenchWorkspace;
use crate::measure::{Budget, Pace, Report, Row};

/// Connections, each with one call at a time.
const CONNECTIONS: u64 = 8;

/// Calls per second, relative to those of rmcp alone.
const WANTED: f64 = 0.4;

/// A protocol version with a handshake and sessions, and one without.
const LEGACY: &str = "2025-11-25";
pub const MODERN: &str = "2026-07-28";

pub fn bench(report: &mut Report) {
    let fixture = BenchWorkspace::new();
    let ours = Server::start(fixture.mimir(&["serve", "--http", "127.0.0.1:0"]));
    let bare = Server::start(bare::command("http").into_std());
    for version in [MODERN, LEGACY] {
        let mut ours = ours.clients(version);
        let mut bare = bare.clients(version);
        let pace = Pace {
            turn: 200,
            samples: 10,
            time: Duration::from_secs(3),
        };
        let pair = report.pair(
            &format!("mcp http {version}"),
            pace,
            |times| together(&mut ours, times),
            |times| together(&mut bare, times),
        );
        let rate = |seconds: f64| format!("{:.0} calls/s", 1.0 / seconds);
        report.row(Row {
            name: format!("calls over HTTP, {CONNECTIONS} connections, {version}"),
            ours: rate(pair.ours),
            reference: format!("{} rmcp alone, saying the same", rate(pair.reference)),
            ratio: pair.reference / pair.ours,
            budget: Budget::AtLeast(WANTED),
        });
    }
}

/// Runs all connections at once, with this many calls in total.
pub fn together(connections: &mut [Connection], times: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (at, connection) in (0..CONNECTIONS).zip(connections) {
            let share = times / CONNECTIONS + u64::from(at < times % CONNECTIONS);
            scope.spawn(move || (0..share).for_each(|_| connection.call()));
        }
    });
    start.elapsed()
}

/// A server in a separate process. Dropping it stops it.
pub struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a server, which prints its address.
    pub fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some((_, fixture)) = line.trim().split_once("http://") {
                break fixture.trim_end_matches("/mcp").parse().unwrap();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self { process, address }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn clients(&self, version: &str) -> Vec<Connection> {
        let of = |_| Connection::new(self.address, version);
        (0..CONNECTIONS).map(of).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A persistent connection, and the call that it repeats.
pub struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects to a server, and makes the first call.
    pub fn new(address: SocketAddr, version: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = Self {
            stream: BufReader::new(stream),
            request: Vec::new(),
            answer: Vec::new(),
        };
        let mut params = json!({"name": "echo", "arguments": {"text": "hello"}});
        let client = json!({"name": "bench", "version": "1"});
        let mut headers = format!("mcp-protocol-version: {version}\r\n");
        if version == MODERN {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": client,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers.push_str("mcp-method: tools/call\r\nmcp-name: echo\r\n");
        } else {
            let hello =
                json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
            let head = connection.ask(&request(address, "", "initialize", hello));
            let session = head
                .lines()
                .find_map(|line| line.strip_prefix("mcp-session-id: "));
            headers.push_str(&format!("mcp-session-id: {}\r\n", session.unwrap()));
        }
        connection.request = request(address, &headers, "tools/call", params);
        connection.call();
        connection
    }

    /// Makes the call.
    pub fn call(&mut self) {
        let request = std::mem::take(&mut self.request);
        let head = self.ask(&request);
        self.request = request;
        let answer = String::from_utf8_lossy(&self.answer);
        assert!(
            head.starts_with("http/1.1 200") && answer.contains("hello"),
            "{head}{answer}"
        );
    }

    /// Sends a request and reads the whole response: returns the head, in lower case, and stores the body.
    fn ask(&mut self, request: &[u8]) -> String {
        self.stream.get_mut().write_all(request).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.stream.read_line(&mut head).unwrap() > 0, "it ended");
        }
        head.make_ascii_lowercase();
        self.answer.clear();
        match head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
        {
            Some(length) => self.read(length.parse().unwrap()),
            None => loop {
                let mut length = String::new();
                self.stream.read_line(&mut length).unwrap();
                let length = usize::from_str_radix(length.trim(), 16).unwrap();
                self.read(length);
                self.stream.read_exact(&mut [0; 2]).unwrap();
                if length == 0 {
                    break;
                }
            },
        }
        head
    }

    fn read(&mut self, length: usize) {
        let before = self.answer.len();
        self.answer.resize(before + length, 0);
        self.stream.read_exact(&mut self.answer[before..]).unwrap();
    }
}

/// A request in wire format.
fn request(address: SocketAddr, headers: &str, method: &str, params: Value) -> Vec<u8> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
