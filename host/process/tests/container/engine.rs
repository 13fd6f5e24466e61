//! Engines that are not running, exit, or lack a feature or an image; and removal of leftover containers.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptionsBuilder};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_process::sandbox::{Sandbox, SandboxError};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::kit::{BARE, IMAGE, World, comes, docker, marker, run_in, socket, with};

/// Forwards connections to the engine, until it is dropped.
fn relay(at: &Path) -> tokio::task::JoinHandle<()> {
    let listener = UnixListener::bind(at).unwrap();
    tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((mut one, _)) = listener.accept().await {
            all.spawn(async move {
                let mut other = UnixStream::connect(socket()).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut one, &mut other).await;
            });
        }
    })
}

// The relay must continue while the test looks for the engine.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a container engine"]
async fn engine_disconnect_is_an_error_and_ends_the_command() {
    let world = World::new();
    let at = world.beside().join("relay.sock");
    let relay = relay(&at);
    let sandbox = with(IMAGE, Some(&at));
    let number = marker(5);
    let spec = world.script(&format!("echo begun; sleep {number}"));
    let begun = Instant::now();
    let (ended, ()) = tokio::join!(run_in(&sandbox, &spec), async {
        comes(&number, true).await;
        relay.abort();
    });
    let fault = ended.unwrap_err();
    assert!(matches!(fault, SandboxError::Engine { .. }), "{fault}");
    assert_eq!(fault.code(), ToolErrorCode::Unavailable);
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    // The lost connection held the input of the container open.
    comes(&number, false).await;
    // The next start of mimir removes the leftover container.
    world.comes_to(1).await;
    world.remove_all().await;
    let again = run_in(&sandbox, &spec).await.unwrap_err();
    assert_eq!(again.code(), ToolErrorCode::Unavailable, "{again}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn image_that_is_missing_is_not_pulled() {
    let world = World::new();
    let sandbox = with("mimir-test/missing:1", None);
    for fault in [
        run_in(&sandbox, &world.script("true")).await.unwrap_err(),
        sandbox.available().unwrap_err(),
    ] {
        assert!(matches!(fault, SandboxError::NoImage { .. }), "{fault}");
        let error = ToolError::from(fault);
        assert_eq!(error.code, ToolErrorCode::Unavailable);
        let remedy = error.remedies.concat();
        assert!(remedy.contains("pull mimir-test/missing:1"), "{remedy}");
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn image_without_a_shell_is_an_error() {
    let world = World::new();
    let fault = run_in(&with(BARE, None), &world.script("true"))
        .await
        .unwrap_err();
    assert!(matches!(fault, SandboxError::BadImage { .. }), "{fault}");
    world.comes_to(0).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn containers_of_ended_processes_are_removed() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let label = |process: u32, begun: &str| {
        format!("{} {} {process} {begun}", boot.trim(), space.display())
    };
    let stat = std::fs::read_to_string("/proc/1/stat").unwrap();
    let first = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .nth(19)
        .unwrap();
    let docker = docker().await;
    let mut made = vec![];
    // A label with a reused process id, one with a running process, and a container without a label.
    for label in [Some(label(1, "1")), Some(label(1, first)), None] {
        let labels = label.map(|label| HashMap::from([("mimir.owner".to_owned(), label)]));
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            cmd: Some(vec!["true".to_owned()]),
            labels,
            ..ContainerCreateBody::default()
        };
        let options = None::<CreateContainerOptions>;
        made.push(docker.create_container(options, body).await.unwrap().id);
    }
    let world = World::new();
    world.sh("true").await;
    let mut there = vec![];
    for id in &made {
        there.push(docker.inspect_container(id, None).await.is_ok());
        let force = RemoveContainerOptionsBuilder::new().force(true).build();
        let _ = docker.remove_container(id, Some(force)).await;
    }
    assert_eq!(there, [false, true, true]);
}
