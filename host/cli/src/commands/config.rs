//! `mimir config`.

use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::policy::{UnusedSetting, UnusedSettingKind};
use mimir_core::text::visible;
use serde_json::json;

use crate::args::{ConfigCommand, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::doctor::DoctorFinding;
use crate::output::{BAD, FAINT, GOOD, ResultPrinter, WARN, styled, warn};
use mimir::settings::{ConfigLocation, MergedSettings, environment};
use mimir::setup::{self, HostSetup};
use mimir::teams::locations_with_bundles;
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

mod key;

/// Reads or changes a key, prints the schema or the paths of config files, or checks the files.
pub async fn run(globals: &GlobalOptions, command: ConfigCommand) -> CommandResult {
    let printer = globals.printer();
    let user_dirs = setup::find_user_dirs;
    let workspace = || setup::find_workspace(globals.workspace.as_deref());
    match command {
        ConfigCommand::Schema => printer.print_json(&Config::schema())?,
        ConfigCommand::Path => {
            let user_dirs = user_dirs();
            let variables = environment::read(&user_dirs.variables)?;
            let variables = variables.as_ref().map(|settings| settings.shown.as_str());
            let workspace = workspace()?;
            let locations = locations_with_bundles(&user_dirs, &workspace);
            print_paths(printer, &locations, variables)?;
        }
        ConfigCommand::Get { key } => return key::get(globals, &key),
        ConfigCommand::Set { key, value, user } => {
            let exit = key::set(globals, &key, Some(&value), user)?;
            if let Err(error) = warn_without_effect(globals, &key).await {
                warn(visible(&format!(
                    "{key} was written, but its effect could not be checked: {error}"
                )));
            }
            return Ok(exit);
        }
        ConfigCommand::Unset { key, user } => {
            return key::set(globals, &key, None, user);
        }
        ConfigCommand::Check => return check_all(printer, user_dirs(), workspace()?).await,
    }
    Ok(ExitReason::Done)
}

/// Blocks whose settings have no effect for tools that a team enforces.
const BLOCKS_OF_TOOLS: [&str; 3] = ["policy", "approval", "limits"];

/// Warns if a setting of a tool has no effect, or its tool is not available.
async fn warn_without_effect(globals: &GlobalOptions, key: &str) -> CommandResult<()> {
    let is_about_tools = BLOCKS_OF_TOOLS.iter().any(|block| is_below_key(key, block));
    if !key.starts_with("tools.") && !is_about_tools {
        return Ok(());
    }
    let setup = HostSetup::find_for_user(globals.workspace.as_deref())?;
    if is_about_tools && setup.settings.teams.is_empty() {
        return Ok(());
    }
    let snapshot = setup.load_snapshot().await?;
    let unused = unused_settings(&snapshot).into_iter();
    let is_set = |setting: &UnusedSetting| {
        // Some name the value, too.
        let unused = setting.key.split(": ").next().unwrap_or(&setting.key);
        is_below_key(unused, key) || is_below_key(key, unused)
    };
    for setting in unused.filter(is_set) {
        warn(visible(&setting.to_string()));
    }
    Ok(())
}

/// Returns true if a key is `above`, or belongs to its block.
fn is_below_key(key: &str, above: &str) -> bool {
    let rest = key.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn unused_settings(snapshot: &PipelineSnapshot) -> Vec<UnusedSetting> {
    let tools: Vec<_> = snapshot.registry.tools().iter().map(Arc::as_ref).collect();
    snapshot.policy.unused_settings(&tools)
}

async fn check_all(
    printer: ResultPrinter,
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
) -> CommandResult {
    let read = MergedSettings::read_all(&user_dirs, &workspace);
    let mut warnings = Vec::new();
    if let Ok(settings) = &read {
        let setup = HostSetup::from_parts(user_dirs, workspace, settings.clone());
        let snapshot = setup.load_snapshot().await?;
        warnings = super::doctor::unknown_names(settings, &snapshot.registry);
        let unused = unused_settings(&snapshot).into_iter();
        let unused = unused.filter(|setting| setting.kind == UnusedSettingKind::NoEffect);
        warnings.extend(unused.map(|setting| {
            let text = setting.to_string();
            DoctorFinding::fair("config", text.trim_end_matches('.'), "remove the setting")
        }));
    }
    print_check(printer, &read, &warnings)?;
    Ok(match read {
        Ok(_) => ExitReason::Done,
        Err(_) => ExitReason::Usage,
    })
}

fn print_paths(
    printer: ResultPrinter,
    locations: &[ConfigLocation],
    variables: Option<&str>,
) -> CommandResult<()> {
    let row = |location: &ConfigLocation| {
        let path = location.path.display().to_string();
        json!({ "layer": location.owner.as_str(), "path": path, "exists": location.exists() })
    };
    let rows: Vec<_> = locations.iter().map(row).collect();
    printer.print_result(&json!({ "files": rows, "environment": variables }), |out| {
        if let Some(variables) = variables {
            writeln!(out, "{:8} {variables}", "run")?;
        }
        for location in locations {
            let path = visible(&location.path.display().to_string());
            let layer = location.owner.as_str();
            if location.exists() {
                writeln!(out, "{layer:8} {path}")?;
            } else {
                writeln!(out, "{layer:8} {path} {}", styled(FAINT, "(not there)"))?;
            }
        }
        Ok(())
    })
}

fn print_check(
    printer: ResultPrinter,
    read: &Result<MergedSettings, Vec<ToolError>>,
    warnings: &[DoctorFinding],
) -> CommandResult<()> {
    let (settings, errors) = match read {
        Ok(settings) => (Some(settings), &[][..]),
        Err(errors) => (None, errors.as_slice()),
    };
    let files = settings.map_or(&[][..], |settings| &settings.files);
    let files: Vec<_> = files.iter().map(|file| file.shown.as_str()).collect();
    let withheld = settings.map_or(&[][..], MergedSettings::withheld);
    let report = json!({
        "ok": errors.is_empty(), "files": files, "errors": errors, "withheld": withheld,
        "warnings": warnings,
    });
    printer.print_result(&report, |out| {
        if settings.is_some() {
            let files = if files.is_empty() {
                "no file, all defaults".to_owned()
            } else {
                files.join(", ")
            };
            writeln!(out, "{} {files}", styled(GOOD, "ok"))?;
        }
        for error in errors {
            let message = visible(&error.message);
            writeln!(out, "{} {message}", styled(BAD, "error:"))?;
        }
        for warning in warnings {
            let (text, fix) = (&warning.text, warning.fix.as_deref().unwrap_or_default());
            let line = visible(&format!("{text}. {fix}"));
            writeln!(out, "{} {line}", styled(WARN, "warning:"))?;
        }
        for key in withheld {
            let withheld = styled(WARN, "withheld:");
            let key = visible(key);
            writeln!(
                out,
                "{withheld} {key} does not apply until `mimir policy accept`"
            )?;
        }
        Ok(())
    })
}
