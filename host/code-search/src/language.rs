//! Programming languages: detection by file name, and the lexical rules by which strings and comments are recognized.

/// A language whose definitions are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceLanguage {
    /// C; headers, too.
    C,
    /// C++.
    Cpp,
    /// C#.
    CSharp,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript.
    JavaScript,
    /// Kotlin.
    Kotlin,
    /// PHP.
    Php,
    /// Python.
    Python,
    /// Ruby.
    Ruby,
    /// Rust.
    Rust,
    /// Shell scripts.
    Shell,
    /// Swift.
    Swift,
    /// TypeScript.
    TypeScript,
    /// Zig.
    Zig,
}

/// All languages, in the order of their codes in a stored index. New ones are appended.
pub const LANGUAGES: [SourceLanguage; 15] = [
    SourceLanguage::C,
    SourceLanguage::Cpp,
    SourceLanguage::CSharp,
    SourceLanguage::Go,
    SourceLanguage::Java,
    SourceLanguage::JavaScript,
    SourceLanguage::Kotlin,
    SourceLanguage::Php,
    SourceLanguage::Python,
    SourceLanguage::Ruby,
    SourceLanguage::Rust,
    SourceLanguage::Shell,
    SourceLanguage::Swift,
    SourceLanguage::TypeScript,
    SourceLanguage::Zig,
];

/// The meaning of a single quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SingleQuote {
    /// It encloses a string.
    Text,
    /// It encloses one character.
    Character,
    /// It encloses one character, or begins the name of a lifetime.
    CharacterOrLifetime,
}

/// The meaning of a backtick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backtick {
    /// None.
    Other,
    /// It encloses a string without escapes.
    Raw,
    /// It encloses a template with `${…}`.
    Template,
    /// It encloses a name.
    Name,
}

/// The lexical rules of a language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LexicalRules {
    /// The beginnings of comments up to the end of the line.
    pub(crate) line_comments: &'static [&'static str],
    /// True for comments between `/*` and `*/`.
    pub(crate) block_comments: bool,
    /// True if these comments nest.
    pub(crate) nested_comments: bool,
    pub(crate) single_quote: SingleQuote,
    pub(crate) backtick: Backtick,
    /// True if three double quotes enclose a string.
    pub(crate) triple_quotes: bool,
    /// True if a string between double quotes may have several lines.
    pub(crate) multiline_strings: bool,
    /// The beginning of an expression in a string, which a closing bracket ends.
    pub(crate) interpolation: Option<&'static str>,
    /// True if `$` is part of names.
    pub(crate) dollar_names: bool,
    /// True if `/` may begin a regular expression.
    pub(crate) regex_literals: bool,
}

const C_RULES: LexicalRules = LexicalRules {
    line_comments: &["//"],
    block_comments: true,
    nested_comments: false,
    single_quote: SingleQuote::Character,
    backtick: Backtick::Other,
    triple_quotes: false,
    multiline_strings: false,
    interpolation: None,
    dollar_names: false,
    regex_literals: false,
};

impl SourceLanguage {
    /// Detects the language of a file by its name. `None` for other files, in which only words are found.
    pub fn of_file(name: &str) -> Option<Self> {
        let extension = name.rsplit_once('.')?.1;
        Self::of_extension(&extension.to_ascii_lowercase())
    }

    fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension {
            "c" | "h" => Self::C,
            "cc" | "cpp" | "cxx" | "c++" | "hh" | "hpp" | "hxx" | "h++" | "ipp" | "inl" | "cu"
            | "cuh" | "ino" => Self::Cpp,
            "cs" | "csx" => Self::CSharp,
            "go" => Self::Go,
            "java" => Self::Java,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "kt" | "kts" => Self::Kotlin,
            "php" | "phtml" | "php5" | "php7" => Self::Php,
            "py" | "pyi" | "pyw" => Self::Python,
            "rb" | "rake" | "gemspec" => Self::Ruby,
            "rs" => Self::Rust,
            "sh" | "bash" | "zsh" | "ksh" | "bats" => Self::Shell,
            "swift" => Self::Swift,
            "ts" | "mts" | "cts" | "tsx" => Self::TypeScript,
            "zig" => Self::Zig,
            _ => return None,
        })
    }

    /// Returns C++ for a header of C++, which has the extension of C.
    pub(crate) fn by_content(self, text: &str) -> Self {
        let is_cpp = |line: &str| {
            let begins = |word: &str| line.starts_with(word);
            begins("namespace ") || begins("class ") || begins("template") || begins("using ")
        };
        if self == Self::C && text.lines().any(is_cpp) {
            Self::Cpp
        } else {
            self
        }
    }

    /// Finds a language by its name, or by the extension of its files.
    pub fn find(name: &str) -> Option<Self> {
        let name = name.trim().trim_start_matches('.').to_ascii_lowercase();
        let by_name = LANGUAGES.into_iter().find(|known| known.name() == name);
        by_name.or_else(|| match name.as_str() {
            "c#" => Some(Self::CSharp),
            "golang" => Some(Self::Go),
            "node" => Some(Self::JavaScript),
            extension => Self::of_extension(extension),
        })
    }

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "c++",
            Self::CSharp => "csharp",
            Self::Go => "go",
            Self::Java => "java",
            Self::JavaScript => "javascript",
            Self::Kotlin => "kotlin",
            Self::Php => "php",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
            Self::Shell => "shell",
            Self::Swift => "swift",
            Self::TypeScript => "typescript",
            Self::Zig => "zig",
        }
    }

    pub(crate) fn lexical_rules(self) -> LexicalRules {
        match self {
            Self::C | Self::Cpp => C_RULES,
            Self::CSharp => LexicalRules {
                triple_quotes: true,
                ..C_RULES
            },
            Self::Java => LexicalRules {
                triple_quotes: true,
                dollar_names: true,
                ..C_RULES
            },
            Self::Go => LexicalRules {
                backtick: Backtick::Raw,
                ..C_RULES
            },
            Self::JavaScript | Self::TypeScript => LexicalRules {
                single_quote: SingleQuote::Text,
                backtick: Backtick::Template,
                dollar_names: true,
                regex_literals: true,
                ..C_RULES
            },
            Self::Kotlin => LexicalRules {
                nested_comments: true,
                backtick: Backtick::Name,
                triple_quotes: true,
                interpolation: Some("${"),
                ..C_RULES
            },
            Self::Swift => LexicalRules {
                nested_comments: true,
                backtick: Backtick::Name,
                triple_quotes: true,
                interpolation: Some("\\("),
                ..C_RULES
            },
            Self::Php => LexicalRules {
                line_comments: &["//", "#"],
                single_quote: SingleQuote::Text,
                backtick: Backtick::Raw,
                multiline_strings: true,
                dollar_names: true,
                ..C_RULES
            },
            Self::Rust => LexicalRules {
                nested_comments: true,
                single_quote: SingleQuote::CharacterOrLifetime,
                multiline_strings: true,
                ..C_RULES
            },
            Self::Zig => LexicalRules {
                // A string of several lines begins each line with `\\`.
                line_comments: &["//", "\\\\"],
                block_comments: false,
                ..C_RULES
            },
            Self::Python => LexicalRules {
                line_comments: &["#"],
                block_comments: false,
                single_quote: SingleQuote::Text,
                triple_quotes: true,
                ..C_RULES
            },
            Self::Ruby => LexicalRules {
                line_comments: &["#"],
                block_comments: false,
                single_quote: SingleQuote::Text,
                backtick: Backtick::Raw,
                multiline_strings: true,
                interpolation: Some("#{"),
                regex_literals: true,
                ..C_RULES
            },
            Self::Shell => LexicalRules {
                line_comments: &["#"],
                block_comments: false,
                single_quote: SingleQuote::Text,
                backtick: Backtick::Raw,
                multiline_strings: true,
                ..C_RULES
            },
        }
    }
}
