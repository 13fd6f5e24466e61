//! A repository outside the workspace that the user lets commands change.

use std::process::Command;

use mimir_process::sandbox::{HostMount, SandboxError};

use crate::kit::{World, run_in, sandbox};

#[tokio::test]
#[ignore = "needs a container engine"]
async fn mounted_git_hooks_and_config_are_not_changed() {
    let world = World::new();
    let main = world.beside().join("main");
    std::fs::create_dir(&main).unwrap();
    let made = Command::new("git")
        .args(["init", "-q", "--template="])
        .current_dir(&main)
        .status();
    assert!(made.unwrap().success());
    let git = main.join(".git");
    let config = std::fs::read(git.join("config")).unwrap();
    let seen = |text: &str| {
        let mut spec = world.script(text);
        spec.mounts = vec![HostMount {
            from: git.clone(),
            at: "/data".into(),
            writable: true,
        }];
        spec
    };
    let text = "cd /data; echo x > hooks/post-checkout; mv hooks h; echo x >> config; rm -f config; echo x > free; echo end";
    let finished = run_in(&sandbox(), &seen(text)).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"end\n");
    assert_eq!(git.join("hooks").read_dir().unwrap().count(), 0);
    assert_eq!(std::fs::read(git.join("config")).unwrap(), config);
    assert!(git.join("free").exists());
    let made = run_in(&sandbox(), &seen("echo ../evil > /data/commondir")).await;
    assert!(
        matches!(made, Err(SandboxError::ForbiddenPathCreated { .. })),
        "{made:?}"
    );
    assert!(!git.join("commondir").exists());
}
