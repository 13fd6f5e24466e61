//! Paths of Windows in calls, rules and settings: every refusal has a stable code and says what to write.
#![cfg(windows)]

use std::fs;

use crate::kit::greeter::json_of;
use crate::kit::run;
use serde_json::json;
use tempfile::TempDir;

/// A workspace with files and this project config, which is accepted.
fn workspace(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in [
        (".mimir/config.yml", config),
        (".git/hooks/pre-commit", "hook"),
        ("src/main.rs", "fn main() {}"),
        ("keys/a.txt", "key"),
        (".env", "SECRET=1"),
    ] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (code, _, err) = run(home.path(), &["policy", "accept", "--yes"]);
    assert_eq!(code, 0, "{err}");
    home
}

/// Paths that Windows reads as other ones, and a part of the remedy.
const PATHS: [(&str, &str); 17] = [
    ("C:\\Windows\\win.ini", "write `/`"),
    ("C:/Windows/win.ini", "without `:`"),
    ("C:win.ini", "without `:`"),
    ("\\\\server\\share\\x", "write `/`"),
    ("\\\\?\\C:\\Windows\\win.ini", "write `/`"),
    ("\\\\.\\pipe\\x", "write `/`"),
    ("src\\main.rs", "write `/`"),
    ("..\\x", "write `/`"),
    (".GIT\\hooks\\pre-commit", "write `/`"),
    ("src/main.rs::$DATA", "without `:`"),
    (".mimir:x", "without `:`"),
    ("GIT~1/hooks/pre-commit", "write the full name"),
    ("ENV~1", "write the full name"),
    ("CON", "a device"),
    ("src/nul.txt", "a device"),
    ("COM1", "a device"),
    (".env. ", "dots and spaces"),
];

#[test]
fn windows_paths_are_refused_with_a_code_and_a_remedy() {
    let home = workspace("");
    for (path, remedy) in PATHS {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_directory", json!({ "path": path })),
            ("delete_file", json!({ "path": path })),
            ("move_file", json!({"from": "src/main.rs", "to": path})),
        ] {
            let arguments = arguments.to_string();
            let call = ["call", "--approve", "always", tool, &arguments];
            let (code, outcome) = json_of(home.path(), &call);
            let error = &outcome["error"];
            assert_eq!(
                (code, &error["code"]),
                (3, &json!("PERMISSION_DENIED")),
                "{tool} {path}: {outcome:#}"
            );
            assert!(
                outcome.to_string().contains(remedy),
                "{tool} {path}: {outcome:#}"
            );
        }
    }
    let read = |path| fs::read_to_string(home.path().join(path)).unwrap();
    assert_eq!(read("src/main.rs"), "fn main() {}");
    assert_eq!(read(".git/hooks/pre-commit"), "hook");
}

#[test]
fn windows_paths_in_another_case_are_protected_alike() {
    let home = workspace("files: {deny: [keys]}\n");
    for (tool, path) in [
        ("write_file", ".GIT/Hooks/pre-commit"),
        ("write_file", ".Mimir/CONFIG.yml"),
        ("read_file", ".ENV"),
        ("read_file", "KEYS/A.txt"),
    ] {
        let arguments = json!({"path": path, "content": "x"});
        let arguments = match tool {
            "read_file" => json!({ "path": path }),
            _ => arguments,
        };
        let call = ["call", "--approve", "always", tool, &arguments.to_string()];
        let (code, outcome) = json_of(home.path(), &call);
        assert_eq!(
            (code, &outcome["error"]["code"]),
            (3, &json!("PERMISSION_DENIED")),
            "{tool} {path}: {outcome:#}"
        );
    }
    let (code, outcome) = json_of(home.path(), &["call", "read_file", "path=SRC/Main.rs"]);
    assert_eq!(code, 0, "{outcome:#}");
}

#[test]
fn windows_paths_in_code_are_refused() {
    let home = workspace("");
    let code = "
        const { fs } = context.platform;
        const read = (path) => fs.readFile(path).then(() => 'READ', () => 'refused');
        const paths = ['C:/Windows/win.ini', 'src\\\\main.rs', '.env::$DATA', 'ENV~1', 'nul', '.ENV', 'src/main.rs'];
        console.log((await Promise.all(paths.map(read))).join(' '));
    ";
    let arguments = json!({"language": "javascript", "code": code}).to_string();
    let call = ["call", "--approve", "always", "run_code", &arguments];
    let (exit, outcome) = json_of(home.path(), &call);
    assert_eq!(exit, 0, "{outcome:#}");
    let expected = format!("{}READ\n", "refused ".repeat(6));
    assert_eq!(outcome["structured"]["stdout"], expected, "{outcome:#}");
}

#[test]
fn windows_paths_do_not_evade_rules_about_folders() {
    let home = workspace(
        "policy:\n  rules:\n    - {tools: [open], when: {path: {inside: .}}, decision: allow, reason: mine}\n    - {tools: [open], when: {path: {inside: keys}}, decision: deny, reason: secret}\n",
    );
    // The rules alone decide: to the host, the argument is not a path.
    let tool = "name: open\ndescription: Opens.\nschema: {type: object, properties: {path: {type: string}}}\ncode: |\n  export default () => 'x'\n";
    fs::create_dir(home.path().join(".mimir/tools")).unwrap();
    fs::write(home.path().join(".mimir/tools/open.yml"), tool).unwrap();
    let explain = |path: &str| {
        let arguments = json!({ "path": path }).to_string();
        let (code, out, err) = run(home.path(), &["policy", "explain", "open", &arguments]);
        assert_eq!(code, 0, "{path}: {err}");
        out
    };
    for path in [
        "keys/a.txt",
        "keys\\a.txt",
        "KEYS\\a.txt",
        "keys/a.txt::$DATA",
        "src\\..\\keys\\a.txt",
    ] {
        let explained = explain(path);
        assert!(explained.contains("deny: secret"), "{path}: {explained}");
    }
    for path in ["..\\x", "C:\\x", "C:x", "\\\\server\\share\\x"] {
        let explained = explain(path);
        assert!(!explained.contains("allow: mine"), "{path}: {explained}");
    }
    for path in ["src/x", "src\\x"] {
        let explained = explain(path);
        assert!(explained.contains("allow: mine"), "{path}: {explained}");
    }
}

#[test]
fn windows_globs_that_match_nothing_are_errors() {
    for glob in ["keys\\*", "C:/keys", "a\\b"] {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".mimir")).unwrap();
        let config = format!("files:\n  deny: ['{glob}']\n");
        fs::write(home.path().join(".mimir/config.yml"), config).unwrap();
        let (code, out, err) = run(home.path(), &["config", "check"]);
        let output = format!("{out}{err}");
        assert_eq!(code, 2, "{glob}: {output}");
        assert!(output.contains("write "), "{glob}: {output}");
    }
}
