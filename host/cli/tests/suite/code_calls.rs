//! Code of `run_code` that calls other tools: under the same rules, approval and audit log as a model's own calls.

use std::path::Path;

use crate::kit::{config, run};
use serde_json::{Value, json};
use tempfile::TempDir;

fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".mimir")).unwrap();
    std::fs::create_dir_all(config(home.path())).unwrap();
    std::fs::write(home.path().join("note"), "from a file\n").unwrap();
    home
}

/// The stdout and stderr of code.
fn ran(home: &Path, approve: &str, arguments: &Value) -> (String, String) {
    let words = ["call", "--json", "--approve", approve, "run_code"];
    let (_, out, err) = run(home, &[&words[..], &[&arguments.to_string()]].concat());
    let output: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let text = |key: &str| {
        output["structured"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(output["structured"].is_object(), "{output:#}");
    (text("stdout"), text("stderr"))
}

const READS: [(&str, &str); 3] = [
    ("bash", r#"mimir read_file '{"path": "note"}'"#),
    (
        "python",
        "import mimir\nprint(mimir.call('read_file', {'path': 'note'}))",
    ),
    (
        "javascript",
        "console.log(JSON.stringify(await context.tools.call('read_file', { path: 'note' })))",
    ),
];

#[test]
fn run_code_calls_tools_permitted_by_its_arguments() {
    let home = workspace();
    for (language, code) in READS {
        for tools in [Value::Null, json!(["read_file"])] {
            let arguments = json!({"language": language, "code": code, "tools": tools});
            let (stdout, stderr) = ran(home.path(), "never", &arguments);
            assert!(
                stdout.contains("from a file"),
                "{language}: {stdout}{stderr}"
            );
        }
        let arguments = json!({"language": language, "code": code, "tools": ["list_directory"]});
        // In JavaScript the uncaught refusal is the outcome of the call.
        let words = ["call", "--json", "--approve", "never", "run_code"];
        let (_, out, _) = run(
            home.path(),
            &[&words[..], &[&arguments.to_string()]].concat(),
        );
        assert!(
            !out.contains("from a file") && out.contains("may not call `read_file`"),
            "{language}: {out}"
        );
    }
}

#[test]
fn run_code_tool_calls_need_approval() {
    let home = workspace();
    let write = r#"mimir write_file '{"path": "note", "content": "changed\n"}'"#;
    let arguments = json!({"language": "bash", "code": write});
    let note = home.path().join("note");
    let (_, stderr) = ran(home.path(), "never", &arguments);
    assert_eq!(
        std::fs::read_to_string(&note).unwrap(),
        "from a file\n",
        "{stderr}"
    );
    ran(home.path(), "always", &arguments);
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "changed\n");
}

#[test]
fn run_code_process_backend_does_not_support_tools() {
    let home = workspace();
    let arguments =
        json!({"language": "bash", "code": "echo", "tools": ["read_file"], "backend": "process"});
    let words = ["call", "--json", "--approve", "never", "run_code"];
    let (code, out, _) = run(
        home.path(),
        &[&words[..], &[&arguments.to_string()]].concat(),
    );
    assert!(
        code != 0 && out.contains("`tools` is only supported for `backend: wasm`"),
        "{out}"
    );
}
