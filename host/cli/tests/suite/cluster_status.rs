//! The state of a cluster's processes: `mimir cluster status`, `mimir worker --http-status`, and `mimir cluster setup` before
//! the servers have started.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use mimir_kit::NatsServer;
use serde_json::Value;

use crate::kit::{eventually, mimir, run};
use crate::serve_http::Serving;

/// A worker that serves its state.
struct StatusWorker {
    child: Child,
    address: String,
}

impl StatusWorker {
    fn start(home: &Path, url: &str, workspace: &str) -> Self {
        let arguments = [
            "worker",
            "-C",
            workspace,
            "--nats",
            url,
            "--workspace-name",
            "main",
            "--http-status",
            "127.0.0.1:0",
        ];
        let mut command = mimir(home, &arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "ended: {said}");
            if let Some((_, rest)) = line.split_once("the state of the worker is at http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
            said.push_str(&line);
        };
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self { child, address }
    }

    fn get(&self, path: &str, host: &str) -> String {
        let mut response = String::new();
        let Ok(mut stream) = TcpStream::connect(&self.address) else {
            return response;
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut response);
        response
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz", &self.address).contains(" 200 ")
    }
}

impl Drop for StatusWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn home_in(folder: &tempfile::TempDir, process: &str) -> PathBuf {
    let unique = folder.path().file_name().unwrap().display();
    let home = folder.path().join(format!("{unique}-{process}"));
    fs::create_dir_all(home.join(".mimir")).unwrap();
    home
}

fn status(home: &Path, url: &str) -> Value {
    let (code, out, error) = run(home, &["cluster", "status", "--nats", url, "--json"]);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
#[ignore = "needs nats-server"]
fn approvals_of_a_cluster_are_shown_in_any_folder() {
    let nats = NatsServer::start();
    let home = tempfile::tempdir().unwrap();
    let (code, out, error) =
        crate::kit::run(home.path(), &["cluster", "setup", "--nats", &nats.url()]);
    assert!(
        code == 0 && error.contains("created (new, empty), 0 existed"),
        "{out}{error}"
    );
    // Such a folder cannot be a workspace.
    let settings = home.path().join("settings");
    fs::create_dir_all(&settings).unwrap();
    let run = |args: &[&str]| {
        let mut command = mimir(home.path(), args);
        command.env("MIMIR_CONFIG_DIR", &settings);
        let output = command.env("MIMIR_NATS", nats.url()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    for arguments in [
        &["approvals", "pending", "--json"][..],
        &["approvals", "list", "--workspace-name", "main"],
    ] {
        let (code, error) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {error}");
    }
    let (code, error) = run(&["approvals", "answer", "0123", "once", "--yes"]);
    assert!(
        code == Some(1) && error.contains("no question with an id"),
        "{error}"
    );
    let (code, error) = run(&["approvals", "list"]);
    assert!(
        code != Some(0) && error.contains("--workspace-name"),
        "{error}"
    );
}

#[test]
#[ignore = "needs nats-server"]
fn cluster_status_and_workers_show_whether_calls_are_taken() {
    let mut nats = NatsServer::start();
    let url = nats.url();
    let folder = tempfile::tempdir().unwrap();
    let (front_home, home) = (home_in(&folder, "front"), home_in(&folder, "admin"));
    let files = folder.path().join("files");
    fs::create_dir_all(files.join(".mimir")).unwrap();
    let front = Serving::start(
        &front_home,
        &["--nats", &url, "--pool", "--workspace-name", "main"],
    );
    let not_ready = || {
        let status = status(&home, &url);
        let node = &status["nodes"][0];
        node["notReady"] == serde_json::json!(["no worker is running"])
    };
    eventually("the server without workers is not ready", not_ready);
    let (_, out, _) = run(&home, &["cluster", "status", "--nats", &url]);
    assert!(out.contains("is not ready: no worker is running"), "{out}");

    let worker_home = home_in(&folder, "worker");
    let worker = StatusWorker::start(&worker_home, &url, files.to_str().unwrap());
    let address = worker.address.clone();
    assert!(worker.get("/healthz", &address).contains(" 200 "));
    eventually("the worker is ready", || worker.is_ready());
    eventually("the server is ready", || {
        front.get("/readyz").contains(" 200 ")
    });
    eventually("all nodes are shown as ready", || {
        let (_, out, _) = run(&home, &["cluster", "status", "--nats", &url]);
        let ready = out.lines().filter(|line| line.ends_with("  ready"));
        ready.count() == 2 && !out.contains("is not ready")
    });
    // An entry that the server gets late looks like a clock that is behind, until the next one.
    eventually("both have the clock of this machine", || {
        let shown = status(&home, &url);
        let nodes = shown["nodes"].as_array().unwrap();
        let mut skews = nodes.iter().map(|node| node["clockSkewMs"].as_i64());
        nodes.len() == 2 && skews.all(|skew| skew.is_some_and(|skew| skew.abs() < 1000))
    });
    let metrics = worker.get("/metrics", &address);
    for name in [
        "mimir_calls_under_way 0",
        "mimir_compilations_total",
        "process_resident",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    assert!(worker.get("/metrics", "evil.example").contains(" 403 "));
    assert!(worker.get("/mcp", &address).contains(" 404 "));

    // Calls are stopped, and allowed again.
    let (code, _, error) = run(&home, &["stop", "--all", "--nats", &url]);
    assert_eq!(code, 0, "{error}");
    let (_, out, _) = run(&home, &["cluster", "status", "--nats", &url]);
    assert!(out.contains("all calls are refused, by"), "{out}");
    assert!(worker.is_ready() && front.get("/readyz").contains(" 200 "));
    let (code, _, error) = run(&home, &["start", "--yes", "--nats", &url]);
    assert_eq!(code, 0, "{error}");
    // The servers are gone, and come back.
    nats.kill();
    eventually("a worker without a cluster is not ready", || {
        worker.get("/readyz", &address).contains(" 503 ")
    });
    assert!(worker.get("/healthz", &address).contains(" 200 "));
    nats.restart();
    eventually("the worker is ready again", || worker.is_ready());
}

#[test]
#[ignore = "needs nats-server"]
fn cluster_setup_waits_for_servers_that_start() {
    let mut nats = NatsServer::start();
    let url = nats.url();
    nats.kill();
    let home = tempfile::tempdir().unwrap();
    let mut command = mimir(home.path(), &["cluster", "setup", "--nats", &url]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("waiting at most 30 s"), "{line}");
    nats.restart();
    let output = child.wait_with_output().unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(output.status.success(), "{rest}");
}
