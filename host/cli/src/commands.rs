//! The commands, one file each. A command does the work; `output` prints the result.

use crate::args::{Command, Globals, Invocation, PolicyWish};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

mod approvals;
mod audit;
pub mod call;
mod chat;
mod completions;
mod config;
mod definitions;
mod doctor;
mod editing;
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

pub use chat::ChatWish;
pub use help::HelpPage;
pub use run::RunWish;

/// Runs a parsed command line.
pub async fn run(invocation: Invocation) -> Result<Exit, Failure> {
    let Invocation { globals, command } = invocation;
    let printer = Printer::new(globals.json);
    let globals: &Globals = &globals;
    match command {
        Command::Help => completions::help(),
        Command::Manual(page) => help::run(printer, page),
        Command::Init => init::run(globals, printer),
        Command::Call {
            tool,
            words,
            approve,
            timeout,
        } => {
            call::run(
                globals,
                printer,
                call::Wish {
                    tool,
                    words,
                    approve,
                    timeout,
                },
            )
            .await
        }
        Command::Tools(wish) => tools::run(globals, printer, wish).await,
        Command::ToolsCheck { file } => tools_check::run(printer, &file).await,
        Command::ToolsNew { name, dir, lang } => {
            tools_new::run(globals, printer, &name, (lang, dir)).await
        }
        Command::ToolsSchema => editing::schema(printer),
        Command::ToolsTypes => editing::types(printer),
        Command::ToolsBuild { dir } => tools_build::run(globals, printer, &dir).await,
        Command::Schema { format, tools } => {
            definitions::run(globals, printer, format, &tools).await
        }
        Command::ToolsAdd(wish) => tools_add::run(globals, printer, wish).await,
        Command::ToolsTrust(wish) => tools_trust::trust(globals, printer, wish).await,
        Command::ToolsRemove { name, yes } => tools_remove::run(globals, printer, &name, yes).await,
        Command::ToolsRevoke { name } => tools_trust::revoke(globals, printer, &name).await,
        Command::Run(wish) => run::run(globals, printer, wish).await,
        Command::Chat(wish) => chat::run(globals, printer, wish).await,
        Command::Serve(wish) => serve::run(globals, wish).await,
        Command::Policy(PolicyWish::Explain { tool, words }) => {
            explain::run(globals, printer, &tool, words).await
        }
        Command::Policy(PolicyWish::Check { watch }) => {
            policy_check::run(globals, printer, watch).await
        }
        Command::Policy(PolicyWish::Accept { yes }) => policy_accept::run(globals, printer, yes),
        Command::Secrets(wish) => secrets::run(globals, printer, &wish),
        Command::Approvals(wish) => approvals::run(globals, printer, &wish),
        Command::Undo(wish) => undo::run(globals, printer, wish),
        Command::Redact => redact::run(globals, printer),
        Command::RedactRules => redact::rules(printer),
        Command::Audit(wish) => audit::run(globals, printer, wish).await,
        Command::Config(wish) => config::run(globals, printer, wish).await,
        Command::Mcp(wish) => mcp::run(globals, printer, wish).await,
        Command::Doctor => doctor::run(globals, printer).await,
        Command::Licences => licences::run(printer),
        Command::Completions(shell) => completions::run(shell),
    }
}
