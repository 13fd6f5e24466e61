//! Programs that go on beside the calls: in the same sandbox, and gone when nobody holds them.

use std::time::Duration;

use mimir_core::Code;
use mimir_core::config::SandboxSettings;
use mimir_core::launch::{Launch, Launched, Launcher};
use mimir_process::Programs;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::kit::{World, gone, marker, runs, sandbox};

fn launch(script: &str) -> Launch {
    Launch {
        words: ["sh", "-c", script].map(str::to_owned).to_vec(),
        directory: None,
        environment: vec![("WHO".to_owned(), "me".to_owned())],
        sandbox: SandboxSettings::default(),
    }
}

async fn start(world: &World, launch: Launch) -> Result<Launched, mimir_core::ToolError> {
    // These tests need namespaces, and say so.
    sandbox();
    std::fs::create_dir_all(world.path()).unwrap();
    Programs::new(world.path()).launch(launch).await
}

#[tokio::test]
async fn a_program_hears_and_answers_in_its_sandbox() {
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
    assert_eq!(program.hold.wait().await, Ok(3));
    let mut err = String::new();
    program.stderr.read_to_string(&mut err).await.unwrap();
    assert_eq!(err, "last\n");
}

#[tokio::test]
async fn a_program_that_nobody_holds_is_gone_with_all_that_it_started() {
    let world = World::new();
    let number = marker(41);
    let script = format!("trap '' TERM; sleep {number} & echo begun; sleep {number}");
    let program = start(&world, launch(&script)).await.unwrap();
    let mut lines = BufReader::new(program.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "begun");
    assert!(runs(&number));
    drop(program.hold);
    gone(&number).await;
}

#[tokio::test]
async fn a_program_that_makes_what_nobody_may_make_is_ended() {
    let world = World::new();
    let script = "echo evil > .bashrc; sleep 60";
    let mut program = start(&world, launch(script)).await.unwrap();
    let ended = timeout(Duration::from_secs(20), program.hold.wait())
        .await
        .unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.code, Code::PermissionDenied, "{error}");
    assert!(error.message.contains(".bashrc"), "{error}");
    assert_eq!(world.read(".bashrc"), None);
}

#[tokio::test]
async fn what_cannot_be_held_starts_nothing() {
    let world = World::new();
    let outside = Launch {
        directory: Some("..".to_owned()),
        ..launch("true")
    };
    let error = start(&world, outside).await.err().unwrap();
    assert_eq!(error.code, Code::InvalidPath, "{error}");
    let mut network = launch("true");
    network.sandbox.network_access = Some(true);
    let error = start(&world, network).await.err().unwrap();
    assert!(error.message.contains("network"), "{error}");
}
