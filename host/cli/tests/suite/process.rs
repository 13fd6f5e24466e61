//! The binary in a shell: exit codes, streams, pipes.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
#[cfg(unix)]
use std::time::{Duration, Instant};

use crate::kit::{mimir, run};

#[test]
fn workspace_cannot_contain_mimir_config_or_cache() {
    let home = tempfile::tempdir().unwrap();
    for (variable, place) in [
        ("MIMIR_CONFIG_DIR", "config"),
        ("MIMIR_CACHE_DIR", ".cache/x"),
    ] {
        let mut command = mimir(home.path(), &["tools", "list"]);
        command.env(variable, home.path().join(place));
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}");
        assert!(err.contains("cannot be a workspace"), "{err}");
    }
}

#[test]
fn home_folder_has_the_commands_that_need_no_workspace() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join(".config/mimir");
    let run_in = |folder: &Path, args: &[&str]| {
        let mut command = mimir(folder, args);
        command.env("MIMIR_CONFIG_DIR", &own);
        command.env("MIMIR_KEY_PASSWORD", "correct horse battery");
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    };
    for args in [
        &["keys", "new", "release"][..],
        &["keys", "list"],
        &["config", "set", "--user", "profile", "compact"],
        &["config", "set", "--user", "tools.read_file.approval", "ask"],
        &["config", "get", "profile"],
        &["team", "status"],
        &["secrets", "list"],
    ] {
        let (code, _, err) = run_in(home.path(), args);
        assert_eq!(code, 0, "{args:?}: {err}");
        assert!(!err.contains("could not be checked"), "{args:?}: {err}");
    }
    assert!(!home.path().join(".mimir").exists());
    let log = own.join("no-workspace/.mimir/state/audit.jsonl");
    assert!(fs::read_to_string(log).unwrap().contains("key release"));

    for args in [
        &["init"][..],
        &["tools", "list"],
        &["tools", "new", "hello", "--lang", "yaml-bash"],
        &["config", "set", "profile", "compact"],
    ] {
        let (code, _, err) = run_in(home.path(), args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("cannot be a workspace: it contains"), "{err}");
    }
    assert!(!home.path().join(".mimir").exists());
    let (_, out, err) = run_in(home.path(), &["doctor"]);
    let both = out.clone() + &err;
    assert_eq!(both.matches("cannot be a workspace").count(), 1, "{both}");
    assert!(
        !both.contains("mimir init") && !both.contains("WARN"),
        "{both}"
    );

    // Settings that an earlier version has written there do not break the folders below.
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(home.path().join(".mimir/config.yml"), "profile: full\n").unwrap();
    let project = home.path().join("project");
    fs::create_dir(&project).unwrap();
    let (code, _, err) = run_in(&project, &["tools", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(".mimir is ignored"), "{err}");
    let (_, out, _) = run_in(&project, &["config", "get", "profile"]);
    assert!(out.starts_with("compact"), "{out}");
}

#[test]
fn workspace_cannot_be_inside_mimir_config_or_cache() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("own/workspaces");
    fs::create_dir_all(inside.join("deep")).unwrap();
    for variable in ["MIMIR_CONFIG_DIR", "MIMIR_CACHE_DIR"] {
        for home in [&inside, &inside.join("deep")] {
            let mut command = mimir(home, &["call", "write_file", "path=a", "content=x"]);
            command.env(variable, folder.path().join("own"));
            let output = command.output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{variable}: {err}");
            assert!(
                err.contains("cannot be a workspace: it is inside")
                    && err.contains("name a folder outside of it with -C"),
                "{err}"
            );
            assert!(!home.join("a").exists());
        }
        // The name of a folder beside it may begin with the same letters.
        let beside = folder.path().join("own-project");
        fs::create_dir_all(&beside).unwrap();
        let mut command = mimir(&beside, &["secrets", "list"]);
        command.env(variable, folder.path().join("own"));
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{variable}: {err}");
    }
}

#[test]
fn cli_prints_help_and_rejects_bad_arguments() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &["--help"]);
    assert_eq!(code, 0);
    assert!(out.contains("Usage: mimir") && err.is_empty());
    for bad in [
        &["nonsense"][..],
        &["call"],
        &["call", "t", "x"],
        &["-C", "missing", "tools"],
    ] {
        let (code, out, err) = run(home.path(), bad);
        assert_eq!(code, 2, "{bad:?}");
        assert!(
            out.is_empty() && err.starts_with("error:"),
            "{bad:?}: {out} {err}"
        );
    }
}

#[test]
fn cli_prints_results_to_stdout_and_errors_to_stderr() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = run(home.path(), &["call", "no_such_tool"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("[NOT_FOUND]"), "{err}");
    let (code, out, err) = run(home.path(), &["call", "no_such_tool", "--json"]);
    assert_eq!((code, err.as_str()), (2, ""));
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&value["ok"], &value["error"]["code"]),
        (&false.into(), &"NOT_FOUND".into())
    );
}

#[test]
fn json_errors_have_one_format() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("bad")).unwrap();
    fs::create_dir(home.path().join("bad/.mimir")).unwrap();
    fs::write(
        home.path().join("bad/.mimir/config.yml"),
        "limits: {fuel: 0}\n",
    )
    .unwrap();
    for (args, code) in [
        (&["--json"][..], "INVALID_INPUT"),
        (&["nonsense", "--json"], "INVALID_INPUT"),
        (&["call", "--json"], "INVALID_INPUT"),
        (&["call", "t", "x", "--json"], "INVALID_INPUT"),
        (&["call", "t", "--timeout", "1x", "--json"], "INVALID_INPUT"),
        (&["call", "no_such_tool", "--json"], "NOT_FOUND"),
        (&["tools", "info", "no_such_tool", "--json"], "NOT_FOUND"),
        (&["-C", "missing", "tools", "--json"], "INVALID_PATH"),
        (&["-C", "bad", "tools", "--json"], "INVALID_INPUT"),
    ] {
        let (exit, out, err) = run(home.path(), args);
        assert_eq!((exit, err.as_str()), (2, ""), "{args:?}");
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["ok"], false, "{args:?}");
        assert_eq!(value["error"]["code"], code, "{args:?}");
        assert!(value["error"]["message"].is_string(), "{args:?}: {out}");
    }
    let (_, out, _) = run(home.path(), &["-C", "bad", "tools", "--json"]);
    assert!(out.contains("config.yml:1: limits.fuel: 0 "), "{out}");
}

/// A component with one function that never ends, made by wasm-tools from `(component (core module $m (func (export
/// "spin") (loop (br 0)))) (core instance $i (instantiate $m)) (func (export "spin") (canon lift (core func $i
/// "spin"))))`
#[cfg(unix)]
const SPIN: &[u8] = b"\0asm\x0d\0\x01\0\
    \x01\x27\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x08\x01\x04spin\0\0\
    \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b\
    \x02\x04\x01\0\0\0\
    \x06\x0a\x01\0\0\x01\0\x04spin\
    \x07\x05\x01\x40\0\x01\0\
    \x08\x06\x01\0\0\0\0\0\
    \x0b\x0a\x01\0\x04spin\x01\0\0";

#[cfg(unix)]
#[test]
fn call_cancelled_by_a_signal_is_reported_and_audited() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        cancelled(signal, code);
    }
}

#[cfg(unix)]
fn cancelled(signal: rustix::process::Signal, code: i32) {
    let home = tempfile::tempdir().unwrap();
    let (work, cache) = (home.path().join("work"), home.path().join("cache"));
    fs::create_dir_all(work.join(".mimir/tools")).unwrap();
    fs::write(work.join(".mimir/tools/spin.wasm"), SPIN).unwrap();
    let child = mimir(&work, &["call", "spin", "--json"])
        .env("MIMIR_CACHE_DIR", &cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The call is running once its compiled code is cached.
    let start = Instant::now();
    while fs::read_dir(cache.join("compiled")).map_or(0, Iterator::count) == 0 {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "it never started"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, signal).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*err), (Some(code), ""));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["ok"], false);
    assert_eq!(value["error"]["code"], "CANCELLED");
    let record = fs::read_to_string(work.join(".mimir/state/audit.jsonl")).unwrap();
    assert!(record.contains("CANCELLED"), "{record}");
}

#[test]
fn config_that_is_invalid_stops_commands_except_doctor() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(
        home.path().join(".mimir/config.yml"),
        "profile: fine\npolcy: {}\n",
    )
    .unwrap();
    let (code, _, err) = run(home.path(), &["tools", "list"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("config.yml:2:1:") && err.contains("Did you mean `policy`?"),
        "{err}"
    );
    let (code, out, _) = run(home.path(), &["doctor"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("✗ config") && out.contains("✓ engine") | out.contains("! engine"),
        "{out}"
    );
}

#[test]
fn cache_that_cannot_be_used_is_reported_once() {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(home.path().join("file"), "in the way").unwrap();
    let run = |args: &[&str]| {
        let mut command = mimir(&work, args);
        command.env("MIMIR_CACHE_DIR", home.path().join("file/cache"));
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, err) = run(&["call", "file_info", "path=."]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("MIMIR_CACHE_DIR"), "{err}");
    let (code, out, _) = run(&["doctor"]);
    assert_eq!(code, Some(1));
    assert!(
        out.contains("✗ cache") && out.contains("MIMIR_CACHE_DIR"),
        "{out}"
    );
}

#[test]
fn cache_dir_variable_that_is_relative_is_ignored() {
    let home = tempfile::tempdir().unwrap();
    let mut command = mimir(home.path(), &["tools", "list"]);
    let output = command.env("MIMIR_CACHE_DIR", "cache").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("MIMIR_CACHE_DIR is ignored"), "{err}");
    assert!(!home.path().join("cache").exists());
}

#[test]
fn path_error_in_a_subfolder_names_the_workspace_root() {
    let home = tempfile::tempdir().unwrap();
    let sub = home.path().join("a/b c");
    fs::create_dir_all(&sub).unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    fs::write(sub.join("notes.txt"), "here").unwrap();
    let (code, _, err) = run(&sub, &["call", "read_file", "path=notes.txt"]);
    assert_eq!(code, 1);
    let current = std::path::Path::new("a").join("b c");
    let current = format!("; the current folder is {}", current.display());
    assert!(
        err.contains("paths are relative to ") && err.contains(&current),
        "{err}"
    );
    let (_, _, err) = run(home.path(), &["call", "read_file", "path=notes.txt"]);
    assert!(!err.contains("paths count"), "{err}");
    let (code, out, _) = run(&sub, &["call", "read_file", "path=a/b c/notes.txt"]);
    assert_eq!((code, out.trim_end()), (0, "here"));
}

#[test]
fn closed_stdout_pipe_is_not_an_error() {
    let home = tempfile::tempdir().unwrap();
    let mut child = mimir(home.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn man_pages_cover_visible_commands() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a folder/man1");
    let (code, out, err) = run(home.path(), &["man-pages", folder.to_str().unwrap()]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("mimir.1").contains("mimir\\-call(1)"));
    assert!(page("mimir-tools-build.1").contains(".SH SYNOPSIS"));
    // Examples keep their line breaks.
    let call = page("mimir-call.1");
    assert!(
        call.contains(".nf\n  mimir call read_file path=src/main.rs"),
        "{call}"
    );
    assert!(!folder.join("mimir-man-pages.1").exists());

    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, _, err) = run(home.path(), &["man-pages", file.to_str().unwrap()]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("cannot create ") && err.contains("file"),
        "{err}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_fails() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::File::create("/dev/full").unwrap();
    let output = mimir(folder.path(), &["--help"]).stdout(full).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: "), "{text}");
}

#[test]
fn tools_new_creates_a_plugin_without_overwriting() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("a folder/wörd");
    let dir = dir.to_str().unwrap();
    let (code, out, _) = run(home.path(), &["tools", "new", "word-count", "--dir", dir]);
    assert_eq!(code, 0);
    assert!(out.contains("`word_count`"), "{out}");
    let source = fs::read_to_string(Path::new(dir).join("src/lib.rs")).unwrap();
    assert!(
        source.contains("struct WordCount") && source.lines().count() <= 16,
        "{source}"
    );
    // Cargo finds the SDK by itself, before the first build.
    let pointer = fs::read_to_string(Path::new(dir).join(".cargo/config.toml")).unwrap();
    let (_, sdk) = pointer.split_once("mimir-sdk = { path = ").unwrap();
    let sdk: String = serde_json::from_str(sdk.trim_end().trim_end_matches(" }")).unwrap();
    assert!(Path::new(&sdk).join("Cargo.toml").is_file(), "{pointer}");
    let (code, _, err) = run(home.path(), &["tools", "new", "word-count", "--dir", dir]);
    assert_eq!(code, 2);
    assert!(err.contains("[ALREADY_EXISTS]"), "{err}");
}

#[test]
fn tools_new_warns_without_rust_and_names_other_ways() {
    let home = tempfile::tempdir().unwrap();
    let new = |args: &[&str]| {
        let mut command = mimir(home.path(), args);
        let output = command.env("PATH", home.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let (out, err) = new(&["tools", "new", "hello"]);
    assert!(out.contains("mimir tools build hello"), "{out}");
    for part in [
        "Rust is not installed",
        "rustup target add wasm32-wasip2",
        "mimir tools new hello --lang ts",
    ] {
        assert!(err.contains(part), "{err}");
    }
    let (out, _) = new(&["tools", "new", "hello2", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(report["warning"].as_str().unwrap().contains("rustup.rs"));
    let (_, err) = new(&["tools", "new", "hello3", "--lang", "ts"]);
    assert!(!err.contains("Rust"), "{err}");
}

#[test]
fn version_names_commit_target_and_engine() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, _) = run(home.path(), &["--version"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (0, 4), "{out}");
    assert_eq!(lines[0], concat!("mimir ", env!("CARGO_PKG_VERSION")));
    for (line, start) in lines[1..]
        .iter()
        .zip(["commit: ", "target: ", "engine: wasmtime "])
    {
        assert!(line.len() > start.len() && line.starts_with(start), "{out}");
    }
    assert!(lines[2].contains(std::env::consts::ARCH), "{out}");
    let (_, short, _) = run(home.path(), &["-V"]);
    assert_eq!(short.trim_end(), lines[0]);
}

#[test]
fn doctor_json_is_fit_for_a_bug_report() {
    let home = tempfile::tempdir().unwrap();
    let secret = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let work = home.path().join(&secret);
    fs::create_dir(&work).unwrap();
    let mut command = mimir(&work, &["doctor", "--json"]);
    let output = command.env("HOME", home.path()).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let folder = home.path().display().to_string();
    assert!(!out.contains(&secret) && !out.contains(&folder), "{out}");
    // The home may be named by a link, as on systems that keep it on another volume.
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("home");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        let mut command = mimir(&work, &["doctor", "--json"]);
        let output = command.env("HOME", &link).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(out.contains("~/") && !out.contains(&folder), "{out}");
    }
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    for key in ["ok", "version", "commit", "target", "wasmtime"] {
        assert!(report.get(key).is_some(), "{key}: {report:#}");
    }
    let findings = report["findings"].as_array().unwrap();
    let names: Vec<&str> = findings
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    for name in [
        "program",
        "workspace",
        "config",
        "team policy",
        "engine",
        "cache",
        "approvals",
        "tools",
        "sandbox",
        "sandboxes",
        "audit",
        "building",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for finding in findings {
        let health = finding["health"].as_str().unwrap();
        assert!(["good", "fair", "bad"].contains(&health), "{finding}");
        match health {
            "good" => assert!(finding.get("fix").is_none(), "{finding}"),
            "bad" => assert!(finding.get("fix").is_some(), "{finding}"),
            _ => {}
        }
    }
}

#[test]
fn state_folder_is_ignored_by_git() {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &["call", "no_such_tool"]);
    let state = home.path().join(".mimir/state");
    assert_eq!(fs::read_to_string(state.join(".gitignore")).unwrap(), "*\n");
    assert_eq!(
        fs::read_to_string(state.join("audit.jsonl"))
            .unwrap()
            .lines()
            .count(),
        1
    );
}

/// mimir can be stopped even if its output is not read.
#[test]
#[cfg(unix)]
fn signal_ends_mimir_while_stdout_is_blocked() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join("long.txt"),
        "a line of text\n".repeat(6_000),
    )
    .unwrap();
    let mut child = mimir(
        home.path(),
        &["call", "read_file", "path=long.txt", "--json"],
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    // The result is larger than the pipe's buffer, so printing blocks while no process reads it.
    let start = Instant::now();
    let log = home.path().join(".mimir/state/audit.jsonl");
    while !log.exists() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        child.try_wait().unwrap().is_none(),
        "it waits for its reader"
    );
    let told = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status();
    assert!(told.unwrap().success());
    let told = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(told.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn tools_new_refuses_existing_tool_names_and_aliases() {
    let home = tempfile::tempdir().unwrap();
    for (name, whose) in [
        (
            "read-file",
            "it is the name of the tool `read_file` (built-in",
        ),
        (
            "list_files",
            "it is an alias of the tool `list_directory` (",
        ),
    ] {
        let (code, _, err) = run(home.path(), &["tools", "new", name]);
        assert!(code == 2 && err.contains(whose), "{err}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// Returns false, with a note, on Windows without cargo, as under wine on another system.
fn has_cargo() -> bool {
    let is_missing = cfg!(windows)
        && std::process::Command::new("cargo")
            .arg("--version")
            .output()
            .is_err();
    if is_missing {
        eprintln!("skipped: cargo is not on the PATH");
    }
    !is_missing
}

/// A plugin with a compile error, and without dependencies to fetch.
fn faulty_plugin() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("typo");
    fs::create_dir_all(dir.join("src")).unwrap();
    let manifest = "[package]\nname = \"typo\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
        [lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let code = "pub struct A { pub name: u8 }\n\
        impl A { pub fn f(&self) -> u8 { self.nmae } }\n";
    fs::write(dir.join("src/lib.rs"), code).unwrap();
    home
}

#[test]
fn tools_build_shows_the_compilers_messages() {
    if !has_cargo() {
        return;
    }
    let home = faulty_plugin();
    let (code, _, err) = run(home.path(), &["tools", "build", "typo"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("E0609") && err.contains("nmae"), "{err}");
    let (above, _) = err.split_once("its messages are above").unwrap();
    assert!(above.contains("E0609"), "{err}");
}

#[test]
fn tools_build_has_the_compilers_messages_in_json() {
    if !has_cargo() {
        return;
    }
    let home = faulty_plugin();
    let (code, out, err) = run(home.path(), &["tools", "build", "typo", "--json"]);
    assert_eq!(code, 1, "{out}{err}");
    let output: serde_json::Value = serde_json::from_str(&out).unwrap();
    let messages = output["error"]["details"]["messages"].as_array().unwrap();
    let has = |part: &str| {
        let mut lines = messages.iter().filter_map(|line| line.as_str());
        lines.any(|line| line.contains(part))
    };
    assert!(has("E0609") && has("nmae"), "{output:#}");
    assert!(err.contains("E0609"), "as they come, too: {err}");
}

#[cfg(target_os = "linux")]
#[ignore = "needs tmux"]
#[test]
fn secrets_set_cancelled_with_ctrl_c_restores_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let script = format!(
        "stty -g > before; MIMIR_CONFIG_DIR='{}' '{}' secrets set --file KEY; code=$?; stty -g > after; echo \"ended $code\"; read wait",
        crate::kit::config(home.path()).display(),
        crate::kit::program()
    );
    for (key, code) in [("C-c", 130), ("C-\\", 130), ("Enter", 0)] {
        let tmux = crate::kit::tmux::Tmux::start(home.path(), (80, 24), &script);
        tmux.wait_for_text("not shown");
        tmux.keys(&["hunter2-value", key]);
        let screen = tmux.wait_for_text("ended");
        assert!(screen.contains(&format!("ended {code}")), "{key}: {screen}");
        assert!(!screen.contains("hunter2"), "{key}: {screen}");
        let settings = ["before", "after"].map(|name| fs::read(home.path().join(name)).unwrap());
        assert_eq!(settings[0], settings[1], "{key}");
        let (_, listed, _) = run(home.path(), &["secrets", "list"]);
        assert_eq!(listed.contains("KEY"), code == 0, "{key}: {listed}");
    }
}
