//! The pieces of one part of a glob, and what they match.

/// One piece of a glob. Its letters are lower-case: some filesystems make no difference.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    /// Any characters, none too.
    Many,
    /// Some character.
    One,
    /// One between these, or none of them.
    Set(bool, Vec<(char, char)>),
    Is(char),
}

impl Token {
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

    /// A character that it takes.
    fn sample(&self) -> Option<char> {
        match self {
            Self::Many => None,
            Self::Set(false, ranges) => ranges.first().map(|(from, _)| *from),
            Self::One | Self::Set(true, _) => Some('a'),
            Self::Is(c) => Some(*c),
        }
    }

    /// Whether it names the characters that it takes, and not only where a name has its ending.
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

pub(super) fn tokens(glob: &str) -> Vec<Token> {
    let mut all = Vec::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        all.push(match c {
            '*' if all.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            '?' => Token::One,
            '[' => match set(rest.as_str()) {
                Some((set, after)) => {
                    rest = after.chars();
                    set
                }
                None => Token::Is(c),
            },
            '\\' => Token::Is(lower(rest.next().unwrap_or(c))),
            c => Token::Is(lower(c)),
        });
    }
    all
}

/// The set that begins here, behind its bracket, and what follows it.
fn set(text: &str) -> Option<(Token, &str)> {
    let inside = text.strip_prefix(['!', '^']);
    let (negated, inside) = (inside.is_some(), inside.unwrap_or(text));
    let mut ranges = Vec::new();
    let mut rest = inside.chars();
    loop {
        let mut c = rest.next()?;
        // At the beginning, it stands for itself.
        if c == ']' && !ranges.is_empty() {
            return Some((Token::Set(negated, ranges), rest.as_str()));
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

/// Whether the glob matches the name.
pub(super) fn matches(glob: &[Token], name: &str) -> bool {
    // Most names differ at an end, which is seen at once.
    let differs = |token: Option<&Token>, c: Option<char>| match (token, c) {
        (Some(Token::Is(own)), Some(c)) => *own != lower(c),
        _ => false,
    };
    if differs(glob.last(), name.chars().next_back()) || differs(glob.first(), name.chars().next())
    {
        return false;
    }
    let (mut token, mut rest) = (0, name.chars());
    // Where to go on if it does not: behind the last `*`, and what that has not reached.
    let mut many = None;
    loop {
        let mut ahead = rest.clone();
        match (glob.get(token), ahead.next()) {
            (None, None) => return true,
            (Some(Token::Many), _) => {
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

/// A name that the glob matches and that begins so, if the glob says enough of that beginning itself: `id_rs?.bak` may be
/// `id_rsa.bak`, and `*a.bak` is as much about all else that ends so.
pub(super) fn begins_so(glob: &[Token], begin: &[char]) -> Option<String> {
    let enough = match glob.first() {
        Some(Token::Is(_)) => 2,
        _ => 3,
    };
    // How much of the beginning the glob says itself, by how much of it the tokens that were looked at may be.
    let mut said = vec![None; begin.len() + 1];
    if let Some(first) = said.first_mut() {
        *first = Some(0);
    }
    for (at, token) in glob.iter().enumerate() {
        let mut next = vec![None; said.len()];
        match token {
            Token::Many => {
                let mut most = None;
                for (one, said) in next.iter_mut().zip(&said) {
                    most = most.max(*said);
                    *one = most;
                }
            }
            one => {
                let named = usize::from(one.says() || *one == Token::Is('.'));
                for ((next, said), c) in next.iter_mut().skip(1).zip(&said).zip(begin) {
                    *next = said.filter(|_| one.takes(*c)).map(|count| count + named);
                }
            }
        }
        if next.last().is_some_and(|count| *count >= Some(enough)) {
            let rest = glob.get(at + 1..).unwrap_or_default();
            let rest = rest.iter().filter_map(Token::sample);
            return Some(begin.iter().copied().chain(rest).collect());
        }
        said = next;
    }
    None
}

/// Whether a name that the glob matches may end so, and the glob says some of that ending itself: `prod.e*` may be
/// `prod.env` by its `.e`, and `prod*` is as much about all else that begins so.
pub(super) fn ends_so(glob: &[Token], end: &[char], own: bool) -> bool {
    if let (Some(Token::Is(c)), Some(last)) = (glob.last(), end.last())
        && c != last
    {
        return false;
    }
    // How much of the ending may be left before the tokens that were looked at, and whether those have said any of it.
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
                Token::Many => (0..=count).for_each(|count| add((count, said))),
                one => {
                    let last = count.checked_sub(1).and_then(|at| end.get(at));
                    if last.is_some_and(|c| one.takes(*c)) {
                        add((count - 1, said || one.says()));
                    }
                }
            }
        }
        // Only a program's own wildcard matches a name that is the ending and nothing else.
        let more = own || at > 0 || *token == Token::Many;
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
    fn a_set_is_read_as_shells_read_it() {
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
