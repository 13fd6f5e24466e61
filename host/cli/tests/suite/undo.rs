//! `mimir undo` after real calls: its output, refusals, and audit log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::kit;
use serde_json::{Value, json};

/// A workspace with a file that a tool has overwritten.
fn changed() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "old").unwrap();
    let write = ["call", "write_file", "path=a.txt", "content=new"];
    let (code, _, err) = run(
        home.path(),
        &[&write[..], &["--approve", "always"]].concat(),
    );
    assert_eq!(code, 0, "{err}");
    let backups = fs::read_dir(home.path().join(".mimir/state/backups")).unwrap();
    let mut records = backups
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    let record = records.next().unwrap();
    (home, record)
}

fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(kit::program())
        .args(args)
        .current_dir(home)
        .env("MIMIR_CONFIG_DIR", kit::target_folder("no-config"))
        .env("MIMIR_CACHE_DIR", kit::target_folder("cache"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn content(home: &Path) -> String {
    fs::read_to_string(home.join("a.txt")).unwrap()
}

/// The last line of the audit log.
fn last_event(home: &Path) -> Value {
    let log = fs::read_to_string(home.join(".mimir/state/audit.jsonl")).unwrap();
    serde_json::from_str(log.lines().last().unwrap()).unwrap()
}

#[test]
fn undo_reverts_the_newest_change_and_records_it() {
    let (home, record) = changed();
    let id = record.file_stem().unwrap().to_str().unwrap().to_owned();
    let (code, out, err) = run(home.path(), &["undo"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(content(home.path()), "old");
    for part in ["write_file", &id, "second", "restored a.txt"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let event = last_event(home.path());
    assert_eq!(
        (&event["event"], &event["id"], &event["tool"], &event["ok"]),
        (
            &"undo".into(),
            &id.as_str().into(),
            &"write_file".into(),
            &true.into()
        )
    );
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 1 && err.contains("no change is recorded"), "{err}");
}

/// A tool that changes files in each attempt, and fails in the first two.
const FLAKY: &str = r#"import { defineTool } from "mimir";

export const flaky = defineTool({
  description: "Writes files, and fails twice.",
  inputSchema: { type: "object", properties: {} },
  needsApproval: false,
  hints: { idempotent: true },
  needs: { files: [{ path: "work", access: "read-write" }] },
  async execute(_, { platform: { fs } }) {
    const before = await fs.readFile("work/a.txt");
    await fs.writeFile("work/a.txt", before + "+");
    if (before.endsWith("++")) return "done";
    await fs.writeFile("work/only-first.txt", "x");
    throw Object.assign(new Error("not yet"), { code: "UNAVAILABLE" });
  },
});
"#;

#[test]
fn undo_reverts_all_attempts_of_a_retried_call() {
    let home = tempfile::tempdir().unwrap();
    for folder in [".mimir", "work"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    let settings = "tools: {flaky: {retries: {max: 2, delayMs: 1}}}\n";
    fs::write(home.path().join(".mimir/config.yml"), settings).unwrap();
    fs::write(home.path().join("flaky.ts"), FLAKY).unwrap();
    let changed = home.path().join("work/a.txt");
    fs::write(&changed, "original").unwrap();
    for args in [
        &["policy", "accept", "--yes"][..],
        &["tools", "build", "flaky.ts"],
        &["call", "flaky", "--approve", "always"],
    ] {
        let (code, out, err) = kit::run(home.path(), args);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
    }
    assert_eq!(fs::read_to_string(&changed).unwrap(), "original+++");
    let (code, out, err) = kit::run(home.path(), &["undo"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(fs::read_to_string(&changed).unwrap(), "original");
    assert!(!home.path().join("work/only-first.txt").exists(), "{out}");
}

#[test]
fn undo_of_old_changes_needs_yes_or_id() {
    for word in ["--yes", "ID"] {
        let (home, path) = changed();
        let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record["time"] = "2020-01-01T00:00:00.000Z".into();
        fs::write(&path, record.to_string()).unwrap();
        let id = record["id"].as_str().unwrap();
        let (code, out, err) = run(home.path(), &["undo"]);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        for part in ["a.txt", "write_file", "days old", id, "--yes"] {
            assert!(err.contains(part), "{part}: {err}");
        }
        assert_eq!(content(home.path()), "new");
        let word = if word == "ID" { id } else { word };
        let (code, _, err) = run(home.path(), &["undo", word]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(content(home.path()), "old");
    }
}

#[test]
fn undo_reverts_one_change_of_a_file_after_another() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let path = root.join("a.txt");
    call(root, "write_file", &["path=a.txt", "content=first"]);
    call(root, "write_file", &["path=a.txt", "content=and second"]);
    call(
        root,
        "edit_file",
        &["path=a.txt", "pattern=and", "replacement=the"],
    );
    call(root, "move_file", &["from=a.txt", "to=b.txt"]);
    call(root, "delete_file", &["path=b.txt"]);
    // The same content with another time is no change.
    let expected = [
        ("b.txt", Some("the second")),
        ("a.txt", Some("the second")),
        ("a.txt", Some("and second")),
        ("a.txt", Some("first")),
        ("a.txt", None),
    ];
    for (name, text) in expected {
        let (code, _, err) = run(root, &["undo"]);
        assert_eq!(code, 0, "{name}: {err}");
        let now = fs::read_to_string(root.join(name)).ok();
        assert_eq!(now.as_deref(), text, "{name}");
    }
    assert!(!path.exists());
}

#[test]
fn undo_conflict_is_refused_and_recorded() {
    let (home, _) = changed();
    fs::write(home.path().join("a.txt"), "mine").unwrap();
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 3 && err.contains("[ALREADY_EXISTS]"), "{err}");
    assert_eq!(content(home.path()), "mine");
    let event = last_event(home.path());
    assert_eq!(
        (&event["event"], &event["ok"], &event["code"]),
        (&"undo".into(), &false.into(), &"ALREADY_EXISTS".into())
    );
}

#[test]
#[cfg(unix)]
fn undo_without_a_writable_audit_log_is_refused() {
    let (home, _) = changed();
    let log = home.path().join(".mimir/state/audit.jsonl");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let (code, _, err) = run(home.path(), &["undo"]);
    assert!(code == 1 && err.contains("[UNAVAILABLE]"), "{err}");
    assert_eq!(content(home.path()), "new");
}

#[test]
#[cfg(unix)]
fn undo_restores_a_folder_with_links() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir_all(root.join("app/.venv/bin")).unwrap();
    fs::write(root.join("app/.venv/pyvenv.cfg"), "home = /usr/bin").unwrap();
    symlink("/usr/bin/python3", root.join("app/.venv/bin/python")).unwrap();
    symlink("python", root.join("app/.venv/bin/python3")).unwrap();
    for call in [
        &["delete_file", "path=app", "recursive=true"][..],
        &["move_file", "from=app/.venv", "to=venv"],
    ] {
        let (code, _, err) = run(root, &[&["call", "--approve", "always"], call].concat());
        assert_eq!(code, 0, "{err}");
        assert!(!root.join("app/.venv").exists(), "{call:?}");
        let (code, _, err) = run(root, &["undo"]);
        assert_eq!(code, 0, "{err}");
        assert!(!root.join("venv").exists());
        let link = |name: &str| fs::read_link(root.join("app/.venv/bin").join(name)).unwrap();
        assert_eq!(link("python"), Path::new("/usr/bin/python3"));
        assert_eq!(link("python3"), Path::new("python"));
        assert_eq!(
            fs::read_to_string(root.join("app/.venv/pyvenv.cfg")).unwrap(),
            "home = /usr/bin"
        );
    }
}

/// The output of a call that succeeds.
fn call(root: &Path, tool: &str, args: &[&str]) -> String {
    let (code, out, err) = run(
        root,
        &[&["call", "--approve", "always", tool], args].concat(),
    );
    assert_eq!(code, 0, "{err}");
    out
}

#[test]
#[cfg(unix)]
fn undo_restores_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let modes = [
        ("d/tool", 0o700),
        ("d/tool/secret.txt", 0o600),
        ("d/tool/run.sh", 0o755),
        ("d/tool/shut", 0o550),
        ("d", 0o750),
    ];
    fs::create_dir_all(root.join("d/tool/shut")).unwrap();
    for (path, mode) in modes {
        let path = root.join(path);
        if !path.is_dir() {
            fs::write(&path, "content").unwrap();
        }
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for (tool, args) in [
        ("delete_file", &["path=d", "recursive=true"][..]),
        ("delete_file", &["path=d/tool/run.sh"]),
        ("move_file", &["from=d", "to=e"]),
        ("move_file", &["from=d/tool/secret.txt", "to=d/other.txt"]),
    ] {
        call(root, tool, args);
        let (code, _, err) = run(root, &["undo"]);
        assert_eq!(code, 0, "{err}");
        for (path, mode) in modes {
            let now = fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(now & 0o7777, mode, "{path} after {tool} {args:?}");
        }
    }
}

#[test]
fn undo_does_not_skip_an_irreversible_change() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    call(root, "write_file", &["path=a.txt", "content=only here"]);
    // Larger than the backup limit of a move.
    let big = fs::File::create(root.join("big")).unwrap();
    big.set_len(65 << 20).unwrap();
    // On Windows, an open file may stay until it is closed.
    drop(big);
    let told = call(root, "move_file", &["from=big", "to=large"]);
    assert!(
        told.contains("`mimir undo` cannot undo this move"),
        "{told}"
    );
    let (code, out, err) = run(root, &["undo", "--yes"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    for part in ["big, large", "move_file", "moving it back", "--list"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(root.join("large").exists());
    call(root, "delete_file", &["path=large", "backup=false"]);
    let (code, _, err) = run(root, &["undo"]);
    assert!(code == 1 && err.contains("backup: false"), "{err}");
    assert_eq!(content(root), "only here");
    let (_, list, _) = run(root, &["undo", "--list"]);
    assert_eq!(list.matches("(can't be taken back)").count(), 2, "{list}");
    // An older change can be undone by its name, and undo keeps a backup of its own.
    let id = list
        .lines()
        .last()
        .and_then(|line| line.split(' ').next())
        .unwrap();
    let (code, out, err) = run(root, &["undo", id, "--json"]);
    assert_eq!(code, 0, "{err}");
    assert!(!root.join("a.txt").exists());
    let out: Value = serde_json::from_str(&out).unwrap();
    let copy = root.join(out["copies"]["a.txt"].as_str().unwrap());
    assert_eq!(fs::read_to_string(copy).unwrap(), "only here");
}

#[test]
fn undo_force_backs_up_replaced_files() {
    let (home, _) = changed();
    fs::write(home.path().join("a.txt"), "mine").unwrap();
    let (code, out, err) = run(home.path(), &["undo", "--force"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(content(home.path()), "old");
    let folder = out.lines().last().and_then(|line| line.rsplit(' ').next());
    let kept = fs::read_dir(home.path().join(folder.unwrap())).unwrap();
    let mut kept = kept.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    assert!(kept.any(|text| text == "mine"), "{out}");
}

/// A record that a checkout may contain, with the copy that it names.
fn planted(root: &Path, time: &str, path: &str, before: &Value) -> &'static str {
    let backups = root.join(".mimir/state/backups");
    fs::create_dir_all(backups.join("zzz9")).unwrap();
    fs::write(backups.join("zzz9/0"), "evil").unwrap();
    let change = json!({"path": path, "before": before, "after": {"kind": "absent"}});
    let record = json!({"id": "zzz9", "tool": "write_file", "time": time, "changes": [change]});
    fs::write(backups.join("zzz9.json"), record.to_string()).unwrap();
    "zzz9"
}

#[test]
fn undo_ignores_planted_records() {
    let (home, _) = changed();
    let root = home.path();
    let sha256 = "b5c1fb2efc6d6b4674c2fdcc48ce01b43a3b7c03763c0c3355de0099ee0f8c73";
    let file = json!({"kind": "file", "sha256": sha256, "backup": "zzz9/0"});
    let soon = now();
    for (time, why) in [
        ("2099-01-01T00:00:00.000Z", "dated in the future"),
        (soon.as_str(), "no call in the audit log"),
    ] {
        let id = planted(root, time, "b.txt", &file);
        let (code, out, err) = run(root, &["undo"]);
        assert_eq!((code, out.as_str()), (3, ""), "{err}");
        assert!(err.contains(why) && err.contains(id), "{err}");
        let (code, _, err) = run(root, &["undo", "--yes"]);
        assert!(code == 3 && err.contains("audit log"), "{err}");
    }
    assert_eq!(content(root), "new");
    // Naming it does not give it access to every path either.
    for (path, before) in [
        (".env", file.clone()),
        ("docs/key.pem", file),
        ("link", json!({"kind": "link", "target": "/etc/passwd"})),
        ("a/link", json!({"kind": "link", "target": "../../up"})),
    ] {
        let id = planted(root, &soon, path, &before);
        let (code, _, err) = run(root, &["undo", id, "--force"]);
        assert!(
            code == 3 && err.contains("[PERMISSION_DENIED]"),
            "{path}: {err}"
        );
        assert!(fs::symlink_metadata(root.join(path)).is_err(), "{path}");
    }
}

/// The current time, in the format of records.
fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Checks that `mimir undo` reverts a change of `a.txt`, `gone.txt` and `new/b.txt` by this tool.
fn check_undone(root: &Path, tool: &str) {
    fs::write(root.join("a.txt"), "old").unwrap();
    fs::write(root.join("gone.txt"), "gone").unwrap();
    call(root, tool, &[]);
    assert_eq!(content(root), "new", "{tool}");
    assert!(!root.join("gone.txt").exists() && root.join("new/b.txt").exists());
    let (code, out, err) = run(root, &["undo"]);
    assert_eq!(code, 0, "{tool}: {err}");
    assert!(out.contains(tool), "{out}");
    assert_eq!(content(root), "old", "{tool}");
    assert_eq!(fs::read_to_string(root.join("gone.txt")).unwrap(), "gone");
    assert!(!root.join("new").exists(), "{tool}");
}

#[test]
fn undo_reverts_tools_in_yaml_files() {
    let typescript = "export async function execute(args, { platform: { fs } }) {
  await fs.writeFile('a.txt', 'new');
  await fs.remove('gone.txt');
  await fs.mkdir('new');
  await fs.writeFile('new/b.txt', 'b');
}";
    let python = "import os
def execute(args, context):
    open('a.txt', 'w').write('new')
    os.remove('gone.txt')
    os.mkdir('new')
    open('new/b.txt', 'w').write('b')
";
    let bash = "printf new > a.txt; rm gone.txt; mkdir new; echo b > new/b.txt";
    let tools = [
        ("in_ts", "typescript", typescript),
        ("in_python", "python", python),
        ("in_bash", "bash", bash),
    ];
    let files = tools.map(|(name, runtime, code)| {
        let text = crate::kit::scripts::tool(&format!("{name}\nruntime: {runtime}"), code);
        (format!("{name}.yml"), text)
    });
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let home = crate::kit::scripts::workspace(&files);
    for (name, ..) in tools {
        check_undone(home.path(), name);
    }
}

#[test]
fn undo_reverts_plugins() {
    let home = crate::kit::modules::built(
        r#"
export const changes = {
  description: "A test.",
  inputSchema: { type: "object" },
  needs: { files: [{ path: ".", access: "read-write" }] },
  async execute(args, { platform: { fs } }) {
    await fs.writeFile("a.txt", "new");
    await fs.remove("gone.txt");
    await fs.mkdir("new");
    await fs.writeFile("new/b.txt", "b");
  },
};
"#,
    );
    check_undone(home.path(), "changes");
}

#[test]
fn undo_of_a_change_without_a_copy_reverts_the_rest_by_force() {
    let code = "export async function execute(args, { platform: { fs } }) {
  await fs.writeFile('large', 'small');
  await fs.writeFile('a.txt', 'new');
}";
    let text = crate::kit::scripts::tool("mixed", code);
    let home = crate::kit::scripts::workspace(&[("mixed.yml", &text)]);
    let root = home.path();
    fs::write(root.join("a.txt"), "old").unwrap();
    let large = fs::File::create(root.join("large")).unwrap();
    large.set_len((100 << 20) + 1).unwrap();
    call(root, "mixed", &[]);
    assert_eq!(fs::read_to_string(root.join("large")).unwrap(), "small");
    let (code, _, err) = run(root, &["undo"]);
    assert!(code == 1 && err.contains("100 MiB"), "{err}");
    assert!(err.contains("--force"), "{err}");
    assert_eq!(content(root), "new");
    let (code, _, err) = run(root, &["undo", "--force"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(content(root), "old");
}

#[test]
fn changed_instruction_files_are_named_by_every_tool() {
    let typescript = "export async function execute(args, { platform: { fs } }) {
  await fs.writeFile('AGENTS.md', 'new');
  return 'done';
}";
    let text = crate::kit::scripts::tool("in_ts\nruntime: typescript", typescript);
    let home = crate::kit::scripts::workspace(&[("in_ts.yml", text.as_str())]);
    let root = home.path();
    let note = |name: &str| format!("obeyed by agents or tools from now on: `{name}`");
    let written = call(root, "write_file", &["path=CLAUDE.md", "content=new"]);
    assert!(written.contains(&note("CLAUDE.md")), "{written}");
    let same = call(root, "write_file", &["path=CLAUDE.md", "content=new"]);
    assert!(!same.contains("obeyed"), "it has not changed: {same}");
    let scripted = call(root, "in_ts", &[]);
    assert!(
        scripted.contains("done") && scripted.contains(&note("AGENTS.md")),
        "{scripted}"
    );
    let plain = call(root, "write_file", &["path=notes.md", "content=new"]);
    assert!(!plain.contains("obeyed"), "{plain}");
}
