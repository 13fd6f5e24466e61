//! Features that ordinary commands need.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use mimir_core::ToolErrorCode;
use mimir_core::command::CommandStream;
use mimir_process::run::run;
use mimir_process::sandbox::{
    CommandSpec, CommandStdin, HostMount, Sandbox, SandboxError, WorkspacePart,
};

use crate::kit::{World, run_in, sandbox, vector};

#[tokio::test]
#[ignore = "needs a container engine"]
async fn script_files_belong_to_the_user_of_the_workspace() {
    let world = World::new().with("a.txt", "hello\n");
    let said = world
        .sh("cat a.txt && echo new > b.txt && ls && pwd && exit 3")
        .await;
    assert_eq!(said.code, 3, "{said:?}");
    let expected = format!("hello\na.txt\nb.txt\n{}\n", world.path().display());
    assert_eq!(said.out, expected, "{said:?}");
    assert_eq!(world.read("b.txt").as_deref(), Some("new\n"));
    let (own, new) = (world.path().join("a.txt"), world.path().join("b.txt"));
    let (own, new) = (own.metadata().unwrap(), new.metadata().unwrap());
    assert_eq!((new.uid(), new.gid()), (own.uid(), own.gid()));
}

#[tokio::test]
#[ignore = "needs a container engine"]
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
#[ignore = "needs a container engine"]
async fn stdin_input_reaches_a_program_and_may_be_ignored() {
    let world = World::new();
    let mut spec = world.spec(vector(&["cat", "-"]));
    let input = vec![7; 1 << 20];
    spec.stdin = CommandStdin::Bytes(input.clone());
    spec.output_limit = 2 << 20;
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    assert_eq!(finished.stdout.bytes.len(), input.len());
    assert_eq!(finished.stdout.bytes, input);
    let spec = CommandSpec {
        program: vector(&["true"]),
        ..spec
    };
    assert_eq!(run_in(&sandbox(), &spec).await.unwrap().exit_code, 0);
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn output_streams_are_separate_and_exit_codes_include_signals() {
    let world = World::new();
    let text = "echo 1; sleep 1; echo 2 >&2; sleep 1; printf '\\377\\000\\376'";
    let mut seen = vec![];
    let finished = run(&sandbox(), &world.script(text), &mut |stream, bytes| {
        seen.push((stream, bytes.to_vec()));
    })
    .await
    .unwrap();
    assert_eq!(finished.stdout.bytes, b"1\n\xff\0\xfe");
    assert_eq!(finished.stderr.bytes, b"2\n");
    let streams: Vec<_> = seen.iter().map(|(stream, _)| *stream).collect();
    assert_eq!(
        streams,
        [
            CommandStream::Stdout,
            CommandStream::Stderr,
            CommandStream::Stdout
        ]
    );
    for (text, code) in [("kill -TERM $$", 143), ("kill -9 $$", 137), ("exit 7", 7)] {
        assert_eq!(world.sh(text).await.code, code, "{text}");
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn environment_inherits_no_variables_of_the_host() {
    let world = World::new();
    let mut spec =
        world.script("env; cd; echo x > file && cat file; echo y > $TMPDIR/y && cat $TMPDIR/y");
    spec.environment = vec![("A".into(), "b=c".into()), ("TERM".into(), "mine".into())];
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    let text = String::from_utf8_lossy(&finished.stdout.bytes).into_owned();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!text.contains("CARGO_MANIFEST_DIR"), "{text}");
    let lines: Vec<_> = text.lines().collect();
    for line in [
        "A=b=c",
        "TERM=mine",
        "HOME=/home/mimir",
        "PATH=/bin:/usr/local/cargo/bin",
    ] {
        assert!(lines.contains(&line), "{line}: {text}");
    }
    assert!(text.ends_with("x\ny\n"), "{text}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn program_start_failures_have_error_codes() {
    let world = World::new().with("plain", "x").with("broken", "\u{1}");
    let broken = world.path().join("broken");
    std::fs::set_permissions(broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (words, code) in [
        (&["no-such-program", "x"][..], ToolErrorCode::NotFound),
        (&["./nothing"], ToolErrorCode::NotFound),
        (&["./plain"], ToolErrorCode::PermissionDenied),
        (&[], ToolErrorCode::InvalidInput),
    ] {
        let fault = run_in(&sandbox(), &world.spec(vector(words)))
            .await
            .unwrap_err();
        assert_eq!(fault.code(), code, "{words:?}: {fault}");
    }
    // Some runtimes report the start before they detect its failure.
    let ended = run_in(&sandbox(), &world.spec(vector(&["./broken"]))).await;
    assert!(ended.is_err() || ended.is_ok_and(|finished| finished.exit_code != 0));
    // The message and exit code of a shell are passed on unchanged.
    let said = world.sh("no-such-program").await;
    assert_eq!(said.code, 127, "{said:?}");
    assert!(said.err.contains("not found"), "{said:?}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn visible_parts_and_mounts_have_their_access_mode() {
    let world = World::new().with("src/a", "a").with("other/b", "b");
    let beside = world.beside().join("beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("note"), "from beside").unwrap();
    let mut spec = world.script("cat src/a /data/note; cat other/b; echo x > src/new; echo x > /data/new; echo x > /more/new; ls src");
    spec.visible_parts = vec![WorkspacePart {
        below: "src".into(),
        writable: false,
    }];
    spec.mounts = ["/data", "/more"]
        .map(|at| HostMount {
            from: beside.clone(),
            at: at.into(),
            writable: at == "/more",
        })
        .into();
    let finished = run_in(&sandbox(), &spec).await.unwrap();
    let out = String::from_utf8_lossy(&finished.stdout.bytes).into_owned();
    assert_eq!(out, "afrom besidea\n", "{out}");
    assert_eq!(std::fs::read_to_string(beside.join("new")).unwrap(), "x\n");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn available_features_are_listed() {
    let lines = sandbox().available().unwrap().join("\n");
    for word in ["Docker", "Podman"] {
        if lines.contains(word) {
            assert!(
                lines.contains("network: only its own loopback") && lines.contains("memory"),
                "{lines}"
            );
            return;
        }
    }
    panic!("{lines}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn sandbox_rejects_proxy_network() {
    let sandbox = sandbox();
    let world = World::new();
    let mut spec = world.script("true");
    spec.network = mimir_process::sandbox::CommandNetwork::Proxy;
    let fault = run_in(&sandbox, &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
}
