//! `mimir policy`, the advice in refusals, and a person's secrets, in a shell.

use crate::kit;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::kit::{mimir, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with a file and this project config.
fn workspace(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(home.path().join(".mimir/config.yml"), config).unwrap();
    fs::write(home.path().join("a.txt"), "old").unwrap();
    home
}

/// The outcome as JSON, for success and failure.
fn run_json(home: &Path, args: &[&str]) -> Value {
    let (_, out, err) = run(home, &[args, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
}

const WRITE: &[&str] = &["write_file", "path=a.txt", "content=new"];

fn call(home: &Path) -> Value {
    run_json(home, &[&["call"], WRITE].concat())
}

fn explain(home: &Path) -> Value {
    run_json(home, &[&["policy", "explain"], WRITE].concat())
}

#[test]
fn policy_remedies_name_the_setting_that_blocks_a_call() {
    let rule = "policy:\n  rules:\n    - when: {path: {glob: '*.txt'}}\n      decision: ask\ntools:\n  write_file:\n    approval: ";
    for (config, ways) in [
        (
            "",
            vec!["`mimir config set tools.write_file.approval allow`"],
        ),
        (
            "tools:\n  write_file:\n    approval: allow\n",
            vec![
                "`mimir policy accept` puts `tools.write_file.approval` (.mimir/config.yml:3) in force",
            ],
        ),
        (
            &format!("{rule}ask\n"),
            vec![
                "change or remove `tools.write_file.approval` (.mimir/config.yml:7)",
                "and change or remove `policy.rules[0]` (.mimir/config.yml:3)",
            ],
        ),
    ] {
        let home = workspace(config);
        let outcome = call(home.path());
        assert_eq!(outcome["error"]["code"], "APPROVAL_DENIED", "{outcome}");
        let out: Vec<&str> = outcome["wayOut"]
            .as_array()
            .unwrap()
            .iter()
            .map(|way| way.as_str().unwrap())
            .collect();
        assert!(out[0].contains("--approve always"), "{out:?}");
        // An approval is the alternative to all of these.
        let or = if ways.len() > 1 { "or both" } else { "or" };
        assert_eq!(out[1], format!("{or} {}", ways[0]), "{config}");
        assert_eq!(out[2..], ways[1..], "{config}");
        let model = outcome["error"].to_string();
        for part in ["--approve", "mimir policy", "mimir tools"] {
            assert!(!model.contains(part), "{model}");
        }
        let (_, _, err) = run(home.path(), &[&["call"], WRITE].concat());
        assert!(ways.iter().all(|way| err.contains(way)), "{err}");
        assert_eq!(explain(home.path())["wayOut"], json!(ways));
    }
    let home = workspace("policy:\n  deny:\n    - write_file\n");
    let outcome = call(home.path());
    assert_eq!(outcome["error"]["code"], "POLICY_DENIED");
    assert_eq!(
        outcome["wayOut"],
        json!(["remove it from `policy.deny` (.mimir/config.yml:3)"])
    );
}

#[test]
fn policy_accept_applies_until_the_file_changes() {
    let config = "tools:\n  write_file:\n    approval: allow\n";
    let home = workspace(config);
    let home = home.path();
    assert_eq!(explain(home)["decision"], "ask");
    let (code, _, err) = run(home, &["policy", "accept"]);
    assert_eq!(code, 3, "no person is available to review it");
    assert!(err.contains("tools.write_file.approval"), "{err}");
    assert_eq!(run(home, &["policy", "accept", "--yes"]).0, 0);
    assert_eq!(explain(home)["decision"], "allow");
    assert_eq!(call(home)["ok"], true);
    let more = format!("{config}  delete_file:\n    approval: allow\n");
    fs::write(home.join(".mimir/config.yml"), more).unwrap();
    assert_eq!(
        explain(home)["decision"],
        "ask",
        "another state of the file"
    );
    let check = run_json(home, &["policy", "check"]);
    assert_eq!(check["ok"], true);
    assert_eq!(check["withheld"].as_array().unwrap().len(), 2, "{check}");
}

#[test]
fn policy_check_warns_of_rules_for_unknown_tools() {
    let home = workspace("policy:\n  rules:\n    - {tools: [write_fil], decision: deny}\n");
    let check = run_json(home.path(), &["policy", "check"]);
    let warning = check["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains(".mimir/config.yml:3") && warning.contains("write_file"),
        "{warning}"
    );
}

#[test]
fn secrets_are_stored_listed_masked_and_removed() {
    let home = workspace("");
    let home = home.path();
    let mut child = mimir(home, &["secrets", "set", "HOARD", "--file"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"hoarded-value-1\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let listed = run_json(home, &["secrets", "list"]);
    assert_eq!(listed["secrets"][0]["name"], "HOARD");
    for shown in [
        &output.stdout,
        &output.stderr,
        &listed.to_string().into_bytes(),
    ] {
        assert!(!String::from_utf8_lossy(shown).contains("hoarded-value-1"));
    }
    fs::write(home.join("a.txt"), "it says hoarded-value-1 here").unwrap();
    let (_, out, _) = run(home, &["call", "read_file", "path=a.txt"]);
    assert!(out.contains("[REDACTED:secret:HOARD]"), "{out}");
    assert_eq!(run(home, &["secrets", "remove", "HOARD"]).0, 0);
    assert_eq!(run_json(home, &["secrets", "list"])["secrets"], json!([]));
    let (code, _, err) = run(home, &["secrets", "remove", "HOARD"]);
    assert!(code == 1 && err.contains("mimir secrets list"), "{err}");
    let (_, out, _) = run(home, &["call", "read_file", "path=a.txt"]);
    assert!(out.contains("hoarded-value-1"), "{out}");
}

#[test]
fn policy_explain_predicts_web_fetch_without_sending() {
    let home = workspace("");
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    let site = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    site.set_nonblocking(true).unwrap();
    let port = site.local_addr().unwrap().port();
    let settings = "network: {allowedHosts: ['*.site.example', api.example], hosts: {api.site.example: 127.0.0.1}}\n";
    fs::write(user.join("config.yml"), settings).unwrap();
    let explain = |arguments: Value| {
        let arguments = arguments.to_string();
        run_json(home.path(), &["policy", "explain", "web_fetch", &arguments])
    };
    let fixed = format!("http://API.site.example:{port}/x?y#z");
    let run_json = explain(json!({ "url": fixed }));
    assert_eq!(run_json["decision"], "allow", "{run_json}");
    assert_eq!(
        run_json["network"],
        json!({
            "method": "GET", "url": format!("http://api.site.example:{port}/x?y"), "scheme": "http",
            "host": "api.site.example", "port": port, "pattern": "*.site.example", "addresses": ["127.0.0.1"],
        })
    );
    // The addresses of this name are only in DNS, which is not queried.
    let run_json = explain(json!({"url": "https://api.example/", "method": "DELETE"}));
    assert_eq!(run_json["decision"], "ask", "{run_json}");
    assert_eq!(
        (
            &run_json["network"]["port"],
            &run_json["network"]["addresses"]
        ),
        (&json!(443), &Value::Null)
    );
    let run_json = explain(json!({"url": "https://other.example/"}));
    assert_eq!(run_json["decision"], "ask", "{run_json}");
    assert!(
        run_json["wayOut"].to_string().contains("allowedHosts"),
        "{run_json}"
    );
    for (url, rule) in [
        ("http://169.254.169.254/", "blockMetadataEndpoints"),
        ("http://0x7f.1/", "blockPrivateIPs"),
        ("https://api.example:25/", "blockedPorts"),
    ] {
        let run_json = explain(json!({ "url": url }));
        assert_eq!(run_json["decision"], "deny", "{run_json}");
        assert!(run_json["reasons"].to_string().contains(rule), "{run_json}");
        assert!(
            run_json["wayOut"].to_string().contains("network."),
            "{run_json}"
        );
    }
    let bad = [
        "policy",
        "explain",
        "web_fetch",
        r#"{"url": "ftp://a.example/"}"#,
    ];
    let (code, _, err) = run(home.path(), &bad);
    assert!(
        code == 2 && err.contains("use http or https"),
        "{code} {err}"
    );
    let text = [
        "policy",
        "explain",
        "web_fetch",
        r#"{"url": "https://api.example/"}"#,
    ];
    let (_, out, _) = run(home.path(), &text);
    assert!(out.contains("listed as api.example"), "{out}");
    assert!(
        out.contains("nothing was sent and no DNS query was made"),
        "{out}"
    );
    assert!(site.accept().is_err(), "there was no request");
}
