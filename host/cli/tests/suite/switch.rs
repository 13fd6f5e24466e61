//! `mimir tools enable` and `disable`: their output, and that they change nothing else.

use std::fs;

use crate::kit::shop::{CONFIG, json, own, stated, text, workspace};
use crate::kit::{config, mimir, run};

#[test]
fn tools_disable_shows_saved_tokens_and_edits_the_config() {
    let home = workspace();
    let tokens = |name: &str| {
        let list = json(home.path(), &["tools", "list"]);
        let rows = list["tools"].as_array().unwrap().iter();
        let mut rows = rows.filter(|row| row["name"] == name);
        rows.next().unwrap()["tokenCost"].as_u64().unwrap()
    };
    let git = tokens("git");
    for (args, output) in [
        (
            ["disable", "git"],
            format!("✗ Disabled tool: git (-{git} tokens)\n"),
        ),
        (
            ["disable", "git"],
            "Tool already disabled: git\n".to_owned(),
        ),
        (
            ["enable", "git"],
            format!("✓ Enabled tool: git (+{git} tokens)\n"),
        ),
        (["enable", "git"], "Tool already enabled: git\n".to_owned()),
        (
            ["enable", "analyze_dependencies"],
            "✓ Enabled tool: analyze_dependencies (+380 tokens)\n".to_owned(),
        ),
        // It is not in the compact form of this profile, so models read the same number of tokens.
        (
            ["disable", "read_file"],
            "✗ Disabled tool: read_file (-0 tokens)\n".to_owned(),
        ),
        // An alias is the same tool.
        (
            ["disable", "bash_execution"],
            format!("✗ Disabled tool: exec (-{} tokens)\n", tokens("exec")),
        ),
    ] {
        assert_eq!(text(home.path(), &["tools", args[0], args[1]]), output);
    }
    let now = fs::read_to_string(own(&home)).unwrap();
    let expected = CONFIG.replace("enabled: false # not now", "enabled: true # not now");
    let added = "  git:\n    enabled: true\n  read_file:\n    enabled: false\n  exec:\n    enabled: false\n";
    assert_eq!(now, expected + added);
    let (code, _, err) = run(home.path(), &["call", "exec", "command=true"]);
    assert_eq!(code, 3, "{err}");
    let (code, _, err) = run(home.path(), &["tools", "enable", "gti"]);
    assert!(code == 2 && err.contains("Did you mean `git`?"), "{err}");
    let switched = json(home.path(), &["tools", "disable", "git"]);
    assert_eq!(
        (&switched["tokens"], &switched["changed"]),
        (&(-(git as i64)).into(), &true.into())
    );
}

#[test]
fn tools_enable_and_disable_keep_other_bytes() {
    let home = workspace();
    let rich = "# top\r\n\r\n\"profile\":   'compact'   # quoted\r\ntools: # all\r\n    # of git\r\n    'git':   {enabled: true, approval: \"ask\"} # flow\r\n\r\n    exec:\r\n        enabled: true    # wide\r\n# end\r\n";
    fs::write(own(&home), rich).unwrap();
    for turn in 0..50 {
        for name in ["git", "exec"] {
            let word = if turn % 2 == 0 { "disable" } else { "enable" };
            text(home.path(), &["tools", word, name]);
        }
        let wanted = match turn % 2 {
            0 => rich.replace("enabled: true", "enabled: false"),
            _ => rich.to_owned(),
        };
        assert_eq!(
            fs::read_to_string(own(&home)).unwrap(),
            wanted,
            "turn {turn}"
        );
    }
}

#[test]
fn tools_disable_run_concurrently_loses_no_change() {
    let home = workspace();
    let names = [
        "git",
        "exec",
        "web_fetch",
        "file_search",
        "run_code",
        "web_search",
    ];
    let all: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = mimir(home.path(), &["tools", "disable", name]);
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let list = json(home.path(), &["tools", "list"]);
    for row in list["tools"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let off = names.contains(&name) || name == "analyze_dependencies";
        assert_eq!(row["enabled"] == false, off, "{name}");
    }
    assert!(fs::read_to_string(own(&home)).unwrap().starts_with(CONFIG));
}

#[test]
fn tools_enable_cannot_override_team_or_policy_rules() {
    let home = workspace();
    let team = tempfile::tempdir().unwrap();
    let team = team.path().join("team.yml");
    fs::write(
        &team,
        "tools: {git: {enabled: true}, exec: {enabled: false}}\n",
    )
    .unwrap();
    let told = |args: &[&str], code: i32| {
        let output = mimir(home.path(), args)
            .env("MIMIR_TEAM_POLICY", &team)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{err}");
        err
    };
    let err = told(&["tools", "disable", "git"], 3);
    assert!(
        err.contains("Cannot disable tool: git (enforced by enterprise policy)"),
        "{err}"
    );
    let err = told(&["tools", "enable", "exec"], 3);
    assert!(
        err.contains("Cannot enable tool: exec (enforced by enterprise policy)"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(own(&home)).unwrap(), CONFIG);
    fs::write(own(&home), "policy: {deny: [git]}\n").unwrap();
    let err = told(&["tools", "enable", "git"], 3);
    assert!(err.contains("config.yml:1"), "the rule is named: {err}");
    // Disabled, and also denied by another rule: once enabled it is still denied, and costs no tokens.
    fs::write(
        own(&home),
        "tools: {git: {enabled: false}}\npolicy: {deny: [git]}\n",
    )
    .unwrap();
    let message = text(home.path(), &["tools", "enable", "git"]);
    assert_eq!(message, "✗ Still refused: git (+0 tokens)\n");
    fs::write(
        own(&home),
        "tools: {git: {enabled: false}}\npolicy: {deny: [git]}\n",
    )
    .unwrap();
    let message = json(home.path(), &["tools", "enable", "git"]);
    assert_eq!(
        (&message["enabled"], &message["changed"], &message["tokens"]),
        (&false.into(), &true.into(), &0.into())
    );
    assert!(
        message["refused"]
            .as_str()
            .unwrap()
            .contains("config.yml:2")
    );
    // A team's list does not name a single tool, but it applies as well.
    fs::write(&team, "policy: {deny: [exec]}\n").unwrap();
    fs::write(own(&home), CONFIG).unwrap();
    let output = mimir(home.path(), &["tools", "disable", "exec"])
        .env("MIMIR_TEAM_POLICY", &team)
        .output()
        .unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    assert_eq!(message, "✗ Disabled tool: exec (-0 tokens)\n");
    let before = fs::read_to_string(own(&home)).unwrap();
    let err = told(&["tools", "enable", "exec"], 3);
    assert!(
        err.contains("Cannot enable tool: exec (enforced by enterprise policy)"),
        "{err}"
    );
    assert_eq!(fs::read_to_string(own(&home)).unwrap(), before);
    // Disabled in both files: it is enabled in each of them.
    fs::create_dir_all(config(home.path())).unwrap();
    let user = config(home.path()).join("config.yml");
    fs::write(&user, "tools: {web_fetch: {enabled: false}} # mine\n").unwrap();
    fs::write(own(&home), "tools: {web_fetch: {enabled: false}}\n").unwrap();
    told(&["tools", "enable", "web_fetch"], 0);
    assert_eq!(
        fs::read_to_string(&user).unwrap(),
        "tools: {web_fetch: {enabled: true}} # mine\n"
    );
    told(&["tools", "disable", "web_fetch", "--user"], 0);
    assert_eq!(
        fs::read_to_string(&user).unwrap(),
        "tools: {web_fetch: {enabled: false}} # mine\n"
    );
    assert_eq!(
        fs::read_to_string(own(&home)).unwrap(),
        "tools: {web_fetch: {enabled: true}}\n"
    );
}

#[test]
fn tools_enable_overrides_a_tool_disabled_in_its_file() {
    let home = workspace();
    let tool = stated("idle", 70) + "enabled: false\n";
    fs::write(home.path().join(".mimir/tools/idle.yml"), tool).unwrap();
    let out = text(home.path(), &["tools", "list"]);
    let line = "✗ idle                     [Custom]     ~70 tokens\n";
    assert!(out.contains(line), "{out}");
    let (code, _, err) = run(home.path(), &["call", "idle"]);
    assert!(code == 3 && err.contains(".mimir/tools/idle.yml"), "{err}");
    let schema = json(home.path(), &["schema"]).to_string();
    assert!(!schema.contains("\"idle\""), "{schema}");
    let output = text(home.path(), &["tools", "disable", "idle"]);
    assert_eq!(output, "Tool already disabled: idle\n");
    let output = text(home.path(), &["tools", "enable", "idle"]);
    assert_eq!(output, "✓ Enabled tool: idle (+70 tokens)\n");
    let now = fs::read_to_string(own(&home)).unwrap();
    assert_eq!(now, format!("{CONFIG}  idle:\n    enabled: true\n"));
    let out = text(home.path(), &["tools", "list"]);
    assert!(out.contains(&line.replace('✗', "✓")), "{out}");
    let output = text(home.path(), &["tools", "disable", "idle"]);
    assert_eq!(output, "✗ Disabled tool: idle (-70 tokens)\n");
}
