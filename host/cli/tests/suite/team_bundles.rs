//! Members of a team: its bundle is joined, refreshed and enforced.

use std::fs;
use std::path::Path;

use mimir_testkit::json as value;
use serde_json::Value;
use tempfile::TempDir;

use crate::kit::team::{TOOL, Team};
use crate::kit::{config, mimir, plugin, run};

const CALL: &[&str] = &["call", TOOL, "mode=glob", "query=*.txt"];

/// A workspace with a file and a folder for tools.
pub fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir/tools")).unwrap();
    fs::write(home.path().join("notes.txt"), "notes").unwrap();
    home
}

/// Exit code and JSON of a command.
pub fn json(home: &Path, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = run(home, &[args, &["--json"]].concat());
    let parsed = serde_json::from_str(&out);
    (
        code,
        parsed.unwrap_or_else(|_| panic!("{args:?}: {out}{err}")),
    )
}

fn message(value: &Value) -> &str {
    value["error"]["message"].as_str().unwrap_or_default()
}

/// Writes a file and the folders above it.
pub fn write_config(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes the user's config file after the block that joining wrote.
fn add_to_user_config(home: &Path, text: &str) {
    let path = config(home).join("config.yml");
    let before = fs::read_to_string(&path).unwrap_or_default();
    write_config(&path, &(before + text));
}

#[test]
fn team_join_puts_tools_and_rules_of_the_bundle_in_force() {
    let home = workspace();
    let mut team = Team::new("tools:\n  read_file:\n    approval: deny\n").with_tool(true);
    team.publish();
    let (code, refused) = json(
        home.path(),
        &[
            "team",
            "join",
            &team.folder().display().to_string(),
            "--key",
            &team.key_file(),
        ],
    );
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"APPROVAL_DENIED".into())
    );
    assert_eq!(
        json(home.path(), &["team", "status"]).1["teams"],
        value!([])
    );
    team.join(home.path());
    // Its tool runs with the rights in the bundle.
    let (code, outcome) = json(home.path(), CALL);
    assert_eq!(code, 0, "{outcome}");
    assert!(outcome.to_string().contains("notes.txt"), "{outcome}");
    let (_, listed, _) = run(home.path(), &["tools", "list"]);
    let line = listed.lines().find(|line| line.contains(TOOL)).unwrap();
    assert!(line.contains("[Teams]"), "{line}");
    let (_, info) = json(home.path(), &["tools", "info", TOOL]);
    assert_eq!(info["source"], "teams");
    // Its rules are above those of the user, and reasons name the team.
    add_to_user_config(home.path(), "tools: {read_file: {approval: allow}}\n");
    let (code, refused) = json(home.path(), &["call", "read_file", "path=notes.txt"]);
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"POLICY_DENIED".into())
    );
    let (_, explained) = json(
        home.path(),
        &["policy", "explain", "read_file", "path=notes.txt"],
    );
    let reasons = explained["reasons"].as_array().unwrap();
    let reason = reasons
        .iter()
        .find(|reason| reason["layer"] == "team-policy")
        .unwrap();
    assert_eq!(reason["source"], "team Acme:3");
    let (_, got) = json(home.path(), &["config", "get", "tools.read_file.approval"]);
    assert!(got.to_string().contains("team Acme:3"), "{got}");
    let (_, paths) = json(home.path(), &["config", "path"]);
    assert!(paths.to_string().contains("acme.record.json"), "{paths}");
    let (_, doctor) = json(home.path(), &["doctor"]);
    assert!(
        doctor
            .to_string()
            .contains("team Acme, above all other settings"),
        "{doctor}"
    );
    let (code, status) = json(home.path(), &["team", "status"]);
    let row = &status["teams"][0];
    assert_eq!(
        (code, &row["version"], &row["problem"]),
        (0, &1.into(), &Value::Null)
    );
    assert_eq!(row["signer"], team.key.verifying_key().id());
    // A newer bundle is fetched by hand, and leaving removes everything.
    team.bundle.settings.clear();
    team.publish();
    let (code, synced) = json(home.path(), &["team", "sync"]);
    assert_eq!((code, &synced["teams"][0]["version"]), (0, &2.into()));
    assert_eq!(
        json(home.path(), &["call", "read_file", "path=notes.txt"]).0,
        0
    );
    assert_eq!(run(home.path(), &["team", "leave"]).0, 0);
    assert_eq!(json(home.path(), CALL).0, 2, "the tool is still there");
    let log = run(home.path(), &["audit", "show"]).1;
    for detail in [
        "version 1 of the bundle is in force",
        "joined by hand",
        "left by hand",
    ] {
        assert!(log.contains(detail), "{detail}: {log}");
    }
}

#[test]
fn team_tool_that_is_enforced_cannot_be_disabled() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    team.join(home.path());
    let disable = ["tools", "disable", TOOL];
    let (code, _, err) = run(home.path(), &disable);
    assert_eq!(code, 3);
    let wanted = format!("✗ Cannot disable tool: {TOOL} (enforced by enterprise policy)");
    assert!(err.lines().any(|line| line == wanted), "{err}");
    for text in [
        format!("tools: {{{TOOL}: {{enabled: false}}}}\n"),
        format!("policy: {{deny: [{TOOL}]}}\n"),
        "policy: {allow: [read_file]}\n".to_owned(),
        format!("tools: {{{TOOL}: {{approval: deny}}}}\n"),
    ] {
        // In the user's file and in the project's.
        let own = config(home.path()).join("config.yml");
        let before = fs::read_to_string(&own).unwrap();
        add_to_user_config(home.path(), &text);
        let (code, outcome) = json(home.path(), CALL);
        assert_eq!(code, 0, "{text}: {outcome}");
        fs::write(own, before).unwrap();
        let project = home.path().join(".mimir/config.yml");
        write_config(&project, &text);
        let (code, outcome) = json(home.path(), CALL);
        assert_eq!(code, 0, "{text}: {outcome}");
        fs::remove_file(project).unwrap();
    }
    // Without `enforced`, the user may switch it off.
    team.bundle.tools[0].enforced = false;
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    assert_eq!(run(home.path(), &disable).0, 0);
    assert_eq!(json(home.path(), CALL).1["error"]["code"], "POLICY_DENIED");
}

#[test]
fn team_tool_keeps_its_name_against_tools_of_the_project() {
    let home = workspace();
    let mut team = Team::new("").with_tool(false);
    team.publish();
    team.join(home.path());
    // Another build of the same tool, granted by the user.
    let mut local = plugin::search();
    local.extend([0, 3, 1, b'x', b'1']);
    fs::write(home.path().join(".mimir/tools/own.wasm"), local).unwrap();
    let (_, info) = json(home.path(), &["tools", "info", TOOL]);
    assert_eq!(info["source"], "teams", "{info}");
    let (_, listed) = json(home.path(), &["tools", "list"]);
    let quarantined = listed["quarantined"].to_string();
    assert!(
        quarantined.contains("belongs to team:acme/prob.wasm"),
        "{listed}"
    );
}

#[test]
fn team_bundle_that_is_rolled_back_leaves_the_newer_one_in_force() {
    let home = workspace();
    let mut team = Team::new("policy: {deny: [read_file]}\n");
    team.publish();
    let first = team.signed();
    team.join(home.path());
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    // The attacker serves the old bundle, which is validly signed.
    fs::write(team.folder().join("team.json"), &first).unwrap();
    let (code, refused) = json(home.path(), &["team", "sync"]);
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"POLICY_DENIED".into())
    );
    assert!(
        message(&refused).contains("an older bundle is not accepted"),
        "{refused}"
    );
    let (_, status) = json(home.path(), &["team", "status"]);
    assert_eq!(status["teams"][0]["version"], 2);
    assert!(
        status["teams"][0]["lastFault"]["text"]
            .to_string()
            .contains("older"),
        "{status}"
    );
    assert_eq!(
        json(home.path(), &["call", "read_file", "path=notes.txt"]).0,
        3
    );
    let log = run(home.path(), &["audit", "show"]).1;
    assert!(log.contains("a bundle was not accepted"), "{log}");
    // Leaving and joining again does not help the attacker either.
    assert_eq!(run(home.path(), &["team", "leave"]).0, 0);
    let folder = team.folder().display().to_string();
    let (code, refused) = json(
        home.path(),
        &["team", "join", &folder, "--key", &team.key_file(), "--yes"],
    );
    assert_eq!(code, 3, "{refused}");
    // After leaving, no bundle stays in force.
    let text = refused.to_string();
    assert!(!text.contains("stays in force"), "{text}");
    // The same version with another content is refused, too.
    team.bundle.settings.clear();
    fs::write(team.folder().join("team.json"), team.signed()).unwrap();
    let (code, refused) = json(
        home.path(),
        &["team", "join", &folder, "--key", &team.key_file(), "--yes"],
    );
    assert!(
        code == 3 && message(&refused).contains("another content"),
        "{refused}"
    );
}

#[test]
fn team_component_that_is_tampered_with_is_refused() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    let component = team.component();
    let good = fs::read(&component).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    // At the source: nothing is joined.
    fs::write(&component, &bad).unwrap();
    let folder = team.folder().display().to_string();
    let (code, refused) = json(
        home.path(),
        &["team", "join", &folder, "--key", &team.key_file(), "--yes"],
    );
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"POLICY_DENIED".into()),
        "{refused}"
    );
    assert_eq!(
        json(home.path(), &["team", "status"]).1["teams"],
        value!([])
    );
    // Half a component is no component either.
    fs::write(&component, &good[..good.len() / 2]).unwrap();
    assert_ne!(
        json(
            home.path(),
            &["team", "join", &folder, "--key", &team.key_file(), "--yes"]
        )
        .0,
        0
    );
    fs::write(&component, &good).unwrap();
    team.join(home.path());
    assert_eq!(json(home.path(), CALL).0, 0);
    // In the user's store: the call is refused, and a sync repairs it.
    let stored = config(home.path())
        .join("teams/acme")
        .join(component.strip_prefix(team.folder()).unwrap());
    fs::write(&stored, &bad).unwrap();
    let (code, outcome) = json(home.path(), CALL);
    assert_ne!(code, 0, "{outcome}");
    let (code, status) = json(home.path(), &["team", "status"]);
    assert!(
        code == 1
            && status
                .to_string()
                .contains("parts of the bundle are damaged"),
        "{status}"
    );
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    assert_eq!(json(home.path(), CALL).0, 0);
}

#[test]
fn team_bundle_of_a_wrong_or_revoked_key_is_refused() {
    let home = workspace();
    let mut team = Team::new("");
    team.publish();
    let stranger = Team::new("");
    let folder = team.folder().display().to_string();
    let (code, refused) = json(
        home.path(),
        &[
            "team",
            "join",
            &folder,
            "--key",
            &stranger.key_file(),
            "--yes",
        ],
    );
    assert!(
        code == 3 && message(&refused).contains("not signed by a trusted key"),
        "{refused}"
    );
    assert_eq!(
        json(home.path(), &["team", "status"]).1["teams"],
        value!([])
    );
    team.join(home.path());
    // The old key names the new one, which revokes the old.
    let new = stranger.key;
    team.bundle.keys = vec![new.verifying_key().to_pem()];
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    let old = std::mem::replace(&mut team.key, new);
    team.bundle.revoked_keys = vec![old.verifying_key().id()];
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    team.key = old;
    team.bundle.revoked_keys.clear();
    team.publish();
    let (code, refused) = json(home.path(), &["team", "sync"]);
    assert!(
        code == 3 && message(&refused).contains("revoked"),
        "{refused}"
    );
    assert_eq!(
        json(home.path(), &["team", "status"]).1["teams"][0]["version"],
        3
    );
}

#[test]
fn team_store_that_is_damaged_stops_every_call() {
    let home = workspace();
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n");
    team.publish();
    team.join(home.path());
    let store = config(home.path()).join("teams");
    let record = store.join("acme.record.json");
    let good = fs::read_to_string(&record).unwrap();
    let envelope = fs::read_dir(store.join("acme")).unwrap().flatten();
    let envelope = envelope
        .map(|entry| entry.path())
        .find(|path| path.is_file())
        .unwrap();
    // The source is gone, so that the program cannot repair the store by itself.
    fs::rename(
        team.folder().join("team.json"),
        team.folder().join("away.json"),
    )
    .unwrap();
    let read = ["call", "read_file", "path=notes.txt"];
    let damages: [&dyn Fn(); 4] = [
        &|| fs::write(&record, good.replace("\"version\": 1", "\"version\": 0")).unwrap(),
        &|| fs::remove_file(&record).unwrap(),
        &|| fs::write(&envelope, "{}").unwrap(),
        &|| fs::remove_file(&envelope).unwrap(),
    ];
    for (at, damage) in damages.into_iter().enumerate() {
        damage();
        let (code, refused) = json(home.path(), &read);
        assert!(
            code != 0 && message(&refused).contains("no call runs without its rules"),
            "{at}: {refused}"
        );
        assert!(
            refused["wayOut"].to_string().contains("mimir team sync"),
            "{refused}"
        );
        let (code, status) = json(home.path(), &["team", "status"]);
        assert_eq!(code, 1, "{status}");
        fs::rename(
            team.folder().join("away.json"),
            team.folder().join("team.json"),
        )
        .unwrap();
        let (code, _, err) = run(home.path(), &["team", "sync"]);
        assert_eq!(code, 0, "{at}: {err}");
        assert_eq!(json(home.path(), &read).0, 0);
        fs::rename(
            team.folder().join("team.json"),
            team.folder().join("away.json"),
        )
        .unwrap();
    }
}

#[test]
fn team_of_an_administrator_needs_no_answer_and_cannot_be_left() {
    let home = workspace();
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n").with_tool(true);
    team.publish();
    let beside = tempfile::tempdir().unwrap();
    let policy = beside.path().join("team.yml");
    fs::write(&policy, team.block()).unwrap();
    add_to_user_config(home.path(), "teams: {enabled: false}\n");
    let under_policy = |args: &[&str]| {
        let mut command = mimir(home.path(), args);
        let output = command
            .env("MIMIR_TEAM_POLICY", &policy)
            .arg("--json")
            .output()
            .unwrap();
        let parsed: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), parsed)
    };
    // The first call fetches the bundle.
    let (code, outcome) = under_policy(CALL);
    assert_eq!(code, 0, "{outcome}");
    let (code, refused) = under_policy(&["team", "leave"]);
    assert!(
        code == 3 && message(&refused).contains("requires it for every user"),
        "{refused}"
    );
    let (_, status) = under_policy(&["team", "status"]);
    assert_eq!(status["teams"][0]["required"], true);
    // `sharedTools: false` loads none of its tools, and its rules stay.
    fs::write(&policy, team.block() + "  features: {sharedTools: false}\n").unwrap();
    let (code, outcome) = under_policy(CALL);
    assert_eq!((code, &outcome["error"]["code"]), (2, &"NOT_FOUND".into()));
    let (_, disabled) = under_policy(&["config", "get", "enforcement.disableLocalTools"]);
    assert!(disabled.to_string().contains("team Acme"), "{disabled}");
}

#[test]
fn team_update_is_fetched_in_a_workspace_whose_settings_forbid_it() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    team.join(home.path());
    let project = home.path().join(".mimir/config.yml");
    for (version, text) in [(2, "network: {mode: none}\n"), (3, "polcy: {}\n")] {
        write_config(&project, text);
        team.publish();
        let (code, synced) = json(home.path(), &["team", "sync"]);
        assert_eq!(
            (code, &synced["teams"][0]["version"]),
            (0, &version.into()),
            "{text}: {synced}"
        );
        let (code, status) = json(home.path(), &["team", "status"]);
        assert_eq!(code, 0, "{status}");
    }
    // Other commands still report the invalid file.
    let (code, refused) = json(home.path(), CALL);
    assert!(
        code == 2 && message(&refused).contains("polcy"),
        "{refused}"
    );
}

#[test]
fn team_status_says_that_tools_are_not_loaded() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    team.join(home.path());
    let status = || run(home.path(), &["team", "status"]).1;
    assert!(status().contains("prob.wasm cannot be disabled"));
    add_to_user_config(home.path(), "  features: {sharedTools: false}\n");
    let text = status();
    assert!(!text.contains("cannot be disabled"), "{text}");
    let wanted = "tools, not loaded (features.sharedTools: false)";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn team_card_never_cuts_a_setting() {
    let home = workspace();
    let settings = format!(
        "{}approval: {{default: preApproved}}\naudit: {{durability: write}}\n",
        "# note\n".repeat(205)
    );
    let mut team = Team::new(&settings);
    team.publish();
    let folder = team.folder().display().to_string();
    let join = ["team", "join", &folder, "--key", &team.key_file(), "--yes"];
    let (code, _, card) = run(home.path(), &join);
    assert_eq!(code, 0, "{card}");
    for line in [
        "    approval: {default: preApproved}",
        "    approval.default: allow",
        "    `audit.durability: write`, above your own",
        "    (205 comments and empty lines are left out)",
    ] {
        assert!(card.lines().any(|shown| shown == line), "{line}: {card}");
    }
}

#[test]
fn team_block_of_a_project_or_an_incomplete_one_is_refused() {
    let mut team = Team::new("");
    team.publish();
    let read = ["call", "read_file", "path=notes.txt"];
    let home = workspace();
    write_config(&home.path().join(".mimir/config.yml"), &team.block());
    let (code, refused) = json(home.path(), &read);
    assert!(
        code == 2 && message(&refused).contains("can only be set in your own config file"),
        "{refused}"
    );
    for (from, to, wanted) in [
        ("  orgId: acme\n", "", "teams.orgId: is missing"),
        ("orgId: acme", "orgId: ../acme", "not a valid id"),
        (
            "  reference: ",
            "  reference: https://x?y ",
            "teams.reference:",
        ),
        (
            "-----BEGIN PUBLIC KEY-----",
            "-----BEGIN KEY-----",
            "teams.keys[0]:",
        ),
        (
            "enabled: true",
            "enabled: true\n  refreshMinutes: 0",
            "teams.refreshMinutes",
        ),
    ] {
        let home = workspace();
        let block = team.block().replace(from, to);
        assert_ne!(block, team.block());
        add_to_user_config(home.path(), &block);
        let (code, refused) = json(home.path(), &read);
        assert!(
            code == 2 && message(&refused).contains(wanted),
            "{to}: {refused}"
        );
    }
    // The id of the block must be that of the bundle.
    let home = workspace();
    add_to_user_config(
        home.path(),
        &team.block().replace("orgId: acme", "orgId: other"),
    );
    let (code, refused) = json(home.path(), &["team", "sync"]);
    assert!(
        code == 3 && message(&refused).contains("of the team `acme`"),
        "{refused}"
    );
}

#[test]
fn team_bundle_that_expires_refuses_its_tools_and_keeps_its_rules() {
    let home = workspace();
    let mut team = Team::new("policy: {deny: [read_file]}\n").with_tool(true);
    team.bundle.expires_at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(10);
    team.publish();
    team.join(home.path());
    let refused = loop {
        let (code, outcome) = json(home.path(), CALL);
        if code != 0 {
            break outcome;
        }
    };
    assert_eq!(refused["error"]["code"], "POLICY_DENIED");
    assert!(refused.to_string().contains("has expired"), "{refused}");
    assert_eq!(
        json(home.path(), &["call", "read_file", "path=notes.txt"]).0,
        3
    );
    assert_eq!(
        json(home.path(), &["call", "list_directory", "path=."]).0,
        0
    );
    let (code, status) = json(home.path(), &["team", "status"]);
    assert!(
        code == 1
            && status
                .to_string()
                .contains("run `mimir team publish` again"),
        "{status}"
    );
    let (_, refused, _) = run(home.path(), CALL);
    assert!(!refused.contains("can change `expiresAt`"), "{refused}");
    // The newest bundle is the expired one.
    let (code, synced) = json(home.path(), &["team", "sync"]);
    assert!(
        code == 1
            && synced
                .to_string()
                .contains("is the newest, but it has expired")
            && synced.to_string().contains("mimir team publish"),
        "{code} {synced}"
    );
}

#[test]
fn team_worker_is_used_without_acceptance() {
    let home = workspace();
    let mut team = Team::new("");
    let text = "description: Reviews changes for Acme.\ninstructions: Review.\n";
    team.bundle.workers = vec![team.file("reviewer.yml", text)];
    team.publish();
    fs::create_dir_all(home.path().join(".mimir/workers")).unwrap();
    fs::write(
        home.path().join(".mimir/workers/reviewer.yml"),
        "description: Mine.\ninstructions: x\n",
    )
    .unwrap();
    team.join(home.path());
    let (_, info) = json(home.path(), &["tools", "info", "worker_call"]);
    assert!(
        info.to_string().contains("Reviews changes for Acme."),
        "{info}"
    );
    let (_, listed) = json(home.path(), &["tools", "list"]);
    assert!(
        listed["quarantined"]
            .to_string()
            .contains("team Acme has a worker of this name"),
        "{listed}"
    );
}

#[test]
fn enforcement_disable_local_tools_leaves_out_custom_tools_with_the_reason() {
    let home = workspace();
    fs::write(home.path().join(".mimir/tools/prob.wasm"), plugin::search()).unwrap();
    assert_eq!(json(home.path(), &["tools", "info", TOOL]).0, 0);
    // Even a project may restrict.
    for (path, shown) in [
        (config(home.path()).join("config.yml"), "config.yml"),
        (home.path().join(".mimir/config.yml"), ".mimir/config.yml"),
    ] {
        write_config(&path, "enforcement: {disableLocalTools: true}\n");
        let (_, listed) = json(home.path(), &["tools", "list"]);
        let reason = listed["quarantined"].to_string();
        assert!(
            reason.contains(shown) && reason.contains("enforcement.disableLocalTools"),
            "{listed}"
        );
        let (code, outcome) = json(home.path(), CALL);
        assert_eq!((code, &outcome["error"]["code"]), (2, &"NOT_FOUND".into()));
        fs::remove_file(path).unwrap();
    }
    // A project cannot lift what the user has set.
    write_config(
        &config(home.path()).join("config.yml"),
        "enforcement: {disableLocalTools: true}\n",
    );
    write_config(
        &home.path().join(".mimir/config.yml"),
        "enforcement: {disableLocalTools: false}\n",
    );
    assert_eq!(json(home.path(), CALL).0, 2);
}

#[test]
fn enforcement_require_signature_leaves_out_unsigned_tools() {
    let home = workspace();
    // Its digest is in no other cache entry: a custom section has the name of the folder.
    let mut component = plugin::search();
    let name = home.path().file_name().unwrap().to_str().unwrap();
    let length = u8::try_from(name.len()).unwrap();
    component.extend([0, length + 1, length]);
    component.extend(name.as_bytes());
    fs::write(home.path().join(".mimir/tools/prob.wasm"), &component).unwrap();
    // A lock file of a checkout cannot claim a signer.
    let digest = mimir_registry::OciDigest::of_bytes(&component);
    let lock = value!({"version": 1, "sources": {".mimir/tools/prob.wasm": {
        "reference": "registry.example.com/acme/prob:1", "manifest": digest.to_string(),
        "layer": digest.to_string(), "signer": {"key": "a".repeat(64), "name": "acme"},
    }}});
    fs::write(home.path().join(".mimir/tools.lock"), lock.to_string()).unwrap();
    let settings = config(home.path()).join("config.yml");
    let required = "enforcement: {requireSignature: true}\n";
    write_config(&settings, required);
    let check = || {
        let (_, listed) = json(home.path(), &["tools", "list"]);
        let quarantined = listed["quarantined"].as_array().unwrap();
        assert_eq!(quarantined.len(), 1, "{listed}");
        assert_eq!(quarantined[0]["code"], "POLICY_DENIED");
        let reason = quarantined[0]["reason"].as_str().unwrap();
        assert!(
            reason.contains("it has no trusted signature") && reason.contains("config.yml"),
            "{listed}"
        );
        assert_eq!(json(home.path(), CALL).0, 2);
    };
    check();
    // Nothing of it was read but its digest.
    let cache = crate::kit::target_folder("cache");
    assert!(!has_file_named(&cache, &digest.hex()));
    fs::remove_file(&settings).unwrap();
    assert_eq!(json(home.path(), &["tools", "info", TOOL]).0, 0);
    assert!(has_file_named(&cache, &digest.hex()));
    write_config(&settings, required);
    check();
    assert_eq!(
        json(home.path(), &["call", "read_file", "path=notes.txt"]).0,
        0
    );
}

/// Returns true if the name of a file in the folder begins with this text.
fn has_file_named(folder: &Path, begin: &str) -> bool {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.any(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(begin) || (path.is_dir() && has_file_named(&path, begin))
    })
}

#[test]
fn enforcement_models_refuse_other_models() {
    let home = workspace();
    let providers =
        "providers: {local: {url: 'http://127.0.0.1:1', api: openai}}\nmodel: local/large\n";
    write_config(
        &config(home.path()).join("config.yml"),
        &format!("{providers}enforcement: {{models: ['local/small*']}}\n"),
    );
    let (code, _, err) = run(home.path(), &["run", "hello", "--json"]);
    assert_eq!(code, 3, "{err}");
    let mut team = Team::new("");
    team.bundle.models = vec!["other/*".to_owned()];
    team.publish();
    let home = workspace();
    team.join(home.path());
    add_to_user_config(home.path(), providers);
    let (code, out, err) = run(home.path(), &["run", "hello"]);
    assert!(code == 3 && err.contains("team Acme allows"), "{out}{err}");
}

#[test]
fn enforcement_allow_tools_refuses_all_others() {
    let home = workspace();
    let mut team =
        Team::new("enforcement: {allowTools: ['source:teams', list_directory]}\n").with_tool(false);
    team.publish();
    team.join(home.path());
    assert_eq!(json(home.path(), CALL).0, 0);
    assert_eq!(
        json(home.path(), &["call", "list_directory", "path=."]).0,
        0
    );
    let (code, refused) = json(home.path(), &["call", "read_file", "path=notes.txt"]);
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"POLICY_DENIED".into())
    );
    assert!(
        refused.to_string().contains("team Acme allows"),
        "{refused}"
    );
}
