//! Workspace files that other programs run or obey automatically, and files with secrets.

use std::process::Command;
use std::time::Duration;

use mimir_process::sandbox::SandboxError;

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
async fn protected_files_are_not_changed() {
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
async fn secret_files_are_unreadable() {
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
async fn protected_path_that_is_missing_cannot_be_created() {
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
        let SandboxError::ForbiddenPathCreated {
            path: made,
            renamed_to,
            stopped,
            ..
        } = fault
        else {
            panic!("{path}: {fault}");
        };
        assert_eq!(made, path);
        assert!(!exists(&world.path().join(path)), "{path}");
        assert!(
            exists(&world.path().join(renamed_to)),
            "{path}: the content was lost"
        );
        assert!(
            stopped.after.as_secs() < 10,
            "{path}: the command was stopped too late"
        );
    }
}

#[tokio::test]
async fn protected_path_created_by_a_short_command_is_detected() {
    let world = repository();
    let fault = run_in(&*sandbox(), &world.script("echo ../evil > .git/commondir"))
        .await
        .unwrap_err();
    assert!(
        matches!(fault, SandboxError::ForbiddenPathCreated { .. }),
        "{fault}"
    );
    assert!(!exists(&world.path().join(".git/commondir")));
}

/// Each path is created in its own workspace, and is listed with the path that must be renamed.
#[tokio::test]
async fn executable_config_in_subfolders_is_renamed() {
    for (path, text) in [
        ("n1/.mcp.json", "echo x > n1/.mcp.json"),
        (
            "n2/.git/worktrees/w/commondir",
            "git init -q n2; mkdir -p n2/.git/worktrees/w; cd n2/.git/worktrees/w; ln -s refs/x HEAD; echo ../../../../evil > commondir",
        ),
        (
            "n2/.git/modules/m/commondir",
            "git init -q n2; mkdir -p n2/.git/modules/m; cd n2/.git/modules/m; touch HEAD; echo ../../.. > commondir",
        ),
        (
            "n2/.git/modules/logs/config",
            "git init -q n2; mkdir -p n2/.git/modules/logs; cd n2/.git/modules/logs; touch HEAD; git config -f config core.pager x",
        ),
        (
            "n2/.git/config",
            "git init -q n2; printf '[advice][core]\\nfsmonitor = ./x\\n' >> n2/.git/config",
        ),
        (
            "n2/.git",
            "mkdir -p n2 target/.git/worktrees/x; echo 'gitdir: ../target/.git/worktrees/x' > n2/.git",
        ),
        (
            "n2/.git",
            "git init -q n3; mkdir -p n3/.git/foo/.git/modules/x n2; echo 'gitdir: ../n3/.git/foo/.git/modules/x' > n2/.git",
        ),
        (
            "n2/.git",
            "git init -q n3; mkdir -p n3/.git/modules/x n2; ln -s ../n3/.git/modules/x n2/l; echo 'gitdir: l' > n2/.git",
        ),
        (
            "n2/.git",
            "git init -q n3; mkdir -p n3/.git/worktrees n2; echo 'gitdir: ../n3/.git/worktrees/.' > n2/.git",
        ),
        (
            "n3/HEAD",
            "mkdir n3; echo 'ref: refs/heads/x' > n3/HEAD; echo ../e > n3/commondir",
        ),
        (
            "n8/.envrc",
            "cd n8; touch .envrc.refused-by-mimir; for i in $(seq 1 999); do :> .envrc.refused-by-mimir-$i; done; echo x > .envrc",
        ),
        (
            "n2/.git/hooks/pre-commit",
            "git init -q n2; echo x > n2/.git/hooks/pre-commit",
        ),
        (
            "n2/.git/config",
            "git init -q n2; git -C n2 config core.fsmonitor ./x",
        ),
        (
            "n2/.git/config",
            "mkdir -p n2/.git; ln -s ../../a n2/.git/config",
        ),
        (
            "n2/.git/hooks",
            "mkdir -p n2/.git evil; touch evil/pre-commit; ln -s ../../evil n2/.git/hooks",
        ),
        (
            "n2/.git",
            "mkdir n2 evil; git init -q evil/x; echo 'gitdir: ../evil/x/.git' > n2/.git",
        ),
        ("n2/.git", "mkdir n2 evil; ln -s ../evil n2/.git"),
        (
            "n3/HEAD",
            "git init -q --bare n3; echo x > n3/hooks/post-update",
        ),
        (
            "n4/a/b/.vscode/tasks.json",
            "mkdir -p n4/a/b/.vscode; echo x > n4/a/b/.vscode/tasks.json",
        ),
        (
            "n4/.vscode",
            "mkdir x; touch x/tasks.json; ln -s ../x n4/.vscode",
        ),
        ("n5/.bashrc", "echo x > n5/.bashrc"),
        (
            "n6/.claude",
            "mkdir -p n6/.claude; echo x > n6/.claude/settings.json",
        ),
        (
            "n7/.mimir",
            "mkdir -p n7/.mimir; echo x > n7/.mimir/config.yml",
        ),
        ("n8/.envrc", "echo x > n8/.envrc"),
        (
            "n9/y/.mcp.json",
            "mkdir -p x; echo x > x/z; mkdir -p x/y; echo x > x/y/.mcp.json; mv x n9",
        ),
        (
            "src/.husky",
            "mkdir -p src/.husky; echo x > src/.husky/pre-commit",
        ),
    ] {
        let world = World::new().with("a", "x");
        std::fs::create_dir_all(world.path()).unwrap();
        let made = world.script(&format!("mkdir -p n1 n4 n5 n8 src; {text}; exit 0"));
        let fault = run_in(&*sandbox(), &made).await.expect_err(path);
        let SandboxError::ForbiddenPathCreated {
            path: found,
            renamed_to,
            ..
        } = &fault
        else {
            panic!("{path}: {fault}");
        };
        assert_eq!(found, path);
        assert!(!exists(&world.path().join(path)), "{path}");
        assert!(
            exists(&world.path().join(renamed_to)),
            "{path}: the content was lost"
        );
    }
}

/// A folder is moved away with the covers of its files, and another folder replaces it.
#[tokio::test]
async fn protected_path_in_a_replaced_folder_is_renamed() {
    for wait in ["", "sleep 1"] {
        let world = World::new().with("pkg/.mcp.json", "old").with("sub/a", "x");
        let sub = world.path().join("sub");
        let mut git = Command::new("git");
        let made = git.args(["init", "-q"]).current_dir(&sub).status();
        assert!(made.unwrap().success());
        let text = format!(
            "mv sub s; cp -r s sub; git config -f sub/.git/config core.fsmonitor ./x; mv pkg p; mkdir pkg; echo new > pkg/.mcp.json; {wait}"
        );
        let fault = run_in(&*sandbox(), &world.script(&text)).await.unwrap_err();
        let (SandboxError::ForbiddenPathCreated { stopped, .. }
        | SandboxError::Uncovered { stopped, .. }) = &fault
        else {
            panic!("{fault}");
        };
        // The command may be stopped before it has written the files.
        let is_complete = stopped.finished.exit_code == 0;
        for (file, evil) in [("sub/.git/config", "fsmonitor"), ("pkg/.mcp.json", "new")] {
            let text = world.read(file);
            assert!(!text.is_some_and(|text| text.contains(evil)), "{file}");
            let renamed = world.read(&format!("{file}.refused-by-mimir"));
            let is_kept = renamed.is_some_and(|text| text.contains(evil));
            assert!(is_kept || !is_complete, "{file}: the content was lost");
        }
    }
}

#[tokio::test]
async fn forbidden_path_ends_none_of_several_commands() {
    let world = World::new();
    // The file is created once both run.
    let scripts = [
        "touch one; until [ -e two ]; do sleep 0.05; done; sleep 1; echo one",
        "until [ -e one ]; do sleep 0.05; done; sleep 0.5; echo x > .bashrc; touch two; sleep 0.5; echo two",
    ];
    let scripts = scripts.map(|text| world.script(text));
    let (one, two) = (sandbox(), sandbox());
    let (one, two) = tokio::join!(run_in(&*one, &scripts[0]), run_in(&*two, &scripts[1]));
    for (made, end) in [(one, "one\n"), (two, "two\n")] {
        let said = Said::of(made.unwrap());
        assert_eq!((said.code, said.out.as_str()), (0, end), "{said:?}");
        assert!(
            said.err
                .contains("or another one that ran at the same time, created `.bashrc`"),
            "{said:?}"
        );
    }
    assert!(!exists(&world.path().join(".bashrc")));
    assert!(exists(&world.path().join(".bashrc.refused-by-mimir")));
}

#[tokio::test]
async fn executable_config_is_renamed_while_the_command_runs() {
    let world = World::new();
    let spec = world.script("mkdir -p n/m; echo x > n/m/.mcp.json; sleep 30");
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    let SandboxError::ForbiddenPathCreated { path, stopped, .. } = &fault else {
        panic!("{fault}");
    };
    assert_eq!(path, "n/m/.mcp.json");
    assert!(
        stopped.after.as_secs() < 10,
        "the command was stopped too late"
    );
    // A command whose caller has gone creates a file at the last moment.
    let spec = world.script("echo x > n/.mcp.json; sleep 30");
    let ended = tokio::time::timeout(Duration::from_millis(400), run_in(&*sandbox(), &spec)).await;
    assert!(ended.is_err());
    for _ in 0..1500 {
        if !exists(&world.path().join("n/.mcp.json")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the forbidden file was not renamed");
}

#[tokio::test]
async fn ordinary_files_in_subfolders_are_not_renamed() {
    let world = repository().with("src/.env.example", "x");
    let said = world
        .sh("set -e; git init -q sub; cd sub; git config user.name n; git config user.email e@e; echo x > a; mkdir .husky
             echo x > .husky/pre-commit; git add a; git commit -qm one; cd ..
             git clone -q sub copy; git clone -q --bare sub bare.git; git -C copy log --format=%s
             git -C copy worktree add -q ../copy/wt 2>/dev/null; cp src/.env.example src/.env
             mkdir -p node_modules/p/.vscode; echo x > node_modules/p/.vscode/tasks.json; echo x > node_modules/p/.npmrc
             git -C copy -c protocol.file.allow=always submodule --quiet add ../sub lib; test -f copy/lib/a; sleep 1")
        .await;
    assert_eq!((said.code, said.out.as_str()), (0, "one\n"), "{said:?}");
    for file in [
        "sub/.git/config",
        "sub/.husky/pre-commit",
        "copy/.git/HEAD",
        "copy/wt/.git",
        "copy/lib/.git",
        "bare.git/HEAD",
        "src/.env",
        "node_modules/p/.vscode/tasks.json",
    ] {
        assert!(exists(&world.path().join(file)), "{file}");
    }
}

#[tokio::test]
async fn git_init_of_the_workspace_is_not_renamed() {
    let world = World::new();
    assert_eq!(
        world.sh("git init -q . && git status --short").await.code,
        0
    );
    assert!(exists(&world.path().join(".git/config")));
    let fetched = World::new()
        .with("from/.vscode/tasks.json", "{}")
        .with("from/a", "x");
    let said = fetched
        .sh("cd from; git init -q; git add .; git -c user.name=n -c user.email=e@e commit -qm 1; sleep 1; echo end")
        .await;
    assert_eq!(
        said.out, "end\n",
        "files that existed before must stay: {said:?}"
    );
    // A clone is not interrupted, but the forbidden path is reported.
    let spec = fetched.script("git clone -q from to; sleep 2; cat to/a; echo end");
    let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
    let SandboxError::ForbiddenPathCreated { path, stopped, .. } = &fault else {
        panic!("{fault}");
    };
    assert_eq!(path, "to/.vscode/tasks.json");
    assert_eq!(stopped.finished.stdout.bytes, b"xend\n");
    assert!(exists(
        &fetched
            .path()
            .join("to/.vscode/tasks.json.refused-by-mimir")
    ));
}

/// Measures the cost of a command in a large workspace.
#[tokio::test]
#[ignore = "measures; run it alone: cargo test -p mimir-process --release -- --ignored hundred_thousand --nocapture"]
async fn guard_searches_a_hundred_thousand_files() {
    let world = World::new();
    for folder in 0..5_000 {
        let at = world
            .path()
            .join(format!("a{}/b{}/c{folder}", folder % 10, folder % 100));
        std::fs::create_dir_all(&at).unwrap();
        for file in 0..20 {
            std::fs::write(at.join(format!("file-{file}.rs")), "").unwrap();
        }
    }
    for _ in 0..5 {
        let begun = std::time::Instant::now();
        assert_eq!(world.sh("true").await.code, 0);
        println!("{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn workspace_in_a_system_folder_is_rejected() {
    let world = World::new();
    for path in ["/", "/usr", "/etc", "/proc"] {
        let mut spec = world.script("true");
        (spec.workspace, spec.directory) = (path.into(), path.into());
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(fault, SandboxError::Workspace(_)),
            "{path}: {fault}"
        );
    }
}

/// Replaces a file by a rename, as editors do on save.
fn replace(path: &std::path::Path, content: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn masked_file_replaced_during_a_command_ends_it() {
    for (file, attempt) in [(".env", "cat .env"), (".bashrc", "echo evil >> .bashrc")] {
        let world = World::new().with(file, "old").with("n/signal", "");
        let spec = world.script(&format!(
            "echo started > n/signal; while ! grep -q new {file}; do sleep 0.01; done; while :; do {attempt}; sleep 1; done"
        ));
        let folder = world.path();
        let replacing = tokio::spawn(async move {
            let signal = folder.join("n/signal");
            while std::fs::read(&signal).unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            replace(&folder.join(file), "new");
        });
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(
            matches!(&fault, SandboxError::Uncovered { path, .. } if path == file),
            "{fault}"
        );
        replacing.await.unwrap();
    }
    // A file that is written in place stays covered.
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

/// The settings are replaced while a program runs, as by a switch in the console.
#[tokio::test]
async fn file_in_a_read_only_folder_may_be_replaced_during_a_command() {
    let world = World::new().with(".mimir/config.yml", "old");
    let spec = world.script(
        "touch started; while ! test -e replaced; do sleep 0.05; done; sleep 1
         (echo evil >> .mimir/config.yml) 2>/dev/null || echo protected",
    );
    let folder = world.path();
    let replacing = tokio::spawn(async move {
        while !exists(&folder.join("started")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        replace(&folder.join(".mimir/config.yml"), "new");
        std::fs::write(folder.join("replaced"), "").unwrap();
    });
    let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "protected\n"),
        "{said:?}"
    );
    assert_eq!(world.read(".mimir/config.yml").as_deref(), Some("new"));
    replacing.await.unwrap();
}
