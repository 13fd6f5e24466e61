use super::*;

fn only(text: &str) -> FilePatch {
    let patch = parse(text).unwrap();
    assert_eq!(patch.files.len(), 1, "{patch:?}");
    patch.files.into_iter().next().unwrap()
}

fn signs(hunk: &PatchHunk) -> Vec<String> {
    let sign = |line: &HunkLine| match line.kind {
        LineKind::Context => ' ',
        LineKind::Removed => '-',
        LineKind::Added => '+',
    };
    let lines = hunk.lines.iter();
    lines
        .map(|line| format!("{}{}", sign(line), line.text))
        .collect()
}

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn unified_diff_is_read_with_git_headers() {
    let patch = parse(
        "Some words before\n\ndiff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -3,2 +3,2 @@ fn x()\n one\n-two\n+2\n\
        diff --git a/old name.txt b/old name.txt\ndeleted file mode 100644\n--- a/old name.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n\
        diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+n\n\
        diff --git a/from.txt b/sub/to.txt\nsimilarity index 100%\nrename from from.txt\nrename to sub/to.txt\n-- \n2.40.0\n",
    )
    .unwrap();
    let [update, delete, add, moved] = patch.files.as_slice() else {
        panic!("{patch:?}");
    };
    assert_eq!(update.path, "a.txt");
    let hunk = &update.change.hunks()[0];
    assert_eq!(
        (hunk.start, signs(hunk)),
        (Some(3), vec![" one".into(), "-two".into(), "+2".into()])
    );
    assert_eq!(delete.path, "old name.txt");
    assert!(matches!(&delete.change, PatchChange::Delete(Some(hunk)) if hunk.at_end));
    assert!(matches!(&add.change, PatchChange::Add(Some(_))) && add.path == "n.txt");
    assert!(
        matches!(&moved.change, PatchChange::Move { to, hunks } if to == "sub/to.txt" && hunks.is_empty())
    );
    assert_eq!(moved.path, "from.txt");
}

#[test]
fn unified_diff_counts_decide_what_is_a_line() {
    // A removed SQL comment looks like a header.
    let file = only("--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n a\n--- comment\n+++ plus\n-b\n");
    assert_eq!(
        signs(&file.change.hunks()[0]),
        [" a", "--- comment", "+++ plus", "-b"]
    );
}

#[test]
fn unified_diff_with_wrong_counts_is_read_to_the_next_header() {
    let patch = parse("--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n x\n-y\n+z\n\n@@ -5 +5 @@\n-p\n+q\n+r\n--- a/b\n+++ b/b\n@@ @@\n-1\n+2\n```\n")
        .unwrap();
    let hunks = patch.files[0].change.hunks();
    assert_eq!(signs(&hunks[0]), [" x", "-y", "+z"]);
    assert_eq!(signs(&hunks[1]), ["-p", "+q", "+r"]);
    assert_eq!(patch.files[1].path, "b");
    assert_eq!(patch.files[1].change.hunks()[0].start, None);
}

#[test]
fn unified_diff_with_small_counts_and_a_stripped_blank_line_is_complete() {
    let file = only("--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n\n+NEW LINE\n c\n\n");
    assert_eq!(
        signs(&file.change.hunks()[0]),
        [" a", "-b", "+B", " ", "+NEW LINE", " c"]
    );
}

#[test]
fn unified_diff_signature_differs_from_a_removed_hyphen() {
    let hunk = |end: &str| {
        let file = only(&format!("--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n a\n{end}"));
        signs(&file.change.hunks()[0])
    };
    assert_eq!(hunk("-b\n-- \n2.40.0\n\n"), [" a", "-b"]);
    assert_eq!(hunk("--\n+b\n"), [" a", "--", "+b"]);
    assert_eq!(hunk("-b\n--\n"), [" a", "-b", "--"]);
}

#[test]
fn unified_diff_ignores_the_messages_of_commits() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    let change = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    for message in [
        format!("commit {id}\nAuthor: A\n\n    Subject\n\n    - item\n\n"),
        format!("-- \n2.40.0\n\nFrom {id} Mon Sep 17 00:00:00 2001\n\n- item\n---\n x | 2 +-\n"),
    ] {
        let text = format!(
            "{change}{message}diff --git a/y b/y\n{}",
            change.replace('x', "y")
        );
        assert_eq!(parse(&text).unwrap().files.len(), 2, "{text}");
    }
}

#[test]
fn unified_diff_of_a_text_about_patches_is_read() {
    let text = "--- a/x.md\n+++ b/x.md\n@@ -1,2 +1,3 @@\n *** Begin Patch\n+*** End Patch\n text\n";
    assert_eq!(only(text).path, "x.md");
    let stated =
        parse("See below.\n--- patch ---\n*** Begin Patch\n*** Delete File: a\n*** End Patch\n");
    assert_eq!(stated.unwrap().files[0].path, "a");
}

#[test]
fn unified_diff_paths_keep_real_folders_and_quotes() {
    assert_eq!(only("--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n").path, "a/x");
    assert_eq!(
        only("--- x.txt\t2026-01-01\n+++ x.txt\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n").path,
        "x.txt"
    );
    let quoted = "--- \"a/\\303\\244 \\\"b\\\".txt\"\n+++ \"b/\\303\\244 \\\"b\\\".txt\"\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(only(quoted).path, "ä \"b\".txt");
}

#[test]
fn codex_patch_is_read_with_all_sections() {
    let patch = parse(
        "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n*** Update File: a.py\n*** Move to: b.py\n@@ class A\n@@   def f(self):\n-    x\n+    y\n\n*** Update File: c.txt\n old\n-end\n+END\n*** End of File\n*** Delete File: d.txt\n*** End Patch\nignored",
    )
    .unwrap();
    let [add, moved, update, delete] = patch.files.as_slice() else {
        panic!("{patch:?}");
    };
    assert!(matches!(&add.change, PatchChange::Add(Some(hunk)) if signs(hunk) == ["+one", "+"]));
    let PatchChange::Move { to, hunks } = &moved.change else {
        panic!("{moved:?}");
    };
    assert_eq!((to.as_str(), hunks[0].anchors.len()), ("b.py", 2));
    assert_eq!(hunks[0].anchors[1], "def f(self):");
    assert_eq!(signs(&hunks[0]), ["-    x", "+    y"]);
    assert!(update.change.hunks()[0].at_end);
    assert_eq!(delete.change, PatchChange::Delete(None));
}

#[test]
fn codex_patch_may_have_several_blocks() {
    let block =
        |name: &str| format!("*** Begin Patch\n*** Update File: {name}\n-x\n+y\n*** End Patch\n");
    let patch = parse(&format!("{}\nThen:\n{}EOF\n", block("a"), block("b"))).unwrap();
    let paths: Vec<_> = patch.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a", "b"]);
    assert!(fault(&format!("{}*** Begin Patch\n", block("a"))).contains("is missing"));
}

#[test]
fn patch_errors_name_the_line_and_the_remedy() {
    for (text, expected) in [
        ("hello", "contains no changes"),
        ("", "contains no changes"),
        (
            "*** Begin Patch\n*** Update File: a\n-x\n+y\n",
            "`*** End Patch` is missing",
        ),
        ("*** Begin Patch\n*** End Patch\n", "contains no changes"),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch\n",
            "changes nothing",
        ),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch\n",
            "line 3 of the patch: expected a line of the new file",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*x\n*** End Patch\n",
            "line 3 of the patch",
        ),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "rename from x"),
        ("@@ -1 +1 @@\n-a\n+b\n", "has no file"),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "mode",
        ),
        (
            "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+t\n",
            "regular files",
        ),
        ("diff --git a/x b/x\nGIT binary patch\n", "binary files"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ntext\n+c\n",
            "line 7 of the patch: this line is outside of a hunk",
        ),
        (
            "--- a/x\n+++ b/x\n@@\n ```\n```\n+c\n",
            "line 6 of the patch: this line is outside of a hunk",
        ),
        (
            "diff --git a/x b/x\nnew file mode 100644\n+a\n",
            "line 3 of the patch: this line is outside of a hunk",
        ),
        (
            "@@ fn x()\n-a\n+b\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "has no file",
        ),
        ("--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n++a\n", "a merge"),
        (
            "diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
            "`z` is not a file of the move from `x` to `y`",
        ),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n*** Begin Patch\n*** Delete File: y\n*** End Patch\n",
            "cannot be mixed",
        ),
        (
            "*** Begin Patch\n*** Delete File: y\n*** End Patch\n*** Delete File: z\n",
            "line 4 of the patch: this line is after `*** End Patch`",
        ),
        ("diff --git a/x b/x\nindex 1..2\n", "no hunks"),
        (
            "--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "only `+` lines",
        ),
    ] {
        let message = fault(text);
        assert!(message.contains(expected), "{text:?}: {message}");
    }
}

#[test]
fn patch_with_crlf_is_read_like_lf() {
    let unix = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(parse(&unix.replace('\n', "\r\n")), parse(unix));
}

#[test]
fn replaced_hunks_keep_their_positions_and_ends() {
    let text = "--- a/x\n+++ b/x\n@@ -4,2 +4,2 @@\n ctx\n-KEY\n\\ No newline at end of file\n+KEY2\n\\ No newline at end of file\n";
    let patch = parse(text).unwrap();
    let hunk = &patch.files[0].change.hunks()[0];
    let replaced = replace_hunks(
        text,
        &[HunkEdit {
            hunk,
            old: "ctx\nreal\nvalue".to_owned(),
            new: "ctx\nreal\nvalue2".to_owned(),
        }],
    );
    let again = only(&replaced);
    let hunk = &again.change.hunks()[0];
    assert_eq!((hunk.start, hunk.at_end), (Some(4), true), "{replaced}");
    assert_eq!(
        signs(hunk),
        ["-ctx", "-real", "-value", "+ctx", "+real", "+value2"],
        "{replaced}"
    );
    assert!(hunk.lines[5].no_newline && !hunk.lines[4].no_newline);

    let codex =
        "*** Begin Patch\n*** Update File: x\n@@ def f\n-M\n+N\n*** End of File\n*** End Patch\n";
    let patch = parse(codex).unwrap();
    let hunk = &patch.files[0].change.hunks()[0];
    let edit = HunkEdit {
        hunk,
        old: "m1\nm2".to_owned(),
        new: "n".to_owned(),
    };
    let again = only(&replace_hunks(codex, &[edit]));
    let hunk = &again.change.hunks()[0];
    assert_eq!(signs(hunk), ["-m1", "-m2", "+n"]);
    assert!(hunk.at_end && hunk.anchors == ["def f"]);
}

#[test]
fn replaced_hunks_that_look_like_a_file_header_are_detected() {
    let text = "--- a/x\n+++ b/x\n@@\n+++ b/evil.txt\n+@@\n+-old\n M\n--- a/evil.txt\n";
    let patch = parse(text).unwrap();
    let hunk = &patch.files[0].change.hunks()[0];
    let new = "++ b/evil.txt\n@@\n-old\nreal".to_owned();
    let edits = [HunkEdit {
        hunk,
        old: "real\n-- a/evil.txt".to_owned(),
        new,
    }];
    let replaced = replace_hunks(text, &edits);
    let is_same = parse(&replaced).is_ok_and(|again| keeps_files(&patch, &edits, &again));
    assert!(!is_same, "{replaced}");

    let edits = [HunkEdit {
        hunk,
        old: "real\nrest".to_owned(),
        new: "real\nnew".to_owned(),
    }];
    let again = parse(&replace_hunks(text, &edits)).unwrap();
    assert!(keeps_files(&patch, &edits, &again));
}

#[test]
fn range_with_the_largest_number_is_read() {
    let text = format!("--- a/x\n+++ b/x\n@@ -{},0 +1 @@\n+a\n", usize::MAX);
    assert_eq!(only(&text).change.hunks()[0].start, Some(usize::MAX));
}

#[test]
fn patch_parser_never_panics_on_damaged_texts() {
    let texts = [
        "diff --git a/a b/b\nrename from a\nrename to b\n--- \"a/\\3\n+++ b/é\n@@ -1,2 +1 @@\n é\n-x\n",
        "*** Begin Patch\n*** Update File: é\n@@\n*** Move to: x\n@@ -1 +1 @@\n-é\n*** End of File\n*** End Patch\n",
    ];
    for text in texts {
        for (end, _) in text.char_indices() {
            let _ = parse(&text[..end]);
            let mut without = text.to_owned();
            without.remove(end);
            let _ = parse(&without);
        }
    }
}

/// Lines and groups of lines of patches. `%` marks the lines that change a file.
const FRAGMENTS: [&str; 27] = [
    "+%\n",
    "+%\n",
    "+%\n",
    "-%\n",
    "-%\n",
    " c\n",
    " c\n",
    "\n",
    "\n",
    "c\n",
    "@@\n",
    "@@ -1 +1 @@\n",
    "@@ -1,2 +1,2 @@\n",
    "@@ -1,3 +1,4 @@\n",
    "@@ -0,0 +1 @@\n",
    "\\ No newline at end of file\n",
    "--- a/x\n+++ b/x\n",
    "--- /dev/null\n+++ b/n\n",
    "diff --git a/y b/y\nnew file mode 100644\n",
    "diff --git a/y b/z\nrename from y\nrename to z\n",
    "-- \n2.40.0\n",
    "--\n",
    "```\n",
    "*** End of File\n",
    "*** Update File: u\n",
    "*** Add File: a\n",
    "*** End Patch\n*** Begin Patch\n",
];

#[test]
fn accepted_patches_contain_every_changed_line() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        // Constants of Knuth's generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut accepted = 0;
    for _ in 0..100_000 {
        let is_codex = random(3) == 0;
        let mut text = if is_codex {
            "*** Begin Patch\n*** Update File: f\n-%\n".to_owned()
        } else {
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n c\n-%\n".to_owned()
        };
        for _ in 0..random(8) {
            text.push_str(FRAGMENTS[random(FRAGMENTS.len())]);
        }
        if is_codex {
            text.push_str("*** End Patch\n");
        }
        let Ok(patch) = parse(&text) else {
            continue;
        };
        accepted += 1;
        let hunks = patch.files.iter().flat_map(|file| file.change.hunks());
        let lines = hunks.flat_map(|hunk| &hunk.lines);
        let read = lines
            .filter(|line| line.kind != LineKind::Context && line.text == "%")
            .count();
        let written = text.lines().filter(|line| ["+%", "-%"].contains(line));
        assert_eq!(read, written.count(), "{text}");
    }
    assert!(accepted > 5_000, "{accepted}");
}
