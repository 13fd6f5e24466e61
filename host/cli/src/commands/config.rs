//! `mimir config`.

use mimir_core::ToolError;
use mimir_core::config::Config;
use mimir_core::text::visible;
use serde_json::json;

use crate::args::{ConfigWish, Globals};
use crate::exit::{Exit, Failure};
use crate::output::doctor::Finding;
use crate::output::{BAD, FAINT, GOOD, Printer, WARN, styled};
use mimir::places::Places;
use mimir::settings::{Place, Settings, environment};
use mimir::setup::{self, Setup};
use mimir::workspace::Workspace;

mod key;

/// Prints the schema or the paths of config files, or checks them.
pub async fn run(globals: &Globals, printer: Printer, wish: ConfigWish) -> Result<Exit, Failure> {
    let places = setup::places;
    let workspace = || setup::find_workspace(globals.workspace.as_deref());
    match wish {
        ConfigWish::Schema => printer.value(&Config::schema())?,
        ConfigWish::Path => {
            let places = places();
            let variables = environment::read(&places.variables)?;
            let variables = variables.as_ref().map(|said| said.shown.as_str());
            paths(printer, &Place::all(&places, &workspace()?), variables)?;
        }
        ConfigWish::Get(key) => return key::get(globals, printer, &key),
        ConfigWish::Set { key, value, user } => {
            return key::set(globals, printer, &key, value.as_deref(), user);
        }
        ConfigWish::Check => return checked(printer, places(), workspace()?).await,
    }
    Ok(Exit::Done)
}

async fn checked(printer: Printer, places: Places, workspace: Workspace) -> Result<Exit, Failure> {
    let read = Settings::read_all(&places, &workspace);
    let mut warnings = Vec::new();
    if let Ok(settings) = &read {
        let setup = Setup::of(places, workspace, settings.clone());
        let world = setup.world().await?;
        warnings = super::doctor::unknown_names(settings, &world.registry);
    }
    check(printer, &read, &warnings)?;
    Ok(match read {
        Ok(_) => Exit::Done,
        Err(_) => Exit::Usage,
    })
}

fn paths(printer: Printer, all: &[Place], variables: Option<&str>) -> Result<(), Failure> {
    let row = |place: &Place| {
        let path = place.path.display().to_string();
        json!({ "layer": place.whose.as_str(), "path": path, "exists": place.is_there() })
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    printer.result(&json!({ "files": rows, "environment": variables }), |out| {
        if let Some(variables) = variables {
            writeln!(out, "{:8} {variables}", "run")?;
        }
        for place in all {
            let path = visible(&place.path.display().to_string());
            let layer = place.whose.as_str();
            match place.is_there() {
                true => writeln!(out, "{layer:8} {path}")?,
                false => writeln!(out, "{layer:8} {path} {}", styled(FAINT, "(not there)"))?,
            }
        }
        Ok(())
    })
}

fn check(
    printer: Printer,
    read: &Result<Settings, Vec<ToolError>>,
    warnings: &[Finding],
) -> Result<(), Failure> {
    let (settings, errors) = match read {
        Ok(settings) => (Some(settings), &[][..]),
        Err(errors) => (None, errors.as_slice()),
    };
    let files = settings.map_or(&[][..], |settings| &settings.files);
    let files: Vec<_> = files.iter().map(|file| file.shown.as_str()).collect();
    let withheld = settings.map_or(&[][..], Settings::withheld);
    let report = json!({
        "ok": errors.is_empty(), "files": files, "errors": errors, "withheld": withheld,
        "warnings": warnings,
    });
    printer.result(&report, |out| {
        if settings.is_some() {
            let files = match files.is_empty() {
                true => "no file, all defaults".to_owned(),
                false => files.join(", "),
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
