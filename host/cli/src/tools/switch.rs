//! Switching of tools on and off in config files.
//!
//! A tool is off if any file sets `enabled: false`, so switching a tool on changes that key in each file of the user
//! and the project. Settings of a team are not changed, and a tool that another rule refuses cannot be switched on.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::text::visible;
use mimir_core::{Policy, Tool, ToolError, ToolName};
use serde::Serialize;

use crate::args::DefinitionFormat;
use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;
use mimir::settings::{self, ConfigEdit, ConfigFile, ConfigOwner};
use mimir::setup::HostSetup;

use super::{TeamOrigin, TokenCosts, command_refusal};

/// Result of switching.
#[derive(Serialize)]
pub struct SwitchReport {
    /// The tool.
    pub name: ToolName,
    /// True if the tool can be called now.
    pub enabled: bool,
    /// True if a config file was changed.
    pub changed: bool,
    /// Change of the token cost for models; negative for a saving.
    pub tokens: i64,
    /// The changed files.
    pub files: Vec<String>,
    /// Reason why the tool is still refused after it was switched on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Switches a tool on.
pub fn enable(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    tool: &Tool,
    costs: &mut TokenCosts,
) -> CommandResult<SwitchReport> {
    let name = tool.name();
    let refusal = snapshot.policy.refusal(tool);
    let files = setup.settings.files.iter();
    let files_off: Vec<(&ConfigFile, String)> = files
        .filter_map(|file| Some((file, name_set_to(file, tool, false)?)))
        .collect();
    let off_by_team = files_off.iter().find(|(file, _)| file.owner.is_team());
    if off_by_team.is_some() || setup.settings.is_denied_by_team(tool)? {
        let by = match (off_by_team, &refusal) {
            (Some((file, key)), _) => format!("{} sets tools.{key}.enabled: false", file.shown),
            (None, Some(reason)) => format!("{} ({})", reason.text, reason.source),
            (None, None) => "a team refuses it".to_owned(),
        };
        return Err(enforced_refusal(
            format!("Cannot enable tool: {name} (enforced by enterprise policy)"),
            format!("{}: ask the administrator of the team", visible(&by)),
        ));
    }
    if let Some((file, _)) = files_off
        .iter()
        .find(|(file, _)| file.owner == ConfigOwner::Environment)
    {
        return Err(command_refusal(format!(
            "Cannot enable tool: {name} (switched off for this run by {})",
            file.shown
        )));
    }
    let mut files = Vec::new();
    let was_off = tool.off && files_off.is_empty() && !snapshot.policy.is_enabled(tool);
    if was_off {
        files.push(set(setup, ConfigOwner::Project, tool, true)?);
    }
    for (file, key) in &files_off {
        let edit = ConfigEdit::set_key(&["tools", key, "enabled"], true);
        files.push(settings::retry_change(setup, file.owner, |_| {
            Ok(vec![edit.clone()])
        })?);
    }
    match refusal {
        None => {}
        // `enabled` keys in files were handled above, so another rule refuses the tool.
        Some(reason) if files_off.is_empty() && !was_off => {
            return Err(command_refusal(format!(
                "Cannot enable tool: {name} ({}: {}); `mimir policy check` reads the rules again once that is changed",
                reason.source, reason.text
            )));
        }
        Some(_) => {}
    }
    let policy = settings::MergedSettings::read(&setup.user_dirs, &setup.workspace)?.policy()?;
    // Another rule may still refuse the tool.
    let refused = policy.refusal(tool).map(|reason| {
        let (text, source) = (visible(&reason.text), visible(&reason.source));
        format!("{text} ({source})")
    });
    if let Some(reason) = &refused {
        note(format_args!("it is still refused: {reason}"));
    }
    Ok(SwitchReport {
        name: name.clone(),
        enabled: refused.is_none(),
        changed: !files.is_empty(),
        tokens: cost(&policy, tool, costs),
        files,
        refused,
    })
}

/// Switches a tool off, in the project's settings, or in the user's if `user` is true.
pub fn disable(
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
    tool: &Tool,
    user: bool,
    costs: &mut TokenCosts,
) -> CommandResult<SwitchReport> {
    let name = tool.name();
    let mut team_files = setup.settings.team();
    let enabling = team_files.find_map(|file| Some((file, name_set_to(file, tool, true)?)));
    if tool.enforced || enabling.is_some() {
        let origin = TeamOrigin::of_tool(setup, tool).filter(|origin| origin.enforced);
        let remedy = match (origin, enabling) {
            (Some(origin), _) => origin.remedy_for_enforced(),
            (None, Some((file, key))) => format!(
                "{} sets tools.{key}.enabled: true: ask the administrator of the team",
                visible(&file.shown)
            ),
            (None, None) => "ask the administrator of the team".to_owned(),
        };
        return Err(enforced_refusal(
            format!("Cannot disable tool: {name} (enforced by enterprise policy)"),
            remedy,
        ));
    }
    let changed = snapshot.policy.is_enabled(tool);
    let mut files = Vec::new();
    let tokens = -cost(&snapshot.policy, tool, costs);
    if changed {
        let owner = if user {
            ConfigOwner::User
        } else {
            ConfigOwner::Project
        };
        files.push(set(setup, owner, tool, false)?);
    }
    Ok(SwitchReport {
        name: name.clone(),
        enabled: false,
        changed,
        tokens,
        files,
        refused: None,
    })
}

/// Sets `enabled` of a tool in a file, under the name that the file already uses for the tool. Returns the path of the
/// file for messages.
fn set(setup: &HostSetup, owner: ConfigOwner, tool: &Tool, enabled: bool) -> CommandResult<String> {
    let mut known = setup.settings.files.iter();
    let file = known.find(|file| file.owner == owner);
    let key = file.and_then(|file| name_in_file(file, tool));
    let key = key.unwrap_or_else(|| tool.name().to_string());
    let edit = ConfigEdit::set_key(&["tools", &key, "enabled"], enabled);
    let changed = settings::retry_change(setup, owner, |_| Ok(vec![edit.clone()]));
    changed.map_err(CommandFailure::from)
}

/// Returns the token cost of the tool for models, which is 0 if the tool is not listed.
fn cost(policy: &Policy, tool: &Tool, costs: &mut TokenCosts) -> i64 {
    if policy.is_listed(tool) {
        i64::from(costs.tool_cost(tool, DefinitionFormat::Openai).tokens)
    } else {
        0
    }
}

/// Creates the error about a tool that a team does not let users switch. `remedy` names the team.
fn enforced_refusal(message: String, remedy: String) -> CommandFailure {
    let error = ToolError::policy_denied(message);
    error.with_remedies([remedy]).into()
}

/// Returns the name under which this file sets `enabled` of the tool to this value.
fn name_set_to(file: &ConfigFile, tool: &Tool, enabled: bool) -> Option<String> {
    let each = file.config.tools.each.iter();
    let mut own = each.filter(|(name, _)| tool.answers_to(name));
    let setting = own.find(|(_, settings)| settings.enabled == Some(enabled));
    setting.map(|(name, _)| name.clone())
}

/// Returns the name that this file already uses for the tool.
fn name_in_file(file: &ConfigFile, tool: &Tool) -> Option<String> {
    let mut names = file.config.tools.each.keys();
    names.find(|name| tool.answers_to(name)).cloned()
}
