//! `mimir serve --pool` and `mimir worker`: calls in other processes, and what becomes of them when a process ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mimir_kit::NatsServer;
use serde_json::{Value, json};

use crate::kit::{self, eventually, mimir};
use crate::serve_http::{Serving, call_without_session};

#[cfg(target_os = "linux")]
mod agent_stops;
#[cfg(target_os = "linux")]
mod console;
mod published_tools;
#[cfg(target_os = "linux")]
mod server_end;
mod settings;
mod tasks;

/// Time limit of conditions that hold within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings with which commands need no approval.
const SETTINGS: &str = "\
execApprovals: {mode: full}
sandbox: {mode: none}
tools:
  exec: {approval: allow}
  write_file: {approval: allow}
";

/// A cluster in one folder: a NATS server, one workspace of the workers, and one of the server of clients.
struct Deployment {
    nats: NatsServer,
    folder: tempfile::TempDir,
    workers: usize,
}

impl Deployment {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(home_in(&folder, "front").join(".mimir")).unwrap();
        let files = folder.path().join("files");
        fs::create_dir_all(files.join(".mimir")).unwrap();
        fs::write(files.join("notes.md"), "remember the milk\n").unwrap();
        Self {
            nats: NatsServer::start(),
            folder,
            workers: 0,
        }
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    fn effects(&self) -> usize {
        let text = fs::read_to_string(self.files().join("effects"));
        text.map_or(0, |text| text.lines().count())
    }

    /// Starts a server with these settings of its user.
    fn serve(&self, settings: &str) -> Serving {
        self.serve_with(settings, &[])
    }

    /// Starts a server with these settings of its user, and further options.
    fn serve_with(&self, settings: &str, options: &[&str]) -> Serving {
        let home = home_in(&self.folder, "front");
        write_settings(&home, settings);
        let url = self.nats.url();
        let fixed = ["--nats", &url, "--pool", "--workspace-name", "main"];
        let serving = Serving::start(&home, &[&fixed, options].concat());
        eventually("the server is ready", || {
            serving.get("/readyz").contains(" 200 ")
        });
        serving
    }

    /// Starts a worker and waits until it runs calls.
    fn worker(&mut self, options: &[&str]) -> WorkerProcess {
        self.worker_with(SETTINGS, options)
    }

    /// Starts a worker with these settings of its user.
    fn worker_with(&mut self, settings: &str, options: &[&str]) -> WorkerProcess {
        self.workers += 1;
        let home = home_in(&self.folder, &format!("worker{}", self.workers));
        fs::create_dir_all(&home).unwrap();
        write_settings(&home, settings);
        let (url, files) = (self.nats.url(), self.files().display().to_string());
        let fixed = [
            "worker",
            "-C",
            &files,
            "--nats",
            &url,
            "--workspace-name",
            "main",
        ];
        let mut command = mimir(&home, &[&fixed, options].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("calls at a time") {
            let read = stderr.read_line(&mut said).unwrap();
            assert!(read > 0, "the worker has ended: {said}");
        }
        let messages = Arc::new(Mutex::new(said));
        let later = Arc::clone(&messages);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *later.lock().unwrap() += &(line + "\n");
            }
        });
        WorkerProcess(child, messages)
    }
}

/// Returns the home of a process. The name is unique, because the folders with settings have these names.
fn home_in(folder: &tempfile::TempDir, process: &str) -> PathBuf {
    let unique = folder.path().file_name().unwrap().display();
    folder.path().join(format!("{unique}-{process}"))
}

fn write_settings(home: &Path, settings: &str) {
    let config = kit::config(home);
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.yml"), settings).unwrap();
}

/// A worker, and its messages.
struct WorkerProcess(Child, Arc<Mutex<String>>);

impl WorkerProcess {
    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits until the process has ended, and returns its exit code.
    fn wait(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls a tool with the protocol since 2026-07-28.
fn call(serving: &Serving, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let answer = call_without_session(serving, params).message(1);
    // A tool that the server does not offer is a protocol error.
    match answer.get("result") {
        Some(result) => result.clone(),
        None => answer,
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn outcome(result: &Value) -> &Value {
    &result["_meta"]["mimir/outcome"]
}

/// The arguments of a command that leaves a line, waits for the file `go`, and leaves another line.
fn waiting_command() -> Value {
    json!({"command": "echo begun >> effects; while [ ! -e go ]; do sleep 0.05; done; echo ended >> effects"})
}

/// Returns the lines of the audit log about calls of a tool.
fn recorded(deployment: &Deployment, tool: &str) -> Vec<Value> {
    let out = deployment.folder.path().join("export");
    let _ = fs::remove_dir_all(&out);
    let home = home_in(&deployment.folder, "front");
    let url = deployment.nats.url();
    let folder = out.display().to_string();
    let (code, _, said) = kit::run(
        &home,
        &[
            "audit",
            "export",
            "--cluster",
            "--nats",
            &url,
            "--out",
            &folder,
        ],
    );
    assert_eq!(code, 0, "{said}");
    let mut lines = Vec::new();
    let mut folders = vec![out];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap_or_default();
            lines.extend(
                text.lines()
                    .filter_map(|line| serde_json::from_str::<Value>(line).ok()),
            );
        }
    }
    lines.retain(|line| line["event"] == "call" && line["tool"] == tool);
    lines
}

#[test]
#[ignore = "needs nats-server"]
fn pool_runs_calls_in_the_workspace_of_the_worker() {
    let mut deployment = Deployment::start();
    let _worker = deployment.worker(&[]);
    let serving = deployment.serve("");
    assert!(text(&call(&serving, "read_file", json!({"path": "notes.md"}))).contains("the milk"));
    // The rules of the worker apply.
    let refused = call(&serving, "read_file", json!({"path": "../outside"}));
    assert_eq!(outcome(&refused)["code"], "INVALID_PATH", "{refused}");
    let written = call(
        &serving,
        "write_file",
        json!({"path": "new.md", "content": "x"}),
    );
    assert_eq!(written["isError"], false, "{written}");
    assert!(deployment.files().join("new.md").exists());
    // One line each, from the worker.
    assert_eq!(recorded(&deployment, "read_file").len(), 2);
    assert_eq!(recorded(&deployment, "write_file").len(), 1);
}

#[test]
#[ignore = "needs nats-server"]
fn worker_with_the_label_runs_the_routed_tool() {
    let mut deployment = Deployment::start();
    let plain = deployment.worker(&[]);
    let routed = "cluster: {route: [{tools: 'list_*', labels: {disk: fast}}]}\n";
    let serving = deployment.serve(routed);
    let refused = call(&serving, "list_directory", json!({"path": "."}));
    assert_eq!(outcome(&refused)["code"], "UNAVAILABLE", "{refused}");
    assert!(text(&refused).contains("disk=fast"), "{refused}");
    assert_eq!(
        call(&serving, "read_file", json!({"path": "notes.md"}))["isError"],
        false
    );
    let _labeled = deployment.worker(&["--label", "disk=fast"]);
    assert_eq!(
        call(&serving, "list_directory", json!({"path": "."}))["isError"],
        false
    );
    drop(plain);
    assert_eq!(
        call(&serving, "list_directory", json!({"path": "."}))["isError"],
        false
    );
}

#[test]
#[ignore = "needs nats-server"]
fn killed_worker_leaves_one_outcome_and_no_second_run() {
    let mut deployment = Deployment::start();
    let first = deployment.worker(&[]);
    let serving = deployment.serve("");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", waiting_command()));
        eventually("the command runs", || deployment.effects() == 1);
        first.signal("-KILL");
        let lost = calling.join().unwrap();
        assert_eq!(outcome(&lost)["code"], "UNAVAILABLE", "{lost}");
        assert_eq!(outcome(&lost)["details"]["mayHaveRun"], true, "{lost}");
    });
    let _second = deployment.worker(&[]);
    assert_eq!(
        call(&serving, "read_file", json!({"path": "notes.md"}))["isError"],
        false
    );
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["mayHaveRun"], true);
    assert_eq!(
        deployment.effects(),
        1,
        "the command of the killed worker has ended with it"
    );
}

#[test]
#[ignore = "needs nats-server"]
fn paused_worker_neither_repeats_nor_records_its_call() {
    let mut deployment = Deployment::start();
    let first = deployment.worker(&[]);
    let serving = deployment.serve("");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", waiting_command()));
        eventually("the command runs", || deployment.effects() == 1);
        first.signal("-STOP");
        let lost = calling.join().unwrap();
        assert_eq!(outcome(&lost)["details"]["mayHaveRun"], true, "{lost}");
    });
    first.signal("-CONT");
    // The worker stops the call, and returns under another id.
    eventually("the worker runs calls again", || {
        call(&serving, "read_file", json!({"path": "notes.md"}))["isError"] == false
    });
    fs::write(deployment.files().join("go"), "").unwrap();
    let lines = recorded(&deployment, "exec");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["code"], "UNAVAILABLE");
}

#[test]
#[ignore = "needs nats-server"]
fn terminated_worker_finishes_its_call() {
    let mut deployment = Deployment::start();
    let first = deployment.worker(&[]);
    let serving = deployment.serve("");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", waiting_command()));
        eventually("the command runs", || deployment.effects() == 1);
        first.signal("-TERM");
        eventually("the server knows", || {
            serving.get("/readyz").contains(" 503 ")
        });
        fs::write(deployment.files().join("go"), "").unwrap();
        let done = calling.join().unwrap();
        assert_eq!(done["isError"], false, "{done}");
    });
    assert_eq!(first.wait(), Some(0));
    assert_eq!(deployment.effects(), 2);
}

/// Returns the deployment that the only node of a cluster uses.
fn used_deployment(home: &Path, url: &str) -> Option<u64> {
    let (code, out, error) = kit::run(home, &["cluster", "status", "--json", "--nats", url]);
    assert_eq!(code, 0, "{error}");
    let status: Value = serde_json::from_str(&out).unwrap();
    status["nodes"][0]["deployment"]["revision"].as_u64()
}

#[test]
#[ignore = "needs nats-server"]
fn worker_starts_again_to_use_the_first_published_deployment() {
    let mut deployment = Deployment::start();
    let mut worker = deployment.worker(&[]);
    let url = deployment.nats.url();
    let admin = home_in(&deployment.folder, "admin");
    let project = admin.join("project");
    fs::create_dir_all(project.join(".mimir")).unwrap();
    let publish = |settings: &str| {
        fs::write(project.join(".mimir/config.yml"), settings).unwrap();
        let folder = project.display().to_string();
        let fixed = ["cluster", "publish", &folder, "--workspace-name", "main"];
        let options = ["--nats", &url, "--yes", "--json"];
        let (code, out, error) = kit::run(&admin, &[&fixed[..], &options[..]].concat());
        assert_eq!(code, 0, "{out}{error}");
        let published: Value = serde_json::from_str(&out).unwrap();
        published["revision"].as_u64().unwrap()
    };
    for denied in ["write_file", "read_file"] {
        let revision = publish(&format!("tools:\n  {denied}: {{approval: deny}}\n"));
        eventually("the worker uses the deployment", || {
            used_deployment(&admin, &url) == Some(revision)
        });
    }
    let ended = worker.0.try_wait().unwrap();
    assert!(
        ended.is_none(),
        "the process has started itself again: {ended:?}"
    );
    let serving = deployment.serve("");
    let refused = call(&serving, "read_file", json!({"path": "notes.md"}));
    let refused = refused.to_string();
    assert!(refused.contains("POLICY_DENIED"), "{refused}");
}
