use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn tool(pattern: &str, replacement: &str) -> EditFile {
    let (pattern, replacement) = (pattern.into(), replacement.into());
    EditFile {
        path: "a.txt".into(),
        pattern,
        replacement,
        backup: true,
        ..EditFile::default()
    }
}

fn edit(content: &str, tool: EditFile) -> Result<(String, Worded<Edited>)> {
    let workspace = Workspace::with(&[("a.txt", content)]);
    let edited = tool.run(&workspace.cx())?;
    Ok((workspace.text("a.txt"), edited))
}

#[test]
fn edit_replaces_a_unique_text() {
    let workspace = Workspace::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let edited = tool("two", "2$1").run(&workspace.cx()).unwrap();
    assert_eq!(
        workspace.text("a.txt"),
        "one\n2$1\nthree\n",
        "a literal replacement is literal"
    );
    assert_eq!(edited.value.backup.as_deref(), Some("test-request"));
    assert_eq!(
        edited.value.diff.hunks[0].lines,
        [" one", "-two", "+2$1", " three"]
    );
    assert!(
        edited
            .text
            .starts_with("1 replacement in a.txt\n--- a/a.txt\n"),
        "{}",
        edited.text
    );
}

#[test]
fn edit_of_ambiguous_text_names_the_lines() {
    let error = edit("x\nab ab\n\nab\n", tool("ab", "c")).unwrap_err();
    assert_eq!(*error.code(), Code::InvalidInput);
    assert!(error.message().contains("lines 2, 2, 4;"), "{error}");
    assert_eq!(
        error.details().unwrap()["lines"],
        serde_json::json!([2, 2, 4])
    );
    let (text, edited) = edit(
        "x\nab ab\n\nab\n",
        EditFile {
            all: true,
            ..tool("ab", "c")
        },
    )
    .unwrap();
    assert_eq!(
        (text.as_str(), edited.value.replacements),
        ("x\nc c\n\nc\n", 3)
    );
}

#[test]
fn edit_regex_supports_groups_and_line_anchors() {
    let regex = |pattern, replacement| EditFile {
        regex: true,
        all: true,
        ..tool(pattern, replacement)
    };
    let (text, _) = edit("a=1\nb=2\n", regex(r"^(\w)=(\d)$", "${2}=$1")).unwrap();
    assert_eq!(text, "1=a\n2=b\n");
    let (text, _) = edit("a\nb\n", regex("^", "> ")).unwrap();
    assert_eq!(
        text, "> a\n> b\n> ",
        "the regex crate also matches after the last line end"
    );
    assert_eq!(
        *edit("a", regex("(", "")).unwrap_err().code(),
        Code::InvalidInput
    );
}

#[test]
fn edit_preserves_crlf_line_ends() {
    let file = "one\r\ntwo\r\nthree\r\n";
    for pattern in ["one\ntwo", "one\r\ntwo"] {
        let (text, edited) = edit(file, tool(pattern, "1\n2")).unwrap();
        assert_eq!(text, "1\r\n2\r\nthree\r\n", "{pattern:?}");
        assert_eq!(edited.value.size, 13);
    }
    let (mixed, _) = edit("one\r\ntwo\nthree", tool("two", "2")).unwrap();
    assert_eq!(mixed, "one\r\n2\nthree", "mixed line ends are left alone");
}

#[test]
fn edit_without_a_match_names_a_similar_line() {
    let error = edit("fn a() {\n        body();\n}\n", tool("    body();", "x")).map(|_| ());
    assert!(error.is_ok(), "a part of a line is a match");
    let error = edit("\tbody();\n", tool("    body();", "x")).unwrap_err();
    assert_eq!(*error.code(), Code::NotFound);
    assert!(error.message().contains("line 1"), "{error}");
    assert!(
        !edit("", tool("x", "y"))
            .unwrap_err()
            .message()
            .contains("line")
    );
}

#[test]
fn edit_without_changes_makes_no_backup() {
    let workspace = Workspace::with(&[("a.txt", "same")]);
    let edited = tool("same", "same").run(&workspace.cx()).unwrap();
    assert_eq!((edited.value.replacements, edited.value.backup), (1, None));
}

#[test]
fn edit_failures_have_their_error_code() {
    let workspace = Workspace::new();
    assert_eq!(
        *tool("a", "b").run(&workspace.cx()).unwrap_err().code(),
        Code::FileNotFound
    );
    workspace.put("a.txt", &[0xff]);
    assert_eq!(
        *tool("a", "b").run(&workspace.cx()).unwrap_err().code(),
        Code::InvalidInput
    );
    workspace.put("a.txt", b"x");
    assert_eq!(
        *tool("", "b").run(&workspace.cx()).unwrap_err().code(),
        Code::InvalidInput
    );
}

#[test]
fn edit_always_asks_for_approval() {
    let workspace = Workspace::with(&[("a.txt", "old")]);
    let assessment = tool("old", "new").assess(&workspace.cx());
    assert_eq!(
        (assessment.approval(), assessment.summary()),
        (Approval::Ask, "edits a.txt (3 bytes)")
    );
}

#[test]
fn edit_reports_mixed_line_ends() {
    let file = "one\r\ntwo\nthree\r\nfour\n";
    let error_for = |pattern: &str| edit(file, tool(pattern, "x")).unwrap_err().to_string();
    let error = error_for("two\nthree\nfour");
    assert!(
        error.contains("at line 2") && error.contains("at the end of line 3 and"),
        "{error}"
    );
    assert!(error_for("two\r\nthree").contains("end with LF"));
    let (text, _) = edit(file, tool("two\nthree\r\nfour", "x")).unwrap();
    assert_eq!(text, "one\r\nx\n", "the hint works");
}

#[test]
fn edit_counts_a_million_matches_within_limits() {
    let all = |content: &str, pattern: &str, replacement: &str, regex: bool| {
        let tool = EditFile {
            regex,
            all: true,
            ..tool(pattern, replacement)
        };
        edit(content, tool)
    };
    let million = 1 << 20;
    for (piece, pattern, regex) in [("a", "a", false), ("\n", "\n", false), ("a\n", "a$", true)] {
        let content = piece.repeat(million);
        let (_, edited) = all(&content, pattern, "b", regex).unwrap();
        assert_eq!(edited.value.replacements, million, "{piece:?}");
        assert!(edited.value.diff.truncated || piece == "a");
        assert!(edited.text.len() < 1 << 20, "{}", edited.text.len());
    }
    // A result that is too large is refused before it is built.
    let content = "a".repeat(million);
    for (pattern, replacement, regex) in [
        ("a", "b".repeat(100), false),
        ("(a+)", "$1".repeat(1000), true),
        ("a", "${0}".repeat(100), true),
    ] {
        let error = all(&content, pattern, &replacement, regex).unwrap_err();
        assert_eq!(*error.code(), Code::LimitExceeded, "{pattern}");
    }
}

#[test]
fn edit_pattern_of_megabytes_is_literal() {
    let long = "(.*)".repeat(500_000);
    let (text, _) = edit(&format!("x{long}y"), tool(&long, "")).unwrap();
    assert_eq!(text, "xy");
}
