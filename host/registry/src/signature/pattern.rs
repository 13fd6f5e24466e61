//! Patterns of registries and of identities.

/// Characters that `*` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wildcard {
    /// All characters.
    Everything,
    /// All characters except `/`; `**` matches that, too.
    Segment,
}

/// Returns true if the text matches the pattern. All characters except `*` stand for themselves.
pub(super) fn matches(pattern: &str, text: &str, wildcard: Wildcard) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    // The states of the pattern that are possible after each byte of the text: linear in both lengths for any input.
    let mut states = vec![false; pattern.len() + 1];
    if let Some(start) = states.first_mut() {
        *start = true;
    }
    skip_wildcards(pattern, &mut states);
    for &byte in text {
        let mut next = vec![false; states.len()];
        for (at, _) in states.iter().enumerate().filter(|(_, state)| **state) {
            match pattern.get(at) {
                Some(b'*') => {
                    let crosses = wildcard == Wildcard::Everything
                        || pattern.get(at + 1) == Some(&b'*')
                        || at.checked_sub(1).and_then(|at| pattern.get(at)) == Some(&b'*');
                    next[at] |= crosses || byte != b'/';
                }
                Some(expected) => next[at + 1] |= *expected == byte,
                None => {}
            }
        }
        skip_wildcards(pattern, &mut next);
        states = next;
    }
    states.last().is_some_and(|end| *end)
}

/// Adds the states after wildcards, which also match nothing.
fn skip_wildcards(pattern: &[u8], states: &mut [bool]) {
    for (at, byte) in pattern.iter().enumerate() {
        if states[at] && *byte == b'*' {
            states[at + 1] = true;
        }
    }
}

/// Returns how specific a pattern is: the length before the first wildcard, and the number of other characters.
pub(super) fn specificity(pattern: &str) -> (usize, usize) {
    let before = pattern.find('*').unwrap_or(pattern.len());
    let literal = pattern.bytes().filter(|byte| *byte != b'*').count();
    // A pattern without a wildcard is more specific than one with a wildcard after the same text.
    (before + usize::from(before == pattern.len()), literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_within_and_across_segments() {
        for (pattern, text, segment, everything) in [
            ("a/b", "a/b", true, true),
            ("a/b", "a/bc", false, false),
            ("a/*", "a/b", true, true),
            ("a/*", "a/b/c", false, true),
            ("a/**", "a/b/c", true, true),
            ("a/*", "b/a/c", false, false),
            ("*", "", true, true),
            ("*.example.com/x", "evil.com/a.example.com/x", false, true),
            ("a*b*c", "a1b2b3c", true, true),
            ("a.c", "abc", false, false),
            ("[a]", "a", false, false),
            ("", "a", false, false),
        ] {
            assert_eq!(
                matches(pattern, text, Wildcard::Segment),
                segment,
                "{pattern} {text}"
            );
            assert_eq!(
                matches(pattern, text, Wildcard::Everything),
                everything,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn patterns_with_many_wildcards_end() {
        let pattern = "*a".repeat(200);
        assert!(!matches(&pattern, &"b".repeat(5000), Wildcard::Everything));
    }

    #[test]
    fn patterns_are_ordered_by_specificity() {
        let mut patterns = [
            "r.example/a*",
            "*",
            "r.example/a",
            "r.example/a/*",
            "r.example/*",
        ];
        patterns.sort_by_key(|pattern| specificity(pattern));
        assert_eq!(
            patterns,
            [
                "*",
                "r.example/*",
                "r.example/a*",
                "r.example/a",
                "r.example/a/*"
            ]
        );
    }
}
