//! Arguments of `mimir console`.

use std::net::IpAddr;

use clap::Args;

/// Arguments of `mimir console`.
#[derive(Debug, PartialEq, Args)]
pub struct ConsoleCommandArgs {
    /// Listen on this port of 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
    /// Let a phone on the local network answer questions, after it has scanned a code; on this address, if one is given
    #[arg(long, value_name = "IP", num_args = 0..=1)]
    pub lan: Option<Option<IpAddr>>,
    /// Only print the link
    #[arg(long)]
    pub no_open: bool,
}
