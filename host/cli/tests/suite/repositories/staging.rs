//! Staging and comparing, in ordinary repositories, linked worktrees and submodules.

use std::fs;

use super::GitFixture;

#[test]
fn git_add_names_missing_and_ignored_paths() {
    let fixture = GitFixture::new();
    fixture.write("work/a.txt", "one\n");
    fixture.write("work/.gitignore", "*.log\n");
    fixture.write("work/x.log", "x");
    fixture.git("work", &["init", "-q", "-b", "main"]);
    let output = fixture.refused("work", "add", &["a.txt", "typo"]);
    assert!(
        output.contains("typo") && output.contains(".gitignore"),
        "{output}"
    );
    assert!(fixture.refused("work", "add", &["x.log"]).contains("x.log"));
    assert_eq!(fixture.git("work", &["ls-files"]), "", "all or nothing");
    fixture.git("work", &["config", "user.name", "a"]);
    fixture.git("work", &["config", "user.email", "a@b"]);
    fixture.succeeds("work", "add", &["."]);
    fixture.succeeds("work", "commit", &["-m", "First"]);
    let output = fixture.refused("work", "commit", &["-m", "Second"]);
    assert!(output.contains("nothing is staged"), "{output}");
    // A name that git would read as a pattern, and one of a deleted file.
    fixture.write("work/[a]*", "x\n");
    fixture.write("work/b.txt", "x\n");
    fs::remove_file(fixture.at("work/a.txt")).unwrap();
    fixture.succeeds("work", "add", &["-A"]);
    assert_eq!(
        fixture.git("work", &["ls-files"]),
        ".gitignore\n[a]*\nb.txt\n"
    );
    fixture.succeeds("work", "commit", &["-m", "Second"]);
    fixture.write("work/b.txt", "y\n");
    fixture.succeeds("work", "commit", &["-a", "-m", "Third"]);
    assert_eq!(fixture.git("work", &["status", "--porcelain"]), "");
}

#[test]
fn git_linked_worktree_works_and_moved_one_is_explained() {
    let fixture = GitFixture::new();
    fixture.write("main/a.txt", "one\n");
    fixture.git("main", &["init", "-q"]);
    fixture.git("main", &["add", "-A"]);
    fixture.git("main", &["commit", "-qm", "First"]);
    fixture.git("main", &["worktree", "add", "-q", "../work"]);
    fixture.write("work/a.txt", "two\n");
    let output = fixture.succeeds("work", "status", &[]);
    assert!(
        output.contains("on branch work") && output.contains("modified: a.txt"),
        "{output}"
    );
    fixture.succeeds("work", "commit", &["-a", "-m", "Second"]);
    assert_eq!(
        fixture.git("work", &["log", "-1", "--format=%s"]),
        "Second\n"
    );
    // The repository's settings point to another worktree.
    fs::rename(fixture.at("work"), fixture.at("moved")).unwrap();
    let output = fixture.refused("moved", "status", &[]);
    let real = fixture.at("main").canonicalize().unwrap();
    let mount = format!("{0}/.git:{0}/.git:rw", real.display());
    for part in ["linked worktree", "bindMounts", &mount] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert!(!output.contains("creates one"), "{output}");
}

#[test]
fn git_status_reports_paths_that_are_not_compared() {
    let fixture = GitFixture::new();
    fixture.write("lib/f", "one\n");
    fixture.git("lib", &["init", "-q"]);
    fixture.git("lib", &["add", "-A"]);
    fixture.git("lib", &["commit", "-qm", "First"]);
    fixture.write("work/.env", "A=1\n");
    fixture.write("work/a.txt", "one\n");
    fixture.git("work", &["init", "-q"]);
    fixture.git("work", &["submodule", "--quiet", "add", "../lib", "sub"]);
    fixture.git("work", &["add", "-A"]);
    fixture.git("work", &["commit", "-qm", "First"]);
    fixture.write("work/.env", "A=2\n");
    fixture.write("work/sub/f", "two\n");
    for operation in ["status", "diff"] {
        let output = fixture.succeeds("work", operation, &[]);
        assert!(
            output.contains("not compared, because tools may not read these files: .env"),
            "{output}"
        );
        assert!(
            output.contains("submodules are not shown (sub): `git -C sub status`"),
            "{output}"
        );
    }
    let output = fixture.succeeds("work", "status", &["a.txt"]);
    assert!(!output.contains(".env"), "{output}");
    fixture.write("work/a.txt", "two\n");
    fixture.succeeds("work", "commit", &["-a", "-m", "Second"]);
    assert_eq!(fixture.git("work", &["show", "HEAD:.env"]), "A=1\n");
    // A new commit in a submodule is a change.
    let words = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-qam",
        "x",
    ];
    fixture.git("work/sub", &words);
    let output = fixture.succeeds("work", "status", &[]);
    assert!(output.contains("modified: sub"), "{output}");
    fixture.git("work", &["config", "core.worktree", "/etc"]);
    let output = fixture.refused("work", "status", &[]);
    assert!(output.contains("core.worktree"), "{output}");
}
