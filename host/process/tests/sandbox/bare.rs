//! Commands that run without a sandbox, as configured by the user: their processes are cleaned up, too.

use std::time::Duration;

use mimir_process::sandbox::{CommandNetwork, NoSandbox, ResourceBound, SandboxError};

use crate::kit::{Said, World, gone, marker, run_in};

#[tokio::test]
async fn unsandboxed_command_runs_directly() {
    let world = World::new();
    let said = Said::of(
        run_in(
            &NoSandbox::new(),
            &world.script("pwd; env | grep -c CARGO_MANIFEST; exit 4"),
        )
        .await
        .unwrap(),
    );
    assert_eq!(
        (said.code, said.out),
        (4, format!("{}\n0\n", world.path().display()))
    );
    let said = Said::of(
        run_in(&NoSandbox::new(), &world.script("kill -9 $$"))
            .await
            .unwrap(),
    );
    assert_eq!(said.code, 137);
}

#[tokio::test]
async fn unsandboxed_background_processes_end_with_the_command() {
    let world = World::new();
    let number = marker(5);
    let script = world.script(&format!(
        "setsid sleep {number} & (setsid sh -c 'sleep {number} & exit' &); sleep 0.2; echo end"
    ));
    let said = Said::of(run_in(&NoSandbox::new(), &script).await.unwrap());
    assert_eq!(said.out, "end\n");
    gone(&number).await;
}

#[tokio::test]
async fn unsandboxed_timeout_kills_programs_that_ignore_signals() {
    let world = World::new();
    let number = marker(6);
    let mut spec = world.script(&format!(
        "trap '' TERM; setsid sleep {number} & while :; do sleep {number}; done"
    ));
    spec.timeout = Some(Duration::from_millis(400));
    let fault = run_in(&NoSandbox::new(), &spec).await.unwrap_err();
    assert!(matches!(fault, SandboxError::Timeout(_)), "{fault}");
    gone(&number).await;
}

#[tokio::test]
async fn unsandboxed_command_rejects_limits_and_proxy_network() {
    let world = World::new();
    let spec = world.script("true");
    let mut asked = vec![spec.clone(), spec.clone(), spec.clone(), spec];
    asked[0].bounds.memory = ResourceBound::Requested(1 << 30);
    asked[1].bounds.processes = ResourceBound::Requested(10);
    asked[2].bounds.cpu = Some(50);
    asked[3].network = CommandNetwork::Proxy;
    for spec in asked {
        let fault = run_in(&NoSandbox::new(), &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    }
}
