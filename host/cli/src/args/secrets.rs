//! Arguments of `mimir secrets`.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use mimir::secrets::CanaryShape;

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
    /// Plant a fake secret that raises an alarm when it is seen leaving
    #[command(after_help = "\
Creates a random value in the format of a service and prints it, so that you can plant it where a thief would \
look, such as a .env file. No service has issued it. Tools never get it in full: it is masked in their output, and \
a request, a command, a question to the model or the arguments of a call that contain it, also encoded, are \
refused. Each time, the audit log gets an event (`canary`), and `alerts.webhook` of the settings a message.

Examples:
  mimir secrets canary add AWS_ACCESS_KEY_ID --shape aws
  mimir secrets canary add DEPLOY_TOKEN --shape github
  mimir audit show --event canary")]
    Canary {
        #[command(subcommand)]
        command: CanaryCommand,
    },
    /// Delete a value
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Commands of `mimir secrets canary`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum CanaryCommand {
    /// Create a canary and print its value; `mimir secrets remove` removes it
    Add(CanaryArgs),
}

/// Arguments of `mimir secrets canary add`.
#[derive(Debug, PartialEq, Args)]
pub struct CanaryArgs {
    /// Letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Format of the value
    #[arg(long, value_name = "SERVICE", default_value = "token", value_parser = canary_shape())]
    pub shape: CanaryShape,
}

fn canary_shape() -> impl clap::builder::TypedValueParser<Value = CanaryShape> {
    let names = CanaryShape::ALL.map(CanaryShape::as_str);
    PossibleValuesParser::new(names).map(|name| {
        let mut shapes = CanaryShape::ALL.into_iter();
        shapes
            .find(|shape| shape.as_str() == name)
            .unwrap_or_default()
    })
}
