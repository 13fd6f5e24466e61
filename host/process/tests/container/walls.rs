//! Isolation of a command in a container: paths, networks and processes that it cannot reach, read or change.

use mimir_core::ToolErrorCode;
use mimir_process::sandbox::{HostMount, SandboxError};

use crate::kit::{World, run_in, sandbox, socket};

#[tokio::test]
#[ignore = "needs a container engine"]
async fn image_is_read_only_and_the_host_is_inaccessible() {
    let world = World::new();
    let said = world
        .sh("for at in /x /bin/x /etc/x /usr/x /root/x /var/x; do echo x > $at && echo wrote $at; done
             mount -o remount,rw / && echo remounted; mknod /tmp/m c 1 1 && echo made
             chroot / true && echo changed; cat /proc/1/environ; ls /proc/1/root/ > /dev/null
             echo x > /proc/sys/kernel/core_pattern && echo wrote; echo x > /sys/kernel/x && echo wrote; echo end")
        .await;
    assert!(said.out.ends_with("end\n"), "{said:?}");
    assert!(
        !said.out.contains("wrote") && !said.out.contains("remounted"),
        "{said:?}"
    );
    assert!(
        !said.out.contains("made") && !said.out.contains("changed"),
        "{said:?}"
    );
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn capabilities_are_empty_and_cannot_be_gained() {
    let world = World::new();
    let said = world
        .sh("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status")
        .await;
    let words: Vec<_> = said.out.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "CapPrm:",
            "0000000000000000",
            "CapEff:",
            "0000000000000000",
            "CapBnd:",
            "0000000000000000",
            "NoNewPrivs:",
            "1",
            "Seccomp:",
            "2"
        ],
        "{said:?}"
    );
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn network_is_unreachable() {
    let world = World::new();
    let said = world
        .sh("grep -c : /proc/net/dev; wget -T 2 -q -O - http://192.0.2.1/ && echo reached; nc -w 1 1.1.1.1 53 </dev/null && echo reached; echo end")
        .await;
    assert_eq!(said.out, "1\nend\n", "{said:?}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn engine_socket_is_unreachable_and_not_mountable() {
    let world = World::new();
    let said = world
        .sh("find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock /run/docker.sock /run/podman /run/containerd && echo there; echo end")
        .await;
    assert_eq!(said.out, "end\n", "{said:?}");
    // Neither the engine's socket nor a folder that contains it can be mounted.
    for from in [socket(), socket().parent().unwrap().to_owned()] {
        let mut spec = world.script("true");
        spec.mounts = vec![HostMount {
            from: from.canonicalize().unwrap(),
            at: "/engine".into(),
            writable: false,
        }];
        let fault = run_in(&sandbox(), &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::Mount { .. }), "{fault}");
        assert_eq!(fault.code(), ToolErrorCode::Unavailable);
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn protected_files_are_not_changed() {
    let world = World::new()
        .with("a", "x")
        .with(".git/config", "old")
        .with(".git/HEAD", "x")
        .with(".mimir/config.yml", "old")
        .with(".bashrc", "old");
    let said = world
        .sh("echo x > .git/hooks/pre-commit; mkdir -p .git/hooks/x; rm -rf .git/hooks; mv .git/hooks .git/h; mv .git .g
             echo x >> .git/config; rm -f .git/config; mv .git/config x; ln -sf /tmp/x .git/config
             echo x > .mimir/config.yml; echo x > .mimir/new; mv .mimir m; rm -rf .mimir
             echo x > .bashrc; rm .bashrc; mv a .bashrc; ln .bashrc hard && echo y > hard; echo end")
        .await;
    assert!(said.out.ends_with("end\n"), "{said:?}");
    assert_eq!(world.read(".git/config").as_deref(), Some("old"));
    assert_eq!(
        world.path().join(".git/hooks").read_dir().unwrap().count(),
        0
    );
    assert_eq!(world.read(".mimir/config.yml").as_deref(), Some("old"));
    assert_eq!(world.path().join(".mimir").read_dir().unwrap().count(), 1);
    assert_eq!(world.read(".bashrc").as_deref(), Some("old"));
    for moved in [".g", "m"] {
        assert!(
            world.path().join(moved).symlink_metadata().is_err(),
            "{moved}"
        );
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn set_id_bits_are_removed_after_the_command() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = World::new().with("deep/er/x", "x");
    let said = world
        .sh("cp /bin/busybox deep/er/sh; chmod 4755 deep/er/sh; cp /bin/busybox group; chmod 2755 group; echo done")
        .await;
    assert_eq!(said.out, "done\n", "{said:?}");
    world.comes_to(0).await;
    for file in ["deep/er/sh", "group"] {
        let path = world.path().join(file);
        let mode = || path.metadata().unwrap().permissions().mode() & 0o7777;
        for _ in 0..1500 {
            if mode() & 0o6000 == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(mode(), 0o755, "{file}");
    }
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn secret_files_are_unreadable() {
    let world = World::new()
        .with(".env", "SECRET")
        .with("deep/er/key.pem", "SECRET")
        .with(".ssh/id_rsa", "SECRET")
        .with(".mimir/state/audit.jsonl", "SECRET");
    let home = std::env::home_dir().unwrap();
    std::fs::write(world.beside().join("id_rsa"), "SECRET").unwrap();
    let said = world
        .sh(&format!(
            "cat .env deep/er/key.pem .ssh/id_rsa .mimir/state/audit.jsonl; cp .env y; ln .env z; cat y z; chmod 644 .env
             chmod 755 .ssh .mimir/state; ls .ssh .mimir/state
             echo x > .ssh/authorized_keys; grep -r SECRET .; ls -A ~ {} {}/.ssh; cat ../id_rsa; echo end",
            home.display(),
            home.display()
        ))
        .await;
    assert!(
        !said.out.contains("SECRET") && said.out.contains("end\n"),
        "{said:?}"
    );
    assert!(
        !said.out.contains("id_rsa") && !said.out.contains("audit"),
        "{said:?}"
    );
    for file in [".env", "deep/er/key.pem", ".ssh/id_rsa"] {
        assert_eq!(world.read(file).as_deref(), Some("SECRET"), "{file}");
    }
    assert!(world.read(".ssh/authorized_keys").is_none());
    // A folder that contains a secret can be moved. A command that is detected doing that is stopped.
    let moves = world.script("mv deep d; cat d/er/key.pem; mv d deep; cat deep/er/key.pem");
    let written = match run_in(&sandbox(), &moves).await {
        Ok(finished) => finished.combined.bytes,
        Err(SandboxError::Uncovered { stopped, .. }) => stopped.finished.combined.bytes,
        Err(fault) => panic!("{fault}"),
    };
    let written = String::from_utf8_lossy(&written);
    assert!(!written.contains("SECRET"), "{written}");
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn protected_path_that_is_missing_cannot_be_created() {
    let world = World::new().with(".git/HEAD", "x");
    let spec = world.script("echo ../evil > .git/commondir; sleep 30");
    let fault = run_in(&sandbox(), &spec).await.unwrap_err();
    assert!(
        matches!(fault, SandboxError::ForbiddenPathCreated { .. }),
        "{fault}"
    );
    assert!(world.read(".git/commondir").is_none());
}

#[tokio::test]
#[ignore = "needs a container engine"]
async fn workspace_in_a_system_folder_is_rejected() {
    let world = World::new();
    for path in ["/", "/usr", "/etc", "/proc", "/tmp"] {
        let mut spec = world.script("true");
        (spec.workspace, spec.directory) = (path.into(), path.into());
        let fault = run_in(&sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(fault, SandboxError::Workspace(_)),
            "{path}: {fault}"
        );
    }
}
