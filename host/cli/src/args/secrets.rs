//! Arguments of `mimir secrets`.

use std::ffi::OsString;

use clap::Subcommand;

/// Commands of `mimir secrets`.
#[derive(Debug, Default, PartialEq, Subcommand)]
pub enum SecretsCommand {
    /// List the names; never the values
    #[default]
    List,
    /// Store a value, read from stdin or typed without echo
    #[command(after_help = "\
Examples:
  mimir secrets set GITHUB_TOKEN            prompts for the value
  pass show github | mimir secrets set GITHUB_TOKEN")]
    Set {
        /// Letters, digits, `_`, `-` and `.`
        #[arg(value_name = "NAME")]
        name: String,
        /// Store in the file, even if a keyring is available
        #[arg(long = "file")]
        in_file: bool,
        // Accepted so that no error message repeats a value typed in the wrong place.
        #[arg(hide = true)]
        on_the_line: Vec<OsString>,
    },
    /// Delete a value
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}
