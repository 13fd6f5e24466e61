//! What is odd about the words of a server: what cannot be seen in them, and what speaks past the person to the model.
//!
//! No list of phrases finds every trick. What is found is told to the person who decides; what is not found still has
//! to pass every gate.

use mimir_core::text;
use serde_json::Value;

/// Words that have no place in the description of a tool: each is from a known way to lead a model astray.
const PHRASES: [&str; 18] = [
    "ignore previous",
    "ignore all previous",
    "ignore the above",
    "disregard previous",
    "do not tell the user",
    "don't tell the user",
    "do not mention",
    "don't mention",
    "without telling",
    "hide this from",
    "system prompt",
    "<important>",
    "<system>",
    "before using any other tool",
    "before calling any other tool",
    "id_rsa",
    ".ssh/",
    "always call this tool",
];

/// A text in which everything can be seen: nothing is removed, all that would drive a terminal or hide is written out.
pub(super) fn shown(words: &str) -> String {
    let escaped = text::escape(words.to_owned());
    if !escaped.contains(|c: char| c < ' ' && c != '\n' && c != '\t') {
        return escaped;
    }
    let mut out = String::with_capacity(escaped.len());
    for c in escaped.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c < ' ' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// [`shown`] for all strings of a value. Says whether any of them was odd.
pub(super) fn show_value(value: &mut Value) -> bool {
    match value {
        Value::String(words) => {
            let seen = shown(words);
            let odd = seen != *words;
            *words = seen;
            odd
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |odd, item| show_value(item) | odd),
        Value::Object(map) => {
            let mut odd = false;
            let old = std::mem::take(map);
            for (key, mut item) in old {
                odd |= show_value(&mut item);
                let seen = shown(&key);
                odd |= seen != key;
                map.insert(seen, item);
            }
            odd
        }
        _ => false,
    }
}

/// What a person should know of words that a server wrote: `odd` says that some of them could not be seen.
pub(super) fn flags(words: &str, odd: bool) -> Vec<String> {
    let mut flags = Vec::new();
    if odd {
        flags.push(
            "its description has characters that cannot be seen; they are written out".to_owned(),
        );
    }
    let lower = words.to_lowercase();
    let found = PHRASES.iter().find(|phrase| lower.contains(**phrase));
    if let Some(phrase) = found {
        flags.push(format!(
            "its description speaks to the model past you: it has the words `{phrase}`"
        ));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_hides_is_written_out_and_flagged() {
        let words = "Adds\u{1b}[8m numbers\u{202e}.\rIGNORE previous\u{e0041}";
        let seen = shown(words);
        assert_eq!(
            seen,
            r"Adds\u{1b}[8m numbers\u{202e}.\u{d}IGNORE previous\u{e0041}"
        );
        let flags = flags(&seen, seen != words);
        assert_eq!(flags.len(), 2, "{flags:?}");
        let mut schema = json!({"properties": {"a\u{200b}": {"description": "x\u{7}"}}});
        assert!(show_value(&mut schema));
        assert_eq!(
            schema,
            json!({"properties": {r"a\u{200b}": {"description": r"x\u{7}"}}})
        );
    }

    #[test]
    fn what_is_ordinary_is_not() {
        let words = "Reads a file.\n\tUse it for text; ignores previous versions? No — ä 👩‍💻.";
        assert_eq!(shown(words), words);
        assert!(flags("Reads a file of the workspace.", false).is_empty());
    }
}
