use std::fs;

use mimir_sdk::Code;

use super::*;

fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &[u8]| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("src/main.rs", b"fn main() {\n    burn(fuel);\n}\n");
    write("src/lib.rs", b"// Fuel\r\npub fn fuel() {}\r\n");
    write("src/deep/er/mod.rs", b"let x = 1;\n");
    write("notes.md", "fuel für alle\n".as_bytes());
    write("ignored/out.rs", b"fuel\n");
    write(".gitignore", b"ignored/\n");
    write(".hidden.rs", b"fuel\n");
    write("blob.bin", b"fuel\0fuel\n");
    dir
}

fn search(dir: &tempfile::TempDir, arguments: serde_json::Value) -> Result<SearchResult> {
    let search: FileSearch = serde_json::from_value(arguments).unwrap();
    search
        .run(&Context::at(dir.path()))
        .map(|worded| worded.value)
}

fn lines(found: &SearchResult) -> Vec<String> {
    found
        .matches
        .iter()
        .map(|hit| format!("{}:{}:{}", hit.path, hit.line, hit.column))
        .collect()
}

use mimir_sdk::serde_json::{self, json};

#[test]
fn grep_is_literal_and_skips_hidden_and_ignored_files() {
    let dir = workspace();
    let found = search(&dir, json!({"mode": "grep", "query": "fuel"})).unwrap();
    assert_eq!(
        lines(&found),
        ["notes.md:1:1", "src/lib.rs:2:8", "src/main.rs:2:10"]
    );
    assert_eq!(
        found.matches[1].text, "pub fn fuel() {}",
        "CRLF is not part of a line"
    );
    assert!(
        search(&dir, json!({"mode": "grep", "query": "f.el"}))
            .unwrap()
            .matches
            .is_empty()
    );
    let both = search(
        &dir,
        json!({"mode": "grep", "query": "FUEL", "ignoreCase": true, "path": "src"}),
    )
    .unwrap();
    assert_eq!(both.matches.len(), 3);
    let hidden = search(
        &dir,
        json!({"mode": "grep", "query": "fuel", "includeHidden": true}),
    )
    .unwrap();
    assert!(hidden.files.contains(&".hidden.rs".to_owned()));
}

#[test]
fn regex_glob_include_and_exclude() {
    let dir = workspace();
    let found = search(
        &dir,
        json!({"mode": "regex", "query": r"fn \w+\(\)", "include": ["*.rs"]}),
    )
    .unwrap();
    assert_eq!(lines(&found), ["src/lib.rs:2:5", "src/main.rs:1:1"]);
    let found = search(
        &dir,
        json!({"mode": "grep", "query": "fuel", "exclude": ["*.md", "main.rs"]}),
    )
    .unwrap();
    assert_eq!(found.files, ["src/lib.rs"]);
    let names = |query: &str| {
        search(&dir, json!({"mode": "glob", "query": query}))
            .unwrap()
            .files
    };
    assert_eq!(
        names("*.rs"),
        ["src/deep/er/mod.rs", "src/lib.rs", "src/main.rs"]
    );
    assert_eq!(names("src/*.rs"), ["src/lib.rs", "src/main.rs"]);
    assert_eq!(names("**/mod.rs"), ["src/deep/er/mod.rs"]);
}

#[test]
fn regex_anchors_match_at_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(dir.path().join(name), content).unwrap();
    write("a.txt", "file 490 99\nfile 1\n");
    write("b.txt", "file 490 99\n");
    write("c.txt", "file 490 99");
    write("d.txt", "file 490 99\r\nx\r\n");
    let regex = |query: &str| {
        lines(&search(&dir, json!({"mode": "regex", "query": query})).unwrap()).join(" ")
    };
    assert_eq!(regex("99$"), "a.txt:1:10 b.txt:1:10 c.txt:1:10 d.txt:1:10");
    assert_eq!(regex("^x$"), "d.txt:2:1");
    assert_eq!(regex("^file 1$"), "a.txt:2:1");
    assert_eq!(regex(r"99\s+file"), "", "and never two at once");
    // A file that is read in chunks.
    write(
        "e.txt",
        &format!("{}end 7\r\n", "filler\r\n".repeat(800_000)),
    );
    assert_eq!(regex("^end 7$"), "e.txt:800001:1");
}

#[test]
fn queries_with_a_carriage_return_find_it() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(dir.path().join(name), content).unwrap();
    write("dos.txt", "one\r\ntwo\r\n");
    write("mixed.txt", "one\n\r\ntwo\rx\n");
    write("unix.txt", "one\ntwo\n");
    let all = |mode: &str, query: &str| {
        lines(&search(&dir, json!({"mode": mode, "query": query})).unwrap()).join(" ")
    };
    for query in [r"\r$", r"\x0D$", "\r$"] {
        let expected = "dos.txt:1:4 dos.txt:2:4 mixed.txt:2:1";
        assert_eq!(all("regex", query), expected, "{query:?}");
    }
    assert_eq!(all("regex", r"o\rx$"), "mixed.txt:3:3");
    assert_eq!(
        all("regex", r"[^\r]$"),
        "dos.txt:1:3 dos.txt:2:3 mixed.txt:1:3 mixed.txt:3:3 unix.txt:1:3 unix.txt:2:3"
    );
    assert_eq!(all("grep", "two\r"), "dos.txt:2:1 mixed.txt:3:1");
    // Invalid expressions are still refused, as are queries that span two lines.
    for query in [r"\r(", r"\r\n", "a\r\n"] {
        assert!(
            search(&dir, json!({"mode": "regex", "query": query})).is_err(),
            "{query:?}"
        );
    }
}

#[test]
fn search_results_are_truncated_and_marked() {
    let dir = workspace();
    fs::write(dir.path().join("many.txt"), "word\n".repeat(5000)).unwrap();
    let found = search(
        &dir,
        json!({"mode": "grep", "query": "word", "maxResults": 7}),
    )
    .unwrap();
    assert_eq!((found.matches.len(), found.truncated), (7, true));
    fs::write(
        dir.path().join("long.txt"),
        format!("{}needle{}", "x".repeat(1_000_000), "y".repeat(1_000_000)),
    )
    .unwrap();
    let found = search(&dir, json!({"mode": "grep", "query": "needle"})).unwrap();
    let hit = &found.matches[0];
    assert!(hit.text.chars().count() < 500 && hit.column == 1_000_001);
    assert!(hit.text.contains("xneedley"), "{}", hit.text);
    fs::write(
        dir.path().join("big.txt"),
        format!("{}\nneedle two\n", "filler\n".repeat(1_000_000)),
    )
    .unwrap();
    let found = search(&dir, json!({"mode": "grep", "query": "needle two"})).unwrap();
    assert_eq!(
        lines(&found),
        ["big.txt:1000002:1"],
        "a file that is larger than the buffer"
    );
}

#[test]
fn context_is_shown_around_a_match() {
    let dir = workspace();
    let found = search(
        &dir,
        json!({"mode": "grep", "query": "burn", "contextLines": 1}),
    )
    .unwrap();
    assert_eq!(
        (found.matches[0].before.len(), found.matches[0].after.len()),
        (1, 1)
    );
    assert!(found.text().starts_with(
        "src/main.rs-1-fn main() {\nsrc/main.rs:2:    burn(fuel);\nsrc/main.rs-3-}\n"
    ));
}

#[test]
fn search_of_bad_input_has_an_error_code() {
    let dir = workspace();
    for (arguments, code) in [
        (json!({"mode": "regex", "query": "a(b"}), Code::InvalidInput),
        (json!({"mode": "glob", "query": "a[b"}), Code::InvalidInput),
        (json!({"mode": "grep", "query": ""}), Code::InvalidInput),
        (json!({"mode": "grep", "query": "a\nb"}), Code::InvalidInput),
        (
            json!({"mode": "grep", "query": "x", "include": ["a[b"]}),
            Code::InvalidInput,
        ),
        (
            json!({"mode": "grep", "query": "x", "path": "../"}),
            Code::InvalidPath,
        ),
        (
            json!({"mode": "grep", "query": "x", "path": "/etc"}),
            Code::InvalidPath,
        ),
        (
            json!({"mode": "grep", "query": "x", "path": "nowhere"}),
            Code::FileNotFound,
        ),
    ] {
        let error = search(&dir, arguments.clone()).unwrap_err();
        assert_eq!(*error.code(), code, "{arguments}: {}", error.message());
    }
}

#[test]
fn ignore_files_follow_git_and_ripgrep() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write(".gitignore", "*.log\n/top.txt\nbuild/\n!keep.log\n");
    write(".git/info/exclude", "private.txt\n");
    write("sub/.gitignore", "!wanted.log\n");
    write("sub/.ignore", "kept-out.txt\n!both.log\n");
    write("nested/.git/HEAD", "");
    for file in [
        "top.txt",
        "a.log",
        "keep.log",
        "private.txt",
        "sub/top.txt",
        "sub/a.log",
        "sub/wanted.log",
        "sub/both.log",
        "sub/kept-out.txt",
        "sub/build/x",
        "nested/a.log",
        "sub/deep/a.log",
        "sub/deep/kept-out.txt",
    ] {
        write(file, "word");
    }
    let files = |arguments: serde_json::Value| search(&dir, arguments).unwrap().files;
    let all = files(json!({"mode": "glob", "query": "*"}));
    assert_eq!(
        all,
        [
            "keep.log",
            "nested/a.log",
            "sub/both.log",
            "sub/top.txt",
            "sub/wanted.log"
        ]
    );
    assert_eq!(files(json!({"mode": "grep", "query": "word"})), all);
    let below = files(json!({"mode": "glob", "query": "*", "path": "sub/deep"}));
    assert!(below.is_empty(), "rules from above hold below: {below:?}");
    assert_eq!(
        files(json!({"mode": "glob", "query": "*", "path": "sub/build"})),
        ["sub/build/x"],
        "asked for by name"
    );
}

#[test]
fn search_filters_apply_from_the_root_or_the_path() {
    let dir = workspace();
    let files = |arguments: serde_json::Value| search(&dir, arguments).unwrap().files;
    for include in ["src", "src/", "src/*.rs", "./src/**/*.rs"] {
        let found = files(json!({"mode": "grep", "query": "fuel", "include": [include]}));
        assert_eq!(found, ["src/lib.rs", "src/main.rs"], "{include}");
    }
    let found = files(
        json!({"mode": "glob", "query": "*.rs", "path": "src", "include": ["/main.rs", "src/deep"]}),
    );
    assert_eq!(found, ["src/deep/er/mod.rs", "src/main.rs"]);
    assert_eq!(
        files(json!({"mode": "glob", "query": "*", "exclude": ["src", "*.bin"]})),
        ["notes.md"]
    );
    let ignored = files(json!({"mode": "glob", "query": "*", "include": ["*.rs"]}));
    assert!(
        !ignored.contains(&"ignored/out.rs".to_owned()),
        "include brings back nothing that is ignored"
    );
}

#[test]
fn search_of_a_single_file_includes_hidden_ones() {
    let dir = workspace();
    let found = search(
        &dir,
        json!({"mode": "grep", "query": "fuel", "path": "./src/main.rs"}),
    )
    .unwrap();
    assert_eq!(lines(&found), ["src/main.rs:2:10"]);
    let hidden = search(
        &dir,
        json!({"mode": "grep", "query": "fuel", "path": ".hidden.rs"}),
    )
    .unwrap();
    assert_eq!(hidden.files, [".hidden.rs"]);
}

#[cfg(unix)]
#[test]
fn search_output_cannot_be_forged_by_names_and_lines() {
    let dir = tempfile::tempdir().unwrap();
    let forged = "a\nsrc/main.rs:1:fuel";
    fs::write(dir.path().join("b"), "x\rc:1:fuel\n").unwrap();
    fs::create_dir_all(dir.path().join("a\nsrc")).unwrap();
    fs::write(dir.path().join(forged), "fuel\n").unwrap();
    for (mode, query) in [("grep", "fuel"), ("glob", "*")] {
        let arguments = json!({"mode": mode, "query": query});
        let search: FileSearch = serde_json::from_value(arguments).unwrap();
        let found = search.run(&Context::at(dir.path())).unwrap();
        let lines: Vec<&str> = found.text.lines().collect();
        assert_eq!(lines.len(), 3, "{}", found.text);
        assert!(
            lines[0].starts_with(r#""a\nsrc/main.rs:1:fuel""#),
            "{}",
            lines[0]
        );
        assert!(!found.text.contains('\r'));
        assert_eq!(found.value.files, [forged, "b"], "data has the exact name");
    }
}

#[test]
fn search_errors_do_not_repeat_long_input() {
    let dir = workspace();
    let long = "[".repeat(100_000);
    for arguments in [
        json!({"mode": "regex", "query": &long}),
        json!({"mode": "glob", "query": &long}),
        json!({"mode": "grep", "query": "x", "include": [&long]}),
        json!({"mode": "grep", "query": "x", "path": format!("../{long}")}),
        json!({"mode": "grep", "query": "x", "path": &long}),
    ] {
        let error = search(&dir, arguments).unwrap_err();
        assert!(error.message().len() < 1_000, "{}", error.message().len());
    }
}
