//! Comments and messages: plain sentences that begin with their subject.

use std::fs;

use super::root;
use super::tree::{production_code, sources};

/// Words that no line of a comment begins with: a doc comment begins with a noun phrase or a verb.
const RIDDLES: [&str; 9] = [
    "What ", "Who ", "Whom ", "Whose ", "Where ", "Whether ", "Which ", "The same", "One that",
];

/// Words that no message contains, and better ones.
const ODD: [(&str, &str); 4] = [
    (" is none", "say what is missing or not valid"),
    (" is no ", "`x` is not a valid y: expected z"),
    ("obody ", "name who or what is missing"),
    (" to be had", "not available"),
];

fn lines_of_production_code(mut check: impl FnMut(&str, &str)) {
    for folder in ["host", "sdk", "plugins"] {
        for path in sources(&root().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            let Some(code) = production_code(&path, &text) else {
                continue;
            };
            for (at, line) in code.lines().enumerate() {
                check(&format!("{}:{}", path.display(), at + 1), line.trim());
            }
        }
    }
}

/// The text of a comment line.
fn comment(line: &str) -> Option<&str> {
    let text = line.strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

#[test]
fn comments_begin_with_their_subject() {
    let mut faults = vec![];
    lines_of_production_code(|place, line| {
        if let Some(text) = comment(line)
            && RIDDLES.iter().any(|word| text.starts_with(word))
        {
            faults.push(format!("{place}: {line}"));
        }
    });
    assert!(
        faults.is_empty(),
        "a comment begins with a noun phrase or a third-person verb: {faults:#?}"
    );
}

#[test]
fn messages_are_plain() {
    let mut faults = vec![];
    lines_of_production_code(|place, line| {
        let Some((_, message)) = line.split_once('"').filter(|_| comment(line).is_none()) else {
            return;
        };
        for (odd, better) in ODD {
            if message.contains(odd) {
                faults.push(format!("{place}: {line} ({better})"));
            }
        }
    });
    assert!(faults.is_empty(), "{faults:#?}");
}
