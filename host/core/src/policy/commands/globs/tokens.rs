//! The tokens of one component of a glob, and their matching.

/// One token of a glob. Letters are lower-case: some file systems ignore case.
#[derive(Debug, PartialEq)]
pub(super) enum GlobToken {
    /// Any characters, or none.
    Many,
    /// Any character.
    One,
    /// A character in these ranges, or not in them.
    Set(bool, Vec<(char, char)>),
    Is(char),
}

impl GlobToken {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Many => false,
            Self::One => true,
            Self::Set(negated, ranges) => {
                let hit = |c: char| ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                (hit(c) || c.to_lowercase().any(hit) || c.to_uppercase().any(hit)) != *negated
            }
            Self::Is(own) => *own == lower(c),
        }
    }

    /// A character that it matches.
    fn sample(&self) -> Option<char> {
        match self {
            Self::Many => None,
            Self::Set(false, ranges) => ranges.first().map(|(from, _)| *from),
            Self::One | Self::Set(true, _) => Some('a'),
            Self::Is(c) => Some(*c),
        }
    }

    /// Returns true if it constrains the character, beyond a dot of a file extension.
    fn says(&self) -> bool {
        match self {
            Self::Many | Self::One => false,
            Self::Set(negated, ranges) => !negated && ranges.iter().all(|(from, to)| from == to),
            Self::Is(c) => *c != '.',
        }
    }
}

pub(super) fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

pub(super) fn tokens(glob: &str) -> Vec<GlobToken> {
    let mut all = Vec::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        all.push(match c {
            '*' if all.last() == Some(&GlobToken::Many) => continue,
            '*' => GlobToken::Many,
            '?' => GlobToken::One,
            '[' => match set(rest.as_str()) {
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
    all
}

/// The set after an opening bracket, and the rest.
fn set(text: &str) -> Option<(GlobToken, &str)> {
    let inside = text.strip_prefix(['!', '^']);
    let (negated, inside) = (inside.is_some(), inside.unwrap_or(text));
    let mut ranges = Vec::new();
    let mut rest = inside.chars();
    loop {
        let mut c = rest.next()?;
        // At the beginning, it is literal.
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
    // Most names differ at an end, which is checked first.
    let differs = |token: Option<&GlobToken>, c: Option<char>| match (token, c) {
        (Some(GlobToken::Is(own)), Some(c)) => *own != lower(c),
        _ => false,
    };
    if differs(glob.last(), name.chars().next_back()) || differs(glob.first(), name.chars().next())
    {
        return false;
    }
    let (mut token, mut rest) = (0, name.chars());
    // The position to resume at on a mismatch: after the last `*`, at the text that it has not consumed.
    let mut many = None;
    loop {
        let mut ahead = rest.clone();
        match (glob.get(token), ahead.next()) {
            (None, None) => return true,
            (Some(GlobToken::Many), _) => {
                token += 1;
                many = Some((token, rest.clone()));
            }
            (Some(one), Some(c)) if one.takes(c) => {
                token += 1;
                rest = ahead;
            }
            _ => {
                let Some((after, reach)) = &mut many else {
                    return false;
                };
                if reach.next().is_none() {
                    return false;
                }
                token = *after;
                rest = reach.clone();
            }
        }
    }
}

/// A name with this prefix that the glob matches, if the glob itself contains enough of the prefix: `id_rs?.bak` may
/// be `id_rsa.bak`, while `*a.bak` matches any other name with that ending.
pub(super) fn match_with_prefix(glob: &[GlobToken], begin: &[char]) -> Option<String> {
    let enough = match glob.first() {
        Some(GlobToken::Is(_)) => 2,
        _ => 3,
    };
    // The number of prefix characters given literally, by the length of the prefix that the tokens so far may match.
    let mut said = vec![None; begin.len() + 1];
    if let Some(first) = said.first_mut() {
        *first = Some(0);
    }
    for (at, token) in glob.iter().enumerate() {
        let mut next = vec![None; said.len()];
        match token {
            GlobToken::Many => {
                let mut most = None;
                for (one, said) in next.iter_mut().zip(&said) {
                    most = most.max(*said);
                    *one = most;
                }
            }
            one => {
                let named = usize::from(one.says() || *one == GlobToken::Is('.'));
                for ((next, said), c) in next.iter_mut().skip(1).zip(&said).zip(begin) {
                    *next = said.filter(|_| one.takes(*c)).map(|count| count + named);
                }
            }
        }
        if next.last().is_some_and(|count| *count >= Some(enough)) {
            let rest = glob.get(at + 1..).unwrap_or_default();
            let rest = rest.iter().filter_map(GlobToken::sample);
            return Some(begin.iter().copied().chain(rest).collect());
        }
        said = next;
    }
    None
}

/// Returns true if the glob may match a name with this suffix, and itself contains a part of it: `prod.e*` may be
/// `prod.env` by its `.e`, while `prod*` matches any other name with that prefix.
pub(super) fn can_end_with(glob: &[GlobToken], end: &[char], own: bool) -> bool {
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
        for (count, said) in left {
            match token {
                GlobToken::Many => (0..=count).for_each(|count| add((count, said))),
                one => {
                    let last = count.checked_sub(1).and_then(|at| end.get(at));
                    if last.is_some_and(|c| one.takes(*c)) {
                        add((count - 1, said || one.says()));
                    }
                }
            }
        }
        // Only a program's own wildcard matches a name that consists of the suffix alone.
        let more = own || at > 0 || *token == GlobToken::Many;
        if more && next.contains(&(0, true)) {
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
            assert_eq!(matches(&tokens(glob), name), hit, "{glob} {name}");
        }
    }
}
