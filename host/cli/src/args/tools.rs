//! `mimir tools`, and `/tools` in a chat.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use mimir_core::{Code, ToolError};

use super::typed::sentence;
use super::{Command, Format, Lang, gates};

#[derive(Debug, Subcommand)]
pub(super) enum RawTools {
    /// List the tools and what each costs in a prompt
    List(RawCost),
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
        cost: RawCost,
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
        #[arg(long, value_enum, default_value_t = Lang::Rust)]
        lang: Lang,
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
    Add(gates::RawAdd),
    /// Grant a plugin the rights that it needs
    Trust(gates::RawTrust),
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
pub(super) struct RawCost {
    /// Count tokens of the definitions in this client format
    #[arg(long, value_enum, default_value_t = Format::Openai)]
    format: Format,
}

/// Commands of `mimir tools` and of `/tools` in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsWish {
    /// Open the tool browser. Without a terminal, print the list.
    Pick,
    /// Print the list.
    List(Format),
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
    Tokens(Format),
    /// Suggest savings.
    Advise(Format),
    /// Search tools.
    Search(String),
}

/// A `/tools` line in a chat.
#[derive(Debug, Parser)]
#[command(name = "/tools", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Option<RawTools>,
}

impl ToolsWish {
    /// Parses the arguments of `/tools` in a chat.
    pub fn read(words: &str) -> Result<Self, ToolError> {
        let bad = |message| ToolError::new(Code::InvalidInput, message);
        let line = Line::try_parse_from(words.split_whitespace())
            .map_err(|error| bad(sentence(&error.render().to_string())))?;
        match line.command.map(RawTools::typed) {
            None => Ok(Self::List(Format::Openai)),
            Some(Command::Tools(wish)) => Ok(wish),
            Some(_) => Err(bad(
                "this command is not available in a chat: run it in a shell, as `mimir tools`"
                    .to_owned(),
            )),
        }
    }
}

impl RawTools {
    pub(super) fn typed(self) -> Command {
        Command::Tools(match self {
            Self::List(cost) => ToolsWish::List(cost.format),
            Self::Enable { name } => ToolsWish::Enable(name),
            Self::Disable { name, user } => ToolsWish::Disable { name, user },
            Self::Info { name } => ToolsWish::Info(name),
            Self::Tokens { cost, advise: true } => ToolsWish::Advise(cost.format),
            Self::Tokens { cost, .. } => ToolsWish::Tokens(cost.format),
            Self::Search { words } => ToolsWish::Search(words.join(" ")),
            Self::Check { file } => return Command::ToolsCheck { file },
            Self::New { name, lang, dir } => return Command::ToolsNew { name, dir, lang },
            Self::Schema => return Command::ToolsSchema,
            Self::Types => return Command::ToolsTypes,
            Self::Build { dir } => return Command::ToolsBuild { dir },
            Self::Add(add) => return Command::ToolsAdd(add.typed()),
            Self::Trust(trust) => return Command::ToolsTrust(trust.typed()),
            Self::Remove { name, yes } => return Command::ToolsRemove { name, yes },
            Self::Revoke { name } => return Command::ToolsRevoke { name },
        })
    }
}
