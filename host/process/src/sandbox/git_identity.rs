//! Author of git commits: the name and address from the user's git settings; nothing else is read.

#[cfg(target_os = "linux")]
use std::fmt::Write as _;
use std::path::Path;

use mimir_core::files::{self, LinkPolicy};

use crate::git::GitConfig;

/// Maximum size of a settings file in bytes; handwritten files are smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The name and address of a git user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitIdentity {
    name: Option<String>,
    email: Option<String>,
}

impl GitIdentity {
    /// Reads the git settings in this home directory.
    pub(super) fn read_from(home: &Path) -> Self {
        let mut identity = Self::default();
        // The second file takes precedence over the first, as in git.
        for file in [".config/git/config", ".gitconfig"] {
            if let Ok(text) = files::read_text(&home.join(file), LinkPolicy::Follow, MAX_FILE_BYTES)
            {
                let file_identity = Self::parse(&text);
                identity.name = file_identity.name.or(identity.name);
                identity.email = file_identity.email.or(identity.email);
            }
        }
        identity
    }

    /// Parses the text of a file.
    fn parse(text: &str) -> Self {
        let config = GitConfig::parse(text);
        let value = |key: &str| {
            // A line end would begin another setting in the generated file.
            let value = config.value("user", key)?.replace(char::is_control, "");
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        Self {
            name: value("name"),
            email: value("email"),
        }
    }

    /// Returns the present git settings with their values.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        [("user.name", &self.name), ("user.email", &self.email)]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }

    /// Returns the text of the system-wide git settings file in the sandbox.
    #[cfg(target_os = "linux")]
    pub(super) fn settings(&self) -> String {
        let mut text = String::new();
        if self.name.is_some() || self.email.is_some() {
            text.push_str("[user]\n");
        }
        for (key, value) in [("name", &self.name), ("email", &self.email)] {
            if let Some(value) = value {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                let _ = writeln!(text, "\t{key} = \"{value}\"");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_identity_has_only_name_and_email() {
        let identity = GitIdentity::parse(
            "[core]\n\tpager = sh\n\tname = no\n[user]\n name = \"Ann \\\"A\\\" Other\" # me\n\temail=ann@example.com\n\
             [user \"x\"]\n\tname = no\n[alias]\n\tx = !sh\n",
        );
        assert_eq!(identity.name.as_deref(), Some("Ann \"A\" Other"));
        assert_eq!(identity.email.as_deref(), Some("ann@example.com"));
        assert_eq!(
            identity.settings(),
            "[user]\n\tname = \"Ann \\\"A\\\" Other\"\n\temail = \"ann@example.com\"\n"
        );
        let parsed_again = GitIdentity::parse(&identity.settings());
        assert_eq!(parsed_again, identity);
        assert_eq!(GitIdentity::default().settings(), "");
    }

    #[test]
    fn git_identity_is_empty_without_a_gitconfig() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(GitIdentity::read_from(home.path()), GitIdentity::default());
        std::fs::write(home.path().join(".gitconfig"), "[USER]\nName = Bob\n").unwrap();
        assert_eq!(
            GitIdentity::read_from(home.path()).name.as_deref(),
            Some("Bob")
        );
    }
}
