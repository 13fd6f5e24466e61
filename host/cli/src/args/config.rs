//! `mimir config`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum RawConfig {
    /// Print the JSON Schema of config files
    #[command(after_help = "\
An editor that knows YAML schemas completes keys and marks slips:
  mimir config schema > ~/mimir.schema.json
and as the first line of the config, with the whole path:
  # yaml-language-server: $schema=/home/me/mimir.schema.json")]
    Schema,
    /// Print where config files are looked for, the strongest first, and which are there
    Path,
    /// Read all config files and name every fault, and what does not count yet
    Check,
}

/// What `config` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigWish {
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
            RawConfig::Schema => Self::Schema,
            RawConfig::Path => Self::Path,
            RawConfig::Check => Self::Check,
        }
    }
}
