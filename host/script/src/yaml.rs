//! What a YAML text has to be before the reader with the types may see it: nested no deeper than anything here is. That
//! reader looks at every open bracket again with each word, so brackets in brackets cost it the square of their number
//! before it refuses them; this one stops at the first that is too deep.
//!
//! Never here: what the keys mean.

use std::borrow::Cow;
use std::fmt;

use saphyr_parser::{Event, Parser, Span};

/// Levels of lists and mappings. The reader with the types has 128; a schema with objects ten levels deep has thirty.
const DEPTH: usize = 100;

/// A text that this reader cannot read and the other one perhaps can is left to that if it is no longer than this: with
/// nothing but brackets it costs 0.2 s.
const SHORT: usize = 16 << 10;

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Where it is, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: Cow<'static, str>,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Whether a text can be read by what reads it into types.
pub fn fit(text: &str) -> Result<(), Unfit> {
    events(text).try_for_each(|event| event.map(|_| ()))
}

/// The events of a text, as far as they can be had.
pub(crate) fn events(text: &str) -> impl Iterator<Item = Result<(Event<'_>, Span), Unfit>> {
    let mut depth = 0_usize;
    let mut parser = Parser::new_from_str(text);
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let (event, span) = match parser.next()? {
            Ok(found) => found,
            Err(error) => {
                over = true;
                return (text.len() > SHORT).then(|| {
                    let message = error.info().to_owned().into();
                    Err(unfit(error.marker(), message))
                });
            }
        };
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH {
            over = true;
            let message = format!("lists and mappings in each other, more than {DEPTH}");
            return Some(Err(unfit(&span.start, message.into())));
        }
        Some(Ok((event, span)))
    })
}

fn unfit(at: &saphyr_parser::Marker, message: Cow<'static, str>) -> Unfit {
    Unfit {
        line: at.line(),
        column: at.col() + 1,
        message,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_is_nested_is_refused_before_it_costs_anything() {
        let forms = [
            "[", "{", "[{a: ", "{a: ", "- ", "? ", "[\n", "{a:\n ", "- - [", "[ &a ",
        ];
        let ends = ["", "]", "\n]\nb: }"];
        for form in forms {
            for end in ends {
                let start = Instant::now();
                let text = form.repeat((1 << 20) / form.len()) + end;
                let unfit = fit(&text).unwrap_err();
                assert!(
                    start.elapsed() < Duration::from_millis(500),
                    "{form}: {:?}",
                    start.elapsed()
                );
                assert!(unfit.line > 0 && !unfit.message.is_empty(), "{form}");
            }
        }
        let named = fit(&format!("a:\n {}", "[".repeat(101))).unwrap_err();
        assert_eq!((named.line, named.column), (2, 101));
        assert!(named.message.contains("more than 100"), "{named}");
    }

    #[test]
    fn what_is_not_nested_is_left_to_the_reader_with_the_types() {
        for text in [
            "",
            "# nothing\n",
            "a: [",
            "\t: }",
            "a: {b: [c, {d: e}]}\n---\nf\n",
        ] {
            assert_eq!(fit(text), Ok(()), "{text}");
        }
        let deep = format!("a: {}1{}", "[".repeat(99), "]".repeat(99));
        assert_eq!(fit(&deep), Ok(()));
        // Unreadable and long.
        let long = format!("a: [\n{}", "# x\n".repeat(SHORT));
        assert!(fit(&long).is_err());
    }
}
