//! Arguments of `mimir skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::ClusterScope;
use super::tools::{PushTargetArgs, digest};

/// Commands of `mimir skills`.
#[derive(Debug, PartialEq, Default, Subcommand)]
pub enum SkillsCommand {
    /// List the skills of the workspace and their state
    #[default]
    List,
    /// Show everything about a skill, and what it requests
    Info {
        /// Name of the skill
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Install a skill into .mimir/skills, and pin its files in tools.lock
    Add(SkillsAddArgs),
    /// Accept the instructions of a skill as your own, and grant the tools that it requests
    Trust(SkillsTrustArgs),
    /// Check the files of all skills against tools.lock, offline
    Verify,
    /// Get the newest content of skills from their registry, folder or archive
    Update {
        /// Name of the skill [default: all]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Publish a skill in a registry
    Push(SkillsPushArgs),
    /// Remove a skill, with your consent to it, here and in the cluster that you name
    Remove {
        /// Name of the skill
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        scope: ClusterScope,
    },
}

/// Arguments of `mimir skills add`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
The content of an added skill counts as untrusted: models see its name and can load it, marked as content from \
outside. `mimir skills trust NAME` accepts its instructions and grants what it requests.

Examples:
  mimir skills add ./pdf-forms
  mimir skills add .agents/skills/pdf-forms          pin it where it is
  mimir skills add registry.example.com/acme/pdf-forms:1.2
  mimir skills add https://example.com/pdf-forms.tar.gz --digest 9f86d081…")]
pub struct SkillsAddArgs {
    /// The skill's folder, an archive of it (tar, tar.gz), a URL of an archive, or a reference in a registry
    #[arg(value_name = "DIR|FILE|URL|REF", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    /// Expected SHA-256 of the archive, in hex; required for a URL
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub digest: Option<String>,
    /// Replace an installed skill with the same name
    #[arg(short, long)]
    pub force: bool,
}

/// Arguments of `mimir skills trust`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
Shows the instructions, the files, and the entries of `allowed-tools` as mimir understands them, and asks for \
confirmation. Without a terminal, confirm with the digest of the content, as `mimir skills info NAME` shows it:
  mimir skills trust pdf-forms --digest 9f86d081…
What you grant answers the questions of mimir's own defaults, in sessions that have loaded the skill. Your rules, \
those of your team, and denials keep their effect:
  mimir skills trust release --without 'Bash(git push:*)'")]
pub struct SkillsTrustArgs {
    /// Name of the skill
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Digest of the content to trust, instead of a confirmation
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub digest: Option<String>,
    /// An entry of allowed-tools to withhold; may be repeated
    #[arg(long, value_name = "ENTRY")]
    pub without: Vec<String>,
    #[command(flatten)]
    pub scope: ClusterScope,
}

/// Arguments of `mimir skills push`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
`mimir skills add REF` installs it on another machine. `--sign` adds a signature, which others check with the public \
key (mimir help signatures). The login is that of Docker:
  mimir skills push ./pdf-forms registry.example.com/acme/pdf-forms:1.2 --sign acme")]
pub struct SkillsPushArgs {
    /// The skill's folder, an archive of it, or the name of a skill of the workspace
    #[arg(value_name = "DIR|FILE|NAME", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    #[command(flatten)]
    pub target: PushTargetArgs,
}
