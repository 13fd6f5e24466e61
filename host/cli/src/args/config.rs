//! `mimir config`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum RawConfig {
    /// Print the value of a key, and which layer it comes from
    #[command(after_help = "Example: mimir config get tools.git.enabled")]
    Get {
        /// The keys from the outermost inwards, with dots between them
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a key in the project's config; comments, order and quoting stay
    #[command(after_help = "\
The value is YAML. Examples:
  mimir config set limits.timeMs 5000
  mimir config set policy.deny '[web_fetch, \"mcp_*\"]'
  mimir config set --user profile compact")]
    Set {
        /// The keys from the outermost inwards, with dots between them
        #[arg(value_name = "KEY")]
        key: String,
        /// YAML
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
        /// In your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Take a key out of the project's config
    Unset {
        /// The keys from the outermost inwards, with dots between them
        #[arg(value_name = "KEY")]
        key: String,
        /// In your own settings, not the project's
        #[arg(long)]
        user: bool,
    },
    /// Print the JSON Schema of config files
    #[command(after_help = "\
An editor that knows YAML schemas completes keys and marks slips. `mimir init` writes the schema beside \
the config, and the line that names it; for another place:
  mimir config schema > ~/mimir.schema.json
and as the first line of the config, with the whole path:
  # yaml-language-server: $schema=/home/me/mimir.schema.json")]
    Schema,
    /// Print where config files are looked for, the strongest first, and which are there
    #[command(after_help = "\
A variable goes before the files for the one run that it is set for, and not before a team's:
  MIMIR_LIMITS__TIME_MS=5000 mimir call …      limits.timeMs
  MIMIR_TOOLS__GIT__ENABLED=false mimir chat   tools.git.enabled")]
    Path,
    /// Read all config files and name every fault, and what does not count yet
    Check,
}

/// What `config` is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigWish {
    /// A key's value.
    Get(String),
    /// A key set, or taken out.
    Set {
        /// The key.
        key: String,
        /// What it is set to; nothing takes it out.
        value: Option<String>,
        /// Whether in the user's own settings.
        user: bool,
    },
    /// The JSON Schema.
    Schema,
    /// The places.
    Path,
    /// The faults.
    Check,
}

impl From<RawConfig> for ConfigWish {
    fn from(raw: RawConfig) -> Self {
        match raw {
            RawConfig::Get { key } => Self::Get(key),
            RawConfig::Set { key, value, user } => Self::Set {
                key,
                value: Some(value),
                user,
            },
            RawConfig::Unset { key, user } => Self::Set {
                key,
                value: None,
                user,
            },
            RawConfig::Schema => Self::Schema,
            RawConfig::Path => Self::Path,
            RawConfig::Check => Self::Check,
        }
    }
}
