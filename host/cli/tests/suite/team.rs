//! A team's policy file, which takes precedence over the user's and the project's.

use crate::kit;
use std::fs;
use std::path::PathBuf;

use crate::kit::{mimir, run};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with notes, and a team's policy file next to it.
struct TeamFixture {
    home: TempDir,
    beside: TempDir,
}

impl TeamFixture {
    fn new(team: &str) -> Self {
        let fixture = Self {
            home: tempfile::tempdir().unwrap(),
            beside: tempfile::tempdir().unwrap(),
        };
        fs::write(fixture.home.path().join("notes.txt"), "notes").unwrap();
        fs::write(fixture.team(), team).unwrap();
        fixture
    }

    fn team(&self) -> PathBuf {
        self.beside.path().join("team.yml")
    }

    fn user(self, config: &str) -> Self {
        let folder = kit::config(self.home.path());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.yml"), config).unwrap();
        self
    }

    fn project(self, config: &str) -> Self {
        fs::create_dir_all(self.home.path().join(".mimir")).unwrap();
        fs::write(self.home.path().join(".mimir/config.yml"), config).unwrap();
        self
    }

    /// Exit code, JSON on stdout, and stderr.
    fn run(&self, args: &[&str]) -> (i32, Value, String) {
        self.run_under(&self.team(), args)
    }

    fn run_under(&self, team: &std::path::Path, args: &[&str]) -> (i32, Value, String) {
        let mut command = mimir(self.home.path(), args);
        let output = command
            .env("MIMIR_TEAM_POLICY", team)
            .arg("--json")
            .output();
        let output = output.unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        (
            output.status.code().unwrap(),
            serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}")),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

const READ: [&str; 3] = ["call", "read_file", "path=notes.txt"];

#[test]
fn team_deny_overrides_user_project_and_approval() {
    let fixture = TeamFixture::new("# ours\ntools:\n  read_file:\n    approval: deny\n")
        .user("tools: {read_file: {approval: allow}}\n")
        .project("policy: {rules: [{tools: [read_file], decision: allow}]}\n");
    let (code, _, err) = run(fixture.home.path(), &["policy", "accept", "--yes"]);
    assert_eq!(code, 0, "{err}");
    let (code, outcome, _) =
        fixture.run(&["call", "read_file", "path=notes.txt", "--approve", "always"]);
    assert_eq!(
        (code, &outcome["error"]["code"]),
        (3, &"POLICY_DENIED".into())
    );
    let (_, explained, _) = fixture.run(&["policy", "explain", "read_file", "path=notes.txt"]);
    let reasons = explained["reasons"].as_array().unwrap();
    let team = reasons
        .iter()
        .find(|reason| reason["layer"] == "team-policy");
    let source = team.unwrap()["source"].as_str().unwrap();
    assert!(source.ends_with("team.yml:4"), "{source}");
    assert_eq!(explained["decision"], "deny");
}

#[test]
fn team_limits_cap_the_timeout_option() {
    let call = |team: &str| {
        let user = "limits: {timeMs: 60000}\ntools: {file_search: {approval: allow}}\n";
        let fixture = TeamFixture::new(team).user(user);
        // No scan of that finishes within a millisecond.
        fs::write(
            fixture.home.path().join("long.txt"),
            "a line of text\n".repeat(1 << 20),
        )
        .unwrap();
        let search = ["call", "file_search", "mode=regex", "query=x+y"];
        let (code, outcome, _) = fixture.run(&[&search[..], &["--timeout", "50s"]].concat());
        (code, outcome["error"]["code"].clone())
    };
    assert_eq!(call("").0, 0);
    for team in [
        "limits: {timeMs: 1}\n",
        "tools: {file_search: {limits: {timeMs: 1}}}\n",
        "tools: {maxExecutionTime: 1}\n",
    ] {
        assert_eq!(call(team), (4, "TIMEOUT".into()), "{team}");
    }
    let fuel = "tools: {file_search: {limits: {fuel: 1000}}}\n";
    assert_eq!(call(fuel), (4, "LIMIT_EXCEEDED".into()));
}

#[test]
fn team_file_broken_or_missing_stops_policy_commands() {
    for (team, wanted) in [
        (
            Some("profile: fine\npolcy: {}\n"),
            "team.yml:2:1: unknown key `polcy`",
        ),
        (
            Some(
                "policy:\n  rules:\n    - when: {path: {glob: 'a'}}\n      decision: deny\n      match: [{path: b}]\n",
            ),
            "team.yml:",
        ),
        (
            None,
            "MIMIR_TEAM_POLICY names this file and it is not there",
        ),
    ] {
        let fixture = TeamFixture::new(team.unwrap_or_default());
        if team.is_none() {
            fs::remove_file(fixture.team()).unwrap();
        }
        for args in [
            &READ[..],
            &["tools", "list"],
            &["policy", "explain", "read_file", "path=notes.txt"],
            &["policy", "check"],
            &["policy", "accept", "--yes"],
        ] {
            let (code, output, _) = fixture.run(args);
            let message = output["error"]["message"].as_str().unwrap();
            assert!(code != 0 && message.contains(wanted), "{args:?}: {message}");
        }
        let (code, output, _) = fixture.run(&["doctor"]);
        let findings = output["findings"].as_array().unwrap();
        let config = findings.iter().find(|it| it["name"] == "config").unwrap();
        assert_eq!((code, &config["health"]), (1, &"bad".into()));
        assert!(
            config["text"].as_str().unwrap().contains(wanted),
            "{config}"
        );
    }
}

#[test]
fn team_policy_is_shown_by_policy_check_and_doctor() {
    let fixture = TeamFixture::new(
        "policy:\n  deny: [no_such_tool]\n  rules:\n    - tools: [read_file]\n      when: {path: {glob: 'secret*'}}\n      decision: deny\n      match: [{path: secret1}]\n      noMatch: [{path: notes.txt}]\n",
    );
    let (code, output, err) = fixture.run(&["policy", "check"]);
    assert_eq!((code, &output["examples"]), (0, &2.into()));
    assert!(output["files"][0].as_str().unwrap().ends_with("team.yml"));
    assert!(
        output["warnings"][0]
            .as_str()
            .unwrap()
            .contains("no_such_tool"),
        "{output}"
    );
    // A team's file is for many machines, so naming a tool that is missing on this one is not an error.
    assert_eq!(err, "");
    let (_, output, _) = fixture.run(&["doctor"]);
    let findings = output["findings"].as_array().unwrap();
    let team = findings
        .iter()
        .find(|it| it["name"] == "team policy")
        .unwrap();
    let text = team["text"].as_str().unwrap();
    assert!(
        text.contains("team.yml, above all other settings"),
        "{text}"
    );
}

#[test]
fn team_file_inside_the_workspace_is_refused() {
    let fixture = TeamFixture::new("");
    let inside = fixture.home.path().join("team.yml");
    fs::write(&inside, "tools: {read_file: {approval: allow}}\n").unwrap();
    let (code, output, _) = fixture.run_under(&inside, &READ);
    let message = output["error"]["message"].as_str().unwrap();
    assert!(
        code == 2 && message.contains("which tools must not reach"),
        "{message}"
    );
}
