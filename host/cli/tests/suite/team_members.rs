//! Members of a team: what joining shows, refusals that name the team, the rules of other files, and a running server.

use std::fs;
use std::path::Path;

use mimir_registry::signature::{KeyAlgorithm, SigningKey};
use mimir_testkit::json as value;
use serde_json::Value;

use crate::kit::agent::Agent;
use crate::kit::team::{TOOL, Team};
use crate::kit::{config, mimir, plugin, run};
use crate::team_bundles::{json, workspace, write_config};

const CALL: &[&str] = &["call", TOOL, "mode=glob", "query=*.txt"];

/// Arguments of `mimir team join` without a key.
fn join(team: &Team) -> Vec<String> {
    let folder = team.folder().display().to_string();
    ["team", "join", &folder, "--key", &team.key_file()]
        .map(str::to_owned)
        .to_vec()
}

fn text_of(value: &Value) -> String {
    value["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Exit code and JSON of a command with this policy file.
fn under(policy: &Path, home: &Path, args: &[&str]) -> (i32, Value) {
    let mut command = mimir(home, &[args, &["--json"]].concat());
    let output = command.env("MIMIR_TEAM_POLICY", policy).output().unwrap();
    let parsed = serde_json::from_slice(&output.stdout);
    (
        output.status.code().unwrap(),
        parsed.unwrap_or_else(|_| panic!("{args:?}: {output:?}")),
    )
}

#[test]
fn team_join_shows_its_card_before_it_refuses_and_with_yes() {
    let home = workspace();
    let settings = "enforcement: {disableLocalTools: true}\n";
    let mut team = Team::new(settings).with_tool(true);
    team.publish();
    let join = join(&team);
    let args: Vec<&str> = join.iter().map(String::as_str).collect();
    let facts = [
        "Team Acme",
        "prob.wasm cannot be disabled",
        "custom tools, workers and skills of your workspaces are not loaded",
        "enforcement: {disableLocalTools: true}",
    ];
    let (code, _, err) = run(home.path(), &args);
    assert_eq!(code, 3, "{err}");
    let refusal = err.find("was not joined").unwrap();
    for fact in facts {
        assert!(
            err.find(fact).is_some_and(|at| at < refusal),
            "{fact}: {err}"
        );
    }
    let (code, refused) = json(home.path(), &args);
    let bundle = &refused["error"]["details"]["bundle"];
    assert_eq!((code, &bundle["orgId"]), (3, &"acme".into()), "{refused}");
    assert_eq!(bundle["settings"], settings);
    let tool = &bundle["tools"][0];
    assert_eq!(tool["enforced"], true, "{refused}");
    assert!(!tool["rights"].as_array().unwrap().is_empty(), "{refused}");
    let with_yes = [&args[..], &["--yes"]].concat();
    let (code, _, err) = run(home.path(), &with_yes);
    assert_eq!(code, 0, "{err}");
    for fact in facts {
        assert!(err.contains(fact), "{fact}: {err}");
    }
    // Joining again changes nothing, and its JSON has the same facts.
    let (code, joined) = json(home.path(), &with_yes);
    assert_eq!((code, &joined["bundle"]), (0, bundle), "{joined}");
}

#[test]
fn team_refusals_name_the_team_and_what_to_do() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.bundle.tools[0].reference = Some("registry.example.com/acme/prob:1".to_owned());
    team.publish();
    team.join(home.path());
    let (code, _, err) = run(home.path(), &["tools", "disable", TOOL]);
    assert_eq!(code, 3, "{err}");
    let first = format!("✗ Cannot disable tool: {TOOL} (enforced by enterprise policy)");
    assert_eq!(err.lines().next(), Some(first.as_str()));
    assert!(
        err.contains("team Acme (acme) enforces it") && err.contains("mimir team leave acme"),
        "{err}"
    );
    let (_, refused) = json(home.path(), &["tools", "disable", TOOL]);
    assert!(
        refused["wayOut"].to_string().contains("Acme (acme)"),
        "{refused}"
    );
    let (_, info, _) = run(home.path(), &["tools", "info", TOOL]);
    for line in [
        "[Teams]",
        "Team: Acme (acme), bundle 1 signed by key",
        "Enforced: Yes",
        "Team's source: registry.example.com/acme/prob:1",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let (_, info) = json(home.path(), &["tools", "info", TOOL]);
    assert_eq!(
        info["team"],
        value!({"name": "Acme", "orgId": "acme", "enforced": true, "required": false, "version": 1,
            "bundleSigner": team.key.verifying_key().id(),
            "reference": "registry.example.com/acme/prob:1"})
    );
    let (_, info) = json(home.path(), &["tools", "info", "read_file"]);
    assert!(info.get("team").is_none(), "{info}");
    let (code, revoked) = json(home.path(), &["tools", "revoke", TOOL]);
    assert_eq!(code, 1, "{revoked}");
    assert!(
        text_of(&revoked).contains("the team Acme (acme) grants its rights"),
        "{revoked}"
    );
    let remedies = revoked["wayOut"].to_string();
    assert!(
        remedies.contains("approval ask") && !remedies.contains("tools disable"),
        "{revoked}"
    );
    // As the remedy says, each call then asks.
    let ask = ["config", "set", &format!("tools.{TOOL}.approval"), "ask"];
    assert_eq!(run(home.path(), &ask).0, 0);
    assert_eq!(
        json(home.path(), CALL).1["error"]["code"],
        "APPROVAL_DENIED"
    );
    // A file of an administrator is named, too.
    let beside = tempfile::tempdir().unwrap();
    let policy = beside.path().join("team.yml");
    fs::write(
        &policy,
        "tools: {git: {enabled: true}, exec: {enabled: false}}\n",
    )
    .unwrap();
    for (action, tool) in [("disable", "git"), ("enable", "exec")] {
        let (code, refused) = under(&policy, home.path(), &["tools", action, tool]);
        let remedies = refused["wayOut"].to_string();
        assert!(
            code == 3 && remedies.contains("team.yml") && remedies.contains("administrator"),
            "{refused}"
        );
    }
}

#[test]
fn team_tool_that_is_enforced_is_not_disabled_by_rules_without_conditions() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    team.join(home.path());
    let project = home.path().join(".mimir/config.yml");
    for disabling in [
        format!("policy: {{rules: [{{tools: [{TOOL}], decision: deny}}]}}\n"),
        "policy: {rules: [{decision: deny}]}\n".to_owned(),
        format!("tools: {{{TOOL}: {{rules: [{{decision: deny}}]}}}}\n"),
        format!(
            "tools: {{{TOOL}: {{rules: [{{decision: deny, when: {{query: {{exists: true}}}}}}]}}}}\n"
        ),
    ] {
        write_config(&project, &disabling);
        let (code, outcome) = json(home.path(), CALL);
        assert_eq!(code, 0, "{disabling}: {outcome}");
        let (_, checked) = json(home.path(), &["policy", "check"]);
        let warnings = checked["warnings"].to_string();
        assert!(
            warnings.contains(".mimir/config.yml")
                && warnings.contains("team Acme enforces this tool"),
            "{disabling}: {checked}"
        );
    }
    // A rule about certain arguments counts.
    write_config(
        &project,
        &format!(
            "tools: {{{TOOL}: {{rules: [{{decision: deny, when: {{query: {{equals: '*.txt'}}}}}}]}}}}\n"
        ),
    );
    assert_eq!(json(home.path(), CALL).1["error"]["code"], "POLICY_DENIED");
}

#[test]
fn policy_check_names_lines_without_effect_because_of_a_team() {
    let home = workspace();
    let settings = "profile: fine\npolicy: {deny: [web_fetch]}\n";
    let mut team = Team::new(settings).with_tool(true);
    team.publish();
    team.join(home.path());
    let text = format!(
        "profile: compact\npolicy:\n  deny: [{TOOL}]\ntools:\n  web_fetch: {{approval: allow}}\n"
    );
    write_config(&home.path().join(".mimir/config.yml"), &text);
    let (_, out, err) = run(home.path(), &["policy", "check"]);
    for line in [
        ".mimir/config.yml:1: profile changes nothing: team Acme sets it.".to_owned(),
        format!(
            ".mimir/config.yml:3: policy.deny: [{TOOL}] does not count for `{TOOL}`: team Acme enforces this tool."
        ),
        ".mimir/config.yml:5: tools.web_fetch.approval changes nothing: team Acme:2 refuses `web_fetch`"
            .to_owned(),
    ] {
        assert!(out.contains(&line), "{line}: {out}{err}");
    }
}

#[test]
fn enforcement_disable_local_tools_leaves_out_workers_of_the_workspace() {
    let home = workspace();
    let own = home.path().join(".mimir/workers/own.yml");
    write_config(&own, "description: Mine.\ninstructions: Work.\n");
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    let (_, info) = json(home.path(), &["tools", "info", "worker_call"]);
    assert!(info.to_string().contains("Mine."), "{info}");
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n");
    team.publish();
    team.join(home.path());
    // Without another worker, the tool is gone.
    assert_eq!(json(home.path(), &["tools", "info", "worker_call"]).0, 2);
    let (_, listed) = json(home.path(), &["tools", "list"]);
    let quarantined = listed["quarantined"].as_array().unwrap();
    let left_out = quarantined
        .iter()
        .find(|left_out| left_out["location"] == ".mimir/workers/own.yml")
        .unwrap();
    assert_eq!(left_out["code"], "POLICY_DENIED");
    let reason = left_out["reason"].as_str().unwrap();
    assert!(
        reason.contains("team Acme sets `enforcement.disableLocalTools`"),
        "{listed}"
    );
    let (code, _, err) = run(home.path(), &["run", "--worker", "own", "hello"]);
    assert!(code == 3 && err.contains("team Acme sets"), "{err}");
    // A team's worker can be called, even one with the name of an own one.
    let reviews = "description: Reviews.\ninstructions: Review.\n";
    team.bundle.workers = vec![team.file("reviewer.yml", reviews)];
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    let (_, info) = json(home.path(), &["tools", "info", "worker_call"]);
    let info = info.to_string();
    assert!(
        info.contains("Reviews.") && !info.contains("Mine."),
        "{info}"
    );
}

#[test]
fn enforcement_allow_tools_of_an_administrator_does_not_mean_a_team_of_the_user() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    team.join(home.path());
    let beside = tempfile::tempdir().unwrap();
    let policy = beside.path().join("team.yml");
    let only = "enforcement: {allowTools: ['source:teams', list_directory]}\n";
    fs::write(&policy, only).unwrap();
    let (code, refused) = under(&policy, home.path(), CALL);
    assert_eq!(
        (code, &refused["error"]["code"]),
        (3, &"POLICY_DENIED".into())
    );
    assert!(
        refused.to_string().contains("of a team that")
            && refused.to_string().contains("does not require"),
        "{refused}"
    );
    // The team that the file requires is meant.
    fs::write(&policy, only.to_owned() + &team.block()).unwrap();
    let (code, outcome) = under(&policy, home.path(), CALL);
    assert_eq!(code, 0, "{outcome}");
}

#[test]
fn team_leave_removes_a_membership_that_is_ignored() {
    let home = workspace();
    let mut own = Team::new("");
    own.publish();
    own.join(home.path());
    let mut required = Team::new("");
    required.bundle.team.org_id = "globex".to_owned();
    required.publish();
    let beside = tempfile::tempdir().unwrap();
    let policy = beside.path().join("team.yml");
    fs::write(&policy, required.block().replace("acme", "globex")).unwrap();
    assert_eq!(under(&policy, home.path(), &["team", "sync"]).0, 0);
    let (_, status) = under(&policy, home.path(), &["team", "status"]);
    assert_eq!(status["teams"][0]["orgId"], "globex", "{status}");
    assert_eq!(status["ignored"][0]["orgId"], "acme", "{status}");
    let (code, refused) = under(&policy, home.path(), &["team", "leave", "initech"]);
    assert!(
        code == 2 && text_of(&refused).contains("your teams are globex, acme"),
        "{refused}"
    );
    let (code, refused) = under(&policy, home.path(), &["team", "leave", "globex", "--yes"]);
    assert_eq!(code, 3, "{refused}");
    let (code, left) = under(&policy, home.path(), &["team", "leave", "--yes"]);
    assert_eq!((code, &left["left"]), (0, &"acme".into()), "{left}");
    let (_, status) = under(&policy, home.path(), &["team", "status"]);
    assert!(status.get("ignored").is_none(), "{status}");
    assert!(!config(home.path()).join("teams/acme").exists());
    let (_, paths) = under(&policy, home.path(), &["config", "path"]);
    let files = paths["files"].as_array().unwrap();
    let at = |end: &str| {
        let mut files = files.iter();
        files.position(|file| file["path"].as_str().unwrap().ends_with(end))
    };
    let named = policy.display().to_string();
    let order = [&named, "globex.record.json", "config.yml"].map(|end| at(end).unwrap());
    assert!(order.is_sorted(), "{paths}");
}

/// Waits until the server lists the team's tool.
fn wait_for_tool(agent: &mut Agent) {
    loop {
        agent.next_with_method("notifications/tools/list_changed");
        let listed = agent.request("tools/list", value!({}));
        if listed.to_string().contains(TOOL) {
            return;
        }
    }
}

#[test]
fn team_that_is_joined_and_left_while_a_server_runs_is_followed() {
    let home = workspace();
    let mut team = Team::new("policy: {deny: [list_directory]}\n").with_tool(true);
    team.publish();
    let mut agent = Agent::start(home.path());
    agent.hello(value!({}));
    let is_denied = |agent: &mut Agent| {
        let result = agent.call("list_directory", value!({"path": "."}));
        result["isError"] == true && result.to_string().contains("POLICY_DENIED")
    };
    assert!(!is_denied(&mut agent));
    team.join(home.path());
    assert!(is_denied(&mut agent), "the rules are not in force");
    // Its tools are loaded in the background.
    wait_for_tool(&mut agent);
    let arguments = value!({"mode": "glob", "query": "*.txt"});
    let found = agent.call(TOOL, arguments);
    assert!(found.to_string().contains("notes.txt"), "{found}");
    // A newer bundle that another process fetches.
    team.bundle.settings.clear();
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    assert!(!is_denied(&mut agent), "the newer bundle is not in force");
    team.bundle.settings = "policy: {deny: [list_directory]}\n".to_owned();
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    assert!(is_denied(&mut agent));
    assert_eq!(run(home.path(), &["team", "leave"]).0, 0);
    assert!(!is_denied(&mut agent), "the team was not left");
}

#[test]
fn team_of_an_administrator_is_fetched_by_a_server_that_runs_already() {
    let home = workspace();
    let mut team = Team::new("").with_tool(true);
    team.publish();
    let mut agent = Agent::start(home.path());
    agent.hello(value!({}));
    // The block without a stored bundle, as an administrator writes it. The server fetches the bundle by itself.
    write_config(&config(home.path()).join("config.yml"), &team.block());
    wait_for_tool(&mut agent);
}

#[test]
fn config_set_tells_what_counts_beside_a_team() {
    let home = workspace();
    let settings = "policy: {deny: [web_fetch]}\nprofile: fine\n";
    let mut team = Team::new(settings).with_tool(true);
    team.publish();
    team.join(home.path());
    let set = |key: &str, value: &str| {
        let (code, out, err) = run(home.path(), &["config", "set", "--user", key, value]);
        assert_eq!(code, 0, "{err}");
        out + &err
    };
    let text = set("policy.deny", "['*']");
    assert!(
        text.contains("both count") && !text.contains("overrides"),
        "{text}"
    );
    assert!(text.contains("team Acme enforces this tool"), "{text}");
    let (_, shown, _) = run(home.path(), &["config", "get", "policy.deny"]);
    for wanted in ["- web_fetch", "- '*'", "all of these count"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let (_, value) = json(home.path(), &["config", "get", "policy.deny"]);
    assert_eq!(value["evaluatedTogether"], true);
    let (_, out, err) = run(home.path(), &["config", "unset", "--user", "policy.deny"]);
    assert!(
        err.contains("still sets it") || out.contains("still sets it"),
        "{out}{err}"
    );
    let text = set("profile", "compact");
    assert!(text.contains("overrides it"), "{text}");
    for (key, value) in [("enabled", "false"), ("approval", "deny")] {
        let text = set(&format!("tools.{TOOL}.{key}"), value);
        assert!(
            text.contains("does not count") && text.contains("team Acme enforces this tool"),
            "{key}: {text}"
        );
    }
}

#[test]
fn team_tool_is_told_from_a_file_of_its_name() {
    let home = workspace();
    let tools = home.path().join(".mimir/tools");
    fs::write(tools.join("prob.wasm"), plugin::search()).unwrap();
    let digest = mimir_registry::OciDigest::of_bytes(&plugin::search()).hex();
    let trust = ["tools", "trust", TOOL, "--digest", &digest];
    assert_eq!(json(home.path(), &trust).0, 0);
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n").with_tool(true);
    team.publish();
    team.join(home.path());
    let (code, revoked) = json(home.path(), &["tools", "revoke", "prob"]);
    assert_eq!(
        (code, &revoked["teamTools"]),
        (0, &value!([TOOL])),
        "{revoked}"
    );
    assert_eq!(json(home.path(), CALL).0, 0);
    let (code, refused) = json(home.path(), &trust);
    assert!(
        code != 0 && text_of(&refused).contains("the team Acme (acme) grants its rights"),
        "{refused}"
    );
    let lock = fs::read_to_string(home.path().join(".mimir/tools.lock")).unwrap();
    assert!(!lock.contains("team:acme"), "{lock}");
    fs::remove_file(tools.join("prob.wasm")).unwrap();
    let (_, _, err) = run(home.path(), &["tools", "remove", TOOL, "--yes"]);
    assert!(
        err.contains("enforces it") && !err.contains("tools disable"),
        "{err}"
    );
}

#[test]
fn team_propose_and_export_take_tools_that_are_not_loaded() {
    let home = workspace();
    fs::write(home.path().join(".mimir/tools/prob.wasm"), plugin::search()).unwrap();
    fs::create_dir(home.path().join("elsewhere")).unwrap();
    fs::write(home.path().join("elsewhere/prob.wasm"), plugin::search()).unwrap();
    let mut team = Team::new("enforcement: {disableLocalTools: true}\n").with_tool(false);
    team.publish();
    team.join(home.path());
    for (at, name) in [
        "prob",
        "prob.wasm",
        ".mimir/tools/prob.wasm",
        "elsewhere/prob.wasm",
    ]
    .into_iter()
    .enumerate()
    {
        let page = home
            .path()
            .join(format!("page{at}.md"))
            .display()
            .to_string();
        let (code, proposed) = json(home.path(), &["team", "propose", name, "--out", &page]);
        assert_eq!(
            (code, &proposed["proposed"]),
            (0, &"prob.wasm".into()),
            "{name}: {proposed}"
        );
        let folder = home
            .path()
            .join(format!("export{at}"))
            .display()
            .to_string();
        let (code, exported) = json(home.path(), &["tools", "export", name, "--oci", &folder]);
        assert_eq!(
            (code, &exported["plugin"]),
            (0, &"prob".into()),
            "{name}: {exported}"
        );
    }
    let (code, refused) = json(home.path(), &["team", "propose", "unknown"]);
    assert_eq!((code, &refused["error"]["code"]), (2, &"NOT_FOUND".into()));
    let (_, out, err) = run(home.path(), &["tools", "new", "foo"]);
    assert!(
        err.contains("mimir team propose") || out.contains("mimir team propose"),
        "{out}{err}"
    );
}

#[test]
fn team_status_and_doctor_show_the_fault_of_the_last_check() {
    let home = workspace();
    let mut team = Team::new("");
    team.publish();
    let first = fs::read(team.folder().join("team.json")).unwrap();
    team.join(home.path());
    team.publish();
    assert_eq!(json(home.path(), &["team", "sync"]).0, 0);
    fs::write(team.folder().join("team.json"), first).unwrap();
    assert_ne!(json(home.path(), &["team", "sync"]).0, 0);
    let (_, status, _) = run(home.path(), &["team", "status"]);
    assert!(
        status.starts_with("! Acme (the last check failed)"),
        "{status}"
    );
    let (_, doctor, _) = run(home.path(), &["doctor"]);
    assert!(doctor.contains("because the last check failed"), "{doctor}");
    // A key that the bundle names, but the member does not trust.
    team.key = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
    team.bundle.keys = vec![team.key.verifying_key().to_pem()];
    team.publish();
    let (_, refused) = json(home.path(), &["team", "sync"]);
    let id = team.key.verifying_key().id();
    assert!(text_of(&refused).contains(&id), "{refused}");
}

#[test]
fn team_tool_of_a_revoked_signer_is_marked() {
    let home = workspace();
    let mut team = Team::new("").with_tool(false);
    let key = "ab".repeat(32);
    team.bundle.tools[0].signer = Some(mimir_core::grants::SourceSigner::Key {
        key: key.clone(),
        name: Some("author".to_owned()),
    });
    team.publish();
    let info = |home: &Path| run(home, &["tools", "info", TOOL]).1;
    team.join(home.path());
    assert!(info(home.path()).contains("(checked by the team)"));
    team.bundle.revoked_keys = vec![key];
    team.publish();
    let other = workspace();
    let folder = team.folder().display().to_string();
    let join = ["team", "join", &folder, "--key", &team.key_file(), "--yes"];
    let (_, out, err) = run(other.path(), &join);
    assert!((out + &err).contains("a key that the team has revoked"));
    let shown = info(other.path());
    assert!(shown.contains("its key is revoked by the team"), "{shown}");
}
