//! Languages of source code, as named in settings and arguments.
//!
//! Out of scope: engines and interpreters. The crate `mimir-script` has the tool `run_code`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A language of source code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CodeLanguage {
    /// Python 3.
    Python,
    /// Bash.
    Bash,
    /// JavaScript.
    #[serde(alias = "js")]
    Javascript,
}

impl CodeLanguage {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::Python, Self::Bash, Self::Javascript];

    /// Returns the spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Bash => "bash",
            Self::Javascript => "javascript",
        }
    }

    /// Returns the program name of the interpreter.
    pub const fn interpreter(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Bash => "bash",
            Self::Javascript => "node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_language_names_round_trip_through_json() {
        for language in CodeLanguage::ALL {
            let json = serde_json::to_value(language).unwrap();
            assert_eq!(json, language.as_str());
            assert_eq!(
                serde_json::from_value::<CodeLanguage>(json).unwrap(),
                language
            );
        }
        let read = serde_json::from_str::<CodeLanguage>("\"js\"");
        assert_eq!(read.unwrap(), CodeLanguage::Javascript);
        assert!(serde_json::from_str::<CodeLanguage>("\"perl\"").is_err());
    }
}
