//! Programs that resist termination, and programs whose caller has gone.

use std::time::{Duration, Instant};

use mimir_process::sandbox::{Sandbox, SandboxError, StoppedCommand};

use crate::kit::{World, comes, marker, run_in, sandbox};

async fn times_out(world: &World, text: &str) -> Box<StoppedCommand> {
    let mut spec = world.script(text);
    // Starting the container is part of it.
    spec.timeout = Some(Duration::from_secs(6));
    let begun = Instant::now();
    let fault = run_in(&sandbox(), &spec).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
    match fault {
        SandboxError::Timeout(stopped) => stopped,
        other => panic!("{other}"),
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn timeout_sends_sigterm_first() {
    let world = World::new();
    let text = "trap 'echo asked; exit' TERM; echo begun; while :; do sleep 0.05; done";
    let stopped = times_out(&world, text).await;
    assert_eq!(stopped.finished.stdout.bytes, b"begun\nasked\n");
    world.comes_to(0).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn timeout_kills_programs_that_ignore_signals() {
    let world = World::new();
    let number = marker(2);
    let text = format!(
        "trap '' TERM INT HUP QUIT; (sleep {number}) & setsid sleep {number} & while :; do sleep {number}; done"
    );
    times_out(&world, &text).await;
    comes(&number, false).await;
    world.comes_to(0).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn background_processes_end_with_the_command() {
    let world = World::new();
    let number = marker(3);
    let begun = Instant::now();
    let said = world
        .sh(&format!("sleep {number} & setsid sleep {number} & (setsid sh -c 'sleep {number} & exit' &); nohup sleep {number} >/dev/null 2>&1 & echo end"))
        .await;
    assert_eq!((said.code, said.out.as_str()), (0, "end\n"), "{said:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    comes(&number, false).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn dropped_command_is_killed_and_its_container_removed() {
    let world = World::new();
    let number = marker(4);
    let spec = world.script(&format!("sleep {number} & sleep {number}"));
    let sandbox = sandbox();
    let child = sandbox.start(&spec).await.unwrap();
    comes(&number, true).await;
    drop(child);
    comes(&number, false).await;
    world.comes_to(0).await;
    // Dropped at different times during the start.
    for after in [1, 30, 100, 200, 400, 700] {
        let running = run_in(&sandbox, &spec);
        let early = tokio::time::timeout(Duration::from_millis(after), running).await;
        assert!(early.is_err());
    }
    comes(&number, false).await;
    world.comes_to(0).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn command_that_kills_its_container_has_an_error_code() {
    let world = World::new();
    let said = world.sh("kill -9 -1; sleep 1; sleep 1; echo still").await;
    assert!(said.code != 0 && !said.out.contains("still"), "{said:?}");
    world.comes_to(0).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn orphan_processes_are_reaped() {
    let world = World::new();
    let said = world
        .sh("for i in 1 2 3 4 5; do (sleep 0.1 &) ; done; sleep 3; cat /proc/[0-9]*/stat | cut -d' ' -f3 | grep -c Z")
        .await;
    assert_eq!(said.out, "0\n", "{said:?}");
}
