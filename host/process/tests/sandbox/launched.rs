//! Long-running programs: they use the same sandbox, and end when their handle is dropped.

use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_core::launch::{LaunchSpec, LaunchedProgram, ProcessLauncher};
use mimir_process::ProgramLauncher;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::kit::{World, gone, marker, runs, sandbox};

fn launch(script: &str) -> LaunchSpec {
    LaunchSpec {
        args: ["sh", "-c", script].map(str::to_owned).to_vec(),
        directory: Some(".".to_owned()),
        environment: vec![("WHO".to_owned(), "me".to_owned())],
        ..LaunchSpec::default()
    }
}

async fn start(
    world: &World,
    launch: LaunchSpec,
) -> Result<LaunchedProgram, mimir_core::ToolError> {
    // Fails if the machine lacks the namespaces for these tests.
    sandbox();
    std::fs::create_dir_all(world.path()).unwrap();
    ProgramLauncher::new(world.path(), world.outside().join("started"))
        .launch(launch)
        .await
}

#[tokio::test]
async fn launched_program_reads_stdin_and_writes_stdout() {
    let world = World::new().with("inside.txt", "x");
    std::fs::write(world.outside().join("outside.txt"), "x").unwrap();
    let script =
        "while read -r line; do echo \"$WHO: $line $(ls) $(ls ..)\"; done; echo last >&2; exit 3";
    let mut program = start(&world, launch(script)).await.unwrap();
    program.stdin.write_all(b"one\n").await.unwrap();
    let mut lines = BufReader::new(program.stdout).lines();
    let said = lines.next_line().await.unwrap().unwrap();
    assert!(said.starts_with("me: one inside.txt"), "{said}");
    assert!(!said.contains("outside.txt"), "{said}");
    drop(program.stdin);
    assert_eq!(program.handle.wait().await, Ok(3));
    let mut err = String::new();
    program.stderr.read_to_string(&mut err).await.unwrap();
    assert_eq!(err, "last\n");
}

#[tokio::test]
async fn launched_program_is_killed_when_its_handle_is_dropped() {
    let world = World::new();
    let number = marker(41);
    let script = format!("trap '' TERM; sleep {number} & echo begun; sleep {number}");
    let program = start(&world, launch(&script)).await.unwrap();
    let mut lines = BufReader::new(program.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "begun");
    // Both have been forked, but on a busy machine they may not have executed their program yet.
    while !runs(&number) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(program.handle);
    gone(&number).await;
}

#[tokio::test]
async fn launched_program_that_creates_a_protected_file_is_ended() {
    let world = World::new();
    let script = "echo evil > .bashrc; sleep 60";
    let mut program = start(&world, launch(script)).await.unwrap();
    let ended = timeout(Duration::from_secs(20), program.handle.wait())
        .await
        .unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied, "{error}");
    assert!(error.message.contains(".bashrc"), "{error}");
    assert_eq!(world.read(".bashrc"), None);
}

#[tokio::test]
async fn launch_fails_for_outside_folders_and_unavailable_network() {
    let world = World::new();
    let outside = LaunchSpec {
        directory: Some("..".to_owned()),
        ..launch("true")
    };
    let error = start(&world, outside).await.err().unwrap();
    assert_eq!(error.code, ToolErrorCode::InvalidPath, "{error}");
    let mut network = launch("true");
    network.sandbox.network_access = Some(true);
    let error = start(&world, network).await.err().unwrap();
    assert!(error.message.contains("network"), "{error}");
}

#[tokio::test]
async fn launch_without_a_folder_uses_an_empty_folder() {
    let world = World::new().with("threading.py", "x");
    let mut nowhere =
        launch("ls -A; touch mine && stat -c %a .; test -r \"$OLD/threading.py\" && echo seen");
    nowhere.directory = None;
    let at = ("OLD".to_owned(), world.path().display().to_string());
    nowhere.environment = vec![at];
    for mode in ["process", "none"] {
        let mut nowhere = nowhere.clone();
        nowhere.sandbox = serde_json::from_value(mode.into()).unwrap();
        nowhere.workspace_code = mode == "none";
        let mut program = start(&world, nowhere).await.unwrap();
        let mut out = String::new();
        program.stdout.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, "700\nseen\n", "{mode}");
        assert_eq!(program.handle.wait().await, Ok(0));
        drop(program.handle);
        let left = std::fs::read_dir(world.outside().join("started")).unwrap();
        assert_eq!(
            left.count(),
            0,
            "the start folder was not removed with the program"
        );
    }
}

#[tokio::test]
async fn launch_with_secrets_or_no_sandbox_rejects_workspace_code() {
    let world = World::new().with("server.py", "x");
    let file = world.path().join("server.py").display().to_string();
    let words = |words: &[&str]| LaunchSpec {
        args: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: None,
        ..launch("")
    };
    let late = world.path().join("late.py").display().to_string();
    let (option, script) = (format!("--config={file}"), format!("exec python3 {file}"));
    let mut variable = words(&["true"]);
    variable.environment = vec![(
        "PYTHONPATH".to_owned(),
        format!("/usr/lib:{}", world.path().display()),
    )];
    let all = [
        LaunchSpec {
            directory: Some(".".to_owned()),
            ..words(&["true"])
        },
        words(&[&file]),
        words(&["true", &file]),
        words(&["true", &late]),
        words(&["true", &option]),
        words(&["sh", "-c", &script]),
        variable,
    ];
    for launch in all {
        for secrets in [false, true] {
            let mut launch = launch.clone();
            launch.secrets = secrets;
            let mode = if secrets { "process" } else { "none" };
            launch.sandbox = serde_json::from_value(mode.into()).unwrap();
            let error = start(&world, launch.clone()).await.err();
            let error = error.unwrap_or_else(|| panic!("{launch:?}"));
            assert_eq!(
                error.code,
                ToolErrorCode::PermissionDenied,
                "{launch:?} {error}"
            );
            assert!(error.remedies[0].contains("workspaceCode"), "{error:?}");
        }
    }
    // Paths outside the workspace are allowed, and a sandboxed program without secrets may use any path.
    let mut fine = words(&["true", "/usr/lib"]);
    fine.sandbox = serde_json::from_value("none".into()).unwrap();
    assert!(start(&world, fine).await.is_ok());
    assert!(start(&world, words(&["true", &file])).await.is_ok());
}
