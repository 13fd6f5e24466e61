//! Arguments of `mimir keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use mimir_registry::signature::KeyAlgorithm;

/// Commands of `mimir keys`.
#[derive(Debug, Default, PartialEq, Subcommand)]
pub enum KeysCommand {
    /// List the keys, with their IDs
    #[default]
    List,
    /// Generate a key, and store it encrypted with a password
    #[command(after_help = "\
Asks for a password. Without a terminal, the password is that of MIMIR_KEY_PASSWORD.

Examples:
  mimir keys new release
  mimir tools push . registry.example.com/acme/weather:1.2 --sign release")]
    New(KeysNewArgs),
    /// Print the public key and its ID
    Show {
        /// Name of the key
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Store a key from a file: a public key that you trust, or a private key of cosign or openssl
    #[command(after_help = "\
Examples:
  mimir keys import partner.pub partner
  mimir keys import cosign.key release      asks for the password of the file")]
    Import {
        /// File in PEM
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Name of the key: letters, digits, `_` and `-`
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete a key; without a backup, nothing can be signed with it again
    Remove {
        /// Name of the key
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Arguments of `mimir keys new`.
#[derive(Debug, PartialEq, Args)]
pub struct KeysNewArgs {
    /// Name of the key: letters, digits, `_` and `-`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Algorithm: ecdsa-p256, which all sigstore clients support, or ed25519
    #[arg(long, value_name = "ALGORITHM", default_value_t)]
    pub algorithm: KeyAlgorithm,
}
