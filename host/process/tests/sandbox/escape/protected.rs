//! What other programs run or obey by themselves, and what holds secrets, inside the workspace.

use std::process::Command;
use std::time::Duration;

use mimir_process::sandbox::Fault;

use crate::kit::{Said, World, exists, run_in, sandbox};

fn repository() -> World {
    let world = World::new().with("a", "x");
    let made = Command::new("git")
        .args(["init", "-q", "--template="])
        .current_dir(world.path())
        .status();
    assert!(made.unwrap().success());
    world
}

#[tokio::test]
async fn hooks_and_settings_stay_as_they_are() {
    let world = repository()
        .with(".mimir/config.yml", "old")
        .with(".bashrc", "old")
        .with(".vscode/tasks.json", "old");
    let config = world.read(".git/config").unwrap();
    assert!(!exists(&world.path().join(".git/hooks")));
    let said = world
        .sh("echo x > .git/hooks/pre-commit; mkdir -p .git/hooks/x; rm -rf .git/hooks; mv .git/hooks .git/h; mv .git .g; mv .git/config x
             git config core.fsmonitor ./evil; echo x >> .git/config; ln -sf /tmp/x .git/config; rm -f .git/config
             echo x > .mimir/config.yml; echo x > .mimir/new; mv .mimir m; rm -rf .mimir; mkdir -p .mimir/tools
             echo x > .bashrc; rm .bashrc; ln -f a .bashrc; mv a .bashrc; ln .bashrc hard && echo y > hard
             echo x > .vscode/tasks.json; mv .vscode v; chmod 777 .bashrc; echo end")
        .await;
    assert_eq!(said.out, "end\n");
    assert_eq!(world.read(".git/config").unwrap(), config);
    assert_eq!(
        world.path().join(".git/hooks").read_dir().unwrap().count(),
        0
    );
    assert_eq!(world.read(".mimir/config.yml").unwrap(), "old");
    assert_eq!(world.path().join(".mimir").read_dir().unwrap().count(), 1);
    assert_eq!(world.read(".bashrc").unwrap(), "old");
    assert_eq!(world.read(".vscode/tasks.json").unwrap(), "old");
    for moved in [".g", "m", "v"] {
        assert!(!exists(&world.path().join(moved)), "{moved}");
    }
}

#[tokio::test]
async fn secrets_are_not_read() {
    let world = World::new()
        .with(".env", "SECRET")
        .with("deep/er/key.pem", "SECRET")
        .with(".ssh/id_rsa", "SECRET")
        .with(".mimir/state/audit.jsonl", "SECRET");
    std::os::unix::fs::symlink("../.env", world.path().join("deep/link")).unwrap();
    let said = world
        .sh("cat .env deep/er/key.pem .ssh/id_rsa deep/link .mimir/state/audit.jsonl; chmod 644 .env; mv .env x; cp .env y; ln .env z; cat x y z
             grep -r SECRET . ; tar cf - . | grep -a SECRET; mv deep d; cat d/er/key.pem; mv d deep")
        .await;
    assert!(!said.out.contains("SECRET"), "{said:?}");
    assert_eq!(world.read(".env").as_deref(), Some("SECRET"));
    assert_eq!(world.read("deep/er/key.pem").as_deref(), Some("SECRET"));
}

#[tokio::test]
async fn what_is_not_there_yet_cannot_be_made() {
    for (path, text) in [
        (".git/commondir", "echo ../evil > .git/commondir"),
        (".bashrc", "echo x > .bashrc"),
        (".mcp.json", "cp a .mcp.json"),
        (".claude", "mkdir .claude && echo x > .claude/settings.json"),
        (
            ".vscode/tasks.json",
            "mkdir -p .vscode && echo x > .vscode/tasks.json",
        ),
        ("evil.code-workspace", "ln -s a evil.code-workspace"),
    ] {
        let world = repository();
        let spec = world.script(&format!("{text}; sleep 30"));
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        let Fault::Shielded {
            path: made,
            kept,
            stopped,
            ..
        } = fault
        else {
            panic!("{path}: {fault}");
        };
        assert_eq!(made, path);
        assert!(!exists(&world.path().join(path)), "{path}");
        assert!(exists(&world.path().join(kept)), "{path}: nothing is lost");
        assert!(
            stopped.after.as_secs() < 10,
            "{path}: it was not waited for"
        );
    }
}

#[tokio::test]
async fn what_is_made_and_left_at_once_is_found() {
    let world = repository();
    let fault = run_in(&*sandbox(), &world.script("echo ../evil > .git/commondir"))
        .await
        .unwrap_err();
    assert!(matches!(fault, Fault::Shielded { .. }), "{fault}");
    assert!(!exists(&world.path().join(".git/commondir")));
}

#[tokio::test]
async fn a_workspace_that_is_the_machine_is_refused() {
    let world = World::new();
    for path in ["/", "/usr", "/etc", "/proc"] {
        let mut spec = world.script("true");
        (spec.workspace, spec.directory) = (path.into(), path.into());
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(matches!(fault, Fault::Workspace(_)), "{path}: {fault}");
    }
}

/// As editors save.
fn replace(path: &std::path::Path, content: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn what_is_replaced_while_a_command_runs_ends_it() {
    for (file, attempt) in [(".env", "cat .env"), (".bashrc", "echo evil >> .bashrc")] {
        let world = World::new().with(file, "old");
        let spec = world.script(&format!(
            "while ! grep -q new {file}; do sleep 0.01; done; while :; do {attempt}; sleep 1; done"
        ));
        let path = world.path().join(file);
        let replacing = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            replace(&path, "new");
        });
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(&fault, Fault::Uncovered { path, .. } if path == file),
            "{fault}"
        );
        replacing.await.unwrap();
    }
    // What is only written to stays covered.
    let world = World::new().with(".env", "old");
    let spec = world.script("sleep 1; cat .env; echo end");
    let path = world.path().join(".env");
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::fs::write(path, "new").unwrap();
    });
    let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
    assert_eq!(said.out, "end\n", "{said:?}");
}
