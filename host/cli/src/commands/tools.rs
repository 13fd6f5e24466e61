//! `mimir tools`.

use std::io::{self, IsTerminal as _};

use crate::args::{GlobalOptions, ToolListCommand, ToolsCommand};
use crate::exit::CommandResult;
use crate::output::tools::CommandSyntax;
use crate::output::warn;
use crate::tool_browser;
use crate::tools;
use mimir::setup::HostSetup;

use super::doctor::unknown_names;
use super::{
    editor_support, tools_add, tools_build, tools_check, tools_dev, tools_export, tools_import,
    tools_new, tools_push, tools_remove, tools_search_catalogs, tools_test, tools_trust,
    tools_update, tools_vendor, tools_verify,
};

/// Runs a command of `mimir tools`. Without one, opens the tool browser, or prints the list without a terminal.
pub async fn run(globals: &GlobalOptions, command: Option<ToolsCommand>) -> CommandResult {
    let printer = globals.printer();
    match command {
        None if !printer.is_json() && has_screen() => {
            let setup = HostSetup::find(globals.workspace.as_deref())?;
            tool_browser::run(globals, setup).await
        }
        None => tool_list(globals, ToolListCommand::default()).await,
        Some(ToolsCommand::ToolList(command)) => tool_list(globals, command).await,
        Some(ToolsCommand::New { name, lang, dir }) => {
            tools_new::run(globals, &name, (lang, dir)).await
        }
        Some(ToolsCommand::Schema) => editor_support::schema(printer),
        Some(ToolsCommand::Types) => editor_support::types(printer),
        Some(ToolsCommand::Check { file }) => tools_check::run(printer, &file).await,
        Some(ToolsCommand::Build(args)) => tools_build::run(globals, &args).await,
        Some(ToolsCommand::Test(args)) => tools_test::run(globals, &args).await,
        Some(ToolsCommand::Dev(args)) => tools_dev::run(globals, &args).await,
        Some(ToolsCommand::Add(args)) => tools_add::run(globals, args).await,
        Some(ToolsCommand::Push(args)) => tools_push::run(globals, &args).await,
        Some(ToolsCommand::Update(args)) => tools_update::run(globals, &args).await,
        Some(ToolsCommand::Verify) => tools_verify::run(globals),
        Some(ToolsCommand::Vendor) => tools_vendor::run(globals).await,
        Some(ToolsCommand::Export(args)) => tools_export::run(globals, args).await,
        Some(ToolsCommand::Import { command }) => tools_import::run(globals, command).await,
        Some(ToolsCommand::Trust(args)) => tools_trust::trust(globals, args).await,
        Some(ToolsCommand::Remove { name, yes }) => tools_remove::run(globals, &name, yes).await,
        Some(ToolsCommand::Revoke { name, scope }) => {
            tools_trust::revoke(globals, &name, &scope).await
        }
    }
}

/// Runs a command that the chat also has, such as listing or switching tools.
async fn tool_list(globals: &GlobalOptions, command: ToolListCommand) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), false).await?;
    let snapshot = setup.load_snapshot().await?;
    let lists = matches!(command, ToolListCommand::List { .. });
    if let ToolListCommand::Info { name } = &command
        && let Some(tool) = snapshot.registry.get(name)
        && let Err(error) = setup.verify_description(tool).await
    {
        warn(error.message);
    }
    if let ToolListCommand::Search { words } = &command
        && !setup.settings.config.registries.catalogs.is_empty()
    {
        let words = words.join(" ");
        return tools_search_catalogs::run(&setup, &snapshot, printer, &words).await;
    }
    let done = tools::run(&setup, &snapshot, printer, CommandSyntax::Shell, command);
    if lists {
        for unknown in unknown_names(&setup.settings, &snapshot.registry) {
            let fix = unknown.fix.as_deref().unwrap_or_default();
            warn(format_args!("{}; {fix}", unknown.text));
        }
    }
    // The program ends here, and freeing a thousand tools takes longer than leaving that to the system.
    std::mem::forget(snapshot);
    done
}

/// Returns true if stdin and stdout are a terminal that supports drawing.
/// Returns true if the terminal can show a full screen.
pub fn has_screen() -> bool {
    let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    draws && io::stdin().is_terminal() && io::stdout().is_terminal()
}
