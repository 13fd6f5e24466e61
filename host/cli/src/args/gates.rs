//! The commands with which a person speaks to the gates: rules, approvals and grants.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use mimir_core::needs::NeedKind;
use mimir_core::network::HostPattern;

use crate::arguments::Words;
use crate::exit::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum RawPolicy {
    /// Say what would be decided about a call, and why, without running it
    #[command(after_help = "Example: mimir policy explain delete_file path=notes.md")]
    Explain {
        /// Name or alias
        #[arg(value_name = "TOOL")]
        tool: String,
        /// JSON, `-`, or key=value words, as in `mimir call`
        #[arg(value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Check the rules: run their examples, and name what can never come true
    Check {
        /// Check again whenever a file changes, until Ctrl-C
        #[arg(short, long)]
        watch: bool,
    },
    /// Let the project's settings count in full, as they are now
    #[command(after_help = "\
What a project's .mimir/config.yml forbids always counts. What it allows, lifts or reveals counts after the
person at this machine has accepted it, because the file may have come with a checkout. After a change of the
file it has to be accepted anew. So have the files of workers: before that nobody is told what they say,
and none is run.")]
    Accept {
        /// Without being asked
        #[arg(short, long)]
        yes: bool,
    },
}

/// What `policy` is asked for.
#[derive(Debug, PartialEq)]
pub enum PolicyWish {
    /// Say what the rules say about a call.
    Explain {
        /// Name or alias.
        tool: String,
        /// Its arguments as they were typed.
        words: Words,
    },
    /// Check the rules.
    Check {
        /// Again and again.
        watch: bool,
    },
    /// Accept the project's settings.
    Accept {
        /// Without a question.
        yes: bool,
    },
}

impl RawPolicy {
    pub(super) fn typed(self) -> Result<PolicyWish, Failure> {
        Ok(match self {
            Self::Explain { tool, arguments } => PolicyWish::Explain {
                tool,
                words: Words::read(arguments)?,
            },
            Self::Check { watch } => PolicyWish::Check { watch },
            Self::Accept { yes } => PolicyWish::Accept { yes },
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum RawApprovals {
    /// Show what was approved for good in this workspace
    List,
    /// Take approvals back
    Revoke {
        /// Which, as the list shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

/// What `approvals` is asked for.
#[derive(Debug, PartialEq)]
pub enum ApprovalsWish {
    /// Show them.
    List,
    /// Take these back; none means all.
    Revoke(Vec<String>),
}

impl RawApprovals {
    pub(super) fn typed(self) -> ApprovalsWish {
        match self {
            Self::List => ApprovalsWish::List,
            Self::Revoke { ids, .. } => ApprovalsWish::Revoke(ids),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum RawSecrets {
    /// Show the names; never the values
    List,
    /// Keep a value, read from stdin or typed unseen
    #[command(after_help = "\
Examples:
  mimir secrets set GITHUB_TOKEN            asks for the value
  pass show github | mimir secrets set GITHUB_TOKEN")]
    Set {
        /// Letters, digits, `_`, `-` and `.`
        #[arg(value_name = "NAME")]
        name: String,
        /// In the file, even where there is a keyring
        #[arg(long = "file")]
        in_file: bool,
        // Taken so that no message repeats it.
        #[arg(hide = true)]
        on_the_line: Vec<OsString>,
    },
    /// Forget a value
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// What `secrets` is asked for.
#[derive(Debug, PartialEq)]
pub enum SecretsWish {
    /// Show the names.
    List,
    /// Keep a value.
    Set {
        /// Its name.
        name: String,
        /// Not in the keyring.
        in_file: bool,
        /// Whether something was written where a value does not belong.
        on_the_line: bool,
    },
    /// Forget a value.
    Remove {
        /// Its name.
        name: String,
    },
}

impl RawSecrets {
    pub(super) fn typed(self) -> SecretsWish {
        match self {
            Self::List => SecretsWish::List,
            Self::Set {
                name,
                in_file,
                on_the_line,
            } => SecretsWish::Set {
                name,
                in_file,
                on_the_line: !on_the_line.is_empty(),
            },
            Self::Remove { name } => SecretsWish::Remove { name },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct RawAdd {
    /// The component, or where it is to be fetched from
    #[arg(value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// What sha256 of the file has to be, in hex; a URL needs it
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    digest: Option<String>,
    /// Replace a tool of the same file name
    #[arg(short, long)]
    force: bool,
}

/// What `tools add` is asked for.
#[derive(Debug, PartialEq)]
pub struct AddWish {
    /// The component, or its URL.
    pub file: PathBuf,
    /// What sha256 of it has to be, in lower-case hex.
    pub digest: Option<String>,
    /// Whether a tool of the same file name is replaced.
    pub force: bool,
}

impl RawAdd {
    pub(super) fn typed(self) -> AddWish {
        AddWish {
            file: self.file,
            digest: self.digest,
            force: self.force,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Shows what the plugin asks for and asks for a yes. Without a terminal the yes is the digest of exactly the
build that is meant, as `mimir tools info NAME` shows it:
  mimir tools trust word_count --digest 9f86d081…
A component that was not written for mimir asks for nothing. Whom it may send requests to is said here:
  mimir tools trust http_client --host api.example.com")]
pub(super) struct RawTrust {
    /// Name or alias of one of its tools, or its file name
    #[arg(value_name = "NAME")]
    name: String,
    /// The build that is meant, instead of a question
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    digest: Option<String>,
    /// Kinds of needs that are not granted
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    without: Vec<Kind>,
    /// A host that it may reach, for a component that cannot ask for one itself; those of before stay unless some are
    /// named
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<HostPattern>,
}

/// What `tools trust` is asked for.
#[derive(Debug, PartialEq)]
pub struct TrustWish {
    /// A tool or a file.
    pub name: String,
    /// The build that is meant, in lower-case hex.
    pub digest: Option<String>,
    /// What is not granted.
    pub without: Vec<NeedKind>,
    /// Hosts for a component that cannot ask for any.
    pub hosts: Vec<HostPattern>,
}

impl RawTrust {
    pub(super) fn typed(self) -> TrustWish {
        let mut without: Vec<NeedKind> = self.without.into_iter().map(NeedKind::from).collect();
        without.sort();
        without.dedup();
        TrustWish {
            name: self.name,
            digest: self.digest,
            without,
            hosts: self.hosts,
        }
    }
}

/// A kind of need, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Files,
    Hosts,
    Commands,
    Secrets,
    Variables,
    Tools,
    Model,
}

impl From<Kind> for NeedKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Files => Self::Files,
            Kind::Hosts => Self::Hosts,
            Kind::Commands => Self::Commands,
            Kind::Secrets => Self::Secrets,
            Kind::Variables => Self::Variables,
            Kind::Tools => Self::Tools,
            Kind::Model => Self::Model,
        }
    }
}

/// 64 hex digits, with or without `sha256:` before them.
fn digest(text: &str) -> Result<String, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let good = hex.len() == 64 && hex.bytes().all(|c| c.is_ascii_hexdigit());
    if !good {
        return Err("a digest is 64 hex digits, as `sha256sum` prints them".to_owned());
    }
    Ok(hex.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_whole() {
        let hex = "AB".repeat(32);
        assert_eq!(digest(&hex), Ok(hex.to_lowercase()));
        assert_eq!(digest(&format!("sha256:{hex}")), Ok(hex.to_lowercase()));
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
            assert!(digest(bad).is_err(), "{bad}");
        }
    }
}
