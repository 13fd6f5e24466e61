//! Shells, and interpreters of other languages.

/// Shells whose scripts are parsed.
pub(crate) const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"];

/// Shells whose scripts are not parsed, since their syntax is too different.
pub(crate) const FOREIGN_SHELLS: &[&str] = &["fish", "pwsh"];

/// Interpreters that run their standard input without a file argument.
pub(crate) const LANGUAGES: &[&str] = &[
    "lua", "node", "perl", "php", "python", "python2", "python3", "ruby",
];
