//! Files in a checkout that replace mimir's own: pipes on which a reader would block, and links to other places.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{mimir, run};

/// Every file below `.mimir` that some command reads or writes.
const FILES: [&str; 11] = [
    "config.yml",
    ".gitignore",
    "tools.lock",
    "config.schema.json",
    "tools/planted.wasm",
    "state/.gitignore",
    "state/audit.jsonl",
    "state/audit.000000000009.jsonl",
    "state/audit.head",
    "state/audit.reserve",
    "state/backups/0000-planted.json",
];

/// Commands that together read all of these files and write some.
const COMMANDS: [&[&str]; 10] = [
    &["init"],
    &["audit", "tail"],
    &["audit", "verify"],
    &["audit", "show"],
    &["doctor"],
    &["tools", "list"],
    &["call", "file_info", "path=notes.txt"],
    &["tools", "revoke", "planted"],
    &["policy", "check"],
    &["undo", "--list"],
];

/// Longer than any command takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command that must end.
fn ends(home: &Path, args: &[&str], why: &str) -> (i32, String) {
    let mut command = mimir(home, args);
    let log = home.join("said");
    let to = || Stdio::from(fs::File::create(&log).unwrap());
    let mut child = command.stdout(to()).stderr(to()).spawn().unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (
                status.code().unwrap(),
                fs::read_to_string(&log).unwrap_or_default(),
            );
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("`mimir {}` waits for {why}", args.join(" "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".mimir/state/backups")).unwrap();
    fs::create_dir(home.path().join(".mimir/tools")).unwrap();
    home
}

#[test]
fn planted_pipes_and_devices_do_not_block_commands() {
    for file in FILES {
        for device in [false, true] {
            let home = workspace();
            let path = home.path().join(".mimir").join(file);
            if device {
                symlink("/dev/zero", &path).unwrap();
            } else {
                assert!(
                    Command::new("mkfifo")
                        .arg(&path)
                        .status()
                        .unwrap()
                        .success()
                );
            }
            for args in COMMANDS {
                ends(home.path(), args, file);
            }
        }
    }
}

#[test]
fn planted_link_as_audit_file_is_refused() {
    for name in ["audit.jsonl", "audit.000000000001.jsonl", "audit.head"] {
        let home = workspace();
        let state = home.path().join(".mimir/state");
        let elsewhere = home.path().join("elsewhere");
        fs::write(&elsewhere, "{\"tool\":\"somebody's\"}\n").unwrap();
        symlink(&elsewhere, state.join(name)).unwrap();
        for verb in ["tail", "verify", "show"] {
            let (code, out, err) = run(home.path(), &["audit", verb]);
            let says = err.contains(&format!("{name} is a link; remove it"));
            assert!(code == 1 && says && out.is_empty(), "{verb}: {out}{err}");
        }
        let (code, out, _) = run(home.path(), &["doctor"]);
        assert!(code == 1 && out.contains("is a link; remove it"), "{out}");
    }
}

#[test]
fn planted_links_are_never_written_through() {
    let build = tempfile::tempdir().unwrap();
    let component = build.path().join("some.wasm");
    fs::write(&component, b"\0asm\x0d\0\x01\0").unwrap();
    let component = component.to_str().unwrap();
    for linked in [".mimir", ".mimir/state", ".mimir/tools"] {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir_all(elsewhere.path().join("backups")).unwrap();
        let link = home.path().join(linked);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(elsewhere.path(), &link).unwrap();
        let (code, _, err) = run(home.path(), &["init"]);
        let says = err.contains(&format!("{linked} is a link; remove it"));
        assert!(code == 3 && says, "{err}");
        for args in [
            ["call", "write_file", "path=a.txt", "content=x"].as_slice(),
            &["tools", "add", component],
            &["tools", "revoke", "some"],
            &["undo", "--yes"],
        ] {
            let (_, output) = ends(home.path(), args, linked);
            let mut there = fs::read_dir(elsewhere.path()).unwrap();
            let only = there.all(|entry| entry.unwrap().file_name() == "backups");
            let none = fs::read_dir(elsewhere.path().join("backups")).unwrap();
            assert!(only && none.count() == 0, "{linked}: {args:?}: {output}");
        }
    }
}

#[test]
fn planted_state_link_blocks_config_set() {
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".mimir")).unwrap();
    symlink(outside.path(), home.path().join(".mimir/state")).unwrap();
    let (code, _, err) = run(home.path(), &["config", "set", "limits.timeMs", "1000"]);
    assert_ne!(code, 0);
    assert!(err.contains("is a link"), "{err}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// A `rustc` that runs what the nearest `rust-toolchain.toml` names, as the one of rustup does.
const RUSTC: &str = r#"#!/bin/sh
dir="$PWD"
while [ -n "$dir" ]; do
  file="$dir/rust-toolchain.toml"
  [ -f "$file" ] && exec "$(sed -n 's/^path = "\(.*\)"/\1/p' "$file")/bin/rustc" "$@"
  dir="${dir%/*}"
done
exit 1
"#;

#[test]
fn planted_toolchain_is_not_run_by_doctor_and_tools_new() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("mark");
    let script = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let rustc = outside.path().join("rustc");
    script(&rustc, RUSTC);
    let planted = home.path().join("planted");
    script(
        &planted.join("bin/rustc"),
        &format!("#!/bin/sh\ntouch '{}'\n", mark.display()),
    );
    let file = format!("[toolchain]\npath = \"{}\"\n", planted.display());
    fs::write(home.path().join("rust-toolchain.toml"), file).unwrap();
    // The script is one that would run.
    let ran = Command::new(&rustc).current_dir(home.path()).status();
    assert!(ran.unwrap().success() && mark.exists());
    fs::remove_file(&mark).unwrap();

    let path = format!("{}:/usr/bin:/bin", outside.path().display());
    let commands: [&[&str]; 2] = [&["doctor"], &["tools", "new", "planted_tool"]];
    for args in commands {
        let output = mimir(home.path(), args).env("PATH", &path).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("Rust has no target"), "{args:?}: {text}");
        assert!(!mark.exists(), "{args:?}: {text}");
    }
}
