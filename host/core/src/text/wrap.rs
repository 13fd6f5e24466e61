//! Splits lines for display before a terminal or a client would wrap them.

/// Splits a line into parts of at most `width` columns, after a space if possible. Tabs become spaces, and control
/// characters U+FFFD. A non-ASCII character counts as two columns, because terminals disagree on its width.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut used = 0;
    for c in line.chars() {
        let c = match c {
            '\t' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        };
        if used + width_of(c) > width {
            // A break in the first third would waste most of the line.
            let space = part.rfind(' ').filter(|at| at * 3 > part.len());
            let rest = space.map_or_else(String::new, |at| part.split_off(at + 1));
            used = rest.chars().map(width_of).sum();
            parts.push(std::mem::replace(&mut part, rest));
        }
        part.push(c);
        used += width_of(c);
    }
    parts.push(part);
    parts
}

fn width_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn wrapped_lines_break_between_words_and_keep_all_text() {
        let line = "this session says by then that a word is never broken in the middle";
        let parts = wrapped(line, 20);
        assert_eq!(parts.concat(), line);
        for part in &parts {
            assert!(part.len() <= 20, "{part:?}");
            assert!(line.split(' ').any(|word| part.trim_end().ends_with(word)));
        }
        assert_eq!(wrapped(&"x".repeat(45), 20).len(), 3, "one long word");
        assert_eq!(wrapped("", 20), [""]);
        assert_eq!(wrapped("a\u{1b}[31m", 20), ["a\u{fffd}[31m"]);
    }
}
