//! `mimir setup --undo`.

use super::*;

#[test]
fn setup_undo_keeps_a_file_of_the_user_for_other_projects() {
    let machine = Machine::with_agents(&["codex", "goose", "claude"]);
    let other = machine.path("other");
    fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    machine.json(&["setup", "--yes"], 0);
    let report = machine.json(&["setup", "--yes", "-C", &other], 0);
    assert_eq!(agent(&report, "codex")["state"], "alreadySetUp");
    let (_, out, _) = machine.run(&["setup", "--undo"]);
    assert!(
        out.contains("stays, because other projects use it"),
        "{out}"
    );
    let undone = machine.json(&["setup", "--undo", "--yes"], 0);
    let results: Vec<_> = undone["files"].as_array().unwrap().iter().collect();
    for name in ["Codex", "Goose"] {
        let file = results.iter().find(|file| file["agent"] == name).unwrap();
        assert_eq!(file["result"], "stillUsed", "{undone:#}");
        assert!(file["usedBy"][0].as_str().unwrap().ends_with("other"));
    }
    assert!(!machine.path("project/.mcp.json").exists());
    assert!(machine.read("home/.codex/config.toml").contains("mimir"));
    let (code, _, err) = machine.run(&["setup", "--undo", "--yes"]);
    assert!(code == 1 && err.contains("no setup is recorded"), "{err}");
    // The last project takes the entries with it.
    machine.json(&["setup", "--undo", "--yes", "-C", &other], 0);
    assert!(!machine.path("home/.codex/config.toml").exists());
    assert!(!machine.path("home/.config/goose/config.yaml").exists());
    let records = fs::read_dir(machine.path("config/workspaces")).unwrap();
    let mut names = records.map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| name == "user.turn"), "only the lock");
}

#[test]
#[cfg_attr(windows, ignore = "expects the files of agents where Unix has them")]
fn setup_undo_restores_the_entry_that_a_later_setup_replaced() {
    let machine = Machine::with_agents(&["codex"]);
    let other = machine.path("other");
    fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    machine.json(&["setup", "--yes"], 0);
    let mine = "# mine\n[mcp_servers.mimir]\ncommand = 'mine'\n";
    machine.write("home/.codex/config.toml", mine);
    let report = machine.json(&["setup", "--yes", "-C", &other], 0);
    assert_eq!(agent(&report, "codex")["replacesEntry"], true);
    assert!(!machine.read("home/.codex/config.toml").contains("'mine'"));
    machine.json(&["setup", "--undo", "--yes"], 0);
    machine.json(&["setup", "--undo", "--yes", "-C", &other], 0);
    assert_eq!(machine.read("home/.codex/config.toml"), mine);

    // An entry that is replaced after the last setup is not taken back.
    machine.json(&["setup", "--yes"], 0);
    machine.write("home/.codex/config.toml", mine);
    let (_, out, _) = machine.run(&["setup", "--undo"]);
    assert!(out.contains("has another entry `mimir`"), "{out}");
    let undone = machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(undone["files"][0]["result"], "unchanged", "{undone:#}");
    assert_eq!(undone["files"][0]["keepsEntry"], true);
    assert_eq!(machine.read("home/.codex/config.toml"), mine);
}

#[test]
#[cfg_attr(windows, ignore = "expects the files of agents where Unix has them")]
fn setup_undo_of_changed_files_removes_only_the_entry() {
    let machine = Machine::with_agents(&all_agents());
    for (_, file, text) in FILES {
        machine.write(file, text);
    }
    machine.json(&["setup", "--yes"], 0);
    for (_, file, _) in FILES {
        let text = machine.read(file);
        let (mark, changed) = match file.rsplit_once('.') {
            Some((_, "json" | "jsonc")) => ("// later\n", text),
            _ => ("# later\n", text),
        };
        machine.write(file, &format!("{mark}{changed}"));
    }
    machine.write("project/.mimir/config.yml", "profile: compact\n");
    let (code, out, _) = machine.run(&["setup", "--undo"]);
    assert_eq!(code, 3);
    assert!(
        out.contains("only its entry `mimir` would be taken back"),
        "{out}"
    );
    assert!(out.contains("stay:\n  .mimir/config.yml"), "{out}");
    let undone = machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(undone["failed"], json!([]), "{undone:#}");
    for (_, file, text) in FILES {
        let after = machine.read(file);
        assert!(after.contains("later"), "{after}");
        assert!(!after.contains("mimir"), "{after}");
        assert_eq!(after.contains("mine"), text.contains("mine"), "{after}");
    }
    assert_eq!(
        machine.read("project/.mimir/config.yml"),
        "profile: compact\n"
    );
    assert!(!machine.path("project/.mimir/tools").exists());
}

#[test]
fn setup_undo_with_a_broken_file_can_be_repeated() {
    let machine = Machine::with_agents(&["claude", "qwen"]);
    machine.json(&["setup", "--yes"], 0);
    let text = machine.read("project/.mcp.json");
    machine.write("project/.mcp.json", "{ broken");
    let undone = machine.json(&["setup", "--undo", "--yes"], 1);
    assert_eq!(undone["failed"][0]["code"], "CONFIG_NOT_VALID");
    assert!(!machine.path("project/.qwen").exists());
    machine.write("project/.mcp.json", &text);
    machine.json(&["setup", "--undo", "--yes"], 0);
    assert!(!machine.path("project/.mcp.json").exists());
}
