//! The commands of `mimir`, one file each. A command does the work; `output` prints the result.

use crate::args::{CliArgs, CliCommand, PolicyCommand};
use crate::exit::{CommandResult, ExitReason};

pub mod approvals;
mod audit;
pub mod call;
mod call_switch;
mod chat;
pub mod cluster;
mod cluster_record;
mod completions;
mod config;
mod console;
mod definitions;
mod doctor;
mod editor_support;
pub mod explain;
mod help;
mod init;
mod interrupt;
mod keys;
mod licences;
mod local_components;
mod man_pages;
pub mod mcp;
mod policy_accept;
mod policy_check;
mod redact;
mod run;
mod secrets;
mod serve;
mod setup;
mod skills;
mod team;
mod team_authoring;
mod telemetry;
mod toolchains;
mod tools;
mod tools_add;
mod tools_build;
mod tools_check;
mod tools_dev;
mod tools_export;
mod tools_import;
mod tools_new;
mod tools_push;
mod tools_remove;
mod tools_search_catalogs;
mod tools_test;
pub mod tools_trust;
mod tools_update;
mod tools_vendor;
mod tools_verify;
mod top;
pub mod undo;
mod worker;

pub use call_switch::{start_all_calls, stop_all_calls};
pub use help::HelpPage;

/// Runs a parsed command line.
pub async fn run(args: CliArgs) -> CommandResult {
    let globals = &args.globals;
    let Some(command) = args.command else {
        return completions::help(globals);
    };
    match command {
        CliCommand::Help { words } => help::run(globals.printer(), &words),
        CliCommand::Setup(args) => setup::run(globals, &args).await,
        CliCommand::Init => init::run(globals),
        CliCommand::Call(args) => call::run(globals, args).await,
        CliCommand::Tools { command } => tools::run(globals, command).await,
        CliCommand::Skills { command } => skills::run(globals, command.unwrap_or_default()).await,
        CliCommand::Schema { format, tools } => definitions::run(globals, format, &tools).await,
        CliCommand::Run(args) => run::run(globals, args).await,
        CliCommand::Chat(args) => chat::run(globals, args).await,
        CliCommand::Serve(args) => serve::run(globals, args).await,
        CliCommand::Worker(args) => worker::run(globals, args).await,
        CliCommand::Cluster { command } => cluster::run(globals, command).await,
        CliCommand::Policy { command } => match command {
            PolicyCommand::Explain { tool, arguments } => {
                explain::run(globals, &tool, arguments).await
            }
            PolicyCommand::Check { watch } => policy_check::run(globals, watch).await,
            PolicyCommand::Accept { yes } => policy_accept::run(globals, yes),
        },
        CliCommand::Team { command } => team::run(globals, command).await,
        CliCommand::Secrets { command } => secrets::run(globals, &command.unwrap_or_default()),
        CliCommand::Keys { command } => keys::run(globals, &command.unwrap_or_default()),
        CliCommand::Approvals { command } => {
            approvals::run(globals, command.unwrap_or_default()).await
        }
        CliCommand::Top => top::run(globals).await,
        CliCommand::Console(args) => console::run(globals, args).await,
        CliCommand::Stop(args) => call_switch::stop(globals, &args).await,
        CliCommand::Start(args) => call_switch::start(globals, &args).await,
        CliCommand::Undo(args) => undo::run(globals, &args),
        CliCommand::Redact { rules: true } => redact::rules(globals.printer()),
        CliCommand::Redact { rules: false } => redact::run(globals),
        CliCommand::Audit { command } => audit::run(globals, command).await,
        CliCommand::Telemetry { command } => telemetry::run(&command),
        CliCommand::Config { command } => config::run(globals, command).await,
        CliCommand::Mcp { command } => mcp::run(globals, command.unwrap_or_default()).await,
        CliCommand::Doctor => doctor::run(globals).await,
        CliCommand::Licences => licences::run(globals.printer()),
        CliCommand::Completions { shell } => completions::run(shell),
        CliCommand::ManPages { folder } => man_pages::run(&folder),
        // `CliArgs::parse_line` has printed the version already.
        CliCommand::Version => Ok(ExitReason::Done),
    }
}
