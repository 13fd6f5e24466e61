//! Keys by the names that web pages see, as on a US keyboard.

use mimir_core::ToolError;
use serde_json::{Value, json};

use crate::page::Page;
use crate::tool_arguments::ModifierKey;

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    key: String,
    code: String,
    /// The Windows virtual key code.
    number: u32,
    /// The text that it enters.
    text: String,
}

impl Key {
    /// Returns the parameters of an event of this key.
    fn event(&self, kind: &str, modifiers: u32) -> Value {
        json!({
            "type": kind, "modifiers": modifiers, "key": self.key, "code": self.code,
            "windowsVirtualKeyCode": self.number, "nativeVirtualKeyCode": self.number
        })
    }
}

/// Named keys: name, code, number, text.
const NAMED: [(&str, &str, u32, &str); 34] = [
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Escape", "Escape", 27, ""),
    ("Space", "Space", 32, " "),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("Home", "Home", 36, ""),
    ("End", "End", 35, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("Insert", "Insert", 45, ""),
    ("Shift", "ShiftLeft", 16, ""),
    ("Control", "ControlLeft", 17, ""),
    ("Alt", "AltLeft", 18, ""),
    ("Meta", "MetaLeft", 91, ""),
    ("CapsLock", "CapsLock", 20, ""),
    ("ContextMenu", "ContextMenu", 93, ""),
    ("Pause", "Pause", 19, ""),
    ("F1", "F1", 112, ""),
    ("F2", "F2", 113, ""),
    ("F3", "F3", 114, ""),
    ("F4", "F4", 115, ""),
    ("F5", "F5", 116, ""),
    ("F6", "F6", 117, ""),
    ("F7", "F7", 118, ""),
    ("F8", "F8", 119, ""),
    ("F9", "F9", 120, ""),
    ("F10", "F10", 121, ""),
    ("F11", "F11", 122, ""),
    ("F12", "F12", 123, ""),
];

/// Keys of punctuation: character, code, number.
const PUNCTUATION: [(char, &str, u32); 11] = [
    ('-', "Minus", 189),
    ('=', "Equal", 187),
    ('[', "BracketLeft", 219),
    (']', "BracketRight", 221),
    ('\\', "Backslash", 220),
    (';', "Semicolon", 186),
    ('\'', "Quote", 222),
    (',', "Comma", 188),
    ('.', "Period", 190),
    ('/', "Slash", 191),
    ('`', "Backquote", 192),
];

impl Key {
    /// Finds a key by its name, such as `ArrowLeft`, or by the character that it enters.
    fn parse(name: &str) -> Result<Self, ToolError> {
        if let Some((key, code, number, text)) = NAMED
            .iter()
            .find(|(key, ..)| key.eq_ignore_ascii_case(name))
        {
            return Ok(Self {
                // The key of the space bar is a space.
                key: if *key == "Space" { " " } else { key }.to_owned(),
                code: (*code).to_owned(),
                number: *number,
                text: (*text).to_owned(),
            });
        }
        let mut characters = name.chars();
        let (Some(character), None) = (characters.next(), characters.next()) else {
            return Err(ToolError::invalid_input(format!(
                "`{}` is not a key: use a character, or a name such as Enter, Escape or ArrowLeft, with modifiers as in Control+a",
                mimir_core::text::visible(name)
            )));
        };
        if character == ' ' {
            return Self::parse("Space");
        }
        let upper = character.to_ascii_uppercase();
        let (code, number) = match character {
            'a'..='z' | 'A'..='Z' => (format!("Key{upper}"), u32::from(upper)),
            '0'..='9' => (format!("Digit{character}"), u32::from(character)),
            _ => {
                let known = PUNCTUATION.iter().find(|(known, ..)| *known == character);
                known.map_or((String::new(), 0), |(_, code, number)| {
                    ((*code).to_owned(), *number)
                })
            }
        };
        Ok(Self {
            key: name.to_owned(),
            code,
            number,
            text: name.to_owned(),
        })
    }
}

/// Splits `Control+Shift+a` into the bits of its modifiers and the key.
fn parse_chord(chord: &str) -> Result<(u32, Key), ToolError> {
    let mut rest = chord;
    let mut modifiers = 0;
    while let Some((modifier, after)) = rest.split_once('+') {
        match ModifierKey::parse(modifier) {
            Some(key) if !after.is_empty() => {
                modifiers |= key.bit();
                rest = after;
            }
            _ => break,
        }
    }
    Ok((modifiers, Key::parse(rest)?))
}

impl Page<'_> {
    /// Presses and releases a key, with modifiers as in `Control+a`.
    pub(crate) async fn press(&self, chord: &str) -> Result<(), ToolError> {
        let (modifiers, key) = parse_chord(chord)?;
        // The page may have changed since the call began: an error page must get no keys.
        if self.with_tab(|tab| tab.is_error_page) {
            return Err(crate::secret_entry::error_page_refusal());
        }
        // With Control, Alt or Meta a key is a command and enters nothing.
        let text = if modifiers & !ModifierKey::Shift.bit() == 0 {
            key.text.as_str()
        } else {
            ""
        };
        let kind = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        let mut down = key.event(kind, modifiers);
        if !text.is_empty() {
            down["text"] = text.into();
            down["unmodifiedText"] = text.into();
        }
        let is_select_all = modifiers == ModifierKey::Control.bit() && key.key == "a";
        if is_select_all {
            // Headless browsers have no key bindings of a desktop.
            down["commands"] = json!(["selectAll"]);
        }
        let held: Vec<(Key, u32)> = ModifierKey::KEYS
            .into_iter()
            .filter(|key| modifiers & key.bit() != 0)
            .map(|key| Ok((Key::parse(key.name())?, key.bit())))
            .collect::<Result<_, ToolError>>()?;
        let mut bits = 0;
        for (key, bit) in &held {
            bits |= bit;
            self.send("Input.dispatchKeyEvent", key.event("rawKeyDown", bits))
                .await?;
        }
        self.send("Input.dispatchKeyEvent", down).await?;
        self.send("Input.dispatchKeyEvent", key.event("keyUp", modifiers))
            .await?;
        for (key, bit) in held.iter().rev() {
            bits &= !bit;
            self.send("Input.dispatchKeyEvent", key.event("keyUp", bits))
                .await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_name_and_character() {
        let (modifiers, key) = parse_chord("Control+Shift+a").unwrap();
        assert_eq!((modifiers, &*key.code, key.number), (10, "KeyA", 65));
        let (modifiers, _) = parse_chord("ControlOrMeta+Alt+Meta+x").unwrap();
        assert_eq!(modifiers, 7);
        let (modifiers, key) = parse_chord("+").unwrap();
        assert_eq!((modifiers, &*key.text), (0, "+"));
        let (modifiers, key) = parse_chord("Control++").unwrap();
        assert_eq!((modifiers, &*key.key), (2, "+"));
        assert_eq!(Key::parse("enter").unwrap().text, "\r");
        assert_eq!(Key::parse("ü").unwrap().text, "ü");
        assert!(Key::parse("Entre").is_err() && Key::parse("").is_err());
    }
}
