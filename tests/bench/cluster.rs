//! A cluster on this machine: nats-server, fronts that take calls over HTTP and workers that run them, compared with
//! servers that run their own calls on the same cores without NATS.
//!
//! `.ci/cluster bench` installs nats-server and runs it. All processes share the cores, also those of the clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::mcp::http::{Connection, MODERN, Server, together};
use crate::mcp::workspace::BenchWorkspace;
use crate::measure::{Budget, Pace, Report, Row};

const NAME: &str = "front, NATS and worker, added to a call";

/// Allowed additions to a call, in seconds: median and 99th percentile.
const ADDED: (f64, f64) = (0.5e-3, 3e-3);

/// Number of fronts, and of workers, of the throughput.
const NODES: usize = 4;

/// Throughput of fronts and workers, relative to the same cores without NATS.
const WANTED: f64 = 0.8;

/// Time for a process to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub fn bench(report: &mut Report) {
    let Some(nats) = NatsServer::start() else {
        return report.skip(
            NAME,
            "nats-server is not installed: run `.ci/cluster bench`",
        );
    };
    latency(report, &nats);
    throughput(report, &nats);
}

/// A call of one client, local and through front, NATS and worker, in turns.
fn latency(report: &mut Report, nats: &NatsServer) {
    let local = BenchNode::server(&["serve", "--http", "127.0.0.1:0"]);
    let _worker = BenchNode::worker(nats);
    let front = BenchNode::front(nats);
    let mut here = local.connection();
    let mut there = front.connection();
    let (mut times, mut local_times) = (Vec::new(), Vec::new());
    let pace = Pace {
        turn: 100,
        samples: 10,
        time: Duration::from_secs(3),
    };
    let timed = |connection: &mut Connection, times: &mut Vec<f64>, count: u64| {
        let start = Instant::now();
        for _ in 0..count {
            let start = Instant::now();
            connection.call();
            times.push(start.elapsed().as_secs_f64());
        }
        start.elapsed()
    };
    let pair = report.pair(
        "cluster latency",
        pace,
        |count| timed(&mut there, &mut times, count),
        |count| timed(&mut here, &mut local_times, count),
    );
    let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let added = pair.ours - pair.reference;
    report.row(Row {
        name: NAME.to_owned(),
        ours: ms(added),
        reference: format!("{} allowed", ms(ADDED.0)),
        ratio: added / ADDED.0,
        budget: Budget::AtMost(1.0),
    });
    let added = percentile(&mut times) - percentile(&mut local_times);
    report.row(Row {
        name: format!("{NAME}, 99th percentile"),
        ours: ms(added),
        reference: format!("{} allowed", ms(ADDED.1)),
        ratio: added / ADDED.1,
        budget: Budget::AtMost(1.0),
    });
}

/// Calls per second of eight clients.
fn throughput(report: &mut Report, nats: &NatsServer) {
    let alone: Vec<_> = (0..NODES)
        .map(|_| BenchNode::server(&["serve", "--http", "127.0.0.1:0"]))
        .collect();
    let _workers: Vec<_> = (0..NODES).map(|_| BenchNode::worker(nats)).collect();
    let fronts: Vec<_> = (0..NODES).map(|_| BenchNode::front(nats)).collect();
    let connections = |nodes: &[BenchNode]| -> Vec<Connection> {
        nodes
            .iter()
            .chain(nodes)
            .map(BenchNode::connection)
            .collect()
    };
    let (mut ours, mut reference) = (connections(&fronts), connections(&alone));
    let pace = Pace {
        turn: 400,
        samples: 10,
        time: Duration::from_secs(5),
    };
    let pair = report.pair(
        "cluster throughput",
        pace,
        |count| together(&mut ours, count),
        |count| together(&mut reference, count),
    );
    report.row(Row {
        name: format!("{NODES} fronts and {NODES} workers on this machine"),
        ours: format!("{:.0} calls/s", 1.0 / pair.ours),
        reference: format!("{:.0} calls/s without NATS", 1.0 / pair.reference),
        ratio: pair.reference / pair.ours,
        budget: Budget::AtLeast(WANTED),
    });
}

fn percentile(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = times.len() * 99 / 100;
    times.get(at).copied().unwrap_or(0.0)
}

/// A process of a cluster with its own workspace.
struct BenchNode {
    server: Option<Server>,
    /// A process without clients.
    worker: Option<Child>,
    _workspace: BenchWorkspace,
}

impl BenchNode {
    fn server(arguments: &[&str]) -> Self {
        let workspace = BenchWorkspace::new();
        Self {
            server: Some(Server::start(workspace.mimir(arguments))),
            worker: None,
            _workspace: workspace,
        }
    }

    fn front(nats: &NatsServer) -> Self {
        let front = Self::server(&[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--nats",
            &nats.url(),
            "--pool",
        ]);
        await_ready(front.server.as_ref().map(Server::address));
        front
    }

    fn worker(nats: &NatsServer) -> Self {
        let workspace = BenchWorkspace::new();
        let mut command = workspace.mimir(&["worker", "--nats", &nats.url()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut worker = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(worker.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("worker ") {
            line.clear();
            assert!(
                output.read_line(&mut line).unwrap() > 0,
                "the worker has ended"
            );
        }
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self {
            server: None,
            worker: Some(worker),
            _workspace: workspace,
        }
    }

    fn connection(&self) -> Connection {
        Connection::new(self.server.as_ref().unwrap().address(), MODERN)
    }
}

impl Drop for BenchNode {
    fn drop(&mut self) {
        if let Some(worker) = &mut self.worker {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// Waits until a front has workers.
fn await_ready(address: Option<SocketAddr>) {
    let address = address.unwrap();
    let start = Instant::now();
    loop {
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if answer.starts_with("HTTP/1.1 200") {
            return;
        }
        assert!(start.elapsed() < START_TIMEOUT, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A NATS server of its own.
struct NatsServer {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl NatsServer {
    /// Starts the server. `None` if it is not installed.
    fn start() -> Option<Self> {
        let program = std::env::var_os("MIMIR_TEST_NATS").unwrap_or_else(|| "nats-server".into());
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let config = folder.path().join("server.conf");
        // Without a stated size, a server on a nearly full disk refuses every message.
        std::fs::write(&config, "jetstream { max_file_store: 10GB }").unwrap();
        let process = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .arg("--config")
            .arg(config)
            .arg("--store_dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                start.elapsed() < START_TIMEOUT,
                "nats-server does not listen"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self {
            process,
            port,
            _folder: folder,
        })
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
