//! The commands about policy, approvals, secrets and grants.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use mimir_core::needs::{NeedKind, SecretNeed};
use mimir_core::network::HostPattern;

use crate::arguments::ArgumentInput;
use crate::exit::CommandFailure;

#[derive(Debug, Subcommand)]
pub(super) enum PolicyArgs {
    /// Explain what would be decided about a call, and why, without running it
    #[command(after_help = "Example: mimir policy explain delete_file path=notes.md")]
    Explain {
        /// Name or alias
        #[arg(value_name = "TOOL")]
        tool: String,
        /// JSON, `-`, or key=value arguments, as in `mimir call`
        #[arg(value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Check the rules: run their examples, and report conditions that can never be true
    Check {
        /// Check again whenever a file changes, until Ctrl-C
        #[arg(short, long)]
        watch: bool,
    },
    /// Accept the project's settings in full, as they are now
    #[command(after_help = "\
Restrictions in a project's .mimir/config.yml always apply. Anything in it that allows, lifts or reveals \
something applies only after you have accepted the file on this machine, because it may have come with a \
checkout. After each change it has to be accepted again. The same holds for worker files: until accepted, \
they are neither run nor shown to a model.")]
    Accept {
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

/// Commands of `mimir policy`.
#[derive(Debug, PartialEq)]
pub enum PolicyCommand {
    /// Explain a decision.
    Explain {
        /// Name or alias.
        tool: String,
        /// The arguments as typed.
        words: ArgumentInput,
    },
    /// Check the rules.
    Check {
        /// Watch the files and check again.
        watch: bool,
    },
    /// Accept the project's settings.
    Accept {
        /// Skip the question.
        yes: bool,
    },
}

impl PolicyArgs {
    pub(super) fn into_command(self) -> Result<PolicyCommand, CommandFailure> {
        Ok(match self {
            Self::Explain { tool, arguments } => PolicyCommand::Explain {
                tool,
                words: ArgumentInput::parse(arguments)?,
            },
            Self::Check { watch } => PolicyCommand::Check { watch },
            Self::Accept { yes } => PolicyCommand::Accept { yes },
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsArgs {
    /// List the stored approvals of this workspace
    List,
    /// Revoke approvals
    Revoke {
        /// IDs, as the list shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// All approvals
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}

/// Commands of `mimir approvals`.
#[derive(Debug, PartialEq)]
pub enum ApprovalsCommand {
    /// List approvals.
    List,
    /// Revoke these; an empty list means all.
    Revoke(Vec<String>),
}

impl ApprovalsArgs {
    pub(super) fn into_command(self) -> ApprovalsCommand {
        match self {
            Self::List => ApprovalsCommand::List,
            Self::Revoke { ids, .. } => ApprovalsCommand::Revoke(ids),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretsArgs {
    /// List the names; never the values
    List,
    /// Store a value, read from stdin or typed without echo
    #[command(after_help = "\
Examples:
  mimir secrets set GITHUB_TOKEN            prompts for the value
  pass show github | mimir secrets set GITHUB_TOKEN")]
    Set {
        /// Letters, digits, `_`, `-` and `.`
        #[arg(value_name = "NAME")]
        name: String,
        /// Store in the file, even if a keyring is available
        #[arg(long = "file")]
        in_file: bool,
        // Accepted so that no error message repeats a value typed in the wrong place.
        #[arg(hide = true)]
        on_the_line: Vec<OsString>,
    },
    /// Delete a value
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Commands of `mimir secrets`.
#[derive(Debug, PartialEq)]
pub enum SecretsCommand {
    /// List the names.
    List,
    /// Store a value.
    Set {
        /// Its name.
        name: String,
        /// True if the value is stored in the file, not the keyring.
        in_file: bool,
        /// True if a value was typed on the command line, where it does not belong.
        on_the_line: bool,
    },
    /// Delete a value.
    Remove {
        /// Its name.
        name: String,
    },
}

impl SecretsArgs {
    pub(super) fn into_command(self) -> SecretsCommand {
        match self {
            Self::List => SecretsCommand::List,
            Self::Set {
                name,
                in_file,
                on_the_line,
            } => SecretsCommand::Set {
                name,
                in_file,
                on_the_line: !on_the_line.is_empty(),
            },
            Self::Remove { name } => SecretsCommand::Remove { name },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ToolsAddArgs {
    /// The component file, or a URL to download it from
    #[arg(value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Expected SHA-256 of the file, in hex; required for a URL
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    digest: Option<String>,
    /// Replace a tool with the same file name
    #[arg(short, long)]
    force: bool,
    /// Prefix for the names of its tools, such as `fs_`
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Option<String>,
}

/// Arguments of `mimir tools add`.
#[derive(Debug, PartialEq)]
pub struct ToolsAddCommand {
    /// The component, or its URL.
    pub file: PathBuf,
    /// Expected SHA-256, in lower-case hex.
    pub digest: Option<String>,
    /// True if a tool with the same file name is replaced.
    pub force: bool,
    /// Prefix for the names of its tools.
    pub prefix: Option<String>,
}

impl ToolsAddArgs {
    pub(super) fn into_command(self) -> ToolsAddCommand {
        ToolsAddCommand {
            file: self.file,
            digest: self.digest,
            force: self.force,
            prefix: self.prefix,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Shows the rights that the plugin requests and asks for confirmation. Without a terminal, confirm with the \
digest of the build, as `mimir tools info NAME` shows it:
  mimir tools trust word_count --digest 9f86d081…
A component that was not written for mimir requests nothing. Name its rights here; rights named before
stay, unless you name others of the same kind now:
  mimir tools trust http_client --host api.example.com
  mimir tools trust filesystem --read docs --write out --prefix fs_
  mimir tools trust weather --config units=metric --config key=secret:WEATHER \\
      --secret WEATHER@api.example.com:x-api-key")]
pub(super) struct ToolsTrustArgs {
    /// Name or alias of one of its tools, or its file name
    #[arg(value_name = "NAME")]
    name: String,
    /// Digest of the build to trust, instead of a question
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    digest: Option<String>,
    /// Kinds of rights to withhold
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    without: Vec<NeedKindArg>,
    /// A host that it may reach
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<HostPattern>,
    /// A workspace folder that it may read, `.` for the whole workspace
    #[arg(long = "read", value_name = "DIR", value_hint = ValueHint::DirPath)]
    reads: Vec<PathBuf>,
    /// A workspace folder that it may read and write
    #[arg(long = "write", value_name = "DIR", value_hint = ValueHint::DirPath)]
    writes: Vec<PathBuf>,
    /// An environment variable; not for secrets
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    variables: Vec<(String, String)>,
    /// A value of its wasi:config/store; `secret:NAME` is the placeholder of a secret
    #[arg(long = "config", value_name = "KEY=VALUE", value_parser = pair)]
    config: Vec<(String, String)>,
    /// A secret that is sent to one host in one header; the variable NAME holds a placeholder
    #[arg(long = "secret", value_name = "NAME@HOST:HEADER", value_parser = secret)]
    secrets: Vec<SecretNeed>,
    /// Prefix for the names of its tools, such as `fs_`; an empty text removes it
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    prefix: Option<String>,
}

/// Arguments of `mimir tools trust`.
#[derive(Debug, PartialEq)]
pub struct ToolsTrustCommand {
    /// A tool or a file.
    pub name: String,
    /// Digest of the build to trust, in lower-case hex.
    pub digest: Option<String>,
    /// Kinds of rights to withhold.
    pub without: Vec<NeedKind>,
    /// Hosts for a component that cannot request any.
    pub hosts: Vec<HostPattern>,
    /// Folders that it may read.
    pub reads: Vec<PathBuf>,
    /// Folders that it may read and write.
    pub writes: Vec<PathBuf>,
    /// Variables of its environment.
    pub variables: Vec<(String, String)>,
    /// Values of its `wasi:config/store`.
    pub config: Vec<(String, String)>,
    /// Secrets that are sent on its behalf.
    pub secrets: Vec<SecretNeed>,
    /// Prefix for the names of its tools.
    pub prefix: Option<String>,
}

impl ToolsTrustArgs {
    pub(super) fn into_command(self) -> ToolsTrustCommand {
        let mut without: Vec<NeedKind> = self.without.into_iter().map(NeedKind::from).collect();
        without.sort();
        without.dedup();
        ToolsTrustCommand {
            name: self.name,
            digest: self.digest,
            without,
            hosts: self.hosts,
            reads: self.reads,
            writes: self.writes,
            variables: self.variables,
            config: self.config,
            secrets: self.secrets,
            prefix: self.prefix,
        }
    }
}

/// A kind of need, as typed on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NeedKindArg {
    Files,
    Hosts,
    Commands,
    Secrets,
    Variables,
    Tools,
    Model,
}

impl From<NeedKindArg> for NeedKind {
    fn from(kind: NeedKindArg) -> Self {
        match kind {
            NeedKindArg::Files => Self::Files,
            NeedKindArg::Hosts => Self::Hosts,
            NeedKindArg::Commands => Self::Commands,
            NeedKindArg::Secrets => Self::Secrets,
            NeedKindArg::Variables => Self::Variables,
            NeedKindArg::Tools => Self::Tools,
            NeedKindArg::Model => Self::Model,
        }
    }
}

/// A name and a value.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Parses `NAME@HOST:HEADER`: a secret, its host, and the header that carries it.
fn secret(text: &str) -> Result<SecretNeed, String> {
    let parts = text.split_once('@');
    let parts = parts.and_then(|(name, rest)| Some((name, rest.rsplit_once(':')?)));
    let Some((name, (host, header))) = parts else {
        return Err(
            "expected NAME@HOST:HEADER, such as WEATHER@api.example.com:x-api-key".to_owned(),
        );
    };
    let is_header = |c: u8| c.is_ascii_alphanumeric() || b"-_".contains(&c);
    if name.is_empty() || header.is_empty() || !header.bytes().all(is_header) {
        return Err("expected a name, a host and the name of a header".to_owned());
    }
    let pattern: HostPattern = host.parse().map_err(|error| format!("{error}"))?;
    Ok(SecretNeed {
        name: name.to_owned(),
        host: pattern.to_string(),
        header: header.to_ascii_lowercase(),
        reason: "named by a person".to_owned(),
    })
}

/// Longest prefix: half of the longest tool name.
const PREFIX_MOST: usize = 32;

/// Parses a prefix for tool names. The empty text is allowed.
fn prefix(text: &str) -> Result<String, String> {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    if text.len() > PREFIX_MOST || !text.bytes().all(good) {
        return Err(format!(
            "expected at most {PREFIX_MOST} characters of a-z, 0-9 and _"
        ));
    }
    Ok(text.to_owned())
}

/// Parses 64 hex digits, with or without a leading `sha256:`.
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
    fn trust_arguments_parse_pairs_secrets_and_prefixes() {
        assert_eq!(pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(pair("A").is_err() && pair("=b").is_err());
        let need = secret("KEY@api.example.com:8443:X-Api-Key").unwrap();
        let parts = (need.name.as_str(), need.host.as_str(), need.header.as_str());
        assert_eq!(parts, ("KEY", "api.example.com:8443", "x-api-key"));
        for bad in [
            "KEY",
            "KEY@host",
            "@host:header",
            "KEY@host:",
            "KEY@host:a b",
        ] {
            assert!(secret(bad).is_err(), "{bad}");
        }
        assert!(prefix("fs_").is_ok() && prefix("").is_ok());
        for bad in ["Fs_", "fs-", &"x".repeat(33)] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn digest_argument_takes_64_hex_digits() {
        let hex = "AB".repeat(32);
        assert_eq!(digest(&hex), Ok(hex.to_lowercase()));
        assert_eq!(digest(&format!("sha256:{hex}")), Ok(hex.to_lowercase()));
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
            assert!(digest(bad).is_err(), "{bad}");
        }
    }
}
