//! `mimir config`.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod kit;

use std::fs;

use kit::{mimir, run};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn the_schema_is_that_of_the_settings() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["config", "schema"][..], &["config", "schema", "--json"]] {
        let (code, out, err) = run(home.path(), args);
        assert_eq!((code, err.as_str()), (0, ""));
        assert_eq!(json(&out), mimir_core::config::Config::schema());
    }
}

#[test]
fn every_place_is_named_in_its_order_and_whether_it_is_there() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &["init"]);
    let team = tempfile::tempdir().unwrap();
    let team = team.path().join("team.yml");
    let shown = |args: &[&str]| {
        let mut command = mimir(home.path(), args);
        let output = command.env("MIMIR_TEAM_POLICY", &team).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = json(&shown(&["config", "path", "--json"]));
    let files = said["files"].as_array().unwrap();
    let layers: Vec<_> = files
        .iter()
        .map(|file| file["layer"].as_str().unwrap())
        .collect();
    assert!(
        layers.ends_with(&["team", "user", "project"]) && layers.len() > 3,
        "{layers:?}"
    );
    let tail = &files[files.len() - 3..];
    assert_eq!(tail[0]["path"], team.display().to_string());
    let there: Vec<_> = tail.iter().map(|file| file["exists"] == true).collect();
    assert_eq!(there, [false, false, true]);
    let text = shown(&["config", "path"]);
    assert!(text.contains("team.yml (not there)"), "{text}");
    assert!(
        text.lines().last().unwrap().ends_with("config.yml"),
        "{text}"
    );
}

#[test]
fn every_fault_is_named_and_what_does_not_count() {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    let own = home.path().join(".mimir/config.yml");
    let check = || {
        let (code, out, _) = run(home.path(), &["config", "check", "--json"]);
        (code, json(&out))
    };
    assert_eq!(check().0, 0);
    fs::write(user.join("config.yml"), "polcy: {}\n").unwrap();
    fs::write(
        &own,
        "policy:\n  rules: [{decision: ask, when: {path: {regex: '('}}}]\n",
    )
    .unwrap();
    let (code, said) = check();
    let errors = said["errors"].as_array().unwrap();
    assert_eq!((code, errors.len(), &said["ok"]), (2, 2, &false.into()));
    for (error, wanted) in errors.iter().zip(["config.yml:1:1", ".mimir/config.yml:2"]) {
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(wanted), "{message}");
    }
    let (code, out, _) = run(home.path(), &["config", "check"]);
    assert_eq!((code, out.matches("error:").count()), (2, 2), "{out}");
    fs::write(user.join("config.yml"), "").unwrap();
    fs::write(&own, "tools: {read_file: {approval: allow}}\n").unwrap();
    let (code, said) = check();
    assert_eq!((code, &said["ok"]), (0, &true.into()));
    assert_eq!(said["withheld"][0], "tools.read_file.approval: allow");
    run(home.path(), &["policy", "accept", "--yes"]);
    assert!(check().1["withheld"].as_array().unwrap().is_empty());
}
