//! Settings keys that only the whole program enforces. `tests/keys` relies on these tests.

use crate::kit;
use std::fs;
#[cfg(target_os = "linux")]
use std::{
    io::Read,
    process::{Command, Stdio},
    time::Duration,
};

use crate::kit::{mimir, run};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with this user config.
fn home(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("config.yml"), config).unwrap();
    home
}

fn json(home: &TempDir, args: &[&str]) -> Value {
    let (code, out, err) = run(home.path(), args);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn config_profile_selects_the_tools_for_models() {
    for (config, seen, hidden) in [
        ("", "read_file", "file_operations"),
        ("profile: fine\n", "read_file", "file_operations"),
        ("profile: compact\n", "file_operations", "read_file"),
    ] {
        let schema = json(&home(config), &["schema"]);
        let tools = schema.as_array().unwrap().iter();
        let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(
            names.contains(&seen) && !names.contains(&hidden),
            "{config}{names:?}"
        );
    }
}

#[test]
fn config_can_disable_loading_of_custom_tools() {
    for (config, read) in [
        ("", true),
        ("tools: {autoLoadCustomTools: true}\n", true),
        ("tools: {autoLoadCustomTools: false}\n", false),
    ] {
        let home = home(config);
        fs::create_dir_all(home.path().join(".mimir/tools")).unwrap();
        fs::write(home.path().join(".mimir/tools/broken.wasm"), "no component").unwrap();
        let list = json(&home, &["tools", "list", "--json"]);
        assert!(list["tools"].as_array().unwrap().len() > 5);
        // The quarantine shows that the file was inspected.
        let looked_at = list["quarantined"].as_array().unwrap().len() == 1;
        assert_eq!(looked_at, read, "{config}{list}");
    }
}

#[test]
fn secret_from_an_environment_variable_is_masked() {
    const VALUE: &str = "plain words in nobody's rules";
    for (config, masked) in [
        ("", false),
        ("secrets: {MINE: {env: MIMIR_TEST_SECRET}}\n", true),
        ("secrets: {MINE: {env: MIMIR_TEST_ANOTHER}}\n", false),
    ] {
        let home = home(config);
        fs::write(home.path().join("notes.txt"), format!("it says {VALUE}.")).unwrap();
        let mut command = mimir(home.path(), &["call", "read_file", "path=notes.txt"]);
        let output = command.env("MIMIR_TEST_SECRET", VALUE).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("it says "), "{shown}");
        assert_eq!(!shown.contains(VALUE), masked, "{shown}");
    }
}

/// A project's settings that only make the policy stricter apply before a person has accepted them.
#[test]
fn secret_of_an_unaccepted_project_is_masked() {
    const VALUE: &str = "plain words in nobody's rules";
    let home = home("");
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    let project = "secrets: {MINE: {env: MIMIR_TEST_SECRET}}\napprovals: {timeoutMs: 3000}\n";
    fs::write(home.path().join(".mimir/config.yml"), project).unwrap();
    fs::write(home.path().join("notes.txt"), format!("it says {VALUE}.")).unwrap();
    let mut command = mimir(home.path(), &["call", "read_file", "path=notes.txt"]);
    let output = command.env("MIMIR_TEST_SECRET", VALUE).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("it says ") && !shown.contains(VALUE),
        "{shown}"
    );
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("secrets.MINE") && text.contains("`mimir policy accept`"),
        "{text}"
    );
    assert!(!text.contains("approvals"), "it counts: {text}");
    // It is not passed to tools: it is not one of the available secrets.
    let mut list = mimir(home.path(), &["secrets", "list", "--json"]);
    let list = list.env("MIMIR_TEST_SECRET", VALUE).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(!list.contains("MINE"), "{list}");
}

/// A person who does not answer the prompt, in a terminal that `script` provides.
#[test]
#[cfg(target_os = "linux")]
fn approval_prompt_times_out_as_configured() {
    for (config, ends) in [("approvals: {timeoutMs: 1200}\n", true), ("", false)] {
        let home = home(config);
        fs::write(home.path().join("notes.txt"), "notes").unwrap();
        let call = concat!(
            "'",
            env!("CARGO_BIN_EXE_mimir"),
            "' call delete_file path=notes.txt"
        );
        let alone = mimir(home.path(), &[]);
        let spawned = Command::new("script")
            .args(["-qefc", call, "/dev/null"])
            .current_dir(home.path())
            .envs(
                alone
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut terminal) = spawned else {
            eprintln!("not tested: there is no `script` here");
            return;
        };
        let mut out = terminal.stdout.take().unwrap();
        let mut output = String::new();
        let mut more = [0; 1024];
        while !output.contains("[n]o > ") {
            let read = out.read(&mut more).unwrap();
            assert_ne!(read, 0, "{output}");
            output += &String::from_utf8_lossy(&more[..read]);
        }
        if ends {
            out.read_to_string(&mut output).unwrap();
            assert!(
                output.contains("within 1.2 s (approvals.timeoutMs)"),
                "{output}"
            );
            drop(terminal.stdin.take());
            assert_eq!(terminal.wait().unwrap().code(), Some(3));
        } else {
            std::thread::sleep(Duration::from_secs(1));
            assert!(
                terminal.try_wait().unwrap().is_none(),
                "the default is minutes"
            );
            terminal.kill().unwrap();
            terminal.wait().unwrap();
        }
        assert!(home.path().join("notes.txt").exists());
    }
}
