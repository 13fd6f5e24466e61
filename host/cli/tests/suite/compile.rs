//! Compiling a component is limited in size, time and memory, and ends with the call that needs it.
// The tests look at other processes in /proc, and only Linux limits their memory.
#![cfg(target_os = "linux")]

use crate::kit::functions;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kit::agent::Agent;
use crate::kit::mimir;
use serde_json::{Value, json};

/// A workspace with these settings, a component of this many functions, and its own cache.
struct Fixture {
    home: tempfile::TempDir,
    cache: tempfile::TempDir,
}

impl Fixture {
    fn new(functions: u32) -> Self {
        let fixture = Self {
            home: tempfile::tempdir().unwrap(),
            cache: tempfile::tempdir().unwrap(),
        };
        let tools = fixture.home.path().join(".mimir/tools");
        std::fs::create_dir_all(&tools).unwrap();
        std::fs::write(tools.join("big.wasm"), functions::component(functions)).unwrap();
        fixture
    }

    fn settings(&self, settings: &Value) {
        let path = self.home.path().join(".mimir/config.yml");
        std::fs::write(path, settings.to_string()).unwrap();
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = mimir(self.home.path(), args);
        command.env("MIMIR_CACHE_DIR", self.cache.path());
        command
    }

    /// The outcome of a call.
    fn call(&self) -> Value {
        let output = self.command(&["call", "big", "--json"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Asserts that a call under a limit ends with this code and names the limit, whether it is set for all tools or
    /// for this one. A limit of another tool has no effect.
    fn is_bounded(&self, key: &str, bound: u64, code: &str) {
        let limits = json!({ key: bound });
        for settings in [
            json!({ "limits": limits }),
            json!({"tools": {"big": { "limits": limits }}}),
        ] {
            self.settings(&settings);
            let outcome = self.call();
            assert_eq!(outcome["error"]["code"], code, "{settings}: {outcome:#}");
            let message = outcome["error"]["message"].as_str().unwrap();
            assert!(message.contains(&format!("limits.{key}")), "{message}");
        }
        self.settings(&json!({"tools": {"another_tool": { "limits": limits }}}));
        let outcome = self.call();
        assert_eq!(outcome["structured"]["result"], 7, "{outcome:#}");
    }
}

#[test]
fn compile_time_is_bounded() {
    Fixture::new(20_000).is_bounded("compileTimeMs", 20, "TIMEOUT");
}

#[test]
fn compile_memory_is_bounded() {
    Fixture::new(20_000).is_bounded("compileMemoryMb", 64, "LIMIT_EXCEEDED");
}

#[test]
fn compile_refuses_a_million_functions_before_it_begins() {
    let outcome = Fixture::new(1_000_000).call();
    assert_eq!(outcome["error"]["code"], "LIMIT_EXCEEDED", "{outcome:#}");
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(message.contains("1000000 functions"), "{message}");
}

#[test]
fn compile_process_refuses_invalid_components() {
    let fixture = Fixture::new(1);
    let bytes = invalid_code();
    std::fs::write(fixture.home.path().join(".mimir/tools/big.wasm"), bytes).unwrap();
    let outcome = fixture.call();
    assert_eq!(outcome["error"]["code"], "INVALID_INPUT", "{outcome:#}");
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot be compiled"), "{message}");
}

/// A component that is well-formed but whose code is not valid: the last instruction of its first function has another
/// type.
fn invalid_code() -> Vec<u8> {
    let mut bytes = functions::component(1);
    let multiply = bytes.iter().rposition(|byte| *byte == 0x6c).unwrap();
    // `f32.add` on two integers.
    bytes[multiply] = 0x92;
    bytes
}

/// Child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
        let stat = stat.unwrap_or_default();
        // pid (name) state parent
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
        let mut words = rest.unwrap_or_default().split_whitespace();
        let state = words.next();
        state != Some("Z") && words.next() == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

/// Waits for a condition, for longer than any successful step takes.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn compile_ends_when_its_call_is_cancelled() {
    let fixture = Fixture::new(200_000);
    let mut command = fixture.command(&["serve"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent::attach(command.stderr(Stdio::piped()).spawn().unwrap());
    agent.hello(json!({}));
    let server = agent.child.id();
    let call = agent.send("tools/call", json!({"name": "big", "arguments": {}}));
    until("no compiler was started", || !children(server).is_empty());
    agent.notify("notifications/cancelled", json!({ "requestId": call }));
    until("the compiler goes on", || children(server).is_empty());
    // The server keeps running.
    let listed = agent.request("tools/list", json!({}));
    assert!(listed["result"]["tools"].is_array(), "{listed}");
}

#[test]
fn compile_ends_with_its_host() {
    let fixture = Fixture::new(200_000);
    let mut command = fixture.command(&["call", "big"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut call = command.spawn().unwrap();
    let id = call.id();
    until("no compiler was started", || !children(id).is_empty());
    let compiler = children(id)[0];
    call.kill().unwrap();
    call.wait().unwrap();
    // The orphaned compiler process ends by itself.
    let there = Path::new("/proc").join(compiler.to_string()).join("stat");
    let runs = || {
        let stat = std::fs::read_to_string(&there).unwrap_or_default();
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        state.is_some_and(|rest| !rest.starts_with('Z'))
    };
    until("the compiler outlives its host", || !runs());
}
