//! Git in realistic workspaces: with tracked hidden files, linked to a repository elsewhere, with submodules, and with
//! settings that run programs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::kit::{Said, World, exists, run_in, sandbox};

fn git(folder: &Path, words: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@e"])
        .args(["-c", "protocol.file.allow=always"])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Creates a repository with tracked files that commands may not read.
fn tracked() -> World {
    let world = World::new()
        .with("tests/cert.pem", "SECRET\n")
        .with("tests/server.key", "SECRET\n")
        .with(".env", "SECRET=1\n")
        .with(".ssh/config", "SECRET\n")
        .with("README.md", "one\n")
        .with("t.py", "print(open('tests/cert.pem').read())\n");
    let at = world.path();
    git(&at, &["init", "-q"]);
    for (key, value) in [("user.name", "n"), ("user.email", "e@e")] {
        git(&at, &["config", key, value]);
    }
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-qm", "one"]);
    world
}

#[tokio::test]
async fn tracked_secrets_are_unchanged_to_git() {
    let world = tracked();
    std::fs::write(world.path().join("README.md"), "two\n").unwrap();
    let said = world
        .sh("set -e; git status --short; git diff --stat | tail -1; git stash -q; git status --short; git stash pop -q
             git add -A; git commit -qam two; git show --format= --name-only; git diff HEAD~1 --name-only; git status --short
             git reset -q --hard HEAD~1; git log --format=%s; echo end")
        .await;
    assert_eq!(
        said.out,
        " M README.md\n 1 file changed, 1 insertion(+), 1 deletion(-)\nREADME.md\nREADME.md\none\nend\n",
        "{said:?}"
    );
    assert_eq!(said.code, 0, "{said:?}");
    // Nothing has changed outside the sandbox.
    let at = world.path();
    assert_eq!(git(&at, &["status", "--short"]), "");
    assert_eq!(git(&at, &["ls-files", "-v"]).matches("H ").count(), 6);
    git(&at, &["fsck", "--strict"]);
    assert_eq!(world.read(".env").as_deref(), Some("SECRET=1\n"));
    assert_eq!(world.read(".ssh/config").as_deref(), Some("SECRET\n"));
}

#[tokio::test]
async fn changed_secrets_are_not_committed_and_remain_changed() {
    let world = tracked();
    let at = world.path();
    std::fs::write(at.join(".env"), "SECRET=2\n").unwrap();
    std::fs::write(at.join("new.key"), "SECRET\n").unwrap();
    let said = world
        .sh("echo x > a; git add -A && git commit -qam two && git status --short")
        .await;
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    // Files that git could not compare or read were not committed.
    assert_eq!(git(&at, &["show", "HEAD:.env"]), "SECRET=1\n");
    assert_eq!(git(&at, &["status", "--short"]), " M .env\n?? new.key\n");
    git(&at, &["commit", "-qam", "three"]);
    assert_eq!(git(&at, &["show", "HEAD:.env"]), "SECRET=2\n");
}

#[tokio::test]
async fn tracked_secrets_are_unchanged_in_every_index_format() {
    for words in [
        vec!["update-index", "--index-version", "4"],
        vec!["config", "index.skipHash", "true"],
        vec!["update-index", "--assume-unchanged", "README.md"],
        vec!["read-tree", "HEAD"],
    ] {
        let world = tracked();
        git(&world.path(), &words);
        git(&world.path(), &["update-index", "--force-write-index"]);
        let said = world
            .sh("git status --short; git add -A; git status --short")
            .await;
        assert_eq!(
            (said.code, said.out.as_str()),
            (0, ""),
            "{words:?}: {said:?}"
        );
    }
}

#[tokio::test]
async fn tracked_secrets_are_not_in_patches() {
    let world = World::new()
        .with(".env", "SECRET=1\n")
        .with("a \"b*/server.key", "SECRET\n")
        .with(".ssh/deep/config", "SECRET\n")
        .with("README.md", "one SECRET\n")
        .with(".gitattributes", "* text=auto\n");
    let at = world.path();
    git(&at, &["init", "-q"]);
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-qm", "one"]);
    std::fs::write(at.join(".env"), "SECRET=22\n").unwrap();
    std::fs::write(at.join(".ssh/deep/config"), "SECRET 2\n").unwrap();
    std::fs::write(at.join("a \"b*/server.key"), "SECRET 2\n").unwrap();
    std::fs::write(at.join("README.md"), "two SECRET\n").unwrap();
    git(&at, &["commit", "-qam", "two"]);
    for command in [
        "show",
        "log -p",
        "diff HEAD~1",
        "diff HEAD~1 HEAD",
        "whatchanged -p",
        "format-patch --no-binary --stdout HEAD~1",
        "grep -n SECRET HEAD",
        "grep -n SECRET HEAD~1 HEAD",
    ] {
        let said = world.sh(&format!("git {command} | cat; true")).await;
        let shown = said.out.lines().filter(|line| line.contains("SECRET"));
        let shown: Vec<&str> = shown.collect();
        assert!(!shown.is_empty(), "{command}: {said:?}");
        let readme = |line: &&str| line.contains("one SECRET") || line.contains("two SECRET");
        assert!(shown.iter().all(readme), "{command}: {said:?}");
    }
    // A file that changed between commits is not shown as empty.
    let said = world
        .sh("git diff --stat HEAD~1 -- .env; git diff HEAD~1 -- .env")
        .await;
    for part in ["Bin 9 -> 10 bytes", "Binary files a/.env and b/.env differ"] {
        assert!(said.out.contains(part), "{said:?}");
    }
}

#[tokio::test]
async fn tracked_secrets_are_unreadable() {
    let world = tracked();
    let said = world
        .sh("cat .env tests/cert.pem .ssh/config; cp .env x; cat x; python3 -c 'print(open(\".env\").read())'; chmod 644 .env; cat .env
             echo y > .env; rm -f .env; mv tests/server.key z; cat z; ls -la .env tests")
        .await;
    assert!(!said.out.contains("SECRET"), "{said:?}");
    assert_eq!(world.read(".env").as_deref(), Some("SECRET=1\n"));
}

#[tokio::test]
async fn directory_walks_succeed_with_hidden_paths() {
    let world = World::new()
        .with(".env", "SECRET")
        .with("certs/a.pem", "SECRET")
        .with(".ssh/id_rsa", "SECRET")
        .with(".mimir/state/audit.jsonl", "SECRET")
        .with(".mimir/memory/a.md", "SECRET")
        .with("a.txt", "file one\n");
    for text in [
        "find . -name '*.txt'",
        "du -s .",
        "cp -r . /tmp/copy && test -f /tmp/copy/a.txt",
        "tar cf /tmp/all.tar .",
        "ls -R",
        "git init -q . && git add -A && git commit -qm one && git status --short",
        "python3 -c 'import os; assert sum(len(f) for _, _, f in os.walk(\".\")) > 2'",
    ] {
        let mut spec = world.script(text);
        spec.environment = [("GIT_AUTHOR", "n"), ("GIT_COMMITTER", "n")]
            .iter()
            .flat_map(|(name, value)| {
                let pair = |end: &str| (format!("{name}_{end}"), (*value).to_owned());
                [pair("NAME"), pair("EMAIL")]
            })
            .collect();
        let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
        assert_eq!(said.code, 0, "{text}: {said:?}");
        assert!(!said.out.contains("SECRET"), "{text}: {said:?}");
    }
    let said = world.sh("ls -A .ssh .mimir/state .mimir/memory").await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!said.out.contains("id_rsa"), "{said:?}");
    // A search reports unreadable files, and the setting that reveals them.
    let said = world.sh("grep -rc file .").await;
    assert!(said.out.contains("./a.txt:1"), "{said:?}");
    assert!(
        said.err.contains("reveal: [\".env\", \"certs/a.pem\"]`"),
        "{said:?}"
    );
    // Hidden folders alone cause no errors.
    for file in [".env", "certs/a.pem"] {
        std::fs::remove_file(world.path().join(file)).unwrap();
    }
    for text in ["grep -rc file .", "grep -r SECRET . ; test $? = 1"] {
        let said = world.sh(text).await;
        assert_eq!(said.code, 0, "{text}: {said:?}");
    }
}

#[tokio::test]
async fn reveal_hint_follows_a_denied_read() {
    let world = tracked().with("new.env", "SECRET");
    for (text, file) in [
        ("python3 t.py", "tests/cert.pem"),
        ("cat .env", ".env"),
        ("cat new.env", "new.env"),
        ("cd tests && cat server.key", "tests/server.key"),
        ("cat .env 2>&1", ".env"),
    ] {
        let said = world.sh(text).await;
        assert_ne!(said.code, 0, "{text}: {said:?}");
        let line = format!("`tools.exec.reveal: [\"{file}\"]`");
        assert!(said.err.contains(&line), "{text}: {said:?}");
        assert!(!said.out.contains("SECRET"), "{text}: {said:?}");
    }
    let said = world.sh("cat /etc/shadow; ./README.md").await;
    assert!(!said.err.contains("reveal"), "{said:?}");
}

#[tokio::test]
async fn git_read_commands_run_no_programs_of_the_config() {
    let world = World::new().with("a", "x");
    let at = world.path();
    let evil = at.join("evil");
    std::fs::write(&evil, "#!/bin/sh\necho \"$0 $*\" >> ran\n").unwrap();
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(at.join("hooks")).unwrap();
    std::fs::copy(&evil, at.join("hooks/post-index-change")).unwrap();
    git(&at, &["init", "-q"]);
    git(&at, &["add", "a"]);
    git(&at, &["commit", "-qm", "one"]);
    let tree = git(&at, &["rev-parse", "HEAD^{tree}"]);
    let signed = format!(
        "tree {tree}author n <e@e> 1 +0000\ncommitter n <e@e> 1 +0000\n\
         gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n\nsigned\n"
    );
    std::fs::write(world.outside().join("commit"), signed).unwrap();
    let commit = git(&at, &["hash-object", "-t", "commit", "-w", "../commit"]);
    git(&at, &["update-ref", "HEAD", commit.trim()]);
    let mut included = String::new();
    for (section, lines) in [
        ("gpg", "program = ./evil"),
        ("gpg \"ssh\"", "program = ./evil"),
        ("gpg \"x509\"", "program = ./evil"),
        ("gpg \"openpgp\"", "program = ./evil"),
        ("log", "showSignature = true"),
        ("format", "pretty = %H %GS"),
        ("branch", "sort = signature"),
        ("tag", "sort = signature"),
        ("man", "viewer = x"),
        ("man \"x\"", "cmd = ./evil"),
        ("help", "browser = x"),
        ("browser \"x\"", "cmd = ./evil"),
        (
            "core",
            "hooksPath = hooks\n\tfsmonitor = ./evil\n\tpager = ./evil",
        ),
        ("tar \"tgz\"", "command = ./evil"),
        ("tar \"x\"", "command = ./evil"),
    ] {
        included += &format!("[{section}]\n\t{lines}\n");
    }
    std::fs::write(at.join("settings"), included).unwrap();
    // Settings included from a file of the checkout.
    git(&at, &["config", "include.path", "../settings"]);
    for text in [
        "git log -1",
        "git show -s",
        "git branch",
        "git tag",
        "git log --help",
        "git help log",
        "git help -w log",
        "touch a; git status",
        "touch a; git diff",
        "git verify-commit HEAD",
        "git archive --format=tgz HEAD | wc -c",
        "git archive --format=x HEAD | wc -c",
        "git log --show-signature -1",
    ] {
        world.sh(text).await;
        assert_eq!(world.read("ran"), None, "{text}");
    }
    // Control: with explicit settings, git runs these programs.
    world
        .sh("git -c man.x.cmd=./evil help log; git -c gpg.program=./evil log -1")
        .await;
    assert!(world.read("ran").is_some());
}

#[tokio::test]
async fn git_merge_ignores_the_configured_driver() {
    let world = World::new().with("a", "1\n2\n3\n");
    let at = world.path();
    let evil = at.join("evil");
    std::fs::write(&evil, "#!/bin/sh\necho ran >> ran\n").unwrap();
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(at.join(".gitattributes"), "a merge=x\n").unwrap();
    git(&at, &["init", "-q", "-b", "main"]);
    let commit = |content: &str| {
        std::fs::write(at.join("a"), content).unwrap();
        git(&at, &["add", "-A"]);
        git(&at, &["commit", "-qm", "one"]);
    };
    commit("1\n2\n3\n");
    git(&at, &["checkout", "-qb", "other"]);
    commit("1\n2\n3 other\n");
    git(&at, &["checkout", "-q", "main"]);
    commit("1 main\n2\n3\n");
    git(&at, &["config", "merge.x.driver", "./evil %A"]);
    // The merge uses git's own driver.
    let merged = world
        .sh("git -c user.name=n -c user.email=e@e merge -q other -m two > merge.log && cat a")
        .await;
    assert_eq!(merged.out, "1 main\n2\n3 other\n", "{merged:?}");
    for text in [
        "git log -p --diff-merges remerge",
        "git show --diff-merges=remerge HEAD",
        "git show --remerge-diff HEAD",
    ] {
        world.sh(text).await;
        assert_eq!(world.read("ran"), None, "{text}");
    }
    // Control: outside the sandbox, git runs the driver.
    git(&at, &["show", "--remerge-diff", "HEAD"]);
    assert!(world.read("ran").is_some());
}

#[tokio::test]
async fn commit_signing_failure_suggests_no_gpg_sign() {
    let world = tracked();
    git(&world.path(), &["config", "commit.gpgsign", "true"]);
    let said = world.sh("git commit --allow-empty -m two").await;
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("git commit --no-gpg-sign"), "{said:?}");
    let said = world
        .sh("git commit --no-gpg-sign --allow-empty -qm two; git log --format=%s")
        .await;
    assert_eq!(said.out, "two\none\n", "{said:?}");
}

#[tokio::test]
async fn agent_instruction_files_are_reported_when_changed() {
    let world = World::new()
        .with("CLAUDE.md", "old")
        .with("sub/AGENTS.md", "old")
        .with("mise.toml", "old");
    git(&world.path(), &["init", "-q"]);
    let finished = run_in(
        &*sandbox(),
        &world.script(
            "echo new >> CLAUDE.md; cat sub/AGENTS.md; mkdir -p a/.cargo .github; echo x > a/.cargo/config.toml
             echo x > .github/copilot-instructions.md; echo x > README.md; mkdir -p .git/info; echo x > .git/info/attributes; exit 3",
        ),
    )
    .await
    .unwrap();
    let expected = [
        ".git/info/attributes",
        ".github/copilot-instructions.md",
        "CLAUDE.md",
        "a/.cargo/config.toml",
    ];
    assert_eq!(finished.changed_auto_run_files, expected);
    let said = Said::of(finished);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("obeyed by agents or tools"), "{said:?}");
    let said = world.sh("cat CLAUDE.md; echo x > main.rs").await;
    assert_eq!(said.err, "", "{said:?}");
}

/// Creates a workspace that is a linked worktree of a repository with a second worktree and hooks. Returns it with the
/// path of the repository.
fn worktree() -> (World, std::path::PathBuf) {
    let world = World::new();
    let main = world.outside().join("main");
    std::fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q", "--template="]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "First"]);
    git(
        &main,
        &["worktree", "add", "-q", world.path().to_str().unwrap()],
    );
    git(&main, &["worktree", "add", "-q", "../other"]);
    (world, main.join(".git"))
}

const COMMIT: &str = "git add -A && git -c user.name=n -c user.email=e@e commit -qm Second && git log --format=%s && git status --short";

#[tokio::test]
async fn worktree_can_commit_without_settings() {
    let (world, common) = worktree();
    let world = world.with(".env", "SECRET").with("a", "x");
    git(&world.path(), &["add", "-f", ".env"]);
    let said = world.sh(COMMIT).await;
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "Second\nFirst\n"),
        "{said:?}"
    );
    let config = std::fs::read(common.join("config")).unwrap();
    let place = common.display();
    let text = format!(
        "cd {place}; echo x > hooks/post-commit; echo x >> config; rm -f config; mv hooks h; cd worktrees/work; echo x > commondir
         rm -f gitdir; mv gitdir g; mv ../work ../w; echo x > ../other/HEAD; rm -rf ../other; git worktree prune; echo end"
    );
    let said = world.sh(&text).await;
    assert_eq!(said.out, "end\n", "{said:?}");
    assert_eq!(std::fs::read(common.join("config")).unwrap(), config);
    assert_eq!(common.join("hooks").read_dir().unwrap().count(), 0);
    git(&world.outside().join("other"), &["status"]);
    git(&world.path(), &["status"]);
    for name in ["worktrees/work/config.worktree", "commondir"] {
        let text = format!("echo x > {place}/{name}");
        let made = run_in(&*sandbox(), &world.script(&text)).await;
        assert!(made.is_err(), "{name}: {made:?}");
        assert!(!exists(&common.join(name)), "{name}");
    }
    // The files of the other worktrees are invisible.
    let said = world.sh(&format!("ls {}", world.outside().display())).await;
    assert_eq!(said.out, "main\nwork\n", "{said:?}");
}

#[tokio::test]
async fn bare_worktree_and_submodule_can_commit_without_settings() {
    for submodule in [false, true] {
        let world = World::new();
        let at = world.outside();
        let main = at.join("main");
        std::fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q", "--template="]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "First"]);
        let (workspace, own, outermost) = if submodule {
            let above = at.join("above");
            std::fs::create_dir(&above).unwrap();
            git(&above, &["init", "-q", "--template="]);
            git(&above, &["submodule", "--quiet", "add", "../main", "sub"]);
            let own = above.join(".git/modules/sub");
            (above.join("sub"), own.clone(), own)
        } else {
            git(&at, &["clone", "-q", "--bare", "main", "main.git"]);
            let bare = at.join("main.git");
            git(&bare, &["worktree", "add", "-q", "../tree"]);
            (at.join("tree"), bare.join("worktrees/tree"), bare)
        };
        std::fs::write(workspace.join("a"), "x").unwrap();
        let spec = |text: &str| {
            let mut spec = world.script(text);
            (spec.workspace, spec.directory) = (workspace.clone(), workspace.clone());
            spec
        };
        let said = Said::of(run_in(&*sandbox(), &spec(COMMIT)).await.unwrap());
        assert_eq!(
            (said.code, said.out.as_str()),
            (0, "Second\nFirst\n"),
            "{said:?}"
        );
        let config = std::fs::read(outermost.join("config")).unwrap();
        let text = format!(
            "cd {}; echo x >> config; mv config c; echo x > hooks/post-commit; mv hooks h; echo end",
            outermost.display()
        );
        let said = Said::of(run_in(&*sandbox(), &spec(&text)).await.unwrap());
        assert_eq!(said.out, "end\n", "{said:?}");
        assert_eq!(std::fs::read(outermost.join("config")).unwrap(), config);
        for path in [own.join("config.worktree"), outermost.join("commondir")] {
            let text = format!("echo ../evil > {}", path.display());
            let made = run_in(&*sandbox(), &spec(&text)).await;
            assert!(made.is_err(), "{}: {made:?}", path.display());
            assert!(!exists(&path), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn submodule_in_the_workspace_can_commit() {
    let world = World::new();
    let (lib, at) = (world.outside().join("lib"), world.path());
    for folder in [&lib, &at] {
        std::fs::create_dir_all(folder).unwrap();
        git(folder, &["init", "-q", "--template="]);
    }
    git(&lib, &["commit", "-q", "--allow-empty", "-m", "First"]);
    git(&at, &["submodule", "--quiet", "add", "../lib", "sub"]);
    std::fs::write(at.join("sub/a"), "x").unwrap();
    let said = world.sh(&format!("cd sub; {COMMIT}")).await;
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "Second\nFirst\n"),
        "{said:?}"
    );
    let own = at.join(".git/modules/sub");
    let config = std::fs::read(own.join("config")).unwrap();
    let said = world
        .sh("cd .git/modules/sub; echo x >> config; mv config c; mkdir -p hooks; echo x > hooks/post-commit; mv ../sub ../s; mv ../../modules ../../m; echo end")
        .await;
    assert_eq!(said.out, "end\n", "{said:?}");
    assert_eq!(std::fs::read(own.join("config")).unwrap(), config);
    assert!(!exists(&own.join("hooks/post-commit")));
    let made = run_in(
        &*sandbox(),
        &world.script("echo ../../x > .git/modules/sub/commondir"),
    )
    .await;
    assert!(made.is_err(), "{made:?}");
    assert!(!exists(&own.join("commondir")));
}

#[tokio::test]
async fn gitdir_file_without_a_back_reference_mounts_nothing() {
    let (world, common) = worktree();
    let other = world.outside().join("hostile");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a"), "x").unwrap();
    for to in [
        common.join("worktrees/work"),
        common.clone(),
        world.outside(),
        "/etc".into(),
    ] {
        std::fs::write(other.join(".git"), format!("gitdir: {}\n", to.display())).unwrap();
        let text = format!("ls {}; git status", common.display());
        let mut spec = world.script(&text);
        (spec.workspace, spec.directory) = (other.clone(), other.clone());
        let said = Said::of(run_in(&*sandbox(), &spec).await.unwrap());
        assert_eq!(said.out, "", "{}: {said:?}", to.display());
        assert_ne!(said.code, 0);
    }
}
