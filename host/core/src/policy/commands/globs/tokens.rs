//! The tokens of one path component of a glob, and matching with them.

/// One token of a glob. Letters are in lower case, because some file systems ignore case.
#[derive(Debug, PartialEq)]
pub(super) enum GlobToken {
    /// Any characters, or none.
    Many,
    /// Any character.
    One,
    /// A character in these ranges, or if the first field is true, a character outside them.
    Set(bool, Vec<(char, char)>),
    /// This character.
    Is(char),
}

impl GlobToken {
    fn matches_char(&self, c: char) -> bool {
        match self {
            Self::Many => false,
            Self::One => true,
            Self::Set(negated, ranges) => {
                let hit = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                (hit(c) || c.to_lowercase().any(hit) || c.to_uppercase().any(hit)) != *negated
            }
            Self::Is(expected) => *expected == lower(c),
        }
    }

    /// Returns a character that the token matches.
    fn sample(&self) -> Option<char> {
        match self {
            Self::Many => None,
            Self::Set(false, ranges) => ranges.first().map(|(from, _)| *from),
            Self::One | Self::Set(true, _) => Some('a'),
            Self::Is(c) => Some(*c),
        }
    }

    /// Returns true if the token determines the character, and the character is not a dot as in a file extension.
    fn is_specific(&self) -> bool {
        match self {
            Self::Many | Self::One => false,
            Self::Set(negated, ranges) => !negated && ranges.iter().all(|(from, to)| from == to),
            Self::Is(c) => *c != '.',
        }
    }
}

/// Converts a character to lower case. Of a form with several characters, only the first is used.
pub(super) fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// Parses one path component of a glob.
pub(super) fn parse_tokens(glob: &str) -> Vec<GlobToken> {
    let mut tokens = Vec::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '*' if tokens.last() == Some(&GlobToken::Many) => continue,
            '*' => GlobToken::Many,
            '?' => GlobToken::One,
            '[' => match parse_set(rest.as_str()) {
                Some((set, after)) => {
                    rest = after.chars();
                    set
                }
                None => GlobToken::Is(c),
            },
            '\\' => GlobToken::Is(lower(rest.next().unwrap_or(c))),
            c => GlobToken::Is(lower(c)),
        });
    }
    tokens
}

/// Parses the set after an opening bracket. Returns the set and the text after the closing bracket. `None` if the
/// bracket is not closed.
fn parse_set(text: &str) -> Option<(GlobToken, &str)> {
    let negation = text.strip_prefix(['!', '^']);
    let (negated, inside) = (negation.is_some(), negation.unwrap_or(text));
    let mut ranges = Vec::new();
    let mut rest = inside.chars();
    loop {
        let mut c = rest.next()?;
        // At the beginning of a set, `]` is literal.
        if c == ']' && !ranges.is_empty() {
            return Some((GlobToken::Set(negated, ranges), rest.as_str()));
        }
        if c == '\\' {
            c = rest.next()?;
        }
        let mut ahead = rest.clone();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                rest = ahead;
                to
            }
            _ => c,
        };
        ranges.push((c, to));
    }
}

/// Returns true if the glob matches the name.
pub(super) fn matches(glob: &[GlobToken], name: &str) -> bool {
    // Most names differ in the first or last character, which is checked first.
    let differs = |token: Option<&GlobToken>, c: Option<char>| match (token, c) {
        (Some(GlobToken::Is(expected)), Some(c)) => *expected != lower(c),
        _ => false,
    };
    if differs(glob.last(), name.chars().next_back()) || differs(glob.first(), name.chars().next())
    {
        return false;
    }
    let (mut at, mut rest) = (0, name.chars());
    // The position to resume at on a mismatch: after the last `*`, at the text that it has not consumed.
    let mut resume = None;
    loop {
        let mut ahead = rest.clone();
        match (glob.get(at), ahead.next()) {
            (None, None) => return true,
            (Some(GlobToken::Many), _) => {
                at += 1;
                resume = Some((at, rest.clone()));
            }
            (Some(token), Some(c)) if token.matches_char(c) => {
                at += 1;
                rest = ahead;
            }
            _ => {
                let Some((after_many, unmatched)) = &mut resume else {
                    return false;
                };
                if unmatched.next().is_none() {
                    return false;
                }
                at = *after_many;
                rest = unmatched.clone();
            }
        }
    }
}

/// Returns a name with the prefix `begin` that the glob matches, if the glob contains enough of the prefix literally:
/// `id_rs?.bak` may mean `id_rsa.bak`, while `*a.bak` also matches many other names.
pub(super) fn match_with_prefix(glob: &[GlobToken], begin: &[char]) -> Option<String> {
    let enough = match glob.first() {
        Some(GlobToken::Is(_)) => 2,
        _ => 3,
    };
    // The number of prefix characters given literally, by the length of the prefix that the tokens so far may match.
    let mut literal_counts = vec![None; begin.len() + 1];
    if let Some(first) = literal_counts.first_mut() {
        *first = Some(0);
    }
    for (at, token) in glob.iter().enumerate() {
        let mut next = vec![None; literal_counts.len()];
        match token {
            GlobToken::Many => {
                let mut most = None;
                for (next, count) in next.iter_mut().zip(&literal_counts) {
                    most = most.max(*count);
                    *next = most;
                }
            }
            token => {
                let added = usize::from(token.is_specific() || *token == GlobToken::Is('.'));
                for ((next, count), c) in next.iter_mut().skip(1).zip(&literal_counts).zip(begin) {
                    *next = count
                        .filter(|_| token.matches_char(*c))
                        .map(|count| count + added);
                }
            }
        }
        if next.last().is_some_and(|count| *count >= Some(enough)) {
            let rest = glob.get(at + 1..).unwrap_or_default();
            let rest = rest.iter().filter_map(GlobToken::sample);
            return Some(begin.iter().copied().chain(rest).collect());
        }
        literal_counts = next;
    }
    None
}

/// Returns true if the glob may match a name with the suffix `end`, and contains a part of the suffix literally:
/// `prod.e*` may mean `prod.env`, while `prod*` also matches many other names.
pub(super) fn can_end_with(glob: &[GlobToken], end: &[char], own_wildcards: bool) -> bool {
    if let (Some(GlobToken::Is(c)), Some(last)) = (glob.last(), end.last())
        && c != last
    {
        return false;
    }
    // The length of the suffix left before the tokens so far, and whether they contain any of it.
    let mut left = vec![(end.len(), false)];
    for (at, token) in glob.iter().enumerate().rev() {
        let mut next = Vec::with_capacity(left.len());
        let mut add = |state| {
            if !next.contains(&state) {
                next.push(state);
            }
        };
        for (count, has_part) in left {
            match token {
                GlobToken::Many => (0..=count).for_each(|count| add((count, has_part))),
                token => {
                    let last = count.checked_sub(1).and_then(|at| end.get(at));
                    if last.is_some_and(|c| token.matches_char(*c)) {
                        add((count - 1, has_part || token.is_specific()));
                    }
                }
            }
        }
        // Only a program's own wildcard matches a name that consists of the suffix alone.
        let may_be_whole_name = own_wildcards || at > 0 || *token == GlobToken::Many;
        if may_be_whole_name && next.contains(&(0, true)) {
            return true;
        }
        left = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_bracket_sets_are_read_as_in_a_shell() {
        for (glob, name, hit) in [
            ("[]a]", "]", true),
            ("[!a]", "b", true),
            ("[^a]", "a", false),
            ("[a-c]", "b", true),
            ("[a-c]", "B", true),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("[a", "[a", true),
            ("a*b?c", "axxbbyc", true),
            ("a*b?c", "axxbc", false),
            ("", "", true),
        ] {
            assert_eq!(matches(&parse_tokens(glob), name), hit, "{glob} {name}");
        }
    }
}
