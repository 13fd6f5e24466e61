use super::*;

/// Replaces `pattern` everywhere, like an edit does.
fn replace_all(old: &str, pattern: &str, with: &str) -> (String, Vec<Span>) {
    let (mut new, mut spans, mut at) = (String::new(), Vec::new(), 0);
    for (start, found) in old.match_indices(pattern) {
        new += &old[at..start];
        let from = new.len();
        new += with;
        at = start + found.len();
        spans.push(Span {
            old: start..at,
            new: from..new.len(),
        });
    }
    new += &old[at..];
    (new, spans)
}

fn diff_of(old: &str, pattern: &str, with: &str) -> Diff {
    let (new, spans) = replace_all(old, pattern, with);
    diff("f", old, &new, &spans)
}

fn numbered(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number};\n"))
        .collect()
}

/// Applies the hunks to the old text: what a diff is for.
fn apply(old: &str, diff: &Diff) -> Vec<String> {
    let old: Vec<&str> = old.lines().collect();
    let (mut new, mut at) = (Vec::new(), 0);
    for hunk in &diff.hunks {
        let start = if hunk.old_lines == 0 {
            hunk.old_start
        } else {
            hunk.old_start - 1
        };
        new.extend(old[at..start].iter().map(|line| (*line).to_owned()));
        at = start;
        assert_eq!(
            new.len(),
            if hunk.new_lines == 0 {
                hunk.new_start
            } else {
                hunk.new_start - 1
            }
        );
        let (mut minus, mut plus) = (0, 0);
        for line in &hunk.lines {
            let (mark, text) = line.split_at(1);
            if mark != "+" {
                assert_eq!(old[at], text, "the old side matches the old text");
                at += 1;
                minus += 1;
            }
            if mark != "-" {
                new.push(text.to_owned());
                plus += 1;
            }
        }
        assert_eq!((minus, plus), (hunk.old_lines, hunk.new_lines));
    }
    new.extend(old[at..].iter().map(|line| (*line).to_owned()));
    new
}

#[test]
fn diff_of_one_line_has_three_lines_of_context() {
    let diff = diff_of(&numbered(9), "line 5;", "five");
    let lines = [
        " line 2;", " line 3;", " line 4;", "-line 5;", "+five", " line 6;", " line 7;", " line 8;",
    ];
    let hunk = Hunk {
        old_start: 2,
        old_lines: 7,
        new_start: 2,
        new_lines: 7,
        lines: lines.map(str::to_owned).into(),
    };
    assert_eq!(diff.hunks, [hunk]);
    assert!(
        diff.unified
            .starts_with("--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n line 2;\n"),
        "{}",
        diff.unified
    );
}

#[test]
fn diff_applied_gives_the_new_text() {
    let text = numbered(40);
    let cases = [
        ("line 1;", "one"),
        ("line 40;\n", ""),
        ("line 2;\nline 3;\n", "x\ny\nz\n"),
        ("line 7;\n", "line 7;\nand more\n"),
        (";\nline 9", " "),
        (";", ",\n,"),
        ("1", ""),
        ("line 1;\n", ""),
        ("\n", "\n\n"),
        ("\nline", "line"),
        ("line 20;\n", "\n"),
    ];
    for (pattern, with) in cases {
        let (new, _) = replace_all(&text, pattern, with);
        let diff = diff_of(&text, pattern, with);
        assert!(!diff.truncated);
        assert_eq!(
            apply(&text, &diff),
            new.lines().collect::<Vec<_>>(),
            "{pattern:?} -> {with:?}\n{}",
            diff.unified
        );
    }
}

#[test]
fn diff_of_small_texts_and_ends_applies() {
    for (old, pattern, with) in [
        ("a", "a", ""),
        ("a", "a", "b"),
        ("a\n", "a", "b"),
        ("ab", "b", "\n"),
        ("a\nb", "\n", ""),
        ("x\na", "a", "b\nc\n"),
    ] {
        let (new, _) = replace_all(old, pattern, with);
        let diff = diff_of(old, pattern, with);
        assert_eq!(
            apply(old, &diff),
            new.lines().collect::<Vec<_>>(),
            "{old:?}: {pattern:?} -> {with:?}"
        );
    }
}

#[test]
fn diff_of_distant_changes_has_separate_hunks() {
    let diff = diff_of(&numbered(30), "5;", "FIVE;");
    assert_eq!(diff.hunks.len(), 3);
    assert_eq!(
        diff.hunks
            .iter()
            .map(|hunk| hunk.old_start)
            .collect::<Vec<_>>(),
        [2, 12, 22]
    );
}

#[test]
fn diff_of_long_changes_is_cut_and_still_applies() {
    let text = numbered(1000);
    // One large change, one behind it, many small ones in one hunk, many hunks.
    for (pattern, with) in [
        ("line", "LINE"),
        (text.as_str(), "all\n"),
        (text.as_str(), ""),
        ("line 5;\n", text.as_str()),
        ("5;", "FIVE;"),
        ("\n", ""),
    ] {
        let diff = diff_of(&text, pattern, with);
        let lines: usize = diff.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        assert!(
            diff.truncated && lines > 100 && lines <= MAX_LINES,
            "{lines}"
        );
        for hunk in &diff.hunks {
            let lines_without = |mark: char| {
                let lines = hunk.lines.iter();
                lines.filter(move |line| !line.starts_with(mark))
            };
            assert_eq!(lines_without('+').count(), hunk.old_lines);
            assert_eq!(lines_without('-').count(), hunk.new_lines);
        }
    }
}

#[test]
fn diff_header_quotes_forged_paths() {
    let (new, spans) = replace_all("a", "a", "b");
    let diff = diff("x\n+y", "a", &new, &spans);
    assert!(
        diff.unified.starts_with("--- \"a/x\\n+y\"\n+++ "),
        "{}",
        diff.unified
    );
}
