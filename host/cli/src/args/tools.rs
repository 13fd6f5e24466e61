//! `mimir tools`, and `/tools` in a chat.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use mimir_core::{ToolError, ToolErrorCode};

use super::invocation::sentence;
use super::{CliCommand, DefinitionFormat, ToolLanguage, access};

#[derive(Debug, Subcommand)]
pub(super) enum ToolsArgs {
    /// List the tools and what each costs in a prompt
    List(ToolsCostArgs),
    /// Switch a tool on, in the config
    Enable {
        /// Name or alias
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Switch a tool off, in the config: it is neither listed nor callable
    Disable {
        /// Name or alias
        #[arg(value_name = "NAME")]
        name: String,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Show everything about a tool, or why a file in .mimir/tools was skipped
    Info {
        /// Name, alias, or file name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show what each tool costs in a prompt, most expensive first
    Tokens {
        #[command(flatten)]
        cost: ToolsCostArgs,
        /// Suggest savings: costly descriptions, near-duplicate tools, tools that are never called
        #[arg(long)]
        advise: bool,
    },
    /// Search tools by words in their names and descriptions
    Search {
        /// Search words
        #[arg(value_name = "WORDS", required = true)]
        words: Vec<String>,
    },
    /// Write a new plugin in Rust or TypeScript, or a tool in a YAML file
    New {
        /// Letters, digits, `_` and `-`
        #[arg(value_name = "NAME")]
        name: String,
        /// Language of the tool
        #[arg(long, value_enum, default_value_t = ToolLanguage::Rust)]
        lang: ToolLanguage,
        /// Target folder or file [default: NAME; a file in .mimir/tools]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of a tool in a YAML file
    Schema,
    /// Print the TypeScript types available to the code of such a tool
    Types,
    /// Check a tool in a YAML file for errors, without running it
    Check {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Compile a plugin and install it into .mimir/tools
    Build {
        /// The plugin's folder, or a TypeScript file
        #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
        dir: PathBuf,
    },
    /// Install a component into .mimir/tools
    Add(access::ToolsAddArgs),
    /// Grant a plugin the rights that it needs
    Trust(access::ToolsTrustArgs),
    /// Remove a tool from .mimir/tools, with its grant and stored data
    Remove {
        /// Name of the tool, or its file name
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Revoke the grant of a plugin
    Revoke {
        /// Name or alias of one of its tools, or its file name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct ToolsCostArgs {
    /// Count tokens of the definitions in this client format
    #[arg(long, value_enum, default_value_t = DefinitionFormat::Openai)]
    format: DefinitionFormat,
}

/// Commands of `mimir tools` and of `/tools` in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsCommand {
    /// Open the tool browser. Without a terminal, print the list.
    Pick,
    /// Print the list.
    List(DefinitionFormat),
    /// Switch a tool on.
    Enable(String),
    /// Switch a tool off.
    Disable {
        /// Name or alias.
        name: String,
        /// True if the user settings are changed, not the project's.
        user: bool,
    },
    /// Show everything about a tool.
    Info(String),
    /// Show token costs.
    Tokens(DefinitionFormat),
    /// Suggest savings.
    Advise(DefinitionFormat),
    /// Search tools.
    Search(String),
}

/// A `/tools` line in a chat.
#[derive(Debug, Parser)]
#[command(name = "/tools", no_binary_name = true, disable_help_flag = true)]
struct ToolsLineArgs {
    #[command(subcommand)]
    command: Option<ToolsArgs>,
}

impl ToolsCommand {
    /// Parses the arguments of `/tools` in a chat.
    pub fn parse(words: &str) -> Result<Self, ToolError> {
        let bad = |message| ToolError::new(ToolErrorCode::InvalidInput, message);
        let line = ToolsLineArgs::try_parse_from(words.split_whitespace())
            .map_err(|error| bad(sentence(&error.render().to_string())))?;
        match line.command.map(ToolsArgs::into_command) {
            None => Ok(Self::List(DefinitionFormat::Openai)),
            Some(CliCommand::Tools(wish)) => Ok(wish),
            Some(_) => Err(bad(
                "this command is not available in a chat: run it in a shell, as `mimir tools`"
                    .to_owned(),
            )),
        }
    }
}

impl ToolsArgs {
    pub(super) fn into_command(self) -> CliCommand {
        CliCommand::Tools(match self {
            Self::List(cost) => ToolsCommand::List(cost.format),
            Self::Enable { name } => ToolsCommand::Enable(name),
            Self::Disable { name, user } => ToolsCommand::Disable { name, user },
            Self::Info { name } => ToolsCommand::Info(name),
            Self::Tokens { cost, advise: true } => ToolsCommand::Advise(cost.format),
            Self::Tokens { cost, .. } => ToolsCommand::Tokens(cost.format),
            Self::Search { words } => ToolsCommand::Search(words.join(" ")),
            Self::Check { file } => return CliCommand::ToolsCheck { file },
            Self::New { name, lang, dir } => return CliCommand::ToolsNew { name, dir, lang },
            Self::Schema => return CliCommand::ToolsSchema,
            Self::Types => return CliCommand::ToolsTypes,
            Self::Build { dir } => return CliCommand::ToolsBuild { dir },
            Self::Add(add) => return CliCommand::ToolsAdd(add.into_command()),
            Self::Trust(trust) => return CliCommand::ToolsTrust(trust.into_command()),
            Self::Remove { name, yes } => return CliCommand::ToolsRemove { name, yes },
            Self::Revoke { name } => return CliCommand::ToolsRevoke { name },
        })
    }
}
