//! `mimir setup`: the files of each agent, refusals, undo, and the first minute in a terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::{self, mimir};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A home, a project and a PATH.
struct Machine {
    folder: TempDir,
}

/// A folder in the home by which each agent is recognized.
const FOLDERS: [(&str, &str); 9] = [
    ("claude", ".claude"),
    ("codex", ".codex"),
    ("cursor", ".cursor"),
    ("vscode", ".vscode"),
    ("opencode", ".config/opencode"),
    ("zed", ".config/zed"),
    ("gemini", ".gemini"),
    ("qwen", ".qwen"),
    ("goose", ".config/goose"),
];

/// Files of agents, from the folder of the machine, with a text that has comments where the format allows them.
const FILES: [(&str, &str, &str); 9] = [
    (
        "claude",
        "project/.mcp.json",
        "{\"mcpServers\":{\"other\":{\"command\":\"x\"}}}",
    ),
    (
        "codex",
        "home/.codex/config.toml",
        "# mine\nmodel = 'm' # why\n\n[mcp_servers.other]\ncommand = 'x'\n",
    ),
    (
        "cursor",
        "project/.cursor/mcp.json",
        "{\n\t\"mcpServers\": {\n\t\t\"other\": { \"command\": \"x\" }\n\t}\n}",
    ),
    (
        "vscode",
        "project/.vscode/mcp.json",
        "{\n  // mine\n  \"inputs\": [],\n  \"servers\": {},\n}\n",
    ),
    (
        "opencode",
        "project/opencode.jsonc",
        "// mine\n{ \"theme\": \"dark\" }\n",
    ),
    (
        "zed",
        "project/.zed/settings.json",
        "{\r\n  /* mine */\r\n  \"tab_size\": 2\r\n}\r\n",
    ),
    ("gemini", "project/.gemini/settings.json", "{}"),
    (
        "qwen",
        "project/.qwen/settings.json",
        "{\n    \"a\": [1, 2],\n    \"mcpServers\": {\"b\": {\"url\": \"u\"}}\n}\n",
    ),
    (
        "goose",
        "home/.config/goose/config.yaml",
        "# mine\nGOOSE_MODEL: m # why\nextensions:\n  developer: {enabled: true}\n",
    ),
];

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn with_agents(agents: &[&str]) -> Self {
        let machine = Self::new();
        for (_, folder) in FOLDERS.iter().filter(|(name, _)| agents.contains(name)) {
            fs::create_dir_all(machine.path("home").join(folder)).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = mimir(&self.path("project"), args);
        command
            .env("MIMIR_CONFIG_DIR", self.path("config"))
            .env("HOME", self.path("home"))
            .env("PATH", self.path("bin"));
        for name in ["XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA", "USERPROFILE"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    /// The JSON result of a command that ends with this code.
    fn json(&self, args: &[&str], code: i32) -> Value {
        let (ended, out, err) = self.run(&[args, &["--json"]].concat());
        assert_eq!(ended, code, "{out}{err}");
        serde_json::from_str(&out).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// All paths of the project and the home.
    fn listing(&self) -> Vec<PathBuf> {
        let mut all = vec![];
        for name in ["project", "home"] {
            list(&self.path(name), &mut all);
        }
        all.sort();
        all
    }
}

fn list(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            list(&path, all);
        }
        all.push(path);
    }
}

/// The part of a report about an agent.
fn agent<'r>(report: &'r Value, name: &str) -> &'r Value {
    let agents = report["agents"].as_array().unwrap();
    let found = agents.iter().find(|agent| agent["agent"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

fn all_agents() -> Vec<&'static str> {
    FOLDERS.map(|(name, _)| name).to_vec()
}

#[test]
#[cfg_attr(windows, ignore = "expects the files of agents where Unix has them")]
fn setup_creates_the_files_of_all_agents_and_takes_them_back() {
    let machine = Machine::with_agents(&all_agents());
    let before = machine.listing();
    let report = machine.json(&["setup", "--yes"], 0);
    assert_eq!(report["applied"], true);
    for (name, ..) in FILES {
        assert_eq!(agent(&report, name)["state"], "done", "{report:#}");
    }
    let text = &report["firstCall"]["content"][0]["text"];
    assert_eq!(text, "lines: 1, words: 7, characters: 34");
    let program = kit::program();
    let parsed = |name| serde_json::from_str::<Value>(&machine.read(name)).unwrap();
    let plain = json!({ "command": program, "args": ["serve"] });
    assert_eq!(parsed("project/.mcp.json")["mcpServers"]["mimir"], plain);
    let servers = &parsed("project/.cursor/mcp.json")["mcpServers"];
    assert_eq!(
        servers["mimir"]["args"],
        json!(["serve", "-C", "${workspaceFolder}"])
    );
    let servers = &parsed("project/.vscode/mcp.json")["servers"];
    assert_eq!(servers["mimir"]["type"], "stdio");
    let servers = &parsed("project/opencode.json")["mcp"];
    assert_eq!(servers["mimir"]["command"], json!([program, "serve"]));
    let servers = &parsed("project/.zed/settings.json")["context_servers"];
    assert_eq!(servers["mimir"]["command"], program);
    for file in [
        "project/.gemini/settings.json",
        "project/.qwen/settings.json",
    ] {
        assert_eq!(parsed(file)["mcpServers"]["mimir"], plain);
    }
    let codex = machine.read("home/.codex/config.toml");
    assert_eq!(
        codex,
        format!("[mcp_servers.mimir]\ncommand = \"{program}\"\nargs = [\"serve\"]\n")
    );
    let goose = machine.read("home/.config/goose/config.yaml");
    assert!(goose.contains(&format!("cmd: {program}\n")), "{goose}");

    let set_up = machine.listing();
    let again = machine.json(&["setup"], 0);
    for (name, ..) in FILES {
        assert_eq!(agent(&again, name)["state"], "alreadySetUp");
    }
    assert_eq!(machine.listing(), set_up);

    let undone = machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(undone["failed"], json!([]), "{undone:#}");
    assert_eq!(machine.listing(), before);
    let (code, _, err) = machine.run(&["setup", "--undo", "--yes"]);
    assert!(code == 1 && err.contains("no setup is recorded"), "{err}");
    // The log of the next calls is a new one, and is not taken for one that was cut off.
    let (code, _, err) = machine.run(&["call", "list_directory", "path=."]);
    assert!(code == 0 && !err.contains("audit log"), "{err}");
}

#[test]
#[cfg_attr(windows, ignore = "expects the files of agents where Unix has them")]
fn setup_keeps_comments_and_order_and_undo_restores_every_byte() {
    let machine = Machine::with_agents(&all_agents());
    for (_, file, text) in FILES {
        machine.write(file, text);
    }
    let report = machine.json(&["setup", "--yes"], 0);
    for (name, file, text) in FILES {
        assert_eq!(agent(&report, name)["state"], "done", "{report:#}");
        let after = machine.read(file);
        assert!(after.contains("mimir"), "{after}");
        assert_eq!(after.contains("mine"), text.contains("mine"), "{after}");
        assert_eq!(after.contains("\r\n"), text.contains("\r\n"), "{after}");
    }
    assert!(!machine.path("project/opencode.json").exists());
    let codex = machine.read("home/.codex/config.toml");
    assert!(codex.starts_with(FILES[1].2), "{codex}");
    machine.json(&["setup", "--undo", "--yes"], 0);
    for (_, file, text) in FILES {
        assert_eq!(machine.read(file), text, "{file}");
    }
}

#[test]
#[cfg_attr(windows, ignore = "expects the files of agents where Unix has them")]
fn setup_skips_a_broken_file_and_sets_up_the_others() {
    for (name, file, _) in FILES {
        let machine = Machine::with_agents(&[name, "gemini", "qwen"]);
        let broken = "{\n  \"a\": [1, 2\n  = }\n";
        machine.write(file, broken);
        let report = machine.json(&["setup", "--yes"], 1);
        let failed = agent(&report, name);
        assert_eq!(failed["state"], "failed", "{name}");
        assert_eq!(failed["error"]["code"], "CONFIG_NOT_VALID", "{failed}");
        let message = failed["error"]["message"].as_str().unwrap();
        let position = message.split_once(&format!("{}:", machine.path(file).display()));
        let (_, position) = position.unwrap_or_else(|| panic!("{message}"));
        let numbers: Vec<_> = position.splitn(3, ':').take(2).collect();
        assert!(
            numbers.iter().all(|number| number.parse::<usize>().is_ok()),
            "{message}"
        );
        assert_eq!(machine.read(file), broken);
        let other = if name == "gemini" { "qwen" } else { "gemini" };
        assert_eq!(agent(&report, other)["state"], "done", "{report:#}");
    }
}

#[test]
fn setup_without_a_terminal_prints_the_plan_and_changes_nothing() {
    let machine = Machine::with_agents(&["codex", "vscode"]);
    let before = machine.listing();
    let (code, out, err) = machine.run(&["setup"]);
    assert_eq!(code, 3, "{err}");
    assert!(out.contains("+++ b/.vscode/mcp.json"), "{out}");
    assert!(out.contains("+[mcp_servers.mimir]"), "{out}");
    assert!(out.contains("not found    Claude Code, Cursor,"), "{out}");
    assert!(out.contains(".mimir/tools/word_count.yml"), "{out}");
    assert!(err.contains("`mimir setup --yes`"), "{err}");
    let plan = machine.json(&["setup"], 3);
    assert_eq!(plan["applied"], false);
    assert_eq!(agent(&plan, "codex")["state"], "planned");
    assert_eq!(agent(&plan, "claude")["state"], "notFound");
    assert_eq!(agent(&plan, "codex")["found"]["kind"], "folder");
    assert_eq!(machine.listing(), before);
    assert!(!machine.path("config").exists());
}

#[test]
fn setup_explains_an_approval_where_it_cannot_ask() {
    let machine = Machine::with_agents(&["vscode"]);
    let (code, out, err) = machine.run(&["setup", "--yes"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("$ mimir call word_count"), "{out}");
    assert!(out.contains("lines: 1, words: 7, characters: 34"), "{out}");
    assert!(out.contains("mimir setup --undo"), "{out}");
    assert!(
        out.contains("needs one: your agent shows you the exact call"),
        "{out}"
    );
    let example = ["call", "exec", "command=touch example.txt"];
    let (code, _, err) = machine.run(&example);
    assert!(out.contains("`mimir call exec 'command=touch example.txt'`"));
    assert!(code == 3 && err.contains("[APPROVAL_DENIED]"), "{err}");
    assert!(!machine.path("project/mimir-example.txt").exists());
    let (code, out, _) = machine.run(&["call", "word_count", "text=a b"]);
    assert_eq!((code, out.trim()), (0, "lines: 1, words: 2, characters: 3"));
    let (code, _, err) = machine.run(&["call", "word_count", "txt=a b"]);
    assert!(
        code == 2 && err.contains("`txt` is unknown: did you mean \"text\"?"),
        "{err}"
    );
}

#[test]
fn setup_of_a_machine_without_agents_fails_and_changes_nothing() {
    let machine = Machine::new();
    let before = machine.listing();
    for args in [&["setup"][..], &["setup", "--yes"]] {
        let (code, _, err) = machine.run(args);
        assert!(code == 1 && err.contains("[NO_AGENT]"), "{err}");
        assert!(
            err.contains("To fix this, do the following:\n  mimir setup --agent NAME"),
            "{err}"
        );
        let report = machine.json(args, 1);
        assert_eq!(report["error"]["code"], "NO_AGENT");
        assert_eq!(report["ok"], false);
        assert_eq!(report["applied"], false);
    }
    assert_eq!(machine.listing(), before);
    let report = machine.json(&["setup", "--agent", "claude", "--yes"], 0);
    assert_eq!(report["agents"].as_array().unwrap().len(), 1);
    assert!(machine.path("project/.mcp.json").exists());
    let (code, _, err) = machine.run(&["setup", "--agent", "emacs"]);
    assert!(code == 2 && err.contains("opencode"), "{err}");
    let (code, _, err) = machine.run(&["setup", "--agent", "copilot"]);
    assert!(code == 2 && err.contains("`--agent vscode`"), "{err}");
    let report = machine.json(&["setup", "--agent", "gemini-cli", "--yes"], 0);
    assert_eq!(agent(&report, "gemini")["state"], "done");
}

#[test]
fn setup_fails_if_the_only_file_is_broken_and_says_so_once() {
    let machine = Machine::with_agents(&["claude"]);
    machine.write("project/.mcp.json", "{ broken");
    let before = machine.listing();
    let (code, out, err) = machine.run(&["setup", "--yes"]);
    assert!(code == 1 && err.contains("[NO_USABLE_AGENT]"), "{err}");
    assert_eq!(out.matches("not valid JSON").count(), 1, "{out}");
    assert!(
        out.contains("add the lines of `mimir mcp config claude`"),
        "{out}"
    );
    assert_eq!(machine.listing(), before);
    let report = machine.json(&["setup", "--yes"], 1);
    assert_eq!(report["error"]["code"], "NO_USABLE_AGENT");
    assert_eq!(report["ok"], false);
    // With another agent, the setup goes on, and the message is not repeated.
    fs::create_dir(machine.path("home/.qwen")).unwrap();
    let (code, out, _) = machine.run(&["setup", "--yes"]);
    assert!(code == 1 && out.contains("set up in .qwen"), "{out}");
    assert_eq!(out.matches("not valid JSON").count(), 1, "{out}");
}

#[test]
fn setup_counts_a_config_file_of_the_project_as_an_agent() {
    let projects = FILES
        .iter()
        .filter(|(_, file, _)| file.starts_with("project/"));
    for (name, file, text) in projects {
        let machine = Machine::new();
        machine.write(file, text);
        let report = machine.json(&["setup", "--yes"], 0);
        assert_eq!(agent(&report, name)["found"]["kind"], "projectFile");
        assert_eq!(agent(&report, name)["state"], "done", "{report:#}");
        assert!(machine.read(file).contains("mimir"));
    }
}

#[test]
fn setup_in_a_folder_of_a_repository_uses_its_root() {
    let machine = Machine::with_agents(&["claude"]);
    fs::create_dir(machine.path("project/.git")).unwrap();
    let below = machine.path("project/a/b");
    fs::create_dir_all(&below).unwrap();
    let run = |args: &[&str]| {
        let mut command = machine.command(args);
        let output = command.current_dir(&below).output().unwrap();
        let code = output.status.code().unwrap();
        (code, String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run(&["setup"]);
    assert!(code == 3 && out.contains("mimir setup -C ."), "{out}");
    assert_eq!(run(&["setup", "--yes"]).0, 0);
    assert!(machine.path("project/.mcp.json").exists());
    assert!(machine.path("project/.mimir").exists());
    assert_eq!(run(&["setup", "--undo", "--yes"]).0, 0);
    assert!(!machine.path("project/.mcp.json").exists());
    assert!(!machine.path("project/.mimir").exists());
    // The folder alone, if it is named.
    assert_eq!(run(&["setup", "--yes", "-C", "."]).0, 0);
    assert!(below.join(".mcp.json").exists() && !machine.path("project/.mcp.json").exists());
}

#[test]
#[cfg(unix)]
fn setup_in_a_repository_does_not_use_the_folder_of_another_user() {
    use std::os::unix::fs::chown;
    let machine = Machine::with_agents(&["claude"]);
    fs::create_dir(machine.path("project/.git")).unwrap();
    let theirs = machine.path("project/.mimir");
    fs::create_dir(&theirs).unwrap();
    if chown(&theirs, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a folder to another user");
        return;
    }
    let below = machine.path("project/a");
    fs::create_dir(&below).unwrap();
    let mut command = machine.command(&["setup", "--yes"]);
    let output = command.current_dir(&below).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{err}");
    assert!(err.contains("belongs to another user"), "{err}");
    assert!(below.join(".mcp.json").exists() && below.join(".mimir").exists());
    assert!(!machine.path("project/.mcp.json").exists());
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
#[cfg(unix)]
fn setup_takes_a_script_that_starts_mimir_for_mimir() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::with_agents(&["claude", "gemini", "qwen"]);
    // As npm and version managers put one on the PATH.
    machine.write("bin/mimir", "#!/usr/bin/env node\n");
    let script = machine.path("bin/mimir");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let entry = |command: &str| json!({ "mcpServers": { "mimir": { "command": command, "args": ["serve"] } } });
    machine.write("project/.mcp.json", &entry("mimir").to_string());
    let by_path = entry(script.to_str().unwrap()).to_string();
    machine.write("project/.gemini/settings.json", &by_path);
    let report = machine.json(&["setup", "--yes"], 0);
    for name in ["claude", "gemini"] {
        assert_eq!(agent(&report, name)["state"], "alreadySetUp", "{report:#}");
    }
    assert_eq!(agent(&report, "qwen")["state"], "done");
    let qwen = machine.read("project/.qwen/settings.json");
    assert!(qwen.contains("\"command\": \"mimir\""), "{qwen}");
}

#[test]
#[cfg(unix)]
fn setup_replaces_an_entry_that_starts_a_script_of_the_project() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::with_agents(&["claude"]);
    machine.write("project/tools/mimir", "#!/bin/sh\n");
    let script = machine.path("project/tools/mimir");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let entry = json!({ "mcpServers": { "mimir": { "command": script, "args": ["serve"] } } });
    machine.write("project/.mcp.json", &entry.to_string());
    let report = machine.json(&["setup", "--yes"], 0);
    assert_eq!(agent(&report, "claude")["state"], "done", "{report:#}");
    let text = machine.read("project/.mcp.json");
    assert!(
        text.contains(&kit::program()) && !text.contains("tools"),
        "{text}"
    );
}

#[test]
#[cfg(unix)]
fn setup_finds_a_program_and_writes_the_name_of_its_own() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let machine = Machine::new();
    machine.write("bin/claude", "#!/bin/sh\n");
    let program = machine.path("bin/claude");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_mimir"), machine.path("bin/mimir")).unwrap();
    let report = machine.json(&["setup", "--yes"], 0);
    assert_eq!(
        agent(&report, "claude")["found"],
        json!({ "kind": "program", "path": program })
    );
    let text = machine.read("project/.mcp.json");
    assert!(text.contains("\"command\": \"mimir\""), "{text}");
}

#[test]
fn setup_leaves_an_entry_that_starts_mimir_and_shows_another_one() {
    let machine = Machine::with_agents(&["claude", "gemini"]);
    let project = machine.path("project");
    let program = kit::program();
    let mine = json!({ "mcpServers": { "mimir": {
        "command": program, "args": ["serve", "-C", project], "env": { "A": "b" },
    } } });
    machine.write("project/.mcp.json", &mine.to_string());
    machine.write(
        "project/.gemini/settings.json",
        "{\n  \"mcpServers\": {\n    \"mimir\": {\n      \"command\": \"old\"\n    }\n  }\n}\n",
    );
    let plan = machine.json(&["setup"], 3);
    assert_eq!(agent(&plan, "claude")["state"], "alreadySetUp");
    assert_eq!(agent(&plan, "gemini")["replacesEntry"], true);
    let diff = agent(&plan, "gemini")["diff"].as_str().unwrap();
    assert!(diff.contains("-      \"command\": \"old\"\n"), "{diff}");
    let (_, out, _) = machine.run(&["setup"]);
    assert!(out.contains("its entry `mimir` is different"), "{out}");
    machine.json(&["setup", "--yes"], 0);
    assert_eq!(machine.read("project/.mcp.json"), mine.to_string());
    let text = machine.read("project/.gemini/settings.json");
    assert!(!text.contains("old"), "{text}");
}

#[test]
fn setup_masks_secrets_around_a_change() {
    let machine = Machine::with_agents(&["codex"]);
    let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    machine.write(
        "home/.codex/config.toml",
        &format!("[mcp_servers.a]\ncommand = 'x'\nenv = {{ TOKEN = '{secret}' }}\n"),
    );
    let (_, out, _) = machine.run(&["setup"]);
    assert!(
        out.contains("[mcp_servers.mimir]") && !out.contains(&secret),
        "{out}"
    );
    machine.json(&["setup", "--yes"], 0);
    assert!(machine.read("home/.codex/config.toml").contains(&secret));
    // The record has the whole file, and is readable by its owner only.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let record = machine.path("config/workspaces/user.setup");
        let mode = record.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::read_to_string(record).unwrap().contains(&secret));
    }
}

#[test]
#[cfg(unix)]
fn setup_follows_links_of_the_user_and_refuses_those_out_of_the_project() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let machine = Machine::with_agents(&["codex", "claude", "cursor", "gemini"]);
    machine.write("home/dotfiles/codex.toml", "model = 'm'\n");
    let dotfile = machine.path("home/dotfiles/codex.toml");
    fs::set_permissions(&dotfile, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&dotfile, machine.path("home/.codex/config.toml")).unwrap();
    machine.write("home/outside.json", "{}");
    symlink(
        machine.path("home/outside.json"),
        machine.path("project/.mcp.json"),
    )
    .unwrap();
    fs::create_dir(machine.path("home/elsewhere")).unwrap();
    symlink(
        machine.path("home/elsewhere"),
        machine.path("project/.cursor"),
    )
    .unwrap();
    symlink("missing.json", machine.path("project/.gemini")).unwrap();
    let report = machine.json(&["setup", "--yes"], 1);
    let code = |name| agent(&report, name)["error"]["code"].as_str();
    assert_eq!(code("claude"), Some("CONFIG_OUTSIDE_PROJECT"));
    assert_eq!(code("cursor"), Some("CONFIG_OUTSIDE_PROJECT"));
    assert_eq!(code("gemini"), Some("CONFIG_BROKEN_LINK"));
    assert_eq!(machine.read("home/outside.json"), "{}");
    assert_eq!(
        fs::read_dir(machine.path("home/elsewhere"))
            .unwrap()
            .count(),
        0
    );
    let codex = agent(&report, "codex");
    assert_eq!(codex["state"], "done");
    assert_eq!(codex["target"], json!(dotfile.canonicalize().unwrap()));
    assert!(machine.path("home/.codex/config.toml").is_symlink());
    assert!(fs::read_to_string(&dotfile).unwrap().contains("mimir"));
    let mode = fs::metadata(&dotfile).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(fs::read_to_string(&dotfile).unwrap(), "model = 'm'\n");
    assert!(machine.path("home/.codex/config.toml").is_symlink());
}

#[test]
#[cfg(unix)]
fn setup_reports_a_file_that_cannot_be_written_and_goes_on() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::with_agents(&["claude", "zed", "gemini", "qwen"]);
    machine.write("project/.mcp.json", "{}");
    let read_only = |name: &str, mode| {
        fs::set_permissions(machine.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    read_only("project/.mcp.json", 0o444);
    // A file where a folder is needed.
    machine.write("project/.zed", "");
    // Root may write there; everybody else gets an error.
    fs::create_dir(machine.path("project/.gemini")).unwrap();
    read_only("project/.gemini", 0o555);
    let may_write = fs::write(machine.path("project/.gemini/x"), "").is_ok();
    let report = machine.json(&["setup", "--yes"], 1);
    for name in ["claude", "zed"] {
        assert_eq!(agent(&report, name)["state"], "failed", "{report:#}");
        assert_eq!(agent(&report, name)["error"]["code"], "FILE_ERROR");
    }
    let gemini = if may_write { "done" } else { "failed" };
    assert_eq!(agent(&report, "gemini")["state"], gemini);
    assert_eq!(agent(&report, "qwen")["state"], "done");
    assert_eq!(machine.read("project/.mcp.json"), "{}");
    // A failed change is not recorded, so nothing is taken back from it.
    machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(machine.read("project/.mcp.json"), "{}");
    read_only("project/.gemini", 0o755);
}

#[test]
fn setup_in_a_workspace_with_tools_makes_no_tool_and_keeps_it_all() {
    let machine = Machine::with_agents(&["qwen"]);
    machine.write("project/.mimir/config.yml", "profile: compact\n");
    machine.write("project/.mimir/tools/mine.yml", "name: mine\n");
    let report = machine.json(&["setup", "--yes"], 0);
    assert_eq!(report["created"], json!([]));
    assert_eq!(report.get("firstCall"), None);
    // Without an answer, the record stays, too, although no file would change.
    fs::remove_file(machine.path("project/.qwen/settings.json")).unwrap();
    let (code, _, err) = machine.run(&["setup", "--undo"]);
    assert!(code == 3 && err.contains("nothing was changed"), "{err}");
    machine.json(&["setup", "--undo", "--yes"], 0);
    assert_eq!(
        machine.read("project/.mimir/tools/mine.yml"),
        "name: mine\n"
    );
    assert_eq!(
        machine.read("project/.mimir/config.yml"),
        "profile: compact\n"
    );
}

#[test]
fn setup_of_the_home_folder_is_refused() {
    let machine = Machine::with_agents(&["claude"]);
    let home = machine.path("home").display().to_string();
    let config = machine.path("home/.config/mimir");
    let output = machine.command(&["setup", "--yes", "-C", &home]);
    let output = { output }.env("MIMIR_CONFIG_DIR", config).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot be a workspace"), "{err}");
    assert!(!machine.path("home/.mcp.json").exists());
}

#[test]
fn program_without_a_command_leads_to_a_first_success() {
    let machine = Machine::new();
    let (code, out, _) = machine.run(&[]);
    assert_eq!(code, 0);
    for command in [
        "mimir setup",
        "mimir call list_directory path=.",
        "mimir help",
    ] {
        assert!(out.contains(command), "{out}");
    }
    assert!(out.lines().count() < 10, "{out}");
    let (code, _, err) = machine.run(&["call", "list_directory", "path=."]);
    assert_eq!(code, 0, "{err}");
    fs::create_dir_all(machine.path("project/.mimir")).unwrap();
    let (code, out, _) = machine.run(&[]);
    assert!(code == 0 && out.contains("Usage: mimir"), "{out}");
}

#[test]
fn slips_are_answered_with_the_command_to_type() {
    let machine = Machine::new();
    for (line, wanted) in [
        ("install x.wasm", "`mimir tools add x.wasm`"),
        ("uninstall", "`mimir setup --undo`"),
        ("remove", "`mimir setup --undo`"),
        ("tool list", "`mimir tools list`"),
        ("new", "`mimir tools new NAME`"),
        ("read_file path=x", "`mimir call read_file path=x`"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (code, out, err) = machine.run(&words);
        assert!(code == 2 && out.is_empty() && err.contains(wanted), "{err}");
        let answer = machine.json(&words, 2);
        assert_eq!(answer["error"]["code"], "INVALID_INPUT");
    }
}

#[cfg(target_os = "linux")]
mod terminal;
mod undo;
