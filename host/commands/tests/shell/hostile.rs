//! Text designed to break a parser: parsing must end soon and must not panic.

use std::time::{Duration, Instant};

use mimir_commands::shell::read_script;
use mimir_core::command::{CommandProgram, ParsedProgram};

/// Far more time than any of these texts needs, even on a busy machine without optimization.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn script(text: &str) -> ParsedProgram {
    read_script(&CommandProgram::Script(text.to_owned())).unwrap()
}

#[test]
fn parse_depth_and_length_are_limited() {
    let openers = [
        "(",
        "( ",
        "$(",
        "`",
        "${",
        "{ ",
        "\"$(",
        "<(",
        "if ",
        "while ",
        "case x in ",
        "for x in a; do ",
        "[[ ( ",
        "f() { ",
        "! ",
        "$((",
        "((",
        "<<E\n",
        "\\\n",
        "a=",
        "eval ",
        "sh -c '",
        "nice ",
        "echo $(",
        "time ",
        "coproc ",
        "function f { ",
        "case x in a) ",
        "\"",
        "'",
        ">",
        "&& ",
        "|",
        ";",
        "{a,",
        "[",
        "${x:-",
        "$'",
        "sudo ",
        "env A=",
    ];
    for opener in openers {
        for (count, tail) in [
            (10, ""),
            (11, " ;; x"),
            (12, ")"),
            (10_000, ""),
            (10_000, "ls"),
        ] {
            let text = opener.repeat(count) + tail;
            let text = &text[..text.len().min(200_000)];
            let start = Instant::now();
            let _ = read_script(&CommandProgram::Script(text.to_owned()));
            let elapsed = start.elapsed();
            assert!(
                elapsed < TIME_LIMIT,
                "{opener:?} × {count}{tail}: {elapsed:?}"
            );
        }
    }
    // Every pair of nesting constructs.
    for outer in openers {
        for inner in openers {
            let text = format!("{outer}{inner}").repeat(6) + " ;; ) }";
            let start = Instant::now();
            let _ = read_script(&CommandProgram::Script(text.clone()));
            assert!(
                start.elapsed() < TIME_LIMIT,
                "{text:?}: {:?}",
                start.elapsed()
            );
        }
    }
}

#[test]
fn parse_nested_groups_completely_or_reports_unknown() {
    for count in [3, 8, 20, 10_000] {
        for (open, close) in [
            ("( ", " )"),
            ("echo $(", ")"),
            ("{ ", "; }"),
            ("if true; then ", "; fi"),
        ] {
            let text = format!("{}ls{}", open.repeat(count), close.repeat(count));
            let read = script(&text);
            let has_ls = read.commands.iter().any(|one| one.program() == Some("ls"));
            // One of the parsers reads `(((` as arithmetic.
            assert_eq!(
                has_ls,
                read.unknown.is_empty(),
                "{count} × {open}: {:?}",
                read.unknown
            );
            assert!(
                has_ls || count > 8 || !open.starts_with(['{', 'i']),
                "{count} × {open}"
            );
        }
    }
}

#[test]
fn parse_rejects_empty_programs_and_nul() {
    for bad in ["", "  \n", "ls\0"] {
        assert!(
            read_script(&CommandProgram::Script(bad.to_owned())).is_err(),
            "{bad:?}"
        );
    }
    for bad in [&[][..], &[""], &["ls", "a\0b"]] {
        let words = bad.iter().map(|word| (*word).to_owned()).collect();
        assert!(
            read_script(&CommandProgram::Vector(words)).is_err(),
            "{bad:?}"
        );
    }
}
