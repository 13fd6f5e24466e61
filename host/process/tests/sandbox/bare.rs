//! Commands without a sandbox, if a person has configured that: their processes are cleaned up, too.

use std::time::Duration;

use mimir_process::sandbox::{CommandNetwork, NoSandbox, ResourceBound, SandboxError};

use crate::kit::{Said, World, gone, marker, run_in};

#[tokio::test]
async fn a_command_runs_as_it_is() {
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
async fn what_goes_into_the_background_ends_with_it() {
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
async fn a_timeout_ends_what_ignores_it() {
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
async fn what_it_cannot_hold_is_refused() {
    let world = World::new();
    let spec = world.script("true");
    let mut asked = vec![spec.clone(), spec.clone(), spec.clone(), spec];
    asked[0].bounds.memory = ResourceBound::Requested(1 << 30);
    asked[1].bounds.processes = ResourceBound::Requested(10);
    asked[2].bounds.cpu = Some(50);
    asked[3].network = CommandNetwork::Proxy;
    for spec in asked {
        let fault = run_in(&NoSandbox::new(), &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::CannotHold { .. }), "{fault}");
    }
}
