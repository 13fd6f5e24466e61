//! The commands, one file each. A command does the work; `output` prints the result.

use crate::args::{CliCommand, GlobalOptions, Invocation, PolicyCommand};
use crate::exit::{CommandFailure, ExitReason};
use crate::output::ResultPrinter;

mod approvals;
mod audit;
pub mod call;
mod chat;
mod completions;
mod config;
mod definitions;
mod doctor;
mod editor_support;
mod explain;
mod help;
mod init;
mod licences;
mod mcp;
mod policy_accept;
mod policy_check;
mod redact;
mod run;
mod secrets;
mod serve;
mod tools;
mod tools_add;
mod tools_build;
mod tools_check;
mod tools_new;
mod tools_remove;
mod tools_trust;
mod undo;

pub use chat::ChatCommand;
pub use help::HelpPage;
pub use run::RunCommand;

/// Runs a parsed command line.
pub async fn run(invocation: Invocation) -> Result<ExitReason, CommandFailure> {
    let Invocation { globals, command } = invocation;
    let printer = ResultPrinter::new(globals.json);
    let globals: &GlobalOptions = &globals;
    match command {
        CliCommand::Help => completions::help(),
        CliCommand::Manual(page) => help::run(printer, page),
        CliCommand::Init => init::run(globals, printer),
        CliCommand::Call {
            tool,
            words,
            approve,
            timeout,
        } => {
            call::run(
                globals,
                printer,
                call::CallCommand {
                    tool,
                    words,
                    approve,
                    timeout,
                },
            )
            .await
        }
        CliCommand::Tools(wish) => tools::run(globals, printer, wish).await,
        CliCommand::ToolsCheck { file } => tools_check::run(printer, &file).await,
        CliCommand::ToolsNew { name, dir, lang } => {
            tools_new::run(globals, printer, &name, (lang, dir)).await
        }
        CliCommand::ToolsSchema => editor_support::schema(printer),
        CliCommand::ToolsTypes => editor_support::types(printer),
        CliCommand::ToolsBuild { dir } => tools_build::run(globals, printer, &dir).await,
        CliCommand::Schema { format, tools } => {
            definitions::run(globals, printer, format, &tools).await
        }
        CliCommand::ToolsAdd(wish) => tools_add::run(globals, printer, wish).await,
        CliCommand::ToolsTrust(wish) => tools_trust::trust(globals, printer, wish).await,
        CliCommand::ToolsRemove { name, yes } => {
            tools_remove::run(globals, printer, &name, yes).await
        }
        CliCommand::ToolsRevoke { name } => tools_trust::revoke(globals, printer, &name).await,
        CliCommand::Run(wish) => run::run(globals, printer, wish).await,
        CliCommand::Chat(wish) => chat::run(globals, printer, wish).await,
        CliCommand::Serve(wish) => serve::run(globals, wish).await,
        CliCommand::Policy(PolicyCommand::Explain { tool, words }) => {
            explain::run(globals, printer, &tool, words).await
        }
        CliCommand::Policy(PolicyCommand::Check { watch }) => {
            policy_check::run(globals, printer, watch).await
        }
        CliCommand::Policy(PolicyCommand::Accept { yes }) => {
            policy_accept::run(globals, printer, yes)
        }
        CliCommand::Secrets(wish) => secrets::run(globals, printer, &wish),
        CliCommand::Approvals(wish) => approvals::run(globals, printer, &wish),
        CliCommand::Undo(wish) => undo::run(globals, printer, wish),
        CliCommand::Redact => redact::run(globals, printer),
        CliCommand::RedactRules => redact::rules(printer),
        CliCommand::Audit(wish) => audit::run(globals, printer, wish).await,
        CliCommand::Config(wish) => config::run(globals, printer, wish).await,
        CliCommand::Mcp(wish) => mcp::run(globals, printer, wish).await,
        CliCommand::Doctor => doctor::run(globals, printer).await,
        CliCommand::Licences => licences::run(printer),
        CliCommand::Completions(shell) => completions::run(shell),
    }
}
