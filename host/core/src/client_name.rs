//! The name of the program that makes calls, for people.

use std::fmt;
use std::sync::Arc;

use crate::text;

/// The name of the program that makes a call, such as `claude-code 2.1`. A stranger may have written it, so it proves
/// nothing. It is one line without control characters, of at most [`Self::MAX_CHARS`] characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// Maximum length in characters.
    pub const MAX_CHARS: usize = 64;

    /// Creates a name from any text. `None` if it is blank.
    ///
    /// ```
    /// # use mimir_core::client_name::ClientName;
    /// let name = ClientName::new("story-agent\n1.0").unwrap();
    /// assert_eq!(name.as_str(), "story-agent 1.0");
    /// assert_eq!(ClientName::new(" "), None);
    /// ```
    pub fn new(text: &str) -> Option<Self> {
        let shown = text::visible(text::prefix(text.trim(), Self::MAX_CHARS));
        // Hidden characters are longer once they are visible.
        let shown = text::prefix(shown.trim(), Self::MAX_CHARS);
        (!shown.is_empty()).then(|| Self(shown.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_names_are_short_lines_without_hidden_characters() {
        for text in ["", " \n\t"] {
            assert_eq!(ClientName::new(text), None, "{text:?}");
        }
        let long = "x".repeat(1 << 20);
        assert_eq!(ClientName::new(&long).unwrap().as_str().len(), 64);
        let hidden = "\u{202e}\u{200b}\u{1b}[31m".repeat(40);
        let shown = ClientName::new(&hidden).map(|name| name.to_string());
        let shown = shown.unwrap_or_default();
        assert!(shown.chars().count() <= ClientName::MAX_CHARS, "{shown}");
        assert!(
            !shown.contains(['\u{202e}', '\u{200b}', '\u{1b}']),
            "{shown:?}"
        );
    }
}
