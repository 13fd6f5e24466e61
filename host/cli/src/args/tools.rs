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
    /// Switch a tool off, in the config: it is neither listed nor called
    Disable {
        /// Name or alias
        #[arg(value_name = "NAME")]
        name: String,
        /// In your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Show everything about a tool, or why a file in .mimir/tools is left out
    Info {
        /// Name, alias, or file name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show what each tool costs in a prompt, the costliest first
    Tokens {
        #[command(flatten)]
        cost: RawCost,
        /// Say what could be saved: costly descriptions, tools that are much the same, tools that nobody calls
        #[arg(long)]
        advise: bool,
    },
    /// Find tools by words of what they do
    Search {
        /// Some words
        #[arg(value_name = "WORDS", required = true)]
        words: Vec<String>,
    },
    /// Write a new plugin in Rust or TypeScript, or a tool in a YAML file
    New {
        /// Letters, digits, `_` and `-`
        #[arg(value_name = "NAME")]
        name: String,
        /// What it is written in
        #[arg(long, value_enum, default_value_t = Lang::Rust)]
        lang: Lang,
        /// Where [default: NAME; a file in .mimir/tools]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of a tool in a YAML file
    Schema,
    /// Print the TypeScript types of what the code of such a tool is given
    Types,
    /// Look for faults in a tool in a YAML file, without running it
    Check {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Compile a plugin and put it into .mimir/tools
    Build {
        /// The plugin's folder, or a file in TypeScript
        #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
        dir: PathBuf,
    },
    /// Put a component into .mimir/tools
    Add(gates::RawAdd),
    /// Grant a plugin what it needs
    Trust(gates::RawTrust),
    /// Take a tool out of .mimir/tools, with its grant and what it kept
    Remove {
        /// Its name or its file
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Take back what a plugin was granted
    Revoke {
        /// Name or alias of one of its tools, or its file name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct RawCost {
    /// Count the definitions as clients of this format are given them
    #[arg(long, value_enum, default_value_t = Format::Openai)]
    format: Format,
}

/// What `tools` is asked for, on the command line or in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsWish {
    /// The list on a screen, to switch tools on and off. Without a terminal it is the list.
    Pick,
    /// The list.
    List(Format),
    /// A tool switched on.
    Enable(String),
    /// A tool switched off.
    Disable {
        /// Name or alias.
        name: String,
        /// Whether the user's own settings say so, and not the project's.
        user: bool,
    },
    /// Everything about a tool.
    Info(String),
    /// What each costs.
    Tokens(Format),
    /// What could be saved.
    Advise(Format),
    /// Tools that these words are about.
    Search(String),
}

/// A line of a chat.
#[derive(Debug, Parser)]
#[command(name = "/tools", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Option<RawTools>,
}

impl ToolsWish {
    /// What follows `/tools` in a chat.
    pub fn read(words: &str) -> Result<Self, ToolError> {
        let bad = |message| ToolError::new(Code::InvalidInput, message);
        let line = Line::try_parse_from(words.split_whitespace())
            .map_err(|error| bad(sentence(&error.render().to_string())))?;
        match line.command.map(RawTools::typed) {
            None => Ok(Self::List(Format::Openai)),
            Some(Command::Tools(wish)) => Ok(wish),
            Some(_) => Err(bad(
                "a chat has no such command of tools; a shell has, as `mimir tools`".to_owned(),
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
