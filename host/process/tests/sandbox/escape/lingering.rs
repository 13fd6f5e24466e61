//! Programs that resist termination.

use std::time::{Duration, Instant};

use mimir_process::sandbox::SandboxError;

use crate::kit::{World, gone, marker, run_in, runs, sandbox};

async fn times_out(world: &World, text: &str) -> SandboxError {
    let mut spec = world.script(text);
    // Starting the sandbox is part of it.
    spec.timeout = Some(Duration::from_secs(4));
    let begun = Instant::now();
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Timeout(_)), "{fault}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
    fault
}

#[tokio::test]
async fn timeout_sends_sigterm_first() {
    let world = World::new();
    let fault = times_out(
        &world,
        "trap 'echo asked; exit' TERM; echo begun; while :; do sleep 0.05; done",
    )
    .await;
    let SandboxError::Timeout(stopped) = fault else {
        unreachable!()
    };
    assert_eq!(stopped.finished.stdout.bytes, b"begun\nasked\n");
    assert!(
        stopped.after < Duration::from_secs(20),
        "{:?}",
        stopped.after
    );
}

#[tokio::test]
async fn timeout_kills_programs_that_ignore_signals() {
    let world = World::new();
    let number = marker(2);
    times_out(&world, &format!("trap '' TERM INT HUP QUIT; (trap '' TERM; sleep {number}) & while :; do sleep {number}; done")).await;
    gone(&number).await;
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let world = World::new();
    let number = marker(3);
    let begun = Instant::now();
    // With and without the command's output, in a new session, and as an orphan.
    let said = world
        .sh(&format!(
            "sleep {number} & setsid sleep {number} & (setsid sh -c 'sleep {number} & disown 2>/dev/null; exit' &) ; nohup sleep {number} >/dev/null 2>&1 & echo end"
        ))
        .await;
    assert_eq!(said.out, "end\n", "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    gone(&number).await;
}

#[tokio::test]
async fn dropped_command_is_killed() {
    let world = World::new();
    let number = marker(4);
    let spec = world.script(&format!("sleep {number} & sleep {number}"));
    let sandbox = sandbox();
    let running = run_in(&*sandbox, &spec);
    assert!(
        tokio::time::timeout(Duration::from_millis(700), running)
            .await
            .is_err()
    );
    gone(&number).await;
    let child = sandbox.start(&spec).await.unwrap();
    while !runs(&number) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(child);
    gone(&number).await;
}

#[tokio::test]
async fn orphan_processes_are_reaped() {
    let world = World::new();
    let said = world
        .sh("for i in 1 2 3 4 5; do (sleep 0.05 &) ; done; sleep 2; cat /proc/[0-9]*/stat | cut -d' ' -f3 | grep -c Z")
        .await;
    assert_eq!(said.out, "0\n", "{said:?}");
}
