//! Limits the attributes of a tag before a page is parsed: the parser compares each with all others of its tag.

use mimir_sdk::{Code, Error, Result};

/// Maximum number of attributes of one tag. Real pages have a few dozen at most.
const MAX_ATTRIBUTES: usize = 1_000;

/// Refuses a page that would take too long to parse.
pub fn check(html: &str) -> Result<()> {
    let count = most(html);
    match count > MAX_ATTRIBUTES {
        true => Err(Error::new(
            Code::LimitExceeded,
            format!(
                "a tag of the page has {count} attributes, and the limit for reading a page is {MAX_ATTRIBUTES}; use `format: raw`"
            ),
        )),
        false => Ok(()),
    }
}

/// A position in a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Gap,
    Name,
    /// Behind `=`.
    Equals,
    Quoted(u8),
    Unquoted,
}

/// Counts the attributes of the tag that has the most, in one pass. Text of scripts and comments that looks like a tag
/// counts, too.
fn most(html: &str) -> usize {
    let (mut most, mut count) = (0, 0);
    let mut tag = None;
    let mut before = 0;
    for byte in html.bytes() {
        let Some(part) = tag else {
            if before == b'<' && byte.is_ascii_alphabetic() {
                (tag, count) = (Some(Part::Name), 0);
            }
            before = byte;
            continue;
        };
        let space = byte.is_ascii_whitespace();
        let next = match (part, byte) {
            (Part::Quoted(quote), _) if byte == quote => Part::Gap,
            (Part::Quoted(_), _) => part,
            (_, b'>') => {
                (tag, before) = (None, byte);
                continue;
            }
            (Part::Equals, b'"' | b'\'') => Part::Quoted(byte),
            (Part::Equals, _) if space => part,
            (Part::Equals, _) => Part::Unquoted,
            (Part::Gap | Part::Name, b'=') => Part::Equals,
            (Part::Gap | Part::Name, b'/') => Part::Gap,
            (_, _) if space => Part::Gap,
            (Part::Gap, _) => {
                count += 1;
                most = most.max(count);
                Part::Name
            }
            (Part::Name | Part::Unquoted, _) => part,
        };
        tag = Some(next);
    }
    most
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
            assert_eq!(most(html), expected, "{html}");
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
