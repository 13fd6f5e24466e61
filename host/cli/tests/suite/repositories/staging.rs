//! Staging and comparing, in ordinary repositories, linked worktrees and submodules.

use std::fs;

use super::Place;

#[test]
fn git_add_names_missing_and_ignored_paths() {
    let place = Place::new();
    place.write("work/a.txt", "one\n");
    place.write("work/.gitignore", "*.log\n");
    place.write("work/x.log", "x");
    place.git("work", &["init", "-q", "-b", "main"]);
    let output = place.refused("work", "add", &["a.txt", "typo"]);
    assert!(
        output.contains("typo") && output.contains(".gitignore"),
        "{output}"
    );
    assert!(place.refused("work", "add", &["x.log"]).contains("x.log"));
    assert_eq!(place.git("work", &["ls-files"]), "", "all or nothing");
    place.git("work", &["config", "user.name", "a"]);
    place.git("work", &["config", "user.email", "a@b"]);
    place.fine("work", "add", &["."]);
    place.fine("work", "commit", &["-m", "First"]);
    let output = place.refused("work", "commit", &["-m", "Second"]);
    assert!(output.contains("nothing is staged"), "{output}");
    // A name that git would read as a pattern, and one of a deleted file.
    place.write("work/[a]*", "x\n");
    place.write("work/b.txt", "x\n");
    fs::remove_file(place.at("work/a.txt")).unwrap();
    place.fine("work", "add", &["-A"]);
    assert_eq!(
        place.git("work", &["ls-files"]),
        ".gitignore\n[a]*\nb.txt\n"
    );
    place.fine("work", "commit", &["-m", "Second"]);
    place.write("work/b.txt", "y\n");
    place.fine("work", "commit", &["-a", "-m", "Third"]);
    assert_eq!(place.git("work", &["status", "--porcelain"]), "");
}

#[test]
fn git_linked_worktree_works_and_moved_one_is_explained() {
    let place = Place::new();
    place.write("main/a.txt", "one\n");
    place.git("main", &["init", "-q"]);
    place.git("main", &["add", "-A"]);
    place.git("main", &["commit", "-qm", "First"]);
    place.git("main", &["worktree", "add", "-q", "../work"]);
    place.write("work/a.txt", "two\n");
    let output = place.fine("work", "status", &[]);
    assert!(
        output.contains("on branch work") && output.contains("modified: a.txt"),
        "{output}"
    );
    place.fine("work", "commit", &["-a", "-m", "Second"]);
    assert_eq!(place.git("work", &["log", "-1", "--format=%s"]), "Second\n");
    // The repository's settings point to another worktree.
    fs::rename(place.at("work"), place.at("moved")).unwrap();
    let output = place.refused("moved", "status", &[]);
    let real = place.at("main").canonicalize().unwrap();
    let mount = format!("{0}/.git:{0}/.git:rw", real.display());
    for part in ["linked worktree", "bindMounts", &mount] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert!(!output.contains("creates one"), "{output}");
}

#[test]
fn git_status_reports_paths_that_are_not_compared() {
    let place = Place::new();
    place.write("lib/f", "one\n");
    place.git("lib", &["init", "-q"]);
    place.git("lib", &["add", "-A"]);
    place.git("lib", &["commit", "-qm", "First"]);
    place.write("work/.env", "A=1\n");
    place.write("work/a.txt", "one\n");
    place.git("work", &["init", "-q"]);
    place.git("work", &["submodule", "--quiet", "add", "../lib", "sub"]);
    place.git("work", &["add", "-A"]);
    place.git("work", &["commit", "-qm", "First"]);
    place.write("work/.env", "A=2\n");
    place.write("work/sub/f", "two\n");
    for operation in ["status", "diff"] {
        let output = place.fine("work", operation, &[]);
        assert!(
            output.contains("not compared, because no tool may read it: .env"),
            "{output}"
        );
        assert!(
            output.contains("submodules are not shown (sub): `git -C sub status`"),
            "{output}"
        );
    }
    let output = place.fine("work", "status", &["a.txt"]);
    assert!(!output.contains(".env"), "{output}");
    place.write("work/a.txt", "two\n");
    place.fine("work", "commit", &["-a", "-m", "Second"]);
    assert_eq!(place.git("work", &["show", "HEAD:.env"]), "A=1\n");
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
    place.git("work/sub", &words);
    let output = place.fine("work", "status", &[]);
    assert!(output.contains("modified: sub"), "{output}");
    place.git("work", &["config", "core.worktree", "/etc"]);
    let output = place.refused("work", "status", &[]);
    assert!(output.contains("core.worktree"), "{output}");
}
