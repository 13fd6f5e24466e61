//! `mimir config get`, `set` and `unset`.

use std::io;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::{Value, json};

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, GOOD, WARN, styled};
use mimir::settings::{self, ConfigEdit, ConfigOwner, ConfigSchema, LayerValue};
use mimir::setup::HostSetup;

/// Prints the value of a key in each layer.
pub fn get(globals: &GlobalOptions, key: &str) -> CommandResult {
    let printer = globals.printer();
    let keys = ConfigSchema::default();
    let path = keys.path(key).map_err(usage)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let said = setup.settings.layer_values(&path);
    let counting = said.iter().find(|said| !said.withheld);
    let default = match counting {
        Some(_) => None,
        None => keys.default_of(&path),
    };
    let from = counting.map(|said| said.owner.as_str());
    let layers: Vec<Value> = said.iter().map(layer).collect();
    let result = json!({
        "key": path.join("."),
        "value": counting.map(|said| plain(&said.value)).or(default.clone()),
        "from": from.or(default.as_ref().map(|_| "default")),
        "layers": layers,
    });
    printer.print_result(&result, |out| {
        let Some(first) = counting else {
            for line in default.iter().flat_map(written) {
                writeln!(out, "{line}")?;
            }
            let words = match default {
                Some(_) => format!("default: {} is not set", path.join(".")),
                None => format!("{} is not set", path.join(".")),
            };
            writeln!(out, "{}", styled(FAINT, words))?;
            return said.iter().try_for_each(|said| print_overruled(out, said));
        };
        for line in written(&first.value) {
            writeln!(out, "{line}")?;
        }
        let from = format!("{}: {}", first.owner.as_str(), visible(&first.place));
        writeln!(out, "{}", styled(FAINT, from))?;
        let mut others = said.iter().filter(|other| !std::ptr::eq(*other, first));
        others.try_for_each(|other| print_overruled(out, other))
    })?;
    Ok(ExitReason::Done)
}

/// An overridden layer.
fn print_overruled(out: &mut dyn io::Write, said: &LayerValue) -> io::Result<()> {
    let lines = written(&said.value).join(" ");
    let place = visible(&said.place);
    let whose = said.owner.as_str();
    match said.withheld {
        true => {
            let waits = styled(WARN, "waits for `mimir policy accept`:");
            writeln!(out, "{waits} {lines} ({whose}: {place})")
        }
        false => writeln!(
            out,
            "{} {lines} ({whose}: {place})",
            styled(FAINT, "beside it:")
        ),
    }
}

fn layer(said: &LayerValue) -> Value {
    json!({
        "layer": said.owner.as_str(),
        "place": said.place,
        "value": plain(&said.value),
        "withheld": said.withheld,
    })
}

fn plain(value: &serde_yaml::Value) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Formats a value as YAML lines without terminal control characters.
fn written<T: serde::Serialize>(value: &T) -> Vec<String> {
    let text = serde_yaml::to_string(value).unwrap_or_default();
    text.trim_end().lines().map(visible).collect()
}

/// Sets a key, or removes it.
pub fn set(globals: &GlobalOptions, key: &str, value: Option<&str>, user: bool) -> CommandResult {
    let printer = globals.printer();
    let path = ConfigSchema::default().path(key).map_err(usage)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let whose = if user {
        ConfigOwner::User
    } else {
        ConfigOwner::Project
    };
    let edit = match value {
        Some(text) => ConfigEdit::Set(path.clone(), read(text)?),
        None => {
            let said = setup.settings.layer_values(&path);
            if !said.iter().any(|said| said.owner == whose) {
                let message = format!("{} is not set there", path.join("."));
                return Err(usage(ToolError::not_found(message)));
            }
            ConfigEdit::Remove(path.clone())
        }
    };
    let file = settings::retry_change(&setup, whose, |_| Ok(vec![edit.clone()]))?;
    let result = json!({ "ok": true, "key": path.join("."), "file": file });
    printer.print_result(&result, |out| {
        let done = if value.is_some() {
            "set in"
        } else {
            "removed from"
        };
        writeln!(
            out,
            "{} {} {done} {file}",
            styled(GOOD, "✓"),
            path.join(".")
        )
    })?;
    overruled(&setup, &path, whose)?;
    Ok(ExitReason::Done)
}

/// Warns of layers that override the new value.
fn overruled(setup: &HostSetup, path: &[String], whose: ConfigOwner) -> CommandResult<()> {
    let settings = settings::MergedSettings::read(&setup.user_dirs, &setup.workspace)?;
    let said = settings.layer_values(path);
    let above = said.iter().take_while(|said| said.owner != whose);
    for said in above {
        crate::output::note(format_args!(
            "{} has another value and overrides it ({})",
            visible(&said.place),
            said.owner.as_str()
        ));
    }
    Ok(())
}

fn read(text: &str) -> CommandResult<Value> {
    let value: Result<Value, _> = serde_yaml::from_str(text);
    value.map_err(|error| {
        let message = format!("the value is not valid YAML: {error}");
        usage(ToolError::invalid_input(visible(&message)))
    })
}

fn usage(error: ToolError) -> CommandFailure {
    CommandFailure::with_exit(error, ExitReason::Usage)
}
