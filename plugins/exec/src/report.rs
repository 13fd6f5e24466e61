//! What a command wrote, as text for a model: without what drives a terminal, and not without end.

/// Most characters of one stream in structured content.
pub const STREAM_MAX: usize = 30_000;

/// Most characters of both streams as text: some 10,000 tokens, of which a model uses the ends.
pub const TEXT_MAX: usize = 40_000;

/// Text, as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The text, with a note where something is missing.
    pub text: String,
    /// Whether something is.
    pub is_cut: bool,
}

/// Output as it would stand on a terminal: codes for colours and the like are left out, and of a line that was
/// written over, such as a bar of progress, its last state is kept. Bytes that are no UTF-8 become `U+FFFD`.
pub fn plain(bytes: &[u8]) -> String {
    let kept = unreturned(bytes);
    // What is no text is made visible first: it could look like a part of a code.
    anstream::adapter::strip_str(&String::from_utf8_lossy(&kept)).to_string()
}

/// Without the parts of lines that a carriage return put others over.
fn unreturned(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = line.len() - usize::from(line.ends_with(b"\n"));
        let (text, end) = line.split_at(end);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let last = text.rsplit(|byte| *byte == b'\r').next();
        kept.extend_from_slice(last.unwrap_or(text));
        kept.extend_from_slice(end);
    }
    kept
}

/// The beginning and the end of a text, together at most `most` characters, cut between lines where there are some.
pub fn cut(text: &str, most: usize) -> Cut {
    let count = text.chars().count();
    if count <= most {
        return Cut {
            text: text.to_owned(),
            is_cut: false,
        };
    }
    // A failure is at the end more often than at the beginning.
    let (head, tail) = (most / 3, most - most / 3);
    let at = |nth: usize| {
        text.char_indices()
            .nth(nth)
            .map_or(text.len(), |(at, _)| at)
    };
    let (head, tail) = (at(head), at(count - tail));
    let head = text[..head].rfind('\n').map_or(head, |end| end + 1);
    let tail = text[tail..].find('\n').map_or(tail, |end| tail + end + 1);
    let (before, missing, after) = (&text[..head], &text[head..tail], &text[tail..]);
    let lines = missing.matches('\n').count();
    let end = if before.ends_with('\n') { "" } else { "\n" };
    Cut {
        text: format!(
            "{before}{end}[… {} characters in {lines} lines left out …]\n{after}",
            missing.chars().count()
        ),
        is_cut: true,
    }
}

/// Adds a line of its own.
pub fn line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_left_out() {
        for (written, read) in [
            (&b"plain\n"[..], "plain\n"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07text", "text"),
            (b" 1%\r 50%\r100%\ndone\r\n", "100%\ndone\n"),
            (b"a\tb\n", "a\tb\n"),
            (b"caf\xe9\n", "caf\u{fffd}\n"),
            (b"\xff\xfeabc\n", "\u{fffd}\u{fffd}abc\n"),
            (b"\x9b31mred", "\u{fffd}31mred"),
            ("käse".as_bytes(), "käse"),
        ] {
            assert_eq!(plain(written), read);
        }
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let cut = cut(&text, 300);
        assert!(cut.is_cut && cut.text.starts_with("line 0\n") && cut.text.ends_with("line 999\n"));
        let note = cut.text.lines().find(|line| line.starts_with('[')).unwrap();
        let lines = cut.text.lines().count() - 1;
        assert!(
            note.contains(&format!("in {} lines", 1000 - lines)),
            "{}",
            cut.text
        );
        assert!(cut.text.chars().count() < 400);
    }

    #[test]
    fn one_long_line_is_cut_between_characters() {
        let cut = cut(&"ä".repeat(1000), 100);
        assert!(cut.is_cut);
        assert_eq!(cut.text.matches('ä').count(), 100);
        assert!(!super::cut("short", 5).is_cut);
    }
}
