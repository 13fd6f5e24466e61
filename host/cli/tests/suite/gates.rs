//! Policy checks in a shell: settings that a project brings along, and refusals because something could not be stored.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kit::{mimir, run};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with this project config, and a file to read.
fn project(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(home.path().join(".mimir/config.yml"), config).unwrap();
    fs::write(home.path().join("a.txt"), "text").unwrap();
    home
}

/// The lines of the audit log with this kind of event.
fn events(home: &Path, kind: &str) -> Vec<Value> {
    let (code, out, err) = run(home, &["audit", "show", "--json"]);
    assert_eq!(code, 0, "{err}");
    let all: Value = serde_json::from_str(&out).unwrap();
    let all = all["events"].as_array().or(all.as_array()).unwrap().clone();
    let found = all.into_iter();
    found.filter(|event| event["event"] == kind).collect()
}

/// Runs a command with this input on stdin.
fn fed(home: &Path, args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = mimir(home, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may refuse before it reads stdin.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

const READ: [&str; 3] = ["call", "read_file", "path=a.txt"];

#[test]
fn policy_deny_checks_unknown_and_invalid_tool_names() {
    let home = project("policy:\n  deny: [raed_file, 'serach_*']\n");
    let (code, _, err) = run(home.path(), &READ);
    assert_eq!(code, 0, "{err}");
    assert_eq!(err.matches("config.yml:2").count(), 2, "{err}");
    assert_eq!(err.matches("Did you mean `read_file`").count(), 1, "{err}");
    let home = project("policy:\n  deny: ['read_*']\n");
    assert_eq!(run(home.path(), &READ).0, 3);
    let home = project("policy:\n  deny:\n    - read_file\n    - delete file\n");
    let (code, _, err) = run(home.path(), &READ);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains(".mimir/config.yml:4: policy.deny[1]"), "{err}");
}

#[test]
fn policy_refuses_regexes_that_are_too_expensive() {
    let rule = |pattern: &str| {
        format!("    - when: {{path: {{regex: '{pattern}'}}}}\n      decision: deny\n")
    };
    for pattern in [r"\w{20}N", r"\w{8}N"] {
        let rules: String = (0..1000)
            .map(|number| rule(&format!("{pattern}{number}")))
            .collect();
        let home = project(&format!("policy:\n  rules:\n{rules}"));
        let start = Instant::now();
        let (code, _, err) = run(home.path(), &["tools", "list"]);
        assert_eq!(code, 2, "{err}");
        assert!(
            err.contains(".mimir/config.yml:") && err.contains("would take more than"),
            "{err}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            start.elapsed()
        );
    }
}

#[test]
#[cfg(unix)]
fn secret_that_cannot_be_read_stops_calls_and_redact() {
    use std::os::unix::fs::PermissionsExt;
    let home = project("");
    let (code, _, err) = fed(
        home.path(),
        &["secrets", "set", "--file", "KEY"],
        "s3cret-value-of-mine",
    );
    assert_eq!(code, 0, "{err}");
    fs::write(home.path().join("a.txt"), "it is s3cret-value-of-mine").unwrap();
    let (code, out, _) = run(home.path(), &READ);
    assert!(code == 0 && out.contains("[REDACTED:secret:KEY]"), "{out}");
    let path = crate::kit::config(home.path()).join("secrets.json");
    let good = fs::read(&path).unwrap();
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let open: &dyn Fn() = &|| set(0o644);
    let damaged: &dyn Fn() = &|| fs::write(&path, "{").unwrap();
    let lost: &dyn Fn() = &|| fs::write(&path, r#"{"secrets": {"KEY": "keyring"}}"#).unwrap();
    for (fault, way_out) in [
        (open, "chmod 600"),
        (damaged, "set the secrets again"),
        (lost, "keyring"),
    ] {
        set(0o600);
        fs::write(&path, &good).unwrap();
        fault();
        for args in [&READ[..], &["policy", "explain", "read_file", "path=a.txt"]] {
            let (code, out, err) = run(home.path(), args);
            assert_ne!(code, 0, "{args:?}");
            assert!(
                !out.contains("s3cret") && !err.contains("s3cret"),
                "{out}{err}"
            );
            assert!(err.contains(way_out), "{err}");
        }
        let (code, out, err) = fed(home.path(), &["redact"], "s3cret-value-of-mine");
        assert_ne!(code, 0);
        assert!(out.is_empty() && err.contains(way_out), "{out}{err}");
    }
    let calls = events(home.path(), "call");
    assert_eq!(calls.last().unwrap()["code"], "UNAVAILABLE", "{calls:?}");
}

#[test]
fn secret_values_that_cannot_be_masked_are_refused() {
    let home = project("");
    let (code, _, err) = fed(home.path(), &["secrets", "set", "--file", "KEY"], "abc");
    assert_eq!(code, 2, "{err}");
    assert!(!err.contains("only as a separate word"), "{err}");
    let (code, _, err) = fed(home.path(), &["secrets", "set", "--file", "KEY"], "abcde");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("only as a separate word"), "{err}");
    // The secret that was passed as an argument is not repeated.
    let (code, out, err) = run(home.path(), &["secrets", "set", "B", "hunter2"]);
    assert_eq!(code, 2);
    assert!(
        !out.contains("hunter2") && !err.contains("hunter2"),
        "{out}{err}"
    );
    assert!(err.contains("stdin"), "{err}");
}

#[test]
fn secret_value_that_is_too_long_is_refused_and_not_cut() {
    let home = project("");
    // If the input were cut, only line breaks would follow the value.
    let value = format!("s3cret-value{}", "\n".repeat((1 << 20) - 11));
    let (code, _, err) = fed(home.path(), &["secrets", "set", "--file", "KEY"], &value);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("longer than 1 MB"), "{err}");
    let value = &value[..1 << 20];
    let (code, _, err) = fed(home.path(), &["secrets", "set", "--file", "KEY"], value);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn policy_accept_shows_rules_with_lines_and_without_escapes() {
    let config = "policy:\n  rules:\n    - tools: [write_file]\n      when: {path: {inside: .}}\n      decision: allow\n      reason: \"fine\\e[2K\"\n    - {tools: [read_file], when: {path: {inside: keys}}, decision: deny, reason: because}\n";
    let home = project(config);
    let (code, _, err) = fed(home.path(), &["policy", "accept"], "");
    assert_ne!(code, 0);
    for shown in [
        "config.yml:3",
        "write_file",
        "inside: .",
        "config.yml:7",
        "because",
    ] {
        assert!(err.contains(shown), "{shown}: {err}");
    }
    assert!(!err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn policy_default_for_custom_tools_waits_for_acceptance() {
    let home = project("");
    let tools = home.path().join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    let tool =
        "name: hi\ndescription: Says hi.\nschema:\n  type: object\nruntime: bash\ncode: echo hi\n";
    fs::write(tools.join("hi.yml"), tool).unwrap();
    let (_, _, err) = run(home.path(), &["tools", "trust", "hi"]);
    let digest = err.split("--digest ").nth(1).unwrap();
    let digest = digest.split('`').next().unwrap();
    let (code, _, err) = run(home.path(), &["tools", "trust", "hi", "--digest", digest]);
    assert_eq!(code, 0, "{err}");
    // The attack: a checkout lets every trusted tool run without a question.
    let config = home.path().join(".mimir/config.yml");
    for word in ["preApproved", "auto"] {
        fs::write(&config, format!("approval: {{default: {word}}}\n")).unwrap();
        let (code, _, err) = run(home.path(), &["call", "hi"]);
        assert!(
            code == 3 && err.contains("approval.default: allow"),
            "{err}"
        );
    }
}

#[test]
fn policy_reasons_are_hidden_from_models_until_accepted() {
    let config =
        "policy:\n  rules:\n    - {tools: [read_file], decision: deny, name: EVIL, reason: EVIL}\n";
    let home = project(config);
    let (code, out, err) = run(home.path(), &[&READ[..], &["--json"]].concat());
    assert_eq!(code, 3);
    assert!(
        !out.contains("EVIL") && out.contains("config.yml:3"),
        "{out}{err}"
    );
    let (_, out, _) = run(
        home.path(),
        &["policy", "explain", "read_file", "path=a.txt"],
    );
    assert!(out.contains("EVIL"), "{out}");
    // A command that adds a server does not accept other changes that were made to the file by hand.
    let add = ["mcp", "add", "plain", "--", "true"];
    let (code, _, err) = run(home.path(), &add);
    assert!(code == 0 && err.contains("mimir policy accept"), "{err}");
    let (_, out, _) = run(home.path(), &[&READ[..], &["--json"]].concat());
    assert!(!out.contains("EVIL"), "{out}");
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    let (_, out, _) = run(home.path(), &[&READ[..], &["--json"]].concat());
    assert!(out.contains("EVIL"), "{out}");
}

#[test]
fn audit_records_config_changes_once() {
    let home = project("limits: {timeMs: 5000}\n");
    let config: PathBuf = home.path().join(".mimir/config.yml");
    for _ in 0..2 {
        assert_eq!(run(home.path(), &READ).0, 0);
    }
    assert!(events(home.path(), "config-change").is_empty());
    fs::write(&config, "limits: {timeMs: 4000}\n").unwrap();
    for _ in 0..2 {
        assert_eq!(run(home.path(), &READ).0, 0);
    }
    fs::remove_file(&config).unwrap();
    assert_eq!(run(home.path(), &READ).0, 0);
    let found = events(home.path(), "config-change");
    assert_eq!(found.len(), 2, "{found:?}");
    for event in &found {
        assert!(
            event["subject"].as_str().unwrap().contains("config.yml"),
            "{event}"
        );
    }
    // The person's acceptance is logged.
    fs::write(&config, "limits: {timeMs: 3000}\n").unwrap();
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    assert_eq!(run(home.path(), &READ).0, 0);
    assert_eq!(events(home.path(), "config-change").len(), 3);
}

#[test]
fn audit_records_redaction_exceptions_that_were_used() {
    let home = project("tools: {read_file: {redaction: {exceptions: [github-pat]}}}\n");
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    assert_eq!(run(home.path(), &READ).0, 0);
    assert!(events(home.path(), "redaction-exception").is_empty());
    let token = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";
    fs::write(home.path().join("a.txt"), token).unwrap();
    let (_, out, _) = run(home.path(), &READ);
    assert!(out.contains(token), "{out}");
    let found = events(home.path(), "redaction-exception");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["subject"], "github-pat");
    assert_eq!(found[0]["tool"], "read_file");
}

#[test]
fn config_errors_do_not_show_secrets() {
    let token = "ghp_8aZq2WvX7kTyR4nJ6mPcL1sD9fGhB3eU5oKi";
    let config = format!("tools: {{git: {{approval: {token}}}}}\n");
    let rule = format!("policy: {{deny: ['{token}']}}\n");
    for config in [config, rule] {
        let (code, out, err) = run(project(&config).path(), &READ);
        assert_eq!(code, 2, "{err}");
        assert!(!out.contains(token) && !err.contains(token), "{out}{err}");
    }
    let home = project("");
    let (code, _, err) = fed(
        home.path(),
        &["secrets", "set", "--file", "KEY"],
        "my-own-secret-value",
    );
    assert_eq!(code, 0, "{err}");
    let config = "tools: {git: {approval: my-own-secret-value}}\n";
    fs::write(home.path().join(".mimir/config.yml"), config).unwrap();
    let (code, _, err) = run(home.path(), &READ);
    assert_eq!(code, 2);
    assert!(err.contains("[REDACTED:secret:KEY]"), "{err}");
}

#[test]
fn audit_show_tool_filter_accepts_aliases() {
    let home = project("");
    assert_eq!(run(home.path(), &READ).0, 0);
    let (_, by_name, _) = run(
        home.path(),
        &["audit", "show", "--tool", "read_file", "--json"],
    );
    let (_, by_alias, _) = run(home.path(), &["audit", "show", "--tool", "read", "--json"]);
    assert!(by_name.contains("read_file"), "{by_name}");
    assert_eq!(by_name, by_alias);
}
