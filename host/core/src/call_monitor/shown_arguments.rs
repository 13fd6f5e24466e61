//! The arguments of a call as consoles show them: masked, and only their beginning.

use std::io;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::redact::{REACH, Redactor};
use crate::text;

use super::live_event::LiveCallEvent;

/// Maximum size of arguments that are masked as a whole, in bytes. Of longer ones, only the beginning is copied.
const MAX_WHOLE: u64 = 1 << 20;

/// Size of the beginning of long arguments in bytes: longer than what is shown by the longest secret, so that every secret
/// that begins in the shown part ends in the copied one.
const BEGINNING: usize = 2 * LiveCallEvent::MAX_ARGUMENTS + REACH;

/// Size of a value in addition to its text, in bytes. With its place in the list, it is shown with about as many.
const VALUE: usize = 8;

/// The arguments of a call.
pub(crate) enum ReportedArguments {
    /// The unmasked arguments.
    Whole {
        arguments: Arc<Value>,
        /// Their size in bytes.
        size: usize,
    },
    /// The unmasked beginning of long arguments.
    Beginning(Value),
    /// The reason why they are not shown.
    Withheld(&'static str),
}

impl ReportedArguments {
    /// Takes arguments of `size` bytes. `share` copies them, or shares them.
    pub(crate) fn new(
        arguments: &Value,
        size: Option<u64>,
        share: impl FnOnce() -> Arc<Value>,
    ) -> Self {
        match size.filter(|size| *size <= MAX_WHOLE) {
            Some(size) => Self::Whole {
                arguments: share(),
                size: usize::try_from(size).unwrap_or(usize::MAX),
            },
            None => {
                let mut left = BEGINNING;
                Self::Beginning(beginning(arguments, &mut left))
            }
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Whole { size, .. } => *size,
            Self::Beginning(_) => BEGINNING,
            Self::Withheld(_) => 0,
        }
    }

    /// Returns the masked arguments as JSON, or the reason in parentheses why they are not shown, and whether they were
    /// cut. Masks before it cuts: the beginning of a secret would not be recognized.
    pub(super) fn shown(&self, redactor: &Redactor) -> (String, bool) {
        let (mut arguments, is_beginning) = match self {
            Self::Withheld(reason) => return (format!("({reason})"), false),
            Self::Whole { arguments, .. } => (Value::clone(arguments), false),
            Self::Beginning(arguments) => (arguments.clone(), true),
        };
        let masked = redactor.mask_value(&mut arguments);
        if is_beginning && masked > 0 {
            // Marks are shorter than secrets, so the shown part could reach up to a secret that the cut has divided.
            let reason = "(not shown, because they are longer than 1 MiB and have secrets)";
            return (reason.to_owned(), false);
        }
        let mut json = BoundedText::default();
        // Fails at the limit, which is not an error.
        let is_complete = serde_json::to_writer_pretty(&mut json, &arguments).is_ok();
        let text = String::from_utf8_lossy(&json.0).into_owned();
        let (text, is_cut) = cut(text::escape_json(text), LiveCallEvent::MAX_ARGUMENTS);
        (text, is_beginning || is_cut || !is_complete)
    }
}

/// Copies the beginning of a value. `left` is the number of bytes that may still be copied.
fn beginning(value: &Value, left: &mut usize) -> Value {
    // Also for empty values, of which there could be millions.
    *left = left.saturating_sub(VALUE);
    match value {
        Value::String(text) => {
            let text = text::prefix_bytes(text, *left);
            *left -= text.len();
            Value::String(text.to_owned())
        }
        Value::Array(items) => {
            let mut copied = Vec::new();
            for item in items {
                if *left == 0 {
                    break;
                }
                copied.push(beginning(item, left));
            }
            Value::Array(copied)
        }
        Value::Object(fields) => {
            let mut copied = Map::new();
            for (name, field) in fields {
                if name.len() >= *left {
                    *left = 0;
                    break;
                }
                *left -= name.len();
                copied.insert(name.clone(), beginning(field, left));
            }
            Value::Object(copied)
        }
        scalar => scalar.clone(),
    }
}

/// Collects JSON up to the maximum length of shown arguments.
#[derive(Default)]
struct BoundedText(Vec<u8>);

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = LiveCallEvent::MAX_ARGUMENTS - self.0.len();
        let taken = &bytes[..bytes.len().min(left)];
        self.0.extend_from_slice(taken);
        match taken.len() {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts a text at a character boundary. Returns true if it was longer.
pub(super) fn cut(mut text: String, max: usize) -> (String, bool) {
    let is_longer = text.len() > max;
    if is_longer {
        text.truncate(text.floor_char_boundary(max));
    }
    (text, is_longer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "my-own-hoard-of-gold";

    fn shown(arguments: &Value) -> (String, bool) {
        let redactor = Redactor::new().with_values([("KEY", SECRET)]);
        let size = serde_json::to_vec(arguments).unwrap().len() as u64;
        let reported = ReportedArguments::new(arguments, Some(size), || arguments.clone().into());
        reported.shown(&redactor)
    }

    #[test]
    fn arguments_beyond_the_maximum_show_their_beginning() {
        let (text, is_cut) = shown(&json!({"path": "a.txt", "text": "line\n".repeat(1 << 20)}));
        assert!(is_cut);
        assert!(text.starts_with("{\n  \"path\": \"a.txt\""), "{text:.100}");
        assert_eq!(text.len(), LiveCallEvent::MAX_ARGUMENTS);
        let many: Vec<_> = (0..1 << 19).map(|number| json!({"n": number})).collect();
        let (text, is_cut) = shown(&json!({ "many": many }));
        assert!(is_cut && text.contains("\"n\": 7"), "{text:.100}");
        let mut left = BEGINNING;
        let copied = beginning(&json!(vec![json!([]); BEGINNING]), &mut left);
        assert!(copied.as_array().unwrap().len() <= BEGINNING / VALUE);
    }

    #[test]
    fn arguments_beyond_the_maximum_show_no_part_of_a_secret() {
        // The cut divides the secret: alone, and after secrets whose marks are shorter than they are.
        let before = BEGINNING - 12;
        let secrets = format!("{SECRET} ").repeat(before / (SECRET.len() + 1));
        for filler in ["-".repeat(before), secrets] {
            let text = format!("{filler}{SECRET}{}", " ".repeat(2 << 20));
            let (text, _) = shown(&json!({ "text": text }));
            assert!(!text.contains(&SECRET[..6]), "{text:.100}");
        }
    }

    #[test]
    fn arguments_up_to_the_maximum_are_masked_as_a_whole() {
        let filler = "-".repeat(LiveCallEvent::MAX_ARGUMENTS - 30);
        let (text, is_cut) = shown(&json!({"text": format!("{filler}{SECRET}{filler}")}));
        assert!(is_cut);
        assert!(
            text.contains("[REDACTED") && !text.contains("my-own"),
            "{text}"
        );
    }
}
