//! `mimir config`.

use crate::kit;
use std::fs;

use crate::kit::{mimir, run};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn config_schema_command_prints_the_config_schema() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["config", "schema"][..], &["config", "schema", "--json"]] {
        let (code, out, err) = run(home.path(), args);
        assert_eq!((code, err.as_str()), (0, ""));
        assert_eq!(json(&out), mimir_core::config::Config::schema());
    }
}

#[test]
fn config_path_lists_locations_in_order() {
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
    let message = json(&shown(&["config", "path", "--json"]));
    let files = message["files"].as_array().unwrap();
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
fn config_check_lists_errors_and_withheld_settings() {
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
    let (code, output) = check();
    let errors = output["errors"].as_array().unwrap();
    assert_eq!((code, errors.len(), &output["ok"]), (2, 2, &false.into()));
    for (error, wanted) in errors.iter().zip(["config.yml:1:1", ".mimir/config.yml:2"]) {
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(wanted), "{message}");
    }
    let (code, out, _) = run(home.path(), &["config", "check"]);
    assert_eq!((code, out.matches("error:").count()), (2, 2), "{out}");
    fs::write(user.join("config.yml"), "").unwrap();
    fs::write(&own, "tools: {read_file: {approval: allow}}\n").unwrap();
    let (code, output) = check();
    assert_eq!((code, &output["ok"]), (0, &true.into()));
    assert_eq!(output["withheld"][0], "tools.read_file.approval: allow");
    run(home.path(), &["policy", "accept", "--yes"]);
    assert!(check().1["withheld"].as_array().unwrap().is_empty());
}

/// A workspace with this project config.
fn with(config: &[u8]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(home.path().join(".mimir/config.yml"), config).unwrap();
    home
}

#[test]
fn config_errors_name_file_and_line() {
    let long = [b"# ".as_slice(), &vec![b'x'; 10 << 20]].concat();
    for (config, wanted) in [
        (
            b"tools:\n\tgit: {enabled: true}\n".as_slice(),
            "config.yml:2:",
        ),
        (b"profile: fine\nprofile: compact\n", "duplicate"),
        (b"tools:\n  git: {}\n  git: {}\n", "duplicate"),
        (b"polcy: {}\n", "Did you mean `policy`?"),
        (
            b"tools:\n  git:\n    enable: true\n",
            "Did you mean `enabled`?",
        ),
        (b"\n\nlimits:\n  timeMs: soon\n", "config.yml:4:"),
        (b"profile: [fine]\n", "config.yml:1:"),
        (b"- a\n", "config.yml:1:"),
        (b"just words\n", "config.yml:1:"),
        (b"policy: [\n", "config.yml:"),
        (b"x: \xff\n", "UTF-8"),
        (b"tools: *missing\n", "config.yml:1:"),
        (&long, "larger than 1 MB"),
    ] {
        let home = with(config);
        let shown = String::from_utf8_lossy(&config[..config.len().min(60)]).into_owned();
        for args in [
            &["config", "check"][..],
            &["tools", "list"],
            &["call", "git", "operation=status"],
        ] {
            let (code, out, err) = run(home.path(), args);
            let output = out + &err;
            assert!(
                code == 2 && output.contains(wanted),
                "{shown:?} {args:?} {code}: {output}"
            );
            assert!(output.len() < 2_000, "{output}");
        }
        let (code, out, err) = run(home.path(), &["tools", "disable", "git"]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        let now = fs::read(home.path().join(".mimir/config.yml")).unwrap();
        assert!(now == config, "nothing is written into it");
    }
}

#[test]
fn config_edits_keep_the_style_of_unusual_files() {
    for (config, after) in [
        ("", "tools:\n  git:\n    enabled: false\n"),
        (
            "# only words\n",
            "# only words\ntools:\n  git:\n    enabled: false\n",
        ),
        ("---\n...\n", ""),
        (
            "\u{feff}profile: compact\n",
            "\u{feff}profile: compact\ntools:\n  git:\n    enabled: false\n",
        ),
        (
            "profile: compact\r\n",
            "profile: compact\r\ntools:\r\n  git:\r\n    enabled: false\r\n",
        ),
        ("x-unused: &off {enabled: true}\n", ""),
        (
            "tools:\n  git: ~\n  exec:\n",
            "tools:\n  git:\n    enabled: false\n  exec:\n",
        ),
        (
            "tools:\n  exec: &one\n    enabled: true\n  run_code: *one\n  git: {enabled: true}\n",
            "tools:\n  exec: &one\n    enabled: true\n  run_code: *one\n  git: {enabled: false}\n",
        ),
    ] {
        let home = with(config.as_bytes());
        let (code, _, err) = run(home.path(), &["tools", "disable", "git"]);
        let now = fs::read_to_string(home.path().join(".mimir/config.yml")).unwrap();
        match after {
            "" if code == 0 => assert!(now.contains("enabled: false"), "{config:?} {now}"),
            // Refused with advice to edit the file by hand, or because the file is not a config.
            "" => assert_eq!((code, now.as_str()), (2, config), "{err}"),
            after => assert_eq!((code, now.as_str()), (0, after), "{err}"),
        }
    }
    let home = with(b"tools:\n  exec: &one\n    enabled: true\n    approval: ask\n  git: *one\n");
    let (code, _, err) = run(home.path(), &["tools", "disable", "git"]);
    assert!(code == 2 && err.contains("edit it by hand: add"), "{err}");
}

#[cfg(unix)]
#[test]
fn config_set_reports_a_read_only_folder() {
    use std::os::unix::fs::PermissionsExt;
    let home = with(b"profile: fine # mine\n");
    let dot = home.path().join(".mimir");
    run(home.path(), &["tools", "list"]);
    let mode = |mode| fs::set_permissions(&dot, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    // Root may write there, too.
    let root = fs::write(dot.join("probe"), "").is_ok();
    let (code, _, err) = run(home.path(), &["config", "set", "profile", "compact"]);
    mode(0o755);
    match root {
        true => assert_eq!(code, 0, "{err}"),
        false => assert!(
            code == 3 && err.contains("PERMISSION_DENIED"),
            "{code} {err}"
        ),
    }
}

#[test]
fn config_get_shows_layers_and_set_edits_files() {
    let home = with(b"# mine\nlimits: {timeMs: 9000} # short\n");
    let get = |key: &str| {
        let (code, out, err) = run(home.path(), &["config", "get", key, "--json"]);
        assert_eq!(code, 0, "{err}");
        json(&out)
    };
    let output = get("limits.timeMs");
    assert_eq!(
        (&output["value"], &output["from"]),
        (&9000.into(), &"project".into())
    );
    assert_eq!(output["layers"][0]["place"], ".mimir/config.yml:2");
    let output = get("limits.fuel");
    assert_eq!(
        (&output["value"], &output["from"]),
        (&3_000_000_000_000_u64.into(), &"default".into())
    );
    assert_eq!(get("limits.callsPerMinute")["value"], Value::Null);
    let (_, out, _) = run(home.path(), &["config", "get", "limits"]);
    assert_eq!(out, "timeMs: 9000\nproject: .mimir/config.yml:2\n");
    let (_, out, _) = run(home.path(), &["config", "get", "profile"]);
    assert_eq!(out, "fine\ndefault: profile is not set\n");
    let set = |args: &[&str], code: i32| {
        let args = [&["config"], args].concat();
        let (now, out, err) = run(home.path(), &args);
        assert_eq!(now, code, "{out}{err}");
        out + &err
    };
    set(&["set", "limits.timeMs", "8000"], 0);
    set(&["set", "policy.deny", "[git, 'mcp_*']"], 0);
    set(&["set", "--user", "limits.timeMs", "7000"], 0);
    let own = || fs::read_to_string(home.path().join(".mimir/config.yml")).unwrap();
    let expected = "# mine\nlimits: {timeMs: 8000} # short\npolicy:\n  deny:\n";
    assert!(own().starts_with(expected), "{}", own());
    let output = get("limits.timeMs");
    assert_eq!(output["layers"].as_array().unwrap().len(), 2);
    assert_eq!(get("policy.deny")["value"][1], "mcp_*");
    assert!(set(&["set", "--user", "limits.timeMs", "6000"], 0).contains("overrides it"));
    set(&["unset", "policy.deny"], 0);
    assert_eq!(get("policy.deny")["from"], "default");
    for (args, wanted) in [
        (&["set", "limits.timeMs", "soon"][..], "config.yml:2:"),
        (&["set", "limits.timems", "1"], "Did you mean `timeMs`"),
        (&["set", "limits.fuel", "0"], "limits.fuel"),
        (&["set", "profile", "[: x"], "not valid YAML"),
        (&["unset", "policy.deny"], "not set there"),
        (&["get", "polcy"], "Did you mean `policy`?"),
    ] {
        let before = own();
        let output = set(args, 2);
        assert!(output.contains(wanted), "{args:?}: {output}");
        assert_eq!(own(), before);
    }
}

#[test]
fn config_variables_override_files_but_not_team_policy() {
    let home = with(b"limits: {timeMs: 9000}\npolicy: {deny: [exec]}\n");
    let team = tempfile::tempdir().unwrap();
    let team = team.path().join("team.yml");
    fs::write(&team, "profile: fine\n").unwrap();
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = mimir(home.path(), args);
        command
            .env("MIMIR_TEAM_POLICY", &team)
            .envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let variables = [
        ("MIMIR_LIMITS__TIME_MS", "5000"),
        ("MIMIR_PROFILE", "compact"),
        ("MIMIR_TOOLS__GIT__ENABLED", "false"),
        ("MIMIR_POLICY__DENY", "[]"),
    ];
    let (_, out, _) = run(&["config", "get", "limits.timeMs", "--json"], &variables);
    let message = json(&out);
    assert_eq!(
        (&message["value"], &message["from"]),
        (&5000.into(), &"environment".into())
    );
    let (_, out, _) = run(&["tools", "info", "read_file", "--json"], &variables);
    let info = json(&out);
    assert_eq!(info["limits"]["timeMs"], 5000);
    assert_eq!(info["listed"], true, "a team has said which profile");
    let (code, _, err) = run(&["call", "git", "operation=status"], &variables);
    assert!(
        code == 3 && err.contains("MIMIR_TOOLS__GIT__ENABLED"),
        "{err}"
    );
    let (code, _, _) = run(&["call", "exec", "command=true"], &variables);
    assert_eq!(code, 3, "what a file forbids stays so");
    let (code, _, err) = run(&["tools", "enable", "git"], &variables);
    assert!(code == 3 && err.contains("for this run by"), "{err}");
    // The person wrote these settings, so what they allow needs no acceptance.
    let decided = |variables: &[_]| {
        let args = [
            "policy",
            "explain",
            "--json",
            "edit_file",
            "path=a",
            "pattern=x",
            "replacement=y",
        ];
        json(&run(&args, variables).1)["decision"].clone()
    };
    assert_eq!(decided(&[]), "ask");
    assert_eq!(
        decided(&[("MIMIR_TOOLS__EDIT_FILE__APPROVAL", "allow")]),
        "allow"
    );
    let (code, _, err) = run(&["tools"], &[("MIMIR_TOOLS__GIT__ENABLE", "true")]);
    assert!(
        code == 2 && err.contains("Did you mean `ENABLED`?"),
        "{err}"
    );
    let (code, _, err) = run(&["tools"], &[("MIMIR_LIMITS", "{timeMs: 3}")]);
    let way = "such as MIMIR_LIMITS__TIME_MS";
    assert!(code == 2 && err.contains(way), "{err}");
}

#[test]
fn config_warns_once_about_unknown_variables_on_stderr() {
    let home = with(b"");
    let mut command = mimir(home.path(), &["tools", "list", "--json"]);
    command.envs([("MIMIR_PROFLE", "compact"), ("MIMIR_ANYTHING", "x")]);
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    let told = "MIMIR_PROFLE is not used: it is not a setting; the closest one is MIMIR_PROFILE\n";
    assert!(err.ends_with(told), "{err}");
    assert_eq!(err.lines().count(), 2, "{err}");
    assert!(json(&String::from_utf8(output.stdout).unwrap())["tools"].is_array());
}

#[cfg(unix)]
#[test]
fn config_set_keeps_links_and_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = with(b"");
    let own = home.path().join(".mimir/config.yml");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |more: &[&str]| {
        let args = [&["config", "set", "profile", "compact"], more].concat();
        let (code, out, err) = run(home.path(), &args);
        (code, out + &err)
    };
    let permit = |path: &std::path::Path, mode: u32| {
        fs::write(path, "profile: fine\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let text = |path: &std::path::Path| fs::read_to_string(path).unwrap();
    for kept in [0o600, 0o640, 0o664] {
        permit(&own, kept);
        assert_eq!(set(&[]).0, 0);
        assert_eq!(
            (mode(&own), text(&own).as_str()),
            (kept, "profile: compact\n")
        );
    }
    permit(&own, 0o444);
    let (code, output) = set(&[]);
    assert!(
        code == 3 && output.contains("PERMISSION_DENIED") && output.contains("chmod u+w '/"),
        "{output}"
    );
    assert_eq!(
        (mode(&own), text(&own).as_str()),
        (0o444, "profile: fine\n")
    );
    fs::remove_file(&own).unwrap();
    assert_eq!(
        (set(&[]).0, mode(&own)),
        (0, 0o644),
        "a new file is for everybody"
    );

    // Within the workspace a link is followed, but nothing is written outside of it.
    let real = home.path().join("real.yml");
    permit(&real, 0o600);
    fs::remove_file(&own).unwrap();
    symlink("../real.yml", &own).unwrap();
    assert_eq!(set(&[]).0, 0);
    assert!(own.is_symlink() && !real.is_symlink());
    assert_eq!(
        (mode(&real), text(&real).as_str()),
        (0o600, "profile: compact\n")
    );
    let outside = tempfile::tempdir().unwrap();
    let far = outside.path().join("far.yml");
    permit(&far, 0o644);
    fs::remove_file(&own).unwrap();
    symlink(&far, &own).unwrap();
    let (code, output) = set(&[]);
    assert!(
        code == 3 && output.contains("outside of the workspace; edit the target directly"),
        "{output}"
    );
    assert!(own.is_symlink() && text(&far) == "profile: fine\n");
    fs::remove_file(&own).unwrap();
    symlink("../nothing.yml", &own).unwrap();
    let (code, output) = set(&[]);
    assert!(code == 1 && output.contains("remove the link"), "{output}");

    // The user's own settings may be anywhere.
    fs::remove_file(&own).unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    symlink(&far, user.join("config.yml")).unwrap();
    assert_eq!(set(&["--user"]).0, 0);
    assert!(user.join("config.yml").is_symlink());
    assert_eq!(text(&far), "profile: compact\n");
}

#[test]
fn config_check_warns_of_tools_that_do_not_exist() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &["init"]);
    let path = home.path().join(".mimir/config.yml");
    fs::write(
        &path,
        "tools: {gti: {enabled: false}, exec: {approval: ask}}\n",
    )
    .unwrap();
    let (code, out, _) = run(home.path(), &["config", "check"]);
    assert_eq!(code, 0);
    assert!(out.contains("warning:") && out.contains("`gti`"), "{out}");
    assert!(out.contains("git") && !out.contains("`exec`"), "{out}");
    let (_, out, _) = run(home.path(), &["config", "check", "--json"]);
    assert_eq!(json(&out)["warnings"].as_array().unwrap().len(), 1, "{out}");
}

#[test]
fn config_set_warns_about_a_setting_without_effect() {
    let home = with(b"");
    let (code, _, err) = run(
        home.path(),
        &["config", "set", "tools.web_fetch.retries", "3"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("tools.web_fetch.retries changes nothing"),
        "{err}"
    );
    let (_, out, err) = run(home.path(), &["config", "check"]);
    assert!(
        format!("{out}{err}").contains("retries changes nothing"),
        "{out}{err}"
    );
    assert!(out.contains("idempotent. remove the setting"), "{out}");

    let (code, _, err) = run(home.path(), &["config", "set", "tools.nosuch.retries", "2"]);
    assert_eq!(code, 0, "{err}");
    let expected = "tools.nosuch matches no available tool";
    assert!(err.contains(expected), "{err}");

    let (_, _, err) = run(
        home.path(),
        &["config", "set", "tools.read_file.retries", "3"],
    );
    assert!(!err.contains("changes nothing"), "{err}");
}
