use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn apply(workspace: &Workspace, patch: &str) -> Result<Patched> {
    let tool = ApplyPatch {
        patch: patch.to_owned(),
    };
    Ok(tool.run(&workspace.cx())?.value)
}

fn error(workspace: &Workspace, patch: &str) -> Error {
    apply(workspace, patch).expect_err("the patch was applied")
}

/// Applies a hunk to `a.txt` with this content and returns the new content and the notes.
fn one(content: &str, hunk: &str) -> (String, Vec<String>) {
    let workspace = Workspace::with(&[("a.txt", content)]);
    let patched = apply(&workspace, &format!("--- a/a.txt\n+++ b/a.txt\n{hunk}")).unwrap();
    let notes = patched.files[0]
        .inexact
        .iter()
        .flat_map(|it| it.notes.clone());
    (workspace.text("a.txt"), notes.collect())
}

fn codex(sections: &str) -> String {
    format!("*** Begin Patch\n{sections}*** End Patch\n")
}

#[test]
fn patch_changes_several_files_in_both_formats() {
    let unified = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/new/n.txt\n@@ -0,0 +1,2 @@\n+n\n+m\ndiff --git a/m.txt b/sub/m2.txt\nrename from m.txt\nrename to sub/m2.txt\n--- a/m.txt\n+++ b/sub/m2.txt\n@@ -1 +1 @@\n-old\n+new\n";
    let sections = codex(
        "*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Delete File: gone.txt\n*** Add File: new/n.txt\n+n\n+m\n*** Update File: m.txt\n*** Move to: sub/m2.txt\n-old\n+new\n",
    );
    for patch in [unified, &sections] {
        let workspace = Workspace::with(&[
            ("a.txt", "one\ntwo\nthree\n"),
            ("gone.txt", "x\n"),
            ("m.txt", "old\n"),
        ]);
        let patched = apply(&workspace, patch).unwrap();
        let actions: Vec<_> = patched.files.iter().map(|file| file.action).collect();
        assert_eq!(actions.len(), 4);
        assert_eq!(workspace.text("a.txt"), "one\n2\nthree\n");
        assert_eq!(workspace.text("new/n.txt"), "n\nm\n");
        assert_eq!(workspace.text("sub/m2.txt"), "new\n");
        assert!(!workspace.has("gone.txt") && !workspace.has("m.txt"));
        assert!(patched.backup.is_some());
        let first = &patched.files[0];
        assert_eq!((first.added, first.removed, first.inexact.len()), (1, 1, 0));
    }
}

#[test]
fn patch_with_a_failing_last_hunk_changes_nothing() {
    let workspace = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "one\ntwo\nthree\n")]);
    let patch = codex(
        "*** Add File: n.txt\n+n\n*** Update File: a.txt\n-a\n+A\n*** Update File: b.txt\n one\n-2\n+TWO\n",
    );
    let error = error(&workspace, &patch);
    assert_eq!(*error.code(), Code::NotFound);
    let message = error.message();
    for part in [
        "nothing was changed",
        "`b.txt`, hunk 1 (line 8 of the patch)",
        "expected `2`, but line 2 is `two`",
        "\n1|one\n2|two\n3|three",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(workspace.text("a.txt"), "a\n");
    assert!(!workspace.has("n.txt"));
}

#[test]
fn patch_reports_every_rejected_hunk() {
    let workspace = Workspace::with(&[("a.txt", "1\n2\n3\n4\n"), ("b.txt", "x\n")]);
    let error = error(
        &workspace,
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n@@ -2 +2 @@\n-2\n+two\n@@ -4 +4 @@\n-four\n+4\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-y\n+z\n",
    );
    let details = serde_json::to_string(&error.details()).unwrap();
    assert_eq!(details.matches("patchLine").count(), 3, "{details}");
    assert!(error.message().contains("already in the file"), "{error}");
}

#[test]
fn patch_hunks_are_found_at_other_lines() {
    let (text, notes) = one("x\ny\n1\n2\n3\n", "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n");
    assert_eq!(
        (text.as_str(), notes),
        ("x\ny\n1\ntwo\n3\n", vec!["2 lines lower".to_owned()])
    );
    // The second hunk is found at the same distance, though its lines also occur elsewhere.
    let content = "new\na\nb\nc\nd\ne\nb\nb\nf\n";
    let (text, notes) = one(
        content,
        "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -7 +7 @@\n-b\n+second\n",
    );
    assert_eq!(text, "new\na\nB\nc\nd\ne\nb\nsecond\nf\n");
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn patch_ignores_spaces_only_as_stated() {
    let (text, notes) = one("a  \nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    assert_eq!(text, "a  \nc\n", "context keeps the file's text");
    assert_eq!(notes, ["other spaces at the end of lines"]);
    let (text, notes) = one(
        "class A:\n        def f():\n            x\n",
        "@@ -2,2 +2,3 @@\n     def f():\n-        x\n+        y\n+        z\n",
    );
    assert_eq!(
        text,
        "class A:\n        def f():\n            y\n            z\n"
    );
    assert_eq!(notes, ["another indentation"]);
    let (text, _) = one(
        "say “hi” – now\nend\n",
        "@@ -1,2 +1,2 @@\n say \"hi\" - now\n-end\n+END\n",
    );
    assert_eq!(text, "say “hi” – now\nEND\n");
    // Lines with different changes of indentation do not match.
    let workspace = Workspace::with(&[("a.txt", "  a\n    b\n")]);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    error(&workspace, patch);
}

#[test]
fn patch_ignores_outer_context_like_patch() {
    let (text, notes) = one(
        "CHANGED\nb\nc\nd\n",
        "@@ -1,4 +1,4 @@\n a\n b\n-c\n+C\n d\n",
    );
    assert_eq!(text, "CHANGED\nb\nC\nd\n");
    assert!(notes[0].contains("context"), "{notes:?}");
}

#[test]
fn patch_refuses_ambiguous_hunks() {
    let workspace = Workspace::with(&[("a.txt", "x\n1\ny\n1\n")]);
    let error = error(&workspace, &codex("*** Update File: a.txt\n-1\n+2\n"));
    assert!(
        error.message().contains("more than once, at lines 2, 4"),
        "{error}"
    );
    apply(&workspace, &codex("*** Update File: a.txt\n@@ y\n-1\n+2\n")).unwrap();
    assert_eq!(workspace.text("a.txt"), "x\n1\ny\n2\n");
    let missing = codex("*** Update File: a.txt\n@@ no such line\n-1\n+2\n");
    assert!(
        super::tests::error(&workspace, &missing)
            .message()
            .contains("no such line")
    );
}

#[test]
fn patch_keeps_crlf_and_a_missing_final_newline() {
    let (text, notes) = one("one\r\ntwo\r\n", "@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n");
    assert_eq!((text.as_str(), notes.len()), ("one\r\n2\r\n3\r\n", 0));
    assert_eq!(one("a\nb", "@@ -2 +2 @@\n-b\n+c\n").0, "a\nc");
    let marked = "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n";
    assert_eq!(one("a\nb", marked).0, "a\nc\n");
    let removes = "@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file\n";
    assert_eq!(one("a\nb\n", removes).0, "a\nc");
    assert_eq!(one("a\n", "@@ -0,0 +1 @@\n+first\n").0, "first\na\n");
    assert_eq!(one("a\nb\n", "@@ -1,0 +2 @@\n+mid\n").0, "a\nmid\nb\n");
    assert_eq!(one("", "@@ -0,0 +1 @@\n+first\n").0, "first\n");
}

#[test]
fn patch_refuses_paths_outside_and_existing_targets() {
    let workspace = Workspace::with(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    for (sections, code) in [
        ("*** Add File: ../x\n+x\n", Code::InvalidPath),
        ("*** Add File: /etc/x\n+x\n", Code::InvalidPath),
        (
            "*** Update File: a.txt\n*** Move to: ../x\n-a\n+b\n",
            Code::InvalidPath,
        ),
        ("*** Delete File: sub/../../x\n", Code::InvalidPath),
        ("*** Add File: a.txt\n+x\n", Code::AlreadyExists),
        (
            "*** Update File: a.txt\n*** Move to: b.txt\n-a\n+b\n",
            Code::AlreadyExists,
        ),
        ("*** Update File: missing.txt\n-a\n+b\n", Code::FileNotFound),
        ("*** Delete File: missing.txt\n", Code::FileNotFound),
        (
            "*** Delete File: a.txt\n*** Add File: ./a.txt\n+x\n",
            Code::AlreadyExists,
        ),
        (
            "*** Delete File: a.txt\n*** Delete File: ./a.txt\n",
            Code::InvalidInput,
        ),
        ("*** Delete File: .\n", Code::InvalidInput),
    ] {
        let error = error(&workspace, &codex(sections));
        assert_eq!(*error.code(), code, "{sections}: {error}");
    }
    assert_eq!(
        (workspace.text("a.txt"), workspace.text("b.txt")),
        ("a\n".into(), "b\n".into())
    );
}

#[test]
fn patch_does_not_delete_a_file_with_more_lines() {
    let workspace = Workspace::with(&[("a.txt", "a\nb\n")]);
    let error = error(
        &workspace,
        "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    );
    assert!(error.message().contains("1 more lines"), "{error}");
    assert!(workspace.has("a.txt"));
}

#[test]
fn patch_sections_of_the_same_file_are_combined() {
    let workspace = Workspace::with(&[("a.txt", "1\n2\n3\n")]);
    let patch = codex("*** Update File: a.txt\n-1\n+one\n*** Update File: a.txt\n-3\n+three\n");
    assert_eq!(apply(&workspace, &patch).unwrap().files.len(), 1);
    assert_eq!(workspace.text("a.txt"), "one\n2\nthree\n");
}

#[test]
fn patch_is_assessed_with_all_its_files() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let assess = |sections: &str| {
        let tool = ApplyPatch {
            patch: codex(sections),
        };
        let assessment = tool.assess(&workspace.cx());
        (assessment.approval(), assessment.summary().to_owned())
    };
    let adds = assess("*** Add File: n.txt\n+x\n");
    assert_eq!(adds, (Approval::Allow, "creates n.txt".to_owned()));
    let all =
        assess("*** Update File: a.txt\n*** Move to: c.txt\n-a\n+b\n*** Delete File: d.txt\n");
    assert_eq!(all.0, Approval::Ask);
    assert_eq!(all.1, "deletes d.txt, changes and moves a.txt to c.txt");
}

#[test]
fn patch_assessment_lists_deletions_first_and_counts_the_rest_by_kind() {
    let workspace = Workspace::new();
    let mut sections = String::new();
    for number in 0..21 {
        sections.push_str(&format!("*** Update File: {number}.txt\n-a\n+b\n"));
    }
    sections.push_str("*** Add File: new.txt\n+x\n*** Delete File: gone.txt\n");
    let summary = |sections: &str| {
        let tool = ApplyPatch {
            patch: codex(sections),
        };
        tool.assess(&workspace.cx()).summary().to_owned()
    };
    let shown = summary(&sections);
    assert!(
        shown.starts_with("deletes gone.txt, changes 0.txt"),
        "{shown}"
    );
    let end = "changes 18.txt, changes 2 more files, creates 1 more file";
    assert!(shown.ends_with(end), "{shown}");
    let deletions: Vec<String> = (0..21).map(|n| format!("*** Delete File: {n}\n")).collect();
    let shown = summary(&deletions.concat());
    assert!(
        shown.ends_with("deletes 19, deletes 1 more file"),
        "{shown}"
    );
}

#[cfg(unix)]
#[test]
fn patch_refuses_two_paths_of_the_same_file() {
    let workspace = Workspace::with(&[("real/sub/g.txt", "1\n2\n3\n"), ("A.txt", "a\n")]);
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, workspace.root().join(name)).unwrap();
    };
    link("real", "link");
    link("sub", "real/inner");
    link("../../link/inner", "real/sub/up");
    for other in [
        "link/sub/g.txt",
        "link/inner/g.txt",
        "real/sub/up/g.txt",
        "real/inner/up/g.txt",
    ] {
        let patch = codex(&format!(
            "*** Update File: real/sub/g.txt\n-1\n+one\n*** Update File: {other}\n-3\n+three\n"
        ));
        let error = error(&workspace, &patch);
        let expected = format!(
            "line 5 of the patch: `{other}` is the same file as `real/sub/g.txt`, which is changed at line 2"
        );
        assert!(error.message().contains(&expected), "{error}");
        assert_eq!(workspace.text("real/sub/g.txt"), "1\n2\n3\n");
    }
    let adds = codex("*** Add File: real/n.txt\n+x\n*** Add File: link/n.txt\n+y\n");
    assert!(error(&workspace, &adds).message().contains("same file"));
    assert!(!workspace.has("real/n.txt"));
    // A folder with an unrelated link.
    apply(
        &workspace,
        &codex("*** Update File: link/inner/g.txt\n-1\n+one\n"),
    )
    .unwrap();
    assert_eq!(workspace.text("real/sub/g.txt"), "one\n2\n3\n");
}

#[test]
fn patch_refuses_new_paths_that_differ_only_in_case() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    for sections in [
        "*** Add File: n.txt\n+x\n*** Add File: N.txt\n+y\n",
        "*** Add File: new/n.txt\n+x\n*** Add File: New/n.txt\n+y\n",
    ] {
        let error = error(&workspace, &codex(sections));
        assert!(error.message().contains("only in case"), "{error}");
    }
    // Whether the file system folds case decides about existing files.
    let _ = std::fs::write(workspace.root().join("A.txt"), "A\n");
    let folds = workspace.text("a.txt") == "A\n";
    let both = codex("*** Update File: a.txt\n@@\n-a\n+b\n*** Update File: A.txt\n-A\n+B\n");
    let result = apply(&workspace, &both);
    assert_eq!(result.is_err(), folds, "{result:?}");
    assert_eq!(workspace.text("A.txt"), if folds { "A\n" } else { "B\n" });
}

#[test]
fn rejected_hunk_shows_no_lines_of_private_keys() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEAn4mVZ0rJ8a1\nAB==\n-----END PRIVATE KEY-----\nend\n";
    let workspace = Workspace::with(&[("k.pem", key)]);
    let patch = "--- a/k.pem\n+++ b/k.pem\n@@ -1 +1 @@\n------BEGIN PRIVATE KEY-----\n+x\n@@ -2,2 +2,2 @@\n-guess\n+x\n end\n";
    let error = error(&workspace, patch);
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("[REDACTED:private-key]"), "{shown}");
    assert!(
        !shown.contains("MIIEpAIBAA") && !shown.contains("AB=="),
        "{shown}"
    );
}
