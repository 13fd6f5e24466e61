//! Folders outside the workspace that the user lets commands change: files that other programs run or obey are
//! protected there, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use mimir_process::sandbox::{CommandSpec, HostMount, SandboxError};

use crate::kit::{Said, World, exists, run_in, sandbox};

fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git").args(words).current_dir(folder).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

/// Creates a repository outside the workspace, as `git init` does but without hooks.
fn repository(world: &World) -> PathBuf {
    let folder = world.outside().join("main");
    std::fs::create_dir_all(&folder).unwrap();
    git(&folder, &["init", "-q", "--template="]);
    folder.join(".git")
}

/// Returns the spec of a script with the folder `from` mounted writable at `at`.
fn with(world: &World, text: &str, from: &Path, at: &Path) -> CommandSpec {
    let mut spec = world.script(text);
    spec.mounts.push(HostMount {
        from: from.to_owned(),
        at: at.to_owned(),
        writable: true,
    });
    spec
}

async fn said(spec: &CommandSpec) -> Said {
    Said::of(run_in(&*sandbox(), spec).await.unwrap())
}

#[tokio::test]
async fn mounted_repository_hooks_and_config_are_not_changed() {
    let world = World::new();
    let git = repository(&world);
    let config = std::fs::read(git.join("config")).unwrap();
    let elsewhere = world.outside().join("elsewhere");
    for at in [&git, &elsewhere] {
        let location = at.display();
        let text = format!(
            "cd {location}; echo x > hooks/post-checkout; mkdir -p hooks/x; mv hooks h; rm -rf hooks; mkdir -p hooks
             echo x > hooks/y; echo x >> config; mv config c; ln -sf /tmp/x config; rm -f config; echo x > free; echo end"
        );
        let said = said(&with(&world, &text, &git, at)).await;
        assert_eq!(said.out, "end\n");
        assert_eq!(
            git.join("hooks").read_dir().unwrap().count(),
            0,
            "{location}"
        );
        assert_eq!(std::fs::read(git.join("config")).unwrap(), config);
        std::fs::remove_file(git.join("free")).unwrap();
    }
}

#[tokio::test]
async fn mounted_bare_repository_is_protected() {
    let world = World::new();
    let bare = world.outside().join("store");
    std::fs::create_dir(&bare).unwrap();
    git(&bare, &["init", "-q", "--bare", "--template="]);
    let config = std::fs::read(bare.join("config")).unwrap();
    let text = format!(
        "cd {}; echo x > hooks/post-update; mv hooks h; mkdir hooks; echo x >> config; rm -f config; echo end",
        bare.display()
    );
    let said = said(&with(&world, &text, &bare, &bare)).await;
    assert_eq!(said.out, "end\n");
    assert_eq!(bare.join("hooks").read_dir().unwrap().count(), 0);
    assert_eq!(std::fs::read(bare.join("config")).unwrap(), config);
}

#[tokio::test]
async fn mounted_folder_forbidden_new_files_are_renamed() {
    for (made, text) in [
        (".git/commondir", "echo ../evil > .git/commondir"),
        (".git/config.worktree", "echo x > .git/config.worktree"),
        ("a/b/.mcp.json", "mkdir -p a/b; echo x > a/b/.mcp.json"),
        (".envrc", "echo x > .envrc"),
        (
            "n/.git/hooks/pre-commit",
            "git init -q n; mkdir -p n/.git/hooks; echo x > n/.git/hooks/pre-commit",
        ),
    ] {
        let world = World::new();
        let main = repository(&world).parent().unwrap().to_owned();
        let seen = world.outside().join("seen");
        let spec = with(
            &world,
            &format!("cd {}; {text}", seen.display()),
            &main,
            &seen,
        );
        let fault = run_in(&*sandbox(), &spec).await.expect_err(made);
        let SandboxError::ForbiddenPathCreated {
            path, renamed_to, ..
        } = &fault
        else {
            panic!("{made}: {fault}");
        };
        // The message contains the host path.
        assert_eq!(*path, main.join(made).display().to_string());
        assert!(!exists(&main.join(made)), "{made}");
        assert!(
            exists(Path::new(renamed_to)),
            "{made}: the content was lost"
        );
    }
}

#[tokio::test]
async fn mounted_git_folder_is_guarded() {
    let world = World::new();
    let git = repository(&world);
    let text = format!("echo ../evil > {}/commondir", git.display());
    let fault = run_in(&*sandbox(), &with(&world, &text, &git, &git)).await;
    assert!(
        matches!(fault, Err(SandboxError::ForbiddenPathCreated { .. })),
        "{fault:?}"
    );
    assert!(!exists(&git.join("commondir")));
}

#[tokio::test]
async fn mounted_folder_secrets_are_unreadable() {
    let world = World::new();
    let data = world.outside().join("data");
    let named = world.outside().join("home/.claude");
    for folder in [&data, &named] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(data.join(".env"), "SECRET").unwrap();
    std::fs::write(data.join("a.txt"), "text").unwrap();
    let text = format!(
        "cat {0}/.env; mv {0}/.env {0}/x; cat {0}/x {0}/a.txt; echo y > {1}/settings.json; echo end",
        data.display(),
        named.display()
    );
    let mut spec = with(&world, &text, &data, &data);
    spec.mounts.push(HostMount {
        writable: true,
        ..HostMount::read_only(&named)
    });
    let said = said(&spec).await;
    assert_eq!(said.out, "textend\n");
    // A rule protects this folder, but the user has mounted it explicitly.
    assert!(exists(&named.join("settings.json")));
    assert!(!exists(&named.join(".mimir")) && !exists(&data.join(".mimir")));
}

#[tokio::test]
async fn mounted_parent_folder_does_not_unprotect_the_workspace() {
    let world = World::new().with(".env", "SECRET").with(".bashrc", "old");
    git(&world.path(), &["init", "-q", "--template="]);
    let above = world.outside();
    let text = "cat .env; echo x > .bashrc; echo x > .git/hooks/x; echo x > ../free; echo end";
    let said = said(&with(&world, text, &above, &above)).await;
    assert_eq!(said.out, "end\n");
    assert_eq!(world.read(".bashrc").as_deref(), Some("old"));
    assert!(world.read(".git/hooks/x").is_none());
    assert!(exists(&above.join("free")));
}

#[tokio::test]
async fn mounted_workspace_part_stays_protected_at_another_path() {
    let world = World::new().with("sub/.bashrc", "old");
    let seen = world.outside().join("seen");
    let text = format!("echo x > {}/.bashrc; echo end", seen.display());
    let said = said(&with(&world, &text, &world.path().join("sub"), &seen)).await;
    assert_eq!(said.out, "end\n");
    assert_eq!(world.read("sub/.bashrc").as_deref(), Some("old"));
}

/// The workspace is a linked worktree, with its repository elsewhere.
#[tokio::test]
async fn worktree_can_commit_but_not_change_its_repository() {
    let world = World::new();
    let git_folder = repository(&world);
    let main = git_folder.parent().unwrap();
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    git(
        main,
        &[&who[..], &["commit", "-q", "--allow-empty", "-m", "First"]].concat(),
    );
    let work = world.path();
    git(main, &["worktree", "add", "-q", work.to_str().unwrap()]);
    let own = git_folder.join("worktrees/work");
    let before = ["commondir", "gitdir"].map(|name| std::fs::read(own.join(name)).unwrap());
    let text = format!(
        "echo x > a; git add a && git -c user.name=a -c user.email=a@b commit -qm Second && git log --format=%s
         cd {}; echo x > commondir; rm -f gitdir; mv gitdir g; mv ../work ../w; echo x > ../../hooks/post-commit; echo end",
        own.display()
    );
    let said = said(&with(&world, &text, &git_folder, &git_folder)).await;
    assert_eq!(said.out, "Second\nFirst\nend\n", "{said:?}");
    let after = ["commondir", "gitdir"].map(|name| std::fs::read(own.join(name)).unwrap());
    assert_eq!(before, after);
    assert_eq!(git_folder.join("hooks").read_dir().unwrap().count(), 0);
    let text = format!("echo x > {}/config.worktree", own.display());
    let made = run_in(&*sandbox(), &with(&world, &text, &git_folder, &git_folder)).await;
    assert!(
        matches!(made, Err(SandboxError::ForbiddenPathCreated { .. })),
        "{made:?}"
    );
    assert!(!exists(&own.join("config.worktree")));
}
