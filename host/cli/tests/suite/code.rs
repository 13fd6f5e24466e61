//! `run_code` with an interpreter: in the sandbox of commands, or in a container.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::kit::{config, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with these user settings.
fn workspace(settings: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".mimir")).unwrap();
    std::fs::create_dir_all(config(home.path())).unwrap();
    std::fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    home
}

/// The outcome of a call; `approve` simulates the person's answer.
fn call(home: &Path, approve: &str, arguments: &Value) -> (i32, Value) {
    let words = ["call", "--json", "--approve", approve, "run_code"];
    let (code, out, err) = run(home, &[&words[..], &[&arguments.to_string()]].concat());
    let output = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    (code, output)
}

/// The outcome of code that a person approves.
fn ran(home: &Path, arguments: &Value) -> Value {
    let (_, output) = call(home, "always", arguments);
    assert!(output["ok"] == true, "{output:#}");
    output["structured"].clone()
}

#[test]
fn run_code_passes_arguments_env_stdin_and_workdir() {
    let home = workspace("");
    std::fs::create_dir(home.path().join("sub")).unwrap();
    let structured = ran(
        home.path(),
        &json!({
            "language": "bash", "backend": "process",
            "code": "read line; echo \"$line $1 $GREETING ${PWD##*/}\"; echo no >&2; echo made > file; exit 3",
            "args": ["one two"], "env": {"GREETING": "hello"}, "stdin": "in\n", "workdir": "sub",
        }),
    );
    assert_eq!(structured["stdout"], "in one two hello sub\n");
    assert_eq!(structured["stderr"], "no\n");
    assert_eq!(
        (&structured["exitCode"], &structured["backend"]),
        (&json!(3), &json!("process"))
    );
    let made = std::fs::read_to_string(home.path().join("sub/file"));
    assert_eq!(made.unwrap(), "made\n");
}

#[test]
#[ignore = "needs python3 and node on the machine"]
fn run_code_runs_python_and_javascript_interpreters() {
    let home = workspace("");
    for (language, code) in [
        ("python", "import sys\nprint(sys.argv[1], sys.stdin.read())"),
        (
            "javascript",
            "console.log(process.argv[2], require('fs').readFileSync(0, 'utf8'))",
        ),
    ] {
        let structured = ran(
            home.path(),
            &json!({
                "language": language, "code": code, "args": ["-a"], "stdin": "in", "backend": "process",
            }),
        );
        assert_eq!(structured["stdout"], "-a in\n", "{language}");
    }
    let long = format!("#{}\nprint('long')", "x".repeat(121_000));
    let structured = ran(
        home.path(),
        &json!({"language": "python", "code": long, "backend": "process"}),
    );
    assert_eq!(structured["stdout"], "long\n");
    // The code has no network, and no access to a person's files.
    let code = "import socket\nsocket.create_connection(('127.0.0.1', 9), 2)";
    let structured = ran(
        home.path(),
        &json!({"language": "python", "code": code, "backend": "process"}),
    );
    assert_eq!(structured["exitCode"], 1, "{structured:#}");
}

#[test]
fn run_code_needs_approval_unless_bash_only_reads() {
    let home = workspace("");
    let python = json!({"language": "python", "code": "print(1)", "backend": "process"});
    let (code, output) = call(home.path(), "never", &python);
    assert_eq!(
        (code, &output["error"]["code"]),
        (3, &json!("APPROVAL_DENIED"))
    );
    // Shell code is parsed like the text of a command.
    let reads = json!({"language": "bash", "code": "echo one", "backend": "process"});
    let (code, output) = call(home.path(), "never", &reads);
    assert_eq!(code, 0, "{output:#}");
    let removes = json!({"language": "bash", "code": "echo one; rm -rf src", "backend": "process"});
    let (code, _) = call(home.path(), "never", &removes);
    assert_eq!(code, 3);

    let arguments = removes.to_string();
    let words = ["policy", "explain", "run_code", &arguments, "--json"];
    let (_, out, err) = run(home.path(), &words);
    let output: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(output["decision"], "ask", "{output:#}");
    assert!(out.contains("rm -rf src"), "{output:#}");

    let none = workspace("execApprovals: {mode: deny}");
    let (code, output) = call(none.path(), "always", &python);
    assert_eq!(
        (code, &output["error"]["code"]),
        (3, &json!("POLICY_DENIED"))
    );
}

#[test]
fn run_code_timeout_keeps_the_output_so_far() {
    let home = workspace("");
    let start = Instant::now();
    let (code, output) = call(
        home.path(),
        "always",
        &json!({"language": "bash", "code": "echo before; sleep 120", "timeout": 5, "backend": "process"}),
    );
    assert_eq!((code, &output["error"]["code"]), (4, &json!("TIMEOUT")));
    assert_eq!(
        output["error"]["details"]["output"], "before\n",
        "{output:#}"
    );
    assert_eq!(output["error"]["details"]["backend"], "process");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn run_code_container_errors_name_the_missing_part() {
    let code = json!({"language": "python", "code": "print(1)", "backend": "container"});
    let unnamed = workspace("");
    let (_, output) = call(unnamed.path(), "always", &code);
    assert_eq!(output["error"]["code"], "UNAVAILABLE");
    assert!(output.to_string().contains("sandbox.images"), "{output:#}");

    let named = workspace("sandbox: {images: {python: 'x:1'}, socket: /nowhere/s}");
    let (_, output) = call(named.path(), "always", &code);
    assert!(output.to_string().contains("/nowhere/s"), "{output:#}");
    // The grant applies to that language only.
    let bash = json!({"language": "bash", "code": "echo 1", "backend": "container"});
    let (_, output) = call(named.path(), "always", &bash);
    assert!(
        output
            .to_string()
            .contains("no image is configured to run bash"),
        "{output:#}"
    );

    let alone = workspace("sandbox: {mode: container, image: x, socket: /nowhere/s}");
    let machine = json!({"language": "bash", "code": "echo 1", "backend": "process"});
    let (_, output) = call(alone.path(), "always", &machine);
    assert!(
        output.to_string().contains("sandbox.mode: container"),
        "{output:#}"
    );
}

#[test]
fn run_code_errors_distinguish_bad_input_and_missing_sandbox() {
    let home = workspace("");
    for (arguments, code) in [
        (json!({"language": "perl", "code": "x"}), "INVALID_INPUT"),
        (json!({"language": "bash", "code": "  "}), "INVALID_INPUT"),
        (
            json!({"language": "bash", "code": "x", "timeout": 0}),
            "INVALID_INPUT",
        ),
        (
            json!({"language": "bash", "code": "pwd", "workdir": "..", "backend": "process"}),
            "POLICY_DENIED",
        ),
        (
            json!({"language": "bash", "code": "pwd", "workdir": "no", "backend": "process"}),
            "FILE_NOT_FOUND",
        ),
    ] {
        let (_, output) = call(home.path(), "always", &arguments);
        assert_eq!(output["error"]["code"], code, "{output:#}");
    }
}

#[test]
#[ignore = "needs the container engine and the images of .ci/containers"]
fn run_code_container_files_belong_to_the_user() {
    use std::os::unix::fs::MetadataExt;

    let home = workspace("sandbox: {mode: container, images: {bash: mimir-test/code}}");
    let code = "echo \"$1\"; hostname; echo made > file; cat /etc/hostname; exit 2";
    let structured = ran(
        home.path(),
        &json!({"language": "bash", "code": code, "args": ["one"], "backend": "container"}),
    );
    let output = structured["stdout"].as_str().unwrap();
    assert!(output.starts_with("one\nmimir\n"), "{structured:#}");
    assert_eq!(
        (&structured["exitCode"], &structured["backend"]),
        (&json!(2), &json!("container"))
    );
    let (file, folder) = (home.path().join("file"), home.path());
    assert_eq!(
        file.metadata().unwrap().uid(),
        folder.metadata().unwrap().uid()
    );

    let missing = workspace("sandbox: {images: {bash: 'mimir-test/not-there'}}");
    let code = json!({"language": "bash", "code": "echo 1", "backend": "container"});
    let (_, output) = call(missing.path(), "always", &code);
    assert_eq!(output["error"]["code"], "UNAVAILABLE");
    assert!(
        output.to_string().contains(" pull mimir-test/not-there"),
        "{output:#}"
    );

    // The image does not have the interpreter.
    let without = workspace("sandbox: {images: {python: mimir-test/code}}");
    let code = json!({"language": "python", "code": "print(1)", "backend": "container"});
    let (_, output) = call(without.path(), "always", &code);
    assert_eq!(output["error"]["code"], "NOT_FOUND");
    assert!(output.to_string().contains("sandbox.images"), "{output:#}");
}
