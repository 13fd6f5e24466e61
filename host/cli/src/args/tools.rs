//! Arguments of `mimir tools`, and of `/tools` in a chat.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueHint};
use mimir_core::ToolError;

use super::parse::one_line_message;
use super::{ClusterScope, DefinitionFormat, ToolLanguage};

mod add;
mod build;
mod export;
mod import;
mod registries;
mod test;
mod trust;

pub use add::ToolsAddArgs;
pub(super) use add::digest;
pub use build::{PluginSourceArgs, ToolsBuildArgs};
pub use export::ToolsExportArgs;
pub use import::{OpenApiImportArgs, ToolsImportCommand};
pub use registries::{PushTargetArgs, ToolsPushArgs, ToolsUpdateArgs};
pub use test::{ToolsDevArgs, ToolsTestArgs};
pub use trust::{ToolsTrustArgs, secret_need};

/// Commands of `mimir tools`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum ToolsCommand {
    #[command(flatten)]
    ToolList(ToolListCommand),
    /// Write a new plugin in one of eight languages, or a tool in a YAML file
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
    /// Print the TypeScript types available to the code of a tool in a YAML file
    Types,
    /// Check a tool in a YAML file for errors, without running it
    Check {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Compile a plugin and install it into .mimir/tools
    Build(ToolsBuildArgs),
    /// Build a plugin without installing it, run its unit tests, and call it as its cases.yml says
    Test(ToolsTestArgs),
    /// Build, install and test a plugin, and again after each change of its sources
    Dev(ToolsDevArgs),
    /// Install a component into .mimir/tools
    Add(ToolsAddArgs),
    /// Publish a component or a catalog in a registry
    Push(ToolsPushArgs),
    /// Replace components from a registry by what their tags name now
    Update(ToolsUpdateArgs),
    /// Check the files in .mimir/tools against tools.lock, without the network
    Verify,
    /// Fetch missing components of tools.lock, and pin unknown ones, so that a clone works offline
    Vendor,
    /// Write a component in the formats of other programs: OCI, MCP bundle, Claude Code plugin, Agent Skill
    Export(ToolsExportArgs),
    /// Make tools from a description of another system
    Import {
        /// Kind of the description
        #[command(subcommand)]
        command: ToolsImportCommand,
    },
    /// Grant a plugin the rights that it needs
    Trust(ToolsTrustArgs),
    /// Remove a tool from .mimir/tools, with its grant and stored data
    Remove {
        /// Name of the tool, or its file name
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Revoke the grant of a plugin
    Revoke {
        /// Name or alias of one of its tools, or its file name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        scope: ClusterScope,
    },
}

/// Commands of `mimir tools` that `/tools` in a chat also has.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ToolListCommand {
    /// List the tools and what each costs in a prompt
    List {
        /// Count tokens of the definitions in this client format
        #[arg(long, value_enum, default_value_t = DefinitionFormat::Openai)]
        format: DefinitionFormat,
    },
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
        /// Count tokens of the definitions in this client format
        #[arg(long, value_enum, default_value_t = DefinitionFormat::Openai)]
        format: DefinitionFormat,
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
}

impl Default for ToolListCommand {
    fn default() -> Self {
        Self::List {
            format: DefinitionFormat::Openai,
        }
    }
}

/// A `/tools` line in a chat.
#[derive(Debug, Parser)]
#[command(name = "/tools", no_binary_name = true, disable_help_flag = true)]
struct ToolsLine {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
}

impl ToolListCommand {
    /// Parses the arguments of `/tools` in a chat.
    pub fn parse(arguments: &str) -> Result<Self, ToolError> {
        let line = ToolsLine::try_parse_from(arguments.split_whitespace()).map_err(|error| {
            ToolError::invalid_input(one_line_message(&error.render().to_string()))
        })?;
        match line.command {
            None => Ok(Self::default()),
            Some(ToolsCommand::ToolList(command)) => Ok(command),
            Some(_) => Err(ToolError::invalid_input(
                "this command is not available in a chat: run it in a shell, as `mimir tools`",
            )),
        }
    }
}
