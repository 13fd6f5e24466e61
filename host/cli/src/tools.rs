//! Implementation of `mimir tools` and of `/tools` in a chat. The submodules compute data; `output::tools` prints it.
//!
//! Out of scope: printing, and policy decisions about calls.

use std::sync::Arc;

use mimir_core::grants::SourceRecord;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::storage::{PluginValues, StorageSize};
use mimir_core::{Tool, ToolError, ToolErrorCode};
use serde::Serialize;

use crate::args::{DefinitionFormat, ToolListCommand};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::tools::{self as printed, CommandSyntax};
use crate::output::{ResultPrinter, info, warn};
use mimir::registries::{SignatureState, installed_signature_state};
use mimir::setup::HostSetup;
use mimir::signing_keys::trust_policy;

mod advice;
mod list;
mod search;
mod switch;
mod team_origin;
mod token_costs;
mod token_spending;
mod tool_lookup;
mod usage;

pub use advice::CostAdvice;
pub use list::{ToolList, ToolRow};
pub use search::{ToolMatch, search as search_tools, words_of};
pub use switch::{SwitchReport, disable, enable};
pub use team_origin::{TeamOrigin, team_at};
pub use token_costs::{TokenCost, TokenCosts};
pub use token_spending::TokenSpending;
pub use tool_lookup::{is_file, is_named, left_out_error};
pub use usage::{PastCall, ToolUsage};

/// Runs a command and prints its result. Switching a tool changes the config, not `snapshot`: it takes effect when the
/// tools are loaded again.
pub fn run(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    printer: ResultPrinter,
    syntax: CommandSyntax,
    command: ToolListCommand,
) -> CommandResult {
    let mut costs = TokenCosts::open(&setup.user_dirs);
    let mut exit = ExitReason::Done;
    match command {
        ToolListCommand::List { format } => {
            list(setup, snapshot, printer, syntax, &mut costs, format)?
        }
        ToolListCommand::Enable { name } => {
            let tool = tool_lookup::find_tool(snapshot, &name)?;
            let switched = switch::enable(setup, snapshot, tool, &mut costs);
            exit = report_switch(printer, switched)?;
        }
        ToolListCommand::Disable { name, user } => {
            let tool = tool_lookup::find_tool(snapshot, &name)?;
            let switched = switch::disable(setup, snapshot, tool, user, &mut costs);
            exit = report_switch(printer, switched)?;
        }
        ToolListCommand::Info { name } => {
            let tool = tool_lookup::find_tool_or_file(snapshot, &name)?;
            let details = ToolDetails::for_tool(setup, tool, &mut costs);
            info::print(printer, tool, &snapshot.policy, &details)?;
        }
        ToolListCommand::Tokens {
            format,
            advise: false,
        } => {
            let spending = TokenSpending::from_snapshot(snapshot, &mut costs, format, price(setup));
            printed::spending(printer, &spending)?;
        }
        ToolListCommand::Tokens {
            format,
            advise: true,
        } => {
            let usage = ToolUsage::read(&setup.workspace)?;
            let advice = CostAdvice::analyze(snapshot, &mut costs, format, &usage);
            printed::advice(printer, syntax, &advice)?;
        }
        ToolListCommand::Search { words } => {
            let words = words.join(" ");
            let matches = search::search(snapshot, &mut costs, &words);
            printed::print_matches(printer, &words, &matches)?;
        }
    }
    costs.save();
    Ok(exit)
}

/// Prints the result of switching a tool, or why a policy refuses it.
fn report_switch(printer: ResultPrinter, switched: CommandResult<SwitchReport>) -> CommandResult {
    match switched {
        Ok(switched) => {
            printed::print_switched(printer, &switched)?;
            Ok(ExitReason::Done)
        }
        Err(CommandFailure::Reported { error, exit })
            if error.code == ToolErrorCode::PolicyDenied && !printer.is_json() =>
        {
            printed::print_switch_refusal(&error);
            Ok(exit)
        }
        Err(failure) => Err(failure),
    }
}

/// Facts about a tool in addition to its definition.
pub struct ToolDetails {
    /// Token cost of the definition in each client format.
    pub costs: [(DefinitionFormat, TokenCost); DefinitionFormat::ALL.len()],
    /// The last calls of the tool.
    pub calls: Vec<PastCall>,
    /// Data that the plugin stores between calls, if any.
    pub stored: Option<PluginStorageInfo>,
    /// The source of the plugin's file, if the lock file has one.
    pub installed_from: Option<InstalledSource>,
    /// The team whose bundle has the tool, if one has.
    pub team: Option<TeamOrigin>,
}

/// Data that a plugin stores between calls.
#[derive(Serialize)]
pub struct PluginStorageInfo {
    /// Folder, relative to the workspace.
    pub folder: String,
    /// Size of the data.
    #[serde(flatten)]
    pub size: StorageSize,
}

impl ToolDetails {
    /// Collects the facts about a tool.
    pub fn for_tool(setup: &HostSetup, tool: &Tool, costs: &mut TokenCosts) -> Self {
        Self {
            costs: DefinitionFormat::ALL.map(|format| (format, costs.tool_cost(tool, format))),
            calls: last_calls(setup, tool),
            stored: PluginStorageInfo::for_location(setup, &tool.origin.location),
            installed_from: installed_from(setup, &tool.origin.location),
            team: TeamOrigin::of_tool(setup, tool),
        }
    }
}

impl PluginStorageInfo {
    /// Describes the stored data of the plugin at `location`; `None` if the plugin stores nothing, or the data cannot
    /// be read.
    pub fn for_location(setup: &HostSetup, location: &str) -> Option<Self> {
        let root = setup.workspace.root();
        let values = PluginValues::new(root, location);
        let size = values.size().ok().filter(|size| size.values > 0)?;
        let folder = values.folder();
        let relative = folder.strip_prefix(root).unwrap_or(folder);
        Some(Self {
            folder: relative.display().to_string(),
            size,
        })
    }
}

/// The source of a file in the lock file. The lock file may come from a checkout, so its signer is checked.
pub struct InstalledSource {
    /// The lock entry.
    pub record: SourceRecord,
    /// The state of its signature, `None` if it does not come from a registry, or the reason why the signature cannot be
    /// verified.
    pub signature: Result<Option<SignatureState>, String>,
}

/// Returns the source of a file in the lock file. A lock file that cannot be read is reported with the grants.
fn installed_from(setup: &HostSetup, location: &str) -> Option<InstalledSource> {
    let mut lock = setup.approvals()?.lock().read().ok()?;
    let record = lock.sources.remove(location)?;
    let signature = trust_policy(setup)
        .and_then(|trust| installed_signature_state(setup, &trust, location, &record))
        .map_err(|error| error.message);
    Some(InstalledSource { record, signature })
}

/// Returns the full description of a tool as lines.
pub fn page(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    tool: &Tool,
    costs: &mut TokenCosts,
) -> CommandResult<Vec<String>> {
    let details = ToolDetails::for_tool(setup, tool, costs);
    Ok(info::lines(tool, &snapshot.policy, &details)?)
}

fn list(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    printer: ResultPrinter,
    syntax: CommandSyntax,
    costs: &mut TokenCosts,
    format: DefinitionFormat,
) -> CommandResult<()> {
    let shows_costs = setup.settings.config.tools.show_token_costs;
    let costs = (shows_costs || printer.is_json()).then_some(costs);
    printed::list(
        printer,
        syntax,
        &ToolList::from_snapshot(snapshot, costs, format),
    )
}

/// Returns the last calls of a tool. An unreadable audit log causes a warning, not an error.
fn last_calls(setup: &HostSetup, tool: &Tool) -> Vec<PastCall> {
    let calls = usage::last_calls(&setup.workspace, tool);
    calls.unwrap_or_else(|failure| {
        warn(failure);
        Vec::new()
    })
}

fn price(setup: &HostSetup) -> f64 {
    setup.settings.config.tools.token_price
}

/// Returns the tools that are visible to models.
fn listed(snapshot: &PipelineSnapshot) -> impl Iterator<Item = &Arc<Tool>> {
    let tools = snapshot.registry.tools().iter();
    tools.filter(|tool| snapshot.policy.is_listed(tool))
}

/// Creates the error for a tool that may not be switched.
fn command_refusal(message: String) -> CommandFailure {
    ToolError::policy_denied(message).into()
}

#[cfg(test)]
pub mod tests;
