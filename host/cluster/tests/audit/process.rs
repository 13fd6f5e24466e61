//! Nodes that are processes, which are killed and paused.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, event, wait_until};
use crate::nats_server::NatsServer;

/// Environment variable with the address of the server, for the process of a node.
const SERVER_VARIABLE: &str = "MIMIR_TEST_AUDIT_NODE";

/// The process of a node.
struct NodeProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: String,
}

impl NodeProcess {
    fn start(url: &str) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(program)
            .args(["process::run_node", "--exact", "--ignored", "--nocapture"])
            .env(SERVER_VARIABLE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let input = child.stdin.take().expect("stdin is a pipe");
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut process = Self {
            child,
            input,
            output,
            id: String::new(),
        };
        process.id = process.read_answer();
        process
    }

    /// Reads the next line that begins with `> `.
    fn read_answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("readable output");
            assert!(length > 0, "the process has ended");
            // The test harness may have begun the line.
            if let Some((_, answer)) = line.trim_end().split_once("> ") {
                return answer.to_owned();
            }
        }
    }

    fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the process reads");
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.read_answer()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }
}

impl NodeProcess {
    fn is_stopped(&self) -> bool {
        is_stopped(self.child.id())
    }
}

/// Returns true if a process is paused: a signal takes effect some time after it was sent.
pub fn is_stopped(process: u32) -> bool {
    let id = process.to_string();
    let output = Command::new("ps")
        .args(["-o", "state=", "-p", &id])
        .output();
    output
        .expect("ps runs")
        .stdout
        .trim_ascii()
        .starts_with(b"T")
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a node that follows the commands of a test. Without the environment variable, it does nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by other tests"]
async fn run_node() {
    let Ok(url) = std::env::var(SERVER_VARIABLE) else {
        return;
    };
    let node = TestNode::start(&url).await;
    println!("> {}", node.node.id());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (command, id) = line.split_once(' ').unwrap();
        let result = match command {
            "announce" => node.sink.announce(&event(id)).await,
            "record" => node.sink.record(&event(id)),
            _ => return,
        };
        let result = match result {
            Ok(()) => "ok".to_owned(),
            Err(error) if error.is_taken_over() => "taken over".to_owned(),
            Err(error) => error.to_string(),
        };
        println!("> {result}; {}", node.node.id());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn killed_process_is_closed_once_by_other_nodes() {
    let server = NatsServer::start();
    let nodes = [
        TestNode::start(&server.url()).await,
        TestNode::start(&server.url()).await,
        TestNode::start(&server.url()).await,
    ];
    let mut process = NodeProcess::start(&server.url());
    let id = process.id.clone();
    for call in ["c1", "c2", "c3"] {
        assert!(process.ask(&format!("announce {call}")).starts_with("ok"));
    }
    assert!(process.ask("record c2").starts_with("ok"));
    process.signal("-KILL");
    for call in ["c1", "c3"] {
        let found = nodes[0].wait_for_outcome(&id, call).await;
        assert!(found.outcome.unwrap().may_have_run);
    }
    assert!(nodes[0].find(&id, "c2").await.outcome.unwrap().ok);
    let report = nodes[1].verify().await;
    assert!(report.ok, "{report:?}");
    assert_eq!((report.announced_calls, report.running_calls), (3, 0));
    assert_eq!((report.lines, report.closed_writers), (8, 1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn paused_process_is_fenced_when_it_goes_on() {
    let server = NatsServer::start();
    let other = TestNode::start(&server.url()).await;
    let mut process = NodeProcess::start(&server.url());
    let id = process.id.clone();
    assert!(process.ask("announce c1").starts_with("ok"));
    process.signal("-STOP");
    wait_until("the process has stopped", || process.is_stopped()).await;
    // In its input while it is paused, as a call that it was about to run.
    process.send("announce c2");
    let found = other.wait_for_outcome(&id, "c1").await;
    assert!(found.outcome.unwrap().may_have_run);
    process.signal("-CONT");
    // The announcement of the old id is refused, or made under the new one; never on the closed chain.
    let announced = process.read_answer();
    assert!(!other.find(&id, "c2").await.announced, "{announced}");
    let recorded = process.ask("record c1");
    assert!(recorded.starts_with("taken over"), "{recorded}");
    let next = process.ask("announce c3");
    let (result, next) = next.split_once("; ").unwrap();
    assert_eq!(result, "ok");
    assert_ne!(next, id);
    assert!(process.ask("record c3").starts_with("ok"));
    wait_until("others see the new id", || {
        other.node.nodes().get(next).is_some()
    })
    .await;
    let report = other.verify().await;
    assert!(report.ok, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn process_killed_while_no_server_runs_is_closed_later() {
    let mut server = NatsServer::start();
    let other = TestNode::start(&server.url()).await;
    let mut process = NodeProcess::start(&server.url());
    let id = process.id.clone();
    assert!(process.ask("announce c1").starts_with("ok"));
    server.kill();
    process.signal("-KILL");
    server.restart();
    let found = other.wait_for_outcome(&id, "c1").await;
    assert!(found.outcome.unwrap().may_have_run);
    other.record("c2").await;
    let report = other.verify().await;
    assert!(report.ok && report.running_calls == 0, "{report:?}");
}
