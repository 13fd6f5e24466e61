//! Arguments of `mimir tools test` and `mimir tools dev`.

use clap::Args;

use super::build::PluginSourceArgs;

/// Arguments of `mimir tools test`.
#[derive(Debug, PartialEq, Eq, Args)]
pub struct ToolsTestArgs {
    #[command(flatten)]
    pub plugin: PluginSourceArgs,
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
    #[command(flatten)]
    pub plugin: PluginSourceArgs,
    /// Let the build reach the hosts in `network.allowedHosts`, and the cases the hosts that the plugin needs
    #[arg(long)]
    pub network: bool,
}
