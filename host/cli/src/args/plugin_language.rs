//! Languages of plugins, as `--lang` names them.

use clap::ValueEnum;

/// Language of a plugin's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PluginLanguage {
    /// Rust
    Rust,
    /// TypeScript
    #[value(name = "ts")]
    TypeScript,
    /// JavaScript
    #[value(name = "js")]
    JavaScript,
    /// Python
    Python,
    /// Go
    Go,
    /// C
    C,
    /// C++
    Cpp,
    /// Zig
    Zig,
}

impl PluginLanguage {
    /// All languages.
    pub const ALL: [Self; 8] = [
        Self::Rust,
        Self::TypeScript,
        Self::JavaScript,
        Self::Python,
        Self::Go,
        Self::C,
        Self::Cpp,
        Self::Zig,
    ];

    /// Returns the name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::TypeScript => "ts",
            Self::JavaScript => "js",
            Self::Python => "python",
            Self::Go => "go",
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Zig => "zig",
        }
    }

    /// Returns the name in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::TypeScript => "TypeScript",
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Zig => "Zig",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_language_names_are_those_of_the_command_line() {
        for language in PluginLanguage::ALL {
            let parsed = PluginLanguage::from_str(language.as_str(), false);
            assert_eq!(parsed, Ok(language));
        }
    }
}
