//! Features that ordinary commands need.

use std::path::Path;

use mimir_core::command::{CommandProgram, CommandStream};
use mimir_process::run::run;
use mimir_process::sandbox::{CommandStdin, HostMount, SandboxError, WorkspacePart};

use crate::kit::{Said, World, run_in, sandbox};

fn vector(words: &[&str]) -> CommandProgram {
    CommandProgram::Vector(words.iter().map(|word| (*word).to_owned()).collect())
}

#[tokio::test]
async fn script_runs_in_its_workspace() {
    let world = World::new().with("a.txt", "hello\n");
    let said = world
        .sh("cat a.txt && echo new > b.txt && ls && pwd && exit 3")
        .await;
    assert_eq!(said.code, 3, "{said:?}");
    assert_eq!(
        said.out,
        format!("hello\na.txt\nb.txt\n{}\n", world.path().display())
    );
    assert_eq!(world.read("b.txt").as_deref(), Some("new\n"));
}

/// Commands have temporary folders of their own.
#[tokio::test]
async fn workspace_may_be_in_a_temporary_folder() {
    for above in ["/tmp", "/var/tmp"] {
        let world = World::below(above).with("a.txt", "hello\n");
        let text = "cat a.txt && echo new > b.txt && pwd";
        let said = world
            .sh(&format!("{text} && echo x > {above}/x.txt && ls {above}"))
            .await;
        let expected = format!("hello\n{}\nx.txt\n", world.path().display());
        assert_eq!(said.out, expected, "{said:?}");
        assert_eq!(world.read("b.txt").as_deref(), Some("new\n"));
        assert!(!Path::new(above).join("x.txt").exists(), "{above}");
    }
}

/// With a pipe, programs such as `rg` would search their input instead of the folder.
#[tokio::test]
async fn stdin_is_the_null_device_by_default() {
    let world = World::new();
    let said = world.sh("readlink /proc/self/fd/0; cat").await;
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "/dev/null\n"),
        "{said:?}"
    );
}

#[tokio::test]
async fn stdin_input_reaches_a_program_and_may_be_ignored() {
    let world = World::new();
    let mut spec = world.spec(vector(&["cat", "-"]));
    let input = vec![7; 1 << 20];
    spec.stdin = CommandStdin::Bytes(input.clone());
    spec.output_limit = 2 << 20;
    let finished = run_in(&*sandbox(), &spec).await.unwrap();
    assert_eq!(finished.stdout.bytes, input);
    // A program that does not read its input.
    let spec = mimir_process::sandbox::CommandSpec {
        program: vector(&["true"]),
        ..spec
    };
    assert_eq!(run_in(&*sandbox(), &spec).await.unwrap().exit_code, 0);
}

#[tokio::test]
async fn output_streams_are_separate_and_in_order() {
    let world = World::new();
    let text = "echo 1; sleep 1; echo 2 >&2; sleep 1; echo 3";
    let mut seen = vec![];
    let finished = run(&*sandbox(), &world.script(text), &mut |stream, bytes| {
        seen.push((stream, bytes.to_vec()))
    })
    .await
    .unwrap();
    assert_eq!(finished.combined.bytes, b"1\n2\n3\n");
    assert_eq!(finished.stdout.bytes, b"1\n3\n");
    assert_eq!(finished.stderr.bytes, b"2\n");
    let (out, err) = (CommandStream::Stdout, CommandStream::Stderr);
    assert_eq!(
        seen,
        [
            (out, b"1\n".to_vec()),
            (err, b"2\n".to_vec()),
            (out, b"3\n".to_vec())
        ]
    );
}

#[tokio::test]
async fn exit_code_includes_the_signal() {
    let world = World::new();
    for (text, code) in [
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
        ("sh -c 'exit 7'", 7),
    ] {
        assert_eq!(world.sh(text).await.code, code, "{text}");
    }
}

#[tokio::test]
async fn basic_system_files_and_devices_are_available() {
    let world = World::new();
    let said = world
        .sh("set -e; whoami; id -u; echo $HOME; echo ~; test -w ~; test -w /tmp; test -w $TMPDIR; echo x > /dev/null
             test -c /dev/urandom; ls /proc/self/fd >/dev/null; hostname; cat <(echo sub); mktemp >/dev/null; nproc > /dev/null
             echo done > /dev/stderr; : > /dev/shm/x; readlink /proc/self/exe >/dev/null")
        .await;
    assert_eq!(said.code, 0, "{said:?}");
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines[0], "mimir");
    assert_ne!(
        lines[1], "0",
        "commands run as root, so programs would expect permissions that they lack"
    );
    assert_eq!(lines[2], lines[3]);
    assert_eq!(lines[4..], ["mimir", "sub"]);
}

#[tokio::test]
async fn environment_inherits_no_variables_of_the_host() {
    let world = World::new();
    let mut spec = world.script("env | cut -d= -f1 | sort | tr '\\n' ' '; echo; echo $A");
    spec.environment = vec![("A".into(), "b c".into())];
    let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
    assert!(!said.out.contains("CARGO_MANIFEST_DIR"), "{said:?}");
    assert!(
        said.out.contains("HOME LANG") && said.out.ends_with("b c\n"),
        "{said:?}"
    );
}

#[tokio::test]
async fn loopback_works_in_the_sandbox() {
    let world = World::new();
    let said = world
        .sh("python3 -c '
import socket, threading
s = socket.create_server((\"127.0.0.1\", 0))
c = socket.create_connection(s.getsockname())
a, _ = s.accept(); a.sendall(b\"hi\"); print(c.recv(2))'")
        .await;
    assert_eq!(said.out, "b'hi'\n", "{said:?}");
}

#[tokio::test]
async fn toolchains_of_the_user_are_available() {
    let world = World::new();
    for program in ["cargo --version", "git --version", "python3 --version"] {
        let mut words = program.split(' ');
        let here = std::process::Command::new(words.next().unwrap())
            .args(words)
            .output();
        if !here.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let said = world.sh(program).await;
        assert_eq!(said.code, 0, "{program}: {said:?}");
    }
}

#[tokio::test]
async fn git_can_add_and_commit() {
    let world = World::new().with("a", "x");
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(world.path())
        .status();
    assert!(made.unwrap().success());
    let said = world
        .sh("git add a && git -c user.name=n -c user.email=e@e commit -qm one && git log --format=%s && git status --short")
        .await;
    assert_eq!(said.out, "one\n", "{said:?}");
}

#[tokio::test]
async fn git_status_runs_no_programs_of_the_repository_config() {
    let world = World::new()
        .with("a", "x")
        .with("evil", "#!/bin/sh\necho ran > ran\n");
    use std::os::unix::fs::PermissionsExt;
    let evil = world.path().join("evil");
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    for words in [["init", "-q", "."], ["config", "core.fsmonitor", "./evil"]] {
        let made = std::process::Command::new("git")
            .args(words)
            .current_dir(world.path())
            .status();
        assert!(made.unwrap().success());
    }
    let said = world.sh("git add a && git status --short a").await;
    assert_eq!(said.out, "A  a\n", "{said:?}");
    assert_eq!(world.read("ran"), None);
}

#[tokio::test]
async fn git_status_has_no_warnings_about_hidden_paths() {
    let world = World::new().with("a", "x");
    mimir_core::files::make_state(&world.path()).unwrap();
    std::fs::write(world.path().join(".mimir/state/audit.jsonl"), "x").unwrap();
    let said = world
        .sh("git init -q sub && rm -r sub; git init -q; git status --short 2>&1")
        .await;
    assert_eq!(said.out, "?? a\n", "{said:?}");
}

#[tokio::test]
async fn git_status_does_not_report_hidden_memories_as_deleted() {
    let world = World::new()
        .with("a", "x")
        .with(".mimir/memory/notes.md", "kept\n");
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let done = command.args(args).current_dir(world.path()).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    let said = world
        .sh("cat .mimir/memory/notes.md; echo new > a; git add -A; git -c user.name=a -c user.email=a@b commit -qam two; git rev-list --count HEAD")
        .await;
    assert!(!said.out.contains("kept"), "{said:?}");
    assert!(said.out.ends_with("2\n"), "{said:?}");
    assert_eq!(git(&["show", "HEAD:.mimir/memory/notes.md"]), "kept\n");
    assert_eq!(git(&["status", "--short"]), "");
}

#[tokio::test]
async fn program_start_errors_have_the_reason() {
    let elsewhere = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let elsewhere = elsewhere.path().join("sh");
    std::fs::copy("/bin/sh", &elsewhere).unwrap();
    let hidden = format!("#!{}\necho ran\n", elsewhere.display());
    let world = World::new()
        .with("script", "#!/bin/sh\n")
        .with("text", "echo ran")
        .with("missing", "#!/no/such/interpreter -x\n")
        .with("hidden", &hidden)
        .with("nothing", "#! \n")
        .with("second", "#!./missing\n")
        .with("right", "#! /bin/sh -e\necho ran\n");
    let loaded = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = std::fs::read("/bin/sh").unwrap();
        change(&mut bytes);
        std::fs::write(world.path().join(name), bytes).unwrap();
    };
    loaded("unloaded", &|bytes| {
        let name = b"/ld-linux";
        let at = bytes.windows(name.len()).position(|part| part == name);
        bytes[at.unwrap() + 1] = b'X';
    });
    loaded("foreign", &|bytes| bytes[18] = 0xf0);
    let fault = |program: CommandProgram| {
        let spec = world.spec(program);
        async move { run_in(&*sandbox(), &spec).await.unwrap_err() }
    };
    let near = fault(vector(&["gitt"])).await;
    assert!(near.to_string().contains("Did you mean `git`"), "{near}");
    assert!(matches!(
        fault(vector(&["./script"])).await,
        SandboxError::NotExecutable { .. }
    ));
    use std::os::unix::fs::PermissionsExt;
    for file in world.path().read_dir().unwrap() {
        let file = file.unwrap().file_name();
        std::fs::set_permissions(
            world.path().join(file),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
    }
    for file in [
        "text", "missing", "hidden", "nothing", "second", "unloaded", "foreign",
    ] {
        let fault = fault(vector(&[&format!("./{file}")])).await;
        assert!(
            matches!(fault, SandboxError::NotExecutable { .. }),
            "{file}: {fault}"
        );
    }
    let right = run_in(&*sandbox(), &world.spec(vector(&["./right"])))
        .await
        .unwrap();
    assert_eq!(right.stdout.bytes, b"ran\n");
    let mut spec = world.spec(vector(&["true"]));
    spec.directory = world.path().join("nowhere");
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::NoDirectory(_)), "{fault}");
}

#[tokio::test]
async fn visible_parts_limit_the_workspace() {
    let world = World::new()
        .with("src/a", "A")
        .with("docs/b", "B")
        .with("docs/.env", "SECRET")
        .with("c", "C");
    let mut spec = world.script(
        "cat src/a docs/b docs/.env c; echo x > src/new; echo x > docs/new; echo x > top; ls -d docs src",
    );
    let part = |below: &str, writable| WorkspacePart {
        below: below.into(),
        writable,
    };
    spec.visible_parts = vec![
        part("src", true),
        part("docs", false),
        part("nowhere", true),
        part("../..", true),
    ];
    let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
    assert_eq!(said.out, "ABdocs\nsrc\n", "{said:?}");
    assert_eq!(world.read("src/new").as_deref(), Some("x\n"));
    assert_eq!((world.read("docs/new"), world.read("top")), (None, None));
}

#[tokio::test]
async fn mounts_have_their_path_and_access_mode() {
    let world = World::new();
    let data = world.outside().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("x"), "X").unwrap();
    let mut spec =
        world.script("cat /mnt/data/x /mnt/file; echo 1 > /mnt/data/no; echo 2 > /mnt/rw/yes");
    let mount = |from: &std::path::Path, at: &str, writable| HostMount {
        from: from.into(),
        at: at.into(),
        writable,
    };
    spec.mounts = vec![
        mount(&data, "/mnt/data", false),
        mount(&data, "/mnt/rw", true),
        mount(&data.join("x"), "/mnt/file", false),
    ];
    let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
    assert_eq!(said.out, "XX", "{said:?}");
    assert!(!data.join("no").exists() && data.join("yes").exists());
}

#[tokio::test]
async fn cargo_test_runs_offline_in_the_sandbox() {
    let here = std::process::Command::new("cargo")
        .arg("--version")
        .output();
    if !here.is_ok_and(|output| output.status.success()) {
        return;
    }
    let world = World::new()
        .with("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n")
        .with("src/lib.rs", "#[test]\nfn works() { assert_eq!(std::net::TcpListener::bind(\"127.0.0.1:0\").is_ok(), true); }\n");
    let said = world
        .sh("cargo test --offline 2>&1 | tail -20 && ls target")
        .await;
    assert!(said.out.contains("test result: ok. 1 passed"), "{said:?}");
}
