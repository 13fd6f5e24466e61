//! Arguments of `mimir config`.

use clap::Subcommand;

/// Commands of `mimir config`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum ConfigCommand {
    /// Print the value of a key, and the layer that it comes from
    #[command(after_help = "Example: mimir config get tools.git.enabled")]
    Get {
        /// Path of the key, with dots between the levels
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a key in the project's config; comments, order and quoting are preserved
    #[command(after_help = "\
The value is YAML. Examples:
  mimir config set limits.timeMs 5000
  mimir config set policy.deny '[web_fetch, \"mcp_*\"]'
  mimir config set --user profile compact")]
    Set {
        /// Path of the key, with dots between the levels
        #[arg(value_name = "KEY")]
        key: String,
        /// The value, as YAML
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Remove a key from the project's config
    Unset {
        /// Path of the key, with dots between the levels
        #[arg(value_name = "KEY")]
        key: String,
        /// Write to your user settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Print the JSON Schema of config files
    #[command(after_help = "\
An editor with YAML schema support completes keys and marks errors. `mimir init` writes the schema next to \
the config, and the line that refers to it; to put it elsewhere:
  mimir config schema > ~/mimir.schema.json
and add this as the first line of the config, with the absolute path:
  # yaml-language-server: $schema=/home/me/mimir.schema.json")]
    Schema,
    /// Print the paths of config files, and which of them exist
    #[command(after_help = "\
An environment variable overrides the files for one run, except a team's policy:
  MIMIR_LIMITS__TIME_MS=5000 mimir call …      limits.timeMs
  MIMIR_TOOLS__GIT__ENABLED=false mimir chat   tools.git.enabled")]
    Path,
    /// Check all config files: report every error, and settings that do not apply yet
    Check,
}
