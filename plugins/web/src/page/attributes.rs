//! Limit for the number of attributes of a tag, checked before a page is parsed: the parser compares each attribute
//! with all others of the tag.

use mimir_sdk::{Code, Error, Result};

/// Maximum number of attributes of one tag. Real pages have a few dozen at most.
const MAX_ATTRIBUTES: usize = 1_000;

/// Fails if a tag has so many attributes that the page would take too long to parse.
pub fn check(html: &str) -> Result<()> {
    let count = max_attributes(html);
    if count <= MAX_ATTRIBUTES {
        return Ok(());
    }
    Err(Error::new(
        Code::LimitExceeded,
        format!(
            "a tag of the page has {count} attributes, and the limit for reading a page is {MAX_ATTRIBUTES}; use `format: raw`"
        ),
    ))
}

/// A position in a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagState {
    Gap,
    Name,
    /// After `=`.
    Equals,
    Quoted(u8),
    Unquoted,
}

/// Returns the largest number of attributes of any tag, in one pass. Text in scripts and comments that looks like a tag
/// counts as well.
fn max_attributes(html: &str) -> usize {
    let (mut max_attributes, mut count) = (0, 0);
    let mut tag = None;
    let mut previous = 0;
    for byte in html.bytes() {
        let Some(state) = tag else {
            if previous == b'<' && byte.is_ascii_alphabetic() {
                (tag, count) = (Some(TagState::Name), 0);
            }
            previous = byte;
            continue;
        };
        let space = byte.is_ascii_whitespace();
        let next = match (state, byte) {
            (TagState::Quoted(quote), _) if byte == quote => TagState::Gap,
            (TagState::Quoted(_), _) => state,
            (_, b'>') => {
                (tag, previous) = (None, byte);
                continue;
            }
            (TagState::Equals, b'"' | b'\'') => TagState::Quoted(byte),
            (TagState::Equals, _) if space => state,
            (TagState::Equals, _) => TagState::Unquoted,
            (TagState::Gap | TagState::Name, b'=') => TagState::Equals,
            (TagState::Gap | TagState::Name, b'/') => TagState::Gap,
            (_, _) if space => TagState::Gap,
            (TagState::Gap, _) => {
                count += 1;
                max_attributes = max_attributes.max(count);
                TagState::Name
            }
            (TagState::Name | TagState::Unquoted, _) => state,
        };
        tag = Some(next);
    }
    max_attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_a_tag_are_counted() {
        for (html, expected) in [
            ("no tag a b c", 0),
            ("<p>a < b c d", 0),
            (
                "<a href=/a/b/c class='x y > z' data-a = \"1 2\" b/c d>e f g",
                6,
            ),
            ("<a b><c d e><f>", 2),
            ("<a/b/c/>", 2),
            ("<img src=\"data:image/png;base64,a/b/c/d==\">", 1),
        ] {
            assert_eq!(max_attributes(html), expected, "{html}");
        }
    }

    #[test]
    fn attributes_beyond_the_limit_are_refused() {
        let page = |count: usize, between: &str| {
            let names: Vec<String> = (0..count).map(|at| format!("a{at}")).collect();
            format!("<p>x</p><div {}>y</div>", names.join(between))
        };
        assert!(check(&page(MAX_ATTRIBUTES, " ")).is_ok());
        for between in [" ", "/", "=1 ", "='' ", "=\">\" ", "\n"] {
            let error = check(&page(MAX_ATTRIBUTES + 1, between)).unwrap_err();
            assert!(
                error.message().contains("`format: raw`"),
                "{between:?}: {error}"
            );
        }
    }
}
