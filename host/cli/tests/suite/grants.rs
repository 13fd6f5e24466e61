//! Grants and approvals of a person, in a shell and a terminal: plugins, rebuilt plugins, a lock file that is removed
//! and restored, stored approvals.

use crate::kit::plugin;
use std::fs;
use std::path::Path;

use crate::kit::run;
use serde_json::Value;
use tempfile::TempDir;

const CALL: &[&str] = &["call", "prob_search", "mode=glob", "query=*"];
const PLACE: &str = ".mimir/tools/prob.wasm";
const LOCK: &str = ".mimir/tools.lock";

/// Differences between builds of the plugin.
#[derive(Clone, Copy)]
enum Build {
    /// Different bytes only.
    Same(u8),
    /// Additional needs.
    Widened,
}

/// The search tool under another name, as a third-party plugin that needs to read the workspace.
fn plugin(build: Build) -> Vec<u8> {
    let mut bytes = plugin::search();
    match build {
        // A custom section, which is ignored: id, length, length of its name, name, content.
        Build::Same(mark) => bytes.extend([0, 3, 1, b'x', mark]),
        Build::Widened => plugin::swap(&mut bytes, b"to search the files", b"to steal, the files"),
    }
    bytes
}

fn workspace() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir/tools")).unwrap();
    home
}

fn install(home: &Path, build: Build) {
    fs::write(home.join(PLACE), plugin(build)).unwrap();
}

fn done(home: &Path, args: &[&str]) -> String {
    let (code, out, err) = run(home, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    out
}

fn json(home: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&done(home, &[args, &["--json"]].concat())).unwrap()
}

/// Trusts the current build, as a person would who has reviewed it elsewhere.
fn trust(home: &Path, more: &[&str]) {
    let info = json(home, &["tools", "info", "prob_search"]);
    let digest = info["digest"].as_str().unwrap();
    let trust = ["tools", "trust", "prob_search", "--digest", digest];
    done(home, &[&trust, more].concat());
}

fn runs(home: &Path) -> bool {
    let (code, _, err) = run(home, CALL);
    assert!(code == 0 || code == 3, "{err}");
    code == 0
}

/// The events of one kind in the audit log.
fn events(home: &Path, kind: &str) -> Vec<Value> {
    let log = fs::read_to_string(home.join(".mimir/state/audit.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

#[test]
fn grant_revoked_is_not_restored_by_old_lock_file() {
    let home = workspace();
    let home = home.path();
    install(home, Build::Same(1));
    assert!(!runs(home), "it is not granted");
    trust(home, &[]);
    assert!(runs(home));
    let lock = fs::read(home.join(LOCK)).unwrap();
    install(home, Build::Same(2));
    assert!(!runs(home), "another build");
    trust(home, &[]);
    assert!(runs(home));
    done(home, &["tools", "revoke", "prob_search"]);
    install(home, Build::Same(1));
    fs::write(home.join(LOCK), &lock).unwrap();
    assert!(!runs(home), "the lock of before came back");

    trust(home, &[]);
    assert!(runs(home));
    fs::remove_file(home.join(LOCK)).unwrap();
    done(home, &["tools", "revoke", "prob_search"]);
    fs::write(home.join(LOCK), &lock).unwrap();
    assert!(!runs(home), "it was taken back while the lock was away");
    assert_eq!(events(home, "grant").len(), 3);
    assert_eq!(events(home, "revoke").len(), 2);
}

#[test]
fn lock_file_with_merge_conflict_is_explained_and_revoked() {
    let home = workspace();
    let home = home.path();
    install(home, Build::Same(1));
    trust(home, &[]);
    let lock = fs::read_to_string(home.join(LOCK)).unwrap();
    fs::write(home.join(LOCK), format!("<<<<<<< ours\n{lock}")).unwrap();
    let digest = json(home, &["tools", "info", "prob_search"])["digest"].clone();
    for args in [
        &[
            "tools",
            "trust",
            "prob_search",
            "--digest",
            digest.as_str().unwrap(),
        ][..],
        &["tools", "revoke", "prob_search"],
    ] {
        let (code, _, err) = run(home, args);
        assert_ne!(code, 0);
        for part in ["resolve the conflicts", "mimir tools trust"] {
            assert!(err.contains(part), "{args:?}: {err}");
        }
    }
    fs::write(home.join(LOCK), &lock).unwrap();
    assert!(!runs(home), "it was taken back all the same");
}

#[test]
fn grant_of_wider_rights_needs_more_than_approve_always() {
    let home = workspace();
    let home = home.path();
    let always = [CALL, &["--approve", "always"]].concat();
    install(home, Build::Same(1));
    done(home, &always);
    trust(home, &[]);
    install(home, Build::Same(2));
    done(home, &always);
    install(home, Build::Widened);
    let (code, _, err) = run(home, &always);
    assert_eq!(code, 3, "{err}");
    for part in [
        "changes of its plugin since the grant",
        "mimir tools trust prob_search",
        "to steal,",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let (_, _, err) = run(home, CALL);
    assert!(!err.contains("--approve always"), "{err}");
    trust(home, &[]);
    assert!(runs(home));
}

#[test]
fn tools_add_does_not_take_the_name_of_another_tool() {
    let home = workspace();
    let home = home.path();
    let file = home.join("prob.wasm");
    fs::write(&file, plugin(Build::Same(1))).unwrap();
    done(home, &["tools", "add", file.to_str().unwrap()]);
    // Its name comes first, so its tools would.
    let other = home.join("a_prob.wasm");
    fs::copy(&file, &other).unwrap();
    let other = other.to_str().unwrap();
    let (code, _, err) = run(home, &["tools", "add", other]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("prob.wasm already has a tool `prob_search`")
            && err.contains("--prefix a_prob_"),
        "{err}"
    );
    assert!(!home.join(".mimir/tools/a_prob.wasm").exists());
    let added = json(home, &["tools", "add", other, "--prefix", "a_prob_"]);
    assert_eq!(added["tools"][0], "a_prob_prob_search");
}

#[test]
fn tools_add_checks_the_digest_and_is_audited() {
    let home = workspace();
    let home = home.path();
    let file = home.join("prob.wasm");
    fs::write(&file, plugin(Build::Same(1))).unwrap();
    let file = file.to_str().unwrap();
    let wrong = "00".repeat(32);
    let (code, _, err) = run(home, &["tools", "add", file, "--digest", &wrong]);
    assert_eq!(code, 3, "{err}");
    assert!(!home.join(PLACE).exists());
    let added = json(home, &["tools", "add", file]);
    assert_eq!(added["tools"][0], "prob_search");
    let (code, _, err) = run(home, &["tools", "add", file]);
    assert!(code != 0 && err.contains("--force"), "{err}");
    done(home, &["tools", "add", file, "--force"]);
    let details: Vec<_> = events(home, "config-change")
        .iter()
        .map(|event| event["detail"].as_str().unwrap().to_owned())
        .collect();
    let digest = added["digest"].as_str().unwrap();
    assert_eq!(
        details,
        [
            format!(
                "refused: digest mismatch: the file has {digest}, expected {wrong}; nothing was added"
            ),
            format!("added, sha256 {digest}"),
            format!("replaced, sha256 {digest}")
        ]
    );

    let info = done(home, &["tools", "info", "prob_search"]);
    for part in ["read the workspace — to search", "cannot reach the network"] {
        assert!(info.contains(part), "{info}");
    }
    let (code, _, err) = run(home, &["tools", "trust", "prob_search"]);
    assert_eq!(code, 3, "no person is available to review it");
    assert!(err.contains(&format!("--digest {digest}")), "{err}");
    let (code, _, err) = run(home, &["tools", "revoke", "prob_search"]);
    assert!(code == 1 && err.contains("has no grant"), "{err}");
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use super::*;
    use crate::kit::terminal::answered;

    #[test]
    fn grant_withheld_rights_stay_withheld_when_renewed() {
        let home = workspace();
        let home = home.path();
        install(home, Build::Same(1));
        trust(home, &["--without", "files"]);
        install(home, Build::Widened);
        let Some((code, card)) = answered(home, CALL, "a") else {
            return;
        };
        // Without its files it cannot work, and reports that.
        assert_eq!(code, 3, "{card}");
        assert!(card.contains("PERMISSION_DENIED"), "{card}");
        for part in [
            "cannot reach the network",
            "has changed since it was granted",
            "to steal,",
            "what all its tools need, except",
            "and withholds, as before",
        ] {
            assert!(card.contains(part), "{part}: {card}");
        }
        assert!(!card.contains("yes also grants"), "{card}");
        let lock = fs::read_to_string(home.join(LOCK)).unwrap();
        assert!(lock.contains("withheld:\n    - files"), "{lock}");
        let grants = events(home, "grant");
        assert_eq!(grants.len(), 2);
        assert_eq!(grants[1]["subject"], PLACE);
        assert_eq!(grants[1]["answer"], "always");
        let detail = grants[1]["detail"].as_str().unwrap();
        assert!(detail.ends_with("without files"), "{detail}");
    }

    #[test]
    fn approval_is_stored_listed_explained_and_revoked() {
        let home = workspace();
        let home = home.path();
        fs::write(home.join("a.txt"), "old").unwrap();
        let write = ["write_file", "path=a.txt", "content=new"];
        let call = [&["call"], &write[..]].concat();
        let Some((code, card)) = answered(home, &call, "a") else {
            return;
        };
        assert_eq!(code, 0, "{card}");
        done(home, &call);
        let explained = json(home, &[&["policy", "explain"], &write[..]].concat());
        let listed = json(home, &["approvals", "list"]);
        let id = listed["approvals"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(
            (&explained["decision"], &explained["lease"]),
            (&"ask".into(), &id.as_str().into())
        );
        let output = done(home, &[&["policy", "explain"], &write[..]].concat());
        assert!(output.contains("It runs without a question"), "{output}");
        assert!(done(home, &["approvals", "list"]).contains(&id[..12]));
        let kept = events(home, "approval");
        assert_eq!(
            (&kept[0]["answer"], &kept[0]["subject"]),
            (&"always".into(), &id.as_str().into())
        );

        let (code, _, err) = run(home, &["approvals", "revoke", "no such id"]);
        assert!(code == 1 && err.contains("mimir approvals list"), "{err}");
        done(home, &["approvals", "revoke", &id[..12]]);
        assert_eq!(
            json(home, &["approvals", "list"])["approvals"],
            serde_json::json!([])
        );
        assert_eq!(run(home, &call).0, 3);
        assert_eq!(events(home, "revoke").len(), 1);
    }

    #[test]
    fn approval_of_delete_file_is_never_stored() {
        let home = workspace();
        let home = home.path();
        fs::write(home.join("a.txt"), "old").unwrap();
        let call = ["call", "delete_file", "path=a.txt"];
        let Some((code, card)) = answered(home, &call, "a\ny") else {
            return;
        };
        assert_eq!(code, 0, "{card}");
        assert!(
            !card.contains("[a]lways") && card.contains("Please answer y, e or n"),
            "{card}"
        );
        fs::write(home.join("a.txt"), "another").unwrap();
        assert_eq!(run(home, &call).0, 3);
    }
}

/// A program that was not written for mimir, built by the compiler of these tests: it reads or writes a file, or
/// prints a variable.
// The compiler does not run under wine.
#[cfg(unix)]
fn foreign_program() -> Vec<u8> {
    const CODE: &str = r#"
        fn main() {
            let args: Vec<String> = std::env::args().collect();
            let done = match args[1].as_str() {
                "read" => std::fs::read_to_string(&args[2]),
                "write" => std::fs::write(&args[2], "written").map(|()| String::new()),
                _ => Ok(std::env::var(&args[2]).unwrap_or_default()),
            };
            match done {
                Ok(text) => print!("{text}"),
                Err(error) => {
                    eprintln!("{error}");
                    std::process::exit(1);
                }
            }
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let (code, built) = (
        folder.path().join("main.rs"),
        folder.path().join("main.wasm"),
    );
    fs::write(&code, CODE).unwrap();
    let status = std::process::Command::new(option_env!("RUSTC").unwrap_or("rustc"))
        .args(["--target", "wasm32-wasip2", "-Copt-level=1", "-o"])
        .args([&built, &code])
        .current_dir(folder.path())
        .status();
    assert!(status.unwrap().success());
    fs::read(&built).unwrap()
}

#[cfg(unix)]
#[test]
fn trust_takes_a_policy_file_as_requests() {
    let home = workspace();
    let home = home.path();
    fs::create_dir(home.join("docs")).unwrap();
    fs::write(home.join("docs/a.txt"), "from docs").unwrap();
    fs::write(home.join(".mimir/tools/reader.wasm"), foreign_program()).unwrap();
    let policy = home.join(".mimir/tools/reader.policy.yaml");
    let text = "\
version: '1.0'
permissions:
  network: {allow: [{host: api.example.com}]}
  environment: {allow: [{key: API_KEY}]}
  storage:
    allow:
      - {uri: 'fs://docs/**', access: [read]}
      - {uri: 'fs:///', access: [read, write]}
";
    fs::write(&policy, text).unwrap();
    let (_, _, output) = run(home, &["tools", "list"]);
    assert!(!output.contains("policy"), "it is not a tool: {output}");
    let read = || {
        let args = serde_json::json!({ "args": ["read", "docs/a.txt"] }).to_string();
        run(home, &["call", "reader", "--approve", "never", &args])
    };
    // Without a person, the file grants nothing.
    assert_eq!(read().0, 1);
    let (_, _, output) = run(home, &["tools", "trust", "reader", "--read", "docs"]);
    assert!(
        output.contains("`--policy .mimir/tools/reader.policy.yaml`"),
        "{output}"
    );
    let policy = policy.to_str().unwrap();
    let words = ["tools", "trust", "reader", "--policy", policy];
    let (code, _, output) = run(home, &words);
    assert_eq!(code, 3, "{output}");
    for line in [
        "not requested: the variable `API_KEY`: pass its value with `--env API_KEY=VALUE`",
        "not requested: the path `/`: it is not a folder below the workspace",
        "not requested: rights that the component has no import for",
        "read `docs`",
    ] {
        assert!(output.contains(line), "{line}: {output}");
    }
    assert_eq!(read().0, 1);
    // The digest of the component does not confirm what the file requests.
    let digest = json(home, &["tools", "info", "reader"])["digest"].clone();
    let digest = ["--digest", digest.as_str().unwrap()];
    let (code, _, output) = run(home, &[&words[..], &digest].concat());
    assert_eq!(code, 2, "{output}");
    assert_eq!(read().0, 1);
    let words = ["tools", "trust", "reader", "--read", "docs"];
    done(home, &[&words[..], &digest].concat());
    assert_eq!(read().1.trim(), "from docs");

    fs::write(home.join("other.yaml"), "name: x").unwrap();
    let (code, _, output) = run(
        home,
        &["tools", "trust", "reader", "--policy", "other.yaml"],
    );
    assert_eq!(code, 2, "{output}");
    assert!(output.contains("`policy.yaml` of wassette"), "{output}");
}

#[cfg(unix)]
#[test]
fn trust_grants_folders_and_variables_to_a_foreign_program() {
    let home = workspace();
    let home = home.path();
    for (folder, text) in [("docs", "from docs"), ("out", "")] {
        fs::create_dir(home.join(folder)).unwrap();
        fs::write(home.join(folder).join("a.txt"), text).unwrap();
    }
    fs::write(home.join(".mimir/tools/exec.wasm"), foreign_program()).unwrap();
    // Its name is taken, and the suggested command works.
    let (_, _, output) = run(home, &["tools", "list"]);
    assert!(
        output.contains("`mimir tools trust exec.wasm --prefix exec_`"),
        "{output}"
    );
    // The advice of a refused grant repeats its options and keeps the names.
    let refused = [
        "tools",
        "trust",
        "exec.wasm",
        "--prefix",
        "its_",
        "--read",
        "docs",
    ];
    let (code, _, output) = run(home, &refused);
    assert_eq!(code, 3, "{output}");
    let advice = "tools trust exec.wasm --prefix its_ --read docs --digest ";
    assert!(output.contains(advice), "{output}");
    let (_, _, output) = run(home, &["tools", "list"]);
    assert!(output.contains("exec.wasm --prefix exec_"), "{output}");
    done(home, &["tools", "trust", "exec.wasm", "--prefix", "their_"]);
    let call = |args: &[&str]| {
        let args = serde_json::json!({ "args": args }).to_string();
        run(home, &["call", "their_exec", "--approve", "never", &args])
    };
    let (code, _, output) = call(&["read", "docs/a.txt"]);
    assert_eq!(code, 1, "{output}");
    assert!(
        output.contains(
            "`their_exec` was granted no files; `mimir tools trust their_exec --read DIR`"
        ),
        "{output}"
    );
    let info = done(home, &["tools", "info", "their_exec"]);
    assert!(info.contains("granted no files"), "{info}");
    let explained = json(home, &["policy", "explain", "their_exec"]);
    assert!(
        explained["ungranted"]
            .as_str()
            .unwrap()
            .contains("--read DIR"),
        "{explained}"
    );

    let digest = json(home, &["tools", "info", "their_exec"])["digest"].clone();
    let digest = digest.as_str().unwrap();
    let trust = |more: &[&str]| {
        let words = ["tools", "trust", "their_exec", "--digest", digest];
        run(home, &[&words, more].concat())
    };
    for wrong in [
        &["--read", "missing"][..],
        &["--read", "../x"],
        &["--read", "/"],
        &["--config", "a=b"],
        &["--host", "api.example.com"],
    ] {
        let (code, _, output) = trust(wrong);
        assert_eq!(code, 2, "{wrong:?}: {output}");
    }
    let (code, _, output) = trust(&[
        "--read",
        "docs",
        "--write",
        "./out/",
        "--env",
        "UNITS=metric",
    ]);
    assert_eq!(code, 0, "{output}");
    assert_eq!(call(&["read", "docs/a.txt"]).1.trim(), "from docs");
    assert_eq!(call(&["write", "out/b.txt"]).0, 0);
    assert_eq!(
        fs::read_to_string(home.join("out/b.txt")).unwrap(),
        "written"
    );
    assert_eq!(call(&["write", "docs/b.txt"]).0, 1);
    assert!(!home.join("docs/b.txt").exists());
    assert_eq!(call(&["variable", "UNITS"]).1.trim(), "metric");
    let info = done(home, &["tools", "info", "their_exec"]);
    assert!(
        info.contains("read `docs`") && info.contains("read and write `out`"),
        "{info}"
    );
    // Naming one kind of need does not change the others.
    assert_eq!(trust(&["--read", "out"]).0, 0);
    assert_eq!(call(&["variable", "UNITS"]).1.trim(), "metric");
    assert_eq!(call(&["read", "docs/a.txt"]).0, 1);
    // The grant is bound to the bytes of the plugin.
    let mut other = fs::read(home.join(".mimir/tools/exec.wasm")).unwrap();
    other.extend([0, 3, 1, b'x', 1]);
    fs::write(home.join(".mimir/tools/exec.wasm"), other).unwrap();
    let (code, _, output) = call(&["read", "out/a.txt"]);
    assert_eq!(code, 1, "{output}");
    assert!(
        output.contains("has changed since it was granted files"),
        "{output}"
    );
}

#[test]
fn lock_file_warning_is_shown_once_per_call() {
    let home = workspace();
    let home = home.path();
    install(home, Build::Same(1));
    fs::write(home.join(LOCK), "not a lock file").unwrap();
    // The plugin is not described yet, so the tools are loaded in two steps.
    let cache = tempfile::tempdir().unwrap();
    for args in [&["call", "no_such_tool"][..], CALL] {
        let mut command = crate::kit::mimir(home, args);
        let output = command.env("MIMIR_CACHE_DIR", cache.path()).output();
        let err = String::from_utf8(output.unwrap().stderr).unwrap();
        assert_eq!(err.matches("warning:").count(), 1, "{err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn trust_in_a_folder_with_a_non_unicode_name_prints_its_command() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff b"));
    fs::create_dir_all(home.join(".mimir/tools")).unwrap();
    install(&home, Build::Same(1));
    let mut command = crate::kit::mimir(folder.path(), &["tools", "trust", "prob_search", "-C"]);
    let output = command.arg(&home).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("mimir tools trust prob_search -C '") && err.contains("b' --digest "),
        "{err}"
    );
}

#[test]
fn grant_lets_a_tool_replace_a_built_in_one() {
    let home = workspace();
    let file = home.path().join(".mimir/tools/apply_patch.yml");
    let tool = "name: apply_patch\ndescription: Reads.\nschema: {type: object}\npermissions: {autoAccept: true}\ncode: |\n  \
                export async function execute(args, { platform: { fs } }) {\n    return String(await fs.exists('a'));\n  }\n";
    fs::write(file, tool).unwrap();
    let source = || json(home.path(), &["tools", "info", "apply_patch"])["source"].clone();
    assert_eq!(source(), "built-in");
    let (code, _, err) = run(home.path(), &["tools", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("left out:") && err.contains("`mimir tools trust apply_patch.yml`"),
        "{err}"
    );
    let trust = ["tools", "trust", "apply_patch.yml"];
    let (_, _, err) = run(home.path(), &trust);
    let digest = err.split("--digest ").nth(1).unwrap();
    let digest = digest.split('`').next().unwrap();
    done(home.path(), &[&trust[..], &["--digest", digest]].concat());
    assert_eq!(source(), "custom");
    let (_, _, err) = run(home.path(), &["tools", "list"]);
    assert!(err.contains("replaced:"), "{err}");
    done(home.path(), &["tools", "revoke", "apply_patch.yml"]);
    assert_eq!(source(), "built-in");
}

#[test]
fn remedies_for_another_workspace_name_it() {
    let home = workspace();
    install(home.path(), Build::Same(1));
    let elsewhere = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let call = [&["-C", root], CALL].concat();
    let (code, _, err) = run(elsewhere.path(), &call);
    assert_eq!(code, 3, "{err}");
    let command = format!("`mimir -C {root} tools trust prob_search`");
    assert!(err.contains(&command), "{err}");
    let (_, out, _) = run(elsewhere.path(), &[&call[..], &["--json"]].concat());
    assert!(out.contains(&command), "{out}");
    // It is the workspace of this folder.
    for args in [CALL.to_vec(), call] {
        let (_, _, err) = run(home.path(), &args);
        assert!(err.contains("`mimir tools trust prob_search`"), "{err}");
    }
}
