//! The container prepared for the next command: one command has no effect on the next.

use std::time::Duration;

use crate::kit::{World, run_in, sandbox};

/// Time after which a new container has started.
const START_TIME: Duration = Duration::from_secs(2);

/// Waits until a container is ready for the next command.
async fn waits(world: &World) {
    world.comes_to(1).await;
    tokio::time::sleep(START_TIME).await;
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn warm_container_starts_after_the_second_command() {
    let world = World::new();
    let sandbox = sandbox();
    world.sh_in(&sandbox, "true").await;
    // The container of the command is removed in the background.
    world.comes_to(0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        world.containers().await,
        0,
        "a container was prepared after a single command"
    );
    world.sh_in(&sandbox, "true").await;
    waits(&world).await;
    drop(sandbox);
    assert_eq!(
        world.containers().await,
        0,
        "the prepared container was not removed on drop"
    );
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn warm_container_shows_no_files_or_processes_of_others() {
    let world = World::new();
    let sandbox = sandbox();
    for _ in 0..5 {
        let said = world
            .sh_in(&sandbox, "ls -A /tmp ~ /dev/shm | grep -v '^[.]tmp'; ps -o comm | grep -c sleep; touch /tmp/x ~/x /dev/shm/x; sleep 77 & exit 0")
            .await;
        assert_eq!(
            said.out, "/dev/shm:\n\n/home/mimir:\n\n/tmp:\n0\n",
            "{said:?}"
        );
        // The next command runs in the prepared container or a new one, with the same result.
        let _ = tokio::time::timeout(START_TIME, waits(&world)).await;
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn warm_container_masks_secrets_created_later() {
    let world = World::new().with(".env", "old");
    let sandbox = sandbox();
    for _ in 0..2 {
        world.sh_in(&sandbox, "true").await;
    }
    waits(&world).await;
    // Saved as by an editor: the covered path is now another file, and there is one more secret.
    std::fs::write(world.path().join("new"), "SECRET").unwrap();
    std::fs::rename(world.path().join("new"), world.path().join(".env")).unwrap();
    let said = world.sh_in(&sandbox, "cat .env; echo end").await;
    assert_eq!(said.out, "end\n");
    waits(&world).await;
    std::fs::write(world.path().join("key.pem"), "SECRET").unwrap();
    let said = world.sh_in(&sandbox, "cat key.pem; echo end").await;
    assert_eq!(said.out, "end\n");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn warm_container_that_was_removed_is_replaced() {
    let world = World::new();
    let sandbox = sandbox();
    for _ in 0..2 {
        world.sh_in(&sandbox, "true").await;
    }
    waits(&world).await;
    world.remove_all().await;
    let finished = run_in(&sandbox, &world.script("echo here")).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"here\n");
}
