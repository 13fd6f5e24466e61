//! `mimir audit` and the keys of `audit`, in a shell.

use crate::kit;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

#[cfg(unix)]
use crate::kit::agent::Agent;
use crate::kit::{mimir, run};
use serde_json::Value;
use tempfile::TempDir;

fn home(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    // A project's audit settings have no effect on their own.
    let own = kit::config(home.path());
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.yml"), config).unwrap();
    home
}

fn log(home: &Path) -> PathBuf {
    home.join(".mimir/state/audit.jsonl")
}

/// Calls that each leave a line: of a missing tool, and of one that a rule denies.
fn calls(home: &Path, count: usize) {
    for _ in 0..count {
        run(home, &["call", "no_such_tool", "secretive=words"]);
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
#[cfg(unix)]
fn audit_names_the_client_of_a_call_and_the_host_of_a_refused_one() {
    let home = home("");
    let mut agent = Agent::start(home.path());
    agent.hello(serde_json::json!({}));
    agent.call("list_directory", serde_json::json!({"path": "."}));
    let url = "http://10.1.2.3/path?token=abc";
    agent.call("web_fetch", serde_json::json!({"url": url}));
    drop(agent);
    calls(home.path(), 1);
    let show = |client: &str| {
        let args = [
            "audit", "show", "--client", client, "--event", "call", "--json",
        ];
        let (code, out, err) = run(home.path(), &args);
        assert_eq!(code, 0, "{err}");
        json(&out)["events"].as_array().unwrap().clone()
    };
    let events = show("TEST 1");
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|event| event["client"] == "test 1"));
    assert_eq!(events[1]["decision"], "deny", "{events:?}");
    assert_eq!(events[1]["subject"], "GET http://10.1.2.3", "{events:?}");
    assert!(show("other").is_empty());
    let (code, out, _) = run(home.path(), &["audit", "show", "--client", "test"]);
    assert_eq!(code, 0);
    assert!(out.contains("(from test 1)"), "{out}");
    assert_eq!(run(home.path(), &["audit", "verify"]).0, 0);
}

#[test]
fn audit_verify_names_changed_lines_and_exits_1() {
    let home = home("");
    let (code, out, _) = run(home.path(), &["audit", "verify"]);
    assert_eq!((code, out.as_str()), (0, "The log is empty.\n"));
    calls(home.path(), 3);
    let (code, out, _) = run(home.path(), &["audit", "verify", "--json"]);
    let report = json(&out);
    assert_eq!(code, 0);
    assert_eq!((&report["ok"], &report["lines"]), (&true.into(), &3.into()));
    let head = report["head"]["hash"].as_str().unwrap().to_owned();
    let (code, out, _) = run(home.path(), &["audit", "verify", "--head", &head[..20]]);
    assert_eq!(code, 0);
    assert!(
        out.contains("belongs to line 3") && out.contains(&head),
        "{out}"
    );
    let (code, out, _) = run(home.path(), &["audit", "verify", "--head", &"0".repeat(64)]);
    assert_eq!(code, 1);
    assert!(out.contains("not-noted"), "{out}");
    let (code, _, _) = run(home.path(), &["audit", "verify", "--head", "short"]);
    assert_eq!(code, 2);
    let text = fs::read_to_string(log(home.path())).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] = lines[1].replace("no_such_tool", "harmless\\u001b[31m");
    fs::write(log(home.path()), lines.join("\n") + "\n").unwrap();
    let (code, out, _) = run(home.path(), &["audit", "verify"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("changed") && out.contains("audit.jsonl:2 (line 2 of the log)"),
        "{out}"
    );
    let (_, out, _) = run(home.path(), &["audit", "show"]);
    assert!(
        out.contains("harmless") && !out.contains('\u{1b}'),
        "{out:?}"
    );
}

#[test]
fn audit_show_filters_events() {
    let home = home("tools: {delete_file: {approval: deny}, file_info: {approval: ask}}\n");
    calls(home.path(), 1);
    run(home.path(), &["call", "delete_file", "path=x"]);
    run(home.path(), &["call", "file_info", "path=."]);
    run(home.path(), &["call", "list_directory", "path=."]);
    let show = |args: &[&str]| {
        let args: Vec<_> = ["audit", "show", "--json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let (code, out, err) = run(home.path(), &args);
        assert_eq!((code, err.as_str()), (0, ""));
        let events = json(&out)["events"].as_array().unwrap().clone();
        let tools = events
            .iter()
            .map(|event| event["tool"].as_str().unwrap().to_owned());
        tools.collect::<Vec<_>>()
    };
    let all = ["no_such_tool", "delete_file", "file_info", "list_directory"];
    assert_eq!(show(&[]), all);
    assert_eq!(show(&["--tool", "delete_file"]), ["delete_file"]);
    assert_eq!(show(&["--decision", "deny"]), ["delete_file"]);
    assert_eq!(show(&["--decision", "allow"]), ["list_directory"]);
    // A call that nobody approved was refused, too, although no rule denies it.
    let refused = ["delete_file", "file_info"];
    assert_eq!(show(&["--outcome", "refused"]), refused);
    assert_eq!(
        show(&["--outcome", "refused", "--decision", "ask"]),
        ["file_info"]
    );
    let several = show(&["--outcome", "failed", "--outcome", "ok"]);
    assert_eq!(several, ["no_such_tool", "list_directory"]);
    assert_eq!(show(&["--outcome", "stopped"]), [""; 0]);
    assert_eq!(show(&["--event", "grant"]), [""; 0]);
    assert_eq!(show(&["--since", "1h"]), all);
    assert_eq!(show(&["--since", "2999-01-01"]), [""; 0]);
    let (_, out, _) = run(home.path(), &["audit", "tail", "-n", "2", "--json"]);
    let tools: Vec<_> = out.lines().map(|line| json(line)["tool"].clone()).collect();
    assert_eq!(tools, all[2..]);
    let (_, out, _) = run(home.path(), &["audit", "tail", "-n", "1"]);
    assert!(out.contains("list_directory allow ok"), "{out}");
    for bad in [
        &["--decision", "maybe"],
        &["--outcome", "deny"],
        &["--since", "soon"],
        &["--event", "grants"],
    ] {
        let args: Vec<_> = ["audit", "show"].iter().chain(bad).copied().collect();
        assert_eq!(run(home.path(), &args).0, 2, "{bad:?}");
    }
}

#[test]
fn audit_rotation_and_argument_logging_follow_the_config() {
    let quiet = home("audit: {maxBytes: 4096, keep: 2}\n");
    // A refused call is a line of about 350 bytes.
    calls(quiet.path(), 60);
    let (code, out, _) = run(quiet.path(), &["audit", "verify", "--json"]);
    let report = json(&out);
    assert_eq!((code, &report["files"]), (0, &3.into()));
    assert_eq!(report["findings"][0]["fault"], "dropped");
    let text = fs::read_to_string(log(quiet.path())).unwrap();
    assert!(!text.contains("secretive"), "{text}");
    let open = home("audit: {logArgs: true, durability: fsync}\n");
    let long = format!("long={}", "x".repeat(5000));
    run(
        open.path(),
        &["call", "no_such_tool", "secretive=words", &long],
    );
    let text = fs::read_to_string(log(open.path())).unwrap();
    assert!(
        text.contains(r#""secretive":"words""#) && text.len() < 1500,
        "{text}"
    );
}

/// A run of `tail -f`, with its output.
struct Follow(Child, BufReader<ChildStdout>);

fn follow(home: &Path) -> Follow {
    let mut child = mimir(home, &["audit", "tail", "-n", "1", "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    Follow(child, out)
}

impl Follow {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }
}

/// The exit code of the program, which is killed if it does not end.
#[cfg(unix)]
fn ended(mut child: Child) -> Option<i32> {
    use std::time::{Duration, Instant};
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    None
}

#[test]
fn audit_tail_follows_rotation_and_ends_cleanly() {
    let home = home("audit: {maxBytes: 4096}\n");
    calls(home.path(), 1);
    let mut tail = follow(home.path());
    let mut gone = follow(home.path());
    assert!(tail.line().contains("no_such_tool"));
    assert!(gone.line().contains("no_such_tool"));
    let more = 40;
    calls(home.path(), more);
    let mut rotated = 0;
    let mut calls = 0;
    while calls < more {
        match tail.line() {
            line if line.contains("rotated") => rotated += 1,
            line if line.contains("no_such_tool") => calls += 1,
            line => panic!("{line:?}"),
        }
    }
    assert!(rotated > 1);
    #[cfg(unix)]
    {
        let pid = tail.0.id().to_string();
        let told = std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status();
        assert!(told.unwrap().success());
        assert_eq!(ended(tail.0), Some(0));
        // The program ends although nothing more is written.
        let Follow(child, out) = gone;
        drop(out);
        assert_eq!(ended(child), Some(0));
    }
    // Windows has no signals, and reports a closed pipe only to the next write.
    #[cfg(not(unix))]
    for Follow(mut child, _) in [tail, gone] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn doctor_warns_if_calls_may_run_without_audit() {
    let strict = home("");
    let (_, out, _) = run(strict.path(), &["doctor"]);
    assert!(out.contains("✓ audit"), "{out}");
    let loose = home("audit: {onFailure: run}\n");
    let (_, out, _) = run(loose.path(), &["doctor"]);
    assert!(
        out.contains("! audit") && out.contains("calls that cannot be recorded still run"),
        "{out}"
    );
}

#[test]
fn audit_verify_keeps_reporting_a_truncated_log() {
    let home = home("");
    calls(home.path(), 6);
    let folder = log(home.path()).parent().unwrap().to_owned();
    let whole = fs::read_to_string(log(home.path())).unwrap();
    let cut: String = whole.split_inclusive('\n').take(3).collect();
    fs::write(log(home.path()), &cut).unwrap();
    fs::remove_file(folder.join("audit.head")).unwrap();
    let verified = || run(home.path(), &["audit", "verify"]);
    let (code, out, _) = verified();
    assert_eq!(code, 1);
    assert!(
        out.contains("headless") && out.contains("forgotten"),
        "{out}"
    );
    // Later calls do not hide it, even if the head is repaired.
    let (_, _, warned) = run(home.path(), &["call", "no_such_tool"]);
    assert!(warned.contains("mimir audit verify"), "{warned}");
    calls(home.path(), 8);
    let (code, out, _) = verified();
    assert_eq!(code, 1);
    assert!(out.contains("audit.jsonl:4 (line 4"), "{out}");
    assert!(out.contains("forgotten"), "{out}");
    // Removing the whole log does not help either.
    fs::remove_dir_all(&folder).unwrap();
    let (code, out, output) = verified();
    assert_eq!(code, 1);
    assert!(out.contains("the log had reached line 6"), "{out}");
    calls(home.path(), 1);
    assert_eq!(verified().0, 1);
    let (_, out, _) = run(home.path(), &["doctor"]);
    assert!(out.contains("the log was replaced"), "{out}");
    // A person who removed it deliberately is told how to go on.
    let place = output.split("remove ").last().unwrap();
    let place = place.trim_end().trim_end_matches(" too");
    fs::remove_file(place).unwrap();
    assert_eq!(verified().0, 0);
    calls(home.path(), 1);
    assert_eq!(verified().0, 0);
}

#[test]
fn audit_head_that_is_behind_the_log_is_updated() {
    let home = home("");
    calls(home.path(), 3);
    let config = kit::config(home.path()).join("workspaces");
    let is_head = |path: &PathBuf| path.extension().is_some_and(|end| end == "head");
    let mut found = fs::read_dir(config).unwrap();
    let head = found.find_map(|file| Some(file.unwrap().path()).filter(is_head));
    let head = head.unwrap();
    let old = fs::read(&head).unwrap();
    calls(home.path(), 3);
    // Simulates that the three processes after it were killed before they could write the head.
    fs::write(&head, &old).unwrap();
    calls(home.path(), 1);
    assert_eq!(run(home.path(), &["audit", "verify"]).0, 0);
    assert!(fs::read_to_string(&head).unwrap().contains("\"seq\":7"));
}
