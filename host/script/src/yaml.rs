//! What a YAML text has to be before the reader with the types may see it: nested no deeper than anything here is. That
//! reader looks at every open bracket again with each word, so brackets in brackets cost it the square of their number
//! before it refuses them; this one stops at the first that is too deep. And it copies what an alias stands for each time
//! that it stands there, so a long text with many aliases is many times as long in memory; this one counts them.
//!
//! Never here: what the keys mean.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, Span};

/// Levels of lists and mappings. The reader with the types has 128; a schema with objects ten levels deep has thirty.
const DEPTH: usize = 100;

/// A text that this reader cannot read and the other one perhaps can is left to that if it is no longer than this: with
/// nothing but brackets it costs 0.2 s.
const SHORT: usize = 16 << 10;

/// Bytes that aliases stand for, together. Nobody writes files in which it is more than some kilobytes.
const ALIASED: usize = 1 << 20;

/// What a value takes beside its text, in the reader with the types.
const VALUE: usize = 64;

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
    let mut parser = Parser::new_from_str(text);
    let (mut size, mut over) = (Size::default(), false);
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
        if let Err(message) = size.takes(&event) {
            over = true;
            return Some(Err(unfit(&span.start, message.into())));
        }
        Some(Ok((event, span)))
    })
}

/// How deep and how large what was read so far is.
#[derive(Default)]
struct Size {
    /// The open lists and mappings: the anchor of each and what is in it, aliases written out.
    open: Vec<(usize, usize)>,
    /// What each anchor stands for.
    anchored: HashMap<usize, usize>,
    /// What the aliases so far stand for.
    aliased: usize,
}

impl Size {
    fn takes(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                self.open.push((*anchor, VALUE));
                if self.open.len() > DEPTH {
                    return Err(format!(
                        "lists and mappings in each other, more than {DEPTH}"
                    ));
                }
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some((anchor, size)) = self.open.pop() {
                    self.ends(anchor, size);
                }
            }
            Event::Scalar(text, _, anchor, _) => self.ends(*anchor, VALUE + text.len()),
            Event::Alias(anchor) => {
                let size = self.anchored.get(anchor).copied().unwrap_or(VALUE);
                self.aliased = self.aliased.saturating_add(size);
                if self.aliased > ALIASED {
                    return Err(format!(
                        "the aliases up to here stand for more than {ALIASED} bytes; write out what they stand for"
                    ));
                }
                self.ends(0, size);
            }
            _ => {}
        }
        Ok(())
    }

    /// A value has ended, with its anchor; 0 is none.
    fn ends(&mut self, anchor: usize, size: usize) {
        if anchor != 0 {
            self.anchored.insert(anchor, size);
        }
        if let Some((_, around)) = self.open.last_mut() {
            *around = around.saturating_add(size);
        }
    }
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
    fn aliases_stand_for_no_more_than_a_person_writes() {
        let list = |text: &str, times| {
            let aliases = "- *a\n".repeat(times);
            format!("a: &a \"{text}\"\nb:\n{aliases}")
        };
        assert_eq!(fit(&list("some words", 10_000)), Ok(()));
        assert_eq!(fit(&list(&"l".repeat(100_000), 9)), Ok(()));
        let unfit = fit(&list(&"l".repeat(100_000), 60_000)).unwrap_err();
        assert_eq!(unfit.line, 13, "{unfit}");
        assert!(unfit.message.contains("write out"), "{unfit}");
        // Of aliases of aliases what they come to counts.
        let mut tree = String::from("a0: &a0 some words\n");
        for level in 1..40 {
            let below = level - 1;
            tree.push_str(&format!("a{level}: &a{level} [*a{below}, *a{below}]\n"));
        }
        assert!(fit(&tree).unwrap_err().line < 20);
        // What stands for itself is none.
        let _ = fit("a: &a [*a, *a]\n");
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
