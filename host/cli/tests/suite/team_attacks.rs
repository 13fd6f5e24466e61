//! Attacks of a member on the team that binds them, and of a source on a member who joins.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::kit::team::{TOOL, Team};
use crate::kit::{config, mimir, run};

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    fs::write(home.path().join("notes.txt"), "notes").unwrap();
    home
}

fn json(home: &Path, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(home, &[args, &["--json"]].concat());
    let parsed = serde_json::from_str(&out);
    (
        code,
        parsed.unwrap_or_else(|_| panic!("{args:?}: {out}{err}")),
    )
}

/// Runs a command under an administrator's policy file.
fn under(policy: &Path, home: &Path, args: &[&str]) -> (i32, String) {
    let mut command = mimir(home, args);
    let output = command.env("MIMIR_TEAM_POLICY", policy).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text)
}

#[test]
fn team_of_a_user_is_not_joined_beside_a_required_one() {
    let home = workspace();
    let mut required = Team::new("enforcement: {allowTools: ['source:teams']}\n");
    required.publish();
    let policy = required.folder().join("policy.yml");
    fs::write(&policy, required.block()).unwrap();
    let mut own = Team::new("").with_tool(false);
    own.bundle.team.org_id = "own".to_owned();
    own.publish();
    let (folder, key) = (own.folder().display().to_string(), own.key_file());
    let join = ["team", "join", &folder, "--key", &key, "--yes"];
    let (code, text) = under(&policy, home.path(), &join);
    assert!(
        code == 3 && text.contains("no other team can be joined beside it"),
        "{text}"
    );
    // A membership from before does not count either: its tool is not `source:teams`.
    own.join(home.path());
    let call = ["call", TOOL, "mode=glob", "query=*.txt"];
    assert_eq!(run(home.path(), &call).0, 0);
    let (code, text) = under(&policy, home.path(), &call);
    assert!(code != 0, "the user's own team supplied a tool: {text}");
    let (_, text) = under(&policy, home.path(), &["team", "status"]);
    assert!(
        text.contains("your membership in the team `own` (") && text.contains(") is ignored"),
        "{text}"
    );
}

#[test]
fn team_keys_that_change_in_the_settings_do_not_lift_a_revocation() {
    let home = workspace();
    let mut team = Team::new("");
    team.publish();
    let first = team.signed();
    team.join(home.path());
    let new = Team::new("").key;
    team.bundle.keys = vec![new.verifying_key().to_pem()];
    team.bundle.revoked_keys = vec![team.key.verifying_key().id()];
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    // The attacker has the revoked key, and the user adds another key to the settings.
    let own = config(home.path()).join("config.yml");
    let both = team.block();
    let extra = new.verifying_key().to_pem().replace('\n', "\n      ");
    fs::write(&own, format!("{both}    - |\n      {}\n", extra.trim_end())).unwrap();
    team.bundle.revoked_keys.clear();
    team.publish();
    let (code, refused) = json(home.path(), &["team", "sync"]);
    assert!(
        code == 3 && refused.to_string().contains("revoked"),
        "{refused}"
    );
    // Nor is the first bundle accepted again.
    fs::write(team.folder().join("team.json"), first).unwrap();
    assert_eq!(json(home.path(), &["team", "sync"]).0, 3);
    // The announced key signs the next one.
    team.key = new;
    team.publish();
    let (code, synced) = json(home.path(), &["team", "sync"]);
    assert_eq!(code, 0, "{synced}");
}

#[test]
fn team_without_its_record_keeps_versions_of_the_stored_bundle() {
    let home = workspace();
    let mut team = Team::new("");
    team.publish();
    let first = team.signed();
    team.publish();
    team.join(home.path());
    fs::remove_file(config(home.path()).join("teams/acme.record.json")).unwrap();
    fs::write(team.folder().join("team.json"), first).unwrap();
    let (code, refused) = json(home.path(), &["team", "sync"]);
    assert!(
        code == 3
            && refused
                .to_string()
                .contains("an older bundle is not accepted"),
        "{refused}"
    );
    let log = run(home.path(), &["audit", "show"]).1;
    assert!(log.contains("versions before 2"), "{log}");
}

#[test]
fn team_join_that_fails_leaves_nothing_and_says_nothing_of_a_record() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    let component = team.component();
    let good = fs::read(&component).unwrap();
    fs::write(&component, "changed").unwrap();
    let (folder, key) = (team.folder().display().to_string(), team.key_file());
    let join = ["team", "join", &folder, "--key", &key, "--yes"];
    assert_ne!(run(home.path(), &join).0, 0);
    assert!(!config(home.path()).join("teams/acme").exists());
    fs::write(&component, good).unwrap();
    let (code, _, err) = run(home.path(), &join);
    assert_eq!(code, 0, "{err}");
    assert!(!err.contains("record"), "{err}");
}
