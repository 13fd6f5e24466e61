//! Arguments of `mimir tools test` and `mimir tools dev`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::args::PluginLanguage;

/// Arguments of `mimir tools test`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct ToolsTestArgs {
    /// The plugin's folder, or its source file
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Language of the plugin [default: found by the files in the folder]
    #[arg(long, value_enum)]
    pub lang: Option<PluginLanguage>,
    /// Run only this case of cases.yml, and no unit tests; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Let the build reach the hosts in `network.allowedHosts`, and the cases the hosts that the plugin needs
    #[arg(long)]
    pub network: bool,
}

/// Arguments of `mimir tools dev`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct ToolsDevArgs {
    /// The plugin's folder, or its source file
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Language of the plugin [default: found by the files in the folder]
    #[arg(long, value_enum)]
    pub lang: Option<PluginLanguage>,
    /// Let the build reach the hosts in `network.allowedHosts`, and the cases the hosts that the plugin needs
    #[arg(long)]
    pub network: bool,
}
