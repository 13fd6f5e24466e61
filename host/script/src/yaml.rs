//! Limits on the nesting depth and alias expansion of YAML text, checked before the text is deserialized. The
//! deserializer rescans every open bracket at each token, so the cost of nested brackets is quadratic. It also copies
//! the target of an alias at each use, so a text with many aliases can need many times its size in memory.
//!
//! Out of scope: the meaning of the keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, Span};

/// Maximum nesting depth of lists and mappings. The deserializer allows 128; a schema with objects ten levels deep
/// needs thirty.
const MAX_DEPTH: usize = 100;

/// Maximum length in bytes of a text that this scanner cannot parse and leaves to the deserializer, which takes 0.2 s
/// if the text consists of brackets.
const MAX_UNSCANNED_BYTES: usize = 16 << 10;

/// Maximum total size in bytes of all expanded aliases. Hand-written files have at most a few kilobytes.
const MAX_ALIASED_BYTES: usize = 1 << 20;

/// Memory overhead of a value in the deserializer, in bytes.
const VALUE_OVERHEAD_BYTES: usize = 64;

/// Reason for rejecting a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlRejection {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The message.
    pub message: Cow<'static, str>,
}

impl fmt::Display for YamlRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// Checks that a text is safe to deserialize.
pub fn check_yaml(text: &str) -> Result<(), YamlRejection> {
    events(text).try_for_each(|event| event.map(|_| ()))
}

/// Returns the events of a text, up to the first error.
pub(crate) fn events(text: &str) -> impl Iterator<Item = Result<(Event<'_>, Span), YamlRejection>> {
    let mut parser = Parser::new_from_str(text);
    let (mut size, mut is_finished) = (YamlSize::default(), false);
    std::iter::from_fn(move || {
        if is_finished {
            return None;
        }
        let (event, span) = match parser.next()? {
            Ok(next) => next,
            Err(error) => {
                is_finished = true;
                return (text.len() > MAX_UNSCANNED_BYTES).then(|| {
                    let message = error.info().to_owned().into();
                    Err(rejection_at(error.marker(), message))
                });
            }
        };
        if let Err(message) = size.add_event(&event) {
            is_finished = true;
            return Some(Err(rejection_at(&span.start, message.into())));
        }
        Some(Ok((event, span)))
    })
}

/// Depth and size of the text read so far.
#[derive(Default)]
struct YamlSize {
    /// Open lists and mappings: the anchor of each and its size, with aliases expanded.
    open: Vec<(usize, usize)>,
    /// Expanded size of each anchor.
    anchored: HashMap<usize, usize>,
    /// Expanded size of all aliases so far.
    aliased: usize,
}

impl YamlSize {
    /// Adds an event. Fails with a message if the text is nested too deep, or its aliases expand to too much.
    fn add_event(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                self.open.push((*anchor, VALUE_OVERHEAD_BYTES));
                if self.open.len() > MAX_DEPTH {
                    return Err(format!(
                        "lists and mappings are nested too deep: the limit is {MAX_DEPTH} levels"
                    ));
                }
            }
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some((anchor, size)) = self.open.pop() {
                    self.end_value(anchor, size);
                }
            }
            Event::Scalar(text, _, anchor, _) => {
                self.end_value(*anchor, VALUE_OVERHEAD_BYTES + text.len())
            }
            Event::Alias(anchor) => {
                let size = self
                    .anchored
                    .get(anchor)
                    .copied()
                    .unwrap_or(VALUE_OVERHEAD_BYTES);
                self.aliased = self.aliased.saturating_add(size);
                if self.aliased > MAX_ALIASED_BYTES {
                    return Err(format!(
                        "the aliases up to here expand to more than {MAX_ALIASED_BYTES} bytes: write out their values instead"
                    ));
                }
                self.end_value(0, size);
            }
            _ => {}
        }
        Ok(())
    }

    /// Records the end of a value and its anchor; 0 means no anchor.
    fn end_value(&mut self, anchor: usize, size: usize) {
        if anchor != 0 {
            self.anchored.insert(anchor, size);
        }
        if let Some((_, outer_size)) = self.open.last_mut() {
            *outer_size = outer_size.saturating_add(size);
        }
    }
}

fn rejection_at(at: &saphyr_parser::Marker, message: Cow<'static, str>) -> YamlRejection {
    YamlRejection {
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
    fn yaml_rejects_deep_nesting_quickly() {
        let forms = [
            "[", "{", "[{a: ", "{a: ", "- ", "? ", "[\n", "{a:\n ", "- - [", "[ &a ",
        ];
        let ends = ["", "]", "\n]\nb: }"];
        for form in forms {
            for end in ends {
                let start = Instant::now();
                let text = form.repeat((1 << 20) / form.len()) + end;
                let rejection = check_yaml(&text).unwrap_err();
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "{form}: {:?}",
                    start.elapsed()
                );
                assert!(
                    rejection.line > 0 && !rejection.message.is_empty(),
                    "{form}"
                );
            }
        }
        let rejection = check_yaml(&format!("a:\n {}", "[".repeat(101))).unwrap_err();
        assert_eq!((rejection.line, rejection.column), (2, 101));
        assert!(
            rejection.message.contains("the limit is 100 levels"),
            "{rejection}"
        );
    }

    #[test]
    fn yaml_limits_alias_expansion() {
        let list = |text: &str, times| {
            let aliases = "- *a\n".repeat(times);
            format!("a: &a \"{text}\"\nb:\n{aliases}")
        };
        assert_eq!(check_yaml(&list("some words", 10_000)), Ok(()));
        assert_eq!(check_yaml(&list(&"l".repeat(100_000), 9)), Ok(()));
        let rejection = check_yaml(&list(&"l".repeat(100_000), 60_000)).unwrap_err();
        assert_eq!(rejection.line, 13, "{rejection}");
        assert!(rejection.message.contains("write out"), "{rejection}");
        // Aliases of aliases count with their full expansion.
        let mut tree = String::from("a0: &a0 some words\n");
        for level in 1..40 {
            let below = level - 1;
            tree.push_str(&format!("a{level}: &a{level} [*a{below}, *a{below}]\n"));
        }
        assert!(check_yaml(&tree).unwrap_err().line < 20);
        // An alias of itself never becomes an anchor.
        let _ = check_yaml("a: &a [*a, *a]\n");
    }

    #[test]
    fn yaml_leaves_flat_text_to_the_deserializer() {
        for text in [
            "",
            "# nothing\n",
            "a: [",
            "\t: }",
            "a: {b: [c, {d: e}]}\n---\nf\n",
        ] {
            assert_eq!(check_yaml(text), Ok(()), "{text}");
        }
        let deep = format!("a: {}1{}", "[".repeat(99), "]".repeat(99));
        assert_eq!(check_yaml(&deep), Ok(()));
        // Unreadable and longer than `MAX_UNSCANNED_BYTES`.
        let long = format!("a: [\n{}", "# x\n".repeat(MAX_UNSCANNED_BYTES));
        assert!(check_yaml(&long).is_err());
    }
}
