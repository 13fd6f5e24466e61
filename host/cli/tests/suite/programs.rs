//! Tools in Python, bash and node, and `run_code` in WebAssembly.

use crate::kit::scripts;
use std::fs;

use crate::kit::run;
use crate::kit::scripts::{call, text, tool};
use serde_json::Value;
use tempfile::TempDir;

/// A workspace with one tool.
fn workspace(name: &str, runtime: &str, code: &str) -> TempDir {
    let text = tool(&format!("{name}\nruntime: {runtime}"), code);
    scripts::workspace(&[(&format!("{name}.yml"), &text)])
}

#[test]
fn python_tool_gets_the_context() {
    let code = r#"
async def execute(args, context):
    fs = context.platform.fs
    fs.writeFile("out/a.txt", "hällo " + args["name"])
    told = context.tools.call("file_info", {"path": "out"})
    refused = []
    for attempt in (
        lambda: fs.readFile(".env"),
        lambda: fs.readFile("../x"),
        lambda: fs.writeFile(".mimir/config.yml", ""),
        lambda: context.fetch("http://127.0.0.1:1/"),
    ):
        try:
            attempt()
            refused.append("nothing")
        except Exception as error:
            refused.append(getattr(error, "code", None) or type(error).__name__)
    context.logger.warn("a line")
    context.progress.report(1, 2, "half")
    with open("out/a.txt") as file:
        read = file.read()
    return {"read": read, "glob": fs.glob("**/*.txt"), "nested": told.success, "refused": refused,
            "at": context.conversation["workingDirectory"]}
"#;
    let home = workspace("uses", "python", code);
    fs::write(home.path().join(".env"), "SECRET=1").unwrap();
    let outcome = call(home.path(), &["uses", "name=Bob"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted = serde_json::json!({
        "read": "hällo Bob", "glob": ["out/a.txt"], "nested": true, "at": ".",
        "refused": ["PermissionError", "PermissionError", "PermissionError", "POLICY_DENIED"],
    });
    assert_eq!(result, wanted);
    let (_, _, err) = run(
        home.path(),
        &["call", "uses", "name=x", "--approve", "always"],
    );
    assert!(err.contains("a line"), "{err}");
}

#[test]
fn script_tool_gets_no_rights_for_hidden_access() {
    let code = "def execute(args, context):\n    return getattr(context, 'plat' + 'form').executor.execute('echo', ['hi']).stdout";
    let code = code.replace(".executor.", ".__dict__['exe' + 'cutor'].");
    let home = workspace("hidden", "python", &code);
    let outcome = call(home.path(), &["hidden"]);
    assert_eq!(outcome["error"]["code"], "PERMISSION_DENIED", "{outcome:#}");
    let home = workspace("in_bash", "bash", "eval 'mimir''-exec echo hi'");
    let outcome = call(home.path(), &["in_bash"]);
    assert_eq!(outcome["error"]["code"], "EXECUTION_ERROR", "{outcome:#}");
    let output = outcome["error"]["details"]["stderr"].as_str().unwrap();
    assert!(output.contains("not granted commands"), "{output}");
}

#[test]
fn python_tool_errors_have_lines_of_the_file() {
    let home = workspace(
        "fails",
        "python",
        "def inner():\n    raise KeyError('x')\ndef execute(args, context):\n    inner()",
    );
    let outcome = call(home.path(), &["fails"]);
    let message = outcome["error"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "KeyError: 'x' (at inner (.mimir/tools/fails.yml:7))"
    );
    let home = workspace(
        "broken",
        "python",
        "def execute(args, context):\n    return (",
    );
    let outcome = call(home.path(), &["broken"]);
    assert_eq!(outcome["error"]["code"], "INVALID_INPUT", "{outcome:#}");
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(".mimir/tools/broken.yml:7: "),
        "{message}"
    );
    for (code, part) in [
        ("x = 1", "no function `execute"),
        ("import numpy", "No module named 'numpy'"),
        (
            "import os\ndef execute(args, context):\n    os._exit(3)",
            "exit code",
        ),
        (
            "def execute(args, context):\n    return object()",
            "not JSON serializable",
        ),
    ] {
        let home = workspace("bad", "python", code);
        let outcome = call(home.path(), &["bad"]);
        let message = outcome["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn bash_tool_gets_the_context_as_commands() {
    let code = r#"
set -e
echo "$ARG_name $(jq -r .name <<< "$1") $(jq .n)"
mimir file_info '{"path": ".mimir"}' | cut -c1-21
mimir-log warn a line
mimir-progress 1 2 half
mkdir out; echo x > out/f; python3 -c 'print(open("out/f").read().strip() * 3)'
cat .env || echo refused
echo y > .git/hooks/x 2>/dev/null || echo refused
mimir-fetch http://127.0.0.1:1/ 2>/dev/null || echo refused
"#;
    let home = workspace("in_bash", "bash", code);
    fs::create_dir_all(home.path().join(".git/hooks")).unwrap();
    fs::write(home.path().join(".env"), "SECRET=1").unwrap();
    let outcome = call(home.path(), &["in_bash", "name=Bob", "n=3"]);
    let wanted = "Bob Bob \"3\"\n.mimir is a directory\nxxx\nrefused\nrefused\nrefused";
    assert_eq!(text(&outcome), wanted);
    assert!(!home.path().join(".git/hooks/x").exists());
    let home = workspace("fails", "bash", "echo out; echo why >&2; exit 3");
    let outcome = call(home.path(), &["fails"]);
    let error = &outcome["error"];
    assert_eq!(error["message"], "the tool ended with exit code 3: why");
    assert_eq!(error["details"]["stdout"], "out\n");
}

#[test]
#[ignore = "needs node"]
fn node_tool_gets_the_context_and_reports_errors() {
    let code = r#"
export async function execute(args, { platform: { fs, executor }, logger }) {
  logger.info("a line");
  const { stdout } = await executor.execute({ command: "echo", args: ["hi"] });
  return { stdout, list: await fs.list("."), node: typeof process.version, name: args.name };
}"#;
    let home = workspace("nodes", "node", code);
    let outcome = call(home.path(), &["nodes", "name=Bob"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    assert_eq!(
        (&result["stdout"], &result["name"]),
        (&"hi\n".into(), &"Bob".into())
    );
    let home = workspace(
        "throws",
        "node",
        "export function execute() { throw new TypeError('no'); }",
    );
    let outcome = call(home.path(), &["throws"]);
    assert_eq!(outcome["error"]["message"], "TypeError: no", "{outcome:#}");
}

#[test]
fn run_code_uses_webassembly_without_approval() {
    let home = tempfile::tempdir().unwrap();
    for (language, code, wanted) in [
        ("python", "print(6 * 7)", "42\n"),
        ("bash", "echo $((6 * 7))", "42\n"),
        ("javascript", "console.log(6 * 7)", "42\n"),
    ] {
        let language = format!("language={language}");
        let code = format!("code={code}");
        let (exit, out, err) = run(
            home.path(),
            &["call", "--json", "run_code", &language, &code],
        );
        let outcome: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        assert_eq!(exit, 0, "{outcome:#}");
        let structured = &outcome["structured"];
        assert_eq!(
            (
                &structured["stdout"],
                &structured["backend"],
                &structured["exitCode"]
            ),
            (&wanted.into(), &"wasm".into(), &0.into()),
            "{outcome:#}"
        );
    }
}

#[test]
fn undo_reverts_changes_of_run_code() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir_all(at("d/e")).unwrap();
    for (name, text) in [("a.txt", "a"), ("b.txt", "b"), ("d/e/c.txt", "c")] {
        fs::write(at(name), text).unwrap();
    }
    let code = "code=rm a.txt; echo new > b.txt; rm -r d; mkdir n; echo n > n/n.txt";
    let (exit, out, err) = run(home.path(), &["call", "run_code", "language=bash", code]);
    assert_eq!(exit, 0, "{out}{err}");
    assert!(!at("a.txt").exists() && !at("d").exists() && at("n/n.txt").exists());
    let (exit, out, err) = run(home.path(), &["undo"]);
    assert_eq!(exit, 0, "{out}{err}");
    for (name, text) in [("a.txt", "a"), ("b.txt", "b"), ("d/e/c.txt", "c")] {
        assert_eq!(fs::read_to_string(at(name)).unwrap(), text, "{name}");
    }
    assert!(!at("n").exists());
}
