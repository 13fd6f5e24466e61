//! `mimir tools test`, `tools build --watch` and `tools dev`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::kit::{config, mimir, run};

const TOOL: &str = r#"import { defineTool } from "mimir";

export const firstLine = defineTool({
  description: "Reads the first line of a file.",
  inputSchema: {
    type: "object",
    properties: { path: { type: "string" } },
    required: ["path"],
    additionalProperties: false,
  },
  needs: { files: [{ path: ".", access: "read-write" }], hosts: ["127.0.0.1"] },
  async execute({ path }, { platform }) {
    if (path === "http") return String((await fetch("http://127.0.0.1:1/")).status);
    const text = await platform.fs.readFile(path);
    await platform.fs.writeFile("left.txt", "left by another case");
    return text.split("\n")[0];
  },
});
"#;

/// Writes a plugin with these cases into the folder `words` of a new workspace.
fn workspace(cases: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir")).unwrap();
    fs::create_dir_all(home.path().join("words")).unwrap();
    fs::write(home.path().join("words/tool.ts"), TOOL).unwrap();
    fs::write(home.path().join("words/cases.yml"), cases).unwrap();
    home
}

fn is_installed(home: &Path) -> bool {
    home.join(".mimir/tools").exists()
}

#[test]
fn tools_test_runs_each_case_in_its_own_workspace_and_installs_nothing() {
    let home = workspace(
        "- name: reads a file\n  call: first_line\n  arguments: {path: a/b.txt}\n  files: {a/b.txt: \"one\\ntwo\\n\"}\n  \
         text: one\n\
         - name: sees nothing of another case\n  call: first_line\n  arguments: {path: left.txt}\n  error: FILE_NOT_FOUND\n\
         - name: sees nothing of the project\n  call: first_line\n  arguments: {path: words/tool.ts}\n  \
         error: FILE_NOT_FOUND\n\
         - name: is refused by the person\n  call: first_line\n  arguments: {path: a}\n  files: {a: x}\n  approve: false\n  \
         error: APPROVAL_DENIED\n\
         - name: checks arguments\n  call: first_line\n  arguments: {file: a}\n  error: INVALID_INPUT\n  contains: file\n\
         - name: has no network\n  call: first_line\n  arguments: {path: http}\n  error: POLICY_DENIED\n",
    );
    let (code, out, err) = run(home.path(), &["tools", "test", "words"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.matches("PASS ").count(), 6, "{out}");
    assert!(out.ends_with("ok: 6 passed\n"), "{out}");
    assert!(!is_installed(home.path()));
    assert!(!home.path().join("left.txt").exists());
}

#[test]
fn tools_test_calls_no_tool_of_another_source() {
    let home = workspace(
        "- {name: runs a command, call: bash, arguments: {command: 'touch ran'}}\n\
         - {name: reads a file, call: read_file, arguments: {path: a}, files: {a: one}, text: one}\n\
         - {name: reads a line, call: first_line, arguments: {path: a}, files: {a: one}, text: one}\n",
    );
    let (code, out, err) = run(home.path(), &["tools", "test", "words", "--network"]);
    assert_eq!(code, 1, "{out}{err}");
    for name in ["bash", "read_file"] {
        let expected = format!("`{name}` is not a tool of this plugin: expected `first_line`");
        assert!(out.contains(&expected), "{out}{err}");
    }
    assert!(out.contains("PASS reads a line"), "{out}{err}");
}

#[test]
fn tools_test_applies_the_rules_of_the_user() {
    let home = workspace(
        "- {name: is denied, call: first_line, arguments: {path: a}, files: {a: one}, error: POLICY_DENIED}\n",
    );
    let test = |settings: &str| {
        fs::create_dir_all(config(home.path())).unwrap();
        fs::write(config(home.path()).join("config.yml"), settings).unwrap();
        run(home.path(), &["tools", "test", "words"])
    };
    let (code, out, err) = test("policy: {deny: [first_line]}\n");
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = test("{}\n");
    assert!(code == 1 && out.contains("FAIL is denied"), "{out}{err}");
}

#[test]
fn tools_test_has_no_network_whatever_the_settings_say() {
    let home = workspace(
        "- {name: has no network, call: first_line, arguments: {path: http}, error: POLICY_DENIED}\n",
    );
    let mut command = mimir(home.path(), &["tools", "test", "words"]);
    command.env("MIMIR_NETWORK__MODE", "any");
    command.env("MIMIR_NETWORK__BLOCK_PRIVATE_IPS", "false");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn plugin_in_the_home_folder_is_neither_built_nor_tested() {
    let home = workspace("[]");
    let folder = home.path().join("words");
    let variable = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    for args in [["tools", "build", "tool.ts"], ["tools", "test", "."]] {
        let mut command = mimir(home.path(), &args);
        command.current_dir(&folder).env(variable, &folder);
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("put it into a folder of its own"), "{err}");
    }
    assert!(!is_installed(home.path()));
}

#[test]
fn tools_test_shows_what_differs_and_fails() {
    let home = workspace(
        "- name: is right\n  call: first_line\n  arguments: {path: a}\n  files: {a: one}\n  text: one\n\
         - name: is wrong\n  call: first_line\n  arguments: {path: a}\n  files: {a: one}\n  text: two\n",
    );
    let (code, out, err) = run(home.path(), &["tools", "test", "words"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("PASS is right ("), "{out}");
    let difference = "  the text differs:\n  --- expected\n  +++ actual\n  -two\n  +one\n";
    assert!(
        out.contains("FAIL is wrong (") && out.contains(difference),
        "{out}"
    );
    let args = ["tools", "test", "words", "--json", "--case", "is wrong"];
    let (code, out, _) = run(home.path(), &args);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1, "{report}");
    assert_eq!(
        (&report["passed"], &report["failed"]),
        (&0.into(), &1.into()),
        "{report}"
    );
    assert_eq!(report["cases"][0]["name"], "is wrong");
    assert_eq!(report["cases"][0]["passed"], false);
}

#[test]
fn tools_test_reports_wrong_cases_before_it_builds() {
    let home = workspace("- name: a\n  call: first_line\n  argument: {}\n");
    fs::write(home.path().join("words/tool.ts"), "not TypeScript (").unwrap();
    let (code, _, err) = run(home.path(), &["tools", "test", "words"]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("cases.yml:3:3: unknown key `argument`"),
        "{err}"
    );
    fs::write(
        home.path().join("words/cases.yml"),
        "- {name: a, call: first_line}\n",
    )
    .unwrap();
    let (code, _, err) = run(home.path(), &["tools", "test", "words", "--case", "b"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("cases.yml has no case named `b`"), "{err}");
}

#[cfg(unix)]
mod watch {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, ChildStderr, Stdio};

    use super::*;

    /// A command that builds after each change, with its messages.
    struct BuildWatch {
        child: Child,
        messages: std::io::Lines<BufReader<ChildStderr>>,
    }

    impl BuildWatch {
        fn start(home: &Path, args: &[&str]) -> Self {
            let mut command = mimir(home, args);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let messages = BufReader::new(child.stderr.take().unwrap()).lines();
            Self { child, messages }
        }

        /// Reads messages up to the one that the next change is awaited after.
        fn read_cycle(&mut self) -> String {
            let mut cycle = String::new();
            for line in self.messages.by_ref() {
                let line = line.unwrap();
                if line.contains("waiting for changes") {
                    return cycle;
                }
                cycle += &line;
                cycle.push('\n');
            }
            panic!("the watch has ended: {cycle}");
        }

        /// Presses Ctrl-C. Returns the exit code.
        fn stop(mut self) -> Option<i32> {
            let id = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
            self.child.wait().unwrap().code()
        }
    }

    #[test]
    fn build_watch_builds_after_each_change_and_keeps_the_last_good_component() {
        let home = workspace("[]");
        let source = home.path().join("words/tool.ts");
        let component = home.path().join(".mimir/tools/words.wasm");
        let mut watch = BuildWatch::start(home.path(), &["tools", "build", "--watch", "words"]);
        let first = watch.read_cycle();
        assert!(
            first.contains("built .mimir/tools/words.wasm") && first.contains("first_line"),
            "{first}"
        );
        let good = fs::read(&component).unwrap();

        fs::write(&source, "export const broken = (").unwrap();
        let broken = watch.read_cycle();
        assert!(
            broken.contains("changed: tool.ts") && broken.contains("tool.ts:1:"),
            "{broken}"
        );
        assert_eq!(fs::read(&component).unwrap(), good);

        // As editors write: to another file, which takes the place of the first.
        fs::write(
            home.path().join("new.ts"),
            TOOL.replace("firstLine", "topLine"),
        )
        .unwrap();
        fs::rename(home.path().join("new.ts"), &source).unwrap();
        let renamed = watch.read_cycle();
        assert!(renamed.contains("top_line"), "{renamed}");
        assert_ne!(fs::read(&component).unwrap(), good);
        assert_eq!(watch.stop(), Some(0));
    }

    #[test]
    fn build_watch_of_a_file_ignores_the_files_next_to_it() {
        let home = workspace("[]");
        let args = ["tools", "build", "--watch", "words/tool.ts"];
        let mut watch = BuildWatch::start(home.path(), &args);
        watch.read_cycle();
        fs::write(home.path().join("words/notes.txt"), "not a source").unwrap();
        // Longer than a change needs to be reported.
        std::thread::sleep(std::time::Duration::from_millis(1_000));
        fs::write(
            home.path().join("words/tool.ts"),
            TOOL.replace("firstLine", "topLine"),
        )
        .unwrap();
        let changed = watch.read_cycle();
        assert!(
            changed.contains("changed: tool.ts\n") && changed.contains("top_line"),
            "{changed}"
        );
        assert_eq!(watch.stop(), Some(0));
    }

    #[test]
    fn tools_dev_installs_and_tests_after_each_change() {
        let home = workspace(
            "- {name: reads, call: first_line, arguments: {path: a}, files: {a: one}, text: one}\n",
        );
        let mut watch = BuildWatch::start(home.path(), &["tools", "dev", "words"]);
        let passed = watch.read_cycle();
        assert!(
            passed.contains("Try:  mimir call first_line path=…"),
            "{passed}"
        );
        assert!(home.path().join(".mimir/tools/words.wasm").is_file());
        fs::write(
            home.path().join("words/cases.yml"),
            "- {name: reads, call: first_line}\n",
        )
        .unwrap();
        let failed = watch.read_cycle();
        assert!(failed.contains("changed: cases.yml"), "{failed}");
        // There is no such line after a test that fails.
        assert!(!failed.contains("Try:"), "{failed}");
        assert_eq!(watch.stop(), Some(0));
    }
}
