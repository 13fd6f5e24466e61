//! Arguments of `mimir tools build`, and those that it shares with `mimir tools test` and `mimir tools dev`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::args::PluginLanguage;

/// The plugin to build.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct PluginSourceArgs {
    /// The plugin's folder, or its source file
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Language of the plugin [default: found by the files in the folder]
    #[arg(long, value_enum)]
    pub lang: Option<PluginLanguage>,
}

/// Arguments of `mimir tools build`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct ToolsBuildArgs {
    #[command(flatten)]
    pub plugin: PluginSourceArgs,
    /// Let the build reach the hosts in `network.allowedHosts`; without a sandbox, every host
    #[arg(long)]
    pub network: bool,
    /// Build again after each change of the sources, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
}
